"""The height of a fragment in a picture: by its cells, or by its bytes.

In: a `Picture`. Out: columns and an encoding for the bars of a chart, and a sentence on them. The
parameter `tall` decides between the two; a switch of the page sets it. Draws nothing by itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronotile.timeline.axes import Axes
    from chronotile.timeline.picture import Bar, Picture

EXPRESSION = "tall == 'bytes' ? datum.root_bytes : datum.root_cells"
"""What the height of a bar goes by. Areas compare as what they stand for, so it is a root."""

_THINNEST = 2


def has_heights(picture: Picture) -> bool:
    """Whether anything is known of what the fragments hold."""
    return any(bar.cells or bar.bytes for bar in picture.bars)


def height_columns(bar: Bar) -> dict[str, float]:
    """The columns that `EXPRESSION` reads."""
    return {"root_cells": math.sqrt(bar.cells or 0), "root_bytes": math.sqrt(bar.bytes or 0)}


def height_encoding(axes: Axes, step: float) -> dict[str, Any]:
    """The encoding of the height of bars in rows that are `step` high; empty if nothing is known.

    The column `thick` has to be `EXPRESSION`.
    """
    if not has_heights(axes.picture):
        return {}
    scale = axes.alt.Scale(range=[_THINNEST, step * 0.9], zero=True)
    return {"size": axes.alt.Size("thick:Q", scale=scale, legend=None)}


def height_words(picture: Picture, *, switch: bool) -> list[str]:
    """What the legend says of heights: in a page with a switch, that there is one."""
    if not has_heights(picture):
        return []
    what = "cells or bytes, as chosen above," if switch else picture.height
    return [f"The thicker a fragment, the more {what} it holds."]
