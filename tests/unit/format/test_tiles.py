"""Tiles: there and back, those of the corpus, and those that the engine reads from us."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tiledb
from corpus.recipes.scene import KEY
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray
from support.spec_files import CORPUS, corpus_files

from chronotile.conditions.codec import decode as decode_condition
from chronotile.conditions.codec import encode as encode_condition
from chronotile.conditions.tree import Op, member_of
from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    TooLargeError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.commit_files import decode_con
from chronotile.format.schema import decode_schema

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = KEY.encode()
CHUNK = tiles.CHUNK_SIZE
AROUND = [n * CHUNK + near for n in (0, 1, 2, 3) for near in (-1, 0, 1) if n or near >= 0]
TILE_SPECS = {
    "delete_commit",
    "update_commit",
    "array_schema_file",
    "enumeration_file",
    "array_metadata_file",
}


def where(path: Path) -> str:
    return path.relative_to(CORPUS).as_posix()


def corpus_tiles() -> list[tuple[str, bytes, bytes | None]]:
    """(where, tile, key) of every tile in the corpus, those inside `.con` files included."""
    found = []
    for spec, path in (*corpus_files(), *corpus_files(damaged=True)):
        case = where(path).partition("/")[0]
        text = CASES[case].expected["key"] if case in CASES else None  # no group has one
        key = text.encode() if text else None
        if spec in TILE_SPECS:
            found.append((where(path), path.read_bytes(), key))
        elif spec == "consolidated_commits" and not case.startswith("bad-con-"):
            found += [
                (f"{where(path)} {record.offset}", record.tile, key)
                for record in decode_con(path.read_bytes(), path.name)
                if record.tile is not None
            ]
    return found


DAMAGED = ("bad-tile", "bad-empty-delete")


def test_every_tile_of_the_corpus() -> None:
    """Opened, wrapped anew and opened again: the same payload, byte for byte."""
    seen = {"plain": 0, "encrypted": 0, "refused": 0}
    for place, data, key in corpus_tiles():
        try:
            tile = tiles.decode(data, place, key=key)
        except BadFileError:
            assert place.startswith(DAMAGED), place
            seen["refused"] += 1
            continue
        own = key if tile.encrypted else None
        again = tiles.encode(tile.payload, version=tile.version, key=own)
        opened = tiles.decode(again, place, key=own)
        assert (opened.payload, opened.version) == (tile.payload, tile.version)
        assert opened.encrypted == tile.encrypted
        seen["encrypted" if tile.encrypted else "plain"] += 1
        if key is not None and tile.encrypted:
            with pytest.raises(KeyNeededError):
                tiles.decode(data, place)
            with pytest.raises(WrongKeyError):
                tiles.decode(data, place, key=b"\1" * 32)
    assert seen["plain"] > 400
    assert seen["encrypted"] > 20
    assert seen["refused"] == 2


@given(st.binary(max_size=300), st.integers(1, 23), st.booleans())
def test_there_and_back(payload: bytes, version: int, encrypted: bool) -> None:
    key = SECRET if encrypted else None
    data = tiles.encode(payload, version=version, key=key)
    tile = tiles.decode(data, "a.del", key=key)
    assert (tile.payload, tile.version, tile.encrypted) == (payload, version, encrypted)


@pytest.mark.parametrize("key", [None, SECRET])
@pytest.mark.parametrize("size", AROUND)
def test_sizes_around_a_chunk(size: int, key: bytes | None) -> None:
    for payload in (bytes(size), bytes(range(251)) * (size // 251) + b"x" * (size % 251)):
        data = tiles.encode(payload, version=22, key=key)
        assert tiles.decode(data, "a.del", key=key).payload == payload
        at = 34 + struct.unpack_from("<I", data, 30)[0]
        assert struct.unpack_from("<Q", data, at)[0] == -(-size // CHUNK)


@given(st.data())
@settings(max_examples=150)
def test_a_damaged_tile_is_refused_or_says_the_same(data: st.DataObject) -> None:
    """A byte changed: nearly always an error; else the payload is whole, or what it now claims."""
    encrypted = data.draw(st.booleans())
    key = SECRET if encrypted else None
    payload = data.draw(st.binary(max_size=60))
    tile = bytearray(tiles.encode(payload, version=22, key=key))
    at = data.draw(st.integers(0, len(tile) - 1))
    tile[at] ^= data.draw(st.integers(1, 255))
    try:
        found = tiles.decode(bytes(tile), "a.del", key=key)
    except ChronotileError:
        return
    # zlib checks the payload, and GCM more than that; version, type and cell size are unchecked.
    assert found.payload == payload


@pytest.mark.parametrize("chunks", [0, 1, 3, 9])
def test_the_fast_path_says_what_the_generated_parser_says(chunks: int) -> None:
    """As they are, with a byte of the framing changed, cut short; two cores open nine."""
    payload = (bytes(range(256)) * 256 * chunks)[: chunks * CHUNK - 5 if chunks else 0]
    tile = tiles.encode(payload, version=22)
    chance = random.Random(chunks)
    framing = [at for at in range(len(tile)) if at < 100 or tile[at - 4 : at] == bytes(4)]
    changed = [tile, *(tile[: chance.randrange(len(tile))] for _ in range(20))]
    for at in [*framing, *chance.choices(range(len(tile)), k=60)]:
        odd = bytearray(tile)
        odd[at] ^= 1 << chance.randrange(8)
        changed.append(bytes(odd))

    def said(opener: Callable[[bytes], tiles.Tile], data: bytes) -> str:
        try:
            return str(opener(data))
        except ChronotileError as error:
            return f"{type(error)}: {error}"

    for data in changed:
        # Bytes behind the end that the header states are cut off before either.
        header = tiles.read_header(data)
        size = None if header is None else header.extent
        slow = said(lambda data: tiles._decode_any(data, "a.del", None, 1 << 20), data[:size])
        assert said(lambda data: tiles.decode(data, "a.del", ceiling=1 << 20), data) == slow


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(BadFileError):
        tiles.decode(data, "a.del")


def test_every_cut() -> None:
    for key in (None, SECRET):
        data = tiles.encode(b"payload" * 30, version=22, key=key)
        for end in range(len(data)):
            with pytest.raises(BadFileError):
                tiles.decode(data[:end], "a.del", key=key)


def test_a_ceiling() -> None:
    data = tiles.encode(bytes(1000), version=22)
    with pytest.raises(TooLargeError):
        tiles.decode(data, "a.del", ceiling=999)
    assert len(tiles.decode(data, "a.del", ceiling=1000).payload) == 1000


def test_no_two_encryptions_are_the_same() -> None:
    one, other = (tiles.encode(b"payload", version=22, key=SECRET) for _ in range(2))
    assert one != other


@pytest.mark.parametrize("key", [None, SECRET])
def test_the_engine_reads_our_schema(tmp_path: Path, key: bytes | None) -> None:
    array = EngineArray(tmp_path / "array", key=KEY if key else None).create()
    (path,) = (Path(array.uri) / "__schema").glob("__*_*")
    tile = tiles.decode(path.read_bytes(), path.name, key=key)
    before = tiledb.ArraySchema.load(array.uri, ctx=array.ctx)
    path.write_bytes(tiles.encode(tile.payload, version=tile.version, key=key))
    assert tiledb.ArraySchema.load(array.uri, ctx=array.ctx) == before
    assert decode_schema(tile.payload, path.name).field("a") is not None


@pytest.mark.parametrize("key", [None, SECRET])
def test_the_engine_reads_our_delete_of_several_chunks(tmp_path: Path, key: bytes | None) -> None:
    array = EngineArray(tmp_path / "array", key=KEY if key else None).create()
    array.write(10, {1: 1, 2: 2, 3: 70_000})
    members = tuple(struct.pack("<i", n) for n in range(3, 60_003))
    stored = member_of("a", Op.NOT_IN, (*members, struct.pack("<i", 1)))
    payload = encode_condition(stored)
    assert len(payload) > 10 * CHUNK
    data = tiles.encode(payload, version=22, key=key)
    name = f"__20_20_{'0' * 32}_22.del"
    (Path(array.uri) / "__commits" / name).write_bytes(data)
    assert array.rows(0, 100) == {2: 2, 3: 70_000}
    assert decode_condition(tiles.decode(data, name, key=key).payload, name) == stored
