"""A fragment's metadata, less what it says of removed cells.

In: a footer that has delete metadata, and its layout. Out: the same footer without: a reader then
finds every cell of the fragment, whatever deletes were applied when it was merged. Touches no cell
file; those of the delete metadata are passed over.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronotile.format.footer_layout import Footer, FooterLayout

_FIELDS = 2
"""The time of a cell's removal, and by which delete: the last fields of a footer that has them."""


def without_delete_metadata(raw: bytes, footer: Footer, layout: FooterLayout) -> bytes:
    """The bytes of a footer without delete metadata, and its length behind them.

    Args:
        raw: The footer as it is stored, without the length behind it.
        footer: What it says; it has delete metadata.
        layout: Of its schema.
    """
    plan = layout.plan(footer.version, int(footer.has_timestamps), 1)
    end = len(raw) - footer.len_sections
    start = end - plan.numbers.size
    numbers = list(plan.numbers.unpack_from(raw, start))
    gone = {
        at for _, start, stop in plan.parts if stop > start for at in range(stop - _FIELDS, stop)
    }
    kept = [number for at, number in enumerate(numbers) if at not in gone]
    # The flag stands right before the numbers.
    data = raw[: start - 1] + b"\0" + struct.pack(f"<{len(kept)}Q", *kept) + raw[end:]
    return data + struct.pack("<Q", len(data))
