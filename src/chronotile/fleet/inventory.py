"""The inventory of a bucket, and the listings of the arrays in it.

In: a manifest, as S3 Inventory leaves it. Out: the objects of each of its files, and Arrow tables
with a row for each name that a listing of an array has: its files, and the folders in it. Works on
columns, as there may be a billion objects; opens no file but the inventory's own.

An inventory comes in many files, and an array's objects may stand in several. So a row is made for
every folder that may be an array, `strong` if the object alone shows that it is one; `whole_arrays`
then drops what turned out to be none. As in `find_arrays`, what lies inside an array is a part of
it and no array; this is seen where both stand in one file, as keys come in order.
"""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet

from chronotile.errors import ChronotileError, StorageError
from chronotile.fleet.array_tables import columns
from chronotile.format.documents import read_json
from chronotile.format.kinds import (
    COMMITS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENTS,
    LABELS,
    META,
    OLD_SCHEMA,
    OWN,
    SCHEMA,
)
from chronotile.format.timestamps import now_ms
from chronotile.storage.place import find_place
from chronotile.storage.store import open_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


OBJECTS = columns("key string, size bigint, modified_ms bigint, etag string")
"""What is known of an object."""

_COLUMNS = {
    "key": "key",
    "size": "size",
    "modified_ms": "lastmodifieddate",
    "etag": "etag",
    "latest": "islatest",
    "deleted": "isdeletemarker",
}
"""Column -> its name in an inventory, in small letters alone: each format spells it in its way."""
_MANIFEST_MAX = 256 << 20


