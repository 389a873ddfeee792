"""Findings: every code, and silence where there is nothing to say."""

from __future__ import annotations

import json
import shutil
import struct
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray
from support.followed_hints import follow

import chronotile
from chronotile import open_log
from chronotile.check.findings import CODES, SEVERITIES, RefusedError
from chronotile.check.fragments_and_commits import MANY_LOOSE
from chronotile.cli import main
from chronotile.fleet.check_all import check_fleet

if TYPE_CHECKING:
    import pathlib

    from chronotile.check.findings import Finding

EXPECTED = {
    "bad-name": {("name-malformed", "error")},
    "bad-backwards": {("name-malformed", "error")},
    "bad-con-line": {("con-truncated", "error")},
    "bad-con-tile": {
        ("con-truncated", "error"),
        ("con-blocks-consolidation", "warning"),
    },
    "bad-no-fragment": {("commit-without-fragment", "error")},
    "bad-uncommitted": {("fragment-without-commit", "warning")},
    "bad-tile": {("tile-corrupt", "error")},
    "bad-empty-delete": {("tile-corrupt", "error")},
    "bad-ignored-delete": {("delete-ignored", "warning"), ("con-superseded", "info")},
    "bad-update-in-con": {("con-has-updates", "warning")},
    "bad-vac-absolute": {("vac-absolute", "warning")},
    "bad-vac-alone": {("fragment-without-commit", "warning")},
    "dense-consolidated-v16": {("vac-absolute", "info"), ("superseded-bytes", "info")},
    "con-twice": {("delete-duplicate", "info")},
    "con-many-deletes": {("con-blocks-consolidation", "warning")},
    "misnamed": {("fragment-name-range", "warning"), ("superseded-bytes", "info")},
    "equal-times": {("same-timestamp", "warning")},
    "null-fixed": {("delete-hits-null", "warning")},
    "null-bricks-eq": {("delete-null", "error"), ("delete-hits-null", "warning")},
    "schema-drop-named": {("delete-dropped-field", "error")},
    "update-v22": {("update-deletes", "warning")},
    "con-only": set(),
    "delete-first": set(),
    "dense-consolidated-v22": {("superseded-bytes", "info")},
    "meta-consolidated-v22": set(),
    "huge-times": {("future-commit", "warning")},
    "era-one": set(),
    "bare": set(),
}


@cache
def of(name: str, key: bytes | None = None) -> tuple[Finding, ...]:
    return open_log(str(CASES[name].array), key=key).check()


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_found(name: str) -> None:
    found = {(item.code, item.severity) for item in of(name, CASES[name].key)}
    required = {item for item in EXPECTED[name] if item[0] != "delete-hits-null"}
    assert required <= found <= EXPECTED[name] | {("delete-hits-null", "warning")}
    if name == "null-fixed":
        assert found == EXPECTED[name]


def test_every_code_is_shown_by_some_array(tmp_path: pathlib.Path) -> None:
    shown = {code for found in EXPECTED.values() for code, _ in found}
    elsewhere = {"con-name-range", "tile-encrypted", "many-loose-commits", "unreadable"}
    elsewhere |= {"fragment-damaged", "fragment-file-missing", "delete-lost", "delete-hits-older"}
    elsewhere |= {"many-small-fragments", "metadata-unconsolidated", "fragment-tile-count"}
    elsewhere |= {"tag-unreadable"}  # `test_tags`
    elsewhere |= {"restore-undone", "late-write-hidden"}  # `test_restore_race`
    elsewhere |= {"vac-without-fragment"}  # below
    elsewhere |= {"fragment-file-extra", "cells-unopened", "enumeration-missing"}  # and below
    elsewhere |= {"version-unknown"}  # `test_newer_fragments`
    elsewhere |= {"replica-differs"}  # `test_replicate`
    elsewhere |= {code for code in CODES if code.startswith(("member-", "as-of-"))}  # of groups
    elsewhere |= {"stray-array", "many-member-lists"}
    assert shown | elsewhere == set(CODES)
    (tmp_path / "refused" / "__schema").mkdir(parents=True)
    (tmp_path / "refused" / "__commits").symlink_to(tmp_path)
    (refused,) = check_fleet(str(tmp_path / "refused")).findings
    assert (refused.code, refused.severity) == ("unreadable", "error")
    assert any(item.code == "con-name-range" for item in of("upgraded"))
    (sealed,) = (item for item in of("secret-loose-v22") if item.code == "tile-encrypted")
    assert sealed.severity == "info"
    assert not any(
        item.code == "tile-encrypted"
        for item in of("secret-loose-v22", CASES["secret-loose-v22"].key)
    )
    array = EngineArray(tmp_path / "array").create()
    array.write(1, {1: 1})
    (commit,) = array.commits_folder.glob("*.wrt")
    (fragment,) = (array.folder / "__fragments").iterdir()
    for number in range(2, MANY_LOOSE + 1):
        name = f"__{number}_{number}_{number:032x}_22"
        shutil.copytree(fragment, fragment.with_name(name))
        commit.with_name(f"{name}.wrt").touch()
    many, small, apart = open_log(array.uri).check()
    assert apart.code == "metadata-unconsolidated"
    assert (many.code, many.severity) == ("many-loose-commits", "info")
    assert (small.code, small.severity) == ("many-small-fragments", "info")


