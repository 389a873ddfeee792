"""Arrays whose fragments have all that a fragment's metadata can tell of.

In: an empty scene. Out: sparse and dense arrays with several tiles a fragment, fields of any
length, NULLs, fragments with and without times and deletes, and a `.meta`.
"""

from __future__ import annotations

from typing import Any

import tiledb
from corpus.recipes.eras import ENGINES
from corpus.recipes.scene import Recipe, Scene


def _attributes() -> list[Any]:
    return [
        tiledb.Attr("f", dtype="float64", nullable=True),
        tiledb.Attr("text", dtype="U", var=True, nullable=True),
        tiledb.Attr("u", dtype="uint32"),
        tiledb.Attr("b", dtype="ascii", var=True),
    ]


def _cells(first: int, count: int) -> dict[str, list[Any]]:
    numbers = list(range(first, first + count))
    return {
        "f": [None if n % 3 == 0 else n / 4 for n in numbers],
        "text": [None if n % 4 == 0 else "é" * (n % 3) for n in numbers],
        "u": [n * 1000 for n in numbers],
        "b": ["x" * (n % 5) for n in numbers],
    }


def sparse(scene: Scene) -> None:
    """Times in one fragment, times and deletes in another, neither in the others."""
    dims = [
        tiledb.Dim("x", domain=(-100, 99), tile=10, dtype="int32"),
        tiledb.Dim("s", domain=(None, None), tile=None, dtype="ascii"),
    ]
    scene.create(dims, _attributes(), capacity=3)

    def write(at: int, first: int, count: int) -> None:
        numbers = range(first, first + count)
        keys = ["k" * (n % 4) + str(n) for n in numbers]
        scene.write(at, x=[n - 5 for n in numbers], s=keys, **_cells(first, count))

    write(10, 1, 7)
    write(20, 8, 2)
    scene.consolidate("fragments", 1, 22)
    write(30, 3, 5)
    scene.delete(35, "u == 4000")
    write(36, 20, 4)
    scene.consolidate("fragments", 25, 40)
    scene.vacuum("fragments")
    write(50, 12, 33)
    scene.consolidate("fragment_meta")
    write(60, 50, 1)


def dense(scene: Scene) -> None:
    """Domains that are no whole tiles, and a dimension that starts below 0."""
    dims = [
        tiledb.Dim("x", domain=(-4, 4), tile=3, dtype="int64"),
        tiledb.Dim("y", domain=(1, 4), tile=2, dtype="int64"),
    ]
    scene.create(dims, _attributes(), sparse=False)

    def write(at: int, x: list[int], y: list[int]) -> None:
        count = (x[1] - x[0] + 1) * (y[1] - y[0] + 1)
        scene.write(at, x=x, y=y, **_cells(at, count))

    write(10, [-4, 0], [1, 2])
    write(20, [-1, 1], [2, 3])
    write(30, [4, 4], [4, 4])
    scene.consolidate("fragments", 1, 22)
    scene.consolidate("fragment_meta")


RECIPES = (
    Recipe("inside-sparse", "fragments with all that metadata tells of, sparse", sparse, ENGINES),
    Recipe("inside-dense", "fragments with all that metadata tells of, dense", dense, ENGINES),
    Recipe(
        "inside-secret",
        "encrypted: fragments with all that metadata tells of",
        sparse,
        (ENGINES[0], ENGINES[-1]),
        True,
    ),
)
