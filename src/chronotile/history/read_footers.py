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
from chronotile.format import tiles
from chronotile.format.consolidated_footers import NamedFooters, read_index
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
from chronotile.storage import side_by_side
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError, StrangerError, about_one_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
            versions = np.array([version_of(parse_name(name)) for name in here], np.int64)
            found: dict[str, RawFooter | ChronotileError] = {}
            for many in read_many(self, pa.array(here, pa.string()), versions, own=own):
                for at, name in enumerate(many.names):
                    try:
                        found[name] = many.raw(self, at)
                    except ChronotileError as error:
                        found[name] = about_one_object(error)
            for name in here:
                yield name, found[name]

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
        schema, layout = self.layout(file, where)
        footer = layout.decode(raw.raw, where, bare=True)
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
        old, has_length = None, True
        if version < FIRST_WITH_SCHEMA_NAME:
            old, layout = self.layout(OLD_SCHEMA, where)
            has_length = layout.has_length(version)
        length = footer_size(tail, size, version, old, where)
        before = tail[:-length] if len(tail) > length else b""
        if length > len(tail):
            tail = self._store.read_range(where, size - length, size, size=size)
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

    def layout(self, file: str, where: str) -> tuple[Schema, FooterLayout]:
        """Give the schema in a file of that name, and the layout of its footers.

        Raises:
            ChronotileError: There is none, or it cannot be read.
        """
        schema = self.schema(file, where)
        if file not in self._layouts:
            self._layouts[file] = FooterLayout(schema)
        return schema, self._layouts[file]


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
    names: list[str]
    spans: FooterSpans
    """A footer that must be decoded by itself has the length 0."""
    sizes: Sequence[int | ChronotileError] | None = None
    """Of footers in a `.meta`: bytes of each fragment's own metadata file, if the caller asked."""
    tails: Sequence[Tail | ChronotileError] | None = None
    """The ends of the metadata files; None if a `.meta` holds the footers."""

    def metadata_sizes(self) -> Indices:
        """Give the bytes of each fragment's own metadata file; -1 if there is none at hand."""
        if self.tails is not None:
            found = [-1 if isinstance(one, ChronotileError) else one[1] for one in self.tails]
        else:
            asked = self.sizes or [0] * len(self.names)
            found = [-1 if isinstance(one, ChronotileError) else one for one in asked]
        return np.array(found, np.int64)

    def raw(self, reader: FooterReader, at: int) -> RawFooter:
        """Take one footer, for the reader to decode.

        Raises:
            ChronotileError: There is none.
        """
        name = self.names[at]
        if self.tails is not None:
            tail = self.tails[at]
            if isinstance(tail, ChronotileError):
                raise tail
            return reader.cut(name, *tail)
        size = (self.sizes or reader.own.sizes([name]))[at if self.sizes else 0]
        if isinstance(size, ChronotileError):
            raise size
        return RawFooter(name, reader.own.folder(name), self.spans.footer(at), size, True)


def read_many(
    reader: FooterReader,
    names: pa.Array,
    versions: Indices,
    *,
    sizes: bool = True,
    own: bool = False,
) -> Iterator[ManyFooters]:
    """Read footers, part by part: those in a `.meta`, then those in the fragments.

    `versions` are those in the names; `sizes` asks for those of metadata files whose footers a
    `.meta` holds; with `own`, no `.meta` is asked.
    """
    texts: list[str] = names.to_pylist()
    places = np.full(len(texts), -1)
    if not own:
        places = reader.consolidated.places(names)
    if (rows := np.flatnonzero(places >= 0)).size:
        spans, at = reader.consolidated.spans, places[rows]
        here = texts if len(rows) == len(texts) else [texts[row] for row in rows.tolist()]
        chosen = FooterSpans(spans.data, spans.start[at], spans.length[at])
        yield ManyFooters(rows, here, chosen, reader.own.sizes(here) if sizes else None)
    rest = np.flatnonzero(places < 0)
    for start in range(0, len(rest), MANY):
        rows = rest[start : start + MANY]
        here = [texts[row] for row in rows.tolist()]
        tails = reader.own.tails(here)
        yield ManyFooters(rows, here, _ends(tails, versions[rows]), tails=tails)


