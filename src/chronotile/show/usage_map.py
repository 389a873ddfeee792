"""The picture of what an array's bytes are for: a treemap as SVG, PNG or one HTML page.

In: the rows of `log.usage()`. Out: a picture: reasons hold kinds of parts, such as the data of one
field, which hold fragments. Vega lays it out. Text from files is escaped here. Knows nothing of how
usage is found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.check.file_uses import REASONS
from chronotile.format.names import uuid_of
from chronotile.format.timestamps import now_ms
from chronotile.safe_text import printable
from chronotile.show.chart import vl_convert
from chronotile.show.output import count_text, size_text
from chronotile.show.page import (
    COLOURS,
    TableCell,
    escaped,
    page,
    plain_style,
    reason_colour,
    resource,
    swatch,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

WIDE, MIDDLE, TALL = (1080, 600), (700, 600), (358, 620)
"""Width and height of the picture, and of those that a tablet and a phone show."""
_MOST = 150
"""Nodes of one parent that are drawn; smaller ones are drawn as one."""
_SMALLEST = 4000
"""A node of less than this part of all bytes is too small to be seen."""
_SHADES = (1.0, 0.16, 0.4)
"""How strong the colour of a reason is: of its own node, of kinds of parts, of fragments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A part of the whole."""

    label: str
    tip: tuple[str, ...]
    """What there is to say of it, line by line."""
    size: int
    kind: str
    """What decides on its colour."""
    children: tuple[Area, ...] = ()


class Line(NamedTuple):
    """A line of the table below the picture."""

    size: int
    files: int
    reason: str
    freed_by: str | None
    lost: str

    @property
    def words(self) -> str:
        """The reason in words: the folders of fragments hold metadata too."""
        return "metadata outside fragments" if self.reason == "metadata" else self.reason

    @property
    def kept(self) -> str:
        """Why nothing frees the bytes now, where that is not plain."""
        if self.reason != "operations" or self.freed_by:
            return ""
        return "undo needs them; a vacuum frees what was moved aside, after 90 days"


def to_svg(array: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw the treemap as SVG; each rectangle has its text as a label.

    >>> to_svg("lake/sales", [])[:4]
    '<svg'
    """
    title = {"text": _title(array), "subtitle": _words(rows), "anchor": "start", "fontSize": 15}
    drawn = _drawn(rows, WIDE, {"title": title, "background": "white", "padding": 8})
    return plain_style(_MIXED.sub(_mixed, drawn))


