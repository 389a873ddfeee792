"""The deletes and updates that act on the rows of a window, in the order in which they act.

In: a view that starts at 0. Out: `Change`s: what each says, and whom it cannot be asked of. Reads
no rows.

The order is that of time. Within one millisecond updates come first, on rows that were written
before it; then writes; then deletes, on all that was written up to their own time. That is what
an array shows whose updates have been applied.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from chronotile.conditions.side_effects import engine_refuses
from chronotile.conditions.tree import Condition, UpdateValue, fields, flatten, negate
from chronotile.format.names import parse_name
from chronotile.visibility.rules import schema_at
from chronotile.visibility.view import Update

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chronotile.format.schema import Schema
    from chronotile.history.read_history import History, SchemaFile
    from chronotile.visibility.view import Delete, View


@dataclass(frozen=True, kw_only=True)
class Change:
    """A delete or an update in force."""

    name: str
    t: int
    stored: Condition
    values: tuple[UpdateValue, ...] | None
    """What an update sets; None for a delete."""
    lacks: frozenset[str] = frozenset()
    """The fields that the rows of an update lack: those that were added after it (F15)."""
    is_written: bool = False
    """Whether the rows of an update are there already: a run of `apply` is at it, or broke off."""

    @property
    def is_update(self) -> bool:
        """Whether it sets values."""
        return self.values is not None

    @cached_property
    def predicate(self) -> Condition:
        """What its author asked for, flat."""
        return flatten(negate(self.stored))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields that it looks at."""
        return fields(self.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesInForce:
    """What acts on the rows of a window, and what had to be left out."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    """What was left out, and why, in words."""

    @property
    def has_updates(self) -> bool:
        """Whether there is an update among them."""
        return any(change.is_update for change in self.changes)


def changes_in_force(view: View, schema: Schema | None) -> ChangesInForce:
    """What acts on the rows of a view.

    A delete that the engine cannot read (F6, F8) is left out, and so is an update that looks at a
    field which the schema no longer has, or that sets a dimension.

    Raises:
        ChronotileError: A delete or update cannot be read.
    """
    assert schema is not None  # `open_for_rows.schema_in_force` sees to it
    changes: list[Change] = []
    notes: list[str] = []
    for commit in (*view.updates, *view.deletes):
        change = _change(view.history, commit, schema)
        refused = _refusals(change, schema)
        if refused:
            kind = "update" if change.is_update else "delete"
            notes.append(f"the {kind} {change.name} is left out: {'; '.join(refused)}")
        else:
            changes.append(change)
    ordered = sorted(changes, key=lambda change: (change.t, not change.is_update, change.name))
    written = _with_rows(view, [change for change in ordered if change.is_update])
    return ChangesInForce(
        changes=tuple(replace(one, is_written=one.name in written) for one in ordered),
        notes=tuple(notes),
    )


def uuid_of_rows(updates: Sequence[Change]) -> str:
    """The uuid of the fragment with the rows of all updates of one moment: that of the first.

    So whoever has seen the update knows the fragment as the same event.
    """
    return parse_name(updates[0].name).uuid


def _with_rows(view: View, updates: list[Change]) -> set[str]:
    """The updates whose rows are in the array already."""
    if not updates:
        return set()
    there = {parse_name(fragment.name)[:3] for fragment in view.fragments}
    found: set[str] = set()
    for t, group in itertools.groupby(updates, key=lambda update: update.t):
        same = list(group)
        if (t, t, uuid_of_rows(same)) in there:
            found.update(update.name for update in same)
    return found


def _change(history: History, commit: Delete, schema: Schema) -> Change:
    if not isinstance(commit, Update):
        return Change(name=commit.name, t=commit.t2, stored=commit.stored, values=None)
    change = Change(name=commit.name, t=commit.t2, stored=commit.stored, values=commit.values)
    own = schema_of_rows(history, change)
    lacks = {field.name for field in schema.fields if own is None or not _has(own, [field.name])}
    return replace(change, lacks=frozenset(lacks))


def schema_of_rows(history: History, *updates: Change) -> SchemaFile | None:
    """The schema that the rows of updates of one moment are written with.

    The one in force at that time; if it lacks a field which an update names, the newest that does
    not.
    """
    at_its_time = schema_at(history, updates[0].t)
    candidates = (at_its_time, *reversed(history.schemas))
    named = fields_needed(updates)
    return next((item for item in candidates if item and _has(item, named)), at_its_time)


def _has(item: SchemaFile, named: Iterable[str]) -> bool:
    schema = item.schema
    return schema is not None and all(schema.field(name) is not None for name in named)


def _refusals(change: Change, schema: Schema) -> tuple[str, ...]:
    if not change.is_update:
        return engine_refuses(change.stored, schema)
    gone = [name for name in change.fields if schema.field(name) is None]
    if gone:
        return tuple(f"the schema has no field {name}" for name in gone)
    places = {field.name for field in schema.dimensions}
    sets = [name for name, _ in change.values or () if name in places]
    return tuple(f"it sets the dimension {name}, and an update moves no row" for name in sets)


def fields_needed(changes: Iterable[Change]) -> set[str]:
    """The fields that some changes look at or set."""
    named: set[str] = set()
    for change in changes:
        named.update(change.fields, (name for name, _ in change.values or ()))
    return named
