"""A whole `__fragment_metadata.tdb`: its footer, and the tiles that the footer points to.

In: the bytes of the file, its schema, and the key of an encrypted array. Out: an immutable
`FragmentMetadata`, or `BadFileError`. Without a schema, `frame_metadata` still tells which bytes
are tiles and which the footer. Reads no file, and takes no name out of one for a path.

The tiles hold lists of numbers, bounds of values, an R-tree and statistics. A fragment may have a
thousand fields or a million tiles, so no number is an object of its own. The tests hold
this module to the spec. Over all tiles, memory is taken for no more payload than the caller's
ceiling; a tile that several fields point to is opened once.
"""

from __future__ import annotations

import itertools
import struct
from array import array
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from chronotile.errors import BadFileError
from chronotile.format import tiles
from chronotile.format.fragment_footer import (
    COORDS,
    FIRST_WITH_SCHEMA_NAME,
    LEN_LENGTH,
    Footer,
    FooterHead,
    FooterLayout,
    check_length,
    check_version,
    coordinate_sizes,
    decode_applied,
    expect,
    read_box,
    read_head,
)
from chronotile.format.parsers import FragmentMetadataSpec, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.fragment_footer import Range
    from chronotile.format.schema import Schema

MOST_LEVELS = 64
"""Levels of an R-tree: as many as a tree of two branches has for 2^64 tiles."""
_NUMBER, _TWO = struct.Struct("<Q"), struct.Struct("<QQ")
_R_TREE, _OLD_R_TREE = struct.Struct("<II"), struct.Struct("<IIBI")
_LEAST_BODY, _LEAST_PIPELINE, _LARGEST_PIPELINE = 8, 8, 1 << 16

Numbers: TypeAlias = "array[int]"
"""Unsigned numbers of 64 bits."""


