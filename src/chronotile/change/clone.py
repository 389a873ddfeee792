"""Clone: a new array that shows what an open of another one shows.

In: an array, a window, commits to leave out, an empty place. Out: an array there that every TileDB
program opens, and a report. Writes nothing to the source.

The clone has the fragments that the window sees, as links or copies; one `.con` with their commits;
the deletes and updates in force, and the metadata of the window; all schemas and enumerations. The
schemas go last: before that the place is no array, and an open fails.

The source may be one that the engine refuses to open: fragments that are gone are left out, and so
is what the caller names. A delete that a fragment has applied cannot just be left out (F14): what
the fragment was merged from takes its place, or a delete that matches no row stays in its name.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.consolidate import wanted_order
from chronotile.change.past_state import Past, State
from chronotile.change.plan import Report, Source, Step, put
from chronotile.change.repair import harmless_tiles, row_words
from chronotile.change.sound_array import array_version, sealing_key
from chronotile.check.findings import RefusedError, count_text
from chronotile.check.tags import moment_in
from chronotile.errors import ArrayNotFoundError, ChangedError, ChronotileError, StorageError
from chronotile.format.commit_files import (
    FIRST_WITH_COMMITS,
    ConRecord,
    commit_name,
    encode_record,
    write_uri,
)
from chronotile.format.kinds import (
    COMMITS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENTS,
    LABELS,
    META,
    SCHEMA,
)
from chronotile.format.names import format_name
from chronotile.format.timestamps import now_ms
from chronotile.history.read_history import read_history
from chronotile.storage.store import MissingObjectError, ObjectExistsError, put_compared
from chronotile.storage.transfer import Link, Transfer
from chronotile.visibility.rules import Rules, visible_metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from chronotile.change.plan import Op
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.storage.store import Entry, Store

_FOLDERS = (COMMITS, FRAGMENTS, FRAGMENT_META, LABELS, META, SCHEMA, ENUMERATIONS)
"""What the engine expects in an array on a disk, even if it is empty."""


def clone(
    here: Store,
    there: Store,
    key: bytes | None,
    *,
    start: Moment = 0,
    end: Moment | None = None,
    without: Collection[str] = (),
    link: Link = "hard",
    dry_run: bool = False,
) -> Report:
    """Make an array that shows what an open of another one at a window shows.

    Args:
        here: The source.
        there: The place of nothing yet, or of a clone that was broken off.
        key: The key of an encrypted array; the clone has the same.
        start: The start of the window.
        end: The end of the window; now, if it is left out.
        without: Names of commits to leave out: fragments, deletes, updates.
        link: See `Handle.clone`.
        dry_run: Write nothing.

    Raises:
        RefusedError: Something else is at the target.
        UnreachableError: A merged fragment holds more than the window sees, and what it was merged
            from is gone.
    """
    if there.uri == here.uri or there.uri.startswith(f"{here.uri}/"):
        raise RefusedError(there.uri, "expected a place outside of the source, found one inside")
    history = read_history(here, key=key)
    first = moment_in(here, history, start)
    last = now_ms() if end is None else moment_in(here, history, end)
    if first > last:
        problem = f"expected a window that ends after it starts, found {first} and {last}"
        raise ChronotileError(here.uri, problem)
    plan = make_plan(here, history, (first, last), frozenset(without))
    _refuse_others(there, plan)
    transfer = Transfer(here, there, link)
    if not dry_run:
        _run(plan, transfer, here, there, link)
    steps, notes = tuple(plan.steps(transfer, link)), tuple(plan.notes)
    return Report("clone", there.uri, dry_run=dry_run, steps=steps, notes=notes)


class Parts(NamedTuple):
    """All that a clone consists of."""

    folders: dict[str, tuple[Entry, ...]]
    """Fragment's folder -> its files."""
    small: dict[str, str]
    """Metadata and enumerations: path in the source -> path in the clone."""
    schemas: tuple[tuple[str, str], ...]
    """Schemas: path in the source -> path in the clone, in the order of the puts."""
    sizes: dict[str, int | None]
    """Bytes of these files, by their paths in the source."""
    puts: tuple[Step, ...]
    labels: dict[str, Parts]
    """Folder of a dimension label's array -> the plan of its clone."""
    notes: list[str]

    def paths(self) -> Iterator[str]:
        """Every file of the clone."""
        for files in self.folders.values():
            yield from (entry.path for entry in files)
        yield from self.small.values()
        yield from (new for _, new in self.schemas)
        yield from (step.path for step in self.puts)
        for folder, plan in self.labels.items():
            yield from (f"{folder}/{path}" for path in plan.paths())

    def steps(self, transfer: Transfer, link: Link) -> Iterator[Step]:
        """Give the steps, one for each fragment."""
        op: Op = "link" if transfer.links else "copy"
        for folder, files in self.folders.items():
            count = len(files)
            total = sum(entry.size or 0 for entry in files)
            reason = count_text(count, "file")
            source = Source(None, {}, {entry.path: entry.size for entry in files})
            yield Step(op=op, path=folder, size=total, reason=reason, source=source)
        op = "copy" if link == "symbolic" else op
        for path in self.small:
            size = self.sizes.get(path)
            yield Step(op=op, path=path, size=size, reason="visible at the window")
        yield from self.puts
        for folder, plan in self.labels.items():
            for step in plan.steps(transfer, link):
                yield replace(step, path=f"{folder}/{step.path}")
        for path, new in self.schemas:
            size = self.sizes.get(path)
            yield Step(op=op, path=new, size=size, reason=f"the schema {path}")


