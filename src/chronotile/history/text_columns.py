"""The rows of a commit table as Arrow columns: names, uuids, files, times, or all of them.

In: a `CommitTable` and some of its rows. Out: arrays in the order of the rows, with no Python
object per row. Knows nothing of which commits are visible.

Texts of one length are the rows of a matrix of bytes, which is already a block of an Arrow string
array. Blocks of several lengths are put one after the other, and the rows taken from them in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.format import arrow_compute as pc
from chronotile.format.kinds import COMMIT_WORDS, EXTENSIONS
from chronotile.format.timestamps import LAST_CALENDAR_MS
from chronotile.history.uri_columns import (
    NO_VERSION,
    constant,
    distinct,
    picked,
    single_value,
    taken,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.uri_columns import I32, I64, Bytes

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("uuid", pa.string()),
        ("version", pa.int64()),
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("loose", pa.bool_()),
        ("ignored", pa.bool_()),
    ]
)
"""The columns of `commit_rows`."""
TWIN = "_time"
"""How the name of a twin ends: `t1` has the twin `t1_time`."""
TIMESTAMP = pa.timestamp("ms", tz="UTC")

_LEN_SMALL = (1 << 31) - 1
"""The most characters of an Arrow `string` array."""
_POWERS = 10 ** np.arange(1, 10)
"""From each of these on, a version has one more digit."""
_LENGTHS = np.array([len(text) for text in EXTENSIONS], np.int64)


def commit_rows(table: CommitTable, first: int = 0, last: int | None = None) -> pa.Table:
    """Give one row a commit record, from the record `first` to before the record `last`.

    `offset` is where the tile of a record starts in its file, if it has one.
    """
    columns, some = table.uris, slice(first, last)
    rows = np.arange(len(table))[some]
    return pa.table(
        [
            names(table, rows),
            _kinds(columns.ext[some]),
            pa.array(columns.t1[some]),
            pa.array(columns.t2[some]),
            uuids(table, rows),
            versions(table, rows),
            paths(table, rows),
            _offsets(table, rows),
            pa.array(table.loose[some]),
            pa.array(table.ignored[some]),
        ],
        schema=SCHEMA,
    )


def _kinds(ext: Bytes) -> pa.Array:
    if (same := single_value(ext)) is not None:
        return pa.repeat(COMMIT_WORDS[same], len(ext))
    return pa.array(COMMIT_WORDS, pa.string()).take(pa.array(ext))


def _offsets(table: CommitTable, rows: I64) -> pa.Array:
    if not len(table.condition_rows):
        return pa.nulls(len(rows), pa.int64())
    offsets = np.full(len(table), -1, np.int64)
    offsets[table.condition_rows] = np.maximum(table.tile_offset, 0)
    return pa.array(offsets[rows], mask=offsets[rows] < 0)


def names(table: CommitTable, rows: I64) -> pa.Array:
    """Give the timestamped names of some rows."""
    return _texts_of(table, rows, *_name_spans(table, rows))


def uuids(table: CommitTable, rows: I64) -> pa.Array:
    """Give the uuids of some rows: 32 hex digits between underscores."""
    version = picked(table.uris.version, rows)
    same = single_value(version)
    if same == NO_VERSION or (same is None and (version == NO_VERSION).any()):
        parts = pc.extract_regex(names(table, rows), "_(?P<uuid>[0-9a-f]{32})(?:_|$)")
        return pc.struct_field(parts, "uuid")
    digits = 1 + np.searchsorted(_POWERS, version if same is None else same, side="right")
    start, length = _name_spans(table, rows)
    return _texts_of(table, rows, start + length - digits - 33, constant(32, np.int64, len(rows)))


def versions(table: CommitTable, rows: I64) -> pa.Array:
    """Give the format versions that the engine takes the names of some rows to have."""
    version = table.uris.version[rows].astype(np.int64)
    for at in np.flatnonzero(version == NO_VERSION).tolist():
        version[at] = table.version(int(rows[at]))
    return pa.array(version)


def uris(table: CommitTable, rows: I64) -> pa.Array:
    """Give the URIs of some rows, relative to the array."""
    start, length = table.uris.start[rows], picked(table.uris.length, rows)
    whole = _texts_of(table, rows, start, length)
    folders = [f"{item.path}/" if item.loose and item.path else "" for item in table.sources]
    if not any(folders):
        return whole
    ahead = pa.array(folders, pa.string()).take(pa.array(table.source[rows]))
    return pc.binary_join_element_wise(ahead, whole, "")


def paths(table: CommitTable, rows: I64) -> pa.Array:
    """Give the files that hold some rows, relative to the array."""
    if pc.does_without(len(rows)):
        return pa.array([table.path(row) for row in rows.tolist()], pa.string())
    source = table.source[rows]
    if (same := single_value(table.source)) is not None and not table.sources[same].loose:
        return pa.repeat(table.sources[same].path, len(rows))
    out = pa.array([item.path for item in table.sources], pa.string()).take(pa.array(source))
    loose = np.array([item.loose and not item.implied for item in table.sources], bool)[source]
    if loose.any():
        out = pc.if_else(pa.array(loose), uris(table, rows), out)
    implied = np.array([item.implied for item in table.sources], bool)[source]
    if implied.any():
        text = [table.path(int(rows[at])) for at in np.flatnonzero(implied).tolist()]
        out = pc.replace_with_mask(out, pa.array(implied), pa.array(text, pa.string()))
    return out


def _name_spans(table: CommitTable, rows: I64) -> tuple[I64, I64]:
    columns = table.uris
    shape = [single_value(one) for one in (columns.prefix, columns.length, columns.ext)]
    if None not in shape:
        prefix, length, ext = map(int, shape)
        size = length - prefix - len(EXTENSIONS[ext])
        return columns.start[rows] + prefix, constant(size, np.int64, len(rows))
    prefixes = columns.prefix[rows].astype(np.int64)
    lengths = columns.length[rows] - prefixes - _LENGTHS[columns.ext[rows]]
    return columns.start[rows] + prefixes, lengths


def _texts_of(table: CommitTable, rows: I64, start: I64, length: I64 | I32) -> pa.Array:
    buffers = [source.data for source in table.sources]
    return texts_at(buffers, picked(table.source, rows), start, length)


def texts_at(
    buffers: Sequence[bytes | memoryview], number: I32, start: I64, length: I64 | I32
) -> pa.Array:
    """Give the text at (start, length) in the buffer of each row, by the buffer's number.

    >>> first = np.zeros(2, np.int32)
    >>> texts_at([b"abcd"], first, np.array([2, 0]), np.array([2, 1])).to_pylist()
    ['cd', 'a']
    """
    kind = pa.string() if int(length.sum(dtype=np.int64)) <= _LEN_SMALL else pa.large_string()
    sizes = distinct(length)
    if len(sizes) == 1:
        texts = _strings(_matrix(buffers, number, start, sizes[0]), kind)
        return texts if kind == pa.string() else texts.cast(pa.string())
    if pc.does_without(len(start)):
        spans = zip(number.tolist(), start.tolist(), length.tolist(), strict=True)
        parts = [bytes(buffers[one][at : at + size]) for one, at, size in spans]
        return pa.array(parts, pa.binary()).view(pa.string())
    blocks = [pa.array([], kind)]
    back = np.empty(len(start), np.int64)
    done = 0
    for size in sizes:
        at = np.flatnonzero(length == size)
        blocks.append(_strings(_matrix(buffers, number[at], start[at], size), kind))
        back[at] = np.arange(done, done + len(at))
        done += len(at)
    return pa.concat_arrays(blocks).take(pa.array(back)).cast(pa.string())


def _matrix(buffers: Sequence[bytes | memoryview], number: I32, start: I64, size: int) -> Bytes:
    numbers = distinct(number)
    if len(numbers) == 1:
        return taken(buffers[numbers[0]], start, size)
    matrix = np.empty((len(start), size), np.uint8)
    for one in numbers:
        own = np.flatnonzero(number == one)
        matrix[own] = taken(buffers[one], start[own], size)
    return matrix


def _strings(matrix: Bytes, kind: pa.DataType) -> pa.Array:
    """Use the rows of a matrix as they are, as texts of one length."""
    count, length = matrix.shape
    whole = np.int32 if kind == pa.string() else np.int64
    offsets = np.arange(count + 1, dtype=whole) * whole(length)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    return pa.Array.from_buffers(kind, count, buffers)


def with_times(table: pa.Table) -> pa.Table:
    """Add a twin for each column of unsigned 64-bit ms, after all other columns.

    A twin is null where the ms are, and after the year 9999, where calendars end.

    >>> import pyarrow as pa
    >>> table = with_times(pa.table({"t1": pa.array([1714550400000, 2**64 - 1], pa.uint64())}))
    >>> [str(moment) for moment in table["t1_time"].to_pylist()]
    ['2024-05-01 08:00:00+00:00', 'None']
    """
    for name in list(table.schema.names):
        if table.schema.field(name).type == pa.uint64():
            table = table.append_column(f"{name}{TWIN}", timestamps(table[name]))
    return table


def timestamps(ms: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Turn a column of 64-bit ms, with or without a sign, into timestamps.

    Null where the ms are, and after the year 9999, where calendars end.
    """
    if (pc.max(ms).as_py() or 0) <= LAST_CALENDAR_MS:
        # The same bits, as all but odd columns are.
        if isinstance(ms, pa.Array):
            return ms.view(TIMESTAMP)
        return pa.chunked_array([chunk.view(TIMESTAMP) for chunk in ms.chunks], TIMESTAMP)
    # A scalar that is made while this module loads would make pyarrow load pandas.
    last = pa.scalar(LAST_CALENDAR_MS, ms.type)
    within = pc.if_else(pc.less_equal(ms, last), ms, pa.scalar(None, ms.type))
    return within.cast(pa.int64()).cast(TIMESTAMP)
