"""One array: its log, its rows, and every change of it.

In: a store and a key. Out: tables, views, reports. Reads the log once, and again after a change.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from chronotile.errors import ChangedError, ChronotileError, ReadError, WrongCallError
from chronotile.format.kinds import EVENTS
from chronotile.handle import Handle, How, OfGroup, is_id, who_asks
from chronotile.safe_text import html_card, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from chronotile.change.plan import Plan, Report
    from chronotile.change.settle import Settled
    from chronotile.change.usage import Usage
    from chronotile.check.findings import Finding
    from chronotile.dataset.replicate_tree import ReplicateOptions
    from chronotile.format.timestamps import Moment
    from chronotile.log import Log
    from chronotile.rows.commit_changes import RemovedRows
    from chronotile.rows.read_rows import RowReader
    from chronotile.show.picture import Height, Picture
    from chronotile.storage.store import Store
    from chronotile.visibility.explanation import Explanation
    from chronotile.visibility.view import View


class Array(Handle["Report"]):
    """An open array."""

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
    def log_with_enumerations(self) -> Log:
        """The commit log with the values of enumerations, as rows need it."""
        from chronotile.rows.snapshot import open_with_enumerations

        return open_with_enumerations(self.store, self.key)

    def _read_again(self) -> None:
        """Forget what was read: the array has changed."""
        self.__dict__.pop("log", None)
        self.__dict__.pop("log_with_enumerations", None)

    @property
    def tags(self) -> dict[str, int]:
        """The tags, with their moments in ms, the earliest first."""
        return self.log.tags

    def moment(self, time: Moment, where: str = "time") -> int:
        """Convert a time in any spelling, or a tag's name, to ms."""
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
            WrongCallError: No object has such a name.
        """
        explained = self.view(start, end).explain()
        if name is None:
            return explained
        wanted = name.rpartition("/")[2]
        chosen = [item for item in explained if wanted in item.name]
        chosen = chosen or [item for item in explained if wanted.rpartition(".")[0] == item.name]
        if not chosen:
            problem = f"no fragment and no file of the array has {name!r} in its name"
            hint = f"to list them: chronotile log {shell_word(self.uri)}"
            raise WrongCallError(self.uri, f"{problem}; {hint}")
        return chosen

    def events(
        self,
        *,
        start: Moment = 0,
        end: Moment | None = None,
        kinds: Iterable[str] = EVENTS,
        size: bool = True,
    ) -> pa.Table:
        """List what happened, in words, the newest first: what `chronotile log` prints.

        Args:
            start: Not before this.
            end: Not after this.
            kinds: Only these, such as `delete`.
            size: Add up the files of each fragment; without it, nothing but the log is read.
        """
        return self.log.events(since=start, until=end, kinds=kinds, sizes=size)

    def _each(self, table_of: Callable[[Log], pa.Table], member: str | None) -> pa.Table:
        self._refuse_member(member)
        return table_of(self.log)

    def _refuse_member(self, member: str | None) -> None:
        if member is not None:
            problem = "expected a group, as members are named, found an array"
            raise WrongCallError(self.uri, problem)

    def measure_usage(
        self, *, member: str | None = None
    ) -> tuple[Usage, dict[str, ChronotileError]]:
        """Give what `usage` gives, with every way to free bytes, notes, and no error."""
        from chronotile.change.usage import measure_usage

        self._refuse_member(member)
        return measure_usage(self.store, self.log.history, self.log.rules), {}

    def check(self, *, log_only: bool = False, deep: bool = False) -> tuple[Finding, ...]:
        """Find what is wrong, the worst first, and what to do about it; see `Log.check`."""
        return self.log.check(log_only=log_only, deep=deep)

    def _picture(
        self, now: int, cells: bool, height: Height, member: str | None
    ) -> tuple[Picture, dict[str, ChronotileError]]:
        self._refuse_member(member)
        return self.log.picture(now, cells=cells, height=height), {}

    def row_reader(
        self,
        start: Moment = 0,
        end: Moment | None = None,
        *,
        where: str | None = None,
        fields: Sequence[str] | None = None,
        member: str | None = None,
    ) -> RowReader:
        """Open what `rows` reads, to be read batch by batch."""
        from chronotile.rows.read_rows import rows_of

        self._refuse_member(member)
        return rows_of(self.log_with_enumerations, start, end, where=where, fields=fields)

    def removed_reader(
        self, name: str, values: Sequence[str] = (), *, member: str | None = None
    ) -> RemovedRows:
        """Open what `removed_rows` reads, to be read batch by batch."""
        from chronotile.rows.commit_changes import removed_of

        self._refuse_member(member)
        return removed_of(self.log_with_enumerations, name, values)

    def _diff(
        self, t1: Moment, t2: Moment, rows: bool, member: str | None
    ) -> tuple[pa.Table, tuple[str, ...]]:
        from chronotile.rows.diff import diff_of

        self._refuse_member(member)
        return diff_of(self.log_with_enumerations if rows else self.log, t1, t2, rows=rows), ()

    def _blame(
        self, row: Mapping[str, object] | Sequence[str], member: str | None
    ) -> tuple[pa.Table, tuple[str, ...]]:
        from chronotile.rows.blame import blame_of

        self._refuse_member(member)
        return blame_of(self.log_with_enumerations, row), ()

    def _array_stores(self, member: str | None) -> list[Store]:  # noqa: ARG002 (it has no members)
        return [self.store]

    def _change(
        self,
        command: str,
        planner: Callable[..., Plan],
        options: Mapping[str, Any],
        how: How,
        *,
        exclusive: bool = False,
        **of_group: Unpack[OfGroup],  # noqa: ARG002 (an array has no members)
    ) -> Report:
        self._refuse_member("" if how.get("outside") else how.get("member"))
        from chronotile.change.executor import execute
        from chronotile.change.operations import list_operations
        from chronotile.change.plan import Report

        who, dry_run = who_asks(options, how), how.get("dry_run", False)
        try:
            settled = self._settle(how, exclusive=exclusive)
            notes = tuple(one.note for one in settled)
            is_undo_of_last = command == "undo" and options.get("operation", "") is None
            if is_undo_of_last and any(one.is_back for one in settled):
                # The last change was broken off, and is taken back by now.
                plans = (one.plan for one in settled if one.plan is not None)
                steps = tuple(step for plan in plans for step in plan.steps)
                return Report("undo", self.uri, dry_run=dry_run, steps=steps, notes=notes)
            if any(one.did(command, who) for one in settled):
                return Report(command, self.uri, dry_run=dry_run, steps=(), notes=notes)
            known = () if dry_run else list_operations(self.store)
            try:
                plan = planner(self.store, self.key, **options)
            except ReadError as error:
                if dry_run or list_operations(self.store) == known:
                    raise
                problem = f"{error.problem}; another change was made meanwhile: try again"
                raise ChangedError(error.where, problem) from None
            plan = replace(plan, notes=(*notes, *plan.notes))
            if dry_run:
                return plan.report()
            return execute(
                self.store,
                plan,
                who,
                exclusive=exclusive,
                known=known,
                before=how.get("before"),
            )
        finally:
            self._read_again()

    def _settle(self, how: How, *, exclusive: bool = True) -> tuple[Settled, ...]:
        from chronotile.change.settle import settle

        dry_run = how.get("dry_run", False)
        settled = settle(self.store, self.key, exclusive=exclusive, dry_run=dry_run)
        self._read_again()
        return settled

    def _find_change(self, name: str, how: How) -> tuple[str, How]:
        from chronotile.format.names import find_name

        names = self.log.names
        try:
            return find_name(names, name, self.uri), how
        except ChronotileError as error:
            hint = f"to list the deletes: chronotile log {shell_word(self.uri)} --kind delete"
            raise type(error)(error.where, f"{error.problem}; {hint}") from None

    def _nothing(self, command: str, how: How) -> Report:  # noqa: ARG002
        from chronotile.change.plan import Report

        return Report(command, self.uri, dry_run=False, steps=())

    def _certified(
        self, report: Report, where: str, verify: Mapping[str, Any] | None = None
    ) -> Report:
        from chronotile.rows.erase import certified

        return certified(report, self.store, self.key, where, verify)

    def _undo(self, wanted: str | Mapping[str, Any] | None, how: How) -> Report:
        from chronotile.change.undo import plan_undo

        if wanted is not None and (not isinstance(wanted, str) or not is_id(wanted)):
            from chronotile.change.older_records import plan_undo_report

            return self._change("undo", plan_undo_report, {"report": wanted}, how, exclusive=True)
        return self._change("undo", plan_undo, {"operation": wanted}, how, exclusive=True)

    def _publish(self, options: dict[str, Any], how: How) -> Report:
        from chronotile.change.publish import plan_publish

        del options["own_times"]  # of groups; an array's fragments have them anyway
        return self._change("publish", plan_publish, options, how, exclusive=True)

    def _replicate(self, target: Store, options: ReplicateOptions) -> Report:
        from chronotile.dataset.replicate_tree import replicate_array

        return replicate_array(self.store, target, self.key, options)

    def _clone(self, target: Store, without: Sequence[str], options: dict[str, Any]) -> Report:
        from chronotile.change.clone import clone

        names = [self.log.find_name(name) for name in without]
        return clone(self.store, target, self.key, without=names, **options)

    def _tag(self, command: str, options: dict[str, Any], how: How) -> Report:
        from chronotile.change.tag import plan_tag, plan_untag

        return self._change(command, plan_tag if command == "tag" else plan_untag, options, how)
