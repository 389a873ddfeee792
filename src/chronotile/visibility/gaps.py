"""Stretches of time at which an array can no longer be read whole.

In: the rules of one history. Out: `Gap`s. No file, no clock.

A fragment that was merged from others over T, in an array without a time for each cell, is not
visible at T; if what it was merged from is gone too, its cells of up to T cannot be read at T.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.format.names import parse_name
from chronotile.visibility.rules import has_cell_times_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.visibility.rules import Rules


class Gap(NamedTuple):
    """A stretch of time at which an array cannot be read whole."""

    t1: int
    t2: int
    """The last moment of it."""
    fragment: str
    """What was merged over it."""


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
        if parts.get(text) and parts[text] <= there:
            continue
        yield Gap(name.t1, name.t2 - 1, text)
