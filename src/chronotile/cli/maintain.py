"""`chronotile delete`, `update`, `apply`, `consolidate`, `vacuum`, `repair`: what changes an array.

In: an array and what to do. Out: the changed array, a report on standard output, and a JSON
report beside the array. Decides nothing itself: the options of a command, but for those that all
share, are the arguments of the function that makes the change.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chronotile.cli.options import (
    MOMENT,
    access_options,
    array_argument,
    json_option,
    say,
    wrong_call,
)
from chronotile.errors import ChronotileError, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from chronotile.change.change_report import Report
    from chronotile.cli.options import Access
    from chronotile.storage.store import Store

F = TypeVar("F", bound="Callable[..., Any]")

_older = click.option(
    "--allow-older-loss",
    is_flag=True,
    help="Go on although rows from before a field of the predicate was added go too.",
)
_where = click.option("--where", required=True, metavar="PREDICATE", help="Such as: a < 3.")
_moment = click.option(
    "--at", "timestamp", metavar="TIME", type=MOMENT, help="The commit's time: now."
)
_any_time = click.option(
    "--any-time", is_flag=True, help="Go on although --at is before all data, or in the future."
)


def _at(function: F) -> F:
    """Adds `--at`, and `--any-time`."""
    return _moment(_any_time(function))


SHOWN = 8
"""Files that a report shows, unless all are asked for."""
UNDONE = ("publish", "restore", "undelete")
"""Commands that say how they are taken back, besides those that fill a quarantine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """What a command did, or would do."""

    report: Report
    verbose: bool = False
    """Whether to show every file."""

    def to_json(self) -> dict[str, Any]:
        """The form of `Report.to_dict`."""
        return self.report.to_dict()

    def to_text(self) -> Iterator[RenderableType]:
        """A line, a table of files, notes, and what is left to mend."""
        from chronotile.report.output import Text, plain_table

        report = self.report
        yield Text(f"{report.array}: {report.summary()}", "bold")
        if report.steps:
            table = plain_table("size", "what", "file", "why", right=1)
            shown = len(report.steps) if self.verbose else SHOWN
            for step in report.steps[:shown]:
                size = "?" if step.size is None else f"{step.size:,}"
                table.add_row(size, step.op, step.path, step.reason)
            yield table
            if len(report.steps) > shown:
                yield f"and {len(report.steps) - shown:,} more (--verbose lists all)"
        for note in report.notes:
            yield Text(f"note: {note}", "yellow")
        if report.engine_open_requests is not None:
            first, then = report.engine_open_requests
            when = "would be" if report.dry_run else "are now"
            yield f"requests of an engine's open in a bucket: they were {first:,}, {when} {then:,}"
        for item in report.findings:
            yield Text(f"{item.severity}: {item.code}  {item.path}: {item.message}", "red")
        if report.quarantine is not None and not report.dry_run:
            yield f"quarantine: {report.quarantine}"


