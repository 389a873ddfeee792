"""The events of an array's history, in words.

In: deletes and updates. Out: what each did, in words; and `Event`: an object with its time, words,
size and file, one by one or as a table. Decides nothing: `explanation` did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from chronotile.conditions.delete import is_everything
from chronotile.conditions.side_effects import also_keeps, also_removes, engine_refuses
from chronotile.conditions.text import field_name, literal
from chronotile.errors import ChronotileError, KeyNeededError, printable
from chronotile.format.timestamps import iso_time
from chronotile.visibility.view import Delete, Update

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.format.schema import Field
    from chronotile.log import Log

C = TypeVar("C", bound=Delete)
_SEALED = "by a condition that only the key opens"

_RANK = {
    kind: rank
    for rank, kind in enumerate(
        ("schema", "write", "update", "delete", "meta", "vacuum", "fragment-meta", "consolidated")
    )
}


class Event(NamedTuple):
    """One thing that happened."""

    name: str
    kind: str
    t1: int | None
    """None if the name tells no time."""
    t2: int | None
    text: str
    """What it did, in words."""
    notes: tuple[str, ...]
    """What its reader should know."""
    size: int | None
    cells: int | None
    """Cells of a write; None if nobody asked, or it cannot be told."""
    source: str
    """The file that holds the object, relative to the array."""
    offset: int | None
    """The start of its tile in that file."""
    also: tuple[str, ...]
    """Other files that hold a copy."""
    status: str
    reason: str
    because: str | None
    written: int | None
    """When the storage says that its file was written, for files that hold older things."""

    def to_dict(self) -> dict[str, object]:
        """The JSON form, as `log --json` prints it."""
        document = self._asdict()
        document["time"] = None if self.t2 is None else iso_time(self.t2)
        return document | {"notes": list(self.notes), "also": list(self.also)}


EVENTS_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("text", pa.string()),
        ("notes", pa.list_(pa.string())),
        ("size", pa.int64()),
        ("cells", pa.int64()),
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("also", pa.list_(pa.string())),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("because", pa.string()),
        ("written", pa.uint64()),
    ]
)
"""The fields of `Event`, as columns."""


def events_table(events: Iterable[Event]) -> pa.Table:
    """Events as a table; text that is no UTF-8, from a damaged name, gets escapes.

    >>> events_table([]).num_rows
    0
    """
    columns = zip(*events, strict=True)
    named = dict(zip(EVENTS_SCHEMA.names, columns, strict=False))
    return pa.table(
        [pa.array(_encodable(named.get(f.name, ())), f.type) for f in EVENTS_SCHEMA],
        schema=EVENTS_SCHEMA,
    )


def _encodable(values: Iterable[Any]) -> list[Any]:
    return [_encodable(value) if isinstance(value, tuple) else _clean(value) for value in values]


def _clean(value: Any) -> Any:
    is_damaged = isinstance(value, str) and not value.isascii() and not value.isprintable()
    return printable(value) if is_damaged else value


def delete_words(commit: Delete) -> tuple[str, tuple[str, ...]]:
    """What a delete did, in words, and notes on it."""
    try:
        text, schema = f"deleted rows where `{commit.text}`", commit.schema
        stored = commit.stored
    except KeyNeededError:
        return f"deleted rows, {_SEALED}", ()
    except ChronotileError as error:
        return "deleted rows", (f"its condition cannot be read: {error}",)
    if schema is None:
        return text, ("no schema is at hand: values are raw bytes",)
    if also := also_removes(stored, schema):
        text += f"; also {', '.join(also)}"
    if kept := also_keeps(stored, schema):
        text += f"; but not {', '.join(kept)}"
    notes = _refusals(commit)
    if is_everything(stored, schema):
        notes += (f"it matches every row: no write that is dated {commit.t2} or before shows",)
    return text, notes


def update_words(commit: Update) -> tuple[str, tuple[str, ...]]:
    """What an update did, in words, and notes on it."""
    try:
        schema = commit.schema
        pairs = (
            f"{field_name(name)} = {_literal(schema.field(name) if schema else None, raw)}"
            for name, raw in commit.values
        )
        text = f"set {', '.join(pairs)} in rows where `{commit.text}`"
    except KeyNeededError:
        return f"updated rows, {_SEALED}", ()
    except ChronotileError as error:
        return "updated rows", (f"it cannot be read: {error}",)
    note = "the engine does not apply updates: it hides these rows instead"
    return text, (note, *_refusals(commit))


def older_words(log: Log, commit: Delete) -> tuple[str, ...]:
    """What a delete did to fragments that lack a field that it names (F15), if any does."""
    try:
        words = log.older_words(commit)
    except ChronotileError:
        return ()
    return () if words is None else (words,)


def _literal(field: Field | None, raw: bytes) -> str:
    return "None" if not raw and field is not None and field.nullable else literal(field, raw)


def _refusals(commit: Delete) -> tuple[str, ...]:
    problems = engine_refuses(commit.stored, commit.schemas[0]) if commit.schemas else ()
    return tuple(f"the engine cannot read the array over this: {problem}" for problem in problems)
