"""`chronotile report`: one page on a whole fleet.

In: roots of arrays, or the folder of tables that `pipeline` or `tables` wrote. Out: an HTML file
that works offline, and for a small fleet a timeline of each array beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import Place, access_options, command, form_of, reporting
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from chronotile.cli.options import Access

FORMS = (".html", ".htm")
FEW = 12
"""Up to this many arrays, each gets a timeline without being asked for."""
READ = ("arrays", "commits", "findings")
"""The tables that a page needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """A page that was written."""

    output: str
    arrays: int
    findings: int
    timelines: int
    status: int = 0
    """3 if an array or folder could not be read."""

    def to_json(self) -> dict[str, Any]:
        """Where it is, and what it shows."""
        return {name: getattr(self, name) for name in ("output", "arrays", "findings", "timelines")}

    def to_text(self) -> Iterator[str]:
        """One line."""
        from chronotile.show.output import count_text

        shown = f"{count_text(self.arrays, 'array')}, {count_text(self.findings, 'finding')}"
        yield f"{self.output}: {shown}, {count_text(self.timelines, 'timeline')}"


def _stored(place: str, access: Access) -> dict[str, pa.Table] | None:
    """The tables that `pipeline` or `tables` wrote there; None if there are none."""
    from chronotile.errors import ArrayNotFoundError
    from chronotile.spark.pipeline.runs import last_run
    from chronotile.tables.stored_tables import read_tables

    try:
        run = last_run(place, access.storage)
        folder = place if run is None else run.uri
        return read_tables(folder, READ, access.storage)
    except ArrayNotFoundError:
        return None


def _timelines(arrays: list[str], output: Path, access: Access) -> dict[str, str]:
    """Draws a timeline of each array, and gives array -> link."""
    from chronotile.format.timestamps import now_ms
    from chronotile.show.timeline_page import to_html

    folder = output.with_name(f"{output.stem}-timelines")
    folder.mkdir(exist_ok=True)
    links = {}
    for number, array in enumerate(arrays, start=1):
        try:
            picture = access.read_log(access.open_store(array)).picture(now_ms())
        except ChronotileError:
            continue  # the page says that it cannot be read
        (folder / f"{number}.html").write_text(to_html(picture), "utf-8")
        links[array] = f"{folder.name}/{number}.html"
    return links


@command(epilog="\b\nExample:\n  chronotile report demo -o report.html")
@click.argument("root", metavar="ROOT", type=Place("dir"))
@click.option(
    "-o",
    "--out",
    "output",
    required=True,
    metavar="FILE",
    type=Place("file"),
    help="The page: an .html file.",
)
@click.option(
    "--timelines/--no-timelines",
    default=None,
    help="Draw a timeline of each array beside the page: for up to 12 arrays.",
)
@access_options
@reporting
def report(root: str, output: str, timelines: bool | None, access: Access) -> FleetReport:
    """A page on every array below ROOT: what needs attention, findings, commits, sizes, opens.

    ROOT is a folder of arrays, or one of tables, which the page is then made from alone.
    """
    from chronotile.format.timestamps import now_ms
    from chronotile.show.fleet_page import FleetPage, to_html
    from chronotile.show.output import place_text, progress

    form_of(output, FORMS)
    target = Path(output)
    tables, status = _stored(root, access), 0
    is_stored = tables is not None
    if tables is None:
        from chronotile.tables.fleet_without_spark import fleet_tables

        with progress("reading arrays"):
            made = fleet_tables(
                root,
                names=READ,
                check="fragments",
                key=access.key,
                storage_options=access.storage,
            )
        tables, status = dict(made.tables), 0 if made.is_whole else 3
    arrays = tables["arrays"]["array"].to_pylist()
    wants = timelines if timelines is not None else not is_stored and len(arrays) <= FEW
    links = _timelines(arrays, target, access) if wants else {}
    page = FleetPage(title=place_text(root), tables=tables, made_ms=now_ms(), links=links)
    target.write_text(to_html(page), "utf-8")
    return FleetReport(
        output=output,
        arrays=len(arrays),
        findings=tables["findings"].num_rows,
        timelines=len(links),
        status=status,
    )
