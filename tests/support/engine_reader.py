"""The engine as a reader of many windows, through its C interface.

In: an array and windows. Out: the rows that are visible, as raw bytes. Knows nothing of chronotile.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Self

from corpus.recipes.capi import READ, FieldType, Session
from corpus.recipes.codec import encode
from support import engines  # noqa: F401  (its settings hold for every engine)

if TYPE_CHECKING:
    from support.reference_cells import Raw


class _SmallSession(Session):
    """A session that reads little at a time: most of a large buffer would be cleared in vain."""

    def _rooms(
        self, query: ctypes.c_void_p, name: bytes, field: FieldType
    ) -> dict[str, tuple[Any, ctypes.c_uint64]]:
        kinds = ["data", *(["offsets"] * field.is_var), *(["validity"] * field.nullable)]
        rooms = {}
        for kind in kinds:
            room, size = ctypes.create_string_buffer(1 << 14), ctypes.c_uint64(1 << 14)
            self.call(f"tiledb_query_set_{kind}_buffer", query, name, room, ctypes.byref(size))
            rooms[kind] = (room, size)
        return rooms


class Reader:
    """One array, read by the engine at one window after the other.

    Args:
        uri: Of the array.
        settings: Of the engine, such as a key.
        side: The last place along each dimension, of which the first is 1, if the array is dense.
    """

    def __init__(self, uri: str, settings: dict[str, str], side: int) -> None:
        self._side = side
        self._session = _SmallSession(uri, settings)
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def look(self, start: int, end: int) -> None:
        """Open the array at a window."""
        if self._is_open:
            self._session.call("tiledb_array_close", self._session.array)
            self._is_open = False
        self._session.open(READ, start, end)
        self._is_open = True

    def fields(self) -> tuple[bool, list[FieldType]]:
        return self._session.fields()

    def rows(self, fields: list[FieldType], *, dense: bool) -> list[Raw]:
        """All that is visible at the window."""
        rank = sum(field.role == "dimension" for field in fields)
        box = [(encode("int64", 1), encode("int64", self._side))] * rank
        columns = self._session.read_columns(fields, box if dense else None)
        return list(zip(*(column.cells for column in columns), strict=True))
