"""Repair: the engine opens the array again.

In: an array. Out: the same array without what the engine cannot read, which lies in a quarantine
beside it, and a report. What cannot be mended for certain is told, and left as it is.

The order: the manifest; new files; then, one by one, each old file is copied, compared and
removed; then files that keep their names. Broken off at any point nothing is lost, and the same
command goes on: new files only say again what old ones say.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.checks import blocking
from chronotile.history import History, read_history
from chronotile.listing import FRAGMENTS
from chronotile.maintenance import FIRST_WITH_COMMITS, array_version, raw_key
from chronotile.mending import Mender, Mending
from chronotile.plans import Report, Step
from chronotile.quarantine import new_quarantine
from chronotile.store import MissingObjectError, Store, open_store
from chronotile.times import now_ms
from chronotile.visibility import Rules
from chronotile.writers import put_compared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.findings import Finding

_METADATA = "__fragment_metadata.tdb"


def repair(
    array: str,
    *,
    dry_run: bool = False,
    accept_loss: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Report:
    """Takes out what keeps the engine from reading an array, and mends what can be mended.

    Args:
        array: A path or a URI.
        dry_run: Change nothing.
        accept_loss: Mend a `.con` that was cut short even where it cannot be told which commit
            its last line named. The old file stays in the quarantine.
        key: The key of an encrypted array; without it its deletes cannot be judged.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.

    Returns:
        What was done; its `findings` are what is left.

    >>> repair("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    secret = raw_key(key)
    history = read_history(opened.uri, key=secret, store=opened)
    rules = Rules(history)
    mender = Mender(
        history,
        rules,
        version=max(array_version(history), FIRST_WITH_COMMITS),
        whole=_whole_fragments(opened, history, rules),
        accept_loss=accept_loss,
    )
    found = mender.mend()
    at_ms = now_ms()
    quarantine = new_quarantine(opened, at_ms) if found.moves or found.puts else None
    moves = tuple(
        Step(op="move", path=path, size=len(data), reason=reason, data=data)
        for path, reason in found.moves.items()
        for data in _content(opened, path)
    )
    puts, late = _put_steps(found.puts), _put_steps(found.replaced)
    stand_ins = tuple(
        Step(op="put", path=path, size=len(data), reason="stands in meanwhile", data=data)
        for path, data in found.stand_ins.items()
    )
    if quarantine is not None and not dry_run:
        quarantine.declare(moves, (*puts, *late, *stand_ins), at_ms)
        for step in (*puts, *stand_ins):
            put_compared(opened, step.path, step.data or b"")
        quarantine.move(moves)
        for step in late:
            put_compared(opened, step.path, step.data or b"")
        opened.remove(step.path for step in stand_ins)
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


def _whole_fragments(store: Store, history: History, rules: Rules) -> frozenset[str]:
    """The fragments whose folder has its metadata, without which the engine cannot open."""
    listing = history.listing
    here = {name: f"{FRAGMENTS}/{name}" for name in listing.fragments}
    here |= {name: name for name in listing.root_fragments}
    # A commit may have come between the two lists: its fragment is looked for all the same.
    table = history.table
    here |= {table.name(row): table.fragment_path(row) for row in rules.fragments.tolist()}

    def is_whole(name: str) -> bool:
        try:
            store.head(f"{here[name]}/{_METADATA}")
        except MissingObjectError:
            return False
        return True

    names = list(here)
    with ThreadPoolExecutor(8) as pool:
        whole = zip(names, pool.map(is_whole, names), strict=True)
        return frozenset(name for name, has_metadata in whole if has_metadata)


def _left(store: Store, key: bytes | None, found: Mending) -> tuple[Finding, ...]:
    history = read_history(store.uri, key=key, store=store)
    still = blocking(history, Rules(history))
    told = {(item.code, item.path) for item in found.left}
    return (*found.left, *(item for item in still if (item.code, item.path) not in told))
