"""The footers of an array's fragments: from a `.meta` that holds them, else from each fragment.

In: a store, and what was read of the array. Out: for each fragment its footer with the schema that
it names, or the error that stands in the way. Reads no cell, and changes nothing; a name that
stands in a file is only compared with what is listed.

A `.meta` holds the footers of many fragments. Any other fragment costs one ranged read of the end
of its metadata, many of them at a time.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    StorageError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.consolidated_footers import ListedFooter, decode_consolidated_footers
from chronotile.format.footer_layout import FooterLayout
from chronotile.format.fragment_footer import (
    FIRST_WITH_FOOTER,
    FIRST_WITH_SCHEMA_NAME,
    LEN_LENGTH,
    METADATA,
    decode_applied,
    footer_size,
    read_head,
)
from chronotile.format.fragment_size import FragmentMeasure
from chronotile.format.kinds import FRAGMENTS, OLD_SCHEMA
from chronotile.format.known_footers import KnownFooters
from chronotile.format.names import parse_name, version_of
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError, StrangerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.format.footer_layout import Footer
    from chronotile.format.schema import Schema
    from chronotile.history.reading import History
    from chronotile.storage.store import Store

READ_AT_ONCE = 32
"""Ranged reads that are under way at once in a bucket."""
_LEN_TAIL = 1 << 13
"""Bytes that the first read of a fragment's end takes: most footers, and the tile before them."""
_LISTED_SINGLY = 16
"""For up to this many fragments of a bucket, ask for each size by itself."""


class RawFooter(NamedTuple):
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
    """Whether it was read from a `.meta`."""
    before: bytes = b""
    """What was read of the bytes right before it."""


class StoredFooter(NamedTuple):
    """The footer of one fragment, decoded."""

    fragment: str
    """The name."""
    path: str
    """The folder, relative to the array."""
    raw: bytes
    """As it is stored, without the length behind it."""
    metadata_size: int
    """Bytes of the fragment's own metadata file."""
    is_consolidated: bool
    """Whether it was read from a `.meta`."""
    before: bytes
    """What was read of the bytes right before it."""
    footer: Footer
    schema: Schema
    schema_file: str
    """The name of the schema's file."""
    applied: tuple[str, ...] | None = None
    """The names of the deletes that the fragment has applied, if somebody asked and it is known."""

    @property
    def where(self) -> str:
        """The fragment's metadata file."""
        return f"{self.path}/{METADATA}"


class MetaFile(NamedTuple):
    """A `.meta`, opened."""

    size: int
    """Bytes of the file."""
    footers: dict[str, bytes]
    """By the names of their fragments."""


