"""The content of one decoded file, as JSON.

In: a file as `decode` gives it, and the schemas of its array. Out: plain values, as `show --json`
prints them; of a fragment whose schema is not at hand, what can be told without it. Reads nothing;
a name out of a file is text, never a path.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError, KeyNeededError
from chronotile.format import cell_values, tiles
from chronotile.format.datatypes import VAR_NUM
from chronotile.format.fragment_footer import COORDS, Footer, FooterHead, FooterLayout, read_head
from chronotile.format.fragment_size import domain_values, measure
from chronotile.format.kinds import OLD_SCHEMA
from chronotile.format.names import try_parse
from chronotile.format.schema import Field
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
    from collections.abc import Iterator

    from chronotile.format.commit_files import ConRecord
    from chronotile.format.consolidated_footers import ListedFooter
    from chronotile.format.fragment_metadata import FieldTiles, FragmentMetadata, RTree, TileBounds
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
    """Split a file's name, if it is a timestamped one.

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

    The schemas, the newest first, give the types of values: without one they stay raw.

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
            values = {"set": file.values_json(schemas)}
            return _envelope(file.tile) | file.to_json(schemas) | values
        case ArraySchemaFile():
            return _envelope(file.tile) | _schema(file.schema)
        case EnumerationFile():
            return _envelope(file.tile) | _enumeration(file.enumeration)
        case ArrayMetadataFile():
            return _envelope(file.tile) | {"entries": [_entry(entry) for entry in file.entries]}
        case GroupFile():
            return _envelope(file.tile) | _group(file.details)
        case ConsolidatedFootersFile():
            return _envelope(file.tile) | footers_json(file, schemas)
        case FragmentMetadataFile():
            return metadata_json(file, schemas, key)
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


_SIGNED, _FLOAT = frozenset("bhiq"), frozenset("fd")


def schema_of(head: FooterHead, schemas: tuple[Schema, ...]) -> Schema | None:
    """Find the schema that a footer names; a schema without a name counts as the one."""
    name = head.schema_name or OLD_SCHEMA
    for schema in schemas:
        if schema.file is None or schema.file == name:
            return schema
    return None


def metadata_json(
    file: FragmentMetadataFile, schemas: tuple[Schema, ...], key: bytes | None
) -> dict[str, Any]:
    """Give the content of a `__fragment_metadata.tdb` as JSON."""
    frame = file.frame
    document = _head(frame.head) | {
        "encrypted": any(tile.encrypted for tile in frame.tiles),
        "footer_offset": frame.footer_start,
        "footer_size": len(file.data) - frame.footer_start,
    }
    schema = schema_of(frame.head, schemas)
    if schema is None:
        return document | {"stored_tiles": [tile._asdict() for tile in frame.tiles]}
    try:
        metadata = file.decode(schema, key)
    except KeyNeededError:
        footer = FooterLayout(schema).decode(file.data[frame.footer_start :], file.where)
        return document | _footer(footer, schema, file.where)
    return document | _footer(metadata.footer, schema, file.where) | _tiles(metadata, schema)


def footers_json(file: ConsolidatedFootersFile, schemas: tuple[Schema, ...]) -> dict[str, Any]:
    """Give the content of a `.meta`; a footer that cannot be read does not hide the others."""
    return {"fragments": [_listed(item, schemas) for item in file.footers]}


def _listed(item: ListedFooter, schemas: tuple[Schema, ...]) -> dict[str, Any]:
    found = {"fragment": item.name, "offset": item.offset, "size": len(item.footer)}
    try:
        head = read_head(item.footer, item.name)
        schema = schema_of(head, schemas)
        if schema is None:
            return found | _head(head)
        footer = FooterLayout(schema).decode(item.footer, item.name, bare=True)
        return found | _head(head) | _footer(footer, schema, item.name)
    except ChronotileError as error:
        return found | {"error": str(error)}


def _head(head: FooterHead) -> dict[str, Any]:
    return {
        "format_version": head.version,
        "schema": head.schema_name or OLD_SCHEMA,
        "type": "dense" if head.dense else "sparse",
    }


def _footer(footer: Footer, schema: Schema, where: str) -> dict[str, Any]:
    size = measure(footer, schema, where)
    domain = footer.domain
    return {
        "domain": None if domain is None else domain_values(domain, schema.dimensions),
        "tiles": size.tiles,
        "cells": size.cells,
        "cell_bytes": footer.cell_bytes,
        "has_timestamps": footer.has_timestamps,
        "has_delete_metadata": footer.has_delete_metadata,
        "files": {file.name: file.size for file in footer.cell_files},
    }


def _tiles(metadata: FragmentMetadata, schema: Schema) -> dict[str, Any]:
    with_files = {file.field for file in metadata.footer.cell_files}
    fields = [field for field in metadata.fields if field.name in with_files]
    return {
        "fields": [dict(_field_tiles(field, schema.field(field.name))) for field in fields],
        "r_tree": _r_tree(metadata.r_tree, schema),
        "applied_deletes": list(metadata.applied_deletes),
    }


def _r_tree(tree: RTree, schema: Schema) -> dict[str, Any]:
    levels = [
        [domain_values(box, schema.dimensions) for box in level.boxes()] for level in tree.levels
    ]
    return {"fanout": tree.fanout, "levels": levels}


def _field_tiles(tiles: FieldTiles, field: Field | None) -> Iterator[tuple[str, Any]]:
    yield "field", tiles.name
    yield "tile_offsets", list(tiles.tile_offsets)
    if field is not None and field.is_var:
        yield "var_tile_offsets", list(tiles.var_tile_offsets or ())
        yield "var_tile_sizes", list(tiles.var_tile_sizes or ())
    if field is not None and field.nullable:
        yield "validity_tile_offsets", list(tiles.validity_tile_offsets or ())
        yield "null_counts", list(tiles.null_counts or ())
    lists = {"minima": tiles.minima, "maxima": tiles.maxima}
    for name, bounds in (lists | {"first": tiles.first, "last": tiles.last}).items():
        if bounds is not None and bounds.fixed and tiles.name != COORDS:
            yield name, [_value(field, raw) for raw in _values(bounds, field)]
    if tiles.sums:
        yield "sums", [_sum(field, number) for number in tiles.sums]
    if tiles.statistics is not None:
        if tiles.statistics.least or tiles.statistics.largest:
            yield "least", _value(field, tiles.statistics.least)
            yield "largest", _value(field, tiles.statistics.largest)
        if tiles.sums:
            yield "sum", _sum(field, tiles.statistics.sum)
        if field is not None and field.nullable:
            yield "nulls", tiles.statistics.nulls


def _values(bounds: TileBounds, field: Field | None) -> Iterator[bytes]:
    return bounds.values(8 if field is None else field.cell_size)


def _value(field: Field | None, raw: bytes) -> Any:
    """Decode a value; the times of cells, which are no field of the schema, are numbers."""
    if field is None:
        return int.from_bytes(raw, "little")
    return cell_values.to_json(field, cell_values.decode(field, raw))


def _sum(field: Field | None, bits: int) -> Any:
    """Decode a sum, of the kind that the field's values are."""
    code = None if field is None else field.datatype.code
    raw = struct.pack("<Q", bits)
    if field is not None and code in _FLOAT:
        number = struct.unpack("<d", raw)[0]
        return cell_values.to_json(field, number)
    return struct.unpack("<q", raw)[0] if code in _SIGNED else bits
