"""Which commits a stream has read already.

In: commits, by array. Out: offsets, which Spark keeps in a query's checkpoint. An offset tells
which commits were read before it, and two offsets which belong to a batch. Knows nothing of Spark.

The name identifies a commit, never its time: a commit that is dated in the past is new all the
same. A stream keeps 8 bytes of the name's hash, in one of two places:

- in the offset itself: nothing to set up, but Spark writes the offset with every batch;
- in a folder (option `state`): file n holds batch n, and never changes. The offset is the number.
  A batch that is planned again, as after a crash, is the same batch, and several queries can share
  a folder.

A query can go over from the first to the second: its first file then holds all commits of the
offset, and the new ones.
"""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

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

Hashes: TypeAlias = "npt.NDArray[np.uint64]"
"""Hashes of commits, sorted, each once."""
Seen: TypeAlias = "dict[str, Hashes]"
"""Array -> its commits."""
Offset: TypeAlias = dict[str, Any]
Memory: TypeAlias = "OffsetMemory | FolderMemory"

IN_OFFSET_MAX = 100_000
"""Commits that an offset may hold: about 1 MB."""
GRAIN_MS = 3_000
"""A little more than the coarsest resolution of a file's time that is in use."""
SNAPSHOT_EVERY = 64
"""After this many batches a file holds all earlier ones, so that a restart reads few files."""

_SEEN = "seen"
_NONE = np.empty(0, np.uint64)


def hashes(names: Iterable[str]) -> Hashes:
    """The hashes of commits, in the given order.

    >>> hashes(["a.wrt"]) == hashes(["b.wrt", "a.wrt"])[1]
    array([ True])
    """
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def listing_fingerprint(store: Store, listing: Listing, began_ms: int) -> str | None:
    """A short text that changes with any name in a listing, and with any file that is read.

    In a bucket a listing tells sizes and ETags; on a disk this asks each file that is read for its
    size and time.

    Args:
        store: Where the array is.
        listing: The listing of the array.
        began_ms: When reading the array, or listing it, began.

    Returns:
        The fingerprint; None if a file was written after that time, or so shortly before that a
        second change would leave it with the same time.
    """
    stamps: list[str] = []
    for path in () if listing.stamps else listing.read_paths():
        try:
            entry = store.head(path)
        except MissingObjectError:
            return None
        if entry.modified_ms is None or entry.modified_ms > began_ms - GRAIN_MS:
            return None
        stamps.append(f"{path} {entry.size} {entry.etag}")
    digest = hashlib.blake2b(digest_size=16)
    for kind in fields(listing):
        names = getattr(listing, kind.name)
        if isinstance(names, tuple):
            text = "\n".join((kind.name, *sorted(names), ""))
            digest.update(text.encode("utf-8", "surrogatepass"))
    digest.update("\n".join(stamps).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def without(commits: Mapping[str, Hashes], known: Mapping[str, Hashes]) -> Seen:
    """The commits that are not known; arrays without any are left out.

    >>> {k: v.tolist() for k, v in without({"a": hashes("xy")}, {"a": hashes("x")}).items()} == {
    ...     "a": hashes("y").tolist()}
    True
    """
    rest = {array: np.setdiff1d(one, known.get(array, _NONE)) for array, one in commits.items()}
    return {array: new for array, new in rest.items() if len(new)}


def _with(known: Mapping[str, Hashes], more: Mapping[str, Hashes]) -> Seen:
    return {**known, **{a: np.union1d(known.get(a, _NONE), one) for a, one in more.items()}}


def _to_json(seen: Mapping[str, Hashes]) -> dict[str, str]:
    return {
        array: base64.b64encode(commits.astype("<u8").tobytes()).decode()
        for array, commits in sorted(seen.items())
    }


def _from_json(document: Mapping[str, str]) -> Seen:
    return {
        array: np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)
        for array, text in document.items()
    }


def memory_of(options: Options) -> Memory:
    """The memory that the options ask for."""
    if options.state is None:
        return OffsetMemory()
    return FolderMemory(options.state, options.storage_options)


