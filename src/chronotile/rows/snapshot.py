"""An array as of a moment, for its rows: the schema, and the deletes and updates that act on them.

In: a log, a moment. Out: a `Snapshot`: the schema in force, each `RowChange` in the order in which
they act, and notes on those that are left out. Reads no rows, and refuses to begin without the
engine.

Changes act in order of time. Within one millisecond updates come first, on rows that were written
before it; then writes; then deletes, on all that was written up to their own time. An array whose
updates have been applied shows the same.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chronotile.conditions.side_effects import engine_refuses
from chronotile.conditions.tree import Condition, UpdateValue, fields, flatten, negate
from chronotile.errors import NEEDS_KEY, KeyNeededError
from chronotile.format.names import parse_name
from chronotile.format.timestamps import now_ms
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows.engine import require_engine
from chronotile.visibility.rules import is_later, schema_at
from chronotile.visibility.view import Update

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from chronotile.format.schema import Schema
    from chronotile.history.read_history import History, SchemaFile
    from chronotile.storage.store import Store
    from chronotile.visibility.view import Delete, View


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """A delete or an update in force."""

    name: str
    t: int
    stored: Condition
    values: tuple[UpdateValue, ...] | None
    """The values that an update sets; None for a delete."""
    lacks: frozenset[str] = frozenset()
    """The fields that the rows of an update lack: those that were first added after it (F15)."""
    is_written: bool = False
    """Whether the rows of an update are there already: a run of `apply` is at it, or broke off."""

    @property
    def is_update(self) -> bool:
        """Return True if it sets values."""
        return self.values is not None

    @cached_property
    def predicate(self) -> Condition:
        """The rows that its author asked for, flat."""
        return flatten(negate(self.stored))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields that it looks at."""
        return fields(self.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An array as of a moment: its schema, and the changes that act on its rows."""

    log: Log
    end: int
    """The moment: the end of a window that starts at 0."""
    schema_file: SchemaFile
    changes: tuple[RowChange, ...] = ()
    """In the order in which they act."""
    notes: tuple[str, ...] = ()
    """Sentences on the deletes and updates that are left out."""

    @property
    def schema(self) -> Schema:
        """The schema that cells are read with."""
        assert self.schema_file.schema is not None  # `schema_in_force` sees to it
        return self.schema_file.schema


def open_with_enumerations(store: Store, key: bytes | None) -> Log:
    """Read the log of an array, with the values of enumerations, for its rows.

    Raises:
        NoEngineError: TileDB is not installed: without it, no row is read.
        ArrayNotFoundError: There is no array.
    """
    require_engine()
    return Log(read_history(store, key=key, labels=True), store)


def schema_in_force(log: Log, moment: int) -> SchemaFile:
    """Return the schema in force at a moment.

    Raises:
        KeyNeededError: It cannot be read.
    """
    item = schema_at(log.history, moment)
    if item is None or item.schema is None:
        raise KeyNeededError(log.array, NEEDS_KEY)
    return item


def last_time(log: Log) -> int:
    """Return the time of the last commit, or now, whichever is later."""
    times = log.history.table.uris.t2
    return max(now_ms(), int(np.max(times)) if len(times) else 0)


def snapshot(log: Log, end: int, schema_file: SchemaFile | None = None) -> Snapshot:
    """Find the changes that act on the rows of a moment.

    A delete that the engine cannot read (F6, F8) is left out, and so is an update that looks at a
    field which the schema no longer has, or that sets a dimension.

    Cells are read with the schema in force, or with another one.

    Raises:
        ChronotileError: The schema, a delete or an update cannot be read.
    """
    at = Snapshot(log=log, end=end, schema_file=schema_file or schema_in_force(log, end))
    view, changes, notes = log.view(0, end), [], []
    for commit in (*view.updates, *view.deletes):
        change = _change(log.history, commit, at.schema)
        refused = _refusals(change, at.schema)
        if refused:
            kind = "update" if change.is_update else "delete"
            notes.append(f"the {kind} {change.name} is left out: {'; '.join(refused)}")
        else:
            changes.append(change)
    changes.sort(key=lambda change: (change.t, not change.is_update, change.name))
    written = _with_rows(view, [change for change in changes if change.is_update])
    changes = [replace(change, is_written=change.name in written) for change in changes]
    return replace(at, changes=tuple(changes), notes=tuple(notes))


def uuid_of_rows(updates: Sequence[RowChange]) -> str:
    """Return the uuid of the fragment with the rows of all updates of one moment: the first's.

    So a stream that has seen the update knows the fragment as the same event.
    """
    return parse_name(updates[0].name).uuid


def schema_of_rows(history: History, *updates: RowChange) -> SchemaFile | None:
    """Return the schema that the rows of updates of one moment are written with.

    This is the one in force at that time; if it lacks a field which an update names, the newest
    that has all of them. It may have fields that were dropped before: see `with_dropped_fields`.
    """
    at_its_time = schema_at(history, updates[0].t)
    candidates = (at_its_time, *reversed(history.schemas))
    named = fields_needed(updates)
    fitting = next((item for item in candidates if item and _has(item, named)), at_its_time)
    return None if fitting is None else with_dropped_fields(history, fitting, updates[0].t)


def with_dropped_fields(history: History, item: SchemaFile, moment: int) -> SchemaFile:
    """Return a schema that has the fields of another, and those that were dropped before a moment.

    The engine keeps the values of a dropped attribute, and shows them once an attribute of that
    name is added again. Rows that are written with the returned schema keep them too. It has no
    field that was first added after the moment (F15). If no such schema is there, return the same.
    """
    if item.schema is None:
        return item
    known = [(one, one.schema) for one in history.schemas if one.schema is not None]
    kinds = {
        (field.name, field.datatype, field.cell_val_num, field.nullable)
        for _, schema in known
        for field in schema.attributes
    }
    of_one_kind = {name for name, count in Counter(kind[0] for kind in kinds).items() if count == 1}
    earlier = {
        field.name
        for one, schema in known
        if not is_later(one, moment)
        for field in schema.attributes
    }
    wider = [one for one in known if _is_wider(one[1], item.schema, of_one_kind & earlier)]
    # Of several, the newest has the fill values that are in force.
    return max([(item, item.schema), *reversed(wider)], key=lambda one: len(one[1].attributes))[0]


def _is_wider(schema: Schema, other: Schema, names: Collection[str]) -> bool:
    """Tell whether a schema is another one with more attributes, all of them of some names."""
    more = {*schema.attributes} - {*other.attributes}
    files = other.enumeration_files
    same = replace(schema, attributes=other.attributes, enumeration_files=files, file=other.file)
    return (
        {*other.attributes} <= {*schema.attributes}
        and (same, same.in_use) == (other, other.in_use)
        and all(field.name in names for field in more)
    )


def fields_needed(changes: Iterable[RowChange]) -> set[str]:
    """Return the fields that some changes look at or set."""
    named: set[str] = set()
    for change in changes:
        named.update(change.fields, (name for name, _ in change.values or ()))
    return named


def _with_rows(view: View, updates: list[RowChange]) -> set[str]:
    """Find the updates whose rows are in the array already."""
    if not updates:
        return set()
    there = {parse_name(fragment.name)[:3] for fragment in view.fragments}
    written: set[str] = set()
    for t, group in itertools.groupby(updates, key=lambda update: update.t):
        same = list(group)
        if (t, t, uuid_of_rows(same)) in there:
            written.update(update.name for update in same)
    return written


def _change(history: History, commit: Delete, schema: Schema) -> RowChange:
    if not isinstance(commit, Update):
        return RowChange(name=commit.name, t=commit.t2, stored=commit.stored, values=None)
    change = RowChange(name=commit.name, t=commit.t2, stored=commit.stored, values=commit.values)
    own = schema_of_rows(history, change)
    lacks = {field.name for field in schema.fields if own is None or not _has(own, [field.name])}
    return replace(change, lacks=frozenset(lacks))


def _has(item: SchemaFile, named: Iterable[str]) -> bool:
    schema = item.schema
    return schema is not None and all(schema.field(name) is not None for name in named)


def _refusals(change: RowChange, schema: Schema) -> tuple[str, ...]:
    if not change.is_update:
        return engine_refuses(change.stored, schema)
    gone = [name for name in change.fields if schema.field(name) is None]
    if gone:
        return tuple(f"the schema has no field {name}" for name in gone)
    places = {field.name for field in schema.dimensions}
    sets = [name for name, _ in change.values or () if name in places]
    return tuple(f"it sets the dimension {name}, and an update moves no row" for name in sets)
