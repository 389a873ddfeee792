"""The engine's C interface, through the shared library in the `tiledb` wheel.

In: an array's folder, a window, columns of bytes, conditions. Out: commits, columns of bytes.
Knows nothing of recipes or expectations. Works with libtiledb 2.13 to 2.30.
"""

from __future__ import annotations

import ctypes
import pathlib
from typing import TYPE_CHECKING, Any, NamedTuple

import tiledb

if TYPE_CHECKING:
    from collections.abc import Sequence

READ, WRITE, DELETE, UPDATE = 0, 1, 2, 3
ROW_MAJOR, UNORDERED = 0, 3
VAR_NUM = 0xFFFFFFFF
DATATYPES = [
    "int32",
    "int64",
    "float32",
    "float64",
    "char",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "uint32",
    "uint64",
    "ascii",
    "utf8",
    "utf16",
    "utf32",
    "ucs2",
    "ucs4",
    "any",
    "datetime_year",
    "datetime_month",
    "datetime_week",
    "datetime_day",
    "datetime_hr",
    "datetime_min",
    "datetime_sec",
    "datetime_ms",
    "datetime_us",
    "datetime_ns",
    "datetime_ps",
    "datetime_fs",
    "datetime_as",
    "time_hr",
    "time_min",
    "time_sec",
    "time_ms",
    "time_us",
    "time_ns",
    "time_ps",
    "time_fs",
    "time_as",
    "blob",
    "bool",
    "geom_wkb",
    "geom_wkt",
]
_ROOM = 1 << 20


class EngineError(Exception):
    """The engine refused; the text is its own."""


class FieldType(NamedTuple):
    """One dimension or attribute as the engine's schema has it."""

    name: str
    role: str
    type: str
    cell_val_num: int
    nullable: bool
    enumeration: str | None

    @property
    def is_var(self) -> bool:
        return self.cell_val_num == VAR_NUM


class Column(NamedTuple):
    """The cells of one field: one `bytes` a cell, or None for NULL."""

    field: FieldType
    cells: Sequence[bytes | None]


def _library() -> ctypes.CDLL:
    libs = pathlib.Path(tiledb.__file__).parent.parent / "tiledb.libs"
    return ctypes.CDLL(str(next(libs.glob("libtiledb-*"))))


LIB = _library()


