"""Random histories of rows: the engine's array and the model, side by side.

In: a seed. Out: an array that the engine has written to, deleted from and updated, also in the
past, and the `RowModel` that knows what it should hold. Knows nothing of chronotile.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import tiledb
from support.engine_arrays import EngineArray
from support.row_model import Event, Place, Predicate, RowModel, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from support.engine_arrays import Window

SIDE = 5
WORDS = ("a", "ab", "b", "ü", "zz")
LAST = 60


class RowHistory:
    """An array with a random life.

    Args:
        seed: Of all chance.
        folder: Where the array goes.
        consolidates: Whether the engine merges fragments on the way.
    """

    def __init__(self, seed: int, folder: Path, *, consolidates: bool = False) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.consolidates = consolidates
        self.text_dim = self.chance.random() < 0.25
        names = ("x",) if self.text_dim or self.chance.random() < 0.6 else ("x", "y")
        self.model = RowModel(duplicates=self.chance.random() < 0.3, names=names)
        self.array = EngineArray(folder / "array")
        self._taken: set[tuple[int, Place]] = set()
        self._create()

    def _create(self) -> None:
        if self.text_dim:
            dims = [tiledb.Dim("x", domain=(None, None), tile=None, dtype="ascii")]
        else:
            dims = [
                tiledb.Dim(name, domain=(1, SIDE), tile=3, dtype="int64")
                for name in self.model.names
            ]
        attrs = [
            tiledb.Attr("a", dtype="int32", nullable=True),
            tiledb.Attr("f", dtype="float64"),
            tiledb.Attr("s", dtype="U0", var=True, nullable=True),
        ]
        self.array.create(dims=dims, attrs=attrs, duplicates=self.model.duplicates, capacity=3)

    def live(self, steps: int) -> None:
        """Do so many things to the array, the first of them a write."""
        self.write()
        for _ in range(steps - 1):
            kind = self.chance.choices(("write", "delete", "update", "merge"), (5, 2, 4, 1))[0]
            if kind == "write":
                self.write()
            elif kind == "merge":
                if self.consolidates:
                    self.array.consolidate("fragments")
                    if self.chance.random() < 0.5:
                        self.array.vacuum("fragments")
            else:
                self.commit(is_update=kind == "update")

    def _time(self) -> int:
        return self.chance.randint(1, LAST)

    def _value(self, name: str) -> Any:
        chance = self.chance
        if name == "a":
            return None if chance.random() < 0.25 else chance.randint(0, 6)
        if name == "f":
            return math.nan if chance.random() < 0.15 else chance.randint(0, 6) / 2
        return None if chance.random() < 0.25 else chance.choice(WORDS)

    def _coordinate(self) -> Any:
        at = self.chance.randint(1, SIDE)
        return "p" * at if self.text_dim else at

    def write(self) -> None:
        """Write some rows; never two at one place and of one time, which have no order."""
        at = self._time()
        places = {tuple(self._coordinate() for _ in self.model.names) for _ in range(4)}
        free = sorted(place for place in places if (at, place) not in self._taken)
        if not free:
            return
        self._taken |= {(at, place) for place in free}
        rows = [(place, {name: self._value(name) for name in "afs"}) for place in free]
        columns: dict[str, Any] = dict(zip(self.model.names, zip(*free, strict=True), strict=True))
        columns |= {name: [values[name] for _, values in rows] for name in "afs"}
        before = set(self.array.files("__fragments"))
        self.array.write_raw(at, **columns)
        (name,) = set(self.array.files("__fragments")) - before
        self.model.events.append(Event(at, 1, name, tuple(rows)))

    def commit(self, *, is_update: bool) -> None:
        """A delete or an update, at any time."""
        at, predicate = self._time(), self._predicate()
        values = {}
        if is_update:
            chosen = self.chance.sample("afs", self.chance.randint(1, 2))
            values = {name: self._value(name) for name in chosen}
        before = set(self.array.files("__commits"))
        self.array.commit(at, text_of(predicate), **values)
        (file,) = set(self.array.files("__commits")) - before
        name = file.rpartition(".")[0]
        event = Event(at, 0 if is_update else 2, name, (), predicate, tuple(values.items()))
        self.model.events.append(event)

    def _predicate(self) -> Predicate:
        chance = self.chance
        leaves = (
            lambda: ("a", chance.choice(("<", ">=", "==", "!=")), chance.randint(0, 6)),
            lambda: ("a", chance.choice(("in", "not in")), chance.sample(range(7), 2)),
            lambda: ("f", chance.choice(("<", ">", "!=")), chance.randint(0, 6) / 2),
            lambda: ("s", chance.choice(("<", "==", "!=", ">=")), chance.choice(WORDS)),
            lambda: ("s", "not in", chance.sample(WORDS[:3], 2)),
            lambda: (
                chance.choice(self.model.names),
                chance.choice((">", "==")),
                self._coordinate(),
            ),
        )
        first = chance.choice(leaves)()
        how = chance.choice(("", "", "and", "or"))
        return (how, first, chance.choice(leaves)()) if how else first

    def windows(self, count: int) -> list[Window]:
        """Windows that start and end at or beside some commit; half of them start at 0."""
        times = {event.t + near for event in self.model.events for near in (-1, 0, 1)}
        marks = sorted({0, *times, LAST + 9})
        found = []
        for _ in range(count):
            start, end = sorted(self.chance.choices(marks, k=2))
            found.append((0 if self.chance.random() < 0.5 else start, end))
        return found
