"""Timestamps that trip: of different digits, equal, huge.

In: an empty scene. Out: arrays whose order in time is not their order as text.
"""

from __future__ import annotations

from corpus.recipes.eras import plain
from corpus.recipes.operators import NEWEST
from corpus.recipes.scene import Recipe, Scene


def digits(scene: Scene) -> None:
    plain(scene)
    scene.write(1, x=[1, 2], a=[1, 2])
    scene.write(9, x=[2, 3], a=[9, 9])
    scene.delete(10, "a == 1")
    scene.write(100, x=[3, 4], a=[100, 100])
    scene.delete(1000, "x == 4")
    scene.write(99, x=[5], a=[99])


def out_of_order(scene: Scene) -> None:
    plain(scene)
    scene.write(30, x=[1, 2], a=[30, 30])
    scene.write(10, x=[2, 3], a=[10, 10])
    scene.write(50, x=[4], a=[50])
    scene.delete(20, "x == 2")
    scene.write(20, x=[1, 5], a=[20, 20])
    scene.consolidate("fragments", 10, 30)
    scene.consolidate("commits")
    scene.vacuum("commits")


def misnamed(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 8], a=[10, 10])
    scene.write(40, x=[4, 8], a=[40, 40])
    scene.consolidate("fragments")
    scene.vacuum("fragments")
    scene.write(20, x=[2, 8], a=[20, 20])
    # Now (10, 40) comes before (20, 20), and the next name is (10, 20).
    scene.consolidate("fragments")


def equal(scene: Scene) -> None:
    plain(scene)
    # No order is defined between equal timestamps, so the cells do not meet.
    scene.write(10, x=[1, 2], a=[1, 2])
    scene.write(10, x=[3, 4], a=[3, 4])
    scene.delete(10, "a == 1")
    scene.delete(10, "a == 3")
    scene.write(20, x=[1], a=[1])
    scene.delete(30, "a == 4")
    scene.delete(30, "a == 4")


def huge(scene: Scene) -> None:
    plain(scene)
    scene.write(1700000000000, x=[1, 2], a=[1, 2])
    scene.delete(1700000000001, "a == 1")
    scene.write(9007199254740993, x=[3], a=[3])
    scene.delete(9007199254740995, "a == 2")


def twice_consolidated(scene: Scene) -> None:
    plain(scene)
    for at in (10, 20, 30, 40, 50):
        scene.write(at, x=[at // 10, 8], a=[at, at])
    scene.delete(25, "a == 10")
    scene.consolidate("fragments", 10, 20)
    scene.vacuum("fragments")
    scene.consolidate("fragments", 30, 40)
    scene.consolidate("fragments", 10, 40)
    scene.windows = [(0, 20), (0, 35), (15, 35), (20, 30), (21, 29), (35, 50), (0, 50), (10, 40)]


RECIPES = (
    Recipe("digits", "timestamps of one to four digits", digits, NEWEST),
    Recipe(
        "out-of-order", "commits written in another order than their times", out_of_order, NEWEST
    ),
    Recipe("misnamed", "a fragment whose name ends before its last cell", misnamed, NEWEST),
    Recipe("equal-times", "writes and deletes at the same millisecond", equal, NEWEST),
    Recipe("huge-times", "timestamps beyond what a double can hold", huge, NEWEST),
    Recipe(
        "overlaps",
        "fragments consolidated again; windows cut through them",
        twice_consolidated,
        NEWEST,
    ),
)
