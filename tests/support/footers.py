"""Footers, decoded one by one: the package reads many of one schema at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.format.consolidated_footers import read_index
from chronotile.format.fragment_footer import FooterLayout

if TYPE_CHECKING:
    from chronotile.format.fragment_footer import Footer
    from chronotile.format.schema import Schema


def decode_footer(data: bytes, schema: Schema, where: str, *, bare: bool = False) -> Footer:
    """One footer of a schema."""
    return FooterLayout(schema).decode(data, where, bare=bare)


def consolidated_footers(payload: bytes, where: str) -> dict[str, bytes]:
    """The footers that a `.meta` holds, by the names of their fragments."""
    return {item.fragment: item.footer for item in read_index(payload, where).listed()}
