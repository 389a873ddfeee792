"""Footers that are known to decode, as one that is laid out in the same way did.

In: footers that were decoded. Out: whether another one decodes too, without decoding it. Says
nothing of what it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.format.fragment_footer import FIRST_WITH_SCHEMA_NAME, read_head

if TYPE_CHECKING:
    from chronotile.format.footer_layout import FooterLayout

_LEN_HEAD = 14
"""Bytes of what a footer begins with, less the name of its schema."""


class KnownFooters:
    """Tells of footers that they decode, as one that is laid out in the same way did."""

    def __init__(self) -> None:
        self._flags: dict[bytes, tuple[int, int]] = {}
        """What footers began with -> where their flags are."""
        self._decoded: set[tuple[bytes, bytes, int]] = set()
        """What footers began with, their flags, their lengths."""

    def learn(self, raw: bytes, layout: FooterLayout) -> None:
        """Takes in a footer that was decoded."""
        head = read_head(raw, "footer")
        found = layout.flags_of(head)
        if found is not None and head.version >= FIRST_WITH_SCHEMA_NAME:
            start = raw[: head.size]
            self._flags[start] = found
            self._decoded.add((start, raw[slice(*found)], len(raw)))

    def decodes(self, name: str, raw: bytes) -> bool:
        """Whether the footer of a fragment is known to decode."""
        # A version, the size of a name, the name, two flags.
        start = raw[: _LEN_HEAD + int.from_bytes(raw[4:12], "little")]
        flags = self._flags.get(start)
        # Versions from 10 on have two digits: a name of an older one promises another footer.
        if flags is None or name[-3] != "_":
            return False
        return (start, raw[slice(*flags)], len(raw)) in self._decoded
