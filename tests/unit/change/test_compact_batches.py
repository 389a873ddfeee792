"""Batches that may be merged: the rules of sparse and dense arrays, over random fragments."""

from __future__ import annotations

import random

import pytest

from chronotile.change.compact_batches import (
    ALONE,
    LARGE,
    OVERLAPS,
    SAME_MS,
    SPREAD,
    Part,
    choose_dense,
    choose_sparse,
    size_bytes,
)
from chronotile.errors import ChronotileError
from chronotile.format.fragment_size import Axis

AXES = (Axis("<q", 0, 99, 10), Axis("<q", 0, 99, 10))


def dense_part(chance: random.Random, number: int) -> Part:
    at = chance.choice((number, number, number, number - 1))
    box = tuple((low, low + chance.choice((0, 0, 1))) for low in (chance.randint(0, 4), 0))
    cells = 100
    for low, high in box:
        cells *= high - low + 1
    return Part(f"f{number}", at, at, cells, chance.randint(10, 60), chance.choice("sst"), box)


@pytest.mark.parametrize("seed", range(150))
def test_a_dense_batch_changes_no_window(seed: int) -> None:
    chance = random.Random(seed)
    parts = [dense_part(chance, number) for number in range(1, chance.randint(3, 40))]
    parts.sort(key=lambda part: (part.t1, part.t2, part.name))
    left = {part.name: "young" for part in parts if chance.random() < 0.1}
    kept = [(at, at) for at in chance.sample(range(1, 40), 2)]
    choice = choose_dense(parts, left, 200, axes=AXES, kept=kept)
    taken = [name for batch in choice.batches for name in batch.names]
    alone = [name for names in choice.left.values() for name in names]
    assert sorted(taken + alone) == sorted(part.name for part in parts)
    for batch in choice.batches:
        assert not {*batch.names} & {*left}
        assert len({part.schema for part in batch.parts}) == 1
        assert len(batch.parts) > 1
        assert batch.size <= 200
        times = [part.t1 for part in batch.parts]
        assert times == sorted(set(times))
        assert not any(batch.t1 <= high and low < batch.t2 for low, high in kept)
        box = [
            (min(low for low, _ in axis), max(high for _, high in axis))
            for axis in zip(*(part.box for part in batch.parts), strict=True)
        ]
        cells = 100
        for low, high in box:
            cells *= high - low + 1
        assert cells <= SPREAD * batch.cells
        for other in parts:
            meets = all(a <= d and c <= b for (a, b), (c, d) in zip(box, other.box, strict=True))
            # What lies over all of it, or below nothing of it, keeps its place.
            assert other.name in batch.names or not meets or other.t1 > batch.t2


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("seed", range(50))
def test_a_sparse_batch_has_no_shared_millisecond(seed: int, duplicates: bool) -> None:
    chance = random.Random(seed)
    parts = []
    for number in range(30):
        first = chance.randint(1, 60)
        last = first + chance.choice((0, 0, 0, 5))
        parts.append(Part(f"f{number}", first, last, 10, chance.randint(10, 120), "s"))
    parts.sort(key=lambda part: (part.t1, part.t2, part.name))
    choice = choose_sparse(parts, {}, 200, duplicates=duplicates)
    for batch in choice.batches:
        assert batch.size <= 200
        assert all(part.size <= 100 for part in batch.parts)
        for part in batch.parts:
            shared = [o for o in parts if o is not part and o.t1 <= part.t2 and part.t1 <= o.t2]
            assert not shared or (duplicates and part.t1 != part.t2)
    assert {*choice.left} <= {SAME_MS, LARGE, ALONE}


def test_a_dense_fragment_over_an_older_one_that_stays() -> None:
    parts = [Part(f"f{at}", at, at, 100, 10, "s", ((0, 0),)) for at in (1, 2, 3)]
    choice = choose_dense(parts, {"f1": "young"}, 200, axes=AXES[:1])
    assert choice.batches == ()
    assert choice.left == {"young": ["f1"], OVERLAPS: ["f2", "f3"]}


@pytest.mark.parametrize("text", ["", "B", "-1GB", "0", "1XB", "much", "1.2.3MB", True])
def test_sizes_that_are_none(text: str | int) -> None:
    with pytest.raises(ChronotileError, match="give one such as 512MB"):
        size_bytes(text)
