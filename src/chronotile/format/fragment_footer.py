"""A fragment's footer: its domain, its files, and where its tiles start.

In: the end of a `__fragment_metadata.tdb`, and the schema that its footer names. Out: `FooterHead`,
which takes no schema, `Footer`, or `BadFileError`. Knows nothing of the content of the tiles before
a footer, but for the deletes that the fragment has applied. Takes no name out of a file for a path.

The engine finds the footer by its length, which stands in the last eight bytes: always from
version 10 on, and before that where a dimension varies in length. Elsewhere the length follows
from the schema and from the version in the fragment's own name. From version 10 on the footer
names its schema; before that there is only one. Versions 1 and 2 have no footer at all, and
versions after `NEWEST_VERSION` are not known.

An array may have many thousand fragments, and the generated parser takes some four times as long
for a footer: so `struct` reads it here, and the tests hold both to the same answer.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.errors import BadFileError, UnknownVersionError
from chronotile.format.kinds import FRAGMENT_METADATA
from chronotile.format.names import NEWEST_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.schema import Field, Schema

METADATA = FRAGMENT_METADATA
"""The file that a footer ends."""
FIRST_WITH_FOOTER = 3
"""The first format version whose fragments have a footer."""
FIRST_WITH_SCHEMA_NAME = 10
"""The first version whose footer names its schema, and ends in its own length."""
FIRST_WITH_SECTIONS = 23
"""The first version whose footer ends in optional sections."""
LEN_LENGTH = 8
"""Bytes of the length behind a footer."""
COORDS = "__coords"
"""The coordinates of old, all dimensions in one file; since version 5 a field without a file."""
_U32, _U64, _TWO = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<QQ")
_SECTION = struct.Struct("<QI")
_GLOBAL_ORDER = 0
"""The type of the section that says where the first and last coordinates of the tiles are."""
_PERCENT = {
    **{c: f"%{ord(c):02X}" for c in "!#$%&'()*+,/:;=?@[]\""},
    # As the engine has them, though no standard does.
    "<": "%20",
    ">": "%2D",
    "\\": "%30",
    "|": "%3C",
}
_PARTS = {"_var": "data", "_validity": "validity"}
"""Suffix of a file -> its content, whatever the field is."""
_BOUNDS = ("ofs_tile_minima", "ofs_tile_maxima", "ofs_tile_sums", "ofs_tile_null_counts")
_SINGLE = frozenset(("ofs_r_tree", "ofs_fragment_statistics", "ofs_processed_conditions"))


Range = tuple[bytes, bytes]
"""The least and the largest coordinate of a dimension, raw."""


class FooterHead(NamedTuple):
    """The start of a footer, which needs no schema; it is never encrypted."""

    version: int
    schema_name: str | None
    """None before version 10."""
    dense: bool
    is_domain_empty: bool
    size: int
    """Bytes of all this."""


class FooterField(NamedTuple):
    """A field of a footer: an attribute, the coordinates, a dimension or a time."""

    name: str
    """As in the schema; `__coords`, `__timestamps` and so on for fields that are not there."""
    stem: str
    """The name of its files, without suffix."""
    part: str
    """The content of `STEM.tdb`: `data`, `offsets`, `timestamps` or `deletes`."""


class Section(NamedTuple):
    """An optional part at the end of a footer."""

    type: int
    data: bytes


class CellFile(NamedTuple):
    """A file of cells that holds anything."""

    field: str
    part: str
    """`data`, `offsets`, `validity`, `timestamps` or `deletes`."""
    name: str
    size: int
    number: int
    """That of its field in `Footer.fields`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of one fragment; lists are by field, in the order of `fields`."""

    version: int
    schema_name: str | None
    """None before version 10."""
    dense: bool
    domain: tuple[Range, ...] | None
    """By dimension; None where it is empty."""
    sparse_tiles: int
    """0 in a dense fragment, whose tiles follow from its domain."""
    last_cells: int
    """Cells in the last tile."""
    has_timestamps: bool
    has_delete_metadata: bool
    fields: tuple[FooterField, ...]
    file_sizes: tuple[int, ...]
    var_file_sizes: tuple[int, ...]
    validity_file_sizes: tuple[int, ...]
    """Empty before version 7."""
    ofs_r_tree: int
    ofs_tile_offsets: tuple[int, ...]
    ofs_var_tile_offsets: tuple[int, ...]
    ofs_var_tile_sizes: tuple[int, ...]
    ofs_validity_tile_offsets: tuple[int, ...]
    ofs_tile_minima: tuple[int, ...]
    """Empty before version 11, as are those that follow."""
    ofs_tile_maxima: tuple[int, ...]
    ofs_tile_sums: tuple[int, ...]
    ofs_tile_null_counts: tuple[int, ...]
    ofs_fragment_statistics: int | None
    """None before version 12."""
    ofs_processed_conditions: int | None
    """Where the tile starts with the deletes that the fragment has applied; None before 16."""
    sections: tuple[Section, ...] = ()
    """Of every type, also one that is not known; empty before version 23."""

    @property
    def ofs_tile_ends(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where the tiles start that hold the first and the last coordinates of each tile.

        By dimension, in the global order; empty where no section says so.
        """
        for section in reversed(self.sections):
            if section.type == _GLOBAL_ORDER:
                numbers = struct.unpack(f"<{len(section.data) // 8}Q", section.data)
                return numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
        return (), ()

    @property
    def len_sections(self) -> int:
        """Bytes of the sections and their number."""
        if self.version < FIRST_WITH_SECTIONS:
            return 0
        return _U32.size + sum(_SECTION.size + len(data) for _, data in self.sections)

    @property
    def cell_bytes(self) -> int:
        """Bytes of all cell files: with those of the metadata, the bytes of the fragment."""
        return sum(self.file_sizes) + sum(self.var_file_sizes) + sum(self.validity_file_sizes)

    @property
    def cell_files(self) -> tuple[CellFile, ...]:
        """Each cell file that holds anything."""
        columns = (
            ("", self.file_sizes),
            ("_var", self.var_file_sizes),
            ("_validity", self.validity_file_sizes),
        )
        return tuple(
            CellFile(name, _PARTS.get(suffix, part), f"{stem}{suffix}.tdb", size, at)
            for suffix, column in columns
            for at, ((name, stem, part), size) in enumerate(zip(self.fields, column, strict=False))
            if size
        )

    @property
    def needed(self) -> frozenset[int]:
        """Where the generic tiles start without which the engine reads no cell."""
        found = {self.ofs_r_tree}
        for sizes, offsets in (
            (self.file_sizes, self.ofs_tile_offsets),
            (self.var_file_sizes, self.ofs_var_tile_offsets),
            (self.var_file_sizes, self.ofs_var_tile_sizes),
            (self.validity_file_sizes, self.ofs_validity_tile_offsets),
        ):
            found.update(at for at, size in zip(offsets, sizes, strict=True) if size)
        return frozenset(found)

    @property
    def others(self) -> frozenset[int]:
        """Where the other tiles start, which only some reads need: bounds, sums, counts."""
        found = {
            *self.ofs_tile_offsets,
            *self.ofs_var_tile_offsets,
            *self.ofs_var_tile_sizes,
            *self.ofs_validity_tile_offsets,
            *self.ofs_tile_minima,
            *self.ofs_tile_maxima,
            *self.ofs_tile_sums,
            *self.ofs_tile_null_counts,
            *itertools.chain(*self.ofs_tile_ends),
        }
        single = (self.ofs_fragment_statistics, self.ofs_processed_conditions)
        return frozenset(found | {at for at in single if at is not None}) - self.needed


