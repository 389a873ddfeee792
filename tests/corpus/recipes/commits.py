"""Writes, deletes and updates through the C interface, each at an exact timestamp.

In: an array's folder, columns of Python values or a predicate. Out: new files in the array.
Knows nothing of what is recorded about them.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from corpus.recipes import clauses
from corpus.recipes.capi import (
    DELETE,
    ROW_MAJOR,
    UNORDERED,
    UPDATE,
    WRITE,
    Column,
    FieldType,
    Session,
)
from corpus.recipes.codec import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def write(uri: str, config: dict[str, str], at: int, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write cells; a dense array takes each dimension's first and last index."""
    session = Session(uri, config)
    session.open(WRITE, 0, at)
    try:
        sparse, fields = session.fields()
        query = session.query(WRITE)
        layout = UNORDERED if sparse else ROW_MAJOR
        session.call("tiledb_query_set_layout", query, ctypes.c_int(layout))
        ranges = []
        for field in fields:
            values = columns[field.name]
            if field.role == "dimension" and not sparse:
                ranges.append((encode(field.type, values[0]), encode(field.type, values[1])))
            else:
                session.set_column(query, Column(field, _encoded(field, values)))
        if ranges:
            session.subarray(query, ranges)
        session.submit(query)
        session.call("tiledb_query_finalize", query)
    finally:
        session.close()


def _encoded(field: FieldType, values: Sequence[Any]) -> list[bytes | None]:
    cells: list[bytes | None] = []
    for value in values:
        if value is None:
            cells.append(None)
        elif isinstance(value, tuple):
            cells.append(b"".join(encode(field.type, part) for part in value))
        else:
            cells.append(encode(field.type, value))
    return cells


def delete_or_update(
    uri: str, config: dict[str, str], at: int, predicate: str, values: Mapping[str, Any]
) -> None:
    """Commit a delete, or an update where there are values."""
    kind = UPDATE if values else DELETE
    settings = dict(config)
    if values:
        settings["sm.allow_updates_experimental"] = "true"
    session = Session(uri, settings)
    session.open(kind, 0, at)
    try:
        _, found = session.fields()
        fields = {field.name: field for field in found}
        query = session.query(kind)
        condition = clauses.build(session, predicate, fields)
        session.call("tiledb_query_set_condition", query, condition)
        for name, value in values.items():
            data = None if value is None else encode(fields[name].type, value)
            size = ctypes.c_uint64(0 if data is None else len(data))
            session.call("tiledb_query_add_update_value", query, name.encode(), data, size)
        session.submit(query)
    finally:
        session.close()


def shown(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Update values as JSON has them; bytes as hex."""
    return [
        {"field": name, "value": value.hex() if isinstance(value, bytes) else value}
        for name, value in values.items()
    ]
