"""Fragments of format version 23, which no engine at hand writes: made from those of version 22.

The specs, the fast decoders and the writers are held to each other, and an array in version 23 to
the same array in version 22.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import footer_spec
from support.corpus_cases import CASES
from support.footers import consolidated_footers, decode_footer
from support.fragments_of_corpus import Fragment, fragments
from support.version_23 import UNKNOWN, encode_sections, newer_array, newer_metadata

from chronotile import consolidate
from chronotile.cli.program import main
from chronotile.errors import BadFileError, ChronotileError
from chronotile.format import tiles
from chronotile.format.consolidated_footers import (
    encode_consolidated_footers,
)
from chronotile.format.footer_columns import joined, sparse_columns
from chronotile.format.fragment_footer import (
    FooterLayout,
    Section,
    without_delete_metadata,
)
from chronotile.format.fragment_metadata import decode_metadata, frame_metadata
from chronotile.format.fragment_size import domain_text, measure

if TYPE_CHECKING:
    from collections.abc import Callable

OLD = [fragment for fragment in fragments() if fragment.frame.head.version == 22]
KINDS = {"sparse": "inside-sparse-v22", "dense": "inside-dense-v22", "secret": "inside-secret-v22"}


def new(fragment: Fragment, *others: Section) -> bytes:
    return newer_metadata(fragment.data, fragment.schema, key=fragment.case.key, others=others)


def footer_of(data: bytes) -> bytes:
    """The footer, without the length behind it."""
    return data[frame_metadata(data, "x").footer_start : -8]


@pytest.mark.parametrize("others", [(), (UNKNOWN,), (UNKNOWN, Section(2**64 - 1, b""))])
def test_every_fragment_is_read_as_the_spec_says(others: tuple[Section, ...]) -> None:
    assert len(OLD) > 100
    for fragment in OLD:
        data, schema = new(fragment, *others), fragment.schema
        raw = data[frame_metadata(data, "x").footer_start :]
        footer = decode_footer(raw, schema, "x")
        assert footer_spec.footer(raw, schema, footer.fields, bare=False) == footer
        assert footer_spec.footer(raw[:-8], schema, footer.fields, bare=True) == footer
        assert footer.sections[len(footer.sections) - len(others) :] == others
        assert bool(footer.ofs_tile_ends[0]) == (footer.sparse_tiles > 0)
        assert raw.endswith(encode_sections(footer.sections) + raw[-8:])
        assert len(encode_sections(footer.sections)) == footer.len_sections


def test_only_what_is_new_differs() -> None:
    for fragment in OLD:
        data = new(fragment, UNKNOWN)
        before = decode_metadata(fragment.data, fragment.schema, "x", key=fragment.case.key)
        after = decode_metadata(data, fragment.schema, "x", key=fragment.case.key)
        assert after.r_tree == before.r_tree
        assert after.applied_deletes == before.applied_deletes
        boxes = [*before.r_tree.levels[-1].boxes()] if before.r_tree.levels else []
        dimensions = {field.name: field for field in fragment.schema.dimensions}
        for was, now in zip(before.fields, after.fields, strict=True):
            for name in set(was.__slots__) - {"first", "last"}:
                assert getattr(now, name) == getattr(was, name), name
            field = dimensions.get(now.name)
            for side, bounds in enumerate((now.first, now.last)):
                assert (bounds is None) == (field is None or not boxes)
                if bounds is not None and field is not None:
                    at, width = fragment.schema.dimensions.index(field), field.cell_size
                    assert [*bounds.values(width)] == [box[at][side] for box in boxes]
        tiles_there = {tile.offset for tile in frame_metadata(data, "x").tiles}
        told = after.footer.needed | after.footer.others
        # A fragment without a cell has these tiles too, and no section that says where.
        untold = 0 if boxes or after.footer.dense else 2 * len(dimensions)
        assert told <= tiles_there
        assert len(tiles_there - told) == untold


def test_of_one_type_the_last_section_counts() -> None:
    fragment = next(one for one in OLD if one.case.name == KINDS["sparse"])
    first = decode_footer(footer_of(new(fragment)), fragment.schema, "x", bare=True)
    again = Section(0, struct.pack("<4Q", 4, 3, 2, 1))
    raw = footer_of(new(fragment, UNKNOWN, again))
    footer = decode_footer(raw, fragment.schema, "x", bare=True)
    assert footer.sections == (*first.sections, UNKNOWN, again)
    assert footer.ofs_tile_ends == ((4, 3), (2, 1))
    assert footer_spec.footer(raw, fragment.schema, footer.fields, bare=True) == footer


@pytest.mark.parametrize(
    "sections",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\0\0",
        b"\1\0\0\0",
        b"\xff\xff\xff\xff",
        encode_sections([Section(0, bytes(31))]),
        encode_sections([Section(0, bytes(33))]),
        encode_sections([UNKNOWN])[:-1],
        encode_sections([UNKNOWN]) + b"\0",
        struct.pack("<IQI", 1, 77, 2**32 - 1),
    ],
    ids=bytes.hex,
)
def test_sections_that_cannot_be(sections: bytes) -> None:
    fragment = next(one for one in OLD if one.case.name == KINDS["sparse"])
    raw = footer_of(new(fragment))
    schema, size = fragment.schema, decode_footer(raw, fragment.schema, "x", bare=True).len_sections
    spoiled = raw[: len(raw) - size] + sections
    with pytest.raises(BadFileError, match=r"expected .* found"):
        decode_footer(spoiled, schema, "x", bare=True)
    with pytest.raises(BadFileError, match=r"expected .* found"):
        footer_spec.footer(spoiled, schema, None, bare=True)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_footers_are_read_as_the_spec_says(data: st.DataObject) -> None:
    fragment = data.draw(st.sampled_from(OLD[::7]))
    sound = new(fragment, UNKNOWN)
    sound = sound[frame_metadata(sound, "x").footer_start :]
    near = len(sound) - 8 - 60
    at = data.draw(st.one_of(st.integers(0, len(sound)), st.integers(near, len(sound))))
    put = data.draw(st.sampled_from((b"", b"\1", b"\xff" * 8, b"\0" * 8, b"\1" + bytes(7))))
    cut = data.draw(st.sampled_from((len(put), len(put) + 1, 0)))
    spoiled = sound[:at] + put + sound[at + cut :]
    answers: list[object] = [None, None]
    fields = None
    with contextlib.suppress(ChronotileError):
        answers[0] = found = decode_footer(spoiled, fragment.schema, "x")
        fields = found.fields
    with contextlib.suppress(ChronotileError):
        answers[1] = footer_spec.footer(spoiled, fragment.schema, fields, bare=False)
    assert answers[0] == answers[1]


def plain() -> list[Fragment]:
    """Fragments of one schema, each of one write, whose dimensions are whole numbers."""
    found = (one for one in OLD if one.case.name == "out-of-order")
    return [one for one in found if one.name.split("_")[2] == one.name.split("_")[3]]


def test_many_at_once_say_what_one_by_one_says() -> None:
    """Footers that are as long as each other, and differ in how their sections are divided."""
    assert len(plain()) >= 4, "as many as the columns are made for"
    ways = [
        (),
        (Section(5, bytes(24)),),
        (Section(6, bytes(24)),),
        (Section(5, bytes(12)), Section(5, b"")),
        (Section(5, b""), Section(5, bytes(12))),
    ]
    raws = [footer_of(new(one, *others)) for others in ways for one in plain()]
    broken = bytearray(raws[len(plain())])
    broken[-24 - 4 : -24] = struct.pack("<I", 23)
    raws.append(bytes(broken))
    schema, layout = plain()[0].schema, FooterLayout(plain()[0].schema)
    assert len({len(raw) for raw in raws}) == 2
    columns = [*sparse_columns(joined(raws), lambda _: (schema, layout))]
    rows = [row for one in columns for row in one.rows.tolist()]
    assert len(rows) == len(set(rows)) == len(ways) * len(plain())
    assert len(raws) - 1 not in rows
    for one in columns:
        assert one.version == 23
        for at, row in enumerate(one.rows.tolist()):
            footer = layout.decode(raws[row], "x", bare=True)
            size = measure(footer, schema, "x")
            told = (one.cells[at], one.tiles[at], one.cell_bytes[at], one.domain[at].as_py())
            assert told == (size.cells, size.tiles, footer.cell_bytes, domain_text(footer, schema))


def test_a_footer_without_delete_metadata_keeps_its_sections() -> None:
    seen = 0
    for fragment in OLD:
        raw, layout = footer_of(new(fragment, UNKNOWN)), FooterLayout(fragment.schema)
        footer = layout.decode(raw, "x", bare=True)
        if footer.has_delete_metadata:
            seen += 1
            found = layout.decode(without_delete_metadata(raw, footer, layout), "x")
            assert found.sections == footer.sections
            assert not found.has_delete_metadata
            gone = {("dt.tdb", 0), ("dci.tdb", 0)}
            assert {(f.name, f.size) for f in found.cell_files} | gone == {
                (f.name, 0 if (f.name, 0) in gone else f.size) for f in footer.cell_files
            }
    assert seen > 5


def test_a_meta_holds_both_versions() -> None:
    mixed = [(one.name, footer_of(new(one, UNKNOWN))) for one in plain()[::2]]
    mixed += [(one.name, one.footer[:-8]) for one in plain()[1::2]]
    payload = tiles.decode(encode_consolidated_footers(mixed, version=23), "x").payload
    assert consolidated_footers(payload, "x") == dict(mixed)
    assert [name for name, _ in footer_spec.listed(payload)] == [name for name, _ in mixed]


class Pair(NamedTuple):
    """An array, and the same in version 23."""

    old: Path
    new: Path
    names: dict[str, str]
    key: tuple[str, ...]
    """Options that open both."""


@pytest.fixture(params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    case = CASES[KINDS[request.param]]
    old, newer = tmp_path / "old", tmp_path / "new"
    for folder in (old, newer):
        shutil.copytree(case.array, folder)
    names = newer_array(newer, key=case.key, others=[UNKNOWN])
    key: tuple[str, ...] = ()
    if case.key:
        (tmp_path / "key").write_bytes(case.key)
        key = ("--key-file", str(tmp_path / "key"))
    return Pair(old, newer, names, key)


@pytest.fixture
def answers(both: Pair, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, Any]]:
    """What a command says of both, by the names in version 22."""

    def ask(command: str, *args: str) -> tuple[Any, Any]:
        said = []
        for array in (both.old, both.new):
            assert main([command, str(array), *args, *both.key, "--json"]) == 0
            text = capsys.readouterr().out.replace(str(array), "ARRAY")
            for new_name, old_name in both.names.items():
                text = text.replace(new_name, old_name)
            said.append(json.loads(text))
        return said[0], said[1]

    return ask


def test_commands_answer_as_for_version_22(answers: Callable[..., tuple[Any, Any]]) -> None:
    old, newer = answers("visible", "--end", "1000")
    for said in (old, newer):
        for fragment in said["fragments"]:
            fragment.pop("version")
    assert newer == old
    old, newer = answers("fragments")
    assert {fragment["version"] for fragment in newer} == {23}
    for fragment in (*old, *newer):
        del fragment["version"], fragment["bytes"]
    assert newer == old
    old, newer = answers("usage")
    old_fields, new_fields = (
        {(f["field"], f["part"]): f["bytes"] for f in said["fields"] if f["part"] != "metadata"}
        for said in (old, newer)
    )
    assert new_fields == old_fields
    old, newer = ([one["code"] for one in said] for said in answers("check", "--deep"))
    assert set(newer) == set(old) <= {"superseded-bytes"}


def test_footers_are_consolidated_and_used(
    both: Pair, answers: Callable[..., tuple[Any, Any]]
) -> None:
    for array in (both.old, both.new):
        shutil.rmtree(array / "__fragment_meta")
        (array / "__fragment_meta").mkdir()
    key = None if not both.key else Path(both.key[1]).read_bytes()
    consolidate(str(both.new), mode="fragment-meta", key=key)
    (written,) = (both.new / "__fragment_meta").iterdir()
    assert written.name.endswith("_23.meta")
    payload = tiles.decode(written.read_bytes(), "x", key=key).payload
    held = consolidated_footers(payload, "x")
    for name, footer in held.items():
        own = (both.new / "__fragments" / name / "__fragment_metadata.tdb").read_bytes()
        assert footer == footer_of(own)
    _, newer = answers("fragments")
    used = {fragment["name"] for fragment in newer if fragment["metadata"] == "consolidated"}
    assert used == {both.names[name] for name in held} != set()


def test_a_fragment_is_shown(both: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    folder = min((both.new / "__fragments").iterdir())
    file = str(folder / "__fragment_metadata.tdb")
    assert main(["show", file, *both.key, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["format_version"] == 23
    ends = [field for field in said["fields"] if "first" in field]
    assert [field["field"] for field in ends] == ([] if said["type"] == "dense" else ["x", "s"])
    for at, field in enumerate(ends):
        leaves = said["r_tree"]["levels"][-1]
        assert [field["first"], field["last"]] == [[leaf[at][n] for leaf in leaves] for n in (0, 1)]
    assert main(["show", file, *both.key, "--hex", "--json"]) == 0
    layout = json.loads(capsys.readouterr().out)["layout"]
    named = [one["field"] for one in layout[0]["fields"]]
    assert named[-2:] == [f"footer.sections[{bool(ends):d}].data.raw", "len_footer"]
    titles = {region["region"].partition(", ")[2] for region in layout}
    assert {"first coordinates of x", "last coordinates of s"} <= titles or not ends