def make_plan(
    store: Store, history: History, window: tuple[int, int], without: frozenset[str]
) -> Parts:
    """Plan the clone of an array, and of the arrays of its dimension labels."""
    rules = Rules(history)
    _refuse_unknown(history, without)
    past = Past(store, rules)
    past.refuse_lost(window[1], window[0])
    state = past.at(*window, without=without, strict=False)
    notes = [f"{name} is left out: it is committed, and gone" for name in state.lost]
    stand_ins = _stand_ins(store, rules, state, notes)
    meta = visible_metadata(history, *window)
    small = {f"{META}/{name.text}": f"{META}/{name.text}" for name in meta}
    small |= {path: path for path in history.listing.enumerations}
    return Parts(
        folders={part.folder: store.list_prefix(part.folder, sizes=True) for part in state.parts},
        small=small,
        schemas=_schemas(history, state),
        sizes={
            entry.path: entry.size
            for folder in ("", SCHEMA, ENUMERATIONS, META)
            for entry in store.list_dir(folder, sizes=True).files
        },
        puts=tuple(_commits(history, state, stand_ins)),
        labels={
            folder: _plan_below(store.child(folder), window, history.key)
            for folder in store.list_dir(LABELS).folders
        },
        notes=notes,
    )


def _plan_below(store: Store, window: tuple[int, int], key: bytes | None) -> Parts:
    return make_plan(store, read_history(store, key=key), window, frozenset())


def _refuse_unknown(history: History, without: frozenset[str]) -> None:
    table = history.table
    unknown = without - {table.name(row) for row in range(len(table))} if without else frozenset()
    for name in sorted(unknown):
        raise ChronotileError(history.array, f"expected the name of a commit, found {name!r:.120}")


def _stand_ins(store: Store, rules: Rules, state: State, notes: list[str]) -> dict[str, bytes]:
    """Make tiles for deletes that fragments have applied and that are left out: uri -> tile."""
    if not state.still_applied:
        return {}
    table = rules.history.table
    tiles = harmless_tiles(rules.history, sealing_key(store, rules.history))
    found: dict[str, bytes] = {}
    for name, folders in state.still_applied.items():
        uris = [f"{COMMITS}/{name}{extension}" for extension in tiles]
        known = [table.uri(row) for row in table.find(uris).tolist()] or uris[:1]
        found[known[0]] = tiles[known[0][-4:]]
        words = row_words(rules, name, folders)
        notes.append(f"{known[0]} is replaced by one that matches no row: {words}")
    return found


def _schemas(history: History, state: State) -> tuple[tuple[str, str], ...]:
    """Name the schema files, the one in force first; copy it if it would not be the last."""
    in_force, listed = state.schema, history.schemas
    assert in_force is not None  # a listing without a schema is no array
    paths = [item.path for item in listed]
    if in_force is listed[-1] or in_force.name is None:
        order = [in_force.path, *(path for path in paths if path != in_force.path)]
        return tuple((path, path) for path in order)
    last = max(item.name.t2 for item in listed if item.name is not None) + 1
    uuid = hashlib.sha256(in_force.path.encode()).hexdigest()[:32]
    again = f"{SCHEMA}/{format_name(last, last, uuid, None)}"
    return ((in_force.path, again), *((path, path) for path in paths))


