"""Rows on their way out: as a table, CSV, JSON lines, Parquet or Arrow.

In: Arrow batches. Out: bytes in one of the formats, batch by batch; and values that JSON can hold.
Knows nothing of arrays. On a terminal all text has escapes for what cannot be printed.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.safe_text import printable, printable_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BINARY = ("parquet", "arrow")
"""Formats that are nothing for a terminal."""


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Give the first rows, and no batch more than they need.

    >>> batch = pa.record_batch({"a": [1, 2, 3]})
    >>> [len(one) for one in limited([batch, batch, batch], 4)]
    [3, 1]
    """
    left = limit
    for batch in batches:
        if left is not None and len(batch) >= left:
            if left:
                yield batch.slice(0, whole_changes(batch, left))
            return
        if left is not None:
            left -= len(batch)
        yield batch


def whole_changes(batch: pa.RecordBatch, count: int) -> int:
    """Return how many rows to give for a number of them: a row before its change needs that after.

    >>> heads = {"commit": ["c"] * 2, "t": [1] * 2}
    >>> whole_changes(pa.record_batch({"change": ["update_before", "update_after"]} | heads), 1)
    2
    """
    is_diff = {"change", "commit", "t"} <= {*batch.schema.names}
    is_cut = is_diff and 0 < count < len(batch)
    return count + (is_cut and batch["change"][count - 1].as_py() == "update_before")


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Give rows of values that JSON can hold: dates as ISO-8601, bytes as hex, labels, `NaN`.

    >>> plain_rows(pa.record_batch({"b": [b"a"], "f": [math.nan]}))
    [{'b': '61', 'f': 'NaN'}]
    """
    columns = [_plain(column).to_pylist() for column in batch.columns]
    names = batch.schema.names
    return [
        {name: _value(value) for name, value in zip(names, row, strict=True)}
        for row in zip(*columns, strict=True)
    ]


def _plain(column: pa.Array) -> pa.Array:
    """Take dictionaries, dates and times out of a column."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type):
        text = pc.cast(column, pa.string())
        return pc.replace_substring(text, " ", "T", max_replacements=1)
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64())
    return column


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [_value(part) for part in value]
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def text_rows(batch: pa.RecordBatch) -> Iterator[list[str]]:
    """Give rows of texts, for a table on a terminal."""
    for row in plain_rows(batch):
        yield [_text(value) for value in row.values()]


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def writer(form: str) -> Callable[..., int]:
    """Find the function that writes rows in a format; it gives their number."""
    return {"csv": _write_csv, "jsonl": _write_jsonl, "parquet": _write_parquet}.get(
        form, _write_arrow
    )


def _write_csv(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO, *, escaped: bool
) -> int:
    import csv
    import io

    shown: Callable[[str], str] = printable if escaped else str
    text, count = io.TextIOWrapper(out, "utf-8", newline=""), 0
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(map(shown, schema.names))
    for batch in batches:
        for row in plain_rows(batch):
            lines.writerow("" if value is None else shown(_text(value)) for value in row.values())
        text.flush()
        count += len(batch)
    text.flush()
    text.detach()  # the caller closes it
    return count


def _write_jsonl(
    _schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO, *, escaped: bool
) -> int:
    count = 0
    for batch in batches:
        lines = (json.dumps(row, ensure_ascii=False) for row in plain_rows(batch))
        out.writelines(
            ((printable_json(line) if escaped else line) + "\n").encode() for line in lines
        )
        count += len(batch)
    return count


def _write_parquet(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO, *, escaped: bool
) -> int:
    del escaped  # no terminal gets it
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(out, schema) as file:
        for batch in batches:
            file.write_batch(batch)
            count += len(batch)
    return count


def _write_arrow(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO, *, escaped: bool
) -> int:
    del escaped  # no terminal gets it
    count = 0
    # A file gets the format of files, which readers of `.arrow` expect; a pipe that of streams.
    begin = pa.ipc.new_file if out.seekable() else pa.ipc.new_stream
    with begin(out, schema) as file:
        for batch in batches:
            file.write_batch(batch)
            count += len(batch)
    return count
