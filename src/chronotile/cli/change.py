"""The commands that change an array or a group, `delete` to `publish` and `tag`; and `operations`.

In: a place and what to do. Out: the change, made by the method of the same name, and its report;
and what was done so far. Decides nothing: the options of a command are the arguments of the method.
"""

from __future__ import annotations

import functools
import time
from contextlib import suppress
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
    completed_as,
    flag,
    form_of,
    go_on,
    json_option,
    may_ask,
    out_option,
    read_pairs,
    reporting,
    say,
    shared_option,
    time_option,
    window_options,
    wrong_call,
)
from chronotile.errors import ArrayNotFoundError, ReadError, WrongCallError
from chronotile.format.timestamps import iso_time, time_text
from chronotile.safe_text import shell_word
from chronotile.show.certificate_page import ASKED, certificate_lines
from chronotile.show.operation_words import OperationWords, undone_by
from chronotile.show.output import Answer, Text, count_text, emit, plain_table, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

    from chronotile.array import Array
    from chronotile.change.plan import Report
    from chronotile.cli.options import Access
    from chronotile.dataset.over_members import GroupReport, MemberOutcome
    from chronotile.format.timestamps import Ends
    from chronotile.group import Group
    from chronotile.rows.compact import CompactProgress


F = TypeVar("F", bound="Callable[..., Any]")

MOST_SHOWN = 8
"""Files that a report shows, unless all are asked for."""


_FOR_GOOD = "this cannot be undone"


def change_answer(
    done: Report | GroupReport, *, verbose: bool = False, where: str = ASKED
) -> Answer:
    """Show the report of a change, done or planned.

    Args:
        done: The report.
        verbose: List every file.
        where: What the user asked for, for commands: no record or certificate may hold it.
    """
    from chronotile.change.plan import Report

    if isinstance(done, Report):
        return Answer(done.to_dict, _array_text(done, verbose, where))
    return Answer(done.to_dict, _group_text(done, where))


def _array_text(report: Report, verbose: bool, where: str) -> Iterator[RenderableType]:
    """Give a line, a table of files, notes, and what is left to mend."""
    yield Text(f"{report.array}: {report.summary()}", "bold")
    if report.steps:
        table = plain_table("size", "what", "file", "why", right=1)
        shown = len(report.steps) if verbose else MOST_SHOWN
        for step in report.steps[:shown]:
            size = "?" if step.size is None else f"{step.size:,}"
            table.add_row(size, step.op, step.path, step.reason)
        yield table
        if len(report.steps) > shown:
            yield f"and {len(report.steps) - shown:,} more (--verbose lists all)"
    if report.rows:
        done = "would be " if report.dry_run else ""
        yield ", ".join(f"{count_text(n, 'row')} {done}{w}" for w, n in report.rows.items())
    yield from _remarks(report, where)
    yield from _for_good([report])
    if report.engine_open_requests is not None:
        yield _requests(report, *report.engine_open_requests)
    if report.operation is not None:
        yield Text(f"operation: {report.operation}", "dim")


def _group_text(report: GroupReport, where: str) -> Iterator[RenderableType]:
    """Give a line for the group, then a few for each member."""
    yield Text(f"{report.group}: {report.summary()}", "bold")
    for note in report.notes:
        yield Text(f"  note: {note}", "yellow")
    yield from _for_good([one.report for one in report.outcomes if one.report is not None])
    for one in report.outcomes:
        path = one.path or "the group itself"
        if one.error is not None:
            yield Text(f"  {path}: {one.error}", "yellow" if one.skipped else "red")
        if one.report is not None:
            yield Text(f"  {path}: {one.report.summary()}")
            yield from _remarks(one.report, where, "      ")


def _for_good(reports: Sequence[Report]) -> Iterator[RenderableType]:
    """Say that changes remove files for good, unless one of their notes does."""
    is_final = any(report.steps and report.state == "final" for report in reports)
    if is_final and not any(_FOR_GOOD in note for report in reports for note in report.notes):
        yield Text(f"note: {_FOR_GOOD}", "yellow")