@dataclass(slots=True, kw_only=True)
class Change:
    """One call of a command that changes an array."""

    array: str
    store: Store
    key: bytes | None = field(repr=False)
    dry_run: bool
    place: str | None
    """Where the JSON report goes; None is beside the array, `-` is nowhere."""
    as_json: bool
    pattern: str | None = None
    """Of a group: the members to change."""
    outside: bool = False
    """Of a group: whether to change members that lie outside of its folder."""
    verbose: bool = False
    begun: str | None = None
    """The path of the record that says `begun`, beside the array."""

    def run(self, function: Callable[..., Report], **options: Any) -> int:
        """Makes a change, and reports it; gives the exit status."""
        from chronotile.history.folder_kinds import GroupFoundError

        shared = {"key": self.key, "store": self.store, "dry_run": self.dry_run}
        try:
            done = function(self.array, **shared, **options)
        except GroupFoundError:
            from chronotile.cli.group_change import run_on_group

            return run_on_group(self, function, options)
        if self.pattern is not None or self.outside:
            raise wrong_call("--member, --outside: expected a group, found an array")
        return self.finish(done)

    def ask(self, function: Callable[..., Report], **options: Any) -> int:
        """Makes a change that may have an odd time: a terminal is asked about that."""
        from chronotile.check.findings import OddTimeError

        try:
            return self.run(function, **options)
        except OddTimeError as error:
            is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
            if self.as_json or not is_terminal:
                raise
            say(f"chronotile: {error}")
            if not click.confirm("Go on all the same?", err=True):
                say("chronotile: nothing was written")
                return 1
            return self.run(function, **options | {"any_time": True})

    def record(self, planned: Report) -> None:
        """Writes down what the command is about to do; a killed command leaves this record."""
        from chronotile.change.beside_array import save_begun

        try:
            if self.place is None:
                self.begun = save_begun(self.store, planned)
            elif self.place != "-":
                Path(self.place).write_text(planned.begun_json(), encoding="utf-8")
        except (ChronotileError, OSError) as error:
            if any(step.op != "put" for step in planned.steps):
                problem = f"expected to write down first what is about to go, found: {error}"
                hint = "give --report FILE, or '-' for no record"
                raise ChronotileError(planned.array, f"{problem}; {hint}") from error

    def finish(self, done: Report) -> int:
        """Shows a report, and saves it if the command did anything; gives the exit status."""
        from chronotile.report.output import emit

        emit(ChangeReport(report=done, verbose=self.verbose), as_json=self.as_json)
        if not done.dry_run and (done.steps or self.begun):
            is_beside = self._save(done)
            # What puts a quarantine back has none of its own.
            can_be_undone = done.command in UNDONE or done.restore is not None
            if done.steps and can_be_undone:
                way = f"chronotile undo {shell_word(self.array)}" if is_beside else done.restore
                if way is not None:
                    say(f"to undo: {way}")
        return 1 if done.findings else 0

    def _save(self, done: Report) -> bool:
        """Saves a report; true if it is beside the array, where `undo` finds it."""
        from chronotile.change.beside_array import save_report

        try:
            if self.place is None:
                say(f"report: {save_report(self.store, done, self.begun)}")
            elif self.place != "-":
                Path(self.place).write_text(done.to_json(), encoding="utf-8")
        except (ChronotileError, OSError) as error:
            # The array has changed already: no report undoes that.
            say(f"chronotile: the report could not be kept: {error}")
            return False
        return self.place is None


def changing(function: F) -> F:
    """Adds ARRAY and the options that all changes share, which the command gets as `change`."""

    @array_argument
    @click.option("--dry-run", is_flag=True, help="Change nothing, and say what would be done.")
    @click.option("--verbose", is_flag=True, help="List every file, and not the first few alone.")
    @click.option(
        "--report",
        "place",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Where the JSON report goes: beside the array, in ARRAY.reports. '-' for nowhere.",
    )
    @click.option("--member", "pattern", metavar="PATTERN", help="Of a group: only such members.")
    @click.option("--outside", is_flag=True, help="Of a group: also members outside of its folder.")
    @access_options
    @json_option
    @functools.wraps(function)
    def call(
        array: str,
        dry_run: bool,
        verbose: bool,
        place: str | None,
        pattern: str | None,
        outside: bool,
        access: Access,
        as_json: bool,
        **rest: Any,
    ) -> Any:
        change = Change(
            array=array,
            store=access.open_store(array),
            key=access.key,
            dry_run=dry_run,
            place=place,
            as_json=as_json,
            pattern=pattern,
            outside=outside,
            verbose=verbose,
        )
        return function(change, **rest)

    return call  # type: ignore[return-value]  # the same to click, which passes names


@click.command(epilog="\b\nExample:\n  chronotile delete demo/array --where 'id == 7' --dry-run")
@changing
@_where
@_at
@click.option(
    "--allow-null-loss", is_flag=True, help="Go on although rows with NULL or NaN go too."
)
@_older
def delete(change: Change, **options: Any) -> int:
    """Delete the rows of ARRAY that satisfy a predicate: write a delete commit.

    Rows written at or before the commit's time disappear from every open that covers it.
    """
    from chronotile.change.delete_update import write_delete

    return change.ask(write_delete, **options)


@click.command(
    epilog="\b\nExample:\n"
    "  chronotile update demo/array --where 'id == 7' --set amount=4 --experimental --dry-run"
)
@changing
@_where
@click.option(
    "--set",
    "values",
    required=True,
    multiple=True,
    metavar="FIELD=VALUE",
    help="The new value of a field; again for more fields.",
)
@_at
@click.option("--experimental", is_flag=True, help="I know that the engine takes it for a delete.")
@_older
def update(change: Change, **options: Any) -> int:
    """Write an update commit: new values for the rows of ARRAY that satisfy a predicate.

    Today's engine takes an update for a delete: the rows disappear, and no value is set.
    """
    from chronotile.change.delete_update import write_update

    return change.ask(write_update, **options)


