"""`consolidate`, `vacuum`, `repair` and other changes of a group: member by member.

In: one call of a command, whose ARRAY is a group. Out: the changed members, one report on standard
output, and one beside the group. `dataset.over_members` decides the order; a failure of one member
stops no other.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronotile.cli.options import say, wrong_call
from chronotile.errors import ChronotileError, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from chronotile.cli.maintain import Change
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.dataset.over_members import GroupReport, Outcome

ONE_ARRAY = ("write_delete", "write_update")
"""Changes whose words make sense for one array only."""
UNDONE = ("publish", "restore", "restore_rows", "undelete")
"""Changes of a group that say how they are taken back."""
OF_DATASET = {
    "add_tag": "tag_members:tag_dataset",
    "remove_tag": "tag_members:untag_dataset",
    "undelete": "undelete_member:undelete_member",
    "publish": "publish_members:publish_dataset",
}
"""Changes of a dataset as a whole: the function below `chronotile.dataset` that makes it."""
ALL_OR_NONE = ("restore", "restore_rows")
"""Changes that would tear a dataset apart if some members were left out."""
_OF_ARRAYS = ("before", "announce")
"""Options that tell of one array before it is changed: the plan tells of all at once."""
_MOMENTS = ("at", "to", "keep")
"""Options that are times: of a group, its tags count, whatever tags its members have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChangeReport:
    """What a command did to the members of a group, or would do."""

    report: GroupReport

    def to_json(self) -> dict[str, Any]:
        """The form of `GroupReport.to_dict`."""
        return self.report.to_dict()

    def to_text(self) -> Iterator[RenderableType]:
        """A line for the group, then a few for each member."""
        from chronotile.report.output import Text

        report = self.report
        yield Text(f"{report.group}: {report.summary()}", "bold")
        for note in report.notes:
            yield Text(f"  note: {note}", "yellow")
        for one in report.outcomes:
            path = one.path or "the group itself"
            if one.error is not None:
                style = "yellow" if one.skipped else "red"
                yield Text(f"  {path}: {one.error}", style)
            if one.report is not None:
                yield Text(f"  {path}: {one.report.summary()}")
                for note in one.report.notes:
                    yield Text(f"      note: {note}", "yellow")
                for item in one.report.findings:
                    yield Text(f"      {item.severity}: {item.code}  {item.message}", "red")


def run_on_group(change: Change, function: Callable[..., Any], options: dict[str, Any]) -> int:
    """Makes a change to a group, and reports it; gives the exit status."""
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.history.group_reading import read_group
    from chronotile.report.output import emit

    name = function.__name__
    if name in ONE_ARRAY:
        problem = "expected an array, found a group; name the member whose rows are meant"
        raise ChronotileError(change.array, problem)
    dataset = Dataset(change.store, read_group(change.store, key=change.key))
    if name == "repair":
        from chronotile.dataset.mended_lists import as_mended

        dataset = as_mended(dataset)
    given = {key: value for key, value in options.items() if key not in _OF_ARRAYS}
    given |= {key: _moments(dataset, given[key]) for key in _MOMENTS if given.get(key) is not None}
    begun = Begun(change)
    if name in OF_DATASET:
        done = _of_dataset(name, dataset, begun, given)
    else:
        done = _each(dataset, function, begun, given)
    emit(GroupChangeReport(report=done), as_json=change.as_json)
    begun.save(done)
    return max((int(bool(done.findings)), *(one.status for one in done.failed)))


def _moments(dataset: Dataset, value: Any) -> Any:
    """A time, or several, in ms."""
    if isinstance(value, tuple):
        return tuple(map(dataset.moment, value))
    return dataset.moment(value)


def _of_dataset(name: str, dataset: Dataset, begun: Begun, given: dict[str, Any]) -> GroupReport:
    """Makes a change of a dataset as a whole."""
    change = begun.change
    if name == "publish":
        given["pattern"] = change.pattern
    elif change.pattern is not None:
        raise wrong_call("--member: expected a change of some members, found one of the group")
    module, _, function = OF_DATASET[name].partition(":")
    run = getattr(importlib.import_module(f"chronotile.dataset.{module}"), function)
    done: GroupReport = run(
        dataset, dry_run=change.dry_run, outside=change.outside, before=begun.record, **given
    )
    return done


def _each(
    dataset: Dataset, function: Callable[..., Any], begun: Begun, given: dict[str, Any]
) -> GroupReport:
    """Makes a change to every member, and to the files of the groups themselves."""
    from chronotile.dataset.over_members import change_members
    from chronotile.report.output import progress

    change, name = begun.change, function.__name__
    of_groups: dict[str, Any] = {}
    if name == "vacuum":
        given["group_tags"] = dataset.tags
        of_groups = {key: given[key] for key in ("keep", "keep_days", "group_tags")}
    with progress(f"{name}: members", len(dataset.tree())) as step:
        return change_members(
            dataset,
            name,
            function,
            given,
            change_group=_of_group(name),
            group_options=of_groups,
            dry_run=change.dry_run,
            outside=change.outside,
            pattern=change.pattern,
            all_or_none=name in ALL_OR_NONE,
            before=begun.record,
            on_begin=begun.member,
            on_member=lambda _: step(),
        )


def _of_group(command: str) -> Any:
    """What a command does to a group's own files."""
    from chronotile.change.consolidate_group import consolidate_group
    from chronotile.change.repair_group import repair_group
    from chronotile.change.vacuum_group import vacuum_group

    own = {"consolidate": consolidate_group, "repair": repair_group, "vacuum": vacuum_group}
    return own.get(command)


class Begun:
    """The record that a command has begun, and then its report, beside the group."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.path: str | None = None
        self.parts = 0

    def record(self, plan: GroupReport) -> None:
        """Tells what cannot be done or undone, and writes down what is about to happen."""
        from chronotile.change.beside_array import save_begun

        for one in plan.failed:
            say(f"note: {one.path or 'the group itself'} is left as it is: {one.error}")
        for note in plan.notes:
            say(f"note: {note}")
        for one in plan.outcomes:
            for note in () if one.report is None else one.report.notes:
                say(f"note: {one.path or 'the group itself'}: {note}")
        change = self.change
        if change.place is None:
            self.path = save_begun(change.store, plan)
        elif change.place != "-":
            Path(change.place).write_text(plan.begun_json(), encoding="utf-8")

    def member(self, planned: Outcome) -> None:
        """Writes down what is about to happen to one member, by name: `undo` needs it."""
        from chronotile.change.beside_array import save_part
        from chronotile.change.change_report import json_text

        if self.path is not None:
            save_part(self.change.store, self.path, self.parts, json_text(planned.to_dict()))
            self.parts += 1

    def save(self, done: GroupReport, *, even_if_nothing: bool = False) -> None:
        """Saves the report, if anything was done."""
        from chronotile.change.beside_array import save_report

        change = self.change
        if done.dry_run or change.place == "-" or not (done.has_steps or even_if_nothing):
            return
        try:
            if change.place is None:
                say(f"report: {save_report(change.store, done, self.path, self.parts)}")
                if done.has_steps and done.command in UNDONE:
                    say(f"to undo: chronotile undo {shell_word(change.array)}")
            else:
                Path(change.place).write_text(done.to_json(), encoding="utf-8")
        except (ChronotileError, OSError) as error:
            # The members have changed already: no report undoes that.
            say(f"chronotile: the report could not be kept: {error}")
