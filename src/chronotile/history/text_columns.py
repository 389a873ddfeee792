"""The texts of a commit table as Arrow columns: names, uuids, files.

In: a `CommitTable` and some of its rows. Out: string arrays in the order of the rows, with no
Python object per row. Knows nothing of what the rows mean.

Texts of one length are the rows of a matrix of bytes, which is already a block of an Arrow string
array: each source fills its own rows. Blocks of several lengths are concatenated, and the rows
taken from them in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.format.kinds import COMMIT_WORDS, EXTENSIONS
from chronotile.format.timestamps import LAST_CALENDAR_MS
from chronotile.history import text_columns
from chronotile.history.uri_columns import NO_VERSION, distinct, single_value, taken

if TYPE_CHECKING:
    from chronotile.history.commit_table import CommitTable
    from chronotile.history.uri_columns import I64, Bytes


_LEN_SMALL = (1 << 31) - 1
"""The most characters of an Arrow `string` array."""
_POWERS = 10 ** np.arange(1, 10)
"""From each of these on, a version has one more digit."""
_LENGTHS = np.array([len(text) for text in EXTENSIONS], np.int64)


def names(table: CommitTable, rows: I64) -> pa.Array:
    """The timestamped names of some rows."""
    if (one := _one_shape(table, rows)) is not None:
        return one.texts(0, one.length)
    return _gathered(table, rows, _name_spans(table, rows))


def uuids(table: CommitTable, rows: I64) -> pa.Array:
    """The uuids of some rows: 32 hex digits between underscores."""
    same = single_value(table.uris.version)
    if same not in (None, NO_VERSION) and (one := _one_shape(table, rows)) is not None:
        return one.texts(one.length - 33 - len(str(same)), 32)
    version = table.uris.version[rows].astype(np.int64)
    if (version == NO_VERSION).any():
        found = pc.extract_regex(names(table, rows), "_(?P<uuid>[0-9a-f]{32})(?:_|$)")
        return pc.struct_field(found, "uuid")
    start, length = _name_spans(table, rows)
    last = 33 + np.searchsorted(_POWERS, version, side="right")
    return _gathered(table, rows, (start + length - last - 1, np.full(len(rows), 32)))


def versions(table: CommitTable, rows: I64) -> pa.Array:
    """The format versions that the engine takes the names of some rows to have."""
    version = table.uris.version[rows].astype(np.int64)
    for at in np.flatnonzero(version == NO_VERSION).tolist():
        version[at] = table.version(int(rows[at]))
    return pa.array(version)


def uris(table: CommitTable, rows: I64) -> pa.Array:
    """The URIs of some rows, relative to the array."""
    start, length = table.uris.start[rows], table.uris.length[rows].astype(np.int64)
    whole = _gathered(table, rows, (start, length))
    folders = [f"{item.path}/" if item.loose and item.path else "" for item in table.sources]
    if not any(folders):
        return whole
    ahead = pa.array(folders, pa.string()).take(pa.array(table.source[rows]))
    return pc.binary_join_element_wise(ahead, whole, "")


def paths(table: CommitTable, rows: I64) -> pa.Array:
    """The files that hold some rows, relative to the array."""
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


class _OneShape(NamedTuple):
    """Names that stand in one source, and have one length."""

    data: memoryview
    starts: I64
    length: int

    def texts(self, at: int, length: int) -> pa.Array:
        """A part of each name, from one place on."""
        matrix = taken(self.data, self.starts + at, length)
        if matrix.size <= _LEN_SMALL:
            return _strings(matrix, pa.string())
        return _strings(matrix, pa.large_string()).cast(pa.string())


def _one_shape(table: CommitTable, rows: I64) -> _OneShape | None:
    """Give the names of some rows, if all rows of the table have one shape, as in most logs."""
    uris = table.uris
    shape = [single_value(one) for one in (table.source, uris.prefix, uris.length, uris.ext)]
    if None in shape:
        return None
    source, prefix, length, ext = map(int, shape)
    size = length - prefix - len(EXTENSIONS[ext])
    return _OneShape(table.sources[source].data, uris.start[rows] + prefix, size)


def _name_spans(table: CommitTable, rows: I64) -> tuple[I64, I64]:
    uris = table.uris
    prefix = uris.prefix[rows].astype(np.int64)
    length = uris.length[rows].astype(np.int64) - prefix - _LENGTHS[uris.ext[rows]]
    return uris.start[rows] + prefix, length


def _gathered(table: CommitTable, rows: I64, spans: tuple[I64, I64]) -> pa.Array:
    """Give the text at (start, length) in the source of each row."""
    source, (start, length) = table.source[rows], spans
    kind = pa.string() if int(length.sum()) <= _LEN_SMALL else pa.large_string()
    blocks: list[pa.Array] = []
    order: list[I64] = []
    for size in distinct(length):
        at = np.flatnonzero(length == size)
        matrix = np.empty((len(at), size), np.uint8)
        for number in distinct(source[at]):
            own = np.flatnonzero(source[at] == number)
            matrix[own] = taken(table.sources[number].data, start[at[own]], size)
        blocks.append(_strings(matrix, kind))
        order.append(at)
    if not blocks:
        return pa.array([], pa.string())
    whole = blocks[0]
    if len(blocks) > 1:
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(order)] = np.arange(len(rows))
        whole = pa.concat_arrays(blocks).take(pa.array(back))
    return whole.cast(pa.string())


def _strings(matrix: Bytes, kind: pa.DataType) -> pa.Array:
    """The rows of a matrix as they are, as texts of one length."""
    count, length = matrix.shape
    whole = np.int32 if kind == pa.string() else np.int64
    offsets = np.arange(count + 1, dtype=whole) * whole(length)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    return pa.Array.from_buffers(kind, count, buffers)


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


def commit_rows(table: CommitTable, first: int = 0, last: int | None = None) -> pa.Table:
    """Give one row a commit record, from the record `first` to before the record `last`.

    `offset` is where the tile of a record starts in its file, if it has one.
    """
    uris, some = table.uris, slice(first, last)
    rows = np.arange(len(table))[some]
    return pa.table(
        [
            text_columns.names(table, rows),
            _kinds(uris.ext[some]),
            pa.array(uris.t1[some]),
            pa.array(uris.t2[some]),
            text_columns.uuids(table, rows),
            text_columns.versions(table, rows),
            text_columns.paths(table, rows),
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
    if not len(table.tile_rows):
        return pa.nulls(len(rows), pa.int64())
    offsets = np.full(len(table), -1, np.int64)
    offsets[table.tile_rows] = np.maximum(table.tile_offset, 0)
    return pa.array(offsets[rows], mask=offsets[rows] < 0)


TWIN = "_time"
"""How the name of a twin ends: `t1` has the twin `t1_time`."""
TIMESTAMP = pa.timestamp("ms", tz="UTC")


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
    """The timestamps of a column of 64-bit ms, with or without a sign.

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
