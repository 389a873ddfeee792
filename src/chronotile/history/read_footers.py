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

import pyarrow as pa

from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    WrongKeyError,
)
from chronotile.format import tiles
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
from chronotile.format.fragment_size import FragmentMeasure
from chronotile.format.kinds import OLD_SCHEMA
from chronotile.format.names import parse_name, version_of
from chronotile.history.consolidated_footer_files import MetaFile, footers_of, read_consolidated
from chronotile.history.fragment_metadata_files import OwnMetadata
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError, told_of_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chronotile.format.fragment_footer import Footer
    from chronotile.format.schema import Schema
    from chronotile.history.consolidated_footer_files import NamedFooters
    from chronotile.history.read_history import History
    from chronotile.storage.side_by_side import Tail
    from chronotile.storage.store import Store

MANY = 1 << 12
"""Fragments whose metadata is held in memory at once."""


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


class FooterReader:
    """Reads the footers of one array. The schemas' layouts are worked out once."""

    def __init__(self, store: Store, history: History) -> None:
        self._store, self._history = store, history
        self.own = OwnMetadata(store, history.listing)
        self._schemas = {item.text: item.schema for item in history.schemas}
        self._layouts: dict[str, FooterLayout] = {}
        self._measures: dict[str, FragmentMeasure] = {}

    @cached_property
    def consolidated(self) -> NamedFooters:
        """The footers that the array's `.meta` files hold.

        A `.meta` that cannot be opened holds none: every fragment has its own metadata too.

        Raises:
            StorageError: The storage failed.
        """
        held = read_consolidated(self._store, self._history).values()
        return footers_of(one for one in held if isinstance(one, MetaFile))

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
        for start in range(0, len(wanted), MANY):
            here = wanted[start : start + MANY]
            held = {} if own else self._held(here)
            rest = [name for name in here if name not in held]
            asked = (*self.own.sizes([*held]), *self.own.tails(rest))
            answers = dict(zip((*held, *rest), asked, strict=True))
            for name in here:
                yield name, self._outcome(name, held.get(name, b""), answers[name])

    def _held(self, names: Sequence[str]) -> dict[str, bytes]:
        """The footers of these fragments that a `.meta` holds."""
        footers = self.consolidated
        places = footers.places(pa.array(names, pa.string())).to_pylist()
        pairs = zip(names, places, strict=True)
        return {name: footers.spans.footer(place) for name, place in pairs if place is not None}

    def _outcome(
        self, name: str, held: bytes, answer: Tail | int | ChronotileError
    ) -> RawFooter | ChronotileError:
        if isinstance(answer, ChronotileError):
            return answer
        if isinstance(answer, int):
            return self.copied(name, held, answer)
        try:
            return self.cut(name, *answer)
        except ChronotileError as error:
            return told_of_one(error)

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
                return name, told_of_one(error)

        yield from ahead(outcome, raws, self._store.concurrency if applied else 1)

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

    def copied(self, name: str, raw: bytes, size: int) -> RawFooter:
        """A footer that a `.meta` holds, with the size of the fragment's own metadata file."""
        return RawFooter(name, self.own.folder(name), raw, size, is_consolidated=True)

    def cut(self, name: str, tail: bytes, size: int) -> RawFooter:
        """The footer at the end of a fragment's own metadata file.

        Args:
            name: The name of the fragment.
            tail: The last bytes of the file.
            size: The size of the file.

        Raises:
            BadFileError: It has none.
            StorageError: The storage failed.
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

    def layout_of(self, file: str) -> tuple[Schema, FooterLayout]:
        """The schema in a file of that name, and how its footers are laid out.

        Raises:
            ChronotileError: There is none, or it cannot be read.
        """
        return self.schema(file, file), self.layout(file)


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
