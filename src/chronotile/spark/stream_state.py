"""What a stream has read already.

In: commits, by array. Out: offsets that Spark keeps in a query's checkpoint, and from them again
which commits were read before, and which belong to one batch. Knows nothing of Spark.

A commit is known by its name, never by its time: one that is dated in the past is new all the
same. A name is kept as 8 bytes of its hash. Two ways to keep them:

- in the offset itself: nothing to set up, but Spark writes the offset with every batch;
- in a folder (option `state`): batch n is the file n, which is written once and never changed.
  The offset is the number. A batch that is planned again, as after a crash, is the same batch,
  and several queries can share a folder.

A query can go over from the first to the second: its first file then holds all that the offset
held, and what is new.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from chronotile.errors import ChronotileError
from chronotile.storage.place import MissingObjectError, find_place
from chronotile.storage.store import ObjectExistsError, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from chronotile.history.listing import Listing
    from chronotile.spark.options import Options
    from chronotile.storage.store import Store

Marks: TypeAlias = "npt.NDArray[np.uint64]"
"""Hashes of commits, sorted, each once."""
Seen: TypeAlias = "dict[str, Marks]"
"""Array -> its commits."""
Offset: TypeAlias = dict[str, Any]

IN_OFFSET_MAX = 100_000
"""Commits that an offset may hold: about 1 MB."""
GRAIN_MS = 3_000
"""The coarsest grain of a file's time that is in use, and some more."""
SNAPSHOT_EVERY = 64
"""After so many batches a file holds all that came before, so that a restart reads few."""

_SEEN = "seen"


def marks(names: Iterable[str]) -> Marks:
    """The hashes of commits, in the order given.

    >>> marks(["a.wrt"]) == marks(["b.wrt", "a.wrt"])[1]
    array([ True])
    """
    found = [
        int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        for name in names
    ]
    return np.array(found, np.uint64)


def listing_mark(store: Store, listing: Listing, began_ms: int) -> str | None:
    """A short text that differs if any name in a listing does, or a file that is read.

    In a bucket a listing tells sizes and ETags; on a disk each file that is read is asked for
    its size and time.

    Args:
        store: Where the array is.
        listing: What was listed.
        began_ms: When the array began to be read, or listed if it is not read.

    Returns:
        The mark; None if a file was written at or after that time, or so short a while before
        that a second change would leave it with the same time.
    """
    told: list[str] = []
    for path in () if listing.stamps else listing.read_paths():
        try:
            one = store.head(path)
        except MissingObjectError:
            return None
        if one.modified_ms is None or one.modified_ms > began_ms - GRAIN_MS:
            return None
        told.append(f"{path} {one.size} {one.etag}")
    mark = hashlib.blake2b(digest_size=16)
    for kind in fields(listing):
        names = getattr(listing, kind.name)
        if isinstance(names, tuple):
            text = "\n".join((kind.name, *sorted(names), ""))
            mark.update(text.encode("utf-8", "surrogatepass"))
    mark.update("\n".join(told).encode("utf-8", "surrogatepass"))
    return mark.hexdigest()


def less(more: Mapping[str, Marks], known: Mapping[str, Marks]) -> Seen:
    """What is in one and not in the other; arrays without any are left out.

    >>> {k: v.tolist() for k, v in less({"a": marks("xy")}, {"a": marks("x")}).items()} == {
    ...     "a": marks("y").tolist()}
    True
    """
    nothing = np.empty(0, np.uint64)
    rest = {a: np.setdiff1d(found, known.get(a, nothing)) for a, found in more.items()}
    return {array: found for array, found in rest.items() if len(found)}


def _with(known: Mapping[str, Marks], more: Mapping[str, Marks]) -> Seen:
    merged = dict(known)
    for array, found in more.items():
        merged[array] = np.union1d(merged[array], found) if array in merged else np.unique(found)
    return merged


def _packed(seen: Mapping[str, Marks]) -> dict[str, str]:
    return {
        array: base64.b64encode(found.astype("<u8").tobytes()).decode()
        for array, found in sorted(seen.items())
    }


def _unpacked(packed: Mapping[str, str]) -> Seen:
    return {
        array: np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)
        for array, text in packed.items()
    }


class Memory(Protocol):
    """Where a stream keeps what it has read."""

    def first(self) -> Offset:
        """The offset before all commits."""

    def latest(self) -> Offset | None:
        """The last offset that was given, where this can be told."""

    def seen(self, offset: Offset) -> Seen:
        """All commits up to an offset."""

    def planned(self, start: Offset) -> Offset | None:
        """The batch after an offset, if it is planned already."""

    def plan(self, start: Offset, new: Seen) -> Offset:
        """Plans a batch of new commits; gives its end."""


