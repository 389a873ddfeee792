"""The content of one decoded file, as JSON.

In: a file as `decode` gives it, and the schemas of its array. Out: plain values, as `show --json`
prints them. Reads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError
from chronotile.format import cell_values, tiles
from chronotile.format.datatypes import VAR_NUM
from chronotile.format.names import try_parse
from chronotile.format.schema import Field
from chronotile.single_file import fragment_json
from chronotile.single_file.decode import (
    AnyFile,
    ArrayMetadataFile,
    ArraySchemaFile,
    ConsolidatedFile,
    ConsolidatedFootersFile,
    DeleteFile,
    EnumerationFile,
    FragmentMetadataFile,
    GroupFile,
    LinesFile,
    MetadataEntry,
    UpdateFile,
    decode_payload,
)

if TYPE_CHECKING:
    from chronotile.format.commit_files import ConRecord
    from chronotile.format.groups import GroupDetails
    from chronotile.format.kinds import Kind
    from chronotile.format.schema import Enumeration, Schema

WORDS: dict[Kind, str] = {
    "wrt": "the commit of a fragment",
    "ok": "the commit of a fragment, before version 12",
    "del": "a delete",
    "upd": "an update",
    "con": "consolidated commits",
    "ign": "commits to ignore",
    "vac": "what has been replaced",
    "schema": "an array schema",
    "enumeration": "the labels of an enumeration",
    "meta": "metadata of an array or a group",
    "group": "the members of a group",
    "fragment-meta": "the footers of many fragments",
    "fragment-metadata": "the metadata of a fragment",
}
"""What each kind of file is."""


def name_json(place: str, kind: Kind) -> dict[str, Any]:
    """The parts of a file's name, if it is a timestamped one.

    >>> name_json("a/__1_2_00112233445566778899aabbccddeeff_22.wrt", "wrt")["t2"]
    2
    """
    name = try_parse(place.rpartition("/")[2].partition(".")[0])
    # The name of an enumeration is a uuid, which looks like a name of era 1.
    if name is None or kind == "enumeration":
        return {}
    version = {} if name.version is None else {"version": name.version}
    return {"name": name.text, "t1": name.t1, "t2": name.t2} | version


def to_json(
    file: AnyFile, schemas: tuple[Schema, ...] = (), key: bytes | None = None
) -> dict[str, Any]:
    r"""Give the content of a file as JSON.

    Args:
        file: The file.
        schemas: The types of the values, the newest schema first; without one they stay raw.
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
        case DeleteFile():
            return _envelope(file.tile) | file.to_json(schemas)
        case UpdateFile():
            said = {"set": file.values_json(schemas)}
            return _envelope(file.tile) | file.to_json(schemas) | said
        case ArraySchemaFile():
            return _envelope(file.tile) | _schema(file.schema)
        case EnumerationFile():
            return _envelope(file.tile) | _enumeration(file.enumeration)
        case ArrayMetadataFile():
            return _envelope(file.tile) | {"entries": [_entry(entry) for entry in file.entries]}
        case GroupFile():
            return _envelope(file.tile) | _group(file.details)
        case ConsolidatedFootersFile():
            return _envelope(file.tile) | fragment_json.footers_json(file, schemas)
        case FragmentMetadataFile():
            return fragment_json.metadata_json(file, schemas, key)
    return {}


def _envelope(tile: tiles.Tile) -> dict[str, Any]:
    return {
        "format_version": tile.version,
        "encrypted": tile.encrypted,
        "payload_size": len(tile.payload),
    }


def _record(record: ConRecord, schemas: tuple[Schema, ...], key: bytes | None) -> dict[str, Any]:
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
    field = Field(name=enumeration.name, datatype=enumeration.datatype)
    return {
        "enumeration": enumeration.name,
        "datatype": enumeration.datatype.name,
        "ordered": enumeration.ordered,
        "labels": [cell_values.to_json(field, label) for label in enumeration.labels],
    }


def _group(details: GroupDetails) -> dict[str, Any]:
    members = [
        {
            "name": entry.name,
            "type": entry.kind,
            "relative": entry.is_relative,
            "uri": entry.uri,
            "deleted": entry.is_deletion,
        }
        for entry in details.entries
    ]
    return {"details_version": details.version, "members": members}


def _entry(entry: MetadataEntry) -> dict[str, Any]:
    if entry.datatype is None:
        return {"key": entry.key, "removed": True}
    count = VAR_NUM if cell_values.is_text(entry.datatype) else entry.count
    field = Field(name=entry.key, datatype=entry.datatype, cell_val_num=count)
    return {
        "key": entry.key,
        "removed": False,
        "datatype": entry.datatype.name,
        "value": cell_values.raw_to_json(field, entry.raw),
        "raw": entry.raw.hex(),
    }
