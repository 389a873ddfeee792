"""What the files that tell of fragments say, as JSON.

In: a file, and the schemas at hand. Out: plain values. Without the schema that a footer names, what
can be told without it. Reads nothing; a name out of a file is text, never a path.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError, KeyNeededError
from chronotile.format import cell_values
from chronotile.format.fragment_footer import COORDS, Footer, FooterHead, FooterLayout, read_head
from chronotile.format.fragment_size import FragmentMeasure, domain_values
from chronotile.format.kinds import OLD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.consolidated_footers import ListedFooter
    from chronotile.format.fragment_metadata import FieldTiles, FragmentMetadata, RTree, TileBounds
    from chronotile.format.schema import Field, Schema
    from chronotile.single_file.decode import (
        ConsolidatedFootersFile,
        FragmentMetadataFile,
    )

_SIGNED, _FLOAT = frozenset("bhiq"), frozenset("fd")


def schema_of(head: FooterHead, schemas: tuple[Schema, ...]) -> Schema | None:
    """The schema that a footer names; one that came without a name is taken for it."""
    name = head.schema_name or OLD_SCHEMA
    for schema in schemas:
        if schema.file is None or schema.file == name:
            return schema
    return None


def metadata_json(
    file: FragmentMetadataFile, schemas: tuple[Schema, ...], key: bytes | None
) -> dict[str, Any]:
    """What a `__fragment_metadata.tdb` says.

    Raises:
        BadFileError: It is damaged, or not of the schema that it names.
    """
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
    """What a `.meta` says; a footer that cannot be read does not hide the others."""
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
    size = FragmentMeasure(schema).measure(footer, where)
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
        "fields": [dict(_field(field, schema.field(field.name))) for field in fields],
        "r_tree": _r_tree(metadata.r_tree, schema),
        "applied_deletes": list(metadata.applied_deletes),
    }


def _r_tree(tree: RTree, schema: Schema) -> dict[str, Any]:
    levels = [
        [domain_values(box, schema.dimensions) for box in level.boxes()] for level in tree.levels
    ]
    return {"fanout": tree.fanout, "levels": levels}


def _field(tiles: FieldTiles, field: Field | None) -> Iterator[tuple[str, Any]]:
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
    """A value; of the times of cells, which are no field of the schema, a number."""
    if field is None:
        return int.from_bytes(raw, "little")
    return cell_values.to_json(field, cell_values.decode(field, raw))


def _sum(field: Field | None, bits: int) -> Any:
    """A sum, of the kind that the field's values are."""
    code = None if field is None else field.datatype.code
    raw = struct.pack("<Q", bits)
    if field is not None and code in _FLOAT:
        number = struct.unpack("<d", raw)[0]
        return cell_values.to_json(field, number)
    return struct.unpack("<q", raw)[0] if code in _SIGNED else bits
