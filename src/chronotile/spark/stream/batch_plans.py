"""Which arrays each batch of a stream reads: the plans of its driver.

In: the folder of a stream's state, and what a look at the fleet found. Out: offsets, which are the
numbers of batches, and the plan of each batch: its arrays, and the record that each begins with.
Opens no array, and knows nothing of Spark.

    STATE/<batch>.json         the plan of a batch, written once: planned again, it is the same
    STATE/<batch>.index.json   all arrays up to a batch, so that a restart reads few plans

Two queries that share a folder get the same batches, as long as none is more than a few behind:
plans, and records that only they need, are removed after that.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.spark.stream.batch_records import FORGET_MS, Records, array_key
from chronotile.storage.place import MissingObjectError
from chronotile.storage.store import ObjectExistsError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from chronotile.spark.stream.offsets import Offset

FORMAT = 3
INDEX_EVERY = 64
"""After this many batches a file holds all arrays."""
KEPT = 16
"""Batches that can be read again."""


class Entry(NamedTuple):
    """What is known of an array."""

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
    entries: dict[str, Entry] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """Array -> the problem that was told last, as long as it has it."""
    gone: dict[str, int] = field(default_factory=dict)
    """Array that is no longer found -> since when, in ms."""

    def to_json(self) -> dict[str, Any]:
        """The form in files."""
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

    def forget(self, present: Collection[str], at_ms: int) -> dict[str, Entry]:
        """Drops, and returns, the arrays that have not been found for a week.

        >>> index = Index(entries={"a": Entry(1, None), "b": Entry(1, None)})
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
        """The offset before the first batch."""
        return {"batch": 0}

    def latest(self) -> Offset:
        """The last batch that was planned."""
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
        """Adds one batch to the index."""
        document = self._read(f"{number}.json")
        if document is None:
            raise self._missing(number)
        index, self._index.number = self._index, number
        for one in _arrays(document):
            if one.problem is not None:
                index.problems[one.array] = one.problem
                continue
            entry, told = Entry(number, one.mark), None
            if array_key(one.array) in unread:
                record = self.records.read(one.array, number)
                told = record.unread if record is not None else None
            if told is None:
                index.entries[one.array] = entry
                index.problems.pop(one.array, None)
            else:
                # It stays as it was, and is read again.
                index.problems[one.array] = told
                index.entries[one.array] = Entry(-1 if one.before is None else one.before, None)

    def plan(self, start: Offset, arrays: Mapping[str, str], problems: Mapping[str, str]) -> Offset:
        """Writes the next plan; if another query was first, its plan is the next batch.

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
        """Writes an index now and then, and removes what no batch needs any more.

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
        """The records that nothing begins with once a batch will not be read again."""
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
    entries = {array: Entry(*entry) for array, entry in document["arrays"].items()}
    return Index(number, entries, dict(document["problems"]), dict(document["gone"]))
