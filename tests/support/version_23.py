"""Arrays of format version 23, made from those of version 22: no engine at hand writes them.

In: the metadata of a fragment, or the folder of an array. Out: the same in version 23. What a tile
has for its first and its last cell is the corner of its box: the same where there is one dimension,
else of the same form.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from chronotile.format import tiles
from chronotile.format.consolidated_footers import (
    encode_consolidated_footers,
    read_index,
)
from chronotile.format.fragment_footer import METADATA, FooterLayout, Section
from chronotile.format.fragment_metadata import decode_metadata, frame_metadata
from chronotile.format.schema import decode_schema

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from chronotile.format.schema import Schema

OLD, NEW = 22, 23
UNKNOWN = Section(77, b"of a later day")


def encode_sections(sections: Iterable[Section]) -> bytes:
    """Writes the sections of a footer, and their number."""
    listed = [*sections]
    parts = (struct.pack("<QI", kind, len(data)) + data for kind, data in listed)
    return struct.pack("<I", len(listed)) + b"".join(parts)


def newer_metadata(
    data: bytes, schema: Schema, *, key: bytes | None = None, others: Iterable[Section] = ()
) -> bytes:
    """Gives the metadata of a fragment of version 22 the form of version 23.

    Args:
        data: The whole file.
        schema: The schema that its footer names.
        key: Of an encrypted array.
        others: Sections to put behind those that the engine would write.
    """
    metadata = decode_metadata(data, schema, "version 22", key=key)
    footer, layout = metadata.footer, FooterLayout(schema)
    start = frame_metadata(data, "version 22").footer_start
    plan = layout.numbers(OLD, footer.has_timestamps, footer.has_delete_metadata)
    head, numbers = data[start : -8 - plan.packed.size], data[-8 - plan.packed.size : -8]
    # The engine has them between the largest values and the sums.
    at, added, offsets = min(footer.ofs_tile_sums), b"", []
    if not footer.dense:
        boxes = [*metadata.r_tree.levels[-1].boxes()] if metadata.r_tree.levels else []
        for side in (0, 1):
            for dimension, field in enumerate(schema.dimensions):
                values = [box[dimension][side] for box in boxes]
                payload = _bounds(values, is_var=field.is_var)
                offsets.append(at + len(added))
                added += tiles.encode(payload, version=NEW, key=key)
    sections = [*others]
    if footer.sparse_tiles:
        sections.insert(0, Section(0, struct.pack(f"<{len(offsets)}Q", *offsets)))
    moved = list(plan.packed.unpack(numbers))
    for offset in range(plan.lists[2][2], len(moved)):
        moved[offset] += len(added) * (moved[offset] >= at)
    written = struct.pack("<I", NEW) + head[4:] + plan.packed.pack(*moved)
    written += encode_sections(sections)
    return data[:at] + added + data[at:start] + written + struct.pack("<Q", len(written))


def _bounds(values: list[bytes], *, is_var: bool) -> bytes:
    joined = b"".join(values)
    if not is_var:
        return struct.pack("<QQ", len(joined), 0) + joined
    starts = [sum(map(len, values[:at])) for at in range(len(values))]
    return struct.pack(f"<{2 + len(starts)}Q", 8 * len(starts), len(joined), *starts) + joined


def newer_array(
    array: Path, *, key: bytes | None = None, others: Iterable[Section] = ()
) -> dict[str, str]:
    """Gives an array of version 22 the form of version 23, in place; deletes keep their names.

    Returns:
        The name of each fragment -> the one that it had.
    """
    schemas, kept = {}, tuple(others)
    for path in sorted((array / "__schema").iterdir()):
        if path.is_file():
            payload = tiles.decode(path.read_bytes(), path.name, key=key).payload
            assert payload[:4] == struct.pack("<I", OLD)
            payload = struct.pack("<I", NEW) + payload[4:]
            schemas[path.name] = decode_schema(payload, path.name)
            path.write_bytes(tiles.encode(payload, version=NEW, key=key))
    footers, names = {}, {}
    for folder in sorted((array / "__fragments").iterdir()):
        data = (folder / METADATA).read_bytes()
        schema = schemas[frame_metadata(data, folder.name).head.schema_name or ""]
        data = newer_metadata(data, schema, key=key, others=kept)
        (folder / METADATA).write_bytes(data)
        new = folder.rename(_renamed(folder)).name
        names[new] = folder.name
        footers[new] = data[frame_metadata(data, new).footer_start : -8]
    for path in sorted((array / "__commits").iterdir()):
        if path.suffix in (".con", ".vac", ".ign"):
            text = path.read_bytes()
            for new, old in names.items():
                text = text.replace(old.encode(), new.encode())
            path.write_bytes(text)
        if path.suffix in (".wrt", ".vac"):
            path.rename(_renamed(path))
    for path in sorted((array / "__fragment_meta").glob("*.meta")):
        payload = tiles.decode(path.read_bytes(), path.name, key=key).payload
        listed = [_renamed_text(one.name) for one in read_index(payload, "x").listed()]
        there = [(name, footers[name]) for name in listed if name in footers]
        path.write_bytes(encode_consolidated_footers(there, version=NEW, key=key))
    return names


def _renamed_text(name: str) -> str:
    stem, dot, extension = name.partition(".")
    return f"{stem.removesuffix(f'_{OLD}')}_{NEW}{dot}{extension}"


def _renamed(path: Path) -> Path:
    return path.with_name(_renamed_text(path.name))
