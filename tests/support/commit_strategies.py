"""Generators for property tests: timestamped names, commit URIs, and `.con` files, good and bad."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TIMES = st.one_of(
    st.integers(0, 12),
    st.integers(0, (1 << 64) - 1),
    st.sampled_from((99, 100, 1_700_000_000_000, 10**18, 10**19 - 1, 10**19, (1 << 64) - 1)),
)
UUIDS = st.one_of(
    st.binary(min_size=16, max_size=16).map(bytes.hex),
    st.sampled_from(("00112233445566778899aabbccddeeff", "0" * 32, "f" * 32)),
)
VERSIONS = st.one_of(st.integers(1, 23), st.sampled_from((0, 10**9, (1 << 32) - 1)))


@st.composite
def names(draw: st.DrawFn) -> str:
    """A name of any era, as an engine writes it."""
    t1, t2 = sorted((draw(TIMES), draw(TIMES)))
    if draw(st.booleans()):
        t2 = t1
    uuid, form = draw(UUIDS), draw(st.sampled_from((3, 3, 3, 2, 1, 0)))
    if form == 3:
        return f"__{t1}_{t2}_{uuid}_{draw(VERSIONS)}"
    if form == 2:
        return f"__{t1}_{t2}_{uuid}"
    return f"__{uuid}_{t1}_{t2}" if form else f"__{uuid}_{t2}"


@st.composite
def odd_names(draw: st.DrawFn) -> str:
    """A name with something changed: mostly no name any more, but now and then another one."""
    text = draw(names())
    at = draw(st.integers(0, len(text) - 1))
    middle = draw(st.sampled_from(("", "_", "0", "9", "a", "G", "é", " ", "-", "+", "٣", "\0")))
    return text[:at] + middle + text[at + draw(st.integers(0, 2)) :]


EXTENSIONS = st.sampled_from((".wrt", ".wrt", ".wrt", ".ok", ".del", ".upd"))
PREFIXES = st.sampled_from(
    ("__commits/", "__commits/", "__commits/", "", "/__commits/", "é/", "a" * 300 + "/", "//")
)


@st.composite
def uris(draw: st.DrawFn) -> str:
    return draw(PREFIXES) + draw(names()) + draw(EXTENSIONS)


TILES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from((b"", b"\n", b".del\n", b"__commits/__1_1_ab_22.wrt\n", b"x.upd\n" * 3)),
)


Piece: TypeAlias = tuple[bytes, int]
"""Bytes, and how often they stand there one after the other."""


@st.composite
def records(draw: st.DrawFn) -> Piece:
    """A good record; a write often many times, as only many take the fastest path."""
    uri = draw(uris())
    if uri.endswith((".del", ".upd")):
        tile = draw(TILES)
        return uri.encode() + b"\n" + struct.pack("<Q", len(tile)) + tile, 1
    return uri.encode() + b"\n", draw(st.sampled_from((1, 1, 1, 2, 63, 64, 65, 200)))


BAD_RECORDS = st.one_of(
    st.binary(max_size=30),
    odd_names().map(lambda text: f"__commits/{text}.wrt\n".encode()),
    odd_names().map(lambda text: f"{text}.ok\n".encode()),
    st.sampled_from(
        (
            b"\n",
            b".wrt\n",
            b".ok\n",
            b"x.ok\n",
            b".del\n" + bytes(8),
            b"a.del\n" + bytes(8),
            b"a.wrt",
            b"a.del\n" + b"\xff" * 8,
            b"a.upd\n\x01",
            b"\xff.wrt\n",
            b"a.WRT\n",
            b"a.wrt\r\n",
            b"a.con\n",
        )
    ),
)


@st.composite
def con_files(draw: st.DrawFn) -> list[Piece]:
    """The pieces of a `.con`: whole, or with something in it that does not belong there."""
    parts = draw(st.lists(records(), max_size=8))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), (draw(BAD_RECORDS), 1))
    return parts


def mutated(data: bytes) -> SearchStrategy[bytes]:
    """The same bytes with a piece cut out, changed or put in."""
    at = st.integers(0, len(data))
    piece = st.one_of(st.binary(max_size=4), st.sampled_from((b"\n", b".del\n", b"_", b"0")))
    return st.builds(
        lambda start, cut, new: data[:start] + new + data[start + cut :],
        at,
        st.sampled_from((0, 0, 1, 2, 60, 10**6)),
        piece,
    )
