"""The commit log of one array: the object that users hold.

In: the place of an array. Out: `Log`, which answers questions about the array. Only puts together
what the rooms before it know; of `change` it asks for plans, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from chronotile.check.check_array import check
from chronotile.check.conditions import lacking_fragments, lacking_words
from chronotile.check.fragment_health import inspect
from chronotile.check.tags import tags_of
from chronotile.conditions.tree import fields
from chronotile.errors import BadTimeError, ChronotileError, html_card
from chronotile.format.kinds import EVENTS
from chronotile.format.names import MAX_TIMESTAMP, parse_name, try_parse
from chronotile.format.timestamps import now_ms, time_text, to_ms
from chronotile.history import text_columns
from chronotile.history.commit_rows import commit_rows
from chronotile.history.fragment_facts import read_facts
from chronotile.history.read_footers import FooterReader, count_cells
from chronotile.history.read_history import History, read_history
from chronotile.history.time_columns import with_times
from chronotile.log.events import events_table
from chronotile.log.short_ids import enough, find_name
from chronotile.log.story import Story, Window, list_files
from chronotile.storage.store import open_store
from chronotile.visibility.explanation import Explanation, explain
from chronotile.visibility.lifelines import lifelines
from chronotile.visibility.rules import Rules
from chronotile.visibility.view import View as BaseView

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from chronotile.check.findings import Finding
    from chronotile.format.tag_entries import Tags
    from chronotile.format.timestamps import Moment
    from chronotile.storage.store import Store
    from chronotile.visibility.view import Delete


class View(BaseView):
    """What an open at one window sees, and why."""

    def explain(self) -> Sequence[Explanation]:
        """Every object, visible or not, with the rule that decided."""
        return explain(self)


@dataclass(frozen=True, eq=False)
class Log:
    """The commit log of one array: a value. It can be pickled and shared between threads."""

    history: History = field(repr=False)
    store: Store | None = field(default=None, repr=False)
    """Where the array is; `check` looks there beyond the log."""

    @property
    def array(self) -> str:
        """Where the array lies."""
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
        """A time in any spelling, or a tag's name, in ms; see `format.timestamps.to_ms`.

        Raises:
            BadTimeError: It is no time.
            ReadError: It may be a tag, and metadata cannot be read.
        """
        first = self.history.table.first_time
        return to_ms(time, where, look_up=self._tagged, earliest=first)

    def _tagged(self, name: str) -> int | None:
        return self.known_tags.checked(self.array).moment(name)

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
        return tags_of(self.storage, self.history)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all commits, fragments, schemas and metadata files of the array."""
        table, explained = self.history.table, self.view().explain()
        rows = np.flatnonzero(table.counts)
        commits = text_columns.names(table, rows).to_pylist()
        others = (item.name for item in explained[len(self.rules.fragments) :])
        return tuple(dict.fromkeys((*commits, *others)))

    @cached_property
    def id_length(self) -> int:
        """How many characters of a uuid tell all names apart: the length of a short id."""
        return enough(self.names)

    def find_name(self, text: str) -> str:
        """The name that a text means: a whole name, a file, or the start of a uuid.

        Raises:
            ChronotileError: No name fits, or several do.
        """
        return find_name(self.names, text, self.array)

    def view(self, start: Moment = 0, end: Moment | None = None) -> View:
        """What an open at [start, end] sees, both ends included.

        Each end is in ms since the epoch, a `datetime`, or a text such as `2024-05-01`, `2h` (that
        long ago) or `now`; UTC, if it names no zone. As in the engine, `end` is now if it is left
        out.

        Raises:
            BadTimeError: An end is no time, or the window ends before it starts.
        """
        first = self.moment(start, "start")
        last = now_ms() if end is None else self.moment(end, "end")
        if last < first:
            problem = f"expected a window that ends after it starts, found {first} to {last}"
            raise BadTimeError(self.array, problem)
        return View(self.rules, first, last)

    def events(
        self,
        *,
        since: Moment = 0,
        until: Moment | None = None,
        kinds: Iterable[str] = EVENTS,
        sizes: bool = True,
    ) -> pa.Table:
        """What `chronotile log` prints, as a table: what happened, in words, the newest first.

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
        window = Window(
            since=self.moment(since, "since"),
            until=None if until is None else self.moment(until, "until"),
            kinds=frozenset(kinds),
        )
        listed = list_files(self.storage.list_prefix(sizes=True)) if sizes else None
        story = Story(self, self.view(), listed, look=sizes)
        return with_times(events_table(story.events(window)))

    def commits(self) -> pa.Table:
        """One row a commit record, in time order; `t1_time` and `t2_time` are timestamps."""
        return with_times(commit_rows(self.history.table))

    def check(self, *, log_only: bool = False, deep: bool = False) -> tuple[Finding, ...]:
        """What is wrong with the array, the worst first, and what to do about it.

        Reads the metadata of each fragment, and compares it with the fragment's files.

        Args:
            log_only: Check only the log, which has been read already.
            deep: Open the cells of each fragment too: sizes, tiles, chunks, checksums, and
                decompression as far as the filters are known.

        Raises:
            ChronotileError: Both are asked for.
        """
        if log_only and deep:
            raise ChronotileError(self.array, "expected log_only or deep, found both")
        store = None if log_only else self.storage if deep else self.store
        return check(self.history, self.rules, store, deep=deep)

    def lacking_fragments(self, commit: Delete) -> dict[str, tuple[str, ...]]:
        """The fragments that a delete empties, as they lack a field that it names (F15).

        Reads the metadata of fragments only if some schema of the array lacks such a field.
        """
        if self.store is None:
            return {}
        look = partial(inspect, self.store, self.history)
        return lacking_fragments(self.rules, fields(commit.stored), commit.t2, look)

    def older_words(self, commit: Delete) -> str | None:
        """What a delete does to fragments that lack a field of it (F15), in words.

        Reads what `lacking_fragments` reads, and the footers of the fragments that it gives.
        """
        lacking = self.lacking_fragments(commit)
        if not lacking or self.store is None:
            return None
        return lacking_words(lacking, count_cells(self.store, self.history, lacking))

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
        if len(table.tile_rows):
            reader = FooterReader(self.storage, self.history)
            for name, stored in reader.read(wanted, applied=True):
                applied = (not isinstance(stored, ChronotileError) and stored.applied) or ()
                counts.update(one for one in applied if _reaches(one, name))
        return dict(counts)

    def fragments(self, *, names: Collection[str] | None = None, sizes: bool = True) -> pa.Table:
        """One row a fragment that a commit or a folder names: what it holds, in time order.

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
        return with_times(read_facts(self.storage, self.history, names=names, sizes=sizes))

    @cached_property
    def _facts(self) -> pa.Table:
        return with_times(read_facts(self.storage, self.history))

    def usage(self) -> pa.Table:
        """One row a file of the array: why it is there, and the command that frees it.

        Lists the array with sizes, and asks `vacuum` and `consolidate` for their plans. The sum of
        `bytes` is what the storage holds, also for files that are no part of an array. Where a
        vacuum would refuse, as the array is damaged, `freed_by` is null.

        Raises:
            StorageError: The storage failed.
        """
        # The plans of changes are not needed to read a log.
        from chronotile.change.usage import measure_usage

        return measure_usage(self.storage, self.history, self.rules).table

    @property
    def storage(self) -> Store:
        """Where the array is; a log that was made without its store finds it by its name."""
        return self.store or open_store(self.array)

    def lifelines(self) -> pa.Table:
        """One row a fragment: from when to when it is visible, and why it stops."""
        return with_times(lifelines(self.rules))


def _reaches(delete: str, fragment: str) -> bool:
    """Whether a delete is as late as the first cell of a fragment: a merge marks older ones too."""
    late = try_parse(delete)
    return late is not None and parse_name(fragment).t1 <= late.t2


def open_log(
    array: str | os.PathLike[str],
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    prune_to: tuple[int, int] | None = None,
) -> Log:
    """Lists and reads the commit log of an array, once.

    Args:
        array: A local path, or a `file://`, `s3://`, `gs://` or `az://` URI.
        key: The AES-256 key of an encrypted array: 32 bytes, or 32 characters as the engine
            takes them.
        storage_options: What the storage needs to know, such as `aws_endpoint`.
        prune_to: A window; see `history.read_history` for what it risks.

    Raises:
        ArrayNotFoundError: There is no array.
        ChangedError: The array changed each time while it was read.
        WrongKeyError: The key does not open it.
        StorageError: The storage failed.
    """
    store = open_store(array, storage_options)
    return Log(read_history(store, key=key, prune_to=prune_to), store)