class FooterNumbers(NamedTuple):
    """Where each number at the end of a footer stands."""

    fields: tuple[FooterField, ...]
    packed: struct.Struct
    lists: tuple[tuple[str, int, int], ...]
    """(name in `Footer`, first number, number behind the last) of each list."""
    single: tuple[tuple[str, int | None], ...]
    """(name in `Footer`, which number) of each number that is in no list."""


def footer_size(tail: bytes, size: int, version: int, schema: Schema | None, where: str) -> int:
    """Count the bytes from the start of the footer to the end of the file.

    `tail` is the end of a file of `size` bytes, and the version that in the fragment's name. Only a
    fragment before version 10 needs its schema.
    """
    if version >= FIRST_WITH_SCHEMA_NAME or (
        schema is not None and any(field.is_var for field in schema.dimensions)
    ):
        length = int.from_bytes(tail[-LEN_LENGTH:], "little") + LEN_LENGTH
    elif schema is not None:
        length = _computed_size(version, schema)
    else:
        raise BadFileError(where, "expected the schema of an old fragment, found none")
    if size < LEN_LENGTH or length > size:
        problem = f"expected a footer of {length} bytes at its end, found a file of {size}"
        raise BadFileError(where, problem)
    return length


def _computed_size(version: int, schema: Schema) -> int:
    attributes, dimensions = len(schema.attributes), schema.dimensions
    fields = attributes + 1 + (len(dimensions) if version >= 5 else 0)
    var_fields = fields if version >= 5 else attributes
    domain = sum(2 * field.datatype.size * field.cell_val_num for field in dimensions)
    validity = 2 * fields if version >= 7 else 0
    numbers = 2 + fields + var_fields + 1 + fields + 2 * var_fields + validity
    return 4 + 1 + 1 + domain + 8 * numbers


