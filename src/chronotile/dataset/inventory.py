"""Inventories of buckets: every object of a bucket as a table, without a single LIST.

In: a manifest, as S3 Inventory leaves it beside its files. Out: `Inventory`, and the objects of
each file as an Arrow table. Opens no object of the bucket itself.

S3 writes CSV (without a header, keys percent-encoded), ORC or Parquet. Objects that are not the
latest version, and marks of deletion or of folders, are left out.
"""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass, field
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
    """What a manifest tells."""

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
    """Read a manifest.

    Args:
        place: The manifest.
        storage_options: Options of the storage.

    Raises:
        ChronotileError: It is none, or of a kind that is not known.
        StorageError: It cannot be read.
    """
    where = find_place(place)
    folder, _, name = where.uri.rpartition("/")
    data = open_store(folder or "/", storage_options).read(name, limit=_MANIFEST_MAX)
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
        if not place.is_below(home) or "*" in root:
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
    for column, name in _COLUMNS.items():
        columns[column] = table[found[name]] if name in found else None
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
    names = inventory.header or ()
    reading = pyarrow.csv.ReadOptions(column_names=names)
    types = {name: pa.string() for name in names}
    convert = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    return pyarrow.csv.read_csv(io.BytesIO(text), reading, convert_options=convert)


def _objects(
    columns: Mapping[str, pa.ChunkedArray | None], rows: int, inventory: Inventory
) -> pa.Table:
    keys = columns["key"].cast(pa.string())  # type: ignore[union-attr]
    if inventory.format == "csv" and pc.any(pc.match_substring_regex(keys, "[%+]")).as_py():
        keys = pa.chunked_array([[unquote_plus(key) for key in keys.to_pylist()]], pa.string())
    keep = pc.invert(pc.ends_with(keys, "/"))  # marks of folders
    if columns["latest"] is not None:
        keep = pc.and_(keep, _flags(columns["latest"], missing=True))
    if columns["deleted"] is not None:
        keep = pc.and_(keep, pc.invert(_flags(columns["deleted"], missing=False)))
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
    """ETags as a listing gives them: in quotes."""
    bare = pc.utf8_trim(column.cast(pa.string()), '"')
    return pc.binary_join_element_wise('"', bare, '"', "")
