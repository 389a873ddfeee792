"""The footers of an array's fragments: from a `.meta` that holds them, else from each fragment.

In: a store, and what was read of the array. Out: for each fragment its footer with the schema that
it names, or the error that stands in the way; or, for `footer_columns`, the footers of many
fragments as places in few buffers; for each `.meta` the footers that it holds. Reads no cell; a
name that stands in a file is only compared with what is listed.

A `.meta` holds the footers of many fragments. Any other fragment costs one ranged read of the end
of its metadata, many of them at a time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    MissingSchemaError,
    UnknownVersionError,
    WrongKeyError,
)
from chronotile.format import arrow_compute as pc
from chronotile.format import tiles
from chronotile.format.consolidated_footers import read_index
from chronotile.format.footer_columns import FooterSpans, joined
from chronotile.format.fragment_footer import (
    FIRST_WITH_FOOTER,
    FIRST_WITH_SCHEMA_NAME,
    LEN_LENGTH,
    METADATA,
    FooterLayout,
    check_version,
    decode_applied,
    footer_size,
    read_head,
)
from chronotile.format.fragment_size import measure
from chronotile.format.kinds import FRAGMENTS, OLD_SCHEMA, SCHEMA
from chronotile.format.names import NEWEST_VERSION, is_name, is_newer, parse_name, version_of
from chronotile.storage.prefetch import ahead
from chronotile.storage.side_by_side import SideBySide
from chronotile.storage.store import MissingObjectError, StrangerError, about_one_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chronotile.format.consolidated_footers import FooterIndex, ListedFooter
    from chronotile.format.footer_columns import Indices
    from chronotile.format.fragment_footer import Footer
    from chronotile.format.fragment_size import FragmentSize
    from chronotile.format.schema import Schema
    from chronotile.history.listing import Listing
    from chronotile.history.read_history import History
    from chronotile.storage.side_by_side import Tail
    from chronotile.storage.store import Store

    T = TypeVar("T")

MANY = 1 << 12
"""Fragments whose metadata is held in memory at once."""
_UNREAD: Tail = (b"", -1)
"""In place of the end of a file that could not be read."""


@dataclass(frozen=True, slots=True)
class RawFooter:
    """The bytes of one fragment's footer, and where they were read."""

    fragment: str
    """The name."""
    path: str
    """The folder, relative to the array."""
    raw: bytes
    """As it is stored, without the length behind it."""
    metadata_size: int
    """Bytes of the fragment's own metadata file."""
    is_consolidated: bool
    """True if it was read from a `.meta`."""
    before: bytes = b""
    """The bytes right before it that were read too."""

    @property
    def where(self) -> str:
        """The fragment's metadata file."""
        return f"{self.path}/{METADATA}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFooter(RawFooter):
    """The footer of one fragment, decoded."""

    footer: Footer
    schema: Schema
    schema_file: str
    """The name of the schema's file."""
    applied: tuple[str, ...] | None = None
    """The names of the deletes that the fragment has applied; None if they were not read."""

    def measure(self) -> FragmentSize:
        """Count the tiles and the cells of the fragment.

        Raises:
            BadFileError: The footer cannot be true.
        """
        return measure(self.footer, self.schema, self.where)


