"""One look for all pages: colours, type, header and footer, tables; light, dark and in print.

In: a title, and the body of a page as HTML. Out: a page that is one file and works offline; a
table; the style of an SVG that stands alone. Text from files goes through `escaped`, which every
page takes from here. Knows nothing of what a page says.
"""

from __future__ import annotations

import html
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from chronotile.format.timestamps import time_text
from chronotile.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLOURS = {
    "fg": ("#1f2328", "#e6e6e6"),
    "soft": ("#57606a", "#b0b5ba"),
    "line": ("#d8dee4", "#3d4248"),
    "bg": ("#ffffff", "#161616"),
    "panel": ("#f6f8fa", "#23272c"),
    "link": ("#1a5fb4", "#8ab4f8"),
    "bad": ("#b2182b", "#ff8a80"),
    "warn": ("#8f5500", "#ffb74d"),
    "moment": ("#1b7837", "#7fd08f"),
    "seen": ("#2166ac", "#6cb6ff"),
    "hidden": ("#c4c9cf", "#4d535a"),
    "delete": ("#b2182b", "#ff8a80"),
    "update": ("#d9730d", "#ffab5e"),
    "schema": ("#00796b", "#4fc9b5"),
    "metadata": ("#8d6e63", "#c9a99d"),
    "operation": ("#6a3d9a", "#c7a6f0"),
    "tag": ("#946c00", "#f2cc5a"),
    "file": ("#546e7a", "#93a9b5"),
    "stray": ("#c2185b", "#f48fb1"),
}
"""Name -> the colour on a light page, and on a dark one."""

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif'


_REASONS = {
    "visible": "seen",
    "superseded": "warn",
    "ignored": "soft",
    "uncommitted": "delete",
    "commit-log": "file",
    "operations": "operation",
}
"""Reason why a file is there -> its colour, where that has another name."""


def reason_colour(reason: str) -> str:
    """Give the colour of a reason why a file is there.

    >>> reason_colour("visible"), reason_colour("schema")
    ('var(--seen)', 'var(--schema)')
    """
    return f"var(--{_REASONS.get(reason, reason)})"


def swatch(reason: str) -> str:
    """Write a small square in the colour of a reason."""
    return f'<i class="swatch" style="background:{reason_colour(reason)}"></i>'


class TableCell(NamedTuple):
    """A cell of a table that sorts by a number."""

    html: str
    key: float


def escaped(text: object) -> str:
    r"""Write any text so that a page shows it as it is.

    >>> escaped("a<b\x1b")
    'a&lt;b\\x1b'
    """
    return html.escape(printable(str(text)), quote=True)


def with_breaks(text: object) -> str:
    """Write a path, so that a page breaks a long one behind its slashes.

    >>> with_breaks("/a/b<c")
    '/a/<wbr>b&lt;c'
    """
    return re.sub(r"(?<=\w)/", "/<wbr>", escaped(text))


def page(
    title: str,
    main: str,
    *,
    made_ms: int,
    intro: str = "",
    style: str = "",
    script: str = "",
    back: tuple[str, str] | None = None,
) -> str:
    """Write a whole page.

    Args:
        title: The heading, as plain text.
        main: The content, as HTML.
        made_ms: When the page was made; the footer says so.
        intro: HTML that belongs to the header: a line below the title, or links.
        style: Rules for this kind of page only.
        script: A script for this kind of page only.
        back: The link that leads back, and its words.
    """
    from chronotile import __version__

    heading = escaped(title)
    way = f'<nav><a href="{escaped(back[0])}">← {escaped(back[1])}</a></nav>' if back else ""
    run = f'<script type="module">{script}</script>' if script else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title>
<style>{_colours()}{_rules()}{style}</style>
</head>
<body>
<header>{way}<h1>{heading}</h1>{intro}</header>
<main id="main">{main}</main>
<footer>Made by chronotile {__version__}, {escaped(when_text(made_ms // 1000 * 1000))}.</footer>
{run}</body>
</html>
"""


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str | TableCell]],
    *,
    empty: str = "",
    numbers: Iterable[int] = (),
) -> str:
    """Write a table; the words of `empty`, if it has no rows. Roles say what it is on a phone.

    Args:
        caption: What it shows, as plain text.
        heads: The names of its columns, as plain text.
        rows: Its cells, as HTML.
        empty: Words instead of a table without rows.
        numbers: The places of columns that hold numbers.
    """
    names, right = [escaped(name) for name in heads], frozenset(numbers)
    kinds = [' class="number"' if place in right else "" for place in range(len(names))]
    body = "".join(f"<tr role=row>{_cells(names, kinds, row)}</tr>" for row in rows)
    if not body:
        return f"<p>{escaped(empty)}</p>"
    head = "".join(
        f"<th scope=col role=columnheader{kind}>{name}</th>"
        for name, kind in zip(names, kinds, strict=True)
    )
    label = escaped(caption)
    inside = f"<caption>{label}</caption><thead role=rowgroup><tr role=row>{head}</tr></thead>"
    inside += f"<tbody role=rowgroup>{body}</tbody>"
    return wide(caption, f'<table role=table aria-label="{label}">{inside}</table>')


def _cells(names: Sequence[str], kinds: Sequence[str], row: Sequence[str | TableCell]) -> str:
    cells = []
    for name, kind, cell in zip(names, kinds, row, strict=True):
        key = f' data-key="{cell.key}"' if isinstance(cell, TableCell) else ""
        inside = cell.html if isinstance(cell, TableCell) else cell
        cells.append(f'<td role=cell data-head="{name}"{kind}{key}>{inside}</td>')
    return "".join(cells)


def wide(label: str, body: str) -> str:
    """Frame what may be wider than the page: a keyboard can scroll it."""
    return f'<div class=wide tabindex=0 role=group aria-label="{escaped(label)}">{body}</div>'


def when_text(t1: int, t2: int | None = None) -> str:
    """Write a moment, or a range of time, for people: milliseconds only where there are any.

    >>> when_text(1_714_550_400_000), when_text(1_714_550_400_000, 1_714_550_400_120)
    ('2024-05-01 08:00:00 UTC', '2024-05-01 08:00:00 UTC to 2024-05-01 08:00:00.120 UTC')
    """
    first, last = (time_text(ms).replace(".000 ", " ") for ms in (t1, t1 if t2 is None else t2))
    return first if first == last else f"{first} to {last}"


def resource(name: str) -> str:
    """Read a file that lies beside this module."""
    return (resources.files("chronotile.show") / name).read_text("utf-8")


def plain_style(rules: str) -> str:
    """Put the colours of a light page into rules, for an SVG that stands alone.

    >>> plain_style("svg text { fill: var(--fg); }")
    'svg text { fill: #1f2328; }'
    """
    light = {name: pair[0] for name, pair in COLOURS.items()} | {"font": FONT}
    return re.sub(r"var\(--([a-z]+)\)", lambda found: light[found[1]], rules)


@cache
def _colours() -> str:
    light, dark = (
        "".join(f"--{name}: {pair[at]};" for name, pair in COLOURS.items()) for at in (0, 1)
    )
    ink = "--fg: #000; --soft: #333; --line: #999; --link: #000; --bad: #8b0000; --warn: #5c3600;"
    return (
        f":root {{ color-scheme: light dark; --font: {FONT}; {light} }}"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
        f"@media print {{ :root {{ color-scheme: light; {light} {ink} }} }}"
    )


@cache
def _rules() -> str:
    return resource("page.css")
