"""The commit log of one array: where reading, rules, checks and words meet.

In: the place of an array. Out: `Log`, which answers questions about the array, and `Following`,
which tells what is new. Reads what an answer needs, and hands it to the room that gives it. A
question loads its modules when it is asked: most commands ask few.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chronotile.check.conditions import lacking_fragments, lacking_words
from chronotile.check.tags import tags_of
from chronotile.errors import BadTimeError, ChronotileError, StorageError
from chronotile.format import tiles
from chronotile.format.kinds import EVENTS, FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, is_erasing, parse_name, try_parse
from chronotile.format.timestamps import now_ms, span_text, time_text, to_ms
from chronotile.history.read_history import History, read_history
from chronotile.safe_text import html_card
from chronotile.storage.store import open_store
from chronotile.visibility.gaps import Gap
from chronotile.visibility.rules import Rules
from chronotile.visibility.view import View

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from chronotile.check.findings import Finding
    from chronotile.check.fragment_health import Health
    from chronotile.format.tag_entries import Tags
    from chronotile.format.timestamps import Moment
    from chronotile.history.log_watch import LogWatch
    from chronotile.show.events import Event
    from chronotile.show.operation_words import OperationWords
    from chronotile.show.picture import Height, Picture
    from chronotile.show.story import EventFilter, Story
    from chronotile.storage.store import Entry, Store
    from chronotile.visibility.view import Delete


@dataclass(frozen=True, eq=False)
class Log:
    """The commit log of one array: a value. It can be pickled and shared between threads."""

    history: History = field(repr=False)
    store: Store = field(repr=False)
    """Where the array is; `check` looks there beyond the log."""

    @property
    def array(self) -> str:
        """The place of the array."""
        return self.history.array

    def __repr__(self) -> str:
        return f"<log of {self.array}: {self.history.table.commit_count} commits>"

    def _repr_html_(self) -> str:
        """Show the log in a notebook."""
        return html_card(f"log of {self.array}", self.facts())

    def facts(self) -> list[tuple[str, object]]:
        """List a few facts, for a notebook."""
        view, commits = self.view(), self.history.table.uris.t2
        last = "none" if not len(commits) else time_text(int(commits.max()))
        return [
            ("kind", "dense" if self.history.dense else "sparse"),
            ("commits", self.history.table.commit_count),
            ("fragments visible now", len(view.fragments)),
            ("deletes in force now", len(view.deletes)),
            ("updates in force now", len(view.updates)),
            ("last commit", last),
        ]

    @cached_property
    def rules(self) -> Rules:
        """The rules, applied to this log."""
        return Rules(self.history)

    def moment(self, time: Moment, where: str = "time") -> int:
        """Give a time in any spelling, or a tag's name, in ms; see `format.timestamps.to_ms`.

        Raises:
            BadTimeError: It is no time.
            ReadError: It may be a tag, and metadata cannot be read.
        """
        first = self.history.table.first_time
        return to_ms(time, where, tags=self._tagged, earliest=first)

    def _tagged(self) -> dict[str, int]:
        return self.known_tags.checked(self.array).by_name()

    @property
    def tags(self) -> dict[str, int]:
        """The tags of the array, with their moments in ms, the earliest first.

        The first call reads the array's metadata.

        Raises:
            ReadError: Metadata cannot be read, and may hold a tag; `known_tags` has the others.
            StorageError: The storage failed.
        """
        return self.known_tags.checked(self.array).own

    @cached_property
    def known_tags(self) -> Tags:
        """The tags of the array, and those of groups that it is a member of."""
        return tags_of(self.store, self.history)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all commits, fragments, schemas and metadata files of the array."""
        from chronotile.history import text_columns

        table = self.history.table
        commits = text_columns.names(table, np.flatnonzero(table.effective)).to_pylist()
        others = (item.name for item in self.view().explain().others)
        return tuple(dict.fromkeys((*commits, *others)))

    @cached_property
    def id_length(self) -> int:
        """The length of a short id: that much of a uuid tells all names apart."""
        from chronotile.format.names import enough

        return enough(self.names)

    def find_name(self, text: str) -> str:
        """Find the name that a text means: a whole name, a file, or the start of a uuid.

        Raises:
            ChronotileError: No name fits, or several do.
        """
        from chronotile.format.names import find_name

        return find_name(self.names, text, self.array)

    def view(self, start: Moment = 0, end: Moment | None = None) -> View:
        """Give what an open at [start, end] sees, both ends included.

        Each end is in ms since the epoch, a `datetime`, or a text such as `2024-05-01`, `2h` (that
        long ago) or `now`; UTC, if it names no zone. As in the engine, `end` is now if it is left
        out.

        Raises:
            BadTimeError: An end is no time, or the window ends before it starts.
        """
        first = self.moment(start, "start")
        last = now_ms() if end is None else self.moment(end, "end")
        if last < first:
            problem = f"the window ends before it starts: {span_text(first, last)}"
            raise BadTimeError(self.array, problem)
        return View(self.rules, first, last)

    def story(
        self,
        *,
        end: Moment | None = None,
        sizes: bool = True,
        cells: bool = False,
        look: bool | None = None,
    ) -> Story:
        """Read what the words of all events need; the events are made one by one.

        Metadata, footers and older schemas are read later, when the event that needs them is made.

        Args:
            end: The end of the window by which an event is called visible; now, if left out.
            sizes: List the array's files, for `size` and `written`.
            cells: Read the footers of all fragments, for `cells`.
            look: Read metadata, to say what it sets, and the footers of merged fragments, to say
                which deletes they have applied; as `sizes`, if left out.

        Raises:
            StorageError: The storage failed.
        """
        from chronotile.show.story import Story

        try:
            listed = add_up(self.store.list_prefix()) if sizes else {}
        except StorageError:
            if self.operations.problem is None:
                raise
            listed = {}  # nobody may list the folder of records
        counts = {}
        if cells:
            facts = self.fragments().select(["name", "cells"]).to_pylist()
            counts = {row["name"]: row["cells"] for row in facts if row["cells"] is not None}
        looks = sizes if look is None else look
        if looks:
            listed |= {"read_metadata": self._metadata, "read_applied": lambda: self.applied_in}
        return Story(
            self.view(end=end),
            cells=counts,
            operations=self.operations,
            read_notes=self.older_words,
            **listed,
        )

    @cached_property
    def operations(self) -> OperationWords:
        """The operations of this package, for words; `Array.operations()` is the table of them.

        The first call costs one LIST, and a read for each operation.
        """
        return operation_words(self.store)

    def events(
        self,
        *,
        since: Moment = 0,
        until: Moment | None = None,
        kinds: Iterable[str] = EVENTS,
        sizes: bool = True,
    ) -> pa.Table:
        """Tell what happened, in words, as a table, the newest first: what `log` prints.

        Args:
            since: Not before this.
            until: Not after this.
            kinds: Only these, such as `delete`.
            sizes: List the array's files, for `size` and `written`; read what its metadata sets;
                and read the footers of merged fragments, to say which deletes they have applied.

        Raises:
            BadTimeError: `since` or `until` is no time.
            StorageError: The storage failed.
        """
        from chronotile.history.text_columns import with_times
        from chronotile.show.events import events_table
        from chronotile.show.story import EventFilter

        window = EventFilter(
            since=self.moment(since, "since"),
            until=None if until is None else self.moment(until, "until"),
            kinds=frozenset(kinds),
        )
        return with_times(events_table(self.story(sizes=sizes).events(window)))

    def picture(self, now: int, *, cells: bool = False, height: Height = "cells") -> Picture:
        """Gather what a timeline shows.

        Args:
            now: The moment that counts as now, in ms.
            cells: Read also how many cells and bytes each fragment holds.
            height: What the height of a fragment goes by then.
        """
        from chronotile.show.picture import make_picture

        story = self.story(end=MAX_TIMESTAMP, sizes=False, look=True)
        facts = self.fragments().to_pylist() if cells else []
        return make_picture(story, now, facts, height=height, tags=self.known_tags.own)

    def commits(self) -> pa.Table:
        """Give one row a commit record, in time order; `t1_time` and `t2_time` are timestamps."""
        from chronotile.history.text_columns import commit_rows, with_times

        return with_times(commit_rows(self.history.table))

    def check(self, *, log_only: bool = False, deep: bool = False) -> tuple[Finding, ...]:
        """Find what is wrong with the array, the worst first, and what to do about it.

        Reads the metadata of each fragment, and compares it with the fragment's files.

        Args:
            log_only: Check only the log, which has been read already.
            deep: Open the cells of each fragment too: sizes, tiles, chunks, checksums, and
                decompression as far as the filters are known.

        Raises:
            ChronotileError: Both are asked for.
        """
        from chronotile.check.check_array import check
        from chronotile.show.notebook import Findings

        if log_only and deep:
            raise ChronotileError(self.array, "expected log_only or deep, found both")
        store = None if log_only else self.store
        return Findings(with_undeletes(store, check(self.history, self.rules, store, deep=deep)))

    def older_words(self, commit: Delete) -> tuple[str, ...]:
        """Tell what a delete does to fragments that lack a field that it names (F15).

        Reads the metadata of fragments only if some schema of the array lacks such a field.
        """
        from chronotile.conditions.tree import fields

        with suppress(ChronotileError):
            lacking = lacking_fragments(self.rules, fields(commit.stored), commit.t2, self._health)
            if lacking:
                from chronotile.history.read_footers import count_cells

                return (lacking_words(lacking, count_cells(self.store, self.history, lacking)),)
        return ()

    def _health(self, paths: list[str]) -> Mapping[str, Health]:
        from chronotile.check.fragment_health import inspect

        return inspect(self.store, self.history, paths)

    def _metadata(self, paths: list[str]) -> dict[str, bytes]:
        """Read files of the array's metadata; `check` says what is wrong with those left out."""
        found = {}
        for path, data in self.store.read_many(paths):
            if not isinstance(data, ChronotileError):
                with suppress(ChronotileError):
                    found[path] = tiles.decode(data, path, key=self.history.key).payload
        return found

    @cached_property
    def applied_in(self) -> dict[str, int]:
        """Delete -> how many of the fragments visible now, and in its reach, have applied it.

        The first call reads the footers of the fragments that were merged from others, by their
        names or their `.vac`: a plain write has applied none.

        Raises:
            StorageError: The storage failed.
        """
        table = self.history.table
        merged = {vacuum.name.text for vacuum in self.history.vacuums}
        names = [table.name(row) for row in self.rules.visible(0, MAX_TIMESTAMP)[0].tolist()]
        wanted = [n for n in names if n in merged or len(set(parse_name(n)[:2])) == 2]
        counts: Counter[str] = Counter()
        if len(table.condition_rows):
            from chronotile.history.read_footers import FooterReader

            reader = FooterReader(self.store, self.history)
            for name, stored in reader.read(wanted, applied=True):
                applied = (not isinstance(stored, ChronotileError) and stored.applied) or ()
                counts.update(one for one in applied if _reaches(one, name))
        return dict(counts)

    def fragments(self, *, names: Collection[str] | None = None, sizes: bool = True) -> pa.Table:
        """Give one row a fragment that a commit or a folder names: what it holds, in time order.

        The first call reads the footers: from a `.meta` that holds them, else one ranged read for
        each fragment. Where no metadata is found, all columns from `cells` on are null.

        Args:
            names: Only these fragments.
            sizes: Fill `bytes`. A `.meta` does not tell the size of a fragment's own metadata file:
                that costs a call each. Without it `bytes` is null.

        Raises:
            StorageError: The storage failed.
        """
        if names is None and sizes:
            return self._facts
        return self._read_facts(names=names, sizes=sizes)

    @cached_property
    def _facts(self) -> pa.Table:
        return self._read_facts(names=None, sizes=True)

    def _read_facts(self, *, names: Collection[str] | None, sizes: bool) -> pa.Table:
        from chronotile.history.fragment_facts import read_facts
        from chronotile.history.text_columns import with_times

        return with_times(read_facts(self.store, self.history, names=names, sizes=sizes))

    def usage(self) -> pa.Table:
        """Give one row a file of the array: why it is there, and the command that frees it.

        Lists the array with sizes, and asks `vacuum` and `consolidate` for their plans. The sum of
        `bytes` is what the storage holds, also for files that are no part of an array. Where a
        vacuum would refuse, as the array is damaged, `freed_by` is null.

        Raises:
            StorageError: The storage failed.
        """
        from chronotile.change.usage import measure_usage

        return measure_usage(self.store, self.history, self.rules).table

    def lifelines(self) -> pa.Table:
        """Give one row a fragment: from when to when it is visible, and why it stops."""
        from chronotile.history.text_columns import with_times
        from chronotile.visibility.lifelines import lifelines

        return with_times(lifelines(self.rules))


