"""A treemap: rectangles whose areas are as their sizes.

In: a tree of sizes. Out: `Tile`, one for each node that is large enough to see. Knows neither
colours nor what a size is of.

The rectangles are squarified, as Bruls, Huizing and van Wijk have it: rows are filled along the
shorter side for as long as that makes them squarer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEAST = 3.0
"""Width and height below which a node is not drawn by itself."""


class Box(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    def inside(self, top: float, margin: float) -> Box:
        """Cut off a strip at the top, and a margin."""
        width, height = self.width - 2 * margin, self.height - top - margin
        return Box(self.x + margin, self.y + top, max(width, 0.0), max(height, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of the whole."""

    label: str
    tip: tuple[str, ...]
    """What there is to say of it, line by line."""
    size: int
    kind: str
    """What decides on its colour."""
    children: tuple[Node, ...] = ()


class Tile(NamedTuple):
    """A node in its place."""

    node: Node
    box: Box
    depth: int
    """0 for the outermost."""
    is_leaf: bool
    """Whether nothing is drawn inside of it."""


def squarified(sizes: Sequence[float], box: Box) -> list[Box]:
    """Find a rectangle for each size; sizes are above 0, the largest first.

    >>> squarified([3, 1], Box(0, 0, 4, 1))
    [Box(x=0, y=0, width=3.0, height=1), Box(x=3.0, y=0, width=1.0, height=1)]
    """
    found: list[Box] = []
    left = sum(sizes)
    while len(found) < len(sizes):
        x, y, width, height = box
        side = min(width, height)
        scale = width * height / left
        start = stop = len(found)
        filled = 0.0
        while stop < len(sizes):
            more = filled + sizes[stop] * scale
            if stop > start and _worst(sizes, start, stop, more, scale, side) > _worst(
                sizes, start, stop - 1, filled, scale, side
            ):
                break
            filled, stop = more, stop + 1
        depth = filled / side if side else 0.0
        at = y if width >= height else x
        for size in sizes[start:stop]:
            length = size * scale / depth if depth else 0.0
            if width >= height:
                found.append(Box(x, at, depth, length if stop - start > 1 else height))
            else:
                found.append(Box(at, y, length if stop - start > 1 else width, depth))
            at += length
        left -= sum(sizes[start:stop])
        if width >= height:
            box = Box(x + depth, y, max(width - depth, 0.0), height)
        else:
            box = Box(x, y + depth, width, max(height - depth, 0.0))
    return found


def _worst(
    sizes: Sequence[float], first: int, last: int, area: float, scale: float, side: float
) -> float:
    """Measure how far from a square the worst rectangle of a row is; 1 is a square."""
    if not side or not area:
        return 0.0
    longest, shortest = sizes[first] * scale, sizes[last] * scale
    return max(side * side * longest / (area * area), area * area / (side * side * shortest))


def laid_out(
    nodes: Sequence[Node], box: Box, strips: Sequence[float], margin: float = 1.0, depth: int = 0
) -> Iterator[Tile]:
    """Place nodes and what is inside of them, from the outside in.

    Args:
        nodes: What to place; those of size 0 are left out.
        box: Where.
        strips: By depth, the height of the strip that a node keeps for its label.
        margin: Between a node and its children.
        depth: Of the nodes.
    """
    shown = sorted((node for node in nodes if node.size > 0), key=lambda node: -node.size)
    boxes = squarified([float(node.size) for node in shown], box) if shown else []
    for node, place in zip(shown, boxes, strict=True):
        if min(place.width, place.height) < LEAST:
            continue
        strip = strips[depth] if depth < len(strips) else 0.0
        inner = place.inside(strip, margin)
        is_leaf = not node.children or min(inner.width, inner.height) < 2 * LEAST
        yield Tile(node, place, depth, is_leaf)
        if not is_leaf:
            yield from laid_out(node.children, inner, strips, margin, depth + 1)
