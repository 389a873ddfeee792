"""One group: its members, what happened in them, and every change of all of them.

In: a store and a key. Out: tables, views, reports with a part for each member. A change is planned
for every member before the first is touched; `dataset.over_members` carries it out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from chronotile.dataset.over_members import GroupReport
from chronotile.errors import BadFileError, ChronotileError, ReadError, WrongCallError, option
from chronotile.format.kinds import DATASET_EVENTS, GROUP, GROUP_MARKER, META
from chronotile.handle import Handle, How, OfGroup, is_id, who_asks
from chronotile.safe_text import html_card, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from chronotile.array import Array
    from chronotile.change.plan import Plan
    from chronotile.change.settle import Settled
    from chronotile.change.usage import Usage
    from chronotile.check.findings import Finding
    from chronotile.dataset.member_tree import Member, Node
    from chronotile.dataset.moments import WholeState
    from chronotile.dataset.open_dataset import Dataset, DatasetView
    from chronotile.dataset.over_members import MemberPlan
    from chronotile.dataset.replicate_tree import ReplicateOptions
    from chronotile.format.timestamps import Moment
    from chronotile.log import Log
    from chronotile.rows.commit_changes import RemovedRows
    from chronotile.rows.group_rows import GroupRows
    from chronotile.show.picture import Height, Picture
    from chronotile.storage.store import Store
    from chronotile.visibility.explanation import Explanation
    from chronotile.visibility.view import View


_MOMENTS = ("at", "to", "keep")
"""Options that are times: the group's tags count, whatever tags its members have."""


