"""The cells of a dense array that differ between two moments.

In: a log, two moments. Out: the cells of the changed parts, before and after. Only what fragments
of in between cover is read; what only the later moment has is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.rows.cells.bare_array import bare_array
from chronotile.rows.cells.dense_box import is_in_box, written_box
from chronotile.rows.cells.engine import ROW_MAJOR
from chronotile.rows.cells.engine_read import read_cells
from chronotile.rows.differences.row_pairs import Pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.cells.engine import Range


def dense_pairs(log: Log, schema_file: SchemaFile, first: int, last: int) -> Iterator[Pairs]:
    """The cells that may differ, side by side."""
    schema = schema_file.schema
    assert schema is not None
    earlier = {fragment.name for fragment in log.view(0, first).fragments}
    later = {fragment.name: fragment for fragment in log.view(0, last).fragments}
    new = [name for name in later if name not in earlier]
    if not new:
        return
    known = written_box(log, 0, first)
    whole = written_box(log, 0, last)
    box = whole if known != whole else written_box(log, 0, last, new)
    assert box is not None
    after = _cells(log, schema_file, last, box)
    before = _cells(log, schema_file, first, box) if known else after
    places = after[: len(schema.dimensions)]
    count = len(places[0])
    was = is_in_box(schema.dimensions, places, known) if known else np.zeros(count, bool)
    names, times = np.full(count, None, object), np.zeros(count, np.uint64)
    for name in sorted(new, key=lambda name: (later[name].t1, name)):
        own = written_box(log, 0, last, [name])
        mask = is_in_box(schema.dimensions, places, own) if own else np.zeros(count, bool)
        names[mask], times[mask] = name, later[name].t2
    yield Pairs(before, was, after, np.ones(count, bool), names.tolist(), times)


def _cells(
    log: Log, schema_file: SchemaFile, end: int, box: Sequence[Range]
) -> tuple[pa.Array, ...]:
    schema = schema_file.schema
    assert schema is not None
    rows = log.rules.visible(0, end)[0].tolist()
    with bare_array(log, rows, schema_file, end) as bare:
        bare.engine.open(0, end)
        batches = list(read_cells(bare.engine, schema.fields, layout=ROW_MAJOR, ranges=box))
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return tuple(pa.concat_arrays(same) for same in columns)
