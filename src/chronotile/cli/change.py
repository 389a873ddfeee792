"""The commands that change an array or a group, `delete` to `publish` and `tag`; and `operations`.

In: a place and what to do. Out: the change, made by the method of the same name, and its report;
and what was done so far. Decides nothing: the options of a command are the arguments of the method.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chronotile.cli.options import (
    MOMENT,
    Command,
    PlaceType,
    access_options,
    array_argument,
    command,
    json_option,
    reporting,
    say,
    shared_option,
    wrong_call,
)
from chronotile.errors import shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from chronotile.array import Array
    from chronotile.change.plan import Report
    from chronotile.cli.options import Access
    from chronotile.dataset.over_members import GroupReport
    from chronotile.format.tag_entries import Tags
    from chronotile.group import Group


F = TypeVar("F", bound="Callable[..., Any]")

_NO_ROW = "No row matches. Go on all the same?"
MOST_SHOWN = 8
"""Files that a report shows, unless all are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """The report of a change of an array, done or planned."""

    report: Report
    verbose: bool = False

    def to_json(self) -> dict[str, Any]:
        """Give the form of `Report.to_dict`."""
        return self.report.to_dict()

    def to_text(self) -> Iterator[RenderableType]:
        """Give a line, a table of files, notes, and what is left to mend."""
        from chronotile.show.output import Text, plain_table

        report = self.report
        yield Text(f"{report.array}: {report.summary()}", "bold")
        if report.steps:
            table = plain_table("size", "what", "file", "why", right=1)
            shown = len(report.steps) if self.verbose else MOST_SHOWN
            for step in report.steps[:shown]:
                size = "?" if step.size is None else f"{step.size:,}"
                table.add_row(size, step.op, step.path, step.reason)
            yield table
            if len(report.steps) > shown:
                yield f"and {len(report.steps) - shown:,} more (--verbose lists all)"
        if report.rows:
            done = "would be " if report.dry_run else ""
            yield ", ".join(f"{n:,} row{'s' * (n != 1)} {done}{w}" for w, n in report.rows.items())
        for note in report.notes:
            yield Text(f"note: {note}", "yellow")
        if report.engine_open_requests is not None:
            first, then = report.engine_open_requests
            when = "would be" if report.dry_run else "are now"
            yield f"requests of an engine's open in a bucket: they were {first:,}, {when} {then:,}"
        for item in report.findings:
            yield Text(f"{item.severity}: {item.code}  {item.path}: {item.message}", "red")
        if report.operation is not None:
            yield Text(f"operation: {report.operation}", "dim")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChangeReport:
    """The report of a change of a group's members, done or planned."""

    report: GroupReport

    def to_json(self) -> dict[str, Any]:
        """Give the form of `GroupReport.to_dict`."""
        return self.report.to_dict()

    def to_text(self) -> Iterator[RenderableType]:
        """Give a line for the group, then a few for each member."""
        from chronotile.show.output import Text

        report = self.report
        yield Text(f"{report.group}: {report.summary()}", "bold")
        for note in report.notes:
            yield Text(f"  note: {note}", "yellow")
        for one in report.outcomes:
            path = one.path or "the group itself"
            if one.error is not None:
                yield Text(f"  {path}: {one.error}", "yellow" if one.skipped else "red")
            if one.report is not None:
                yield Text(f"  {path}: {one.report.summary()}")
                for note in one.report.notes:
                    yield Text(f"      note: {note}", "yellow")
                for item in one.report.findings:
                    yield Text(f"      {item.severity}: {item.code}  {item.message}", "red")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a command that changes something."""

    place: Array | Group
    how: dict[str, Any]
    """Options that every change takes; see `handle.How`."""
    as_json: bool
    verbose: bool
    out: str | None
    """A file for the JSON report."""

    def show(self, done: Report | GroupReport) -> int:
        """Show a report; give the exit status."""
        from chronotile.change.plan import Report
        from chronotile.show.output import emit

        if isinstance(done, Report):
            emit(ChangeReport(report=done, verbose=self.verbose), as_json=self.as_json)
            status, changed = int(bool(done.findings)), bool(done.steps)
        else:
            emit(GroupChangeReport(report=done), as_json=self.as_json)
            status = max((int(bool(done.findings)), *(one.status for one in done.failed)))
            changed = done.has_steps
        if changed and not done.dry_run:
            if self.out is not None:
                try:
                    Path(self.out).write_text(done.to_json(), encoding="utf-8")
                except OSError as error:
                    # The array has changed already: no report undoes that.
                    say(f"chronotile: the report could not be kept: {error}")
            if done.can_be_undone and self.how["record"]:
                say(f"to undo: chronotile undo {shell_word(self.place.uri)}")
        return status

    def ask(self, change: Callable[..., Report | GroupReport], *given: Any, **options: Any) -> int:
        """Make a change that may have an odd time: a terminal is asked about that."""
        from chronotile.check.findings import OddTimeError

        try:
            return self.show(change(*given, **options, **self.how))
        except OddTimeError as error:
            is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
            if self.as_json or not is_terminal:
                raise
            say(f"chronotile: {error}")
            if not click.confirm("Go on all the same?", err=True):
                say("chronotile: nothing was written")
                return 1
            # One question is enough: that no row matches is a note of the report.
            how = self.how | {"before": None}
            return self.show(change(*given, **options | {"any_time": True}, **how))


def changing(function: F) -> F:
    """Add ARRAY and the options that all changes share; the command gets `call`."""

    @click.argument("array", metavar="ARRAY", type=PlaceType("dir"))
    @shared_option("--dry-run", is_flag=True, help="Change nothing, and say what would be done.")
    @shared_option("-m", "--message", metavar="TEXT", help="Why: the operation keeps it.")
    @shared_option("--author", metavar="NAME", help="Who: this user on this host.")
    @shared_option(
        "--no-record",
        is_flag=True,
        help="Keep no record of the operation: there is no way back then.",
    )
    @shared_option("--member", metavar="PATTERN", help="Of a group: only such members.")
    @shared_option(
        "--outside", is_flag=True, help="Of a group: also members outside of its folder."
    )
    @shared_option("--verbose", is_flag=True, help="List every file, and not the first few alone.")
    @click.option("--report", "out", metavar="FILE", type=click.Path(dir_okay=False), hidden=True)
    @access_options
    @json_option
    @functools.wraps(function)
    def call(
        array: str,
        dry_run: bool,
        message: str | None,
        author: str | None,
        no_record: bool,
        member: str | None,
        outside: bool,
        verbose: bool,
        out: str | None,
        access: Access,
        as_json: bool,
        **rest: Any,
    ) -> Any:
        def announce(planned: Report | GroupReport) -> None:
            """Say what cannot be undone, and what a way back costs, before it begins."""
            for note in planned.losses:
                say(f"note: {note}")
            if planned.command in ("restore", "undelete"):
                say(f"{planned.command}: {planned.summary()}")
            counts = [*getattr(planned, "rows", {}).values()]
            may_ask = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
            if counts and not any(counts) and may_ask and not click.confirm(_NO_ROW, err=True):
                say("chronotile: nothing was written")
                raise click.exceptions.Exit(1)

        how = {
            "dry_run": dry_run,
            "message": message,
            "author": author,
            "record": not no_record and out != "-",
            "member": member,
            "outside": outside,
            "before": announce,
        }
        place = access.open(array)
        made = Call(
            place=place,
            how=how,
            as_json=as_json,
            verbose=verbose,
            out=None if out == "-" else out,
        )
        return function(made, **rest)

    return call  # type: ignore[return-value]  # the same to click, which passes names


_older = click.option(
    "--allow-older-loss",
    is_flag=True,
    help="Go on although rows from before a field of the predicate was added go too.",
)
_where = click.option("--where", required=True, metavar="PREDICATE", help="Such as: a < 3.")
_moment = click.option("--at", metavar="TIME", type=MOMENT, help="The commit's time: now.")
_any_time = click.option(
    "--any-time", is_flag=True, help="Go on although --at is before all data, or in the future."
)
_commits_only = click.option(
    "--commits-only", is_flag=True, help="Write no row again: refuse where commits cannot do it."
)
_from_now = click.option(
    "--at", metavar="TIME", type=MOMENT, help="When it takes effect: now; after every commit."
)


@command(epilog="\b\nExample:\n  chronotile delete demo/array --where 'id == 7' --dry-run")
@changing
@_where
@_moment
@_any_time
@click.option(
    "--allow-null-loss", is_flag=True, help="Go on although rows with NULL or NaN go too."
)
@_older
def delete(call: Call, **options: Any) -> int:
    """Delete the rows of ARRAY that satisfy a predicate: write a delete commit.

    Rows written at or before the commit's time disappear from every open that covers it. Of a
    group, --member names the arrays.
    """
    return call.ask(call.place.delete, **options)


@command(
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
@_moment
@_any_time
@click.option("--experimental", is_flag=True, help="I know that the engine takes it for a delete.")
@_older
def update(call: Call, **options: Any) -> int:
    """Write an update commit: new values for the rows of ARRAY that satisfy a predicate.

    Today's engine takes an update for a delete: the rows disappear, and no value is set.
    """
    return call.ask(call.place.update, **options)


@command(epilog="\b\nExample:\n  chronotile apply demo/array --dry-run")
@changing
def apply(call: Call) -> int:
    """Carry out the updates of ARRAY: write their rows, so that every TileDB program sees them.

    The rows get the values at the update's own time; the update itself goes into the quarantine.
    Needs the engine: pip install 'chronotile[engine]'.
    """
    return call.show(call.place.apply(**call.how))


@command(epilog="\b\nExample:\n  chronotile consolidate demo/array --dry-run")
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
def consolidate(call: Call, **options: Any) -> int:
    """Put what many files of ARRAY hold into one. Nothing is removed: vacuum does that.

    The mode fragment-meta puts the footers of all visible fragments into one .meta, which saves an
    engine's open 3 requests each; array-meta merges the array's metadata into one file.
    """
    return call.show(call.place.consolidate(**options, **call.how))


@command(epilog="\b\nExample:\n  chronotile vacuum demo/array --dry-run")
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
    metavar="AGE",
    default="24h",
    help="How old they, or deletes that go, must be: 24h. A number is in hours.",
)
@click.option(
    "--loose-deletes",
    is_flag=True,
    help="Remove also files of deletes that a .con holds: no engine consolidates commits then.",
)
@click.option("--keep-deletes", "loose_deletes", flag_value=False, hidden=True)
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
def vacuum(call: Call, **options: Any) -> int:
    """Remove what no window of ARRAY needs: replaced commits, fragments and metadata.

    A dense array, and metadata, lose time travel into what was consolidated; a note says so first.
    """
    return call.show(call.place.vacuum(**options, **call.how))


@command(epilog="\b\nExample:\n  chronotile repair demo/array --dry-run")
@changing
@click.option("--accept-loss", is_flag=True, help="Mend a cut .con without its last entry.")
@click.option(
    "--commit-orphans",
    is_flag=True,
    help="Commit whole fragments that no commit names, as after the loss of a .con.",
)
@click.option("--restore", "manifest", metavar="MANIFEST", hidden=True)
def repair(call: Call, manifest: str | None, **options: Any) -> int:
    """Take out of ARRAY what keeps the engine from reading it, into the quarantine.

    Nothing is destroyed: undo puts it back. Exits with 1 if something is left that cannot be
    mended.
    """
    if manifest is None:
        return call.show(call.place.repair(**options, **call.how))
    return call.show(call.place.undo(manifest, **call.how))


@command(epilog="\b\nExample:\n  chronotile restore demo/array --to 2024-05-15 --dry-run")
@changing
@click.option("--to", metavar="TIME", type=MOMENT, required=True, help="The moment to go back to.")
@_from_now
@click.option("--keep-metadata", is_flag=True, help="Leave the metadata as it is now.")
@click.option("--rewrite", is_flag=True, help="Let TileDB write the rows again in any case.")
@_commits_only
def restore(call: Call, **options: Any) -> int:
    """From now on, make ARRAY as it was at an earlier moment: rows, schema and metadata.

    Every window that ends before stays as it is; no fragment is removed. --dry-run says what goes
    out of sight and what comes back. Where commits alone cannot do it, TileDB writes the rows of a
    sparse array again, if it is installed.
    """
    return call.show(call.place.restore(**options, **call.how))


@command(epilog="\b\nExample:\n  chronotile undelete demo/array 1edafe --ever --dry-run")
@changing
@click.argument("name", metavar="NAME")
@_from_now
@click.option("--ever", is_flag=True, help="Take it out of the whole history, to the quarantine.")
@_commits_only
def undelete(call: Call, name: str, **options: Any) -> int:
    """Let the rows of ARRAY that one delete or update hides come back.

    From now on, and every window that ends before stays as it is; or, with --ever, in every window.
    Where commits alone cannot do it, TileDB writes the rows again, if it is installed; what later
    writes and deletes did stays.
    """
    return call.show(call.place.undelete(name, **options, **call.how))


@command(epilog="\b\nExample:\n  chronotile undo demo/array --dry-run")
@changing
@click.argument("operation", metavar="[ID]", required=False)
def undo(call: Call, operation: str | None) -> int:
    """Take the last change of ARRAY back, or the one with that ID.

    `chronotile operations` lists them. What the change put goes into the quarantine, so that an
    undo can be undone. A vacuum in between can make a change final; then nothing is done.
    """
    return call.show(call.place.undo(operation, **call.how))


@command(epilog="\b\nExample:\n  chronotile publish demo/tonight demo/array")
@click.argument("staging", metavar="STAGING...", nargs=-1, required=True, type=PlaceType("dir"))
@changing
@click.option("--at", metavar="TIME", type=MOMENT, help="Times of the fragments: their own.")
@click.option("--own-times", is_flag=True, help="Of a group too, whose members then follow.")
@click.option("--again", is_flag=True, help="Take also fragments that are, or were, there already.")
@click.option(
    "--allow-hidden", is_flag=True, help="Go on although a later delete hides rows of them."
)
def publish(call: Call, staging: tuple[str, ...], **options: Any) -> int:
    """Make all fragments of STAGING arrays visible in ARRAY, in one step.

    They have the same schema as ARRAY, and no deletes in force; `check` looks at them first. A
    reader sees none of it or all. In a group, what is staged for all members shows at one moment,
    just ahead: readers who open them at one time of theirs see none of it or all. The same command
    again does what is left to do, and leaves alone what is there.
    """
    if options["own_times"] and options["at"] is not None:
        raise wrong_call("expected --at or --own-times, found both")
    return call.show(call.place.publish(staging, **options, **call.how))


@command(epilog="\b\nExample:\n  chronotile clone demo/array demo/copy --end 2024-05-04")
@click.argument("array", metavar="SOURCE", type=PlaceType("dir"))
@click.argument("target", metavar="TARGET", type=PlaceType("dir"))
@click.option("--start", metavar="TIME", type=MOMENT, default=0, help="Start of the window: 0.")
@click.option("--end", metavar="TIME", type=MOMENT, help="End of the window: now.")
@click.option("--without", metavar="NAME", multiple=True, help="A commit to leave out.")
@click.option(
    "--link",
    type=click.Choice(["hard", "symbolic", "copy"]),
    default="hard",
    help="How to take fragments over on one disk: hard links.",
)
@shared_option("--dry-run", is_flag=True, help="Only list each file, its size and why.")
@shared_option("--verbose", is_flag=True, help="List every file, and not the first few alone.")
@access_options
@json_option
def clone(
    array: str,
    target: str,
    verbose: bool,
    access: Access,
    as_json: bool,
    **options: Any,
) -> int:
    """Make an array at TARGET that shows what an open of SOURCE at a window shows.

    Fragments are linked on one disk, and copied by the storage inside one bucket. Every TileDB
    program opens the clone. --without asks: what if this delete had not happened? SOURCE may be an
    array that the engine refuses to open.
    """
    place = access.open(array)
    call = Call(place=place, how={"record": False}, as_json=as_json, verbose=verbose, out=None)
    return call.show(place.clone(target, **options))


@click.group(epilog="\b\nExample:\n  chronotile tag add demo/array release-1 --at 2024-05-15")
def tag() -> None:
    """Give moments of an array or a group names, which every command takes for a time.

    A tag is kept in the own metadata of the array or group, as chronotile.tag.NAME, so that every
    TileDB program sees it. `chronotile vacuum` keeps what a tag needs, also of a group's members;
    the engine's own vacuum does not know of tags, and `chronotile check` finds those that can no
    longer be read whole. Each command takes --json.
    """


@tag.command(cls=Command)
@changing
@click.argument("name", metavar="NAME")
@click.option("--at", metavar="TIME", type=MOMENT, help="The moment: now.")
@click.option("--move", is_flag=True, help="Let a tag of that name name another moment.")
def add(call: Call, name: str, **options: Any) -> int:
    """Give a moment of ARRAY a name."""
    return call.show(call.place.tag(name, **options, **call.how))


@tag.command(cls=Command, short_help="Take a tag of ARRAY away.")
@changing
@click.argument("name", metavar="NAME")
def remove(call: Call, name: str) -> int:
    """Take a tag of ARRAY away: a vacuum may then remove what only it needs."""
    return call.show(call.place.untag(name, **call.how))


@dataclass(frozen=True, slots=True, kw_only=True)
class TagList:
    """The tags of an array or a group, and those of groups that it is a member of."""

    array: str
    tags: Tags

    def to_json(self) -> list[dict[str, Any]]:
        """Give a name and a moment each."""
        from chronotile.format.timestamps import iso_time

        return [
            {"name": name, "at": at, "time": iso_time(at), "of_group": of_group}
            for name, at, of_group in self._rows()
        ]

    def to_text(self) -> Iterator[RenderableType]:
        """Give a line, and a table."""
        from chronotile.check.findings import count_text
        from chronotile.format.timestamps import time_text
        from chronotile.show.output import Text, plain_table

        rows = self._rows()
        known = " that can be read" if self.tags.doubts else ""
        yield Text(f"{self.array}: {count_text(len(rows), 'tag')}{known}", "bold")
        if rows:
            table = plain_table("time", "ms", "tag")
            for name, at, of_group in rows:
                table.add_row(time_text(at), str(at), f"{name}, of its group" if of_group else name)
            yield table

    def _rows(self) -> list[tuple[str, int, bool]]:
        own = [(name, at, False) for name, at in self.tags.own.items()]
        return own + [(name, at, True) for name, at in self.tags.of_groups]


@tag.command(name="list", cls=Command)
@array_argument
@access_options
@json_option
def list_tags(array: str, access: Access, as_json: bool) -> int:
    """List the tags of ARRAY, the earliest first.

    Exits with 3 if metadata cannot be read, which may hold more.
    """
    from chronotile.show.output import emit

    place = access.open(array)
    tags = place.log.known_tags
    emit(TagList(array=place.uri, tags=tags), as_json=as_json)
    tags.checked(place.uri)
    return 0


_STYLES = {"begun": "yellow", "failed": "red", "undone": "dim", "final": "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsReport:
    """The operations of a place."""

    uri: str
    found: tuple[dict[str, Any], ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Give one object for each operation."""
        return list(self.found)

    def to_text(self) -> Iterator[RenderableType]:
        """Give a line for each operation."""
        from chronotile.show.output import Text, count_text, plain_table

        yield Text(f"{self.uri}: {count_text(len(self.found), 'operation')}", "bold")
        if not self.found:
            return
        table = plain_table("id", "time", "command", "state", "author", "why and what")
        for one in self.found:
            words = [one["message"]] if one["message"] else []
            words += [f"{count:,} rows {what}" for what, count in one["rows"].items()]
            words += [f"{len(one['put']):,} put"] if one["put"] else []
            words += [f"{len(one['hidden']):,} hidden"] if one["hidden"] else []
            words += [f"{len(one['removed']):,} taken out"] if one["removed"] else []
            words += [f"takes back {one['undoes']}"] if one["undoes"] else []
            state = Text(one["state"], _STYLES.get(one["state"], ""))
            who, what = one["author"] or "", "; ".join(words)
            table.add_row(one["id"], one["time"], one["command"], state, who, what)
        yield table


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReport:
    """One operation, whole."""

    document: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Give its record."""
        return self.document

    def to_text(self) -> Iterator[RenderableType]:
        """Give its head, its notes and every file."""
        from chronotile.show.output import Text, plain_table

        document = self.document
        yield Text(f"{document['id']}: {document['command']}, {document['state']}", "bold")
        for name in ("time", "author", "message", "options", "rows", "undoes", "group"):
            if document.get(name):
                yield Text(f"{name}: {document[name]}")
        for note in document.get("notes", ()):
            yield Text(f"note: {note}", "yellow")
        parts = [("", document)]
        parts += [(item.get("member") or "", item) for item in document.get("members", ())]
        table = plain_table("size", "what", "file", "why", right=1)
        for member, part in parts:
            for step in part.get("steps", ()):
                size = "?" if step.get("size") is None else f"{step['size']:,}"
                path = f"{member}: {step['path']}" if member else step["path"]
                table.add_row(size, step["op"], path, step["reason"])
        yield table


@command(epilog="\b\nExample:\n  chronotile operations demo/array")
@array_argument
@click.argument("id_", metavar="[ID]", required=False)
@access_options
@reporting
def operations(array: str, id_: str | None, access: Access) -> OperationsReport | OperationReport:
    """List what chronotile did to ARRAY, the newest first; with ID, show one operation.

    Each has who, when, why, its state, and what it put, hid and took out. `chronotile undo ARRAY
    ID` takes one back.
    """
    place = access.open(array)
    if id_ is None:
        from chronotile.change.operations import describe_operations

        return OperationsReport(uri=place.uri, found=tuple(describe_operations(place.store)))
    return OperationReport(document=place.operation(id_))
