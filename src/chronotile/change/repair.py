"""Repair: the engine opens the array again.

In: an array. Out: the array without the files that the engine cannot read, which lie in a
quarantine beside it, and a report. What cannot be mended for certain is reported, and stays.

The order: the manifest; new files; then each old file is copied, compared, and removed or exchanged
for a new one of the same name, one by one. A repair that is broken off at any point loses nothing,
and the same command goes on: new files only repeat what old ones say.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.change.beside_array import unfinished_copies
from chronotile.change.change_report import Before, Report, Step, tell
from chronotile.change.mending import lost_metadata
from chronotile.change.quarantine import new_quarantine
from chronotile.change.repair_files import Mender
from chronotile.change.sound_array import sealing_key
from chronotile.change.stand_in_deletes import harmless_tiles
from chronotile.check.check_array import blocking, check
from chronotile.check.fragment_health import inspect
from chronotile.check.stored_files import metadata
from chronotile.format.kinds import META
from chronotile.format.names import is_name
from chronotile.history.read_history import read_history
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import MissingObjectError, Store, open_store
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from chronotile.change.mending import Mending
    from chronotile.change.quarantine import Quarantine
    from chronotile.check.findings import Finding


def repair(
    array: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    accept_loss: bool = False,
    commit_orphans: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Takes out what keeps the engine from reading an array, and mends what can be mended.

    Args:
        array: A path or a URI.
        dry_run: Change nothing.
        accept_loss: Mend a `.con` that was cut short even if nobody can tell which commit its
            last line named, and take out fragments that can still be read in part. The quarantine
            keeps whatever goes out.
        commit_orphans: Commit also whole fragments that no commit names, as after the loss of a
            `.con`. Nobody can tell them from writes that never finished, or that somebody removed;
            deletes that stood in the lost file stay lost.
        key: The key of an encrypted array; without it, nothing judges its deletes and fragments.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Returns:
        What was done; its `findings` are what is still wrong.

    >>> repair("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    mending = _mending(opened, key, accept_loss=accept_loss, commit_orphans=commit_orphans)
    moves = tuple(moves_of(opened, mending))
    steps = (*mending.puts.values(), *moves, *mending.replaced.values())
    notes, left = tuple(mending.notes), tuple(mending.left)
    report = Report("repair", opened.uri, dry_run=dry_run, steps=steps, notes=notes, findings=left)
    if mending.moves or mending.puts:
        quarantine = new_quarantine(opened, report.at_ms)
        if not dry_run:
            tell(before, replace(report, findings=()))
            mend(opened, quarantine, mending, moves, report.at_ms)
        report = replace(report, quarantine=quarantine.uri, restore=quarantine.restore)
    return report if dry_run else replace(report, findings=_still_wrong(opened, key, left))


def _mending(
    store: Store, key: bytes | str | None, *, accept_loss: bool, commit_orphans: bool
) -> Mending:
    history = read_history(store, key=key)
    rules, table = Rules(history), history.table
    paths = [path for name, path in history.listing.fragment_paths().items() if is_name(name)]
    # A commit may have come between the two lists: look for its fragment all the same.
    paths += [table.fragment_path(row) for row in rules.fragments[~rules.missing].tolist()]
    health = inspect(store, history, paths)
    harmless: dict[str, bytes] = {}
    if any(item.applied for item in health.values()):
        harmless = harmless_tiles(history, sealing_key(store, history))
    mender = Mender(rules, health, accept_loss=accept_loss, harmless=harmless)
    mending = mender.mend(unfinished_copies(store) if commit_orphans else None)
    for item in metadata(store, history):
        mending.moves.setdefault(item.path, f"{item.code}: {item.message}")
        if item.path.startswith(f"{META}/"):
            mending.notes.append(lost_metadata(store.uri, item.path))
    return mending


def moves_of(store: Store, mending: Mending) -> Iterator[Step]:
    """The files that go into the quarantine, with their content."""
    for path, reason in mending.moves.items():
        with suppress(MissingObjectError):
            data = store.read(path)
            yield Step(op="move", path=path, size=len(data), reason=reason, data=data)


def mend(
    store: Store, quarantine: Quarantine, mending: Mending, moves: tuple[Step, ...], at_ms: int
) -> None:
    """Changes the array, in the order of the module's text."""
    puts, replaced = mending.puts.values(), mending.replaced
    quarantine.declare(moves, (*puts, *replaced.values()), at_ms)
    for step in puts:
        put_compared(store, step.path, step.data)
    quarantine.move(moves, replaced={path: step.data for path, step in replaced.items()})


def _still_wrong(
    store: Store, key: bytes | str | None, left: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """What the repair did not mend, and every error that a new check finds."""
    history = read_history(store, key=key)
    rules = Rules(history)
    errors = [item for item in check(history, rules, store) if item.severity == "error"]
    known = {(item.code, item.path) for item in left}
    new = dict.fromkeys((*errors, *blocking(history, rules)))
    return (*left, *(item for item in new if (item.code, item.path) not in known))