class Group(Handle[GroupReport]):
    """An open group."""

    def __repr__(self) -> str:
        return f"<group at {self.uri}>"

    def _repr_html_(self) -> str:
        """Show the group in a notebook."""
        rows = [(node.path, node.found) for node in self.dataset.tree()]
        return html_card(f"group at {self.uri}", rows)

    @cached_property
    def dataset(self) -> Dataset:
        """The lists of members, read once; arrays are read when they are asked for."""
        from chronotile.dataset.open_dataset import dataset_at

        return dataset_at(self.store, self.key)

    @property
    def log(self) -> Dataset:
        """The logs of all members."""
        return self.dataset

    @property
    def tags(self) -> dict[str, int]:
        """The tags of the group, with their moments in ms, the earliest first."""
        return self.dataset.tags

    def members(self, as_of: Moment | None = None) -> Sequence[Member]:
        """List the group's own members at a moment, in no order; `tree` goes deeper."""
        return self.dataset.members(as_of)

    def tree(self, as_of: Moment | None = None) -> tuple[Node, ...]:
        """List the members at any depth, and what is found at each place."""
        return self.dataset.tree(as_of)

    def logs(self) -> dict[str, Log]:
        """Read the log of every array, by its path in the group."""
        return self.dataset.logs()

    def moments(self) -> tuple[WholeState, ...]:
        """Find the stretches of time at which every member can be read whole, in order."""
        from chronotile.dataset.moments import find_moments

        return find_moments(self.dataset)

    def moment(self, time: Moment, where: str = "time") -> int:
        """Convert a time in any spelling, or a tag's name, to ms."""
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
            Path of an array -> its objects; with a name, of the arrays that have such objects.

        Raises:
            WrongCallError: No array has an object of such a name.
        """
        first, last = self.moment(start), None if end is None else self.moment(end)
        explained: dict[str, Sequence[Explanation]] = {}
        absent: list[WrongCallError] = []
        for path, array in self._arrays(member, last):
            try:
                explained[path] = array.explain(name, start=first, end=last)
            except WrongCallError as error:
                absent.append(error)
        if absent and not explained:
            raise absent[0]
        return explained

    def events(
        self,
        *,
        start: Moment = 0,
        end: Moment | None = None,
        kinds: Iterable[str] = DATASET_EVENTS,
        size: bool = True,
        member: str | None = None,
    ) -> pa.Table:
        """List what happened in all members, with a column `member`; see `Array.events`."""
        from chronotile.dataset.dataset_events import dataset_events
        from chronotile.show.story import EventFilter

        window = EventFilter(
            since=self.moment(start),
            until=None if end is None else self.moment(end),
            kinds=frozenset(kinds),
        )
        return dataset_events(self.dataset, window, pattern=member, sizes=size)

    def _each(self, table_of: Callable[[Log], pa.Table], member: str | None) -> pa.Table:
        import pyarrow as pa

        tables = []
        for path, array in self._arrays(member):
            table = table_of(array.log)
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
            WrongCallError: No path fits.
        """
        return self.dataset.fitting(member, end)

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
        from chronotile.dataset.check_group import check_as_of, check_dataset
        from chronotile.show.notebook import Findings

        if as_of is not None:
            return Findings(check_as_of(self.dataset, self.moment(as_of, "as_of")))
        if log_only and deep:
            raise ChronotileError(self.uri, "expected log_only or deep, found both")
        return Findings(check_dataset(self.dataset, log_only=log_only, deep=deep))

    def _picture(
        self, now: int, cells: bool, height: Height, member: str | None
    ) -> tuple[Picture, dict[str, ChronotileError]]:
        from chronotile.show.picture import join_pictures

        pictures: list[tuple[str, Picture]] = []
        errors: dict[str, ChronotileError] = {}
        for path, array in self._arrays(member):
            try:
                pictures.append((path, array.log.picture(now, cells=cells, height=height)))
            except ChronotileError as error:
                errors[path] = error
        if not pictures:
            kind = ReadError if errors else ChronotileError
            raise kind(self.uri, "expected arrays that can be read, found none")
        return join_pictures(self.uri, pictures, now, self.tags), errors

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

    def removed_reader(
        self, name: str, values: Sequence[str] = (), *, member: str | None = None
    ) -> RemovedRows:
        """Open what `removed_rows` reads, to be read batch by batch."""
        from chronotile.rows.group_rows import removed_in_group

        return removed_in_group(self.dataset, name, member, values)

    def _diff(
        self, t1: Moment, t2: Moment, rows: bool, member: str | None
    ) -> tuple[pa.Table, tuple[str, ...]]:
        from chronotile.rows.group_rows import diff_of_group

        return diff_of_group(self.dataset, t1, t2, rows=rows, pattern=member)

    def _blame(
        self, row: Mapping[str, object] | Sequence[str], member: str | None
    ) -> tuple[pa.Table, tuple[str, ...]]:
        from chronotile.rows.group_rows import blame_group

        return blame_group(self.dataset, row, member)

    def _array_stores(self, member: str | None) -> list[Store]:
        nodes = self.dataset.fitting(member)
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

        if of_group.get("named") and how.get("member") is None:
            paths = " or ".join(shell_word(node.path) for node in self.dataset.arrays()[:5])
            problem = "this is a group; name the member whose rows are meant"
            raise WrongCallError(self.uri, f"{problem}: {option('member', paths or 'PATH')}")
        notes = tuple(one.note for one in self._settle(how, exclusive=exclusive))
        dataset, given = self.dataset, self._with_moments(options)
        if of_group.get("mended"):
            from chronotile.dataset.open_dataset import as_mended

            dataset = as_mended(dataset)
        own_options: dict[str, Any] = {}
        if of_group.get("tags"):
            given["group_tags"] = dataset.tags
            wanted = ("keep", "keep_days", "group_tags")
            own_options = {name: given[name] for name in wanted if name in given}
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
        return self._carry_out(
            dataset, command, planned, options, how, all_or_none=all_or_none, notes=notes
        )

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

    def _settle(self, how: How, *, exclusive: bool = True) -> tuple[Settled, ...]:
        """Finish or take back what changes that were broken off have left, in all members."""
        from chronotile.dataset.open_dataset import as_mended
        from chronotile.dataset.undo_members import settle_members

        dataset = self.dataset
        try:
            dataset.tree()
        except BadFileError:  # a damaged list must not stop the repair of it
            dataset = as_mended(dataset)
        settled = settle_members(dataset, exclusive=exclusive, dry_run=how.get("dry_run", False))
        self._read_again()
        return settled

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
            problem = "--member: this change is one of the whole group; leave --member out"
            raise WrongCallError(self.uri, problem)

    def _find_change(self, name: str, how: How) -> tuple[str, How]:
        from glob import escape

        from chronotile.dataset.undo_members import find_holder

        self._refuse_member(how)
        path, whole = find_holder(self.dataset, name, outside=how.get("outside", False))
        return whole, {**how, "member": escape(path)}

    _has_members = True

    def _nothing(self, command: str, how: How) -> GroupReport:
        from chronotile.change.plan import Report
        from chronotile.dataset.over_members import (
            GroupReport,
            MemberOutcome,
            arrays_and_groups,
            left_alone,
        )

        outcomes = tuple(
            MemberOutcome(
                path=one.path,
                array=one.store.uri,
                is_group=one.is_group,
                report=Report(command, one.store.uri, dry_run=False, steps=()),
            )
            if one.is_inside or how.get("outside")
            else left_alone(one).outcome
            for one in arrays_and_groups(self.dataset, pattern=how.get("member"), groups=True)
        )
        return GroupReport(command, self.uri, dry_run=False, outcomes=outcomes)

    def _certified(
        self, report: GroupReport, where: str, verify: Mapping[str, Any] | None = None
    ) -> GroupReport:
        from chronotile.dataset.over_members import arrays_and_groups
        from chronotile.rows.erase import certified, certified_group, of_member

        places = arrays_and_groups(self.dataset, groups=True)
        stores = {one.path: one.store for one in places}
        is_whole = any(one.is_group and not one.path for one in report.outcomes)
        outcomes = []
        for one in report.outcomes:
            if one.report is not None and one.path in stores:
                store = stores[one.path]
                if one.is_group:
                    done = certified_group(one.report, store, self.key, where)
                else:
                    own = None if verify is None else of_member(verify, one.path)
                    done = certified(one.report, store, self.key, where, own, with_groups=is_whole)
                    if verify is not None and own is None and done.certificate:
                        note = "the certificate does not cover this array"
                        done = replace(done, notes=(*done.notes, note))
                one = replace(one, report=done)
            outcomes.append(one)
        return replace(report, outcomes=tuple(outcomes))

    def _undo(self, wanted: str | Mapping[str, Any] | None, how: How) -> GroupReport:
        from chronotile.check.findings import RefusedError
        from chronotile.dataset.undo_members import (
            find_operation,
            name_earlier,
            plan_undo_members,
            plan_undo_report_of_members,
            refuse_removed,
        )

        self._refuse_member(how)
        id_ = wanted if isinstance(wanted, str) and is_id(wanted) else None
        settled = self._settle(how)
        notes = tuple(one.note for one in settled)
        if wanted is None and any(one.is_back for one in settled):
            # The last change was broken off: nothing else is to be taken back.
            dry_run = how.get("dry_run", False)
            return GroupReport("undo", self.uri, dry_run=dry_run, outcomes=(), notes=notes)
        target = find_operation(self.dataset, id_) if wanted in (None, id_) else None
        if target is not None:
            refuse_removed(self.dataset, target)
            try:
                place, planned = target.id, plan_undo_members(self.dataset, target)
            except RefusedError as error:
                raise error if wanted else name_earlier(self.dataset, target, error) from error
        elif id_ is not None:
            problem = f"{id_!r} is the id of no operation that stands"
            hint = f"to list all: chronotile operations {shell_word(self.uri)}"
            raise WrongCallError(self.uri, f"{problem}; {hint}")
        else:
            place, planned = plan_undo_report_of_members(self.dataset, wanted)
        return self._carry_out(
            self.dataset, "undo", planned, {"operation": place}, how, undoes=place, notes=notes
        )

    def _publish(self, options: dict[str, Any], how: How) -> GroupReport:
        from chronotile.dataset.publish_members import plan_publish_members

        settled = self._settle(how)
        publication = plan_publish_members(
            self.dataset,
            outside=how.get("outside", False),
            pattern=how.get("member"),
            **self._with_moments(options),
        )
        return self._carry_out(
            self.dataset,
            "publish",
            publication.planned,
            options,
            how,
            notes=(*(one.note for one in settled), *publication.notes),
            carry_out=publication.carry_out,
        )

    def _replicate(self, target: Store, options: ReplicateOptions) -> GroupReport:
        from chronotile.dataset.replicate_tree import replicate_tree

        return replicate_tree(self.store, target, self.key, options)

    def _clone(self, target: Store, without: Sequence[str], options: dict[str, Any]) -> GroupReport:
        from chronotile.dataset.clone_members import clone_members

        return clone_members(self.dataset, target, without=without, **options)

    def _tag(self, command: str, options: dict[str, Any], how: How) -> GroupReport:
        from chronotile.dataset.tag_members import plan_tag_group, plan_untag_group

        self._refuse_member(how)
        settled = self._settle(how, exclusive=False)
        notes = tuple(one.note for one in settled)
        if any(one.did(command, who_asks(options, how)) for one in settled):
            return replace(self._nothing(command, how), notes=notes)
        if command == "tag" and (words := self.dataset.absence(options.get("at"))) is not None:
            notes += (words,)
        planner = plan_tag_group if command == "tag" else plan_untag_group
        planned = planner(self.dataset, outside=how.get("outside", False), **options)
        return self._carry_out(self.dataset, command, planned, options, how, notes=notes)


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
