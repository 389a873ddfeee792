"""Writing the tables of one bucket.

In: rows of tables, array by array. Out: Parquet files of a good size, in row groups. Memory is
bounded: a row group is written as soon as it is full, a file is put when it is large.
"""

from __future__ import annotations

import tempfile
from itertools import groupby
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from chronotile.spark.pipeline.delta_store import BUCKET, TABLES, DataFile, Run, parquet_options
from chronotile.spark.pipeline.run_columns import PLAIN, dressed, is_of_run
from chronotile.tables.gathered_rows import gathered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.tables.gathered_rows import Piece

ROWS_IN_GROUP = 1 << 16
FILE_BYTES = 32 << 20
"""A file that has grown to this size is put, and another begun."""

LEN_IN_MEMORY = 1 << 20
"""Bytes of a file that wait in memory until it is put; further ones wait on the local disk."""


class BucketWriter:
    """Takes rows of arrays, and writes files."""

    def __init__(self, run: Run, bucket: int) -> None:
        self._tables = {name: _OneTable(run, bucket, name) for name in TABLES}

    def add(self, name: str, piece: Piece) -> None:
        """Take rows of a table."""
        if len(piece):
            self._tables[name].add(piece)

    def close(self) -> tuple[DataFile, ...]:
        """Write the rest, and give all files."""
        return tuple(file for table in self._tables.values() for file in table.close())


class _OneTable:
    """The files of one table."""

    def __init__(self, run: Run, bucket: int, name: str) -> None:
        self._run, self._bucket, self._name = run, bucket, name
        # Delta keeps the column of a partition in its log.
        fields = [field for field in TABLES[name] if field.name != BUCKET]
        self._schema = pa.schema(fields)
        self._waiting: list[Piece] = []
        self._rows_waiting = 0
        self._buffer: IO[bytes] | None = None
        self._file: pq.ParquetWriter | None = None
        self._files: list[DataFile] = []

    def add(self, piece: Piece) -> None:
        self._waiting.append(piece)
        self._rows_waiting += len(piece)
        if self._rows_waiting >= ROWS_IN_GROUP:
            self._write()
            if self._buffer is not None and self._buffer.tell() >= FILE_BYTES:
                self._put()

    def _write(self) -> None:
        """Write the rows that wait."""
        if not self._rows_waiting:
            return
        table = pa.concat_tables(self._dressed())
        if self._file is None:
            self._buffer = tempfile.SpooledTemporaryFile(LEN_IN_MEMORY)  # noqa: SIM115 - `_put` closes it
            options = parquet_options(self._schema)
            self._file = pq.ParquetWriter(self._buffer, self._schema, **options)
        self._file.write_table(table, row_group_size=ROWS_IN_GROUP)
        self._waiting, self._rows_waiting = [], 0

    def _dressed(self) -> Iterator[pa.Table]:
        """Give the rows that wait as tables with what a run adds; an older run's rows have it."""
        plain = PLAIN.get(self._name, self._schema)
        for is_dressed, pieces in groupby(self._waiting, is_of_run):
            table = gathered(self._schema if is_dressed else plain, pieces)
            yield dressed(self._name, table, self._run.name, self._run.started_ms)

    def _put(self) -> None:
        if self._file is None or self._buffer is None:
            return
        self._file.close()
        self._buffer.seek(0)
        with self._buffer as buffer:
            data = buffer.read()
        metadata = pq.read_metadata(pa.BufferReader(data))
        self._files.append(self._run.put(self._name, data, self._bucket, metadata))
        self._file, self._buffer = None, None

    def close(self) -> list[DataFile]:
        self._write()
        self._put()
        return self._files
