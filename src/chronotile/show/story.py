"""The events of one array, in order.

In: a view, and facts that the caller reads. Out: `Event` after `Event`, the newest first. Makes
each event when a caller asks for it, a batch at a time: the first screen of a long history is
there at once. What only some events need is read then too, by the functions of a `Story`: a
caller that prints may wait for the storage. Decides nothing: `explanation` did.
"""

from __future__ import annotations

import heapq
from collections import Counter
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from chronotile.check.findings import count_text
from chronotile.errors import ChronotileError
from chronotile.format.kinds import CONDITIONS, ENUMERATIONS, EVENTS, FRAGMENTS, META
from chronotile.format.names import MAX_TIMESTAMP, is_name
from chronotile.show.events import (
    Event,
    change_words,
    delete_words,
    metadata_words,
    schema_words,
    update_words,
)
from chronotile.show.explain_words import lacks_key
from chronotile.show.operation_words import OperationWords, name_in
from chronotile.visibility.rules import schema_at
from chronotile.visibility.view import Delete, Update, make_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from chronotile.history.uri_columns import I64, Mask
    from chronotile.visibility.explanation import Explanation, Explanations
    from chronotile.visibility.view import View


C = TypeVar("C", bound=Delete)

_RANK = {
    kind: rank
    for rank, kind in enumerate(
        ("schema", "write", "update", "delete", "meta", "vacuum", "fragment-meta", "consolidated")
    )
}
_FIRST_BATCH, _BATCH = 64, 4096
"""Events to make at once: few for the first screen, then many."""
_DATED = ("consolidated", "ignore", "vacuum", "fragment-meta")
"""Kinds whose files are younger than what their names say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """The events that a user asks for."""

    since: int = 0
    until: int | None = None
    kinds: frozenset[str] = frozenset(EVENTS)

    def holds(self, event: Event) -> bool:
        """Return True if an event is of this time."""
        last = MAX_TIMESTAMP if self.until is None else self.until
        return (event.t2 or 0) >= self.since and (event.t1 or 0) <= last


@dataclass(frozen=True, eq=False)
class Story:
    """The events of one array.

    Facts beside the log: the caller has read the mappings; the functions read the storage when an
    event needs it.
    """

    view: View
    """The array as an open sees it, by which an event is called visible."""
    _: KW_ONLY
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Path of a file, or of a fragment's folder -> bytes."""
    written: Mapping[str, int] = field(default_factory=dict)
    """Path of a file outside of fragments -> when it was written, in ms."""
    cells: Mapping[str, int] = field(default_factory=dict)
    """Name of a fragment -> its cells."""
    operations: OperationWords = field(default_factory=OperationWords)
    """Operations of this package."""
    read_metadata: Callable[[list[str]], Mapping[str, bytes]] = lambda _: {}
    """Gives the opened content of files of array metadata."""
    read_applied: Callable[[], Mapping[str, int]] = dict
    """Gives delete -> how many of the visible fragments in its reach have applied it."""
    read_notes: Callable[[Delete], tuple[str, ...]] = lambda _: ()
    """Gives notes on a delete that names a field which older fragments lack."""

    @cached_property
    def _explained(self) -> Explanations:
        """Every object, and why it is or is not visible: committed fragments first."""
        return self.view.explain()

    @property
    def fragment_count(self) -> int:
        """The number of fragments that a commit or a folder names, without vacuumed ones."""
        others = sum(item.kind == "fragment" for item in self._explained.others)
        return len(self.view.rules.fragment_rows) + others - self.vacuumed_count

    @cached_property
    def vacuumed_count(self) -> int:
        """The number of fragments of which a `.con` and an `.ign` keep the name alone."""
        items = (item for item in self._explained.others if item.kind == "fragment")
        return sum(i.reason == "ignored" and i.name not in self._folders for i in items)

    @property
    def unreadable(self) -> Counter[str]:
        """Count the deletes and updates that cannot be read, by kind; none without a key."""
        items = () if lacks_key(self.view.history) else self._explained.others
        kinds = ("delete", "update")
        return Counter(i.kind for i in items if i.kind in kinds and i.reason == "unreadable")

    @cached_property
    def _problems(self) -> dict[str, str]:
        problems = self.view.history.problems
        return {p.path: p.message for p in problems if p.kind != "encrypted"}

    @cached_property
    def _folders(self) -> frozenset[str]:
        listing = self.view.history.listing
        return frozenset(listing.fragments).union(listing.root_fragments)

    @cached_property
    def _ignored_by(self) -> Counter[str]:
        return Counter(self.view.history.table.ignores.values())

    @cached_property
    def _merges(self) -> dict[str, int]:
        return {vacuum.name.text: len(set(vacuum.targets)) for vacuum in self.view.history.vacuums}

    @cached_property
    def _con_counts(self) -> dict[str, dict[str, int]]:
        """The number of records of each kind in each `.con`."""
        table = self.view.history.table
        return {
            source.path: table.counts_by_kind(table.source == number)
            for number, source in enumerate(table.sources)
            if not source.loose
        }

    @cached_property
    def _may_have_copies(self) -> Mask:
        """Mask of the rows that share time and start of the uuid with another."""
        uris = self.view.history.table.uris
        t1, uuid = np.asarray(uris.t1), np.asarray(uris.uuid_start)
        order = np.lexsort((uuid, t1))
        same = (t1[order][1:] == t1[order][:-1]) & (uuid[order][1:] == uuid[order][:-1])
        alike = np.zeros(len(order), bool)
        alike[order[1:]] |= same
        alike[order[:-1]] |= same
        return alike

    def events(
        self,
        window: EventFilter,
        *,
        reverse: bool = False,
        seen: Collection[tuple[str, str]] = frozenset(),
    ) -> Iterator[Event]:
        """Give the events of a window, the newest first, or reversed, but for those in `seen`."""
        places = self._places(window)
        places = places if reverse else places[::-1]
        first, size = 0, _FIRST_BATCH
        while first < len(places):
            items = [self._explained[at] for at in places[first : first + size].tolist()]
            if seen:
                items = [item for item in items if (_kind(item), item.name) not in seen]
            content = self._metadata(items)
            yield from (self._event(_kind(item), item, content) for item in items)
            first, size = first + size, _BATCH

    def folded(
        self,
        window: EventFilter,
        *,
        reverse: bool = False,
        undone: bool = True,
        unfold: bool = False,
    ) -> Iterator[tuple[Event, tuple[Event, ...]]]:
        """Give the events of a window, with one for all that an operation did.

        Only where events of all kinds are asked for: one kind alone is told commit by commit. A
        delete or update that is there speaks for its operation, as it knows more.

        `undone` gives also operations that were undone, and the undos of them; `unfold` the events
        that each operation stands for.
        """
        operations = self.operation_events(window, undone=undone)
        ids = {event.name for event in operations}
        under: dict[str, list[Event]] = {}
        if unfold and ids:
            for event in self.events(window, reverse=True):
                under.setdefault(event.operation or "", []).append(event)
        every = self.events(window, reverse=reverse)
        others = (self.signed(event) for event in every if event.operation not in ids)
        if reverse:
            operations.reverse()
        both = heapq.merge(others, operations, key=lambda e: e.t2 or 0, reverse=not reverse)
        return ((one, tuple(under.get(one.name, ()))) for one in both)

    def operation_events(self, window: EventFilter, *, undone: bool = True) -> list[Event]:
        """Give one event for each operation, but for deletes and updates that are there."""
        if not window.kinds.issuperset(EVENTS):
            return []
        known = self.operations
        others = self._explained.others
        there = {item.name for item in others if item.kind in ("delete", "update")}
        single = {id_ for name, id_ in known.single.items() if name in there}
        events = known.events(undone=undone)
        return [event for event in events if event.name not in single and window.holds(event)]

    def signed(self, event: Event) -> Event:
        """Add to a delete or update who asked for it, and why."""
        id_ = self.operations.single.get(event.name)
        who = "" if id_ is None else self.operations.who(id_)
        return event._replace(text=f"{event.text}; {who}") if who else event

    def identities(self, window: EventFilter) -> Iterator[tuple[str, str]]:
        """Give kind and name of each event that is no write without a commit.

        A commit that moves from its own file into a `.con` stays the same.
        """
        items = (self._explained[at] for at in self._places(window).tolist())
        return ((_kind(item), item.name) for item in items if item.reason != "uncommitted")

    def _places(self, window: EventFilter) -> I64:
        """Order the objects of a window by time: committed fragments, and behind them others."""
        rows, uris = self.view.rules.fragment_rows, self.view.history.table.uris
        count = len(rows) if "write" in window.kinds else 0
        others = enumerate(self._explained.others)
        kept = [(number, item) for number, item in others if _is_event(item)]
        kept = [(number, item) for number, item in kept if _kind(item) in window.kinds]
        times = np.array([(item.t1 or 0, item.t2 or 0) for _, item in kept], np.uint64)
        times = times.reshape(-1, 2)
        t1 = np.concatenate((uris.t1[rows[:count]], times[:, 0]))
        t2 = np.concatenate((uris.t2[rows[:count]], times[:, 1]))
        rank = np.full(len(t1), _RANK["write"])
        rank[count:] = [_RANK.get(_kind(item), 9) for _, item in kept]
        place = np.arange(len(t1))
        place[count:] = [len(rows) + number for number, _ in kept]
        last = MAX_TIMESTAMP if window.until is None else window.until
        inside = (t2 >= np.uint64(window.since)) & (t1 <= np.uint64(last))
        order = np.lexsort((place, np.uint64(MAX_TIMESTAMP) - t1, rank, t2))
        return place[order[inside[order]]]

    def _metadata(self, items: Iterable[Explanation]) -> dict[str, str]:
        """Put the keys and values in files of array metadata into words."""
        paths = [item.path for item in items if item.kind == "meta" and is_name(item.name)]
        words = {}
        for path, payload in self.read_metadata(paths).items() if paths else ():
            with suppress(ChronotileError):  # `check` says what is wrong with it
                words[path] = metadata_words(payload, path)
        return words

    def _event(self, kind: str, item: Explanation, content: Mapping[str, str]) -> Event:
        sizes = self.sizes
        size, offset, cells = sizes.get(item.path), None, None
        also: tuple[str, ...] = ()
        if kind == "write":
            size = sizes.get(f"{FRAGMENTS}/{item.name}", sizes.get(item.name)) if sizes else None
            cells = self.cells.get(item.name)
        if item.row is not None:
            table = self.view.history.table
            if self._may_have_copies[item.row]:
                others = dict.fromkeys(map(table.path, table.copies(item.row)))
                also = tuple(path for path in others if path != item.path)
            if kind != "write":
                tile, offset = table.tile(item.row)
                size = len(tile)
        text, notes = self._words(kind, item, content)
        if item.row is None and item.path in self._problems:
            notes = (*notes, f"damaged: {self._problems[item.path]}")
        written = None
        if self.written and (kind in _DATED or (kind == "write" and item.t1 != item.t2)):
            written = self.written.get(item.path)
        put = name_in(item.path) if kind == "vacuum" else item.name
        return Event(
            name=item.name,
            kind=kind,
            t1=item.t1,
            t2=item.t2,
            text=text,
            notes=notes,
            size=size,
            cells=cells,
            source=item.path,
            offset=offset,
            also=also,
            status=item.status,
            reason=item.reason,
            because=item.because,
            written=written,
            operation=self.operations.of_name.get(put),
        )

    def _words(
        self, kind: str, item: Explanation, content: Mapping[str, str]
    ) -> tuple[str, tuple[str, ...]]:
        match kind:
            case "write":
                gone = item.name not in self._folders
                return self._write_words(item) + ("; its files are gone" if gone else ""), ()
            case "delete":
                commit = self._commit(Delete, item)
                text, notes = delete_words(commit)
                return text + self._applied(commit), (*self.read_notes(commit), *notes)
            case "update":
                return update_words(self._commit(Update, item))
            case "consolidated":
                return self._consolidated_words(item.path), ()
            case "ignore":
                return self._ignore_words(item.path), ()
            case "vacuum":
                return self._vacuum_words(item.path), ()
            case "schema":
                return self._schema_words(item.path)
            case "meta":
                words = content.get(item.path)
                return f"changed the array's metadata{(words and f': {words}') or ''}", ()
        return "put the footers of fragments into one file", ()

    def _commit(self, kind: type[C], item: Explanation) -> C:
        history = self.view.history
        assert item.row is not None  # a delete or update is a commit
        return make_commit(history, kind, item.row, schema_at(history, self.view.end))

    def _write_words(self, item: Explanation) -> str:
        if item.name in self._merges:
            return f"merged {count_text(self._merges[item.name], 'fragment')} into one"
        if item.t1 != item.t2:
            return "merged other fragments into one"
        if item.reason == "uncommitted":
            return "wrote a fragment, but did not commit it"
        return "wrote a fragment"

    def _applied(self, commit: Delete) -> str:
        """Count the visible fragments in its reach that have applied a delete, if any has."""
        count = self.read_applied().get(commit.name, 0)
        if not count or commit.is_stand_in:
            return ""
        reach = sum(fragment.t1 <= commit.t2 for fragment in self.view.fragments)
        of_them = "it" if reach == 1 else "all of them" if count == reach else f"{count} of them"
        return f"; in force in {count_text(reach, 'fragment')}, applied in {of_them} by a merge"

    def _ignore_words(self, source: str) -> str:
        """Count the writes that an `.ign` takes out; a delete stays in force (F5)."""
        count = self._ignored_by.get(source, 0)
        kept = sum(
            path == source and uri.endswith(CONDITIONS)
            for uri, path in self.view.history.table.ignores.items()
        )
        words = f"took {count_text(count - kept, 'commit')} out of the consolidated files"
        if not kept:
            return words
        stays = "stays" if kept == 1 else "stay"
        named = f"named {count_text(kept, 'delete or update', 'deletes or updates')}"
        named += f", which {stays} in force: TileDB ignores only writes"
        return f"{words}; {named}" if count > kept else named

    def _consolidated_words(self, source: str) -> str:
        counts = self._con_counts.get(source, {})
        parts = [count_text(count, kind) for kind, count in counts.items()]
        count = count_text(sum(counts.values()), "commit")
        return f"put {count} into one file" + (f": {', '.join(parts)}" if parts else "")

    @cached_property
    def _replaced(self) -> dict[str, set[str]]:
        """The names in each `.vac`."""
        vacuums = (*self.view.history.vacuums, *self.view.history.meta_vacuums)
        return {one.path: set(one.targets) for one in vacuums}

    def _vacuum_words(self, source: str) -> str:
        if source not in self._replaced:
            return "lists fragments that were replaced"
        names, of_array = self._replaced[source], source.startswith(META)
        what = count_text(len(names), "metadata file" if of_array else "fragment")
        if name_in(source) in self.operations.of_name:
            return f"hid {what}"
        was, them = ("was", "it") if len(names) == 1 else ("were", "them")
        lists, own = f"lists {what} that {was} replaced", name_in(source).removesuffix(".vac")
        if not of_array and own in self.view.rules.uncommitted:
            return f"{lists}; vacuum keeps {them}, as {own} has no commit"
        if not of_array and names - self._folders:
            return f"{lists}, of which {len(names & self._folders):,} are there"
        return f"{lists}; the next vacuum removes {them}"

    def _schema_words(self, path: str) -> tuple[str, tuple[str, ...]]:
        schemas = self.view.history.schemas
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


def _kind(item: Explanation) -> str:
    return "write" if item.kind == "fragment" else item.kind


def _is_event(item: Explanation) -> bool:
    # The labels of an enumeration have no time: they change with the schema.
    return not item.path.startswith(f"{ENUMERATIONS}/")
