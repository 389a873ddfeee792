"""Files that are not what they claim: one clear error, quickly, in little memory."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from chronotile.errors import BadFileError, TooLargeError, UnsupportedFilterError
from chronotile.format import parsers, tiles
from chronotile.format.commit_files import decode_con

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _in_little_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * MIB


def value_node(field: bytes = b"a", op: int = 3, value: bytes = b"\3\0\0\0") -> bytes:
    return struct.pack("<BBI", 1, op, len(field)) + field + struct.pack("<Q", len(value)) + value


def nested(levels: int) -> bytes:
    return struct.pack("<BBQ", 0, 2, 1) * (levels - 1) + value_node()


def one_chunk(original: int, data: bytes, stated: int | None = None) -> bytes:
    """A GZIP tile of one chunk whose sizes are as given, true or not."""
    pipeline = struct.pack("<IIBIBi", 65536, 1, 1, 5, 1, 1)
    part = original if stated is None else stated
    metadata = struct.pack("<IIII", 0, 1, part, len(data))
    body = struct.pack("<QIII", 1, original, len(data), len(metadata)) + metadata + data
    header = struct.pack("<IQQBQBI", 22, len(body), original, 4, 1, 0, len(pipeline))
    return header + pipeline + body


def refused(spec: Any, data: bytes) -> BadFileError:
    with pytest.raises(BadFileError) as caught:
        parsers.parse(spec, "bad", data)
    assert str(caught.value).startswith("bad: ")
    assert "expected" in str(caught.value)
    assert "found" in str(caught.value)
    return caught.value


def test_the_deepest_tree_that_is_read() -> None:
    node = parsers.parse(parsers.ConditionSpec, "deep", nested(250)).root
    for _ in range(249):
        (node,) = node.children
    assert node.node_type.name == "value"
    assert (node.body.field_name, node.body.value.raw) == ("a", b"\3\0\0\0")


@pytest.mark.parametrize("levels", [251, 10_000, 100_000])
def test_a_tree_that_is_too_deep(levels: int) -> None:
    error = refused(parsers.ConditionSpec, nested(levels))
    assert "num_children of expression_head to be at most 0, found 1" in str(error)
    assert error.offset == 250 * 10


def test_a_deep_stack_around_us_is_no_other_error() -> None:
    def down(frames: int) -> None:
        if frames:
            down(frames - 1)
        else:
            refused(parsers.ConditionSpec, nested(250))

    down(700)


@pytest.mark.parametrize("count", [2**63, 2**64 - 1, 3])
def test_more_children_than_there_are_bytes(count: int) -> None:
    error = refused(parsers.ConditionSpec, struct.pack("<BBQ", 0, 0, count) + value_node())
    assert f"num_children of expression_head to be at most 1, found {count}" in str(error)


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (b"\2\0", "found 2"),
        (value_node(op=9), "found 9"),
        (value_node(field=b"\xff\xfe"), "UTF-8"),
        (struct.pack("<BBI", 1, 0, 2**32 - 1) + b"a", "expected 4294967295 bytes"),
        (struct.pack("<BBIBQ", 1, 0, 1, 97, 2**63), f"expected {2**63} bytes"),
        (value_node(op=6) + struct.pack("<QB", 9, 0), "found 9"),
        (value_node() + b"x", "b'x'"),
        (b"", "found 0"),
    ],
)
def test_a_damaged_condition(payload: bytes, found: str) -> None:
    assert found in str(refused(parsers.ConditionSpec, payload))


@pytest.mark.parametrize("count", [2**63, 2**64 - 1])
def test_more_update_values_than_there_are_bytes(count: int) -> None:
    error = refused(parsers.UpdateSpec, value_node() + struct.pack("<Q", count))
    assert f"found {count}" in str(error)


def test_more_chunks_than_there_are_bytes() -> None:
    data = bytearray(one_chunk(4, zlib.compress(b"abcd")))
    data[52:60] = struct.pack("<Q", 2**63)
    error = refused(parsers.GenericTileSpec, bytes(data))
    assert "num_chunks of tile_chunks to be at most" in str(error)
    assert error.offset == 60


def test_a_chunk_that_claims_4_gib_on_disk() -> None:
    data = bytearray(one_chunk(4, zlib.compress(b"abcd")))
    data[64:68] = b"\xff" * 4
    assert "expected 4294967295 bytes" in str(refused(parsers.GenericTileSpec, bytes(data)))


def test_a_chunk_that_claims_4_gib_in_memory() -> None:
    data = one_chunk(2**32 - 1, zlib.compress(b"abcd"))
    with pytest.raises(TooLargeError, match="at most 268435456 bytes, found one of 4294967295"):
        tiles.decode(data, "big")


def test_a_stream_that_inflates_far_past_its_stated_size() -> None:
    bomb = zlib.compress(bytes(64 * MIB), 9)
    tracemalloc.reset_peak()
    with pytest.raises(BadFileError, match="a zlib stream that unpacks to 100 bytes, found more"):
        tiles.decode(one_chunk(100, bomb), "bomb")


def test_a_stream_that_inflates_to_less() -> None:
    with pytest.raises(BadFileError, match="a zlib stream that unpacks to 100 bytes, found 4"):
        tiles.decode(one_chunk(100, zlib.compress(b"abcd")), "short")


@pytest.mark.parametrize("tail", [b"x", zlib.compress(b"more")])
def test_bytes_behind_a_stream(tail: bytes) -> None:
    with pytest.raises(BadFileError, match="found more"):
        tiles.decode(one_chunk(4, zlib.compress(b"abcd") + tail), "tail")


def test_a_stream_that_is_none() -> None:
    with pytest.raises(BadFileError, match="its content cannot be unpacked"):
        tiles.decode(one_chunk(4, b"abcd"), "none")


def test_a_stream_that_is_cut() -> None:
    stream = zlib.compress(bytes(range(256)))
    with pytest.raises(BadFileError, match="expected a zlib stream that unpacks to 256 bytes"):
        tiles.decode(one_chunk(256, stream[:-3]), "cut")


def test_parts_that_do_not_add_up() -> None:
    with pytest.raises(BadFileError, match="a zlib stream that unpacks to 5 bytes, found 4"):
        tiles.decode(one_chunk(4, zlib.compress(b"abcd"), stated=5), "parts")
    with pytest.raises(BadFileError, match="a chunk of 4 bytes, found 5"):
        tiles.decode(one_chunk(4, zlib.compress(b"abcde"), stated=5), "parts")


def test_a_filter_that_is_not_supported_is_named() -> None:
    data = bytearray(one_chunk(4, zlib.compress(b"abcd")))
    data[42] = 2
    with pytest.raises(UnsupportedFilterError, match="found zstd"):
        tiles.decode(bytes(data), "zstd")


def test_a_newer_version_of_a_tile_is_read_as_the_engine_reads_it() -> None:
    data = struct.pack("<I", 24) + one_chunk(4, zlib.compress(b"abcd"))[4:]
    assert tiles.decode(data, "x").payload == b"abcd"
    assert tiles.oddity(data) == "version 24 in its header, which TileDB passes over"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"__commits/a.wrt", "expected an end of line, found the file's end"),
        (b"__commits/a.txt\n", "'__commits/a.txt'"),
        (b"\n", "''"),
        (b".ok\n", "'.ok'"),
        (b"__commits/a.del\n" + struct.pack("<Q", 2**63), f"expected {2**63} bytes"),
        (b"__commits/a.del\n" + b"\1\0", "expected 8 bytes, found 2"),
        (b"__commits/\xff.wrt\n", "UTF-8"),
    ],
)
def test_a_damaged_con(data: bytes, found: str) -> None:
    with pytest.raises(BadFileError) as caught:
        decode_con(data, "bad.con")
    assert found in str(caught.value)


def test_a_long_value_is_not_printed_whole() -> None:
    error = refused(parsers.IgnoreFileSpec, b"a" * 100_000)
    assert len(str(error)) < 200
