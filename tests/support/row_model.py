"""Rows in a plain dictionary: what an array should hold after any history.

In: writes, deletes and updates, each with its time. Out: the rows of a window. Knows neither the
engine nor chronotile: every meaning is written out here.

- Events act in the order of their times; in one millisecond updates first, on rows that were
  written before it and in the order of their names; then writes, then deletes.
- A predicate is a comparison `(field, op, value)` or `("and" | "or", part, part)`. An update means
  what SQL means: NULL is no match. A delete removes whatever does not satisfy the opposite of its
  predicate: rows with NULL and NaN too, as the engine does.
- An update writes its rows anew, at its time; a row that has the values already it leaves alone.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Place: TypeAlias = tuple[Any, ...]
Values: TypeAlias = dict[str, Any]
Predicate: TypeAlias = tuple[Any, ...]

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "in": lambda value, members: value in members,
    "not in": lambda value, members: value not in members,
}
OPPOSITES = {
    **dict(zip(("<", ">", "==", "in", "and"), (">=", "<=", "!=", "not in", "or"), strict=True)),
    **dict(zip((">=", "<=", "!=", "not in", "or"), ("<", ">", "==", "in", "and"), strict=True)),
}


def text_of(predicate: Predicate) -> str:
    """The predicate as it is typed."""
    first, second, third = predicate
    if first in ("and", "or"):
        return f"{text_of(second)} {first} {text_of(third)}"
    return f"{first} {second} {third!r}"


def opposite(predicate: Predicate) -> Predicate:
    first, second, third = predicate
    if first in ("and", "or"):
        return (OPPOSITES[first], opposite(second), opposite(third))
    return (first, OPPOSITES[second], third)


def holds(predicate: Predicate, row: Values) -> bool:
    """Whether a row satisfies a predicate; with NULL no comparison does."""
    first, second, third = predicate
    if first == "and":
        return holds(second, row) and holds(third, row)
    if first == "or":
        return holds(second, row) or holds(third, row)
    value = row[first]
    return value is not None and bool(OPS[second](value, third))


class Event(NamedTuple):
    """A commit."""

    t: int
    rank: int
    """Within its millisecond: 0 for an update, 1 for a write, 2 for a delete."""
    name: str
    rows: tuple[tuple[Place, Values], ...] = ()
    predicate: Predicate = ()
    values: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Row:
    """A row, and the commits that had to do with it."""

    place: Place
    values: Values
    t: int
    """Since when it has its values."""
    written: int
    alive: bool = True
    by: tuple[str, ...] = ()


@dataclass
class RowModel:
    """All that has happened to an array."""

    duplicates: bool
    names: tuple[str, ...]
    """Of the dimensions."""
    events: list[Event] = field(default_factory=list)

    def state(self, end: int, *, before: Event | None = None) -> list[Row]:
        """Every row at a moment, removed ones too; or right before an event."""
        rows: list[Row] = []
        for event in sorted(self.events):
            if event.t > end or event == before:
                break
            if event.rank == 1:
                rows = self._write(rows, event)
            else:
                rows = [self._changed(row, event) for row in rows]
        return rows

    def _write(self, rows: list[Row], event: Event) -> list[Row]:
        new = [
            Row(place, values, event.t, event.t, by=(event.name,)) for place, values in event.rows
        ]
        if self.duplicates:
            return rows + new
        taken = {row.place: row for row in rows} | {row.place: row for row in new}
        return list(taken.values())

    def _changed(self, row: Row, event: Event) -> Row:
        if not row.alive or not self.hits(row, event):
            return row
        by = (*row.by, event.name)
        if event.rank == 2:
            return replace(row, alive=False, by=by)
        return replace(row, values={**row.values, **dict(event.values)}, t=event.t, by=by)

    def hits(self, row: Row, event: Event) -> bool:
        """Whether a delete removes a row, or an update sets it."""
        seen = {**dict(zip(self.names, row.place, strict=True)), **row.values}
        if event.rank == 2:
            return row.written <= event.t and not holds(opposite(event.predicate), seen)
        same = all(repr(row.values[name]) == repr(value) for name, value in event.values)
        return row.written < event.t and holds(event.predicate, seen) and not same

    def rows(self, start: int, end: int) -> list[Values]:
        """The rows of a window, sorted."""
        found = [self.shown(row) for row in self.state(end) if row.alive and row.t >= start]
        return sorted(found, key=repr)

    def shown(self, row: Row) -> Values:
        return {**dict(zip(self.names, row.place, strict=True)), **row.values}

    def blamed(self, place: Place) -> list[str]:
        """The commits that wrote, changed or removed what was at a place, each time they did."""
        found: list[str] = []
        for event in sorted(self.events):
            if event.rank == 1:
                found += [event.name for at, _ in event.rows if at == place]
            else:
                before = self.state(event.t, before=event)
                found += [
                    event.name
                    for row in before
                    if row.place == place and row.alive and self.hits(row, event)
                ]
        return found
