"""Where the pipeline keeps its tables: run by run, each all or nothing.

In: a folder or prefix for output. Out: `Run`, a place for the files of one run, which readers
see whole once it is published, and never before. Knows nothing of what the tables hold.

    DIR/runs/<run>/<table>/part-….parquet    the tables of one run
    DIR/runs/<run>/run.json                  put last: with it the run is complete
    DIR/latest -> runs/<run>                 on a disk: replaced in one step
    DIR/<table> -> latest/<table>            on a disk: never changes again

A task that is run twice writes under two names; only the files that the driver was told of stay.
The last two complete runs are kept, for readers who have just opened the one before.
"""

from __future__ import annotations

import io
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.places import MissingObjectError
from chronotile.store import Store, open_store
from chronotile.times import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

RUNS = "runs"
KEPT = 2
"""Complete runs that are left in place."""
ABANDONED_MS = 24 * 3600 * 1000
"""After this time an incomplete run is nobody's any more."""

PRIVATE = frozenset({"listings"})
"""Tables that are for the next run, and not for readers."""

UNIQUE = frozenset({"name", "uuid", "t1", "t2", "visible_from"})
"""Columns whose values hardly ever come twice: a dictionary of them costs time and space."""

_END = "run.json"


class Part(NamedTuple):
    """One file of a table."""

    table: str
    path: str
    """Relative to the output."""
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the pipeline."""

    out: str
    name: str
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def folder(self) -> str:
        """Relative to the output."""
        return f"{RUNS}/{self.name}"

    @property
    def uri(self) -> str:
        """The folder of the run."""
        return self.store().uri_of(self.folder)

    def store(self) -> Store:
        """The output."""
        return open_store(self.out, dict(self.storage))

    def write(self, name: str, table: pa.Table) -> Part:
        """Writes one file of a table."""
        path = f"{self.folder}/{name}/part-{secrets.token_hex(8)}.parquet"
        buffer = io.BytesIO()
        repeated = [column for column in table.column_names if column not in UNIQUE]
        pq.write_table(table, buffer, compression="zstd", use_dictionary=repeated)
        self.store().put_if_absent(path, buffer.getvalue())
        return Part(name, path, len(table), buffer.tell())

    def read(self, part: Part) -> pa.Table:
        """Reads one file of a table."""
        return pq.read_table(io.BytesIO(self.store().read(part.path)))

    def read_end(self) -> dict[str, Any] | None:
        """What the run was published with; None if it is not complete."""
        try:
            found: dict[str, Any] = json.loads(self.store().read(f"{self.folder}/{_END}"))
        except (MissingObjectError, ArrayNotFoundError):
            return None
        return found

    def parts(self) -> tuple[Part, ...]:
        """The files of a complete run."""
        end = self.read_end()
        return tuple(Part(*one) for one in end["parts"]) if end else ()

    def publish(self, parts: Iterable[Part], words: Mapping[str, Any]) -> None:
        """Makes the run the one that readers see."""
        store, wanted = self.store(), tuple(parts)
        names = {part.path for part in wanted}
        store.remove(e.path for e in store.list_prefix(self.folder) if e.path not in names)
        end = {**words, "parts": [list(part) for part in wanted]}
        store.put_if_absent(f"{self.folder}/{_END}", json.dumps(end).encode())
        if store.place.scheme == "file":
            _link(Path(store.uri), self.folder, {part.table for part in wanted} - PRIVATE)
        _forget(self)

    def abandon(self) -> None:
        """Removes what an unfinished run has written."""
        with suppress(ChronotileError):
            self.store().remove_folder(self.folder)


def new_run(out: str, storage_options: Mapping[str, str] | None = None) -> Run:
    """Starts a run; on a disk, the folder for output is made if it is not there.

    Raises:
        StorageError: Nothing can be written there.
    """
    storage = tuple(sorted((storage_options or {}).items()))
    run = Run(out=out, name=f"{now_ms():013d}-{secrets.token_hex(4)}", storage=storage)
    store = run.store()
    if store.place.scheme == "file":
        Path(store.uri).mkdir(parents=True, exist_ok=True)
    # Better now than after hours of reading.
    store.put_if_absent(f"{run.folder}/started", b"")
    return run


def last_run(out: str, storage_options: Mapping[str, str] | None = None) -> Run | None:
    """The newest complete run, if there is one.

    >>> last_run("memory:doc-no-runs") is None
    True
    """
    storage = tuple(sorted((storage_options or {}).items()))
    for name in reversed(_run_names(open_store(out, storage_options))):
        run = Run(out=out, name=name, storage=storage)
        if run.read_end() is not None:
            return run
    return None


def _run_names(store: Store) -> list[str]:
    try:
        return sorted(path.rpartition("/")[2] for path in store.list_dir(RUNS).folders)
    except ArrayNotFoundError:
        return []


def _link(root: Path, folder: str, tables: set[str]) -> None:
    """Points `latest` at the run, in one step, and each table at `latest`."""
    fresh = root / f".latest-{secrets.token_hex(4)}"
    fresh.symlink_to(folder)
    fresh.replace(root / "latest")
    for table in tables:
        with suppress(FileExistsError):
            (root / table).symlink_to(f"latest/{table}")
    for link in root.iterdir():
        # A table of maintenance is there only after maintenance.
        if link.is_symlink() and link.name not in tables and link.name != "latest":
            link.unlink()


def _forget(current: Run) -> None:
    """Removes runs that nobody needs: older complete ones, and those that never ended."""
    store = current.store()
    complete = 0
    for name in reversed(_run_names(store)):
        run = Run(out=current.out, name=name, storage=current.storage)
        if run.read_end() is not None:
            complete += 1
            if complete > KEPT:
                run.abandon()
        elif name.partition("-")[0] < f"{now_ms() - ABANDONED_MS:013d}":
            run.abandon()
