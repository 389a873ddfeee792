"""`chronotile tables`: the tables of a fleet, without Spark.

In: roots of arrays, and a folder. Out: a Delta table for each table of the pipeline, as the
pipeline writes it, or one Parquet file each. `run_pipeline` or `fleet_without_spark` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import PlaceType, access_options, command, reporting
from chronotile.cli.pipeline_report import NEVER, PipelineReport
from chronotile.storage.place import find_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.cli.options import Access
    from chronotile.fleet.fleet_without_spark import FleetTables


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesReport:
    """The tables that were written."""

    made: FleetTables
    files: tuple[str, ...]

    @property
    def status(self) -> int:
        """3 if an array or folder could not be read."""
        return 0 if self.made.is_whole else 3

    def to_json(self) -> dict[str, Any]:
        """Table -> its file and its rows."""
        rows = [table.num_rows for table in self.made.tables.values()]
        named = zip(self.made.tables, self.files, rows, strict=True)
        return {name: {"file": file, "rows": count} for name, file, count in named}

    def to_text(self) -> Iterator[str]:
        """Give a line for each table."""
        from chronotile.show.output import count_text

        arrays = count_text(self.made.tables["arrays"].num_rows, "array")
        yield f"{arrays}, {count_text(len(self.files), 'table')}"
        for name, table in self.to_json().items():
            yield f"  {table['file']}: {count_text(table['rows'], 'row')} of {name}"


@command(epilog="\b\nExample:\n  chronotile tables demo --out tables")
@click.argument("roots", metavar="ROOT…", nargs=-1, required=True, type=PlaceType("dir"))
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=PlaceType("dir"),
    help="A folder, or a prefix of a bucket.",
)
@click.option("--parquet", is_flag=True, help="Write one Parquet file a table, without Delta.")
@click.option("--since-last", is_flag=True, help="Read only arrays whose listing has changed.")
@click.option(
    "--check",
    type=click.Choice(["log", "fragments", "deep"]),
    default="log",
    help="How far the findings go: log.",
)
@click.option(
    "--sizes/--no-sizes",
    default=True,
    help="Measure each array, for which every file is listed: yes.",
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
) -> TablesReport | PipelineReport:
    """Write the tables of every array below ROOT as Delta tables, without Spark.

    They are those of the pipeline: arrays, commits, conditions, fragments, findings, operations. A
    few processes of this machine make them, for some thousands of arrays sooner than Spark does.
    """
    from chronotile.show.output import progress

    with progress("reading arrays"):
        if not parquet:
            return _in_delta(roots, out, access, since_last=since_last, check=check, sizes=sizes)
        from chronotile.fleet.fleet_without_spark import make_tables, write_tables

        made = make_tables(
            roots, check=check, sizes=sizes, key=access.key, storage_options=access.storage
        )
    return TablesReport(made=made, files=write_tables(made.tables, out, access.storage))


def _in_delta(
    roots: tuple[str, ...], out: str, access: Access, *, since_last: bool, **asked: Any
) -> PipelineReport:
    from chronotile.fleet.options import Options
    from chronotile.fleet.run_pipeline import Job, run
    from chronotile.fleet.run_summary import read_limit

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
    return PipelineReport(summary=run(None, job), fail_on=NEVER)
