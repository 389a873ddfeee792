"""`chronotile pipeline`: tables of a whole fleet, with Spark.

In: roots of arrays, and a folder for output. Out: every table as Parquet, and a summary.
`spark.pipeline` does the work; this module starts it, and shows its progress and summary.
"""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    Parsed,
    Place,
    access_options,
    read_pairs,
    reporting,
    wrong_call,
)
from chronotile.errors import ChronotileError
from chronotile.spark.unreadable_limit import MAX_UNREADABLE, Limit, read_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from chronotile.check.looked_at import Reach
    from chronotile.cli.options import Access
    from chronotile.spark.run_summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """The summary of a run."""

    summary: Summary

    @property
    def status(self) -> int:
        """3 if something could not be read, 1 if there is an error, else 0."""
        from chronotile.dataset.check_all import UNREADABLE

        errors = {code for severity, code, _ in self.summary.totals.findings if severity == "error"}
        return 3 if UNREADABLE in errors else int(bool(errors))

    def to_json(self) -> dict[str, Any]:
        """The form of `Summary.to_json`."""
        return self.summary.to_json()

    def to_text(self) -> Iterator[RenderableType]:
        """The numbers, the findings, the costliest arrays, and what maintenance saves."""
        from chronotile.report.output import Text, count_text, plain_table, size_text

        summary, totals = self.summary, self.summary.totals
        yield (
            f"{count_text(totals.arrays, 'array')}, {count_text(totals.commits, 'commit')}, "
            f"{count_text(totals.fragments, 'fragment')} in {summary.seconds:.1f} s; "
            f"{size_text(totals.bytes)} in {count_text(summary.files_read, 'file')} read"
        )
        if summary.unchanged:
            yield f"{count_text(summary.unchanged, 'array')} unchanged since the last run"
        if summary.unreadable:
            stale = "could not be read: their rows are of an older run, or missing"
            yield Text(f"{count_text(summary.unreadable, 'array')} {stale}", "red")
        yield f"tables in {summary.run}"
        if totals.findings:
            table = plain_table("findings", "severity", "code", right=1)
            for severity, code, count in totals.findings:
                table.add_row(f"{count:,}", severity, code)
            yield table
        if totals.worst:
            table = plain_table("requests", "array", right=1)
            for cost, array in totals.worst:
                table.add_row(f"{cost:,}", array)
            yield table
        yield (
            f"opening every array once costs {totals.open_requests:,} requests, "
            f"after maintenance {totals.requests_after:,}: {summary.saved:,} saved"
        )
        for outcome, count in summary.maintained:
            yield f"{outcome}: {count_text(count, 'array')}"


@click.command(epilog="Example:  chronotile pipeline s3://lake/arrays --out tables --since-last")
@click.argument("roots", metavar="ROOT…", nargs=-1, type=Place("dir"))
@click.option("--out", metavar="DIR", required=True, type=Place("dir"), help="For the tables.")
@click.option("--arrays", metavar="FILE", help="Parquet, CSV or text file of arrays; no ROOT then.")
@click.option("--master", metavar="M", help="Spark master: all cores of this machine.")
@click.option("--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark.")
@click.option("--cells", is_flag=True, help="Read what each fragment holds: its footer.")
@click.option("--since-last", is_flag=True, help="Read only arrays whose listing has changed.")
@click.option("--maintain", is_flag=True, help="Consolidate and vacuum the arrays that need it.")
@click.option("--dry-run", is_flag=True, help="With --maintain: only say what would be done.")
@click.option("--fragments", is_flag=True, help="With --maintain: vacuum fragments as well.")
@click.option(
    "--max-unreadable",
    metavar="N",
    type=Parsed("limit", read_limit),
    default=MAX_UNREADABLE.text,
    help="Arrays, as a number (3) or a share (0.01, 1%), that may be unreadable before nothing is "
    "published: 0.001, so in a fleet of fewer than 1,000 none.",
)
@click.option("--partition-bytes", metavar="N", type=click.IntRange(1), help="Read by one task.")
@click.option(
    "--check",
    "reach",
    type=click.Choice(["log", "fragments", "deep"]),
    default="log",
    help="How far findings go: log; also the metadata of fragments; also their cells.",
)
@access_options
@reporting
def pipeline(
    roots: tuple[str, ...],
    out: str,
    arrays: str | None,
    master: str | None,
    conf: tuple[str, ...],
    cells: bool,
    since_last: bool,
    maintain: bool,
    dry_run: bool,
    fragments: bool,
    max_unreadable: Limit,
    partition_bytes: int | None,
    reach: Reach,
    access: Access,
) -> PipelineReport:
    """Turns the commit logs of all arrays below ROOT into tables, with Spark.

    Each commit file is read once. A run replaces all tables (arrays, commits, conditions,
    fragments, findings) in one step; if it fails, the last good ones stay. ROOT may hold `*`, `?`
    and `**`. Exits with 1 if there are findings of severity error, and with 3 if something could
    not be read: the rows of such an array then stay as they were (its column `stale` names their
    run), or, above --max-unreadable, all tables do.
    """
    if bool(roots) == (arrays is not None):
        raise wrong_call(f"expected ROOT or --arrays, found {'both' if roots else 'neither'}")
    if (dry_run or fragments) and not maintain:
        raise wrong_call(f"expected --maintain with {'--dry-run' if dry_run else '--fragments'}")
    _need_spark()
    from chronotile.spark.options import PARTITION_BYTES, Options
    from chronotile.spark.pipeline import Job, run
    from chronotile.spark.session import session

    options = Options(
        roots=roots,
        arrays=arrays,
        cells=cells,
        key=access.key,
        storage=tuple(sorted(access.storage.items())),
        partition_bytes=partition_bytes or PARTITION_BYTES,
        check=reach,
    )
    job = Job(
        options=options,
        out=out,
        out_storage=access.storage if "://" in out else {},
        since_last=since_last,
        maintain=maintain,
        dry_run=dry_run,
        fragments=fragments,
        max_unreadable=max_unreadable,
    )
    with session(master, read_pairs("--conf", conf)) as spark, _bar() as step:
        return PipelineReport(summary=run(spark, job, step))


def _need_spark() -> None:
    try:
        importlib.import_module("chronotile.spark.pipeline")
    except ModuleNotFoundError as cause:
        if (cause.name or "").partition(".")[0] != "pyspark":
            raise
        problem = "expected PySpark, found none: pip install 'chronotile[spark]'"
        raise ChronotileError("pipeline", problem) from None


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on a terminal's standard error; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)

        def step(words: str, done: int, total: int) -> None:
            bar.update(task, description=words, completed=done, total=total or None)

        yield step
