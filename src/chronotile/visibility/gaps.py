"""Stretches of time at which an array can no longer be read whole.

In: the rules of one history. Out: `Gap`s. No file, no clock.

A fragment that was merged from others over T, in an array without a time for each cell, is not
visible at T; if what it was merged from is gone too, its cells of up to T cannot be read at T.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.format.names import parse_name, try_parse
from chronotile.visibility.rules import has_cell_times_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.history.read_history import History
    from chronotile.visibility.rules import Rules


class Gap(NamedTuple):
    """A stretch of time at which an array cannot be read whole."""

    t1: int
    t2: int
    """The last moment of it."""
    fragment: str
    """What was merged over it."""
    is_purge: bool = False
    """Whether the merge dropped what a delete had removed: if the delete removed nothing there, all
    is whole, but nobody can tell."""


def gaps_of(rules: Rules) -> Iterator[Gap]:
    """The stretches at which cells of an array that were visible then no longer are."""
    history, rows = rules.history, rules.fragments
    table = history.table
    there = {table.name(row) for row in rows[~rules.missing].tolist()}
    parts = {vacuum.name.text: set(vacuum.targets) for vacuum in history.vacuums}
    merged = rows[table.uris.t1[rows] < table.uris.t2[rows]]
    for row in merged.tolist():
        text = table.name(row)
        name = parse_name(text)
        if has_cell_times_by_name(name, dense=history.dense):
            continue
        gone = [parse_name(part).t1 for part in parts.get(text, ()) if part not in there]
        # Before the first part that is gone all can be read; without its `.vac` none is known.
        first = min(gone, default=name.t2) if parts.get(text) else name.t1
        if first < name.t2:
            yield Gap(first, name.t2 - 1, text)


def metadata_merged_over(history: History, moment: int) -> str | None:
    """A metadata file that was merged over a moment, if what it was merged from is gone."""
    there = set(history.listing.meta)
    sources = {vacuum.name.text: vacuum.targets for vacuum in history.meta_vacuums}
    for text in history.listing.meta:
        name = try_parse(text)
        if name is not None and name.t1 <= moment < name.t2:
            listed = sources.get(text)
            if listed is None or any(one not in there for one in listed):
                return text
    return None