def to_png(array: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Draw the treemap as PNG, at twice the size for sharp letters."""
    return bytes(vl_convert().svg_to_png(to_svg(array, rows), scale=2))


def draw(array: str, rows: Sequence[Mapping[str, Any]], lines: Iterable[Line], form: str) -> bytes:
    """Draw the treemap as `.html`, `.svg` or `.png`."""
    if form == ".html":
        return to_html(array, rows, lines).encode()
    return to_png(array, rows) if form == ".png" else to_svg(array, rows).encode()


def to_html(array: str, rows: Sequence[Mapping[str, Any]], lines: Iterable[Line]) -> str:
    """Draw the treemap as a page that works offline."""
    cells = (
        (
            TableCell(size_text(line.size), line.size),
            TableCell(f"{line.files:,}", line.files),
            swatch(line.reason) + escaped(line.words),
            f"<code>{escaped(line.freed_by)}</code>" if line.freed_by else "",
            escaped(line.lost or line.kept),
        )
        for line in lines
    )
    heads = ("bytes", "files", "why", "freed by", "what would be lost")
    sizes = {"wide": WIDE, "middle": MIDDLE, "tall": TALL}
    maps = "".join(f'<div class="{n}-map">{_drawn(rows, size)}</div>' for n, size in sizes.items())
    listed = table("What the bytes are for", heads, cells, empty="No file.", numbers=(0, 1))
    return page(
        _title(array),
        f'<div id="map">{maps}</div>{listed}<div id="tip" hidden></div>',
        made_ms=now_ms(),
        intro=f"<p>{escaped(array)}</p><p>{escaped(_words(rows))}</p>",
        style=resource("usage_map.css"),
        script=resource("usage_map_tip.js"),
    )


def _words(rows: Sequence[Mapping[str, Any]]) -> str:
    total = sum(row["bytes"] for row in rows)
    words = f"{size_text(total)} in {count_text(len(rows), 'file')}"
    return f"{words}. An area is as large as its bytes: reason, then kind of part, then fragment."


def usage_tree(rows: Iterable[Mapping[str, Any]]) -> tuple[Area, ...]:
    """Arrange the files of an array as a tree: reasons, then kinds of parts, then fragments."""
    total = 0
    groups: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        total += row["bytes"]
        groups[row["reason"]][_kind(row)].append(row)
    nodes = []
    for reason in REASONS:
        inside = [_part(kind, files, total) for kind, files in groups[reason].items()]
        size = sum(node.size for node in inside)
        if size:
            files = [row for some in groups[reason].values() for row in some]
            fragments = {row["fragment"] for row in files if row["fragment"]}
            what = count_text(len(fragments), "fragment") if fragments else ""
            what = what or count_text(len(files), "file")
            tip = (f"{reason}: {_share(size, total)}", what, *_freed(files))
            children = tuple(_few(inside, total, "more parts"))
            nodes.append(Area(label=reason, tip=tip, size=size, kind=reason, children=children))
    return tuple(nodes)


_METADATA = "fragment metadata"


def _kind(row: Mapping[str, Any]) -> str:
    """Name the kind of part that a file is: the data of a field, say. Other files stand alone."""
    if row["fragment"] is None:
        return str(row["path"])
    if row["part"] == "metadata":
        return _METADATA
    return " ".join(filter(None, (row["field"], row["part"]))) or "other files"


def _part(kind: str, files: list[Mapping[str, Any]], total: int) -> Area:
    """Make the node of a kind of part with its fragments, or of a file that is in none."""
    reason, size = files[0]["reason"], sum(file["bytes"] for file in files)
    tip: tuple[str, ...] = (f"{kind}: {_share(size, total)}", reason, *_freed(files))
    if files[0]["fragment"] is None:
        return Area(label=_short(kind), tip=tip, size=size, kind=reason)
    tip = (*tip[:1], count_text(len(files), "file"), *tip[1:])
    leaves = [
        Area(
            label=(uuid_of(file["fragment"]) or file["fragment"])[:8],
            tip=(f"{kind}: {_share(file['bytes'], total)}", file["path"], reason, *_freed([file])),
            size=file["bytes"],
            kind=reason,
        )
        for file in files
    ]
    # Nobody looks for the metadata of one fragment: it is one block.
    children = () if kind == _METADATA else tuple(_few(leaves, total, "more fragments"))
    return Area(label=kind, tip=tip, size=size, kind=reason, children=children)


def _short(path: str) -> str:
    """Shorten the name of a file that is in no fragment: to its id, or that of its operation.

    >>> _short("__chronotile/operations/20261119T215608.065Z-089d4c7a-vacuum-final.json")
    'vacuum 089d4c7a'
    """
    name = path.rpartition("/")[2]
    if uuid := uuid_of(name):
        return f"{uuid[:8]}{PurePosixPath(name).suffix}"
    parts = name.split("-")
    is_operation = path.startswith("__chronotile/operations/") and len(parts) > 2
    return f"{parts[2]} {parts[1]}" if is_operation else name


def _few(nodes: list[Area], total: int, words: str) -> Iterator[Area]:
    """Keep the largest nodes, and make all others one: many, or too small to be seen."""
    ordered = sorted(nodes, key=lambda node: -node.size)
    seen = [node for node in ordered[:_MOST] if node.size * _SMALLEST >= total]
    yield from seen
    if rest := ordered[len(seen) :]:
        size = sum(node.size for node in rest)
        label = f"{len(rest):,} {words if seen else words.removeprefix('more ')}"
        tip = (f"{label}: {_share(size, total)}",)
        yield Area(label=label, tip=tip, size=size, kind=rest[0].kind)


def _share(size: int, total: int) -> str:
    return f"{size_text(size)}, {100 * size / total:.1f} %" if total else size_text(size)


def _freed(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    commands = dict.fromkeys(row["freed_by"] for row in rows if row["bytes"])
    return tuple(f"freed by: {command}" for command in commands if command is not None)


def _title(array: str) -> str:
    return printable(f"Usage of {'/'.join(array.rstrip('/').split('/')[-2:])}")


def _drawn(
    rows: Sequence[Mapping[str, Any]], size: tuple[int, int], more: Mapping[str, Any] | None = None
) -> str:
    """Let Vega lay out the treemap, with names of colours that a page gives."""
    edges = {name: {"field": name} for name in ("x0", "y0", "x1", "y1")}
    rect = {"x": edges["x0"], "y": edges["y0"], "x2": edges["x1"], "y2": edges["y1"]}
    rect |= {"fill": {"field": "fill"}, "stroke": {"value": "var(--bg)"}}
    text = {"x": edges["x0"] | {"offset": 4}, "y": edges["y0"] | {"offset": 11}}
    # A label is there as a whole, or its first part is, or none.
    room = "datum.y1 - datum.y0 >= 14 ? (datum.x1 - datum.x0 - 8) / 6.4 : 0"
    fits = f"length(datum.label) <= ({room}) ? datum.label"
    fits += f" : length(datum.name) <= ({room}) ? datum.name : ''"
    text |= {"text": {"signal": fits}, "fill": {"field": "ink"}, "fontSize": {"value": 11}}
    tree: dict[str, Any] = {"type": "treemap", "field": "size", "size": list(size), "padding": 1}
    tree |= {"paddingTop": 15, "sort": {"field": "value", "order": "descending"}}
    parents = {"type": "stratify", "key": "id", "parentKey": "parent"}
    shown = {"type": "filter", "expr": "datum.parent !== null"}
    data = {"name": "tree", "values": [*_flat(rows)], "transform": [parents, tree, shown]}
    marks: list[dict[str, Any]] = [
        {"type": "rect", "encode": {"enter": rect | {"description": {"field": "tip"}}}},
        {"type": "text", "aria": False, "interactive": False, "encode": {"enter": text}},
    ]
    spec: dict[str, Any] = {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "width": size[0],
        "height": size[1],
        "data": [data],
        "marks": [mark | {"from": {"data": "tree"}} for mark in marks],
    }
    return str(vl_convert().vega_to_svg(spec | dict(more or {})))


def _flat(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give the nodes of the tree one by one, each with its parent and its colours."""
    yield {"id": 0, "parent": None, "size": 0}
    waiting = [(node, 0, 0) for node in usage_tree(rows)]
    for number, (node, parent, depth) in enumerate(waiting, start=1):
        waiting += [(child, number, depth + 1) for child in node.children]
        is_leaf = depth > 0 and not node.children
        share = _SHADES[2 if is_leaf else depth] * 100
        colour = reason_colour(node.kind)
        yield {
            "id": number,
            "parent": parent,
            "size": 0 if node.children else node.size,
            "name": printable(node.label),
            "label": printable(f"{node.label}  {size_text(node.size)}"),
            "tip": "\n".join(map(printable, node.tip)),
            "fill": f"color-mix(in srgb, {colour} {share:.0f}%, var(--bg))",
            "ink": "var(--fg)" if depth else "var(--bg)",
        }


_MIXED = re.compile(r"color-mix\(in srgb, var\(--([a-z]+)\) (\d+)%, var\(--bg\)\)")


def _mixed(found: re.Match[str]) -> str:
    """Mix a colour of a light page with white, for a picture that stands alone."""
    colour, shade = COLOURS[found[1]][0], int(found[2]) / 100
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * shade):02x}" for part in parts)
