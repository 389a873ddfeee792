"""`chronotile timeline`: a picture of the history.

In: an array, and the file to write. Out: that file: a page with a slider, SVG or PNG. What it
shows is `timeline`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    Moment,
    Place,
    array_argument,
    json_option,
    open_log,
    storage_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.report.output import Text
    from chronotile.timeline.model import Picture

FORMS = (".html", ".svg", ".png")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineReport:
    """A picture that was written."""

    picture: Picture
    output: str
    size: int

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

    def to_text(self) -> Iterator[Text]:
        """One line."""
        from chronotile.report.output import Text, count_text, size_text

        shown = count_text(self.picture.fragments, "fragment")
        marks = count_text(self.picture.commits, "delete or update", "deletes and updates")
        how = ", counted" if self.picture.counts is not None else ""
        yield Text(f"{self.output}: {shown}, {marks}{how}; {size_text(self.size)}")


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
@click.option("--now", metavar="TIME", type=Moment(), help="What counts as now.")
@storage_options
@json_option
def timeline(
    array: str,
    output: str,
    now: int | None,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> None:
    """A picture of the history of ARRAY: fragments, deletes, updates, and what replaced what.

    An .html page has a slider that shows what is visible at each moment, and works offline. A
    history too long to be drawn commit by commit is counted.
    """
    path = Path(output)
    if path.suffix.lower() not in FORMS:
        message = f"-o: expected a file that ends in {', '.join(FORMS)}, found {output!r}"
        raise click.UsageError(message, click.get_current_context())
    from chronotile.format.timestamps import now_ms
    from chronotile.report.output import emit, progress
    from chronotile.timeline.model import make_picture

    opened = open_log(array, key_file, storage)
    with progress("drawing"):
        picture = make_picture(opened, now_ms() if now is None else now)
        data = _draw(picture, path.suffix.lower())
        path.write_bytes(data)
    emit(TimelineReport(picture=picture, output=output, size=len(data)), as_json=as_json)


def _draw(picture: Picture, form: str) -> bytes:
    if form == ".html":
        from chronotile.timeline.page import to_html

        return to_html(picture).encode()
    from chronotile.timeline.chart import to_png, to_svg

    return to_png(picture) if form == ".png" else to_svg(picture).encode()
