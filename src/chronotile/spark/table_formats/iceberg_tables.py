"""Iceberg tables of a run, by PyIceberg: no jars, and no row is read.

In: a table of a run, and a catalog: any that PyIceberg knows, by its URI (a database, a REST
server) or by a name in PyIceberg's own settings. Out: one snapshot of the table, whose data files
are the run's own, under a second name below `DIR/iceberg`. The catalog refuses the snapshot if
somebody else changed the table meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError
from chronotile.spark.pipeline.runs import started_ms
from chronotile.spark.table_formats.open_tables import RUN, Committed, bare_name, needed, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chronotile.spark.table_formats.open_tables import RunTable, Target
    from chronotile.storage.store import Store

FOLDER = "iceberg"
_MAPPING = "schema.name-mapping.default"
"""The property that tells columns by name, as the run's files hold no ids of fields."""
_RETRIES = "commit.retry.num-retries"
_S3 = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "endpoint": "s3.endpoint",
    "region": "s3.region",
}
"""Option of the storage -> PyIceberg's property."""


def iceberg_writer(target: Target) -> Callable[[RunTable], Committed]:
    """What commits a table of a run to Iceberg.

    Raises:
        ChronotileError: PyIceberg is not installed, or there is no catalog.
    """
    needed("pyiceberg", "iceberg")
    if target.catalog is None:
        problem = "expected a catalog, by name or URI (sqlite:///catalog.db), found none"
        raise ChronotileError("table format iceberg", problem)
    _catalog(target, {})
    return partial(_commit, target=target)


def _catalog(target: Target, storage: Mapping[str, str]) -> Any:
    from pyiceberg.catalog import load_catalog

    given = str(target.catalog)
    properties = {_S3[name]: value for name, value in storage.items() if name in _S3}
    is_uri = ":" in given
    if is_uri:
        kind = "rest" if given.startswith("http") else "sql"
        properties |= {"type": kind, "uri": given}
    # A URI may hold a password, and is named by its scheme alone.
    where = f"catalog {given.partition(':')[0]}"
    with told(where, given):
        return load_catalog("chronotile" if is_uri else given, **properties)


def _commit(table: RunTable, target: Target) -> Committed:
    from pyiceberg.io.pyarrow import parquet_files_to_data_files

    store = table.run.store()
    folder = f"{FOLDER}/{target.namespace}/{table.name}"
    catalog = _catalog(target, dict(table.run.storage))
    with told(store.uri_of(folder), str(target.catalog)):
        iceberg = _opened(catalog, target, table, _location(store, folder))
        files = {bare_name(one.file.file_path): one.file for one in iceberg.scan().plan_files()}
        parts = table.parts_after(started_ms(iceberg.properties.get(RUN, "")))
        added = [part for name, part in parts.items() if name not in files]
        gone = [] if table.keeps else [file for name, file in files.items() if name not in parts]
        if not added and not gone:
            return Committed(table.name, _version(iceberg), 0, 0)
        data = f"{folder}/data"
        names = {bare_name(name) for name in store.list_names(data).files}
        new = [part for part in added if bare_name(part.path) not in names]
        store.duplicate({part.path: f"{data}/{bare_name(part.path)}" for part in new})
        uris = [f"{iceberg.location()}/data/{bare_name(part.path)}" for part in added]
        words = {RUN: table.run.name}
        # What is added and taken out holds for the snapshot that was looked at, and for no other.
        iceberg.metadata.properties[_RETRIES] = "0"
        with iceberg.transaction() as change:
            change.set_properties(words)
            with change.update_snapshot(snapshot_properties=words).overwrite() as snapshot:
                for file in gone:
                    snapshot.delete_data_file(file)
                metadata = change.table_metadata
                for file in parquet_files_to_data_files(iceberg.io, metadata, iter(uris)):
                    snapshot.append_data_file(file)
    return Committed(table.name, _version(iceberg), len(added), len(gone))


def _opened(catalog: Any, target: Target, table: RunTable, location: str) -> Any:
    """The table; it is made if there is none, and gets columns that it lacks."""
    name = f"{target.namespace}.{table.name}"
    catalog.create_namespace_if_not_exists(target.namespace)
    if not catalog.table_exists(name):
        made = catalog.create_table(name, schema=table.schema, location=location)
        mapping = made.schema().name_mapping.model_dump_json()
        with made.transaction() as change:
            change.set_properties({_MAPPING: mapping})
        return made
    opened = catalog.load_table(name)
    if opened.location() != location:
        problem = f"expected a table in {location}, as --out says, found one in"
        raise ChronotileError(name, f"{problem} {opened.location()}")
    if {*table.schema.names} - {*opened.schema().column_names}:
        with opened.update_schema() as change:
            change.union_by_name(table.schema)
        with opened.transaction() as change:
            change.set_properties({_MAPPING: opened.schema().name_mapping.model_dump_json()})
    return opened


def _location(store: Store, folder: str) -> str:
    uri = store.uri_of(folder)
    return uri if "://" in uri else f"file://{uri}"


def _version(table: Any) -> str:
    snapshot = table.current_snapshot()
    return str(snapshot.snapshot_id) if snapshot else ""
