"""The chart of a history that is too long to draw each commit.

In: a `Picture` with counts. Out: a chart of what is visible, and of what happened, over time.
Counts nothing itself.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chronotile.format.timestamps import time_text
from chronotile.timeline.axes import COLOURS, SEEN, WIDTH, Axes, ends

if TYPE_CHECKING:
    from chronotile.timeline.picture import Counts, Picture


def counted(picture: Picture, counts: Counts) -> Any:
    """Draws counts on the time axis: what is visible, and what happened."""
    axes = Axes(picture)
    alt = axes.alt
    _, high = ends(picture)
    seen = [
        {"time": t, "seen": n, "when": time_text(m)}
        for t, n, m in zip(map(float, picture.moments), counts.seen, picture.moments, strict=True)
        if t >= picture.first_ms
    ]
    seen.append(seen[-1] | {"time": high})
    area = (
        alt.Chart(axes.values(seen))
        .mark_area(interpolate="step-after", color=SEEN, opacity=0.55, line={"color": SEEN})
        .encode(
            x=axes.x("time", bottom=False),
            y=alt.Y("seen:Q", title="fragments visible"),
            tooltip=[alt.Tooltip("when:N"), alt.Tooltip("seen:Q", format=",")],
        )
    )
    colour = alt.Color(
        "kind:N",
        scale=axes.palette({"write": SEEN} | {k: COLOURS[k] for k in ("delete", "update")}),
        legend=alt.Legend(title="commits"),
    )
    bars = (
        alt.Chart(axes.values(_bars(picture, counts)))
        .mark_rect()
        .encode(
            x=axes.x("from", bottom=True),
            x2="to",
            y=alt.Y("base:Q", title="commits"),
            y2="top",
            color=colour,
            tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("count:Q", format=",")],
        )
    )
    total = f"{picture.fragments:,} fragments, {picture.commits:,} deletes and updates, counted"
    return axes.joined(
        alt.layer(area, axes.now_line(bottom=False)).properties(width=WIDTH, height=240),
        alt.layer(bars, axes.now_line(bottom=True)).properties(width=WIDTH, height=140),
        title=f"History of {picture.title}",
        subtitle=["Above: what an open at each moment sees. Below: what happened.", total],
    )


def _bars(picture: Picture, counts: Counts) -> list[dict[str, Any]]:
    """What happened between each two moments: one bar for each kind, one on top of another."""
    kinds = {"write": counts.writes, "delete": counts.deletes, "update": counts.updates}
    bars: list[dict[str, Any]] = []
    for place, (start, end) in enumerate(pairwise(map(float, picture.moments)), start=1):
        base = 0
        for kind, column in kinds.items():
            count = column[place]
            if count and end > picture.first_ms:
                times = {"from": max(start, float(picture.first_ms)), "to": end}
                row = {"kind": kind, "count": count, "base": base, "top": base + count}
                bars.append(times | row)
                base += count
    return bars