class FooterReader:
    """A reader of the footers of one array. The schemas' layouts are worked out once."""

    def __init__(self, store: Store, history: History) -> None:
        self._store, self._history = store, history
        self.own = OwnMetadata(store, history.listing)
        self._schemas = {item.text: item.schema for item in history.schemas}
        self._layouts: dict[str, FooterLayout] = {}

    @cached_property
    def consolidated(self) -> NamedFooters:
        """The footers that the array's `.meta` files hold.

        A `.meta` that cannot be opened holds none: every fragment has its own metadata too.
        """
        files = read_consolidated(self._store, self._history).values()
        return footers_of(one for one in files if isinstance(one, FooterFile))

    def read_raw(
        self, names: Iterable[str], *, own: bool = False
    ) -> Iterator[tuple[str, RawFooter | ChronotileError]]:
        """Read the bytes of footers, many at a time; give each name with them or its error.

        With `own`, from each fragment's own metadata, even if a `.meta` holds its footer.
        """
        wanted = tuple(names)
        for start in range(0, len(wanted), MANY):
            here = wanted[start : start + MANY]
            copies = {} if own else self.copies(here)
            rest = [name for name in here if name not in copies]
            asked = (*self.own.sizes([*copies]), *self.own.tails(rest))
            answers = dict(zip((*copies, *rest), asked, strict=True))
            for name in here:
                yield name, self._outcome(name, copies.get(name, b""), answers[name])

    def copies(self, names: Sequence[str]) -> dict[str, bytes]:
        """Find the footers of these fragments that a `.meta` holds."""
        footers = self.consolidated
        places = footers.places(pa.array(names, pa.string())).to_pylist()
        pairs = zip(names, places, strict=True)
        return {name: footers.spans.footer(place) for name, place in pairs if place is not None}

    def _outcome(
        self, name: str, copy: bytes, answer: Tail | int | ChronotileError
    ) -> RawFooter | ChronotileError:
        if isinstance(answer, ChronotileError):
            return answer
        if isinstance(answer, int):
            return self.copied(name, copy, answer)
        try:
            return self.cut(name, *answer)
        except ChronotileError as error:
            return about_one_object(error)

    def read(
        self, names: Iterable[str], *, own: bool = False, applied: bool = False
    ) -> Iterator[tuple[str, StoredFooter | ChronotileError]]:
        """Read footers, many at a time; give each name with its footer or its error.

        With `own`, from each fragment's own metadata, even if a `.meta` holds its footer; with
        `applied`, read also which deletes each fragment has applied.
        """
        raws = self.read_raw(names, own=own)

        def outcome(
            item: tuple[str, RawFooter | ChronotileError],
        ) -> tuple[str, StoredFooter | ChronotileError]:
            name, raw = item
            if isinstance(raw, ChronotileError):
                return name, raw
            try:
                return name, self.decode(raw, applied=applied)
            except ChronotileError as error:
                return name, about_one_object(error)

        yield from ahead(outcome, raws, self._store.concurrency if applied else 1)

    def decode(self, raw: RawFooter, *, applied: bool = False) -> StoredFooter:
        """Decode a footer with the schema that it names.

        Raises:
            BadFileError: It is damaged, or names a schema that is not there.
            KeyNeededError: The schema cannot be read.
        """
        where, version = raw.where, version_of(parse_name(raw.fragment))
        head = read_head(raw.raw, where)
        if (head.version >= FIRST_WITH_SCHEMA_NAME) != (version >= FIRST_WITH_SCHEMA_NAME):
            problem = f"expected a footer of version {version}, as its name says"
            raise BadFileError(where, f"{problem}, found {head.version}")
        file = head.schema_name if head.schema_name is not None else OLD_SCHEMA
        schema = self.schema(file, where)
        footer = self.layout(file).decode(raw.raw, where, bare=True)
        own = (raw.fragment, raw.path, raw.raw, raw.metadata_size, raw.is_consolidated, raw.before)
        stored = StoredFooter(*own, footer=footer, schema=schema, schema_file=file)
        if applied:
            with suppress(BadFileError, KeyNeededError, WrongKeyError, MissingObjectError):
                return replace(stored, applied=self.applied_deletes(stored))
        return stored

    def applied_deletes(self, stored: StoredFooter) -> tuple[str, ...]:
        """Read the names of the deletes that a fragment has applied.

        A plain write has applied none, so nothing is read for it.

        Raises:
            ChronotileError: The tile that lists them cannot be read.
        """
        footer, start = stored.footer, stored.footer.ofs_processed_conditions
        t1, t2 = parse_name(stored.fragment)[:2]
        merged = t1 != t2 or footer.has_timestamps or footer.has_delete_metadata
        if start is None or not merged:
            return ()
        end = stored.metadata_size - len(stored.raw) - LEN_LENGTH
        if not start < end:
            raise BadFileError(stored.where, f"expected a tile before byte {end}, found {start}")
        data = stored.before[start - end :] if end - start <= len(stored.before) else b""
        if not data:
            size = stored.metadata_size
            data = self._store.read_range(stored.where, start, end, size=size)
        payload = tiles.open_at(data, 0, stored.where, key=self._history.key, base=start)
        paths = decode_applied(payload, stored.where)
        return tuple(path.rpartition("/")[2].removesuffix(".del") for path in paths)

    def copied(self, name: str, raw: bytes, size: int) -> RawFooter:
        """Take a footer from a `.meta`, with the size of the fragment's own metadata file."""
        return RawFooter(name, self.own.folder(name), raw, size, is_consolidated=True)

    def cut(self, name: str, tail: bytes, size: int) -> RawFooter:
        """Cut the footer from the end of a fragment's own metadata file.

        Raises:
            BadFileError: It has none.
        """
        path = self.own.folder(name)
        where, version = f"{path}/{METADATA}", version_of(parse_name(name))
        if version < FIRST_WITH_FOOTER:
            raise BadFileError(where, f"expected a footer, found version {version}, which has none")
        check_version(version, where)
        old = self.schema(OLD_SCHEMA, where) if version < FIRST_WITH_SCHEMA_NAME else None
        length = footer_size(tail, size, version, old, where)
        before = tail[:-length] if len(tail) > length else b""
        if length > len(tail):
            tail = self._store.read_range(where, size - length, size, size=size)
        has_length = old is None or self.layout(OLD_SCHEMA).has_length(version)
        raw = tail[len(tail) - length : len(tail) - (LEN_LENGTH if has_length else 0)]
        return RawFooter(name, path, raw, size, is_consolidated=False, before=before)

    def schema(self, file: str, where: str) -> Schema:
        """Give the schema in a file of the array, by the file's name.

        Raises:
            BadFileError: There is none of that name.
            KeyNeededError: It cannot be read.
        """
        if file not in self._schemas:
            if file == OLD_SCHEMA or is_name(file):
                raise MissingSchemaError(where, file if file == OLD_SCHEMA else f"{SCHEMA}/{file}")
            raise BadFileError(where, f"expected its schema {file!r:.120}, found none of that name")
        schema = self._schemas[file]
        if schema is None:
            raise KeyNeededError(where, "expected the schema of its files, found it unreadable")
        return schema

    def layout(self, file: str) -> FooterLayout:
        """Give the layout of the footers of one schema."""
        if file not in self._layouts:
            self._layouts[file] = FooterLayout(self.schema(file, file))
        return self._layouts[file]

    def layout_of(self, file: str) -> tuple[Schema, FooterLayout]:
        """Give the schema in a file of that name, and the layout of its footers.

        Raises:
            ChronotileError: There is none, or it cannot be read.
        """
        return self.schema(file, file), self.layout(file)