class TileBounds(NamedTuple):
    """The least, or the largest, values of a field by tile."""

    fixed: bytes
    """The values; or where each starts in `var`, in 8 bytes each, if they vary in length."""
    var: bytes

    def values(self, width: int | None) -> Iterator[bytes]:
        """Give the raw values, each of `width` bytes; None if they vary in length."""
        if width is not None:
            yield from (self.fixed[at : at + width] for at in range(0, len(self.fixed), width))
            return
        starts = np.frombuffer(self.fixed, dtype="<u8").tolist()
        for start, end in itertools.pairwise([*starts, len(self.var)]):
            yield self.var[start:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class RTreeLevel:
    """The boxes of one level."""

    count: int
    raw: bytes
    sizes: bytes
    """Bytes of a coordinate of each dimension; 0 where they vary in length."""

    def boxes(self) -> Iterator[tuple[Range, ...]]:
        """Give the least and the largest coordinates of each box, by dimension."""
        at = 0
        for _ in range(self.count):
            box, at = read_box(self.raw, at, len(self.raw), self.sizes, "r-tree")
            yield box


@dataclass(frozen=True, slots=True, kw_only=True)
class RTree:
    """Boxes around tiles, and boxes around those; the last level is that of the tiles."""

    fanout: int
    levels: tuple[RTreeLevel, ...]


class FieldStatistics(NamedTuple):
    """Figures of a field over all of a fragment."""

    least: bytes
    largest: bytes
    sum: int
    """The bits of the sum, which is signed, unsigned or a float as the values are."""
    nulls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldTiles:
    """The tiles of one field before a footer; a list is None where there is none."""

    name: str
    tile_offsets: Numbers
    var_tile_offsets: Numbers | None
    var_tile_sizes: Numbers | None
    validity_tile_offsets: Numbers | None
    minima: TileBounds | None
    maxima: TileBounds | None
    first: TileBounds | None
    """Of a dimension: where in it the first cell of each tile lies, by the global order."""
    last: TileBounds | None
    sums: Numbers | None
    null_counts: Numbers | None
    statistics: FieldStatistics | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentMetadata:
    """The whole metadata of a fragment."""

    footer: Footer
    r_tree: RTree
    fields: tuple[FieldTiles, ...]
    applied_deletes: tuple[str, ...]
    """The paths that their files had in the array; text, never a path to open."""


class StoredTile(NamedTuple):
    """One of the generic tiles before a footer."""

    offset: int
    size: int
    payload_size: int
    encrypted: bool


class Frame(NamedTuple):
    """The tiles and the footer, as byte ranges of the metadata."""

    tiles: tuple[StoredTile, ...]
    """As many as follow each other from the start of the file on."""
    head: FooterHead
    footer_start: int


def frame_metadata(data: bytes, where: str) -> Frame:
    """Tell tiles and footer apart, without a schema.

    The length at the end of the file tells where the footer starts. Where there is none, which
    takes a schema to know, it starts where the tiles end.

    Raises:
        UnknownVersionError: The footer is of a version that is not known.
    """
    found, end = _walk(data)
    if len(data) >= LEN_LENGTH:
        start = len(data) - LEN_LENGTH - _NUMBER.unpack_from(data, len(data) - LEN_LENGTH)[0]
        if start == end:
            return Frame(found, read_head(data[start:], where), start)
        if start >= 0:
            # Tiles that cannot be told apart do not hide the footer.
            with suppress(BadFileError):
                head = read_head(data[start:], where)
                if head.version >= FIRST_WITH_SCHEMA_NAME:
                    return Frame(found, head, start)
    if end == len(data):
        if found:
            # The metadata of versions 1 and 2 is one tile, whose header has the version.
            check_version(int.from_bytes(data[:4], "little"), where)
        raise BadFileError(where, "expected a footer behind the tiles, found the end", end)
    head = read_head(data[end:], where)
    if head.version >= FIRST_WITH_SCHEMA_NAME:
        check_length(data[end:], len(data) - end - LEN_LENGTH, where)
    return Frame(found, head, end)


def decode_metadata(
    data: bytes,
    schema: Schema,
    where: str,
    *,
    key: bytes | None = None,
    ceiling: int = tiles.DEFAULT_CEILING,
) -> FragmentMetadata:
    """Read all of a fragment's metadata.

    Over all tiles, memory is taken for no more payload than the ceiling.

    Raises:
        UnknownVersionError: It is of a version that is not known.
        KeyNeededError: It is encrypted, and there is no key.
        WrongKeyError: It is encrypted, and the key does not open it.
    """
    start = frame_metadata(data, where).footer_start
    footer = FooterLayout(schema).decode(data[start:], f"{where}, footer")
    opener = MetadataTiles(data[:start], where, key, ceiling)
    conditions = footer.ofs_processed_conditions
    return FragmentMetadata(
        footer=footer,
        r_tree=opener.r_tree(footer, schema),
        fields=tuple(_fields(footer, schema, opener)),
        applied_deletes=() if conditions is None else decode_applied(*opener.open(conditions)),
    )


def _walk(data: bytes) -> tuple[tuple[StoredTile, ...], int]:
    """Find the tiles that follow each other from the start on, and where they end."""
    stored, at = [], 0
    while (header := tiles.read_header(data, at)) is not None:
        if (
            not _LEAST_PIPELINE <= header.pipeline <= _LARGEST_PIPELINE
            or header.persisted < _LEAST_BODY
            or header.encryption > 1
            or header.extent > len(data) - at
        ):
            break
        stored.append(StoredTile(at, header.extent, header.size, header.encryption == 1))
        at += header.extent
    return tuple(stored), at


class MetadataTiles:
    """The tiles before a footer: each is opened once, within a ceiling for all of them."""

    def __init__(
        self, data: bytes, where: str, key: bytes | None, ceiling: int = tiles.DEFAULT_CEILING
    ) -> None:
        self._data, self._where, self._key, self._left = data, where, key, ceiling
        self._payloads: dict[int, bytes] = {}

    def open(self, offset: int) -> tuple[bytes, str]:
        """Open the tile at a byte; give its payload, and its place for errors."""
        if offset not in self._payloads:
            payload = tiles.open_at(
                self._data, offset, self._where, key=self._key, ceiling=self._left
            )
            self._left -= len(payload)
            self._payloads[offset] = payload
        return self._payloads[offset], f"{self._where}, payload of the tile at byte {offset}"

    def numbers(self, offsets: tuple[int, ...], at: int) -> Numbers | None:
        """Read the list of numbers of one field; None if its footer names none."""
        return decode_numbers(*self.open(offsets[at])) if at < len(offsets) else None

    def bounds(self, offsets: tuple[int, ...], at: int, width: int | None) -> TileBounds | None:
        """Read the bounds of one field, of `width` bytes each; None if its footer names none."""
        if not 0 <= at < len(offsets):
            return None
        payload, place = self.open(offsets[at])
        return decode_bounds(payload, width, place)

    def r_tree(self, footer: Footer, schema: Schema) -> RTree:
        """Read the R-tree."""
        payload, place = self.open(footer.ofs_r_tree)
        return decode_r_tree(payload, footer.version, coordinate_sizes(schema), place)


def _fields(footer: Footer, schema: Schema, opener: MetadataTiles) -> Iterator[FieldTiles]:
    # The coordinates of old have room for bounds in later versions too, but nothing in it.
    widths = {field.name: field.cell_size for field in schema.fields} | {COORDS: 1}
    statistics: tuple[FieldStatistics, ...] = ()
    if footer.ofs_fragment_statistics is not None:
        payload, place = opener.open(footer.ofs_fragment_statistics)
        statistics = decode_statistics(payload, len(footer.fields), place)
    # By dimension: these follow the attributes and the coordinates of old.
    (ofs_first, ofs_last), before = footer.ofs_tile_ends, len(schema.attributes) + 1
    for at, field in enumerate(footer.fields):
        width = widths.get(field.name, 8)
        yield FieldTiles(
            name=field.name,
            tile_offsets=opener.numbers(footer.ofs_tile_offsets, at) or array("Q"),
            var_tile_offsets=opener.numbers(footer.ofs_var_tile_offsets, at),
            var_tile_sizes=opener.numbers(footer.ofs_var_tile_sizes, at),
            validity_tile_offsets=opener.numbers(footer.ofs_validity_tile_offsets, at),
            minima=opener.bounds(footer.ofs_tile_minima, at, width),
            maxima=opener.bounds(footer.ofs_tile_maxima, at, width),
            first=opener.bounds(ofs_first, at - before, width),
            last=opener.bounds(ofs_last, at - before, width),
            sums=opener.numbers(footer.ofs_tile_sums, at),
            null_counts=opener.numbers(footer.ofs_tile_null_counts, at),
            statistics=statistics[at] if statistics else None,
        )


def decode_numbers(payload: bytes, where: str) -> Numbers:
    """Read a list of numbers: offsets, sizes, sums or null counts."""
    expect(len(payload) >= 8, where, 0, "the number of values in 8", len(payload))
    (count,) = _NUMBER.unpack_from(payload)
    left = len(payload) - 8
    expect(count * 8 == left, where, 8, f"{count} values in {8 * count}", left)
    numbers = array("Q")
    numbers.frombytes(memoryview(payload)[8:])
    return numbers


def decode_bounds(payload: bytes, width: int | None, where: str) -> TileBounds:
    """Read the least or largest values of a field, of `width` bytes each; None if they vary."""
    expect(len(payload) >= 16, where, 0, "the sizes of bounds in 16", len(payload))
    fixed, var = _TWO.unpack_from(payload)
    left = len(payload) - 16
    expect(fixed + var == left, where, 16, f"bounds of {fixed} and {var}", left)
    bounds = TileBounds(payload[16 : 16 + fixed], payload[16 + fixed :])
    if fixed % (8 if width is None else width) or (width is not None and var):
        problem = f"expected bounds of {width or 'any number of'} bytes each"
        raise BadFileError(where, f"{problem}, found {fixed} and {var}", 0)
    if width is None and fixed:
        starts = np.frombuffer(bounds.fixed, dtype="<u8")
        if starts[0] or starts[-1] > var or bool((starts[1:] < starts[:-1]).any()):
            problem = f"expected bounds that start one after the other in {var} bytes"
            raise BadFileError(where, f"{problem}, found {starts[:8].tolist()}", 16)
    return bounds


def decode_r_tree(payload: bytes, version: int, sizes: bytes, where: str) -> RTree:
    """Read the R-tree of a footer of that version, with coordinates of `coordinate_sizes`."""
    head = _R_TREE if version >= 5 else _OLD_R_TREE
    expect(len(payload) >= head.size, where, 0, f"an R-tree of {head.size}", len(payload))
    numbers = head.unpack_from(payload)
    fanout, count = (numbers[0], numbers[1]) if version >= 5 else (numbers[1], numbers[3])
    if count > MOST_LEVELS:
        raise BadFileError(where, f"expected at most {MOST_LEVELS} levels, found {count}", 0)
    at, levels = head.size, []
    for _ in range(count):
        expect(len(payload) - at >= 8, where, at, "the number of boxes in 8", len(payload) - at)
        (boxes,) = _NUMBER.unpack_from(payload, at)
        at += 8
        end = _end_of_boxes(payload, at, boxes, sizes, where)
        levels.append(RTreeLevel(count=boxes, raw=payload[at:end], sizes=sizes))
        at = end
    expect(at == len(payload), where, at, "an R-tree that ends after 0", len(payload) - at)
    return RTree(fanout=fanout, levels=tuple(levels))


def decode_statistics(payload: bytes, count: int, where: str) -> tuple[FieldStatistics, ...]:
    """Read the figures of each of the footer's fields over all of the fragment."""
    tree = parse(FragmentMetadataSpec.FragmentStatistics, where, payload, count)
    return tuple(FieldStatistics(f.least, f.largest, f.sum, f.num_nulls) for f in tree.fields)


def _end_of_boxes(payload: bytes, at: int, count: int, sizes: bytes, where: str) -> int:
    if 0 not in sizes:
        size = 2 * sum(sizes)
        left = len(payload) - at
        held = count * size <= left and (size > 0 or count == 0)
        expect(held, where, at, f"{count} boxes in {count * size}", left)
        return at + count * size
    for _ in range(count):
        _, at = read_box(payload, at, len(payload), sizes, where)
    return at
