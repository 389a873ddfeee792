"""Many footers at once: the facts of sparse fragments as columns.

In: footers, as places in one buffer, and their schemas. Out: `FooterColumns`, one for each layout
of them; a footer that needs a closer look is in none. Reads no file.

Most fragments of an array have one version, one schema and dimensions of whole numbers. Their
footers are then of one length, with the same numbers in the same places: the rows of one structured
array, which numpy checks and adds up together. A row that fails a check is left to
`fragment_footer` and `fragment_size`, which say what is wrong; the tests compare both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.errors import ChronotileError
from chronotile.format import arrow_compute as pc
from chronotile.format.fragment_footer import (
    FIRST_WITH_SECTIONS,
    num_flags,
    read_head,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from chronotile.format.fragment_footer import FooterHead, FooterLayout, FooterNumbers
    from chronotile.format.schema import Schema

    Indices = npt.NDArray[np.int64]
    Counts = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]
    LayoutOf = Callable[[str], tuple[Schema, FooterLayout]]
    Marks = tuple[tuple[int, bytes], ...]
    """Bytes that all footers of one layout have in common, and where they start."""

_FEW = 4
"""Footers of one layout that are not worth a matrix."""
_MOST_LAYOUTS = 64
"""Most layouts: an array has few, but every damaged footer may have its own."""
_WORD = 8
_LARGE = 1 << 50
"""A size, or a number of cells, that the columns do not believe: a sum of such may overflow."""


class FooterSpans(NamedTuple):
    """Footers that stand in one buffer, each without the length behind it."""

    data: bytes
    start: Indices
    length: Indices
    """0 where there is none."""

    def footer(self, at: int) -> bytes:
        """Return one of them."""
        start = int(self.start[at])
        return self.data[start : start + int(self.length[at])]

    def footers(self) -> list[bytes]:
        """Return all of them."""
        pairs = zip(self.start.tolist(), self.length.tolist(), strict=True)
        return [self.data[start : start + length] for start, length in pairs]


def joined(footers: Iterable[bytes]) -> FooterSpans:
    """Put footers one after the other into one buffer.

    >>> joined([b"abc", b"de"]).footer(1)
    b'de'
    """
    parts = tuple(footers)
    length = np.array([len(part) for part in parts], np.int64)
    return FooterSpans(b"".join(parts), np.cumsum(length) - length, length)


class FooterColumns(NamedTuple):
    """Facts of footers of one layout; item i of each column is about the i-th of `rows`."""

    rows: Indices
    """Which of the footers these are."""
    version: int
    schema_name: str
    has_timestamps: bool
    has_delete_metadata: bool
    cells: Counts
    cell_bytes: Counts
    """Bytes of all cell files."""
    tiles: Counts
    domain: pa.Array
    """JSON texts."""


def sparse_columns(spans: FooterSpans, layout_of: LayoutOf) -> Iterator[FooterColumns]:
    """Read facts layout by layout; footers that need a closer look are left out.

    `layout_of` gives the schema in a file of that name, and its layout, or raises
    `ChronotileError`.
    """
    left = np.flatnonzero(spans.length > 0)
    for _ in range(_MOST_LAYOUTS):
        if len(left) < _FEW:
            return
        # The first one that is left sets the layout of those like it.
        template = spans.footer(int(left[0]))
        is_here = spans.length[left] == len(template)
        here = left[is_here]
        alike, columns = _columns(_matrix(spans, here), template, layout_of)
        if columns is not None:
            yield columns._replace(rows=here[columns.rows])
        is_here[is_here] = alike
        left = left[~is_here]


def _matrix(spans: FooterSpans, rows: Indices) -> Bytes:
    """Make footers of one length the rows of a matrix; a view where they are evenly spaced."""
    starts, length = spans.start[rows], int(spans.length[rows[0]])
    step = int(starts[1] - starts[0]) if len(rows) > 1 else length
    if step >= length and (starts[1:] - starts[:-1] == step).all():
        shape, strides = (len(rows), length), (step, 1)
        return np.ndarray(shape, np.uint8, spans.data, int(starts[0]), strides)
    count = len(spans.data) - length + 1
    texts = np.ndarray((count,), f"V{length}", spans.data, 0, (1,))[starts]
    return texts.view(np.uint8).reshape(len(rows), length)


def _coordinate_types(schema: Schema) -> list[str] | None:
    """Return the numpy types of the coordinates; None unless all are whole numbers."""
    types = []
    for field in schema.dimensions:
        code, datatype = field.datatype.code, field.datatype
        if code is None or datatype.is_float or datatype.is_temporal or field.cell_val_num != 1:
            return None
        types.append(f"<{'i' if code.islower() else 'u'}{datatype.size}")
    return types if not schema.dense else None


class _FooterRow(NamedTuple):
    """How footers of one layout divide into columns."""

    head: FooterHead
    schema_name: str
    capacity: int
    dtype: np.dtype[Any]
    numbers: FooterNumbers
    flags: tuple[int, int]
    """1 if there are timestamps; 1 if there is delete metadata."""
    marks: Marks
    """All but the head."""
    dimensions: int


def _columns(
    matrix: Bytes, template: bytes, layout_of: LayoutOf
) -> tuple[Mask, FooterColumns | None]:
    """Find the footers that are laid out as the template, and their facts."""
    head = template[: 14 + int.from_bytes(template[4:12], "little")]
    alike = _are_alike(matrix, ((0, head),))
    try:
        row = _row(template, layout_of)
    except ChronotileError:
        row = None
    if row is None:
        return alike, None
    table = matrix.view(row.dtype)[:, 0]
    alike &= _are_alike(matrix, row.marks)
    rows = np.flatnonzero(alike)
    measured = _measured(table if len(rows) == len(table) else table[rows], row)
    if measured is None:
        return alike, None
    sound, cells, total, tiles = measured
    rows = rows[sound]
    ranges = [table[f"domain{at}"][rows] for at in range(row.dimensions)]
    times, deletes = map(bool, row.flags)
    common = (row.head.version, row.schema_name, times, deletes)
    return alike, FooterColumns(rows, *common, cells, total, tiles, _domain_texts(ranges))


def _are_alike(matrix: Bytes, marks: Marks) -> Mask:
    """Find the rows that have some bytes in common.

    Eight bytes are compared at a time, of which the last ones may overlap.
    """
    alike = np.ones(len(matrix), bool)
    for start, text in marks:
        if len(text) < _WORD:
            for at, byte in enumerate(text, start):
                alike &= matrix[:, at] == byte
            continue
        for at in (*range(0, len(text) - _WORD, _WORD), len(text) - _WORD):
            word = np.uint64(int.from_bytes(text[at : at + _WORD], "little"))
            alike &= matrix[:, start + at : start + at + _WORD].view("<u8")[:, 0] == word
    return alike


def _row(template: bytes, layout_of: LayoutOf) -> _FooterRow | None:
    """Divide a footer into columns; None if it is not of a kind that columns can hold.

    Raises:
        ChronotileError: It is damaged, or its schema cannot be read.
    """
    head = read_head(template, "footer")
    if head.schema_name is None or head.dense or head.is_domain_empty:
        return None
    schema, layout = layout_of(head.schema_name)
    types = _coordinate_types(schema)
    if types is None:
        return None
    count = num_flags(head.version)
    fixed: list[tuple[Any, ...]] = [("head", f"V{head.size}")]
    fixed += [(f"domain{at}", kind, 2) for at, kind in enumerate(types)]
    fixed += [("counts", "<u8", 2), ("flags", "u1", (count,))]
    start = np.dtype(fixed).itemsize
    times, deletes = (*template[start - count : start], 0, 0)[:2]
    if len(template) < start or times > 1 or deletes > 1:
        return None
    numbers, decisive = layout.numbers(head.version, times, deletes), layout.decisive(template)
    left = len(template) - start - numbers.packed.size
    if decisive is None or left < 0 or (left and head.version < FIRST_WITH_SECTIONS):
        return None
    column = ("numbers", "<u8", numbers.packed.size // 8)
    return _FooterRow(
        head=head,
        schema_name=head.schema_name,
        capacity=schema.capacity,
        dtype=np.dtype([*fixed, column, *([("sections", f"V{left}")] if left else ())]),
        numbers=numbers,
        flags=(times, deletes),
        marks=tuple((part.start, template[part]) for part in decisive[1:]),
        dimensions=len(types),
    )


def _measured(
    table: npt.NDArray[Any], row: _FooterRow
) -> tuple[Indices, Counts, Counts, Counts] | None:
    """Find the rows that can be true, and their cells, bytes and tiles."""
    capacity = row.capacity
    spans = {name: slice(first, last) for name, first, last in row.numbers.lists}
    # The sizes of all kinds of files stand first, one kind after the other; a row each file here,
    # as sums and maxima along short rows are slow.
    sizes = table["numbers"][:, : spans["validity_file_sizes"].stop].T.copy()
    tiles, last = table["counts"].T
    most = sizes[spans["file_sizes"]].max(axis=0, initial=0)
    is_true = (tiles <= most // 8) & ((tiles == 0) | (last <= capacity))
    if sizes.max(initial=0) >= _LARGE:
        is_true &= (sizes < _LARGE).all(axis=0)
    rows = np.flatnonzero(is_true)
    tiles, last = tiles[rows].astype(np.int64), last[rows].astype(np.int64)
    if capacity * (int(tiles.max(initial=0)) + 1) >= _LARGE:
        return None
    total = sizes.sum(axis=0)[rows].astype(np.int64)
    cells: Counts = np.where(tiles == 0, 0, (tiles - 1) * capacity + last)
    return rows, cells, total, tiles


def _domain_texts(ranges: list[npt.NDArray[Any]]) -> pa.Array:
    """Write the least and the largest coordinates of each dimension as JSON, `[[1, 2], [3, 4]]`."""
    parts: list[Any] = []
    for at, pairs in enumerate(ranges):
        low, high = (pa.array(np.ascontiguousarray(side)).cast(pa.string()) for side in pairs.T)
        parts += ["], [" if at else "[[", low, ", ", high]
    return pc.binary_join_element_wise(*parts, "]]", "")
