"""The Delta tables that a run has left, read by `deltalake` itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def stored(folder: Path | str, options: dict[str, str] | None = None) -> pa.Table:
    """Read a table at its last version, under the names of the data source."""
    given = None if options is None else {"allow_http": "true", **options}
    return as_read(DeltaTable(str(folder), storage_options=given).to_pyarrow_table())


def as_read(table: pa.Table) -> pa.Table:
    """Give a table of a run with the names of the data source, which calls `uri` `array`."""
    assert "array" not in table.column_names
    return table.rename_columns(["array" if n == "uri" else n for n in table.column_names])


def version(folder: Path | str) -> int:
    """Tell the last version of a table."""
    return int(DeltaTable(str(folder)).version())


def files(folder: Path | str) -> set[str]:
    """Name the files that count."""
    return set(DeltaTable(str(folder)).file_uris())
