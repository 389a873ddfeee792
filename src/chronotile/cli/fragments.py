"""`chronotile fragments`: what each fragment holds.

In: an array. Out: a table of its fragments: when, cells, bytes, domain, tiles, where the facts are
from. The facts are `log.fragments()`'s.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.group_each import MembersReport, each_array
from chronotile.cli.options import access_options, array_argument, command, member_option, reporting
from chronotile.format.names import is_newer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from rich.console import RenderableType

    from chronotile.array import Array
    from chronotile.cli.options import Access

SHOWN = 1000
"""Rows of the table that people see; --json has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentsReport:
    """The fragments of an array."""

    array: str
    facts: pa.Table
    whole_names: bool
    lacks_key: bool = False
    """Whether the array is encrypted, and no key was given."""

    def to_json(self) -> list[dict[str, Any]]:
        """One object a fragment, with the columns of `log.fragments()`."""
        rows: list[dict[str, Any]] = self.facts.to_pylist()
        return rows

    def to_text(self) -> Iterator[RenderableType]:
        """A line on the array, then a table."""
        from chronotile.show.explain_words import NO_KEY
        from chronotile.show.output import Text, count_text, place_text, plain_table, size_text

        rows = self.facts.slice(0, SHOWN).to_pylist()
        cells, size = (sum(self.facts[name].drop_null().to_pylist()) for name in ("cells", "bytes"))
        words = f": {count_text(self.facts.num_rows, 'fragment')}"
        words += f", {count_text(cells, 'cell')}, {size_text(size)}"
        yield Text(f"{place_text(self.array)}{words}", "bold")
        if not rows:
            return
        headers = ("cells", "bytes", "tiles", "fragment", "domain", "metadata", "notes")
        table = plain_table(*headers, right=3)
        table.columns[3].no_wrap = True
        for row in rows:
            table.add_row(*self._cells(row))
        yield table
        if self.facts.num_rows > SHOWN:
            yield f"and {self.facts.num_rows - SHOWN:,} more (--json)"
        unknown = self.facts["metadata"].null_count
        if unknown:
            why = f". {NO_KEY}" if self.lacks_key else ""
            yield f"{count_text(unknown, 'fragment')} without metadata that could be read{why}"

    def _cells(self, row: dict[str, Any]) -> tuple[str, ...]:
        from chronotile.show.output import size_text

        name = row["name"] if self.whole_names else short_name(row["name"])
        if row["metadata"] is None:
            return ("", "", "", name, "", "", "unknown version" if is_newer(row["name"]) else "")
        notes = [word for word, is_so in _flags(row) if is_so]
        numbers = (f"{row['cells']:,}", size_text(row["bytes"]), f"{row['tiles']:,}")
        return (*numbers, name, domain_words(row["domain"]), row["metadata"], ", ".join(notes))


def _flags(row: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    applied = len(row["applied_deletes"] or ())
    yield "dense", row["dense"]
    yield "a time for each cell", row["has_timestamps"]
    yield "delete marks", row["has_delete_metadata"]
    yield f"{applied} delete{'' if applied == 1 else 's'} applied", applied > 0


def short_name(name: str) -> str:
    """A fragment's name with only the start of its uuid.

    >>> short_name("__1_2_00112233445566778899aabbccddeeff_22")
    '__1_2_00112233…_22'
    """
    parts = name.split("_")
    return "_".join(f"{part[:8]}…" if len(part) == 32 else part for part in parts)


def domain_words(domain: str | None) -> str:
    """A domain for people.

    >>> domain_words('[[1, 25], ["a", "b"]]')
    '1 to 25, a to b'
    """
    ranges = json.loads(domain) if domain else []
    return ", ".join(f"{low} to {high}" for low, high in ranges)


@command(epilog="\b\nExample:\n  chronotile fragments demo/array")
@array_argument
@click.option("--names", "whole_names", is_flag=True, help="Whole names, not shortened ones.")
@member_option
@access_options
@reporting
def fragments(
    array: str, whole_names: bool, member: dict[str, str], access: Access
) -> FragmentsReport | MembersReport:
    """What each fragment of ARRAY holds: cells, bytes, tiles, domain.

    Reads each fragment's footer, or one .meta file that holds the footers of many. The column
    metadata says which: own, or consolidated.
    """
    report = partial(_fragments, access, whole_names)
    return each_array(access.open(array), report, **member)  # type: ignore[no-any-return]


def _fragments(access: Access, whole_names: bool, array: Array) -> FragmentsReport:
    """Report on one array."""
    from chronotile.history.fragment_facts import named_fragments, read_facts
    from chronotile.show.explain_words import lacks_key
    from chronotile.show.output import progress

    log = access.log_of(array)
    with progress("reading footers", len(named_fragments(log.history).name)) as step:
        facts = read_facts(log.storage, log.history, on_fragment=step)
    closed = lacks_key(log.history)
    return FragmentsReport(array=log.array, facts=facts, whole_names=whole_names, lacks_key=closed)
