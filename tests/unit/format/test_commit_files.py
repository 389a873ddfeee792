"""Records: `.con`, `.ign` and `.vac` files there and back, and those of the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commit_strategies import TILES, names, uris
from support.con_files import con_name, encode_con
from support.spec_files import CORPUS, corpus_files

from chronotile.errors import BadFileError, BadNameError
from chronotile.format.commit_files import (
    ConRecord,
    commit_name,
    decode_con,
    decode_ign,
    decode_vac,
    encode_lines,
    encode_record,
    later_name,
    rank,
    vacuumed_name,
)
from chronotile.format.names import LEAST, enough, parse_name, time_order

if TYPE_CHECKING:
    from pathlib import Path

UUID = "00112233445566778899aabbccddeeff"


def of_corpus(spec: str) -> list[Path]:
    found = (*corpus_files(), *corpus_files(damaged=True))
    return [path for kind, path in found if kind == spec]


def where(path: Path) -> str:
    return path.relative_to(CORPUS).as_posix()


def is_whole(path: Path) -> bool:
    """Whether nobody damaged it on purpose."""
    return not where(path).startswith("bad-con-")


@st.composite
def records(draw: st.DrawFn) -> ConRecord:
    uri = draw(uris())
    return ConRecord(uri, draw(TILES) if uri.endswith((".del", ".upd")) else None)


def bare(record: ConRecord) -> tuple[str, bytes | None]:
    return record.uri, record.tile


@given(st.lists(records(), max_size=12))
def test_a_con_comes_back_in_time_order(found: list[ConRecord]) -> None:
    data = encode_con(found)
    again = decode_con(data, "a.con")
    assert sorted(map(repr, map(bare, again))) == sorted(map(repr, map(bare, found)))
    order = [time_order(commit_name(record.uri)) for record in again]
    assert order == sorted(order)
    assert encode_con(again) == data
    for record in again:
        assert data[record.offset :].startswith(encode_record(record))
        if record.tile is not None and record.tile_offset is not None:
            assert data[record.tile_offset :].startswith(record.tile)


@given(st.lists(records(), min_size=1, max_size=12))
def test_the_name_of_a_con_covers_what_it_holds(found: list[ConRecord]) -> None:
    name = parse_name(con_name(found, 22))
    held = [commit_name(record.uri) for record in found]
    assert (name.t1, name.t2) == (min(n.t1 for n in held), max(n.t2 for n in held))


@pytest.mark.parametrize(
    "record",
    [
        ConRecord("__commits/nonsense.wrt", None),
        ConRecord(f"__commits/__1_1_{UUID}_22.del", None),
        ConRecord(f"__commits/__1_1_{UUID}_22.wrt", b"tile"),
        ConRecord(f"__commits/__1_1_{UUID}_22.txt", None),
        ConRecord(f"__com\nmits/__1_1_{UUID}_22.wrt", None),
    ],
)
def test_records_that_are_not_written(record: ConRecord) -> None:
    with pytest.raises((BadNameError, BadFileError)):
        encode_con([record])


def test_no_records_have_no_name() -> None:
    with pytest.raises(BadFileError):
        con_name([], 22)


@pytest.mark.parametrize("path", of_corpus("consolidated_commits"), ids=where)
def test_con_files_of_the_corpus(path: Path) -> None:
    data = path.read_bytes()
    if not is_whole(path):
        with pytest.raises(BadFileError):
            decode_con(data, path.name)
        return
    found = decode_con(data, path.name)
    # The engine's own order is not that of time (F2), so records are compared one by one.
    assert b"".join(map(encode_record, found)) == data
    order = [time_order(commit_name(record.uri)) for record in found]
    assert (encode_con(found) == data) == (order == sorted(order))


def test_the_corpus_has_both_orders() -> None:
    kept = [
        encode_con(decode_con(path.read_bytes(), "a.con")) == path.read_bytes()
        for path in of_corpus("consolidated_commits")
        if is_whole(path)
    ]
    assert {*kept} == {True, False}


@pytest.mark.parametrize("path", of_corpus("ignore_file"), ids=where)
def test_ign_files_of_the_corpus(path: Path) -> None:
    data = path.read_bytes()
    assert encode_lines(decode_ign(data, path.name)) == data


@pytest.mark.parametrize("path", of_corpus("vacuum_file"), ids=where)
def test_vac_files_of_the_corpus(path: Path) -> None:
    data = path.read_bytes()
    lines = decode_vac(data, path.name)
    assert encode_lines(lines) == data
    for line in lines:
        parse_name(vacuumed_name(line))


LINES = st.lists(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1)
)


@given(LINES)
def test_lines_come_back(lines: list[str]) -> None:
    data = encode_lines(lines)
    assert list(decode_ign(data, "a.ign")) == lines
    assert list(decode_vac(data, "a.vac")) == lines


@pytest.mark.parametrize("lines", [[""], ["a", ""], ["a\nb"], ["\n"]])
def test_lines_that_are_not_written(lines: list[str]) -> None:
    with pytest.raises(BadNameError):
        encode_lines(lines)


@pytest.mark.parametrize("data", [b"a", b"a\nb", b"\n", b"a\n\n", b"\xff\n"])
def test_lines_that_are_not_read(data: bytes) -> None:
    for decode in (decode_ign, decode_vac):
        with pytest.raises(BadFileError):
            decode(data, "a")


@given(names(), st.sampled_from(("/__fragments/", "file:///old/place/__fragments/", "s3://b/", "")))
def test_vacuumed_names(name: str, prefix: str) -> None:
    assert vacuumed_name(prefix + name) == name
    assert vacuumed_name(f"{prefix}{name}/") == name


def test_names_in_their_order_have_short_ids_that_differ() -> None:
    """Each is later than all others, by its uuid."""
    files: list[str] = []
    for _ in range(200):
        files.append(f"{later_name([f'__commits/__1_1_{UUID}_22.wrt'], files, 22)}.con")
    assert files == sorted(files, key=rank)
    assert enough(file.removesuffix(".con") for file in files) == LEAST
