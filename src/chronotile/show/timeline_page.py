"""The picture of a history, as one HTML page with a slider through time.

In: a `Picture`. Out: a page that works offline: it contains the libraries that draw it. The slider
compares places in the list of moments: a browser cannot compare all times exactly.
"""

from __future__ import annotations

import html
import json
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from chronotile.errors import printable
from chronotile.format.timestamps import time_text
from chronotile.show.axes import WIDTH, ends, has_heights, position, printable_document
from chronotile.show.chart import bundle, spec_text

if TYPE_CHECKING:
    from chronotile.show.picture import Counts, Picture


def to_html(picture: Picture) -> str:
    """Draw the picture as a page."""
    template = (resources.files("chronotile.show") / "timeline_page.html").read_text("utf-8")
    return Template(template).substitute(
        title=html.escape(printable(f"History of {picture.title}"), quote=False),
        model=_inert(json.dumps(printable_document(page_model(picture)))),
        spec=_inert(spec_text(picture, switch=True)),
        bundle=bundle().replace("</script", "<\\/script"),
    )


def page_model(picture: Picture) -> dict[str, Any]:
    """Gather what the page knows of the history."""
    counts = picture.counts
    return {
        "moments": [
            {"ms": str(moment), "text": time_text(moment), "x": position(picture, place)}
            for place, moment in enumerate(picture.moments)
        ],
        "now": picture.now,
        "ends": list(ends(picture)),
        "width": WIDTH,
        "height": picture.height if has_heights(picture) else None,
        "fragments": picture.fragments,
        "bars": [
            {"name": bar.name, "first": bar.first, "last": bar.last, "holds": bar.holds}
            for bar in picture.bars
        ],
        "marks": [
            {
                "name": mark.name,
                "kind": mark.kind,
                "first": mark.first,
                "time": time_text(mark.time),
                "text": mark.text,
                "note": "; ".join(mark.notes),
            }
            for mark in picture.marks
        ],
        "counts": counts and _sums(counts),
    }


def _sums(counts: Counts) -> list[dict[str, int]]:
    columns = (counts.seen, counts.deletes_in_force, counts.updates_in_force)
    names = ("fragments", "deletes", "updates")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _inert(document: str) -> str:
    """Escape JSON, so that it cannot end the script element around it."""
    return document.replace("<", "\\u003c")
