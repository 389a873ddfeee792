"""Fragment metadata: held to the specs, to the engine, and to its promises on bytes that lie."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from hypothesis import given, settings
from hypothesis import strategies as st
from support import footer_spec
from support.footers import consolidated_footers, decode_footer
from support.fragments_of_corpus import Fragment, fragments, meta_files
from support.handmade_array import encode_fragment_metadata, sample_schema

from chronotile.errors import BadFileError, ChronotileError, UnknownVersionError
from chronotile.format import cell_values, tiles
from chronotile.format.consolidated_footers import (
    encode_consolidated_footers,
    read_index,
)
from chronotile.format.fragment_footer import (
    FooterLayout,
    coordinate_sizes,
    decode_applied,
    read_head,
)
from chronotile.format.fragment_metadata import (
    FragmentMetadata,
    decode_bounds,
    decode_metadata,
    decode_numbers,
    decode_r_tree,
    decode_statistics,
    frame_metadata,
)
from chronotile.format.fragment_size import domain_text, measure
from chronotile.single_file.decode import read_schemas
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VERSIONS = {3, 4, 5, 8, 10, 16, 17, 18, 20, 21, 22}
SCHEMA = sample_schema()
SAMPLE = encode_fragment_metadata(SCHEMA, "__1_1_00112233445566778899aabbccddeeff")


def decoded(fragment: Fragment) -> FragmentMetadata:
    where = str(fragment.path)
    return decode_metadata(fragment.data, fragment.schema, where, key=fragment.case.key)


def payload_at(fragment: Fragment, offset: int) -> bytes:
    return tiles.open_at(fragment.data, offset, fragment.name, key=fragment.case.key)


def test_the_corpus_has_every_shape() -> None:
    shapes, times = set(), set()
    for fragment in fragments():
        footer = decode_footer(fragment.footer, fragment.schema, fragment.name)
        var = any(field.is_var for field in fragment.schema.dimensions)
        shapes.add((footer.version, footer.dense, var))
        times.add((footer.version, footer.has_timestamps, footer.has_delete_metadata))
    assert {version for version, _, _ in shapes} == VERSIONS
    for version in VERSIONS:
        assert {(version, True, False), (version, False, False)} <= shapes
        assert ((version, False, True) in shapes) == (version >= 5)
    for version in VERSIONS - {3, 4, 5, 8, 10}:
        assert {(version, False, False), (version, True, False), (version, True, True)} <= times
    assert {case.expected["format"] for case, _ in meta_files()} == VERSIONS - {3, 4}
    assert any(case.key for case, _ in meta_files())


def test_a_footer_is_read_as_the_spec_says() -> None:
    for fragment in fragments():
        data, schema = fragment.footer, fragment.schema
        footer = decode_footer(data, schema, fragment.name)
        assert footer_spec.footer(data, schema, footer.fields, bare=False) == footer
        bare = data[:-8] if FooterLayout(schema).has_length(footer.version) else data
        assert decode_footer(bare, schema, fragment.name, bare=True) == footer
        assert read_head(data, fragment.name) == fragment.frame.head


def test_each_tile_is_read_as_the_spec_says() -> None:
    for fragment in fragments():
        found = decoded(fragment)
        footer, sizes = found.footer, coordinate_sizes(fragment.schema)
        payload = payload_at(fragment, footer.ofs_r_tree)
        tree = found.r_tree.fanout, [list(level.boxes()) for level in found.r_tree.levels]
        assert footer_spec.r_tree(payload, footer.version, sizes) == tree
        for at, field in enumerate(found.fields):
            lists = {
                "ofs_tile_offsets": field.tile_offsets,
                "ofs_var_tile_offsets": field.var_tile_offsets,
                "ofs_var_tile_sizes": field.var_tile_sizes,
                "ofs_validity_tile_offsets": field.validity_tile_offsets,
                "ofs_tile_sums": field.sums,
                "ofs_tile_null_counts": field.null_counts,
            }
            for name, numbers in lists.items():
                offsets = getattr(footer, name)
                assert (at < len(offsets)) == (numbers is not None)
                if numbers is not None:
                    inner = payload_at(fragment, offsets[at])
                    assert footer_spec.numbers(inner) == list(numbers)
            for offsets, bounds in (
                (footer.ofs_tile_minima, field.minima),
                (footer.ofs_tile_maxima, field.maxima),
            ):
                if bounds is not None:
                    assert footer_spec.bounds(payload_at(fragment, offsets[at])) == bounds
        if footer.ofs_processed_conditions is not None:
            payload = payload_at(fragment, footer.ofs_processed_conditions)
            assert footer_spec.applied(payload) == found.applied_deletes


def test_a_file_is_framed_without_its_schema() -> None:
    for fragment in fragments():
        frame = fragment.frame
        ends = [0, *itertools.accumulate(tile.size for tile in frame.tiles)]
        assert [tile.offset for tile in frame.tiles] == ends[:-1]
        assert ends[-1] == frame.footer_start
        assert {tile.encrypted for tile in frame.tiles} == {fragment.case.key is not None}
        footer = decode_footer(fragment.footer, fragment.schema, fragment.name)
        assert footer.needed | footer.others == {tile.offset for tile in frame.tiles}


def config_of(case: Any) -> Any:
    settings: dict[str, str] = {}
    if case.key:
        settings = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": case.key.decode()}
    return tiledb.Ctx(tiledb.Config(settings))


def test_the_engine_says_the_same() -> None:
    """Every fragment that an open sees: cells, domain, tiles, schema, version, kind."""
    ours = {(fragment.case.name, fragment.name): fragment for fragment in fragments()}
    compared, boxes = set(), 0
    for case in {fragment.case.name: fragment.case for fragment in ours.values()}.values():
        try:
            engine = tiledb.array_fragments(str(case.array), True, ctx=config_of(case))
        except tiledb.TileDBError:
            assert case.name.startswith("bad-"), case.name
            continue
        except OverflowError:
            assert case.name.startswith("op-dim-datetime"), "the package knows no such dates"
            continue
        for one, mbrs in zip(engine, engine.mbrs, strict=True):
            fragment = ours[case.name, one.uri.rstrip("/").rpartition("/")[2]]
            found = decoded(fragment)
            footer, dimensions = found.footer, fragment.schema.dimensions

            def raw(domain: Any, dimensions: Any = dimensions) -> list[tuple[bytes, bytes]]:
                pairs = zip(dimensions, domain, strict=True)
                return [
                    (cell_values.encode(f, low), cell_values.encode(f, high))
                    for f, (low, high) in pairs
                ]

            size = measure(footer, fragment.schema, fragment.name)
            assert (one.version, one.sparse, one.cell_num) == (
                footer.version,
                not footer.dense,
                size.cells,
            )
            assert raw(one.nonempty_domain) == list(footer.domain or ())
            assert one.array_schema_name == (footer.schema_name or "__array_schema.tdb")
            leaves = list(found.r_tree.levels[-1].boxes()) if found.r_tree.levels else []
            assert [raw(box) for box in mbrs] == [list(leaf) for leaf in leaves]
            assert len(leaves) == (0 if footer.dense else size.tiles)
            compared.add((footer.version, footer.dense))
            boxes += len(leaves)
    assert {version for version, _ in compared} == VERSIONS
    assert boxes > 300


def test_the_engine_takes_its_consolidated_footers_from_the_same_files() -> None:
    for case, path in meta_files():
        payload = tiles.decode(path.read_bytes(), path.name, key=case.key).payload
        named = set(consolidated_footers(payload, path.name))
        engine = tiledb.array_fragments(str(case.array), ctx=config_of(case))
        for one in engine:
            name = one.uri.rstrip("/").rpartition("/")[2]
            if one.has_consolidated_metadata:
                assert name in named, case.name


def test_bytes_are_those_of_the_files() -> None:
    for fragment in fragments():
        footer = decode_footer(fragment.footer, fragment.schema, fragment.name)
        folder = {p.name: p.stat().st_size for p in fragment.path.parent.iterdir()}
        total = sum(folder.values()) - len(fragment.data)
        assert footer.cell_bytes == sum(file.size for file in footer.cell_files) == total
        parts = {file.part for file in footer.cell_files}
        assert parts <= {"data", "offsets", "validity", "timestamps", "deletes"}
        assert ("timestamps" in parts) == footer.has_timestamps
        assert ("deletes" in parts) == footer.has_delete_metadata


def test_a_domain_reads_as_its_dimensions_do() -> None:
    texts = {
        fragment.case.name: domain_text(
            decode_footer(fragment.footer, fragment.schema, "x"), fragment.schema
        )
        for fragment in fragments()
        if fragment.case.name.startswith("op-dim-")
    }
    assert texts["op-dim-datetime-D"] == '[["1964-07-11", "1994-08-23"]]'
    assert texts["op-dim-float64"] == "[[-1.0, 1.75]]"
    assert texts["op-dim-ascii"] is not None
    assert texts["op-dim-ascii"].startswith('[["')


def test_a_written_meta_is_the_engines_byte_for_byte() -> None:
    assert len(meta_files()) > 15
    for case, path in meta_files():
        tile = tiles.decode(path.read_bytes(), path.name, key=case.key)
        listed = read_index(tile.payload, path.name).listed()
        assert [(item.name, item.offset) for item in listed] == footer_spec.listed(tile.payload)
        pairs = [(item.name, item.footer) for item in listed]
        written = encode_consolidated_footers(pairs, version=tile.version, key=case.key)
        again = tiles.decode(written, path.name, key=case.key)
        assert again == tile
        folders = {fragment.name: fragment for fragment in fragments() if fragment.case is case}
        for item in listed:
            if item.fragment in folders:
                fragment = folders[item.fragment]
                assert fragment.footer.removeprefix(item.footer) in (
                    b"",
                    struct.pack("<Q", len(item.footer)),
                )


@pytest.mark.parametrize("name", ["inside-sparse-v22", "inside-dense-v16", "inside-secret-v22"])
def test_the_engine_opens_an_array_by_our_meta(name: str, tmp_path: Path) -> None:
    case = next(case for case, _ in meta_files() if case.name == name)
    array = tmp_path / "array"
    shutil.copytree(case.array, array)
    shutil.rmtree(array / "__fragment_meta")
    before = tiledb.array_fragments(str(array), ctx=config_of(case))
    assert not any(one.has_consolidated_metadata for one in before)
    ours = [fragment for fragment in fragments() if fragment.case is case]
    footers = [(one.name, one.footer[:-8]) for one in ours]
    version = case.expected["format"]
    data = encode_consolidated_footers(footers, version=version, key=case.key)
    (array / "__fragment_meta").mkdir()
    (array / f"__fragment_meta/__1_99_{'ab' * 16}_{version}.meta").write_bytes(data)
    for one in ours:
        # What the engine does not read again cannot be missed.
        path = array / "__fragments" / one.name / one.path.name
        path.write_bytes(one.data[: one.frame.footer_start] + bytes(len(one.footer)))
    after = tiledb.array_fragments(str(array), ctx=config_of(case))
    assert all(one.has_consolidated_metadata for one in after)
    shown = [(one.cell_num, one.nonempty_domain, one.version) for one in after]
    assert shown == [(one.cell_num, one.nonempty_domain, one.version) for one in before]
    with tiledb.open(str(array), ctx=config_of(case)) as opened:
        assert len(opened[:]["u"])


def agree(*ways: Callable[[], object]) -> object:
    """Each way gives the same value, or an error of ours."""
    answers: list[object] = []
    for way in ways:
        try:
            answers.append(way())
        except ChronotileError:
            answers.append(None)
    assert all(answer == answers[0] for answer in answers), answers
    return answers[0]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_footers_are_read_as_the_spec_says(data: st.DataObject) -> None:
    fragment = data.draw(st.sampled_from(fragments()[::7]))
    spoiled = spoil(data, fragment.footer)
    schema = fragment.schema

    def fast() -> object:
        return decode_footer(spoiled, schema, "x")

    def slow() -> object:
        fields = None
        with contextlib.suppress(ChronotileError):
            fields = decode_footer(spoiled, schema, "x").fields
        return footer_spec.footer(spoiled, schema, fields, bare=False)

    agree(fast, slow)


def spoil(data: st.DataObject, sound: bytes) -> bytes:
    at = data.draw(st.integers(0, len(sound)))
    put = data.draw(st.sampled_from((b"", b"\1", b"\xff" * 8, b"\0" * 8, b"\1" + bytes(7))))
    cut = data.draw(st.sampled_from((len(put), len(put) + 1, 0)))
    return sound[:at] + put + sound[at + cut :]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_tiles_are_read_as_the_spec_says(data: st.DataObject) -> None:
    fragment = data.draw(st.sampled_from([f for f in fragments() if f.case.key is None][::7]))
    footer = decode_footer(fragment.footer, fragment.schema, "x")
    sizes = coordinate_sizes(fragment.schema)
    offset = data.draw(st.sampled_from(sorted(footer.needed | footer.others)))
    payload = spoil(data, payload_at(fragment, offset))
    agree(
        lambda: list(decode_numbers(payload, "x")),
        lambda: footer_spec.numbers(payload),
    )
    agree(lambda: decode_applied(payload, "x"), lambda: footer_spec.applied(payload))

    def tree() -> object:
        found = decode_r_tree(payload, footer.version, sizes, "x")
        return found.fanout, [list(level.boxes()) for level in found.levels]

    agree(tree, lambda: footer_spec.r_tree(payload, footer.version, sizes))
    with contextlib.suppress(ChronotileError):
        # The spec does not know the widths: what is read here is read there.
        assert decode_bounds(payload, None, "x") == footer_spec.bounds(payload)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_gives_one_error_of_ours(data: st.DataObject) -> None:
    fragment = data.draw(st.sampled_from([f for f in fragments() if f.case.key is None][::11]))
    spoiled = spoil(data, fragment.data)
    with contextlib.suppress(ChronotileError):
        frame_metadata(spoiled, "x")
    with contextlib.suppress(ChronotileError):
        found = decode_metadata(spoiled, fragment.schema, "x")
        measure(found.footer, fragment.schema, "x")
        domain_text(found.footer, fragment.schema)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_meta_is_read_as_the_spec_says(data: st.DataObject) -> None:
    case, path = data.draw(st.sampled_from(meta_files()))
    payload = spoil(data, tiles.decode(path.read_bytes(), "x", key=case.key).payload)
    agree(
        lambda: [(i.name, i.offset) for i in read_index(payload, "x").listed()],
        lambda: footer_spec.listed(payload),
    )


HUGE = 1 << 63


def u64(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def r_tree(levels: int, *boxes: int, sizes: bytes) -> object:
    return decode_r_tree(struct.pack("<II", 10, levels) + u64(*boxes), 22, sizes, "x")


def with_length(length: int) -> object:
    return decode_metadata(SAMPLE[:-8] + u64(length), SCHEMA, "x")


LIES: list[tuple[str, Callable[[], object]]] = [
    ("numbers of 2^63", lambda: decode_numbers(u64(HUGE, 1), "x")),
    ("bounds of 2^63", lambda: decode_bounds(u64(HUGE, HUGE), 4, "x")),
    ("bounds that do not start at 0", lambda: decode_bounds(u64(8, 0, 1), None, "x")),
    ("bounds beyond their part", lambda: decode_bounds(u64(16, 1, 0, 2) + b"a", None, "x")),
    ("bounds of another width", lambda: decode_bounds(u64(9, 0) + bytes(9), 4, "x")),
    ("a tree of 2^63 boxes", lambda: r_tree(1, HUGE, sizes=b"\4")),
    ("boxes of any length", lambda: r_tree(1, HUGE, sizes=b"\0")),
    ("boxes of no dimension", lambda: r_tree(1, HUGE, sizes=b"")),
    ("a tree of 2^32 levels", lambda: r_tree(2**32 - 1, sizes=b"\4")),
    ("statistics of 2^63", lambda: decode_statistics(u64(HUGE), 1, "x")),
    ("2^63 deletes", lambda: decode_applied(u64(HUGE), "x")),
    ("a path of 2^63", lambda: decode_applied(u64(1, HUGE), "x")),
    ("2^32 fragments", lambda: read_index(b"\xff" * 4, "x").listed()),
    ("a name of 2^63", lambda: read_index(b"\1\0\0\0" + u64(HUGE, 0), "x").listed()),
    ("a footer at 2^63", lambda: read_index(b"\1\0\0\0" + u64(0, HUGE), "x").listed()),
    ("a footer longer than its file", lambda: with_length(HUGE)),
    ("a footer of no length", lambda: with_length(0)),
    ("no bytes", lambda: decode_metadata(b"", SCHEMA, "x")),
]


@pytest.mark.parametrize(("what", "read"), LIES, ids=[what for what, _ in LIES])
def test_a_lie_costs_little(what: str, read: Callable[[], object]) -> None:
    with measured() as peak, pytest.raises(BadFileError, match=r"expected .* found"):
        read()
    assert peak() < 1 << 20, what


@contextlib.contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """Tells the most memory that was taken meanwhile."""
    found = [0]
    tracemalloc.start()
    try:
        yield lambda: found[0]
    finally:
        found[0] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


def test_a_footer_of_another_schema() -> None:
    """N does not fit."""
    wide = next(f for f in fragments() if f.case.name == "inside-sparse-v22")
    expected = "expected .* bytes, found|expected flags"
    with pytest.raises(BadFileError, match=expected):
        decode_footer(SAMPLE[frame_metadata(SAMPLE, "x").footer_start :], wide.schema, "x")
    with pytest.raises(BadFileError, match=expected):
        decode_footer(wide.footer, SCHEMA, "x")


@pytest.mark.parametrize("version", [0, 1, 2, 24, 25, 2**32 - 1])
def test_a_version_that_is_not_known_is_said_so(version: int) -> None:
    start = frame_metadata(SAMPLE, "x").footer_start
    data = SAMPLE[:start] + struct.pack("<I", version) + SAMPLE[start + 4 :]
    match = f"expected a version from 3 to 23, found {version}$"
    for read in (
        lambda: decode_metadata(data, SCHEMA, "x"),
        lambda: frame_metadata(data, "x"),
        lambda: decode_footer(data[start:], SCHEMA, "x"),
        lambda: encode_consolidated_footers([("a", data[start:-8])], version=22),
    ):
        with pytest.raises(UnknownVersionError, match=match):
            read()


@pytest.mark.parametrize(
    ("at", "number", "words"),
    [
        (0, HUGE, "tiles in files of its sizes, found 9223372036854775808"),
        (8, HUGE, "expected at most 3 cells in the last tile"),
        (8, 4, "expected at most 3 cells in the last tile, found 4"),
    ],
)
def test_numbers_of_cells_that_cannot_be(at: int, number: int, words: str) -> None:
    inside = (f for f in fragments() if f.case.name == "inside-sparse-v22")
    fragment = next(f for f in inside if f.name.startswith("__60_60_"))
    footer = decode_footer(fragment.footer, fragment.schema, "x")
    held = u64(footer.sparse_tiles, footer.last_cells)
    start = fragment.footer.index(held) + at
    spoiled = fragment.footer[:start] + u64(number) + fragment.footer[start + 8 :]
    with pytest.raises(BadFileError) as caught:
        measure(decode_footer(spoiled, fragment.schema, "x"), fragment.schema, "x")
    assert words in str(caught.value)


def test_a_dense_domain_outside_the_array() -> None:
    fragment = next(f for f in fragments() if f.case.name == "inside-dense-v22")
    footer = decode_footer(fragment.footer, fragment.schema, "x")
    assert footer.domain is not None
    low = footer.domain[0][0]
    for wrong in (-5, 2**62, -(2**63)):
        spoiled = fragment.footer.replace(low, struct.pack("<q", wrong), 1)
        with pytest.raises(BadFileError, match="expected 'x' from -4 to 4, found"):
            measure(decode_footer(spoiled, fragment.schema, "x"), fragment.schema, "x")


def test_all_tiles_share_one_ceiling() -> None:
    """Many small tiles that each unfold to much."""
    bomb = tiles.encode(u64(1 << 17) + bytes(1 << 20), version=22)
    start = frame_metadata(SAMPLE, "x").footer_start
    footer = decode_footer(SAMPLE[start:], SCHEMA, "x")
    count = 4 * len(footer.fields)
    numbers = u64(*[footer.ofs_tile_offsets[0]] * count)
    bombs = u64(*[start + len(bomb) * at for at in range(count)])
    assert numbers in SAMPLE[start:]
    data = SAMPLE[:start] + bomb * count + SAMPLE[start:].replace(numbers, bombs)
    with measured() as peak, pytest.raises(BadFileError, match="expected a tile of at most"):
        decode_metadata(data, SCHEMA, "x", ceiling=3 << 20)
    assert peak() < 16 << 20


def test_a_meta_that_lists_one_footer_a_million_times() -> None:
    count = 20_000
    table = u64(0, 4 + 16 * count) * count
    payload = struct.pack("<I", count) + table + bytes(1 << 20)
    with measured() as peak:
        assert len(read_index(payload, "x").listed()) == count
    assert peak() < 16 << 20


def test_bounds_of_any_length() -> None:
    bounds = decode_bounds(u64(16, 3, 0, 2) + b"abc", None, "x")
    assert list(bounds.values(None)) == [b"ab", b"c"]
    assert list(decode_bounds(u64(0, 0), None, "x").values(None)) == []
    assert list(decode_bounds(u64(0, 0), 4, "x").values(4)) == []


DENSE: list[tuple[str, tuple[Any, Any], Any, tuple[int, int]]] = [
    ("int8", (-128, 125), None, (3, 9)),
    ("int8", (-100, 100), 7, (90, 200)),
    ("uint8", (0, 254), 255, (0, 254)),
    ("uint8", (1, 250), 9, (0, 1)),
    ("uint64", (2**63, 2**63 + 999), 10, (5, 25)),
    ("int64", (-(2**63), -(2**63) + 999), 64, (63, 64)),
    ("int32", (-5, 5), None, (1, 2)),
    ("datetime64[D]", ("1971-12-01", "1973-01-01"), 30, (29, 61)),
]


@pytest.mark.parametrize(("dtype", "domain", "tile", "cells"), DENSE)
def test_dense_tiles_of_every_kind_of_coordinate(
    tmp_path: Path, dtype: str, domain: tuple[Any, Any], tile: Any, cells: tuple[int, int]
) -> None:
    """Extents that are left out, or need the sign bit, and coordinates at both ends."""
    array = str(tmp_path / "array")
    low, high = (np.array(bound, dtype=dtype)[()] for bound in domain)
    extent = np.timedelta64(tile, "D") if dtype.startswith("datetime") else tile
    dim = tiledb.Dim("x", domain=(low, high), tile=extent, dtype=dtype)
    attr = tiledb.Attr("a", dtype="int16")
    tiledb.Array.create(array, tiledb.ArraySchema(tiledb.Domain(dim), attrs=[attr]))
    first, last = cells
    with tiledb.open(array, "w") as opened:
        subarray = tiledb.Subarray(opened)
        if dtype.startswith("datetime"):
            pair = low + np.timedelta64(first, "D"), low + np.timedelta64(last, "D")
        else:
            pair = low.dtype.type(int(low) + first), low.dtype.type(int(low) + last)
        subarray.add_dim_range(0, pair)
        opened.write_subarray(subarray, np.zeros(last - first + 1, dtype="int16"))
    (path,) = (tmp_path / "array").rglob("__fragment_metadata.tdb")
    (schema,) = read_schemas(open_store(array))
    footer = decode_metadata(path.read_bytes(), schema, "x").footer
    size = measure(footer, schema, "x")
    (engine,) = tiledb.array_fragments(array)
    assert size.cells == engine.cell_num