class InventoryFile(NamedTuple):
    """One file of an inventory."""

    uri: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The files of an inventory, as its manifest lists them."""

    bucket: str
    """The place of the bucket that was listed, such as `s3://lake`."""
    files: tuple[InventoryFile, ...]
    format: str
    """`csv`, `orc` or `parquet`."""
    created_ms: int
    """When the listing began: what is newer may be missing."""
    header: tuple[str, ...] | None = None
    """The columns of CSV files, which have no header."""
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def age_s(self) -> float:
        """How old it is, in seconds."""
        return max(now_ms() - self.created_ms, 0) / 1000


def read_manifest(place: str, storage_options: Mapping[str, str] | None = None) -> Inventory:
    """Read a manifest."""
    store, name = open_file(place, storage_options)
    data = store.read(name, limit=_MANIFEST_MAX)
    words = read_json(data, place, "the manifest of an S3 Inventory")
    try:
        home = str(words["destinationBucket"]).removeprefix("arn:aws:s3:::")
        kind = str(words["fileFormat"]).lower()
        columns = tuple(part.strip() for part in str(words["fileSchema"]).split(","))
        return Inventory(
            bucket=f"s3://{words['sourceBucket']}",
            files=tuple(
                InventoryFile(_beside(place, f"s3://{home}", str(one["key"])), int(one["size"]))
                for one in words["files"]
            ),
            format=kind,
            created_ms=int(words["creationTimestamp"]),
            header=columns if kind == "csv" else None,
            storage=tuple(sorted((storage_options or {}).items())),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as cause:
        problem = f"expected the manifest of an S3 Inventory, found none: {cause!r}"
        raise ChronotileError(place, problem) from None


def _beside(place: str, home: str, key: str) -> str:
    """Give the place of a file of an inventory; on a disk, to which it was copied, beside it."""
    manifest = find_place(place)
    if manifest.local_path is None:
        return f"{home}/{key}"
    return f"{manifest.uri.rpartition('/')[0]}/{key.rpartition('/')[2]}"


def prefixes_in(inventory: Inventory, roots: Iterable[str]) -> tuple[str, ...]:
    """Give the prefixes of keys that roots mean; none means all.

    Raises:
        ChronotileError: A root is not in the bucket, or a pattern.

    >>> lake = Inventory(bucket="s3://lake", files=(), format="csv", created_ms=0)
    >>> prefixes_in(lake, ["s3://lake/a/b"])
    ('a/b',)
    """
    home, prefixes = find_place(inventory.bucket), []
    for root in roots:
        place = find_place(root)
        if not place.is_below(home) or "*" in root:
            problem = f"expected a folder of {home.uri}, which the inventory is of"
            raise ChronotileError(root, problem)
        prefixes.append(place.root)
    return tuple(prefixes)


def read_objects(inventory: Inventory, file: InventoryFile) -> pa.Table:
    """Give the objects that one file of an inventory names, as in `OBJECTS`."""
    store, name = open_file(file.uri, dict(inventory.storage))
    data = store.read(name)
    try:
        table = _read(data, inventory)
    except (pa.ArrowInvalid, OSError) as cause:
        problem = f"expected {inventory.format}, found what cannot be read: {cause}"
        raise StorageError(file.uri, problem) from None
    found = {re.sub("[_-]", "", name.lower()): name for name in table.column_names}
    if "key" not in found:
        problem = f"expected a column of keys, found {', '.join(table.column_names)}"
        raise ChronotileError(file.uri, problem)
    known = {column: table[found[name]] for column, name in _COLUMNS.items() if name in found}
    return _objects(known, len(table), inventory)


def _read(data: bytes, inventory: Inventory) -> pa.Table:
    if inventory.format == "parquet":
        return pyarrow.parquet.read_table(io.BytesIO(data))
    if inventory.format == "orc":
        return pyarrow.orc.read_table(io.BytesIO(data))
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    names = inventory.header or ()
    reading = pyarrow.csv.ReadOptions(column_names=names)
    types = {name: pa.string() for name in names}
    convert = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    return pyarrow.csv.read_csv(io.BytesIO(text), reading, convert_options=convert)


def _objects(columns: Mapping[str, pa.ChunkedArray], rows: int, inventory: Inventory) -> pa.Table:
    keys = columns["key"].cast(pa.string())
    if inventory.format == "csv" and pc.any(pc.match_substring_regex(keys, "[%+]")).as_py():
        keys = pa.chunked_array([[unquote_plus(key) for key in keys.to_pylist()]], pa.string())
    keep = pc.invert(pc.ends_with(keys, "/"))  # marks of folders
    if "latest" in columns:
        keep = pc.and_(keep, _flags(columns["latest"], missing=True))
    if "deleted" in columns:
        keep = pc.and_(keep, pc.invert(_flags(columns["deleted"], missing=False)))
    size, modified, etag = map(columns.get, ("size", "modified_ms", "etag"))
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
    """Give a column of yes and no, which CSV has as text."""
    if not pa.types.is_boolean(column.type):
        column = pc.equal(pc.utf8_lower(column.cast(pa.string())), "true")
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
    """Give ETags as a listing does: in quotes."""
    bare = pc.utf8_trim(column.cast(pa.string()), '"')
    return pc.binary_join_element_wise('"', bare, '"', "")


NAMES = columns(
    "array string, path string, size bigint, modified_ms bigint, etag string, strong boolean"
)
"""A file of an array, or, if the path ends with a slash, a folder with the bytes below it: null if
its files are told of elsewhere."""

_INSIDE = f"{COMMITS}|{FRAGMENTS}|{FRAGMENT_META}|{SCHEMA}|{META}|{LABELS}|{OWN}"
_OLD = r"__[0-9a-f]+_[0-9a-f_]+(?:\.[a-z]+)?"
"""Fragments and their files in the root of an array, before version 12."""
_OLD_SCHEMA = OLD_SCHEMA.replace(".", "[.]")
_KEY = rf"^(?:(?P<root>.*?)/)?(?P<path>(?:{_INSIDE})/.+|{_OLD_SCHEMA}|{_OLD}(?:/.+)?)$"
_DEEPER = rf"^({ENUMERATIONS}/[^/]+|(?:{_INSIDE})/[^/]+|{_OLD})/.+$"
_STRONG = rf"^(?:(?:{SCHEMA}|{COMMITS}|{FRAGMENTS})/|{_OLD_SCHEMA}$)"


def listing_rows(objects: pa.Table, bucket: str, below: Iterable[str] = ()) -> pa.Table:
    """Give the names of all folders of a bucket that may be arrays, as in `NAMES`.

    Of the objects only those count whose keys are below some prefixes, if there are any.

    >>> keys = ["g/a/__schema/s", "g/a/__fragments/f/x.tdb", "g/a/__fragments/f/y.tdb"]
    >>> nulls = [pa.nulls(3, pa.int64()), pa.nulls(3, pa.int64()), pa.nulls(3, pa.string())]
    >>> objects = pa.table([pa.array(keys), *nulls], ["key", "size", "modified_ms", "etag"])
    >>> rows = whole_arrays([listing_rows(objects, "s3://b")])
    >>> [(row["array"], row["path"]) for row in rows.to_pylist()]
    [('s3://b/g/a', '__fragments/f/'), ('s3://b/g/a', '__schema/s')]
    """
    prefixes = [prefix.strip("/") for prefix in below]
    if prefixes and "" not in prefixes:
        masks = (pc.starts_with(objects["key"], f"{prefix}/") for prefix in prefixes)
        objects = objects.filter(reduce(pc.or_, masks))
    objects = objects.combine_chunks()
    parts = pc.extract_regex(objects["key"].combine_chunks(), _KEY)
    inside = pc.is_valid(parts)
    arrays = _inside(objects.filter(inside), parts.filter(inside))
    plain = objects.filter(pc.invert(inside))
    tops = {prefix for prefix in prefixes if prefix}
    rows = [arrays, _plain_files(plain), _folders(arrays, plain, tops)]
    table = _deduplicated(pa.concat_tables(rows))
    table = table.filter(pc.invert(pc.is_in(table["array"], pa.array(_nested(table), pa.string()))))
    roots = pc.binary_join_element_wise(bucket, table["array"], "/")
    uris = pc.utf8_rtrim(roots, "/")
    return table.set_column(0, NAMES.field("array"), uris)


def _inside(objects: pa.Table, parts: pa.Array) -> pa.Table:
    """Give the rows of objects that lie in a folder of an array, or in the place of one."""
    path = pc.struct_field(parts, "path")
    # RE2 takes the first alternative that fits, which is the enumeration's.
    folder = pc.replace_substring_regex(path, _DEEPER, r"\1/")
    is_enumeration = pc.and_(
        pc.starts_with(path, f"{ENUMERATIONS}/"), pc.equal(pc.count_substring(path, "/"), 2)
    )
    deep = pc.and_(pc.not_equal(folder, path), pc.invert(is_enumeration))
    return pa.table(
        [
            pc.fill_null(pc.struct_field(parts, "root"), ""),
            pc.if_else(deep, folder, path),
            objects["size"],
            *(pc.if_else(deep, None, objects[name]) for name in ("modified_ms", "etag")),
            pc.match_substring_regex(path, _STRONG),
        ],
        schema=NAMES,
    )


def _plain_files(objects: pa.Table) -> pa.Table:
    """Make rows of other objects: strangers, if their folder turns out to be an array."""
    split = pc.extract_regex(
        objects["key"].combine_chunks(), r"^(?:(?P<root>.*)/)?(?P<path>[^/]+)$"
    )
    return pa.table(
        [
            pc.fill_null(pc.struct_field(split, "root"), ""),
            pc.struct_field(split, "path"),
            *(objects[name] for name in ("size", "modified_ms", "etag")),
            pa.repeat(False, len(objects)),
        ],
        schema=NAMES,
    ).filter(pc.is_valid(split))


def _folders(arrays: pa.Table, plain: pa.Table, tops: set[str]) -> pa.Table:
    """Make a row of every folder in the one above it: a stranger, if that is an array."""
    above = pc.replace_substring_regex(plain["key"], r"/?[^/]*$", "")
    waiting = {*arrays["array"].unique().to_pylist(), *above.unique().to_pylist()}
    pairs: set[tuple[str, str]] = set()
    seen: set[str] = set()
    for start in waiting:
        folder = start
        while folder and folder not in tops and folder not in seen:
            seen.add(folder)
            parent, _, name = folder.rpartition("/")
            pairs.add((parent, f"{name}/"))
            folder = parent
    ordered = sorted(pairs)
    empty = [pa.nulls(len(ordered), field.type) for field in list(NAMES)[2:5]]
    names = [pa.array([pair[n] for pair in ordered], pa.string()) for n in (0, 1)]
    return pa.table([*names, *empty, pa.repeat(False, len(ordered))], schema=NAMES)


def _nested(table: pa.Table) -> list[str]:
    """Find arrays that lie inside another one."""
    strong = frozenset(table.filter(table["strong"])["array"].unique().to_pylist())
    parts = {array: array.split("/") for array in strong if array}
    return [
        array
        for array, names in parts.items()
        if any("/".join(names[:n]) in strong for n in range(len(names)))
    ]


def _deduplicated(table: pa.Table) -> pa.Table:
    values = [(name, "max") for name in NAMES.names[2:]]
    made = table.group_by(["array", "path"]).aggregate([*values, ("size", "sum")])
    # Files of one folder add up; one file may only be told of twice.
    is_folder = pc.ends_with(made["path"], "/")
    columns = {name: made[f"{name}_max"] for name in NAMES.names[2:]}
    columns["size"] = pc.if_else(is_folder, made["size_sum"], columns["size"])
    return pa.table([made["array"], made["path"], *columns.values()], NAMES.names).cast(NAMES)


def whole_arrays(tables: Iterable[pa.Table]) -> pa.Table:
    """Give the names of arrays alone, each once, in order, of rows that several files gave."""
    table = _deduplicated(pa.concat_tables([NAMES.empty_table(), *tables]))
    arrays = table.filter(table["strong"])["array"].unique()
    table = table.filter(pc.is_in(table["array"], arrays))
    return table.sort_by([("array", "ascending"), ("path", "ascending")])
