"""The layouts before format 12, by the engines that wrote them.

In: an empty scene. Out: arrays with `.ok` files in the root, `__array_schema.tdb` and names of
the second and third era. Runs under Python 3.7 and tiledb 0.4.4: the Python package only.
"""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import tiledb
from corpus.recipes.scene import Recipe, Scene

ENGINES = ("0.4.4", "0.5.9", "0.6.6", "0.8.11", "0.11.5")


CLOCK = tiledb.libtiledb.version() < (2, 0)
"""Those engines write at the time of the clock, whatever one asks for."""


def _create(scene: Scene, *, sparse: bool) -> None:
    dim = tiledb.Dim("x", domain=(1, 8), tile=4, dtype="int64", ctx=scene.ctx())
    scene.create([dim], [tiledb.Attr("a", dtype="int32", ctx=scene.ctx())], sparse=sparse)


def _put(scene: Scene, at: int, where: Any, values: Any) -> None:
    if CLOCK:
        time.sleep(0.003)
        with scene.open("w", None) as array:
            array[where] = np.array(values, dtype="int32")
        names = [entry.name for entry in scene.folder.iterdir()]
        scene.times += [int(one) for name in names for one in re.findall(r"_(\d{13})\b", name)]
        scene.times += [int(one) for name in names for one in re.findall(r"_(\d{13})_", name)]
        return
    scene.times.append(at)
    with scene.open("w", at) as array:
        array[where] = np.array(values, dtype="int32")


def sparse(scene: Scene) -> None:
    _create(scene, sparse=True)
    _put(scene, 10, np.array([1, 2, 3]), [1, 2, 3])
    _put(scene, 30, np.array([3, 4]), [30, 40])


def sparse_consolidated(scene: Scene) -> None:
    sparse(scene)
    tiledb.consolidate(scene.uri, ctx=scene.ctx())
    _put(scene, 40, np.array([8]), [8])


def dense(scene: Scene) -> None:
    _create(scene, sparse=False)
    _put(scene, 10, slice(1, 9), [1, 2, 3, 4, 5, 6, 7, 8])
    _put(scene, 30, slice(3, 5), [30, 40])


def dense_consolidated(scene: Scene) -> None:
    dense(scene)
    tiledb.consolidate(scene.uri, ctx=scene.ctx())
    _put(scene, 40, slice(8, 9), [800])


def vacuumed(scene: Scene) -> None:
    sparse_consolidated(scene)
    tiledb.vacuum(scene.uri, ctx=scene.ctx())


def footers(scene: Scene) -> None:
    sparse(scene)
    scene.meta(25, word="old", number=7)
    config = tiledb.Config({"sm.consolidation.mode": "fragment_meta"})
    tiledb.consolidate(scene.uri, config=config, ctx=tiledb.Ctx(config))


RECIPES = (
    Recipe("old-sparse", "the layout of its time, sparse", sparse, ENGINES[:2]),
    Recipe(
        "old-sparse-consolidated",
        "the layout of its time, sparse, consolidated",
        sparse_consolidated,
        ENGINES,
    ),
    Recipe(
        "old-dense-consolidated",
        "the layout of its time, dense, consolidated",
        dense_consolidated,
        ENGINES[::2],
    ),
    Recipe("old-vacuumed", "the layout of its time, consolidated, vacuumed", vacuumed, ENGINES[4:]),
    Recipe("old-footers", ".meta files in the root, and metadata", footers, ENGINES[3:4]),
)
