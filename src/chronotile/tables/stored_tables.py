"""Tables of a fleet as Parquet files: written, and read again.

In: tables, and a folder or prefix. Out: one file each, `TABLE/TABLE.parquet`; or the tables that
such a folder has. In a bucket nothing is ever overwritten, so that a reader never meets a part of
one fleet beside a part of another; on a disk a file is replaced in one step.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from chronotile.errors import ArrayNotFoundError
from chronotile.storage.place import ObjectExistsError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def write_tables(
    tables: Mapping[str, pa.Table],
    out: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Write each table as one Parquet file; give the files.

    Raises:
        ObjectExistsError: In a bucket, such a file is there already.
        StorageError: The storage failed.

    >>> made = {"arrays": pa.table({"array": ["a"]})}
    >>> write_tables(made, "memory:doc-write-tables")
    ('memory://doc-write-tables/arrays/arrays.parquet',)
    >>> read_tables("memory:doc-write-tables", ("arrays",))["arrays"].num_rows
    1
    """
    paths = {name: f"{name}/{name}.parquet" for name in tables}
    store = open_store(out, storage_options)
    if store.local_path is not None:
        return tuple(_replace(table, Path(out) / paths[name]) for name, table in tables.items())
    try:
        there = {entry.path for name in paths for entry in store.list_dir(name).files}
    except ArrayNotFoundError:
        there = set()
    for path in sorted(there.intersection(paths.values())):
        problem = "expected no table there, found one: in a bucket nothing is overwritten"
        raise ObjectExistsError(store.uri_of(path), f"{problem}; give another --out")
    for name, table in tables.items():
        sink = io.BytesIO()
        pq.write_table(table, sink)
        store.put_if_absent(paths[name], sink.getvalue())
    return tuple(store.uri_of(path) for path in paths.values())


def _replace(table: pa.Table, target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        pq.write_table(table, fresh)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
    return str(target)


def read_tables(
    folder: str | os.PathLike[str],
    names: Sequence[str],
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, pa.Table] | None:
    """The tables of a folder, each from all the Parquet files in it; None if one has none.

    Raises:
        StorageError: The storage failed.
    """
    store = open_store(folder, storage_options)
    if store.local_path is not None:
        # The tables of a pipeline are links to those of its last run.
        if not all((Path(folder) / name).is_dir() for name in names):
            return None
        return {name: pq.read_table(Path(folder) / name) for name in names}
    found = {}
    for name in names:
        try:
            files = [entry.path for entry in store.list_dir(name).files]
        except ArrayNotFoundError:
            return None
        parts = [path for path in files if path.endswith(".parquet")]
        if not parts:
            return None
        read = [pq.read_table(io.BytesIO(store.read(path))) for path in parts]
        found[name] = pa.concat_tables(read, promote_options="default")
    return found
