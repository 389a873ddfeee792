"""All commit records of an array, as columns in time order.

In: a listing, and the bytes of the files that were read. Out: `CommitTable`: one row per record,
loose or in a `.con`, with marks for ignored records and for copies of one commit. Knows nothing of
windows.

A commit can stand in several places: loose and in a `.con`, or in several `.con` files. By the
rules of the engine a write is effective if it is loose, or if it stands in a `.con` and no `.ign`
names it. Deletes and updates are always effective, once each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from chronotile.errors import BadFileError
from chronotile.format.commit_files import decode_ign, salvage_con
from chronotile.format.kinds import (
    COMMIT_WORDS,
    COMMITS,
    CONDITIONS,
    DEL,
    EXTENSIONS,
    FRAGMENTS,
    OK,
    UPD,
    WRT,
)
from chronotile.format.names import parse_name, version_of
from chronotile.history.lines_to_columns import (
    ConditionTiles,
    condition_tiles,
    scan_con,
    scan_names,
    scan_spans,
)
from chronotile.history.uri_columns import (
    NO_VERSION,
    Uris,
    concatenated,
    constant,
    picked,
    reordered,
    single_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from chronotile.history.listing import Listing
    from chronotile.history.uri_columns import I32, I64, U64, Mask

    ReportDamage: TypeAlias = Callable[[str, str, str], None]


class RecordSource(NamedTuple):
    """A place of records: a `.con`, or the names of files in a folder."""

    path: str
    """The `.con`, or the folder."""
    data: memoryview
    loose: bool
    """True for a folder of commit files, false for a `.con`."""
    implied: bool = False
    """True if these are old fragments without a commit file; each name has `.ok` added."""

    def __reduce__(self) -> tuple[object, ...]:
        # A view of memory cannot be pickled.
        return _unpickled, (self.path, bytes(self.data), self.loose, self.implied)

    def text(self, start: int, end: int) -> str:
        """Decode the text between two places."""
        return str(self.data[start:end], "utf-8")


def _unpickled(path: str, data: bytes, loose: bool, implied: bool) -> RecordSource:
    return RecordSource(path, memoryview(data), loose, implied)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitTable:
    """One row per record, sorted by t1, t2 and name."""

    sources: tuple[RecordSource, ...]
    uris: Uris
    source: I32
    """The number of the row's source."""
    ignored: Mask
    """Mask of the rows that an `.ign` names; no effect on loose records, deletes and updates."""
    effective: Mask
    """True for exactly one row of each effective commit."""
    condition_rows: I64
    """The rows of deletes and updates, in order; the next two columns belong to them."""
    tile_offset: I64
    tile_length: I64
    loose_tiles: Mapping[str, bytes]
    """The content of loose deletes and updates, by path."""
    ignores: Mapping[str, str]
    """Ignored URI -> the `.ign` that names it."""

    def __len__(self) -> int:
        return len(self.source)

    @property
    def commit_count(self) -> int:
        """The number of effective commits; one that stands in several files counts once."""
        return int(np.count_nonzero(self.effective))

    @property
    def first_time(self) -> int | None:
        """The earliest time in the name of a commit."""
        return int(self.uris.t1[0]) if len(self) else None

    @property
    def also_loose(self) -> int:
        """The number of these that stand in a `.con`, and in a loose file too."""
        return int(np.count_nonzero(self.loose & ~self.effective))

    @property
    def loose(self) -> Mask:
        """Mask of the loose records."""
        return np.array([source.loose for source in self.sources], bool)[self.source]

    @property
    def implied(self) -> Mask:
        """Mask of the old fragments that are committed without a commit file."""
        return np.array([source.implied for source in self.sources], bool)[self.source]

    @property
    def is_all_writes(self) -> bool:
        """True if every row is an effective write, as in most logs: no row needs selecting."""
        return bool(single_value(self.effective)) and bool(single_value(self.uris.ext) == WRT)

    def is_from_version(self, first: int) -> Mask:
        """Mark the rows whose name carries this format version or a later one."""
        version = self.uris.version
        if (same := single_value(version)) is not None:
            return constant(first <= same != NO_VERSION, bool, len(version))
        later: Mask = (version >= first) & (version != NO_VERSION)
        return later

    def find(self, uris: Collection[str]) -> I64:
        """Find the rows of some commits in all files; the start of the uuid finds candidates."""
        named, _ = scan_names(list(uris))
        near = np.flatnonzero(np.isin(self.uris.uuid_start, named.uuid_start))
        wanted = frozenset(uris)
        return np.array([row for row in near.tolist() if self.uri(row) in wanted], np.int64)

    def name(self, row: int) -> str:
        """Give the timestamped name."""
        start, end = self.uris.name_bounds(row)
        return self._source(row).text(start, end)

    def _source(self, row: int) -> RecordSource:
        return self.sources[int(self.source[row])]

    def is_loose(self, row: int) -> bool:
        """Return True if the record is a loose file."""
        return self._source(row).loose

    def uri(self, row: int) -> str:
        """Give the commit's URI, relative to the array."""
        source = self._source(row)
        start = int(self.uris.start[row])
        text = source.text(start, start + int(self.uris.length[row]))
        return f"{source.path}/{text}" if source.loose and source.path else text

    def path(self, row: int) -> str:
        """Give the file that holds the record, relative to the array."""
        source = self._source(row)
        if source.implied:
            return f"{self.name(row)}/__fragment_metadata.tdb"
        return self.uri(row) if source.loose else source.path

    def fragment_path(self, row: int) -> str:
        """Give the folder of a write's fragment."""
        name = self.name(row)
        return name if self.uris.ext[row] == OK else f"{FRAGMENTS}/{name}"

    def tile(self, row: int) -> tuple[bytes, int]:
        """Give the bytes of a delete or update, and where they start in its file."""
        source = self._source(row)
        if source.loose:
            return self.loose_tiles[self.uri(row)], 0
        at = int(self.condition_rows.searchsorted(row))
        offset = int(self.tile_offset[at])
        return bytes(source.data[offset : offset + int(self.tile_length[at])]), offset

    def copies(self, row: int) -> tuple[int, ...]:
        """Find the other rows of the same commit, which can stand in several files."""
        uris, kind = self.uris, COMMIT_WORDS[self.uris.ext[row]]
        first = int(np.searchsorted(uris.t1, uris.t1[row], "left"))
        last = int(np.searchsorted(uris.t1, uris.t1[row], "right"))
        near = first + np.flatnonzero(uris.uuid_start[first:last] == uris.uuid_start[row])
        return tuple(
            other
            for other in near.tolist()
            if other != row
            and COMMIT_WORDS[uris.ext[other]] == kind
            and self.name(other) == self.name(row)
        )

    def counts_by_kind(self, rows: I64 | Mask) -> dict[str, int]:
        """Count some rows by kind; a kind without rows is left out."""
        counts: Counter[str] = Counter()
        for kind, count in zip(COMMIT_WORDS, np.bincount(self.uris.ext[rows]), strict=False):
            counts[kind] += int(count)
        return {kind: count for kind, count in counts.items() if count}

    def version(self, row: int) -> int:
        """Give the format version that the engine takes the name to have."""
        version = int(self.uris.version[row])
        return version if version != NO_VERSION else version_of(parse_name(self.name(row)))


