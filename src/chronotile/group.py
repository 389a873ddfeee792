"""One group: its members, what happened in them, and every change of all of them.

In: a store and a key. Out: tables, views, reports with a part for each member. A change is planned
for every member before the first is touched; `dataset.over_members` carries it out.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from chronotile.dataset.over_members import GroupReport
from chronotile.errors import ChronotileError, html_card
from chronotile.handle import Handle, How, operation_of, who_asks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from chronotile.change.plan import Plan
    from chronotile.check.findings import Finding
    from chronotile.dataset.member_list import Member
    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.moments import WholeState
    from chronotile.dataset.open_dataset import Dataset, DatasetView
    from chronotile.dataset.over_members import MemberPlan
    from chronotile.format.timestamps import Moment
    from chronotile.handle import Done
    from chronotile.log import Log
    from chronotile.rows.commit_changes import RemovedRows
    from chronotile.rows.group_rows import GroupRows
    from chronotile.storage.transfer import Link

_MOMENTS = ("at", "to", "keep")
"""Options that are times: the group's tags count, whatever tags its members have."""


class Group(Handle[GroupReport]):
    """A group that is open."""

    def __repr__(self) -> str:
        return f"<group at {self.uri}>"

    def _repr_html_(self) -> str:
        """Show the group in a notebook."""
        rows = [(node.path, node.found) for node in self.dataset.tree()]
        return html_card(f"group at {self.uri}", rows)

    @cached_property
    def dataset(self) -> Dataset:
        """The lists of members, read once; arrays are read when they are asked for."""
        from chronotile.dataset.open_dataset import Dataset
        from chronotile.history.group_reading import read_group

        return Dataset(self.store, read_group(self.store, key=self.key))

    @property
    def log(self) -> Dataset:
        """The logs of all members."""
        return self.dataset

    @property
    def tags(self) -> dict[str, int]:
        """The tags of the group, with their moments in ms, the earliest first."""
        return self.dataset.tags

    def members(self, at: Moment | None = None) -> Sequence[Member]:
        """List the members of the group itself, at a moment, in no order."""
        return self.dataset.members(at)

    def tree(self, at: Moment | None = None) -> tuple[Node, ...]:
        """List the members at any depth, each looked up where it lies."""
        return self.dataset.tree(at)

    def logs(self) -> dict[str, Log]:
        """Read the log of every array, by its path in the group."""
        return self.dataset.logs()

    def moments(self) -> tuple[WholeState, ...]:
        """Find the stretches of time at which every member can be read whole, in order."""
        return self.dataset.moments()

    def moment(self, time: Moment, where: str = "time") -> int:
        """Give a time in any spelling, or a tag's name, in ms."""
        return self.dataset.moment(time, where)

    def view(self, end: Moment | None = None) -> DatasetView:
        """Give the members at a moment, and what an open of each sees."""
        return self.dataset.view(end)

    def events(self) -> pa.Table:
        """Tell what happened in all members, each row with its member."""
        return self.dataset.events()

    def check(self, *, as_of: Moment | None = None, log_only: bool = False) -> tuple[Finding, ...]:
        """Find what is wrong with the group and with every member; see `Dataset.check`."""
        return self.dataset.check(as_of=as_of, log_only=log_only)

    def row_reader(
        self,
        start: Moment = 0,
        end: Moment | None = None,
        *,
        where: str | None = None,
        fields: Sequence[str] | None = None,
        member: str | None = None,
    ) -> GroupRows:
        """Open what `rows` reads, to be read batch by batch."""
        from chronotile.rows.group_rows import group_rows

        return group_rows(self.dataset, start, end, where=where, fields=fields, pattern=member)

    def rows(
        self,
        start: Moment = 0,
        end: Moment | None = None,
        *,
        where: str | None = None,
        fields: Sequence[str] | None = None,
        member: str | None = None,
    ) -> pa.Table:
        """Read the rows of every array; see `Array.rows`. The column `member` comes first."""
        return self.row_reader(start, end, where=where, fields=fields, member=member).table()

    def removed_rows(
        self, name: str, values: Sequence[str] = (), *, member: str | None = None
    ) -> pa.Table:
        """Read the rows that one delete or update of a member took; see `Array.removed_rows`."""
        return self.removed_reader(name, values, member=member).table()

    def removed_reader(
        self, name: str, values: Sequence[str] = (), *, member: str | None = None
    ) -> RemovedRows:
        """Open what `removed_rows` reads, to be read batch by batch."""
        from chronotile.rows.group_rows import removed_in_group

        return removed_in_group(self.dataset, name, member, values)

    def diff(
        self, t1: Moment, t2: Moment, *, rows: bool = False, member: str | None = None
    ) -> pa.Table:
        """Compare what opens of the group at two moments see; see `Array.diff`."""
        return self.diff_with_notes(t1, t2, rows=rows, member=member)[0]

    def diff_with_notes(
        self, t1: Moment, t2: Moment, *, rows: bool = False, member: str | None = None
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """Give what `diff` gives, and notes on what had to be left out."""
        from chronotile.rows.group_rows import diff_of_group

        return diff_of_group(self.dataset, t1, t2, rows=rows, pattern=member)

    def blame(
        self, row: Mapping[str, object] | Sequence[str], *, member: str | None = None
    ) -> pa.Table:
        """List every commit that had to do with a row, in all members; see `Array.blame`."""
        return self.blame_with_notes(row, member=member)[0]

    def blame_with_notes(
        self, row: Mapping[str, object] | Sequence[str], *, member: str | None = None
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """Give what `blame` gives, and notes on what had to be left out."""
        from chronotile.rows.group_rows import blame_group

        return blame_group(self.dataset, row, member)

    def _read_again(self) -> None:
        """Forget what was read: the group has changed."""
        self.__dict__.pop("dataset", None)

    def _change(
        self,
        planner: Callable[..., Plan],
        options: Mapping[str, Any],
        how: How,
        *,
        own: Callable[..., Plan] | None = None,
        all_or_none: bool = False,
        exclusive: bool = False,
    ) -> GroupReport:
        from chronotile.dataset.over_members import change_members, plan_members

        if not how.get("dry_run"):
            self._settle(exclusive=exclusive)
        dataset, command = self.dataset, planner.__name__.removeprefix("plan_")
        own_options: dict[str, Any] = {}
        given = self._with_moments(options)
        if command == "repair":
            from chronotile.dataset.mended_lists import as_mended

            dataset = as_mended(dataset)
        if command == "vacuum":
            given["group_tags"] = dataset.tags
            own_options = {name: given[name] for name in ("keep", "keep_days", "group_tags")}
        planned = plan_members(
            dataset,
            planner,
            given,
            own=own,
            own_options=own_options,
            outside=how.get("outside", False),
            pattern=how.get("member"),
        )
        try:
            return change_members(
                dataset,
                command,
                planned,
                who_asks(options, how),
                dry_run=how.get("dry_run", False),
                all_or_none=all_or_none,
                before=how.get("before"),
            )
        finally:
            self._read_again()

    def _settle(self, *, exclusive: bool = True) -> None:
        """Finish or take back what changes that were broken off have left, in all members."""
        from chronotile.change.undo import settle
        from chronotile.dataset.over_members import targets

        for target in targets(self.dataset, groups=True):
            settle(target.store, self.key, exclusive=exclusive)
        self._read_again()

    def _rows_of_members(
        self, planner: Callable[..., Plan], options: Mapping[str, Any], how: How
    ) -> GroupReport:
        if how.get("member") is None:
            problem = "expected a member, found a group; name the one whose rows are meant"
            raise ChronotileError(self.uri, f"{problem}: --member PATH")
        return super()._rows_of_members(planner, options, how)

    def _with_moments(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Give the options with their times in ms."""
        given = dict(options)
        for name in _MOMENTS:
            value = given.get(name)
            if isinstance(value, tuple | list):
                given[name] = tuple(map(self.dataset.moment, value))
            elif value is not None:
                given[name] = self.dataset.moment(value)
        return given

    def _change_as_planned(
        self,
        command: str,
        planned: list[MemberPlan],
        options: Mapping[str, Any],
        how: How,
        undoes: str | None = None,
    ) -> GroupReport:
        """Carry out the plans of some members: all or none."""
        from chronotile.dataset.over_members import change_members

        try:
            return change_members(
                self.dataset,
                command,
                planned,
                who_asks(options, how),
                dry_run=how.get("dry_run", False),
                all_or_none=True,
                undoes=undoes,
                before=how.get("before"),
            )
        finally:
            self._read_again()

    def _refuse_member(self, how: How) -> None:
        if how.get("member") is not None:
            problem = "expected a change of some members, as members are named, found one of all"
            raise ChronotileError(self.uri, problem)

    def undelete(
        self, name: str, *, at: Moment | None = None, ever: bool = False, **how: Unpack[How]
    ) -> GroupReport:
        """Bring back the rows that one delete or update of a member hides."""
        from glob import escape

        from chronotile.change.undelete import plan_undelete
        from chronotile.dataset.undelete_member import find_holder

        self._refuse_member(how)
        path, whole = find_holder(self.dataset, name, outside=how.get("outside", False))
        options = {"name": whole, "at": at, "ever": ever}
        chosen: How = {**how, "member": escape(path)}
        return self._change(plan_undelete, options, chosen, all_or_none=True, exclusive=True)

    def undo(self, operation: Done | None = None, **how: Unpack[How]) -> GroupReport:
        """Take back a change of ours, in all members; see `Handle.undo`."""
        from chronotile.dataset.undo_members import find_operation, plan_undo_members

        self._refuse_member(how)
        wanted = operation_of(operation)
        if wanted is not None and not isinstance(wanted, str):
            problem = "expected the id of an operation, found a report of an earlier version"
            raise ChronotileError(self.uri, problem)
        target = find_operation(self.dataset, wanted)
        if not how.get("dry_run"):
            self._settle()
        planned = plan_undo_members(self.dataset, target)
        options = {"operation": target.id}
        return self._change_as_planned("undo", planned, options, how, undoes=target.id)

    def publish(
        self,
        staging: str | Sequence[str],
        *,
        at: Moment | None = None,
        own_times: bool = False,
        again: bool = False,
        allow_hidden: bool = False,
        **how: Unpack[How],
    ) -> GroupReport:
        """Make what is staged for members visible in all at one moment; see `Handle.publish`."""
        from chronotile.dataset.publish_members import publish_members

        places = [staging] if isinstance(staging, str) else list(staging)
        options = {"at": at, "own_times": own_times, "again": again, "allow_hidden": allow_hidden}
        if not how.get("dry_run"):
            self._settle()
        try:
            return publish_members(
                self.dataset,
                places,
                who_asks({"staging": places, **options}, how),
                dry_run=how.get("dry_run", False),
                outside=how.get("outside", False),
                pattern=how.get("member"),
                before=how.get("before"),
                **self._with_moments(options),
            )
        finally:
            self._read_again()

    def clone(
        self,
        target: str,
        *,
        start: Moment = 0,
        end: Moment | None = None,
        without: Iterable[str] = (),
        link: Link = "hard",
        dry_run: bool = False,
    ) -> GroupReport:
        """Make a group elsewhere that shows what an open of every member shows."""
        from chronotile.dataset.clone_members import clone_members
        from chronotile.storage.store import open_store

        there = open_store(target, dict(self.store.options))
        return clone_members(
            self.dataset, there, start=start, end=end, without=without, link=link, dry_run=dry_run
        )

    def tag(
        self, name: str, *, at: Moment | None = None, move: bool = False, **how: Unpack[How]
    ) -> GroupReport:
        """Give a moment of the group a name; see `Handle.tag`."""
        from chronotile.dataset.tag_members import plan_tag_group

        self._refuse_member(how)
        outside = how.get("outside", False)
        planned = plan_tag_group(self.dataset, name, at=at, move=move, outside=outside)
        return self._change_as_planned("tag", planned, {"name": name, "at": at, "move": move}, how)

    def untag(self, name: str, **how: Unpack[How]) -> GroupReport:
        """Take a tag of the group away; see `Handle.untag`."""
        from chronotile.dataset.tag_members import plan_untag_group

        self._refuse_member(how)
        planned = plan_untag_group(self.dataset, name, outside=how.get("outside", False))
        return self._change_as_planned("tag", planned, {"name": name}, how)