def read_head(data: bytes, where: str) -> FooterHead:
    r"""Read the start of a footer.

    Raises:
        UnknownVersionError: It is of a version that is not known.

    >>> read_head(b"\x05\0\0\0\1\0and more", "a.tdb")
    FooterHead(version=5, schema_name=None, dense=True, is_domain_empty=False, size=6)
    """
    expect(len(data) >= 4, where, 0, "a version of 4", len(data))
    (version,) = _U32.unpack_from(data)
    check_version(version, where)
    name, at = None, 4
    if version >= FIRST_WITH_SCHEMA_NAME:
        expect(len(data) >= 12, where, 4, "the size of a schema's name in 8", len(data) - 4)
        (size,) = _U64.unpack_from(data, 4)
        expect(size <= len(data) - 12, where, 12, f"a schema's name of {size}", len(data) - 12)
        at = 12 + size
        name = _text(data[12:at], 12, where)
    dense, is_empty = read_flags(data, at, 2, len(data), where)
    return FooterHead(version, name, bool(dense), bool(is_empty), at + 2)


def check_version(version: int, where: str) -> None:
    """Refuse a footer of a version that is not known.

    >>> check_version(24, "a.tdb")
    Traceback (most recent call last):
    chronotile.errors.UnknownVersionError: a.tdb: expected a version from 3 to 23, found 24
    """
    if not FIRST_WITH_FOOTER <= version <= NEWEST_VERSION:
        known = f"{FIRST_WITH_FOOTER} to {NEWEST_VERSION}"
        raise UnknownVersionError(where, f"expected a version from {known}, found {version}")


def check_length(data: bytes, end: int, where: str) -> None:
    """Refuse the length behind a footer, which ends at a byte, if it is not the footer's."""
    length = int.from_bytes(data[max(end, 0) :], "little")
    if length != end:
        raise BadFileError(where, f"expected a footer of {length} bytes at its end, found {end}")


