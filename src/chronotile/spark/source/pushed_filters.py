"""Filters that Spark hands down.

In: filters of Spark on `array`, `kind`, `t1` and `t2`. Out: which folders need not be listed, which
arrays need not be opened, and which rows need not be sent. Spark itself applies all other filters.

Spark hands filters down from version 4.1 on, if `spark.sql.python.filterPushdown.enabled` is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.tables.array_tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COLUMNS = ("array", "kind", "t1", "t2")

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}
_STARTS = "StringStartsWith"


class Condition(NamedTuple):
    """One filter that is applied here; a row where it is null goes, as in SQL."""

    column: str
    op: str
    """A name in `_COMPARISONS`, or `In`, or `StringStartsWith`."""
    value: Any

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Mask of the rows that satisfy the filter."""
        column = batch.column(self.column)
        if self.op == "In":
            return pc.is_in(column, pa.array(self.value, column.type))
        if self.op == _STARTS:
            return pc.starts_with(column, self.value)
        return _COMPARISONS[self.op](column, pa.scalar(self.value, column.type))


class Filters(NamedTuple):
    """All filters that are applied here; a row must satisfy each."""

    conditions: tuple[Condition, ...] = ()

    @property
    def arrays(self) -> frozenset[str] | None:
        """The only arrays that can have rows; None if any can."""
        named = [
            frozenset(one.value if one.op == "In" else (one.value,))
            for one in self.conditions
            if one.column == "array" and one.op in ("EqualTo", "In")
        ]
        return frozenset.intersection(*named) if named else None

    @property
    def start(self) -> str:
        """What the place of every array begins with that can have rows.

        >>> Filters((Condition("array", "StringStartsWith", "s3://lake/a"),)).start
        's3://lake/a'
        """
        starts = [c.value for c in self.conditions if c.column == "array" and c.op == _STARTS]
        return max(starts, key=len, default="")

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that satisfy all filters.

        >>> batch = pa.record_batch({"t1": [1, 2, 3]})
        >>> Filters((Condition("t1", "GreaterThan", 1),)).keep(batch).num_rows
        2
        """
        for condition in self.conditions:
            batch = batch.filter(condition.mask(batch))
        return batch


class FilterTaker:
    """A reader that applies some filters of Spark."""

    filters: Filters
    options: Any

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Takes filters; returns those that Spark has to apply."""
        columns = TABLES[self.options.table].names
        taken: list[Condition] = []
        for one in filters:
            condition = _understood(one)
            if condition is None or condition.column not in columns:
                yield one
            else:
                taken.append(condition)
        self.filters = Filters(tuple(taken))


def _understood(pushed: Any) -> Condition | None:
    op = type(pushed).__name__
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    if len(path) != 1 or path[0] not in COLUMNS or op not in (*_COMPARISONS, "In", _STARTS):
        return None
    if op == _STARTS and path[0] in ("t1", "t2"):
        return None
    values = tuple(pushed.value) if op == "In" else (pushed.value,)
    wanted = int if path[0] in ("t1", "t2") else str
    if not all(type(value) is wanted for value in values):
        return None
    return Condition(path[0], op, values if op == "In" else values[0])
