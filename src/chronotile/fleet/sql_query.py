"""SQL over the tables of a fleet, with DuckDB.

In: a query, roots of arrays, perhaps one array whose rows are a table too. Out: the answer as an
Arrow table. Makes only the tables that the query names. Needs the extra `sql`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError, did_you_mean
from chronotile.fleet.array_tables import SCHEMAS
from chronotile.fleet.delta_store import renamed
from chronotile.fleet.fleet_without_spark import make_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

ASKED = (*SCHEMAS, "usage")
"""The tables that a query can name."""
ROWS = "rows"
"""The table of the rows of one array."""
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")


class QueryError(ChronotileError, ValueError):
    """A query that DuckDB does not take."""

    exit_code = 2


def query_fleet(
    query: str,
    roots: Sequence[str],
    *,
    rows: Callable[[], pa.Table] | None = None,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[], None] = lambda: None,
) -> pa.Table:
    """Answer a query over the tables of every array at or below some roots.

    The column of the array is `uri`, as in the tables of the pipeline. `rows` reads the rows of one
    array, for the table of that name; the other arguments are as of `make_tables`.

    Raises:
        ModuleNotFoundError: DuckDB is not installed.
        QueryError: DuckDB does not take the query.
    """
    import duckdb

    words = set(re.findall(r"[a-z_]+", query.lower()))
    names = [name for name in ASKED if name in words]
    tables: dict[str, Any] = {}
    if names:
        tables |= make_tables(
            roots, names=names, key=key, storage_options=storage_options, on_array=on_array
        ).tables
    if rows is not None and ROWS in words:
        tables[ROWS] = rows()
    # No name of a variable here is a table, and nothing is downloaded.
    settings = {"python_enable_replacements": "false", "autoinstall_known_extensions": "false"}
    with duckdb.connect(config=settings) as base:
        for name, table in tables.items():
            base.register(name, table if name == ROWS else renamed(table))
        try:
            return base.sql(query).to_arrow_table()
        except duckdb.Error as cause:
            hint = "; the column of arrays is called uri: array is a word of SQL"
            problem = _problem(str(cause), [*ASKED, ROWS])
            raise QueryError("sql", f"{problem}{hint if 'array' in words else ''}") from None


def _problem(message: str, known: Sequence[str]) -> str:
    r"""Say in one line what DuckDB found.

    >>> _problem("Catalog Error: Table with name comits does not exist!\nDid …", ["commits"])
    "there is no table 'comits'; did you mean commits?"
    """
    missing = _NO_TABLE.search(message)
    if missing is None:
        first = message.partition("\n\n")[0].replace("\n", " ")
        return f"DuckDB refuses the query: {first}"
    there = f"; there are {', '.join(ASKED)}; and {ROWS}, if ROOT is one array or group"
    hint = did_you_mean(missing[1], known) or there
    return f"there is no table {missing[1]!r}{hint}"
