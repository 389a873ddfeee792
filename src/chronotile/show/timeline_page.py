"""The picture of a history, as one HTML page with a slider through time.

In: a `Picture`. Out: a page that works offline. Its script moves what `chart` drew, and compares
places in the list of moments: a browser cannot compare all times exactly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chronotile.format.timestamps import is_clock_local, now_ms
from chronotile.safe_text import printable, printable_json
from chronotile.show.axes import MONTHS, STEPS, ends, is_calendar, position
from chronotile.show.chart import (
    AXIS,
    MOST_ROWS,
    RIGHT,
    SHAPES,
    THIN,
    TICK,
    WIDTH,
    drawn,
    has_heights,
    layout_of,
    links,
    short_name,
    tall,
    words,
)
from chronotile.show.page import escaped, page, resource, when_text

if TYPE_CHECKING:
    from chronotile.show.chart import Layout
    from chronotile.show.picture import Counts, Mark, Picture

_HEIGHT = "The taller a fragment, the more"


def to_html(picture: Picture, back: tuple[str, str] | None = None) -> str:
    """Draw the picture as a page, which may have a link that leads back."""
    layout = layout_of(picture)
    height = layout.bottom + AXIS
    # JSON may not end the script element around it.
    model = printable_json(json.dumps(page_model(picture, layout))).replace("<", "\\u003c")
    controls, lists = resource("timeline_page.html").split("<!-- the picture -->")
    chart = (
        f'<svg id="chart" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'aria-label="the history">{drawn(picture, layout)}</svg>'
    )
    script = f'<script id="model" type="application/json">{model}</script>'
    return page(
        f"History of {picture.title}",
        f"{controls}{chart}{_legend(picture)}{lists}{script}",
        made_ms=now_ms(),
        intro=f"<p>{escaped(picture.array)}</p>",
        style=resource("timeline.css") + resource("timeline_page.css"),
        script=resource("timeline_page.js"),
        back=back,
    )


def _legend(picture: Picture) -> str:
    swatches = {"seen": "visible at this moment", "hidden": "hidden"}
    if picture.counts is not None:
        swatches = {"seen": "write", "delete": "delete", "update": "update"}
    keys = [
        f'<i class="swatch" style="background:var(--{colour})"></i>{name}'
        for colour, name in swatches.items()
    ]
    kinds = {mark.kind for mark in (*picture.marks, *picture.changes) if mark.lane}
    keys += [
        f'<svg class="key" viewBox="-7 -7 14 14"><path class="mark {kind}" d="{outline}"/></svg>'
        f"{kind}"
        for kind, outline in SHAPES.items()
        if kind in kinds
    ]
    told = " ".join(line for line in words(picture) if not line.startswith(_HEIGHT))
    first = "" if picture.counts is not None else THIN
    listed = "".join(f"<span>{key}</span>" for key in keys)
    return (
        f'<div id="legend">{listed}<p class="soft">{escaped(f"{first} {told}".strip())}</p></div>'
    )


def page_model(picture: Picture, layout: Layout) -> dict[str, Any]:
    """Gather what the page's script knows of the history."""
    counts = picture.counts
    low, high = ends(picture)
    has_dates = is_calendar(low, high)

    def named(moment: int) -> str:
        """Name a moment as the axis does, too."""
        return when_text(moment) + ("" if has_dates else f" ({moment:,} ms)")

    return {
        "moments": [
            {"ms": str(moment), "text": named(moment), "x": position(picture, place)}
            for place, moment in enumerate(picture.moments)
        ],
        "now": picture.now,
        "ends": [low, high],
        "axis": {"steps": STEPS, "months": MONTHS, "calendar": has_dates}
        | {"local": is_clock_local(), "room": TICK, "right": RIGHT, "left": layout.left},
        "rows": {"most": len(layout.labels), "step": layout.step}
        | {"share": len(picture.bars) > MOST_ROWS and not picture.lanes},
        "bottom": layout.bottom,
        "height": picture.height if has_heights(picture) else None,
        "fragments": picture.fragments,
        "bars": [
            {
                "name": printable(bar.name),
                "short": printable(f"{bar.lane}: " if bar.lane else "") + short_name(bar),
                "when": when_text(bar.t1, bar.t2),
                "t1": float(bar.t1),
                "t2": float(bar.t2),
                "first": bar.first,
                "last": bar.last,
                "holds": bar.holds,
                "tall": height,
            }
            for bar, height in zip(picture.bars, tall(picture), strict=True)
        ],
        "links": list(links(picture)),
        "marks": [_mark(mark) for mark in picture.marks],
        "counts": counts and _sums(counts),
    }


def _mark(mark: Mark) -> dict[str, Any]:
    return {
        "name": printable(mark.name),
        "kind": mark.kind,
        "first": mark.first,
        "time": when_text(mark.time),
        "text": printable(mark.text),
        "note": printable("; ".join(mark.notes)),
    }


def _sums(counts: Counts) -> list[dict[str, int]]:
    columns = (counts.seen, counts.deletes_in_force, counts.updates_in_force)
    names = ("fragments", "deletes", "updates")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
