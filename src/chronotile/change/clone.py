"""Clone: a new array that shows what an open of another one shows.

In: an array, a window, commits to leave out, an empty place. Out: an array there that every TileDB
program opens, and a report. The source gets a record of the clone, where it can be written.

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
from typing import TYPE_CHECKING

from chronotile.change.consolidate import wanted_order
from chronotile.change.executor import execute
from chronotile.change.operations import list_operations, note_copy, operation_of
from chronotile.change.past_state import Past, PastState
from chronotile.change.plan import Plan, Report, Source, Stage, Step, put
from chronotile.change.repair import ROWS_OF_STAND_IN, harmless_tiles
from chronotile.change.sound_array import array_version, sealing_key
from chronotile.check.findings import RefusedError, WrongPlaceError, count_text
from chronotile.check.tags import moment_in
from chronotile.errors import (
    ArrayNotFoundError,
    BadFileError,
    ChronotileError,
    KeyNeededError,
    UnsupportedFilterError,
)
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
from chronotile.format.names import MAX_TIMESTAMP, format_name
from chronotile.format.timestamps import now_ms, span_text, time_text
from chronotile.history.read_history import read_history
from chronotile.storage.transfer import Link, Transfer
from chronotile.visibility.rules import Rules, visible_metadata
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from chronotile.change.operations import Operation
    from chronotile.change.plan import Op
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store

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
    if there.uri == here.uri:
        raise WrongPlaceError(there.uri, "source and target are the same place")
    if there.uri.startswith(f"{here.uri}/"):
        raise WrongPlaceError(there.uri, "the target lies inside of the source")
    history = read_history(here, key=key)
    first = moment_in(here, history, start)
    last = now_ms() if end is None else moment_in(here, history, end)
    if first > last:
        problem = f"the window ends before it starts: {span_text(first, last)}"
        raise ChronotileError(here.uri, problem)
    making = _Making(here, Transfer(here, there, link), link)
    making.array(here, history, (first, last), frozenset(without))
    plan = Plan(
        command="clone", array=there.uri, stages=tuple(making.stages), notes=tuple(making.notes)
    )
    made = _made_before(there, plan)
    if made is not None:
        note = f"it is there already: made {time_text(made.at_ms)}; nothing to do"
        return replace(replace(plan, stages=(), notes=(note,)).report(), dry_run=dry_run)
    if dry_run:
        return plan.report()
    for folder in ("", *making.folders):
        there.make_folder(folder)
    report = execute(there, plan)
    window = {"start": first, "end": last, "without": [*without]}
    note_copy(here, there, "clone", window=window)
    return report


class _Making:
    """Plans the clone of an array, and of the arrays of its dimension labels."""

    def __init__(self, root: Store, transfer: Transfer, link: Link) -> None:
        self._root, self._link = root, link
        self._op: Op = "link" if transfer.links else "copy"
        self.stages: list[Stage] = []
        self.folders: list[str] = []
        self.notes: list[str] = []

    def array(
        self,
        store: Store,
        history: History,
        window: tuple[int, int],
        without: frozenset[str] = frozenset(),
        prefix: str = "",
    ) -> None:
        """Plan one array, which lies at `prefix` below the first."""
        rules = Rules(history)
        _refuse_unknown(history, without)
        past = Past(store, rules)
        past.refuse_lost(window[1], window[0])
        state = past.at(*window, without=without, strict=False)
        _refuse_unreadable(rules, state)
        notes = [f"{name} is left out: it is committed, and gone" for name in state.lost]
        stand_ins = _stand_ins(store, rules, state, notes)
        meta = [f"{META}/{name.text}" for name in visible_metadata(history, *window)]
        sizes = {
            entry.path: entry.size
            for folder in ("", SCHEMA, ENUMERATIONS, META)
            for entry in store.list_dir(folder, sizes=True).files
        }
        steps = [self._folder(store, prefix, part.folder) for part in state.parts]
        steps += [
            self._file(prefix, path, path, sizes.get(path), "visible in the window")
            for path in (*meta, *history.listing.enumerations)
        ]
        commits = _commits(history, state, stand_ins)
        steps += [replace(step, path=prefix + step.path) for step in commits]
        self.folders += [prefix + folder for folder in _FOLDERS]
        self._stage("files", steps)
        for folder in store.list_dir(LABELS).folders:
            inner = store.child(folder)
            read = read_history(inner, key=history.key)
            self.array(inner, read, window, prefix=f"{prefix}{folder}/")
        schemas = [
            self._file(prefix, path, new, sizes.get(path), why)
            for path, new, why in _schemas(history, state)
        ]
        self._stage("the schema in force", schemas[:1])
        self._stage("other schemas", schemas[1:])
        self.notes += notes if not prefix else []

    def _stage(self, name: str, steps: list[Step]) -> None:
        self.stages.append(Stage(name=name, seen="an open fails", steps=tuple(steps)))

    def _folder(self, store: Store, prefix: str, folder: str) -> Step:
        """Link or copy a fragment."""
        files = store.list_prefix(folder)
        whole = self._link == "symbolic"
        names = [prefix + entry.path for entry in files]
        source = Source(
            self._root,
            {prefix + folder: prefix + folder} if whole else dict(zip(names, names, strict=True)),
            {prefix + entry.path: entry.size for entry in files},
            link=self._link,
        )
        total = sum(entry.size or 0 for entry in files)
        reason = count_text(len(files), "file")
        return Step(op=self._op, path=prefix + folder, size=total, reason=reason, source=source)

    def _file(self, prefix: str, path: str, new: str, size: int | None, reason: str) -> Step:
        """Link or copy a file; no file of its own is a symbolic link."""
        link: Link = "copy" if self._link == "symbolic" else self._link
        op: Op = "copy" if self._link == "symbolic" else self._op
        source = Source(self._root, {prefix + path: prefix + new}, {prefix + new: size}, link=link)
        return Step(op=op, path=prefix + new, size=size, reason=reason, source=source)


def _refuse_unknown(history: History, without: frozenset[str]) -> None:
    table = history.table
    unknown = without - {table.name(row) for row in range(len(table))} if without else frozenset()
    for name in sorted(unknown):
        raise ChronotileError(history.array, f"expected the name of a commit, found {name!r:.120}")


def _refuse_unreadable(rules: Rules, state: PastState) -> None:
    """Refuse a delete or update that cannot be read: TileDB could not open the clone."""
    wanted = {item.name.text for item in (*state.deletes, *state.updates)}
    for commit, _ in tile_commits(rules, MAX_TIMESTAMP):
        try:
            _ = commit.stored if commit.name in wanted else None
        except (KeyNeededError, UnsupportedFilterError):
            continue
        except BadFileError as error:
            problem = f"{commit.source} cannot be read, so TileDB could not open the clone"
            hint = (
                f"to leave it out (the rows that it removed show then), add --without {commit.name}"
            )
            raise RefusedError(rules.history.array, f"{problem}; {hint}") from error


def _stand_ins(store: Store, rules: Rules, state: PastState, notes: list[str]) -> dict[str, bytes]:
    """Make tiles for deletes that fragments have applied and that are left out: uri -> tile."""
    if not state.still_applied:
        return {}
    table = rules.history.table
    tiles = harmless_tiles(rules.history, sealing_key(store, rules.history))
    found: dict[str, bytes] = {}
    for name in state.still_applied:
        uris = [f"{COMMITS}/{name}{extension}" for extension in tiles]
        known = [table.uri(row) for row in table.find(uris).tolist()] or uris[:1]
        found[known[0]] = tiles[known[0][-4:]]
        notes.append(f"{known[0]}: {ROWS_OF_STAND_IN}")
    return found


def _schemas(history: History, state: PastState) -> tuple[tuple[str, str, str], ...]:
    """Name the schema files, where each goes and why, the one in force first.

    It is copied under a newer name if it would not be the last.
    """
    in_force, listed = state.schema, history.schemas
    assert in_force is not None  # a listing without a schema is no array
    paths = [item.path for item in listed]
    if in_force is listed[-1] or in_force.name is None:
        order = [in_force.path, *(path for path in paths if path != in_force.path)]
        return tuple((path, path, "a schema") for path in order)
    last = max(item.name.t2 for item in listed if item.name is not None) + 1
    uuid = hashlib.sha256(in_force.path.encode()).hexdigest()[:32]
    again = f"{SCHEMA}/{format_name(last, last, uuid, None)}"
    first = (in_force.path, again, "the schema of that time, as the newest one")
    return (first, *((path, path, "a schema") for path in paths))


def _commits(history: History, state: PastState, stand_ins: Mapping[str, bytes]) -> Iterator[Step]:
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
        yield put(uri, tile, "in force in the window")


def _made_before(there: Store, plan: Plan) -> Operation | None:
    """Find the operation that made the same clone; refuse a place with other files.

    Those of a clone that was broken off may stay.
    """
    try:
        found = {entry.path for entry in there.list_files()}
    except ArrayNotFoundError:
        return None
    made = next((one for one in list_operations(there) if one.command == "clone"), None)
    sources = [step.source.sizes if step.source else (step.path,) for step in plan.steps]
    others = sorted(path for path in found.difference(*sources) if operation_of(path) is None)
    lacks = any(one.op == "put" and one.path not in found for one in plan.steps)
    if made is not None and (others or lacks):
        problem = f"there is another clone already, made {time_text(made.at_ms)}"
        raise RefusedError(there.uri, f"{problem}; choose another place")
    if others:
        raise RefusedError(there.uri, f"expected an empty place, found {others[0]!r:.120}")
    return made
