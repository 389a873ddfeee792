"""The metadata file in each fragment's folder: its size, and its end, where the footer is.

In: a store, and what was listed of the array. Out: for each fragment a size or some bytes, or the
error that stands in the way. Decodes nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from chronotile.errors import ChronotileError
from chronotile.format.fragment_footer import LEN_LENGTH, METADATA
from chronotile.format.kinds import FRAGMENTS
from chronotile.storage.side_by_side import SideBySide
from chronotile.storage.store import StrangerError, told_of_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chronotile.history.listing import Listing
    from chronotile.storage.side_by_side import Tail
    from chronotile.storage.store import Store

    T = TypeVar("T")

_LEN_TAIL = 1 << 13
"""Bytes that the first read of a fragment's end takes: most footers, and the tile before them."""
_LEN_SHORT = 1 << 10
"""The least that a read from a disk takes."""
_ASKED_SINGLY = 16
"""For up to this many fragments of a bucket, ask for each size by itself."""


class OwnMetadata:
    """The metadata files of one array's fragments."""

    def __init__(self, store: Store, listing: Listing) -> None:
        self._store = store
        self._is_quick = store.traits.pace == "quick"
        self._in_root = frozenset(listing.root_fragments)
        self._linked = frozenset(path.rpartition("/")[2] for path in listing.linked_fragments)
        self._stamp = None if self._linked else listing.fragments_stamp

    def folder(self, name: str) -> str:
        """The folder of a fragment, relative to the array."""
        return name if name in self._in_root else f"{FRAGMENTS}/{name}"

    def sizes(self, names: Sequence[str]) -> list[int | ChronotileError]:
        """The size of each fragment's metadata file, or its error.

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
        """The end of each fragment's metadata file, with the file's size; or its error.

        Raises:
            StorageError: The storage failed.
        """
        length = _LEN_TAIL
        if self._is_quick and len(names) > _ASKED_SINGLY:
            # Footers of one array have about one length, and a second look at a disk costs little.
            (first,) = self._asked(names[:1], lambda files, here: files.tails(here, length))
            if not isinstance(first, ChronotileError):
                said = int.from_bytes(first[0][-LEN_LENGTH:], "little") + LEN_LENGTH
                length = min(max(said, _LEN_SHORT), _LEN_TAIL)
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
            found = dict(zip(here, ask(inside, here), strict=True))
            in_root = inside._replace(folder="", stamp=None)
            found |= zip(there, ask(in_root, there), strict=True)
            answers = [found[name] for name in names]
        for answer in answers:
            if isinstance(answer, ChronotileError):
                told_of_one(answer)
        return answers

    @cached_property
    def _listed_sizes(self) -> dict[str, int]:
        """The sizes of all metadata files, where listing them costs less than asking for each."""
        return {
            entry.path: entry.size
            for entry in self._store.list_prefix(FRAGMENTS, sizes=True)
            if entry.size is not None and entry.path.endswith(f"/{METADATA}")
        }
