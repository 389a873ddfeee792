"""`chronotile timeline`: a picture of the history.

In: an array, and the file to write. Out: that file: a page with a slider, SVG or PNG. The package
`timeline` decides what it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    MOMENT,
    Place,
    access_options,
    array_argument,
    form_of,
    or_group,
    reporting,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Moment
    from chronotile.timeline.picture import Height, Picture

FORMS = (".html", ".svg", ".png")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineReport:
    """A picture that was written."""

    picture: Picture
    output: str
    size: int
    status: int = 0
    """3 if a member could not be read."""

    def to_json(self) -> dict[str, Any]:
        """Where it is, and what it shows."""
        picture = self.picture
        return {
            "array": picture.array,
            "output": self.output,
            "size": self.size,
            "fragments": picture.fragments,
            "deletes_and_updates": picture.commits,
            "moments": list(picture.moments),
            "now": picture.moments[picture.now],
            "counted": picture.counts is not None,
        }

    def to_text(self) -> Iterator[str]:
        """One line."""
        from chronotile.report.output import count_text, size_text

        shown = count_text(self.picture.fragments, "fragment")
        marks = count_text(self.picture.commits, "delete or update", "deletes and updates")
        how = ", counted" if self.picture.counts is not None else ""
        yield f"{self.output}: {shown}, {marks}{how}; {size_text(self.size)}"


@click.command(epilog="\b\nExample:\n  chronotile timeline demo/array -o timeline.html")
@array_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=Place("file"),
    required=True,
    help="An .html, .svg or .png file.",
)
@click.option("--now", metavar="TIME", type=MOMENT, help="What counts as now.")
@click.option("--cells", is_flag=True, help="Also how many cells and bytes each fragment holds.")
@click.option(
    "--height",
    type=click.Choice(["cells", "bytes"]),
    help="What a fragment's height goes by; a page has a switch. Implies --cells.",
)
@access_options
@reporting
@or_group("group_timeline:group_timeline")
def timeline(
    array: str,
    output: str,
    now: Moment | None,
    cells: bool,
    height: Height | None,
    access: Access,
) -> TimelineReport:
    """A picture of the history of ARRAY: fragments, deletes, updates, and what replaced what.

    An .html page has a slider that shows what is visible at each moment, and works offline. A
    picture of a very long history counts commits, and does not draw each.
    """
    path = Path(output)
    form = form_of(output, FORMS)
    from chronotile.format.timestamps import now_ms
    from chronotile.report.output import progress
    from chronotile.timeline.picture import make_picture

    log = access.open_log(array)
    with progress("drawing"):
        picture = make_picture(
            log,
            now_ms() if now is None else log.moment(now, "--now"),
            cells=cells or height is not None,
            height=height or "cells",
        )
        data = _draw(picture, form)
        path.write_bytes(data)
    return TimelineReport(picture=picture, output=output, size=len(data))


def _draw(picture: Picture, form: str) -> bytes:
    if form == ".html":
        from chronotile.timeline.page import to_html

        return to_html(picture).encode()
    from chronotile.timeline.chart import to_png, to_svg

    return to_png(picture) if form == ".png" else to_svg(picture).encode()
