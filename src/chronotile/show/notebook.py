"""Answers that show themselves in a notebook: findings, and tables.

In: what a verb found. Out: the same, to be used as before, with a form as HTML for a notebook.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from chronotile.safe_text import html_table
from chronotile.show.output import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from chronotile.check.findings import Finding

_MOST = 100
"""Rows that a notebook shows."""
_MARK = "chronotile.shows"
"""The metadata of a table that holds its noun, and the columns that a notebook shows."""


class Findings(tuple["Finding", ...]):
    """The findings of a check, the worst first: a tuple that a notebook shows as a table.

    >>> Findings(())._repr_html_()
    '<table><caption>Nothing is wrong</caption></table>'
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Show the findings in a notebook."""
        title = count_text(len(self), "finding") if self else "Nothing is wrong"
        rows = ((one.severity, one.code, one.path, one.message, one.hint) for one in self)
        heads = ("severity", "kind", "where", "what", "what to do") if self else ()
        return _shown(title, heads, rows, len(self))


def show_in_notebook(table: pa.Table, noun: str, columns: Sequence[str]) -> pa.Table:
    """Let a notebook show some columns of a table; return the table, marked in its metadata.

    Arrow's tables have no form of their own in a notebook, so IPython has to know ours.
    """
    import pyarrow as pa

    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        formatter = shell.display_formatter.formatters["text/html"]
        known = formatter.type_printers.get(pa.Table)
        if getattr(known, "func", None) is not table_html:
            formatter.for_type(pa.Table, partial(table_html, otherwise=known))
    return table.replace_schema_metadata({_MARK: "\n".join((noun, *columns))})


def table_html(table: pa.Table, otherwise: Callable[[pa.Table], str] | None = None) -> str | None:
    """Write a marked table as HTML; leave any other to the form that it had before.

    >>> import pyarrow as pa
    >>> table = pa.table({"id": ["1f3a"], "put": [["a", "b"]]})
    >>> "1f3a" in table_html(show_in_notebook(table, "operation", ["id"])), table_html(table)
    (True, None)
    """
    mark = (table.schema.metadata or {}).get(_MARK.encode())
    if mark is None:
        return otherwise(table) if otherwise else None
    noun, *columns = mark.decode().split("\n")
    few = table.select(columns).slice(0, _MOST).to_pylist()
    rows = ([("" if cell is None else cell) for cell in row.values()] for row in few)
    return _shown(count_text(len(table), noun), columns, rows, len(table))


def _shown(title: str, heads: Iterable[str], rows: Iterable[Iterable[object]], count: int) -> str:
    """Write the first rows, and how many more there are."""
    more = [(f"and {count - _MOST:,} more",)] if count > _MOST else []
    return html_table(title, heads, (*islice(rows, _MOST), *more))
