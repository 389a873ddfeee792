"""One task of the pipeline.

In: a part of the fleet, and where the tables go. Out: files of all tables, written in one pass
over the part's arrays, and `Done`, which tells the driver about them. Rows of arrays that have
not changed are repeated from the last run; if nothing of a part has changed, the task writes no
file, and the store keeps those that it has. Memory is bounded: a row group is written as soon as it
is full, a file is put when it is large.

A task tries again the arrays that it could not read, at the end of the share, unless it could read
none. Of those that still fail it repeats the rows of an older run, and names them to the driver,
which commits nothing if they are too many. A task to which the storage gives nothing stops the run.
"""

from __future__ import annotations

import io
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronotile import __version__
from chronotile.check.findings import UNREADABLE, error_words, finding, may_pass
from chronotile.errors import ArrayNotFoundError, ChangedError, ChronotileError
from chronotile.fleet.array_tables import (
    MS,
    SCHEMAS,
    TIMESTAMP,
    findings_rows,
    gathered,
    operations_rows,
    tables_of_unreadable,
)
from chronotile.fleet.delta_store import (
    BUCKET,
    LISTINGS,
    PLAIN,
    STORED,
    URI,
    DataFile,
    Run,
    dressed,
    renamed,
    with_uri,
)
from chronotile.fleet.options import holds_all
from chronotile.fleet.read_share import in_order, members_of, open_place, read_array
from chronotile.fleet.run_summary import (
    MAX_UNREADABLE,
    Limit,
    UnreadArrays,
    check_limit,
)
from chronotile.fleet.shares import ListedArray, may_share, part_of
from chronotile.fleet.unchanged_arrays import NOTHING, Noted, is_unchanged, note
from chronotile.format.timestamps import now_ms
from chronotile.history.listing import folder_times
from chronotile.history.text_columns import TWIN
from chronotile.storage.place import MissingObjectError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from chronotile.check.findings import Finding
    from chronotile.fleet.array_tables import Piece
    from chronotile.fleet.delta_store import Output, StoreSnapshot
    from chronotile.fleet.find_arrays import Unlisted
    from chronotile.fleet.options import Options
    from chronotile.fleet.shares import Share
    from chronotile.storage.store import Store

    _Tables: TypeAlias = Mapping[str, Iterable[Piece]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderPart:
    """The rows that the store holds of the arrays of one part, as they are divided now."""

    output: Output
    files: tuple[DataFile, ...]
    """The files that may have rows of them."""
    part: int
    parts: int
    can_stay: bool
    """Whether the files have rows of no other arrays, so that they can stay as they are."""

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Read one table, a row group at a time, with the rows of the part's arrays alone."""
        store = self.output.store()
        for file in self.files:
            if file.table != name:
                continue
            opened = pq.ParquetFile(io.BytesIO(store.read(f"{file.table}/{file.path}")))
            for group in range(opened.num_row_groups):
                table = with_columns_of_now(name, opened.read_row_group(group))
                if not self.can_stay:
                    arrays = table[URI].to_pylist()
                    own = [part_of(array, self.parts) == self.part for array in arrays]
                    table = table.filter(pa.array(own, pa.bool_()))
                yield table

    def noted(self) -> dict[str, Noted]:
        """Read what is noted of each array."""
        noted = {}
        for table in self.tables(LISTINGS):
            columns = (table[name].to_pylist() for name in (URI, *Noted._fields))
            for array, *values in zip(*columns, strict=True):
                noted[array] = Noted(*values)
        return noted

    def read_in(self) -> dict[str, str]:
        """Give array -> the run that read it, of each array that there are rows of."""
        known: dict[str, str] = {}
        for table in self.tables("arrays"):
            table = table.filter(pc.field("commits").is_valid())
            known |= dict(zip(*(table[n].to_pylist() for n in (URI, "run_id")), strict=True))
        return known

    def rows(
        self, arrays: Collection[str], stale: Collection[str]
    ) -> Iterator[tuple[str, pa.Table]]:
        """Give each table with the rows of some arrays, as a later run repeats them."""
        wanted = pa.array([*arrays, *stale], pa.string())
        unread = pa.array([*stale], pa.string())
        for name in dict.fromkeys(file.table for file in self.files if file.table != "members"):
            for table in self.tables(name):
                rows = table.filter(pc.is_in(table[URI], wanted))
                if len(rows):
                    yield name, as_stale(name, rows, unread)


def older_part(output: Output, snapshot: StoreSnapshot, part: int, parts: int) -> OlderPart | None:
    """Give what the store holds of a part, as the fleet is divided now."""
    if snapshot.parts is None:
        return None
    files = [
        file
        for name in STORED
        for file in snapshot.files[name]
        if may_share(part, parts, file.part, snapshot.parts_of[name])
    ]
    return OlderPart(
        output=output,
        files=tuple(files),
        part=part,
        parts=parts,
        can_stay=parts == snapshot.parts and not snapshot.is_torn,
    )


def unchanged_here(output: Output, options: Options, most: int) -> dict[str, bool]:
    """Tell of each array that the store knows whether a few questions to a disk show no change.

    So a small fleet needs no task. Tell nothing of a store of more than `most` arrays.
    """
    asked, known = options.asked(__version__), {}
    for batch in output.rows(LISTINGS, [URI, *Noted._fields]):
        for array, *values in zip(*(column.to_pylist() for column in batch), strict=True):
            noted = Noted(*values)
            known[array] = noted.marks is not None and _is_same(
                open_store(array, options.storage_options), noted, options, asked, now_ms()
            )
            if len(known) > most:
                return {}
    return known


def _is_same(store: Store, noted: Noted, options: Options, asked: str, began_ms: int) -> bool:
    """Tell whether the rows of an array can be repeated."""
    # Cells can go bad while the listing stays the same.
    return (
        options.check != "deep"
        and holds_all(noted.asked, asked)
        and is_unchanged(store, noted, began_ms)
    )


def as_stale(name: str, table: pa.Table, stale: pa.Array) -> pa.Table:
    """Give rows of an older run as a later one repeats them, which could not read some arrays."""
    is_stale = pc.is_in(table[URI], stale)
    if name == "findings":
        # The later run has its own finding on the array itself.
        again = pc.and_(pc.equal(table["code"], UNREADABLE), pc.equal(table["path"], ""))
        return table.filter(pc.invert(pc.and_(is_stale, again)))
    if name == "arrays":
        fresh = pc.and_(is_stale, pc.is_null(table["stale"]))
        table = _with(table, "errors", pc.add(table["errors"], pc.cast(fresh, pa.int64())))
        return _with(table, "stale", pc.if_else(fresh, table["run_id"], table["stale"]))
    if name == LISTINGS:
        # Without a fingerprint the next run reads the array, whatever its listing is.
        nothing = pa.scalar(None, pa.string())
        for column in ("listing", "marks"):
            table = _with(table, column, pc.if_else(is_stale, nothing, table[column]))
    return table


def with_columns_of_now(name: str, table: pa.Table) -> pa.Table:
    """Give the rows of an older run, perhaps of an older version, with the columns of now.

    >>> with_columns_of_now("arrays", pa.table({"uri": ["a"]})).column_names[:2]
    ['uri', 'format_version']
    """
    schema = pa.schema([field for field in STORED[name] if field.name != BUCKET])
    whole = pa.concat_tables([schema.empty_table(), table], promote_options="default")
    return whole.select(schema.names).cast(schema)


def _with(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), column)


