"""What a repair does about fragments that the engine cannot read.

In: a history, its rules, and the health of each fragment. Out: additions to a `Mending`: commits
that go out of the array, commits that take their place, and notes on the rows that come back and
the rows that stay away. Touches nothing.

The plan that loses least comes first:

  1. The name in the commit is damaged, and the fragment that it means is whole and has no commit:
     that fragment is committed.
  2. The sources of the fragment (what it was made from) are all there: its commit goes out, and so
     does its `.vac`, which hides the sources; a source without a commit gets one. All rows come
     back.
  3. Only some of its sources are there, or none: those come back, and the rest stays away.

A fragment that has its footer can still be read in part. It goes out only if all of its sources
come back, or if the caller accepts the loss.

If the caller asks, whole fragments that no commit names are committed: the file that named them may
have been lost. Those stay as they are of which something says that they are not wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.findings import count_text, finding
from chronotile.check.fragment_health import health_by_name
from chronotile.format.commit_files import is_commit_line, read_vac_line, write_uri
from chronotile.format.names import MAX_TIMESTAMP, is_name, is_newer, parse_name
from chronotile.history.missing_fragments import is_near
from chronotile.visibility.rules import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.change.mending import Mending
    from chronotile.check.fragment_health import Health
    from chronotile.visibility.rules import Rules


class FragmentMender:
    """Decides what to do about the fragments that cannot be read."""

    def __init__(
        self, rules: Rules, health: Mapping[str, Health], mending: Mending, *, accept_loss: bool
    ) -> None:
        self.history, self.rules, self.health = rules.history, rules, health
        self.mending, self.accept_loss = mending, accept_loss
        table = self.history.table
        self.committed = {table.name(row) for row in rules.fragments.tolist()}
        self.uncommitted = tuple(name for name in rules.uncommitted if is_name(name))

    def mend_all(self) -> None:
        """Decides on every fragment, and adds the steps to the mending."""
        hidden = self.rules.superseded(0, MAX_TIMESTAMP)
        for at, row in enumerate(self.rules.fragments.tolist()):
            self.mend(row, missing=bool(self.rules.missing[at]), hidden=bool(hidden[at]))

    def mend(self, row: int, *, missing: bool, hidden: bool) -> None:
        """Decides on one fragment."""
        table = self.history.table
        uri, path, name = table.uri(row), table.fragment_path(row), table.name(row)
        health = self.health.get(path)
        if not is_commit_line(uri) or is_newer(uri):
            return
        if not missing and (health is None or not health.is_broken):
            return
        # Without a footer, the engine opens no window that sees the fragment.
        closed = missing or health is None or health.closed
        if hidden and not closed:
            return
        why = "is gone" if missing or health is None else health.problem
        reason = f"commit-without-fragment: {path}: {why}"
        if missing and self._renamed(name, row, reason, hidden=hidden):
            return
        if hidden:
            # Its own `.vac` still hides its sources: a later fragment holds all of it.
            self._take_out(row, reason)
            self.mending.notes.append(f"{path}: {why}, but a later fragment holds its rows")
            return
        there, gone = self._sources(name)
        if not (closed or (there and not gone) or self.accept_loss):
            self._leave(health)
            return
        self._take_out(row, reason)
        self._bring_back(name, path, there, gone)

    def _take_out(self, row: int, reason: str) -> None:
        table = self.history.table
        if table.implied[row]:
            self.mending.moves[table.path(row)] = reason
        else:
            self.mending.commits[table.uri(row)] = reason

    def _renamed(self, name: str, row: int, reason: str, *, hidden: bool) -> bool:
        """Commits the fragment that a damaged name means, if there is no doubt which it is.

        A fragment that a `.vac` hides stays as it is: no `.vac` would hide it under its other name.
        """
        near = [n for n in self.uncommitted if is_near(name, n) and self._is_whole(n)]
        if len(near) != 1:
            return False
        if hidden:
            return True
        if parse_name(near[0])[:2] != parse_name(name)[:2]:
            # Nobody knows which of the two times is right.
            self.mending.notes.append(f"{near[0]} may be {name}, its name damaged: it stays")
            return False
        self._take_out(row, reason)
        self.mending.put(write_uri(near[0]), b"", f"for {name}, of which the name is damaged")
        self.mending.notes.append(f"{name} is {near[0]}, its name damaged: its rows are back")
        return True

    def _sources(self, name: str) -> tuple[list[str], list[str]]:
        """The sources of a fragment: those that are there and not broken, and the others."""
        there: list[str] = []
        gone: list[str] = []
        for vacuum in self.history.vacuums:
            if vacuum.name.text == name:
                for line in vacuum.lines:
                    source = read_vac_line(line).name
                    if source is not None:
                        (there if is_usable(self.health, source) else gone).append(source)
        return there, gone

    def _bring_back(self, name: str, path: str, there: list[str], gone: list[str]) -> None:
        """Makes the sources of a fragment visible again, and notes what stays away."""
        for vacuum in self.history.vacuums:
            if vacuum.name.text == name and there:
                self.mending.moves[vacuum.path] = f"it hides what {name} was made from"
        for source in there:
            if source not in self.committed:
                self.mending.put(write_uri(source), b"", f"{name} was made from it")
        span = parse_name(name)
        times = f"of {span.t1}" if span.t1 == span.t2 else f"of {span.t1} to {span.t2}"
        if there and not gone:
            count = count_text(len(there), "fragment")
            note = f"the rows of {path} are back: {count} that it was made from"
        elif there:
            back, away = ", ".join(there), ", ".join(gone)
            note = f"of the rows of {path} those of {back} are back; those of {away} stay away"
        else:
            note = f"the rows of {path}, {times}, stay away: no copy is there"
        self.mending.notes.append(note)

    def _leave(self, health: Health | None) -> None:
        assert health is not None  # the commit of a missing fragment goes out
        message = f"{health.problem}: the rest of it can still be read, so it stays"
        hint = "chronotile repair {array} --accept-loss takes the fragment out"
        array, code = self.history.array, health.code
        self.mending.left.append(finding(array, code, health.file, message, hint=hint))

    def _is_whole(self, name: str) -> bool:
        health = health_by_name(self.health, name)
        return health is not None and health.is_whole


def is_usable(health: Mapping[str, Health], name: str) -> bool:
    """Whether a fragment is there, and not known to be broken."""
    known = health_by_name(health, name)
    return known is not None and not known.is_broken and not is_newer(name)


class LostCommits(NamedTuple):
    """Whole fragments that no commit names."""

    again: dict[str, str]
    """Folder -> name, of those to commit again."""
    notes: tuple[str, ...]
    """What nobody can know of them, and why others stay as they are."""


def find_lost_commits(
    rules: Rules, health: Mapping[str, Health], copies: Mapping[str, str]
) -> LostCommits:
    """The fragments whose commits may have been lost.

    Args:
        rules: The rules of the array's history.
        health: The health of each fragment, by its folder.
        copies: Folders that a change copies, or did when it was broken off, with its record.
    """
    history, there = rules.history, rules.history.listing.fragment_paths()
    going: dict[str, str] = {}
    for vacuum in history.vacuums:
        listed = [name for line in vacuum.lines if (name := read_vac_line(line).name) is not None]
        if any(name not in there for name in listed):
            going |= dict.fromkeys(listed, vacuum.path)
    again: dict[str, str] = {}
    notes: list[str] = []
    for name, path in rules.uncommitted.items():
        if not is_name(name):
            continue
        if (ignore := history.table.ignores.get(write_uri(name))) is not None:
            notes.append(f"{path} stays without a commit: {ignore} says that it was removed")
        elif name in going:
            notes.append(
                f"{path} stays without a commit: a vacuum removes what {going[name]} lists"
            )
        elif path in copies:
            notes.append(f"{path} stays without a commit: it is a copy of {copies[path]}")
        elif path not in health or not health[path].is_whole:
            why = health[path].problem if path in health else "it is gone"
            notes.append(f"{path} stays without a commit: {why}")
        else:
            again[path] = name
    if again:
        sizes = (health[path].measured for path in again)
        cells = count_text(sum(size.cells for size in sizes if size is not None), "cell")
        what = f"{count_text(len(again), 'whole fragment')} ({cells}) without a commit"
        doubt = "unfinished writes and removed ones look the same, so look at the rows afterwards"
        deletes = (
            "deletes and updates that stood only in a lost .con stay lost: their rows are back"
        )
        notes[:0] = [f"{what}: {doubt}", deletes, *_merges(rules, again)]
    return LostCommits(again, tuple(notes))


def _merges(rules: Rules, again: Mapping[str, str]) -> Iterator[str]:
    """The notes on fragments that may have been merged from others that are there too."""
    table, vacuums = rules.history.table, {one.name.text for one in rules.history.vacuums}
    known = [table.name(row) for row in rules.fragments.tolist()]
    names = [parse_name(text) for text in (*known, *again.values()) if is_name(text)]
    for path, text in again.items():
        own = parse_name(text)
        inside = sum(is_inside(one.t1, one.t2, own.t1, own.t2) for one in names) - 1
        if own.t1 < own.t2 and inside and text not in vacuums:
            others = count_text(inside, "other fragment")
            yield (
                f"{path} spans the times of {others}, and has no .vac: if it was merged from them, "
                f"an array that allows duplicates shows their rows twice"
            )