def _remarks(report: Report, where: str, indent: str = "") -> Iterator[RenderableType]:
    """Give notes, what is left to mend, and the certificate; losses were told before it began."""
    said = () if report.dry_run else report.losses
    for note in report.notes:
        if note not in said:
            yield Text(f"{indent}note: {note.replace(ASKED, where)}", "yellow")
    for item in report.findings:
        what = f"{item.path}: {item.message}" if item.path else item.message
        yield Text(f"{indent}{item.severity}: {item.code}  {what}", "red")
    ways = (item.hint for item in report.findings)
    yield from (f"{indent}{way}" for way in dict.fromkeys(ways))
    for line in certificate_lines(report.certificate):
        yield f"{indent}{line.replace(ASKED, where)}"


def _requests(report: Report, first: int, then: int) -> str:
    """Say what an open in a bucket costs before and after a change."""
    both = f"{then:,} requests ({first:,} before)"
    if report.dry_run:
        both = f"{first:,} requests now, {then:,} after this"
    why = ", as TileDB also lists __chronotile" if then > first else ""
    if why and report.command == "compact":
        why = ", as it reads the new metadata and, until a vacuum, the .vac"
    if why and report.command == "consolidate":
        is_con = any(step.path.endswith(".con") for step in report.steps)
        what, mode = ("commit files", "commits") if is_con else ("merged files", "array-meta")
        why = f", as the {what} stay beside the new one; to remove them then: "
        why += f"chronotile vacuum {shell_word(report.array)} --mode {mode}"
    return f"in a bucket, an open takes {both}{why}"


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

    def show(self, done: Report | GroupReport, where: str = ASKED) -> int:
        """Show a report, with the predicate in its commands; give the exit status."""
        emit(change_answer(done, verbose=self.verbose, where=where), as_json=self.as_json)
        failed: Sequence[MemberOutcome] = getattr(done, "failed", ())
        if done.has_steps and not done.dry_run:
            if self.out is not None:
                try:
                    Path(self.out).write_text(done.to_json(), encoding="utf-8")
                except OSError as error:
                    # The array has changed already: no report undoes that.
                    say(f"chronotile: the report could not be kept: {error}")
            if done.can_be_undone and self.how["record"]:
                id_ = "" if done.operation is None else f" {done.operation}"
                what = "to undo" if done.command != "undo" else "to take this undo back"
                if id_ or done.command != "undo":
                    say(f"{what}: chronotile undo {shell_word(self.place.uri)}{id_}")
        return max((int(bool(done.findings)), *(one.status for one in failed)))

    def ask(self, change: Callable[..., Report | GroupReport], *given: Any, **options: Any) -> int:
        """Make a change that may have an odd time: a terminal is asked about that."""
        from chronotile.check.findings import OddTimeError

        try:
            return self.show(change(*given, **options, **self.how))
        except OddTimeError as error:
            if not may_ask(as_json=self.as_json):
                raise
            say(f"chronotile: {error}")
            go_on("Go on all the same?")
            # One question is enough: that no row matches is a note of the report.
            how = self.how | {"before": None}
            return self.show(change(*given, **options | {"any_time": True}, **how))


def changing(function: F) -> F:
    """Add ARRAY and the options that all changes share; the command gets `call`."""

    @click.argument("array", metavar="ARRAY", type=PlaceType("dir"))
    @shared_option("--dry-run", is_flag=True, help="Change nothing; say what would be done.")
    @shared_option("-m", "--message", metavar="TEXT", help="Why you do this; the record keeps it.")
    @shared_option("--author", metavar="NAME", help="Name for the record (default: user@host).")
    @shared_option(
        "--no-record",
        is_flag=True,
        help="Do not record this operation: undo cannot take it back.",
    )
    @shared_option(
        "--member",
        metavar="PATTERN",
        type=completed_as("member"),
        help="Only members of a group whose path fits, such as ms/*.",
    )
    @shared_option(
        "--outside", is_flag=True, help="Also members of a group that lie outside of its folder."
    )
    @shared_option("--verbose", is_flag=True, help="List every file, not only the first few.")
    @click.option("--report", "out", metavar="FILE", type=click.Path(dir_okay=False), hidden=True)
    @access_options
    @json_option
    @functools.wraps(function)
    def call(
        array: str,
        no_record: bool,
        verbose: bool,
        out: str | None,
        access: Access,
        as_json: bool,
        **given: Any,
    ) -> Any:
        def announce(planned: Report | GroupReport) -> None:
            """Say what cannot be undone, and what a way back costs, before it begins."""
            for note in planned.losses:
                say(f"note: {note}")
            if planned.command in ("restore", "undelete"):
                say(f"{planned.command}: {planned.summary(would='about to')}")
            counts = [*getattr(planned, "rows", {}).values()]
            if counts and not any(counts) and may_ask(as_json=as_json):
                go_on("No row matches. Go on all the same?")

        shared = ("dry_run", "message", "author", "member", "outside")
        how = {name: given.pop(name) for name in shared}
        how |= {"record": not no_record and out != "-", "before": announce}
        file = None if out == "-" else out
        place = access.open(array)
        made = Call(place=place, how=how, as_json=as_json, verbose=verbose, out=file)
        return function(made, **given)

    return call  # type: ignore[return-value]  # the same to click, which passes names