def build_table(
    listing: Listing,
    files: Mapping[str, bytes],
    cons: Mapping[str, memoryview],
    report: ReportDamage,
) -> CommitTable:
    """Put the records of all files into one table.

    `files` holds every `.ign`, `.del` and `.upd` of the listing by its path, `cons` every `.con`;
    `report` is called with (path, message, kind) for all damage.
    """
    implied = [f"{name}.ok" for name in listing.implied]
    parts = [_consolidated(path, cons[path], report) for path in listing.paths_of(".con")]
    if loose := _without(listing.commits, listing.non_writes):
        parts.append(_loose(COMMITS, loose, report))
    if in_root := [name for name in listing.root_commits if name.endswith(EXTENSIONS[OK])]:
        parts.append(_loose("", in_root, report))
    if implied or not parts:
        parts.append(_loose("", implied, report, implied=True))
    loose_tiles = {path: data for path, data in files.items() if path.endswith(CONDITIONS)}
    return _assembled(parts, loose_tiles, _ignores(listing, files, report))


class _SourceRecords(NamedTuple):
    """The records of one source."""

    source: RecordSource
    uris: Uris
    tiles: ConditionTiles


def _consolidated(path: str, data: memoryview, report: ReportDamage) -> _SourceRecords:
    try:
        uris, tiles = scan_con(data, path)
    except BadFileError as error:
        report(path, str(error), "con")
        spans, places = salvage_con(bytes(data))
        starts, lengths = np.array(spans, np.int64).reshape(len(spans), 2).T
        uris = scan_spans(data, starts, lengths)
        tiles = condition_tiles(places)
    return _readable(_SourceRecords(RecordSource(path, data, False), uris, tiles), report)


def _without(names: Sequence[str], non_writes: Sequence[str]) -> Sequence[str]:
    """Drop the names of files that are no commits: some of `non_writes`, which are few."""
    others = {name for name in non_writes if not name.endswith(EXTENSIONS[1:])}
    return [name for name in names if name not in others] if others else names


def _loose(
    folder: str, names: Sequence[str], report: ReportDamage, *, implied: bool = False
) -> _SourceRecords:
    uris, text = scan_names(names)
    rows = np.flatnonzero((uris.ext == DEL) | (uris.ext == UPD))
    nothing = np.full(len(rows), -1, np.int64)
    part = _SourceRecords(
        RecordSource(folder, memoryview(text), True, implied),
        uris,
        ConditionTiles(rows, nothing, nothing),
    )
    return _readable(part, report)


