"""The tables of a whole fleet: `pipeline` writes them with Spark, `tables` without.

In: roots of arrays, and a folder for output. Out: a Delta table for each table (or a Parquet file),
a summary, and progress on standard error: a bar on a terminal; elsewhere, as in the log of a
scheduler, a line now and then. A scheduler learns how it went by the exit status, and from a file
of metrics. `fleet.run_pipeline` and `fleet.fleet_without_spark` do the work.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from chronotile.check.findings import MOST, SEVERITIES, is_unread
from chronotile.cli.options import (
    Parsed,
    PlaceType,
    access_options,
    command,
    read_pairs,
    reporting,
    say,
    wrong_call,
)
from chronotile.errors import ChronotileError
from chronotile.fleet.run_summary import MAX_UNREADABLE, Limit, read_limit
from chronotile.show.error_messages import status_of
from chronotile.show.output import Answer, Text, count_text, plain_table, progress, size_text
from chronotile.storage.place import find_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console, RenderableType

    from chronotile.check.findings import Reach
    from chronotile.cli.options import Access
    from chronotile.fleet.run_pipeline import Job
    from chronotile.fleet.run_summary import Summary

    Step: TypeAlias = Callable[[str, int, int], None]
    """Called with (what is under way, tasks done, all tasks)."""

NEVER = "never"
"""The severity that no finding has."""

LOG_ALONE = (
    "these findings come from the commit files alone; for all of them, add --check fragments"
)
"""What a run that opens no fragment leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """The summary of a run, and which findings make it fail."""

    summary: Summary
    fail_on: str = "error"
    check: str = ""
    """The reach of the check, if it is to be said."""

    @property
    def status(self) -> int:
        """3: something could not be read; 1: a grave finding, or maintenance stopped; else 0."""
        grave = SEVERITIES[: SEVERITIES.index(self.fail_on) + 1] if self.fail_on != NEVER else ()
        found = [(severity, code) for severity, code, _ in self.summary.totals.findings]
        if any(is_unread(code, severity) for severity, code in found):
            return 3
        was_stopped = any(outcome.endswith(" stopped") for outcome, _ in self.summary.maintained)
        return int(was_stopped or any(severity in grave for severity, _ in found))

    def to_json(self) -> dict[str, Any]:
        """Give the form of `Summary.to_json`."""
        return self.summary.to_json()

    def to_text(self) -> Iterator[RenderableType]:
        """Give the numbers, the findings, the costliest arrays, and what maintenance saves."""
        summary, totals = self.summary, self.summary.totals
        yield (
            f"{count_text(totals.arrays, 'array')}, {count_text(totals.commits, 'commit')}, "
            f"{count_text(totals.fragments, 'fragment')} in {summary.seconds:.1f} s; "
            f"{size_text(totals.log_bytes)} in {count_text(summary.files_read, 'file')} read"
        )
        if totals.arrays_measured:
            measured = count_text(totals.arrays_measured, "array")
            yield f"{measured} of {size_text(totals.bytes)} in all"
        if summary.inventory_age_s is not None:
            age = f"by an inventory that is {summary.inventory_age_s / 3600:.1f} hours old"
            yield f"{age}: newer commits are missing; --fresh finds them"
        if summary.unchanged:
            yield f"{count_text(summary.unchanged, 'array')} unchanged since the last run"
        if summary.unreadable:
            stale = "could not be read: their rows are of an older run, or missing"
            yield Text(f"{count_text(summary.unreadable, 'array')} {stale}", "red")
        changed = count_text(len(summary.versions), "table")
        yield f"Delta tables in {summary.out}: {changed} got a new version"
        if totals.findings:
            table = plain_table("findings", "severity", "code", right=1)
            for severity, code, count in totals.findings:
                table.add_row(f"{count:,}", severity, code)
            yield table
        if self.check == "log":
            yield LOG_ALONE
        if totals.worst:
            table = plain_table("requests of an open", "array", right=1)
            for cost, array in totals.worst:
                table.add_row(f"{cost:,}", array)
            yield table
        requests = count_text(totals.engine_open_requests, "request")
        after = totals.engine_open_requests_after_maintenance
        yield (
            f"in a bucket, opening all of these arrays takes TileDB {requests} "
            f"({after:,} after consolidate --mode all and vacuum), "
            f"and chronotile {totals.open_requests:,}"
        )
        yield from summary.planned
        for outcome, count in summary.maintained:
            yield f"{outcome}: {count_text(count, 'array')}"


LINE_S = 10.0
"""Seconds between two lines on the same step."""


