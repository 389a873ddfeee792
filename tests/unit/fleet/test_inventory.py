"""Inventories against a LIST of the same bucket: the same arrays, the same listings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from support.corpus_cases import CASES
from support.inventories import make_inventory

from chronotile.errors import ChronotileError, StorageError
from chronotile.fleet.find_arrays import find_arrays
from chronotile.fleet.inventory import (
    listing_rows,
    prefixes_in,
    read_manifest,
    read_objects,
    whole_arrays,
)
from chronotile.fleet.unchanged_arrays import file_stamps, fingerprint_of
from chronotile.history.listing import LISTED, list_array
from chronotile.storage.overlay import listed
from chronotile.storage.store import Entry, open_store

if TYPE_CHECKING:
    from support.servers import S3Server

FEW = 6
"""One array of the corpus in so many."""
CORPUS = next(iter(CASES.values())).array.parents[1]


@pytest.fixture(scope="module")
def lake(s3: S3Server) -> tuple[str, str]:
    """Every array of the corpus, and what is none, in a bucket; and a bucket for inventories."""
    bucket, home = s3.make_bucket("inventory-lake"), s3.make_bucket("inventory-home")
    store = open_store(bucket, s3.options)
    for case in list(CASES.values())[::FEW]:
        for path in (path for path in sorted(case.array.rglob("*")) if path.is_file()):
            store.put_if_absent(f"corpus/{path.relative_to(CORPUS)}", path.read_bytes())
    for key in (
        "notes/a b+c%.txt",
        "odd/__data/array/__schema/__1_1_" + "a" * 32,
        "odd/__data/array/readme.txt",
        "odd/__data/array/__commits/sub/x",
        "odd/__data/array/inner/__schema/__1_1_" + "b" * 32,
        "odd/group/__group/__1_1_" + "c" * 32 + "_2",
        "odd/group/__meta/__1_1_" + "c" * 32,
        "odd/group/__tiledb_group.tdb",
    ):
        store.put_if_absent(key, b"x")
    return bucket, home


@pytest.mark.parametrize("kind", ["csv", "orc", "parquet"])
def test_the_listings_of_an_inventory_are_those_of_a_list(
    lake: tuple[str, str], s3: S3Server, kind: str
) -> None:
    bucket, home = lake
    files = 1 if kind == "csv" else 3
    place = make_inventory(bucket, home, s3.options, kind, files=files, at_ms=1234)
    inventory = read_manifest(place, s3.options)
    assert (inventory.bucket, inventory.created_ms, len(inventory.files)) == (bucket, 1234, files)
    tables = [
        listing_rows(read_objects(inventory, file), inventory.bucket) for file in inventory.files
    ]
    rows = whole_arrays(tables)
    arrays = [array for array in rows["array"].unique().to_pylist() if "inner" not in array]
    expected = [array for array in find_arrays(bucket, s3.options).uris if "inner" not in array]
    assert arrays == sorted(expected)
    assert any("odd/__data/array" in array for array in arrays)
    for array in arrays:
        own = rows.filter(pa.compute.equal(rows["array"], array)).to_pylist()
        names = ("path", "size", "modified_ms", "etag")
        entries = [Entry(*(row[name] for name in names)) for row in own]
        live = open_store(array, s3.options)
        known = listed(live, entries, LISTED)
        found = list_array(known)
        assert found == list_array(live), array
        stamps = [file_stamps(store, found, 0) for store in (known, live)]
        assert None not in stamps
        assert len({fingerprint_of(found, one or {}) for one in stamps}) == 1
    with pytest.raises(StorageError, match="expected only reading"):
        known.remove(["x"])


def test_an_array_inside_another_is_a_part_of_it(lake: tuple[str, str], s3: S3Server) -> None:
    bucket, home = lake
    place = make_inventory(bucket, f"{home}/one", s3.options, "parquet", files=1)
    manifest = json.loads(open_store(f"{home}/one/inv/parquet", s3.options).read("manifest.json"))
    manifest["destinationBucket"] = home.removeprefix("s3://") + "/one"
    store = open_store(f"{home}/two", s3.options)
    store.put_if_absent("manifest.json", json.dumps(manifest).encode())
    inventory = read_manifest(f"{home}/two/manifest.json", s3.options)
    objects = read_objects(inventory, inventory.files[0])
    below = prefixes_in(inventory, [f"{bucket}/odd"])
    rows = whole_arrays([listing_rows(objects, bucket, below)])
    assert rows["array"].unique().to_pylist() == [f"{bucket}/odd/__data/array"]
    assert rows["array"].unique().to_pylist() == list(find_arrays(f"{bucket}/odd", s3.options).uris)
    assert place.endswith("manifest.json")


def test_what_is_no_inventory_is_refused() -> None:
    store = open_store("memory:no-inventory")
    azure = b'{"destinationContainer": "home", "files": [], "ruleDefinition": {"format": "csv"}}'
    others = {"a": b"[]", "b": b'{"sourceBucket": 1}', "c": b"\xff", "azure": azure}
    for name, data in others.items():
        store.put_if_absent(f"{name}.json", data)
        with pytest.raises(ChronotileError, match="expected the manifest of an S3 Inventory"):
            read_manifest(f"memory://no-inventory/{name}.json")
    words: dict[str, Any] = {"sourceBucket": "b", "destinationBucket": "h", "fileFormat": "Parquet"}
    words |= {"creationTimestamp": "1", "fileSchema": "", "files": [{"key": "x", "size": 1}]}
    store.put_if_absent("d.json", json.dumps(words).encode())
    inventory = read_manifest("memory://no-inventory/d.json")
    store.put_if_absent("x", b"no parquet")
    files = [file._replace(uri="memory://no-inventory/x") for file in inventory.files]
    with pytest.raises(StorageError, match="expected parquet, found what cannot be read"):
        read_objects(inventory, files[0])
    store.put_if_absent("y.csv", b"a,b\n1,2\n")
    one = files[0]._replace(uri="memory://no-inventory/y.csv")
    with pytest.raises(ChronotileError, match="expected a column of keys"):
        read_objects(replace(inventory, format="csv", header=None), one)
    with pytest.raises(ChronotileError, match="expected a folder of s3://b"):
        prefixes_in(inventory, ["s3://elsewhere/x"])