def _older(verb: str) -> Callable[[F], F]:
    return click.option(
        "--allow-older-loss",
        is_flag=True,
        help=f"Also {verb} rows that were written before a field of the predicate was added.",
    )


_where = click.option(
    "--where",
    required=True,
    metavar="PREDICATE",
    type=completed_as("field"),
    help="Which rows, such as 'a < 3'.",
)
_moment = time_option("--at", help="The time of the commit (default: now).")
_any_time = flag("--any-time", help="Go on although --at is before all data, or in the future.")
_commits_only = flag("--commits-only", help="Refuse if commits alone cannot do it; rewrite no row.")
_from_now = time_option(
    "--at", help="Time of the change; it must be later than all commits (default: now)."
)


@command(epilog="\b\nExample:\n  chronotile delete demo/array --where 'id == 8' --dry-run")
@changing
@_where
@_moment
@_any_time
@flag("--allow-null-loss", help="Also delete rows with NULL or NaN in a field of the predicate.")
@_older("delete")
def delete(call: Call, **options: Any) -> int:
    """Delete the rows of ARRAY that satisfy a predicate: write a delete commit.

    Rows written at or before the commit's time disappear from every open that sees it. In a
    group, --member names the arrays.
    """
    return call.ask(call.place.delete, **options)


@command(
    epilog="\b\nExample:\n"
    "  chronotile update demo/array --where 'id == 8' --set amount=4 --experimental --dry-run"
)
@changing
@_where
@click.option(
    "--set",
    "values",
    required=True,
    multiple=True,
    metavar="FIELD=VALUE",
    type=completed_as("field="),
    help="The new value of a field; again for more fields.",
)
@_moment
@_any_time
@flag("--experimental", help="Required, as TileDB treats an update as a delete.")
@_older("hide")
def update(call: Call, **options: Any) -> int:
    """Write an update commit: new values for the rows of ARRAY that satisfy a predicate.

    TileDB treats an update as a delete: the rows disappear until `chronotile apply` writes them
    with their new values.
    """
    return call.ask(call.place.update, **options)


@command(
    epilog="\b\nExample:\n"
    "  chronotile erase demo/array --where 'id == 7' --dry-run\n"
    "  chronotile erase demo/array --where 'id == 7' --yes -o certificate.json\n"
    "  chronotile erase demo/array --where 'id == 7' --verify certificate.json"
)
@changing
@_where
@click.option(
    "--verify",
    metavar="CERTIFICATE",
    type=click.Path(exists=True, dir_okay=False),
    help="Change nothing: search again for rows that match.",
)
@flag("--earlier-values", help="Erase also older values of these rows that would show again.")
@click.option(
    "--orphan-age",
    metavar="AGE",
    default="24h",
    help="Minimum age of uncommitted fragments to erase (default: 24h).",
)
@flag("--yes", help="Do not ask: needed where there is no terminal.")
@out_option("A file for the certificate: .json, which --verify reads, or .html, a page to print.")
def erase(
    call: Call, where: str, verify: str | None, yes: bool, output: str | None, **options: Any
) -> int:
    """Erase the rows of ARRAY that match, from every fragment, window and record.

    This cannot be undone. Every other row stays as it is, in every window. A certificate says what
    was read, what is left, and what could not be searched. The exit status is 0 only if no
    match was found afterwards. Needs TileDB: pip install 'chronotile[engine]'.
    """
    form = form_of(output, (".json", ".html")) if output is not None else ""
    if not (yes or verify or may_ask(as_json=call.as_json) or call.how["dry_run"]):
        problem = (
            "nothing was changed: an erase cannot be undone, so it asks first, and there is no"
        )
        raise wrong_call(
            f"{problem} terminal to answer; add --yes, or --dry-run to see the changes"
        )
    announce = call.how["before"]

    def confirm(planned: Report | GroupReport) -> None:
        announce(planned)
        if not yes:
            go_on("Erase them for good?")

    certificate = None if verify is None else read_certificate(verify)
    how = call.how | {"before": confirm}
    done = call.place.erase(where, verify=certificate, **options, **how)
    status = call.show(done, shell_word(where))
    if done.dry_run and not call.as_json and any(one.steps for one in reports_of(done)):
        click.echo(
            "note: the run also removes the empty commit files of fragments that go; it may put an "
            ".ign that cancels their commits, and write .con and .vac files again without them"
        )
    if output is not None and not done.dry_run:
        write_certificate(done, output, form)
    return max(status, int(not done.dry_run and not all(map(is_clean, reports_of(done)))))