class FooterLayout:
    """The layout of the footers of one schema: made once, used for many."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._sizes = coordinate_sizes(schema)
        self._numbers: dict[tuple[int, int, int], FooterNumbers] = {}

    def has_length(self, version: int) -> bool:
        """Return True if a footer of that version has its length behind it."""
        return version >= FIRST_WITH_SCHEMA_NAME or 0 in self._sizes

    def decode(self, data: bytes, where: str, *, bare: bool = False) -> Footer:
        """Read a footer.

        A bare one lacks the length behind it, as in a `.meta`.
        """
        head = read_head(data, where)
        version, at = head.version, head.size
        end = len(data)
        if self.has_length(version) and not bare:
            end -= LEN_LENGTH
            check_length(data, end, where)
        domain = None
        if not head.is_domain_empty:
            domain, at = read_box(data, at, end, self._sizes, where)
        expect(end - at >= _TWO.size, where, at, "the numbers of tiles and cells in 16", end - at)
        tiles, last = _TWO.unpack_from(data, at)
        at += _TWO.size
        count = num_flags(version)
        times, deletes = (*read_flags(data, at, count, end, where), 0, 0)[:2]
        at += count
        numbers = self.numbers(version, times, deletes)
        expected = f"the numbers of {len(numbers.fields)} fields in {numbers.packed.size}"
        left = end - at - numbers.packed.size
        has_sections = version >= FIRST_WITH_SECTIONS
        expect(left == 0 or (has_sections and left > 0), where, at, expected, end - at)
        values = numbers.packed.unpack_from(data, at)
        sections = self._sections(data, end - left, end, where) if has_sections else ()
        named: dict[str, Any] = {name: values[start:stop] for name, start, stop in numbers.lists}
        named |= {name: None if n is None else values[n] for name, n in numbers.single}
        return Footer(
            version=version,
            schema_name=head.schema_name,
            dense=head.dense,
            domain=domain,
            sparse_tiles=tiles,
            last_cells=last,
            has_timestamps=bool(times),
            has_delete_metadata=bool(deletes),
            fields=numbers.fields,
            sections=sections,
            **named,
        )

    def _sections(self, data: bytes, at: int, end: int, where: str) -> tuple[Section, ...]:
        """Read the sections, which are all that is left of a footer."""
        expect(end - at >= _U32.size, where, at, "the number of sections in 4", end - at)
        (count,) = _U32.unpack_from(data, at)
        at += _U32.size
        sections = []
        for _ in range(count):
            left = end - at - _SECTION.size
            expect(left >= 0, where, at, "the type and size of a section in 12", end - at)
            kind, size = _SECTION.unpack_from(data, at)
            at += _SECTION.size
            expect(size <= left, where, at, f"a section of {size}", left)
            if kind == _GLOBAL_ORDER:
                wanted = 16 * len(self._sizes)
                expect(size == wanted, where, at, f"a section of type {kind} in {wanted}", size)
            sections.append(Section(kind, data[at : at + size]))
            at += size
        expect(at == end, where, at, f"{count} sections, and after them 0", end - at)
        return tuple(sections)

    def decisive(self, raw: bytes) -> tuple[slice, ...] | None:
        """Find the bytes of a footer that decide how it is read; None if that differs by footer.

        These are its head, its flags, and the types and sizes of its sections. Footers of one
        length that are alike in them decode all alike, if one of them does.
        """
        if 0 in self._sizes:
            return None
        head = read_head(raw, "footer")
        at = head.size + _TWO.size + (0 if head.is_domain_empty else 2 * sum(self._sizes))
        flags = slice(at, at + num_flags(head.version))
        if head.version < FIRST_WITH_SECTIONS:
            return slice(head.size), flags
        times, deletes = read_flags(raw, flags.start, 2, len(raw), "footer")
        at = flags.stop + self.numbers(head.version, times, deletes).packed.size
        decisive = [slice(head.size), flags, slice(at, at + _U32.size)]
        end = at + _U32.size
        for section in self._sections(raw, at, len(raw), "footer"):
            decisive.append(slice(end, end + _SECTION.size))
            end += _SECTION.size + len(section.data)
        return tuple(decisive)

    def numbers(self, version: int, times: int, deletes: int) -> FooterNumbers:
        """Find the numbers of a footer that has, or lacks, times and delete metadata."""
        key = (version, times, deletes)
        if key not in self._numbers:
            fields = tuple(_fields(self._schema, *key))
            self._numbers[key] = _numbers(version, fields, len(self._schema.attributes))
        return self._numbers[key]


def num_flags(version: int) -> int:
    """Count the flags behind the numbers of tiles and cells: for times, for delete metadata."""
    return (version >= 14) + (version >= 15)


def coordinate_sizes(schema: Schema) -> bytes:
    """Return the bytes of a coordinate of each dimension; 0 where coordinates vary in length."""
    sizes = [0 if f.is_var else f.datatype.size * f.cell_val_num for f in schema.dimensions]
    if any(size == 0 and not f.is_var for size, f in zip(sizes, schema.dimensions, strict=True)):
        raise BadFileError("schema", "expected coordinates of at least 1 byte, found 0")
    if max(sizes, default=0) > 255:
        raise BadFileError("schema", f"expected coordinates of few bytes, found {max(sizes)}")
    return bytes(sizes)


def read_box(
    data: bytes, at: int, end: int, sizes: bytes, where: str
) -> tuple[tuple[Range, ...], int]:
    """Read the least and the largest coordinates of all dimensions, and where they end.

    They start at one byte, and must have ended at another.
    """
    ranges = []
    for size in sizes:
        both, least = 2 * size, size
        if size == 0:
            expect(end - at >= 16, where, at, "the sizes of a range", end - at)
            both, least = _TWO.unpack_from(data, at)
            at += 16
            expect(least <= both, where, at, f"a least coordinate of up to {both}", least)
        expect(both <= end - at, where, at, f"a range of {both}", end - at)
        ranges.append((data[at : at + least], data[at + least : at + both]))
        at += both
    return tuple(ranges), at


def cell_files_of(schema: Schema, version: int) -> dict[str, tuple[str, str]]:
    """List the cell files that a fragment of a schema and version may have: name -> field, part.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> a = Field(name="a", datatype=Datatype.INT32, nullable=True)
    >>> cell_files_of(Schema(version=13, attributes=(a,)), 13)["a0_validity.tdb"]
    ('a', 'validity')
    """
    files = {}
    for name, stem, part in _fields(schema, version, version >= 14, version >= 15):
        field = schema.field(name)
        files[f"{stem}.tdb"] = (name, part)
        if part == "offsets":
            files[f"{stem}_var.tdb"] = (name, _PARTS["_var"])
        if field is not None and field.nullable:
            files[f"{stem}_validity.tdb"] = (name, _PARTS["_validity"])
    return files


def _numbers(version: int, fields: tuple[FooterField, ...], attributes: int) -> FooterNumbers:
    num = len(fields)
    # Before version 5 the coordinates, which come last, have no variable part.
    num_var = num if version >= 5 else attributes
    counts = {
        "file_sizes": num,
        "var_file_sizes": num_var,
        "validity_file_sizes": num if version >= 7 else 0,
        "ofs_r_tree": 1,
        "ofs_tile_offsets": num,
        "ofs_var_tile_offsets": num_var,
        "ofs_var_tile_sizes": num_var,
        "ofs_validity_tile_offsets": num if version >= 7 else 0,
        **dict.fromkeys(_BOUNDS, num if version >= 11 else 0),
        "ofs_fragment_statistics": 1 if version >= 12 else 0,
        "ofs_processed_conditions": 1 if version >= 16 else 0,
    }
    lists, single, start = [], [], 0
    for name, count in counts.items():
        if name in _SINGLE:
            single.append((name, start if count else None))
        else:
            lists.append((name, start, start + count))
        start += count
    return FooterNumbers(fields, struct.Struct(f"<{start}Q"), tuple(lists), tuple(single))


def _fields(schema: Schema, version: int, times: int, deletes: int) -> Iterator[FooterField]:
    """List the fields in the footer's order, with the names of their files."""

    def files(fields: tuple[Field, ...], letter: str) -> Iterator[FooterField]:
        for at, field in enumerate(fields):
            stem = f"{letter}{at}" if version >= 9 else field.name
            if version == 8:
                stem = "".join(_PERCENT.get(c, c) for c in stem)
            yield FooterField(field.name, stem, "offsets" if field.is_var else "data")

    yield from files(schema.attributes, "a")
    yield FooterField(COORDS, COORDS, "data")
    if version >= 5:
        yield from files(schema.dimensions, "d")
    if times:
        yield FooterField("__timestamps", "t", "timestamps")
    if deletes:
        yield FooterField("__delete_timestamps", "dt", "deletes")
        yield FooterField("__delete_condition_index", "dci", "deletes")