class FooterReader:
    """Reads the footers of one array. The schemas' layouts are worked out once."""

    def __init__(self, store: Store, history: History) -> None:
        self._store, self._history = store, history
        self._schemas = {item.text: item.schema for item in history.schemas}
        self._layouts: dict[str, FooterLayout] = {}
        self._measures: dict[str, FragmentMeasure] = {}
        self._in_root = frozenset(history.listing.root_fragments)
        self._listed_sizes: dict[str, int] | None = None

    @cached_property
    def consolidated(self) -> dict[str, bytes]:
        """The footers that the array's `.meta` files hold, by the names of their fragments.

        A `.meta` that cannot be opened holds none: every fragment has its own metadata too.

        Raises:
            StorageError: The storage failed.
        """
        footers: dict[str, bytes] = {}
        for held in read_consolidated(self._store, self._history).values():
            if isinstance(held, MetaFile):
                footers |= held.footers
        return footers

    def read_raw(
        self, names: Iterable[str], *, own: bool = False
    ) -> Iterator[tuple[str, RawFooter | ChronotileError]]:
        """Reads the bytes of footers, many at a time; gives each name with them or its error.

        Args:
            names: The names of the fragments.
            own: Read each fragment's own metadata, even if a `.meta` holds its footer.

        Raises:
            StorageError: The storage failed.
        """
        wanted = tuple(names)
        held = {} if own else self.consolidated
        sizes = self._sizes(len(wanted))
        tails: dict[str, tuple[bytes, int] | ChronotileError] = {}
        for folder in (FRAGMENTS, ""):
            here = [name for name in wanted if (name in self._in_root) is not bool(folder)]
            for length in (0, _LEN_TAIL):
                group = [name for name in here if (name in held) is not bool(length)]
                read = self._store.read_tails(folder, group, METADATA, length, sizes)
                tails |= zip(group, read, strict=True)
        for name in wanted:
            tail = tails[name]
            try:
                if isinstance(tail, ChronotileError):
                    yield name, _told(tail)
                else:
                    yield name, self._raw(name, held.get(name), *tail)
            except ChronotileError as error:
                yield name, _told(error)

    def read(
        self, names: Iterable[str], *, own: bool = False, applied: bool = False
    ) -> Iterator[tuple[str, StoredFooter | ChronotileError]]:
        """Reads footers, many at a time; gives each name with its footer or its error.

        Args:
            names: The names of the fragments.
            own: Read each fragment's own metadata, even if a `.meta` holds its footer.
            applied: Read also which deletes each fragment has applied.

        Raises:
            StorageError: The storage failed.
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
                return name, _told(error)

        is_disk = self._store.place.scheme == "file"
        yield from ahead(outcome, raws, 1 if is_disk or not applied else READ_AT_ONCE)

    def decode(self, raw: RawFooter, *, applied: bool = False) -> StoredFooter:
        """Decodes a footer with the schema that it names.

        Raises:
            BadFileError: It is damaged, or names a schema that is not there.
            KeyNeededError: The schema cannot be read.
        """
        where, version = f"{raw.path}/{METADATA}", version_of(parse_name(raw.fragment))
        head = read_head(raw.raw, where)
        if (head.version >= FIRST_WITH_SCHEMA_NAME) != (version >= FIRST_WITH_SCHEMA_NAME):
            problem = f"expected a footer of version {version}, as its name says"
            raise BadFileError(where, f"{problem}, found {head.version}")
        file = head.schema_name if head.schema_name is not None else OLD_SCHEMA
        schema = self.schema(file, where)
        footer = self.layout(file).decode(raw.raw, where, bare=True)
        stored = StoredFooter(*raw, footer, schema, file)
        if applied:
            with suppress(BadFileError, KeyNeededError, WrongKeyError, MissingObjectError):
                return stored._replace(applied=self.applied_deletes(stored))
        return stored

    def own_footers(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | ChronotileError]]:
        """Reads the footers in the fragments themselves, as bytes that decode with their schema.

        Gives what `read` gives, in less time where there are many.

        Raises:
            StorageError: The storage failed.
        """
        alike = KnownFooters()
        for name, raw in self.read_raw(names, own=True):
            if isinstance(raw, ChronotileError):
                yield name, raw
            elif alike.decodes(name, raw.raw):
                yield name, raw.raw
            else:
                try:
                    stored = self.decode(raw)
                    alike.learn(raw.raw, self.layout(stored.schema_file))
                    yield name, raw.raw
                except ChronotileError as error:
                    yield name, _told(error)

    def measure(self, stored: StoredFooter) -> tuple[int, int]:
        """The tiles and the cells of a fragment.

        Raises:
            BadFileError: The footer cannot be true.
        """
        name = stored.schema_file
        if name not in self._measures:
            self._measures[name] = FragmentMeasure(stored.schema)
        size = self._measures[name].measure(stored.footer, stored.where)
        return size.tiles, size.cells

    def applied_deletes(self, stored: StoredFooter) -> tuple[str, ...]:
        """The names of the deletes that a fragment has applied.

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
        length = tiles.extent(memoryview(data))
        if length is None or length > len(data):
            raise BadFileError(stored.where, "expected a tile before the footer, found none", start)
        payload = tiles.decode(data[:length], stored.where, key=self._history.key).payload
        paths = decode_applied(payload, stored.where)
        return tuple(path.rpartition("/")[2].removesuffix(".del") for path in paths)

    def _raw(self, name: str, held: bytes | None, tail: bytes, size: int) -> RawFooter:
        path = name if name in self._in_root else f"{FRAGMENTS}/{name}"
        if held is not None:
            return RawFooter(name, path, held, size, is_consolidated=True)
        where, version = f"{path}/{METADATA}", version_of(parse_name(name))
        if version < FIRST_WITH_FOOTER:
            raise BadFileError(where, f"expected a footer, found version {version}, which has none")
        old = self.schema(OLD_SCHEMA, where) if version < FIRST_WITH_SCHEMA_NAME else None
        length = footer_size(tail, size, version, old, where)
        before = tail[:-length] if len(tail) > length else b""
        if length > len(tail):
            tail = self._store.read_range(where, size - length, size, size=size)
        has_length = old is None or self.layout(OLD_SCHEMA).has_length(version)
        raw = tail[len(tail) - length : len(tail) - (LEN_LENGTH if has_length else 0)]
        return RawFooter(name, path, raw, size, is_consolidated=False, before=before)

    def schema(self, file: str, where: str) -> Schema:
        """The schema in a file of the array, by the file's name.

        Raises:
            BadFileError: There is none of that name.
            KeyNeededError: It cannot be read.
        """
        if file not in self._schemas:
            raise BadFileError(where, f"expected its schema {file!r:.120}, found none of that name")
        schema = self._schemas[file]
        if schema is None:
            raise KeyNeededError(where, "expected the schema of its files, found it unreadable")
        return schema

    def layout(self, file: str) -> FooterLayout:
        """How the footers of one schema are laid out."""
        if file not in self._layouts:
            self._layouts[file] = FooterLayout(self.schema(file, file))
        return self._layouts[file]

    def _sizes(self, count: int) -> dict[str, int]:
        """The sizes of the metadata files, if listing them costs less than asking for each."""
        if self._store.place.scheme == "file" or count <= _LISTED_SINGLY:
            return {}
        if self._listed_sizes is None:
            self._listed_sizes = {
                entry.path: entry.size
                for entry in self._store.list_prefix(FRAGMENTS, sizes=True)
                if entry.size is not None and entry.path.endswith(f"/{METADATA}")
            }
        return self._listed_sizes


