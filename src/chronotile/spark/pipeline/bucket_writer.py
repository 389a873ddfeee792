"""Writing the tables of one bucket.

In: rows of tables, array by array. Out: Parquet files of a good size, in row groups, and what they
add up to. Memory is bounded: a row group is written as soon as it is full, a file is put when it is
large.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from itertools import groupby
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from chronotile.spark.pipeline.run_columns import dressed, is_of_run
from chronotile.spark.pipeline.run_summary import Totals, totals_of
from chronotile.spark.pipeline.runs import Part, Run, parquet_options
from chronotile.tables.array_tables import SCHEMAS
from chronotile.tables.gathered_rows import gathered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.tables.gathered_rows import Piece

ROWS_IN_GROUP = 1 << 16
FILE_BYTES = 32 << 20
"""A file that has grown to this size is put, and another begun."""

LEN_IN_MEMORY = 1 << 20
"""Bytes of a file that wait in memory until it is put; further ones wait on the local disk."""

_TOTALS = b"chronotile.totals"


class BucketWriter:
    """Takes rows of arrays, and writes files."""

    def __init__(self, run: Run, bucket: int, schemas: Mapping[str, pa.Schema], last: str) -> None:
        """Args: `last` is the table whose last file also holds the totals of the bucket."""
        self._tables = {name: _OneTable(run, bucket, name, one) for name, one in schemas.items()}
        self._last = last

    @property
    def totals(self) -> Totals:
        """What all rows add up to, once the files are closed."""
        return sum((table.totals for table in self._tables.values()), Totals())

    def add(self, pieces: Mapping[str, Piece]) -> None:
        """Takes rows of some tables."""
        for name, piece in pieces.items():
            if len(piece):
                self._tables[name].add(piece)

    def close(self) -> tuple[Part, ...]:
        """Writes what is left, and gives all files."""
        for table in self._tables.values():
            table.write()
        words = {_TOTALS: json.dumps(asdict(self.totals)).encode()}
        return tuple(
            part
            for name, table in self._tables.items()
            for part in table.close(words if name == self._last else {})
        )


class _OneTable:
    """The files of one table."""

    def __init__(self, run: Run, bucket: int, name: str, schema: pa.Schema) -> None:
        self._run, self._bucket, self._name, self._schema = run, bucket, name, schema
        self._waiting: list[Piece] = []
        self._rows_waiting = self._rows_written = 0
        self._buffer: IO[bytes] | None = None
        self._file: pq.ParquetWriter | None = None
        self._parts: list[Part] = []
        self.totals = Totals()

    def add(self, piece: Piece) -> None:
        self._waiting.append(piece)
        self._rows_waiting += len(piece)
        if self._rows_waiting >= ROWS_IN_GROUP:
            self.write()
            if self._buffer is not None and self._buffer.tell() >= FILE_BYTES:
                self._put({})

    def write(self) -> None:
        """Writes the rows that wait."""
        if not self._rows_waiting:
            return
        table = pa.concat_tables(self._dressed())
        self.totals += totals_of(self._name, table)
        if self._file is None:
            self._buffer = tempfile.SpooledTemporaryFile(LEN_IN_MEMORY)  # noqa: SIM115 - `_put` closes it
            options = parquet_options(self._schema)
            self._file = pq.ParquetWriter(self._buffer, self._schema, **options)
        self._file.write_table(table, row_group_size=ROWS_IN_GROUP)
        self._rows_written += len(table)
        self._waiting, self._rows_waiting = [], 0

    def _dressed(self) -> Iterator[pa.Table]:
        """The rows that wait, as tables with what a run adds; an older run's rows have it."""
        plain = SCHEMAS.get(self._name, self._schema)
        for is_dressed, pieces in groupby(self._waiting, is_of_run):
            table = gathered(self._schema if is_dressed else plain, pieces)
            yield dressed(self._name, table, self._run.name, self._run.started_ms)

    def _put(self, words: Mapping[bytes, bytes]) -> None:
        if self._file is None or self._buffer is None:
            return
        if words:
            self._file.add_key_value_metadata(dict(words))
        self._file.close()
        self._buffer.seek(0)
        with self._buffer as buffer:
            data = buffer.read()
        self._parts.append(self._run.put(self._name, data, self._rows_written, self._bucket))
        self._file, self._buffer, self._rows_written = None, None, 0

    def close(self, words: Mapping[bytes, bytes]) -> list[Part]:
        self._put(words)
        return self._parts


def totals_in(words: Mapping[bytes, bytes] | None) -> Totals:
    """The totals of a bucket, out of the words in the file that holds them.

    >>> totals_in({}).arrays
    0
    """
    text = (words or {}).get(_TOTALS)
    if text is None:
        return Totals()
    totals: dict[str, Any] = json.loads(text)
    for name in ("findings", "worst"):
        totals[name] = tuple(tuple(one) for one in totals[name])
    return Totals(**totals)
