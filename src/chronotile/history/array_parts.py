"""A large array in parts: each has all commits and fragments of some times.

In: a store. Out: `ArrayParts`, a small value that tells where each part's records stand in the
commit files; and a store of each part, which `read_history` takes for a small array. Memory grows
with a part, not with the array. Knows nothing of windows.

Whatever the rules compare has one name, and so one time: a commit and its copies in several files,
its fragment, the line of an `.ign` or `.vac` that names it. So parts cut by time can be read one by
one. What belongs to no time (schemas, names that are none, files by themselves) and the deletes and
updates, which are few, make up one more part, the frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.format.kinds import COMMITS, FRAGMENTS, LINES, OK, TILES
from chronotile.format.names import MAX_TIMESTAMP, try_parse
from chronotile.history.lines_to_columns import scan_names
from chronotile.history.listing import LISTED
from chronotile.history.log_pieces import (
    Block,
    OddRecordError,
    Piece,
    are_between,
    keep,
    read_pieces,
    runs_of,
)
from chronotile.history.read_history import History, read_history
from chronotile.history.uri_columns import stand_at
from chronotile.storage.many_names import WaitingNames, stream_names
from chronotile.storage.part_of_array import narrowed
from chronotile.storage.store import Names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chronotile.history.commit_table import CommitTable, Mask
    from chronotile.history.log_pieces import Kept
    from chronotile.history.uri_columns import I64, U64
    from chronotile.storage.store import Store, Stranger

ROWS = 67_000
"""Commits of one part, about: a little more than a row group of Parquet has."""
_EVERY = 64
"""One commit in so many is a sample of the times."""
_LEN_WHOLE = 8 << 20
"""Bytes of the largest `.ign` or `.vac` that the frame shows as it is; of a larger one it has the
lines that name no write, and those of the outermost times."""
_PREFIX = f"{COMMITS}/".encode()
_DIVIDED = frozenset({COMMITS, FRAGMENTS})
"""The folders whose names are divided among the parts."""


class LogFile(NamedTuple):
    """A `.con`, `.ign` or `.vac`, and where its records stand."""

    path: str
    size: int
    blocks: tuple[Block, ...]
    last: int
    """The largest t2."""
    has_first: bool
    has_last: bool
    """Whether a record has the first, and one the last time of the file's name."""

    @property
    def first(self) -> int | None:
        """The smallest t1; None if there is no record."""
        return min((block.first for block in self.blocks), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayParts:
    """Where the parts of an array are; small enough to send around."""

    store: Store
    cuts: tuple[int, ...]
    """The first time of each part; 0 is the first of them."""
    files: tuple[LogFile, ...]
    names: Mapping[str, Names]
    """Folder -> its names that belong to no time, and those of deletes and updates."""
    frame: Mapping[str, bytes]
    """Path of a commit file -> what the frame shows of it."""
    frame_tiles: Mapping[str, tuple[I64, I64]]
    """Path of a `.con` -> where the tiles stand in what the frame shows, and in the file."""
    loose: int
    """Files in `__commits`, of any kind."""

    def __len__(self) -> int:
        return len(self.cuts)

    def times(self, part: int) -> tuple[int, int]:
        """The first and the last time of a part."""
        after = self.cuts[part + 1] - 1 if part + 1 < len(self.cuts) else MAX_TIMESTAMP
        return self.cuts[part], after

    def histories(
        self, first: int, last: int, key: bytes | None, *, fragments: bool = True
    ) -> Iterator[History]:
        """The parts from `first` to before `last`, one after the other.

        Args:
            first: The number of a part.
            last: Likewise.
            key: The key of an encrypted array.
            fragments: Whether to list the fragments. Without them nothing tells what is visible.

        Raises:
            MissingObjectError: A commit file is gone: the array has changed.
            OddRecordError: A commit file has changed.
        """
        known: dict[str, memoryview] = {}
        folders = [COMMITS, FRAGMENTS] if fragments else [COMMITS]
        links: list[Stranger] = []
        with WaitingNames() as commits, WaitingNames() as in_fragments:
            waiting = {COMMITS: commits, FRAGMENTS: in_fragments}
            for folder in folders:
                links += self._divide(folder, waiting[folder], range(first, last))
            for part in range(first, last):
                low, high = self.times(part)
                between = partial(_between, low=low, high=high)
                kept = {
                    file.path: keep(self._pieces(file, low, high), between) for file in self.files
                }
                linked = tuple(one for one in links if low <= _time_of(one.path) <= high)
                names = {
                    COMMITS: Names((*self._lists, *commits.names(part))),
                    FRAGMENTS: Names((), tuple(in_fragments.names(part)), linked),
                }
                store = narrowed(
                    self.store,
                    {**self.names, **names},
                    {path: one.data for path, one in kept.items()},
                    known,
                )
                history = read_history(store, key=key, fragments=fragments)
                tiles = {path: (one.tile_place, one.tile_offset) for path, one in kept.items()}
                yield replace(history, table=_with_offsets(history.table, tiles))

    def frame_history(self, key: bytes | None) -> History:
        """What belongs to no time, and all deletes and updates."""
        frame = narrowed(self.store, self.names, self.frame)
        history = read_history(frame, key=key)
        return replace(history, table=_with_offsets(history.table, self.frame_tiles))

    def _pieces(self, file: LogFile, low: int, high: int) -> Iterator[Piece]:
        for start, end in runs_of(file.blocks, low, high):
            yield from read_pieces(self.store, file.path, start, end)

    def _divide(self, folder: str, waiting: WaitingNames, parts: range) -> list[Stranger]:
        """Lays the names of a folder aside, for the parts that need them; gives its links."""
        cuts, links = np.array(self.cuts, np.uint64), []
        for found in stream_names(self.store, folder):
            routed, t1, _ = split_names(folder, found)
            number = np.searchsorted(cuts, t1, side="right") - 1
            for part in np.unique(number).tolist():
                if part in parts:
                    waiting.add(part, [routed[at] for at in np.flatnonzero(number == part)])
            links += [one for one in found.strangers if one.kind == "folder-link"]
        return links

    @property
    def _lists(self) -> Iterator[str]:
        """The names of files that all parts have."""
        return (name for name in self.names[COMMITS].files if name.endswith(LINES))


def _between(piece: Piece, low: int, high: int) -> Mask:
    return are_between(piece.uris.t1, low, high)


def _time_of(path: str) -> int:
    name = try_parse(path.rpartition("/")[2])
    return 0 if name is None else name.t1


def split_names(folder: str, found: Names) -> tuple[list[str], U64, Names]:
    """The names of a folder that belong to a time, these times, and the other names."""
    named = found.files if folder == COMMITS else found.folders
    uris, _ = scan_names(named)
    routed = uris.ext != 0 if folder == COMMITS else uris.ext == 0
    routed[list(uris.bad)] = False
    names = [name for name, mine in zip(named, routed.tolist(), strict=True) if mine]
    others = tuple(name for name, mine in zip(named, routed.tolist(), strict=True) if not mine)
    is_left = found._replace(files=others) if folder == COMMITS else found._replace(folders=others)
    return names, uris.t1[routed], is_left


def _with_offsets(table: CommitTable, tiles: Mapping[str, tuple[I64, I64]]) -> CommitTable:
    """A table whose `.con` files are parts of the real ones, with the real places of tiles."""
    offsets = table.tile_offset.copy()
    source = table.source[table.tile_rows]
    for number, one in enumerate(table.sources):
        if not one.loose:
            place, offset = tiles[one.path]
            own = source == number
            offsets[own] = offset[np.searchsorted(place, offsets[own])]
    return replace(table, tile_offset=offsets, tile_place=table.tile_offset)


def divide_array(store: Store, rows: int = ROWS) -> ArrayParts | None:
    """Finds the parts of a large array; None if it must be read as a whole, as it is damaged.

    Reads the `.con`, `.ign` and `.vac` files of `__commits` once, piece by piece, and lists all
    folders but `__fragments`.

    Args:
        store: Where the array is.
        rows: Commits of one part, about.

    Raises:
        StorageError: The storage failed.
    """
    samples: list[U64] = []
    rest, tiles, loose = _list_commits(store, samples)
    lists = sorted(name for name in rest.files if name.endswith(LINES))
    files: list[LogFile] = []
    frame: dict[str, Kept] = {}
    try:
        for name in lists:
            path = f"{COMMITS}/{name}"
            file, frame[path] = _index(store, path, samples)
            files.append(file)
    except OddRecordError:
        return None
    names = {folder: store.list_names(folder) for folder in sorted(LISTED - _DIVIDED)}
    if names[""].folders and any(try_parse(name) for name in names[""].folders):
        return None  # fragments from before version 12 lie in the root
    if any(name.endswith(".ok") for name in names[""].files):
        return None
    names[COMMITS] = rest._replace(files=(*rest.files, *tiles))
    names[FRAGMENTS] = Names()
    return ArrayParts(
        store=store,
        cuts=_cuts(samples, max(rows // _EVERY, 1)),
        files=tuple(files),
        names=names,
        frame={path: kept.data for path, kept in frame.items()},
        frame_tiles={path: (kept.tile_place, kept.tile_offset) for path, kept in frame.items()},
        loose=loose,
    )


def _list_commits(store: Store, samples: list[U64]) -> tuple[Names, list[str], int]:
    """The names in `__commits` of no time, those of deletes and updates, and how many there are."""
    files: list[str] = []
    folders: list[str] = []
    strangers: list[Stranger] = []
    tiles: list[str] = []
    loose = 0
    for found in stream_names(store, COMMITS):
        names, t1, left = split_names(COMMITS, found)
        samples.append(_sample(t1))
        tiles += [name for name in names if name.endswith(TILES)]
        files += left.files
        folders += left.folders
        strangers += left.strangers
        loose += len(found.files)
    return Names(tuple(files), tuple(folders), tuple(strangers)), tiles, loose


def _index(store: Store, path: str, samples: list[U64]) -> tuple[LogFile, Kept]:
    """Reads one commit file: where its records stand, and what the frame shows of it.

    Raises:
        OddRecordError: A record is damaged or unusual.
    """
    size = store.head(path).size or 0
    name = try_parse(path.rpartition("/")[2].rpartition(".")[0])
    blocks: list[Block] = []
    last, has_first, has_last = 0, False, False

    def seen() -> Iterator[Piece]:
        nonlocal last, has_first, has_last
        for piece in read_pieces(store, path, 0, size):
            uris = piece.uris
            if path.endswith(".con"):
                _check_plain(piece, path)
                samples.append(_sample(uris.t1))
            blocks.append(piece.block)
            last = max(last, int(uris.t2.max()))
            if name is not None:
                has_first = has_first or bool((uris.t1 == np.uint64(name.t1)).any())
                has_last = has_last or bool((uris.t2 == np.uint64(name.t2)).any())
            yield piece

    whole = not path.endswith(".con") and size <= _LEN_WHOLE
    kept = keep(seen(), partial(_in_frame, whole=whole))
    return LogFile(path, size, tuple(blocks), last, has_first, has_last), kept


def _check_plain(piece: Piece, path: str) -> None:
    """Raises an error if a record names no commit of this array."""
    uris = piece.uris
    in_root = uris.ext == OK
    plain = np.where(in_root, 0, len(_PREFIX)) == uris.prefix
    inside = np.flatnonzero(plain & ~in_root)
    plain[inside] = stand_at(piece.data, uris.start[inside], _PREFIX)
    if in_root.any() or not plain.all():
        raise OddRecordError(path)


def _in_frame(piece: Piece, *, whole: bool) -> Mask:
    """Mask of the records that the frame shows: with tiles, without a name, the outermost times."""
    uris = piece.uris
    mask: Mask = np.full(len(uris.start), whole)
    mask[uris.ext > OK] = True
    mask[list(uris.bad)] = True
    if not piece.is_con:
        mask[[int(uris.t1.argmin()), int(uris.t2.argmax())]] = True
    return mask


def _sample(times: U64) -> U64:
    """Some of many times; a copy, as a view would hold all of them in memory."""
    return times[::_EVERY].copy()


def _cuts(samples: Sequence[U64], step: int) -> tuple[int, ...]:
    """The first time of each part; commits of one millisecond stay together.

    >>> _cuts([np.array([5, 7, 9], np.uint64), np.array([6], np.uint64)], 2)
    (0, 7)
    """
    times = np.sort(np.concatenate([np.empty(0, np.uint64), *samples]))
    return tuple(dict.fromkeys((0, *times[step::step].tolist())))
