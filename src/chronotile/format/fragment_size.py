"""How many tiles and cells a fragment has, and where in the array they lie.

In: a footer and its schema. Out: numbers, and the domain as JSON. Reads no cell: a footer that
claims more than its files can hold is refused.

A sparse fragment has as many cells as the schema's capacity in each tile but the last. A dense one
has whole space tiles: its domain, rounded out to the extents that the schema has.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import BadFileError
from chronotile.format import cell_values

if TYPE_CHECKING:
    from chronotile.format.cell_values import Json
    from chronotile.format.fragment_footer import Footer, Range
    from chronotile.format.schema import Field, Schema

MOST_CELLS = (1 << 63) - 1
"""More are not believed, and fit no column."""
_LEAST_TILE = 8
"""Bytes that a tile takes in each of its files: the number of its chunks."""


class FragmentSize(NamedTuple):
    """How large a fragment is."""

    tiles: int
    cells: int


class Axis(NamedTuple):
    """A dimension of a dense array."""

    code: str
    """The `struct` format of a coordinate."""
    first: int
    last: int
    extent: int


def measure(footer: Footer, schema: Schema, where: str) -> FragmentSize:
    """Count the tiles and cells of a fragment by its footer.

    Raises:
        BadFileError: The footer cannot be true.
    """
    capacity = schema.capacity
    tiles, per_tile = footer.sparse_tiles, capacity
    if footer.dense:
        tiles, per_tile = _dense_tiles(footer, schema.dimensions, where)
    most = max(footer.file_sizes, default=0) // _LEAST_TILE
    if tiles > most:
        problem = f"expected at most {most} tiles in files of its sizes, found {tiles}"
        raise BadFileError(where, problem)
    cells = tiles * per_tile
    if tiles and not footer.dense:
        if footer.last_cells > capacity:
            problem = f"expected at most {capacity} cells in the last tile"
            raise BadFileError(where, f"{problem}, found {footer.last_cells}")
        cells += footer.last_cells - capacity
    if cells > MOST_CELLS:
        raise BadFileError(where, f"expected at most {MOST_CELLS} cells, found {cells}")
    return FragmentSize(tiles, cells)


def _dense_tiles(footer: Footer, dimensions: tuple[Field, ...], where: str) -> tuple[int, int]:
    """Count the tiles of a dense fragment, and the cells in each."""
    tiles = cells = 1
    if footer.domain is None:
        return 0, 0
    for field, (low, high) in zip(dimensions, footer.domain, strict=True):
        axis = axis_of(field, where)
        least, largest = (struct.unpack(axis.code, raw)[0] for raw in (low, high))
        if not axis.first <= least <= largest <= axis.last:
            problem = f"expected {field.name!r} from {axis.first} to {axis.last}"
            raise BadFileError(where, f"{problem}, found {least} to {largest}")
        first, last = ((at - axis.first) // axis.extent for at in (least, largest))
        tiles *= last - first + 1
        cells *= axis.extent
    return tiles, cells


def domain_values(domain: tuple[Range, ...], dimensions: tuple[Field, ...]) -> Json:
    """Return the least and the largest coordinate of each dimension, as JSON holds them."""
    return [
        [cell_values.raw_to_json(field, raw) for raw in pair]
        for field, pair in zip(dimensions, domain, strict=True)
    ]


def domain_text(footer: Footer, schema: Schema) -> str | None:
    """Write the domain of a fragment as JSON; None where it is empty."""
    if footer.domain is None:
        return None
    return json.dumps(domain_values(footer.domain, schema.dimensions), ensure_ascii=False)


def axis_of(field: Field, where: str) -> Axis:
    """Describe a dimension of a dense array.

    Raises:
        BadFileError: It does not count in whole numbers, or has no domain.
    """
    code, size = field.datatype.code, field.cell_size
    if code is None or size is None or field.datatype.is_float or len(field.domain) != 2 * size:
        problem = f"expected dimension {field.name!r} of a dense array to count in whole numbers"
        raise BadFileError(where, f"{problem}, found {field.datatype.name}")
    first, last = struct.unpack(f"<2{code}", field.domain)
    # The engine counts up to 2^64 - 1, whatever the sign of the type. Without an extent, a tile
    # is as large as the domain.
    extent = int.from_bytes(field.tile_extent, "little") if field.tile_extent else last - first + 1
    if first > last or extent < 1:
        problem = f"expected dimension {field.name!r} of a dense array to have a domain and tiles"
        raise BadFileError(where, f"{problem}, found {first} to {last}, in tiles of {extent}")
    return Axis(f"<{code}", first, last, extent)
