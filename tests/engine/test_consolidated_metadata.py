"""Merged metadata of an array: the engine reads the same at every window.

Random histories of keys that are set, set anew with other types, and removed; the engine merges
some of them itself. At random windows it must read the same before and after.
"""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.spec_files import CORPUS

import chronotile as ct
from chronotile.change.merge_metadata import FIRST_WITH_RELATIVE_LINES
from chronotile.errors import BadFileError, KeyNeededError
from chronotile.format import tiles
from chronotile.format.array_metadata import decode_items, encode_items
from chronotile.format.names import parse_name

if TYPE_CHECKING:
    import pathlib

HISTORIES = 12
KEY = "0123456789abcdef0123456789abcdef"
VALUES = (1, -5, 2.5, "text", "ü", "", b"\x00raw", (1, 2, 3), (1.5, 2.5), "x" * 500)

Window = tuple[int, int]


def set_keys(array: EngineArray, at: int, keys: dict[str, Any]) -> None:
    """Sets keys; None removes one."""
    with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
        for key, value in keys.items():
            if value is None:
                del opened.meta[key]
            else:
                opened.meta[key] = value


def metadata(array: EngineArray, window: Window) -> dict[str, Any]:
    with tiledb.open(array.uri, timestamp=window, ctx=array.ctx) as opened:
        return dict(opened.meta)


def live(seed: int, folder: pathlib.Path) -> tuple[EngineArray, list[Window]]:
    chance = random.Random(seed)
    array = EngineArray(folder / "array", key=KEY if seed % 5 == 0 else None).create()
    times = chance.sample(range(1, 150), chance.randint(2, 7))
    if chance.random() < 0.5:
        times.sort()
    for at in times:
        names = chance.sample("abcde", chance.randint(1, 3))
        set_keys(array, at, {n: chance.choice((None, *VALUES)) for n in names})
        if chance.random() < 0.2:
            array.consolidate("array_meta")
        if chance.random() < 0.15:
            array.vacuum("array_meta")
    ends = [(0, 200), *((0, at) for at in times)]
    ends += [tuple(sorted(chance.choices(range(160), k=2))) for _ in range(10)]  # type: ignore[misc]
    return array, ends


def key_of(array: EngineArray) -> str | None:
    return array.settings.get("sm.encryption_key")


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_window_reads_the_same_metadata(seed: int, tmp_path: pathlib.Path) -> None:
    array, windows = live(seed, tmp_path)
    before = {window: metadata(array, window) for window in windows}
    report = ct.consolidate(array.uri, mode="array-meta", key=key_of(array))
    assert {window: metadata(array, window) for window in windows} == before
    again = ct.consolidate(array.uri, mode="array-meta", key=key_of(array))
    assert not again.steps
    if report.steps:
        merged, vacuum = (step.path for step in report.steps)
        assert vacuum == f"{merged}.vac"
        set_keys(array, 300, {"a": "later"})
        assert metadata(array, (0, 400)) == before[0, 200] | {"a": "later"}
        array.vacuum("array_meta")
        assert metadata(array, (0, 200)) == before[0, 200]


def test_the_engine_makes_the_same_file(tmp_path: pathlib.Path) -> None:
    """Merged bytes, range and `.vac` are those of the engine; the compression may differ."""
    array = EngineArray(tmp_path / "array").create()
    for at, keys in ((10, {"a": 1, "b": "x"}), (20, {"a": 2.5}), (30, {"b": None, "c": (1, 2)})):
        set_keys(array, at, keys)
    twin = EngineArray(tmp_path / "twin")
    shutil.copytree(array.folder, twin.folder)
    twin.consolidate("array_meta")
    ct.consolidate(array.uri, mode="array-meta")
    ours, theirs = (sorted((one.folder / "__meta").glob("__10_30_*")) for one in (array, twin))
    assert [path.suffix for path in ours] == [path.suffix for path in theirs] == ["", ".vac"]
    payloads = [tiles.decode(file.read_bytes(), "x").payload for file in (ours[0], theirs[0])]
    assert payloads[0] == payloads[1]
    assert ours[1].read_bytes() == theirs[1].read_bytes()


