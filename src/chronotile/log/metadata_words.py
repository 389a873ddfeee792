"""What a file of array metadata sets, in words.

In: the payload of a file of `__meta`. Out: a phrase with its keys and values. Knows neither names
nor times of files.
"""

from __future__ import annotations

import json
import struct

from chronotile.format.array_metadata import MetadataItem, decode_items
from chronotile.format.cell_values import is_text, raw_to_json
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.format.schema import Field

_HEAD = struct.Struct("<BI")
_LONGEST = 60
"""Characters of a value that are shown."""


def metadata_words(payload: bytes, where: str) -> str:
    r"""The keys and values of a metadata file.

    Raises:
        BadFileError: It is damaged.

    >>> metadata_words(b"\1\0\0\0a\0\0\1\0\0\0\7\0\0\0" + b"\1\0\0\0b\1", "__meta/x")
    'set a = 7; removed b'
    """
    items = [item for item in decode_items(payload, where) if not _is_clean_up(item)]
    pairs = ", ".join(f"{_key(i)} = {_value(i)}" for i in items if not i.is_removal)
    gone = ", ".join(_key(item) for item in items if item.is_removal)
    return "; ".join([*([f"set {pairs}"] if pairs else []), *([f"removed {gone}"] if gone else [])])


def _is_clean_up(item: MetadataItem) -> bool:
    """Whether TileDB-Py removes a mark of its own, as it does with each key that it sets."""
    return item.is_removal and item.key.startswith((b"__np_flat_", b"__np_shape_"))


def _key(item: MetadataItem) -> str:
    return item.key.decode("utf-8", "backslashreplace")


def _value(item: MetadataItem) -> str:
    """The value of an entry, as JSON."""
    start = 4 + len(item.key) + 1
    number, count = _HEAD.unpack_from(item.raw, start)
    raw, datatype = item.raw[start + _HEAD.size :], Datatype(number)
    length = VAR_NUM if is_text(datatype) or not count else count
    value = raw_to_json(Field(name="value", datatype=datatype, cell_val_num=length), raw)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
