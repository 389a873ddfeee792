"""The state of a stream: which arrays each batch reads, and what each batch gave of each array.

In: the folder of a stream's state, and what a look at the fleet found. Out: the numbers of
batches; the plan of each batch: its arrays, and the record that each begins with; and
`Record` values. Opens no array, and knows nothing of Spark.

    STATE/<batch>.json              the plan of a batch, with what is known of all arrays before it;
                                    it is written once: planned again, the batch is the same
    STATE/records/<array>-<batch>   what the batch gave of the array, and all that is known of it
    STATE/unread/<batch>-<array>    put before a record that says that the array was not read

The name identifies a commit, never its time: one that is dated in the past is new all the same, one
that moves from a file of its own into a `.con` is not. A stream keeps 8 bytes of the name's hash.

Tasks write records. The first record of a batch and an array decides; a task that runs again, or
twice at once, gives what that record says. So each row comes once, whatever dies. What has left the
array for a week is forgotten: state grows with the array, not with its history.

Two queries that share a folder get the same batches, as long as none is more than a few behind:
plans, and records that only they need, are removed after that. All arrays stand in each plan, as a
restart then reads one file; nothing is written while nothing changes.
"""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np

from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.storage.place import MissingObjectError
from chronotile.storage.store import ObjectExistsError, open_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import numpy.typing as npt

Hashes: TypeAlias = "npt.NDArray[np.uint64]"
"""Hashes of commits, sorted, each once."""
NONE = np.empty(0, np.uint64)


def hashes(names: Iterable[str]) -> Hashes:
    """Give the hashes of commits, in the given order.

    >>> hashes(["a.wrt"]) == hashes(["b.wrt", "a.wrt"])[1]
    array([ True])
    """
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


FORGET_MS = 7 * 24 * 3600 * 1000
"""How long a stream remembers what has left an array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The part of an array that one batch gave."""

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
    """Give the record of an array that holds `own` now, after that of its last batch.

    What leaves the array is remembered for `forget_ms`.

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


class Records:
    """The records in the folder of a stream's state."""

    def __init__(self, place: str, storage: tuple[tuple[str, str], ...] = ()) -> None:
        self.place = place
        self.store = open_store(place, dict(storage))
        self.store.make_folder()

    def read(self, array: str, batch: int) -> Record | None:
        """Give the record of an array in a batch; None if there is none yet.

        Raises:
            ChronotileError: The file is damaged, or of another array.
        """
        path = self._path(array, batch)
        try:
            data = self.store.read(path)
        except MissingObjectError:
            return None
        try:
            return _decoded(data, array)
        except (ValueError, KeyError, TypeError, OSError, EOFError, BadZipFile):
            problem = f"expected the record of {array}, found {len(data)} other bytes"
            raise ChronotileError(self.store.uri_of(path), problem) from None

    def put(self, record: Record, batch: int) -> Record:
        """Write a record; returns the one that was first, which may be another."""
        if record.unread is not None:
            # First, so that no array is taken for read because a process died between the two.
            with suppress(ObjectExistsError):
                name = f"{batch}-{array_key(record.array)}"
                self.store.put_if_absent(f"unread/{name}", b"")
        try:
            self.store.put_if_absent(self._path(record.array, batch), _encoded(record))
        except ObjectExistsError:
            return self.read(record.array, batch) or record
        return record

    def unread(self, batch: int) -> dict[str, str]:
        """Give the paths that say of arrays, by key, that a batch may not have read them."""
        files = self.store.list_dir("unread").files
        names = {file.path.rpartition("/")[2]: file.path for file in files}
        return {
            name.partition("-")[2]: path
            for name, path in names.items()
            if name.startswith(f"{batch}-")
        }

    def remove(self, gone: Iterable[tuple[str, int]]) -> None:
        """Remove records that no batch needs any more."""
        self.store.remove([self._path(array, batch) for array, batch in gone])

    def _path(self, array: str, batch: int) -> str:
        return f"records/{array_key(array)}-{batch}"


