"""Random histories of arrays, made with the engine, and the cells that each fragment holds.

In: a seed. Out: an array that has lived through writes, deletes, updates, consolidations, vacuums
and removals; which cells each of its fragments holds, since when; what the engine refused.
Knows nothing of what is visible.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import tiledb
from corpus.recipes.capi import EngineError
from corpus.recipes.codec import encode
from support.engine_arrays import EngineArray
from support.engine_reader import Reader
from support.reference_cells import Cell, Raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

FAR = 4_000_000_000_000
"""A time after every other."""
SIDE = 6
"""Places along a dimension: few, so that writes meet."""
WORDS = ("", "a", "ab", "b", "ü", "zz")
CODES = re.compile(r"__(\d+)_(\d+)_[0-9a-f]{32}_\d+")


class Held(NamedTuple):
    """What one fragment holds."""

    cells: tuple[Cell, ...]
    """In a dense array the several cells of one place are those of which any may have won."""
    first: int
    """When its first cell was written."""
    last: int
    is_torn: bool = False
    """Whether it was consolidated from cells at one place and of one time. Where the array allows
    no duplicates the engine then loses cells, and not only those; or it cannot read it at all."""

    def is_misnamed(self, name: str) -> bool:
        """Whether its name does not cover its cells, which is fault F4."""
        t1, t2 = times_of(name)
        return self.first < t1 or self.last > t2


def times_of(name: str) -> tuple[int, int]:
    found = CODES.match(name)
    assert found is not None, name
    return int(found[1]), int(found[2])


class History:
    """One array, its model, and the chance that drives both.

    Args:
        seed: The same seed makes the same history, but for the uuids in its names.
        folder: An empty folder of its own.
        key: Of the array, where it is to be encrypted.
        ties: Whether two writes may be of the same time. Which of them is then found is not
            defined (F13), and may be another after any maintenance.
    """

    def __init__(
        self, seed: int, folder: Path, *, key: str | None = None, ties: bool = True
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        folder.mkdir(parents=True)
        self.array = EngineArray(folder / "array", key=key)
        self.ties = ties
        self.written: set[int] = set()
        self.dense = self.chance.random() < 0.3
        self.rank = self.chance.choice((1, 1, 2))
        self.text_dim = not self.dense and self.rank == 1 and self.chance.random() < 0.25
        self.duplicates = not self.dense and self.chance.random() < 0.3
        # A commit consolidation puts updates where the engine does not understand them (F11).
        self.updates = not self.dense and self.chance.random() < 0.2
        self.held: dict[str, Held] = {}
        self._taken: set[tuple[int, tuple[Any, ...]]] = set()
        self.steps: list[str] = []
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.times: list[int] = []
        self.pace = self.chance.choice(("few", "same digits", "mixed digits", "milliseconds"))
        self.in_order = self.chance.random() < 0.6
        # Whether writes of the same time may meet; what then happens is not defined (F13).
        self.meets = self.chance.random() < 0.3
        self._create()

    @property
    def uri(self) -> str:
        return self.array.uri

    def _create(self) -> None:
        names = ("x", "y")[: self.rank]
        if self.text_dim:
            dims = [tiledb.Dim("x", domain=(None, None), tile=None, dtype="ascii")]
        else:
            tile = self.chance.choice((2, 3, 6))
            dims = [tiledb.Dim(name, domain=(1, SIDE), tile=tile, dtype="int64") for name in names]
        attrs = [
            tiledb.Attr("a", dtype="int32", nullable=True),
            tiledb.Attr("f", dtype="float64"),
            tiledb.Attr("s", dtype="U0", var=True, nullable=True),
        ]
        more = {} if self.dense else {"capacity": self.chance.choice((2, 5))}
        self.array.create(
            sparse=not self.dense, dims=dims, attrs=attrs, duplicates=self.duplicates, **more
        )
        with self.reader() as reader:
            reader.look(0, 1)
            _, self.fields = reader.fields()

    def reader(self) -> Reader:
        """The engine, to read the array at one window after the other."""
        return Reader(self.uri, self.array.settings, SIDE)

    def step(self) -> None:
        """Do one thing to the array."""
        kinds = {
            "write": 9 if self.done["write"] > 1 else 99,
            "consolidate fragments": 3,
            "consolidate fragments in a range": 2,
            "consolidate commits": 0 if self.updates else 3,
            "consolidate fragment metadata": 1,
            "vacuum fragments": 2,
            "vacuum commits": 3,
            "delete fragments": 0.7,
            "delete": 0 if self.dense else 7,
            "update": 4 if self.updates else 0,
        }
        kind = self.chance.choices(list(kinds), list(kinds.values()))[0]
        before = self._fragments()
        try:
            said = self._do(kind)
        except (EngineError, tiledb.TileDBError) as error:
            self.refused[f"{kind}: {_short(str(error))}"] += 1
            said = "refused"
        self.done[kind] += 1
        self.steps.append(f"{kind} {said}")
        if kind.startswith("consolidate"):
            self._consolidated(self._fragments() - before)

    def _do(self, kind: str) -> str:
        match kind:
            case "write":
                return self.write(self._time())
            case "delete":
                at, predicate = self._time(), self._predicate()
                self.array.commit(at, predicate)
                return f"{at} {predicate}"
            case "update":
                at, predicate = self._time(), self._predicate()
                self.array.commit(at, predicate, a=777)
                return f"{at} {predicate}"
            case "consolidate fragments":
                self.array.consolidate("fragments")
            case "consolidate fragments in a range":
                start, end = self._range()
                self.array.consolidate("fragments", (start, end))
                return f"{start} {end}"
            case "consolidate commits":
                self.array.consolidate("commits")
            case "consolidate fragment metadata":
                self.array.consolidate("fragment_meta")
            case "vacuum fragments":
                self.array.vacuum("fragments")
            case "vacuum commits":
                self.array.vacuum("commits")
            case _:
                start, end = self._range()
                self.array.delete_fragments(start, end)
                return f"{start} {end}"
        return ""

    def _time(self) -> int:
        chance, last = self.chance, max(self.times, default=0)
        if self.times and chance.random() < 0.15:
            at = chance.choice(self.times)
        elif self.pace == "few":
            at = chance.randint(1, 12)
        elif self.in_order and self.times:
            at = last + chance.choice((1, 1, 2, 5, 40))
        else:
            low, high = {
                "same digits": (100, 400),
                "mixed digits": (1, 1200),
                "milliseconds": (1_700_000_000_000, 1_700_000_000_300),
            }[self.pace]
            at = chance.randint(low, high)
        self.times.append(at)
        return at

    def _range(self) -> tuple[int, int]:
        marks = sorted(self.chance.choices(self.times or [1], k=2))
        return marks[0], marks[1]

    def _value(self, name: str) -> Any:
        chance = self.chance
        match name:
            case "a":
                return None if chance.random() < 0.2 else chance.randint(0, 9)
            case "f":
                return math.nan if chance.random() < 0.1 else chance.randint(0, 9) / 2
            case _:
                return None if chance.random() < 0.2 else chance.choice(WORDS)

    def _predicate(self) -> str:
        chance = self.chance
        leaves = (
            lambda: f"a {chance.choice(('<', '>=', '==', '!='))} {chance.randint(0, 9)}",
            lambda: f"a in {chance.sample(range(10), 2)}",
            lambda: f"f {chance.choice(('<', '>', '!='))} {chance.randint(0, 9) / 2}",
            lambda: f"s {chance.choice(('<', '==', '!='))} {chance.choice(WORDS[1:])!r}",
            lambda: f"s not in {chance.sample(WORDS[1:4], 2)}",
            lambda: self._place_predicate(),
        )
        first = chance.choice(leaves)()
        how = chance.choice(("", "", "and", "or"))
        return f"{first} {how} {chance.choice(leaves)()}" if how else first

    def _place_predicate(self) -> str:
        at = self.chance.randint(1, SIDE)
        if self.text_dim:
            return f"x == '{'p' * at}'"
        return (
            f"{self.chance.choice(('x', 'y')[: self.rank])} {self.chance.choice(('==', '>'))} {at}"
        )

    def write(self, at: int) -> str:
        """Write some cells; give what was done."""
        before = self._fragments()
        if not self.ties:
            at = next(later for later in itertools.count(at) if later not in self.written)
            self.times.append(at)
        self.written.add(at)
        places, columns = self._dense_places() if self.dense else self._sparse_places(at)
        if not places:
            return "nowhere"
        attributes = [field for field in self.fields if field.role == "attribute"]
        rows = [[self._value(field.name) for field in attributes] for _ in places]
        for field, values in zip(attributes, zip(*rows, strict=True), strict=True):
            columns[field.name] = values
        self.array.write_raw(at, **columns)
        (name,) = self._fragments() - before
        raws = [self._raw((*place, *row)) for place, row in zip(places, rows, strict=True)]
        self.held[name] = Held(tuple(Cell(at, raw) for raw in raws), at, at)
        return f"{at} at {places}"

    def _sparse_places(self, at: int) -> tuple[list[tuple[Any, ...]], dict[str, Sequence[Any]]]:
        axis: list[Any] = list(range(1, SIDE + 1))
        if self.text_dim:
            axis = ["p" * number for number in axis]
        everywhere = list(itertools.product(axis, repeat=self.rank))
        if not self.meets:
            everywhere = [place for place in everywhere if (at, place) not in self._taken]
        places = self.chance.sample(everywhere, min(self.chance.randint(1, 6), len(everywhere)))
        self._taken |= {(at, place) for place in places}
        return places, dict(zip(("x", "y"), zip(*places, strict=True), strict=False))

    def _dense_places(self) -> tuple[list[tuple[Any, ...]], dict[str, Sequence[Any]]]:
        bounds = [sorted(self.chance.choices(range(1, SIDE + 1), k=2)) for _ in range(self.rank)]
        places = list(itertools.product(*(range(low, high + 1) for low, high in bounds)))
        return places, dict(zip(("x", "y"), bounds, strict=False))

    def _raw(self, row: Sequence[Any]) -> Raw:
        return tuple(
            None if value is None else encode(field.type, value)
            for field, value in zip(self.fields, row, strict=True)
        )

    def _fragments(self) -> set[str]:
        return set(self.array.files("__fragments"))

    def _consolidated(self, new: set[str]) -> None:
        """A new fragment holds what its `.vac` says that it replaces."""
        waiting = {name: vac for name in new if (vac := self._sources(name))}
        while waiting:
            ready = [name for name, old in waiting.items() if all(one in self.held for one in old)]
            assert ready, f"seed {self.seed}: {waiting} come from nowhere"
            for name in ready:
                self.held[name] = self._merged(name, waiting.pop(name))

    def _sources(self, name: str) -> list[str]:
        vac = self.array.commits_folder / f"{name}.vac"
        lines = vac.read_text().split() if vac.exists() else []
        return [line.rpartition("/")[2] for line in lines]

    def _merged(self, name: str, sources: list[str]) -> Held:
        parts = [self.held[source] for source in sources]
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        if not self.dense:
            cells = tuple(itertools.chain.from_iterable(part.cells for part in parts))
            meetings = len(cells) - len({(cell.time, cell.raw[: self.rank]) for cell in cells})
            is_torn = any(part.is_torn for part in parts) or bool(meetings)
            return Held(cells, first, last, is_torn and not self.duplicates)
        layers = layered((times_of(source)[0], self.held[source].cells) for source in sources)
        begun = times_of(name)[0]
        found = [
            Cell(begun, raw)
            for at in self.places(self._box(name))
            for raw in layers.get(at) or {(*at, *self.fill[self.rank :])}
        ]
        return Held(tuple(found), first, last)

    def places(self, box: list[tuple[int, int]] | None = None) -> Iterator[Raw]:
        """The places of a dense array, or of a box in it."""
        bounds = box or [(1, SIDE)] * self.rank
        for place in itertools.product(*(range(low, high + 1) for low, high in bounds)):
            yield tuple(encode("int64", index) for index in place)

    def _box(self, name: str) -> list[tuple[int, int]]:
        (info,) = (
            one
            for one in tiledb.FragmentInfoList(self.uri, ctx=self.array.ctx)
            if one.uri.rstrip("/").rpartition("/")[2] == name
        )
        return [(int(low), int(high)) for low, high in info.nonempty_domain]

    @property
    def fill(self) -> Raw:
        """What a dense array holds where nobody wrote."""
        return (*(b"",) * self.rank, None, encode("float64", math.nan), None)

    def remove(self) -> None:
        shutil.rmtree(self.array.folder.parent)

    def windows(self, count: int) -> list[tuple[int, int]]:
        """Random windows that start and end at or beside some commit; half of them start at 0."""
        marks = sorted({0, *(at + near for at in self.times for near in (-1, 0, 1)), FAR})
        found = []
        for _ in range(count):
            start, end = sorted(self.chance.choices(marks, k=2))
            found.append((0 if self.chance.random() < 0.5 else start, end))
        return found


def layered(layers: Iterable[tuple[int, Iterable[Cell]]]) -> dict[Raw, set[Raw]]:
    """For each place of a dense array what may be on top: what began last, or any of those."""
    top: dict[Raw, int] = {}
    rows: dict[Raw, set[Raw]] = {}
    for begun, cells in layers:
        for cell in cells:
            at = cell.raw[: _rank(cell.raw)]
            if at not in top or top[at] < begun:
                top[at], rows[at] = begun, set()
            if top[at] == begun:
                rows[at].add(cell.raw)
    return rows


def _rank(raw: Raw) -> int:
    return len(raw) - 3


def _short(text: str) -> str:
    text = re.sub(r"\S*(file:|/)\S*", "…", text.split("\n")[0])
    return re.sub(r"\d+", "#", text)[:100]
