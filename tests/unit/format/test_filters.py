"""Filters of cell files, undone: hostile bytes, and what each filter claims."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronotile.errors import BadFileError, KeyNeededError, WrongKeyError
from chronotile.format.datatypes import Datatype
from chronotile.format.decompress import COMPRESSORS, inflate
from chronotile.format.filters import AES_256_GCM, VALUE_FILTERS, Chunk, Filter, Pipeline, undo

KINDS = (*COMPRESSORS, *VALUE_FILTERS, "dictionary", "checksum_md5", "checksum_sha256", "none")


def pipeline(*kinds: str, datatype: Datatype = Datatype.INT32, is_var: bool = False) -> Pipeline:
    filters = tuple(map(Filter, kinds))
    size = datatype.size
    return Pipeline(filters=filters, datatype=datatype, cell_size=size, version=22, is_var=is_var)


numbers = st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**32 - 1)), max_size=8)
words = numbers.map(lambda found: struct.pack(f"<{len(found)}I", *found))
raw = st.one_of(words, st.binary(max_size=80), st.binary(max_size=40).map(zlib.compress))


@settings(max_examples=600, deadline=None)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    st.sampled_from([Datatype.INT32, Datatype.UINT64, Datatype.STRING_ASCII, Datatype.FLOAT32]),
    st.builds(Chunk, st.integers(0, 200), st.tuples(words, raw).map(b"".join), raw),
)
def test_any_bytes_are_opened_or_refused(
    kinds: list[str], datatype: Datatype, chunk: Chunk
) -> None:
    wanted = pipeline(*kinds, datatype=datatype, is_var=datatype.is_string)
    tracemalloc.start()
    with suppress(BadFileError):
        undo(wanted, chunk, "a0.tdb")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("kind", sorted(COMPRESSORS))
def test_a_part_that_claims_more_than_a_chunk_holds(kind: str) -> None:
    metadata = struct.pack("<IIII", 0, 1, 1 << 31, 4)
    with pytest.raises(BadFileError, match="expected parts of at most"):
        undo(pipeline(kind), Chunk(64, metadata, b"abcd"), "a0.tdb")


def test_a_chunk_that_is_encrypted_needs_the_key() -> None:
    sealed = pipeline(AES_256_GCM.kind)
    metadata = struct.pack("<IIII", 0, 1, 4, 4) + bytes(28)
    with pytest.raises(KeyNeededError):
        undo(sealed, Chunk(4, metadata, b"abcd"), "a0.tdb")
    with pytest.raises(WrongKeyError, match="found another, or damaged bytes"):
        undo(sealed, Chunk(4, metadata, b"abcd"), "a0.tdb", b"k" * 32)


def test_a_filter_that_is_not_known_stops_there() -> None:
    """What comes behind it in the pipeline is undone first."""
    data = zlib.compress(b"abcd")
    metadata = struct.pack("<IIII", 0, 1, 4, len(data))
    chunk = Chunk(4, metadata, data)
    assert undo(pipeline("webp", "gzip"), chunk, "a0.tdb").stopped_at == "webp"
    with pytest.raises(BadFileError, match="its content cannot be unpacked"):
        undo(pipeline("webp", "gzip"), chunk._replace(data=b"x" * len(data)), "a0.tdb")


streams = st.builds(
    lambda data, level, bits: zlib.compress(data, level, bits),
    st.one_of(st.binary(max_size=300), st.binary(max_size=6).map(lambda text: text * 900)),
    st.integers(0, 9),
    st.integers(9, 15),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A stream that was cut, has more behind it, or some other bytes in it."""
    data = bytearray(draw(streams))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@settings(max_examples=1_500, deadline=None)
@given(st.one_of(streams, damaged(), st.binary(max_size=60)), st.integers(0, 6_000), st.booleans())
def test_zlib_is_the_judge_of_streams(data: bytes, size: int, is_size_right: bool) -> None:
    """What the quicker library opens or refuses, the one that the engine has does too."""
    opener, right = zlib.decompressobj(), b""
    with suppress(zlib.error):
        right = opener.decompress(data)
    if is_size_right:
        size = len(right)
    if opener.eof and not opener.unused_data and len(right) == size:
        assert inflate(data, size, "a") == right
        return
    with pytest.raises(BadFileError, match=r"that unpacks to|cannot be unpacked"):
        inflate(data, size, "a")
