"""The footers of an array's fragments: from a `.meta` that holds them, else from each fragment.

In: a store, and what was read of the array. Out: for each fragment its footer with the schema that
it names, or the error that stands in the way; or, for `footer_columns`, the footers of many
fragments as places in few buffers. Reads no cell; a name that stands in a file is only compared
with what is listed.

A `.meta` holds the footers of many fragments. Any other fragment costs one ranged read of the end
of its metadata, many of them at a time.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.errors import BadFileError, ChronotileError, KeyNeededError, WrongKeyError
from chronotile.format import tiles
from chronotile.format.footer_columns import FooterSpans, KnownFooters
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
from chronotile.history.footer_files import FooterFile, OwnMetadata, footers_of, read_consolidated
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError, about_one_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chronotile.format.footer_columns import Indices
    from chronotile.format.fragment_footer import Footer
    from chronotile.format.schema import Schema
    from chronotile.history.footer_files import NamedFooters
    from chronotile.history.read_history import History
    from chronotile.storage.side_by_side import Tail
    from chronotile.storage.store import Store


MANY = 1 << 12
"""Fragments whose metadata is held in memory at once."""
_UNREAD: Tail = (b"", -1)
"""In place of the end of a file that could not be read."""


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
    """True if it was read from a `.meta`."""
    before: bytes = b""
    """The bytes right before it that were read too."""


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
    """True if it was read from a `.meta`."""
    before: bytes
    """The bytes right before it that were read too."""
    footer: Footer
    schema: Schema
    schema_file: str
    """The name of the schema's file."""
    applied: tuple[str, ...] | None = None
    """The names of the deletes that the fragment has applied; None if they were not read."""

    @property
    def where(self) -> str:
        """The fragment's metadata file."""
        return f"{self.path}/{METADATA}"


class FooterReader:
    """A reader of the footers of one array. The schemas' layouts are worked out once."""

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
        files = read_consolidated(self._store, self._history).values()
        return footers_of(one for one in files if isinstance(one, FooterFile))

    def read_raw(
        self, names: Iterable[str], *, own: bool = False
    ) -> Iterator[tuple[str, RawFooter | ChronotileError]]:
        """Read the bytes of footers, many at a time; give each name with them or its error.

        Args:
            names: The names of the fragments.
            own: Read each fragment's own metadata, even if a `.meta` holds its footer.

        Raises:
            StorageError: The storage failed.
        """
        wanted = tuple(names)
        for start in range(0, len(wanted), MANY):
            here = wanted[start : start + MANY]
            copies = {} if own else self._copies(here)
            rest = [name for name in here if name not in copies]
            asked = (*self.own.sizes([*copies]), *self.own.tails(rest))
            answers = dict(zip((*copies, *rest), asked, strict=True))
            for name in here:
                yield name, self._outcome(name, copies.get(name, b""), answers[name])

    def _copies(self, names: Sequence[str]) -> dict[str, bytes]:
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
                return name, about_one_object(error)

        yield from ahead(outcome, raws, self._store.concurrency if applied else 1)

    def decode(self, raw: RawFooter, *, applied: bool = False) -> StoredFooter:
        """Decode a footer with the schema that it names.

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
        """Count the tiles and the cells of a fragment.

        Raises:
            BadFileError: The footer cannot be true.
        """
        name = stored.schema_file
        if name not in self._measures:
            self._measures[name] = FragmentMeasure(stored.schema)
        size = self._measures[name].measure(stored.footer, stored.where)
        return size.tiles, size.cells

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
        length = tiles.extent(memoryview(data))
        if length is None or length > len(data):
            raise BadFileError(stored.where, "expected a tile before the footer, found none", start)
        payload = tiles.decode(data[:length], stored.where, key=self._history.key).payload
        paths = decode_applied(payload, stored.where)
        return tuple(path.rpartition("/")[2].removesuffix(".del") for path in paths)

    def copied(self, name: str, raw: bytes, size: int) -> RawFooter:
        """Take a footer from a `.meta`, with the size of the fragment's own metadata file."""
        return RawFooter(name, self.own.folder(name), raw, size, is_consolidated=True)

    def cut(self, name: str, tail: bytes, size: int) -> RawFooter:
        """Cut the footer from the end of a fragment's own metadata file.

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
        """Give the schema in a file of the array, by the file's name.

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
    """Count the cells of some fragments, by their folders; None if a footer cannot be read.

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
            StorageError: The storage failed.
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

    Args:
        reader: Of the array.
        names: The names of the fragments.
        versions: The format version in each name.
        sizes: Ask for the sizes of metadata files whose footers a `.meta` holds.

    Raises:
        StorageError: The storage failed.
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


def own_footers(
    reader: FooterReader, names: pa.Array, versions: Indices
) -> tuple[dict[str, bytes], dict[str, ChronotileError]]:
    """Read the footers in the fragments themselves.

    Gives, by name, bytes that decode with their schema, or why a fragment has no such footer: as
    `FooterReader.read`, in less time where there are many.

    Args:
        reader: Of the array.
        names: The names of the fragments.
        versions: The format version in each name.

    Raises:
        StorageError: The storage failed.
    """
    known = KnownFooters()
    footers: dict[str, bytes] = {}
    errors: dict[str, ChronotileError] = {}
    for start in range(0, len(names), MANY):
        texts = names[start : start + MANY].to_pylist()
        answers = reader.own.tails(texts)
        tails = [_UNREAD if isinstance(tail, ChronotileError) else tail for tail in answers]
        spans = _ends(tails, versions[start : start + MANY])
        decodes = known.decodes(spans)
        at = 0
        while at < len(texts) and not decodes[at:].all():
            name, tail = texts[at], answers[at]
            if decodes[at]:
                footers[name] = spans.footer(at)
            elif isinstance(tail, ChronotileError):
                errors[name] = tail
            else:
                try:
                    raw = reader.cut(name, *tail)
                    stored = reader.decode(raw)
                except ChronotileError as error:
                    errors[name] = about_one_object(error)
                else:
                    if known.learn(raw.raw, reader.layout(stored.schema_file)):
                        decodes |= known.decodes(spans)
                    footers[name] = raw.raw
            at += 1
        footers.update(zip(texts[at:], spans.footers()[at:], strict=True))
    return footers, errors


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
