"""Repair: the engine opens the array again.

In: an array. Out: the same array without what the engine cannot read, which lies in a quarantine
beside it, and a report. What cannot be mended for certain is told, and left as it is.

The order: the manifest; new files; then, one by one, each old file is copied, compared and
removed; then files that keep their names. Broken off at any point nothing is lost, and the same
command goes on: new files only say again what old ones say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.change.change_report import Report, Step
from chronotile.change.delete_update import put_compared
from chronotile.change.quarantine import new_quarantine
from chronotile.change.repair_files import Mender, Mending
from chronotile.change.sound_array import FIRST_WITH_COMMITS, array_version, raw_key, tell
from chronotile.check.array import blocking, check
from chronotile.check.fragment_health import fragment_paths, inspect
from chronotile.check.stored_files import metadata
from chronotile.format.names import is_name
from chronotile.format.timestamps import now_ms
from chronotile.history.reading import History, read_history
from chronotile.storage.store import MissingObjectError, Store, open_store
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.change.quarantine import Quarantine
    from chronotile.change.sound_array import Before
    from chronotile.check.findings import Finding
    from chronotile.check.fragment_health import Health


def repair(
    array: str,
    *,
    dry_run: bool = False,
    accept_loss: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Takes out what keeps the engine from reading an array, and mends what can be mended.

    Args:
        array: A path or a URI.
        dry_run: Change nothing.
        accept_loss: Mend a `.con` that was cut short even where it cannot be told which commit
            its last line named, and take out fragments that can still be read in part. What goes
            out stays in the quarantine.
        key: The key of an encrypted array; without it its deletes and fragments cannot be judged.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with what is about to be done, before it is.

    Returns:
        What was done; its `findings` are what is left.

    >>> repair("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    secret = raw_key(key)
    found = _mending(opened, secret, accept_loss=accept_loss)
    at_ms = now_ms()
    quarantine = new_quarantine(opened, at_ms) if found.moves or found.puts else None
    moves = tuple(
        Step(op="move", path=path, size=len(data), reason=reason, data=data)
        for path, reason in found.moves.items()
        for data in _content(opened, path)
    )
    puts, late = _put_steps(found.puts), _put_steps(found.replaced)
    if quarantine is not None and not dry_run:
        tell(before, "repair", opened.uri, (*puts, *moves, *late), found.notes)
        _carry_out(opened, quarantine, found, moves, at_ms)
    report = Report(
        command="repair",
        array=opened.uri,
        dry_run=dry_run,
        steps=(*puts, *moves, *late),
        notes=tuple(found.notes),
        findings=tuple(found.left),
        at_ms=at_ms,
        quarantine=quarantine.uri if quarantine else None,
        restore=quarantine.restore if quarantine else None,
    )
    return report if dry_run else replace(report, findings=_left(opened, secret, found))


def _mending(store: Store, key: bytes | None, *, accept_loss: bool) -> Mending:
    """What is to be done, worked out on what is there now."""
    history = read_history(store.uri, key=key, store=store)
    rules = Rules(history)
    mender = Mender(
        history,
        rules,
        version=max(array_version(history), FIRST_WITH_COMMITS),
        health=_health(store, history, rules),
        accept_loss=accept_loss,
    )
    found = mender.mend()
    for item in metadata(store, history):
        found.moves.setdefault(item.path, f"{item.code}: {item.message}")
    return found


def _carry_out(
    store: Store, quarantine: Quarantine, found: Mending, moves: tuple[Step, ...], at_ms: int
) -> None:
    """Changes the array, in the order of the module's text."""
    puts, late = _put_steps(found.puts), _put_steps(found.replaced)
    stand_ins = tuple(
        Step(op="put", path=path, size=len(data), reason="stands in meanwhile", data=data)
        for path, data in found.stand_ins.items()
    )
    quarantine.declare(moves, (*puts, *late, *stand_ins), at_ms)
    for step in (*puts, *stand_ins):
        put_compared(store, step.path, step.data or b"")
    quarantine.move(moves)
    for step in late:
        put_compared(store, step.path, step.data or b"")
    store.remove(step.path for step in stand_ins)


def _put_steps(files: Mapping[str, tuple[bytes, str]]) -> tuple[Step, ...]:
    return tuple(
        Step(op="put", path=path, size=len(data), reason=reason, data=data)
        for path, (data, reason) in files.items()
    )


def _content(store: Store, path: str) -> tuple[bytes, ...]:
    try:
        return (store.read(path),)
    except MissingObjectError:
        return ()


def _health(store: Store, history: History, rules: Rules) -> dict[str, Health]:
    """What is known of every fragment that is listed, committed or not."""
    listed = fragment_paths(history)
    paths = [path for name, path in listed.items() if is_name(name)]
    # A commit may have come between the two lists: its fragment is looked for all the same.
    table = history.table
    paths += [table.fragment_path(row) for row in rules.fragments[~rules.missing].tolist()]
    return inspect(store, history, paths)


def _left(store: Store, key: bytes | None, found: Mending) -> tuple[Finding, ...]:
    """What is wrong yet: what could not be mended, and every error that a new look finds."""
    history = read_history(store.uri, key=key, store=store)
    rules = Rules(history)
    still = [item for item in check(history, rules, store) if item.severity == "error"]
    told = {(item.code, item.path) for item in found.left}
    new = dict.fromkeys((*still, *blocking(history, rules)))
    return (*found.left, *(item for item in new if (item.code, item.path) not in told))