def memory_of(options: Options) -> Memory:
    """The memory that the options ask for."""
    if options.state is None:
        return InOffset()
    return InFolder(options.state, options.storage_options)


class InOffset:
    """Everything is in the offset."""

    def first(self) -> Offset:
        """No commits."""
        return {_SEEN: {}}

    def latest(self) -> Offset | None:
        """Only Spark knows."""
        return None

    def seen(self, offset: Offset) -> Seen:
        """The commits in it."""
        if _SEEN not in offset:
            problem = "expected the folder that this query has used so far, found none"
            raise ChronotileError("option 'state'", problem)
        return _unpacked(offset[_SEEN])

    def planned(self, start: Offset) -> Offset | None:  # noqa: ARG002 - of the protocol
        """Nothing is kept elsewhere."""
        return None

    def plan(self, start: Offset, new: Seen) -> Offset:
        """Adds the commits."""
        together = _with(self.seen(start), new)
        count = sum(map(len, together.values()))
        if count > IN_OFFSET_MAX:
            problem = f"expected a folder for {count} commits, found none: an offset holds"
            hint = "start the query again with a folder; it goes on where it is"
            raise ChronotileError("option 'state'", f"{problem} {IN_OFFSET_MAX}; {hint}")
        return {_SEEN: _packed(together)}


class InFolder:
    """One file a batch, in a folder of its own."""

    def __init__(self, place: str, storage_options: Mapping[str, str]) -> None:
        self._above, _, self._name = find_place(place).uri.rpartition("/")
        self._options = dict(storage_options)
        self._known: tuple[int, Seen] = (0, {})

    def first(self) -> Offset:
        """Before the first file."""
        return {"batch": 0}

    def latest(self) -> Offset | None:
        """The last file."""
        names = [
            entry.path.rpartition("/")[2] for entry in self._store().list_dir(self._name).files
        ]
        numbers = [int(name[:-5]) for name in names if name[:-5].isdigit()]
        return {"batch": max(numbers, default=0)}

    def seen(self, offset: Offset) -> Seen:
        """All files up to that number, or a snapshot and the files after it."""
        if _SEEN in offset:
            return _unpacked(offset[_SEEN])
        number = int(offset["batch"])
        at, known = self._known
        if at > number:
            at, known = 0, {}
        snapshot = number - number % SNAPSHOT_EVERY
        if snapshot > at:
            found = self._read(f"{snapshot}.all.json")
            at, known = (at, known) if found is None else (snapshot, found)
        for batch in range(at + 1, number + 1):
            known = _with(known, self._batch(batch))
        self._known = (number, known)
        return known

    def planned(self, start: Offset) -> Offset | None:
        """The next file, if it is there: its batch was planned, and may have been lost."""
        number = int(start.get("batch", 0)) + 1
        found = self._read(f"{number}.json")
        if found is None:
            return None
        if _SEEN in start and less(self.seen(start), found):
            where = f"{self._above}/{self._name}"
            problem = "expected a folder for this query to go over to, found that of another"
            raise ChronotileError(where, f"{problem}: give it one of its own")
        return {"batch": number}

    def plan(self, start: Offset, new: Seen) -> Offset:
        """Writes the next file; if somebody else was first, theirs is the next batch."""
        number = int(start.get("batch", 0)) + 1
        self._write(f"{number}.json", _with(self.seen(start), new) if _SEEN in start else new)
        self.planned(start)
        if number % SNAPSHOT_EVERY == 0:
            self._write(f"{number}.all.json", self.seen({"batch": number}))
        return {"batch": number}

    def _store(self) -> Store:
        return open_store(self._above or "/", self._options)

    def _batch(self, number: int) -> Seen:
        found = self._read(f"{number}.json")
        if found is None:
            where = f"{self._above}/{self._name}/{number}.json"
            problem = "expected what batch it holds, found nothing: the state belongs to another"
            raise ChronotileError(where, f"{problem} checkpoint")
        return found

    def _read(self, name: str) -> Seen | None:
        try:
            data = self._store().read(f"{self._name}/{name}")
        except MissingObjectError:
            return None
        return _unpacked(json.loads(data))

    def _write(self, name: str, seen: Seen) -> None:
        try:
            self._store().put_if_absent(f"{self._name}/{name}", json.dumps(_packed(seen)).encode())
        except ObjectExistsError:
            return
