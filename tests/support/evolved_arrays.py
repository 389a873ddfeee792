"""Arrays whose rows, schema and metadata have all changed since a moment.

In: a folder, and the way that a restore to the moment takes. Out: the array and the moment; what an
open of it shows, all of it, by the engine.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tiledb
from support.engine_arrays import EngineArray

from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    import pathlib

WAYS = ("hide", "again", "replay")
"""Of a restore by commits alone; `rewrite` is that by the engine."""


class Shown(NamedTuple):
    """What an open shows."""

    fields: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]
    """Values of the attributes, in the order of the fields, sorted."""
    metadata: tuple[tuple[str, int], ...]


def evolved(folder: pathlib.Path, way: str) -> tuple[EngineArray, int]:
    """An array that lost its attribute `b`, and got other rows and metadata, since a moment."""
    attrs = [tiledb.Attr(name, dtype=np.int32) for name in ("a", "b")]
    array = EngineArray(folder).create(attrs=attrs, sparse=way != "again")
    base = now_ms()
    write(array, base + 1, 1)
    write(array, base + 2, 2)
    with tiledb.open(array.uri, "w", timestamp=base + 2, ctx=array.ctx) as opened:
        opened.meta["k"] = 1
    write(array, base + 3, 3)
    if way in ("again", "rewrite"):
        array.consolidate("fragments")
    if way == "rewrite":
        array.vacuum("fragments")
    if way == "replay":
        # The first must be applied again once the second is gone.
        array.delete(base + 2, "a == 77")
        array.delete(base + 4, "a == 1")
    time.sleep(0.01)
    array.evolve(drop="b")
    with tiledb.open(array.uri, "w", ctx=array.ctx) as opened:
        opened.meta["k"] = 2
    return array, base + 2


def write(array: EngineArray, at: int, value: int) -> None:
    columns = {name: np.array([value, value], np.int32) for name in ("a", "b")}
    with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
        if array.sparse:
            opened[[value, value + 1]] = columns
        else:
            opened[value : value + 2] = columns


def shown(array: EngineArray, end: int | None = None) -> Shown | str:
    """What an open at a time, or now, shows; or the engine's error."""
    try:
        with tiledb.open(array.uri, timestamp=end, ctx=array.ctx) as opened:
            fields = tuple(opened.schema.attr(at).name for at in range(opened.schema.nattr))
            found = opened[:] if array.sparse else opened[0:6]
            named: dict[str, Any] = found if isinstance(found, dict) else {fields[0]: found}
            rows = zip(*(named[name].tolist() for name in fields), strict=True)
            return Shown(fields, tuple(sorted(rows)), tuple(sorted(opened.meta.items())))
    except tiledb.TileDBError as error:
        return f"error: {error}"


def without_b(then: Shown, now: Shown) -> Shown:
    """Rows of then as the schema of now shows them."""
    return Shown(now.fields, tuple(sorted(row[:1] for row in then.rows)), now.metadata)