class Session:
    """A context of the C interface with one array open in it.

    Args:
        uri: The array's folder.
        config: Settings of the context, such as the encryption key.
    """

    def __init__(self, uri: str, config: dict[str, str]) -> None:
        self.uri = uri
        self._keep: list[Any] = []
        settings = ctypes.c_void_p()
        error = ctypes.c_void_p()
        LIB.tiledb_config_alloc(ctypes.byref(settings), ctypes.byref(error))
        for name, value in config.items():
            LIB.tiledb_config_set(settings, name.encode(), value.encode(), ctypes.byref(error))
        self.ctx = ctypes.c_void_p()
        LIB.tiledb_ctx_alloc(settings, ctypes.byref(self.ctx))
        self.array = ctypes.c_void_p()
        self.call("tiledb_array_alloc", uri.encode(), ctypes.byref(self.array))

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of the C interface; raise its error text if it fails."""
        if getattr(LIB, function)(self.ctx, *arguments) == 0:
            return
        error = ctypes.c_void_p()
        text = ctypes.c_char_p()
        LIB.tiledb_ctx_get_last_error(self.ctx, ctypes.byref(error))
        LIB.tiledb_error_message(error, ctypes.byref(text))
        raise EngineError((text.value or b"no message").decode())

    def open(self, kind: int, start: int, end: int) -> None:
        """Open the array for one kind of query at a window."""
        self.call("tiledb_array_set_open_timestamp_start", self.array, ctypes.c_uint64(start))
        self.call("tiledb_array_set_open_timestamp_end", self.array, ctypes.c_uint64(end))
        self.call("tiledb_array_open", self.array, ctypes.c_int(kind))

    def close(self) -> None:
        """Close the array and give everything back."""
        LIB.tiledb_array_close(self.ctx, self.array)
        LIB.tiledb_array_free(ctypes.byref(self.array))
        LIB.tiledb_ctx_free(ctypes.byref(self.ctx))

    def query(self, kind: int) -> ctypes.c_void_p:
        """A new query on the open array."""
        query = ctypes.c_void_p()
        self.call("tiledb_query_alloc", self.array, ctypes.c_int(kind), ctypes.byref(query))
        return query

    def submit(self, query: ctypes.c_void_p) -> None:
        """Run a query to its end."""
        self.call("tiledb_query_submit", query)
        status = ctypes.c_int(-1)
        self.call("tiledb_query_get_status", query, ctypes.byref(status))
        if status.value != 1:
            raise EngineError(f"query status {status.value}")

    def fields(self) -> tuple[bool, list[FieldType]]:
        """Whether the array is sparse, and its dimensions and attributes."""
        schema = ctypes.c_void_p()
        self.call("tiledb_array_get_schema", self.array, ctypes.byref(schema))
        kind = ctypes.c_int()
        self.call("tiledb_array_schema_get_array_type", schema, ctypes.byref(kind))
        domain = ctypes.c_void_p()
        self.call("tiledb_array_schema_get_domain", schema, ctypes.byref(domain))
        count = ctypes.c_uint32()
        self.call("tiledb_domain_get_ndim", domain, ctypes.byref(count))
        found = []
        for at in range(count.value):
            one = ctypes.c_void_p()
            index = ctypes.c_uint32(at)
            self.call("tiledb_domain_get_dimension_from_index", domain, index, ctypes.byref(one))
            found.append(self._field(one, "dimension"))
        self.call("tiledb_array_schema_get_attribute_num", schema, ctypes.byref(count))
        for at in range(count.value):
            one = ctypes.c_void_p()
            index = ctypes.c_uint32(at)
            self.call(
                "tiledb_array_schema_get_attribute_from_index", schema, index, ctypes.byref(one)
            )
            found.append(self._field(one, "attribute"))
        return kind.value == 1, found

    def _field(self, handle: ctypes.c_void_p, role: str) -> FieldType:
        text = ctypes.c_char_p()
        kind = ctypes.c_int()
        length = ctypes.c_uint32()
        self.call(f"tiledb_{role}_get_name", handle, ctypes.byref(text))
        self.call(f"tiledb_{role}_get_type", handle, ctypes.byref(kind))
        self.call(f"tiledb_{role}_get_cell_val_num", handle, ctypes.byref(length))
        nullable = ctypes.c_uint8()
        enumeration = None
        if role == "attribute":
            self.call("tiledb_attribute_get_nullable", handle, ctypes.byref(nullable))
            enumeration = self._enumeration(handle)
        return FieldType(
            (text.value or b"").decode(),
            role,
            DATATYPES[kind.value],
            length.value,
            bool(nullable.value),
            enumeration,
        )

    def _enumeration(self, attribute: ctypes.c_void_p) -> str | None:
        if not hasattr(LIB, "tiledb_attribute_get_enumeration_name"):
            return None
        string = ctypes.c_void_p()
        self.call("tiledb_attribute_get_enumeration_name", attribute, ctypes.byref(string))
        if not string.value:
            return None
        text = ctypes.c_char_p()
        length = ctypes.c_size_t()
        LIB.tiledb_string_view(string, ctypes.byref(text), ctypes.byref(length))
        return (text.value or b"")[: length.value].decode()

    def set_column(self, query: ctypes.c_void_p, column: Column) -> None:
        """Give a write query the cells of one field."""
        name = column.field.name.encode()
        width = _width(column.field)
        data = b"".join(b"\0" * width if cell is None else cell for cell in column.cells)
        self._buffer("tiledb_query_set_data_buffer", query, name, data)
        if column.field.is_var:
            ends = [0]
            for cell in column.cells:
                ends.append(ends[-1] + len(cell or b""))
            offsets = (ctypes.c_uint64 * len(column.cells))(*ends[:-1])
            self._buffer("tiledb_query_set_offsets_buffer", query, name, bytes(offsets))
        if column.field.nullable:
            valid = bytes(cell is not None for cell in column.cells)
            self._buffer("tiledb_query_set_validity_buffer", query, name, valid)

    def _buffer(self, function: str, query: ctypes.c_void_p, name: bytes, data: bytes) -> None:
        room = ctypes.create_string_buffer(data, max(1, len(data)))
        size = ctypes.c_uint64(len(data))
        self._keep += [room, size]
        self.call(function, query, name, room, ctypes.byref(size))

    def subarray(self, query: ctypes.c_void_p, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        """Limit a query to one range in each dimension."""
        subarray = ctypes.c_void_p()
        self.call("tiledb_subarray_alloc", self.array, ctypes.byref(subarray))
        for at, (low, high) in enumerate(ranges):
            self.call("tiledb_subarray_add_range", subarray, ctypes.c_uint32(at), low, high, None)
        self.call("tiledb_query_set_subarray_t", query, subarray)

    def read_columns(
        self, fields: Sequence[FieldType], ranges: Sequence[tuple[bytes, bytes]] | None
    ) -> list[Column]:
        """Read every cell of the fields; `ranges` (dense arrays only) says where."""
        query = self.query(READ)
        if ranges is None:
            self.call("tiledb_query_set_layout", query, ctypes.c_int(UNORDERED))
        else:
            self.subarray(query, ranges)
            self.call("tiledb_query_set_layout", query, ctypes.c_int(ROW_MAJOR))
        rooms = {}
        for field in fields:
            name = field.name.encode()
            rooms[field.name] = self._rooms(query, name, field)
        self.submit(query)
        return [Column(field, _cells(field, rooms[field.name])) for field in fields]

    def _rooms(
        self, query: ctypes.c_void_p, name: bytes, field: FieldType
    ) -> dict[str, tuple[Any, ctypes.c_uint64]]:
        kinds = ["data"]
        kinds += ["offsets"] if field.is_var else []
        kinds += ["validity"] if field.nullable else []
        rooms = {}
        for kind in kinds:
            room = ctypes.create_string_buffer(_ROOM)
            size = ctypes.c_uint64(_ROOM)
            self.call(f"tiledb_query_set_{kind}_buffer", query, name, room, ctypes.byref(size))
            rooms[kind] = (room, size)
        return rooms


def _width(field: FieldType) -> int:
    if field.is_var:
        return 0
    kind = field.type
    if kind.startswith(("datetime", "time")):
        return 8 * field.cell_val_num
    digits = "".join(ch for ch in kind if ch.isdigit())
    text = kind.startswith(("utf", "ucs"))
    return (1 if text or not digits else int(digits) // 8) * field.cell_val_num


def _cells(field: FieldType, rooms: dict[str, tuple[Any, ctypes.c_uint64]]) -> list[bytes | None]:
    held = {kind: room.raw[: size.value] for kind, (room, size) in rooms.items()}
    data = held["data"]
    cells: list[bytes | None] = []
    if field.is_var:
        starts = [
            int.from_bytes(held["offsets"][at : at + 8], "little")
            for at in range(0, len(held["offsets"]), 8)
        ]
        for at, start in enumerate(starts):
            end = starts[at + 1] if at + 1 < len(starts) else len(data)
            cells.append(data[start:end])
    else:
        width = _width(field)
        cells += [data[at : at + width] for at in range(0, len(data), width)]
    if field.nullable:
        cells = [cell if held["validity"][at] else None for at, cell in enumerate(cells)]
    return cells
