"""The digest of rows: the same for any order and any batches, another for any other rows."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from chronotile.rows.row_digest import Digest

KINDS = (
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.uint16(),
    pa.large_binary(),
    pa.binary(3),
    pa.string(),
)


def values(kind: pa.DataType, count: int, rng: random.Random) -> list[object]:
    if kind == pa.string():
        return [rng.choice([None, "", "a", "ab", "ba" * rng.randint(0, 9)]) for _ in range(count)]
    if kind == pa.binary(3):
        return [rng.choice([None, rng.randbytes(3)]) for _ in range(count)]
    if kind == pa.large_binary():
        return [rng.choice([None, rng.randbytes(rng.randint(0, 12))]) for _ in range(count)]
    return [rng.choice([None, rng.randint(0, 100)]) for _ in range(count)]


def digest(columns: list[list[object]], kinds: tuple[pa.DataType, ...], cuts: list[int]) -> Digest:
    made = Digest()
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    for start, end in zip([0, *cuts], [*cuts, len(columns[0])], strict=True):
        if start < end:
            made.add([one.slice(start, end - start) for one in arrays])
    return made


@pytest.mark.parametrize("seed", range(5))
def test_order_and_batches_do_not_matter_and_values_do(seed: int) -> None:
    rng = random.Random(seed)
    count = 200
    columns = [values(kind, count, rng) for kind in KINDS]
    one = digest(columns, KINDS, [])
    order = rng.sample(range(count), count)
    shuffled = [[column[at] for at in order] for column in columns]
    assert digest(shuffled, KINDS, sorted(rng.sample(range(1, count), 5))) == one
    for at, kind in enumerate(KINDS):
        other = [list(column) for column in columns]
        row = rng.randrange(count)
        while other[at][row] == columns[at][row]:
            other[at][row] = values(kind, 1, rng)[0]
        changed = digest(other, KINDS, [])
        assert changed.rows == one.rows
        assert (changed.sum, changed.other) != (one.sum, one.other)


def test_values_are_not_mixed_up_between_columns_and_rows() -> None:
    kinds = (pa.int64(), pa.int64())
    first = digest([[1, 2], [3, 4]], kinds, [])
    assert first != digest([[1, 2], [4, 3]], kinds, [])
    assert first != digest([[3, 4], [1, 2]], kinds, [])
    assert first != digest([[1, 2, 2], [3, 4, 4]], kinds, [])
    texts = (pa.string(), pa.string())
    assert digest([["ab"], ["c"]], texts, []) != digest([["a"], ["bc"]], texts, [])
    assert digest([[""], [None]], texts, []) != digest([[None], [""]], texts, [])


def test_long_values_take_the_same_way_as_short_ones() -> None:
    rng = np.random.default_rng(1)
    long = [rng.integers(0, 256, size, np.uint8).tobytes() for size in (9 << 20, 100, 5 << 20, 0)]
    one, other, changed = Digest(), Digest(), Digest()
    one.add([pa.array(long, pa.large_binary())])
    for value in reversed(long):
        other.add([pa.array([value], pa.large_binary())])
    assert one == other
    middle = len(long[0]) // 2
    bad = long[0][:middle] + bytes([long[0][middle] ^ 1]) + long[0][middle + 1 :]
    changed.add([pa.array([bad, *long[1:]], pa.large_binary())])
    assert changed.sum != one.sum
