"""Metadata that cannot be read may hold a tag: nothing that a tag could need goes, and it is said.

One file of `__meta` is cut, emptied or has one bit flipped: one with a tag, or one without. The
engine is asked what the tagged windows of a dense array show before and after a vacuum.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.array_places import InBucket, OnDisk, Place, read_all
from support.engine_arrays import EngineArray
from support.verbs import (
    add_tag,
    consolidate_group,
    remove_tag,
    tag_dataset,
    untag_dataset,
    vacuum_group,
)

import chronotile as ct
from chronotile import vacuum
from chronotile.array import Array
from chronotile.check.tags import tags_in
from chronotile.cli import main
from chronotile.errors import ChangedError, ReadError
from chronotile.format import tiles
from chronotile.format.array_metadata import encode_items
from chronotile.format.names import parse_name
from chronotile.format.tag_entries import tag_item
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

WINDOWS = ((0, 20), (0, 30), (0, 1 << 60))
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-5],
    "empty": lambda _: b"",
    "bit": lambda data: data[:-3] + bytes([data[-3] ^ 4]) + data[-2:],
    "sealed": lambda data: data[:29] + b"\1" + data[30:],  # the byte that says: encrypted
}


def make_array(uri: str, *, sparse: bool = False, key: str | None = None) -> EngineArray:
    """An array, consolidated and not vacuumed, with a key of metadata at 5 and a tag at 20."""
    array = EngineArray(uri, key=key).create(sparse=sparse)
    for at in (10, 20, 30):
        array.write(at, {1: at, 2: 2 * at})
    with tiledb.open(array.uri, "w", timestamp=5, ctx=array.ctx) as opened:
        opened.meta["unit"] = "m"
    array.consolidate("fragments")
    add_tag(array.uri, "v1", at=20, key=key)
    return array


def metadata_files(files: dict[str, bytes]) -> dict[str, str]:
    """What a file of metadata holds -> its path."""
    names = [name for name in files if name.startswith("__meta/")]
    (plain,) = (name for name in names if name.startswith("__meta/__5_5_"))
    (tagged,) = (name for name in names if name != plain)
    return {"a tag": tagged, "no tag": plain}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([*arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("where", ["disk", "bucket"])
@pytest.mark.parametrize("holds", ["a tag", "no tag"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_vacuum_keeps_what_a_tag_could_need(
    tmp_path: pathlib.Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    where: str,
    holds: str,
    damage: str,
) -> None:
    place: Place = OnDisk(tmp_path / "array")
    make_array(place.uri)
    files = place.files()
    if where == "bucket":
        place = InBucket(request.getfixturevalue("s3"), request.getfixturevalue("bucket"))
    bad = metadata_files(files)[holds]
    place.reset(files | {bad: DAMAGE[damage](files[bad])})
    array = place.array
    array.sparse = False
    before = array.answers(WINDOWS)
    storage = [word for pair in place.options.items() for word in ("--storage", "=".join(pair))]

    status, said, _ = run(capsys, "vacuum", place.uri, *storage)
    assert status == 1
    assert f"note: {bad} may hold a tag and cannot be read" in " ".join(said.split())
    assert "kept for a tag that cannot be read: 2 fragments" in " ".join(said.split())
    assert array.answers(WINDOWS) == before

    status, said, error = run(capsys, "tag", "list", place.uri, "--json", *storage)
    assert status == 3
    assert [one["name"] for one in json.loads(said)] == (["v1"] if holds == "no tag" else [])
    assert bad in json.loads(error)["error"]["found"]

    log = ct.open_log(place.uri, storage_options=place.options)
    codes = {(one.code, one.path) for one in log.check()}
    assert {("tag-unreadable", bad), ("tile-corrupt", bad)} <= codes
    assert "superseded-bytes" not in {code for code, _ in codes}
    for ask in (lambda: log.tags, lambda: log.view(end="v1")):
        with pytest.raises(ReadError, match="may hold a tag and cannot be read"):
            ask()
    with pytest.raises(
        ReadError, match=f"to move it to the quarantine: chronotile repair {place.uri}"
    ):
        add_tag(place.uri, "v1", at=30, storage_options=place.options)

    # The hint, followed: what is lost is said, and what is left counts again.
    report = ct.repair(place.uri, storage_options=place.options)
    assert any("and a tag with it" in note for note in report.notes)
    status, said, _ = run(capsys, "tag", "list", place.uri, "--json", *storage)
    assert (status, len(json.loads(said))) == (0, int(holds == "no tag"))


def test_every_bit_of_a_tag_counts() -> None:
    """Whichever bit of its file is flipped: the tag is read as it is, or there is a doubt."""
    store = open_store("memory:every-bit-of-a-tag")
    data = tiles.encode(encode_items([tag_item("v1", 20)]), version=22)
    harmless = 0
    for bit in range(8 * len(data)):
        name = parse_name(f"__5_5_{bit:032x}")
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        store.put_if_absent(f"__meta/{name.text}", bytes(flipped))
        tags = tags_in(store, [name], None, is_sealed=False)
        assert tags.own == {"v1": 20} or tags.doubts, bit
        harmless += not tags.doubts
    assert harmless < 4 * len(data)


def test_a_sparse_array_is_vacuumed_all_the_same(tmp_path: pathlib.Path) -> None:
    """No window of it needs what was merged."""
    array = make_array(str(tmp_path / "array"), sparse=True)
    bad = metadata_files(read_all(array.folder))["a tag"]
    (array.folder / bad).write_bytes(b"")
    before = array.answers(WINDOWS)
    report = vacuum(array.uri)
    assert any(bad in note for note in report.notes)
    assert len(array.files("__fragments")) == 1
    assert array.answers(WINDOWS) == before


def test_metadata_that_only_lacks_the_key_is_no_damage(tmp_path: pathlib.Path) -> None:
    key = "0123456789abcdef0123456789abcdef"
    array = make_array(str(tmp_path / "array"), key=key)
    report = vacuum(array.uri)
    assert report.findings == ()
    assert all("give --key-file FILE" in note for note in report.notes[:2])
    assert len(array.files("__fragments")) == 4
    with pytest.raises(ReadError, match="give --key-file FILE"):
        _ = ct.open_log(array.uri).tags
    assert "tag-unreadable" not in {one.code for one in ct.open_log(array.uri).check()}
    assert vacuum(array.uri, key=key).findings == ()
    assert len(array.files("__fragments")) == 3, "the tag holds two"


@pytest.mark.parametrize("value", ["2024-05-01", 20.0, np.int32(20), -20])
def test_a_tag_without_a_moment_keeps_every_window(tmp_path: pathlib.Path, value: Any) -> None:
    array = make_array(str(tmp_path / "array"))
    remove_tag(array.uri, "v1")
    with tiledb.open(array.uri, "w", ctx=array.ctx) as opened:
        opened.meta["chronotile.tag.by-hand"] = value
    before = array.answers(WINDOWS)
    (found,) = vacuum(array.uri).findings
    assert "expected a moment in ms, a whole number of 64 bits" in found.message
    assert array.answers(WINDOWS) == before
    # The two hints, followed.
    assert f"chronotile tag add {array.uri} by-hand --at TIME --move" in found.hint
    add_tag(array.uri, "by-hand", at=30, move=True)
    assert ct.open_log(array.uri).tags == {"by-hand": 30}
    with tiledb.open(array.uri, "w", ctx=array.ctx) as opened:
        opened.meta["chronotile.tag.by-hand"] = value
    assert f"chronotile tag remove {array.uri} by-hand" in found.hint
    remove_tag(array.uri, "by-hand")
    assert ct.open_log(array.uri).tags == {}
    assert vacuum(array.uri).findings == ()


def test_a_vacuum_of_a_group(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The members' own metadata is sound; that of the group, whose tag has no marks, is not."""
    uri = str(tmp_path / "group")
    tiledb.Group.create(uri)
    array = make_array(f"{uri}/obs")
    remove_tag(array.uri, "v1")
    with tiledb.Group(uri, "w") as group:
        group.add("obs", name="obs", relative=True)
    with tiledb.Group(uri, "w") as group:
        group.meta["chronotile.tag.v1"] = 20
    (bad,) = (tmp_path / "group" / "__meta").iterdir()
    sound = bad.read_bytes()
    bad.write_bytes(sound[:-5])
    before = array.answers(WINDOWS)
    for command in (["vacuum"], ["vacuum", "--dry-run"], ["tag", "list"], ["tag", "remove"]):
        more = ["v1"] if command[-1] == "remove" else []
        status, _, error = run(capsys, *command, uri, *more)
        assert (status, f"__meta/{bad.name}" in error) == (3, True), command
    assert array.answers(WINDOWS) == before
    for findings in (ct.open_dataset(uri).check(), vacuum_group(uri).findings):
        assert ("tag-unreadable", f"__meta/{bad.name}") in {(f.code, f.path) for f in findings}
    with pytest.raises(ReadError, match=f"to move it to the quarantine: chronotile repair {uri}"):
        tag_dataset(ct.open_dataset(uri), "v1", at=30)
    status, said, _ = run(capsys, "repair", uri)
    assert "and a tag with it" in " ".join(said.split())
    assert ct.open_dataset(uri).tags == {}


