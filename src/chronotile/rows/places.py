"""Places: the coordinates of cells, the newest cell at each, and boxes that hold them.

In: cells with their times, dimensions first; or a log and a window. Out: the cells that no newer
one overwrites, ranges of the first dimension, boxes, masks. Reads footers for the boxes of
fragments, and no cell.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.errors import BadFileError, ChronotileError, ReadError
from chronotile.history.read_footers import FooterReader
from chronotile.rows.engine import Range
from chronotile.rows.engine_cells import Cells
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from chronotile.conditions.truth import Mask
    from chronotile.format.schema import Field
    from chronotile.log import Log

_ONE_IN = 64
"""Sample every n-th coordinate, to find ranges by."""


def equal_codes(columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """Give each cell of one field a number: equal cells get equal ones, NULL and NaN too."""
    joined = pa.concat_arrays(columns)
    if pa.types.is_floating(joined.type):
        joined = pc.add(joined, pa.scalar(0.0, joined.type))  # -0.0 is 0.0, as in the engine
    return np.asarray(joined.dictionary_encode(null_encoding="encode").indices)


def newest_cells(batches: Sequence[Cells], rank: int, low: bytes | None) -> Iterator[Cells]:
    """Leave out the cells that a newer one overwrites. Of equally new ones the last stays.

    The first `rank` columns are dimensions; `low` is a first coordinate that is left out.
    """
    if not batches:
        return
    times = np.concatenate([cells.times for cells in batches])
    codes = [equal_codes([cells.columns[at] for cells in batches]) for at in range(rank)]
    order, is_followed = _by_place(codes, times)
    newest = np.ones(len(times), bool)
    newest[order[:-1][is_followed]] = False
    start = 0
    for cells in batches:
        mask = newest[start : start + len(cells)]
        start += len(cells)
        if low is not None:
            mask = mask & ~_equals(cells.columns[0], low)
        if mask.any():
            columns = tuple(column.filter(pa.array(mask)) for column in cells.columns)
            yield Cells(columns, cells.times[mask], cells.lacks)


def next_times(
    columns: Sequence[pa.Array],
    times: npt.NDArray[np.uint64],
    names: npt.NDArray[np.object_],
) -> npt.NDArray[np.uint64]:
    """Return for each cell the time of the next newer one at its place; the largest if none.

    Of two writes of one time that whose name is last is the newer, as in the engine.
    """
    ranks = np.unique(names.astype(str), return_inverse=True)[1]
    order, is_followed = _by_place([equal_codes([column]) for column in columns], times, ranks)
    until = np.full(len(times), np.iinfo(np.uint64).max, np.uint64)
    until[order[:-1][is_followed]] = times[order[1:][is_followed]]
    return until


def _by_place(
    codes: Sequence[npt.NDArray[Any]], *ranks: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.intp], Mask]:
    """Order cells by place, then by ranks; mask those whose next one is at the same place."""
    order = np.lexsort((*reversed(ranks), *codes))
    is_followed = np.ones(max(len(order) - 1, 0), bool)
    for code in codes:
        ordered = code[order]
        is_followed &= ordered[1:] == ordered[:-1]
    return order, is_followed


def is_among(columns: Sequence[pa.Array], places: Sequence[pa.Array]) -> Mask:
    """Mask the places, a column for each dimension, that are among others."""
    count = len(columns[0])
    codes = [equal_codes(both) for both in zip(columns, places, strict=True)]
    keys = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    mask: Mask = np.isin(keys[:count], keys[count:])
    return mask


def box_of(
    dimensions: Sequence[Field], columns: Sequence[pa.Array | pa.ChunkedArray]
) -> tuple[Range, ...]:
    """Return the ranges that hold all of some places, for dimensions of numbers."""
    ranges = []
    for at, (dimension, column) in enumerate(zip(dimensions, columns, strict=False)):
        if dimension.is_number:
            ends = pc.min_max(column)
            low, high = (raw_value(dimension, ends[end].as_py()) for end in ("min", "max"))
            ranges.append(Range(at, low, high))
    return tuple(ranges)


def ranges_of_first(
    dimension: Field, columns: Iterable[pa.Array], most_cells: int
) -> list[list[Range]]:
    """Split the first dimension into ranges with about `most_cells` cells each, or fewer.

    Each begins where the one before ends, and leaves that coordinate out. If one range is enough,
    it is no range at all.
    """
    count, sample = 0, []
    for column in columns:
        count += len(column)
        sample.append(column.take(pa.array(np.arange(0, len(column), _ONE_IN))))
    parts = -(-count // most_cells)
    if parts <= 1:
        return [[]]
    joined = pa.concat_arrays(sample)
    ordered = joined.take(pc.sort_indices(joined))
    places = np.unique(np.linspace(0, len(ordered) - 1, parts + 1).astype(np.int64))
    inner = [raw_value(dimension, ordered[int(place)].as_py()) for place in places[1:-1]]
    least, most = _ends(dimension)
    edges = [least, *dict.fromkeys(inner), most]
    return [[Range(0, low, high, dimension.is_var)] for low, high in itertools.pairwise(edges)]


def raw_value(field: Field, value: Any) -> bytes:
    """Return the raw bytes of a value as stored."""
    if field.is_number:
        return np.array([value], f"<{field.datatype.code}").tobytes()
    return bytes(value)


def written_box(
    log: Log, start: int, end: int, names: Iterable[str] | None = None
) -> tuple[Range, ...] | None:
    """Return the smallest box that holds all visible fragments, or some; None if there are none.

    Raises:
        ReadError: The metadata of a fragment cannot be read.
    """
    if names is None:
        names = [fragment.name for fragment in log.view(start, end).fragments]
    boxes = []
    for name, stored in FooterReader(log.store, log.history).read(names):
        if isinstance(stored, ChronotileError):
            kind = BadFileError if isinstance(stored, BadFileError) else ReadError
            raise kind(log.array, f"the metadata of {name} cannot be read: {stored.problem}")
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
) -> Mask:
    """Mask the places that lie in a box."""
    inside = np.ones(len(places[0]), bool)
    for dimension, column, one in zip(dimensions, places, box, strict=True):
        (low,), (high,) = (
            np.frombuffer(raw, f"<{dimension.datatype.code}") for raw in (one.low, one.high)
        )
        numbers = np.asarray(column)
        inside &= (numbers >= low) & (numbers <= high)
    return inside


def _equals(column: pa.Array, raw: bytes) -> Mask:
    if pa.types.is_primitive(column.type):
        numbers = np.asarray(column)
        return numbers == np.frombuffer(raw, numbers.dtype)[0]  # type: ignore[no-any-return]
    return np.asarray(pc.equal(column, pa.scalar(raw, column.type)))


def _ends(dimension: Field) -> tuple[bytes, bytes]:
    """Return the least and the largest coordinate that a dimension may have."""
    if dimension.is_var:
        return b"", b"\x7f" * 64
    half = len(dimension.domain) // 2
    return dimension.domain[:half], dimension.domain[half:]
