"""Fragment metadata by way of the generated parser: what the fast decoders are held to."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from chronotile.errors import BadFileError
from chronotile.format.fragment_footer import Footer, Section, coordinate_sizes
from chronotile.format.parsers import FragmentMetadataSpec, parse

if TYPE_CHECKING:
    from chronotile.format.fragment_footer import FooterField
    from chronotile.format.schema import Schema

LISTS = (
    "file_sizes",
    "var_file_sizes",
    "validity_file_sizes",
    "ofs_tile_offsets",
    "ofs_var_tile_offsets",
    "ofs_var_tile_sizes",
    "ofs_validity_tile_offsets",
    "ofs_tile_minima",
    "ofs_tile_maxima",
    "ofs_tile_sums",
    "ofs_tile_null_counts",
)


def footer(
    data: bytes, schema: Schema, fields: tuple[FooterField, ...] | None, *, bare: bool
) -> Footer:
    """The footer; `fields`, which no parser knows, are taken from elsewhere."""
    head = parse(FragmentMetadataSpec.FooterHead, "spec", data, whole=False)
    sizes = coordinate_sizes(schema)
    has_length = (head.version >= 10 or 0 in sizes) and not bare
    body = data[:-8] if has_length else data
    if has_length and int.from_bytes(data[-8:], "little") != len(body):
        raise BadFileError("spec", "expected the length of the footer, found another")
    tree = parse(FragmentMetadataSpec.FragmentFooter, "spec", body, len(schema.attributes), sizes)
    domain = None if head.is_null_domain else box(tree.ranges)
    lists: dict[str, Any] = {name: tuple(getattr(tree, name, None) or ()) for name in LISTS}
    return Footer(
        version=head.version,
        schema_name=getattr(head, "schema_name", None),
        dense=head.is_dense,
        domain=domain,
        sparse_tiles=tree.num_tiles,
        last_cells=tree.num_last_cells,
        has_timestamps=tree.has_timestamps,
        has_delete_metadata=tree.has_delete_metadata,
        fields=fields or (),
        ofs_r_tree=tree.ofs_r_tree,
        ofs_fragment_statistics=getattr(tree, "ofs_fragment_statistics", None),
        ofs_processed_conditions=getattr(tree, "ofs_processed_conditions", None),
        sections=tuple(map(section, getattr(tree, "sections", ()))),
        **lists,
    )


def section(tree: Any) -> Section:
    kind = FragmentMetadataSpec.SectionTypes.tile_global_order
    if tree.section_type != kind:
        return Section(tree.section_type, tree.data.raw)
    numbers = (*tree.data.ofs_first_coordinates, *tree.data.ofs_last_coordinates)
    return Section(kind.value, struct.pack(f"<{len(numbers)}Q", *numbers))


def box(ranges: list[Any]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((one.least, one.largest) for one in ranges)


def listed(payload: bytes) -> list[tuple[str, int]]:
    """The names in a `.meta`, and where their footers start."""
    tree = parse(FragmentMetadataSpec.ConsolidatedFooters, "spec", payload)
    return [(item.name, item.ofs_footer) for item in tree.fragments]


def r_tree(payload: bytes, version: int, sizes: bytes) -> tuple[int, list[list[Any]]]:
    """The fanout, and the boxes of each level."""
    tree = parse(FragmentMetadataSpec.RTree, "spec", payload, version, sizes)
    return tree.fanout, [[box(one.ranges) for one in level.boxes] for level in tree.levels]


def numbers(payload: bytes) -> list[int]:
    found: list[int] = parse(FragmentMetadataSpec.TileNumbers, "spec", payload).values
    return found


def bounds(payload: bytes) -> tuple[bytes, bytes]:
    tree = parse(FragmentMetadataSpec.TileBounds, "spec", payload)
    return tree.fixed, tree.var


def applied(payload: bytes) -> tuple[str, ...]:
    tree = parse(FragmentMetadataSpec.ProcessedConditions, "spec", payload)
    return tuple(item.uri for item in tree.conditions)