def _ends(tails: Sequence[Tail | ChronotileError], versions: Indices) -> FooterSpans:
    """Find the footers at the ends of metadata files, by the lengths behind them."""
    parts = [b"" if isinstance(one, ChronotileError) else one[0] for one in tails]
    data, sizes = b"".join(parts), np.array([len(part) for part in parts], np.int64)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterFile:
    """A `.meta`, opened."""

    size: int
    """Bytes of the file."""
    index: NamedFooters
    """All that it lists, even fragments of another array."""
    columns: NamedFooters
    """Those of this array."""

    @property
    def footers(self) -> dict[str, bytes]:
        """The footers, by the names of their fragments; the last of a name counts."""
        names = self.columns.names.to_pylist()
        return dict(zip(names, self.columns.spans.footers(), strict=True))


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
            columns = _footers_here(index, history.array)
            files[path] = FooterFile(size=len(data), index=index, columns=columns)
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


def _footers_here(index: NamedFooters, array: str) -> NamedFooters:
    """Give the footers of fragments of this array: before version 9 a `.meta` names whole URIs.

    If the array has moved, the engine does not find its fragments in there either.
    """
    if b"/" not in index.names.buffers()[2].to_pybytes():
        return index
    listed = index.listed()
    wholes = [item.name.rstrip("/").removeprefix("file://") for item in listed]
    pairs = zip(listed, wholes, strict=True)
    here = [one for one, uri in pairs if "/" not in one.name or uri == f"{array}/{one.fragment}"]
    names = pa.array([one.fragment for one in here], pa.string())
    return NamedFooters(names, joined(one.footer for one in here))


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
        answers = side_by_side.sizes(
            self._store, self._folders(names), METADATA, self._known(names)
        )
        for at, name in enumerate(names) if self._linked else ():
            if name in self._linked:
                where = self._store.uri_of(f"{self.folder(name)}/{METADATA}")
                answers[at] = StrangerError(where, "expected a folder around it, found a link")
        return _checked(answers)

    def tails(self, names: Sequence[str]) -> list[Tail | ChronotileError]:
        """Read the end of each fragment's metadata file, with the file's size; or its error."""
        folders, known, length = self._folders(names), self._known(names), _LEN_TAIL
        if self._is_quick and len(names) > _ASKED_SINGLY:
            # Footers of one array have about one length, and a second look at a disk costs little.
            (first,) = side_by_side.tails(self._store, folders[:1], METADATA, length, known)
            if not isinstance(first, ChronotileError):
                first_length = int.from_bytes(first[0][-LEN_LENGTH:], "little") + LEN_LENGTH
                length = min(max(first_length, _LEN_SHORT), _LEN_TAIL)
        return _checked([*side_by_side.tails(self._store, folders, METADATA, length, known)])

    def _folders(self, names: Sequence[str]) -> list[str]:
        return [self.folder(name) for name in names]

    def _known(self, names: Sequence[str]) -> dict[str, int]:
        return {} if self._is_quick or len(names) <= _ASKED_SINGLY else self._listed_sizes

    @cached_property
    def _listed_sizes(self) -> dict[str, int]:
        """The sizes of all metadata files, where listing them costs less than asking for each."""
        return {
            entry.path: entry.size
            for entry in self._store.list_prefix(FRAGMENTS)
            if entry.size is not None and entry.path.endswith(f"/{METADATA}")
        }


def _checked(answers: list[T | ChronotileError]) -> list[T | ChronotileError]:
    """Give answers back; raise an error that is about the storage as a whole."""
    for answer in answers:
        if isinstance(answer, ChronotileError):
            about_one_object(answer)
    return answers