def read_certificate(path: str) -> dict[str, Any]:
    """Read a certificate."""
    from chronotile.format.documents import read_json

    data = Path(path).read_bytes()
    if data.lstrip()[:1] == b"<":
        problem = "--verify needs the .json certificate; a .html page is only to print"
        raise wrong_call(f"{path}: {problem}")
    return read_json(data, path, "a certificate")


def reports_of(done: Report | GroupReport) -> list[Report]:
    """List the reports of arrays in a report, and of groups themselves."""
    from chronotile.change.plan import Report

    if isinstance(done, Report):
        return [done]
    return [one.report for one in done.outcomes if one.report is not None]


def is_clean(report: Report) -> bool:
    """Tell whether a certificate says that nothing matches, and nothing names a value."""
    held = report.certificate
    return not held.get("matches_left") and not held.get("still_named")


def write_certificate(done: Report | GroupReport, output: str, form: str) -> None:
    """Write the certificates of an erasure to a file."""
    from chronotile.format.documents import json_text
    from chronotile.show.certificate_page import certificate_page

    held = [dict(one.certificate) for one in reports_of(done) if one.certificate]
    if form == ".html":
        text = certificate_page(held, done.at_ms)
    else:
        text = done.to_json() if hasattr(done, "outcomes") else json_text(held[0])
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        say(f"chronotile: the certificate could not be kept: {error}")
        raise click.exceptions.Exit(1) from error


@command(epilog="\b\nExample:\n  chronotile apply demo/array --dry-run")
@changing
def apply(call: Call) -> int:
    """Apply the updates of ARRAY: write their rows, so that every TileDB program sees them.

    The rows get the values at the update's own time; the update itself goes into the quarantine.
    Needs TileDB: pip install 'chronotile[engine]'.
    """
    return call.show(call.place.apply(**call.how))


@command(epilog="\b\nExample:\n  chronotile consolidate demo/array --dry-run")
@changing
@click.option(
    "--mode",
    type=click.Choice(["commits", "fragment-meta", "array-meta", "all"]),
    default="commits",
    help="What to put into one file (default: commits).",
)
@flag("--updates", help="Also put updates into the .con. TileDB then ignores them.")
def consolidate(call: Call, **options: Any) -> int:
    """Put what many files of ARRAY hold into one. Nothing is removed: vacuum does that.

    The mode fragment-meta puts the footers of all visible fragments into one .meta. It saves 3
    requests per fragment on each open by TileDB. The mode array-meta merges the array's
    metadata into one file.
    """
    return call.show(call.place.consolidate(**options, **call.how))


@command(epilog="\b\nExample:\n  chronotile compact demo/array --dry-run")
@changing
@click.option(
    "--target-bytes",
    metavar="SIZE",
    default="1GB",
    help="Size of a merged fragment (default: 1GB).",
)
@click.option("--max-memory", metavar="SIZE", help="Memory of TileDB's process, such as 2GB.")
@click.option(
    "--quiet", metavar="AGE", default="10m", help="Leave younger fragments alone (default: 10m)."
)
@flag("--purge", help="Also remove deleted cells, in earlier windows too.")
@click.option(
    "--compare/--no-compare",
    default=True,
    help="Compare rows and times before and after (default: yes).",
)
@flag("--vacuum", help="Remove the sources at once: no way back then.")
@click.option(
    "--keep",
    metavar="TIME",
    type=MOMENT,
    multiple=True,
    help="Of a dense array: keep this moment readable, as tags are.",
)
@click.option(
    "--scratch",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Local work folder (default: inside the array, or the temporary folder for a bucket).",
)
def compact(call: Call, **options: Any) -> int:
    """Merge the small fragments of ARRAY into few, in a separate folder and process.

    Every window reads as before, except with --purge. Undo brings the sources back until a
    vacuum removes them. Needs TileDB: pip install 'chronotile[engine]'.
    """

    def tell(now: CompactProgress) -> None:
        left = "" if now.seconds_left is None else f", about {now.seconds_left:,.0f} s left"
        cells = f"{now.cells:,} of {now.of_cells:,} cells"
        say(f"compact: batch {now.batches:,} of {now.of_batches:,}, {cells}{left}")

    return call.show(call.place.compact(**options, on_progress=tell, **call.how))


