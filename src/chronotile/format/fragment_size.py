"""How many tiles and cells a fragment has, and where in the array they lie.

In: a footer and its schema. Out: numbers, and the domain as JSON. Reads no cell: a footer that
claims more than its files can hold is refused.

A sparse fragment has as many cells as the schema's capacity in each tile but the last. A dense one
has whole space tiles: its domain, rounded out to the extents that the schema has.
"""

from __future__ import annotations

import json
import math
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


class FragmentMeasure:
    """Measures the fragments of one schema: made once, used for many."""

    def __init__(self, schema: Schema) -> None:
        self._capacity = schema.capacity
        self._dimensions = schema.dimensions
        self._axes: tuple[Axis, ...] | None = None

    def measure(self, footer: Footer, where: str) -> FragmentSize:
        """Count the tiles and cells of a fragment by its footer.

        Raises:
            BadFileError: The footer cannot be true.
        """
        tiles = self._dense_tiles(footer, where) if footer.dense else footer.sparse_tiles
        most = max(footer.file_sizes, default=0) // _LEAST_TILE
        if tiles > most:
            problem = f"expected at most {most} tiles in files of its sizes, found {tiles}"
            raise BadFileError(where, problem)
        if footer.dense:
            cells = tiles * math.prod(axis.extent for axis in self._axes or ())
        elif tiles and footer.last_cells > self._capacity:
            problem = f"expected at most {self._capacity} cells in the last tile"
            raise BadFileError(where, f"{problem}, found {footer.last_cells}")
        else:
            cells = (tiles - 1) * self._capacity + footer.last_cells if tiles else 0
        if cells > MOST_CELLS:
            raise BadFileError(where, f"expected at most {MOST_CELLS} cells, found {cells}")
        return FragmentSize(tiles, cells)

    def _dense_tiles(self, footer: Footer, where: str) -> int:
        if footer.domain is None:
            return 0
        if self._axes is None:
            self._axes = tuple(axis_of(field, where) for field in self._dimensions)
        tiles = 1
        for field, axis, (low, high) in zip(
            self._dimensions, self._axes, footer.domain, strict=True
        ):
            least, largest = (struct.unpack(axis.code, raw)[0] for raw in (low, high))
            if not axis.first <= least <= largest <= axis.last:
                problem = f"expected {field.name!r} from {axis.first} to {axis.last}"
                raise BadFileError(where, f"{problem}, found {least} to {largest}")
            first, last = ((at - axis.first) // axis.extent for at in (least, largest))
            tiles *= last - first + 1
        return tiles


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
