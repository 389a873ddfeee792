"""Filters that Spark hands down.

In: filters of Spark on `array`, `kind`, `t1` and `t2`. Out: which arrays need not be opened, and
which rows need not be sent. Whatever is not understood is left to Spark.

Spark hands filters down from version 4.1 on, if `spark.sql.python.filterPushdown.enabled` is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.spark.tables import SCHEMAS

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


class Condition(NamedTuple):
    """One filter that is applied here; rows where it is null go, as in SQL."""

    column: str
    op: str
    """A name in `_COMPARISONS`, or `In`."""
    value: Any

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows satisfy it."""
        column = batch.column(self.column)
        if self.op == "In":
            return pc.is_in(column, pa.array(self.value, column.type))
        return _COMPARISONS[self.op](column, pa.scalar(self.value, column.type))


class Filters(NamedTuple):
    """All filters that were taken; every one of them must hold."""

    conditions: tuple[Condition, ...] = ()

    @property
    def arrays(self) -> frozenset[str] | None:
        """The only arrays that can have rows; None if it can be any."""
        only: frozenset[str] | None = None
        for one in self.conditions:
            if one.column == "array" and one.op in ("EqualTo", "In"):
                named = frozenset(one.value if one.op == "In" else (one.value,))
                only = named if only is None else only & named
        return only

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
    """A reader that takes the filters that it understands."""

    filters: Filters
    options: Any

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Takes filters; gives back those that are left to Spark."""
        columns = SCHEMAS[self.options.table].names
        taken: list[Condition] = []
        for one in filters:
            condition = _understood(one)
            if condition is None or condition.column not in columns:
                yield one
            else:
                taken.append(condition)
        self.filters = Filters(tuple(taken))


def _understood(given: Any) -> Condition | None:
    op = type(given).__name__
    path: tuple[str, ...] = getattr(given, "attribute", ())
    if len(path) != 1 or path[0] not in COLUMNS or op not in (*_COMPARISONS, "In"):
        return None
    value: Any = given.value
    values = tuple(value) if op == "In" else (value,)
    wanted = int if path[0] in ("t1", "t2") else str
    if not all(type(one) is wanted for one in values):
        return None
    return Condition(path[0], op, values if op == "In" else value)
