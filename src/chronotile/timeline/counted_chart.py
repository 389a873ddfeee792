"""The picture of a history that is too long to be drawn commit by commit.

In: a `Picture` with counts. Out: a chart of what is visible, and of what happened, over time.
Counts nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.format.timestamps import local_time
from chronotile.timeline.axes import COLOURS, SEEN, WIDTH, Axes, ends

if TYPE_CHECKING:
    from chronotile.timeline.model import Counts, Picture


def counted(picture: Picture, counts: Counts) -> Any:
    """Counts on the time axis: what is visible, and what happened."""
    axes = Axes(picture)
    alt = axes.alt
    _, high = ends(picture)
    seen = [
        {"time": t, "seen": n, "when": local_time(m)}
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
        scale=alt.Scale(
            domain=["write", "delete", "update"],
            range=[SEEN, COLOURS["delete"], COLOURS["update"]],
        ),
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
    """What happened between each two moments: one bar a kind, each upon the one before."""
    edges = [float(moment) for moment in picture.moments]
    done: list[dict[str, Any]] = []
    for at in range(1, len(edges)):
        base = 0
        for kind, column in (
            ("write", counts.writes),
            ("delete", counts.deletes),
            ("update", counts.updates),
        ):
            if column[at] and edges[at] > picture.first_ms:
                row: dict[str, Any] = {
                    "from": max(edges[at - 1], float(picture.first_ms)),
                    "to": edges[at],
                }
                row |= {"kind": kind, "count": column[at], "base": base, "top": base + column[at]}
                done.append(row)
                base += column[at]
    return done
