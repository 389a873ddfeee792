"""The write that a cell comes from: by its time, or by its content where times are equal.

In: a snapshot, and cells as they were written. Out: the names of the fragments that they were
written with. A merged fragment keeps the times of the writes that it was made from, so these are
named as long as any commit still does; else the merged fragment is.

Two writes of one millisecond have equal times (F13). Then their fragments are read, and the one
that holds the cell is named; if they are gone, all of them. Where both wrote to one place the
engine shows the write whose name is last, in the orders in which cells are read here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.format.kinds import OK
from chronotile.rows.cell_source import cell_source
from chronotile.rows.places import box_of, equal_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from chronotile.rows.snapshot import Snapshot

OR = " or "
"""Stands between names of which one is meant."""


class Writers:
    """The writes of an array, to be named by their cells.

    Args:
        at: The array; cells are read with its schema.
    """

    def __init__(self, at: Snapshot) -> None:
        self._at, log = at, at.log
        table = log.history.table
        self._single: defaultdict[int, dict[str, int]] = defaultdict(dict)
        """Time -> the writes of it, each with the row of its commit."""
        self._spans: list[tuple[int, int, str]] = []
        for row in np.flatnonzero(table.uris.ext <= OK).tolist():
            t1, t2 = int(table.uris.t1[row]), int(table.uris.t2[row])
            if t1 == t2:
                self._single[t1].setdefault(table.name(row), row)
            else:
                self._spans.append((t1, t2, table.name(row)))
        self._there = set(log.rules.fragment_rows[~log.rules.missing].tolist())

    def names(
        self, times: npt.NDArray[np.uint64], columns: Sequence[pa.Array]
    ) -> npt.NDArray[np.object_]:
        """Name the write of each cell, as far as it is known.

        They have all fields of the schema, as they were written.
        """
        moments, which = np.unique(times, return_inverse=True)
        names = np.array([*map(self._of_time, moments.tolist()), None], object)[which]
        for number, moment in enumerate(moments.tolist()):
            writes = self._single.get(moment, {})
            if len(writes) > 1 and self._there.issuperset(writes.values()):
                rows = np.flatnonzero(which == number)
                cells = [column.take(pa.array(rows)) for column in columns]
                names[rows] = self._by_content(moment, writes, cells)
        return names

    def _of_time(self, time: int) -> str | None:
        """Name the write of a time; give several names if there are several."""
        if time in self._single:
            return OR.join(sorted(self._single[time]))
        return next((name for t1, t2, name in self._spans if t1 <= time <= t2), None)

    def _by_content(self, time: int, writes: dict[str, int], cells: list[pa.Array]) -> list[str]:
        """Name the write of each cell among several of one time: the one that holds the same."""
        at = replace(self._at, end=time, changes=())
        box = box_of(at.schema.dimensions, cells)
        columns, names = [tuple(cells)], []
        for name in sorted(writes, reverse=True):
            source = cell_source(at, every_version=True, rows=[writes[name]])
            for batch in source.batches(at.schema.fields, box):
                columns.append(batch.columns)
                names += [name] * len(batch)
        codes = [equal_codes(same) for same in zip(*columns, strict=True)]
        keys = [tuple(row) for row in np.stack(codes, axis=1).tolist()]
        count = len(cells[0])
        owners: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
        for key, name in zip(keys[count:], names, strict=True):
            owners[key].append(name)
        # Of cells that hold the same each write wrote its own; the last one is shown.
        every, chosen = [OR.join(sorted(writes))], []
        for key in keys[:count]:
            own = owners.get(key, every)
            chosen.append(own.pop(0) if len(own) > 1 else own[0])
        return chosen
