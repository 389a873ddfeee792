"""Inventories of buckets, made up from a LIST of a real one, as S3 leaves them.

In: a bucket on the test server. Out: a manifest and its files, in another bucket. Uses nothing of
the product but its store.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.storage.store import Entry

SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"


def make_inventory(
    bucket: str, home: str, options: Mapping[str, str], kind: str, *, files: int = 3, at_ms: int = 0
) -> str:
    """Writes an inventory of a bucket into another one; gives the place of its manifest."""
    entries = open_store(bucket, options).list_prefix()
    name = bucket.removeprefix("s3://")
    store = open_store(home, options)
    told = []
    for number in range(files):
        rows = [row for entry in entries[number::files] for row in _rows(name, entry, kind)]
        data = ENCODERS[kind](rows)
        key = f"inv/{name}/all/data/{number}.{kind}"
        store.put_if_absent(key, data)
        told.append({"key": key, "size": len(data), "MD5checksum": "0" * 32})
    manifest = {
        "sourceBucket": name,
        "destinationBucket": f"arn:aws:s3:::{home.removeprefix('s3://')}",
        "version": "2016-11-30",
        "creationTimestamp": str(at_ms),
        "fileFormat": {"csv": "CSV", "orc": "ORC", "parquet": "Parquet"}[kind],
        "fileSchema": SCHEMA,
        "files": told,
    }
    store.put_if_absent(f"inv/{kind}/manifest.json", json.dumps(manifest).encode())
    return f"{home}/inv/{kind}/manifest.json"


def _rows(bucket: str, entry: Entry, kind: str) -> list[dict[str, Any]]:
    """The object itself; now and then an older version of it, and a removed object."""
    modified = datetime.fromtimestamp((entry.modified_ms or 0) / 1000, UTC).replace(tzinfo=None)
    key = quote(entry.path) if kind == "csv" else entry.path
    head = {"bucket": bucket, "key": key, "version_id": "v1"}
    etag = (entry.etag or "").strip('"')
    facts = {"size": entry.size, "last_modified_date": modified, "e_tag": etag}
    row = {**head, "is_latest": True, "is_delete_marker": False, **facts}
    older = {**row, "version_id": "v0", "is_latest": False, "size": 1, "e_tag": "old"}
    gone = {**row, "key": f"{key}.gone", "is_delete_marker": True, "size": None, "e_tag": None}
    return [row, older, gone] if hash(entry.path) % 3 == 0 else [row]


def _csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    for row in rows:
        values = dict(row)
        values["last_modified_date"] = (
            f"{row['last_modified_date'].isoformat('T', 'milliseconds')}Z"
        )
        for name in ("is_latest", "is_delete_marker"):
            values[name] = str(row[name]).lower()
        writer.writerow(["" if value is None else value for value in values.values()])
    return gzip.compress(text.getvalue().encode())


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def _orc(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pyarrow.orc.write_table(_table(rows), buffer)
    return buffer.getvalue()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(_table(rows), buffer)
    return buffer.getvalue()


ENCODERS = {"csv": _csv, "orc": _orc, "parquet": _parquet}
