"""Inventories against a LIST of the same bucket: the same arrays, the same listings."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.corpus_cases import CASES
from support.inventories import make_inventory

from chronotile.dataset import inventory_arrays
from chronotile.dataset.find_arrays import find_arrays
from chronotile.dataset.inventory import prefixes_in, read_manifest, read_objects
from chronotile.dataset.inventory_arrays import listing_rows, whole_arrays
from chronotile.errors import ChronotileError, StorageError
from chronotile.history.listing import LISTED, list_array
from chronotile.spark.stream.offsets import listing_fingerprint
from chronotile.storage.known_listing_store import listed
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
        assert listing_fingerprint(known, found, 0) == listing_fingerprint(live, found, 0)
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


AZURE: dict[str, Any] = {
    "destinationContainer": "home",
    "endpoint": "https://account.blob.core.windows.net",
    "files": [{"blob": "2026/01/02/00-00-00/lake/lake.csv", "size": 1}],
    "inventoryCompletionTime": "2026-01-02T00:10:00Z",
    "inventoryStartTime": "2026-01-02T00:00:00Z",
    "ruleDefinition": {
        "filters": {"blobTypes": ["blockBlob"], "prefixMatch": ["lake/a"]},
        "format": "csv",
        "objectType": "blob",
        "schedule": "daily",
        "schemaFields": ["Name", "Last-Modified", "Content-Length", "Etag"],
    },
    "ruleName": "lake",
    "status": "Succeeded",
    "summary": {"objectCount": 3, "totalObjectSize": 10},
    "version": "1.0",
}
"""A manifest as Azure's pages show it."""


def azure(name: str, rule: dict[str, Any], data: bytes, *roots: str, **more: Any) -> Any:
    """The objects of an inventory of Azure, and the bucket that it is of."""
    store = open_store("memory:azure")
    store.put_if_absent(f"{name}.data", data)
    words = {**AZURE, "ruleDefinition": {**AZURE["ruleDefinition"], **rule}, **more}
    store.put_if_absent(f"{name}-manifest.json", json.dumps(words).encode())
    found = read_manifest(f"memory://azure/{name}-manifest.json", None, roots)
    assert found.files[0].uri == "az://home/2026/01/02/00-00-00/lake/lake.csv"
    assert found.created_ms == 1767312000000
    file = found.files[0]._replace(uri=f"memory://azure/{name}.data")
    return read_objects(found, file).to_pylist(), found.bucket