ROWS_IN_GROUP = 1 << 16
FILE_BYTES = 32 << 20
"""A file that has grown to this size is put, and another begun."""
_UNIQUE = frozenset({"name", "uuid", *MS, *(f"{name}{TWIN}" for name in MS)})
"""Columns whose values rarely repeat: a dictionary of them costs time and space."""
_DELTA = {
    pa.string(): "DELTA_LENGTH_BYTE_ARRAY",
    **dict.fromkeys((pa.int64(), TIMESTAMP), "DELTA_BINARY_PACKED"),
}
"""Their encodings: smaller than plain ones, and compressed in half the time."""


class PartWriter:
    """Takes rows of arrays, and writes files."""

    def __init__(self, run: Run, part: int) -> None:
        self._tables = {name: _OneTable(run, part, name) for name in STORED}

    def add(self, name: str, piece: Piece, *, again: bool = False) -> None:
        """Take rows of a table, which an older run may have written."""
        if len(piece):
            self._tables[name].add(piece, again=again)

    def close(self) -> tuple[DataFile, ...]:
        """Write the rest, and give all files."""
        return tuple(file for table in self._tables.values() for file in table.close())


class _OneTable:
    """The files of one table."""

    def __init__(self, run: Run, part: int, name: str) -> None:
        self._run, self._part, self._name = run, part, name
        # Delta keeps the column of a partition in its log.
        fields = [field for field in STORED[name] if field.name != BUCKET]
        self._schema = pa.schema(fields)
        self._repeated = [one.name for one in fields if one.name not in _UNIQUE]
        self._encodings = {one.name: _DELTA[one.type] for one in fields if one.name in _UNIQUE}
        self._new: list[Piece] = []
        self._again: list[Piece] = []
        self._rows_waiting = 0
        self._buffer: io.BytesIO | None = None
        self._file: pq.ParquetWriter | None = None
        self._files: list[DataFile] = []

    def add(self, piece: Piece, *, again: bool) -> None:
        (self._again if again else self._new).append(piece)
        self._rows_waiting += len(piece)
        if self._rows_waiting >= ROWS_IN_GROUP:
            self._write()
            if self._buffer is not None and self._buffer.tell() >= FILE_BYTES:
                self._put()

    def _write(self) -> None:
        """Write the rows that wait; an older run's rows have what a run adds."""
        if not self._rows_waiting:
            return
        new = gathered(PLAIN.get(self._name, self._schema), self._new)
        new = dressed(self._name, new, self._run.name, self._run.started_ms)
        if self._file is None:
            self._buffer = io.BytesIO()
            self._file = pq.ParquetWriter(
                self._buffer,
                self._schema,
                compression="zstd",
                use_dictionary=self._repeated,
                column_encoding=self._encodings,
            )
        table = pa.concat_tables([*self._again, new])
        self._file.write_table(table, row_group_size=ROWS_IN_GROUP)
        self._new, self._again, self._rows_waiting = [], [], 0

    def _put(self) -> None:
        if self._file is None or self._buffer is None:
            return
        self._file.close()
        data = self._buffer.getvalue()
        metadata = pq.read_metadata(pa.BufferReader(data))
        self._files.append(self._run.put(self._name, data, self._part, metadata))
        self._file, self._buffer = None, None

    def close(self) -> list[DataFile]:
        self._write()
        self._put()
        return self._files


