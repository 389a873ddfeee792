"""Inventories of buckets: every object of a bucket as a table, without a single LIST.

In: a manifest, as S3 Inventory, Azure Blob Inventory or Google's Storage Insights leave it beside
their files. Out: `Inventory`, and the objects of each file as an Arrow table, each with the array
that it belongs to. Opens no object of the bucket itself.

S3 writes CSV (without a header, keys percent-encoded), ORC or Parquet; Azure CSV with a header or
Parquet, with the container in front of each name; Google CSV, with or without a header and with any
delimiter, or Parquet. Objects that are not the latest version, snapshots, what is deleted, and
marks of deletion or of folders are left out.
"""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet

from chronotile.errors import ChronotileError, StorageError
from chronotile.format.documents import read_json
from chronotile.format.timestamps import now_ms
from chronotile.storage.place import find_place
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OBJECTS = pa.schema(
    [
        ("key", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("etag", pa.string()),
    ]
)
"""What is known of an object."""

_COLUMNS = {
    "key": ("key", "name"),
    "size": ("size", "contentlength"),
    "modified_ms": ("lastmodifieddate", "lastmodified", "updated"),
    "etag": ("etag",),
    "latest": ("islatest", "iscurrentversion"),
    "version": ("versionid",),
    "deleted": ("isdeletemarker", "deleted", "timedeleted"),
    "snapshot": ("snapshot",),
    "folder": ("hdiisfolder",),
}
"""Column -> its names in the inventories of S3, Azure and Google, in small letters alone."""
_MANIFEST_MAX = 256 << 20


class InventoryFile(NamedTuple):
    """One file of an inventory."""

    uri: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What a manifest tells."""

    bucket: str
    """The place of the bucket that was listed, such as `s3://lake`."""
    files: tuple[InventoryFile, ...]
    format: str
    """`csv`, `orc` or `parquet`."""
    created_ms: int
    """When the listing began: what is newer may be missing."""
    header: tuple[str, ...] | None = None
    """The columns of CSV files without a header."""
    delimiter: str = ","
    """What stands between the columns of CSV files."""
    encoded: bool = False
    """Whether keys are percent-encoded."""
    prefix: str = ""
    """What stands in front of every key."""
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def age_s(self) -> float:
        """How old it is, in seconds."""
        return max(now_ms() - self.created_ms, 0) / 1000


def read_manifest(
    place: str, storage_options: Mapping[str, str] | None = None, roots: Iterable[str] = ()
) -> Inventory:
    """Reads a manifest.

    Args:
        place: The manifest.
        storage_options: Options of the storage.
        roots: What is wanted of it: an inventory of Azure may be of several containers.

    Raises:
        ChronotileError: It is none, or of a kind that is not known.
        StorageError: It cannot be read.
    """
    where = find_place(place)
    folder, _, name = where.uri.rpartition("/")
    data = open_store(folder or "/", storage_options).read(name, limit=_MANIFEST_MAX)
    words = read_json(data, place, "the manifest of an inventory")
    try:
        if "sourceBucket" in words:
            made = _of_s3(words, place)
        elif "ruleDefinition" in words:
            made = _of_azure(words, place, roots)
        elif "report_shards_file_names" in words:
            made = _of_google(words, folder)
        else:
            made = {"files": words["files"], "bucket": words["sourceBucket"]}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as cause:
        problem = f"expected the manifest of an inventory, found none: {cause!r}"
        raise ChronotileError(place, problem) from None
    return Inventory(**made, storage=tuple(sorted((storage_options or {}).items())))


def _of_s3(words: Mapping[str, Any], place: str) -> dict[str, Any]:
    home = str(words["destinationBucket"]).removeprefix("arn:aws:s3:::")
    kind = str(words["fileFormat"]).lower()
    columns = tuple(part.strip() for part in str(words["fileSchema"]).split(","))
    return {
        "bucket": f"s3://{words['sourceBucket']}",
        "files": tuple(
            InventoryFile(_beside(place, f"s3://{home}", str(one["key"])), int(one["size"]))
            for one in words["files"]
        ),
        "format": kind,
        "created_ms": int(words["creationTimestamp"]),
        "header": columns if kind == "csv" else None,
        "encoded": kind == "csv",
    }


def _of_azure(words: Mapping[str, Any], place: str, roots: Iterable[str]) -> dict[str, Any]:
    home, rule = f"az://{words['destinationContainer']}", words["ruleDefinition"]
    for name, wanted, found in (
        ("a run that succeeded", "Succeeded", words.get("status", "Succeeded")),
        ("a rule of the type blob", "blob", rule.get("objectType", "blob")),
    ):
        if found != wanted:
            raise ChronotileError(place, f"expected {name}, found {str(found)[:40]!r}")
    prefixes = (rule.get("filters") or {}).get("prefixMatch") or []
    asked = [find_place(root) for root in roots]
    # A prefix that is no whole name, as `lake` of `lake-2`, is told apart by the roots.
    containers = {one.bucket for one in asked if one.scheme == "az"} or {
        str(prefix).partition("/")[0] for prefix in prefixes
    }
    if len(containers) != 1:
        expected = "expected one container, by the rule's prefixMatch or by the root"
        raise ChronotileError(place, f"{expected}, found {len(containers)}")
    (container,) = containers
    return {
        "bucket": f"az://{container}",
        "files": tuple(
            InventoryFile(_beside(place, home, str(one["blob"])), int(one["size"]))
            for one in words["files"]
        ),
        "format": str(rule["format"]).lower(),
        "created_ms": _time_ms(str(words["inventoryStartTime"])),
        "prefix": f"{container}/",
    }


def _of_google(words: Mapping[str, Any], folder: str) -> dict[str, Any]:
    config = words["report_config"]
    options = _either(config, "object_metadata_report_options", {})
    filters = _either(options, "storage_filters", {})
    text = _either(config, "csv_options", {})
    # Its interface leaves out what is false.
    has_header = bool(_either(text, "header_required", not text))
    fields = tuple(str(name) for name in _either(options, "metadata_fields", ()))
    names = [str(name) for name in words["report_shards_file_names"]]
    kind = "parquet" if all(name.endswith(".parquet") for name in names) else "csv"
    return {
        "bucket": f"gs://{filters['bucket']}",
        "files": tuple(InventoryFile(f"{folder}/{name.rpartition('/')[2]}", 0) for name in names),
        "format": kind,
        "created_ms": _time_ms(str(words["snapshot_time"])),
        "header": None if has_header or kind != "csv" else fields,
        "delimiter": str(_either(text, "delimiter", ",")) or ",",
    }


def _either(words: Mapping[str, Any], name: str, default: Any) -> Any:
    """What stands under a name, which may be written `like_this` or `likeThis`.

    >>> _either({"storageFilters": 1}, "storage_filters", 0), _either({}, "a_b", 0)
    (1, 0)
    """
    first, *others = name.split("_")
    return words.get(name, words.get(first + "".join(map(str.capitalize, others)), default))


def _beside(place: str, home: str, key: str) -> str:
    """A file of an inventory; on a disk, where somebody has copied it, below the manifest."""
    manifest = find_place(place)
    if manifest.scheme != "file":
        return f"{home}/{key}"
    return f"{manifest.uri.rpartition('/')[0]}/{key.rpartition('/')[2]}"


def _time_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


def prefixes_in(inventory: Inventory, roots: Iterable[str]) -> tuple[str, ...]:
    """The prefixes of keys that roots mean; none means all.

    Raises:
        ChronotileError: A root is not in the bucket, or a pattern.

    >>> lake = Inventory(bucket="s3://lake", files=(), format="csv", created_ms=0)
    >>> prefixes_in(lake, ["s3://lake/a/b"])
    ('a/b',)
    """
    home, prefixes = find_place(inventory.bucket), []
    for root in roots:
        place = find_place(root)
        if (place.scheme, place.bucket) != (home.scheme, home.bucket) or "*" in root:
            problem = f"expected a folder of {home.uri}, which the inventory is of"
            raise ChronotileError(root, problem)
        prefixes.append(place.root)
    return tuple(prefixes)


def read_objects(inventory: Inventory, file: InventoryFile) -> pa.Table:
    """The objects that one file of an inventory names, as in `OBJECTS`.

    Raises:
        ChronotileError: A column is missing.
        StorageError: The file cannot be read.
    """
    folder, _, name = find_place(file.uri).uri.rpartition("/")
    data = open_store(folder or "/", dict(inventory.storage)).read(name)
    try:
        table = _read(data, inventory)
    except (pa.ArrowInvalid, OSError) as cause:
        problem = f"expected {inventory.format}, found what cannot be read: {cause}"
        raise StorageError(file.uri, problem) from None
    found = {_plain(name): name for name in table.column_names}
    columns: dict[str, pa.ChunkedArray | None] = {}
    for column, names in _COLUMNS.items():
        known = next((found[name] for name in names if name in found), None)
        columns[column] = table[known] if known is not None else None
    if columns["key"] is None:
        problem = f"expected a column of keys, found {', '.join(table.column_names)}"
        raise ChronotileError(file.uri, problem)
    return _objects(columns, len(table), inventory)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _read(data: bytes, inventory: Inventory) -> pa.Table:
    if inventory.format == "parquet":
        return pyarrow.parquet.read_table(io.BytesIO(data))
    if inventory.format == "orc":
        return pyarrow.orc.read_table(io.BytesIO(data))
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    reading = pyarrow.csv.ReadOptions(column_names=inventory.header or None)
    first = text[:4096].split(b"\n", 1)[0].decode().strip()
    names = inventory.header or first.split(inventory.delimiter)
    types = {name.strip('"'): pa.string() for name in names}
    convert = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    parsing = pyarrow.csv.ParseOptions(delimiter=inventory.delimiter)
    return pyarrow.csv.read_csv(io.BytesIO(text), reading, parsing, convert)


def _objects(
    columns: Mapping[str, pa.ChunkedArray | None], rows: int, inventory: Inventory
) -> pa.Table:
    keys = columns["key"].cast(pa.string())  # type: ignore[union-attr]
    if inventory.encoded and pc.any(pc.match_substring_regex(keys, "[%+]")).as_py():
        keys = pa.chunked_array([[unquote_plus(key) for key in keys.to_pylist()]], pa.string())
    keep = pc.invert(pc.ends_with(keys, "/"))  # marks of folders
    if inventory.prefix:
        keep = pc.and_(keep, pc.starts_with(keys, inventory.prefix))
        keys = pc.utf8_slice_codeunits(keys, len(inventory.prefix))
    if columns["latest"] is not None:
        is_latest = _flags(columns["latest"], missing=columns["version"] is None)
        if columns["version"] is not None:
            # Azure says neither of a blob from before there were versions.
            has_version = _flags(columns["version"], missing=False)
            is_plain = pc.and_(pc.is_null(columns["latest"]), pc.invert(has_version))
            is_latest = pc.or_(is_latest, is_plain)
        keep = pc.and_(keep, is_latest)
    for column in ("deleted", "snapshot", "folder"):
        if columns[column] is not None:
            keep = pc.and_(keep, pc.invert(_flags(columns[column], missing=False)))
    size, modified, etag = (columns[name] for name in ("size", "modified_ms", "etag"))
    table = pa.table(
        [
            keys,
            pa.nulls(rows, pa.int64()) if size is None else size.cast(pa.int64()),
            pa.nulls(rows, pa.int64()) if modified is None else _times(modified),
            pa.nulls(rows, pa.string()) if etag is None else _etags(etag),
        ],
        schema=OBJECTS,
    )
    return table.filter(keep)


def _flags(column: Any, *, missing: bool) -> pa.ChunkedArray:
    """A column of yes and no, in the words of any inventory; a time of deletion is a yes."""
    if not pa.types.is_boolean(column.type):
        text = pc.utf8_lower(pc.fill_null(column.cast(pa.string()), str(missing).lower()))
        return pc.invert(pc.is_in(text, pa.array(["false", "", "null"])))
    return pc.fill_null(column, missing)


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        column = pc.strptime(
            pc.replace_substring_regex(column, r"(\.\d+)?(Z|[+-]00:?00)?$", ""),
            "%Y-%m-%dT%H:%M:%S",
            "ms",
            error_is_null=True,
        )
    return column.cast(pa.timestamp("ms")).cast(pa.int64())


def _etags(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ETags as a listing gives them: in quotes."""
    bare = pc.utf8_trim(column.cast(pa.string()), '"')
    return pc.binary_join_element_wise('"', bare, '"', "")
