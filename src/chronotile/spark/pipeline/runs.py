"""Where the pipeline keeps its tables: run by run, each all or nothing.

In: a folder or prefix for output. Out: `Run`, a place for the files of one run. Readers see all of
them once the run is published, and none before. Knows nothing of what the tables hold.

    DIR/staging/<run>/<table>/part-….parquet   where tasks write: no reader looks there
    DIR/runs/<run>/<table>/part-….parquet      the tables of one run
    DIR/runs/<run>/run.json                    put last: names every file; the run is complete
    DIR/records/<run>/….json                   what its maintenance does to each array, by name
    DIR/latest -> runs/<run>                   on a disk: replaced in one step
    DIR/<table> -> latest/<table>              on a disk: never changes again

Only the driver writes below `runs`: it gives each file that a task has reported, and each file of
the run before whose rows are still right, a second name there (a link on a disk, a copy that the
storage itself makes in a bucket). A task that runs twice,
or that goes on after its run was published, leaves files in `staging` only; a later run removes
them.

The names of runs begin with the time of their start, and order them. A run that ends after a later
one was published is dropped with an error; of two that are published in the same moment both stand.
Either way `latest` only moves forward, to the run that started last. The last two complete runs
stay, for readers who have just opened the one before, and so do the last two that could read every
array. Records are removed with their run; those of a run that never ended stay.
"""

from __future__ import annotations

import fcntl
import io
import json
import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from chronotile.errors import ArrayNotFoundError, ChronotileError, StorageError
from chronotile.format.timestamps import now_ms
from chronotile.spark.pipeline.buckets import NO_BUCKET
from chronotile.storage.place import MissingObjectError
from chronotile.storage.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

RUNS = "runs"
STAGING = "staging"
RECORDS = "records"
KEPT = 2
"""Complete runs that stay, unless the user wants more; and as many that could read every array."""
ABANDONED_MS = 24 * 3600 * 1000
"""An incomplete run that is older than this will never end."""

PRIVATE = frozenset({"listings"})
"""Tables for the next run, and not for readers."""

PARQUET_CODEC = "zstd"

UNIQUE = frozenset(
    {"name", "uuid", "t1", "t2", "visible_from", "t1_time", "t2_time", "visible_from_time"}
)
"""Columns whose values rarely repeat: a dictionary of them costs time and space."""
_LENGTHS_APART = frozenset({"uuid"})
"""Texts of one length without a common beginning: they take less time and space without the length
before each. Names, which begin alike, do not."""

_END = "run.json"
_LOCK_S = 10.0
"""How long a driver waits for another that sets the links, and that may never finish."""


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """How every file of a table is written."""
    repeated = [column for column in schema.names if column not in UNIQUE]
    # Times rise by small steps; as such, they are written in half of the time.
    encodings = {
        column: "DELTA_BINARY_PACKED"
        for column in schema.names
        if column in UNIQUE and not pa.types.is_string(schema.field(column).type)
    }
    encodings |= dict.fromkeys(_LENGTHS_APART & {*schema.names}, "DELTA_LENGTH_BYTE_ARRAY")
    options = {"compression": PARQUET_CODEC, "use_dictionary": repeated}
    return {**options, "column_encoding": encodings} if encodings else options


class Part(NamedTuple):
    """One file of a table."""

    table: str
    path: str
    """Relative to the output."""
    rows: int
    size: int
    bucket: int = NO_BUCKET
    """The bucket whose arrays it has rows of."""