def test_inventories_of_azure_by_its_pages() -> None:
    """The container stands in front of each name; versions, snapshots and folders are told."""
    header = b"Name,Last-Modified,Content-Length,Etag\n"
    lines = b"lake/a/__schema/s,2026-01-02T03:04:05Z,7,0x8D\nother/b/__schema/s,,8,1\n"
    schema = {"key": "a/__schema/s", "size": 7, "modified_ms": 1767323045000, "etag": '"0x8D"'}
    assert azure("plain", {}, header + lines) == ([schema], "az://lake")
    # A rule without a prefix, or with several, is of all containers: the root says which one.
    for number, prefixes in enumerate(([], ["lake", "other"])):
        rule: dict[str, Any] = {"filters": {"prefixMatch": prefixes}}
        found, bucket = azure(f"all-{number}", rule, header + lines, "az://other/b")
        assert ([one["key"] for one in found], bucket) == (["b/__schema/s"], "az://other")
        with pytest.raises(ChronotileError, match="expected one container"):
            azure(f"none-{number}", rule, header + lines)
    # Parquet, with dates as timestamps; an old version, a snapshot, a deleted blob, a folder.
    when = pa.array([1767323045000] * 6, pa.timestamp("ms"))
    columns = {
        "Name": [f"lake/a/{name}" for name in ("new", "plain", "old", "snap", "gone", "folder")],
        "Last-Modified": when,
        "Content-Length": pa.array(range(6), pa.int64()),
        "Etag": ["0x1"] * 6,
        "VersionId": ["v2", None, "v1", None, None, None],
        "IsCurrentVersion": [True, None, None, None, None, None],
        "Snapshot": [None, None, None, "2026-01-01T00:00:00.0000000Z", None, None],
        "Deleted": [None, None, None, None, True, None],
        "hdi_isfolder": [None, None, None, None, None, True],
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    found, _ = azure("parquet", {"format": "parquet"}, buffer.getvalue())
    assert [(one["key"], one["size"], one["modified_ms"]) for one in found] == [
        ("a/new", 0, 1767323045000),
        ("a/plain", 1, 1767323045000),
    ]
    text = b"Name,VersionId,IsCurrentVersion,Snapshot\nlake/x,v2,true,\nlake/x,v1,,\nlake/y,,,\n"
    assert [one["key"] for one in azure("versions", {}, text)[0]] == ["x", "y"]
    more: dict[str, Any]
    for name, rule, more, words in (
        ("failed", {}, {"status": "PartiallySucceeded"}, "a run that succeeded"),
        ("containers", {"objectType": "container"}, {}, "a rule of the type blob"),
    ):
        with pytest.raises(ChronotileError, match=words):
            azure(name, rule, b"", **more)


def google(name: str, config: dict[str, Any], shards: dict[str, bytes]) -> Any:
    """The objects of an inventory of Google, and the bucket that it is of."""
    store = open_store("memory:google")
    for shard, data in shards.items():
        store.put_if_absent(f"{name}/{shard}", data)
    words = {
        "report_config": {"frequencyOptions": {"frequency": "DAILY"}, **config},
        "records_processed": 2,
        "snapshot_time": "2026-01-02T00:00:00Z",
        "shard_count": len(shards),
        "report_shards_file_names": list(shards),
    }
    store.put_if_absent(f"{name}/x_manifest.json", json.dumps(words).encode())
    found = read_manifest(f"memory://google/{name}/x_manifest.json")
    assert found.created_ms == 1767312000000
    every = [row for file in found.files for row in read_objects(found, file).to_pylist()]
    return every, found.bucket


def test_inventories_of_google_by_its_pages() -> None:
    """Shards are named; CSV has any delimiter, and a header or the fields in their order."""
    fields = ["bucket", "name", "size", "etag", "updated", "timeDeleted"]
    options = {"metadataFields": fields, "storageFilters": {"bucket": "lake"}}
    config = {"objectMetadataReportOptions": options}
    wanted = {"key": "a/__schema/s", "size": 9, "modified_ms": 1767323045000, "etag": '"CJ=="'}
    columns = {"bucket": ["lake"], "name": ["a/__schema/s"], "size": ["9"], "etag": ["CJ=="]}
    buffer = io.BytesIO()
    pq.write_table(pa.table({**columns, "updated": ["2026-01-02T03:04:05.6Z"]}), buffer)
    shards = {"x_0.parquet": buffer.getvalue()}
    assert google("parquet", {**config, "parquetOptions": {}}, shards) == ([wanted], "gs://lake")
    line = b"lake|a/__schema/s|9|CJ==|2026-01-02T03:04:05.600Z|\n"
    gone = b"lake|a/gone|9|CJ==|2026-01-02T03:04:05.600Z|2026-01-02T03:04:05Z\n"
    bare = {**config, "csvOptions": {"delimiter": "|", "recordSeparator": "\n"}}
    shards = {"x_0.csv": line, "x_1.csv": gone}
    assert google("bare", bare, shards) == ([wanted], "gs://lake")
    snake = {
        "object_metadata_report_options": {
            "metadata_fields": fields,
            "storage_filters": {"bucket": "lake"},
        },
        "csv_options": {"delimiter": "|", "header_required": True},
    }
    head = "|".join(fields).encode() + b"\n"
    assert google("headed", snake, {"x_0.csv": head + line}) == ([wanted], "gs://lake")
    plain = (head + line).replace(b"|", b",")
    assert google("plain", config, {"x_0.csv": plain}) == ([wanted], "gs://lake")


def test_what_is_no_inventory_is_refused() -> None:
    store = open_store("memory:no-inventory")
    for name, data in {"a": b"[]", "b": b'{"sourceBucket": 1}', "c": b"\xff"}.items():
        store.put_if_absent(f"{name}.json", data)
        with pytest.raises(ChronotileError, match="expected the manifest of an inventory"):
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


PARTS = st.sampled_from(
    ("a", "__x", "", "__schema", "__fragments", "__commits", "__enumerations", "__1_2", "s\n", "é")
)


@given(st.lists(st.lists(PARTS, min_size=1, max_size=6).map("/".join), min_size=1, max_size=30))
def test_usual_keys_are_split_as_the_expression_does(keys: list[str]) -> None:
    given_keys = pa.array(keys, pa.string())
    usual = inventory_arrays._usual(given_keys)
    found = inventory_arrays._split_usual(given_keys.filter(usual))
    wanted = pc.extract_regex(given_keys.filter(usual), inventory_arrays._KEY)
    assert found[0].to_pylist() == [one["root"] for one in wanted.to_pylist()]
    assert found[1].to_pylist() == [one["path"] for one in wanted.to_pylist()]
    deep = found[1].filter(pc.match_substring_regex(found[1], inventory_arrays._DEEPER))
    folders = pc.replace_substring_regex(deep, inventory_arrays._DEEPER, r"\1/")
    assert inventory_arrays._folders_of(deep).to_pylist() == folders.to_pylist()
