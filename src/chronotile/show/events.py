"""The events of an array's history, in words.

In: deletes, updates, schemas and files of metadata. Out: what each did, in words; and `Event`: an
object with its time, words, size and file, one by one or as a table. Decides nothing: `explanation`
did.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from chronotile.conditions.side_effects import also_keeps, also_removes, engine_refuses
from chronotile.conditions.stored_conditions import is_everything
from chronotile.conditions.text import field_name, literal
from chronotile.errors import ChronotileError, KeyNeededError
from chronotile.format.array_metadata import MetadataItem, decode_items
from chronotile.format.cell_values import is_text, raw_to_json
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.format.schema import Field
from chronotile.format.timestamps import iso_time
from chronotile.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.format.schema import Schema
    from chronotile.visibility.view import Delete, Update


_SEALED = "by a condition that only the key opens"


class Event(NamedTuple):
    """One thing that happened."""

    name: str
    kind: str
    t1: int | None
    """None if the name tells no time."""
    t2: int | None
    text: str
    """Its effect, in words."""
    notes: tuple[str, ...] = ()
    """Remarks for its reader."""
    size: int | None = None
    cells: int | None = None
    """Cells of a write; None if nobody asked, or it is not known."""
    source: str = ""
    """The file that holds the object, relative to the array."""
    offset: int | None = None
    """The start of its tile in that file."""
    also: tuple[str, ...] = ()
    """Other files that hold a copy."""
    status: str = "visible"
    reason: str = "in-window"
    because: str | None = None
    written: int | None = None
    """When the storage says that its file was written, for files that hold older things."""
    operation: str | None = None
    """The id of the operation of this package that put it; None if another program did."""

    @property
    def is_operation(self) -> bool:
        """True if it is an operation as a whole, and no object of the array."""
        return self.operation == self.name

    def to_dict(self) -> dict[str, object]:
        """Give the JSON form, as `log --json` prints it."""
        document = self._asdict()
        document["time"] = None if self.t2 is None else iso_time(self.t2)
        return document | {"notes": list(self.notes), "also": list(self.also)}


EVENTS_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("text", pa.string()),
        ("notes", pa.list_(pa.string())),
        ("size", pa.int64()),
        ("cells", pa.int64()),
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("also", pa.list_(pa.string())),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("because", pa.string()),
        ("written", pa.uint64()),
        ("operation", pa.string()),
    ]
)
"""The fields of `Event`, as columns."""


def events_table(events: Iterable[Event]) -> pa.Table:
    """Put events into a table; text that is no UTF-8, from a damaged name, gets escapes.

    >>> events_table([]).num_rows
    0
    """
    columns = zip(*events, strict=True)
    named = dict(zip(EVENTS_SCHEMA.names, columns, strict=False))
    return pa.table(
        [pa.array(_encodable(named.get(f.name, ())), f.type) for f in EVENTS_SCHEMA],
        schema=EVENTS_SCHEMA,
    )


def _encodable(values: Iterable[Any]) -> list[Any]:
    return [_encodable(value) if isinstance(value, tuple) else _clean(value) for value in values]


def _clean(value: Any) -> Any:
    is_damaged = isinstance(value, str) and not value.isascii() and not value.isprintable()
    return printable(value) if is_damaged else value


def delete_words(commit: Delete) -> tuple[str, tuple[str, ...]]:
    """Tell in words what a delete did, with notes on it."""
    try:
        text, schema = f"deleted rows where `{commit.text}`", commit.schema
        stored = commit.stored
    except KeyNeededError:
        return f"deleted rows, {_SEALED}", ()
    except ChronotileError as error:
        words = "deleted rows; which ones cannot be read here"
        return words, (f"its condition cannot be read: {error}",)
    if schema is None:
        return text, ("no schema is at hand: values are raw bytes",)
    if also := also_removes(stored, schema):
        text += f"; TileDB also removes {', '.join(also)}"
    if kept := also_keeps(stored, schema):
        text += f"; but not {', '.join(kept)}"
    notes = _refusals(commit)
    if commit.is_stand_in:
        return "a stand-in that matches no row: a merged fragment refers to this delete", notes
    if is_everything(stored, schema):
        notes += (f"it matches every row: no write that is dated {commit.t2} or before shows",)
    return text, notes


def update_words(commit: Update) -> tuple[str, tuple[str, ...]]:
    """Tell in words what an update did, with notes on it."""
    try:
        schema = commit.schema
        pairs = (
            f"{field_name(name)} = {_literal(schema.field(name) if schema else None, raw)}"
            for name, raw in commit.values
        )
        text = f"set {', '.join(pairs)} in rows where `{commit.text}`"
        if not commit.values:  # a stand-in for one that an erase took the values out of
            return "an update without values, which matches no row", ()
    except KeyNeededError:
        return f"updated rows, {_SEALED}", ()
    except ChronotileError as error:
        return "updated rows; which ones cannot be read here", (f"it cannot be read: {error}",)
    note = "TileDB does not apply updates: it hides these rows instead"
    if commit.offset:
        note = "TileDB does not see this update, because it is in a .con: it shows the old values"
    return text, (note, *_refusals(commit))


def _literal(field: Field | None, raw: bytes) -> str:
    return "None" if not raw and field is not None and field.nullable else literal(field, raw)


def _refusals(commit: Delete) -> tuple[str, ...]:
    problems = engine_refuses(commit.stored, commit.schemas[0]) if commit.schemas else ()
    return tuple(f"TileDB cannot read the array over this: {problem}" for problem in problems)


_HEAD = struct.Struct("<BI")
_LONGEST = 60
"""Characters of a value of metadata that are shown."""


def metadata_words(payload: bytes, where: str) -> str:
    r"""Tell the keys and values of a metadata file.

    >>> metadata_words(b"\1\0\0\0a\0\0\1\0\0\0\7\0\0\0" + b"\1\0\0\0b\1", "__meta/x")
    'set a = 7; removed b'
    """
    items = [item for item in decode_items(payload, where) if not _is_clean_up(item)]
    pairs = ", ".join(f"{_key(i)} = {_value(i)}" for i in items if not i.is_removal)
    gone = ", ".join(_key(item) for item in items if item.is_removal)
    return "; ".join([*([f"set {pairs}"] if pairs else []), *([f"removed {gone}"] if gone else [])])


def _is_clean_up(item: MetadataItem) -> bool:
    """Return True if TileDB-Py removes a mark of its own, as it does with each key that it sets."""
    return item.is_removal and item.key.startswith((b"__np_flat_", b"__np_shape_"))


def _key(item: MetadataItem) -> str:
    return item.key.decode("utf-8", "backslashreplace")


def _value(item: MetadataItem) -> str:
    """Write the value of an entry as JSON."""
    start = 4 + len(item.key) + 1
    number, count = _HEAD.unpack_from(item.raw, start)
    raw, datatype = item.raw[start + _HEAD.size :], Datatype(number)
    length = VAR_NUM if is_text(datatype) or not count else count
    value = raw_to_json(Field(name="value", datatype=datatype, cell_val_num=length), raw)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def schema_words(schema: Schema) -> str:
    """Tell the dimensions and attributes of a schema."""
    dimensions = ", ".join(_field(field) for field in schema.dimensions)
    attributes = ", ".join(_field(field) for field in schema.attributes)
    return f"dimensions {dimensions}; attributes {attributes}"


def _field(field: Field) -> str:
    words = field.datatype.name.lower()
    if field.enumeration_name is not None:
        words += f" of {field.enumeration_name}"
    return f"{field_name(field.name, field)} ({', '.join((words, *_details(field)))})"


def _details(field: Field) -> Iterator[str]:
    """Tell domain, tile extent, length, nullability and filters, as far as there are any."""
    if field.domain:
        half = len(field.domain) // 2
        low, high = (
            raw_to_json(field, part) for part in (field.domain[:half], field.domain[half:])
        )
        yield f"{low} to {high}"
    if field.tile_extent:
        yield f"tiles of {_extent(field)}"
    if field.cell_val_num == VAR_NUM:
        yield "variable length"
    elif field.cell_val_num != 1:
        yield f"{field.cell_val_num} values in each cell"
    if field.nullable:
        yield "nullable"
    if field.filters:
        yield " + ".join(one.kind for one in field.filters)


def _extent(field: Field) -> object:
    """Give the tile extent: of a date or time, a number of its units."""
    if field.datatype.is_float:
        return raw_to_json(field, field.tile_extent)
    return int.from_bytes(field.tile_extent, "little")


def change_words(before: Schema, now: Schema) -> str:
    """Tell what changed from one schema to the next."""
    old = {field.name: field for field in before.fields}
    new = {field.name: field for field in now.fields}
    parts = [f"added {_field(new[name])}" for name in new if name not in old]
    parts += [f"dropped {field_name(name)}" for name in old if name not in new]
    for name in new:
        if name in old and _field(new[name]) != _field(old[name]):
            parts.append(f"made {_field(old[name])} {_field(new[name])}")
    labels = [e for e in now.enumeration_files if e not in before.enumeration_files]
    parts += [f"changed the labels of {field_name(name)}" for name, _ in labels]
    if now.in_use != before.in_use and now.in_use:
        sides = [
            f"{field_name(field.name)} {raw_to_json(field, least)} to {raw_to_json(field, largest)}"
            for field, (least, largest) in zip(now.dimensions, now.in_use, strict=False)
        ]
        parts.append(f"set the current domain to {', '.join(sides)}")
    return "; ".join(parts) or "its fields are the same"
