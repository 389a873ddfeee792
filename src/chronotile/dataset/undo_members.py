"""A change of a whole dataset, taken back: member by member, by the one report that it left.

In: a dataset, and the report. Out: `GroupReport`. Before anything changes, every member is planned;
if one cannot be taken back, none is. The files of the group itself are taken back here too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chronotile.change.plan import Report
from chronotile.change.quarantine import new_quarantine, restore
from chronotile.change.undo import moves_of, refuse_final, taken_back, undo
from chronotile.change.undo_record import FINAL, has_put, read_record
from chronotile.check.findings import RefusedError
from chronotile.dataset.over_members import GroupReport, Outcome, targets
from chronotile.errors import ChronotileError
from chronotile.format.commit_files import decode_vac, vacuumed_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chronotile.dataset.open_dataset import Dataset
    from chronotile.dataset.over_members import Target
    from chronotile.storage.store import Store


def undo_members(
    dataset: Dataset,
    place: str,
    document: Mapping[str, Any],
    *,
    dry_run: bool = False,
    before: Callable[[GroupReport], None] | None = None,
) -> GroupReport:
    """Takes back what a report tells of each member, the last first.

    Args:
        dataset: The group.
        place: Where the report is.
        document: The report.
        dry_run: Plan only.
        before: Called with the planned steps of all members before the first.

    Raises:
        RefusedError: A member cannot be taken back: nothing was changed.
    """
    is_begun = document.get("state") == "begun"
    if is_begun and document.get("dry_run"):
        # Each member is planned anew when its turn comes: nobody knows the names of its files.
        command = str(document.get("command"))
        problem = f"expected a change that has ended, found {command!r:.40} broken off"
        raise RefusedError(dataset.uri, f"{problem}; run the same command again, then undo it")
    here = {target.store.uri: target for target in targets(dataset, groups=True)}
    changed = [item for item in document["members"] if item.get("steps") and not item.get("error")]
    pairs: list[tuple[Target, Mapping[str, Any]]] = []
    for item in reversed(changed):
        target = here.get(str(item.get("array")))
        if target is None:
            problem = f"expected members of the dataset, found {item.get('array')!r:.120}"
            raise RefusedError(dataset.uri, problem)
        # Of a change that was broken off, some members may not have been reached.
        if not is_begun or has_put(target.store, item):
            pairs.append((target, item))
    planned = tuple(_undone(dataset, *pair, dry_run=True) for pair in pairs)
    for one in planned:
        if one.error is not None:
            raise RefusedError(dataset.uri, f"{one.path} cannot be taken back: {one.error}")
    plan = GroupReport("undo", dataset.uri, dry_run=True, outcomes=planned, undoes=place)
    if dry_run:
        return plan
    if before is not None:
        before(plan)
    done = tuple(_undone(dataset, *pair, dry_run=False) for pair in pairs)
    return GroupReport("undo", dataset.uri, dry_run=False, outcomes=done, undoes=place)


def _undone(
    dataset: Dataset, target: Target, document: Mapping[str, Any], *, dry_run: bool
) -> Outcome:
    path, array = target.path, target.store.uri
    try:
        if target.is_group:
            report = _undo_files(target.store, document, dry_run=dry_run)
        else:
            report = undo(array, document, dry_run=dry_run, key=dataset.key, store=target.store)
    except ChronotileError as error:
        return Outcome(path=path, array=array, is_group=target.is_group, error=str(error))
    return Outcome(path=path, array=array, is_group=target.is_group, report=report)


def _undo_files(store: Store, document: Mapping[str, Any], *, dry_run: bool) -> Report:
    """Takes back the files that a change put into a group itself: lists, metadata.

    Raises:
        RefusedError: What a merged file hides is gone: it is final.
    """
    refuse_final(store, document)
    if document.get("quarantine"):
        kept_there = str(document["quarantine"])
        done = restore(store.uri, kept_there, dry_run=dry_run, store=store)
        return replace(done, command="undo", notes=() if dry_run else (taken_back(document),))
    record = read_record(store, document)
    for one in record.puts:
        if one.path.endswith(".vac"):
            folder = one.path.partition("/")[0]
            listed = {vacuumed_name(line) for line in decode_vac(one.data, one.path)}
            gone = sorted(listed.difference(store.list_names(folder).files))
            if gone:
                problem = f"expected what {one.path} hides, found {gone[0]} gone: {FINAL}"
                raise RefusedError(store.uri, problem)
    moves, notes = tuple(moves_of(record)), (taken_back(document),)
    done = Report("undo", store.uri, dry_run=dry_run, steps=moves, notes=notes)
    kept = new_quarantine(store, done.at_ms)
    if not dry_run:
        kept.declare(moves, (), done.at_ms)
        kept.move(moves)
    return replace(done, quarantine=kept.uri)