@command(epilog="\b\nExample:\n  chronotile vacuum demo/array --dry-run")
@changing
@click.option(
    "--mode",
    type=click.Choice(["all", "commits", "fragments", "fragment-meta", "array-meta"]),
    default="all",
    help="Which kind of files to remove (default: all).",
)
@flag("--orphans", help="Also remove unfinished fragments that no commit names.")
@flag("--whole-orphans", help="Also remove fragments that lack only their commit.")
@click.option(
    "--orphan-age",
    metavar="AGE",
    default="24h",
    help="Minimum age of orphans and deletes to remove (default: 24h).",
)
@flag(
    "--loose-deletes",
    help="Also remove .del files that a .con holds; TileDB can then no longer consolidate commits.",
)
@click.option("--keep-deletes", "loose_deletes", flag_value=False, hidden=True)
@flag(
    "--deletes",
    help="Also remove deletes that no fragment needs: all cells in their reach are purged.",
)
@flag("--updates", help="Also remove .upd files that a .con holds.")
@click.option(
    "--keep",
    metavar="TIME",
    type=MOMENT,
    multiple=True,
    help="Keep everything that is visible at this TIME; tags are always kept.",
)
@click.option(
    "--keep-days",
    metavar="N",
    type=click.FloatRange(min=0),
    help="Also keep everything that was visible in the last N days.",
)
def vacuum(call: Call, **options: Any) -> int:
    """Remove what no window of ARRAY needs: replaced commits, fragments and metadata.

    A dense array, and metadata, can then no longer be read at times before a merge; a note says so
    first.
    """
    return call.show(call.place.vacuum(**options, **call.how))


@command(epilog="\b\nExample:\n  chronotile repair demo/array --dry-run")
@changing
@flag(
    "--accept-loss",
    help="Leave out a cut entry of a .con; take out fragments of which a part can be read.",
)
@flag(
    "--commit-orphans",
    help="Commit whole fragments that no commit names, as after the loss of a .con.",
)
@click.option("--restore", "manifest", metavar="MANIFEST", hidden=True)
def repair(call: Call, manifest: str | None, **options: Any) -> int:
    """Mend ARRAY: move files that keep TileDB from reading it into the quarantine.

    Nothing is destroyed: undo puts the files back. Exits with 1 if it leaves damage as it is;
    `left alone` lists findings that are for other commands to mend.
    """
    if manifest is not None:
        return call.show(call.place.undo(manifest, **call.how))
    done = call.place.repair(**options, **call.how)
    status = call.show(done)
    if not (done.has_steps or done.findings or call.how["member"] or call.as_json):
        left = [item for item in call.place.check() if item.severity != "info"]
        for item in left[:MOST_SHOWN]:
            place = "/".join(filter(None, (item.array, item.path)))
            say(f"left alone: {item.code}  {place}: {item.hint}")
        if len(left) > MOST_SHOWN:
            say(f"to list all {len(left):,}: chronotile check {shell_word(call.place.uri)}")
    return status


@command(epilog="\b\nExample:\n  chronotile restore demo/array --to 2024-05-15 --dry-run")
@changing
@time_option("--to", required=True, help="The moment to go back to.")
@_from_now
@flag("--keep-metadata", help="Leave the metadata as it is now.")
@flag("--rewrite", help="Let TileDB write the rows again in any case.")
@_commits_only
def restore(call: Call, **options: Any) -> int:
    """Make ARRAY what it was at an earlier moment, from now on: rows, schema and metadata.

    Windows that end before now, or before --at, do not change, and no fragment is removed.
    --dry-run says what is hidden and what comes back. If commits alone cannot do it, TileDB writes
    the rows of a sparse array again, if it is installed.
    """
    return call.show(call.place.restore(**options, **call.how))


