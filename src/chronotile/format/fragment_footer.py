"""Where a fragment's footer is, and what it says without its schema.

In: the end of a `__fragment_metadata.tdb`. Out: the size of its footer, its head, the deletes that
the fragment has applied; or `BadFileError`. Reads no file, and takes no name out of one for a path.

The engine finds the footer by its length, which stands in the last eight bytes: always from
version 10 on, and before that where a dimension varies in length. Elsewhere the length follows
from the schema and from the version in the fragment's own name. From version 10 on the footer
names its schema; before that there is only one. Versions 1 and 2 have no footer at all, and what
versions after `NEWEST_VERSION` have is not known.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import BadFileError, UnknownVersionError
from chronotile.format.kinds import FRAGMENT_METADATA
from chronotile.format.names import NEWEST_VERSION

if TYPE_CHECKING:
    from chronotile.format.schema import Schema

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
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class FooterHead(NamedTuple):
    """What a footer says without its schema; it is never encrypted."""

    version: int
    schema_name: str | None
    """None before version 10."""
    dense: bool
    is_domain_empty: bool
    size: int
    """Bytes of all this."""


def footer_size(tail: bytes, size: int, version: int, schema: Schema | None, where: str) -> int:
    """The bytes from the start of the footer to the end of the file.

    Args:
        tail: The last bytes of the file, at least eight of them if it has so many.
        size: The size of the file.
        version: The format version in the fragment's name.
        schema: The schema of a fragment of before version 10.
        where: The file, for errors.

    Raises:
        BadFileError: The file is too short for what it says.
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


def read_head(data: bytes, where: str) -> FooterHead:
    r"""Reads what a footer begins with.

    Raises:
        UnknownVersionError: It is of a version that is not known.
        BadFileError: This is no footer.

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
    """Refuses a length behind a footer that is not the footer's.

    Args:
        data: The footer and its length.
        end: Where the footer ends.
        where: The file, for errors.
    """
    length = int.from_bytes(data[max(end, 0) :], "little")
    if length != end:
        raise BadFileError(where, f"expected a footer of {length} bytes at its end, found {end}")


def read_flags(data: bytes, at: int, count: int, end: int, where: str) -> bytes:
    """Bytes that are 0 or 1 each."""
    expect(end - at >= count, where, at, f"flags of {count}", end - at)
    flags = data[at : at + count]
    if max(flags, default=0) > 1:
        raise BadFileError(where, f"expected flags of 0 or 1, found {list(flags)}", at)
    return flags


def is_dense(data: bytes, where: str) -> bool:
    """Whether a fragment is dense; its footer says so without a schema, and is never encrypted.

    Raises:
        BadFileError: This is no footer.
    """
    return read_head(data, where).dense


def schema_name(data: bytes, version: int, where: str) -> str | None:
    """The name of the schema's file; None of a fragment that does not name its schema.

    Args:
        data: All bytes of `footer_size`.
        version: The format version in the fragment's name.
        where: The file, for errors.

    Raises:
        BadFileError: This is no footer, or one of another version.
    """
    head = read_head(data, where)
    if (version >= FIRST_WITH_SCHEMA_NAME) != (head.version >= FIRST_WITH_SCHEMA_NAME):
        problem = f"expected a footer of version {version}, as its name says, found {head.version}"
        raise BadFileError(where, problem)
    return head.schema_name


def decode_applied(payload: bytes, where: str) -> tuple[str, ...]:
    r"""The deletes that a fragment has applied: the paths of their files in the array.

    Args:
        payload: Of the tile that `Footer.ofs_processed_conditions` tells of.
        where: The file, for errors.

    >>> decode_applied(bytes([1] + [0] * 7 + [1] + [0] * 7) + b"a", "x")
    ('a',)
    """
    expect(len(payload) >= 8, where, 0, "the number of deletes in 8", len(payload))
    (count,) = _U64.unpack_from(payload)
    at, found = 8, []
    for _ in range(count):
        left = len(payload) - at - 8
        expect(left >= 0, where, at, "the size of a path in 8", left + 8)
        (size,) = _U64.unpack_from(payload, at)
        at += 8
        expect(size <= left, where, at, f"a path of {size}", left)
        found.append(_text(payload[at : at + size], at, where))
        at += size
    expect(at == len(payload), where, at, f"{count} paths, and after them 0", len(payload) - at)
    return tuple(found)


def expect(held: bool, where: str, at: int, expected: str, found: int) -> None:
    """Refuses bytes that are not there.

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


def _computed_size(version: int, schema: Schema) -> int:
    attributes, dimensions = len(schema.attributes), schema.dimensions
    fields = attributes + 1 + (len(dimensions) if version >= 5 else 0)
    var_fields = fields if version >= 5 else attributes
    domain = sum(2 * field.datatype.size * field.cell_val_num for field in dimensions)
    validity = 2 * fields if version >= 7 else 0
    numbers = 2 + fields + var_fields + 1 + fields + 2 * var_fields + validity
    return 4 + 1 + 1 + domain + 8 * numbers
