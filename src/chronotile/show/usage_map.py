"""The picture of what an array's bytes are for: a treemap as SVG, PNG or one HTML page.

In: the rows of `log.usage()`. Out: a picture; reasons hold fragments, which hold fields and parts.
Vega lays it out. Text from files is escaped here. Knows nothing of how usage is found.
"""

from __future__ import annotations

import html
from collections import defaultdict
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.check.file_uses import REASONS
from chronotile.errors import printable
from chronotile.show.chart import vl_convert
from chronotile.show.output import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

WIDTH, HEIGHT = 1080, 680
_MOST = 150
"""Nodes of one parent that are drawn; smaller ones are drawn as one."""

_COLOURS = dict(
    zip(
        REASONS,
        (
            "#2166ac",
            "#e08214",
            "#737373",
            "#b2182b",
            "#762a83",
            "#1b7837",
            "#35978f",
            "#9970ab",
            "#8c510a",
        ),
        strict=True,
    )
)
_SHADES = {"data": 0.82, "offsets": 0.62, "validity": 0.5, "metadata": 0.38}
"""How strong the colour of a part is; others are as strong as `timestamps` and `deletes`."""
_SHADE = 0.72


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


def to_svg(array: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw the treemap as SVG; each rectangle has its text as a label.

    >>> to_svg("lake/sales", [])[:4]
    '<svg'
    """
    return str(vl_convert().vega_to_svg(_spec(array, rows)))


def to_png(array: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Draw the treemap as PNG, at twice the size for sharp letters."""
    return bytes(vl_convert().vega_to_png(_spec(array, rows), scale=2))


def to_html(array: str, rows: Sequence[Mapping[str, Any]], lines: Iterable[Line]) -> str:
    """Draw the treemap as a page that works offline."""
    template = (resources.files("chronotile.show") / "usage_map.html").read_text("utf-8")
    cells = (
        f"<tr><td>{size_text(line.size)}</td><td>{line.files:,}</td>"
        f'<td><i style="background:{_COLOURS[line.reason]}"></i>{line.reason}</td>'
        f"<td><code>{_escaped(line.freed_by or '')}</code></td><td>{_escaped(line.lost)}</td></tr>"
        for line in lines
    )
    return Template(template).substitute(
        title=_escaped(_title(array)),
        picture=to_svg(array, rows),
        lines="\n".join(cells),
    )


def usage_tree(rows: Iterable[Mapping[str, Any]]) -> tuple[Area, ...]:
    """Arrange the files of an array as a tree: reasons, then fragments, then fields and parts."""
    total = 0
    groups: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        total += row["bytes"]
        groups[row["reason"]][row["fragment"] or row["path"]].append(row)
    nodes = []
    for reason in REASONS:
        inside = [_group(name, files, total) for name, files in groups[reason].items()]
        size = sum(node.size for node in inside)
        if size:
            tip: tuple[str, ...] = (f"{reason}: {_share(size, total)}", _count(reason, len(inside)))
            tip += _freed(row for files in groups[reason].values() for row in files)
            children = tuple(_few(inside, total, "more"))
            nodes.append(Area(label=reason, tip=tip, size=size, kind=reason, children=children))
    return tuple(nodes)


def _group(name: str, files: list[Mapping[str, Any]], total: int) -> Area:
    """Make the node of a fragment with its files, or of a file that is in none."""
    reason, size = files[0]["reason"], sum(file["bytes"] for file in files)
    if files[0]["fragment"] is None:
        tip = (name, f"{reason}: {_share(size, total)}", *_freed(files))
        return Area(label=name.rpartition("/")[2], tip=tip, size=size, kind=reason)
    leaves = []
    for file in files:
        what = " ".join(filter(None, (file["field"], file["part"])))
        label = what or file["path"].rpartition("/")[2]
        share = _share(file["bytes"], total)
        tip = (f"{label}: {share}", file["path"], reason, *_freed([file]))
        kind = f"{reason} {file['part'] or ''}"
        leaves.append(Area(label=label, tip=tip, size=file["bytes"], kind=kind))
    tip = (f"fragment {name}", f"{reason}: {_share(size, total)}", *_freed(files))
    children = tuple(_few(leaves, total, "more files"))
    return Area(label=name, tip=tip, size=size, kind=reason, children=children)


def _few(nodes: list[Area], total: int, words: str) -> Iterator[Area]:
    """Keep the largest nodes, and make all others one."""
    ordered = sorted(nodes, key=lambda node: -node.size)
    yield from ordered[:_MOST]
    if rest := ordered[_MOST:]:
        size = sum(node.size for node in rest)
        label = f"{len(rest):,} {words}"
        tip = (f"{label}: {_share(size, total)}",)
        yield Area(label=label, tip=tip, size=size, kind=rest[0].kind)


def _count(reason: str, count: int) -> str:
    return count_text(count, "fragment" if reason in REASONS[:4] else "file")


def _share(size: int, total: int) -> str:
    return f"{size_text(size)}, {100 * size / total:.1f} %" if total else size_text(size)


def _freed(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    commands = dict.fromkeys(row["freed_by"] for row in rows if row["bytes"])
    return tuple(f"freed by: {command}" for command in commands if command is not None)


def _title(array: str) -> str:
    return printable(f"Usage of {'/'.join(array.rstrip('/').split('/')[-2:])}")


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _spec(array: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write the treemap as a Vega document: Vega lays it out."""
    total = sum(row["bytes"] for row in rows)
    words = f"{size_text(total)} in {count_text(len(rows), 'file')}"
    words += ". An area is as large as its bytes: reason, then fragment, then field and part."
    tall = "datum.y1 - datum.y0 >= 13"
    edges = {name: {"field": name} for name in ("x0", "y0", "x1", "y1")}
    rect = {"x": edges["x0"], "y": edges["y0"], "x2": edges["x1"], "y2": edges["y1"]}
    rect |= {"fill": {"field": "fill"}, "stroke": {"value": "white"}}
    text = {"x": edges["x0"] | {"offset": 4}, "y": edges["y0"] | {"offset": 11}}
    text |= {"text": {"signal": f"{tall} ? datum.label : ''"}, "fill": {"field": "ink"}}
    text |= {"limit": {"signal": "max(datum.x1 - datum.x0 - 6, 1)"}, "fontSize": {"value": 11}}
    tree: dict[str, Any] = {
        "type": "treemap",
        "field": "size",
        "size": [WIDTH, HEIGHT],
        "padding": 1,
    }
    tree |= {"paddingTop": 15, "sort": {"field": "value", "order": "descending"}}
    parents = {"type": "stratify", "key": "id", "parentKey": "parent"}
    shown = {"type": "filter", "expr": "datum.parent !== null"}
    data = {"name": "tree", "values": [*_flat(rows)], "transform": [parents, tree, shown]}
    return {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "width": WIDTH,
        "height": HEIGHT,
        "padding": 4,
        "background": "white",
        "title": {"text": _title(array), "subtitle": words, "anchor": "start", "fontSize": 15},
        "data": [data],
        "marks": [
            {
                "type": "rect",
                "from": {"data": "tree"},
                "encode": {"enter": rect | {"description": {"field": "tip"}}},
            },
            {
                "type": "text",
                "from": {"data": "tree"},
                "aria": False,
                "interactive": False,
                "encode": {"enter": text},
            },
        ],
    }


def _flat(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give the nodes of the tree one by one, each with its parent and its colours."""
    yield {"id": 0, "parent": None, "size": 0}
    waiting = [(node, 0, 0) for node in usage_tree(rows)]
    for number, (node, parent, depth) in enumerate(waiting, start=1):
        waiting += [(child, number, depth + 1) for child in node.children]
        reason, _, part = node.kind.partition(" ")
        shade = 1.0 if depth == 0 else 0.3 if node.children else _SHADES.get(part, _SHADE)
        yield {
            "id": number,
            "parent": parent,
            "size": 0 if node.children else node.size,
            "label": printable(f"{node.label}  {size_text(node.size)}"),
            "tip": "\n".join(map(printable, node.tip)),
            "fill": _mixed(_COLOURS[reason], shade),
            "ink": "white" if shade > 0.55 else "#222222",
        }


def _mixed(colour: str, shade: float) -> str:
    """Mix a colour with white: 1 is the colour itself, 0 is white."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * shade):02x}" for part in parts)