AGAIN_S = 1.0
"""Seconds to wait before a task tries again the arrays that it could not read."""
UNREAD_MAX = 10_000
"""Unreadable arrays of which the driver hears by name; more of them end every run."""
BRAKE = 8
"""Arrays that a task tries before it stops, if it could read none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The work of one task."""

    share: Share
    options: Options
    run: Run
    older: OlderPart | None = None
    since_last: bool = False
    """Skip arrays that have not changed."""
    groups: tuple[str, ...] = ()
    """The groups of the part, whose members are looked up each time."""
    problems: tuple[Unlisted, ...] = ()
    """Folders that could not be listed: arrays below them are looked for in the last run."""
    given_up: Mapping[str, str] = field(default_factory=dict)
    """Array that is not tried -> why."""
    fresh_ms: int | None = None
    """With an inventory: look for commits that are newer than this."""
    fleet: int = 0
    """Arrays of the fleet, of which `limit` may be unreadable."""
    limit: Limit = MAX_UNREADABLE
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """Array -> its findings, if a check has them already."""

    @property
    def size(self) -> int:
        """The number of arrays."""
        return self.share.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The results of some tasks."""

    files: tuple[DataFile, ...] = ()
    changed: tuple[int, ...] = ()
    """Parts whose rows are replaced."""
    unchanged: int = 0
    unread: tuple[UnreadArrays, ...] = ()
    """Arrays that could not be read or listed: the first of them, if there are very many."""
    unread_count: int = 0
    hidden: int = 0
    """Those of them that only the store knows, as a folder could not be listed."""
    read: int = 0
    files_read: int = 0
    reads: int = 0

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Done:
        """Make a result of its JSON form."""
        lists = {
            "files": tuple(DataFile(*one) for one in document["files"]),
            "changed": tuple(document["changed"]),
            "unread": tuple(UnreadArrays(*one) for one in document["unread"]),
        }
        return cls(**{**document, **lists})


def sum_of(done: Iterable[Done]) -> Done:
    """Add what several tasks have done.

    >>> sum_of([Done(read=1, changed=(3,)), Done(read=2)])  # doctest: +ELLIPSIS
    Done(files=(), changed=(3,), ..., read=3, files_read=0, reads=0)
    """
    every = tuple(done)
    counts = ("unchanged", "unread_count", "hidden", "read", "files_read", "reads")
    sums = {name: sum(getattr(one, name) for one in every) for name in counts}
    return Done(
        files=tuple(file for one in every for file in one.files),
        changed=tuple(dict.fromkeys(part for one in every for part in one.changed)),
        unread=tuple(unread for one in every for unread in one.unread)[:UNREAD_MAX],
        **sums,
    )


def run_task(task: Task) -> Done:
    """Read the arrays of a part of the fleet, and write their rows of every table."""
    if task.run.is_stopped():
        return Done()
    return _PartReading(task).done()


class _PartReading:
    """One part, array by array."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._reads: list[str] = []
        self._writer = PartWriter(task.run, task.share.part)
        self._unchanged: list[str] = []
        self._noted: dict[str, Noted] = task.older.noted() if task.older is not None else {}
        self._asked = task.options.asked(__version__)

    def done(self) -> Done:
        task, older = self._task, self._task.older
        places = {place.uri: place for place in task.share.places(task.run)}
        failed = self._read(places)
        unread = {array: error_words(error) for array, error in failed.items() if may_pass(error)}
        for array, error in failed.items():
            if array not in unread:
                self._add(self._without(array, error))
        hidden = {
            array: f"{folder.uri} cannot be listed: {folder.message}"
            for folder in task.problems
            for array in self._noted
            if array.startswith(f"{folder.uri.rstrip('/')}/") and array not in places
        }
        unread |= task.given_up
        lost = {**unread, **hidden}
        members, again, is_same = self._members()
        is_same &= len(places) == len(self._unchanged) == len(self._noted) and not lost
        if is_same and older is not None and older.can_stay:
            return Done(unchanged=len(places))
        self._add({"members": members})
        for rows in again:
            self._writer.add("members", rows, again=True)
        self._repeat(unread, hidden)
        return Done(
            files=self._writer.close(),
            changed=(task.share.part,),
            unchanged=len(self._unchanged),
            unread=tuple(UnreadArrays(*pair) for pair in list(lost.items())[:UNREAD_MAX]),
            unread_count=len(lost),
            hidden=len(hidden),
            read=len(places) - len(self._unchanged) - len(unread) + len(task.given_up),
            files_read=len({*self._reads}),
            reads=len(self._reads),
        )

    def _members(self) -> tuple[list[pa.Table], list[pa.Table], bool]:
        """Look up the members of groups, and those that the store has of groups that refuse.

        Tells also whether they are those that the store has.
        """
        older, made, unread = self._task.older, [], []
        for group in self._task.groups:
            try:
                made.append(members_of(group, self._task.options, logs=False))
            except Exception as error:  # one bad group must not stop a fleet
                unread += [group] if may_pass(error) else []
        before = [] if older is None else [*older.tables("members")]
        kept = pa.array(unread, pa.string())
        again = [one.filter(pc.is_in(one["group"], kept)) for one in before]
        names = [one.name for one in with_uri(PLAIN["members"])]
        now = [*map(renamed, made), *again]
        rows = [
            sorted(repr(row) for one in some for row in one.select(names).to_pylist())
            for some in (now, before)
        ]
        return made, again, rows[0] == rows[1]

    def _repeat(self, unread: Mapping[str, str], hidden: Mapping[str, str]) -> None:
        """Write the rows that an older run has of unchanged and of unreadable arrays."""
        older, lost = self._task.older, {**unread, **hidden}
        read_in = older.read_in() if older is not None and lost else {}
        stale = [array for array in lost if array in read_in]
        if older is not None and (self._unchanged or stale):
            for name, rows in older.rows(self._unchanged, stale):
                self._writer.add(name, rows, again=True)
        blank = [
            {"array": array, "errors": 1, "warnings": 0, "infos": 0}
            for array in unread
            if array not in read_in
        ]
        for array, why in lost.items():
            of_run = "no run has its rows"
            if array in read_in:
                of_run = f"its rows are of run {read_in[array]}"
            item = finding(array, UNREADABLE, "", f"it cannot be read: {why}; {of_run}")
            self._writer.add("findings", findings_rows((item,)))
        self._writer.add("arrays", blank)
        self._writer.add(LISTINGS, [{URI: row["array"]} for row in blank])

    def _add(self, tables: _Tables) -> None:
        for name, pieces in tables.items():
            for piece in pieces:
                self._writer.add(name, piece)

    def _read(self, places: Mapping[str, ListedArray]) -> dict[str, Exception]:
        """Read arrays, and write their rows; return those that fail twice."""
        failed: dict[str, Exception] = {}
        waiting = tuple(places.values())
        for attempt in range(2):
            failed = {}
            for tried, (place, outcome) in enumerate(in_order(self._outcome, waiting), 1):
                if isinstance(outcome, Exception):
                    failed[place.uri] = outcome
                    refused = sum(map(may_pass, failed.values()))
                    if refused == tried > max(BRAKE, self._task.limit.of(self._task.fleet)):
                        self._stop(failed)
                elif outcome is None:
                    self._unchanged.append(place.uri)
                else:
                    self._add(outcome)
            # A list may miss what was just written: then an array looks as if it were gone.
            gone = any(not may_pass(error) for error in failed.values())
            if attempt or not failed or (len(failed) == len(waiting) and not gone):
                break
            time.sleep(AGAIN_S)
            waiting = tuple(places[array] for array in failed)
        return failed

    def _stop(self, failed: Mapping[str, Exception]) -> None:
        """Stop all tasks: the storage refuses everything, and the limit is passed."""
        task = self._task
        task.run.stop()
        unread = [UnreadArrays(array, error_words(error)) for array, error in failed.items()]
        check_limit(task.run.output.out, unread, task.fleet, task.limit)

    def _outcome(self, place: ListedArray) -> _Tables | Exception | None:
        """Read an array: its rows; None if it is unchanged; an error if another try may succeed."""
        try:
            if place.entries is not None:
                with suppress(MissingObjectError, ChangedError):
                    return self._tables(place)
            # The listing is not known, or outdated.
            return self._tables(ListedArray(place.uri))
        except Exception as error:  # one bad array must not stop a fleet
            if may_pass(error) or isinstance(error, ArrayNotFoundError):
                return error
            return self._without(place.uri, error)

    def _tables(self, listed: ListedArray) -> _Tables | None:
        options, began_ms = self._task.options, now_ms()
        place = open_place(listed, options, self._task.fresh_ms)
        store = place.store
        noted = self._noted.get(store.uri) if self._task.since_last else None
        if noted is not None and _is_same(store, noted, options, self._asked, began_ms):
            return None
        times = folder_times(store) if options.sizes else None
        store = store.watched(partial(self._note_read, store.uri))
        place = place._replace(store=store)
        tables = read_array(place, options, self._task.findings.get(store.uri))
        made = {name: tables.pieces(name) for name in SCHEMAS}
        listing = tables.log.history.listing
        if listing.has_operations:
            plain = open_store(store.uri, options.storage_options)
            made["operations"] = [operations_rows(plain)]
        made[LISTINGS] = [self._listing(store.uri, note(store, listing, began_ms, times))]
        return made

    def _note_read(self, array: str, operation: str, path: str) -> None:
        """Note a read of a file; threads call this, too."""
        if operation == "read":
            self._reads.append(f"{array}/{path}")

    def _listing(self, array: str, noted: Noted = NOTHING) -> Piece:
        """Make the row that the next run goes by."""
        return [{URI: array, **noted._replace(asked=self._asked)._asdict()}]

    def _without(self, array: str, error: Exception) -> _Tables:
        """Make the rows of an array that is damaged or gone."""
        if isinstance(error, ArrayNotFoundError) and self._is_gone(array):
            gone = "it is gone: it was there when the fleet was listed"
            item = finding(array, UNREADABLE, "", gone, severity="warning")
            return {"findings": [findings_rows((item,))], LISTINGS: [self._listing(array)]}
        whole = tables_of_unreadable(array, error)
        return {**{name: [whole[name]] for name in SCHEMAS}, LISTINGS: [self._listing(array)]}

    def _is_gone(self, array: str) -> bool:
        try:
            return not open_store(array, self._task.options.storage_options).exists()
        except ChronotileError:
            return False
