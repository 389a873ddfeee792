"""The content of one decoded file, as JSON.

In: a file as `decode` gives it, and the schemas at hand. Out: plain values, in the words of the
contract. Reads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.conditions import update_values
from chronotile.conditions.text import to_json as condition_json
from chronotile.conditions.text import to_text
from chronotile.conditions.tree import fields
from chronotile.errors import BadNameError, ChronotileError
from chronotile.format import cell_values, tiles
from chronotile.format.datatypes import VAR_NUM
from chronotile.format.names import parse_name
from chronotile.format.schema import Field
from chronotile.single_file.decode import (
    AnyFile,
    ArraySchemaFile,
    ConsolidatedFile,
    DeleteFile,
    EnumerationFile,
    LinesFile,
    MetadataEntry,
    MetadataFile,
    UpdateFile,
    decode_payload,
)

if TYPE_CHECKING:
    from chronotile.format.commit_files import Record
    from chronotile.format.kinds import Kind
    from chronotile.format.schema import Enumeration, Schema

WORDS: dict[Kind, str] = {
    "wrt": "the mark of a committed fragment",
    "ok": "the mark of a committed fragment, before version 12",
    "del": "a delete",
    "upd": "an update",
    "con": "consolidated commits",
    "ign": "commits to ignore",
    "vac": "what has been replaced",
    "schema": "an array schema",
    "enumeration": "the labels of an enumeration",
    "meta": "array metadata",
}
"""What each kind of file is."""


def name_json(place: str, kind: Kind) -> dict[str, Any]:
    """What a file's name tells, if it is a timestamped one.

    >>> name_json("a/__1_2_00112233445566778899aabbccddeeff_22.wrt", "wrt")["t2"]
    2
    """
    stem = place.rpartition("/")[2].partition(".")[0]
    try:
        name = parse_name(stem)
    except BadNameError:
        return {}
    if kind == "enumeration":  # named by a uuid, which looks like a name of era 1
        return {}
    found = {"name": name.text, "t1": name.t1, "t2": name.t2, "version": name.version}
    return found if name.version is not None else {k: found[k] for k in ("name", "t1", "t2")}


def to_json(
    file: AnyFile, schemas: tuple[Schema, ...] = (), key: bytes | None = None
) -> dict[str, Any]:
    r"""Gives the content of a file as JSON.

    Args:
        file: The file.
        schemas: What types the values, the newest first; without one they stay raw.
        key: The key of an encrypted array, for the tiles in a `.con`.

    >>> from chronotile.single_file.decode import parse
    >>> to_json(parse(b"__commits/a.wrt\n", "ign"))
    {'lines': ['__commits/a.wrt']}
    """
    match file:
        case LinesFile():
            return {"lines": list(file.lines)}
        case ConsolidatedFile():
            return {"records": [_record(record, schemas, key) for record in file.records]}
        case UpdateFile():
            schema = _fitting(file, schemas)
            found = {"set": update_values.to_json(file.values, schema)}
            return _envelope(file.tile) | _condition(file, schema) | found
        case DeleteFile():
            return _envelope(file.tile) | _condition(file, _fitting(file, schemas))
        case ArraySchemaFile():
            return _envelope(file.tile) | _schema(file.schema)
        case EnumerationFile():
            return _envelope(file.tile) | _enumeration(file.enumeration)
        case MetadataFile():
            return _envelope(file.tile) | {"entries": [_entry(entry) for entry in file.entries]}
    return {}


def _fitting(file: DeleteFile, schemas: tuple[Schema, ...]) -> Schema | None:
    """The newest schema that has all fields of a condition; else the newest."""
    wanted = fields(file.stored)
    for schema in schemas:
        if all(schema.field(name) is not None for name in wanted):
            return schema
    return schemas[0] if schemas else None


def _envelope(tile: tiles.Tile) -> dict[str, Any]:
    return {
        "format_version": tile.version,
        "encrypted": tile.encrypted,
        "payload_size": len(tile.payload),
    }


def _condition(file: DeleteFile, schema: Schema | None) -> dict[str, Any]:
    return {
        "text": to_text(file.predicate, schema),
        "predicate": condition_json(file.predicate, schema),
        "stored_text": to_text(file.stored, schema),
        "stored": condition_json(file.stored, schema),
    }


def _record(record: Record, schemas: tuple[Schema, ...], key: bytes | None) -> dict[str, Any]:
    document: dict[str, Any] = {"uri": record.uri, "offset": record.offset}
    if record.tile is None:
        return document
    document |= {"tile_offset": record.tile_offset, "tile_size": len(record.tile)}
    kind: Kind = "upd" if record.uri.endswith(".upd") else "del"
    try:
        tile = tiles.decode(record.tile, record.uri, key=key)
        return document | to_json(decode_payload(tile, kind, record.uri), schemas)
    except ChronotileError as error:
        return document | {"error": str(error)}


def _schema(schema: Schema) -> dict[str, Any]:
    return {
        "version": schema.version,
        "type": "dense" if schema.dense else "sparse",
        "allows_duplicates": schema.allows_duplicates,
        "dimensions": [_field(field) for field in schema.dimensions],
        "attributes": [_field(field) for field in schema.attributes],
        "enumerations": [{"name": n, "file": f} for n, f in schema.enumeration_files],
    }


def _field(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "datatype": field.datatype.name,
        "values": "any" if field.cell_val_num == VAR_NUM else field.cell_val_num,
        "nullable": field.nullable,
        "enumeration": field.enumeration_name,
    }


def _enumeration(enumeration: Enumeration) -> dict[str, Any]:
    field = _plain_field(enumeration.name, enumeration.datatype, 1)
    return {
        "enumeration": enumeration.name,
        "datatype": enumeration.datatype.name,
        "ordered": enumeration.ordered,
        "labels": [cell_values.to_json(field, label) for label in enumeration.labels],
    }


def _entry(entry: MetadataEntry) -> dict[str, Any]:
    if entry.datatype is None:
        return {"key": entry.key, "removed": True}
    count = VAR_NUM if cell_values.is_text(entry.datatype) else entry.count
    field = _plain_field(entry.key, entry.datatype, count)
    return {
        "key": entry.key,
        "removed": False,
        "datatype": entry.datatype.name,
        "value": cell_values.to_json(field, cell_values.decode(field, entry.raw)),
        "raw": entry.raw.hex(),
    }


def _plain_field(name: str, datatype: Any, count: int) -> Field:
    return Field(
        name=name,
        datatype=datatype,
        cell_val_num=count,
        nullable=False,
        is_dimension=False,
        enumeration_name=None,
        enumeration=None,
    )
