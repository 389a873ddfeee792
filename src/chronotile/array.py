"""One array: its log, its rows, and every change of it.

In: a store and a key. Out: tables, views, reports. Reads the log once, and again after a change.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from chronotile.errors import ChronotileError, html_card
from chronotile.format.kinds import EVENTS
from chronotile.handle import (
    Drawn,
    Handle,
    How,
    OfGroup,
    draw_to,
    is_id,
    operation_of,
    who_asks,
    with_operations,
    wrong_member,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from chronotile.change.plan import Plan, Report
    from chronotile.change.usage import Usage
    from chronotile.check.findings import Finding
    from chronotile.format.timestamps import Moment
    from chronotile.handle import Done
    from chronotile.log import Log
    from chronotile.rows.read_rows import RowReader
    from chronotile.rows.removed_rows import RemovedRows
    from chronotile.show.picture import Height
    from chronotile.storage.transfer import Link
    from chronotile.visibility.explanation import Explanation
    from chronotile.visibility.view import View


class Array(Handle["Report"]):
    """An array that is open."""

    def __repr__(self) -> str:
        return f"<array at {self.uri}>"

    def _repr_html_(self) -> str:
        """Show the array in a notebook."""
        return html_card(f"array at {self.uri}", self.log.facts())

    @cached_property
    def log(self) -> Log:
        """The commit log, read once."""
        from chronotile.history.read_history import read_history
        from chronotile.log import Log

        return Log(read_history(self.store, key=self.key), self.store)

    def read(self, on_file: Callable[[], None]) -> Log:
        """Read the commit log now, and call a function after each file."""
        from chronotile.history.read_history import read_history
        from chronotile.log import Log

        watched = self.store.watched(lambda what, _: on_file() if what == "read.done" else None)
        self.__dict__["log"] = Log(read_history(watched, key=self.key), self.store)
        return self.log

    @cached_property
    def labelled_log(self) -> Log:
        """The commit log with the labels of enumerations, as rows need it."""
        from chronotile.rows.open_for_rows import open_labelled

        return open_labelled(self.store, self.key)

    def _read_again(self) -> None:
        """Forget what was read: the array has changed."""
        self.__dict__.pop("log", None)
        self.__dict__.pop("labelled_log", None)

    @property
    def tags(self) -> dict[str, int]:
        """The tags, with their moments in ms, the earliest first."""
        return self.log.tags

    def moment(self, time: Moment, where: str = "time") -> int:
        """Give a time in any spelling, or a tag's name, in ms."""
        return self.log.moment(time, where)

    def view(self, start: Moment = 0, end: Moment | None = None) -> View:
        """Give what an open at a window sees; see `Log.view`."""
        return self.log.view(start, end)

    def explain(
        self, name: str | None = None, *, start: Moment = 0, end: Moment | None = None
    ) -> Sequence[Explanation]:
        """Explain why each object is, or is not, visible at a window.

        Args:
            name: Only objects with this text in their names.
            start: The start of the window.
            end: The end of the window; now, if it is left out.

        Raises:
            ChronotileError: No object has such a name.
        """
        explained = self.view(start, end).explain()
        if name is None:
            return explained
        wanted = name.rpartition("/")[2]
        chosen = [item for item in explained if wanted in item.name]
        chosen = chosen or [item for item in explained if wanted.rpartition(".")[0] == item.name]
        if not chosen:
            problem = f"expected an object with {name!r} in its name, found none"
            raise ChronotileError(self.uri, problem)
        return chosen

    def events(
        self,
        *,
        start: Moment = 0,
        end: Moment | None = None,
        kinds: Iterable[str] = EVENTS,
        size: bool = True,
    ) -> pa.Table:
        """Tell what happened, in words, the newest first: what `chronotile log` prints.

        Args:
            start: Not before this.
            end: Not after this.
            kinds: Only these, such as `delete`.
            size: Add up the files of each fragment; without it, nothing but the log is read.
        """
        return self.log.events(since=start, until=end, kinds=kinds, sizes=size)

    def commits(self) -> pa.Table:
        """Give one row a commit record, in time order."""
        return self.log.commits()

    def fragments(self, *, names: Collection[str] | None = None, sizes: bool = True) -> pa.Table:
        """Give one row a fragment: what it holds; see `Log.fragments`."""
        return self.log.fragments(names=names, sizes=sizes)

    def lifelines(self) -> pa.Table:
        """Give one row a fragment: from when to when it is visible, and why it stops."""
        return self.log.lifelines()

    def usage(self) -> pa.Table:
        """Give one row a file: why it is there, and the command that frees it."""
        return self.measure_usage()[0].table

    def measure_usage(self) -> tuple[Usage, dict[str, ChronotileError]]:
        """Give what `usage` gives, with every way to free bytes, notes, and no error."""
        from chronotile.change.usage import measure_usage

        return measure_usage(self.store, self.log.history, self.log.rules), {}

    def check(self, *, log_only: bool = False, deep: bool = False) -> tuple[Finding, ...]:
        """Find what is wrong, the worst first, and what to do about it; see `Log.check`."""
        return self.log.check(log_only=log_only, deep=deep)

    def timeline(
        self,
        out: str | os.PathLike[str],
        *,
        as_of: Moment | None = None,
        cells: bool = False,
        height: Height | None = None,
    ) -> Drawn:
        """Draw the history into a file: `.html`, `.svg` or `.png`.

        Args:
            out: The file.
            as_of: The moment that counts as now.
            cells: Read also how many cells and bytes each fragment holds.
            height: What the height of a fragment goes by, `cells` or `bytes`; implies `cells`.
        """
        from chronotile.format.timestamps import now_ms

        moment = now_ms() if as_of is None else self.moment(as_of, "as_of")
        counted = cells or height is not None
        return draw_to(out, self.log.picture(moment, cells=counted, height=height or "cells"))

    def row_reader(
        self,
        start: Moment = 0,
        end: Moment | None = None,
        *,
        where: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> RowReader:
        """Open what `rows` reads, to be read batch by batch."""
        from chronotile.rows.read_rows import rows_of

        return rows_of(self.labelled_log, start, end, where=where, fields=fields)

    def rows(
        self,
        start: Moment = 0,
        end: Moment | None = None,
        *,
        where: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> pa.Table:
        """Read the rows that an open at a window should see, with updates carried out.

        Deletes remove what the engine removes, rows with NULL among it (F7, F15): they are gone for
        every reader. Updates mean what SQL means: a comparison with NULL is no match. Needs
        `chronotile[engine]`.

        Args:
            start: The start of the window.
            end: The end of the window; now, if it is left out.
            where: A predicate on the rows as they are at the end, such as `a < 3`.
            fields: Dimensions and attributes; all if left out.

        Returns:
            A table; its schema's metadata holds notes under `chronotile.notes` if a commit that
            the engine refuses had to be left out.

        Raises:
            NoEngineError: The engine is not installed.
            PredicateError: The predicate or a field does not fit the schema.
            EngineError: The engine refused.
        """
        return self.row_reader(start, end, where=where, fields=fields).table()

    def removed_rows(self, name: str, values: Sequence[str] = ()) -> pa.Table:
        """Read the rows that one delete removed, or one update changed, as they were before.

        Args:
            name: The name of the delete or update, or enough of its id.
            values: Only rows with these values, such as `id=7`.

        Raises:
            NoEngineError: The engine is not installed.
            ChronotileError: There is no such delete or update.
        """
        return self.removed_reader(name, values).table()

    def removed_reader(self, name: str, values: Sequence[str] = ()) -> RemovedRows:
        """Open what `removed_rows` reads, to be read batch by batch."""
        from chronotile.rows.removed_rows import removed_of

        return removed_of(self.labelled_log, name, values)

    def diff(self, t1: Moment, t2: Moment, *, rows: bool = False) -> pa.Table:
        """Compare what opens at two moments see; see `chronotile.diff`.

        Args:
            t1: The earlier moment.
            t2: The later one.
            rows: Tell the rows that differ. This needs `chronotile[engine]`.
        """
        return self.diff_with_notes(t1, t2, rows=rows)[0]

    def diff_with_notes(
        self, t1: Moment, t2: Moment, *, rows: bool = False
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """Give what `diff` gives, and notes on what had to be left out."""
        from chronotile.rows.diff import diff_of

        table = diff_of(self.labelled_log if rows else self.log, t1, t2, rows=rows)
        return with_operations(table, "commit" if rows else "name", [self.store]), ()

    def blame(self, row: Mapping[str, object] | Sequence[str]) -> pa.Table:
        """List every commit that wrote, changed or removed a row, in order.

        Args:
            row: A value for some fields, or texts such as `id=7`. Dimensions say where the row is;
                of attributes it is enough that it once had the value.
        """
        return self.blame_with_notes(row)[0]

    def blame_with_notes(
        self, row: Mapping[str, object] | Sequence[str]
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """Give what `blame` gives, and notes on what had to be left out."""
        from chronotile.rows.blame import blame_of

        return with_operations(blame_of(self.labelled_log, row), "commit", [self.store]), ()

    def _change(
        self,
        command: str,  # noqa: ARG002 (the plan has it)
        planner: Callable[..., Plan],
        options: Mapping[str, Any],
        how: How,
        *,
        exclusive: bool = False,
        **of_group: Unpack[OfGroup],  # noqa: ARG002 (an array has no members)
    ) -> Report:
        if how.get("member") is not None or how.get("outside"):
            raise wrong_member(self.uri)
        from chronotile.change.executor import execute
        from chronotile.change.undo import settle

        who, dry_run = who_asks(options, how), how.get("dry_run", False)
        try:
            settled = settle(self.store, self.key, exclusive=exclusive, dry_run=dry_run)
            notes = tuple(one.note for one in settled)
            if options.get("operation", "") is None and any(one.is_back for one in settled):
                # An undo of the last change, which was broken off, has nothing else to take back.
                plans = (one.plan for one in settled if one.plan is not None)
                steps = tuple(step for plan in plans for step in plan.steps)
                from chronotile.change.plan import Report

                return Report("undo", self.uri, dry_run=dry_run, steps=steps, notes=notes)
            plan = planner(self.store, self.key, **options)
            plan = replace(plan, notes=(*notes, *plan.notes))
            if dry_run:
                return plan.report()
            return execute(self.store, plan, who, exclusive=exclusive, before=how.get("before"))
        finally:
            self._read_again()

    def undelete(
        self,
        name: str,
        *,
        at: Moment | None = None,
        ever: bool = False,
        commits_only: bool = False,
        **how: Unpack[How],
    ) -> Report:
        """Bring back the rows that one delete or update hides; see `Handle.undelete`."""
        from chronotile.rows.ways_back import plan_undelete_any_way

        options = {"at": at, "ever": ever, "commits_only": commits_only}
        options["name"] = self.log.find_name(name)
        return self._change("undelete", plan_undelete_any_way, options, how, exclusive=True)

    def undo(self, operation: Done | None = None, **how: Unpack[How]) -> Report:
        """Take back a change of ours; see `Handle.undo`."""
        from chronotile.change.undo import plan_undo

        wanted = operation_of(operation)
        if wanted is not None and (not isinstance(wanted, str) or not is_id(wanted)):
            from chronotile.change.older_records import plan_undo_report

            return self._change("undo", plan_undo_report, {"report": wanted}, how, exclusive=True)
        return self._change("undo", plan_undo, {"operation": wanted}, how, exclusive=True)

    def publish(
        self,
        staging: str | Sequence[str],
        *,
        at: Moment | None = None,
        own_times: bool = False,  # noqa: ARG002 (of groups; an array's fragments have them anyway)
        again: bool = False,
        allow_hidden: bool = False,
        **how: Unpack[How],
    ) -> Report:
        """Make all fragments of staging arrays visible, in one step; see `Handle.publish`."""
        from chronotile.change.publish import plan_publish

        places = [staging] if isinstance(staging, str) else list(staging)
        options = {"staging": places, "at": at, "again": again, "allow_hidden": allow_hidden}
        return self._change("publish", plan_publish, options, how, exclusive=True)

    def clone(
        self,
        target: str,
        *,
        start: Moment = 0,
        end: Moment | None = None,
        without: Iterable[str] = (),
        link: Link = "hard",
        dry_run: bool = False,
    ) -> Report:
        """Make an array elsewhere that shows what an open of this one shows."""
        from chronotile.change.clone import clone
        from chronotile.storage.store import open_store

        there = open_store(target, dict(self.store.options))
        names = [self.log.find_name(name) for name in without]
        return clone(
            self.store,
            there,
            self.key,
            start=start,
            end=end,
            without=names,
            link=link,
            dry_run=dry_run,
        )

    def tag(
        self, name: str, *, at: Moment | None = None, move: bool = False, **how: Unpack[How]
    ) -> Report:
        """Give a moment a name; see `Handle.tag`."""
        from chronotile.change.tag import plan_tag

        return self._change("tag", plan_tag, {"name": name, "at": at, "move": move}, how)

    def untag(self, name: str, **how: Unpack[How]) -> Report:
        """Take a tag away; see `Handle.untag`."""
        from chronotile.change.tag import plan_untag

        return self._change("untag", plan_untag, {"name": name}, how)
