"""NULL, the empty string and NaN: where a delete takes more than it was asked to.

In: an empty scene. Out: arrays with nullable fields and deletes on them.
"""

from __future__ import annotations

from typing import Any

import tiledb
from corpus.recipes.operators import COLOURS, NEWEST
from corpus.recipes.scene import Recipe, Scene


def _create(scene: Scene, attr: Any, **more: Any) -> None:
    dim = tiledb.Dim("x", domain=(1, 9), tile=9, dtype="uint8")
    scene.create([dim], [attr], **more)


def _each_anew(scene: Scene, values: list[Any], predicates: list[str]) -> None:
    for at, predicate in enumerate(predicates, 1):
        scene.write(10 * at, x=list(range(1, len(values) + 1)), a=values)
        scene.delete(10 * at + 5, predicate)


def text(scene: Scene) -> None:
    _create(scene, tiledb.Attr("a", dtype="U", var=True, nullable=True))
    asked = ["a == ''", "a == None", "a != None", "a != ''", "a > 'b'", "a in ['', 'c']"]
    _each_anew(scene, ["a", "", None, "c"], asked)


def empty_text(scene: Scene) -> None:
    _create(scene, tiledb.Attr("a", dtype="ascii", var=True))
    _each_anew(scene, ["a", "", "c"], ["a == ''", "a != ''", "a > ''", "a <= ''", "a in ['']"])


def fixed(scene: Scene) -> None:
    _create(scene, tiledb.Attr("a", dtype="int32", nullable=True))
    _each_anew(scene, [1, 2, 3, None], ["a > 2", "a != 2", "a in [1]", "a not in [1, 2]"])


def equals_null(scene: Scene) -> None:
    _create(scene, tiledb.Attr("a", dtype="int32", nullable=True))
    _each_anew(scene, [1, 2, 3, None], ["a > 2", "a == None"])
    scene.write(30, x=[9], a=[9])


def differs_from_null(scene: Scene) -> None:
    _create(scene, tiledb.Attr("a", dtype="int32", nullable=True))
    _each_anew(scene, [1, 2, 3, None], ["a < 2", "a != None"])
    scene.write(30, x=[9], a=[9])


def not_a_number(scene: Scene) -> None:
    _create(scene, tiledb.Attr("a", dtype="float64"))
    _each_anew(scene, [1.0, 3.0, float("nan"), float("inf")], ["a > 2", "a != 1", "a <= 1"])


def blob(scene: Scene) -> None:
    _create(scene, tiledb.Attr("a", dtype="blob", var=True, nullable=True))
    _each_anew(scene, [b"\1", b"", None], ["a == None", "a != None"])


def enumeration(scene: Scene) -> None:
    labels = tiledb.Enumeration("animals", False, values=COLOURS)
    attr = tiledb.Attr("a", dtype="uint8", nullable=True, enum_label="animals")
    _create(scene, attr, enums=[labels])
    _each_anew(scene, [0, 3, None], ["a == 'dog'", "a in ['ant', 'dog']", "a == 'unknown'"])


RECIPES = (
    Recipe("null-text", "NULL and '' in a nullable string: == and != on both", text, NEWEST),
    Recipe("empty-text", "the empty string in a field that cannot be NULL", empty_text, NEWEST),
    Recipe("null-fixed", "deletes on a nullable int32 take the NULL rows too", fixed, NEWEST),
    Recipe("null-bricks-eq", "== None on a nullable int32 breaks every read", equals_null, NEWEST),
    Recipe("null-bricks-ne", "!= None on a nullable int32", differs_from_null, NEWEST),
    Recipe("nan", "deletes on a float64 take the NaN rows too", not_a_number, NEWEST),
    Recipe("null-blob", "== None and != None on a nullable blob", blob, NEWEST),
    Recipe(
        "null-enumeration", "a nullable enumeration; a label that it lacks", enumeration, NEWEST
    ),
)
