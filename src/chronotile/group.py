"""One group: its members, what happened in them, and every change of all of them.

In: a store and a key. Out: tables, views, reports with a part for each member. A change is planned
for every member before the first is touched; `dataset.over_members` carries it out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from chronotile.check.findings import RefusedError
from chronotile.dataset.over_members import GroupReport
from chronotile.errors import BadFileError, ChronotileError, ReadError, html_card
from chronotile.format.kinds import DATASET_EVENTS, GROUP, GROUP_MARKER, META
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
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from chronotile.array import Array
    from chronotile.change.plan import Plan
    from chronotile.change.usage import Usage
    from chronotile.check.findings import Finding
    from chronotile.dataset.member_tree import Member, Node
    from chronotile.dataset.moments import WholeState
    from chronotile.dataset.open_dataset import Dataset, DatasetView
    from chronotile.dataset.over_members import MemberPlan
    from chronotile.format.timestamps import Moment
    from chronotile.handle import Done
    from chronotile.log import Log
    from chronotile.rows.commit_changes import RemovedRows
    from chronotile.rows.group_rows import GroupRows
    from chronotile.show.picture import Height, Picture
    from chronotile.storage.store import Store
    from chronotile.storage.transfer import Link
    from chronotile.visibility.explanation import Explanation
    from chronotile.visibility.view import View


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

    def members(self, as_of: Moment | None = None) -> Sequence[Member]:
        """List the members of the group itself, at a moment, in no order."""
        return self.dataset.members(as_of)

    def tree(self, as_of: Moment | None = None) -> tuple[Node, ...]:
        """List the members at any depth, each looked up where it lies."""
        return self.dataset.tree(as_of)

    def logs(self) -> dict[str, Log]:
        """Read the log of every array, by its path in the group."""
        return self.dataset.logs()

    def moments(self) -> tuple[WholeState, ...]:
        """Find the stretches of time at which every member can be read whole, in order."""
        return self.dataset.moments()

    def moment(self, time: Moment, where: str = "time") -> int:
        """Give a time in any spelling, or a tag's name, in ms."""
        return self.dataset.moment(time, where)

    def view(
        self, start: Moment = 0, end: Moment | None = None, *, member: str | None = None
    ) -> DatasetView:
        """Give the members at the end of a window, and what an open of each at the window sees.

        Args:
            start: The start of the window.
            end: The end of the window; now, if it is left out.
            member: Only members whose path fits this pattern, such as `ms/*/X`.
        """
        from chronotile.dataset.open_dataset import DatasetView
        from chronotile.format.timestamps import now_ms

        first = self.moment(start)
        last = now_ms() if end is None else self.moment(end)
        views: dict[str, View] = {}
        errors: dict[str, ChronotileError] = {}
        nodes = self.nodes(member, last)
        for node in nodes:
            if node.found == "array":
                log = self.dataset.read_log(node)
                if isinstance(log, ChronotileError):
                    errors[node.path] = log
                else:
                    views[node.path] = log.view(first, last)
        return DatasetView(end=last, nodes=tuple(nodes), views=views, errors=errors)

    def explain(
        self,
        name: str | None = None,
        *,
        start: Moment = 0,
        end: Moment | None = None,
        member: str | None = None,
    ) -> dict[str, Sequence[Explanation]]:
        """Explain why objects of each array are, or are not, visible; see `Array.explain`.

        Returns:
            Path of an array -> its objects.
        """
        first, last = self.moment(start), None if end is None else self.moment(end)
        return {
            path: array.explain(name, start=first, end=last)
            for path, array in self._arrays(member, last)
        }

    def events(
        self,
        *,
        start: Moment = 0,
        end: Moment | None = None,
        kinds: Iterable[str] = DATASET_EVENTS,
        size: bool = True,
        member: str | None = None,
    ) -> pa.Table:
        """Tell what happened in all members, each row with its member; see `Array.events`."""
        from chronotile.dataset.dataset_events import dataset_events
        from chronotile.show.story import EventFilter

        window = EventFilter(
            since=self.moment(start),
            until=None if end is None else self.moment(end),
            kinds=frozenset(kinds),
        )
        return dataset_events(self.dataset, window, pattern=member, sizes=size)

    def commits(self, *, member: str | None = None) -> pa.Table:
        """Give one row a commit record of every array; the column `member` comes first."""
        return self._joined(lambda array: array.commits(), member)

    def fragments(self, *, sizes: bool = True, member: str | None = None) -> pa.Table:
        """Give one row a fragment of every array: what it holds; see `Array.fragments`."""
        return self._joined(lambda array: array.fragments(sizes=sizes), member)

    def lifelines(self, *, member: str | None = None) -> pa.Table:
        """Give one row a fragment of every array: when it is visible, and why it stops."""
        return self._joined(lambda array: array.lifelines(), member)

    def _joined(self, table_of: Callable[[Array], pa.Table], member: str | None) -> pa.Table:
        """Join a table of every array, and put the column `member` first."""
        import pyarrow as pa

        tables = []
        for path, array in self._arrays(member):
            table = table_of(array)
            paths = pa.repeat(pa.scalar(path), table.num_rows)
            tables.append(table.add_column(0, "member", paths))
        if not tables:
            raise ChronotileError(self.uri, "expected arrays, found none")
        return pa.concat_tables(tables)

    def _arrays(
        self, member: str | None = None, end: Moment | None = None
    ) -> Iterator[tuple[str, Array]]:
        """Open the arrays at a moment whose paths fit a pattern, one by one."""
        from chronotile.array import Array

        for node in self.nodes(member, end):
            if node.found == "array" and node.store is not None:
                yield node.path, Array(node.store, self.key)

    def nodes(self, member: str | None = None, end: Moment | None = None) -> list[Node]:
        """List the members at a moment, at any depth, whose paths fit a pattern.

        Raises:
            ChronotileError: None does.
        """
        nodes = [node for node in self.dataset.tree(end) if node.fits(member)]
        if member is not None and not nodes:
            raise ChronotileError(self.uri, f"expected members that fit {member!r}, found none")
        return nodes

    def usage(self, *, member: str | None = None) -> pa.Table:
        """Give one row a file of every array, and of the group itself; see `Array.usage`.

        Raises:
            ChronotileError: A member cannot be read.
        """
        used, errors = self.measure_usage(member=member)
        for error in errors.values():
            raise error
        return used.table

    def measure_usage(
        self, *, member: str | None = None
    ) -> tuple[Usage, dict[str, ChronotileError]]:
        """Give what `usage` gives, with every way to free bytes, notes, and what failed."""
        import pyarrow as pa

        from chronotile.change.usage import Usage, measure_usage

        parts = [] if member is not None else [_own_usage("", self.store)]
        errors: dict[str, ChronotileError] = {}
        notes: list[str] = []
        for node in self.nodes(member):
            if node.found == "group" and node.store is not None:
                parts.append(_own_usage(f"{node.path}/", node.store))
            elif node.found == "array" and node.store is not None:
                log = self.dataset.read_log(node)
                if isinstance(log, ChronotileError):
                    errors[node.path] = log
                    notes.append(f"{node.path} cannot be read: {log}")
                else:
                    used = measure_usage(node.store, log.history, log.rules)
                    parts.append(_usage_below(node.path, used))
                    notes += parts[-1].notes
            elif node.problem:
                notes.append(f"{node.path}: {node.problem}")
        table = pa.concat_tables([part.table for part in parts])
        ways = tuple(way for part in parts for way in part.ways)
        return Usage(table=table, ways=ways, notes=tuple(notes)), errors

    def check(
        self, *, as_of: Moment | None = None, log_only: bool = False, deep: bool = False
    ) -> tuple[Finding, ...]:
        """Find what is wrong with the group and with every member.

        Args:
            as_of: Only find out if all members can be read whole at this moment.
            log_only: Check the commit logs, and no fragment.
            deep: Open the cells of each fragment too.
        """
        return self.dataset.check(as_of=as_of, log_only=log_only, deep=deep)

    def timeline(
        self,
        out: str | os.PathLike[str],
        *,
        as_of: Moment | None = None,
        cells: bool = False,
        height: Height | None = None,
        member: str | None = None,
    ) -> Drawn:
        """Draw a lane for each array, on one time axis; see `Array.timeline`.

        Raises:
            ReadError: No member can be read.
            ChronotileError: There is no array.
        """
        from chronotile.format.timestamps import now_ms
        from chronotile.show.lanes import join_pictures

        moment = now_ms() if as_of is None else self.moment(as_of, "as_of")
        counted = cells or height is not None
        pictures: list[tuple[str, Picture]] = []
        errors: dict[str, ChronotileError] = {}
        for path, array in self._arrays(member):
            try:
                picture = array.log.picture(moment, cells=counted, height=height or "cells")
                pictures.append((path, picture))
            except ChronotileError as error:
                errors[path] = error
        if not pictures:
            kind = ReadError if errors else ChronotileError
            raise kind(self.uri, "expected arrays that can be read, found none")
        return draw_to(out, join_pictures(self.uri, pictures, moment), errors)

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

        table, notes = diff_of_group(self.dataset, t1, t2, rows=rows, pattern=member)
        names = "commit" if rows else "name"
        return with_operations(table, names, self._array_stores(member)), notes

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

        table, notes = blame_group(self.dataset, row, member)
        return with_operations(table, "commit", self._array_stores(member)), notes

    def _array_stores(self, member: str | None) -> list[Store]:
        nodes = (node for node in self.dataset.tree() if node.fits(member))
        return [node.store for node in nodes if node.store and node.found == "array"]

    def _read_again(self) -> None:
        """Forget what was read: the group has changed."""
        self.__dict__.pop("dataset", None)

    def _change(
        self,
        command: str,
        planner: Callable[..., Plan],
        options: Mapping[str, Any],
        how: How,
        *,
        exclusive: bool = False,
        **of_group: Unpack[OfGroup],
    ) -> GroupReport:
        from chronotile.dataset.over_members import plan_members

        if not how.get("dry_run"):
            self._settle(exclusive=exclusive)
        dataset, given = self.dataset, self._with_moments(options)
        if of_group.get("mended"):
            from chronotile.dataset.open_dataset import as_mended

            dataset = as_mended(dataset)
        own_options: dict[str, Any] = {}
        if of_group.get("tags"):
            given["group_tags"] = dataset.tags
            own_options = {name: given[name] for name in ("keep", "keep_days", "group_tags")}
        planned = plan_members(
            dataset,
            planner,
            given,
            own=of_group.get("own"),
            own_options=own_options,
            outside=how.get("outside", False),
            pattern=how.get("member"),
        )
        all_or_none = of_group.get("all_or_none", False)
        return self._carry_out(dataset, command, planned, options, how, all_or_none=all_or_none)

    def _carry_out(
        self,
        dataset: Dataset,
        command: str,
        planned: list[MemberPlan],
        options: Mapping[str, Any],
        how: How,
        *,
        all_or_none: bool = True,
        **more: Any,
    ) -> GroupReport:
        """Carry out the plans of some members; `more` is for `change_members`."""
        from chronotile.dataset.over_members import change_members

        try:
            return change_members(
                dataset,
                command,
                planned,
                who_asks(options, how),
                dry_run=how.get("dry_run", False),
                all_or_none=all_or_none,
                before=how.get("before"),
                **more,
            )
        finally:
            self._read_again()

    def _settle(self, *, exclusive: bool = True) -> None:
        """Finish or take back what changes that were broken off have left, in all members."""
        from chronotile.change.undo import settle
        from chronotile.dataset.open_dataset import as_mended
        from chronotile.dataset.over_members import arrays_and_groups

        try:
            found = list(arrays_and_groups(self.dataset, groups=True))
        except BadFileError:  # a damaged list must not stop the repair of it
            found = list(arrays_and_groups(as_mended(self.dataset), groups=True))
        for target in found:
            settle(target.store, self.key, exclusive=exclusive)
        self._read_again()

    def _rows_of_members(
        self, command: str, planner: Callable[..., Plan], options: Mapping[str, Any], how: How
    ) -> GroupReport:
        if how.get("member") is None:
            problem = "expected a member, found a group; name the one whose rows are meant"
            raise ChronotileError(self.uri, f"{problem}: --member PATH")
        return super()._rows_of_members(command, planner, options, how)

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

    def _refuse_member(self, how: How) -> None:
        if how.get("member") is not None:
            problem = "expected a change of some members, as members are named, found one of all"
            raise ChronotileError(self.uri, problem)

    def undelete(
        self,
        name: str,
        *,
        at: Moment | None = None,
        ever: bool = False,
        commits_only: bool = False,
        **how: Unpack[How],
    ) -> GroupReport:
        """Bring back the rows that one delete or update of a member hides."""
        from glob import escape

        from chronotile.dataset.undo_members import find_holder
        from chronotile.rows.ways_back import plan_undelete_any_way

        self._refuse_member(how)
        path, whole = find_holder(self.dataset, name, outside=how.get("outside", False))
        options = {"name": whole, "at": at, "ever": ever, "commits_only": commits_only}
        chosen: How = {**how, "member": escape(path)}
        planner = plan_undelete_any_way
        return self._change("undelete", planner, options, chosen, all_or_none=True, exclusive=True)

    def undo(self, operation: Done | None = None, **how: Unpack[How]) -> GroupReport:
        """Take back a change of ours, in all members; see `Handle.undo`."""
        from chronotile.dataset.undo_members import (
            find_operation,
            plan_undo_members,
            plan_undo_report_of_members,
        )

        self._refuse_member(how)
        wanted = operation_of(operation)
        id_ = wanted if isinstance(wanted, str) and is_id(wanted) else None
        target = find_operation(self.dataset, id_) if wanted in (None, id_) else None
        if not how.get("dry_run"):
            self._settle()
            target = target and find_operation(self.dataset, target.id)
        if target is not None:
            place, planned = target.id, plan_undo_members(self.dataset, target)
        elif id_ is not None:
            problem = f"expected the id of an operation, found {id_!r}: none that stands"
            raise RefusedError(self.uri, f"{problem}; chronotile operations {self.uri} lists all")
        else:
            place, planned = plan_undo_report_of_members(self.dataset, wanted)
        return self._carry_out(
            self.dataset, "undo", planned, {"operation": place}, how, undoes=place
        )

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
        from chronotile.dataset.publish_members import plan_publish_members

        places = [staging] if isinstance(staging, str) else list(staging)
        options = {"at": at, "own_times": own_times, "again": again, "allow_hidden": allow_hidden}
        if not how.get("dry_run"):
            self._settle()
        publication = plan_publish_members(
            self.dataset,
            places,
            outside=how.get("outside", False),
            pattern=how.get("member"),
            **self._with_moments(options),
        )
        return self._carry_out(
            self.dataset,
            "publish",
            publication.planned,
            {"staging": places, **options},
            how,
            notes=publication.notes,
            carry_out=publication.carry_out,
        )

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
        return self._carry_out(
            self.dataset, "tag", planned, {"name": name, "at": at, "move": move}, how
        )

    def untag(self, name: str, **how: Unpack[How]) -> GroupReport:
        """Take a tag of the group away; see `Handle.untag`."""
        from chronotile.dataset.tag_members import plan_untag_group

        self._refuse_member(how)
        planned = plan_untag_group(self.dataset, name, outside=how.get("outside", False))
        return self._carry_out(self.dataset, "tag", planned, {"name": name}, how)


