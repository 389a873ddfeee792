"""The parts that all panels of a picture share: time axis, colours, heights of bars.

In: a `Picture`. Out: `Axes`, which helps to draw panels and joins them; the encoding of a bar's
height, by its cells or by its bytes, as the parameter `tall` says; and a document with only
printable text. Knows nothing of what a panel shows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError, printable
from chronotile.format.timestamps import is_clock_local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chronotile.show.picture import Bar, Picture


WIDTH = 860
_CALENDAR_FROM = 100_000_000_000
"""Times before this (in 1973) are test data: the axis shows them as numbers, not as dates."""

SEEN, HIDDEN, RANGE = "#2166ac", "#bdbdbd", "#762a83"
COLOURS = {
    "delete": "#b2182b",
    "update": "#e08214",
    "schema": "#00796b",
    "metadata": "#8d6e63",
    "operation": "#1b7837",
    ".con": RANGE,
    ".ign": "#737373",
}


def altair() -> Any:
    """Load the plotting library, which is an extra."""
    try:
        import altair as library
    except ImportError as cause:
        problem = "expected the package altair (pip install 'chronotile[plot]'), found none"
        raise ChronotileError("timeline", problem) from cause
    return library


def printable_document(document: Any) -> Any:
    r"""Escape all characters in a chart or model that cannot be printed.

    XML has no control characters: the library that draws ends the process if it finds one.

    >>> printable_document({"title": ["a\x1b", 1]})
    {'title': ['a\\x1b', 1]}
    """
    match document:
        case str():
            return printable(document)
        case list():
            return [printable_document(item) for item in document]
        case dict():
            return {name: printable_document(item) for name, item in document.items()}
    return document


def clipped(document: Any) -> Any:
    """End the marks of a chart at the edge of their panel, also where a user has zoomed in.

    >>> clipped({"layer": [{"mark": {"type": "bar"}}]})
    {'layer': [{'mark': {'type': 'bar', 'clip': True}}]}
    """
    match document:
        case list():
            return [clipped(item) for item in document]
        case {"mark": dict(mark), **rest}:
            return {"mark": mark | {"clip": True}} | {n: clipped(v) for n, v in rest.items()}
        case dict():
            return {name: clipped(item) for name, item in document.items()}
    return document


def position(picture: Picture, moment: int) -> float:
    """Place a moment on the axis; the last one, which is now, is at the right edge."""
    low, high = ends(picture)
    if moment >= len(picture.moments) - 1:
        return high
    return min(max(float(picture.moments[moment]), low), high)


def ends(picture: Picture) -> tuple[float, float]:
    """Find the ends of the axis: a little before the first moment, and after the last one."""
    first, last = float(picture.first_ms), float(picture.last_ms)
    margin = max((last - first) * 0.05, 1.0, first * 1e-15)
    return max(first - margin, 0.0), last + margin


class Axes:
    """The time axis, and parts that all layers share."""

    def __init__(self, picture: Picture) -> None:
        self.alt = altair()
        self.picture = picture
        low, high = ends(picture)
        self.calendar = low >= _CALENDAR_FROM
        self.kind = "T" if self.calendar else "Q"
        self.is_local = is_clock_local()
        more: dict[str, Any] = {} if self.calendar else {"zero": False}
        if self.calendar and not self.is_local:
            more = {"type": "utc"}
        # The buttons of the page set both ends.
        self.low = self.alt.param(name="low", value=low)
        self.high = self.alt.param(name="high", value=high)
        domain = {"domainMin": {"expr": "low"}, "domainMax": {"expr": "high"}}
        self.scale = self.alt.Scale(**domain, nice=False, clamp=False, **more)
        self._span_ms = high - low
        self.moment = self.alt.param(name="moment", value=picture.now)
        self.height = self.alt.param(name="tall", value=picture.height)
        self.at = self.alt.param(name="at", value=position(picture, picture.now))

    def x(self, field: str, *, bottom: bool) -> Any:
        """Encode a place on the time axis; only the bottom panel has labels."""
        axis = None
        if bottom and self.calendar:
            zone = "local time" if self.is_local else "UTC"
            axis = self.alt.Axis(
                title=f"time ({zone})",
                grid=False,
                labelOverlap=True,
                labelExpr=self._label(),
                tickCount=8,
            )
        elif bottom:
            axis = self.alt.Axis(title="ms since the epoch", grid=False, labelOverlap=True)
        return self.alt.X(f"{field}:{self.kind}", scale=self.scale, axis=axis)

    def _label(self) -> str:
        """Label a tick in two lines: the date, and the time of day as exact as the axis needs."""
        form = "timeFormat" if self.is_local else "utcFormat"
        clock = "%H:%M" if self._span_ms > 600_000 else "%H:%M:%S"
        clock = clock if self._span_ms > 10_000 else "%H:%M:%S.%L"
        return f"[{form}(datum.value, '%Y-%m-%d'), {form}(datum.value, '{clock}')]"

    def values(self, rows: Sequence[dict[str, Any]]) -> Any:
        """Make rows the data of a layer."""
        return self.alt.Data(values=list(rows))

    def palette(self, colours: Mapping[str, str]) -> Any:
        """Map words to colours, or to shapes."""
        return self.alt.Scale(domain=list(colours), range=list(colours.values()))

    def tips(self, **titles: str) -> list[Any]:
        """Make the tooltip of a row: field -> its title."""
        return [self.alt.Tooltip(f"{field}:N", title=title) for field, title in titles.items()]

    def now_line(self, *, bottom: bool) -> Any:
        """Draw the line that the slider moves."""
        chart = self.alt.Chart(self.values([{"one": 1}])).transform_calculate(here="at")
        return chart.mark_rule(color="#1b7837", strokeWidth=2, opacity=0.75).encode(
            x=self.x("here", bottom=bottom)
        )

    def joined(self, *panels: Any, title: str, subtitle: list[str]) -> Any:
        """Join panels, one above the other, on one time axis."""
        alt = self.alt
        return (
            alt.vconcat(*panels, spacing=8, background="white")
            .add_params(self.moment, self.at, self.low, self.high, self.height)
            .resolve_scale(x="shared", color="independent", shape="independent")
            .properties(
                title=alt.TitleParams(title, subtitle=subtitle, anchor="start", offset=12),
                padding={"left": 12, "top": 12, "right": 30, "bottom": 24},
            )
            .configure_view(stroke="#dddddd")
            .configure_axis(labelColor="#444444", titleColor="#444444", labelFontSize=11)
            .configure_title(fontSize=15, subtitleColor="#555555")
            .configure_legend(titleColor="#444444", labelColor="#444444")
        )


EXPRESSION = "tall == 'bytes' ? datum.root_bytes : datum.root_cells"
"""What the height of a bar goes by. Areas compare as what they stand for, so it is a root."""

_THINNEST = 2


def has_heights(picture: Picture) -> bool:
    """Return True if the cells or bytes of some fragment are known."""
    return any(bar.cells or bar.bytes for bar in picture.bars)


def height_columns(bar: Bar) -> dict[str, float]:
    """Give the columns that `EXPRESSION` reads."""
    return {"root_cells": math.sqrt(bar.cells or 0), "root_bytes": math.sqrt(bar.bytes or 0)}


def height_encoding(axes: Axes, step: float) -> dict[str, Any]:
    """Encode the height of bars in rows that are `step` high; empty if no size is known.

    The column `thick` has to be `EXPRESSION`.
    """
    if not has_heights(axes.picture):
        return {}
    scale = axes.alt.Scale(range=[_THINNEST, step * 0.9], zero=True)
    return {"size": axes.alt.Size("thick:Q", scale=scale, legend=None)}


def height_words(picture: Picture, *, switch: bool) -> list[str]:
    """Explain heights in the legend; a page has a switch for them."""
    if not has_heights(picture):
        return []
    what = "cells or bytes, as chosen above," if switch else picture.height
    return [f"The thicker a fragment, the more {what} it holds."]
