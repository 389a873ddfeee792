"""The files that hold footers: the `.meta` files of an array, and the metadata of each fragment.

In: a store, and what was read of the array. Out: for each `.meta` the footers of this array's
fragments, or why it cannot be opened; for each fragment the size or the end of its own metadata
file, or its error. Decodes no footer; a name out of a file is only compared with what is listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.errors import ChronotileError, UnknownVersionError
from chronotile.format import tiles
from chronotile.format.consolidated_footers import read_index
from chronotile.format.footer_columns import FooterSpans, joined
from chronotile.format.fragment_footer import LEN_LENGTH, METADATA
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import NEWEST_VERSION, is_newer
from chronotile.storage.side_by_side import SideBySide
from chronotile.storage.store import StrangerError, about_one_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chronotile.format.consolidated_footers import FooterIndex, ListedFooter
    from chronotile.history.listing import Listing
    from chronotile.history.read_history import History
    from chronotile.storage.side_by_side import Tail
    from chronotile.storage.store import Store

    T = TypeVar("T")

_LEN_TAIL = 1 << 13
"""Bytes that the first read of a fragment's end takes: most footers, and the tile before them."""
_LEN_SHORT = 1 << 10
"""The least that a read from a disk takes."""
_ASKED_SINGLY = 16
"""For up to this many fragments of a bucket, ask for each size by itself."""


class NamedFooters(NamedTuple):
    """Footers as columns, with the names of their fragments; the last of a name counts."""

    names: pa.Array
    spans: FooterSpans

    def places(self, names: pa.Array) -> pa.Array:
        """Find the footers of some fragments, all different; null if there is none."""
        if names.equals(self.names):  # as a rule: both are in time order
            return pa.array(np.arange(len(names)))
        from_last = pc.index_in(names, value_set=self.names[::-1])
        return pc.subtract(pa.scalar(len(self.names) - 1, pa.int64()), from_last)


@dataclass(frozen=True, kw_only=True)
class FooterFile:
    """A `.meta`, opened."""

    size: int
    """Bytes of the file."""
    index: FooterIndex
    array: str
    """The array of the fragments."""

    @cached_property
    def footers(self) -> dict[str, bytes]:
        """The footers, by the names of their fragments; the last of a name counts."""
        listed = self.index.listed()
        return {item.fragment: item.footer for item in listed if _is_here(item, self.array)}

    @cached_property
    def columns(self) -> NamedFooters:
        """The same as columns."""
        names, spans = self.index.names, self.index.spans()
        if b"/" in names.buffers()[2].to_pybytes():
            footers = self.footers
            return NamedFooters(pa.array([*footers], pa.string()), joined(footers.values()))
        return NamedFooters(names, spans)


def read_consolidated(store: Store, history: History) -> dict[str, FooterFile | ChronotileError]:
    """Read the `.meta` files by path, each with its footers or with why it cannot be opened.

    Raises:
        StorageError: The storage failed.
    """
    paths = [p for p in history.listing.fragment_meta if p.endswith(".meta")]
    files: dict[str, FooterFile | ChronotileError] = {}
    for path, data in store.read_many(paths):
        if isinstance(data, ChronotileError):
            files[path] = about_one_object(data)
            continue
        try:
            if is_newer(path):
                raise UnknownVersionError(path, f"expected a version up to {NEWEST_VERSION}")
            index = read_index(tiles.decode(data, path, key=history.key).payload, path)
            files[path] = FooterFile(size=len(data), index=index, array=history.array)
        except ChronotileError as error:
            files[path] = error
    return files


def footers_of(files: Iterable[FooterFile]) -> NamedFooters:
    """Join the footers of all files; of a name that several have, the last file's counts."""
    columns = [file.columns for file in files]
    if len(columns) == 1:
        return columns[0]
    bases = np.cumsum([0, *(len(one.spans.data) for one in columns)])
    starts = [one.spans.start + base for one, base in zip(columns, bases, strict=False)]
    nothing = np.empty(0, np.int64)
    spans = FooterSpans(
        b"".join(one.spans.data for one in columns),
        np.concatenate([nothing, *starts]),
        np.concatenate([nothing, *(one.spans.length for one in columns)]),
    )
    names = [pa.array([], pa.string()), *(one.names for one in columns)]
    return NamedFooters(pa.concat_arrays(names), spans)


def _is_here(item: ListedFooter, array: str) -> bool:
    """Return True if a `.meta` means a fragment here: before version 9 it names a whole URI.

    If the array has moved, the engine does not find its fragments in there either.
    """
    whole = item.name.rstrip("/").removeprefix("file://")
    return "/" not in item.name or whole == f"{array}/{item.fragment}"


class OwnMetadata:
    """The metadata files of one array's fragments."""

    def __init__(self, store: Store, listing: Listing) -> None:
        self._store = store
        self._is_quick = store.traits.pace == "quick"
        self._in_root = frozenset(listing.root_fragments)
        self._linked = frozenset(path.rpartition("/")[2] for path in listing.linked_fragments)
        self._stamp = None if self._linked else listing.fragments_stamp

    def folder(self, name: str) -> str:
        """Give the folder of a fragment, relative to the array."""
        return name if name in self._in_root else f"{FRAGMENTS}/{name}"

    def sizes(self, names: Sequence[str]) -> list[int | ChronotileError]:
        """Give the size of each fragment's metadata file, or its error.

        Raises:
            StorageError: The storage failed.
        """
        answers = self._asked(names, SideBySide.sizes)
        for at, name in enumerate(names) if self._linked else ():
            if name in self._linked:
                where = self._store.uri_of(f"{self.folder(name)}/{METADATA}")
                answers[at] = StrangerError(where, "expected a folder around it, found a link")
        return answers

    def tails(self, names: Sequence[str]) -> list[Tail | ChronotileError]:
        """Read the end of each fragment's metadata file, with the file's size; or its error.

        Raises:
            StorageError: The storage failed.
        """
        length = _LEN_TAIL
        if self._is_quick and len(names) > _ASKED_SINGLY:
            # Footers of one array have about one length, and a second look at a disk costs little.
            (first,) = self._asked(names[:1], lambda files, here: files.tails(here, length))
            if not isinstance(first, ChronotileError):
                first_length = int.from_bytes(first[0][-LEN_LENGTH:], "little") + LEN_LENGTH
                length = min(max(first_length, _LEN_SHORT), _LEN_TAIL)
        return self._asked(names, lambda files, here: files.tails(here, length))

    def _asked(
        self, names: Sequence[str], ask: Callable[[SideBySide, Sequence[str]], Iterable[T]]
    ) -> list[T]:
        sizes = {} if self._is_quick or len(names) <= _ASKED_SINGLY else self._listed_sizes
        inside = SideBySide(self._store, FRAGMENTS, METADATA, sizes, self._stamp)
        if not self._in_root:
            answers = [*ask(inside, names)]
        else:
            here = [name for name in names if name not in self._in_root]
            there = [name for name in names if name in self._in_root]
            by_name = dict(zip(here, ask(inside, here), strict=True))
            in_root = inside._replace(folder="", stamp=None)
            by_name |= zip(there, ask(in_root, there), strict=True)
            answers = [by_name[name] for name in names]
        for answer in answers:
            if isinstance(answer, ChronotileError):
                about_one_object(answer)
        return answers

    @cached_property
    def _listed_sizes(self) -> dict[str, int]:
        """The sizes of all metadata files, where listing them costs less than asking for each."""
        return {
            entry.path: entry.size
            for entry in self._store.list_prefix(FRAGMENTS, sizes=True)
            if entry.size is not None and entry.path.endswith(f"/{METADATA}")
        }
