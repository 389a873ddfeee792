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
from chronotile.format.consolidated_footers import consolidated_footers
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
from chronotile.format.names import parse_name, version_of
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError

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


class StoredFooter(NamedTuple):
    """The footer of one fragment, and where it was read."""

    fragment: str
    """The name."""
    path: str
    """The folder, relative to the array."""
    raw: bytes
    """As it is stored, without the length behind it."""
    footer: Footer
    schema: Schema
    schema_file: str
    """The name of the schema's file."""
    metadata_size: int
    """Bytes of the fragment's own metadata file."""
    is_consolidated: bool
    """Whether it was read from a `.meta`."""
    before: bytes = b""
    """What was read of the bytes right before it."""
    applied: tuple[str, ...] | None = None
    """The names of the deletes that the fragment has applied, if somebody asked and it is known."""

    @property
    def where(self) -> str:
        """The fragment's metadata file."""
        return f"{self.path}/{METADATA}"


class FooterReader:
    """Reads the footers of one array. The schemas' layouts are worked out once."""

    def __init__(self, store: Store, history: History) -> None:
        self._store, self._history = store, history
        self._schemas = {item.text: item.schema for item in history.schemas}
        self._layouts: dict[str, FooterLayout] = {}
        self._measures: dict[str, FragmentMeasure] = {}
        self._linked = frozenset(history.listing.linked_fragments)
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
        paths = [p for p in self._history.listing.fragment_meta if p.endswith(".meta")]
        for path, data in self._store.read_many(paths):
            if isinstance(data, ChronotileError):
                _told(data)
            else:
                footers |= _opened(data, path, self._history.key)
        return footers

    def read(
        self, names: Iterable[str], *, own: bool = False, applied: bool = False
    ) -> Iterator[tuple[str, StoredFooter | ChronotileError]]:
        """Reads footers, several at a time; gives each name with its footer or its error.

        Args:
            names: The names of the fragments.
            own: Read each fragment's own metadata, even if a `.meta` holds its footer.
            applied: Read also which deletes each fragment has applied.

        Raises:
            StorageError: The storage failed.
        """
        wanted = tuple(names)
        is_disk = self._store.place.scheme == "file"
        if not is_disk and len(wanted) > _LISTED_SINGLY:
            self._list_sizes()

        def outcome(name: str) -> StoredFooter | ChronotileError:
            try:
                stored = self._read(name, own=own)
            except ChronotileError as error:
                return _told(error)
            if applied:
                with suppress(BadFileError, KeyNeededError, WrongKeyError, MissingObjectError):
                    return stored._replace(applied=self.applied_deletes(stored))
            return stored

        found = ahead(outcome, wanted, 1 if is_disk else READ_AT_ONCE)
        yield from zip(wanted, found, strict=True)

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

    def _read(self, name: str, *, own: bool) -> StoredFooter:
        path = name if name in self._in_root else f"{FRAGMENTS}/{name}"
        where, version = f"{path}/{METADATA}", version_of(parse_name(name))
        if path in self._linked:
            raise BadFileError(
                where, "expected a file, found a symbolic link, which is not followed"
            )
        if version < FIRST_WITH_FOOTER:
            raise BadFileError(where, f"expected a footer, found version {version}, which has none")
        if not own and (raw := self.consolidated.get(name)) is not None:
            footer, schema, file = self._decoded(raw, version, where, bare=True)
            size = self._size(where)
            return StoredFooter(name, path, raw, footer, schema, file, size, is_consolidated=True)
        known = self._known_size(where)
        tail, size = self._store.read_tail(where, _LEN_TAIL, size=known)
        old = self._schema(OLD_SCHEMA, where) if version < FIRST_WITH_SCHEMA_NAME else None
        length = footer_size(tail, size, version, old, where)
        if length > len(tail):
            tail = self._store.read_range(where, size - length, size, size=size)
        data = tail[-length:]
        footer, schema, file = self._decoded(data, version, where, bare=False)
        ends_in_length = self._layout(file, schema).has_length(version)
        raw = data[:-LEN_LENGTH] if ends_in_length else data
        before = tail[:-length] if len(tail) > length else b""
        stored = StoredFooter(name, path, raw, footer, schema, file, size, is_consolidated=False)
        return stored._replace(before=before)

    def _decoded(
        self, data: bytes, version: int, where: str, *, bare: bool
    ) -> tuple[Footer, Schema, str]:
        head = read_head(data, where)
        if (head.version >= FIRST_WITH_SCHEMA_NAME) != (version >= FIRST_WITH_SCHEMA_NAME):
            problem = f"expected a footer of version {version}, as its name says"
            raise BadFileError(where, f"{problem}, found {head.version}")
        file = head.schema_name if head.schema_name is not None else OLD_SCHEMA
        schema = self._schema(file, where)
        return self._layout(file, schema).decode(data, where, bare=bare), schema, file

    def _schema(self, file: str, where: str) -> Schema:
        if file not in self._schemas:
            raise BadFileError(where, f"expected its schema {file!r:.120}, found none of that name")
        schema = self._schemas[file]
        if schema is None:
            raise KeyNeededError(where, "expected the schema of its files, found it unreadable")
        return schema

    def _layout(self, file: str, schema: Schema) -> FooterLayout:
        if file not in self._layouts:
            self._layouts[file] = FooterLayout(schema)
        return self._layouts[file]

    def _list_sizes(self) -> None:
        if self._listed_sizes is None:
            entries = self._store.list_prefix(FRAGMENTS, sizes=True)
            self._listed_sizes = {
                entry.path: entry.size
                for entry in entries
                if entry.size is not None and entry.path.endswith(f"/{METADATA}")
            }

    def _known_size(self, where: str) -> int | None:
        return None if self._listed_sizes is None else self._listed_sizes.get(where)

    def _size(self, where: str) -> int:
        size = self._known_size(where)
        return (self._store.head(where).size or 0) if size is None else size


def _told(error: ChronotileError) -> ChronotileError:
    """An error that tells of one fragment; one of the storage tells of none, and is raised."""
    if isinstance(error, StorageError) and not isinstance(error, MissingObjectError):
        raise error
    return error


def _opened(data: bytes, path: str, key: bytes | None) -> dict[str, bytes]:
    try:
        return consolidated_footers(tiles.decode(data, path, key=key).payload, path)
    except ChronotileError:
        return {}