def _usage_below(path: str, used: Usage) -> Usage:
    """Put the files and fragments of an array below the path of its member."""
    import pyarrow as pa

    from chronotile.change.usage import SCHEMA

    table = used.table
    for place, name in enumerate(SCHEMA.names):
        if name in ("path", "fragment"):
            texts = [text and f"{path}/{text}" for text in table[name].to_pylist()]
            table = table.set_column(place, SCHEMA.field(place), pa.array(texts, pa.string()))
    ways = tuple(
        replace(way, paths=frozenset(f"{path}/{one}" for one in way.paths)) for way in used.ways
    )
    return replace(
        used, table=table, ways=ways, notes=tuple(f"{path}: {note}" for note in used.notes)
    )


def _own_usage(prefix: str, store: Store) -> Usage:
    """Measure a group's own files: its marker, its lists of members, its metadata."""
    import pyarrow as pa

    from chronotile.change.usage import SCHEMA, Usage

    rows = [
        {"path": f"{prefix}{entry.path}", "bytes": entry.size or 0, "reason": "metadata"}
        for folder in ("", GROUP, META)
        for entry in store.list_dir(folder, sizes=True).files
        if folder or entry.path == GROUP_MARKER
    ]
    return Usage(table=pa.Table.from_pylist(rows, schema=SCHEMA), ways=(), notes=())