def _commits(history: History, state: State, stand_ins: Mapping[str, bytes]) -> Iterator[Step]:
    """Make the `.con` of the clone, and loose files for commits that cannot stand in one."""
    table, version = history.table, array_version(history)
    implied = table.implied
    writes = [write_uri(part.name.text) for part in state.parts if not implied[part.row]]
    if version < FIRST_WITH_COMMITS:
        yield from (put(uri, b"", "a write") for uri in writes)
        return
    # The engine reads no update in a `.con` (F11): one that stands only there stays there.
    loose = {table.uri(row) for row in table.loose.nonzero()[0].tolist()}
    inside = [item for item in state.updates if item.uri not in loose]
    if writes or inside:
        records = [ConRecord(uri, None) for uri in writes]
        records += [ConRecord(item.uri, item.tile) for item in inside]
        data = b"".join(map(encode_record, sorted(records, key=wanted_order)))
        names = [commit_name(record.uri) for record in records]
        t1, t2 = min(name.t1 for name in names), max(name.t2 for name in names)
        name = format_name(t1, t2, hashlib.sha256(data).hexdigest()[:32], version)
        yield put(f"{COMMITS}/{name}.con", data, count_text(len(writes), "write"))
    # The engine looks for the files of deletes (F1).
    others = [item for item in state.updates if item.uri in loose]
    tiles = {item.uri: item.tile for item in (*state.deletes, *others)}
    for uri, tile in (tiles | dict(stand_ins)).items():
        yield put(uri, tile, "in force at the window")


def _refuse_others(there: Store, plan: Parts) -> None:
    """Refuse a place with other files; those of a broken-off clone may stay."""
    try:
        found = {entry.path for entry in there.list_files()}
    except ArrayNotFoundError:
        return
    others = sorted(found - set(plan.paths()))
    if others:
        raise RefusedError(there.uri, f"expected an empty place, found {others[0]!r:.120}")


def _run(plan: Parts, transfer: Transfer, here: Store, there: Store, link: Link) -> None:
    try:
        _carry_out(plan, transfer, here, there, link)
    except MissingObjectError as cause:
        problem = "expected it to stay, found it gone: the source is changing; try again"
        raise ChangedError(cause.where, problem) from cause


def _carry_out(plan: Parts, transfer: Transfer, here: Store, there: Store, link: Link) -> None:
    transfer.make_root(_FOLDERS)
    small = Transfer(here, there, "copy") if link == "symbolic" else transfer
    sizes: dict[str, int | None] = {}
    for folder, files in plan.folders.items():
        if link == "symbolic":
            transfer.folder(folder, folder)
        else:
            transfer.files({entry.path: entry.path for entry in files})
            sizes |= {entry.path: entry.size for entry in files}
    small.files(plan.small)
    for step in plan.puts:
        _put_again(there, step)
    for folder, inner in plan.labels.items():
        source, target = here.child(folder), there.at(there.place.child(folder))
        _run(inner, Transfer(source, target, link), source, target, link)
    _compare_sizes(there, sizes)
    for path, new in plan.schemas:
        small.files({path: new})


def _compare_sizes(there: Store, sizes: Mapping[str, int | None]) -> None:
    """List the copied files, and compare their sizes."""
    if not sizes:
        return
    found = {entry.path: entry.size for entry in there.list_prefix(FRAGMENTS, sizes=True)}
    for path, size in sizes.items():
        if path.startswith(f"{FRAGMENTS}/") and found.get(path) != size:
            problem = f"expected the {size} bytes that were copied, found {found.get(path)}"
            raise StorageError(there.uri_of(path), problem)


def _put_again(store: Store, step: Step) -> None:
    """Put a file; one that a clone which was broken off has put is no error."""
    try:
        put_compared(store, step.path, step.data)
    except ObjectExistsError:
        if store.read(step.path, limit=len(step.data) * 2 + 1) != step.data:
            raise