def _readable(part: _SourceRecords, report: ReportDamage) -> _SourceRecords:
    """Drop the records whose name is unreadable, and report them."""
    source, uris, tiles = part
    if not uris.bad:
        return part
    for row in uris.bad:
        start = int(uris.start[row])
        raw = bytes(source.data[start : start + int(uris.length[row])])
        text = raw.decode("utf-8", "replace")
        where = f"{source.path}/{text}" if source.loose and source.path else text
        path = where if source.loose else source.path
        report(path, f"{where}: expected a timestamped name (__t1_t2_uuid_v)", "name")
    keep = np.ones(len(uris.start), bool)
    keep[list(uris.bad)] = False
    place = np.cumsum(keep) - 1
    kept = keep[tiles.row]
    return _SourceRecords(
        source,
        Uris._make([*(column[keep] for column in uris[:-1]), ()]),
        ConditionTiles(place[tiles.row[kept]], tiles.offset[kept], tiles.length[kept]),
    )


def _ignores(listing: Listing, files: Mapping[str, bytes], report: ReportDamage) -> dict[str, str]:
    ignores: dict[str, str] = {}
    for path in listing.paths_of(".ign"):
        try:
            lines = decode_ign(files[path], path)
        except BadFileError as error:
            report(path, str(error), "ign")
            # The engine takes the last line even without its newline.
            lines = tuple(files[path].decode("utf-8", "surrogateescape").split("\n"))
        for line in lines:
            ignores.setdefault(line, path)
    return ignores


def _assembled(
    parts: list[_SourceRecords], loose_tiles: Mapping[str, bytes], ignores: Mapping[str, str]
) -> CommitTable:
    uris = concatenated([part.uris for part in parts])
    counts = [len(part.uris.start) for part in parts]
    source = _sources(counts)
    bases = accumulate(counts, initial=0)
    condition_rows = np.concatenate([p.tiles.row + b for p, b in zip(parts, bases, strict=False)])
    offsets = np.concatenate([part.tiles.offset for part in parts])
    lengths = np.concatenate([part.tiles.length for part in parts])
    rising = bool((uris.t1[1:] > uris.t1[:-1]).all())
    order = None if rising else order_by_time(uris, source)
    if order is not None:
        uris, place = reordered(uris, order)
        source, condition_rows = picked(source, order), place[condition_rows]
        by_row = np.argsort(condition_rows, kind="stable")
        condition_rows, offsets, lengths = condition_rows[by_row], offsets[by_row], lengths[by_row]
    table = CommitTable(
        sources=tuple(part.source for part in parts),
        uris=uris,
        source=source,
        ignored=constant(0, bool, len(source)),
        effective=constant(1, bool, len(source)),
        condition_rows=condition_rows,
        tile_offset=offsets,
        tile_length=lengths,
        loose_tiles=loose_tiles,
        ignores=ignores,
    )
    if rising and not ignores:
        return table
    ignored = np.zeros(len(table), bool)
    if ignores:
        ignored[table.find(ignores)] = True
    return replace(table, ignored=ignored, effective=_mark_effective(table, ignored))


def _sources(counts: list[int]) -> I32:
    """Give the number of each row's part."""
    filled = [number for number, count in enumerate(counts) if count]
    if len(filled) == 1:
        return constant(filled[0], np.int32, counts[filled[0]])
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def order_by_time(uris: Uris, source: I32) -> I64 | None:
    """Find the order by time, then name, then source; None if the rows have it already."""
    t1, t2, uuid = uris.t1, uris.t2, uris.uuid_start
    later = t1[1:] > t1[:-1]
    same = t1[1:] == t1[:-1]
    later |= same & (t2[1:] > t2[:-1])
    same &= t2[1:] == t2[:-1]
    later |= same & (uuid[1:] > uuid[:-1])
    if later.all():
        return None
    # Files come in long runs of rising times, which a stable sort merges; names of a folder do not.
    in_runs = np.count_nonzero(later) > len(later) * 3 // 4
    order: I64 = np.argsort(t1, kind="stable" if in_runs else "quicksort")
    in_order = t1[order]
    if not (in_order[1:] > in_order[:-1]).all():
        order = np.lexsort((source, uuid, t2, t1))
    return order


def _mark_effective(table: CommitTable, ignored: Mask) -> Mask:
    """Mark exactly one row of each effective commit."""
    uris = table.uris
    effective: Mask = ~ignored
    # Equal neighbours may be copies of one commit; the first, in a `.con`, represents it.
    alike = _alike(uris.t1)
    if effective.all() and not alike.any():
        return effective
    effective |= table.loose
    effective |= (uris.ext == DEL) | (uris.ext == UPD)
    rows = np.flatnonzero(effective)
    alike = _alike(uris.t1[rows]) & _alike(uris.t2[rows]) & _alike(uris.uuid_start[rows])
    seen: set[str] = set()
    for at in np.flatnonzero(alike).tolist():
        if at == 0 or not alike[at - 1]:
            seen = {table.uri(int(rows[at]))}
        uri = table.uri(int(rows[at + 1]))
        if uri in seen:
            effective[rows[at + 1]] = False
        seen.add(uri)
    return effective


def _alike(column: U64) -> Mask:
    """Mark the numbers that equal the next one."""
    alike: Mask = column[1:] == column[:-1]
    return alike