@command(epilog="\b\nExample:\n  chronotile undelete demo/array 1edafe --dry-run")
@changing
@click.argument("name", metavar="NAME", type=completed_as("commit"))
@_from_now
@flag("--ever", help="Bring them back in every window; rows that a merge took out stay away.")
@_commits_only
def undelete(call: Call, name: str, **options: Any) -> int:
    """Bring back the rows of ARRAY that one delete or update hides.

    They come back from now on, or from --at. Windows that end before that time do not change,
    except with --ever. If commits alone cannot do it, TileDB writes the rows again, if it is
    installed. Later writes and deletes stay in force.
    """
    return call.show(call.place.undelete(name, **options, **call.how))


@command(epilog="\b\nExample:\n  chronotile undo demo/array --dry-run")
@changing
@click.argument("operation", metavar="[ID]", required=False, type=completed_as("operation"))
def undo(call: Call, operation: str | None) -> int:
    """Take the last change of ARRAY back, or the one with that ID.

    `chronotile operations` lists them. What the change put goes into the quarantine, so that an
    undo can be undone. After a vacuum a change can be final: undo then refuses.
    """
    return call.show(call.place.undo(operation, **call.how))


@command(epilog="\b\nExample:\n  chronotile publish demo/tonight demo/array")
@click.argument("staging", metavar="STAGING...", nargs=-1, required=True, type=PlaceType("dir"))
@changing
@time_option("--at", help="The time that the fragments get (default: their own times).")
@flag(
    "--own-times",
    help="In a group: keep the fragments' own times. Members then show them one by one.",
)
@flag(
    "--again", help="Also publish fragments that ARRAY once had; with --at, also those that it has."
)
@flag("--allow-hidden", help="Publish even if a later delete hides some of the rows.")
def publish(call: Call, staging: tuple[str, ...], **options: Any) -> int:
    """Make all fragments of STAGING arrays visible in ARRAY, in one step.

    They need the same schema as ARRAY, and no deletes in force; `check` looks at them first. A
    reader sees none of it or all. In a group, all members show it from one moment on, shortly after
    now. If it was interrupted, run it again.
    """
    if options["own_times"] and options["at"] is not None:
        raise wrong_call("expected --at or --own-times, found both")
    return call.show(call.place.publish(staging, **options, **call.how))


@command(epilog="\b\nExample:\n  chronotile clone demo/array demo/copy --end 2024-05-04")
@click.argument("array", metavar="SOURCE", type=PlaceType("dir"))
@click.argument("target", metavar="TARGET", type=PlaceType("dir"))
@window_options
@click.option(
    "--without",
    metavar="NAME",
    multiple=True,
    type=completed_as("commit"),
    help="A commit to leave out.",
)
@click.option(
    "--link",
    type=click.Choice(["hard", "symbolic", "copy"]),
    default="hard",
    help="How to share fragments on one disk (default: hard).",
)
@shared_option("--dry-run", is_flag=True, help="Change nothing; list each file, its size and why.")
@shared_option("--verbose", is_flag=True, help="List every file, not only the first few.")
@access_options
@json_option
def clone(
    array: str,
    target: str,
    window: Ends,
    verbose: bool,
    access: Access,
    as_json: bool,
    **options: Any,
) -> int:
    """Make an array at TARGET that shows what an open of SOURCE at a window shows.

    Fragments are linked on one disk, and copied by the storage inside one bucket. Every TileDB
    program opens the clone. --without asks: what if this delete had not happened? SOURCE may be an
    array that TileDB refuses to open.
    """
    place = access.open(array)
    call = Call(place=place, how={"record": False}, as_json=as_json, verbose=verbose, out=None)
    return call.show(place.clone(target, start=window[0], end=window[1], **options))