def count_cells(store: Store, history: History, paths: Iterable[str]) -> int | None:
    """Count the cells of some fragments, by their folders; None if a footer cannot be read."""
    reader, total = FooterReader(store, history), 0
    for _, stored in reader.read([path.rpartition("/")[2] for path in paths]):
        if isinstance(stored, ChronotileError):
            return None
        try:
            total += stored.measure().cells
        except BadFileError:
            return None
    return total


class ManyFooters(NamedTuple):
    """Footers of some fragments; item i of each column is about the i-th name."""

    rows: Indices
    """Their places among the fragments that the caller asked for."""
    names: pa.Array
    spans: FooterSpans
    """A footer that must be decoded by itself has the length 0."""
    sizes: Indices | None
    """Bytes of each fragment's own metadata file, -1 if there is no metadata at hand; None if
    the caller did not ask."""
    tails: Sequence[Tail] | None = None
    """The ends of the metadata files; None if a `.meta` holds the footers."""

    def raw(self, reader: FooterReader, at: int) -> RawFooter:
        """Take one footer, for the reader to decode.

        Raises:
            BadFileError: There is none.
        """
        if self.tails is None:
            name = self.names[at].as_py()
            size = reader.own.sizes([name])[0] if self.sizes is None else int(self.sizes[at])
            if isinstance(size, ChronotileError):
                raise size
            return reader.copied(name, self.spans.footer(at), size)
        return reader.cut(self.names[at].as_py(), *self.tails[at])


