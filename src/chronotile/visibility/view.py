"""The view of an array that an open at one window has.

In: the rules of one history, and a window. Out: `View`: visible fragments, deletes and updates in
force, the schema; as values and as the JSON of the command line. No file, no clock.

A fragment becomes an object only when a caller looks at it: a view of a million is a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, overload

import numpy as np

from chronotile.conditions import codec
from chronotile.conditions.stored_conditions import StoredDelete, StoredUpdate, is_harmless
from chronotile.conditions.text import to_text
from chronotile.conditions.tree import negate
from chronotile.errors import BadFileError, ChronotileError, WrongKeyError
from chronotile.format import tiles
from chronotile.format.kinds import COMMITS, DEL
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import span_text, time_text
from chronotile.safe_text import html_card, printable
from chronotile.visibility.gaps import gap_in
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.conditions.tree import Condition, UpdateValue
    from chronotile.format.schema import Schema
    from chronotile.history.read_history import History, SchemaFile
    from chronotile.history.uri_columns import I64
    from chronotile.visibility.explanation import Explanations
    from chronotile.visibility.gaps import Gap
    from chronotile.visibility.rules import Rules

_MOST_IN_HTML = 5
"""Deletes, and updates, that a notebook shows of a view."""

T = TypeVar("T")
C = TypeVar("C", bound="Delete")


class Fragment(NamedTuple):
    """A visible fragment."""

    name: str
    t1: int
    t2: int
    version: int
    partial: bool
    """True if the engine reads it cell by cell, as only a part of it is in the window."""
    source: str
    """The file that holds its commit, relative to the array."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Delete:
    """A delete in force. Its tile is opened when a caller asks for the condition."""

    name: str
    t1: int
    t2: int
    version: int
    source: str
    offset: int
    """The start of its tile in the source."""
    tile: bytes = field(repr=False)
    key: bytes | None = field(repr=False)
    schemas: tuple[Schema, ...] = field(repr=False)
    """The schemas of the array, the one in force first."""

    _word: ClassVar[str] = "delete"

    def __repr__(self) -> str:
        return f"<{self._word} at {time_text(self.t2)} where `{self._shown()}`>"

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        rows = [("where", self._shown()), ("time", span_text(self.t1, self.t2))]
        return html_card(self._word, [*rows, ("name", self.name), ("file", self.source)])

    def _shown(self) -> str:
        try:
            return printable(self.text)
        except ChronotileError:
            return "(it cannot be read)"

    @property
    def stored(self) -> Condition:
        """The condition as on disk, which a row must satisfy to stay.

        Raises:
            ChronotileError: Its tile cannot be read.
        """
        return self._decoded(codec.decode)

    def _decoded(self, decode: Callable[[bytes, str], T]) -> T:
        try:
            return _decode(self.tile, self.key, decode)  # type: ignore[return-value]  # as `decode`
        except ChronotileError as error:
            # Equal tiles are decoded once, wherever they stand: only here is the file known.
            where = f"{self.source} (tile at byte {self.offset})" if self.offset else self.source
            raise type(error)(where, *error.args[1:]) from error

    @property
    def is_damaged(self) -> bool:
        """True if its tile cannot be read."""
        try:
            _ = self.stored
        except ChronotileError:
            return True
        return False

    @property
    def predicate(self) -> Condition:
        """The condition that the author asked for: the negation of the stored one."""
        return negate(self.stored)

    @property
    def content(self) -> StoredDelete:
        """Its content, as of a delete anywhere."""
        return StoredDelete(stored=self.stored)

    @property
    def schema(self) -> Schema | None:
        """The schema of its values: the one in force, unless that has lost one of its fields."""
        return self.content.schema_among(self.schemas)

    @property
    def is_stand_in(self) -> bool:
        """True if it matches no row: it stands for one that a merged fragment refers to (F14)."""
        try:
            return self.schema is not None and is_harmless(self.stored, self.schema)
        except ChronotileError:
            return False

    @property
    def text(self) -> str:
        """The predicate as text."""
        return to_text(self.predicate, self.schema)

    def to_dict(self) -> dict[str, Any]:
        """Give what `visible --json` prints of it; with `error` where it cannot be read."""
        heads = ("name", "t1", "t2", "version", "source", "offset")
        document: dict[str, Any] = {name: getattr(self, name) for name in heads}
        parts = ("stored", "predicate", "text")
        try:
            content = self.content.to_json(self.schemas)
            return document | {name: content[name] for name in parts}
        except ChronotileError as error:
            return document | dict.fromkeys(parts) | {"error": str(error)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Update(Delete):
    """An update in force."""

    _word = "update"

    @property
    def stored(self) -> Condition:
        """The condition as on disk, which a row must satisfy to stay as it is."""
        return self._decoded(codec.decode_update)[0]

    @property
    def values(self) -> tuple[UpdateValue, ...]:
        """The values that it sets."""
        return self._decoded(codec.decode_update)[1]

    @property
    def content(self) -> StoredUpdate:
        """Its content, as of an update anywhere."""
        return StoredUpdate(stored=self.stored, values=self.values)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON form of a delete, with the values."""
        document = Delete.to_dict(self)
        try:
            values = self.content.values_json(self.schemas)
        except ChronotileError:
            values = None
        return document | {"values": values}


@lru_cache(maxsize=4096)
def _decode(tile: bytes, key: bytes | None, decode: Callable[[bytes, str], object]) -> object:
    try:
        payload = tiles.decode(tile, "tile", key=key).payload
    except WrongKeyError as cause:
        # The key has opened the array's schema: the tile must be damaged.
        problem = "expected a tile that the array's key opens, found damaged bytes"
        raise BadFileError("tile", problem) from cause
    return decode(payload, "tile")


class LazySequence(Sequence[T], Generic[T]):
    """A sequence that makes each object when a caller looks at it."""

    __slots__ = ("_make", "_rows")

    def __init__(self, rows: I64, make: Callable[[int], T]) -> None:
        self._rows = rows
        self._make = make

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(len(self)))

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        if isinstance(at, slice):
            return tuple(self._make(row) for row in range(*at.indices(len(self))))
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return self._make(at % len(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        noun = "row" if len(self) == 1 else "rows"
        return f"<{len(self)} {noun}: {shown}{', …' if len(self) > 3 else ''}>"


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """An array as an open at [start, end] sees it. Does not look at the storage."""

    rules: Rules = field(repr=False)
    start: int
    end: int

    def __repr__(self) -> str:
        counts = (len(self.fragments), len(self.deletes), len(self.updates))
        words = "{} fragments, {} deletes, {} updates".format(*counts)
        window = f"[{self.start}, {self.end}], up to {time_text(self.end)}"
        return f"<view of {self.history.array} at {window}: {words}>"

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        rows: list[tuple[str, object]] = [
            ("from", "the start" if self.start == 0 else time_text(self.start)),
            ("to", time_text(self.end)),
            ("schema", self.schema or "none"),
            ("fragments visible", len(self.fragments)),
        ]
        rows += [(repr(one).split()[0][1:], one._shown()) for one in self.deletes[:_MOST_IN_HTML]]
        rows += [(repr(one).split()[0][1:], one._shown()) for one in self.updates[:_MOST_IN_HTML]]
        return html_card(f"view of {self.history.array}", rows)

    def __reduce__(self) -> tuple[object, ...]:
        # Lazy sequences cannot be pickled; the copy makes its own.
        return type(self), (self.rules, self.start, self.end)

    @property
    def history(self) -> History:
        """The history that was read of the array."""
        return self.rules.history

    @cached_property
    def fragments(self) -> Sequence[Fragment]:
        """The visible fragments, in order."""
        rows, partial = self.rules.visible(self.start, self.end)
        table = self.history.table

        def fragment(at: int) -> Fragment:
            row = int(rows[at])
            return Fragment(
                table.name(row),
                int(table.uris.t1[row]),
                int(table.uris.t2[row]),
                table.version(row),
                bool(partial[at]),
                table.path(row),
            )

        return LazySequence(rows, fragment)

    @cached_property
    def deletes(self) -> Sequence[Delete]:
        """The deletes in force, in order."""
        return self._commits(Delete, self.rules.delete_rows)

    @cached_property
    def updates(self) -> Sequence[Update]:
        """The updates in force, in order."""
        return self._commits(Update, self.rules.update_rows)

    def _commits(self, kind: type[C], effective: I64) -> Sequence[C]:
        # Without `self` in it: a view in a cycle would keep a large history in memory.
        rows = self.rules.in_force(effective, self.start, self.end)
        history, in_force = self.history, self._schema_file
        return LazySequence(rows, lambda at: make_commit(history, kind, int(rows[at]), in_force))

    @property
    def without_reach(self) -> int:
        """The number of deletes and updates in force that are older than every visible fragment."""
        first, times = self.first_time, self.history.table.uris
        return sum(
            int((times.t2[self.rules.in_force(kind, self.start, self.end)] < first).sum())
            for kind in (self.rules.delete_rows, self.rules.update_rows)
        )

    @property
    def first_time(self) -> int:
        """The time of the first visible fragment: an older delete or update hides no row.

        Later than all times if no fragment is visible.
        """
        rows, _ = self.rules.visible(self.start, self.end)
        return int(self.history.table.uris.t1[rows].min()) if len(rows) else MAX_TIMESTAMP + 1

    @cached_property
    def _schema_file(self) -> SchemaFile | None:
        return schema_at(self.history, self.end)

    @property
    def schema(self) -> str | None:
        """The name of the schema in force."""
        return self._schema_file.text if self._schema_file else None

    @property
    def gap(self) -> Gap | None:
        """The gap that hides some of the writes in the window, which were merged and vacuumed.

        None if the view is whole. In a dense array an open saw more at that time.
        """
        return gap_in(self.rules, self.start, self.end)

    def explain(self) -> Explanations:
        """Explain every object, visible or not, by the rule that decides."""
        from chronotile.visibility.explanation import explain  # it imports this module

        return explain(self)

    def to_dict(self) -> dict[str, Any]:
        """Give what `visible --json` prints."""
        return {
            "array": self.history.array,
            "start": self.start,
            "end": self.end,
            "schema": self.schema,
            "fragments": [fragment._asdict() for fragment in self.fragments],
            "deletes": [delete.to_dict() for delete in self.deletes],
            "updates": [update.to_dict() for update in self.updates],
        }


def tile_commits(rules: Rules, end: int) -> Iterator[tuple[Delete, int]]:
    """List the effective deletes and updates, each with its row, in time order.

    The schema in force at `end` types their values.
    """
    history, in_force = rules.history, schema_at(rules.history, end)
    for row in np.sort(np.concatenate((rules.delete_rows, rules.update_rows))).tolist():
        kind = Delete if history.table.uris.ext[row] == DEL else Update
        yield make_commit(history, kind, row, in_force), row


def whole_copy(history: History, name: str, source: str) -> str | None:
    """Name another file than `source` that holds a delete or update, and can be read there."""
    table, kinds = history.table, {".del": Delete, ".upd": Update}
    for extension, kind in kinds.items():
        for row in table.find([f"{COMMITS}/{name}{extension}"]).tolist():
            copy = make_commit(history, kind, row, None)
            if copy.source != source and not copy.is_damaged:
                return copy.source
    return None


def make_commit(history: History, kind: type[C], row: int, in_force: SchemaFile | None) -> C:
    """Make the delete or update of one row."""
    table = history.table
    tile, offset = table.tile(row)
    candidates = (in_force,) if len(history.schemas) == 1 else (in_force, *history.schemas[::-1])
    return kind(
        name=table.name(row),
        t1=int(table.uris.t1[row]),
        t2=int(table.uris.t2[row]),
        version=table.version(row),
        source=table.path(row),
        offset=offset,
        tile=tile,
        key=history.key,
        schemas=tuple(item.schema for item in candidates if item and item.schema),
    )
