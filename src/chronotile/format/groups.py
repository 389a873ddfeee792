r"""The details of a group: its members, as one session left them.

In: the payload of a file of `__group`, or members. Out: the members in the file's own order, or a
tile that the engine reads. Knows neither times nor other files; a URI out of the file is text.

The payload is a version (u32), the number of members (u64), and the members: version (u32), type
(u8), is relative (u8), length and bytes of the URI, has a name (u8), length and bytes of the name
if it has one; from version 2 on, is deleted (u8). Lengths are u64. The generated parser makes an
object of each field, which is slow for 10,000 members: the tests hold this loop to its answers.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import BadFileError
from chronotile.format import tiles
from chronotile.format.kinds import MEMBER_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_WITH_DELETIONS = 2
"""From this version on all files count, and a member can be deleted."""
VERSIONS = (1, 2)

_HEAD = struct.Struct("<IQ")
_MEMBER = struct.Struct("<IBBQ")
_LENGTH = struct.Struct("<Q")
_OLD_START, _START = (struct.pack("<I", version) for version in VERSIONS)
_LEN_MEMBER = _MEMBER.size + 1
"""Bytes of the shortest member."""


class GroupEntry(NamedTuple):
    """A member of a group, or a member that was removed from it."""

    uri: str
    """As it is stored: below the group if it is relative."""
    name: str | None
    kind: str
    """One of `MEMBER_KINDS`, as of the moment when the member was added."""
    is_relative: bool
    is_deletion: bool = False

    @property
    def key(self) -> str:
        """Its name, else its URI, with a local path as the engine writes it: no other has the same.

        >>> GroupEntry("/data/a", None, "array", is_relative=False).key
        'file:///data/a'
        """
        if self.name is not None:
            return self.name
        is_local = self.uri.startswith("/") and not self.is_relative
        return f"file://{self.uri}" if is_local else self.uri


class GroupDetails(NamedTuple):
    """The content of a details file."""

    version: int
    entries: tuple[GroupEntry, ...]


def decode_details(payload: bytes, where: str) -> GroupDetails:
    r"""Read the payload of a details file.

    >>> decode_details(b"\2\0\0\0" + bytes(8), "__group/x")
    GroupDetails(version=2, entries=())
    """
    if len(payload) < _HEAD.size:
        raise BadFileError(where, f"expected {_HEAD.size} bytes, found {len(payload)}", 0)
    version, count = _HEAD.unpack_from(payload)
    if version not in VERSIONS:
        raise BadFileError(where, f"expected version 1 or 2 of a group, found {version}", 0)
    most = (len(payload) - _HEAD.size) // _LEN_MEMBER
    if count > most:
        raise BadFileError(where, f"expected at most {most} members, found {count}", 4)
    entries: list[GroupEntry] = []
    at = _read(payload, count, where, entries)
    if at < len(payload):
        raise BadFileError(
            where, f"expected the end of the file, found {len(payload) - at} more bytes", at
        )
    return GroupDetails(version, tuple(entries))


class ReadableStart(NamedTuple):
    """The readable members of a details file that was cut short."""

    entries: tuple[GroupEntry, ...]
    stated: int
    """Members that it claims to have."""


def decode_start(payload: bytes, where: str) -> ReadableStart | None:
    r"""Read the members at the start of a payload of version 2; None if it has no whole head.

    >>> decode_start(b"\2\0\0\0" + b"\7" + bytes(7) + b"\2\0", "__group/x")
    ReadableStart(entries=(), stated=7)
    """
    if len(payload) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(payload)
    if version != VERSIONS[-1]:
        return None
    entries: list[GroupEntry] = []
    with suppress(BadFileError):
        _read(payload, count, where, entries)
    return ReadableStart(tuple(entries), count)


def _read(payload: bytes, count: int, where: str, entries: list[GroupEntry]) -> int:
    """Read members into a list; return where they end.

    Raises:
        BadFileError: A member is damaged; those before it are in the list.
    """
    at = start = _HEAD.size
    try:
        for _ in range(count):
            start = at
            version, number, relative, length = _MEMBER.unpack_from(payload, at)
            at += _MEMBER.size
            end = at + length
            uri, name = payload[at:end].decode(), None
            at = end + 1
            if payload[end]:
                (length,) = _LENGTH.unpack_from(payload, at)
                at += _LENGTH.size
                end = at + length
                name = payload[at:end].decode()
                at = end
            deleted = False
            if version >= FIRST_WITH_DELETIONS:
                deleted = payload[at] != 0
                at += 1
            payload[at - 1]
            if version not in VERSIONS:
                problem = f"expected version 1 or 2 of a member, found {version}"
                raise BadFileError(where, problem, start)
            if number >= len(MEMBER_KINDS):
                problem = f"expected the type of a member, found {number}"
                raise BadFileError(where, problem, start + 4)
            entries.append(GroupEntry(uri, name, MEMBER_KINDS[number], relative != 0, deleted))
    except UnicodeDecodeError as cause:
        problem = f"expected UTF-8 text, found {cause.object[:60]!r}"
        raise BadFileError(where, problem, start) from cause
    except (struct.error, IndexError, OverflowError) as cause:
        left = len(payload) - start
        problem = f"expected a member, found lengths that do not fit into {left} bytes"
        raise BadFileError(where, problem, start) from cause
    return at


def stored_members(payload: bytes) -> list[bytes] | None:
    """Cut a payload of version 2 into its members, each as it is stored, without reading them.

    None if a length or a text in it looks like the start of a member. If the members of one payload
    are among those of another, which can be read, then it can be read too.

    >>> entry = GroupEntry("array", "first", "array", is_relative=True)
    >>> data = encode_details([entry, entry._replace(name="other")], format_version=22)
    >>> len(stored_members(tiles.decode(data, "x").payload))
    2
    """
    if len(payload) < _HEAD.size or _HEAD.unpack_from(payload)[0] != VERSIONS[-1]:
        return None
    head, *members = payload[_HEAD.size :].split(_START)
    is_certain = not head and len(members) == _HEAD.unpack_from(payload)[1]
    return members if is_certain and _OLD_START not in payload[_HEAD.size :] else None


def encode_details(
    entries: Sequence[GroupEntry],
    *,
    format_version: int,
    key: bytes | None = None,
    version: int = VERSIONS[-1],
) -> bytes:
    """Write a details file as the engine does, but for compression.

    `format_version` is that of the tile; version 1 of the details knows no deletions.

    >>> entry = GroupEntry("a", "first", "array", is_relative=True)
    >>> written = encode_details([entry], format_version=22)
    >>> decode_details(tiles.decode(written, "x").payload, "x").entries == (entry,)
    True
    """
    parts = [_HEAD.pack(version, len(entries))]
    for entry in entries:
        uri, kind = entry.uri.encode(), MEMBER_KINDS.index(entry.kind)
        parts += [_MEMBER.pack(version, kind, entry.is_relative, len(uri)), uri]
        if entry.name is None:
            parts.append(b"\0")
        else:
            name = entry.name.encode()
            parts += [b"\1", _LENGTH.pack(len(name)), name]
        if version >= FIRST_WITH_DELETIONS:
            parts.append(bytes([entry.is_deletion]))
    return tiles.encode(b"".join(parts), version=format_version, key=key)
