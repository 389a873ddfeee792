"""The picture of a history, as one HTML page with a slider through time.

In: a `Picture`. Out: a page that works offline: the libraries that draw it are inside. What the
slider shows is decided by places in the list of moments, never by comparing times in the browser.
"""

from __future__ import annotations

import json
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from chronotile.errors import printable
from chronotile.format.timestamps import local_time
from chronotile.timeline.axes import position, printable_document
from chronotile.timeline.chart import library, spec_text

if TYPE_CHECKING:
    from chronotile.timeline.model import Picture


def to_html(picture: Picture) -> str:
    """Draws the picture as a page."""
    template = (resources.files("chronotile.timeline") / "page.html").read_text("utf-8")
    return Template(template).substitute(
        title=_escaped(printable(f"History of {picture.title}")),
        model=_inert(json.dumps(printable_document(page_model(picture)))),
        spec=_inert(spec_text(picture)),
        bundle=library().replace("</script", "<\\/script"),
    )


def page_model(picture: Picture) -> dict[str, Any]:
    """What the page knows of the history."""
    counts = picture.counts
    return {
        "moments": [
            {"ms": str(moment), "text": local_time(moment), "x": position(picture, at)}
            for at, moment in enumerate(picture.moments)
        ],
        "now": picture.now,
        "fragments": picture.fragments,
        "bars": [{"name": bar.name, "first": bar.first, "last": bar.last} for bar in picture.bars],
        "marks": [
            {
                "name": mark.name,
                "kind": mark.kind,
                "first": mark.first,
                "time": str(mark.time),
                "text": mark.text,
                "note": "; ".join(mark.notes),
            }
            for mark in picture.marks
        ],
        "counts": None
        if counts is None
        else [
            {"fragments": seen, "deletes": deletes, "updates": updates}
            for seen, deletes, updates in zip(
                counts.seen, counts.deletes_in_force, counts.updates_in_force, strict=True
            )
        ],
    }


def _inert(document: str) -> str:
    """JSON that cannot end the script element that it stands in."""
    return document.replace("<", "\\u003c")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
