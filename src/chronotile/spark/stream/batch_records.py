"""What each batch of a stream gave of each array: one small file, written once.

In: the folder of a stream's state. Out: `Record` values, and which of two tasks that do the same
work was first. Tasks write records; the next batch that reads the array begins with its record.
Knows nothing of Spark, and nothing of what is hashed.

    STATE/records/<array>-<batch>     what the batch gave of the array, and all that is known of it
    STATE/unread/<batch>-<array>      put before a record that says that the array was not read

The first record of a batch and an array decides; a task that runs again, or twice at once, gives
what that record says. So each row comes once, whatever dies.

A record holds the hashes of what is in the array now, and of what was there until lately. What has
been gone for a week is forgotten: state grows with the array, not with its history.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.errors import ChronotileError
from chronotile.spark.stream.offsets import NONE
from chronotile.storage.place import MissingObjectError, find_place
from chronotile.storage.store import ObjectExistsError, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.spark.stream.offsets import Hashes
    from chronotile.storage.store import Store

FORGET_MS = 7 * 24 * 3600 * 1000
"""How long a stream remembers what has left an array."""

_HEAD = b"chronotile stream record 1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one batch gave of one array."""

    array: str
    new: Hashes = field(default_factory=lambda: NONE)
    """What the batch gives."""
    present: Hashes = field(default_factory=lambda: NONE)
    """All that was in the array."""
    gone: Hashes = field(default_factory=lambda: NONE)
    """What an earlier record had, and the array has no longer."""
    gone_ms: Hashes = field(default_factory=lambda: NONE)
    """When that was noticed first."""
    unread: str | None = None
    """Why the array could not be read, in words; then the record holds nothing else."""


def next_record(
    array: str, before: Record | None, own: Hashes, now_ms: int, forget_ms: int = FORGET_MS
) -> Record:
    """The record of an array that holds `own` now.

    Args:
        array: The array.
        before: What the last batch that read the array left.
        own: The hashes of what is in it.
        now_ms: The time.
        forget_ms: For how long what leaves the array is remembered.

    >>> first = next_record("a", None, np.array([1, 2], np.uint64), 0)
    >>> then = next_record("a", first, np.array([2, 3], np.uint64), 5)
    >>> then.new.tolist(), then.gone.tolist(), then.gone_ms.tolist()
    ([3], [1], [5])
    >>> next_record("a", then, np.array([1, 2, 3], np.uint64), 9).new.tolist()
    []
    """
    present = np.unique(own)
    if before is None:
        return Record(array=array, new=present, present=present)
    new = np.setdiff1d(np.setdiff1d(present, before.present), before.gone)
    fresh = (before.gone_ms + np.uint64(forget_ms) > now_ms) & ~np.isin(before.gone, present)
    left = np.setdiff1d(before.present, present) if forget_ms else NONE
    when = np.full(len(left), now_ms, np.uint64)
    return Record(
        array=array,
        new=new,
        present=present,
        gone=np.concatenate([before.gone[fresh], left]),
        gone_ms=np.concatenate([before.gone_ms[fresh], when]),
    )


class Unread(NamedTuple):
    """A place that says that a batch may not have read an array."""

    batch: int
    key: str


@dataclass(frozen=True, slots=True)
class Records:
    """The records in the folder of a stream's state."""

    place: str
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def read(self, array: str, batch: int) -> Record | None:
        """The record of an array in a batch; None if there is none yet.

        Raises:
            ChronotileError: The file is damaged, or of another array.
        """
        path = self._path(array, batch)
        try:
            data = self.store().read(path)
        except MissingObjectError:
            return None
        try:
            return _decoded(data, array)
        except (ValueError, KeyError, TypeError):
            problem = f"expected the record of {array}, found {len(data)} other bytes"
            raise ChronotileError(self.store().uri_of(path), problem) from None

    def put(self, record: Record, batch: int) -> Record:
        """Writes a record; returns the one that was first, which may be another."""
        if record.unread is not None:
            # First, so that no array is taken for read because a process died between the two.
            with suppress(ObjectExistsError):
                name = f"{batch}-{array_key(record.array)}"
                self.store().put_if_absent(self.path_of(f"unread/{name}"), b"")
        try:
            self.store().put_if_absent(self._path(record.array, batch), _encoded(record))
        except ObjectExistsError:
            return self.read(record.array, batch) or record
        return record

    def unread(self) -> list[Unread]:
        """The batches and arrays that may not have been read."""
        files = self.store().list_dir(self.path_of("unread")).files
        names = (file.path.rpartition("/")[2].partition("-") for file in files)
        return [Unread(int(batch), key) for batch, _, key in names if batch.isdigit()]

    def remove(self, gone: Iterable[tuple[str, int]], unread: Iterable[Unread] = ()) -> None:
        """Removes records that no batch needs any more."""
        paths = [self._path(array, batch) for array, batch in gone]
        paths += [self.path_of(f"unread/{one.batch}-{one.key}") for one in unread]
        self.store().remove(paths)

    def store(self) -> Store:
        """The storage above the folder, which need not exist yet."""
        return open_store(self._parts()[0] or "/", dict(self.storage))

    def _parts(self) -> tuple[str, str]:
        above, _, name = find_place(self.place).uri.rpartition("/")
        return above, name

    def path_of(self, path: str) -> str:
        """The path of a file of the state, in `store`."""
        return f"{self._parts()[1]}/{path}"

    def _path(self, array: str, batch: int) -> str:
        return self.path_of(f"records/{array_key(array)}-{batch}")


def array_key(array: str) -> str:
    """The name of an array in a folder of files."""
    return hashlib.blake2b(array.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _encoded(record: Record) -> bytes:
    columns = (record.new, record.present, record.gone, record.gone_ms)
    sizes = [len(column) for column in columns]
    head = json.dumps({"array": record.array, "sizes": sizes, "unread": record.unread})
    numbers = b"".join(column.astype("<u8").tobytes() for column in columns)
    return _HEAD + head.encode() + b"\n" + numbers


def _decoded(data: bytes, array: str) -> Record:
    end = data.index(b"\n", len(_HEAD))
    head = json.loads(data[len(_HEAD) : end])
    sizes, numbers = head["sizes"], np.frombuffer(data[end + 1 :], "<u8").astype(np.uint64)
    if not data.startswith(_HEAD) or head["array"] != array or sum(sizes) != len(numbers):
        raise ValueError(array)
    new, present, gone, gone_ms = np.split(numbers, np.cumsum(sizes)[:3])
    return Record(
        array=array, new=new, present=present, gone=gone, gone_ms=gone_ms, unread=head["unread"]
    )