class OvertakenError(ChronotileError):
    """A run that started later was published first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the pipeline."""

    out: str
    name: str
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def started_ms(self) -> int:
        """When it started, in ms since the epoch."""
        return started_ms(self.name)

    @property
    def folder(self) -> str:
        """The folder that readers see, relative to the output."""
        return f"{RUNS}/{self.name}"

    @property
    def staging(self) -> str:
        """The folder that tasks write to, relative to the output."""
        return f"{STAGING}/{self.name}"

    @property
    def uri(self) -> str:
        """The URI of the folder that readers see."""
        return self.store().uri_of(self.folder)

    def store(self) -> Store:
        """Opens the output."""
        return open_store(self.out, dict(self.storage))

    def write(self, name: str, table: pa.Table) -> Part:
        """Writes one file of a table; readers do not see it yet."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, **parquet_options(table.schema))
        return self.put(name, buffer.getvalue(), len(table))

    def put(self, name: str, data: bytes, rows: int, bucket: int = NO_BUCKET) -> Part:
        """Writes one file of a table, given as Parquet; readers do not see it yet."""
        label = "" if bucket == NO_BUCKET else f"{bucket:04d}-"
        path = f"{self.staging}/{name}/part-{label}{secrets.token_hex(8)}.parquet"
        self.store().put_if_absent(path, data)
        return Part(name, path, rows, len(data), bucket)

    def record(self, name: str, text: str, instead_of: str | None = None) -> str:
        """Writes a record of maintenance, and removes the one that it replaces."""
        store, path = self.store(), f"{RECORDS}/{self.name}/{name}"
        store.put_if_absent(path, text.encode())
        if instead_of is not None:
            store.remove([instead_of])
        return path

    def read(self, part: Part) -> pa.Table:
        """Reads one file of a table."""
        return self.open(part).read()

    def open(self, part: Part) -> pq.ParquetFile:
        """Opens one file of a table."""
        return pq.ParquetFile(io.BytesIO(self.store().read(part.path)))

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Reads the files of one table of a complete run."""
        return (self.read(part) for part in self.parts() if part.table == name)

    def read_end(self) -> dict[str, Any] | None:
        """What the run was published with; None if it is not complete."""
        try:
            end: dict[str, Any] = json.loads(self.store().read(f"{self.folder}/{_END}"))
        except (MissingObjectError, ArrayNotFoundError):
            return None
        return end

    def parts(self) -> tuple[Part, ...]:
        """The files of a complete run."""
        end = self.read_end()
        return tuple(Part(*one) for one in end["parts"]) if end else ()

    def publish(self, parts: Iterable[Part], words: Mapping[str, Any], keep: int = KEPT) -> None:
        """Makes the run the one that readers see.

        Args:
            parts: The files of the run, as `write` returned them, or files of an older run that
                this one has as well; readers see no other.
            words: What else the next run needs. `unreadable` is the number of arrays that could
                not be read.
            keep: Complete runs that stay.

        Raises:
            OvertakenError: A run that started later is published already; this one is dropped.
            StorageError: A file has changed since it was written.
        """
        store, staged = self.store(), tuple(parts)
        self._check_newest()
        moved = tuple(
            part._replace(path=f"{self.folder}/{part.table}/{part.path.rpartition('/')[2]}")
            for part in staged
        )
        store.duplicate({one.path: other.path for one, other in zip(staged, moved, strict=True)})
        self._check_files(store, moved)
        end = {**words, "parts": [list(part) for part in moved]}
        store.put_if_absent(f"{self.folder}/{_END}", json.dumps(end).encode())
        if store.local_path is not None:
            _point(self, store.local_path)
        with suppress(ChronotileError, OSError):
            # A later run removes what cannot be removed now.
            _forget(self, keep)

    def _check_newest(self) -> None:
        newest = _newest(self.out, self.storage)
        if newest is not None and newest.name > self.name:
            self.abandon()
            found = f"found that {newest.name}, which started later, is published already"
            problem = f"expected {self.name} to be the newest run, {found}"
            raise OvertakenError(self.out, f"{problem}: its tables stay, these are dropped")

    def _check_files(self, store: Store, parts: tuple[Part, ...]) -> None:
        """Refuses a folder that does not hold exactly these files."""
        sizes = {one.path: one.size for one in store.list_prefix(self.folder, sizes=True)}
        for part in parts:
            # A list may miss what was just written: then ask for the file itself.
            size = sizes.pop(part.path, None) or store.head(part.path).size
            if size != part.size:
                problem = f"expected {part.size} bytes, as were written, found {size}"
                raise StorageError(store.uri_of(part.path), problem)
        for path in sizes:
            raise StorageError(store.uri_of(path), "expected only files of this run, found another")

    def abandon(self) -> None:
        """Removes the run, unless it is published."""
        with suppress(ChronotileError):
            if self.read_end() is None:
                self.remove()

    def remove(self) -> None:
        """Removes the run, published or not."""
        store = self.store()
        with suppress(ChronotileError):
            # Without this file the run is incomplete, even if others remain.
            store.remove([f"{self.folder}/{_END}"])
            store.remove_folder(self.folder)
        with suppress(ChronotileError):
            store.remove_folder(self.staging)


