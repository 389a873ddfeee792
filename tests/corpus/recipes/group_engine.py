"""Groups that the engine itself makes: nested, grown, renamed, copied, of both versions.

In: a folder and the name of a case. Out: `<folder>/group`. Engines before 2.12 write version 1.
"""

from __future__ import annotations

import pathlib
import shutil
import sys

import numpy as np
import tiledb


def make_array(place: pathlib.Path, times: list[int], *, dense: bool = False) -> None:
    """An array with a write at each time."""
    dim = tiledb.Dim("d", domain=(0, 9), tile=5, dtype=np.int32)
    schema = tiledb.ArraySchema(
        tiledb.Domain(dim), [tiledb.Attr("a", dtype=np.int32)], sparse=not dense
    )
    tiledb.Array.create(str(place), schema)
    for at in times:
        with tiledb.open(str(place), "w", timestamp=at) as array:
            if dense:
                array[0:2] = {"a": np.array([at, at], np.int32)}
            else:
                array[[at % 10]] = {"a": np.array([at], np.int32)}


def session(place: pathlib.Path, at: int, *steps: tuple[str, ...]) -> None:
    """Adds (uri, name) below the group, or removes a name, at a time."""
    settings = {"sm.group.timestamp_end": str(at)}
    group = tiledb.Group(str(place), "w", tiledb.Config(settings))
    for step in steps:
        if len(step) == 1:
            group.remove(step[0])
        else:
            group.add(step[0], step[1], not step[0].startswith("/"))
    group.close()


def nested(group: pathlib.Path) -> None:
    """Arrays and a group in a group; grown, renamed, removed; a dense one merged and vacuumed."""
    tiledb.Group.create(str(group))
    tiledb.Group.create(str(group / "inner"))
    make_array(group / "cells", [10, 30, 50])
    make_array(group / "inner" / "dense", [12, 20, 40], dense=True)
    make_array(group / "inner" / "later", [45])
    session(group, 10, ("cells", "cells"), ("inner", "inner"))
    session(group / "inner", 12, ("dense", "dense"))
    session(group / "inner", 45, ("later", "later"))
    session(group, 50, ("cells",))
    session(group, 51, ("cells", "renamed"))
    session(group / "inner", 60, ("later",))
    merge = {"sm.consolidation.timestamp_end": "20", "sm.consolidation.mode": "fragments"}
    tiledb.consolidate(str(group / "inner" / "dense"), config=tiledb.Config(merge))
    tiledb.vacuum(
        str(group / "inner" / "dense"), config=tiledb.Config({"sm.vacuum.mode": "fragments"})
    )


def odd(group: pathlib.Path) -> None:
    """Copied, with absolute URIs of the old place; cyclic, doubled, missing; a stray."""
    old = group.parent / "before"
    tiledb.Group.create(str(old))
    tiledb.Group.create(str(old / "inner"))
    make_array(old / "cells", [10, 20])
    make_array(old / "stray", [10])
    make_array(old / "gone", [10])
    session(old, 10, (str(old / "cells"), "cells"), ("inner", "inner"), ("gone", "gone"))
    session(old, 20, ("cells", "again"))
    shutil.rmtree(old / "gone")
    shutil.copytree(old, group)
    shutil.rmtree(old)


def first_version(group: pathlib.Path) -> None:
    """Version 1: each list alone tells the members, and none is deleted."""
    tiledb.group_create(str(group))
    for name, at in (("a", 10), ("b", 20), ("c", 30)):
        make_array(group / name, [at])
        writer = tiledb.Group(str(group), "w")
        writer.add(name, name, True)
        if name == "c":
            writer.remove("a")
        writer.close()


CASES = {"nested": nested, "odd": odd, "first-version": first_version}

if __name__ == "__main__":
    CASES[sys.argv[2]](pathlib.Path(sys.argv[1]) / "group")
