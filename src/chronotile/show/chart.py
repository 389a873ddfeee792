"""The chart of a history.

In: a `Picture`. Out: an Altair chart, and from it SVG or PNG without a browser. The parameters
`moment` (a place in the list of moments) and `at` (its place on the axis) decide what is drawn as
visible; the slider of the page sets them. A history that is too long to draw each commit is drawn
by its counts.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError
from chronotile.format.names import parse_name
from chronotile.format.timestamps import span_text, time_text
from chronotile.show.axes import (
    COLOURS,
    EXPRESSION,
    HIDDEN,
    RANGE,
    SEEN,
    WIDTH,
    Axes,
    altair,
    clipped,
    ends,
    has_heights,
    height_columns,
    height_encoding,
    height_words,
    printable_document,
)
from chronotile.show.lanes import lanes_chart
from chronotile.show.output import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.show.picture import Bar, Counts, Picture


_SHAPES = {
    "delete": "diamond",
    "update": "triangle-up",
    "schema": "square",
    "metadata": "circle",
    "operation": "cross",
}
_ROW = 20
_TALLEST = 900


def to_svg(picture: Picture) -> str:
    """Draw the picture as SVG."""
    return str(vl_convert().vegalite_to_svg(spec_text(picture)))


def to_png(picture: Picture) -> bytes:
    """Draw the picture as PNG, at twice the size for sharp letters."""
    return bytes(vl_convert().vegalite_to_png(spec_text(picture), scale=2))


def bundle() -> str:
    """Give the JavaScript that draws a chart in a browser, for a page that works offline."""
    return str(vl_convert().javascript_bundle())


def vl_convert() -> Any:
    """Load the library that draws without a browser, which is an extra."""
    try:
        import vl_convert as library
    except ImportError as cause:
        problem = "expected vl-convert-python (pip install 'chronotile[plot]'), found none"
        raise ChronotileError("picture", problem) from cause
    return library


def spec_text(picture: Picture, *, switch: bool = False) -> str:
    """Write the chart as a Vega-Lite document; `switch` if its page has one for heights."""
    counts = picture.counts
    if picture.lanes:
        chart = lanes_chart(picture, switch=switch)
    else:
        chart = _drawn(picture, switch=switch) if counts is None else counted(picture, counts)
    with altair().data_transformers.enable("default", max_rows=None):
        return json.dumps(printable_document(clipped(chart.to_dict())))


def _drawn(picture: Picture, *, switch: bool) -> Any:
    axes = Axes(picture)
    commits = _commit_panel(axes)
    fragments = _fragment_panel(axes, bottom=commits is None)
    shown = [panel for panel in (fragments, commits) if panel is not None]
    thin = "Thin: the moments at which an open sees it. Green: the moment that is shown."
    subtitle = [f"Thick: the time that a fragment holds. {thin}"]
    if picture.marks:
        subtitle.append("Lines through fragments: a delete or update, which touches what is left.")
    if picture.links:
        subtitle.append("Dotted: a .vac says that the upper fragments live on in the lower one.")
    subtitle += height_words(picture, switch=switch)
    return axes.joined(*shown, title=f"History of {picture.title}", subtitle=subtitle)


def _labels(picture: Picture) -> dict[str, str]:
    """Give each fragment a short label, all different."""
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for bar in picture.bars:
        label = parse_name(bar.name).uuid[:8]
        while label in taken:
            label += "*"
        taken.add(label)
        labels[bar.name] = label
    return labels


def _fragment_rows(picture: Picture, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Make a row for each fragment: when it was written, when it is seen, and why not longer."""
    _, high = ends(picture)
    rows = []
    for bar in picture.bars:
        seen_from = float(picture.moments[bar.first]) if bar.first >= 0 else None
        rows.append(
            {
                "label": labels[bar.name],
                "name": bar.name,
                "t1": float(bar.t1),
                "t2": float(bar.t2),
                "first": bar.first,
                "last": bar.last,
                "seen_from": seen_from,
                "seen_until": high if bar.until is None else float(bar.until),
                "written": span_text(bar.t1, bar.t2),
                "seen": _seen(picture, bar.first, bar.until),
                "why": bar.reason + (f" by {bar.because}" if bar.because else ""),
                "spoken": _spoken(picture, bar, labels[bar.name]),
                **height_columns(bar),
                **({"holds": bar.holds} if bar.holds else {}),
            }
        )
    return rows


def _spoken(picture: Picture, bar: Bar, label: str) -> str:
    """Describe a fragment for a screen reader."""
    seen = f"seen by opens {_seen(picture, bar.first, bar.until)}"
    words = [f"written {span_text(bar.t1, bar.t2)}", seen, bar.reason]
    return f"fragment {label}: {', '.join([*words, bar.holds] if bar.holds else words)}"


