"""The picture of what an array's bytes are for: a treemap as SVG, PNG or one HTML page.

In: the rows of `log.usage()`. Out: a picture; reasons hold fragments, which hold fields and parts.
Text from files is escaped here. Knows nothing of how usage is found.
"""

from __future__ import annotations

import html
from collections import defaultdict
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.check.file_uses import REASONS
from chronotile.errors import ChronotileError, printable
from chronotile.show.output import count_text, size_text
from chronotile.show.treemap import Box, Node, Tile, laid_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

WIDTH, HEIGHT = 1080, 680
_TOP = 56
_STRIPS = (20.0, 15.0)
_LETTER = 6.4
"""Width of a letter, about: a label that is too long for its rectangle is cut."""
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


class Line(NamedTuple):
    """A line of the table below the picture."""

    size: int
    files: int
    reason: str
    freed_by: str | None
    lost: str


def to_svg(array: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw the treemap as SVG; a viewer shows the text of a rectangle when it is pointed at.

    >>> to_svg("lake/sales", [])[:4]
    '<svg'
    """
    return _svg(array, rows, is_page=False)


def to_png(array: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Draw the treemap as PNG, at twice the size for sharp letters."""
    try:
        import vl_convert
    except ImportError as cause:
        problem = "expected vl-convert-python (pip install 'chronotile[plot]'), found none"
        raise ChronotileError("usage", problem) from cause
    return bytes(vl_convert.svg_to_png(to_svg(array, rows), scale=2))


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
        title=_escaped(f"Usage of {_title(array)}"),
        picture=_svg(array, rows, is_page=True),
        lines="\n".join(cells),
    )


def usage_tree(rows: Iterable[Mapping[str, Any]]) -> tuple[Node, ...]:
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
            nodes.append(Node(label=reason, tip=tip, size=size, kind=reason, children=children))
    return tuple(nodes)


def _group(name: str, files: list[Mapping[str, Any]], total: int) -> Node:
    """Make the node of a fragment with its files, or of a file that is in none."""
    reason, size = files[0]["reason"], sum(file["bytes"] for file in files)
    if files[0]["fragment"] is None:
        tip = (name, f"{reason}: {_share(size, total)}", *_freed(files))
        return Node(label=name.rpartition("/")[2], tip=tip, size=size, kind=reason)
    leaves = []
    for file in files:
        what = " ".join(filter(None, (file["field"], file["part"])))
        label = what or file["path"].rpartition("/")[2]
        share = _share(file["bytes"], total)
        tip = (f"{label}: {share}", file["path"], reason, *_freed([file]))
        kind = f"{reason} {file['part'] or ''}"
        leaves.append(Node(label=label, tip=tip, size=file["bytes"], kind=kind))
    tip = (f"fragment {name}", f"{reason}: {_share(size, total)}", *_freed(files))
    children = tuple(_few(leaves, total, "more files"))
    return Node(label=name, tip=tip, size=size, kind=reason, children=children)


def _few(nodes: list[Node], total: int, words: str) -> Iterator[Node]:
    """Keep the largest nodes, and make all others one."""
    ordered = sorted(nodes, key=lambda node: -node.size)
    yield from ordered[:_MOST]
    if rest := ordered[_MOST:]:
        size = sum(node.size for node in rest)
        label = f"{len(rest):,} {words}"
        tip = (f"{label}: {_share(size, total)}",)
        yield Node(label=label, tip=tip, size=size, kind=rest[0].kind)


def _count(reason: str, count: int) -> str:
    return count_text(count, "fragment" if reason in REASONS[:4] else "file")


def _share(size: int, total: int) -> str:
    return f"{size_text(size)}, {100 * size / total:.1f} %" if total else size_text(size)


def _freed(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    commands = dict.fromkeys(row["freed_by"] for row in rows if row["bytes"])
    return tuple(f"freed by: {command}" for command in commands if command is not None)


def _title(array: str) -> str:
    return "/".join(array.rstrip("/").split("/")[-2:])


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _svg(array: str, rows: Sequence[Mapping[str, Any]], *, is_page: bool) -> str:
    total = sum(row["bytes"] for row in rows)
    nodes = usage_tree(rows)
    box = Box(0, _TOP, WIDTH, HEIGHT - _TOP)
    heading = _escaped(f"Usage of {_title(array)}")
    words = f"{size_text(total)} in {count_text(len(rows), 'file')}"
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    look = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11"'
    words += ". An area is as large as its bytes: reason, then fragment, then field and part."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {look}>',
        f'<rect {size} fill="white"/>',
        f'<text x="2" y="18" font-size="15" font-weight="bold">{heading}</text>',
        f'<text x="2" y="36" fill="#555555">{words}</text>',
        *(_drawn(tile, is_page=is_page) for tile in laid_out(nodes, box, _STRIPS)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _drawn(tile: Tile, *, is_page: bool) -> str:
    x, y, width, height = tile.box
    reason, _, part = tile.node.kind.partition(" ")
    shade = 1.0 if tile.depth == 0 else _SHADES.get(part, _SHADE)
    fill = _mixed(_COLOURS[reason], shade if tile.is_leaf or tile.depth == 0 else 0.3)
    ink = "white" if tile.depth == 0 or (tile.is_leaf and shade > 0.55) else "#222222"
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    tip = "&#10;".join(map(_escaped, tile.node.tip))
    on_page = f' data-tip="{tip}"' if is_page else ""
    title = "" if is_page else f"<title>{tip}</title>"
    text = ""
    label = _fitted(tile.node, width)
    if label and height >= 13:
        weight = ' font-weight="bold"' if tile.depth == 0 else ""
        below = 14 if tile.depth == 0 else 11
        text = (
            f'<text x="{x + 4:.1f}" y="{y + below:.1f}" fill="{ink}"{weight} '
            f'pointer-events="none">{_escaped(label)}</text>'
        )
    return (
        f'<g><rect {place} fill="{fill}" stroke="white" stroke-width="1"{on_page}>{title}</rect>'
        f"{text}</g>"
    )


def _fitted(node: Node, width: float) -> str:
    """Fit the label with the size into a width; less than a word is left out."""
    room = int((width - 6) / _LETTER)
    label = printable(node.label)
    whole = f"{label}  {size_text(node.size)}"
    if len(whole) <= room:
        return whole
    if len(label) <= room:
        return label
    return f"{label[: room - 1]}…" if room >= 4 else ""


def _mixed(colour: str, shade: float) -> str:
    """Mix a colour with white: 1 is the colour itself, 0 is white."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * shade):02x}" for part in parts)
