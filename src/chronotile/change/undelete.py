"""Undelete: the rows that one delete or update hides come back.

In: an array, the name of a delete or update. Out: the plan of the array without its effect.

From a moment on: everything is replayed without it, after every other commit (see `transition`),
and history stays as it is. Or for ever: its file goes into the quarantine, and every window
changes. A fragment that has applied it notes it by name (F14): one that matches no row takes its
place then, and the rows of that fragment stay away.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from chronotile.change import operations
from chronotile.change.past_state import Past, UnreachableError
from chronotile.change.plan import Plan
from chronotile.change.repair import Mender, harmless_tiles, mending_stages
from chronotile.change.restore import VisibleChange, with_way
from chronotile.change.sound_array import sealing_key, sound_history
from chronotile.check.findings import RefusedError, UnknownNameError
from chronotile.check.fragment_health import inspect
from chronotile.conditions.stored_conditions import is_everything, is_harmless
from chronotile.errors import ChronotileError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history.read_history import read_history
from chronotile.safe_text import shell_word
from chronotile.visibility.rules import Rules, schema_at
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from chronotile.change.repair import Mending
    from chronotile.format.timestamps import Moment
    from chronotile.storage.store import Store


def plan_undelete(
    store: Store, key: bytes | None, *, name: str, at: Moment | None = None, ever: bool = False
) -> Plan:
    """Plan to bring back the rows that one delete or update hides; see `Handle.undelete`."""
    bare = name.rpartition("/")[2].removesuffix(".del").removesuffix(".upd")
    if not ever:
        return _plan_from(store, key, bare, at)
    if at is not None:
        raise ChronotileError(store.uri, "expected a moment or for ever, found both")
    mending = _mending(store, bare, key)
    return Plan(
        command="undelete",
        array=store.uri,
        stages=mending_stages(store, mending),
        notes=tuple(mending.notes),
    )


def _plan_from(store: Store, key: bytes | None, name: str, at: Moment | None) -> Plan:
    """Plan to bring the rows back from a moment on."""
    _, rules = sound_history(store, key)
    past = Past(store, rules)
    change = VisibleChange(store, rules, past, at)
    try:
        change.bring(lambda apart: past.at(0, MAX_TIMESTAMP, without=[name], apart=apart))
    except UnreachableError as error:
        array = shell_word(store.uri)
        way = f"to have TileDB write the rows: chronotile undelete {array} {name}"
        with suppress(ChronotileError):
            _mending(store, name, key)
            way = f"to bring them back in every window: chronotile undelete {array} {name} --ever"
        raise with_way(error, way) from error
    return change.plan("undelete", (), f"the commit {name} hides no row")


def plan_done(store: Store, name: str) -> Plan | None:
    """Plan no step where an undelete that stands has brought the rows back; else give None."""
    for one in operations.list_operations(store):
        if one.command == "undelete" and one.state == "done":
            options = operations.read_operation(store, one).get("options", {})
            if options.get("name") == name:
                why = f"undelete {one.id} brought back the rows that {name} removed"
                return Plan(command="undelete", array=store.uri, notes=(why,))
    return None


def standing_delete(store: Store, key: bytes | None, name: str) -> str | None:
    """Name the delete or update that hides now what a given one hid; None if nothing does.

    A delete of everything ends the effect of all before it. If that came with a replay, the replay
    has written the deletes that count again, under other names.

    Raises:
        RefusedError: No delete or update of that name is in force.
    """
    _, rules = sound_history(store, key)
    commits = [commit for commit, _ in tile_commits(rules, MAX_TIMESTAMP)]
    asked = [one for one in commits if one.name == name]
    latest = schema_at(rules.history, MAX_TIMESTAMP)
    schema = latest.schema if latest is not None else None
    if not asked or (schema and is_harmless(asked[0].stored, schema)):
        _refuse_applied(store, name)
    if not asked:
        raise UnknownNameError(
            store.uri, f"expected a delete or update in force, found {name!r:.120}"
        )
    later = [one for one in commits if one.t1 > asked[0].t2]
    wipes = [one.t2 for one in later if schema and is_everything(one.stored, schema)]
    if not wipes:
        return name
    copies, known = _copies(store), {name}
    while more := {new for new, old in copies.items() if old in known} - known:
        known |= more
    standing = [one.name for one in later if one.t1 > wipes[-1] and one.name in known]
    return standing[0] if standing else None


def _refuse_applied(store: Store, name: str) -> None:
    """Refuse an update that an apply has taken out.

    Raises:
        RefusedError: It is one.
    """
    for one in operations.list_operations(store):
        if one.command == "apply" and one.state == "done":
            steps = operations.read_operation(store, one).get("steps", ())
            if any(str(step["path"]).endswith(f"/{name}.upd") for step in steps):
                problem = f"the update {name} was applied: its rows have the new values"
                undo = f"chronotile undo {shell_word(store.uri)} {one.id}"
                raise RefusedError(store.uri, f"{problem}; to take that back: {undo}")


def _copies(store: Store) -> dict[str, str]:
    """Name each delete that a replay has written again, and the one that it was."""
    copies = {}
    for one in operations.list_operations(store):
        if one.command in ("restore", "undelete"):
            for step in operations.read_operation(store, one).get("steps", ()):
                name, _, suffix = str(step["path"]).rpartition("/")[2].partition(".")
                if suffix == "del":
                    copies[name] = str(step.get("reason")).removesuffix(" again")
    return copies


def _mending(store: Store, name: str, key: bytes | None) -> Mending:
    history = read_history(store, key=key)
    rules = Rules(history)
    found = [pair for pair in tile_commits(rules, MAX_TIMESTAMP) if pair[0].name == name]
    if not found:
        raise UnknownNameError(store.uri, f"expected a delete or update, found {name!r:.120}")
    commit, row = found[0]
    table = history.table
    rows = rules.fragment_rows[~rules.missing].tolist()
    health = inspect(store, history, [table.fragment_path(one) for one in rows])
    noted = {name, table.uri(row).rpartition("/")[2]}
    applied = [path for path, item in health.items() if noted.intersection(item.applied)]
    older = [
        table.fragment_path(one)
        for one in rules.visible(0, MAX_TIMESTAMP)[0].tolist()
        if int(table.uris.t1[one]) <= commit.t2
    ]
    if applied and not set(older) - set(applied):
        problem = f"no row would come back for ever: {applied[0]} has applied the delete"
        if any(health[path].keeps_deleted for path in applied):
            undelete = f"chronotile undelete {shell_word(store.uri)} {name}"
            problem += f"; to have TileDB write its rows again, from now on: {undelete}"
        raise RefusedError(store.uri, problem)
    harmless = harmless_tiles(history, sealing_key(store, history)) if applied else {}
    mender = Mender(rules, health, accept_loss=False, harmless=harmless)
    mending = mender.take_out(commit, table.uri(row), "its rows come back")
    if mending.left:
        raise RefusedError(store.uri, mending.left[0].message, tuple(mending.left))
    return mending
