"""Compact: many small fragments become few.

In: an array, and how large fragments should be. Out: the plan: batches of fragments that the engine
merges aside (`merge_aside`), each shown in place of its sources in one step. Every window reads as
before; a vacuum then removes the sources.

For each batch, when the plan is carried out:

  1. look whether there is room; merge and prove it in a scratch folder. If the engine crashes or
     takes too much memory, each half is tried, and so on. What cannot be merged is left alone;
  2. look again: the sources must be there and visible. Put the merged fragment's folder, which no
     commit names yet; then its `.wrt`. Both it and its sources show: the same cells of the same
     times, so that every window reads as before;
  3. the switch: a `.vac` of its name hides the sources. Where duplicates are allowed, step 2 would
     show rows twice: there the `.vac` comes before the `.wrt` and hides the merged fragment itself,
     and the switch exchanges its content (a veil, see `change.transition`). A vacuum of the engine
     that looks between these two, and removes the `.vac` after all is done, shows rows twice; with
     the two the other way round, it would show none;
  4. look once more: if somebody else merged the same fragments, or a vacuum took the new one, the
     batch is taken back. If sources are gone by then, the merged fragment stays: it has their
     cells.

The name of the merged fragment has the true first and last time of its sources (F4).
"""

from __future__ import annotations

import json
import os
import shutil
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from chronotile.change.compact_batches import (
    Batch,
    Choice,
    Part,
    choose_dense,
    choose_sparse,
    size_bytes,
)
from chronotile.change.kept_windows import doubtful, kept_windows
from chronotile.change.operations import (
    SCRATCH,
    find_other,
    list_operations,
    may_be_running,
    read_operation,
)
from chronotile.change.plan import Plan, Report, Seen, Source, Stage, Step, put
from chronotile.change.sound_array import sound_history, write_version
from chronotile.change.transition import Effect, copy_step
from chronotile.check.conditions import text_or_name
from chronotile.check.engine_open_cost import FooterCounts, consolidated_fragments, open_cost
from chronotile.check.findings import RefusedError, count_text
from chronotile.check.tags import tags_of
from chronotile.conditions.stored_conditions import is_harmless
from chronotile.conditions.tree import fields
from chronotile.errors import ChangedError, ChronotileError, WrongCallError, option
from chronotile.format.cell_values import from_json
from chronotile.format.commit_files import (
    FIRST_WITH_COMMITS,
    decode_vac,
    encode_exchanged,
    encode_lines,
    write_uri,
)
from chronotile.format.fragment_footer import METADATA
from chronotile.format.fragment_metadata import decode_metadata
from chronotile.format.fragment_size import axis_of
from chronotile.format.kinds import COMMITS, CONDITIONS, FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, NEWEST_VERSION, new_name, parse_name, try_parse
from chronotile.format.timestamps import duration_ms, now_ms, time_text
from chronotile.history.fragment_facts import read_facts
from chronotile.history.read_history import read_history
from chronotile.rows.engine import TIMES, require_engine
from chronotile.rows.merge_aside import (
    EngineDiedError,
    MergeError,
    NoMemoryError,
    NoSpaceError,
    allowed_memory,
    merge_aside,
)
from chronotile.safe_text import shell_word
from chronotile.storage.store import MissingObjectError
from chronotile.storage.transfer import ScratchFolder, sweep_scratch
from chronotile.visibility.rules import TIMESTAMPED_CELLS, Rules
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from chronotile.dataset.over_members import GroupReport
    from chronotile.format.schema import Field
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.rows.merge_aside import Merged
    from chronotile.storage.store import Store
    from chronotile.visibility.view import Delete

R = TypeVar("R", bound="Report | GroupReport")
_LEAST_MEMORY = 300_000_000
_MOST_SPANS = 5
"""Batches whose times a note tells."""
_YOUNG = "its files are younger than"
_FACTS = 10_000
"""Fragments whose facts are objects of Python at a time."""


@dataclass(frozen=True, slots=True)
class CompactProgress:
    """How far a run is."""

    batches: int
    of_batches: int
    cells: int
    of_cells: int
    seconds_left: float | None
    """None before the first batch is done."""


