"""One file of any kind: named, recognised, decoded, and laid out byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus_cases import CASES, GROUPS

from chronotile.errors import BadFileError, ChronotileError, KeyNeededError, WrongKeyError
from chronotile.format import tiles
from chronotile.format.kinds import FRAGMENT_METADATA, KINDS, Kind
from chronotile.show.byte_ranges import layout
from chronotile.single_file.decode import (
    ConsolidatedFile,
    DeleteFile,
    LinesFile,
    UpdateFile,
    WriteFile,
    decode,
    kind_of_name,
    parse,
    read_schemas,
    recognise,
)
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UUID = "00112233445566778899aabbccddeeff"


def files() -> Iterator[tuple[Kind, Path, bytes | None]]:
    for case in CASES.values():
        for file in case.files():
            kind = kind_of_name(str(file.path))
            if kind == "fragment-metadata" and case.name == "era-one":
                continue  # of a version without a footer
            if kind is not None and not case.name.startswith("bad-"):
                yield kind, file.path, case.key
    for group in GROUPS.values():
        for path in sorted(group.group.glob("**/__group/*")):
            yield "group", path, None


def test_every_kind_is_in_the_corpus() -> None:
    assert {kind for kind, _, _ in files()} == set(KINDS)


def test_content_tells_the_kind_wherever_it_can() -> None:
    told = 0
    for kind, path, key in files():
        data = path.read_bytes()
        if not data:
            assert recognise(data, "x", key=key) == "wrt"
            continue
        if kind in ("con", "ign") and b".del\n" not in data and b".upd\n" not in data:
            with pytest.raises(BadFileError, match="con or ign; give --kind KIND"):
                recognise(data, "x", key=key)
            assert parse(data, kind).kind == kind
        else:
            assert recognise(data, "x", key=key) == kind, path
            told += 1
    assert told > 300


def test_a_path_and_its_bytes_give_the_same() -> None:
    for kind, path, key in files():
        by_path = parse(path, key=key)
        assert by_path == parse(path.read_bytes(), kind, key=key)
        assert by_path.kind == kind


def test_what_each_kind_holds() -> None:
    array = CASES["sparse-everything-v22"].array
    (con,) = (array / "__commits").glob("*.con")
    (ign,) = (array / "__commits").glob("*.ign")
    held = parse(con)
    assert isinstance(held, ConsolidatedFile)
    lines = parse(ign)
    assert isinstance(lines, LinesFile)
    assert set(lines.lines) <= {record.uri for record in held.records}
    tile = next(record.tile for record in held.records if record.tile is not None)
    delete = parse(tile)
    assert isinstance(delete, DeleteFile)
    assert delete.predicate != delete.stored
    update = parse(next((CASES["update-v22"].array / "__commits").glob("*.upd")))
    assert isinstance(update, UpdateFile)
    assert update.values
    assert parse(b"") == WriteFile(kind="wrt")


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"x", "wrt", "expected no content, found 1 bytes"),
        (b"x", None, "it is no commit file, schema or metadata"),
        (b"\n", None, "it is no commit file, schema or metadata"),
        (f"__commits/__1_1_{UUID}_22.wrt\n".encode(), None, "con or ign; give --kind KIND"),
        (b"x", "nonsense", "expected a kind of wrt, ok, del"),
        (tiles.encode(b"\xff\xff", version=22), None, "it is no commit file"),
        (tiles.encode(b"\xff\xff", version=22), "del", "bytes: at byte 0"),
    ],
)
def test_what_cannot_be_decoded(data: bytes, kind: str | None, words: str) -> None:
    with pytest.raises(BadFileError, match="bytes") as caught:
        parse(data, kind)
    assert words in str(caught.value)


def test_a_tile_that_needs_a_key() -> None:
    case = CASES["secret-loose-v22"]
    delete = next((case.array / "__commits").glob("*.del"))
    with pytest.raises(KeyNeededError):
        parse(delete)
    with pytest.raises(KeyNeededError):
        parse(delete.read_bytes())
    with pytest.raises(WrongKeyError):
        parse(delete, key="x" * 32)
    closed = layout(delete.read_bytes(), "del", "a.del")
    assert [region.title for region in closed] == ["file"]
    opened = layout(delete.read_bytes(), "del", "a.del", key=case.key)
    assert [region.title for region in opened] == ["file", "payload"]


def test_each_byte_belongs_to_one_field() -> None:
    for kind, path, key in files():
        for region in layout(path.read_bytes(), kind, str(path), key=key):
            at = 0
            for span in region.spans:
                assert span.start == at, (path, region.title, span)
                at = span.end
            assert at == len(region.data)


def test_each_byte_of_a_fragments_metadata_belongs_to_one_field_of_its_schema() -> None:
    titles = set()
    for case in CASES.values():
        if not case.name.startswith(("inside-", "old-inside-")):
            continue
        schemas = read_schemas(open_store(str(case.array)), case.key)
        for path in case.array.rglob(FRAGMENT_METADATA):
            data = path.read_bytes()
            regions = layout(data, "fragment-metadata", "x", key=case.key, schemas=schemas)
            for region in regions:
                ends = [0, *(span.end for span in region.spans)]
                assert [span.start for span in region.spans] == ends[:-1]
                assert ends[-1] == len(region.data)
                titles.add(region.title.partition(", ")[2].partition(" of ")[0])
            assert not any("unread" in span.path for span in regions[0].spans)
            framed = layout(data, "fragment-metadata", "x")
            assert len(framed) == (len(regions) if case.key is None else 1)
    assert titles == {
        "",
        "R-tree",
        "tile offsets",
        "var tile offsets",
        "var tile sizes",
        "validity tile offsets",
        "minima",
        "maxima",
        "sums",
        "null counts",
        "statistics",
        "applied deletes",
    }


def test_schemas_without_the_log() -> None:
    for case in CASES.values():
        if case.key is None:
            newest = read_schemas(open_store(str(case.array)))[0]
            names = {field["name"] for field in case.expected["fields"]}
            assert {field.name for field in newest.fields} == names, case.name
    labelled = read_schemas(open_store(str(CASES["op-enumeration"].array)))[0]
    assert any(field.enumeration is not None for field in labelled.attributes)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_bytes_give_a_value_or_our_error(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from((None, *KINDS)))
    sample = data.draw(st.sampled_from(_SAMPLES))
    at = data.draw(st.integers(0, len(sample)))
    spoiled = sample[:at] + data.draw(st.binary(max_size=8)) + sample[at + 1 :]
    try:
        found = parse(spoiled, kind)
    except ChronotileError:
        return
    chosen = kind or found.kind
    assert decode(spoiled, chosen, "x") == found
    for region in layout(spoiled, chosen, "x"):
        assert all(0 <= span.start <= span.end <= len(region.data) for span in region.spans)


_SAMPLES = [
    path.read_bytes()
    for name in ("sparse-everything-v22", "update-v22", "op-enumeration", "meta-consolidated-v22")
    for _, path in ((file.kind, file.path) for file in CASES[name].files())
    if kind_of_name(str(path)) is not None
][:40]
