"""The part of a dense array that anybody has written to.

In: a log and a window. Out: the ranges, one a dimension, that the domains of the visible fragments
span; and which places lie in such ranges. Reads footers, and no cell.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from chronotile.errors import ChronotileError, ReadError
from chronotile.history.read_footers import FooterReader
from chronotile.rows.cells.engine import Range
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from chronotile.format.schema import Field
    from chronotile.log import Log


def written_box(
    log: Log, start: int, end: int, names: Iterable[str] | None = None
) -> tuple[Range, ...] | None:
    """The smallest box that holds all visible fragments, or some; None if there are none.

    Raises:
        ReadError: The metadata of a fragment cannot be read.
    """
    if names is None:
        names = [fragment.name for fragment in log.view(start, end).fragments]
    boxes = []
    for name, stored in FooterReader(log.storage, log.history).read(names):
        if isinstance(stored, ChronotileError):
            raise ReadError(log.array, f"expected the metadata of {name}: {stored.problem}")
        if stored.footer.domain is not None:
            boxes.append(stored.footer.domain)
    item = schema_at(log.history, end)
    if not boxes or item is None or item.schema is None:
        return None
    ranges = []
    for at, dimension in enumerate(item.schema.dimensions):
        code = f"<{dimension.datatype.code}"
        lows, highs = ([struct.unpack(code, box[at][end])[0] for box in boxes] for end in (0, 1))
        ranges.append(Range(at, struct.pack(code, min(lows)), struct.pack(code, max(highs))))
    return tuple(ranges)


def is_in_box(
    dimensions: Sequence[Field], places: Sequence[pa.Array], box: Sequence[Range]
) -> npt.NDArray[np.bool_]:
    """Mask of the places that lie in a box."""
    inside = np.ones(len(places[0]), bool)
    for dimension, column, one in zip(dimensions, places, box, strict=True):
        (low,), (high,) = (
            np.frombuffer(raw, f"<{dimension.datatype.code}") for raw in (one.low, one.high)
        )
        numbers = np.asarray(column)
        inside &= (numbers >= low) & (numbers <= high)
    return inside