def test_an_array_on_which_the_engine_fails_has_an_error() -> None:
    """Every case of the corpus: an error of the engine now, and an error of ours, go together."""
    for name, case in CASES.items():
        last = max(case.expected["windows"], key=lambda w: (-w["start"], w["end"]))
        fails = "error" in last
        found = [item for item in of(name, case.key) if item.severity == "error"]
        if fails:
            assert found, f"{name}: the engine says {last['error']}"
        elif name != "bad-con-line":  # the engine does not notice
            assert not found, f"{name}: the engine reads it, we say {found[0].message}"


def test_each_finding_says_what_to_do() -> None:
    for name, case in CASES.items():
        for item in of(name, case.key):
            assert item.hint
            assert item.message
            assert item.code in CODES
            assert item.severity in SEVERITIES
            assert item.array == str(case.array)
            assert "{" not in item.hint


def test_the_worst_comes_first() -> None:
    order = [SEVERITIES.index(item.severity) for item in of("bad-con-tile")]
    assert order == sorted(order)
    assert order[0] == 0


def test_json_form_of_findings() -> None:
    document = of("bad-name")[0].to_dict()
    assert list(document) == ["code", "severity", "array", "path", "message", "hint"]
    json.dumps(document)


def test_a_stranger_in_the_commits_is_told(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    (commit,) = array.commits_folder.glob("*.wrt")
    (array.commits_folder / f"__11_11_{'0' * 32}_22.wrt").symlink_to(commit)
    (item,) = (item for item in open_log(array.uri).check() if item.severity == "error")
    assert item.code == "name-malformed"
    assert "by hand" in item.hint


def test_a_field_that_came_back_is_no_error() -> None:
    """A field that was dropped and came back: at most reads that end between the two fail."""
    found = of("schema-retype")
    assert not any(item.severity == "error" for item in found)


def test_refusals_can_be_pickled() -> None:
    import pickle

    error = RefusedError("a", "expected x, found y", of("bad-name"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.findings) == (str(error), error.findings)


@pytest.mark.parametrize("high", [29, 9])
def test_a_fragment_whose_tiles_do_not_fit_its_domain(high: int, tmp_path: pathlib.Path) -> None:
    """F19: before core 2.29.2, a split of dense writes gave fragments wrong domains."""
    array = EngineArray(tmp_path / "array").create(sparse=False)
    array.write(1, dict.fromkeys(range(20), 1))
    assert not open_log(array.uri).check()
    (file,) = (array.folder / "__fragments").rglob("__fragment_metadata.tdb")
    before, at, after = file.read_bytes().rpartition(struct.pack("<qq", 0, 19))
    assert at
    file.write_bytes(before + struct.pack("<qq", 0, high) + after)
    (found,) = open_log(array.uri).check()
    assert (found.code, found.severity) == ("fragment-tile-count", "error")
    assert f"2 tiles, its domain {high // 10 + 1}: a core before 2.29.2" in found.message


def test_a_vac_whose_fragment_has_no_commit_hides_rows_until_that_is_committed(
    tmp_path: pathlib.Path,
) -> None:
    array = shutil.copytree(CASES["bad-vac-alone"].array, tmp_path / "array")
    (item,) = open_log(array).check()
    assert ".vac hides 2 committed fragments, and this one, which has their rows, has no" in (
        item.message
    )
    assert item.hint.endswith(f": chronotile repair {array} --commit-orphans")
    assert not open_log(array).view().fragments
    chronotile.repair(array, commit_orphans=True)
    assert [f"__fragments/{one.name}" for one in open_log(array).view().fragments] == [item.path]
    assert {one.severity for one in open_log(array).check()} == {"info"}


def test_a_vac_whose_fragment_is_broken_is_moved_by_hand(tmp_path: pathlib.Path) -> None:
    array = shutil.copytree(CASES["bad-vac-alone"].array, tmp_path / "array")
    (item,) = open_log(array).check()
    (array / item.path / "__fragment_metadata.tdb").unlink()
    (item,) = open_log(array).check()
    (vacuum,) = (array / "__commits").glob("*.vac")
    assert f"move __commits/{vacuum.name} out of the array by hand" in item.hint
    vacuum.rename(tmp_path / vacuum.name)
    assert len(open_log(array).view().fragments) == 2


def test_a_missing_schema_is_to_be_copied_back(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (1, 2):
        array.write(at, {at: at})
    array.consolidate("fragments")
    (schema,) = (path for path in (array.folder / "__schema").glob("__*") if path.is_file())
    later = schema.with_name(f"__9_9_{'a' * 32}")
    shutil.copy(schema, later)
    schema.rename(tmp_path / schema.name)
    found = [one for one in open_log(array.uri).check() if one.code == "fragment-damaged"]
    (merged,) = (one for one in found if one.severity == "error")
    sources = [one for one in found if one.severity == "warning"]
    name = merged.path.split("/")[1]
    assert len(sources) == 2
    assert f"its schema file __schema/{schema.name} is missing" in merged.message
    assert merged.hint.endswith(f"to take the fragment out: chronotile repair {array.uri}")
    for one in (merged, *sources):
        assert f"has __schema/{schema.name}, copy it back" in one.hint
    for one in sources:
        assert f"nor those of {name}, which holds its rows too: remove neither" in one.message
        assert "vacuum" not in one.hint
    notes = "\n".join(chronotile.repair(array.uri, dry_run=True).notes)
    assert f"and {name}, which holds its rows too, cannot be read either" in notes
    assert f"__schema/{schema.name} is missing: if a replica or a backup has it" in notes
    assert "a later fragment holds its rows" not in notes
    (tmp_path / schema.name).rename(schema)
    assert not any(one.code == "fragment-damaged" for one in open_log(array.uri).check())


@pytest.mark.parametrize(
    ("has_delete", "is_lost"), [(False, True), (False, False), (True, True), (True, False)]
)
def test_labels_that_are_lost_or_damaged(
    tmp_path: pathlib.Path, has_delete: bool, is_lost: bool
) -> None:
    labels = tiledb.Enumeration("colours", False, np.array(["red", "green"]))
    attribute = tiledb.Attr("c", dtype=np.int32, enum_label="colours")
    array = EngineArray(tmp_path / "array").create(attrs=[attribute], enums=[labels])
    array.write(1, {1: 0})
    if has_delete:
        chronotile.open(str(array.folder)).delete("c == 'red'")
    (file,) = (array.folder / "__schema" / "__enumerations").iterdir()
    if is_lost:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:40])
    (found,) = (
        item for item in chronotile.open(str(array.folder)).check() if item.severity == "error"
    )
    code = "enumeration-missing" if is_lost else "tile-corrupt"
    assert (found.code, found.path) == (code, f"__schema/__enumerations/{file.name}")
    assert found.hint.startswith("copy this file back")


def test_an_array_without_any_schema_is_no_matter_of_permissions(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(1, {1: 1})
    shutil.rmtree(array.folder / "__schema")
    (found,) = check_fleet(str(array.folder)).findings
    assert found.message == "it cannot be read: expected an array, found no schema"
    assert found.hint == "copy __schema back from a replica or a backup"


def test_a_vac_that_nothing_explains(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (1, 2):
        array.write(at, {at: at})
    chronotile.restore(array.uri, 1)
    assert not any(one.code == "vac-without-fragment" for one in open_log(array.uri).check())
    array = EngineArray(tmp_path / "other").create()
    array.write(1, {1: 1})
    (fragment,) = array.files("__fragments")
    vacuum = array.commits_folder / f"__9_9_{'a' * 32}_22.vac"
    vacuum.write_text(f"/__fragments/{fragment}\n")
    assert not open_log(array.uri).view().fragments
    (item,) = (one for one in open_log(array.uri).check() if one.code == "vac-without-fragment")
    assert item.path == f"__commits/{vacuum.name}"
    assert "it hides 1 fragment: it has no fragment of its own" in item.message
    vacuum.unlink()
    assert len(open_log(array.uri).view().fragments) == 1


def test_a_con_that_was_cut_inside_a_delete_that_has_its_own_file(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(1, {1: 1, 2: 2})
    array.delete(2, "a == 1")
    array.write(3, {3: 3})
    array.consolidate("commits")
    (con,) = array.commits_folder.glob("*.con")
    for path in array.commits_folder.glob("*.wrt"):
        path.unlink()
    data = con.read_bytes()
    con.write_bytes(data[: data.index(b".del\n") + 25])
    (cut,) = (one for one in open_log(array.uri).check() if one.severity == "error")
    assert cut.code == "con-truncated"
    assert cut.message.startswith("the file ends in the middle of its last entry (at byte ")
    assert ".del holds the same delete or update whole; to write this .con again" in cut.hint
    (orphan,) = (one for one in open_log(array.uri).check() if one.path.startswith("__fragments"))
    assert f"__commits/{con.name}, which is cut, probably held it" in orphan.message
    report = chronotile.repair(array.uri)
    (note,) = report.notes
    assert f"of 1 whole fragment are probably lost, as of {orphan.path}" in note
    assert note.endswith(f"chronotile repair {array.uri} --commit-orphans")
    assert len(open_log(array.uri).view().deletes) == 1


@pytest.mark.parametrize("consolidated", [False, True])
def test_what_a_repair_took_out_for_a_lost_schema_comes_back(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], consolidated: bool
) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(1, {1: 1})
    array.evolve(add=tiledb.Attr("b", dtype=np.int32))
    with tiledb.open(array.uri, "w", ctx=array.ctx) as there:
        there[[2]] = {"a": np.array([2], np.int32), "b": np.array([2], np.int32)}
    if consolidated:
        chronotile.consolidate(array.uri)
        chronotile.vacuum(array.uri)
    lost = max(path for path in (array.folder / "__schema").glob("__*") if path.is_file())
    lost.rename(tmp_path / lost.name)
    repair = chronotile.repair(array.uri)
    undo = f"chronotile undo {array.uri} {repair.operation}"
    (item,) = open_log(array.uri).check()
    assert item.message.startswith(f"taken out by repair {repair.operation}: its schema file")
    assert item.hint == f"copy __schema/{lost.name} back, then: {undo}"
    assert main(["explain", array.uri]) == 0
    told = capsys.readouterr().out
    assert f"to see what brings it back: chronotile check {array.uri}" in told
    assert "vacuum" not in told
    assert not chronotile.vacuum(array.uri, orphans=True, orphan_age=0, dry_run=True).steps
    (tmp_path / lost.name).rename(lost)
    (item,) = open_log(array.uri).check()
    assert item.hint == f"to bring its rows back: {undo}"
    follow(item.hint)
    assert len(open_log(array.uri).view().fragments) == 2


def test_an_ign_whose_con_is_to_go_says_so(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (1, 2):
        array.write(at, {at: at})
    chronotile.consolidate(array.uri)
    chronotile.vacuum(array.uri, mode="commits")
    array.consolidate("fragments")
    chronotile.vacuum(array.uri, mode="fragments")
    found = [one for one in open_log(array.uri).check() if one.path.endswith(".ign")]
    assert [one.message.partition(" holds ")[0] for one in found] == ["every .con that"]
    chronotile.vacuum(array.uri)
    assert not open_log(array.uri).check()