@command(epilog="\b\nExample:\n  chronotile replicate demo/array demo/replica")
@click.argument("array", metavar="SOURCE", type=PlaceType("dir"))
@click.argument("target", metavar="TARGET", type=PlaceType("dir"))
@flag("--prune", help="Remove copied files that SOURCE no longer has, instead of hiding them.")
@flag("--check", help="Copy nothing: list the files that differ.")
@flag("--follow", help="Go on, round by round, until it is stopped.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=10.0,
    help="Time between rounds (default: 10).",
)
@click.option(
    "-m", "--message", metavar="TEXT", help="Why you do this; the records of both places keep it."
)
@click.option(
    "--target-storage",
    "target_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="A storage option of TARGET (default: those of --storage); again for more.",
)
@shared_option("--dry-run", is_flag=True, help="Copy nothing; say what would be done.")
@shared_option("--verbose", is_flag=True, help="List every file, not only the first few.")
@access_options
@json_option
def replicate(
    array: str,
    target: str,
    follow: bool,
    every: float,
    target_options: tuple[str, ...],
    verbose: bool,
    access: Access,
    as_json: bool,
    **options: Any,
) -> int:
    """Make TARGET a copy of SOURCE that a reader can open at any time, or bring it up to date.

    SOURCE is an array, a group, or a folder of them; both may be on any storage. It
    copies only new files, each fragment before its commit. Nothing is removed without --prune. If
    it is killed, run it again: it continues. Encrypted arrays need no key.
    """
    from chronotile.handle import open_tree
    from chronotile.storage.store import open_store

    place = open_tree(open_store(array, access.storage), access.key_at(array))
    call = Call(place=place, how={"record": False}, as_json=as_json, verbose=verbose, out=None)
    if given := read_pairs("--target-storage", target_options):
        # What the profile has for the place of TARGET still counts.
        below = {name: text for name, text in access.storage.items() if " " in name}
        options["target_options"] = below | given
    losses: set[str] = set()
    while True:
        with progress("copying files") as step:

            def announce(planned: Report, step: Callable[..., None] = step) -> None:
                for note in {*planned.losses} - losses:
                    say(f"note: {note}")
                losses.update(planned.losses)
                step(sum(len(one.source.names) for one in planned.steps if one.source is not None))

            try:
                done = place.replicate(target, before=announce, on_file=step, **options)
            except ReadError as error:
                if not follow:
                    raise
                say(f"error: {error}; the next round is in {every:g} s")
                done = None
        if done is not None and not follow:
            differs = done.findings or getattr(done, "failed", ())
            if options["check"] and not differs and not as_json:
                click.echo(f"{target}: has every commit of {array}")
                return 0
            return call.show(done)
        if done is not None and (done.has_steps or done.findings or getattr(done, "failed", ())):
            call.show(done)
        time.sleep(every)


@click.group(epilog="\b\nExample:\n  chronotile tag add demo/array release-1 --at 2024-05-15")
def tag() -> None:
    """Name moments of an array or a group; every command takes such a name as a time.

    A tag is kept in the metadata of the array or group, as chronotile.tag.NAME: every TileDB
    program sees it. `chronotile vacuum` keeps all files that a tag needs. TileDB's own vacuum
    ignores tags; `chronotile check` then finds those that can no longer be read whole. Each command
    takes --json.
    """


@tag.command(
    cls=Command,
    epilog="\b\nExample:\n  chronotile tag add demo/array release-1 --at 2024-05-15",
)
@changing
@click.argument("name", metavar="NAME")
@time_option("--at", help="The moment (default: now).")
@flag("--move", help="Move the tag if it names another moment.")
def add(call: Call, name: str, **options: Any) -> int:
    """Give a moment of ARRAY a name."""
    return call.show(call.place.tag(name, **options, **call.how))


@tag.command(cls=Command, short_help="Take a tag of ARRAY away.")
@changing
@click.argument("name", metavar="NAME", type=completed_as("tag"))
def remove(call: Call, name: str) -> int:
    """Take a tag of ARRAY away: a vacuum may then remove files that only the tag needs."""
    return call.show(call.place.untag(name, **call.how))


@tag.command(name="list", cls=Command)
@array_argument
@access_options
@json_option
def list_tags(array: str, access: Access, as_json: bool) -> int:
    """List the tags of ARRAY, the earliest first.

    Exits with 3 if metadata that may hold more tags cannot be read.
    """
    place = access.open(array)
    tags = place.log.known_tags
    rows = [(name, at, False) for name, at in tags.own.items()]
    rows += [(name, at, True) for name, at in tags.of_groups]
    document = [
        {"name": name, "at": at, "time": iso_time(at), "of_group": of_group}
        for name, at, of_group in rows
    ]
    known = " that can be read" if tags.doubts else ""
    table = plain_table("time", "ms", "tag")
    for name, at, of_group in rows:
        table.add_row(time_text(at), str(at), f"{name}, of its group" if of_group else name)
    head = Text(f"{place.uri}: {count_text(len(rows), 'tag')}{known}", "bold")
    emit(Answer(document, [head, table] if rows else [head]), as_json=as_json)
    tags.checked(place.uri)
    return 0


