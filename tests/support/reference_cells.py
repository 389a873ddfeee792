"""What is left of known cells at a view: the reference that the tests hold the log to.

In: a view, and the cells of each fragment with the time that each was written. Out: for each
place the rows that may be found there. Knows nothing of files and asks no engine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from support.condition_truth import removed

from chronotile.format import cell_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chronotile.format.schema import Schema
    from chronotile.visibility.view import Delete, View

Raw: TypeAlias = tuple[bytes | None, ...]
"""One value a field, dimensions first; None for NULL."""


class Cell(NamedTuple):
    """A cell of a fragment."""

    time: int
    raw: Raw
    lacks: frozenset[str] = frozenset()
    """The fields that its fragment was written without."""


class Reference:
    """Knows which deletes remove which cells, and remembers it from window to window."""

    def __init__(self, names: Sequence[str], rank: int) -> None:
        self.names = names
        self.rank = rank
        self._removed: dict[tuple[str, Cell, int], bool] = {}

    def candidates(self, view: View, cells: Mapping[str, Sequence[Cell]]) -> list[Cell]:
        """The cells of visible fragments that the window reads."""
        return [
            cell
            for fragment in view.fragments
            for cell in cells[fragment.name]
            if not fragment.partial or view.start <= cell.time <= view.end
        ]

    def left(self, view: View, found: Iterable[Cell]) -> list[Cell]:
        """Those that no delete in force removes.

        A loose update acts as a delete, and one inside a `.con` as nothing at all (F11).
        """
        loose = (update for update in view.updates if update.source.endswith(".upd"))
        conditions: list[Delete] = [*view.deletes, *loose]
        return [cell for cell in found if not any(self.removes(one, cell) for one in conditions)]

    def removes(self, delete: Delete, cell: Cell) -> bool:
        """Whether a delete removes a cell."""
        if cell.time > delete.t1:
            return False
        schema = delete.schemas[0]
        mark = (delete.name, cell, id(schema))
        if mark not in self._removed:
            self._removed[mark] = removed(delete.stored, self._row(cell, schema), schema)
        return self._removed[mark]

    def _row(self, cell: Cell, schema: Schema) -> dict[str, object]:
        row: dict[str, object] = {}
        for name, raw in zip(self.names, cell.raw, strict=True):
            field = schema.field(name)
            assert field is not None, name
            if name not in cell.lacks:
                row[name] = None if raw is None else cell_values.decode(field, raw)
        return row

    def rows(self, view: View, cells: Mapping[str, Sequence[Cell]]) -> Counter[Raw]:
        """Every row, where an array allows several cells at one place."""
        return Counter(cell.raw for cell in self.left(view, self.candidates(view, cells)))

    def choices(
        self, view: View, cells: Mapping[str, Sequence[Cell]]
    ) -> dict[Raw, set[Raw | None]]:
        """For each place what may be found there; None is nothing.

        The newest cell wins, and its delete leaves nothing: older ones do not come back. Of
        cells as new as each other any may win (F13).
        """
        newest: dict[Raw, list[Cell]] = defaultdict(list)
        for cell in self.candidates(view, cells):
            place = newest[cell.raw[: self.rank]]
            if place and place[0].time < cell.time:
                place.clear()
            if not place or place[0].time == cell.time:
                place.append(cell)
        left = set(self.left(view, (cell for place in newest.values() for cell in place)))
        return {
            at: {cell.raw if cell in left else None for cell in place}
            for at, place in newest.items()
        }


def differences(
    found: Iterable[Raw], choices: Mapping[Raw, set[Raw | None]], rank: int
) -> set[Raw]:
    """The places where what was found is none of the choices."""
    at: dict[Raw, list[Raw]] = defaultdict(list)
    for raw in found:
        at[raw[:rank]].append(raw)
    wrong = {place for place, rows in at.items() if len(rows) > 1 or place not in choices}
    for place, allowed in choices.items():
        rows = at.get(place, [])
        if len(rows) == 1 and rows[0] not in allowed:
            wrong.add(place)
        if not rows and None not in allowed:
            wrong.add(place)
    return wrong
