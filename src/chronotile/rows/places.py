"""Of every place the newest cell, among cells of several fragments.

In: batches of cells with their times, dimensions first. Out: the same batches, less the cells that
a newer one overwrites; and ranges of the first dimension that hold about as many cells each. Asks
no engine.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.errors import ChronotileError, ReadError
from chronotile.history.read_footers import FooterReader
from chronotile.rows.engine import Range
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from chronotile.format.schema import Field
    from chronotile.log import Log
    from chronotile.rows.cell_source import CellBatch

_ONE_IN = 64
"""Of so many coordinates one is kept, to find ranges by."""


def newest_places(
    found: Sequence[tuple[CellBatch, int]], rank: int, low: bytes | None
) -> Iterator[tuple[tuple[pa.Array, ...], npt.NDArray[np.uint64], int]]:
    """The newest cells of each batch: columns, times, and the number that came with the batch.

    Of cells as new as each other the last one stays.

    Args:
        found: The batches.
        rank: The number of dimensions, which are the first columns.
        low: A first coordinate that is left out, as raw bytes.
    """
    if not found:
        return
    codes = [coordinate_codes([batch.columns[at] for batch, _ in found]) for at in range(rank)]
    times = np.concatenate([batch.times for batch, _ in found])
    order = np.lexsort((times, *reversed(codes)))
    is_last = np.ones(len(order), bool)
    if len(order) > 1:
        is_same = np.ones(len(order) - 1, bool)
        for code in codes:
            ordered = code[order]
            is_same &= ordered[1:] == ordered[:-1]
        is_last[:-1] = ~is_same
    newest = np.zeros(len(order), bool)
    newest[order[is_last]] = True
    start = 0
    for batch, number in found:
        mask = newest[start : start + len(batch.times)]
        start += len(batch.times)
        if low is not None:
            mask = mask & ~_equals(batch.columns[0], low)
        if mask.any():
            kept = pa.array(mask)
            yield tuple(column.filter(kept) for column in batch.columns), batch.times[mask], number


def next_times(
    columns: Sequence[pa.Array],
    times: npt.NDArray[np.uint64],
    names: npt.NDArray[np.object_],
) -> npt.NDArray[np.uint64]:
    """For each cell the time of the next newer one at its place; the largest number if none.

    Of two writes of one time that whose name is last is the newer, as in the engine.
    """
    codes = [coordinate_codes([column]) for column in columns]
    ranks = np.unique(names.astype(str), return_inverse=True)[1]
    order = np.lexsort((ranks, times, *reversed(codes)))
    until = np.full(len(times), np.iinfo(np.uint64).max, np.uint64)
    if len(order) > 1:
        is_same = np.ones(len(order) - 1, bool)
        for code in codes:
            ordered = code[order]
            is_same &= ordered[1:] == ordered[:-1]
        until[order[:-1][is_same]] = times[order[1:][is_same]]
    return until


def is_among(columns: Sequence[pa.Array], places: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Mask of the places, a column each dimension, that are among others."""
    count = len(columns[0])
    codes = [equal_codes(both) for both in zip(columns, places, strict=True)]
    keys = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    found: npt.NDArray[np.bool_] = np.isin(keys[:count], keys[count:])
    return found


def equal_codes(columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """Numbers that tell cells of one field apart, NULL and NaN too; they have no order."""
    encoded = pa.concat_arrays(columns).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices)


def box_of(
    dimensions: Sequence[Field], columns: Sequence[pa.Array | pa.ChunkedArray]
) -> tuple[Range, ...]:
    """The ranges that hold all of some places, for dimensions of numbers."""
    ranges = []
    for at, (dimension, column) in enumerate(zip(dimensions, columns, strict=False)):
        if dimension.is_number:
            ends = pc.min_max(column)
            low, high = (_raw(dimension, ends[end]) for end in ("min", "max"))
            ranges.append(Range(at, low, high))
    return tuple(ranges)


def coordinate_codes(columns: Sequence[pa.Array]) -> npt.NDArray[Any]:
    """Numbers that order and tell apart the coordinates of one dimension."""
    joined = pa.concat_arrays(columns)
    if pa.types.is_primitive(joined.type):
        return np.asarray(joined)
    encoded = joined.dictionary_encode()
    ranks = np.asarray(pc.rank(encoded.dictionary, sort_keys="ascending", tiebreaker="min"))
    codes: npt.NDArray[np.uint64] = ranks[np.asarray(encoded.indices)]
    return codes


def _equals(column: pa.Array, raw: bytes) -> npt.NDArray[np.bool_]:
    if pa.types.is_primitive(column.type):
        numbers = np.asarray(column)
        return numbers == np.frombuffer(raw, numbers.dtype)[0]  # type: ignore[no-any-return]
    return np.asarray(pc.equal(column, pa.scalar(raw, column.type)))


def ranges_of_first(
    dimension: Field, columns: Iterable[pa.Array], most_cells: int
) -> list[list[Range]]:
    """Ranges of the first dimension with at most about so many cells each.

    Each begins where the one before ends, and leaves that coordinate out. One that holds all has
    no range at all.
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
    inner = [ordered[int(place)] for place in places[1:-1]]
    bounds = list(dict.fromkeys(_raw(dimension, scalar) for scalar in inner))
    least, most = _ends(dimension)
    edges = [least, *bounds, most]
    return [[Range(0, low, high, dimension.is_var)] for low, high in itertools.pairwise(edges)]


def _raw(dimension: Field, scalar: Any) -> bytes:
    if dimension.is_number:
        return np.array([scalar.as_py()], f"<{dimension.datatype.code}").tobytes()
    return bytes(scalar.as_py())


def _ends(dimension: Field) -> tuple[bytes, bytes]:
    """The least and the largest coordinate that a dimension may have."""
    if dimension.is_var:
        return b"", b"\x7f" * 64
    half = len(dimension.domain) // 2
    return dimension.domain[:half], dimension.domain[half:]


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
