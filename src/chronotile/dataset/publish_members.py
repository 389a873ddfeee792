"""Publish into a dataset: what is staged for all members becomes visible at one moment.

In: a dataset, and staging groups whose members have the same names. Out: the members with the
staged fragments. Leaves the staging groups as they are.

No file commits fragments of several arrays. Time does: all fragments get times from one moment on
that is still to come. First every member gets its copies, which no commit names; then, if there is
time enough left, each gets its `.con`. Readers who open all members at one time of theirs, now or
earlier, see nothing of it before the moment, and all of it from then on. A member with more than
one fragment takes a millisecond each. An open at a time that is still to come can see a part of it
while the files are put.

If the copies take longer than planned, nothing is committed. If the commits do, for which there is
a multiple of the usual time, a note says so. If the command is killed between two `.con` files,
`undo` of the group takes back what it put; or the same command does the rest, at the same moment if
that is named, else at one of its own.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.executor import Execution
from chronotile.change.operations import list_operations
from chronotile.change.publish import Load, Wish
from chronotile.change.transition import wait_until
from chronotile.check.findings import RefusedError, count_text
from chronotile.dataset.open_dataset import dataset_at, refuse_pattern
from chronotile.dataset.over_members import OUTSIDE, ArrayOrGroup, planned_as, refusal
from chronotile.errors import ChronotileError, option
from chronotile.format.commit_files import commit_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.change.plan import Plan
    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.dataset.over_members import GroupRecord, MemberOutcome, MemberPlan
    from chronotile.format.timestamps import Moment


class _Pace(NamedTuple):
    """How long steps take at most, in ms, so that a moment can be chosen."""

    least: int
    fragment: int
    mebibyte: int
    commit: int


_PACES = {"quick": _Pace(2_000, 100, 10, 100), "slow": _Pace(5_000, 500, 50, 300)}
"""Many times what a quiet machine needs: too much is a wait, too little a publication that fails.
Links on a disk cost nothing a byte, but staging arrays may lie on another one."""


class Publication(NamedTuple):
    """The plans of a publication, and how to carry them out."""

    dataset: Dataset
    planned: list[MemberPlan]
    moment: int | None
    """The moment from which all of it shows; None if fragments keep their own times."""
    is_chosen: bool
    """True if the moment was chosen here, to lie just far enough ahead."""
    notes: tuple[str, ...]

    def carry_out(
        self, planned: list[MemberPlan], record: GroupRecord
    ) -> tuple[list[MemberOutcome], tuple[str, ...]]:
        """Put what is staged for all members, then commit all of it: all members or none."""
        runs: list[Execution] = []
        try:
            for one in planned:
                if one.make is not None:
                    begun = Execution(
                        one.target.store,
                        one.make(),
                        record.who,
                        exclusive=True,
                        known=one.known,
                    )
                    runs.append(begun)
            late = self._advance(runs)
        except Exception as error:
            for run in runs:
                run.fail(error)
            raise
        ended = zip(planned, runs, strict=True)
        return [replace(one.outcome, report=run.end()) for one, run in ended], late

    def _advance(self, runs: list[Execution]) -> tuple[str, ...]:
        """Put all copies, then all commits, and wait for the moment; note if it was missed."""
        begun, moment = now_ms(), self.moment
        for run in runs:
            run.advance(len(run.plan.stages) - 2)
        is_ahead = moment is not None and (self.is_chosen or begun < moment)
        if moment is not None and is_ahead:
            need = _pace(self.dataset).commit * len(runs)
            if now_ms() + need > moment:
                took = count_text(now_ms() - begun, "millisecond")
                problem = f"the copies took {took}, past the time {moment}"
                hint = "nothing is visible; give a later time, "
                hint += f"{option('at', 'TIME')}, or {option('own_times')}"
                raise RefusedError(self.dataset.uri, f"{problem}; {hint}")
        for run in runs:
            run.look()
        for run in runs:
            run.advance(len(run.plan.stages) - 1)
        done = now_ms()
        for run in runs:
            run.advance()
        if moment is None:
            return ()
        if is_ahead and (over := done - moment) >= 0:
            took = count_text(over, "millisecond")
            return (
                f"the last commit came {took} after the moment: until then members could differ",
            )
        wait_until(max((_last(run.plan) for run in runs if run.plan.added), default=0))
        return ()


def plan_publish_members(
    dataset: Dataset,
    staging: Sequence[str],
    *,
    at: Moment | None = None,
    own_times: bool = False,
    again: bool = False,
    allow_hidden: bool = False,
    outside: bool = False,
    pattern: str | None = None,
) -> Publication:
    """Plan to make what is staged for all members of a dataset visible at one moment.

    Args:
        dataset: The group.
        staging: Groups whose members have the names of those of the dataset.
        at: The moment; one that is just far enough ahead, if it is left out.
        own_times: Let all fragments keep their own times: members follow each other then.
        again: Publish also fragments that are, or were, in their members already.
        allow_hidden: Go on although a later delete of a member hides rows of the fragments.
        outside: Publish also in members that lie outside of the dataset's folder.
        pattern: Only what is staged for members whose path fits, such as `ms/*/X`.

    Raises:
        RefusedError: A member cannot be changed, or the dataset lacks one that is staged.
    """
    if own_times and at is not None:
        raise ChronotileError(dataset.uri, "expected a moment or own times, found both")
    command = f"chronotile publish {' '.join(staging)} {dataset.uri}"
    wish = Wish(command, "", again=again, allow_hidden=allow_hidden)
    known = {node.path: list_operations(node.store) for node in dataset.arrays() if node.store}
    members = list(_staged(dataset, staging, wish, pattern, outside=outside))
    moment = None if own_times else _moment(dataset, members, at)
    plans = [_planned(dataset, node, load, moment) for node, load in members]
    planned = [
        planned_as(
            ArrayOrGroup(node.path, load.store, False, node.is_inside), plan, known[node.path]
        )
        for (node, load), plan in zip(members, plans, strict=True)
    ]
    return Publication(dataset, planned, moment, at is None, _notes(moment, plans))


def _staged(
    dataset: Dataset, places: Sequence[str], wish: Wish, pattern: str | None, *, outside: bool
) -> Iterator[tuple[Node, Load]]:
    """Find the members for which something is staged.

    Raises:
        RefusedError: One is staged that the dataset lacks, or that lies outside of its folder.
    """
    wanted: dict[str, list[Node]] = {}
    paths: list[str] = []
    for place in places:
        options = dict(dataset.store.options)
        for found in dataset_at(open_store(place, options), dataset.key).arrays():
            if pattern is None or fnmatchcase(found.path, pattern):
                wanted.setdefault(found.path, []).append(found)
            paths.append(found.path)
    if pattern is not None and not wanted:
        refuse_pattern(dataset.uri, pattern, paths)
    here = {node.path: node for node in dataset.arrays()}
    for path, nodes in sorted(wanted.items()):
        node = here.get(path)
        if node is None or not (node.is_inside or outside):
            why = "the group has no such member" if node is None else OUTSIDE
            problem = f"{nodes[0].uri} is staged for {path!r:.120}: {why}"
            raise RefusedError(dataset.uri, f"{problem}; nothing was changed")
        assert node.store is not None  # an array was found there
        try:
            load = Load(node.store, dataset.key, wish)
            for one in nodes:
                assert one.store is not None  # here too
                load.add(one.store)
        except ChronotileError as error:
            raise refusal(dataset.uri, path, str(error)) from error
        yield node, load


def _pace(dataset: Dataset) -> _Pace:
    return _PACES[dataset.store.traits.pace]


def _moment(dataset: Dataset, members: list[tuple[Node, Load]], at: Moment | None) -> int:
    """Give the moment from which all shows: the requested one, or one that can be kept."""
    if at is not None:
        return dataset.moment(at)
    pace = _pace(dataset)
    parts = [one.part for _, load in members for one in load.staged.values()]
    size = sum(part.size or 0 for part in parts)
    lead = pace.fragment * len(parts) + pace.commit * len(members)
    return now_ms() + pace.least + lead + pace.mebibyte * (size >> 20)


def _planned(dataset: Dataset, node: Node, load: Load, moment: int | None) -> Plan:
    try:
        return load.plan(moment)
    except ChronotileError as error:
        own_times = f"; to let fragments keep their times, add {option('own_times')}"
        hint = "" if moment is None else own_times
        raise refusal(dataset.uri, node.path, str(error), hint) from error


def _notes(moment: int | None, planned: list[Plan]) -> tuple[str, ...]:
    if moment is None:
        return ("members follow each other: a reader in between sees some of them",)
    plans = [plan for plan in planned if plan.added]
    if not plans:
        return ()
    last, most = max(map(_last, plans)), max(len(plan.added) for plan in plans)
    note = f"all of it shows from {moment} ({time_text(moment)}) on"
    if last > moment:
        note += f", whole from {last} on: {count_text(most, 'fragment')} take a millisecond each"
    return (note,)


def _last(plan: Plan) -> int:
    """Give the last moment of the commits that a plan adds."""
    return max(commit_name(uri).t2 for uri in plan.added)