def read_many(
    reader: FooterReader, names: pa.Array, versions: Indices, *, sizes: bool = True
) -> Iterator[ManyFooters]:
    """Read footers, part by part: those in a `.meta`, then those in the fragments.

    `versions` are those in the names; `sizes` asks for those of metadata files whose footers a
    `.meta` holds.
    """
    footers = reader.consolidated
    places = footers.places(names)
    is_copied = np.asarray(places.is_valid())
    if (rows := np.flatnonzero(is_copied)).size:
        here = names if len(rows) == len(names) else names.take(pa.array(rows))
        at, spans = np.asarray(places.drop_null()), footers.spans
        chosen = FooterSpans(spans.data, spans.start[at], spans.length[at])
        known_sizes = None
        if sizes:
            by_file = reader.own.sizes(here.to_pylist())
            known_sizes = np.array([-1 if isinstance(n, ChronotileError) else n for n in by_file])
        yield ManyFooters(rows, here, chosen, known_sizes)
    own = np.flatnonzero(~is_copied)
    for start in range(0, len(own), MANY):
        rows = own[start : start + MANY]
        here = names.take(pa.array(rows))
        answers = reader.own.tails(here.to_pylist())
        tails = [_UNREAD if isinstance(tail, ChronotileError) else tail for tail in answers]
        lengths = np.array([size for _, size in tails], np.int64)
        yield ManyFooters(rows, here, _ends(tails, versions[rows]), lengths, tails)


def _ends(tails: Sequence[Tail], versions: Indices) -> FooterSpans:
    """Find the footers at the ends of metadata files, by the lengths behind them."""
    data = b"".join([tail for tail, _ in tails])
    sizes = np.array([len(tail) for tail, _ in tails], np.int64)
    ends = np.cumsum(sizes) - LEN_LENGTH
    # Before version 10 a footer need not have its length behind it.
    whole = (sizes >= LEN_LENGTH) & (versions >= FIRST_WITH_SCHEMA_NAME)
    lengths = np.zeros(len(tails), np.uint64)
    numbers = np.ndarray((max(len(data) - LEN_LENGTH + 1, 0),), "<u8", data, 0, (1,))
    lengths[whole] = numbers[ends[whole]]
    whole &= lengths <= (sizes - LEN_LENGTH).clip(0).astype(np.uint64)
    lengths[~whole] = 0
    length = lengths.astype(np.int64)
    return FooterSpans(data, ends - length, length)


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
        if pc.does_without(len(names) + len(self.names)):
            known = {name: at for at, name in enumerate(pc.raw_texts(self.names))}
            return pa.array([known.get(name) for name in pc.raw_texts(names)], pa.int64())
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
    """Read the `.meta` files by path, each with its footers or with why it cannot be opened."""
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

    def folder(self, name: str) -> str:
        """Give the folder of a fragment, relative to the array."""
        return name if name in self._in_root else f"{FRAGMENTS}/{name}"

    def sizes(self, names: Sequence[str]) -> list[int | ChronotileError]:
        """Give the size of each fragment's metadata file, or its error."""
        answers = self._asked(names, SideBySide.sizes)
        for at, name in enumerate(names) if self._linked else ():
            if name in self._linked:
                where = self._store.uri_of(f"{self.folder(name)}/{METADATA}")
                answers[at] = StrangerError(where, "expected a folder around it, found a link")
        return answers

    def tails(self, names: Sequence[str]) -> list[Tail | ChronotileError]:
        """Read the end of each fragment's metadata file, with the file's size; or its error."""
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
        inside = SideBySide(self._store, FRAGMENTS, METADATA, sizes)
        if not self._in_root:
            answers = [*ask(inside, names)]
        else:
            here = [name for name in names if name not in self._in_root]
            there = [name for name in names if name in self._in_root]
            by_name = dict(zip(here, ask(inside, here), strict=True))
            in_root = inside._replace(folder="")
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
            for entry in self._store.list_prefix(FRAGMENTS)
            if entry.size is not None and entry.path.endswith(f"/{METADATA}")
        }
