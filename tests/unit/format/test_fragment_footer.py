"""Footers of fragments: those of the corpus, of every version, and damaged ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus_cases import CASES
from support.footers import decode_footer
from support.handmade_array import encode_fragment_metadata, sample_schema
from support.spec_files import fragment_metadata

from chronotile import open_log
from chronotile.check.fragment_health import Wholeness, inspect
from chronotile.errors import ChronotileError
from chronotile.format.fragment_footer import METADATA, footer_size
from chronotile.format.names import parse_name, version_of
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib


def test_every_fragment_of_the_corpus_is_whole() -> None:
    """Each file has the size that the footer names, and no other file is there."""
    versions, old, strange = set(), 0, 0
    for case in CASES.values():
        history = open_log(str(case.array), key=case.key).history
        store = open_store(str(case.array))
        for name, path in history.listing.fragment_paths().items():
            health = inspect(store, history, [path])[path]
            if name == "lost+found":
                strange += 1
            elif health.state is Wholeness.UNKNOWN:
                old += 1
            else:
                assert health.is_whole, health
                versions.add(version_of(parse_name(name)))
    assert versions >= {4, 5, 8, 10, 16, 17, 18, 20, 21, 22}
    assert (old, strange) == (2, 1), "only those of versions 1 and 2 have no footer"


def test_a_footer_names_every_file() -> None:
    named = 0
    for case in CASES.values():
        history = open_log(str(case.array), key=case.key).history
        schemas = {item.text: item.schema for item in history.schemas}
        for name, path in history.listing.fragment_paths().items():
            folder: pathlib.Path = case.array / path
            if not name.endswith(("_22", "_16", "_10")) or not (folder / METADATA).exists():
                continue
            data = (folder / METADATA).read_bytes()
            size = footer_size(data, len(data), version_of(parse_name(name)), None, name)
            schema = schemas[
                inspect(open_store(str(case.array)), history, [path])[path].schema or ""
            ]
            assert schema is not None
            cell_files = decode_footer(data[-size:], schema, name).cell_files
            found = {file.name: file.size for file in cell_files}
            there = {p.name: p.stat().st_size for p in folder.iterdir() if p.name != METADATA}
            assert found == {n: s for n, s in there.items() if s}, path
            named += 1
    assert named > 150


SCHEMA = sample_schema()
SAMPLE = encode_fragment_metadata(SCHEMA, "__1_1_00112233445566778899aabbccddeeff")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(SAMPLE) - 1), st.binary(min_size=1, max_size=9), st.integers(0, 40))
def test_damage_gives_one_error_of_ours(at: int, put: bytes, cut: int) -> None:
    data = (SAMPLE[:at] + put + SAMPLE[at + len(put) :])[: len(SAMPLE) - cut]
    said, sizes = None, {}
    try:
        size = footer_size(data, len(data), 22, None, "x")
        cell_files = decode_footer(data[-size:], SCHEMA, "x").cell_files
        sizes = {file.name: file.size for file in cell_files}
    except ChronotileError as error:
        said = str(error)
    assert said is None or re.match("x.*: .*expected .*found", said)
    assert all(name.endswith(".tdb") and size > 0 for name, size in sizes.items())


@pytest.mark.parametrize("length", [0, 1 << 40, (1 << 64) - 1])
def test_a_length_that_lies(length: int) -> None:
    data = SAMPLE[:-8] + length.to_bytes(8, "little")
    with pytest.raises(ChronotileError):
        decode_footer(data[-footer_size(data, len(data), 22, None, "x") :], sample_schema(), "x")


def test_enough_versions_are_in_the_corpus() -> None:
    assert len(fragment_metadata()) > 200
