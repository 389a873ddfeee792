"""Every operator on every kind of type.

In: an empty scene. Out: an array whose field `a` has the type, and one delete per operator.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import tiledb
from corpus.recipes.scene import Recipe, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NEWEST = ("0.36.1",)
COLOURS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "koi", "lark"]
ACCENTS = ["à", "áb", "âbc", "ä", "æ", "ç", "é", "ê", "ö", "ø", "ü", "日本"]
BLOBS = [bytes([2 * i + 1, 255 - i]) for i in range(12)]


def spread(low: int, high: int) -> Sequence[int]:
    """Twelve values from the least to the greatest of a type.

    >>> spread(0, 255)
    [0, 23, 46, 69, 92, 115, 138, 161, 184, 207, 230, 255]
    """
    step = (high - low) // 11
    return [low + step * at for at in range(11)] + [high]


def every_operator(scene: Scene, v: Sequence[Any]) -> None:
    """Eight deletes, each of which takes a few of the twelve values."""
    scene.delete(20, f"a < {v[2]!r}")
    scene.delete(21, f"a <= {v[2]!r}")
    scene.delete(22, f"a > {v[9]!r}")
    scene.delete(23, f"a >= {v[9]!r}")
    scene.delete(24, f"a == {v[4]!r}")
    scene.delete(25, f"a in [{v[3]!r}, {v[7]!r}]")
    scene.delete(26, f"a not in [{v[5]!r}, {v[6]!r}, {v[8]!r}]")
    scene.delete(27, f"a != {v[6]!r}")
    ends = [one["t"] for one in scene.commits]
    scene.windows = [(0, 10), *((0, at) for at in ends), (10, 24), (11, 27), (0, 99)]


def on_attribute(scene: Scene, attr: Any, values: Sequence[Any], **more: Any) -> None:
    """The operators on an attribute."""
    dim = tiledb.Dim("x", domain=(1, 12), tile=12, dtype="uint8")
    scene.create([dim], [attr], **more)
    scene.write(10, x=list(range(1, 13)), a=values)
    every_operator(scene, values)


def on_dimension(scene: Scene, dim: Any, values: Sequence[Any]) -> None:
    """The operators on a dimension."""
    scene.create([dim], [tiledb.Attr("b", dtype="uint8")])
    scene.write(10, a=values, b=list(range(1, 13)))
    every_operator(scene, values)


def numeric(scene: Scene, dtype: str) -> None:
    if dtype.startswith("float"):
        values = [at / 4 - 1 for at in range(12)]
        on_attribute(scene, tiledb.Attr("a", dtype=dtype), values)
        return
    limits = np.iinfo(dtype)
    on_attribute(scene, tiledb.Attr("a", dtype=dtype), spread(int(limits.min), int(limits.max)))


def text(scene: Scene, dtype: str) -> None:
    words = ACCENTS if dtype == "U" else COLOURS
    on_attribute(scene, tiledb.Attr("a", dtype=dtype, var=True), words)


def char(scene: Scene) -> None:
    on_attribute(scene, tiledb.Attr("a", dtype="S1"), [bytes([97 + at]) for at in range(12)])


def blob(scene: Scene) -> None:
    on_attribute(scene, tiledb.Attr("a", dtype="blob", var=False), [one[:1] for one in BLOBS])


def blob_var(scene: Scene) -> None:
    on_attribute(scene, tiledb.Attr("a", dtype="blob", var=True), BLOBS)


def moment(scene: Scene, dtype: str) -> None:
    values = [1000 * at - 2000 for at in range(12)]
    on_attribute(scene, tiledb.Attr("a", dtype=np.dtype(dtype)), values)


def boolean(scene: Scene) -> None:
    dim = tiledb.Dim("x", domain=(1, 2), tile=2, dtype="uint8")
    scene.create([dim], [tiledb.Attr("a", dtype="bool")])
    pairs = (
        ("a < True", "a >= True"),
        ("a > False", "a <= False"),
        ("a == True", "a != True"),
        ("a in [False]", "a not in [False]"),
    )
    for at, (first, second) in enumerate(pairs):
        scene.write(10 * at + 10, x=[1, 2], a=[False, True])
        scene.delete(10 * at + 13, first)
        scene.delete(10 * at + 16, second)


def enumeration(scene: Scene, ordered: bool) -> None:
    labels = tiledb.Enumeration("animals", ordered, values=COLOURS)
    dim = tiledb.Dim("x", domain=(1, 12), tile=12, dtype="uint8")
    attr = tiledb.Attr("a", dtype="int8", enum_label="animals")
    scene.create([dim], [attr], enums=[labels])
    scene.write(10, x=list(range(1, 13)), a=list(range(12)))
    every_operator(scene, COLOURS)


def number_enumeration(scene: Scene) -> None:
    labels = tiledb.Enumeration("sizes", True, values=np.array([10, 20, 30, 40], dtype="int32"))
    dim = tiledb.Dim("x", domain=(1, 12), tile=12, dtype="uint8")
    attr = tiledb.Attr("a", dtype="uint16", enum_label="sizes", nullable=True)
    scene.create([dim], [attr], enums=[labels])
    scene.write(10, x=[1, 2, 3, 4, 5], a=[0, 1, 2, 3, None])
    scene.delete(20, "a == 30")


def dimension(scene: Scene, dtype: str) -> None:
    if dtype == "ascii":
        dim = tiledb.Dim("a", domain=(None, None), tile=None, dtype="ascii")
        on_dimension(scene, dim, COLOURS)
    elif dtype.startswith("float"):
        dim = tiledb.Dim("a", domain=(-100.0, 100.0), tile=200.0, dtype=dtype)
        on_dimension(scene, dim, [at / 4 - 1 for at in range(12)])
    elif dtype.startswith("datetime"):
        ends = tuple(np.array([-5000, 20000], dtype="int64").view(dtype))
        tile = np.array([20000], dtype="int64").view(dtype.replace("datetime", "timedelta"))[0]
        dim = tiledb.Dim("a", domain=ends, tile=tile, dtype=np.dtype(dtype))
        on_dimension(scene, dim, [1000 * at - 2000 for at in range(12)])
    else:
        low = 0 if dtype.startswith("u") else -60
        dim = tiledb.Dim("a", domain=(low, low + 119), tile=120, dtype=dtype)
        on_dimension(scene, dim, [low + 10 * at for at in range(12)])


NUMBERS = [
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
]
UNITS = {
    "Y": "year",
    "M": "month",
    "D": "day",
    "h": "hr",
    "s": "sec",
    "ms": "ms",
    "us": "us",
    "ns": "ns",
}
DIMENSIONS = [
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float32",
    "float64",
    "ascii",
    "datetime64[D]",
    "datetime64[ns]",
]


def packed(scene: Scene, build: Callable[..., None], options: dict[str, Any]) -> None:
    """Build, then put every commit into one `.con`: a file in place of nine."""
    build(scene, **options)
    if scene.commits:
        scene.consolidate("commits")
        scene.vacuum("commits")


LOOSE = ("int32", "float64", "bool", "char", "utf8", "datetime-ms", "enumeration", "dim-ascii")
"""The types whose deletes stay files of their own."""


def _recipe(name: str, what: str, build: Callable[..., None], *options: Any) -> Recipe:
    about = f"every operator on {what}"
    if name[3:] in LOOSE:
        return Recipe(name, about, functools.partial(build, **dict(options)), NEWEST)
    whole = functools.partial(packed, build=build, options=dict(options))
    return Recipe(name, f"{about}, in a .con", whole, NEWEST)


RECIPES = (
    *(_recipe(f"op-{one}", f"{one} attributes", numeric, ("dtype", one)) for one in NUMBERS),
    _recipe("op-bool", "a bool attribute", boolean),
    _recipe("op-char", "a single-character attribute", char),
    _recipe("op-ascii", "an ASCII string attribute", text, ("dtype", "ascii")),
    _recipe("op-utf8", "a UTF-8 string attribute", text, ("dtype", "U")),
    _recipe("op-bytes", "a variable-length char attribute", text, ("dtype", "S")),
    _recipe("op-blob", "a blob attribute of one byte", blob),
    _recipe("op-blob-var", "a blob attribute of any length, which the engine refuses", blob_var),
    *(
        _recipe(
            f"op-datetime-{word}",
            f"a datetime attribute ({word})",
            moment,
            ("dtype", f"datetime64[{unit}]"),
        )
        for unit, word in UNITS.items()
    ),
    _recipe("op-time-sec", "a time attribute (sec)", moment, ("dtype", "timedelta64[s]")),
    _recipe("op-enumeration", "an ordered enumeration", enumeration, ("ordered", True)),
    _recipe(
        "op-enumeration-unordered", "an unordered enumeration", enumeration, ("ordered", False)
    ),
    Recipe("enumeration-number", "a nullable enumeration of numbers", number_enumeration, NEWEST),
    *(
        _recipe(
            f"op-dim-{one.replace('64[', '-').rstrip(']')}",
            f"a dimension of {one}",
            dimension,
            ("dtype", one),
        )
        for one in DIMENSIONS
    ),
)
