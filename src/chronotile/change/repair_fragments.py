"""What to do about fragments that the engine cannot read.

In: a history, its rules, and what is known of each fragment. Out: `FragmentMending`: commits that
go out of the array, commits that take their place, and in words which rows come back and which stay
away. Touches nothing.

The plan that loses least comes first:

  1. The name in the commit is damaged, and the fragment that it means lies there whole, without a
     commit: that one is committed.
  2. What the fragment was made from is still there: its commit goes out, and so does its `.vac`,
     which hides its sources; a source without a commit gets one. All rows are back.
  3. Only some of its sources are there, or none: they come back, and the rest stays away.

A fragment that has its footer can still be read in part. It is touched if all of its
sources come back, or if the caller accepts the loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chronotile.check.findings import Finding, finding
from chronotile.check.fragment_health import health_by_name
from chronotile.format.commit_files import is_commit_line, read_vac_line
from chronotile.format.kinds import COMMITS
from chronotile.format.names import MAX_TIMESTAMP, is_name, parse_name
from chronotile.history.missing_fragments import is_near

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.history.reading import History
    from chronotile.visibility.rules import Rules


@dataclass(slots=True)
class FragmentMending:
    """What is to be done about fragments, gathered one by one."""

    commits: dict[str, str] = field(default_factory=dict)
    """URIs of commits that go out, and why."""
    moves: dict[str, str] = field(default_factory=dict)
    """Paths of other files that go out, and why."""
    puts: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """Path -> content and reason of new files."""
    notes: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)


def mend_fragments(
    history: History, rules: Rules, health: Mapping[str, Health], *, accept_loss: bool
) -> FragmentMending:
    """Works out what to do about the fragments that cannot be read.

    Args:
        history: What was read of the array.
        rules: The rules applied to it.
        health: What is known of each fragment that is there, by its folder.
        accept_loss: Take out fragments too that can still be read in part.
    """
    mender = _Mender(history, rules, health, accept_loss=accept_loss)
    hidden = rules.superseded(0, MAX_TIMESTAMP)
    for at, row in enumerate(rules.fragments.tolist()):
        mender.mend(row, missing=bool(rules.missing[at]), hidden=bool(hidden[at]))
    return mender.found


def write_uri(name: str) -> str:
    """The URI of the commit that a fragment of that name needs.

    >>> write_uri("__1_1_00112233445566778899aabbccddeeff_22")
    '__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt'
    """
    version = parse_name(name).version
    return f"{COMMITS}/{name}.wrt" if version is not None and version >= 12 else f"{name}.ok"


class _Mender:
    def __init__(
        self, history: History, rules: Rules, health: Mapping[str, Health], *, accept_loss: bool
    ) -> None:
        self.history, self.rules, self.health = history, rules, health
        self.accept_loss = accept_loss
        self.found = FragmentMending()
        table = history.table
        self.counting = {table.name(row) for row in rules.fragments.tolist()}
        self.free = tuple(name for name in rules.uncommitted() if is_name(name))

    def mend(self, row: int, *, missing: bool, hidden: bool) -> None:
        """Decides on one fragment."""
        table = self.history.table
        uri, path, name = table.uri(row), table.fragment_path(row), table.name(row)
        health = self.health.get(path)
        if not is_commit_line(uri) or (not missing and (health is None or not health.is_broken)):
            return
        # Without a footer the engine opens no window that sees the fragment.
        closed = missing or health is None or health.closed
        if hidden and not closed:
            return
        why = "is gone" if missing or health is None else health.problem
        reason = f"commit-without-fragment: {path}: {why}"
        if missing and self._renamed(name, row, reason, hidden=hidden):
            return
        if hidden:
            # Its own `.vac` still hides what it was made from: a later fragment holds all of it.
            self._take_out(row, reason)
            self.found.notes.append(f"{path}: {why}, but a later fragment holds its rows")
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
            self.found.moves[table.path(row)] = reason
        else:
            self.found.commits[table.uri(row)] = reason

    def _renamed(self, name: str, row: int, reason: str, *, hidden: bool) -> bool:
        """Commit the fragment that a damaged name means, if there is no doubt which it is.

        One that a `.vac` hides is left as it is: no `.vac` would hide it under its other name.
        """
        near = [other for other in self.free if is_near(name, other) and self._is_whole(other)]
        if len(near) != 1:
            return False
        if hidden:
            return True
        if parse_name(near[0])[:2] != parse_name(name)[:2]:
            # Which of the two times is the right one, nobody knows.
            self.found.notes.append(f"{near[0]} may be {name}, its name damaged: it stays")
            return False
        self._take_out(row, reason)
        self.found.puts[write_uri(near[0])] = (b"", f"for {name}, of which the name is damaged")
        self.found.notes.append(f"{name} is {near[0]}, its name damaged: its rows are back")
        return True

    def _sources(self, name: str) -> tuple[list[str], list[str]]:
        """What a fragment was made from: what is there and not broken, and what is not."""
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
        """Let the sources of a fragment be seen again, and say what stays away."""
        for vacuum in self.history.vacuums:
            if vacuum.name.text == name and there:
                self.found.moves[vacuum.path] = f"it hides what {name} was made from"
        for source in there:
            if source not in self.counting:
                self.found.puts[write_uri(source)] = (b"", f"{name} was made from it")
        span = parse_name(name)
        times = f"of {span.t1}" if span.t1 == span.t2 else f"of {span.t1} to {span.t2}"
        if there and not gone:
            count = "1 fragment" if len(there) == 1 else f"{len(there)} fragments"
            self.found.notes.append(f"the rows of {path} are back: {count} that it was made from")
        elif there:
            self.found.notes.append(
                f"of the rows of {path} those of {', '.join(there)} are back; those of "
                f"{', '.join(gone)} stay away"
            )
        else:
            self.found.notes.append(f"the rows of {path}, {times}, stay away: no copy is there")

    def _leave(self, health: Health | None) -> None:
        assert health is not None  # one that is gone is taken out
        message = f"{health.problem}: the rest of it can still be read, so it stays"
        hint = "chronotile repair {array} --accept-loss takes the fragment out"
        array, code = self.history.array, health.code
        self.found.left.append(finding(array, code, health.file, message, hint=hint))

    def _is_whole(self, name: str) -> bool:
        health = health_by_name(self.health, name)
        return health is not None and health.is_whole


def is_usable(health: Mapping[str, Health], name: str) -> bool:
    """Whether a fragment is there and nothing is known to be wrong with it."""
    known = health_by_name(health, name)
    return known is not None and not known.is_broken
