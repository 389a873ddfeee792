"""Which bytes of a file are which field.

In: the bytes of a file of a known kind. Out: `Region`s: the file itself, and the payload of each
tile in it, each with the spans of its fields. Does not know what a field means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError
from chronotile.format import tiles
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
from chronotile.single_file.fragment_byte_ranges import metadata_regions
from chronotile.single_file.region import Region

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

    Args:
        data: The whole file.
        kind: What it is.
        where: The file's name, for errors.
        key: The key of an encrypted array; a payload that does not open is left out.
        schemas: What tells the fields of a fragment's footer.

    Raises:
        BadFileError: The bytes are not of that kind.

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
        for part in parts:
            path = f"{record}.tile.{part.path}"
            spans.append(
                FieldSpan(path, part.start + span.start, part.end + span.start, part.value)
            )
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
