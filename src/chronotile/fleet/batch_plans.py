"""The state of a stream: which arrays each batch reads, and what each batch gave of each array.

In: the folder of a stream's state, and what a look at the fleet found. Out: offsets, which are the
numbers of batches; the plan of each batch: its arrays, and the record that each begins with; and
`Record` values. Opens no array, and knows nothing of Spark.

    STATE/<batch>.json              the plan of a batch, written once: planned again, it is the same
    STATE/<batch>.index.json        all arrays up to a batch, so that a restart reads few plans
    STATE/records/<array>-<batch>   what the batch gave of the array, and all that is known of it
    STATE/unread/<batch>-<array>    put before a record that says that the array was not read

Tasks write records. The first record of a batch and an array decides; a task that runs again, or
twice at once, gives what that record says. So each row comes once, whatever dies. A record holds
the hashes of what is in the array now, and of what was there until lately. What has been gone for a
week is forgotten: state grows with the array, not with its history.

Two queries that share a folder get the same batches, as long as none is more than a few behind:
plans, and records that only they need, are removed after that.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.errors import ChronotileError
from chronotile.fleet.unchanged_arrays import NONE
from chronotile.format.timestamps import now_ms
from chronotile.storage.place import MissingObjectError, find_place
from chronotile.storage.store import ObjectExistsError, open_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from chronotile.fleet.unchanged_arrays import Hashes, Offset
    from chronotile.storage.store import Store


FORGET_MS = 7 * 24 * 3600 * 1000
"""How long a stream remembers what has left an array."""

_HEAD = b"chronotile stream record 1\n"


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
    """Give the record of an array that holds `own` now.

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
        """Give the record of an array in a batch; None if there is none yet.

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
        """Write a record; returns the one that was first, which may be another."""
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
        """Give the batches and arrays that may not have been read."""
        files = self.store().list_dir(self.path_of("unread")).files
        names = (file.path.rpartition("/")[2].partition("-") for file in files)
        return [Unread(int(batch), key) for batch, _, key in names if batch.isdigit()]

    def remove(self, gone: Iterable[tuple[str, int]], unread: Iterable[Unread] = ()) -> None:
        """Remove records that no batch needs any more."""
        paths = [self._path(array, batch) for array, batch in gone]
        paths += [self.path_of(f"unread/{one.batch}-{one.key}") for one in unread]
        self.store().remove(paths)

    def store(self) -> Store:
        """Give the storage above the folder, which need not exist yet."""
        return open_store(self._parts()[0] or "/", dict(self.storage))

    def _parts(self) -> tuple[str, str]:
        above, _, name = find_place(self.place).uri.rpartition("/")
        return above, name

    def path_of(self, path: str) -> str:
        """Give the path of a file of the state, in `store`."""
        return f"{self._parts()[1]}/{path}"

    def _path(self, array: str, batch: int) -> str:
        return self.path_of(f"records/{array_key(array)}-{batch}")


def array_key(array: str) -> str:
    """Give the name of an array in a folder of files."""
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


FORMAT = 3
INDEX_EVERY = 64
"""After this many batches a file holds all arrays."""
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

    def to_json(self) -> dict[str, Any]:
        """Give the form in files."""
        return {
            "format": FORMAT,
            "arrays": {array: list(entry) for array, entry in self.entries.items()},
            "problems": self.problems,
            "gone": self.gone,
        }

    def planned(self, array: str, mark: str) -> Planned:
        """Give an array as the next plan has it."""
        entry = self.entries.get(array)
        before = entry.batch if entry and entry.batch >= 0 else None
        return Planned(array, before, mark, None, self.problems.get(array))

    def forget(self, present: Collection[str], at_ms: int) -> dict[str, ArrayState]:
        """Drop, and returns, the arrays that have not been found for a week.

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

    def first(self) -> Offset:
        """Give the offset before the first batch."""
        return {"batch": 0}

    def latest(self) -> Offset:
        """Give the last batch that was planned."""
        return {"batch": max(self._numbers(".json"), default=0)}

    def planned(self, start: Offset) -> Offset | None:
        """Give the next batch, if it was planned: a crash may have followed."""
        number = _number(start) + 1
        return None if self._read(f"{number}.json") is None else {"batch": number}

    def index(self, start: Offset) -> Index:
        """All arrays up to an offset."""
        number = _number(start)
        if self._index.number == number:
            return self._index
        if self._index.number > number:
            self._index = Index()
        before = [one for one in self._numbers(".index.json") if one <= number]
        if before and max(before) > self._index.number:
            self._index = _from_json(max(before), self._read(f"{max(before)}.index.json") or {})
        unread = self.records.unread()
        for batch in range(self._index.number + 1, number + 1):
            self._fold(batch, {one.key for one in unread if one.batch == batch})
        return self._index

    def _fold(self, number: int, unread: Collection[str]) -> None:
        """Add one batch to the index."""
        document = self._read(f"{number}.json")
        if document is None:
            raise self._missing(number)
        index, self._index.number = self._index, number
        for one in _arrays(document):
            if one.problem is not None:
                index.problems[one.array] = one.problem
                continue
            entry, told = ArrayState(number, one.mark), None
            if array_key(one.array) in unread:
                record = self.records.read(one.array, number)
                told = record.unread if record is not None else None
            if told is None:
                index.entries[one.array] = entry
                index.problems.pop(one.array, None)
            else:
                # It stays as it was, and is read again.
                index.problems[one.array] = told
                index.entries[one.array] = ArrayState(
                    -1 if one.before is None else one.before, None
                )

    def plan(self, start: Offset, arrays: Mapping[str, str], problems: Mapping[str, str]) -> Offset:
        """Write the next plan; if another query was first, its plan is the next batch.

        Args:
            start: The offset that the batch begins at.
            arrays: Array to read -> its mark.
            problems: Array or folder that cannot be listed -> why.
        """
        index, number = self.index(start), _number(start) + 1
        document = {
            "format": FORMAT,
            "at_ms": now_ms(),
            "arrays": [
                *(index.planned(array, mark) for array, mark in arrays.items()),
                *(Planned(place, None, None, words) for place, words in problems.items()),
            ],
        }
        self._write(f"{number}.json", document)
        return {"batch": number}

    def batch(self, start: Offset, end: Offset) -> tuple[Planned, ...]:
        """Give the arrays to read between two offsets."""
        first, number = _number(start), _number(end)
        if first == number:
            return ()
        if first != number - 1:
            found = f"found {first} and {number}"
            raise ChronotileError(self.records.place, f"expected two batches in a row, {found}")
        document = self._read(f"{number}.json")
        if document is None:
            raise self._missing(number)
        return _arrays(document)

    def tidy(self, number: int, present: Collection[str] | None) -> None:
        """Write an index now and then, and removes what no batch needs any more.

        Args:
            number: The last batch that is done with.
            present: The arrays that are there; None if some could not be listed.
        """
        if number % INDEX_EVERY or self._index.number != number:
            return
        last = number - KEPT
        over = self._index.forget(present, now_ms()) if present is not None else {}
        self._write(f"{number}.index.json", self._index.to_json())
        self.records.remove((a, e.batch) for a, e in over.items() if 0 <= e.batch <= last)
        kept = max((one for one in self._numbers(".index.json") if one <= last), default=0)
        unread = [one for one in self.records.unread() if one.batch <= kept]
        for batch in sorted(one for one in self._numbers(".json") if one <= kept):
            arrays = _arrays(self._read(f"{batch}.json") or {"arrays": ()})
            unsure = {one.key for one in unread if one.batch == batch}
            self.records.remove(self._superseded(batch, arrays, unsure))
            self._remove(f"{batch}.json")
        self.records.remove((), unread)
        for one in self._numbers(".index.json"):
            if one < kept:
                self._remove(f"{one}.index.json")

    def _superseded(
        self, batch: int, arrays: tuple[Planned, ...], unsure: Collection[str]
    ) -> Iterator[tuple[str, int]]:
        """Give the records that nothing begins with once a batch will not be read again."""
        for one in arrays:
            if array_key(one.array) in unsure:
                record = self.records.read(one.array, batch)
                if record is not None and record.unread is not None:
                    yield one.array, batch
                    continue
            if one.before is not None:
                yield one.array, one.before

    def _missing(self, number: int) -> ChronotileError:
        problem = f"expected the plan of batch {number}, found no file"
        hint = "the state belongs to another checkpoint, or has gone on without this query"
        return ChronotileError(f"{self.records.place}/{number}.json", f"{problem}: {hint}")

    def _numbers(self, suffix: str) -> list[int]:
        folder = self.records.store().list_dir(self.records.path_of("").rstrip("/"))
        names = [file.path.rpartition("/")[2] for file in folder.files]
        stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
        return [int(stem) for stem in stems if stem.isdigit()]

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            data = self.records.store().read(self.records.path_of(name))
        except MissingObjectError:
            return None
        document: dict[str, Any] = json.loads(data)
        if document.get("format") != FORMAT:
            problem = f"expected format {FORMAT}, found a plan of an earlier version"
            raise ChronotileError(f"{self.records.place}/{name}", f"{problem}: give a new folder")
        return document

    def _write(self, name: str, document: dict[str, Any]) -> None:
        with suppress(ObjectExistsError):
            data = json.dumps(document).encode()
            self.records.store().put_if_absent(self.records.path_of(name), data)

    def _remove(self, name: str) -> None:
        self.records.store().remove([self.records.path_of(name)])


def _number(offset: Offset) -> int:
    """Read the number of a batch.

    Raises:
        ChronotileError: An earlier version made the offset, which holds commits itself.

    >>> _number({"batch": 7})
    7
    """
    if "batch" not in offset:
        problem = "expected the number of a batch, found an offset of an earlier version"
        raise ChronotileError("checkpoint", f"{problem}: give the query a new checkpointLocation")
    return int(offset["batch"])


def _arrays(document: Mapping[str, Any]) -> tuple[Planned, ...]:
    return tuple(Planned(*one) for one in document["arrays"])


def _from_json(number: int, document: Mapping[str, Any]) -> Index:
    entries = {array: ArrayState(*entry) for array, entry in document["arrays"].items()}
    return Index(number, entries, dict(document["problems"]), dict(document["gone"]))
