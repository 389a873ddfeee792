"""`chronotile tables`: the tables of a fleet, without Spark.

In: roots of arrays, and a folder. Out: a Parquet file for each table.
`fleet_without_spark` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import Place, access_options, command, reporting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.cli.options import Access
    from chronotile.tables.fleet_without_spark import FleetTables


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
        """A line for each table."""
        from chronotile.show.output import count_text

        arrays = count_text(self.made.tables["arrays"].num_rows, "array")
        yield f"{arrays}, {count_text(len(self.files), 'table')}"
        for name, table in self.to_json().items():
            yield f"  {table['file']}: {count_text(table['rows'], 'row')} of {name}"


@command(epilog="\b\nExample:\n  chronotile tables demo --out tables")
@click.argument("roots", metavar="ROOT…", nargs=-1, required=True, type=Place("dir"))
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=Place("dir"),
    help="A folder, or a prefix of a bucket that has no such tables yet.",
)
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
@click.option(
    "--workers", metavar="N", type=click.IntRange(min=1), help="Processes: as many as cores."
)
@access_options
@reporting
def tables(
    roots: tuple[str, ...],
    out: str,
    check: Any,
    sizes: bool,
    workers: int | None,
    access: Access,
) -> TablesReport:
    """The tables of every array below ROOT as Parquet, made by a few processes, without Spark.

    They are those of the pipeline: arrays, commits, conditions, fragments, findings.
    """
    from chronotile.show.output import progress
    from chronotile.tables.fleet_without_spark import fleet_tables
    from chronotile.tables.stored_tables import write_tables

    with progress("reading arrays"):
        made = fleet_tables(
            roots,
            check=check,
            sizes=sizes,
            key=access.key,
            storage_options=access.storage,
            workers=workers,
        )
    return TablesReport(made=made, files=write_tables(made.tables, out, access.storage))