def _reaches(delete: str, fragment: str) -> bool:
    """Tell if a delete is as late as the first cell of a fragment: a merge marks older ones too."""
    late = try_parse(delete)
    return late is not None and parse_name(fragment).t1 <= late.t2


def purges_of(log: Log) -> Iterator[Gap]:
    """Find the stretches at which rows that a later delete removed may be missing already.

    A merge that purged them tells so in its footer; see `dataset.moments`. What an erasure purged
    belongs to no time any more.
    """
    table, rules = log.history.table, log.rules
    rows = rules.fragment_rows[~rules.missing]
    merged = rows[table.uris.t1[rows] < table.uris.t2[rows]]
    if log.history.dense or not len(merged):
        return
    facts = log.fragments(names=[table.name(row) for row in merged.tolist()], sizes=False)
    columns = ("name", "t1", "has_delete_metadata", "applied_deletes")
    rows_of_facts = zip(*(facts[one].to_pylist() for one in columns), strict=True)
    for name, first, notes, applied in rows_of_facts:
        deletes = filter(None, map(try_parse, applied or ()))
        last = max((one.t2 for one in deletes if not is_erasing(one)), default=0)
        if notes is False and last > first:
            yield Gap(first, last - 1, name, is_purge=True)


def open_log(
    array: str | os.PathLike[str],
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Log:
    """List and read the commit log of an array, once.

    Args:
        array: A local path, or a `file://`, `s3://`, `gs://` or `az://` URI.
        key: The AES-256 key of an encrypted array: 32 bytes, or 32 characters as the engine
            takes them.
        storage_options: What the storage needs to know, such as `aws_endpoint`.

    Raises:
        ArrayNotFoundError: There is no array.
        ChangedError: The array changed each time while it was read.
        WrongKeyError: The key does not open it.
        StorageError: The storage failed.
    """
    store = open_store(array, storage_options)
    return Log(read_history(store, key=key), store)


def add_up(entries: Iterable[Entry]) -> dict[str, Any]:
    """Add up the files of each fragment of an array, and date the others.

    >>> from chronotile.storage.store import Entry
    >>> add_up([Entry("__fragments/f/a.tdb", 3), Entry("__fragments/f/b.tdb", 4)])
    {'sizes': {'__fragments/f': 7}, 'written': {}}
    """
    sizes: dict[str, int] = {}
    written: dict[str, int] = {}
    for entry in entries:
        parts = entry.path.split("/")
        if parts[0] == FRAGMENTS and len(parts) > 2:
            path = f"{FRAGMENTS}/{parts[1]}"
        else:
            # Before version 12 a fragment's folder lies in the root.
            path = parts[0] if len(parts) > 1 and try_parse(parts[0]) else entry.path
            if entry.modified_ms is not None:
                written[path] = entry.modified_ms
        sizes[path] = sizes.get(path, 0) + (entry.size or 0)
    return {"sizes": sizes, "written": written}


class Following:
    """New events of one array, as they come.

    A look reads nothing if nothing has changed. Never waits: the caller decides when to look.

    Args:
        watch: Made before the first story was read, so that nothing is missed.
        story: What was known then.
        window: The events to tell of.
        again: Reads the array again.
    """

    def __init__(
        self, watch: LogWatch, story: Story, window: EventFilter, again: Callable[[], Story]
    ) -> None:
        self._watch, self._window, self._again = watch, window, again
        self._seen = set(story.identities(window))
        self._story = story
        self._told: set[str] | None = None

    def look(self) -> list[Event]:
        """Give the events that have come since the last look.

        Raises:
            ChronotileError: The array cannot be read now; a later look tells what this one missed.
        """
        if not self._watch.has_changed():
            return []
        try:
            story = self._again()
        except BaseException:
            self._watch.forget()
            raise
        self._story = story
        events = story.events(self._window, reverse=True, seen=self._seen)
        # A fragment lies there before it is committed: it becomes an event when it is.
        fresh = [event for event in events if event.reason != "uncommitted"]
        self._seen.update((event.kind, event.name) for event in fresh)
        return fresh

    def look_folded(self) -> list[tuple[Event, tuple[Event, ...]]]:
        """Give what `look` gives, with one event for all that an operation did."""
        if self._told is None:
            self._told = {one.name for one in self._story.operation_events(self._window)}
        fresh = self.look()
        operations = {one.name: one for one in self._story.operation_events(self._window)}
        under: dict[str, list[Event]] = {}
        found: list[tuple[Event, list[Event]]] = []
        for event in fresh:
            whole = operations.get(event.operation or "")
            if whole is None:
                found.append((self._story.signed(event), []))
                continue
            if whole.name not in self._told:
                self._told.add(whole.name)
                found.append((whole, under.setdefault(whole.name, [])))
            under.setdefault(whole.name, []).append(event)
        return [(event, tuple(commits)) for event, commits in found]


def operation_words(store: Store, *, noun: str = "array") -> OperationWords:
    """Read the operations of an array or a group, for words; a note stands for unreadable ones."""
    from chronotile.change.operations import tell_operations
    from chronotile.show.operation_words import OperationWords

    try:
        return OperationWords(tell_operations(store), noun=noun)
    except StorageError as error:
        return OperationWords(noun=noun, problem=f"no operation is shown: {error}")


def with_undeletes(store: Store | None, found: Sequence[Finding]) -> Sequence[Finding]:
    """Say of the deletes in findings whose rows are back already."""
    if store is None or all(one.code != "delete-hits-null" for one in found):
        return found
    back: dict[str, str] = {}
    with suppress(ChronotileError):  # the findings stand without it
        back = operation_words(store).undeleted

    def told(one: Finding) -> Finding:
        words = [text for name, text in back.items() if name in one.hint]
        is_of_delete = words and one.code == "delete-hits-null"
        return replace(one, hint=f"nothing to run: {words[0]}") if is_of_delete else one

    return [*map(told, found)]
