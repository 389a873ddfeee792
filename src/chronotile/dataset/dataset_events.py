"""The events of all members of a dataset, in one order of time, and new ones as they come.

In: a dataset. Out: the events of every array, each with its member, and of every list of members;
one by one, or as a table. Does not describe what happened in an array: `show.story` does. Never
waits: the caller of `DatasetFollowing` decides when to look.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from chronotile.check.findings import count_text
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.kinds import DATASET_EVENTS, EVENTS, GROUP_EVENT
from chronotile.history.log_watch import WATCHED_IN_ARRAYS, WATCHED_IN_GROUPS, LogWatch
from chronotile.history.text_columns import with_times
from chronotile.log import operation_words
from chronotile.show.events import Event, events_table
from chronotile.show.operation_words import OperationWords
from chronotile.show.story import EventFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    from chronotile.dataset.open_dataset import Dataset
    from chronotile.format.groups import GroupEntry
    from chronotile.history.group_reading import GroupHistory
    from chronotile.storage.store import Store


class MemberEvent(NamedTuple):
    """One thing that happened to one member."""

    member: str
    """Its path in the dataset; empty for the group itself."""
    array: str
    """Where it lies."""
    event: Event

    def to_dict(self) -> dict[str, object]:
        """Give the JSON form, as `log --json` prints it."""
        return {"member": self.member, "array": self.array, **self.event.to_dict()}


class DatasetEvents(NamedTuple):
    """The events of a dataset, and the members that could not be read."""

    events: tuple[MemberEvent, ...]
    errors: dict[str, ChronotileError]
    """Path of a member -> why."""
    operations: tuple[MemberEvent, ...] = ()
    """Operations of this package, of members and of groups, the newest first."""
    parts: Mapping[tuple[str, str], str] = {}
    """Path of a member, and the id of its operation -> the operation of a group around it."""

    def folded(self, *, reverse: bool = False) -> list[tuple[MemberEvent, tuple[Event, ...]]]:
        """Give the events with one for all that an operation did, and those that it stands for.

        An operation of a group stands for all that it did to members.
        """
        ids = {one.event.name for one in self.operations}
        under: dict[tuple[str, str], list[Event]] = {}
        others = []
        for one in self.events:
            whole = self._whole(one.member, one.event.operation or "")
            if whole[1] in ids:
                under.setdefault(whole, []).append(one.event)
            else:
                others.append(one)
        shown = [
            one
            for one in self.operations
            if self.parts.get((one.member, one.event.name)) not in ids
        ]
        both = sorted([*others, *shown], key=_order, reverse=not reverse)
        keys = [self._whole(one.member, one.event.name) for one in both]
        return [(one, tuple(under.get(key, ()))) for one, key in zip(both, keys, strict=True)]

    def _whole(self, member: str, operation: str) -> tuple[str, str]:
        """Name the operation that stands for one of a member."""
        around = self.parts.get((member, operation))
        return (member, operation) if around is None else ("", around)


def member_events(
    dataset: Dataset,
    window: EventFilter | None = None,
    *,
    pattern: str | None = None,
    sizes: bool = True,
    reverse: bool = False,
    only: Container[str] | None = None,
    undone: bool = True,
) -> DatasetEvents:
    """Find the events of all members, the newest first.

    Members whose path does not fit the pattern are not read. Of arrays, `only` chooses those at
    some places. `sizes` adds up the files of each array.
    """
    window = window or EventFilter(kinds=frozenset(DATASET_EVENTS))
    found: list[MemberEvent] = []
    errors: dict[str, ChronotileError] = {}
    groups = [("", dataset.group)]
    of_groups = {"": operation_words(dataset.store, noun="group")}
    operations: list[MemberEvent] = []
    parts: dict[tuple[str, str], str] = {}
    for node in dataset.tree():
        if not node.fits(pattern):
            continue
        if node.history is not None:
            groups.append((node.path, node.history))
            if node.store is not None:
                of_groups[node.path] = operation_words(node.store, noun="group")
        if node.found == "unreadable":
            errors[node.path] = ReadError(node.uri, node.problem)
        if node.found != "array" or node.store is None:
            continue
        if only is not None and node.uri not in only:
            continue
        log = dataset.read_log(node)
        if isinstance(log, ChronotileError):
            errors[node.path] = log
            continue
        story = log.story(sizes=sizes)
        found += [MemberEvent(node.path, node.uri, event) for event in story.events(window)]
        own = story.operation_events(window, undone=undone)
        operations += [MemberEvent(node.path, node.uri, event) for event in own]
        parts |= {(node.path, id_): around for id_, around in log.operations.group_of.items()}
    for path, history in groups:
        if (pattern is None or fnmatchcase(path, pattern)) and GROUP_EVENT in window.kinds:
            known = of_groups.get(path, OperationWords())
            for event in _lists(history, window):
                by = known.of_name.get(event.name)
                found.append(MemberEvent(path, history.group, event._replace(operation=by)))
            if window.kinds.issuperset(EVENTS):
                own = [one for one in known.events(undone=undone) if window.holds(one)]
                operations += [MemberEvent(path, history.group, event) for event in own]
            parts |= {(path, id_): around for id_, around in known.group_of.items()}
    found.sort(key=_order, reverse=not reverse)
    operations.sort(key=_order, reverse=True)
    return DatasetEvents(tuple(found), errors, tuple(operations), parts)


def dataset_events(
    dataset: Dataset,
    window: EventFilter | None = None,
    *,
    pattern: str | None = None,
    sizes: bool = True,
) -> pa.Table:
    """Give the events of all members as a table, with the columns of `log.events()` too.

    Raises:
        ChronotileError: A member cannot be read.
    """
    history = member_events(dataset, window, pattern=pattern, sizes=sizes)
    for error in history.errors.values():
        raise error
    table = with_times(events_table(one.event for one in history.events))
    members = pa.array([one.member for one in history.events], pa.string())
    arrays = pa.array([one.array for one in history.events], pa.string())
    return table.add_column(0, "member", members).add_column(1, "array", arrays)


def _order(one: MemberEvent) -> tuple[int, int, str, str]:
    return (one.event.t2 or 0, -(one.event.t1 or 0), one.member, one.event.name)


def _lists(history: GroupHistory, window: EventFilter) -> Iterator[Event]:
    """Make an event of each list of members, with the changes that it made."""
    before: dict[str, GroupEntry] = {}
    for file in history.files:
        after = dict(before)
        for entry in () if file.details is None else file.details.entries:
            if entry.is_deletion:
                after.pop(entry.key, None)
            else:
                after[entry.key] = entry
        name = file.name
        late = window.until is not None and name.t1 > window.until
        if not late and name.t2 >= window.since:
            text = _words(before, after) if file.details is not None else "changed the members"
            notes = () if file.details is not None else ("it cannot be read",)
            yield Event(
                name=name.text,
                kind=GROUP_EVENT,
                t1=name.t1,
                t2=name.t2,
                text=text,
                notes=notes,
                size=file.size,
                source=file.path,
            )
        before = after


def _words(before: dict[str, GroupEntry], after: dict[str, GroupEntry]) -> str:
    added = sorted(key for key in after if key not in before)
    removed = sorted(key for key in before if key not in after)
    moved = sorted(key for key in after if key in before and after[key] != before[key])
    parts = []
    for word, keys in (("added", added), ("removed", removed), ("moved", moved)):
        if keys:
            few = ", ".join(keys[:5]) + (f" and {len(keys) - 5:,} more" if len(keys) > 5 else "")
            parts.append(f"{word} {few}")
    return "; ".join(parts) or f"wrote its {count_text(len(after), 'member')} again"


class DatasetFollowing:
    """New events of a dataset; a look reads only the members that have changed."""

    def __init__(
        self,
        open_again: Callable[[], Dataset],
        window: EventFilter,
        *,
        pattern: str | None = None,
        sizes: bool = True,
    ) -> None:
        """Find the events so far."""
        self._open, self._window, self._pattern, self._sizes = open_again, window, pattern, sizes
        self._watches: dict[str, LogWatch] = {}
        dataset = open_again()
        self._watch(dataset)
        self.history = member_events(dataset, window, pattern=pattern, sizes=sizes, reverse=True)
        """What is known at the first look, the oldest first."""
        self._seen = {
            _identity(one) for one in self.history.events if one.event.reason != "uncommitted"
        }
        self._told = {(one.member, one.event.name) for one in self.history.operations}
        self._last = self.history

    def look_folded(self) -> list[tuple[MemberEvent, tuple[Event, ...]]]:
        """Find what `look` finds, with one event for all that an operation did."""
        fresh, known = self.look(), self._last.operations
        told, self._told = self._told, self._told | {(o.member, o.event.name) for o in known}
        history = self._last._replace(events=tuple(fresh))
        return [
            (one, under)
            for one, under in history.folded(reverse=True)
            if (one.member, one.event.name) not in told and (under or one in fresh)
        ]

    def look(self) -> list[MemberEvent]:
        """Find the events that have come since the last look.

        Raises:
            ChronotileError: The group cannot be read now; a later look gives what this one missed.
        """
        changed = {place for place, watch in self._watches.items() if watch.has_changed()}
        if not changed:
            return []
        try:
            dataset = self._open()
            changed |= self._watch(dataset)
            self._last = history = self._tell(dataset, changed)
        except BaseException:
            self._forget(changed)
            raise
        lost = {node.uri for node in dataset.tree() if node.path in history.errors}
        self._forget(lost)
        fresh = [one for one in history.events if _identity(one) not in self._seen]
        fresh = [one for one in fresh if one.event.reason != "uncommitted"]
        self._seen.update(map(_identity, fresh))
        return fresh

    def _tell(self, dataset: Dataset, changed: set[str]) -> DatasetEvents:
        return member_events(
            dataset,
            self._window,
            pattern=self._pattern,
            sizes=self._sizes,
            reverse=True,
            only=changed,
        )

    def _forget(self, places: set[str]) -> None:
        for place in places & self._watches.keys():
            self._watches[place].forget()

    def _watch(self, dataset: Dataset) -> set[str]:
        """Watch the places that are not watched yet, and give them."""
        before = set(self._watches)
        stores: dict[str, tuple[Store, tuple[str, ...]]] = {
            dataset.uri: (dataset.store, WATCHED_IN_GROUPS)
        }
        for node in dataset.tree():
            if node.store is not None and node.found in ("array", "group"):
                stores[node.uri] = (
                    node.store,
                    WATCHED_IN_ARRAYS if node.found == "array" else WATCHED_IN_GROUPS,
                )
        for place, (store, folders) in stores.items():
            if place not in before:
                self._watches[place] = LogWatch(store, folders)
        for place in before - stores.keys():
            del self._watches[place]
        return set(self._watches) - before


def _identity(one: MemberEvent) -> tuple[str, str, str]:
    return one.member, one.event.kind, one.event.name
