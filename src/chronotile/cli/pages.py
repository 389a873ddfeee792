"""Pictures and pages: `timeline` of an array or a group, `report` on a whole fleet.

In: a place, and the file to write. Out: that file: a page that works offline, SVG or PNG. The room
`show` decides what it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    MOMENT,
    PlaceType,
    access_options,
    array_argument,
    command,
    form_of,
    member_option,
    reporting,
    say,
)
from chronotile.errors import ChronotileError, ReadError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Moment
    from chronotile.handle import Drawn
    from chronotile.show.picture import Height


FORMS = (".html", ".svg", ".png")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineReport:
    """A picture that was written."""

    drawn: Drawn

    @property
    def status(self) -> int:
        """The exit status: 3 if a member could not be read."""
        return ReadError.exit_code if self.drawn.errors else 0

    def to_json(self) -> dict[str, Any]:
        """Give where it is, and what it shows."""
        picture = self.drawn.picture
        return {
            "array": picture.array,
            "output": self.drawn.out,
            "size": self.drawn.size,
            "fragments": picture.fragments,
            "deletes_and_updates": picture.commits,
            "moments": list(picture.moments),
            "now": picture.moments[picture.now],
            "counted": picture.counts is not None,
        }

    def to_text(self) -> Iterator[str]:
        """Give one line."""
        from chronotile.show.output import count_text, size_text

        picture = self.drawn.picture
        shown = count_text(picture.fragments, "fragment")
        marks = count_text(picture.commits, "delete or update", "deletes and updates")
        how = ", counted" if picture.counts is not None else ""
        yield f"{self.drawn.out}: {shown}, {marks}{how}; {size_text(self.drawn.size)}"


@command(epilog="\b\nExample:\n  chronotile timeline demo/array -o timeline.html")
@array_argument
@click.option(
    "-o",
    "--out",
    "output",
    metavar="FILE",
    type=PlaceType("file"),
    required=True,
    help="An .html, .svg or .png file.",
)
@click.option("--as-of", metavar="TIME", type=MOMENT, help="The moment that counts as now.")
@click.option("--cells", is_flag=True, help="Also how many cells and bytes each fragment holds.")
@click.option(
    "--height",
    type=click.Choice(["cells", "bytes"]),
    help="What a fragment's height goes by; a page has a switch. Implies --cells.",
)
@member_option
@access_options
@reporting
def timeline(
    array: str,
    output: str,
    as_of: Moment | None,
    cells: bool,
    height: Height | None,
    member: dict[str, str],
    access: Access,
) -> TimelineReport:
    """Draw the history of ARRAY: fragments, deletes, updates, and what replaced what.

    An .html page has a slider that shows what is visible at each moment, and works offline. A
    picture of a very long history counts commits, and does not draw each. Of a group: a lane for
    each array.
    """
    form_of(output, FORMS)
    from chronotile.array import Array
    from chronotile.show.output import progress

    place = access.open(array, member)
    if isinstance(place, Array):
        access.log_of(place)
    with progress("drawing"):
        drawn = place.timeline(output, as_of=as_of, cells=cells, height=height, **member)
    for path, error in drawn.errors.items():
        say(f"note: {path} cannot be read: {error}")
    return TimelineReport(drawn=drawn)


PAGE_FORMS = (".html", ".htm")
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
        """Give where it is, and what it shows."""
        return {name: getattr(self, name) for name in ("output", "arrays", "findings", "timelines")}

    def to_text(self) -> Iterator[str]:
        """Give one line."""
        from chronotile.show.output import count_text

        shown = f"{count_text(self.arrays, 'array')}, {count_text(self.findings, 'finding')}"
        yield f"{self.output}: {shown}, {count_text(self.timelines, 'timeline')}"


def _stored(place: str, access: Access) -> dict[str, pa.Table] | None:
    """Read the tables that `pipeline` or `tables` wrote there; None if there are none."""
    from chronotile.errors import ArrayNotFoundError
    from chronotile.fleet.delta_store import Output, fleet_tables
    from chronotile.fleet.fleet_without_spark import read_tables

    output = Output(out=place, storage=tuple(sorted(access.storage.items())))
    try:
        if output.is_there():
            tables = fleet_tables(place, storage_options=access.storage)
            return {name: tables[name].to_pyarrow_table() for name in READ}
        return read_tables(place, READ, access.storage)
    except ArrayNotFoundError:
        return None


def _timelines(arrays: list[str], output: Path, access: Access) -> dict[str, str]:
    """Draw a timeline of each array beside the page; give array -> link."""
    folder = output.with_name(f"{output.stem}-timelines")
    folder.mkdir(exist_ok=True)
    links = {}
    for number, array in enumerate(arrays, start=1):
        try:
            access.open(array).timeline(folder / f"{number}.html")
        except ChronotileError:
            continue  # the page says that it cannot be read
        links[array] = f"{folder.name}/{number}.html"
    return links


@command(epilog="\b\nExample:\n  chronotile report demo -o report.html")
@click.argument("root", metavar="ROOT", type=PlaceType("dir"))
@click.option(
    "-o",
    "--out",
    "output",
    required=True,
    metavar="FILE",
    type=PlaceType("file"),
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
    """Draw a page on every array below ROOT: what needs attention, findings, sizes, opens.

    ROOT is a folder of arrays, or one of tables, which the page is then made from alone.
    """
    from chronotile.format.timestamps import now_ms
    from chronotile.show.fleet_page import FleetPage, to_html
    from chronotile.show.output import place_text, progress

    form_of(output, PAGE_FORMS)
    target = Path(output)
    tables, status = _stored(root, access), 0
    is_stored = tables is not None
    if tables is None:
        from chronotile.fleet.fleet_without_spark import make_tables

        with progress("reading arrays"):
            made = make_tables(
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
