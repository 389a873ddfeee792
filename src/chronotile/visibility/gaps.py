"""Times at which an array can no longer be read whole.

In: the rules of one history, and maybe a window. Out: `Gap`s; the nearest windows that can be read;
or a refusal. No file, no clock.

A fragment without a time for each cell that was merged from writes before and after T is not
visible at T. If a vacuum has removed these writes, their cells of up to T cannot be read at T. The
same holds for every window that overlaps such a fragment and does not contain it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.format.names import parse_name, try_parse
from chronotile.format.timestamps import time_text
from chronotile.visibility.rules import is_inside, overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from chronotile.format.names import Name
    from chronotile.history.read_history import History
    from chronotile.visibility.rules import Rules


class TimeGoneError(ChronotileError):
    """A window that can no longer be read whole."""

    def __init__(self, where: str, problem: str, hint: str | None = None) -> None:
        super().__init__(where, problem)
        self.args = (where, problem, hint)  # what a pickle makes the error from
        self.hint = hint


class Gap(NamedTuple):
    """A stretch of time at which an array cannot be read whole."""

    t1: int
    t2: int
    """The last moment of it."""
    fragment: str
    """The fragment that merged the writes."""
    is_purge: bool = False
    """True if the merge dropped the cells that a delete had removed. If there were none, all is
    whole, but nobody can know."""

    def words(self) -> str:
        """Explain why it cannot be read.

        >>> Gap(10, 29, "__10_30_00112233445566778899aabbccddeeff_22").words()
        '__10_30_00112233445566778899aabbccddeeff_22 merged the writes from 10 to 30, and a vacuum \
removed them'
        """
        name = parse_name(self.fragment)
        return (
            f"{self.fragment} merged the writes from {name.t1} to {name.t2}, "
            "and a vacuum removed them"
        )


class _LossyMerge(NamedTuple):
    """A fragment without cell times that was merged from others, some of which are gone."""

    name: Name
    gone: tuple[tuple[int, int], ...]
    """Their times; its own if its `.vac` is gone, so that none of them is known."""


def gaps_of(rules: Rules) -> Iterator[Gap]:
    """List the ends of windows from 0 on that no longer see all cells that they saw."""
    for name, gone in _merges(rules):
        # Before the first part that is gone all can be read.
        first = min(t1 for t1, _ in gone)
        if first < name.t2:
            yield Gap(first, name.t2 - 1, name.text)


def gap_in(rules: Rules, start: int, end: int) -> Gap | None:
    """Find a gap that keeps an open at a window from seeing all that was written in it."""
    return _gap(_merges(rules), start, end)


def refuse_gone(rules: Rules, start: int, end: int, command: Callable[[int, int], str]) -> None:
    """Refuse a window that can no longer be read whole.

    `command` gives the command that reads another window.

    Raises:
        TimeGoneError: It cannot; its hint is the command for the nearest window that can.
    """
    gap = gap_in(rules, start, end)
    if gap is not None:
        begin = f"from {start} " if start else ""
        asked = f"expected all that was written {begin}up to {end} ({time_text(end)})"
        ways = [command(*window) for window in nearest_windows(rules, start, end)]
        problem = f"{asked}, found some of it gone: {gap.words()}; nearest: {', or '.join(ways)}"
        raise TimeGoneError(rules.history.array, problem, ways[0])


def nearest_windows(rules: Rules, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Find the nearest windows that can be read whole: a larger one, and one that ends earlier."""
    merges = _merges(rules)
    first, last = start, end
    while (gap := _gap(merges, first, last)) is not None:
        name = parse_name(gap.fragment)
        first, last = min(first, name.t1), max(last, name.t2)
    yield first, last
    last = end
    while last >= start and (gap := _gap(merges, start, last)) is not None:
        last = gap.t1 - 1
    if last >= start and len(rules.visible(start, last)[0]):
        yield start, last


def _gap(merges: Iterable[_LossyMerge], start: int, end: int) -> Gap | None:
    for name, gone in merges:
        lost = [t1 for t1, t2 in gone if overlaps(t1, t2, start, end)]
        if lost and not is_inside(name.t1, name.t2, start, end):
            return Gap(min(lost), name.t2 - 1, name.text)
    return None


def _merges(rules: Rules) -> list[_LossyMerge]:
    history, rows = rules.history, rules.fragment_rows
    table, uris = history.table, history.table.uris
    merged = rows[(uris.t1[rows] < uris.t2[rows]) & ~rules.has_cell_times].tolist()
    if not merged:
        return []
    there = {table.name(row) for row in rows[~rules.missing].tolist()}
    parts = {vacuum.name.text: vacuum.targets for vacuum in history.vacuums}
    lossy = []
    for name in map(parse_name, map(table.name, merged)):
        listed = parts.get(name.text)
        gone = [part for part in listed if part not in there] if listed else [name.text]
        times = tuple(known[:2] for part in gone if (known := try_parse(part)) is not None)
        lossy += [_LossyMerge(name, times)] if times else []
    return lossy


def window_command(name: str, array: str, start: int, end: int) -> str:
    """Give the call of a command at a window.

    >>> window_command("rows", "my array", 0, 30)
    "chronotile rows 'my array' --end 30"
    """
    begin = f" --start {start}" if start else ""
    return f"chronotile {name} {shlex.quote(array)}{begin} --end {end}"


def metadata_merged_over(history: History, moment: int) -> str | None:
    """Find a metadata file that was merged over a moment from files that are gone."""
    there = set(history.listing.meta)
    sources = {vacuum.name.text: vacuum.targets for vacuum in history.meta_vacuums}
    for text in history.listing.meta:
        name = try_parse(text)
        if name is not None and name.t1 <= moment < name.t2:
            listed = sources.get(text)
            if listed is None or any(one not in there for one in listed):
                return text
    return None