def _fragment_panel(axes: Axes, *, bottom: bool) -> Any:
    alt, picture = axes.alt, axes.picture
    labels = _labels(picture)
    rows = _fragment_rows(picture, labels)
    step = max(3, min(_ROW, _TALLEST // max(len(rows), 1)))
    order = list(labels.values())
    y = alt.Y(
        "label:N",
        sort=order,
        title="fragment",
        scale=alt.Scale(domain=order),
        axis=alt.Axis(labels=step > 9, ticks=False, labelFont="monospace", grid=step > 9),
    )
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
    holds = {"holds": "holds"} if any(bar.holds for bar in picture.bars) else {}
    titles = {"name": "fragment", "written": "written", "seen": "seen by opens", "why": "because"}
    tips = axes.tips(**titles, **holds)
    shared = {"y": y, "color": colour, "tooltip": tips}
    life = (
        base.transform_filter("datum.first >= 0")
        .mark_rule(strokeWidth=2, aria=False)
        .encode(x=axes.x("seen_from", bottom=bottom), x2="seen_until", **shared)
    )
    start = axes.x("t1", bottom=bottom)
    period = base.mark_bar(height={"band": 0.55}, cornerRadius=2, opacity=1)
    point = base.mark_tick(thickness=5, height=max(2, step * 0.55), opacity=1, aria=False)
    if has_heights(picture):
        period = base.mark_bar(cornerRadius=2, opacity=1)
        point = base.mark_tick(thickness=5, opacity=1, aria=False)
        shared |= height_encoding(axes, step)
    layers = [
        *_delete_rules(axes, bottom=bottom),
        life,
        period.encode(x=start, x2="t2", description="spoken:N", **shared),
        point.encode(x=start, **shared),
        *_link_layers(axes, labels, y, order, bottom=bottom),
        axes.now_line(bottom=bottom),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height={"step": step})


def _delete_rules(axes: Axes, *, bottom: bool) -> Iterator[Any]:
    """Draw a faint line for each delete and update, through the fragments that it touches."""
    for kind in ("delete", "update"):
        rows = [{"time": float(m.time)} for m in axes.picture.marks if m.kind == kind]
        if rows:
            chart = axes.alt.Chart(axes.values(rows))
            line = chart.mark_rule(opacity=0.35, strokeWidth=1, color=COLOURS[kind], aria=False)
            yield line.encode(x=axes.x("time", bottom=bottom))


def _link_layers(
    axes: Axes, labels: dict[str, str], y: Any, order: list[str], *, bottom: bool
) -> list[Any]:
    """Draw a line from each replaced fragment to the one that replaces it."""
    alt = axes.alt
    last = {bar.name: float(bar.t2) for bar in axes.picture.bars}
    rows = [
        {"label": labels[old], "new": labels[new], "time": last[old], "path": path}
        for path, old, new in axes.picture.links
        if old in labels and new in labels
    ]
    if not rows:
        return []
    shared = {"x": axes.x("time", bottom=bottom), "tooltip": axes.tips(path="replaced, says")}
    base = alt.Chart(axes.values(rows))
    line = base.mark_rule(color=RANGE, strokeDash=[2, 3], strokeWidth=1.5)
    end = base.mark_point(color=RANGE, shape="circle", size=28, filled=True, aria=False)
    ends = end.encode(y=alt.Y("new:N", sort=order), **shared)
    return [line.encode(y=y, y2="new", **shared), ends]


def _commit_panel(axes: Axes) -> Any:
    alt, picture = axes.alt, axes.picture
    layers = []
    marks = (*picture.marks, *picture.changes)
    lanes = [k for k in _SHAPES if any(m.kind == k for m in marks)]
    lanes += [f".{k}" for k in ("con", "ign") if any(s.kind == k for s in picture.spans)]
    if not lanes:
        return None
    y = alt.Y("lane:N", sort=lanes, title="commits", scale=alt.Scale(domain=lanes), axis=alt.Axis())
    colours = {lane: COLOURS[lane] for lane in lanes}
    legend = alt.Legend(title="commits", orient="right", symbolType="square", symbolOpacity=1)
    colour = alt.Color("lane:N", scale=axes.palette(colours), legend=legend)
    spans = [
        {
            "lane": f".{span.kind}",
            "t1": float(span.t1),
            "t2": float(span.t2),
            "path": span.path,
            "holds": count_text(len(span.times), "commit"),
        }
        for span in picture.spans
    ]
    if spans:
        tips = axes.tips(path="file", holds="names")
        named = [
            {"lane": f".{span.kind}", "time": float(time), "path": span.path}
            for span in picture.spans
            for time in span.times
        ]
        layers.append(
            alt.Chart(axes.values(spans))
            .mark_bar(height=6, opacity=0.35, cornerRadius=3)
            .encode(x=axes.x("t1", bottom=True), x2="t2", y=y, color=colour, tooltip=tips)
        )
        layers.append(
            alt.Chart(axes.values(named))
            .mark_tick(thickness=2, height=12)
            .encode(x=axes.x("time", bottom=True), y=y, color=colour, tooltip=tips[:1])
        )
    if marks:
        layers.append(_marks(axes, y, colour))
    layers.append(axes.now_line(bottom=True))
    return alt.layer(*layers).properties(width=WIDTH, height={"step": 26})


def _marks(axes: Axes, y: Any, colour: Any) -> Any:
    alt = axes.alt
    low, high = ends(axes.picture)
    rows = [
        {
            "lane": mark.kind,
            # A schema may be far from all data: it stands at the edge, with its own time.
            "time": min(max(float(mark.time), low), high),
            "first": mark.first,
            "name": mark.name,
            "when": span_text(mark.time, mark.time),
            "text": mark.text,
            "note": "; ".join(mark.notes),
        }
        for mark in (*axes.picture.marks, *axes.picture.changes)
    ]
    return (
        alt.Chart(axes.values(rows))
        .transform_calculate(strength="datum.first <= moment ? 1 : 0.25")
        .mark_point(size=110, filled=True)
        .encode(
            x=axes.x("time", bottom=True),
            y=y,
            color=colour,
            shape=alt.Shape("lane:N", scale=axes.palette(_SHAPES), legend=None),
            opacity=alt.Opacity("strength:Q", scale=None, legend=None),
            tooltip=axes.tips(text="what", when="when", name="commit", note="note"),
        )
    )


def _seen(picture: Picture, first: int, until: int | None) -> str:
    if first < 0:
        return "never"
    start = f"from {picture.moments[first]}"
    return f"{start} on" if until is None else f"{start} to {until}"


def counted(picture: Picture, counts: Counts) -> Any:
    """Draw counts on the time axis: what is visible, and what happened."""
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
    """Stack a bar for each kind of commit between each two moments."""
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
