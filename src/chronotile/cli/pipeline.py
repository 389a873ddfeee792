"""`chronotile pipeline`: tables of a whole fleet, with Spark.

In: roots of arrays, and a folder for output. Out: every table as a Delta table, and a summary.
`spark.pipeline` does the work; this module starts it, shows its summary, and tells a scheduler how
it went: by the exit status, and in a file of metrics.
"""

from __future__ import annotations

import importlib
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronotile.check.findings import MOST, SEVERITIES
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
from chronotile.cli.pipeline_report import NEVER, PipelineReport
from chronotile.cli.run_progress import run_progress
from chronotile.errors import ChronotileError
from chronotile.fleet.run_summary import MAX_UNREADABLE, Limit, read_limit
from chronotile.show.error_messages import status_of
from chronotile.storage.place import find_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.check.findings import Reach
    from chronotile.cli.options import Access
    from chronotile.fleet.run_pipeline import Job


@command(epilog="Example:  chronotile pipeline s3://lake/arrays --out tables --since-last")
@click.argument("roots", metavar="ROOT…", nargs=-1, type=PlaceType("dir"))
@click.option("--out", metavar="DIR", required=True, type=PlaceType("dir"), help="For the tables.")
@click.option("--arrays", metavar="FILE", help="Parquet, CSV or text file of arrays; no ROOT then.")
@click.option("--master", metavar="M", help="Spark master: all cores of this machine.")
@click.option("--remote", metavar="URL", help="A server of Spark Connect: sc://host:15002.")
@click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark.")
@click.option("--cells", is_flag=True, help="Read what each fragment holds: its footer.")
@click.option("--sizes", is_flag=True, help="Measure each array: every file is listed for it.")
@click.option("--since-last", is_flag=True, help="Read only arrays whose listing has changed.")
@click.option("--maintain", is_flag=True, help="Consolidate and vacuum the arrays that need it.")
@click.option("--dry-run", is_flag=True, help="With --maintain: only say what would be done.")
@click.option("--fragments", is_flag=True, help="With --maintain: vacuum fragments as well.")
@click.option(
    "--policy",
    metavar="FILE",
    type=PlaceType("file"),
    help="With --maintain: a TOML file of which arrays, what is done to them, and limits.",
)
@click.option(
    "--max-unreadable",
    metavar="N",
    type=Parsed("limit", read_limit),
    default=MAX_UNREADABLE.text,
    help="Arrays, as a number (3) or a share (0.01, 1%), that may be unreadable before nothing is "
    "committed: 0.001, so in a fleet of fewer than 1,000 none.",
)
@click.option(
    "--inventory",
    metavar="MANIFEST",
    help="An inventory of the bucket, by its manifest.json: nothing is listed. Without ROOT, all.",
)
@click.option("--fresh", is_flag=True, help="With --inventory: ask each array for newer commits.")
@click.option("--partition-bytes", metavar="N", type=click.IntRange(1), help="Read by one task.")
@click.option(
    "--check",
    "reach",
    type=click.Choice(["log", "fragments", "deep"]),
    default="log",
    help="How far findings go: log; also the metadata of fragments; also their cells.",
)
@click.option(
    "--max-findings-per-code",
    "max_findings",
    metavar="N",
    type=click.IntRange(1),
    default=MOST,
    help="Findings of one code and severity to list of an array; one more counts the rest: 1,000.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*SEVERITIES, NEVER]),
    default="error",
    help="Exit with 1 if there is a finding at least this severe: error.",
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
    help="Lines of progress on standard error if it is no terminal: unless --json.",
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
    findings, operations) once, or once each 65,536 arrays; if it fails, the last good rows stay.
    ROOT may hold `*`, `?` and `**`. Exits with 1 if there are findings of severity error
    (--fail-on), and with 3 if something could not be read: the rows of such an array then stay as
    they were (its column `stale` names their run), or, above --max-unreadable, all tables do.
    """
    _check_call(roots, arrays, asked)
    master = _one_address(master, remote)
    _check_places(master, ROOT=roots, out=(out,), arrays=(arrays,) if arrays else ())
    settings = read_pairs("--conf", conf)
    with _measured(metrics, out) as measured:
        _need_spark()
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
    partition_bytes: int | None,
    reach: Reach,
    max_findings: int,
) -> Job:
    """Make the job that the options ask for, with absolute paths, as tasks run elsewhere."""
    from chronotile.fleet.options import PARTITION_BYTES, Options
    from chronotile.fleet.policy import read_policy
    from chronotile.fleet.run_pipeline import Job

    options = Options(
        roots=tuple(map(_absolute, roots)),
        arrays=arrays and _absolute(arrays),
        cells=cells,
        sizes=sizes,
        key=access.key,
        storage=tuple(sorted(access.storage.items())),
        partition_bytes=partition_bytes or PARTITION_BYTES,
        inventory=inventory and _absolute(inventory),
        fresh=fresh,
        check=reach,
        max_findings=max_findings,
    )
    return Job(
        options=options,
        out=_absolute(out),
        out_storage=access.storage if "://" in out else {},
        since_last=since_last,
        maintain=maintain,
        dry_run=dry_run,
        fragments=fragments,
        policy=read_policy(policy, access.storage) if policy else None,
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
    from chronotile.fleet.run_summary import Ending, write_metrics

    began = time.monotonic()
    reports: list[PipelineReport] = []

    def write(status: int) -> None:
        if path is not None:
            summary = reports[0].summary if reports else None
            seconds = time.monotonic() - began
            place = _absolute(out)
            write_metrics(path, Ending(out=place, status=status, seconds=seconds, summary=summary))

    try:
        yield reports
    except BaseException as error:
        try:
            write(status_of(error))
        except ChronotileError as second:
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


def _need_spark() -> None:
    try:
        importlib.import_module("chronotile.fleet.session")
    except ModuleNotFoundError as cause:
        if (cause.name or "").partition(".")[0] != "pyspark":
            raise
        problem = "expected PySpark, found none: pip install 'chronotile[spark]'"
        raise ChronotileError("pipeline", problem) from None
