"""Which bytes of a file are which field.

In: the bytes of a file of a known kind. Out: `Region`s: the file itself, and the payload of each
tile in it, each with the spans of its fields. Of a fragment's metadata whose schema is not at hand,
the payloads and all but the head of the footer stay raw. Does not know what a field means.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.format import tiles
from chronotile.format.fragment_footer import (
    FIRST_WITH_SCHEMA_NAME,
    LEN_LENGTH,
    Footer,
    FooterLayout,
    coordinate_sizes,
)
from chronotile.format.fragment_metadata import Frame, frame_metadata
from chronotile.format.parsers import (
    ArrayMetadataSpec,
    ArraySchemaSpec,
    ConditionSpec,
    ConsolidatedCommitsSpec,
    EnumerationSpec,
    FieldSpan,
    FragmentMetadataSpec,
    GenericTileSpec,
    GroupDetailsSpec,
    IgnoreFileSpec,
    UpdateSpec,
    VacuumFileSpec,
    trace,
)
from chronotile.show.file_json import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.format.kinds import Kind
    from chronotile.format.schema import Schema


_PAYLOADS: Mapping[Kind, Any] = {
    "del": ConditionSpec,
    "upd": UpdateSpec,
    "schema": ArraySchemaSpec,
    "enumeration": EnumerationSpec,
    "meta": ArrayMetadataSpec,
    "group": GroupDetailsSpec,
    "fragment-meta": FragmentMetadataSpec.ConsolidatedFooters,
}
_LINES: Mapping[Kind, Any] = {"ign": IgnoreFileSpec, "vac": VacuumFileSpec}
_TILE_FIELD = ".body.tile.raw"


def layout(
    data: bytes,
    kind: Kind,
    where: str,
    *,
    key: bytes | None = None,
    schemas: tuple[Schema, ...] = (),
) -> tuple[Region, ...]:
    r"""Find the byte range of each field.

    A payload that does not open with the key is left out. The schemas tell the fields of a
    fragment's footer.

    >>> [span.path for span in layout(b"a.wrt\nb.wrt\n", "ign", "a.ign")[0].spans]
    ['entries[0].uri', 'entries[1].uri']
    """
    if kind == "con":
        return tuple(_consolidated(data, where, key))
    if kind == "fragment-metadata":
        return metadata_regions(data, where, key, schemas)
    spec = GenericTileSpec if kind in _PAYLOADS else _LINES.get(kind)
    spans = trace(spec, where, data) if spec else ()
    payload = _payload(data, kind, where, key, "payload") if kind in _PAYLOADS else ()
    return (Region(title="file", data=data, spans=spans), *payload)


def _consolidated(data: bytes, where: str, key: bytes | None) -> Iterator[Region]:
    spans: list[FieldSpan] = []
    payloads: list[Region] = []
    uri = ""
    for span in trace(ConsolidatedCommitsSpec, where, data):
        if isinstance(span.value, str):
            uri = span.value
        if not span.path.endswith(_TILE_FIELD):
            spans.append(span)
            continue
        record = span.path.removesuffix(_TILE_FIELD)
        try:
            parts = trace(GenericTileSpec, where, span.value)
        except ChronotileError:
            # A damaged tile must not hide the records around it.
            spans.append(span)
            continue
        spans += _moved(parts, f"{record}.tile.", span.start)
        kind: Kind = "upd" if uri.endswith(".upd") else "del"
        payloads += _payload(span.value, kind, where, key, f"payload of {record}")
    yield Region(title="file", data=data, spans=tuple(spans))
    yield from payloads


def _payload(
    tile: bytes, kind: Kind, where: str, key: bytes | None, title: str
) -> tuple[Region, ...]:
    try:
        payload = tiles.decode(tile, where, key=key).payload
        spans = trace(_PAYLOADS[kind], where, payload)
    except ChronotileError:
        return ()
    return (Region(title=title, data=payload, spans=spans),)


_LISTS = {
    "ofs_tile_offsets": "tile offsets",
    "ofs_var_tile_offsets": "var tile offsets",
    "ofs_var_tile_sizes": "var tile sizes",
    "ofs_validity_tile_offsets": "validity tile offsets",
    "ofs_tile_minima": "minima",
    "ofs_tile_maxima": "maxima",
    "ofs_tile_sums": "sums",
    "ofs_tile_null_counts": "null counts",
}
_BOUNDS = frozenset(("ofs_tile_minima", "ofs_tile_maxima"))
_MOST_BYTES = 16 << 20
"""Payload bytes that are laid out; what is beyond is left out."""


class _TilePayload(NamedTuple):
    """The content of a tile before the footer."""

    title: str
    spec: Any
    params: tuple[object, ...] = ()


def metadata_regions(
    data: bytes, where: str, key: bytes | None, schemas: tuple[Schema, ...]
) -> tuple[Region, ...]:
    """Find the byte range of each field of a fragment's metadata.

    A payload that does not open with the key is left out.
    """
    frame = frame_metadata(data, where)
    schema = schema_of(frame.head, schemas)
    contents: dict[int, _TilePayload] = {}
    if schema is not None:
        footer = FooterLayout(schema).decode(data[frame.footer_start :], where)
        contents = _contents(footer, schema)
    spans = (*_tiles(data, frame, where), *_footer(data, frame, schema, where))
    regions, left = [Region(title="file", data=data, spans=spans)], _MOST_BYTES
    for at, tile in enumerate(frame.tiles):
        stored = data[tile.offset : tile.offset + tile.size]
        with suppress(ChronotileError):
            payload = tiles.decode(stored, where, key=key, ceiling=left).payload
            left -= len(payload)
            regions.append(_tile_payload(payload, at, contents.get(tile.offset), where))
    return tuple(regions)


def _contents(footer: Footer, schema: Schema) -> dict[int, _TilePayload]:
    spec, sizes = FragmentMetadataSpec, coordinate_sizes(schema)
    found = {footer.ofs_r_tree: _TilePayload("R-tree", spec.RTree, (footer.version, sizes))}
    for name, words in _LISTS.items():
        kind = spec.TileBounds if name in _BOUNDS else spec.TileNumbers
        for field, offset in zip(footer.fields, getattr(footer, name), strict=False):
            found.setdefault(offset, _TilePayload(f"{words} of {field.name}", kind))
    for words, offsets in zip(("first", "last"), footer.ofs_tile_ends, strict=True):
        for dimension, offset in zip(schema.dimensions, offsets, strict=False):
            content = _TilePayload(f"{words} coordinates of {dimension.name}", spec.TileBounds)
            found.setdefault(offset, content)
    if footer.ofs_fragment_statistics is not None:
        content = _TilePayload("statistics", spec.FragmentStatistics, (len(footer.fields),))
        found.setdefault(footer.ofs_fragment_statistics, content)
    if footer.ofs_processed_conditions is not None:
        content = _TilePayload("applied deletes", spec.ProcessedConditions)
        found.setdefault(footer.ofs_processed_conditions, content)
    return found


def _moved(spans: tuple[FieldSpan, ...], prefix: str, by: int) -> Iterator[FieldSpan]:
    for span in spans:
        yield FieldSpan(f"{prefix}{span.path}", span.start + by, span.end + by, span.value)


def _raw(path: str, start: int, end: int, data: bytes) -> Iterator[FieldSpan]:
    if start < end:
        yield FieldSpan(path, start, end, data[start:end])


def _tiles(data: bytes, frame: Frame, where: str) -> Iterator[FieldSpan]:
    end = 0
    for at, tile in enumerate(frame.tiles):
        start, end = tile.offset, min(tile.offset + tile.size, frame.footer_start)
        try:
            spans = trace(GenericTileSpec, where, data[start:end])
        except ChronotileError:
            # One damaged tile does not hide those around it.
            yield from _raw(f"tiles[{at}]", start, end, data)
            continue
        yield from _moved(spans, f"tiles[{at}].", start)
    yield from _raw("unread", end, frame.footer_start, data)


def _footer(data: bytes, frame: Frame, schema: Schema | None, where: str) -> Iterator[FieldSpan]:
    start, spec, end = frame.footer_start, FragmentMetadataSpec, len(data)
    has_length = frame.head.version >= FIRST_WITH_SCHEMA_NAME
    if schema is not None:
        has_length = FooterLayout(schema).has_length(frame.head.version)
    end -= LEN_LENGTH if has_length else 0
    if schema is not None:
        params = (len(schema.attributes), coordinate_sizes(schema))
        spans = trace(spec.FragmentFooter, where, data[start:end], *params)
        yield from _moved(spans, "footer.", start)
    else:
        size = start + frame.head.size
        yield from _moved(trace(spec.FooterHead, where, data[start:size]), "footer.head.", start)
        yield from _raw("footer.unread", size, end, data)
    if has_length:
        yield FieldSpan("len_footer", end, len(data), int.from_bytes(data[end:], "little"))


def _tile_payload(payload: bytes, at: int, content: _TilePayload | None, where: str) -> Region:
    title = f"payload of tiles[{at}]"
    if content is None:
        return Region(title=title, data=payload, spans=tuple(_raw("raw", 0, len(payload), payload)))
    spans = trace(content.spec, where, payload, *content.params)
    return Region(title=f"{title}, {content.title}", data=payload, spans=spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Bytes that count from 0: a file, or what a tile in it unfolds to."""

    title: str
    data: bytes
    spans: tuple[FieldSpan, ...]
