"""Delta tables of a run, by `deltalake`: no jars, and no row is read.

In: a table of a run. Out: one version of the Delta table `DIR/delta/<table>`, whose files are the
run's own: a second name for each (a link on a disk, a copy that the storage makes in a bucket), and
one entry in the table's log that adds and takes out files. Delta itself refuses the entry if
somebody else changed the table meanwhile.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile.format.timestamps import now_ms
from chronotile.spark.table_formats.open_tables import RUN, Committed, bare_name, needed, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.spark.pipeline.runs import Part
    from chronotile.spark.table_formats.open_tables import RunTable

FOLDER = "delta"
_APP = "chronotile"
"""The application whose last transaction a table's log keeps: the start of the run, in ms."""


def delta_writer() -> Callable[[RunTable], Committed]:
    """What commits a table of a run to Delta.

    Raises:
        ChronotileError: `deltalake` is not installed.
    """
    needed("deltalake", "delta")
    return _commit


def _commit(table: RunTable) -> Committed:
    import deltalake
    from deltalake import transaction

    store = table.run.store()
    folder = f"{FOLDER}/{table.name}"
    uri, options = store.uri_of(folder), _options(table.run.storage)
    with told(uri):
        is_there = deltalake.DeltaTable.is_deltatable(uri, options)
        delta = deltalake.DeltaTable(uri, storage_options=options) if is_there else None
        files = _files(delta) if delta else {}
        before = (delta.transaction_version(_APP) or 0) if delta else 0
        parts = table.parts_after(before)
        added = [part for name, part in parts.items() if name not in files]
        gone = [] if table.keeps else [file for name, file in files.items() if name not in parts]
        if delta is not None and not (added or gone):
            return Committed(table.name, str(delta.version()), 0, 0)
        names = {bare_name(name) for name in store.list_names(folder).files}
        new = [part for part in added if bare_name(part.path) not in names]
        store.duplicate({part.path: f"{folder}/{bare_name(part.path)}" for part in new})
        schema = deltalake.Schema.from_arrow(table.schema)
        words = transaction.CommitProperties(
            custom_metadata={RUN: table.run.name},
            app_transactions=[transaction.Transaction(_APP, table.run.started_ms)],
        )
        actions = _actions(added, gone)
        if delta is None:
            transaction.create_table_with_add_actions(
                uri, schema, actions, storage_options=options, commit_properties=words
            )
        else:
            _add_columns(delta, schema)
            delta.create_write_transaction(actions, "append", schema, commit_properties=words)
        version = deltalake.DeltaTable(uri, storage_options=options).version()
    return Committed(table.name, str(version), len(added), len(gone))


def _add_columns(delta: Any, schema: Any) -> None:
    """Gives a table that an older version made the columns that it lacks."""
    known = {field.name for field in delta.schema().fields}
    fields = [field for field in schema.fields if field.name not in known]
    if fields:
        delta.alter.add_columns(fields)


def _actions(added: list[Part], gone: list[dict[str, Any]]) -> list[Any]:
    """What one entry of a table's log says."""
    from deltalake import transaction

    at_ms = now_ms()
    adds = [
        transaction.AddAction(
            path=bare_name(part.path),
            size=part.size,
            partition_values={},
            modification_time=at_ms,
            data_change=True,
            stats=json.dumps({"numRecords": part.rows}),
        )
        for part in added
    ]
    removes = [
        transaction.RemoveAction(file["path"], True, at_ms, file["size_bytes"], {}) for file in gone
    ]
    return [*adds, *removes]


def _files(delta: Any) -> dict[str, dict[str, Any]]:
    """The files of a table, by their bare names."""
    actions = pa.table(delta.get_add_actions()).select(["path", "size_bytes"])
    return {bare_name(row["path"]): row for row in actions.to_pylist()}


def _options(storage: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The options of the storage, which `deltalake` spells as this package does."""
    options = dict(storage)
    if options.get("endpoint", "").startswith("http://"):
        options.setdefault("allow_http", "true")
    return options
