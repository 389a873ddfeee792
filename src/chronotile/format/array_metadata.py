r"""The metadata of an array or a group: keys and values. Of values, it reads only whole numbers.

In: the payload of a file of `__meta`. Out: its entries, each with its own bytes; and back. Knows
neither names nor times of files.

An entry is the length of its key (u32), the key, and whether the key was removed (u8); if it was
not, then a datatype (u8), the number of values (u32) and the values. Keys are bytes here: the
engine asks for no encoding. The tests hold this to the generated parser.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import BadFileError
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEN_KEY = struct.Struct("<I")
_VALUE = struct.Struct("<BI")
_NUMBER = struct.Struct("<q")
_SIZES = {int(datatype): datatype.size for datatype in Datatype}


class MetadataItem(NamedTuple):
    """A key that was set or removed."""

    key: bytes
    is_removal: bool
    raw: bytes
    """The whole entry, as it is stored."""


def decode_items(payload: bytes, where: str) -> tuple[MetadataItem, ...]:
    r"""Read the entries of a metadata file, in its own order.

    >>> decode_items(b"\1\0\0\0a\1", "__meta/x")
    (MetadataItem(key=b'a', is_removal=True, raw=b'\x01\x00\x00\x00a\x01'),)
    """
    items, start = [], 0
    while start < len(payload):
        (len_key,) = _LEN_KEY.unpack(_cut(payload, start, _LEN_KEY.size, where))
        at = start + _LEN_KEY.size
        key = _cut(payload, at, len_key, where)
        at += len_key
        removal = _cut(payload, at, 1, where)[0]
        if removal > 1:
            raise BadFileError(where, f"expected 0 or 1 for a removal, found {removal}", at)
        at += 1
        if not removal:
            number, count = _VALUE.unpack(_cut(payload, at, _VALUE.size, where))
            if number not in _SIZES:
                raise BadFileError(where, f"expected a known datatype, found {number}", at)
            at += _VALUE.size
            at += len(_cut(payload, at, count * _SIZES[number], where))
        items.append(MetadataItem(key, bool(removal), payload[start:at]))
        start = at
    return tuple(items)


def encode_items(items: Iterable[MetadataItem]) -> bytes:
    """Write a payload of some entries, by key, as the engine orders them."""
    return b"".join(item.raw for item in sorted(items, key=lambda item: item.key))


def removal_item(key: bytes) -> MetadataItem:
    """Make the entry that removes a key.

    >>> removal_item(b"a").is_removal
    True
    """
    return MetadataItem(key, True, _LEN_KEY.pack(len(key)) + key + b"\1")


def number_item(key: bytes, number: int) -> MetadataItem:
    """Make the entry that sets a key to one whole number.

    >>> number_of(number_item(b"a", -7))
    -7
    """
    value = _VALUE.pack(Datatype.INT64, 1) + _NUMBER.pack(number)
    return MetadataItem(key, False, _LEN_KEY.pack(len(key)) + key + b"\0" + value)


def number_of(item: MetadataItem) -> int | None:
    """Return the whole number that an entry sets; None if it sets another value, or none."""
    value = item.raw[_LEN_KEY.size + len(item.key) + 1 :]
    if len(value) != _VALUE.size + _NUMBER.size:
        return None
    datatype, count = _VALUE.unpack_from(value)
    if count != 1 or datatype not in (Datatype.INT64, Datatype.UINT64):
        return None
    return int.from_bytes(value[_VALUE.size :], "little", signed=datatype == Datatype.INT64)


def _cut(payload: bytes, start: int, size: int, where: str) -> bytes:
    left = len(payload) - start
    if size > left:
        raise BadFileError(where, f"expected {size} bytes of an entry, found {left}", start)
    return payload[start : start + size]
