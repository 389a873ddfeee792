"""The same small histories, written by each engine in turn.

In: an empty scene. Out: a sparse and a dense array with writes, deletes, consolidation, vacuum.
"""

from __future__ import annotations

import tiledb
from corpus.recipes.scene import Recipe, Scene

ENGINES = ("0.19.1", "0.20.0", "0.21.6", "0.24.1", "0.27.1", "0.36.1")


def plain(scene: Scene, *, sparse: bool = True) -> None:
    """An array of one dimension `x` and one attribute `a`."""
    dim = tiledb.Dim("x", domain=(1, 8), tile=4, dtype="int64")
    scene.create([dim], [tiledb.Attr("a", dtype="int32")], sparse=sparse)


def sparse_loose(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 2, 3], a=[1, 2, 3])
    scene.write(20, x=[3, 4], a=[30, 40])
    scene.delete(25, "a < 3")
    scene.write(30, x=[1, 5], a=[100, 50])
    scene.delete(35, "a >= 40 and x != 1 or a == 30")


def sparse_consolidated(scene: Scene) -> None:
    sparse_loose(scene)
    scene.consolidate("fragments", 1, 22)


def sparse_vacuumed(scene: Scene) -> None:
    sparse_consolidated(scene)
    scene.vacuum("fragments")


def sparse_commits(scene: Scene) -> None:
    sparse_loose(scene)
    scene.consolidate("commits")


def sparse_commits_vacuumed(scene: Scene) -> None:
    sparse_commits(scene)
    scene.vacuum("commits")
    scene.delete(55, "x == 1")


def sparse_everything(scene: Scene) -> None:
    sparse_commits(scene)
    scene.vacuum("commits")
    scene.consolidate("fragments", 5, 22)
    scene.vacuum("fragments")
    scene.consolidate("fragment_meta")


def dense_loose(scene: Scene) -> None:
    plain(scene, sparse=False)
    scene.write(10, x=[1, 8], a=[1, 2, 3, 4, 5, 6, 7, 8])
    scene.write(20, x=[3, 4], a=[30, 40])
    scene.write(40, x=[4, 6], a=[400, 500, 600])


def dense_consolidated(scene: Scene) -> None:
    dense_loose(scene)
    scene.consolidate("fragments", 1, 22)


def dense_vacuumed(scene: Scene) -> None:
    dense_consolidated(scene)
    scene.vacuum("fragments")
    scene.consolidate("commits")
    scene.vacuum("commits")


SOME = ("0.19.1", "0.24.1", "0.36.1")
NEWEST = ENGINES[-1:]
RECIPES = (
    Recipe("sparse-loose", "writes and deletes, all loose", sparse_loose, NEWEST),
    Recipe(
        "sparse-consolidated",
        "deletes, and writes up to 20 consolidated into a fragment with a time per cell; .vac kept",
        sparse_consolidated,
        ENGINES,
    ),
    Recipe("sparse-vacuumed", "the same, vacuumed", sparse_vacuumed, NEWEST),
    Recipe(
        "sparse-commits",
        "a .con with writes and deletes, the loose ones kept",
        sparse_commits,
        NEWEST,
    ),
    Recipe(
        "sparse-commits-vacuumed",
        "a .con with writes and deletes, the loose ones gone, then further commits",
        sparse_commits_vacuumed,
        ENGINES,
    ),
    Recipe(
        "sparse-everything",
        "commits, fragments and fragment metadata consolidated, vacuumed: .con, .ign, .meta",
        sparse_everything,
        SOME,
    ),
    Recipe(
        "dense-consolidated",
        "a dense array consolidated up to 20, .vac kept",
        dense_consolidated,
        SOME,
    ),
    Recipe(
        "dense-vacuumed",
        "a dense array consolidated and vacuumed, then its commits likewise",
        dense_vacuumed,
        ENGINES,
    ),
)
