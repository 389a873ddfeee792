"""The timeline, drawn as SVG.

In: a `Picture`. Out: SVG that stands alone, PNG, or the SVG of a page, whose script moves it: what
has a time carries it in `data-x` (and `data-x2`, if it lasts), and `data-y`. Fragments have a row
each; of more than `MOST_ROWS` several share a row, until one zooms in. The arrays of a dataset have
a row each. A history that is too long to draw each commit is drawn by its counts.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.format.names import uuid_of
from chronotile.show.axes import axis_title, ends, position, ticks
from chronotile.show.output import count_text
from chronotile.show.page import escaped, plain_style, resource, when_text
from chronotile.show.picture import LOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.show.picture import Bar, Counts, Mark, Picture

MOST_ROWS, SHARED_ROWS = 40, 24
"""More fragments than this share rows, and the rows that they share."""
WIDTH, RIGHT, TICK = 960, 42, 84
"""The width of a picture that stands alone, its right margin, and the room that a tick needs."""
AXIS, _GAP, _LANE = 40, 10, 24
_SEEN_HEIGHT, _AREA_HEIGHT, _COUNT_HEIGHT = 0.55, 220, 120
_MOST_TICKS = 400
"""Commits in a `.con` that get a mark of their own."""

SHAPES = {
    "tag": "M-4 6.5V-6H6L3.5-2.7L6 .5H-2V6.5Z",
    "operation": "M-2-5.5H2V-2H5.5V2H2V5.5H-2V2H-5.5V-2H-2Z",
    "delete": "M0-6L5 0L0 6L-5 0Z",
    "update": "M0-5.5L5.5 4.5H-5.5Z",
    "schema": "M-4.5-4.5H4.5V4.5H-4.5Z",
    "metadata": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z",
}
"""Kind of a mark -> its outline; the order is that of the lanes."""


class Layout(NamedTuple):
    """Where things are: the ends of the axis in ms, and pixels."""

    low: float
    high: float
    left: float
    step: float
    """The height of a row."""
    rows: tuple[int, ...]
    """The row of each bar."""
    labels: tuple[str, ...]
    """The label of each row."""
    lanes: tuple[str, ...]
    """The kinds of marks below the rows."""
    panel: float
    """Where the lanes begin."""

    @property
    def wide(self) -> float:
        """The width of the axis."""
        return WIDTH - self.left - RIGHT

    @property
    def bottom(self) -> float:
        """Where the axis is."""
        return self.panel + _LANE * len(self.lanes)

    def x(self, ms: float) -> float:
        """Place a time."""
        return self.left + (ms - self.low) / (self.high - self.low) * self.wide

    def row_y(self, row: int) -> float:
        """Place the middle of a row."""
        return (row + 0.5) * self.step

    def lane_y(self, kind: str) -> float:
        """Place the middle of a lane."""
        return self.panel + (self.lanes.index(kind) + 0.5) * _LANE


def to_svg(picture: Picture) -> str:
    """Draw a picture that stands alone: with a title, a legend and colours of its own."""
    layout = layout_of(picture)
    title = escaped(f"History of {picture.title}")
    moment = (
        "before the first commit" if picture.now <= 0 else f"at {_moment(picture, picture.now)}"
    )
    lines = [f"Blue: visible to an open {moment}. {THIN}", *words(picture)]
    top = 52 + 16 * len(lines)
    parts = [f'<text class="title" x="12" y="28">{title}</text>']
    parts += [
        f'<text class="soft" x="12" y="{48 + 16 * at}">{escaped(line)}</text>'
        for at, line in enumerate(lines)
    ]
    height = top + layout.bottom + AXIS
    rules = plain_style(resource("timeline.css"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}"><style>{rules}</style>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}'
        f'<g transform="translate(0 {top})">{drawn(picture, layout)}</g></svg>'
    )


def to_png(picture: Picture) -> bytes:
    """Draw a picture as PNG, at twice the size for sharp letters."""
    return bytes(vl_convert().svg_to_png(to_svg(picture), scale=2))


def vl_convert() -> Any:
    """Load the library that draws PNG and treemaps, which is an extra."""
    try:
        import vl_convert as library
    except ImportError as cause:
        problem = "expected vl-convert-python (pip install 'chronotile[plot]'), found none"
        raise ChronotileError("picture", problem) from cause
    return library


THIN = "Thick: the time that a fragment holds. Thin: the time at which opens see it."


def words(picture: Picture) -> list[str]:
    """Say what else a picture shows."""
    if picture.counts is not None:
        many = count_text(picture.commits, "delete or update", "deletes and updates")
        total = f"{count_text(picture.fragments, 'fragment')}, {many}, counted"
        return [f"Above: the fragments that opens see. Below: what was committed. {total}."]
    lines = []
    low, high = ends(picture)
    if any(not low <= mark.time <= high for mark in picture.changes):
        lines.append("Hollow, at the edge: long before or after all that is drawn.")
    if picture.lanes:
        lines.append("A row for each array; marks are its deletes, updates, operations and tags.")
    elif len(picture.bars) > MOST_ROWS:
        lines.append("Several fragments share a row until you zoom in.")
    if any(bar.why == LOST for bar in picture.bars):
        lines.append("Red: a fragment whose folder is missing.")
    if picture.links:
        lines.append("Dotted: the lower fragment replaces the upper ones.")
    if has_heights(picture):
        lines.append(f"The taller a fragment, the more {picture.height} it holds.")
    return lines


def has_heights(picture: Picture) -> bool:
    """Return True if the cells or bytes of some fragment are known."""
    return any(bar.cells or bar.bytes for bar in picture.bars)


def layout_of(picture: Picture) -> Layout:
    """Decide where things are."""
    low, high = ends(picture)
    marks = (*picture.marks, *picture.changes) if picture.counts is None else ()
    kinds = {mark.kind for mark in marks if not mark.lane}
    lanes = [kind for kind in SHAPES if kind in kinds]
    lanes += [f".{k}" for k in ("con", "ign") if any(span.kind == k for span in picture.spans)]
    if picture.lanes:
        labels = picture.lanes
        place = {lane: row for row, lane in enumerate(labels)}
        rows = tuple(place[bar.lane] for bar in picture.bars)
    else:
        many = len(picture.bars) > MOST_ROWS
        share = math.ceil(len(picture.bars) / SHARED_ROWS) if many else 1
        rows = tuple(at // share for at in range(len(picture.bars)))
        labels = tuple(_label(picture, at, share) for at in range(0, len(rows), share))
    step = max(14, min(26 if picture.lanes else 20, 680 / max(len(labels), 1)))
    panel = step * len(labels) + _GAP
    if picture.counts is not None:
        panel = _AREA_HEIGHT + _COUNT_HEIGHT + 2 * _GAP
    longest = max(map(len, labels), default=0) if picture.lanes else 0
    left = float(min(max(96, 6.4 * longest + 16), 230))
    return Layout(low, high, left, step, rows, labels, tuple(lanes), panel)


def _label(picture: Picture, at: int, share: int) -> str:
    some = picture.bars[at : at + share]
    return short_name(some[0]) if len(some) == 1 else count_text(len(some), "fragment")


def short_name(bar: Bar) -> str:
    """Shorten the name of a fragment to the start of its id."""
    uuid = uuid_of(bar.name)
    return uuid[:8] if uuid else bar.name


def drawn(picture: Picture, layout: Layout) -> str:
    """Draw the picture itself: rows, lanes, axis and the moment that is shown."""
    # Below the fragments and the marks, which keep their colours.
    line = _at(layout, position(picture, picture.now), 0)
    parts = [*_grid(layout), f'<line class="now" {line} y1="0" y2="{layout.bottom:.0f}"/>']
    parts.append('<g clip-path="url(#inside)">')
    if picture.counts is not None:
        parts += _counted(picture, picture.counts, layout)
    parts += _rules(picture, layout)
    parts += _fragments(picture, layout)
    parts += _links(picture, layout)
    parts += _spans(picture, layout)
    parts += _marks(picture, layout)
    parts.append("</g>")
    parts.append(f'<g id="axis">{"".join(_axis(layout))}</g>')
    # Marks at the very edge are not cut in half.
    clip = f'<rect x="{layout.left - 8:.0f}" y="-4" width="{layout.wide + 16:.0f}"'
    clip += f' height="{layout.bottom + 8:.0f}"/>'
    return f'<clipPath id="inside">{clip}</clipPath>{"".join(parts)}'


def _at(layout: Layout, ms: float, y: float) -> str:
    """Write the attributes of something at a moment."""
    return f'data-x="{ms!r}" data-y="{y:g}" transform="translate({layout.x(ms):.1f} {y:g})"'


def _from(layout: Layout, t1: float, t2: float, least: float = 0) -> str:
    """Write the attributes of a rectangle that lasts from one time to another."""
    x, width = layout.x(t1), layout.x(t2) - layout.x(t1)
    if width < least:
        x, width = x + (width - least) / 2, least
    return (
        f'data-x="{t1!r}" data-x2="{t2!r}" data-least="{least:g}" x="{x:.1f}" width="{width:.1f}"'
    )


def _grid(layout: Layout) -> Iterator[str]:
    for row, label in enumerate(layout.labels):
        yield _row(layout, label, layout.row_y(row), "row")
    for kind in layout.lanes:
        yield _row(layout, kind, layout.lane_y(kind), "lane")
    box = f'x="{layout.left:.0f}" y="0" width="{layout.wide:.0f}" height="{layout.bottom:.0f}"'
    yield f'<rect class="frame" {box}/>'


def _row(layout: Layout, label: str, y: float, kind: str) -> str:
    """Draw a row or a lane: its line, and its label, as far as there is room for it."""
    room = int((layout.left - 16) / 6.2)
    shown = label if len(label) <= room else f"…{label[1 - room :]}"
    place = f'x="{layout.left - 11:.0f}" y="{y + 4:g}" text-anchor="end"'
    line = f'x1="{layout.left:.0f}" x2="{WIDTH - RIGHT}" y1="{y:g}" y2="{y:g}"'
    text = f'<text class="label" {place} data-text="{escaped(label)}">{escaped(shown)}</text>'
    return f'<g class="{kind}"><line class="grid" {line}/>{text}</g>'


def _moment(picture: Picture, place: int) -> str:
    return when_text(picture.moments[place])


def _fragments(picture: Picture, layout: Layout) -> Iterator[str]:
    replaced: dict[str, int] = {}
    for link in picture.links:
        replaced[link.new] = replaced.get(link.new, 0) + 1
    heights = tall(picture)
    for bar, row, by in zip(picture.bars, layout.rows, heights, strict=True):
        is_seen = 0 <= bar.first <= picture.now <= bar.last
        life = ""
        if bar.first >= 0:
            until = layout.high if bar.until is None else float(bar.until)
            since = float(picture.moments[bar.first])
            life = f'<rect class="life" y="-1" height="2" {_from(layout, since, until)}/>'
        height = _SEEN_HEIGHT * layout.step
        if by:
            height = 2 + (0.9 * layout.step - 2) * by[picture.height]
        box = _from(layout, float(bar.t1), float(bar.t2), 5)
        y = layout.row_y(row)
        told = _told(picture, bar, replaced.get(bar.name, 0))
        state = " seen" if is_seen else " lost" if bar.why == LOST else ""
        yield (
            f'<g class="fragment{state}" transform="translate(0 {y:g})" '
            f'role="img" aria-label="{told}">{life}'
            f'<rect class="bar" rx="2" y="{-height / 2:.1f}" height="{height:.1f}" {box}/></g>'
        )


def tall(picture: Picture) -> list[dict[str, float]]:
    """Give the height of each bar by its cells and by its bytes, as a share of the tallest.

    Areas compare as what they stand for, so it is a root.
    """
    if not has_heights(picture):
        return [{} for _ in picture.bars]
    most = {
        by: max(getattr(bar, by) or 0 for bar in picture.bars) or 1 for by in ("cells", "bytes")
    }
    return [
        {by: round(math.sqrt((getattr(bar, by) or 0) / most[by]), 3) for by in most}
        for bar in picture.bars
    ]


def _told(picture: Picture, bar: Bar, replaced: int) -> str:
    """Describe a fragment, for hovers and for screen readers."""
    seen = "no open sees it"
    if bar.first >= 0:
        seen = f"opens see it from {_moment(picture, bar.first)} on"
    if bar.first >= 0 and bar.until is not None:
        seen = f"opens see it from {_moment(picture, bar.first)} to {when_text(bar.until)}"
    seen += f": {bar.why}" if bar.why else ""
    lines = [f"fragment {short_name(bar)}: written {when_text(bar.t1, bar.t2)}", seen]
    lines += [f"it replaces {count_text(replaced, 'fragment')}"] if replaced else []
    lines += [f"it holds {bar.holds}"] if bar.holds else []
    return "&#10;".join(map(escaped, (*lines, bar.name)))


def _rules(picture: Picture, layout: Layout) -> Iterator[str]:
    """Draw a faint line for each delete and update, through the fragments that it touches."""
    if picture.lanes or picture.counts is not None or len(picture.marks) > MOST_ROWS:
        return
    bottom = len(layout.labels) * layout.step
    for mark in picture.marks:
        line = f'<line class="rule {mark.kind}" {_at(layout, float(mark.time), 0)}'
        yield f'{line} y1="0" y2="{bottom:g}"/>'


def _links(picture: Picture, layout: Layout) -> Iterator[str]:
    """Draw a line from each replaced fragment to the one that replaces it."""
    for time, old, new in links(picture):
        x, rows = layout.x(time), (layout.rows[old], layout.rows[new])
        ys = [layout.row_y(row) for row in rows]
        shown = "" if rows[0] != rows[1] else ' style="display:none"'
        yield f'<path class="link" d="M{x:.1f} {ys[0]:g}V{ys[1]:g}"{shown}/>'


def links(picture: Picture) -> Iterator[tuple[float, int, int]]:
    """Give the end of each replaced fragment, its place, and that of what replaces it."""
    place = {bar.name: at for at, bar in enumerate(picture.bars)}
    for link in picture.links:
        if link.old in place and link.new in place:
            old = place[link.old]
            yield float(picture.bars[old].t2), old, place[link.new]


def _spans(picture: Picture, layout: Layout) -> Iterator[str]:
    for span in picture.spans:
        y = layout.lane_y(f".{span.kind}")
        names = f"it names {count_text(len(span.times), 'commit')}"
        told = "&#10;".join(map(escaped, (span.path, names)))
        box = _from(layout, float(span.t1), float(span.t2), 6)
        yield f'<rect class="span" rx="3" y="{y - 3:g}" height="6" {box} aria-label="{told}"/>'
        for time in span.times[:_MOST_TICKS]:
            yield f'<path class="named" d="M0-6V6" {_at(layout, float(time), y)}/>'


def _marks(picture: Picture, layout: Layout) -> Iterator[str]:
    if picture.counts is not None:
        return
    place = {lane: row for row, lane in enumerate(picture.lanes)}
    for mark in (*picture.marks, *picture.changes):
        y = layout.row_y(place[mark.lane]) if mark.lane else layout.lane_y(mark.kind)
        time = min(max(float(mark.time), layout.low), layout.high)
        came = picture.came(mark)
        state = "" if layout.low <= mark.time <= layout.high else " beyond"
        state += " later" if came > picture.now else ""
        yield (
            f'<path class="mark {mark.kind}{state}" d="{SHAPES[mark.kind]}" data-came="{came}" '
            f'{_at(layout, time, y)} role="img" aria-label="{_mark_told(mark)}"/>'
        )


def _mark_told(mark: Mark) -> str:
    name = () if mark.kind == "tag" else (mark.name,)
    lines = (mark.text, when_text(mark.time), *mark.notes, *name)
    return "&#10;".join(map(escaped, lines))


def _axis(layout: Layout) -> Iterator[str]:
    for tick in ticks(layout.low, layout.high, layout.wide / TICK):
        place = _at(layout, tick.ms, layout.bottom)
        texts = f'<text y="18">{tick.text}</text><text y="31">{tick.day}</text>'
        yield f'<g class="tick" {place}><path d="M0 0V5"/>{texts}</g>'
    title = axis_title(layout.low, layout.high)
    yield f'<text class="soft" x="4" y="{layout.bottom + 31:g}">{title}</text>'


def _counted(picture: Picture, counts: Counts, layout: Layout) -> Iterator[str]:
    """Draw counts: an area of what opens see, and below it bars of what was committed.

    Both are as wide as the axis from 0 to 1, so that the page only stretches them.
    """
    span = layout.high - layout.low
    xs = [(max(float(m), layout.low) - layout.low) / span for m in picture.moments] + [1.0]
    most = max(counts.seen) or 1
    area = [f"M{xs[0]:.5f} {_AREA_HEIGHT}"]
    for x, following, seen in zip(xs[:-1], xs[1:], counts.seen, strict=True):
        area.append(f"L{x:.5f} {_AREA_HEIGHT * (1 - 0.92 * seen / most):.1f}H{following:.5f}")
    kinds = {"write": counts.writes, "delete": counts.deletes, "update": counts.updates}
    top = max(map(sum, zip(*kinds.values(), strict=True))) or 1
    base = _AREA_HEIGHT + _GAP + _COUNT_HEIGHT
    bars = []
    for place, (x, following) in enumerate(pairwise(xs[:-1]), start=1):
        y = float(base)
        for kind, column in kinds.items():
            height = _COUNT_HEIGHT * 0.95 * column[place] / top
            y -= height
            if height:
                box = f'x="{x:.5f}" width="{following - x:.5f}" y="{y:.1f}" height="{height:.1f}"'
                told = escaped(f"{count_text(column[place], kind)} up to {_moment(picture, place)}")
                bars.append(f'<rect class="count {kind}" {box} aria-label="{told}"/>')
    stretched = f'transform="translate({layout.left:g} 0) scale({layout.wide:g} 1)"'
    area_path = f'<path class="area" d="{"".join(area)}V{_AREA_HEIGHT}Z"/>'
    yield f'<g class="stretch" {stretched}>{area_path}{"".join(bars)}</g>'
    for text, y in ((f"{most:,} fragments", 14.0), (f"{top:,} commits", base - _COUNT_HEIGHT + 14)):
        yield f'<text class="peak" x="{layout.left + 6:g}" y="{y:g}">at most {text}</text>'