class OffsetMemory:
    """Keeps all commits in the offset."""

    def first(self) -> Offset:
        """The offset before all commits."""
        return {_SEEN: {}}

    def latest(self) -> Offset | None:
        """None: only Spark knows the last offset."""
        return None

    def seen(self, offset: Offset) -> Seen:
        """All commits up to an offset."""
        if _SEEN not in offset:
            problem = "expected the folder that this query has used so far, found none"
            raise ChronotileError("option 'state'", problem)
        return _from_json(offset[_SEEN])

    def planned(self, start: Offset) -> Offset | None:  # noqa: ARG002 - as the other's
        """None: nothing is kept outside of the offset."""
        return None

    def plan(self, start: Offset, new: Seen) -> Offset:
        """Plans a batch of new commits; returns its end."""
        together = _with(self.seen(start), new)
        count = sum(map(len, together.values()))
        if count > IN_OFFSET_MAX:
            problem = f"expected a folder for {count} commits, found none: an offset holds"
            hint = "start the query again with a folder; it goes on where it is"
            raise ChronotileError("option 'state'", f"{problem} {IN_OFFSET_MAX}; {hint}")
        return {_SEEN: _to_json(together)}


class FolderMemory:
    """Keeps each batch in a file, in a folder of its own."""

    def __init__(self, place: str, storage_options: Mapping[str, str]) -> None:
        self._above, _, self._name = find_place(place).uri.rpartition("/")
        self._options = dict(storage_options)
        self._known: tuple[int, Seen] = (0, {})

    def first(self) -> Offset:
        """The offset before the first file."""
        return {"batch": 0}

    def latest(self) -> Offset | None:
        """The number of the last file."""
        files = self._store().list_dir(self._name).files
        stems = [file.path.rpartition("/")[2].removesuffix(".json") for file in files]
        return {"batch": max((int(stem) for stem in stems if stem.isdigit()), default=0)}

    def seen(self, offset: Offset) -> Seen:
        """All commits up to an offset: a snapshot, and the files after it."""
        if _SEEN in offset:
            return _from_json(offset[_SEEN])
        number = int(offset["batch"])
        read, known = self._known if self._known[0] <= number else (0, {})
        snapshot = number - number % SNAPSHOT_EVERY
        if snapshot > read and (everything := self._read(f"{snapshot}.all.json")) is not None:
            read, known = snapshot, everything
        for batch in range(read + 1, number + 1):
            known = _with(known, self._batch(batch))
        self._known = (number, known)
        return known

    def planned(self, start: Offset) -> Offset | None:
        """The next file, if it is there: a crash may have followed its plan."""
        number = int(start.get("batch", 0)) + 1
        commits = self._read(f"{number}.json")
        if commits is None:
            return None
        if _SEEN in start and without(self.seen(start), commits):
            where = f"{self._above}/{self._name}"
            problem = "expected a folder for this query to go over to, found that of another"
            raise ChronotileError(where, f"{problem}: give it one of its own")
        return {"batch": number}

    def plan(self, start: Offset, new: Seen) -> Offset:
        """Writes the next file; if another query was first, its file is the next batch."""
        number = int(start.get("batch", 0)) + 1
        self._write(f"{number}.json", _with(self.seen(start), new) if _SEEN in start else new)
        self.planned(start)
        if number % SNAPSHOT_EVERY == 0:
            self._write(f"{number}.all.json", self.seen({"batch": number}))
        return {"batch": number}

    def _store(self) -> Store:
        return open_store(self._above or "/", self._options)

    def _batch(self, number: int) -> Seen:
        commits = self._read(f"{number}.json")
        if commits is None:
            where = f"{self._above}/{self._name}/{number}.json"
            problem = f"expected the commits of batch {number}, found no file"
            raise ChronotileError(where, f"{problem}: the state belongs to another checkpoint")
        return commits

    def _read(self, name: str) -> Seen | None:
        try:
            data = self._store().read(f"{self._name}/{name}")
        except MissingObjectError:
            return None
        return _from_json(json.loads(data))

    def _write(self, name: str, seen: Seen) -> None:
        data = json.dumps(_to_json(seen)).encode()
        with suppress(ObjectExistsError):
            self._store().put_if_absent(f"{self._name}/{name}", data)
