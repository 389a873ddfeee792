"""The fast path is held to the slow one: the same records for any bytes, or both refuse."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.commit_strategies import EXTENSIONS, con_files, mutated, names, odd_names
from support.spec_files import CORPUS, corpus_files

from chronotile.errors import BadFileError, BadNameError
from chronotile.format.commit_files import decode_con
from chronotile.format.kinds import EXTENSIONS as KNOWN
from chronotile.format.names import parse_name
from chronotile.history import lines_to_columns
from chronotile.history.lines_to_columns import (
    _BLOCK,
    rows_of_shape,
    scan_con,
    scan_names,
    shape_of,
    uuid_start_of,
)
from chronotile.history.uri_columns import NO_VERSION, Uris

if TYPE_CHECKING:
    from pathlib import Path

    from support.commit_strategies import Piece

CONS = [
    path
    for spec, path in (*corpus_files(), *corpus_files(damaged=True))
    if spec == "consolidated_commits"
]
LINE = b"__commits/__7_8_00112233445566778899aabbccddeeff_22.wrt\n"


def where(path: Path) -> str:
    return path.relative_to(CORPUS).as_posix()


class Seen(NamedTuple):
    """What either path finds in one record."""

    start: int
    uri: str
    tile_offset: int | None
    tile: bytes | None


def slowly(data: bytes) -> list[Seen] | None:
    try:
        records = decode_con(data, "a.con")
    except BadFileError:
        return None
    return [Seen(one.offset, one.uri, one.tile_offset, one.tile) for one in records]


def fast(data: bytes) -> list[Seen] | None:
    try:
        uris, tiles = scan_con(data, "a.con")
    except BadFileError:
        return None
    check_columns(uris, data)
    assert tiles.row.tolist() == sorted(set(tiles.row.tolist()))
    held = dict(zip(tiles.row.tolist(), zip(tiles.offset, tiles.length, strict=True), strict=True))
    found = []
    for row, (start, length) in enumerate(zip(uris.start, uris.length, strict=True)):
        uri = data[start : start + length].decode()
        offset, size = held.get(row, (None, None))
        tile = None if offset is None else data[offset : offset + size]
        found.append(Seen(int(start), uri, None if offset is None else int(offset), tile))
    return found


def check_columns(uris: Uris, data: bytes) -> None:
    """Every number is what `names` makes of the text."""
    for row, (start, length) in enumerate(zip(uris.start, uris.length, strict=True)):
        line = data[start : start + length]
        text = line.decode("utf-8", "surrogateescape")
        ext = next((n for n, e in enumerate(KNOWN) if n and text.endswith(e)), 0)
        stem = text.rpartition("/")[2]
        assert uris.ext[row] == ext
        try:
            line.decode()
            name = parse_name(stem[: len(stem) - len(KNOWN[ext])])
        except (BadNameError, UnicodeDecodeError):
            assert row in uris.bad
            continue
        assert row not in uris.bad
        version = NO_VERSION if name.version is None else name.version
        assert (uris.t1[row], uris.t2[row], uris.version[row]) == (name.t1, name.t2, version)
        assert uris.uuid_start[row] == uuid_start_of(name.uuid)
        first, last = uris.name_bounds(row)
        assert data[first:last].decode() == name.text


@given(con_files())
@settings(max_examples=400)
@example([])
@example([(LINE[:-1], 1)])
@example([(LINE, 64), (LINE[:-1], 1)])
@example([(LINE, 70), (b"\n", 1), (LINE, 70)])
@example([(LINE, 70), (b"__commits/a.del\n" + bytes(8), 1), (LINE, 70)])
def test_any_con(pieces: list[Piece]) -> None:
    data = b"".join(piece * times for piece, times in pieces)
    assert fast(data) == slowly(data)


@given(st.data())
@settings(max_examples=200)
def test_mutated_con_files_of_the_corpus(data: st.DataObject) -> None:
    con = data.draw(st.sampled_from(CONS)).read_bytes()
    changed = data.draw(mutated(con))
    assert fast(changed) == slowly(changed)


@pytest.mark.parametrize("path", CONS, ids=where)
def test_con_files_of_the_corpus_cut_everywhere(path: Path) -> None:
    con = path.read_bytes()
    assert fast(con) == slowly(con)
    for end in range(0, len(con), 41):
        assert fast(con[:end]) == slowly(con[:end])


@pytest.mark.parametrize("odd", [b"__commits/__9_8_", b"__commits/__1_1_x", b"x", b"a.del\n"])
@pytest.mark.parametrize("at", [0, 1, 63, 64, 65, 999, 1000])
def test_one_odd_line_among_many(odd: bytes, at: int) -> None:
    first = 1_700_000_000_000
    lines = [f"__commits/__{t}_{t}_{t:032x}_22.wrt\n".encode() for t in range(first, first + 1000)]
    lines.insert(at, odd + b"0" * 31 + b"_22.wrt\n")
    data = b"".join(lines)
    assert fast(data) == slowly(data)


def test_many_shapes_in_turn() -> None:
    """Times that grow in digits, one after the other and mixed."""
    lines = [
        f"__commits/__{t}_{t + more}_{t:032x}_{v}.wrt\n".encode()
        for t in (*range(95, 105), *range(995, 1005), 10**18, 10**19 - 2)
        for more in (0, 1, 7)
        for v in (5, 22)
    ]
    for data in (b"".join(lines), b"".join(lines[::2] + lines[1::2]), b"".join(lines * 40)):
        assert fast(data) == slowly(data)


@pytest.mark.parametrize("more", range(1, 21))
@pytest.mark.parametrize("few", [1, 7, 8, 9, 12, 13, 15, 16, 17, 19, 20])
def test_times_of_every_width(few: int, more: int) -> None:
    """Runs of lines whose times have any number of digits, all the same ones or any."""
    for digit in "1234567890"[: 9 if max(few, more) < 20 else 1]:
        pairs = [(digit * few, digit * more), ("1234567890" * 2, "1029384756" * 2)]
        for t1, t2 in pairs:
            line = f"__commits/__{t1[:few]}_{t2[:more]}_{'0a' * 16}_22.wrt\n".encode()
            assert fast(line * 66) == slowly(line * 66)


def test_every_byte_of_a_line() -> None:
    """One byte of a line is replaced by every other one: does it still fit?"""
    line = b"__commits/__1700000000000_1700000000001_" + b"0123456789abcdef" * 2 + b"_22.wrt\n"
    shape = shape_of(line[:-1])
    assert shape is not None
    pattern = re.compile(rb"__commits/__[0-9]{13}_[0-9]{13}_[0-9a-f]{32}_22\.wrt\n")
    lines = [line]
    lines += [
        line[:at] + bytes([b]) + line[at + 1 :] for at in range(len(line)) for b in range(256)
    ]
    matrix = np.frombuffer(b"".join(lines), np.uint8).reshape(-1, len(line))
    fits = rows_of_shape(matrix, shape).tolist()
    assert fits == [pattern.fullmatch(one) is not None for one in lines]
    assert 0 < sum(fits) < len(fits)


ENDINGS = [b".del", b".upd", b".ign", b".wrt\n"]


@pytest.mark.parametrize("more", [-1, 0, 1, 63, 64, 255, 256, 257, 326])
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_odd_line_behind_blocks_of_even_ones(
    more: int, ending: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of their own length stands where a block ends or begins."""
    monkeypatch.setattr(lines_to_columns, "_BLOCK", 256)
    check_odd_line(256, 256 + more, ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_odd_line_behind_a_block_of_full_size(ending: bytes) -> None:
    check_odd_line(_BLOCK, _BLOCK, ending)


def check_odd_line(block: int, at: int, ending: bytes) -> None:
    first = 1_700_000_000_000
    times = range(first, first + 2 * block + 200)
    lines = [f"__commits/__{t}_{t}_{t:032x}_22.wrt\n".encode() for t in times]
    tile = bytes([80, 0, 0, 0, 0, 0, 0, 0]) + lines[0] if ending in (b".del", b".upd") else b""
    odd = lines[at][:-5] + ending + b"\n" + tile
    data = b"".join(lines[:at]) + odd + b"".join(lines[at + 1 :])
    assert fast(data) == slowly(data)


@given(st.lists(st.one_of(names(), odd_names(), st.text(max_size=9)), max_size=30), EXTENSIONS)
@settings(max_examples=150)
def test_any_names(found: list[str], extension: str) -> None:
    files = [name + extension for name in found]
    for wanted in (files, found, files * 70):
        uris, text = scan_names(wanted)
        assert len(uris.start) == len(wanted)
        check_columns(uris, text)
        for row, name in enumerate(wanted):
            start = int(uris.start[row])
            shown = text[start : start + int(uris.length[row])]
            # A newline, which no line can hold, becomes another letter that no name has.
            assert shown == name.replace("\n", "\0").encode("utf-8", "surrogateescape")
