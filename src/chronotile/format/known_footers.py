"""Footers that are known to decode, as one that is laid out in the same way did.

In: footers that were decoded. Out: which of many others decode too, without decoding them. Says
nothing of what they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.format.footer_columns import are_alike, matrix_of
from chronotile.format.fragment_footer import FIRST_WITH_SCHEMA_NAME, read_head

if TYPE_CHECKING:
    from chronotile.format.footer_columns import FooterSpans, Mask
    from chronotile.format.footer_layout import FooterLayout

_MOST = 64
"""Layouts that are remembered: an array has few."""


class _Known(NamedTuple):
    """What all footers of one layout have in common."""

    length: int
    parts: tuple[tuple[int, bytes], ...]
    """The bytes that decide how it is read, and where they start."""


class KnownFooters:
    """Tells of footers that they decode, as one that is laid out in the same way did."""

    def __init__(self) -> None:
        self._known: set[_Known] = set()

    def learn(self, raw: bytes, layout: FooterLayout) -> bool:
        """Takes in a footer that was decoded; tells whether its layout is a new one."""
        found = layout.decisive(raw)
        version = read_head(raw, "footer").version
        if found is None or version < FIRST_WITH_SCHEMA_NAME or len(self._known) >= _MOST:
            return False
        one = _Known(len(raw), tuple((part.start or 0, raw[part]) for part in found))
        is_new = one not in self._known
        self._known.add(one)
        return is_new

    def decodes(self, spans: FooterSpans) -> Mask:
        """Mask of the footers that are known to decode."""
        found = np.zeros(len(spans.length), bool)
        for one in self._known:
            rows = np.flatnonzero(spans.length == one.length)
            if len(rows):
                found[rows[are_alike(matrix_of(spans, rows), one.parts)]] = True
        return found
