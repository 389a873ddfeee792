"""The tables of a fleet in memory, and as plain Parquet files, without Spark.

In: roots of arrays; or tables, and a folder or prefix. Out: the tables that the pipeline writes,
made by a few processes of this machine; one file each, `TABLE/TABLE.parquet`; or the tables that
such a folder has. One array that cannot be read does not stop the others. In a bucket nothing is
ever overwritten; on a disk a file is replaced in one step.
"""

from __future__ import annotations

import io
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from chronotile.check.findings import is_unread
from chronotile.errors import ArrayNotFoundError
from chronotile.fleet.array_tables import SCHEMAS, TABLES, findings_table, tables_of_unreadable
from chronotile.fleet.check_all import group_findings, unlisted
from chronotile.fleet.delta_store import renamed
from chronotile.fleet.find_arrays import find_arrays
from chronotile.fleet.options import Options
from chronotile.fleet.read_share import open_place, read_array
from chronotile.fleet.shares import ListedArray, packed
from chronotile.fleet.surviving_tasks import in_processes
from chronotile.storage.place import ObjectExistsError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chronotile.check.findings import Reach
    from chronotile.fleet.find_arrays import Unlisted


FEW = 24
"""Up to this many arrays, starting processes takes longer than the work."""
FEW_ON_DISK = 512
"""The same, if they lie on a disk and only their logs are read: 5 ms each."""
_PER_TASK = 16
"""Arrays of one task."""


class FleetTables(NamedTuple):
    """The tables of a fleet, the groups that were met, and what could not be listed."""

    tables: Mapping[str, pa.Table]
    groups: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    problems: tuple[Unlisted, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Tell whether every array and folder could be read."""
        found = self.tables["findings"].select(["code", "severity"]).to_pydict()
        return not any(map(is_unread, found["code"], found["severity"]))


def make_tables(
    roots: str | os.PathLike[str] | Sequence[str],
    *,
    names: Sequence[str] = tuple(SCHEMAS),
    check: Reach = "log",
    sizes: bool = True,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[], None] = lambda: None,
) -> FleetTables:
    """Make the tables of every array at or below the roots, and of the members of groups there.

    Args:
        roots: Arrays, folders above arrays, or patterns of them.
        names: The tables to make.
        check: How far the findings go.
        sizes: Measure each array: every file is listed for it.
        key: The key of the encrypted arrays.
        storage_options: Options of the storage.
        on_array: Called after each array.

    Raises:
        ArrayNotFoundError: A root does not exist.
        StorageError: A root cannot be listed.

    >>> make_tables("memory:no-fleet/a")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://no-fleet/a: expected objects below it, found none
    """
    fleet = find_arrays(roots, storage_options, follow=True, key=key)
    options = Options(
        check=check,
        sizes=sizes and "arrays" in names,
        key=key,
        storage=tuple(sorted((storage_options or {}).items())),
    )
    tasks = list(packed(fleet.uris, _PER_TASK)) if names else []
    is_quick = check == "log" and not any("://" in uri for uri in fleet.uris)
    is_small = len(fleet.uris) <= (FEW_ON_DISK if is_quick else FEW)
    in_memory = any(uri.startswith("memory:") for uri in fleet.uris)
    work = partial(_made, names=tuple(names), options=options)
    made_of = in_processes(work, tasks, alone=is_small or in_memory)
    parts: dict[str, list[pa.Table]] = {name: [TABLES[name].empty_table()] for name in names}
    for task, part in zip(tasks, made_of, strict=True):
        for name in names:
            parts[name].append(part[name])
        for _ in task:
            on_array()
    if "findings" in names:
        found = group_findings(fleet.groups, key, storage_options)
        parts["findings"].append(findings_table((*found, *map(unlisted, fleet.problems))))
    made = {name: pa.concat_tables(parts[name]) for name in names}
    return FleetTables(made, fleet.groups, fleet.uris, fleet.problems)


def _made(uris: tuple[str, ...], names: tuple[str, ...], options: Options) -> dict[str, pa.Table]:
    """Give the tables of some arrays, each name concatenated over all of them."""
    parts = [_of_array(uri, names, options) for uri in uris]
    return {name: pa.concat_tables([part[name] for part in parts]) for name in names}


def _of_array(uri: str, names: tuple[str, ...], options: Options) -> dict[str, pa.Table]:
    try:
        tables = read_array(open_place(ListedArray(uri), options), options)
        return {name: tables.table(name) for name in names}
    except Exception as error:  # no error of one array may stop the others
        return tables_of_unreadable(uri, error)


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
    tables = {name: renamed(table) for name, table in tables.items()}
    if store.local_path is not None:
        return tuple(_replace(table, Path(out) / paths[name]) for name, table in tables.items())
    for name, table in tables.items():
        sink = io.BytesIO()
        pq.write_table(table, sink)
        try:
            store.put_if_absent(paths[name], sink.getvalue())
        except ObjectExistsError:
            problem = "expected no table there, found one: in a bucket nothing is overwritten"
            where = store.uri_of(paths[name])
            raise ObjectExistsError(where, f"{problem}; give another folder") from None
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
    """Give the tables of a folder, each from all the Parquet files in it; None if one has none.

    Raises:
        StorageError: The storage failed.
    """
    store, found = open_store(folder, storage_options), {}
    for name in names:
        try:
            files = [
                one.path for one in store.list_dir(name).files if one.path.endswith(".parquet")
            ]
        except ArrayNotFoundError:
            return None
        if not files:
            return None
        read = [pq.read_table(io.BytesIO(store.read(path))) for path in files]
        found[name] = pa.concat_tables(read, promote_options="default")
    return found
