"""Pictures and pages: `timeline` of an array or a group, `report` on a whole fleet.

In: a place, and the file to write. Out: that file: a page that works offline, SVG or PNG. The room
`show` decides what it shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chronotile.cli.options import (
    PlaceType,
    access_options,
    array_argument,
    command,
    flag,
    form_of,
    member_option,
    out_option,
    read_log,
    reporting,
    say,
    time_option,
)
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.timestamps import Moment, now_ms
from chronotile.show.output import Answer, count_text, place_text, progress, size_text
from chronotile.storage.place import find_place

if TYPE_CHECKING:
    import pyarrow as pa

    from chronotile.cli.options import Access
    from chronotile.show.picture import Height


FORMS = (".html", ".svg", ".png")


@command(epilog="\b\nExample:\n  chronotile timeline demo/array -o timeline.html")
@array_argument
@out_option("An .html, .svg or .png file.", required=True)
@time_option("--as-of", help="The moment that counts as now.")
@flag("--cells", help="Also show how many cells and bytes each fragment holds.")
@click.option(
    "--height",
    type=click.Choice(["cells", "bytes"]),
    help="Draw a fragment as high as its cells or bytes; a page has a switch. Implies --cells.",
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
) -> Answer:
    """Draw the history of ARRAY: fragments, deletes, updates, and what replaced what.

    An .html page has a slider that shows what is visible at each moment, and works offline. A
    picture of a very long history counts commits instead of drawing each. A group has a lane for
    each array.
    """
    form_of(output, FORMS)
    from chronotile.array import Array

    place = access.open(array, member)
    if isinstance(place, Array):
        read_log(place)
    with progress("drawing"):
        drawn = place.timeline(output, as_of=as_of, cells=cells, height=height, **member)
    for path, error in drawn.errors.items():
        say(f"note: {path} cannot be read: {error}")
    picture = drawn.picture
    document = {
        "array": picture.array,
        "output": drawn.out,
        "size": drawn.size,
        "fragments": picture.fragments,
        "deletes_and_updates": picture.commits,
        "moments": list(picture.moments),
        "now": picture.moments[picture.now],
        "counted": picture.counts is not None,
    }
    shown = count_text(picture.fragments, "fragment")
    marks = count_text(picture.commits, "delete or update", "deletes and updates")
    how = ", counted" if picture.counts is not None else ""
    line = f"{drawn.out}: {shown}, {marks}{how}; {size_text(drawn.size)}"
    return Answer(document, [line], ReadError.exit_code if drawn.errors else 0)


PAGE_FORMS = (".html", ".htm")
FEW = 12
"""Up to this many arrays, each gets a timeline without being asked for."""
READ = ("arrays", "commits", "findings")
"""The tables that a page needs."""


def _stored(place: str, access: Access) -> dict[str, pa.Table] | None:
    """Read the tables that `pipeline` or `tables` wrote there; None if there are none."""
    from chronotile.errors import ArrayNotFoundError
    from chronotile.fleet.delta_store import URI, Output, fleet_tables
    from chronotile.fleet.fleet_without_spark import read_tables

    output = Output(out=place, storage=tuple(sorted(access.storage.items())))
    try:
        if output.is_there():
            tables = fleet_tables(place, storage_options=access.storage)
            found = {name: tables[name].to_pyarrow_table() for name in READ}
        else:
            found = read_tables(place, READ, access.storage) or {}
    except ArrayNotFoundError:
        return None
    named = {
        name: table.rename_columns(["array" if c == URI else c for c in table.column_names])
        for name, table in found.items()
    }
    return named or None


def _timelines(arrays: list[str], output: Path, title: str, access: Access) -> dict[str, str]:
    """Draw a timeline of each array beside the page, with a way back; give array -> link."""
    from urllib.parse import quote

    from chronotile.log import open_log
    from chronotile.show.picture import draw

    folder = output.with_name(f"{output.stem}-timelines")
    folder.mkdir(exist_ok=True)
    links = {}
    for number, array in enumerate(arrays, start=1):
        try:
            log = open_log(array, key=access.key_at(array), storage_options=access.storage)
            picture = log.picture(now_ms())
        except ChronotileError:
            continue  # the page says that it cannot be read
        back = f"../{quote(output.name)}", f"Fleet report on {title}"
        (folder / f"{number}.html").write_bytes(draw(picture, ".html", back))
        links[array] = f"{quote(folder.name)}/{number}.html"
    return links


@command(epilog="\b\nExample:\n  chronotile report demo -o report.html")
@click.argument("root", metavar="ROOT", type=PlaceType("dir"))
@out_option("The page: an .html file.", required=True)
@click.option(
    "--timelines/--no-timelines",
    default=None,
    help="Draw a timeline of each array beside the page (default: yes, up to 12 arrays).",
)
@access_options
@reporting
def report(root: str, output: str, timelines: bool | None, access: Access) -> Answer:
    """Draw a page on every array below ROOT: what needs attention, findings, sizes, opens.

    ROOT is a folder of arrays, or a folder of tables; with tables, no array is read.
    """
    from chronotile.show.fleet_page import FleetPage, to_html

    form_of(output, PAGE_FORMS)
    # The page is read elsewhere, where `.` says nothing.
    title = find_place(root).uri if Path(root).name in ("", "..") else place_text(root)
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
    links = _timelines(arrays, target, title, access) if wants else {}
    reach = "" if is_stored else "Findings: the log, and the metadata of fragments."
    page = FleetPage(title=title, tables=tables, made_ms=now_ms(), links=links, reach=reach)
    target.write_text(to_html(page), "utf-8")
    numbers = {"array": len(arrays), "finding": tables["findings"].num_rows, "timeline": len(links)}
    shown = ", ".join(count_text(number, noun) for noun, number in numbers.items())
    document = {"output": output} | {f"{noun}s": number for noun, number in numbers.items()}
    return Answer(document, [f"{output}: {shown}"], status)