@contextmanager
def run_progress(lines: bool | None = None) -> Iterator[Step]:
    """Show progress until the block ends.

    Args:
        lines: Whether to write lines if standard error is no terminal.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with _bar(console) as step:
            yield step
    elif lines:
        yield ProgressLines(say)
    else:
        yield lambda *_: None


class ProgressLines:
    """Progress as lines.

    >>> step = ProgressLines(print)
    >>> for done in (0, 0, 1, 2, 3): step("reading", done, 3)
    reading: 0 of 3 tasks
    reading: 3 of 3 tasks
    """

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._words, self._at, self._last = "", 0.0, ""

    def __call__(self, words: str, done: int, total: int) -> None:
        """Write a line, if there is something new to say."""
        line = f"{words}: {done} of {total} tasks" if total else words
        is_over = 0 < total == done
        is_due = words != self._words or is_over or self._clock() >= self._at + LINE_S
        if is_due and line != self._last:
            self._write(line)
            self._words, self._at, self._last = words, self._clock(), line


@contextmanager
def _bar(console: Console) -> Iterator[Step]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)

        def step(words: str, done: int, total: int) -> None:
            bar.update(task, description=words, completed=done, total=total or None)

        yield step


@command(epilog="\b\nExample:\n  chronotile tables demo --out tables")
@click.argument("roots", metavar="ROOT…", nargs=-1, required=True, type=PlaceType("dir"))
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=PlaceType("dir"),
    help="A folder, or a prefix of a bucket.",
)
@click.option(
    "--parquet", is_flag=True, help="Write one Parquet file for each table, without Delta."
)
@click.option("--since-last", is_flag=True, help="Read only arrays whose listing has changed.")
@click.option(
    "--check",
    type=click.Choice(["log", "fragments", "deep"]),
    default="log",
    help="Check only the log, also the metadata of fragments, or also their cells (default: log).",
)
@click.option(
    "--sizes/--no-sizes",
    default=True,
    help="Measure each array by listing its files (default: yes).",
)
@access_options
@reporting
def tables(
    roots: tuple[str, ...],
    out: str,
    parquet: bool,
    since_last: bool,
    check: Any,
    sizes: bool,
    access: Access,
) -> Answer | PipelineReport:
    """Write the tables of every array below ROOT as Delta tables, without Spark.

    Each table is a folder in DIR: arrays, commits, conditions, fragments, findings, members and
    operations, as `pipeline` writes them. run_history has a row for each run; --since-last keeps
    what it needs in listings. Up to a few thousand arrays this is faster than Spark.
    """
    refuse_array(out, access)
    with progress("reading arrays"):
        if not parquet:
            return _in_delta(roots, out, access, since_last=since_last, check=check, sizes=sizes)
        from chronotile.fleet.fleet_without_spark import make_tables, write_tables

        made = make_tables(
            roots, check=check, sizes=sizes, key=access.key, storage_options=access.storage
        )
    files = write_tables(made.tables, out, access.storage)
    rows = [table.num_rows for table in made.tables.values()]
    written = [*zip(made.tables, files, rows, strict=True)]
    arrays = count_text(made.tables["arrays"].num_rows, "array")
    lines = [f"{arrays}, {count_text(len(files), 'table')}"]
    lines += [f"  {file}: {count_text(count, 'row')} of {name}" for name, file, count in written]
    if check == "log":
        lines.append(LOG_ALONE)
    document = {name: {"file": file, "rows": count} for name, file, count in written}
    return Answer(document, lines, 0 if made.is_whole else 3)


def refuse_array(out: str, access: Access) -> None:
    """Refuse to write tables into an array, where TileDB and this tool would find them.

    Raises:
        click.UsageError: There is an array at the place, or around it.
    """
    from chronotile.array import Array

    places = [find_place(out)]
    with suppress(ChronotileError):  # it is the root of its bucket or disk
        places.append(places[0].parent()[0])
    for one in places:
        with suppress(ChronotileError):  # nothing is there, or the run says what is wrong with it
            place = access.open(one.uri)
            if isinstance(place, Array):
                problem = f"--out: {place.uri} is an array; give a folder outside of it"
                raise wrong_call(f"{problem}, such as --out tables")


def _in_delta(
    roots: tuple[str, ...], out: str, access: Access, *, since_last: bool, **asked: Any
) -> PipelineReport:
    from chronotile.fleet.options import Options
    from chronotile.fleet.run_pipeline import Job, run

    options = Options(
        roots=tuple(find_place(root).uri for root in roots),
        key=access.key,
        storage=tuple(sorted(access.storage.items())),
        **asked,
    )
    job = Job(
        options=options,
        out=find_place(out).uri,
        out_storage=access.storage if "://" in out else {},
        since_last=since_last,
        max_unreadable=read_limit("100%"),
    )
    return PipelineReport(summary=run(None, job), fail_on=NEVER, check=options.check)


@command(epilog="Example:  chronotile pipeline s3://lake/arrays --out tables --since-last")
@click.argument("roots", metavar="ROOT…", nargs=-1, type=PlaceType("dir"))
@click.option(
    "--out", metavar="DIR", required=True, type=PlaceType("dir"), help="Where the tables go."
)
@click.option("--arrays", metavar="FILE", help="Parquet, CSV or text file of arrays; no ROOT then.")
@click.option("--master", metavar="M", help="Spark master (default: all cores of this machine).")
@click.option("--remote", metavar="URL", help="A server of Spark Connect, such as sc://host:15002.")
@click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark.")
@click.option("--cells", is_flag=True, help="Read what each fragment holds: its footer.")
@click.option("--sizes", is_flag=True, help="Measure each array by listing its files.")
@click.option("--since-last", is_flag=True, help="Read only arrays whose listing has changed.")
@click.option("--maintain", is_flag=True, help="Consolidate and vacuum the arrays that need it.")
@click.option("--dry-run", is_flag=True, help="With --maintain: only say what would be done.")
@click.option("--fragments", is_flag=True, help="With --maintain: vacuum fragments as well.")
@click.option(
    "--policy",
    metavar="FILE",
    type=PlaceType("file"),
    help="With --maintain: a TOML file that says which arrays to maintain, how, and limits.",
)
@click.option(
    "--max-unreadable",
    metavar="N",
    type=Parsed("limit", read_limit),
    default=MAX_UNREADABLE.text,
    help="Commit nothing if more arrays than this are unreadable: a number (3) or a share (1%). "
    f"Default: {MAX_UNREADABLE.text}.",
)
@click.option(
    "--inventory",
    metavar="MANIFEST",
    help="Take the file list from this bucket inventory (its manifest.json) instead of listing. "
    "Without ROOT: every array in it.",
)
@click.option("--fresh", is_flag=True, help="With --inventory: ask each array for newer commits.")
@click.option(
    "--check",
    "reach",
    type=click.Choice(["log", "fragments", "deep"]),
    default="log",
    help="Check only the log, also the metadata of fragments, or also their cells (default: log).",
)
@click.option(
    "--max-findings-per-code",
    "max_findings",
    metavar="N",
    type=click.IntRange(1),
    default=MOST,
    help="How many findings of one code and severity to list of an array (default: 1,000).",
)
@click.option(
    "--fail-on",
    type=click.Choice([*SEVERITIES, NEVER]),
    default="error",
    help="Exit with 1 if there is a finding at least this severe (default: error).",
)
@click.option(
    "--metrics",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write metrics of the run to this file, in the text format of Prometheus.",
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Print lines of progress where there is no terminal (default: yes, without --json).",
)
@access_options
@reporting
def pipeline(
    roots: tuple[str, ...],
    out: str,
    arrays: str | None,
    master: str | None,
    remote: str | None,
    conf: tuple[str, ...],
    metrics: Path | None,
    fail_on: str,
    progress: bool | None,
    max_unreadable: Limit,
    access: Access,
    **asked: Any,
) -> PipelineReport:
    """Turn the commit logs of all arrays below ROOT into Delta tables, with Spark.

    Each commit file is read once. A run commits each table (arrays, commits, conditions, fragments,
    findings, members, operations) once, or once for every 65,536 arrays; if it fails, the last good
    rows stay. ROOT may hold `*`, `?` and `**`. Exits with 1 if there are findings of severity error
    (--fail-on), and with 3 if something could not be read: the rows of such an array then stay as
    they were (its column `stale` names their run). If too many are unreadable (--max-unreadable),
    no table changes.
    """
    _check_call(roots, arrays, asked)
    master = _one_address(master, remote)
    _check_places(master, ROOT=roots, out=(out,), arrays=(arrays,) if arrays else ())
    settings = read_pairs("--conf", conf)
    with _measured(metrics, out) as measured:
        from chronotile.fleet.run_pipeline import run
        from chronotile.fleet.session import master_of, session

        with _stopped_by_sigterm(), session(master, settings) as spark:
            _check_places(
                master_of(spark, master), ROOT=roots, out=(out,), arrays=(arrays,) if arrays else ()
            )
            job = _job(roots, out, arrays, max_unreadable, access, **asked)
            with run_progress(_wants_lines(progress)) as step:
                report = PipelineReport(summary=run(spark, job, step), fail_on=fail_on)
        measured.append(report)
    return report


def _job(
    roots: tuple[str, ...],
    out: str,
    arrays: str | None,
    max_unreadable: Limit,
    access: Access,
    *,
    cells: bool,
    sizes: bool,
    since_last: bool,
    maintain: bool,
    dry_run: bool,
    fragments: bool,
    policy: str | None,
    inventory: str | None,
    fresh: bool,
    reach: Reach,
    max_findings: int,
) -> Job:
    """Make the job that the options ask for, with absolute paths, as tasks run elsewhere."""
    from chronotile.fleet.options import Options
    from chronotile.fleet.policy import read_policy, simple_policy
    from chronotile.fleet.run_pipeline import Job

    options = Options(
        roots=tuple(map(_absolute, roots)),
        arrays=arrays and _absolute(arrays),
        cells=cells,
        sizes=sizes,
        key=None if access.key_file else access.key,
        key_file=access.key_file,
        storage=tuple(sorted(access.storage.items())),
        inventory=inventory and _absolute(inventory),
        fresh=fresh,
        check=reach,
        max_findings=max_findings,
    )
    simple = simple_policy(fragments=fragments)
    chosen = read_policy(policy, access.storage) if policy else simple
    return Job(
        options=options,
        out=_absolute(out),
        out_storage=access.storage if "://" in out else {},
        since_last=since_last,
        policy=chosen if maintain else None,
        dry_run=dry_run,
        max_unreadable=max_unreadable,
    )


def _check_call(roots: tuple[str, ...], arrays: str | None, asked: Mapping[str, Any]) -> None:
    """Refuses options that make no sense together."""
    if asked["inventory"] is not None and arrays is not None:
        raise wrong_call("expected --inventory or --arrays, found both")
    if asked["inventory"] is None and bool(roots) == (arrays is not None):
        raise wrong_call(f"expected ROOT or --arrays, found {'both' if roots else 'neither'}")
    if asked["fresh"] and asked["inventory"] is None:
        raise wrong_call("expected --inventory with --fresh")
    for name in ("dry_run", "fragments", "policy"):
        if asked[name] and not asked["maintain"]:
            raise wrong_call(f"expected --maintain with --{name.replace('_', '-')}")
    if asked["policy"] and asked["fragments"]:
        raise wrong_call("expected --policy or --fragments, found both")


def _one_address(master: str | None, remote: str | None) -> str | None:
    """Where Spark is."""
    if master is not None and remote is not None:
        raise wrong_call("expected --master or --remote, found both")
    if remote is not None and not remote.startswith("sc://"):
        raise wrong_call(f"--remote: expected sc://host:port, found {remote!r}")
    return master or remote


def _check_places(master: str | None, **places: tuple[str, ...]) -> None:
    """Refuses a relative path if tasks run on other machines: each would take it as its own."""
    from chronotile.fleet.session import is_local

    for option, texts in places.items():
        for text in texts:
            is_relative = "://" not in text and not text.startswith(("/", "~", "memory:"))
            if is_relative and not is_local(master):
                name = option if option.isupper() else f"--{option}"
                expected = f"expected a URI or an absolute path with --master {master}"
                raise wrong_call(f"{name}: {expected}, found {text!r}")


def _absolute(place: str) -> str:
    return find_place(place).uri


def _wants_lines(progress: bool | None) -> bool:
    """Return True to write lines: with --json only if asked, as an error is then a document."""
    if progress is not None:
        return progress
    context = click.get_current_context(silent=True)
    return not (context and context.params.get("as_json"))


@contextmanager
def _measured(path: Path | None, out: str) -> Iterator[list[PipelineReport]]:
    """Write the metrics of a run, however it ends; the caller adds its report to the list."""
    from chronotile.fleet.run_summary import write_metrics

    began = time.monotonic()
    reports: list[PipelineReport] = []

    def write(status: int) -> None:
        if path is not None:
            summary = reports[0].summary if reports else None
            seconds = time.monotonic() - began
            write_metrics(path, _absolute(out), status, seconds, summary)

    try:
        yield reports
    except BaseException as error:
        try:
            write(status_of(error))
        except (ChronotileError, ModuleNotFoundError) as second:
            say(str(second))
        raise
    write(reports[0].status if reports else 0)


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM, which schedulers send, end a run as Ctrl-C does: in order."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