def test_lines_of_old_arrays_are_absolute(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "array"
    shutil.copytree(CORPUS / "meta-consolidated-v16" / "array", folder)
    for path in (folder / "__meta").glob("__10_30_*"):
        path.unlink()
    names = sorted(path.name for path in (folder / "__meta").iterdir())
    array = EngineArray(folder)
    before = metadata(array, (0, 99))
    report = ct.consolidate(str(folder), mode="array-meta")
    lines = (folder / report.steps[1].path).read_text().splitlines()
    assert lines == [f"file://{folder}/__meta/{name}" for name in names]
    assert metadata(array, (0, 99)) == before
    array.vacuum("array_meta")
    assert metadata(array, (0, 99)) == before
    assert len(array.files("__meta")) == 1
    assert FIRST_WITH_RELATIVE_LINES == 19


def test_all_keys_removed(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    set_keys(array, 10, {"a": 1})
    set_keys(array, 20, {"a": None})
    merged, _ = ct.consolidate(array.uri, mode="array-meta").steps
    assert tiles.decode(merged.data, "x").payload == b""
    assert metadata(array, (0, 15)) == {"a": 1}
    assert metadata(array, (0, 30)) == {}
    array.vacuum("array_meta")
    assert metadata(array, (0, 30)) == {}


def test_keys_of_one_time_that_differ_stay_apart(tmp_path: pathlib.Path) -> None:
    """The engine has no order for them, so neither has a merged file."""
    array = EngineArray(tmp_path / "array").create()
    for value in (1, 2):
        set_keys(array, 10, {"a": value})
    report = ct.consolidate(array.uri, mode="array-meta")
    assert not report.steps
    assert "b'a'" in report.notes[0]
    set_keys(array, 20, {"a": 3})
    assert len(ct.consolidate(array.uri, mode="array-meta").steps) == 2
    assert metadata(array, (0, 30)) == {"a": 3}


def test_a_file_that_a_vacuum_outside_of_its_range_hides(tmp_path: pathlib.Path) -> None:
    """A `.vac` by itself takes metadata back; a window without it sees that metadata again."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        set_keys(array, at, {"a": at})
    (hidden,) = array.files("__meta", "__20_*")
    folder = array.folder / "__meta"
    (folder / f"__5_5_{'0' * 32}.vac").write_text(f"/__meta/{hidden}\n")
    windows = [(0, 25), (6, 25), (6, 40), (0, 40)]
    before = [metadata(array, window) for window in windows]
    report = ct.consolidate(array.uri, mode="array-meta")
    assert not report.steps
    assert hidden in report.notes[0]
    assert [metadata(array, window) for window in windows] == before


def test_an_encrypted_array_needs_its_key(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array", key=KEY).create()
    for at in (10, 20):
        set_keys(array, at, {"a": at})
    with pytest.raises(KeyNeededError, match="key"):
        ct.consolidate(array.uri, mode="array-meta")
    assert len(array.files("__meta")) == 2


def test_a_dry_run_writes_nothing(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        set_keys(array, at, {"a": at})
    report = ct.consolidate(array.uri, mode="array-meta", dry_run=True)
    assert [step.op for step in report.steps] == ["put", "put"]
    assert len(array.files("__meta")) == 2


def test_entries_are_those_of_the_spec() -> None:
    """The fast decoder agrees with the generated parser on every metadata file of the corpus."""
    compared = 0
    for path in sorted(CORPUS.glob("*/array/__meta/__*")):
        if path.suffix:
            continue
        try:
            tile = tiles.decode(path.read_bytes(), path.name)
        except KeyNeededError:
            continue
        parse_name(path.name)
        items = decode_items(tile.payload, path.name)
        spec: Any = ct.parse(path.read_bytes(), kind="meta")
        entries = [(entry.key.encode(), entry.removed) for entry in spec.entries]
        assert [(item.key, item.is_removal) for item in items] == entries
        assert b"".join(item.raw for item in items) == tile.payload
        assert encode_items(items) == tile.payload
        compared += len(items)
    assert compared >= 10


def test_any_bytes_are_entries_or_one_error() -> None:
    """Cut and changed payloads; what decodes is all of the bytes, in order."""
    chance = random.Random(5)
    whole = b"\x01\0\0\0a\0\0\x02\0\0\0ABCDEFGH\x02\0\0\0bb\x01\x01\0\0\0c\0\x0c\x03\0\0\0xyz"
    errors = 0
    for number in range(2000):
        payload = bytearray(whole[: number % (len(whole) + 1)] if number % 2 else whole)
        for _ in range(number % 3):
            if payload:
                payload[chance.randrange(len(payload))] = chance.randrange(256)
        try:
            items = decode_items(bytes(payload), "x")
        except BadFileError:
            errors += 1
        else:
            assert b"".join(item.raw for item in items) == payload
    assert 200 < errors < 1900