def new_run(out: str, storage_options: Mapping[str, str] | None = None) -> Run:
    """Starts a run; on a disk, makes the folder for output if it is missing.

    Raises:
        StorageError: The output cannot be written to.
    """
    storage = tuple(sorted((storage_options or {}).items()))
    store = open_store(out, storage_options)
    store.make_folder()
    # The new run is the latest, even if the clock of another machine is ahead.
    names = (*_run_names(store, RUNS), *_run_names(store, STAGING))
    at_ms = max([now_ms(), *(started_ms(name) + 1 for name in names)])
    run = Run(out=out, name=f"{at_ms:013d}-{secrets.token_hex(4)}", storage=storage)
    # If the output cannot be written to, fail now, and not after hours of reading.
    store.put_if_absent(f"{run.staging}/started", b"")
    return run


def last_run(out: str, storage_options: Mapping[str, str] | None = None) -> Run | None:
    """The newest complete run, if there is one.

    >>> last_run("memory:doc-no-runs") is None
    True
    """
    storage = tuple(sorted((storage_options or {}).items()))
    return _newest(out, storage)


def complete_runs(beside: Run) -> Iterator[Run]:
    """The complete runs in the same place, the newest first."""
    for name in reversed(_run_names(beside.store(), RUNS)):
        run = Run(out=beside.out, name=name, storage=beside.storage)
        if run.read_end() is not None:
            yield run


def _newest(out: str, storage: tuple[tuple[str, str], ...]) -> Run | None:
    return next(complete_runs(Run(out=out, name="", storage=storage)), None)


def _run_names(store: Store, folder: str) -> list[str]:
    try:
        return sorted(path.rpartition("/")[2] for path in store.list_dir(folder).folders)
    except ArrayNotFoundError:
        return []


def started_ms(name: str) -> int:
    """When a run of that name was started.

    >>> started_ms("1700000000000-00ff00ff")
    1700000000000
    """
    digits = name.partition("-")[0]
    return int(digits) if digits.isdigit() else 0


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Keeps other drivers from setting links meanwhile; they wait for a while only."""
    with (root / ".lock").open("a") as file:
        end = time.monotonic() + _LOCK_S
        while time.monotonic() < end:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.05)
        yield


def _point(run: Run, root: Path) -> None:
    """Points `latest` at the newest run, in one step, and each table at `latest`."""
    with _alone(root):
        # Another driver may publish between two of these lines: then look again.
        while (newest := _newest(run.out, run.storage)) is not None:
            if (root / "latest").is_symlink() and (root / "latest").readlink().name == newest.name:
                break
            fresh = root / f".latest-{secrets.token_hex(4)}"
            fresh.symlink_to(newest.folder)
            with suppress(FileNotFoundError):
                fresh.replace(root / "latest")
        tables = {part.table for part in newest.parts()} - PRIVATE if newest else set()
        for table in tables:
            with suppress(FileExistsError):
                (root / table).symlink_to(f"latest/{table}")
        for link in root.iterdir():
            # A run without maintenance has no table of it.
            if link.is_symlink() and link.name not in tables:
                own = link.readlink() == Path("latest", link.name)
                if own or link.name.startswith(".latest-"):
                    link.unlink(missing_ok=True)


def _forget(current: Run, keep: int) -> None:
    """Removes older runs, runs that never ended, and files that tasks left."""
    store = current.store()
    names = _run_names(store, RUNS)
    runs = {name: Run(out=current.out, name=name, storage=current.storage) for name in names}
    ends = {name: end for name in reversed(names) if (end := runs[name].read_end()) is not None}
    good = [name for name, end in ends.items() if not end.get("unreadable")]
    kept = {*list(ends)[:keep], *good[: max(keep, 1)]}
    oldest_ms = now_ms() - ABANDONED_MS
    for name in names:
        if name in ends and name not in kept:
            runs[name].remove()
            with suppress(ChronotileError):
                store.remove_folder(f"{RECORDS}/{name}")
        elif name not in ends and started_ms(name) < oldest_ms:
            runs[name].remove()
    for name in _run_names(store, STAGING):
        if name in ends or started_ms(name) < oldest_ms:
            with suppress(ChronotileError):
                store.remove_folder(f"{STAGING}/{name}")