def plan_compact(
    store: Store,
    key: bytes | None,
    *,
    target_bytes: int | str = "1GB",
    max_memory: int | str | None = None,
    quiet: str | float = "10m",
    purge: bool = False,
    compare: bool = True,
    keep: Iterable[Moment] = (),
    scratch: str | None = None,
    on_progress: Callable[[CompactProgress], None] | None = None,
    group_tags: Mapping[str, int] | None = None,
) -> Plan:
    """Plan to merge small fragments; see `Handle.compact`."""
    from chronotile.show.output import size_text

    require_engine()
    target = size_bytes(target_bytes, "target_bytes")
    memory = max(allowed_memory() // 4, _LEAST_MEMORY)
    if max_memory is not None:
        memory = size_bytes(max_memory, "max_memory")
    if memory < _LEAST_MEMORY:
        problem = f"{size_text(memory)} is too little for TileDB"
        raise WrongCallError("max_memory", f"{problem}; give at least {size_text(_LEAST_MEMORY)}")
    calm = duration_ms(quiet, "quiet") if isinstance(quiet, str) else int(quiet * 1000)
    _refuse_second(store)
    history, rules = sound_history(store, key)
    write_version(history)
    tags = tags_of(store, history)
    kept = kept_windows(store, history, tags, keep, group_tags=group_tags or {})
    age = quiet if isinstance(quiet, str) else f"{quiet:g} seconds"
    parts, left = _candidates(store, history, rules, now_ms() - calm, f"{_YOUNG} {age}")
    conditions = _Conditions(rules, purge=purge)
    left |= {name: why for name, why in conditions.refused(parts, history) if name not in left}
    duplicates = any(one.schema and one.schema.allows_duplicates for one in history.schemas)
    if history.dense:
        schema = history.schemas[-1].schema
        axes = [axis_of(one, store.uri) for one in schema.dimensions] if schema else []
        spans = [(one.first, one.last) for one in kept]
        choice = choose_dense(parts, left, target, axes=axes, kept=spans)
    else:
        choice = choose_sparse(parts, left, target, duplicates=duplicates)
    run = _Run(
        store=store,
        key=key,
        history=history,
        duplicates=duplicates,
        conditions=conditions,
        memory=memory,
        purge=purge,
        compare=compare,
        scratch=scratch,
        total=choice.batches,
        on_progress=on_progress,
    )
    merges = [_BatchMerge(run, batch, run.new_name(batch)) for batch in choice.batches]
    notes = [*doubtful(tags)] if history.dense else []
    if history.dense and choice.batches:
        times = [f"{batch.t1} to {batch.t2}" for batch in choice.batches[:_MOST_SPANS]]
        if (more := len(choice.batches) - _MOST_SPANS) > 0:
            times.append(f"and of {more:,} more")
        notes.append(f"after a vacuum no read sees the array whole inside of {', '.join(times)}")
    facts = _facts(choice, parts, run)
    return Plan(
        command="compact",
        array=store.uri,
        stages=tuple(merge.planned() for merge in merges),
        notes=(*notes, *_notes(facts, store.uri)),
        losses=tuple(conditions.losses(choice.batches)) if purge else (),
        engine_open_requests=_requests(store, rules, merges),
        facts=facts,
    )


def with_vacuum(report: R, remove: Callable[[], R], *, wanted: bool) -> R:
    """Remove the sources of what was merged, if that is wanted, and say what is held twice."""
    from chronotile.show.output import size_text

    reports = [report] if isinstance(report, Report) else [o.report for o in report.outcomes]
    held = sum(_held_twice(one) for one in reports if one is not None)
    if not held:
        return report
    place = shell_word(report.array if isinstance(report, Report) else report.group)
    if wanted and not report.dry_run:
        return _with_removed(report, remove())
    if wanted:
        words = f"then {size_text(held)} of sources would be removed: there is no way back"
    else:
        words = (
            f"{size_text(held)} {'would be' if report.dry_run else 'are'} held twice, so that undo "
        )
        words += "works; to remove the sources, and to give up undo: "
        words += f"chronotile vacuum {place} --mode fragments"
    return replace(report, notes=(*report.notes, words))


def _with_removed(report: R, removed: R) -> R:
    """Add what a vacuum removed to the report of a compact: then neither can be undone."""
    if isinstance(report, Report) and isinstance(removed, Report):
        return replace(
            report,
            steps=(*report.steps, *removed.steps),
            notes=(*report.notes, *removed.notes),
            engine_open_requests=_requests_with(report, removed),
        )
    of_path = {} if isinstance(removed, Report) else {o.path: o.report for o in removed.outcomes}
    if isinstance(report, Report):
        return report
    outcomes = tuple(
        one
        if one.report is None or (more := of_path.get(one.path)) is None
        else replace(one, report=_with_removed(one.report, more))
        for one in report.outcomes
    )
    words = f"then vacuumed: {removed.summary()}"
    return replace(report, outcomes=outcomes, notes=(*report.notes, words))


def _requests_with(report: Report, removed: Report) -> tuple[int, int] | None:
    """Give the requests of an open before a compact, and after the vacuum that followed it."""
    if report.engine_open_requests is None or removed.engine_open_requests is None:
        return report.engine_open_requests
    return report.engine_open_requests[0], removed.engine_open_requests[1]


def _held_twice(report: Report) -> int:
    """Count the bytes of the fragments that are hidden, or would be."""
    sources = (part for batch in report.facts.get("batches", ()) for part in batch["fragments"])
    hidden = {*report.hidden}
    return sum(part["bytes"] for part in sources if report.dry_run or part["name"] in hidden)


def _refuse_second(store: Store) -> None:
    """Refuse if another compact is under way: both would merge the same fragments."""
    for operation in list_operations(store):
        if operation.state == "begun" and operation.command == "compact":
            with suppress(MissingObjectError):
                if may_be_running(operation, read_operation(store, operation)):
                    problem = f"expected no other compact, found {operation.id} under way"
                    raise RefusedError(store.uri, f"{problem}; try again when it has ended")


def _candidates(
    store: Store, history: History, rules: Rules, before_ms: int, too_young: str
) -> tuple[list[Part], dict[str, str]]:
    """Give the visible fragments as parts of batches, in time order, and why some must stay."""
    table, dense = history.table, history.dense
    rows = rules.visible(0, MAX_TIMESTAMP)[0].tolist()
    paths = {table.name(row): table.fragment_path(row) for row in rows}
    schemas = {item.text: item.schema for item in history.schemas}
    dimensions = next(schema.dimensions for schema in schemas.values() if schema is not None)
    young, now = _young(store, history, rows, before_ms), now_ms()
    parts: list[Part] = []
    left: dict[str, str] = {}
    for batch in read_facts(store, history, names=paths).to_batches(_FACTS):
        for fact in batch.to_pylist():
            name = fact["name"]
            domain = None if fact["domain"] is None else json.loads(fact["domain"])
            part = Part(
                name,
                fact["t1"],
                fact["t2"],
                fact["cells"] or 0,
                fact["bytes"] or 0,
                fact["schema"] or "",
                _box(domain, dimensions) if dense else (),
                tuple(fact["applied_deletes"] or ()),
                domain,
            )
            parts.append(part)
            why = _why_not(fact, paths[name], dense=dense)
            if why is None and part.t2 > now:
                why = "its time is still to come, and TileDB merges up to now"
            if why is None and name in young:
                why = too_young
            if why is None and not dense and fact["has_timestamps"]:
                why = _misnamed(store, history, part, paths[name])
            if why is not None:
                left[name] = why
    return sorted(parts, key=lambda part: (part.t1, part.t2, part.name)), left


def _young(store: Store, history: History, rows: Sequence[int], before_ms: int) -> set[str]:
    """Find the fragments that were written after a moment, by the age of files."""
    entries = store.list_dir(COMMITS, sizes=True).files
    recent = {e.path for e in entries if e.modified_ms is None or e.modified_ms > before_ms}
    table, young = history.table, set()
    for row in rows if recent else ():
        if table.path(row) in recent:
            # A young `.con` may hold old writes.
            is_loose = table.is_loose(row)
            newest = None if is_loose else store.newest_ms(table.fragment_path(row))
            if newest is None or newest > before_ms:
                young.add(table.name(row))
    return young


def _misnamed(store: Store, history: History, part: Part, path: str) -> str | None:
    """Say why a merged fragment must stay: its name does not cover its cells (F4)."""
    (schema,) = (item.schema for item in history.schemas if item.text == part.schema)
    assert schema is not None  # its footer was read by it
    try:
        data = store.read(f"{path}/{METADATA}")
        metadata = decode_metadata(data, schema, path, key=history.key)
    except ChronotileError as error:
        return f"its metadata cannot be read: {error.problem}"
    for one in metadata.fields:
        if one.name == TIMES and one.statistics is not None:
            least = int.from_bytes(one.statistics.least, "little")
            largest = int.from_bytes(one.statistics.largest, "little")
            if part.t1 <= least and largest <= part.t2:
                return None
    return "its name does not cover the times of its cells, and windows go by the name (F4)"


def _why_not(fact: Mapping[str, Any], path: str, *, dense: bool) -> str | None:
    """Say why a fragment cannot be merged whatever is around it; None if it can."""
    first = FIRST_WITH_COMMITS if dense else TIMESTAMPED_CELLS
    if fact["version"] > NEWEST_VERSION:
        return f"its format version is later than {NEWEST_VERSION}, the last that is known here"
    if fact["version"] < first or "/" not in path:
        return f"its format version is before {first}: a merged fragment would keep no times"
    if fact["metadata"] is None:
        return "its metadata cannot be read"
    return None if fact["cells"] else "it has no cells"


def _box(
    domain: list[list[Any]] | None, dimensions: Sequence[Field]
) -> tuple[tuple[int, int], ...]:
    """Give the first and the last tile of a domain, by dimension; all, if nobody knows."""
    axes = [axis_of(one, one.name) for one in dimensions]
    if domain is None:
        return tuple((0, (axis.last - axis.first) // axis.extent) for axis in axes)
    boxes = []
    for axis, one, pair in zip(axes, dimensions, domain, strict=True):
        low, high = (from_json(one, value) for value in pair)
        assert isinstance(low, int)
        assert isinstance(high, int)
        boxes.append(((low - axis.first) // axis.extent, (high - axis.first) // axis.extent))
    return tuple(boxes)


class _Conditions:
    """The deletes and updates of an array, and those that a merge is handed."""

    def __init__(self, rules: Rules, *, purge: bool) -> None:
        self.purge, self.now = purge, now_ms()
        self.commits: dict[str, tuple[Delete, bytes]] = {}
        """File name -> the commit, and its bytes."""
        table = rules.history.table
        for commit, row in tile_commits(rules, MAX_TIMESTAMP):
            file = table.uri(row).rpartition("/")[2]
            self.commits[file] = commit, bytes(table.tile(row)[0])
        updates = [file for file, _ in self._acting() if file.endswith(".upd")]
        if purge and updates:
            array = rules.history.array
            problem = f"a purge would lose the rows of the update {updates[0]}: TileDB takes it for"
            problem += " a delete; nothing was changed"
            hint = (
                f"to write them with their new values first: chronotile apply {shell_word(array)}"
            )
            raise RefusedError(array, f"{problem}; {hint}")

    def handed(self, batch: Batch) -> dict[str, bytes]:
        """Give the files of a scratch array: those that a source has applied; for a purge, all."""
        files = {file for part in batch.parts for file in map(_file, part.applied)}
        if self.purge:
            files |= {file for file, commit in self.purged() if commit.t1 >= batch.t1}
        return {file: self.commits[file][1] for file in sorted(files) if file in self.commits}

    def purged(self) -> Iterator[tuple[str, Delete]]:
        """Give the deletes that a purge carries out: those of the future hide nothing yet."""
        return (item for item in self._acting() if item[1].t2 <= self.now)

    def _acting(self) -> Iterator[tuple[str, Delete]]:
        """Give the deletes and updates that may match a row: all but stand-ins."""
        for file, (commit, _) in self.commits.items():
            if commit.schema is None or not is_harmless(commit.stored, commit.schema):
                yield file, commit

    def refused(self, parts: Sequence[Part], history: History) -> Iterator[tuple[str, str]]:
        """Find the fragments that cannot be purged: a delete names what their schema lacks."""
        if not self.purge:
            return
        known = {
            item.text: {one.name for one in item.schema.fields}
            for item in history.schemas
            if item.schema is not None
        }
        needed = [(c.t2, c.name, {*fields(c.stored)}) for _, c in self.purged()]
        for part in parts:
            lacking = [
                name
                for t2, name, wanted in needed
                if t2 >= part.t1 and not wanted <= known.get(part.schema, set())
            ]
            if lacking:
                yield part.name, f"the delete {lacking[0]} names fields that its schema lacks (F15)"

    def losses(self, batches: Sequence[Batch]) -> Iterator[str]:
        """Say which windows lose which rows by a purge."""
        for _, commit in self.purged():
            reached = [batch for batch in batches if batch.t1 <= commit.t1]
            if reached:
                since = min(batch.t1 for batch in reached)
                yield (
                    f"windows that end from {since} to before {commit.t1} ({time_text(commit.t1)}) "
                    f"lose the rows that {text_or_name(commit)} deletes, and older cells of the "
                    "same places; nothing brings them back after a vacuum"
                )


def _file(applied: str) -> str:
    return applied if applied.endswith(".upd") else f"{applied}.del"


@dataclass(kw_only=True)
class _Run:
    """One run, which its batches share."""

    store: Store = field(repr=False)
    key: bytes | None = field(repr=False)
    history: History = field(repr=False)
    duplicates: bool
    """Whether the array allows them."""
    conditions: _Conditions = field(repr=False)
    memory: int
    purge: bool
    compare: bool
    scratch: str | None
    total: tuple[Batch, ...] = field(repr=False)
    on_progress: Callable[[CompactProgress], None] | None = None
    ours: set[str] = field(default_factory=set)
    """Names of commit files and fragments that it puts."""
    folders: list[str] = field(default_factory=list)
    done: list[Batch] = field(default_factory=list)
    begun: float | None = None

    def __post_init__(self) -> None:
        self.known = frozenset(self.history.listing.commits)
        # A run that fails leaves no scratch folder; that of a killed one goes with the next run.
        weakref.finalize(self, _remove_all, self.folders)

    def new_name(self, batch: Batch) -> str:
        """Name a merged fragment by the true times of its sources."""
        (version,) = {
            item.schema.version
            for item in self.history.schemas
            if item.schema is not None and item.text == batch.parts[0].schema
        }
        name = new_name(batch.t1, batch.t2, version)
        self.ours |= {name, f"{name}.wrt", f"{name}.vac"}
        return name

    def new_scratch(self, store: Store) -> ScratchFolder:
        """Make a scratch folder, and remove those that killed runs have left."""
        inside = self.scratch
        if inside is not None:
            Path(inside).mkdir(parents=True, exist_ok=True)
        elif store.local_path is not None:
            # Links need the disk of the array; without a record its own folder may be closed.
            own = store.local_path / SCRATCH
            with suppress(OSError):
                own.mkdir(parents=True, exist_ok=True)
                inside = str(own) if os.access(own, os.W_OK) else None
        sweep_scratch(inside)
        folder = ScratchFolder(inside)
        self.folders.append(folder.root)
        return folder

    def scratch_bytes(self, batch: Batch) -> int:
        """Estimate the space that a merge takes: sources, unless they are links, and the result."""
        is_linked = self.store.traits.has_links and self.scratch is None
        return int(batch.size * (1.1 if is_linked else 2.2)) + (16 << 20)

    def refuse_no_room(self, batch: Batch) -> None:
        """Refuse a batch for which the scratch folder's disk has no room.

        Raises:
            NoSpaceError: It has none.
        """
        needed, where = self.scratch_bytes(batch), self.folders[-1]
        free = shutil.disk_usage(where).free
        if free < needed:
            problem = f"expected {needed:,} bytes of room, found {free:,}"
            raise NoSpaceError(
                where, f"{problem}; to take another disk, add {option('scratch', 'DIR')}"
            )

    def tell(self, batch: Batch) -> None:
        """Tell how far it is, after a batch."""
        self.done.append(batch)
        if self.on_progress is None:
            return
        cells, every = (sum(one.cells for one in some) for some in (self.done, self.total))
        spent = time.monotonic() - (self.begun or time.monotonic())
        left = spent * (every - cells) / cells if cells else None
        count = len(self.total)
        self.on_progress(CompactProgress(min(len(self.done), count), count, cells, every, left))


def _remove_all(folders: list[str]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class _BatchMerge:
    """A look that merges one batch, and gives the stages that show the result."""

    run: _Run
    batch: Batch
    name: str

    def planned(self) -> Stage:
        """Give the stage: steps as a dry run tells them, which the look replaces."""
        batch, folder = self.batch, f"{FRAGMENTS}/{self.name}"
        words = f"{len(batch.parts):,} fragments, {batch.cells:,} cells, {batch.size:,} bytes"
        domain = f", domain {json.dumps(batch.domain)}" if batch.domain else ""
        reason = f"merges {words}, {batch.t1} to {batch.t2}{domain}: {batch.why}"
        source = Source(None, {}, {})
        return Stage(
            name=f"merge of {len(batch.parts)} fragments",
            looks=(self,),
            steps=(
                Step(op="write", path=folder, size=None, reason=reason, source=source),
                put(write_uri(self.name), b"", "commits it"),
                put(_vac(self.name), _lines(batch.names), f"hides {len(batch.parts):,} fragments"),
            ),
        )

    def __call__(self, store: Store) -> Seen:
        """Merge the batch, or parts of it that go through; return what shows them."""
        run, planned = self.run, frozenset(step.path for step in self.planned().steps)
        run.begun = run.begun or time.monotonic()
        stages: list[Stage] = []
        notes: list[str] = []
        hides: list[str] = []
        waiting = [self.batch]
        while waiting:
            batch = waiting.pop(0)
            try:
                merged = self._merged(store, batch)
            except (EngineDiedError, NoMemoryError) as error:
                halves = batch.halves()
                waiting = [*halves, *waiting]
                if len(halves) < 2:
                    notes.append(_left(batch, error.problem))
            except (MergeError, ChangedError) as error:
                notes.append(_left(batch, error.problem))
            else:
                name = self.name if batch is self.batch else run.new_name(batch)
                stages += _Exchange(run, batch, merged, name).stages()
                hides += batch.names
                if run.purge:
                    gone = merged.source_cells - merged.cells
                    notes.append(f"the purge took {count_text(gone, 'cell')} out of {name}")
        return Seen(leave=planned, stages=tuple(stages), notes=tuple(notes), hides=tuple(hides))

    def _merged(self, store: Store, batch: Batch) -> Merged:
        run = self.run
        scratch = run.new_scratch(store)
        try:
            run.refuse_no_room(batch)
            return merge_aside(
                store,
                run.history,
                batch.names,
                scratch,
                memory=run.memory,
                deletes=run.conditions.handed(batch),
                purge=run.purge,
                compare=run.compare,
            )
        except ChronotileError:
            _remove_all([scratch.root])
            raise


def _left(batch: Batch, problem: str) -> str:
    return f"{batch.names[0]} and {len(batch.parts) - 1:,} more are left alone: {problem}"


def _vac(name: str) -> str:
    return f"{COMMITS}/{name}.vac"


def _lines(names: Iterable[str]) -> bytes:
    return encode_lines(f"/{FRAGMENTS}/{name}" for name in names)


class _Exchange:
    """One merged fragment that is shown in place of its sources."""

    def __init__(self, run: _Run, batch: Batch, merged: Merged, name: str) -> None:
        self.run, self.batch, self.name, self.merged = run, batch, name, merged
        self.folder, self.problem, self.is_begun = f"{FRAGMENTS}/{name}", "", False
        copy = copy_step(merged.store, run.store, merged.folder, name)
        words = f"{count_text(merged.cells, 'cell')} of {len(batch.parts):,} fragments"
        self.copy = replace(copy, reason=f"{words}, {batch.t1} to {batch.t2}: {batch.why}")
        hides = f"hides {len(batch.parts):,} fragments"
        wrt, vac, lines = put(write_uri(name), b"", "commits it"), _vac(name), _lines(batch.names)
        self.commit: tuple[Step, ...] = (wrt,)
        self.switch = put(vac, lines, hides)
        if run.duplicates:
            veil = _lines([name])
            self.commit = (put(vac, veil, "hides the new fragment until all is there"), wrt)
            data = encode_exchanged(decode_vac(lines, vac), veil)
            self.switch = Step(
                op="replace", path=vac, size=len(data), reason=hides, data=data, old=veil
            )

    def stages(self) -> Iterator[Stage]:
        """Give the stages, in the order of the module's text."""
        for steps in ((self.copy,), self.commit, (self.switch,)):
            look = partial(self.before, steps)
            yield Stage(name="publication", looks=(look,), steps=steps)
        yield Stage(name="confirmation", looks=(self.after,))

    def before(self, steps: tuple[Step, ...], store: Store) -> Seen | None:
        """Look whether the sources are as they were planned; leave the stage if they are not."""
        is_first = steps[0] is self.copy
        # The record says by now that the array is about to change: whoever comes later is refused.
        if is_first and (other := find_other(store, "compact")) is not None:
            self.problem = f"{other.command} {other.id} is under way"
        self.problem = self.problem or self._disturbed(store, is_there=not is_first)
        if steps[0] is self.switch and not self.problem and not self._is_veiled(store):
            self.problem = "a vacuum removed its .vac"
        if self.problem:
            return Seen(leave=frozenset(step.path for step in steps))
        self.is_begun = steps[0] is self.switch
        return None

    def after(self, store: Store) -> Seen:
        """Look whether the switch holds; take all back if it does not, and that loses nothing."""
        _remove_all([str(Path(self.merged.store.uri).parent)])
        batch = self.batch
        if self.is_begun:
            rival = self._rival(store)
            self.problem = "" if rival is None else rival[0]
            if self._gone(store):
                # A vacuum has taken our word for it: the merged fragment may be all there is.
                self.problem = self.problem if rival is not None and rival[1] else ""
            elif not self._is_switched(store):
                self.problem = "somebody took the change back"
            elif not self._is_whole(store):
                self.problem = "a vacuum removed the merged fragment"
        if not self.problem:
            self.run.tell(batch)
            return Seen(added=(write_uri(self.name),), hidden=batch.names)
        stage = Stage(name="taken back", folders=(self.folder,))
        return Seen(steps=self._back(store), stages=(stage,), notes=(_left(batch, self.problem),))

    def _back(self, store: Store) -> tuple[Step, ...]:
        """Give the steps that show the sources again, and take the merged fragment out."""
        switch, wrt = self.switch, write_uri(self.name)
        if switch.op == "replace" and self._is_switched(store):
            with suppress(ChangedError):  # Gone: then nothing hides the sources.
                veil = encode_exchanged(decode_vac(switch.old, switch.path), switch.data)
                store.exchange(switch.path, switch.data, veil)
        listed = set(store.list_names(COMMITS).files)
        order = (wrt, switch.path) if switch.op == "replace" else (switch.path, wrt)
        return tuple(
            Step(op="remove", path=path, size=None, reason="taken back")
            for path in order
            if path.rpartition("/")[2] in listed
        )

    def _disturbed(self, store: Store, *, is_there: bool) -> str:
        """Say what somebody else has done to the sources, or to the merged fragment."""
        if gone := self._gone(store):
            return f"{gone[0]} has gone meanwhile"
        history = self._changed(store)
        visible = {*self.batch.names} if history is None else _visible(history)
        hidden = [name for name in self.batch.names if name not in visible]
        if hidden:
            return f"{hidden[0]} is out of sight: somebody merged or hid it"
        if (rival := self._rival(store)) is not None:
            return rival[0]
        is_whole = not is_there or self._is_whole(store)
        return "" if is_whole else "somebody removed the merged fragment"

    def _is_whole(self, store: Store) -> bool:
        assert self.copy.source is not None
        found = {entry.path: entry.size for entry in store.list_prefix(self.folder)}
        return found == dict(self.copy.source.sizes)

    def _is_veiled(self, store: Store) -> bool:
        """Tell whether the `.vac` hides the new fragment, where duplicates are allowed."""
        with suppress(MissingObjectError):
            return self.switch.op == "put" or store.read(self.switch.path) == self.switch.old
        return False

    def _is_switched(self, store: Store) -> bool:
        with suppress(MissingObjectError):
            return store.read(self.switch.path) == self.switch.data
        return False

    def _gone(self, store: Store) -> list[str]:
        folders = set(store.list_names(FRAGMENTS).folders)
        return [name for name in self.batch.names if name not in folders]

    def _changed(self, store: Store) -> History | None:
        """Read the history once more, if other commits than writes and deletes came or went."""
        listed = set(store.list_names(COMMITS).files)
        fresh = listed - self.run.known - self.run.ours
        if self.run.known <= listed and all(file.endswith((".wrt", *CONDITIONS)) for file in fresh):
            return None
        return read_history(store, key=self.run.key)

    def _rival(self, store: Store) -> tuple[str, bool] | None:
        """Say who else merges, or has merged, the same fragments, and if that one has them all."""
        run, batch, sources = self.run, self.batch, {*self.batch.names}
        history = self._changed(store)
        for vacuum in history.vacuums if history is not None else ():
            if vacuum.path != self.switch.path and not sources.isdisjoint(vacuum.targets):
                has_all = sources <= {*vacuum.targets}
                has_all &= history is not None and vacuum.name.text in _visible(history)
                return f"{vacuum.path} hides the same fragments", has_all
        folders = set(store.list_names(FRAGMENTS).folders)
        news = sorted(folders - {*run.history.listing.fragments} - run.ours)
        commits = set(store.list_names(COMMITS).files) - run.known - run.ours
        names = map(try_parse, (*news, *(file.rpartition(".")[0] for file in commits)))
        if run.history.dense and any(name.t1 <= batch.t2 for name in names if name):
            return "a write of an earlier time came meanwhile", False
        effect = Effect(tuple(map(parse_name, batch.names)))
        for text in news:
            if effect.why_in_the_way(text) is not None:
                return f"{text} came meanwhile: somebody else merges the same fragments", False
        return None


def _visible(history: History) -> set[str]:
    rows = Rules(history).visible(0, MAX_TIMESTAMP)[0].tolist()
    return set(map(history.table.name, rows))


def _notes(facts: Mapping[str, Any], uri: str) -> Iterator[str]:
    """Say what the plan gives and costs, and what it leaves alone."""
    from chronotile.show.output import size_text

    cost, count = facts["cost"], facts["fragments"]
    if facts["batches"]:
        cells = count_text(sum(batch["cells"] for batch in facts["batches"]), "cell")
        yield (
            f"{count['before']:,} visible fragments become {count['after']:,}; this reads {cells}, "
            f"{size_text(cost['bytes_read'])}, and takes {size_text(cost['scratch_bytes'])} of "
            f"temporary files; its memory is limited to {size_text(cost['memory_bytes'])} "
            "(--max-memory)"
        )
    for one in facts["left"]:
        names = one["fragments"]
        such = f", such as {names[0]}" if len(names) > 1 else f" ({names[0]})"
        why = one["why"]
        if why.startswith(_YOUNG):
            why += f"; to merge them now: chronotile compact {shell_word(uri)} --quiet 0s"
        yield f"{count_text(len(names), 'fragment')} left alone{such}: {why}"


def _facts(choice: Choice, parts: Sequence[Part], run: _Run) -> dict[str, Any]:
    """Give the plan as JSON: batches, what is left alone, costs."""
    merged = sum(len(batch.parts) for batch in choice.batches)
    return {
        "batches": [
            {
                "why": batch.why,
                "cells": batch.cells,
                "bytes": batch.size,
                "t1": batch.t1,
                "t2": batch.t2,
                "domain": batch.domain,
                "fragments": [
                    {
                        "name": part.name,
                        "cells": part.cells,
                        "bytes": part.size,
                        "t1": part.t1,
                        "t2": part.t2,
                        "domain": part.domain,
                    }
                    for part in batch.parts
                ],
            }
            for batch in choice.batches
        ],
        "left": [{"why": why, "fragments": names} for why, names in choice.left.items()],
        "fragments": {"before": len(parts), "after": len(parts) - merged + len(choice.batches)},
        "cost": {
            "bytes_read": sum(batch.size for batch in choice.batches),
            "scratch_bytes": max(map(run.scratch_bytes, choice.batches), default=0),
            "memory_bytes": run.memory,
        },
    }


def _requests(store: Store, rules: Rules, merges: Sequence[_BatchMerge]) -> tuple[int, int] | None:
    """Count the requests of an open before and after: until a vacuum it reads each `.vac`."""
    if not merges:
        return None
    held = consolidated_fragments(store, rules.history)
    if held is None:
        return None
    first = open_cost(rules, held)
    gone = [name for merge in merges for name in merge.batch.names]
    new, counts = len(merges), first.fragments
    single = sum(name not in held.fragments for name in gone)
    after = FooterCounts(
        counts.visible - len(gone) + new, counts.unconsolidated - single + new, counts.mergeable
    )
    put = {path: 0 for one in merges for path in (write_uri(one.name), _vac(one.name))}
    return first.requests, replace(first, fragments=after).after(put, {}).requests
