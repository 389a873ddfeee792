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
    if not isinstance(values, dict):
        values = np.array(values, dtype="int32")
    if CLOCK:
        time.sleep(0.003)
        with scene.open("w", None) as array:
            array[where] = values
        names = [entry.name for entry in scene.folder.iterdir()]
        scene.times += [int(one) for name in names for one in re.findall(r"_(\d{13})\b", name)]
        scene.times += [int(one) for name in names for one in re.findall(r"_(\d{13})_", name)]
        return
    scene.times.append(at)
    with scene.open("w", at) as array:
        array[where] = values


def _consolidate_footers(scene: Scene) -> None:
    if not CLOCK:
        config = tiledb.Config({"sm.consolidation.mode": "fragment_meta"})
        tiledb.consolidate(scene.uri, config=config, ctx=tiledb.Ctx(config))


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


def inside_sparse(scene: Scene) -> None:
    """Several tiles, text, and from format 5 on a dimension of text."""
    ctx = scene.ctx()
    dims = [tiledb.Dim("x", domain=(-100, 99), tile=10, dtype="int32", ctx=ctx)]
    if CLOCK:
        dims.append(tiledb.Dim("y", domain=(0, 99), tile=10, dtype="int32", ctx=ctx))
    else:
        dims.append(tiledb.Dim("s", domain=(None, None), tile=None, dtype=np.bytes_, ctx=ctx))
    attrs = [
        tiledb.Attr("i", dtype="int16", ctx=ctx),
        tiledb.Attr("te xt", dtype=np.dtype("U"), ctx=ctx),
        tiledb.Attr("f", dtype="float64", ctx=ctx),
    ]
    scene.create(dims, attrs, capacity=3)
    for at, first, count in ((10, 1, 7), (20, 8, 2), (30, 20, 4)):
        numbers = np.arange(first, first + count)
        second = numbers.astype("int32")
        if not CLOCK:
            second = np.array(["k" * (n % 4) + str(n) for n in numbers], dtype="S")
        where = (numbers.astype("int32") - 5, second)
        text = np.array(["e" * (n % 3 + 1) for n in numbers], dtype="U")
        cells = {"i": -numbers.astype("int16"), "te xt": text, "f": numbers / 4}
        _put(scene, at, where, cells)
    _consolidate_footers(scene)


def inside_dense(scene: Scene) -> None:
    """Domains that are no whole tiles."""
    ctx = scene.ctx()
    dims = [
        tiledb.Dim("x", domain=(3, 9), tile=3, dtype="int64", ctx=ctx),
        tiledb.Dim("y", domain=(1, 4), tile=2, dtype="int64", ctx=ctx),
    ]
    scene.create(dims, [tiledb.Attr("a", dtype="int32", ctx=ctx)], sparse=False)
    _put(scene, 10, (slice(3, 8), slice(1, 3)), np.arange(10).reshape(5, 2))
    _put(scene, 20, (slice(6, 9), slice(2, 4)), np.arange(6).reshape(3, 2))
    _consolidate_footers(scene)


def vacuumed(scene: Scene) -> None:
    sparse_consolidated(scene)
    tiledb.vacuum(scene.uri, ctx=scene.ctx())


def footers(scene: Scene) -> None:
    sparse(scene)
    scene.meta(25, word="old", number=7)
    _consolidate_footers(scene)


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
    Recipe("old-inside-sparse", "fragments of several tiles, sparse", inside_sparse, ENGINES),
    Recipe("old-inside-dense", "fragments of several tiles, dense", inside_dense, ENGINES),
)
