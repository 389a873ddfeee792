"""The picture of a dataset: a lane for each array, on one time axis.

In: the pictures of arrays, each with its path in the dataset. Out: one `Picture` over the moments
of all of them, and its chart. The slider of the page moves all lanes at once: the places of bars
and marks count in the common list of moments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

from chronotile.format.timestamps import span_text
from chronotile.show.axes import (
    COLOURS,
    EXPRESSION,
    HIDDEN,
    SEEN,
    WIDTH,
    Axes,
    has_heights,
    height_columns,
    height_encoding,
    height_words,
)
from chronotile.show.output import count_text
from chronotile.show.picture import NEVER_SEEN, Bar, Mark, Picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROW = 26
_TALLEST = 1600


def join_pictures(group: str, pictures: Sequence[tuple[str, Picture]], now: int) -> Picture:
    """Put the pictures of arrays into one, each in a lane of its own.

    Args:
        group: Where the dataset is.
        pictures: Path of an array in the dataset, and its picture.
        now: The moment that counts as now, in ms.
    """
    moments = tuple(sorted({0}.union(*(picture.moments for _, picture in pictures))))
    bars = [bar for path, picture in pictures for bar in _bars(path, picture, moments)]
    marks = [mark for path, picture in pictures for mark in _marks(path, picture, moments)]
    return Picture(
        array=group,
        moments=moments,
        now=bisect_right(moments, now) - 1,
        bars=tuple(bars),
        marks=tuple(sorted(marks, key=lambda mark: (mark.time, mark.name))),
        spans=(),
        links=(),
        counts=None,
        fragments=sum(picture.fragments for _, picture in pictures),
        commits=sum(picture.commits for _, picture in pictures),
        lanes=tuple(path for path, _ in pictures),
        height=pictures[0][1].height if pictures else "cells",
    )


def _bars(path: str, picture: Picture, moments: tuple[int, ...]) -> Iterator[Bar]:
    if picture.counts is not None:
        # Too long a history for a bar each: one for all writes between two moments.
        for place, count in enumerate(picture.counts.writes):
            time = picture.moments[place]
            first = bisect_left(moments, time)
            if count:
                name = f"{path}: {count_text(count, 'write')}"
                yield Bar(
                    *(name, time, time, first, len(moments) - 1, None, "counted", None, ""), path
                )
        return
    for bar in picture.bars:
        first, last = NEVER_SEEN, NEVER_SEEN
        if bar.first != NEVER_SEEN:
            first, last = bisect_left(moments, picture.moments[bar.first]), len(moments) - 1
            if bar.until is not None:
                last = bisect_right(moments, bar.until) - 1
        yield bar._replace(name=f"{path}: {bar.name}", first=first, last=last, lane=path)


def _marks(path: str, picture: Picture, moments: tuple[int, ...]) -> Iterator[Mark]:
    for mark in picture.marks:
        first = bisect_left(moments, picture.moments[mark.first])
        text = f"{path}: {mark.text}"
        yield mark._replace(name=f"{path}: {mark.name}", first=first, text=text, lane=path)


def lanes_chart(picture: Picture, *, switch: bool = False) -> Any:
    """Draw a lane for each array: its writes, visible or hidden, and its deletes."""
    axes = Axes(picture)
    alt, order = axes.alt, list(picture.lanes)
    step = max(4, min(_ROW, _TALLEST // max(len(order), 1)))
    labels = alt.Axis(labels=step > 8, ticks=False, grid=step > 8, labelLimit=260)
    y = alt.Y("lane:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=labels)
    layers = [_writes(axes, y, step), *_commits(axes, y), axes.now_line(bottom=True)]
    chart = alt.layer(*layers).properties(width=WIDTH, height={"step": step})
    subtitle = ["A lane for each array: its writes, and its deletes and updates as marks."]
    subtitle += height_words(picture, switch=switch)
    return axes.joined(chart, title=f"History of {picture.title}", subtitle=subtitle)


def _writes(axes: Axes, y: Any, step: float) -> Any:
    alt, picture = axes.alt, axes.picture
    rows = [
        {
            "lane": bar.lane,
            "name": bar.name,
            "t1": float(bar.t1),
            "t2": float(bar.t2),
            "first": bar.first,
            "last": bar.last,
            "written": span_text(bar.t1, bar.t2),
            "why": bar.reason + (f" by {bar.because}" if bar.because else ""),
            **height_columns(bar),
            **({"holds": bar.holds} if bar.holds else {}),
        }
        for bar in picture.bars
    ]
    visible = "datum.first >= 0 && datum.first <= moment && moment <= datum.last"
    base = alt.Chart(axes.values(rows)).transform_calculate(
        state=f"{visible} ? 'visible at this moment' : 'hidden at this moment'",
        thick=EXPRESSION,
    )
    colour = alt.Color(
        "state:N",
        scale=axes.palette({"visible at this moment": SEEN, "hidden at this moment": HIDDEN}),
        legend=alt.Legend(title="fragments", orient="right"),
    )
    holds = {"holds": "holds"} if has_heights(picture) else {}
    tips = axes.tips(name="fragment", written="written", why="because", **holds)
    shared = {"y": y, "color": colour, "tooltip": tips}
    start = axes.x("t1", bottom=True)
    period = base.mark_bar(height={"band": 0.5}, cornerRadius=2, opacity=0.6)
    point = base.mark_tick(thickness=4, height={"band": 0.6}, opacity=1)
    if has_heights(picture):
        period = base.mark_bar(cornerRadius=2, opacity=0.6)
        point = base.mark_tick(thickness=4, opacity=1)
        shared |= height_encoding(axes, step)
    return alt.layer(period.encode(x=start, x2="t2", **shared), point.encode(x=start, **shared))


def _commits(axes: Axes, y: Any) -> Iterator[Any]:
    for kind, shape in (("delete", "diamond"), ("update", "triangle-up")):
        rows = [
            {
                "lane": mark.lane,
                "time": float(mark.time),
                "first": mark.first,
                "when": span_text(mark.time, mark.time),
                "text": mark.text,
                "note": "; ".join(mark.notes),
            }
            for mark in axes.picture.marks
            if mark.kind == kind
        ]
        if rows:
            alt = axes.alt
            chart = alt.Chart(axes.values(rows)).transform_calculate(
                strength="datum.first <= moment ? 1 : 0.25"
            )
            yield chart.mark_point(size=90, filled=True, shape=shape, color=COLOURS[kind]).encode(
                x=axes.x("time", bottom=True),
                y=y,
                opacity=alt.Opacity("strength:Q", scale=None, legend=None),
                tooltip=axes.tips(text="what", when="when", note="note"),
            )
