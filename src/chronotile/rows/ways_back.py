"""Restore and undelete find the way themselves: by commits alone, or with rows written again.

In: an array, what is to come back. Out: the plan of the cheapest way. Commits alone cannot do it
where fragments were merged and what they were merged from is gone, or where an update would have to
be replayed. Then, with TileDB installed, the rows are written again, and only those that are
needed: for an undelete, the rows that the delete removed and that nothing later overwrote or
deleted. Later writes stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.change import operations
from chronotile.change.past_state import UnreachableError
from chronotile.change.plan import Plan, Stage, Step, at_hand, put
from chronotile.change.restore import latest_moment, plan_restore
from chronotile.change.sound_array import sound_history
from chronotile.change.undelete import plan_undelete
from chronotile.check.findings import RefusedError, count_text
from chronotile.check.tags import moment_in
from chronotile.errors import ChronotileError
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import new_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.rows.apply import UnchangedCommits
from chronotile.rows.cell_source import cell_source
from chronotile.rows.engine import NoEngineError
from chronotile.rows.play_changes import Play
from chronotile.rows.restore_rows import plan_restore_rows
from chronotile.rows.scratch_arrays import stage_fragment
from chronotile.rows.snapshot import last_time, open_labelled, snapshot

if TYPE_CHECKING:
    from chronotile.format.timestamps import Moment
    from chronotile.rows.snapshot import Snapshot
    from chronotile.storage.store import Store

_WAY = "commits alone cannot do it"


def plan_restore_any_way(
    store: Store,
    key: bytes | None,
    *,
    to: Moment,
    at: Moment | None = None,
    keep_metadata: bool = False,
    rewrite: bool = False,
    commits_only: bool = False,
) -> Plan:
    """Plan to make an array as it was at an earlier moment; see `Handle.restore`."""
    if rewrite and commits_only:
        raise ChronotileError(store.uri, "expected rewrite or commits_only, found both")
    if rewrite:
        return plan_restore_rows(store, key, to=to, at=at, keep_metadata=keep_metadata)
    try:
        return plan_restore(store, key, to=to, at=at, keep_metadata=keep_metadata)
    except UnreachableError as error:
        if commits_only:
            raise
        try:
            plan = plan_restore_rows(store, key, to=to, at=at, keep_metadata=keep_metadata)
        except (NoEngineError, RefusedError):
            raise error from None
    return replace(plan, notes=(f"{_WAY}: TileDB writes the rows again", *plan.notes))


def plan_undelete_any_way(
    store: Store,
    key: bytes | None,
    *,
    name: str,
    at: Moment | None = None,
    ever: bool = False,
    commits_only: bool = False,
) -> Plan:
    """Plan to bring back the rows that one delete or update hides; see `Handle.undelete`."""
    try:
        return plan_undelete(store, key, name=name, at=at, ever=ever)
    except UnreachableError as error:
        if commits_only:
            raise
        try:
            return _plan_rows(store, key, name, at)
        except NoEngineError:
            raise error from None


def _plan_rows(store: Store, key: bytes | None, name: str, at: Moment | None) -> Plan:
    """Plan to write the rows again that one delete removed, and nothing later.

    Memory grows with these rows.
    """
    log = open_labelled(store, key)
    _, rules = sound_history(store, key)
    latest = latest_moment(rules)
    moment = max(now_ms(), latest + 1) if at is None else moment_in(store, log.history, at)
    if moment <= latest:
        problem = f"expected a moment after every commit, the last of which is of {latest}"
        raise RefusedError(store.uri, f"{problem}, found {moment}")
    for one in operations.list_operations(store):
        if one.command == "undelete" and one.state == "done":
            options = operations.read_operation(store, one).get("options", {})
            if options.get("name") == name:
                problem = f"expected rows that {name} hides, found them brought back by {one.id}"
                raise RefusedError(store.uri, problem)
    at_end = snapshot(log, last_time(log))
    columns = _removed_alone(at_end, name)
    count = len(columns[0])
    if not count:
        problem = f"expected rows that come back, found none that {name} alone removed"
        raise RefusedError(store.uri, f"{problem}: later commits took them, or a purge")
    staged = stage_fragment(at_end, columns, moment)
    text = new_name(moment, moment, staged.version)
    folder, commit = f"{FRAGMENTS}/{text}", f"{COMMITS}/{text}.wrt"
    files = {f"{folder}/{file}": data for file, data in staged.files.items()}
    rows = f"{count_text(count, 'row')} that {name} removed"
    step = Step(op="write", path=folder, size=staged.size, reason=rows, source=at_hand(files))
    same = "every window sees what it saw before"
    known = UnchangedCommits(frozenset(log.history.listing.commits), frozenset())
    when = f"from {moment} ({time_text(moment)}) on"
    return Plan(
        command="undelete",
        array=store.uri,
        stages=(
            Stage(name="rows", seen=same, steps=(step,)),
            Stage(
                name="commit",
                seen="the rows are back",
                looks=(known,),
                steps=(put(commit, b"", "commits them"),),
            ),
        ),
        notes=(
            f"{_WAY}: TileDB writes {count_text(count, 'row')} again",
            f"{when} {name} no longer hides a row",
        ),
        added=(commit,),
        rows={"restored": count},
    )


def _removed_alone(at: Snapshot, name: str) -> list[pa.Array]:
    """Read the rows that one change removed, and no other change or write since."""
    # To the engine an update is a delete: what a later one hides stays hidden.
    at = replace(at, changes=tuple(replace(one, values=None) for one in at.changes))
    fields = at.schema.fields
    parts: list[tuple[pa.Array, ...]] = []
    for cells in cell_source(at).batches(fields):
        plays = []
        for without in ({name}, set[str]()):
            play = Play(fields, cells)
            for number, change in enumerate(at.changes):
                if change.name not in without:
                    play.act(number, change)
            plays.append(play)
        rows = np.flatnonzero(plays[0].alive & ~plays[1].alive)
        parts.append(plays[0].cells(rows))
    if not parts:
        return [pa.array([], pa.binary()) for _ in fields]
    return [pa.concat_arrays(columns) for columns in zip(*parts, strict=True)]
