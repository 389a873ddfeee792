"""Schemas that change, and the deletes that they leave behind.

In: an empty scene. Out: arrays with several schemas. Their timestamps are those of the clock,
because a schema's name carries the time at which it was made.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tiledb
from corpus.recipes.eras import plain
from corpus.recipes.operators import NEWEST
from corpus.recipes.scene import Recipe, Scene

if TYPE_CHECKING:
    from collections.abc import Callable


def _later() -> int:
    # Two milliseconds apart, so that no two names share one.
    time.sleep(0.002)
    now = int(time.time() * 1000)
    time.sleep(0.002)
    return now


def _evolve(scene: Scene, change: Callable[[Any], None]) -> None:
    scene.times.append(_later())
    evolution = tiledb.ArraySchemaEvolution(scene.ctx())
    change(evolution)
    evolution.array_evolve(scene.uri)
    scene.times.append(_later())


def add(scene: Scene) -> None:
    plain(scene)
    scene.write(_later(), x=[1, 2], a=[1, 2])
    scene.delete(_later(), "a == 1")
    new = tiledb.Attr("b", dtype="U", var=True, nullable=True)
    _evolve(scene, lambda evolution: evolution.add_attribute(new))
    scene.write(_later(), x=[3, 4], a=[3, 4], b=["three", None])
    scene.delete(_later(), "b == 'three'")


def drop(scene: Scene) -> None:
    scene.create(
        [tiledb.Dim("x", domain=(1, 8), tile=4, dtype="int64")],
        [tiledb.Attr("a", dtype="int32"), tiledb.Attr("b", dtype="int32")],
    )
    scene.write(_later(), x=[1, 2], a=[1, 2], b=[10, 20])
    scene.delete(_later(), "a == 1")
    _evolve(scene, lambda evolution: evolution.drop_attribute("b"))
    scene.write(_later(), x=[3], a=[3])


def drop_named(scene: Scene) -> None:
    scene.create(
        [tiledb.Dim("x", domain=(1, 8), tile=4, dtype="int64")],
        [tiledb.Attr("a", dtype="int32"), tiledb.Attr("b", dtype="int32")],
    )
    scene.write(_later(), x=[1, 2], a=[1, 2], b=[10, 20])
    scene.delete(_later(), "b == 10")
    _evolve(scene, lambda evolution: evolution.drop_attribute("b"))
    scene.write(_later(), x=[3], a=[3])


def retype(scene: Scene) -> None:
    scene.create(
        [tiledb.Dim("x", domain=(1, 8), tile=4, dtype="int64")],
        [tiledb.Attr("a", dtype="int32"), tiledb.Attr("b", dtype="int32")],
    )
    scene.write(_later(), x=[1, 2], a=[1, 2], b=[10, 20])
    _evolve(scene, lambda evolution: evolution.drop_attribute("b"))
    new = tiledb.Attr("b", dtype="ascii", var=True)
    _evolve(scene, lambda evolution: evolution.add_attribute(new))
    scene.write(_later(), x=[3, 4], a=[3, 4], b=["ten", "twenty"])
    scene.delete(_later(), "b == 'ten'")


def extend(scene: Scene) -> None:
    labels = tiledb.Enumeration("animals", False, values=["ant", "bee"])
    scene.create(
        [tiledb.Dim("x", domain=(1, 8), tile=4, dtype="int64")],
        [tiledb.Attr("a", dtype="int8", enum_label="animals")],
        enums=[labels],
    )
    scene.write(_later(), x=[1, 2], a=[0, 1])
    more = labels.extend(["cat", "dog"])
    _evolve(scene, lambda evolution: evolution.extend_enumeration(more))
    scene.write(_later(), x=[3, 4], a=[2, 3])
    scene.delete(_later(), "a == 'cat'")


RECIPES = (
    Recipe("schema-add", "an attribute added, deletes before and after", add, NEWEST),
    Recipe("schema-drop", "an attribute dropped that no delete names", drop, NEWEST),
    Recipe("schema-drop-named", "an attribute dropped that a delete names", drop_named, NEWEST),
    Recipe("schema-retype", "an attribute dropped and added with another type", retype, NEWEST),
    Recipe("schema-extend", "an enumeration extended", extend, NEWEST),
)
