"""Array metadata, and the labels of a dimension.

In: an empty scene. Out: arrays with `__meta` and `__labels`.
"""

from __future__ import annotations

import numpy as np
import tiledb
from corpus.recipes.eras import ENGINES, plain
from corpus.recipes.operators import NEWEST
from corpus.recipes.scene import Recipe, Scene


def values(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1], a=[1])
    scene.meta(10, word="é", number=1, fraction=0.5, raw=b"\xff\x00", several=(1, 2, 3))
    scene.meta(20, number=2, empty="")
    scene.meta(30, drop="word")
    scene.meta(40, word="back", drop="fraction")


def consolidated(scene: Scene) -> None:
    values(scene)
    scene.consolidate("array_meta", 5, 30)


def vacuumed(scene: Scene) -> None:
    consolidated(scene)
    scene.vacuum("array_meta")


def labels(scene: Scene) -> None:
    dim = tiledb.Dim("x", domain=(1, 4), tile=4, dtype="int32")
    attr = tiledb.Attr("a", dtype="int32")
    named = {0: {"place": dim.create_label_schema("increasing", np.float64)}}
    schema = tiledb.ArraySchema(tiledb.Domain(dim), attrs=[attr], dim_labels=named)
    scene.sparse = False
    tiledb.Array.create(scene.uri, schema)
    for at in (10, 20):
        scene.times.append(at)
        with scene.open("w", at) as array:
            cells = np.arange(at, at + 4, dtype="int32")
            array[:] = {"a": cells, "place": np.arange(at, at + 4, dtype="float64")}


RECIPES = (
    Recipe("meta", "metadata of several types, changed and dropped", values, NEWEST),
    Recipe(
        "meta-consolidated", "metadata consolidated, .vac kept", consolidated, ENGINES[:1] + NEWEST
    ),
    Recipe("meta-vacuumed", "metadata consolidated and vacuumed", vacuumed, NEWEST),
    Recipe("labels", "a dense array with dimension labels", labels, NEWEST),
)
