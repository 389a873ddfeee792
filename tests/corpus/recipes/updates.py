"""Real update commits, which the engine writes only behind a switch.

In: an empty scene. Out: arrays with `.upd` files.
"""

from __future__ import annotations

import tiledb
from corpus.recipes.eras import plain
from corpus.recipes.operators import NEWEST
from corpus.recipes.scene import Recipe, Scene


def simple(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 2, 3], a=[1, 2, 3])
    scene.update(20, "a == 2", a=777)
    scene.write(30, x=[2], a=[2])
    scene.update(40, "a >= 3 and x < 8", a=-1)
    scene.delete(50, "a == 1")


def typed(scene: Scene) -> None:
    dim = tiledb.Dim("x", domain=(1, 9), tile=9, dtype="uint8")
    attrs = [
        tiledb.Attr("i", dtype="int64"),
        tiledb.Attr("f", dtype="float32"),
        tiledb.Attr("s", dtype="U", var=True),
        tiledb.Attr("n", dtype="int32", nullable=True),
        tiledb.Attr("d", dtype="datetime64[D]"),
        tiledb.Attr("t", dtype="bool"),
        tiledb.Attr("z", dtype="ascii", var=True, nullable=True),
    ]
    scene.create([dim], attrs)
    scene.write(
        10,
        x=[1, 2, 3, 4],
        i=[1, 2, 3, 4],
        f=[0.5, 1.5, 2.5, 3.5],
        s=["a", "é", "", "d"],
        n=[1, None, 3, 4],
        d=[0, 1, 2, 3],
        t=[True, False, True, False],
        z=["z", None, "", "y"],
    )
    scene.update(20, "s == 'é'", i=-9, f=0.25, s="été", n=5, d=20000, t=True, z="w")
    scene.update(40, "x in [3, 9]", n=None, s="", z=None)
    scene.update(60, "i == 1 or f > 9.0", i=12)


def consolidated(scene: Scene) -> None:
    simple(scene)
    scene.consolidate("commits")
    scene.vacuum("commits")


def merged(scene: Scene) -> None:
    simple(scene)
    scene.consolidate("fragments")


RECIPES = (
    Recipe("update", "two updates and a delete", simple, ("0.19.1", "0.36.1")),
    Recipe("update-types", "update values of seven types, NULL among them", typed, NEWEST),
    Recipe(
        "update-commits", "updates, then commits consolidated and vacuumed", consolidated, NEWEST
    ),
    Recipe("update-fragments", "updates, then fragments consolidated", merged, NEWEST),
)