_STYLES = {"begun": "yellow", "failed": "red", "undone": "dim", "final": "dim"}


def _operations(
    uri: str, found: Sequence[dict[str, Any]], *, is_group: bool
) -> Iterator[RenderableType]:
    """Give a line for each operation; one of a member, or of an array in a folder, says where."""
    yield Text(f"{uri}: {count_text(len(found), 'operation')}", "bold")
    if not found:
        return
    table = plain_table("id", "time", "command", "state", "author", "what and why")
    undone, known = undone_by(found), OperationWords(found)
    whole = OperationWords(found, noun="group") if is_group else known
    for one in found:
        state = "undone" if one["id"] in undone else one["state"]
        styled = Text(state, _STYLES.get(state, ""))
        place = one.get("array", uri)
        words = (whole if place == uri else known).words(one, author=False)
        words = words if place == uri else f"{place.removeprefix(f'{uri}/')}: {words}"
        table.add_row(one["id"], one["time"], _command(one), styled, one["author"] or "", words)
    yield table


def _command(record: dict[str, Any]) -> str:
    """Name the command of a record as users type it."""
    command = str(record["command"])
    return "tag remove" if command == "untag" else command


def _value(value: object) -> str:
    """Write the value of an option.

    >>> _value(["a", "b"]), _value({"a": 1}), _value("x y"), _value(True)
    ('a and b', 'a=1', "'x y'", 'yes')
    """
    if isinstance(value, list):
        return " and ".join(map(_value, value))
    if isinstance(value, dict):
        return " and ".join(f"{name}={_value(one)}" for name, one in value.items())
    return "yes" if value is True else shell_word(str(value))


def _operation(document: dict[str, Any]) -> Iterator[RenderableType]:
    """Give the head of one operation, its notes and every file."""
    yield Text(f"{document['id']}: {_command(document)}, {document['state']}", "bold")
    for name in ("time", "author", "message", "options", "rows", "undoes", "group"):
        value = document.get(name)
        if name == "options" and isinstance(value, dict):
            value = ", ".join(
                f"{key.replace('_', '-')} {_value(one)}" for key, one in value.items() if one
            )
        elif name == "rows" and isinstance(value, dict):
            value = ", ".join(f"{count:,} {what}" for what, count in value.items())
        if value:
            yield Text(f"{name}: {value}")
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
@click.argument("id_", metavar="[ID]", required=False, type=completed_as("operation"))
@access_options
@reporting
def operations(array: str, id_: str | None, access: Access) -> Answer:
    """List what chronotile did to ARRAY, the newest first; with ID, show one operation.

    ARRAY may also be a group, with all members, or a folder of arrays. Each operation says who,
    when and why, its state, and which files it put, hid, moved or removed. `operations show ID`
    finds one below the current folder; `chronotile undo ARRAY ID` takes one back.
    """
    from chronotile.array import Array
    from chronotile.change.operations import tell_operations
    from chronotile.fleet.list_places import operations_below
    from chronotile.group import Group

    if array == "show" and id_ is not None and not Path(array).exists():
        array = "."
    place, listed = None, None
    with suppress(ArrayNotFoundError):  # it may be a folder of arrays
        place = access.open(array)
    if isinstance(place, Array):
        listed = tell_operations(place.store)
    else:
        listed = operations_below(array, access.storage, access.key, parts=id_ is not None)
    if listed is None:
        place, listed = place or access.open(array), []
    array = array if place is None else place.uri
    if id_ is None:
        return Answer(listed, _operations(array, listed, is_group=isinstance(place, Group)))
    holders = {one.get("array", array) for one in listed if one["id"].startswith(id_.lower())}
    if place is None and len(holders) != 1:
        problem = f"{len(holders)} arrays have an operation whose id starts with {id_!r:.40}"
        hint = f"to list all: chronotile operations {shell_word(array)}"
        raise WrongCallError(array, f"{problem}; {hint}")
    document = access.open(holders.pop() if len(holders) == 1 else array).operation(id_)
    return Answer(document, _operation(document))