@click.command(epilog="\b\nExample:\n  chronotile apply demo/array --dry-run")
@changing
def apply(change: Change) -> int:
    """Carry out the updates of ARRAY: write their rows, so that every TileDB program sees them.

    The rows get the values at the update's own time; the update goes into ARRAY.quarantine. Broken
    off anywhere, the same command goes on. Needs the engine: pip install 'chronotile[engine]'.
    """
    from chronotile.rows.apply import apply_updates

    return change.run(apply_updates, before=change.record)


@click.command(epilog="\b\nExample:\n  chronotile consolidate demo/array --dry-run")
@changing
@click.option(
    "--mode",
    type=click.Choice(["commits", "fragment-meta", "array-meta", "all"]),
    default="commits",
    help="What to put into one file: commits.",
)
@click.option(
    "--updates", is_flag=True, help="Take updates in too: the engine loses sight of them."
)
def consolidate(change: Change, **options: Any) -> int:
    """Put what many files of ARRAY hold into one. Nothing is removed: vacuum does that.

    The mode fragment-meta puts the footers of all visible fragments into one .meta, which saves an
    engine's open 3 requests each; array-meta merges the array's metadata into one file.
    """
    from chronotile.change.consolidate import consolidate as run

    return change.run(run, before=change.record, **options)


@click.command(epilog="\b\nExample:\n  chronotile vacuum demo/array --dry-run")
@changing
@click.option(
    "--mode",
    type=click.Choice(["all", "commits", "fragments", "fragment-meta", "array-meta"]),
    default="all",
    help="What to look at: all.",
)
@click.option(
    "--orphans", is_flag=True, help="Remove also unfinished fragments that no commit names."
)
@click.option("--whole-orphans", is_flag=True, help="Those too that lack nothing but their commit.")
@click.option(
    "--orphan-age",
    metavar="HOURS",
    type=click.FloatRange(min=0),
    default=24.0,
    help="How old they, or deletes that go, must be: 24.",
)
@click.option(
    "--keep-deletes/--loose-deletes",
    "keep_deletes",
    default=True,
    help="Keep files of deletes that a .con holds, or remove them: an engine that consolidates "
    "commits looks for them. Kept.",
)
@click.option(
    "--deletes",
    is_flag=True,
    help="Remove also deletes that no fragment needs: all cells in their reach are purged.",
)
@click.option("--updates", is_flag=True, help="Remove also loose updates that a .con holds.")
@click.option(
    "--keep",
    metavar="TIME",
    type=MOMENT,
    multiple=True,
    help="Leave windows that end then as they are, as those of tags always are.",
)
@click.option(
    "--keep-days", metavar="N", type=click.FloatRange(min=0), help="And of the last days."
)
def vacuum(change: Change, orphan_age: float, keep_deletes: bool, **options: Any) -> int:
    """Remove what no window of ARRAY needs: replaced commits, fragments and metadata.

    A dense array, and metadata, lose time travel into what was consolidated; a note says so first.
    """
    from chronotile.change.vacuum import vacuum as run

    return change.run(
        run,
        orphans_age_ms=int(orphan_age * 3_600_000),
        loose_deletes=not keep_deletes,
        before=change.record,
        announce=lambda note: say(f"note: {note}"),
        **options,
    )


@click.command(epilog="\b\nExample:\n  chronotile repair demo/array --dry-run")
@changing
@click.option("--accept-loss", is_flag=True, help="Mend a cut .con without its last entry.")
@click.option(
    "--commit-orphans",
    is_flag=True,
    help="Commit whole fragments that no commit names, as after the loss of a .con.",
)
@click.option("--restore", metavar="MANIFEST", help="Undo a repair.")
def repair(change: Change, restore: str | None, **options: Any) -> int:
    """Take out of ARRAY what keeps the engine from reading it, into ARRAY.quarantine.

    Nothing is destroyed: the report has the command that undoes it. Exits with 1 if something is
    left that cannot be mended.
    """
    from chronotile.change.quarantine import restore as put_back
    from chronotile.change.repair import repair as run

    if restore is None:
        return change.run(run, before=change.record, **options)
    array, store = change.array, change.store
    return change.finish(put_back(array, restore, dry_run=change.dry_run, store=store))
