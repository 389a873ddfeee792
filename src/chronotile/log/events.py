"""The events of an array's history, in words.

In: a log, and a view. Out: an `Event` for every object: its time, what it did in words, its size,
its file, and whether the view sees it; one by one, or as a table. Decides nothing: `explanation`
did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from chronotile.check.findings import count_text
from chronotile.conditions.side_effects import also_keeps, also_removes, engine_refuses
from chronotile.conditions.text import field_name, literal
from chronotile.errors import ChronotileError, KeyNeededError, printable
from chronotile.format.kinds import (
    ENUMERATIONS,
    EVENTS,
    FRAGMENTS,
    META,
)
from chronotile.format.names import try_parse
from chronotile.format.timestamps import iso_time
from chronotile.log.schema_words import change_words, schema_words
from chronotile.visibility.rules import schema_at
from chronotile.visibility.view import Delete, Update, make_commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.format.schema import Field
    from chronotile.log import Log, View
    from chronotile.storage.store import Entry
    from chronotile.visibility.explanation import Explanation

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
    return text, _refusals(commit)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The events that a user asks for."""

    since: int = 0
    until: int | None = None
    kinds: frozenset[str] = frozenset(EVENTS)


class Story:
    """The events of one array.

    Args:
        log: The array's log.
        view: The array as an open now sees it.
        sizes: Path of a file, or of a fragment's folder -> bytes; `array_sizes` gives it.
        cells: Name of a fragment -> its cells, for those that are known.
        applied: Tell which deletes fragments have applied: reads the footers of merged fragments.
    """

    def __init__(
        self,
        log: Log,
        view: View,
        sizes: Mapping[str, int],
        cells: Mapping[str, int] | None = None,
        *,
        applied: bool = False,
    ) -> None:
        self.log, self.view, self.sizes = log, view, sizes
        self.cells, self.applied = cells or {}, applied

    @cached_property
    def explained(self) -> tuple[Explanation, ...]:
        """Every object, and whether the view sees it."""
        return tuple(self.view.explain())

    @cached_property
    def _problems(self) -> dict[str, str]:
        problems = self.log.history.problems
        return {p.path: p.message for p in problems if p.kind != "encrypted"}

    @cached_property
    def _folders(self) -> dict[str, str]:
        return self.log.history.listing.fragment_paths()

    @cached_property
    def _ignored_by(self) -> Counter[str]:
        return Counter(self.log.history.table.ignores.values())

    @cached_property
    def _merges(self) -> dict[str, int]:
        return {vacuum.name.text: len(vacuum.lines) for vacuum in self.log.history.vacuums}

    @cached_property
    def _con_counts(self) -> dict[str, dict[str, int]]:
        """The number of records of each kind in each `.con`."""
        table = self.log.history.table
        return {
            source.path: table.counts_by_kind(table.source == number)
            for number, source in enumerate(table.sources)
            if not source.loose
        }

    def events(self, window: Window, *, reverse: bool = False) -> Iterator[Event]:
        """The events of a window, the newest first, or reversed."""
        chosen = []
        for item in self.explained:
            kind = "write" if item.kind == "fragment" else item.kind
            # The labels of an enumeration have no time: they change with the schema.
            if kind not in window.kinds or item.path.startswith(f"{ENUMERATIONS}/"):
                continue
            t1, t2 = item.t1 or 0, item.t2 or 0
            late = window.until is not None and t1 > window.until
            if not late and t2 >= window.since:
                chosen.append(((t2, _RANK.get(kind, 9), -t1), kind, item))
        chosen.sort(key=lambda pair: (pair[0], pair[2].name), reverse=not reverse)
        for _, kind, item in chosen:
            yield self._event(kind, item)

    def _event(self, kind: str, item: Explanation) -> Event:
        table = self.log.history.table
        size, offset, cells = self.sizes.get(item.path), None, None
        also: tuple[str, ...] = ()
        if kind == "write":
            size = self.sizes.get(f"{FRAGMENTS}/{item.name}", self.sizes.get(item.name))
            cells = self.cells.get(item.name)
        if item.row is not None:
            others = dict.fromkeys(map(table.path, table.copies(item.row)))
            also = tuple(path for path in others if path != item.path)
            if kind != "write":
                tile, offset = table.tile(item.row)
                size = len(tile)
        text, notes = self._words(kind, item)
        if item.path in self._problems:
            notes = (*notes, f"damaged: {self._problems[item.path]}")
        return Event(
            *(item.name, kind, item.t1, item.t2, text, notes, size, cells),
            *(item.path, offset, also, item.status, item.reason, item.because),
        )

    def _words(self, kind: str, item: Explanation) -> tuple[str, tuple[str, ...]]:
        match kind:
            case "write":
                gone = item.name not in self._folders
                return self._write_words(item) + ("; its files are gone" if gone else ""), ()
            case "delete":
                commit = self._commit(Delete, item)
                text, notes = delete_words(commit)
                return text + self._applied(commit), (*self._older(commit), *notes)
            case "update":
                return update_words(self._commit(Update, item))
            case "consolidated":
                return self._consolidated_words(item.path), ()
            case "ignore":
                count = self._ignored_by.get(item.path, 0)
                return f"took {count_text(count, 'commit')} out of the consolidated files", ()
            case "vacuum":
                return self._vacuum_words(item.path), ()
            case "schema":
                return self._schema_words(item.path)
            case "meta":
                return "changed the array's metadata", ()
        return "put the footers of fragments into one file", ()

    def _commit(self, kind: type[C], item: Explanation) -> C:
        history = self.log.history
        assert item.row is not None  # a delete or update is a commit
        return make_commit(history, kind, item.row, schema_at(history, self.view.end))

    def _write_words(self, item: Explanation) -> str:
        if item.name in self._merges:
            return f"merged {count_text(self._merges[item.name], 'fragment')} into one"
        if item.t1 != item.t2:
            return f"wrote a fragment with the cells of {item.t1} to {item.t2}, merged from others"
        if item.reason == "uncommitted":
            return "wrote a fragment, but did not commit it"
        return "wrote a fragment"

    def _older(self, commit: Delete) -> tuple[str, ...]:
        """What a delete did to fragments that lack a field that it names (F15)."""
        return older_words(self.log, commit)

    def _applied(self, commit: Delete) -> str:
        """How many of the visible fragments in its reach have applied a delete, if any has."""
        count = self.log.applied_in.get(commit.name, 0) if self.applied else 0
        if not count:
            return ""
        reach = sum(fragment.t1 <= commit.t2 for fragment in self.view.fragments)
        return f"; applied in {count} of {count_text(reach, 'fragment')} in its reach"

    def _consolidated_words(self, source: str) -> str:
        counts = self._con_counts.get(source, {})
        parts = [count_text(count, kind) for kind, count in counts.items()]
        count = count_text(sum(counts.values()), "commit")
        return f"put {count} into one file" + (f": {', '.join(parts)}" if parts else "")

    @cached_property
    def _replaced(self) -> dict[str, int]:
        """The number of lines of each `.vac`."""
        history = self.log.history
        return {one.path: len(one.lines) for one in (*history.vacuums, *history.meta_vacuums)}

    def _vacuum_words(self, source: str) -> str:
        if source not in self._replaced:
            return "marked fragments as replaced"
        noun = "metadata file" if source.startswith(META) else "fragment"
        what = count_text(self._replaced[source], noun)
        return f"marked {what} as replaced, to be removed by the next vacuum"

    def _schema_words(self, path: str) -> tuple[str, tuple[str, ...]]:
        schemas = self.log.history.schemas
        at = next(i for i, item in enumerate(schemas) if item.path == path)
        now, before = schemas[at].schema, schemas[at - 1].schema if at else None
        if now is None and path not in self._problems:
            return "created or changed the schema, which only the key opens", ()
        if now is None:
            return "created or changed the schema", ("it cannot be read",)
        if at == 0 or before is None:
            kind = "dense" if now.dense else "sparse"
            return f"created the array: {kind}, {schema_words(now)}", ()
        return f"changed the schema: {change_words(before, now)}", ()


def array_sizes(entries: Iterable[Entry]) -> dict[str, int]:
    """Adds up the files of each fragment of an array.

    >>> from chronotile.storage.store import Entry
    >>> array_sizes([Entry("__fragments/f/a.tdb", 3), Entry("__fragments/f/b.tdb", 4)])
    {'__fragments/f': 7}
    """
    sizes: dict[str, int] = {}
    for entry in entries:
        parts = entry.path.split("/")
        if parts[0] == FRAGMENTS and len(parts) > 2:
            path = f"{FRAGMENTS}/{parts[1]}"
        else:
            # Before version 12 a fragment's folder lies in the root.
            path = parts[0] if len(parts) > 1 and try_parse(parts[0]) else entry.path
        sizes[path] = sizes.get(path, 0) + (entry.size or 0)
    return sizes