def array_key(array: str) -> str:
    """Give the name of an array in a folder of files."""
    return hashlib.blake2b(array.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


_COLUMNS = ("new", "present", "gone", "gone_ms")


def _encoded(record: Record) -> bytes:
    head = json.dumps({"array": record.array, "unread": record.unread}).encode()
    buffer, columns = io.BytesIO(), {name: getattr(record, name) for name in _COLUMNS}
    np.savez(buffer, head=np.frombuffer(head, np.uint8), **columns)
    return buffer.getvalue()


def _decoded(data: bytes, array: str) -> Record:
    with np.load(io.BytesIO(data)) as file:
        head = json.loads(file["head"].tobytes())
        columns = {name: file[name] for name in _COLUMNS}
    if head["array"] != array:
        raise ValueError(array)
    return Record(array=array, unread=head["unread"], **columns)


FORMAT = 4
KEPT = 16
"""Batches that can be read again."""


class ArrayState(NamedTuple):
    """An array, and what a stream knows of it."""

    batch: int
    """The batch whose record holds what has been given; -1 if there is none."""
    mark: str | None
    """The mark of its commit files then; None: read it again."""


class Planned(NamedTuple):
    """One array of a batch."""

    array: str
    before: int | None
    """The batch whose record it begins with."""
    mark: str | None
    problem: str | None = None
    """Why it could not be listed; then a task only tells so."""
    told: str | None = None
    """The problem that was told last."""


@dataclass(slots=True)
class Index:
    """All arrays up to a batch."""

    number: int = 0
    entries: dict[str, ArrayState] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """Array -> the problem that was told last, as long as it has it."""
    gone: dict[str, int] = field(default_factory=dict)
    """Array that is no longer found -> since when, in ms."""

    def planned(self, array: str, mark: str) -> Planned:
        """Give an array as the next plan has it."""
        entry = self.entries.get(array)
        before = entry.batch if entry and entry.batch >= 0 else None
        return Planned(array, before, mark, None, self.problems.get(array))

    def forget(self, present: Collection[str], at_ms: int) -> dict[str, ArrayState]:
        """Drop, and return, the arrays that have not been found for a week.

        >>> index = Index(entries={"a": ArrayState(1, None), "b": ArrayState(1, None)})
        >>> index.forget(["a"], 0), list(index.forget(["a"], FORGET_MS)), list(index.entries)
        ({}, ['b'], ['a'])
        """
        since = {one: self.gone.get(one, at_ms) for one in self.entries if one not in present}
        over = [array for array, first in since.items() if at_ms >= first + FORGET_MS]
        self.gone = {array: first for array, first in since.items() if array not in over}
        return {array: self.entries.pop(array) for array in over}


class Plans:
    """The plans in one folder."""

    def __init__(self, place: str, storage: tuple[tuple[str, str], ...]) -> None:
        self.records = Records(place, storage)
        self._index = Index()

    def latest(self) -> int:
        """Give the last batch that was planned."""
        return max(self._numbers(), default=0)

    def is_planned(self, number: int) -> bool:
        """Tell whether a batch was planned: a crash may have followed."""
        return self._read(number) is not None

    def index(self, number: int) -> Index:
        """Give all arrays up to a batch, as the records of its tasks have it."""
        if self._index.number == number:
            return self._index
        document = self._plan_of(number) if number else {}
        entries = {array: ArrayState(*one) for array, one in document.get("known", {}).items()}
        index = Index(number, entries, document.get("problems", {}), document.get("gone", {}))
        unread = self.records.unread(number)
        for one in _arrays(document):
            told = one.problem
            if told is None and array_key(one.array) in unread:
                record = self.records.read(one.array, number)
                told = record.unread if record is not None else None
                # It stays as it was, and is read again.
                before = -1 if one.before is None else one.before
                index.entries[one.array] = ArrayState(before, None)
            if told is None:
                index.entries[one.array] = ArrayState(number, one.mark)
                index.problems.pop(one.array, None)
            else:
                index.problems[one.array] = told
        self._index = index
        return index

    def plan(
        self,
        number: int,
        arrays: Mapping[str, str],
        problems: Mapping[str, str],
        present: Collection[str] | None,
    ) -> int:
        """Write the plan after a batch; if another query was first, its plan is the next batch.

        It reads arrays, each with its mark, and tells why others cannot be listed. Those that are
        not present are forgotten in time, unless it is not known which are.
        """
        index, at_ms = self.index(number), now_ms()
        over = index.forget(present, at_ms) if present is not None else {}
        document = {
            "format": FORMAT,
            "at_ms": at_ms,
            "arrays": [
                *(index.planned(array, mark) for array, mark in arrays.items()),
                *(Planned(place, None, None, words) for place, words in problems.items()),
            ],
            "known": index.entries,
            "problems": index.problems,
            "gone": index.gone,
        }
        with suppress(ObjectExistsError):
            data = json.dumps(document).encode()
            self.records.store.put_if_absent(f"{number + 1}.json", data)
        last = number - KEPT
        self.records.remove((a, e.batch) for a, e in over.items() if 0 <= e.batch <= last)
        for batch in sorted(one for one in self._numbers() if one <= last):
            self._remove(batch)
        return number + 1

    def batch(self, first: int, number: int) -> tuple[Planned, ...]:
        """Give the arrays to read between two batches."""
        if first == number:
            return ()
        if first != number - 1:
            found = f"found {first} and {number}"
            raise ChronotileError(self.records.place, f"expected two batches in a row, {found}")
        return _arrays(self._plan_of(number))

    def _remove(self, batch: int) -> None:
        """Remove a batch that will not be read again, and the records that nothing begins with."""
        records, unread = self.records, self.records.unread(batch)
        gone: list[tuple[str, int]] = []
        for one in _arrays(self._read(batch) or {}):
            record = records.read(one.array, batch) if array_key(one.array) in unread else None
            if record is not None and record.unread is not None:
                gone.append((one.array, batch))
            elif one.before is not None:
                gone.append((one.array, one.before))
        records.remove(gone)
        records.store.remove([*unread.values(), f"{batch}.json"])

    def _numbers(self) -> list[int]:
        try:
            files = self.records.store.list_dir().files
        except ArrayNotFoundError:  # in a bucket, before the first plan
            return []
        names = [file.path.removesuffix(".json") for file in files]
        return [int(name) for name in names if name.isdigit()]

    def _plan_of(self, number: int) -> dict[str, Any]:
        document = self._read(number)
        if document is None:
            problem = f"expected the plan of batch {number}, found no file"
            hint = "the state belongs to another checkpoint, or has gone on without this query"
            where = f"{self.records.place}/{number}.json"
            raise ChronotileError(where, f"{problem}: {hint}")
        return document

    def _read(self, number: int) -> dict[str, Any] | None:
        try:
            data = self.records.store.read(f"{number}.json")
        except MissingObjectError:
            return None
        document: dict[str, Any] = json.loads(data)
        if document.get("format") != FORMAT:
            problem = f"expected format {FORMAT}, found a plan of an earlier version"
            where = f"{self.records.place}/{number}.json"
            raise ChronotileError(where, f"{problem}: give a new folder")
        return document


def _arrays(document: Mapping[str, Any]) -> tuple[Planned, ...]:
    return tuple(Planned(*one) for one in document.get("arrays", ()))
