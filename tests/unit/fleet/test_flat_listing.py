"""Flat lists against a walk: the same arrays and groups, and the same listing of each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from chronotile.fleet import flat_listing
from chronotile.fleet.find_arrays import find_arrays, search_folders
from chronotile.fleet.inventory import whole_arrays
from chronotile.fleet.options import Options
from chronotile.fleet.shares import listed_places
from chronotile.history.listing import LISTED, list_array
from chronotile.storage import bucket
from chronotile.storage.overlay import listed
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

TOPS = ["a", "a-1", "a.1", "a0", "a1", "a10", "aa", "A", "_x", "b=1", "b+2", "z", "ab-c", "0", "9"]
"""Folders whose order as names is not that of their keys."""
INSIDE = [
    "__commits/__{n}_{n}_ab_22.wrt",
    "__fragment_meta/__{n}_{n}_ab_22.meta",
    "__fragments/__{n}_{n}_ab_22/d{n}.tdb",
]
OLD = ["__array_schema.tdb", "__{n}_{n}_ab/d{n}.tdb", "__{n}_{n}_ab.ok"]
OTHER = ["{n}.txt", "sub/{n}.txt", "Data/{n}/x", "__meta/__{n}_{n}_ab", "odd~name%{n}"]


def make_tree(place: str, chance: random.Random) -> None:
    """Folders, some of them arrays, groups, or folders above such; with odd names in them."""
    store = open_store(place)

    def fill(folder: str, depth: int) -> None:
        kind = chance.choice(["array", "array", "old", "group", "folder"])
        names = ["__schema/s", *chance.sample(INSIDE, 2)] if kind == "array" else []
        names += OLD if kind == "old" else []
        names += [name for name in OTHER if chance.random() < 0.3]
        if kind == "group":
            names.append(chance.choice(["__group/__{n}_{n}_ab_2", "__tiledb_group.tdb"]))
        for name in names or ["file"]:
            for number in range(chance.choice([1, 1, 3, 30]) if "{n}" in name else 1):
                store.put_if_absent(f"{folder}/{name.format(n=number)}", b"x" * number)
        for child in chance.sample(TOPS, 3) if depth and chance.random() < 0.6 else ():
            fill(f"{folder}/{child}", depth - 1)

    for top in TOPS:
        fill(top, 2)


@pytest.mark.parametrize("seed", range(40))
def test_a_flat_list_finds_what_a_walk_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    place = f"memory://flat-{seed}"
    make_tree(place, chance)
    page = chance.choice([3, 7, 50])
    for module in (flat_listing, bucket):
        monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(flat_listing, "PAGES_OF_ARRAY", chance.choice([1, 2, 8]))
    monkeypatch.setattr(flat_listing, "FEWEST", 2)
    top = find_arrays(place, flat=True)
    (wide,) = top.wide
    assert top.uris == ()
    parts = wide.divided(chance.choice([1, 4, 99]))
    found = [search_folders(part, Options()) for part in parts]
    rows = whole_arrays([one.rows for one in found])
    places = list(listed_places(rows.to_batches()))
    walked = find_arrays(place)
    assert sorted(one.uri for one in places) == list(walked.uris)
    groups = {group for one in found for group in one.groups}
    assert groups >= {*walked.groups}, "those inside of arrays may be told as well"
    for one in places:
        live = open_store(one.uri)
        if one.entries is not None:
            assert list_array(listed(live, one.entries, LISTED)) == list_array(live)


def test_what_cannot_be_listed_flat(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(flat_listing.FEWEST)]
    store = open_store("memory:few")
    assert flat_listing.neighbours(store, names) is not None
    assert flat_listing.neighbours(store, names[1:]) is None, "too few"
    assert flat_listing.neighbours(store, [*names, "a~b"]) is None, "no name to begin at"
    assert flat_listing.neighbours(open_store("az://c"), names) is None, "no list from a key on"
    assert flat_listing.neighbours(open_store(str(tmp_path)), names) is None