def read_consolidated(store: Store, history: History) -> dict[str, MetaFile | ChronotileError]:
    """Reads the `.meta` files: path -> what it holds, or why it cannot be opened.

    Raises:
        StorageError: The storage failed.
    """
    paths = [p for p in history.listing.fragment_meta if p.endswith(".meta")]
    held: dict[str, MetaFile | ChronotileError] = {}
    for path, data in store.read_many(paths):
        if isinstance(data, ChronotileError):
            held[path] = _told(data)
            continue
        try:
            payload = tiles.decode(data, path, key=history.key).payload
            listed = decode_consolidated_footers(payload, path)
            footers = {i.fragment: i.footer for i in listed if _is_here(i, history.array)}
            held[path] = MetaFile(len(data), footers)
        except ChronotileError as error:
            held[path] = error
    return held


def _is_here(item: ListedFooter, array: str) -> bool:
    """Whether a `.meta` means a fragment of this array: before version 9 it names a whole URI.

    If the array has moved, the engine does not find its fragments in there either.
    """
    whole = item.name.rstrip("/").removeprefix("file://")
    return "/" not in item.name or whole == f"{array}/{item.fragment}"


def count_cells(store: Store, history: History, paths: Iterable[str]) -> int | None:
    """The cells of some fragments together, by their folders; None if a footer cannot be read.

    Raises:
        StorageError: The storage failed.
    """
    reader, total = FooterReader(store, history), 0
    for _, stored in reader.read([path.rpartition("/")[2] for path in paths]):
        if isinstance(stored, ChronotileError):
            return None
        try:
            total += reader.measure(stored)[1]
        except BadFileError:
            return None
    return total


def _told(error: ChronotileError) -> ChronotileError:
    """An error that tells of one fragment; one of the storage tells of none, and is raised."""
    if isinstance(error, MissingObjectError | StrangerError) or not isinstance(error, StorageError):
        return error
    raise error
