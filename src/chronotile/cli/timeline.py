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
    command,
    form_of,
    member_option,
    reporting,
    say,
    wrong_call,
)
from chronotile.errors import ChronotileError, ReadError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.cli.options import Access
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.format.timestamps import Moment
    from chronotile.show.picture import Height, Picture

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
        from chronotile.show.output import count_text, size_text

        shown = count_text(self.picture.fragments, "fragment")
        marks = count_text(self.picture.commits, "delete or update", "deletes and updates")
        how = ", counted" if self.picture.counts is not None else ""
        yield f"{self.output}: {shown}, {marks}{how}; {size_text(self.size)}"


@command(epilog="\b\nExample:\n  chronotile timeline demo/array -o timeline.html")
@array_argument
@click.option(
    "-o",
    "--out",
    "output",
    metavar="FILE",
    type=Place("file"),
    required=True,
    help="An .html, .svg or .png file.",
)
@click.option("--as-of", "now", metavar="TIME", type=MOMENT, help="The moment that counts as now.")
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
    now: Moment | None,
    cells: bool,
    height: Height | None,
    member: dict[str, str],
    access: Access,
) -> TimelineReport:
    """A picture of the history of ARRAY: fragments, deletes, updates, and what replaced what.

    An .html page has a slider that shows what is visible at each moment, and works offline. A
    picture of a very long history counts commits, and does not draw each. Of a group: a lane for
    each array.
    """
    path = Path(output)
    form = form_of(output, FORMS)
    from chronotile.array import Array
    from chronotile.format.timestamps import now_ms
    from chronotile.show.output import progress
    from chronotile.show.picture import draw

    place = access.open(array)
    status = 0
    heights = {"cells": cells or height is not None, "height": height or "cells"}
    moment = now_ms() if now is None else place.moment(now, "--as-of")
    if isinstance(place, Array):
        if member:
            raise wrong_call("--member: expected a group, found an array")
        log = access.log_of(place)
        with progress("drawing"):
            picture = log.picture(moment, **heights)  # type: ignore[arg-type]
    else:
        picture, status = _of_group(place.dataset, member.get("member"), moment, heights)
    data = draw(picture, form)
    path.write_bytes(data)
    return TimelineReport(picture=picture, output=output, size=len(data), status=status)


def _of_group(
    dataset: Dataset, pattern: str | None, moment: int, heights: dict[str, Any]
) -> tuple[Picture, int]:
    """Draw a lane for each array of a group, on one time axis; give the exit status too."""
    from chronotile.cli.group_each import chosen
    from chronotile.show.lanes import join_pictures
    from chronotile.show.output import progress

    arrays = [node for node in chosen(dataset, pattern) if node.found == "array"]
    pictures, status = [], 0
    with progress("reading members", len(arrays)) as step:
        for node in arrays:
            log = dataset.read_log(node)
            if isinstance(log, ChronotileError):
                say(f"note: {node.path} cannot be read: {log}")
                status = ReadError.exit_code
            else:
                pictures.append((node.path, log.picture(moment, **heights)))
            step()
    if not pictures:
        kind = ReadError if status else ChronotileError
        raise kind(dataset.uri, "expected arrays that can be read, found none")
    return join_pictures(dataset.uri, pictures, moment), status