def test_a_group_keeps_the_lists_of_members(tmp_path: pathlib.Path) -> None:
    uri = str(tmp_path / "group")
    tiledb.Group.create(uri)
    for name in ("a", "b"):
        EngineArray(f"{uri}/{name}").create()
        with tiledb.Group(uri, "w") as group:
            group.add(name, name=name, relative=True)
    with tiledb.Group(uri, "w") as group:
        group.meta["chronotile.tag.v1"] = "no moment"
    consolidate_group(uri)
    report = vacuum_group(uri)
    assert report.steps == ()
    assert any("is kept for a tag that cannot be read" in note for note in report.notes)
    untag_dataset(ct.open_dataset(uri), "v1")
    assert vacuum_group(uri).steps != ()


def test_a_vacuum_file_that_went_meanwhile_hides_nothing(tmp_path: pathlib.Path) -> None:
    """What it listed is in use again: it must not go."""
    array = make_array(str(tmp_path / "array"))
    remove_tag(array.uri, "v1")
    ct.consolidate(array.uri, mode="array-meta")
    (listed,) = (tmp_path / "array" / "__meta").glob("*.vac")
    reads: list[str] = []

    def hook(operation: str, path: str) -> None:
        if operation == "read" and path.endswith(listed.name):
            reads.append(path)
            if len(reads) == 2:
                listed.unlink()

    before = sorted(array.files("__meta"))
    with pytest.raises(ChangedError, match="found it changed; try again"):
        Array(open_store(array.uri, on_operation=hook)).vacuum(mode="array-meta")
    assert sorted(array.files("__meta")) == [one for one in before if one != listed.name]
