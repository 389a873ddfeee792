"""Which write a cell comes from, by its time.

In: a log, and times of cells. Out: the names of the fragments that were written then. A merged
fragment keeps the times of the writes that it was made from, so these are named as long as any
commit still does; else the merged fragment is. Of two writes of one millisecond, which times do not
tell apart (F13), the first is named for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chronotile.format.kinds import OK

if TYPE_CHECKING:
    from chronotile.log import Log


class Writers:
    """Names of writes by the times of their cells."""

    def __init__(self, log: Log) -> None:
        table = log.history.table
        rows = np.flatnonzero(table.uris.ext <= OK)
        self._single: dict[int, str] = {}
        self._spans: list[tuple[int, int, str]] = []
        for row in rows.tolist():
            t1, t2 = int(table.uris.t1[row]), int(table.uris.t2[row])
            if t1 == t2:
                self._single.setdefault(t1, table.name(row))
            else:
                self._spans.append((t1, t2, table.name(row)))

    def at(self, time: int) -> str | None:
        """The name of the write of a cell with that time, as far as it is known."""
        if time not in self._single:
            spans = (name for t1, t2, name in self._spans if t1 <= time <= t2)
            name = next(spans, None)
            if name is None:
                return None
            self._single[time] = name
        return self._single[time]
