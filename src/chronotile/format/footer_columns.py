"""Many footers at once: what sparse fragments of one schema hold, from columns.

In: footers of one schema, without the length behind each. Out: `FooterColumns`, one for each layout
of them; a footer that `footer_layout` has to look at is in none. Reads no file.

Most fragments of an array have one version, one schema and dimensions of whole numbers. Their
footers are then of one length, with the same numbers in the same places: the rows of one structured
array, which numpy checks and adds up together. A row that fails a check is left to `footer_layout`
and `fragment_size`, which say what is wrong; the tests compare both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.errors import BadFileError
from chronotile.format.fragment_footer import FIRST_WITH_SCHEMA_NAME, read_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from chronotile.format.footer_layout import FooterLayout, Plan
    from chronotile.format.schema import Schema

    Indices = npt.NDArray[np.int64]
    Counts = npt.NDArray[np.int64]

_FEW = 4
"""Footers of one layout that are not worth a matrix."""
_LARGE = 1 << 50
"""A size, or a number of cells, that the columns do not believe: a sum of such may overflow."""


class FooterColumns(NamedTuple):
    """What footers of one layout say; item i of each column is about the i-th of `rows`."""

    rows: Indices
    """Which of the footers these are."""
    version: int
    has_timestamps: bool
    has_delete_metadata: bool
    cells: Counts
    cell_bytes: Counts
    """Bytes of all cell files."""
    tiles: Counts
    domain: list[str]
    """JSON text."""


def sparse_columns(
    footers: Sequence[bytes], schema: Schema, layout: FooterLayout
) -> Iterator[FooterColumns]:
    """What the footers say, layout by layout; those that need a closer look are left out."""
    types = _coordinate_types(schema)
    if types is None:
        return
    groups: dict[tuple[int, bytes, bytes], list[int]] = {}
    to_flags = 2 * sum(np.dtype(kind).itemsize for kind in types) + 16
    for at, raw in enumerate(footers):
        end = 14 + int.from_bytes(raw[4:12], "little")
        flags = raw[end + to_flags : end + to_flags + 2] if len(raw) > end else b""
        groups.setdefault((len(raw), raw[:end], flags[: _num_flags(raw[0])]), []).append(at)
    for rows in groups.values():
        if len(rows) >= _FEW:
            chosen = [footers[at] for at in rows]
            columns = _columns(chosen, schema, layout, types)
            if columns is not None:
                yield columns._replace(rows=np.array(rows)[columns.rows])


def _num_flags(version: int) -> int:
    """Flags behind the numbers of tiles and cells: for timestamps, and for delete metadata."""
    return (version >= 14) + (version >= 15)


def _coordinate_types(schema: Schema) -> list[str] | None:
    """The numpy types of the coordinates; None unless all of them are whole numbers."""
    types = []
    for field in schema.dimensions:
        code, datatype = field.datatype.code, field.datatype
        if code is None or datatype.is_float or datatype.is_temporal or field.cell_val_num != 1:
            return None
        types.append(f"<{'i' if code.islower() else 'u'}{datatype.size}")
    return types if not schema.dense else None


def _columns(
    footers: list[bytes], schema: Schema, layout: FooterLayout, types: list[str]
) -> FooterColumns | None:
    try:
        head = read_head(footers[0], "footer")
    except BadFileError:
        return None
    if head.version < FIRST_WITH_SCHEMA_NAME or head.dense or head.is_domain_empty:
        return None
    num_flags = _num_flags(head.version)
    fixed: list[tuple[Any, ...]] = [("head", f"V{head.size}")]
    fixed += [(f"domain{at}", kind, 2) for at, kind in enumerate(types)]
    fixed += [("counts", "<u8", 2), ("flags", "u1", (num_flags,))]
    start = np.dtype(fixed).itemsize
    times, deletes = (*footers[0][start - num_flags : start], 0, 0)[:2]
    if len(footers[0]) < start or times > 1 or deletes > 1:
        return None
    plan = layout.plan(head.version, times, deletes)
    if len(footers[0]) != start + plan.numbers.size:
        return None
    numbers = ("numbers", "<u8", plan.numbers.size // 8)
    table = np.frombuffer(b"".join(footers), np.dtype([*fixed, numbers]))
    measured = _measured(table, plan, schema.capacity)
    if measured is None:
        return None
    rows, cells, total, tiles = measured
    ranges = [_ranges(table[f"domain{at}"][rows]) for at in range(len(types))]
    domain = [f"[{', '.join(parts)}]" for parts in zip(*ranges, strict=True)]
    flags = (bool(times), bool(deletes))
    return FooterColumns(rows, head.version, *flags, cells, total, tiles, domain)


def _measured(
    table: npt.NDArray[Any], plan: Plan, capacity: int
) -> tuple[Indices, Counts, Counts, Counts] | None:
    """The rows that can be true, and their cells, bytes and tiles."""
    spans = {name: slice(first, last) for name, first, last in plan.parts}
    files = table["numbers"][:, spans["file_sizes"]]
    others = [table["numbers"][:, spans[f"{part}_file_sizes"]] for part in ("var", "validity")]
    tiles, last = table["counts"][:, 0], table["counts"][:, 1]
    is_true = np.ones(len(table), bool)
    for sizes in (files, *others):
        is_true &= (sizes < _LARGE).all(axis=1)
    is_true &= (tiles <= files.max(axis=1, initial=0) // 8) & ((tiles == 0) | (last <= capacity))
    rows = np.flatnonzero(is_true)
    tiles, last = tiles[rows].astype(np.int64), last[rows].astype(np.int64)
    if capacity * (int(tiles.max(initial=0)) + 1) >= _LARGE:
        return None
    total = np.zeros(len(rows), np.int64)
    for sizes in (files, *others):
        total += sizes[rows].sum(axis=1).astype(np.int64)
    cells: Counts = np.where(tiles == 0, 0, (tiles - 1) * capacity + last)
    return rows, cells, total, tiles


def _ranges(pairs: npt.NDArray[Any]) -> list[str]:
    return [f"[{low}, {high}]" for low, high in pairs.tolist()]
