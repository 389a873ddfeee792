"""A stretch of bytes, and which of them are which field.

In: nothing. Out: `Region`. Knows nothing of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronotile.format.parsers import FieldSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Bytes that count from 0: a file, or what a tile in it unfolds to."""

    title: str
    data: bytes
    spans: tuple[FieldSpan, ...]
