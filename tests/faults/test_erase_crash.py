"""An erasure that is killed with signal 9 at its steps, and run again.

Whatever the moment: every window shows all other rows, the engine opens the array, and the same
command, run again, leaves no byte of what was to be erased.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.array_places import OnDisk, digest, read_all
from support.crashing import Crasher, crasher

import chronotile as ct

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

WHO = "Qz7-Vexley-patient"
WHERE = f"s == '{WHO}'"
WINDOWS = [(0, 10), (0, 20), (0, 30), (0, 1 << 60), (11, 1 << 60)]
MOST = int(os.environ.get("CHRONOTILE_KILLS", "6"))
"""Steps to kill it at, spread over all; `CHRONOTILE_KILLS=1000` takes every one."""


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


def scene(folder: pathlib.Path, *, duplicates: bool) -> None:
    """A fragment to rewrite, one to remove, deletes that name a value in a `.con`, a record."""
    plain = tiledb.FilterList([tiledb.NoOpFilter()])
    domain = tiledb.Domain(tiledb.Dim("d", domain=(0, 99), tile=10, dtype="int64"))
    attribute = tiledb.Attr("s", dtype="ascii", var=True, filters=plain)
    schema = tiledb.ArraySchema(
        domain=domain, attrs=[attribute], sparse=True, allows_duplicates=duplicates
    )
    uri = str(folder)
    tiledb.Array.create(uri, schema)
    for at, rows in ((10, {1: "x", 2: WHO, 3: "y"}), (20, {4: WHO})):
        with tiledb.open(uri, "w", timestamp=at) as array:
            array[[*rows]] = np.array([*rows.values()], dtype="S")
    ct.open(uri).delete(f"{WHERE} or d == 1", at=30)
    ct.open(uri).consolidate("all")


def rows(uri: str) -> dict[tuple[int, int], list[tuple[Any, ...]]]:
    answers = {}
    for window in WINDOWS:
        with tiledb.open(uri, timestamp=window) as array:
            read = array[:]
            answers[window] = sorted(zip(read["d"].tolist(), read["s"].tolist(), strict=True))
    return answers


def others(uri: str) -> dict[tuple[int, int], list[tuple[Any, ...]]]:
    return {w: [one for one in found if one[1] != WHO.encode()] for w, found in rows(uri).items()}


@pytest.mark.parametrize("duplicates", [False, True], ids=["places", "duplicates"])
def test_killed_anywhere_it_goes_on(
    killed: Crasher, tmp_path: pathlib.Path, *, duplicates: bool
) -> None:
    scene(tmp_path / "array", duplicates=duplicates)
    place = OnDisk(tmp_path / "array")
    files, uri = read_all(place.folder), place.uri
    wanted = others(uri)
    what = f"erase {json.dumps({'where': WHERE})}"
    _, total = killed.run(what, uri)
    assert rows(uri) == wanted
    assert total > 40
    steps = np.unique(np.linspace(1, total, min(MOST, total)).astype(int)).tolist()
    known: set[str] = set()
    for at in steps:
        place.reset(files)
        died, _ = killed.run(what, uri, die_at=at)
        assert died, f"it ended before step {at} of {total}"
        left = digest(place.files())
        if left in known:
            continue
        known.add(left)
        assert others(uri) == wanted, f"killed at step {at} of {total}"
        killed.run(what, uri)
        assert rows(uri) == wanted, f"killed at step {at} of {total}, then run again"
        held = [name for name, data in place.files().items() if WHO.encode() in data]
        assert held == [], f"killed at step {at} of {total}, then run again"
        folders = {path.name for path in (place.folder / "__fragments").iterdir()}
        shown = {one.name for one in ct.open_log(uri).view().fragments}
        assert folders == shown, f"killed at step {at} of {total}: something is left behind"
