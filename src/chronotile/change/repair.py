"""Repair: the engine opens the array again.

In: an array. Out: the plan of the array without the files that the engine cannot read, which go
into the quarantine. What cannot be mended for certain is reported, and stays.

The order: new files; then each old file is copied, compared, and removed or exchanged for a new one
of the same name, one by one. A repair that is broken off at any point loses nothing: new files only
repeat what old ones say.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chronotile.change.mending import lost_metadata
from chronotile.change.operations import unfinished_copies
from chronotile.change.plan import Plan, Seen, Stage, Step
from chronotile.change.repair_files import Mender
from chronotile.change.sound_array import sealing_key
from chronotile.change.stand_in_deletes import harmless_tiles
from chronotile.check.check_array import blocking, check, metadata
from chronotile.check.fragment_health import inspect
from chronotile.format.kinds import META
from chronotile.format.names import is_name
from chronotile.history.read_history import read_history
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.change.mending import Mending
    from chronotile.check.findings import Finding
    from chronotile.storage.store import Store


def plan_repair(
    store: Store, key: bytes | None, *, accept_loss: bool = False, commit_orphans: bool = False
) -> Plan:
    """Plan to take out what keeps the engine from reading an array; see `Handle.repair`."""
    mending = _mending(store, key, accept_loss=accept_loss, commit_orphans=commit_orphans)
    left = tuple(mending.left)
    stages = mending_stages(store, mending)
    added: tuple[str, ...] = ()
    if stages:
        added = _added(store, key, [step for stage in stages for step in stage.steps])
        look = StillWrong(key, left)
        stages = (*stages, Stage(name="check", seen="the array is mended", looks=(look,)))
    else:
        left = still_wrong(store, key, left)
    return Plan(
        command="repair",
        array=store.uri,
        stages=stages,
        notes=tuple(mending.notes),
        findings=left,
        added=added,
    )


def _added(store: Store, key: bytes | None, steps: Sequence[Step]) -> tuple[str, ...]:
    """Find the commits that are effective after a repair, and were not before."""
    files = {step.path: step.data for step in steps if step.op in ("put", "replace")}
    shown = overlaid(store, files, without=[step.path for step in steps if step.op == "move"])
    before, after = (
        {table.uri(row) for row in table.counts.nonzero()[0].tolist()}
        for table in (read_history(one, key=key).table for one in (store, shown))
    )
    return tuple(sorted(after - before))


def _mending(
    store: Store, key: bytes | None, *, accept_loss: bool, commit_orphans: bool
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
    """Give the files that go into the quarantine, or are exchanged, with their content."""
    for path, reason in mending.moves.items():
        with suppress(MissingObjectError):
            data = store.read(path)
            new = mending.replaced.get(path)
            if new is None:
                yield Step(op="move", path=path, size=len(data), reason=reason, data=data)
            else:
                yield replace(new, op="replace", old=data)


def mending_stages(store: Store, mending: Mending) -> tuple[Stage, ...]:
    """Give what a mending does, in the order of the module's text."""
    both = "every window sees what it saw before, or is mended"
    stages = (
        Stage(name="new files", seen=both, steps=tuple(mending.puts.values())),
        Stage(name="take out", seen=both, steps=tuple(moves_of(store, mending))),
    )
    return stages if any(stage.steps for stage in stages) else ()


@dataclass(frozen=True, slots=True)
class StillWrong:
    """Look what the repair did not mend."""

    key: bytes | None = field(repr=False)
    left: tuple[Finding, ...]

    def __call__(self, store: Store) -> Seen:
        """Look; give it."""
        return Seen(findings=still_wrong(store, self.key, self.left))


def still_wrong(store: Store, key: bytes | None, left: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Find what a repair does not mend, and every error that a new check finds."""
    history = read_history(store, key=key)
    rules = Rules(history)
    errors = [item for item in check(history, rules, store) if item.severity == "error"]
    known = {(item.code, item.path) for item in left}
    new = dict.fromkeys((*errors, *blocking(history, rules)))
    return (*left, *(item for item in new if (item.code, item.path) not in known))
