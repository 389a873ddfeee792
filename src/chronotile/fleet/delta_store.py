"""The store of a fleet's tables: a Delta table each, in one folder.

In: Parquet files that tasks have written, by table and part of the fleet. Out: commits, and the
files of each table at the version that a run begins with. `deltalake` commits, without a jar;
retention and vacuum are Delta's own.

    DIR/<table>/bucket=<n>/….parquet     the rows of the arrays of one part
    DIR/<table>/_delta_log               which files count
    DIR/_chronotile/<run>                plans and results of a run; removed when it ends

A part of the fleet is a `bucket` in a table: tables are partitioned by it, so that a later run
replaces the rows of a part whatever somebody's OPTIMIZE has made of its files. A run commits each
table once a wave, between two commits to `listings`: the first one begins the wave, the last one
completes it. If a run dies in between, the next one trusts no listing, reads every array, and
replaces all rows. Each commit is a transaction of one application, whose version is the run's
start: Delta refuses the second of two drivers that commit at once. A run begins a wave only if no
other run has begun one since it looked.

`run_id` and `run_at` name the run that read a row. A later run that repeats the row, as the array
has not changed or cannot be read, leaves them as they are.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from chronotile.errors import ArrayNotFoundError, ChronotileError, StorageError
from chronotile.fleet import array_tables
from chronotile.fleet.array_tables import SCHEMAS, TIMESTAMP, columns, twinned, with_twins
from chronotile.format.timestamps import now_ms
from chronotile.storage.place import find_place, options_at, with_secrets
from chronotile.storage.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    from chronotile.fleet.run_summary import Summary


_RUN = [pa.field("run_id", pa.string()), pa.field("run_at", TIMESTAMP)]
_BUCKET = pa.field("bucket", pa.int64())

URI = "uri"
"""What the tables call the array: `array`, as the data source says, is reserved in SQL dialects."""

PLAIN: dict[str, pa.Schema] = {
    **SCHEMAS,
    "members": array_tables.TABLES["members"],
    "operations": array_tables.TABLES["operations"],
}
"""Table -> its columns, without what a run adds. Of `members`, a run leaves out what `arrays`
has."""


def with_uri(schema: pa.Schema) -> list[pa.Field]:
    """Give columns under the names that tables have."""
    return [one.with_name(URI) if one.name == "array" else one for one in schema]


def renamed(table: pa.Table) -> pa.Table:
    """Give a table with the names of columns that tables have."""
    return table.rename_columns([one.name for one in with_uri(table.schema)])


DRESSED: dict[str, pa.Schema] = {
    name: pa.schema([*with_uri(with_twins(one)), *_RUN, _BUCKET]) for name, one in PLAIN.items()
}
"""Those tables as a run writes them."""

_LISTED = pa.schema([*columns("uri string, listing string, marks string, asked string"), _BUCKET])
"""The `unchanged_arrays.Noted` of each array."""

_COUNTS = (
    *("arrays", "arrays_read", "arrays_unchanged", "arrays_unreadable", "commits", "fragments"),
    *("arrays_measured", "bytes", "log_bytes", "engine_open_requests", "open_requests"),
    *("engine_open_requests_after_maintenance", "errors", "warnings", "infos"),
)
RUN_HISTORY = pa.schema(
    [
        *_RUN,
        *((name, pa.int64()) for name in _COUNTS),
        ("versions", pa.map_(pa.string(), pa.int64())),
        ("totals", pa.string()),
    ]
)
"""A row for each complete run that has changed a table: the version of each table, and all totals
as JSON."""


def dressed(name: str, table: pa.Table, run: str, run_ms: int) -> pa.Table:
    """Give a table of `PLAIN` with what a run adds; another one stays as it is.

    >>> table = SCHEMAS["commits"].empty_table()
    >>> dressed("commits", table, "r", 0).schema.names[-4:]
    ['t1_time', 't2_time', 'run_id', 'run_at']
    """
    if name not in DRESSED:
        return table
    table = renamed(twinned(table))
    at = pa.scalar(run_ms * 1000, pa.int64()).cast(TIMESTAMP)
    for column, value in zip(_RUN, (pa.scalar(run), at), strict=True):
        table = table.append_column(column, pa.repeat(value, len(table)))
    return table


RUNS_FOLDER = "_chronotile"
LISTINGS = "listings"
"""The table that is committed last; it is for the next run, and not for readers."""
HISTORY = "run_history"
STORED: dict[str, pa.Schema] = {**DRESSED, LISTINGS: _LISTED}
"""Table -> its columns, in the order of commits."""
BUCKET = "bucket"
"""The column of the number of the part."""
_APP = "chronotile"
_APP_PARTS = "chronotile.buckets"
"""Applications whose versions are the start of the last run, and its number of parts."""
_APP_BEGUN = "chronotile.begun"
_APP_COMPLETE = "chronotile.complete"
"""Those of `listings`, whose versions count the waves that were begun, and completed."""
ABANDONED_MS = 24 * 3600 * 1000
"""The age of a run whose folder in `_chronotile` is of no use."""

_WITH_STATISTICS = ("uri", "code", "severity", "kind", "t1", "t2", "last_timestamp", "run_id")
"""Columns whose least and greatest values a commit tells, so that readers can pass over files."""


class OvertakenError(ChronotileError):
    """Another run has committed meanwhile."""


class DataFile(NamedTuple):
    """One file of a table, its path relative to that, and its statistics as Delta writes them."""

    table: str
    path: str
    size: int
    part: int
    statistics: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A folder of tables."""

    out: str
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def store(self) -> Store:
        """Open the folder."""
        return open_store(self.out, dict(self.storage))

    def is_there(self) -> bool:
        """Tell, without `deltalake`, whether the folder has tables of a run."""
        return "_delta_log" in self.store().list_names(HISTORY).folders

    def delta(self, table: str) -> DeltaTable | None:
        """Open a table at its last version; None if it is not there."""
        from deltalake import DeltaTable

        uri, options = self.store().uri_of(table), self._options()
        with one_error(uri):
            if not DeltaTable.is_deltatable(uri, options):
                return None
            return DeltaTable(uri, storage_options=options)

    def create(self, table: str, schema: pa.Schema) -> DeltaTable:
        """Open a table; make it first, if it is not there."""
        from deltalake import DeltaTable, Schema

        uri, options = self.store().uri_of(table), self._options()
        wanted = Schema.from_arrow(schema)
        with one_error(uri):
            by = [BUCKET] if BUCKET in schema.names else []
            made = self.delta(table) or DeltaTable.create(
                uri, wanted, mode="ignore", partition_by=by, storage_options=options
            )
            known = {one.name: one.type for one in made.schema().fields}
            for one in wanted.fields:
                if known.get(one.name, one.type) != one.type:
                    problem = f"expected column {one.name} of {one.type}, found {known[one.name]}"
                    raise ChronotileError(uri, f"{problem}; give another folder")
        return made

    def _options(self) -> dict[str, str]:
        """Give the options of the storage, which `deltalake` spells as this package does."""
        options = with_secrets(options_at(find_place(self.out), self.storage))
        if options.get("endpoint", "").startswith("http://"):
            options.setdefault("allow_http", "true")
        return options

    def last_run(self, run: str | None = None) -> dict[str, Any]:
        """Give the last row of `run_history`, or that of one run; an empty one if there is none."""
        history = self.delta(HISTORY)
        rows = [] if history is None else history.to_pyarrow_table().to_pylist()
        wanted = (row for row in rows if run in (None, row["run_id"]))
        return max(wanted, key=lambda row: row["run_id"], default={})

    def rows(
        self, name: str, columns: list[str], only: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns of a table, batch by batch, with the rows that a filter keeps.

        A table of an earlier version may lack a column.
        """
        delta = self.delta(name)
        if delta is not None:
            rows = delta.to_pyarrow_dataset()
            there = [column for column in columns if column in rows.schema.names]
            yield from rows.to_batches(columns=there, filter=only)

    def snapshot(self) -> StoreSnapshot:
        """Give the tables as they are now."""
        self._refuse_older_form()
        # First: a run that commits while the others are opened is noticed when a wave begins.
        listings = self.create(LISTINGS, _LISTED)
        deltas = {name: self.create(name, STORED[name]) for name in STORED if name != LISTINGS}
        deltas[LISTINGS] = listings
        parts = listings.transaction_version(_APP_PARTS)
        return StoreSnapshot(
            files={name: tuple(_files(name, delta)) for name, delta in deltas.items()},
            parts=parts,
            parts_of={
                name: delta.transaction_version(_APP_PARTS) or parts or 1
                for name, delta in deltas.items()
            },
            versions={name: int(delta.version()) for name, delta in deltas.items()},
            started_ms=listings.transaction_version(_APP) or 0,
            is_torn=_waves(listings, _APP_BEGUN) != _waves(listings, _APP_COMPLETE),
        )

    def _refuse_older_form(self) -> None:
        try:
            folders = self.store().list_names().folders
        except ArrayNotFoundError:
            return
        if "runs" in folders:
            problem = "expected Delta tables, found runs of an earlier version"
            raise ChronotileError(self.out, f"{problem}; give a new folder")


class StoreSnapshot(NamedTuple):
    """The tables as a run finds them."""

    files: Mapping[str, tuple[DataFile, ...]]
    parts: int | None
    """The parts that the fleet is divided into; None before the first run."""
    parts_of: Mapping[str, int]
    """Table -> the parts that it is divided into; not the same for all if a run died."""
    versions: Mapping[str, int]
    started_ms: int
    """The start of the last run that has committed."""
    is_torn: bool
    """Whether a run died between two tables, so that they do not fit together."""

    @property
    def filled(self) -> frozenset[int]:
        """The parts that have files."""
        return frozenset(file.part for files in self.files.values() for file in files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the pipeline, which writes to an output."""

    output: Output
    name: str
    after_ms: int = 0
    """The start of the run that committed last when this one looked."""

    @property
    def started_ms(self) -> int:
        """When it started."""
        return started_ms(self.name)

    @property
    def folder(self) -> str:
        """The folder of its plans and results, relative to the output."""
        return f"{RUNS_FOLDER}/{self.name}"

    def store(self) -> Store:
        """Open the output."""
        return self.output.store()

    def put(self, table: str, data: bytes, part: int, metadata: pq.FileMetaData) -> DataFile:
        """Write one file of a table; readers do not see it before a commit."""
        path = f"{BUCKET}={part}/{self.name}-{secrets.token_hex(8)}.parquet"
        self.store().put_if_absent(f"{table}/{path}", data)
        return DataFile(table, path, len(data), part, _statistics(metadata))

    def stop(self) -> None:
        """Tell all tasks of the run to do nothing more: it has failed."""
        with suppress(ChronotileError):
            self.store().put_if_absent(f"{self.folder}/stop", b"")

    def is_stopped(self) -> bool:
        """Tell whether a task has stopped the run."""
        try:
            self.store().head(f"{self.folder}/stop")
        except ChronotileError:
            return False
        return True

    def check_not_overtaken(self) -> None:
        """Refuse to go on if another run has committed since this one looked."""
        listings = self.output.delta(LISTINGS)
        if listings is not None:
            self._check(listings, (self.after_ms, self.started_ms))

    def _check(self, listings: DeltaTable, expected: Collection[int]) -> None:
        started = listings.transaction_version(_APP) or 0
        if started not in expected:
            other = "that started later" if started > self.started_ms else "that committed first"
            problem = f"expected {self.name} to be the newest run, found one {other}"
            raise OvertakenError(
                self.store().uri_of(LISTINGS), f"{problem}: its tables stay, this run stops"
            )

    def commit(
        self, files: Iterable[DataFile], *, replaced: Collection[int] | None, part_count: int
    ) -> dict[str, int]:
        """Replace the rows of some parts, or of all (None), in every table, by one commit each.

        A table in which nothing changes gets no commit, unless all rows are replaced: then a run
        that was frozen finds a commit in each table, and cannot add to it.

        Returns:
            Table -> its version; none if nothing changes.

        Raises:
            OvertakenError: Another run has committed since this one looked.
            StorageError: A table cannot be written, or another program changed it meanwhile.
        """
        added: dict[str, list[DataFile]] = {name: [] for name in STORED}
        for file in files:
            added[file.table].append(file)
        if replaced is not None and not replaced and not any(added.values()):
            return {}
        deltas = {name: self.output.create(name, schema) for name, schema in STORED.items()}

        def gone(name: str) -> list[DataFile]:
            files = _files(name, deltas[name])
            return [one for one in files if replaced is None or one.part in replaced]

        if not any(added[name] or gone(name) for name in STORED):
            return {}
        listings = deltas[LISTINGS]
        self._check(listings, (self.after_ms, self.started_ms))
        begun = _waves(listings, _APP_BEGUN) + 1
        numbers = {_APP_PARTS: part_count}
        self._commit(LISTINGS, listings, [], (), {**numbers, _APP_BEGUN: begun})
        for name in STORED:
            if name != LISTINGS:
                # The table before the check: what another run commits after it is a conflict.
                self._update(name, deltas[name])
                self._update(LISTINGS, listings)
                self._check(listings, (self.started_ms,))
                if replaced is None or added[name] or gone(name):
                    self._commit(name, deltas[name], added[name], replaced, numbers)
        numbers[_APP_COMPLETE] = begun
        self._commit(LISTINGS, listings, added[LISTINGS], replaced, numbers)
        return {name: int(delta.version()) for name, delta in deltas.items()}

    def _update(self, name: str, delta: DeltaTable) -> None:
        with one_error(self.store().uri_of(name)):
            delta.update_incremental()

    def _commit(
        self,
        name: str,
        delta: DeltaTable,
        added: list[DataFile],
        replaced: Collection[int] | None,
        numbers: Mapping[str, int],
    ) -> None:
        """Commit to one table: remove files of parts, add others, and columns that it lacks."""
        from deltalake import Schema, transaction

        at_ms = now_ms()
        actions = [
            transaction.AddAction(
                one.path, one.size, {BUCKET: str(one.part)}, at_ms, True, one.statistics
            )
            for one in added
        ]
        versions = {_APP: self.started_ms, **numbers}
        words = transaction.CommitProperties(
            custom_metadata={"chronotile.run": self.name},
            app_transactions=[transaction.Transaction(*pair) for pair in versions.items()],
        )
        only = [(BUCKET, "in", [str(one) for one in sorted(replaced)])] if replaced else None
        known = delta.schema().fields
        wanted = Schema.from_arrow(STORED[name]).fields
        lacking = [one for one in wanted if one.name not in {field.name for field in known}]
        with one_error(self.store().uri_of(name)):
            delta.create_write_transaction(
                actions,
                "append" if replaced is not None and not replaced else "overwrite",
                Schema([*known, *lacking]),
                partition_by=[BUCKET],
                partition_filters=only,
                commit_properties=words,
            )
            delta.update_incremental()

    def tell(self, summary: Summary, versions: Mapping[str, int]) -> None:
        """Add the row of this run to `run_history`."""
        from deltalake import write_deltalake

        delta = self.output.create(HISTORY, RUN_HISTORY)
        row = {name: count for name, count in summary.to_json().items() if name in _COUNTS}
        for severity, _, count in summary.totals.findings:
            row[f"{severity}s"] = row.get(f"{severity}s", 0) + count
        row = dict.fromkeys(("errors", "warnings", "infos"), 0) | row
        row |= {"run_id": self.name, "versions": [*versions.items()]}
        row["totals"] = json.dumps(asdict(summary.totals))
        row["run_at"] = pa.scalar(self.started_ms * 1000, pa.int64()).cast(TIMESTAMP).as_py()
        table = pa.Table.from_pylist([row], schema=RUN_HISTORY)
        with one_error(self.store().uri_of(HISTORY)):
            write_deltalake(delta, table, mode="append", schema_mode="merge")

    def end(self) -> None:
        """Remove what only the run itself needs, and what runs of yesterday have left."""
        store = self.store()
        with suppress(ChronotileError):
            names = [path.rpartition("/")[2] for path in store.list_dir(RUNS_FOLDER).folders]
            oldest_ms = now_ms() - ABANDONED_MS
            for name in names:
                if name == self.name or started_ms(name) < oldest_ms:
                    store.remove_folder(f"{RUNS_FOLDER}/{name}")


def new_run(output: Output, snapshot: StoreSnapshot) -> Run:
    """Start a run; it is the newest, even if the clock of another machine is ahead."""
    at_ms = max(now_ms(), snapshot.started_ms + 1)
    name = f"{at_ms:013d}-{secrets.token_hex(4)}"
    return Run(output=output, name=name, after_ms=snapshot.started_ms)


def open_output(out: str, storage: Mapping[str, str]) -> Output:
    """Open a folder for tables, but not in memory; on a disk, make it if it is missing."""
    store = open_store(out, storage)
    if store.uri.startswith("memory:"):
        raise ChronotileError(out, "expected a disk or a bucket, found memory")
    store.make_folder()
    if store.local_path is not None and not _has_links(store.local_path):
        storage = {**storage, "allow_unsafe_rename": "true"}
    return Output(out=out, storage=tuple(sorted(storage.items())))


def _has_links(folder: Path) -> bool:
    """Tell whether a disk has hard links, by which Delta refuses a commit that is there already."""
    with NamedTemporaryFile(dir=folder) as file:
        try:
            os.link(file.name, f"{file.name}.link")
        except OSError:
            return False
    os.unlink(f"{file.name}.link")  # noqa: PTH108 - as it was made
    return True


def fleet_tables(
    out: str | os.PathLike[str],
    *,
    run: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, DeltaTable]:
    """Open the tables of a fleet, all at their versions of one complete run.

    Args:
        out: The folder that `pipeline`, or `tables`, wrote to.
        run: The run, by its `run_id`; the last one if left out.
        storage_options: Options of the storage, such as a region.

    Raises:
        ChronotileError: There is no such run.
    """
    output = Output(out=os.fspath(out), storage=tuple(sorted((storage_options or {}).items())))
    newest = output.last_run(run)
    if not newest:
        wanted = "a complete run" if run is None else f"run {run}"
        raise ChronotileError(output.out, f"expected {wanted} of the pipeline, found none")
    tables = {}
    for name, version in newest["versions"]:
        opened = output.delta(name)
        if opened is not None and name != LISTINGS:
            opened.load_as_version(version)
            tables[name] = opened
    return tables


def started_ms(name: str) -> int:
    """Tell when a run of that name was started."""
    digits = name.partition("-")[0]
    return int(digits) if digits.isdigit() else 0


@contextmanager
def one_error(where: str) -> Iterator[None]:
    """Turn the errors of `deltalake` into one of ours."""
    try:
        yield
    except ChronotileError:
        raise
    except Exception as cause:  # the library has its own
        text = (str(cause).strip() or type(cause).__name__).split("\n", 1)[0]
        problem = f"expected a Delta table, found {type(cause).__name__}: {text[:500]}"
        raise StorageError(where, problem) from None


def _waves(listings: DeltaTable, application: str) -> int:
    return listings.transaction_version(application) or 0


def _files(table: str, delta: DeltaTable) -> Iterator[DataFile]:
    """List the files of a table."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    columns = (actions[name].to_pylist() for name in ("path", "size_bytes", f"partition.{BUCKET}"))
    for path, size, part in zip(*columns, strict=True):
        yield DataFile(table, path, size, int(part))


def _statistics(metadata: pq.FileMetaData) -> str:
    """Give the rows of a file, and the range of some columns, as Delta writes them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    places = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    for name in (one for one in _WITH_STATISTICS if one in places):
        groups = [
            metadata.row_group(n).column(places[name]).statistics
            for n in range(metadata.num_row_groups)
        ]
        if not groups or any(one is None or not one.has_null_count for one in groups):
            continue
        nulls[name] = sum(one.null_count for one in groups)
        bounds = [one for one in groups if one.has_min_max]
        if bounds and len(bounds) == sum(one.num_values > 0 for one in groups):
            low[name] = min(one.min for one in bounds)
            high[name] = max(one.max for one in bounds)
    statistics = {"minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps({"numRecords": metadata.num_rows, **statistics})