def without_delete_metadata(
    raw: bytes, footer: Footer, layout: FooterLayout, *, times_of_removal: bool = False
) -> bytes:
    """Rewrite a footer without its delete metadata, with its length behind it.

    A reader then finds every cell of the fragment, whatever deletes were applied when it was
    merged, and passes over the files of the delete metadata. With `times_of_removal` it takes the
    time of a cell's removal, if it finds that file as `t.tdb`, for the time of its write.

    `raw` is the footer without the length behind it; `footer` is the same, decoded.
    """
    numbers = layout.numbers(footer.version, int(footer.has_timestamps), 1)
    end = len(raw) - footer.len_sections
    start = end - numbers.packed.size
    values = numbers.packed.unpack_from(raw, start)
    # The last three fields of each list: when a cell was written, when removed, by which delete.
    passed = 3 if times_of_removal else 2
    lists = [stop for _, first, stop in numbers.lists if stop > first]
    gone = {at for stop in lists for at in (stop - passed, stop - 1)}
    kept = [value for at, value in enumerate(values) if at not in gone]
    # The flag stands right before the numbers.
    data = raw[: start - 1] + b"\0" + struct.pack(f"<{len(kept)}Q", *kept) + raw[end:]
    return data + struct.pack("<Q", len(data))


def decode_applied(payload: bytes, where: str) -> tuple[str, ...]:
    r"""Read which deletes a fragment has applied: the paths of their files in the array.

    The payload is that of the tile at `Footer.ofs_processed_conditions`.

    >>> decode_applied(bytes([1] + [0] * 7 + [1] + [0] * 7) + b"a", "x")
    ('a',)
    """
    expect(len(payload) >= 8, where, 0, "the number of deletes in 8", len(payload))
    (count,) = _U64.unpack_from(payload)
    at, paths = 8, []
    for _ in range(count):
        left = len(payload) - at - 8
        expect(left >= 0, where, at, "the size of a path in 8", left + 8)
        (size,) = _U64.unpack_from(payload, at)
        at += 8
        expect(size <= left, where, at, f"a path of {size}", left)
        paths.append(_text(payload[at : at + size], at, where))
        at += size
    expect(at == len(payload), where, at, f"{count} paths, and after them 0", len(payload) - at)
    return tuple(paths)


def read_flags(data: bytes, at: int, count: int, end: int, where: str) -> bytes:
    """Read bytes that are 0 or 1 each."""
    expect(end - at >= count, where, at, f"flags of {count}", end - at)
    flags = data[at : at + count]
    if max(flags, default=0) > 1:
        raise BadFileError(where, f"expected flags of 0 or 1, found {list(flags)}", at)
    return flags


def expect(held: bool, where: str, at: int, expected: str, found: int) -> None:
    """Refuse bytes that are not there.

    >>> expect(False, "a.tdb", 7, "a name of 9", 3)
    Traceback (most recent call last):
    chronotile.errors.BadFileError: a.tdb: at byte 7: expected a name of 9 bytes, found 3
    """
    if not held:
        raise BadFileError(where, f"expected {expected} bytes, found {found}", at)


def _text(raw: bytes, at: int, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as cause:
        problem = f"expected UTF-8 text, found {raw[:60]!r}"
        raise BadFileError(where, problem, at) from cause
