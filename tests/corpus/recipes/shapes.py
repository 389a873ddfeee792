"""Conditions and commit files of unusual shape.

In: an empty scene. Out: arrays with nested, long or many conditions, and every text file.
"""

from __future__ import annotations

from typing import Any

import tiledb
from corpus.recipes.eras import plain
from corpus.recipes.operators import NEWEST
from corpus.recipes.scene import Recipe, Scene


def nested(scene: Scene) -> None:
    dims = [
        tiledb.Dim("x", domain=(1, 9), tile=9, dtype="int32"),
        tiledb.Dim("y", domain=(None, None), tile=None, dtype="ascii"),
    ]
    attrs = [tiledb.Attr("a", dtype="int32"), tiledb.Attr("b c.d", dtype="U", var=True)]
    scene.create(dims, attrs)
    cells: dict[str, list[Any]] = {
        "x": [1, 2, 3, 4, 5, 6],
        "y": ["p", "q", "r", "s", "t", "u"],
        "a": [1, -2, 3, -4, 5, -6],
        "b c.d": ["", "é", "two words", "it's", 'a "b"', "tail"],
    }
    scene.write(10, **cells)
    scene.delete(20, "a < 0 and (x < 3 or x > 5)")
    scene.delete(30, "(a == 1 or a == 99) and y in ['p', 'z'] or x == 4 and y >= 's' and a != 0")
    scene.write(40, **cells)
    scene.delete(
        50, "((x == 1 or x == 2) and (a == 1 or a == 2)) or (y == 'u' and (x == 6 or a == 6))"
    )
    scene.delete(60, "attr('b c.d') == \"it's\" or attr('b c.d') in ['two words', 'a \\\"b\\\"']")


def long_list(scene: Scene) -> None:
    dim = tiledb.Dim("x", domain=(1, 9), tile=9, dtype="uint8")
    scene.create([dim], [tiledb.Attr("a", dtype="int16")])
    scene.write(10, x=[1, 2, 3, 4], a=[1, 2, 3001, 3002])
    scene.delete(20, f"a in {list(range(-3700, 3800, 2))} or a in {list(range(2999, 6800, 1))}")
    scene.write(30, x=[1, 2, 3, 4], a=[1, 2, 3001, 3002])


def many_deletes(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 2, 3, 4, 5], a=[1, 2, 3, 4, 5])
    scene.delete(20, "a == 1")
    scene.delete(30, "a == 3 or x == 4")
    scene.write(40, x=[1], a=[11])
    scene.delete(50, "a in [5, 11]")
    scene.consolidate("commits")
    scene.vacuum("commits")


def two_cons(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 2], a=[1, 2])
    scene.delete(20, "a == 1")
    scene.consolidate("commits")
    scene.write(30, x=[3], a=[3])
    scene.delete(40, "a == 2")
    scene.consolidate("commits")


def two_cons_vacuumed(scene: Scene) -> None:
    plain(scene)
    for at in (10, 20, 30):
        scene.write(at, x=[at // 10], a=[at])
        scene.consolidate("commits")
        scene.vacuum("commits")


def ignored(scene: Scene) -> None:
    many_deletes(scene)
    tiledb.Array.delete_fragments(scene.uri, 35, 45)
    scene.write(60, x=[8], a=[80])


def ignored_loose(scene: Scene) -> None:
    plain(scene)
    for at in (10, 20, 30):
        scene.write(at, x=[at // 10, 8], a=[at, at])
    scene.consolidate("commits")
    tiledb.Array.delete_fragments(scene.uri, 15, 25)


def only_con(scene: Scene) -> None:
    dim = tiledb.Dim("x", domain=(1, 1000), tile=10, dtype="int32")
    scene.create([dim], [tiledb.Attr("a", dtype="int32")], capacity=2)
    scene.write(10, x=[1, 2, 3, 4, 5, 6, 7], a=[1, 2, 3, 4, 5, 6, 7])
    scene.write(20, x=[7, 8, 9, 10, 11, 12], a=[70, 80, 90, 100, 110, 120])
    scene.delete(25, "a > 4 and a < 100")
    scene.consolidate("fragments", max_fragment_size="600")
    scene.vacuum("fragments")


def duplicates(scene: Scene) -> None:
    dim = tiledb.Dim("x", domain=(1, 8), tile=4, dtype="int64")
    scene.create([dim], [tiledb.Attr("a", dtype="int32")], allows_duplicates=True)
    scene.write(10, x=[1, 1, 2], a=[1, 2, 3])
    scene.write(20, x=[1, 2], a=[4, 5])
    scene.delete(30, "x == 1 and a < 3")
    scene.write(40, x=[1], a=[1])
    scene.consolidate("fragments", 1, 20)


def dense_square(scene: Scene) -> None:
    dims = [tiledb.Dim(one, domain=(0, 3), tile=2, dtype="uint16") for one in ("x", "y")]
    attrs = [
        tiledb.Attr("a", dtype="int8", nullable=True),
        tiledb.Attr("s", dtype="ascii", var=True),
    ]
    scene.create(dims, attrs, sparse=False)
    scene.write(10, x=[0, 1], y=[0, 1], a=[1, None, 3, 4], s=["a", "", "c", "dd"])
    scene.write(20, x=[1, 2], y=[1, 1], a=[None, 6], s=["e", "f"])
    scene.write(30, x=[3, 3], y=[0, 3], a=[7, 8, 9, 10], s=["g", "h", "i", "j"])
    scene.consolidate("fragments", 10, 20)
    scene.consolidate("fragment_meta")


def bare(scene: Scene) -> None:
    plain(scene)
    scene.windows = [(0, 0), (0, 10), (5, 10), (0, 1 << 50)]


def only_delete(scene: Scene) -> None:
    plain(scene)
    scene.delete(10, "a == 1")
    scene.write(20, x=[1], a=[1])
    scene.delete(30, "a == 2")


RECIPES = (
    Recipe("nested", "and/or nested, two dimensions, odd field names", nested, NEWEST),
    Recipe("long-list", "IN lists that fill several chunks of a tile", long_list, NEWEST),
    Recipe(
        "con-many-deletes", "a .con with several deletes, loose ones gone", many_deletes, NEWEST
    ),
    Recipe("con-twice", "two .con files, each with the same delete", two_cons, NEWEST),
    Recipe("con-thrice-vacuumed", "writes only, consolidated thrice", two_cons_vacuumed, NEWEST),
    Recipe("ign", "a write in a .con deleted: .ign", ignored, NEWEST),
    Recipe("ign-loose", "a write both loose and in a .con deleted: .ign", ignored_loose, NEWEST),
    Recipe("con-only", "a maximum fragment size: .con is the only record", only_con, NEWEST),
    Recipe("duplicates", "an array that allows duplicates", duplicates, NEWEST),
    Recipe("dense-square", "a dense array with NULLs, strings and .meta", dense_square, NEWEST),
    Recipe("bare", "a schema and nothing else", bare, NEWEST),
    Recipe("delete-first", "a delete older than the first write", only_delete, NEWEST),
)
