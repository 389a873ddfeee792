"""The check of a large array, part by part.

In: the frame of an array, and the rules of one part after the other (see `history.array_parts`).
Out: what `check` would say of the whole array's log, capped. Reads nothing: who calls it does.

Most findings tell of one commit or fragment, and a part is enough to see it. Others tell of a whole
file, or count: of these each part adds what it knows, and the sums are told at the end. Only one
thing is seen less well: a folder whose damaged name has another time is not offered as the fragment
that a commit has lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.check.capped_findings import MOST, CappedFindings
from chronotile.check.check_array import differing
from chronotile.check.commit_files import (
    ConRange,
    damage,
    name_ranges,
    records_with_tiles,
    unneeded,
)
from chronotile.check.conditions import conditions
from chronotile.check.debt import array_metadata_debt
from chronotile.check.fragments import (
    FutureCommits,
    LooseCommits,
    count_loose,
    count_missing,
    future,
    future_commits,
    many_loose,
    misnamed,
    missing,
    same_times,
    uncommitted,
)
from chronotile.check.late_writes import (
    deletes_of_everything,
    hidden_writes,
    told_apart,
    writes_in_no_con,
)
from chronotile.check.undone_restores import restores_undone
from chronotile.format.names import is_name
from chronotile.history.con_coverage import ConsInParts, coverage
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.format.names import Name
    from chronotile.history.array_parts import LogFile
    from chronotile.history.read_history import History

_LOST = "commit-without-fragment"


class LargeCheck:
    """A check that is under way."""

    def __init__(self, frame: History, files: Iterable[LogFile], most: int = MOST) -> None:
        self._frame = frame
        self._files = tuple(file for file in files if file.path.endswith(".con"))
        self._capped = CappedFindings(frame.array, most)
        self._future = FutureCommits()
        self._loose = LooseCommits()
        self._cons = ConsInParts()
        self._ignored_in: frozenset[tuple[str, str]] = frozenset()
        self._merged: set[str] = set()
        self._deletes = deletes_of_everything(Rules(frame))
        self._late: list[Name] = []
        self._vacuums = {vacuum.name.text for vacuum in frame.vacuums}
        self._vacuums.update(name for vacuum in frame.vacuums for name in vacuum.targets)

    def add(self, rules: Rules) -> None:
        """Takes the next part, in order of time."""
        history, table = rules.history, rules.history.table
        self._add_missing(rules)
        self._capped.add(uncommitted(rules))
        self._capped.add(same_times(rules))
        self._future |= future_commits(history)
        self._loose |= count_loose(table)
        self._late += writes_in_no_con(rules, self._deletes)
        files = coverage(table)
        self._cons.add(files)
        self._ignored_in |= files.ignored_in()
        self._merged.update(self._vacuums.intersection(history.listing.fragments))

    def _add_missing(self, rules: Rules) -> None:
        counts = count_missing(rules)
        if all(not count or self._capped.is_full(_LOST, one) for one, count in counts.items()):
            # Millions of them need not be put into words.
            for severity, count in counts.items():
                self._capped.count(_LOST, severity, count)
        else:
            self._capped.add(missing(rules))

    def finished(self) -> CappedFindings:
        """What was found in all parts, and in the frame."""
        frame, array = self._frame, self._frame.array
        gone = self._cons.superseded()
        needed = {ignore for con, ignore in self._ignored_in if con not in gone}
        free = [path for path in frame.listing.paths_of(".ign") if path not in needed]
        with_merged = replace(
            frame, listing=replace(frame.listing, fragments=tuple(sorted(self._merged)))
        )
        for some in (
            damage(frame),
            misnamed(with_merged),
            restores_undone(with_merged),
            hidden_writes(array, told_apart(self._deletes, self._late)),
            future(array, self._future),
            many_loose(frame, self._loose),
            conditions(Rules(frame)),
            differing(frame),
            name_ranges(array, map(_range_of, filter(_is_named, self._files))),
            unneeded(array, gone, free),
            records_with_tiles(frame),
            array_metadata_debt(frame),
        ):
            self._capped.add(some)
        return self._capped


def _is_named(file: LogFile) -> bool:
    return is_name(file.path.rpartition("/")[2].rpartition(".")[0])


def _range_of(file: LogFile) -> ConRange:
    return ConRange(file.path, file.first, file.last, file.has_first, file.has_last)
