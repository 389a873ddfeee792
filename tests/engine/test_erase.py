"""Erasure, judged by the engine and by the bytes: a distinctive text leaves every file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from bench import erase_oracle as oracle
from support.array_places import InBucket, read_all
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray, s3_settings
from support.followed_hints import follow

import chronotile as ct
from chronotile.change.operations import SCRATCH
from chronotile.check.findings import RefusedError
from chronotile.cli.program import main
from chronotile.errors import ChronotileError
from chronotile.format import tiles
from chronotile.format.commit_files import decode_con
from chronotile.format.fragment_metadata import frame_metadata
from chronotile.log import purges_of
from chronotile.rows.erase import _Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.servers import S3Server

    from chronotile.storage.store import Store

WHO = "Qz7-Vexley-patient"
WHERE = f"s == '{WHO}'"
NOW = 1 << 60
ENDS = (5, 10, 20, 30, 40, 45, 100, NOW)
WINDOWS = [(start, end) for start in (0, 11, 31) for end in ENDS if end >= start]
Row = tuple[int, bytes | None, int]


def make(folder: Path | str, *, duplicates: bool = False) -> str:
    plain = tiledb.FilterList([tiledb.NoOpFilter()])
    domain = tiledb.Domain(tiledb.Dim("d", domain=(0, 1000), tile=10, dtype="int64"))
    attributes = [
        tiledb.Attr("s", dtype="ascii", var=True, filters=plain),
        tiledb.Attr("v", dtype="int32", filters=tiledb.FilterList([tiledb.ZstdFilter()])),
    ]
    schema = tiledb.ArraySchema(
        domain=domain, attrs=attributes, sparse=True, allows_duplicates=duplicates
    )
    tiledb.Array.create(str(folder), schema)
    return str(folder)


def write(uri: str, at: int, rows: dict[int, str]) -> None:
    with tiledb.open(uri, "w", timestamp=at) as array:
        texts = np.array([*rows.values()], dtype="S")
        array[[*rows]] = {"s": texts, "v": np.array([*rows], dtype="int32")}


def rows(uri: str, start: int, end: int) -> list[Row]:
    with tiledb.open(uri, timestamp=(start, end)) as array:
        read = array[:]
        return sorted(zip(read["d"].tolist(), read["s"].tolist(), read["v"].tolist(), strict=True))


def answers(uri: str) -> dict[tuple[int, int], list[Row]]:
    return {window: rows(uri, *window) for window in WINDOWS}


def payloads(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what is in its compressed tiles."""
    data = path.read_bytes()
    yield data
    try:
        if path.name == "__fragment_metadata.tdb":
            for tile in frame_metadata(data, path.name).tiles:
                yield tiles.decode(data[tile.offset : tile.offset + tile.size], "tile").payload
        elif path.suffix == ".con":
            for record in decode_con(data, path.name):
                yield tiles.decode(record.tile, "tile").payload if record.tile else b""
        else:
            yield tiles.decode(data, path.name).payload
    except ChronotileError:
        pass  # no tile


def holding(folder: Path, text: str = WHO) -> list[str]:
    """The files that hold a text, as it is or compressed."""
    files = (path for path in folder.rglob("*") if path.is_file())
    named = [path for path in files if any(text.encode() in data for data in payloads(path))]
    return sorted(str(path.relative_to(folder)) for path in named)


def without(answer: dict[tuple[int, int], list[Row]]) -> dict[tuple[int, int], list[Row]]:
    return {
        window: [row for row in found if row[1] != WHO.encode()] for window, found in answer.items()
    }


def opened(uri: str) -> ct.Array:
    array = ct.open(uri)
    assert isinstance(array, ct.Array)
    return array


def problems(uri: str) -> set[str]:
    return {one.code for one in ct.open(uri).check(deep=True) if one.severity != "info"}


def plain(uri: str) -> None:
    write(uri, 10, {1: "x", 2: WHO, 3: "y"})
    write(uri, 20, {5: WHO})


def vacuumed(uri: str) -> None:
    """The fragment notes rows of a delete that names others too."""
    plain(uri)
    ct.open(uri).delete(f"{WHERE} or v == 1", at=30)
    tiledb.consolidate(uri)
    tiledb.vacuum(uri)


def merged(uri: str) -> None:
    """Superseded copies are there."""
    plain(uri)
    ct.open(uri).delete(WHERE, at=30)
    tiledb.consolidate(uri)


def compacted(uri: str) -> None:
    """One `.con` holds the commits, a `.meta` the footers."""
    plain(uri)
    ct.open(uri).delete(f"{WHERE} or v == 1", at=30)
    ct.open(uri).consolidate("all")
    ct.open(uri).vacuum(loose_deletes=True)


def restored(uri: str) -> None:
    """A restore hides a fragment, and rows of a delete came back."""
    plain(uri)
    ct.open(uri).delete("v == 1", at=30)
    write(uri, 40, {6: "z", 7: WHO})
    ct.open(uri).restore(20)
    ct.open(uri).tag("load", at=20)


def updated(uri: str) -> None:
    plain(uri)
    ct.open(uri).update(WHERE, ["s=other"], at=40, experimental=True)
    ct.open(uri).apply()


HISTORIES = (vacuumed, merged, compacted, restored, updated)


@pytest.mark.parametrize("duplicates", [False, True], ids=["places", "duplicates"])
@pytest.mark.parametrize("history", HISTORIES, ids=[one.__name__ for one in HISTORIES])
def test_no_file_holds_it_and_every_other_row_is_as_before(
    tmp_path: Path, history: Callable[[str], None], *, duplicates: bool
) -> None:
    uri = make(tmp_path / "a", duplicates=duplicates)
    history(uri)
    before, known = answers(uri), problems(uri)
    assert len(holding(tmp_path / "a")) >= 2
    report = opened(uri).erase(WHERE)
    assert holding(tmp_path / "a") == []
    assert answers(uri) == without(before)
    found = report.certificate
    assert (found["matches_left"], found["still_named"]) == (0, [])
    assert found["matches_found"] >= 2
    assert problems(uri) <= known
    # The engine goes on with it: F14 would crash here.
    write(uri, 50, {900: "later"})
    tiledb.consolidate(uri)
    tiledb.vacuum(uri)
    assert rows(uri, 0, NOW) == sorted([*without(before)[0, NOW], (900, b"later", 900)])


def test_an_erasure_drops_no_row_of_an_earlier_time(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    tiledb.consolidate(uri)
    tiledb.vacuum(uri)
    ct.open(uri).delete("v == 1", at=30)
    opened(uri).erase(WHERE)
    assert list(purges_of(ct.open_log(uri))) == []
    assert rows(uri, 0, 15) == [(1, b"x", 1), (3, b"y", 3)]


def test_a_dry_run_says_it_all_and_changes_nothing(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    merged(uri)
    ct.open(uri).tag("load", at=20)
    before = {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()}
    report = opened(uri).erase(WHERE, dry_run=True)
    assert {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()} == before
    assert report.losses[0].startswith(
        "this cannot be undone: it erases 4 rows in 3 fragment folders"
    )
    assert "the window of the tag load loses the rows that match" in report.notes
    assert report.rows == {"erased": 4}
    each = [(one["role"], one["cells"], one["matches"]) for one in report.to_dict()["fragments"]]
    assert sorted(each) == [("committed", 1, 1), ("committed", 3, 1), ("committed", 4, 2)]
    assert {"1 of its 3 rows matches", "1 of its 1 rows matches"} <= {
        s.reason for s in report.steps
    }
    assert not report.can_be_undone
    assert not report.certificate


def test_the_record_names_no_one_and_operations_are_final(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    array = opened(uri)
    array.delete(WHERE, at=30, message=f"{WHO} asked for it")
    array.undo()
    array.delete("v == 3", at=30)
    array.erase(WHERE, message=f"for {WHO}")
    told = array.operations().to_pylist()
    assert [(one["command"], one["state"]) for one in told] == [
        ("erase", "final"),
        ("delete", "done"),
        ("undo", "final"),
        ("delete", "final"),
    ]
    assert told[0]["message"] == "for [erased]"
    assert json.loads(told[0]["options"]) == {"orphan_age": "24h"}
    assert told[-1]["message"] == "[erased] asked for it"
    assert json.loads(told[-1]["options"])["where"] == "s == '[erased]'"
    records = [*(tmp_path / "a" / "__chronotile" / "operations").glob("*-delete-final.json")]
    # A hash of the delete's bytes would let anybody try names.
    assert ["sha256" in one.read_text() for one in records] == [False]
    with pytest.raises(RefusedError, match="an erase removed what it needs"):
        array.undo(told[-1]["id"])
    array.undo(told[1]["id"])
    assert (3, b"y", 3) in rows(uri, 0, NOW)


def test_a_number_goes_from_messages_too_and_binds_no_undo(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    array = opened(uri)
    array.delete("v == 1", at=30, message="patient 3 called, row 30 stays")
    array.erase("v == 3", message="for 3")
    told = array.operations().to_pylist()
    assert [(one["command"], one["state"], one["message"]) for one in told] == [
        ("erase", "final", "for [erased]"),
        ("delete", "done", "patient [erased] called, row 30 stays"),
    ]
    before = rows(uri, 0, NOW)
    array.undo(told[1]["id"])
    assert [row for row in rows(uri, 0, NOW) if row not in before] == [(1, b"x", 1)]


def test_each_planted_copy_is_gone_or_named(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    uri = make(folder)
    plain(uri)
    (name,) = (one.name for one in (folder / "__fragments").iterdir() if "__10_10" in one.name)
    orphan = folder / "__fragments" / f"__15_15_{'b' * 32}_22"
    shutil.copytree(folder / "__fragments" / name, orphan)
    kept = folder / "__chronotile" / "quarantine" / "01234567" / f"0000-{name}"
    shutil.copytree(folder / "__fragments" / name, kept)
    # A compact that was killed leaves its scratch array.
    scratch = folder / SCRATCH / "chronotile-1-x" / "merge" / "__fragments" / name
    shutil.copytree(folder / "__fragments" / name, scratch)
    torn = folder / "__fragments" / f"__16_16_{'c' * 32}_22"
    torn.mkdir()
    (torn / "a0.tdb").write_bytes(b"x")
    ct.open(uri).clone(str(tmp_path / "clone"))
    report = opened(uri).erase(WHERE)
    found = report.certificate
    # A write may be under way there.
    assert found["matches_left"] == 1
    still = [(one["what"], one["where"]) for one in found["still_named"]]
    assert still == [("fragment", f"__fragments/{orphan.name}")]
    assert not kept.exists()
    assert not scratch.exists()
    places = {(one["what"], one["where"]) for one in found["not_looked_at"]}
    assert ("hard links", f"__fragments/{name}") in places
    assert ("fragment", f"__fragments/{torn.name}") in places
    assert {"backups", "clone", "other copies", "tables of a fleet"} <= {one for one, _ in places}
    again = opened(uri).erase(WHERE, orphan_age=0).certificate
    assert again["matches_left"] == 0
    assert not orphan.exists()
    assert holding(folder) == []
    # The clone is still named, though the fragment that it shares is gone.
    assert ("hard links", f"__fragments/{name}") in {
        (one["what"], one["where"]) for one in again["not_looked_at"]
    }


@pytest.mark.parametrize("where", [WHERE, "v == 2"])
def test_a_fragment_whose_schema_is_in_the_quarantine_too_is_searched(
    where: str, tmp_path: Path
) -> None:
    uri, stage = make(tmp_path / "a"), make(tmp_path / "stage")
    write(uri, 10, {1: "x"})
    write(stage, 20, {2: WHO})
    ct.publish(stage, uri)
    ct.open(uri).undo()
    kept = {path.name.partition("-")[2] for path in (tmp_path / "a").glob("__chronotile/q*/*/*")}
    assert {path.name for path in (tmp_path / "stage" / "__schema").glob("__[0-9]*")} <= kept
    assert holding(tmp_path / "a") != []
    found = opened(uri).erase(where).certificate
    assert [one for one in found["not_looked_at"] if one["what"] == "fragment"] == []
    assert (found["matches_found"], found["matches_left"]) == (1, 0)
    assert holding(tmp_path / "a") == []


def test_a_certificate_is_verified(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    array = opened(uri)
    certificate = array.erase(WHERE).certificate
    assert WHO not in json.dumps(certificate)
    assert len(certificate["predicate_hash"]) == 64
    again = array.erase(f"  s=='{WHO}' ", verify=certificate).certificate
    assert again["matches_left"] == 0
    assert again["predicate_hash"] == certificate["predicate_hash"]
    with pytest.raises(RefusedError, match="expected the predicate of this certificate"):
        array.erase("s == 'x'", verify=certificate)
    write(uri, 60, {9: WHO})
    assert array.erase(WHERE, verify=certificate).certificate["matches_left"] == 1


def test_a_dense_array_is_refused_with_its_matches(tmp_path: Path) -> None:
    uri = str(tmp_path / "a")
    domain = tiledb.Domain(tiledb.Dim("d", domain=(0, 9), tile=5, dtype="int32"))
    schema = tiledb.ArraySchema(domain=domain, attrs=[tiledb.Attr("v", dtype="int32")])
    tiledb.Array.create(uri, schema)
    for at, values in ((10, [7, 1, 7, 2, 3]), (20, [1, 1, 1, 1, 7])):
        with tiledb.open(uri, "w", timestamp=at) as array:
            array[0:5] = np.array(values, dtype="int32")
    with pytest.raises(
        RefusedError, match=r"a dense one with 3 matches: .*\(2\), .*\(1\)"
    ) as refused:
        opened(uri).erase("v == 7")
    assert opened(uri).erase("v == 99").certificate["matches_left"] == 0
    with tiledb.open(uri, "w", timestamp=30) as array:
        array[4:5] = np.array([8], dtype="int32")
    assert follow(str(refused.value).rpartition("; then, to remove these: ")[2])
    assert opened(uri).erase("v == 7").certificate["matches_left"] == 0


def test_rows_without_a_number_are_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "a")
    domain = tiledb.Domain(tiledb.Dim("d", domain=(0, 9), tile=5, dtype="int32"))
    attribute = tiledb.Attr("f", dtype="float64")
    tiledb.Array.create(uri, tiledb.ArraySchema(domain=domain, attrs=[attribute], sparse=True))
    with tiledb.open(uri, "w", timestamp=10) as array:
        array[[1, 2, 3]] = np.array([7.5, 8.5, np.nan])
    with pytest.raises(RefusedError, match=r"also remove 1 row .* as they hold NULL or NaN: d = 3"):
        opened(uri).erase("f < 8")
    # Where no other row is left, nothing is in the way.
    assert opened(uri).erase("d in [1, 2, 3]").certificate["matches_left"] == 0


@pytest.mark.parametrize("where", ["v < 8", "v != 8", "d >= 1 and v == 7"])
def test_rows_with_null_are_named_and_stay(tmp_path: Path, where: str) -> None:
    """A delete by the engine takes NULL for a number (F7)."""
    array = EngineArray(tmp_path / "a").create(
        dims=[tiledb.Dim("d", domain=(0, 9), tile=5, dtype="int32")],
        attrs=[tiledb.Attr("v", dtype="int32", nullable=True)],
    )
    array.write_raw(10, d=[1, 2, 3, 4], v=[7, 8, None, None])
    before, files = array.answer(), read_all(array.folder)
    assert before == ((1, 7), (2, 8), (3, None), (4, None))
    with pytest.raises(RefusedError, match=r"also remove 2 rows .* hold NULL or NaN: d = 3") as no:
        opened(array.uri).erase(where)
    assert "d = 4" in str(no.value)
    assert (array.answer(), read_all(array.folder)) == (before, files)
    # Those rows are reached by another field, and then nothing is in the way.
    assert opened(array.uri).erase("d == 1").certificate["matches_left"] == 0
    assert array.answer() == before[1:]


def test_fragments_from_before_a_field_are_left_alone(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    write(uri, 10, {1: "x", 2: "y"})
    evolution = tiledb.ArraySchemaEvolution(tiledb.default_ctx())
    evolution.add_attribute(tiledb.Attr("new", dtype="int32", fill=3))
    evolution.array_evolve(uri)
    with tiledb.open(uri, "w") as array:
        texts = np.array([WHO, "z"], dtype="S")
        numbers = np.array([7, 8], np.int32)
        array[[5, 6]] = {"s": texts, "v": numbers, "new": numbers}
    with pytest.raises(RefusedError, match=r"written before new: .* 1 match by the fill value"):
        opened(uri).erase("new == 3 and v == 1")
    assert opened(uri).erase("new == 7").certificate["matches_left"] == 0
    with tiledb.open(uri) as array:
        assert array[:]["d"].tolist() == [1, 2, 6]


def test_an_update_that_is_not_carried_out_is_refused(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    ct.open(uri).update("v == 1", [f"s={WHO}"], at=40, experimental=True)
    with pytest.raises(RefusedError, match=r"to carry it out first: chronotile apply"):
        opened(uri).erase(WHERE)


def test_an_earlier_value_does_not_come_back(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    write(uri, 10, {1: "old", 2: "stays"})
    write(uri, 20, {1: WHO, 3: "z"})
    write(uri, 30, {1: "new"})
    tiledb.consolidate(uri)
    tiledb.vacuum(uri)
    write(uri, 40, {2: WHO})
    with pytest.raises(RefusedError, match=r"2 that would show again: .*--earlier-values"):
        opened(uri).erase(WHERE)
    opened(uri).erase(WHERE, earlier_values=True)
    assert holding(tmp_path / "a") == holding(tmp_path / "a", "stays") == []
    assert [rows(uri, 0, end) for end in (10, 20, 30, NOW)] == [
        [],
        [(3, b"z", 3)],
        [(1, b"new", 1), (3, b"z", 3)],
        [(1, b"new", 1), (3, b"z", 3)],
    ]


def test_a_delete_that_compares_by_order_stays_and_is_named(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    ct.open(uri).delete(f"s > '{WHO}'", at=30)
    before = answers(uri)
    found = opened(uri).erase(WHERE).certificate
    assert answers(uri) == without(before)
    assert found["matches_left"] == 0
    assert [one["what"] for one in found["still_named"]] == ["delete or update"]


def test_metadata_and_labels_are_named_and_stay(tmp_path: Path) -> None:
    uri = str(tmp_path / "a")
    domain = tiledb.Domain(tiledb.Dim("d", domain=(0, 9), tile=5, dtype="int32"))
    labels = tiledb.Enumeration("names", ordered=False, values=np.array([WHO, "x"]))
    attribute = tiledb.Attr("n", dtype="int8", enum_label="names")
    schema = tiledb.ArraySchema(domain=domain, attrs=[attribute], sparse=True, enums=[labels])
    tiledb.Array.create(uri, schema)
    with tiledb.open(uri, "w", timestamp=10) as array:
        array[[1, 2]] = np.array([0, 1], np.int8)
        array.meta["contact"] = WHO
    found = opened(uri).erase(f"n == '{WHO}'").certificate
    assert found["matches_left"] == 0
    assert sorted(one["what"] for one in found["still_named"]) == ["enumeration", "metadata"]
    with tiledb.open(uri) as array:
        assert array[:]["d"].tolist() == [2]


def test_deleted_rows_go_too_where_their_delete_is_gone_and_that_is_said_first(
    tmp_path: Path,
) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    ct.open(uri).delete("v == 1", at=30)
    tiledb.consolidate(uri)
    tiledb.vacuum(uri)
    (delete,) = (tmp_path / "a" / "__commits").glob("*.del")
    delete.unlink()
    ct.open(uri).repair()  # one that matches no row takes its name
    before = answers(uri)
    report = opened(uri).erase(WHERE, dry_run=True)
    assert any(one.startswith("1 row that were deleted already go too") for one in report.losses)
    opened(uri).erase(WHERE)
    lost = {w: [row for row in found if row[0] != 1] for w, found in without(before).items()}
    assert answers(uri) == lost
    assert holding(tmp_path / "a") == []


def test_a_group_is_erased_member_by_member(tmp_path: Path) -> None:
    group = str(tmp_path / "g")
    tiledb.Group.create(group)
    for name in ("one", "two"):
        plain(make(tmp_path / "g" / name))
    domain = tiledb.Domain(tiledb.Dim("d", domain=(0, 9), tile=5, dtype="int32"))
    other = tiledb.ArraySchema(
        domain=domain, attrs=[tiledb.Attr("other", dtype="int8")], sparse=True
    )
    tiledb.Array.create(str(tmp_path / "g" / "three"), other)
    with tiledb.Group(group, "w") as members:
        for name in ("one", "two", "three"):
            members.add(name, name, relative=True)
    ct.open(group).delete(WHERE, at=30, member="one")
    dataset = ct.open(group)
    assert isinstance(dataset, ct.Group)
    report = dataset.erase(WHERE)
    assert holding(tmp_path / "g") == []
    held = {one.path: one.report.certificate for one in report.outcomes if one.report}
    assert held["one"]["matches_left"] == held["two"]["matches_left"] == 0
    assert not held["three"]
    verified = dataset.erase(WHERE, verify=report.to_dict())
    assert not verified.failed
    final = "an erase is final; the erased rows are gone for good"
    for path, place in (("the group itself: ", dataset), ("", ct.open(f"{group}/two"))):
        with pytest.raises(RefusedError, match=f"nothing was changed: {path}{final}"):
            place.undo()


def test_the_command_asks_first_and_its_status_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    call = ["erase", uri, "--where", WHERE]
    assert main(call) == 2
    assert "nothing was changed: an erase cannot be undone" in capsys.readouterr().err
    assert main([*call, "--dry-run"]) == 0
    assert "this cannot be undone" in capsys.readouterr().out
    out = str(tmp_path / "certificate.json")
    assert main([*call, "--yes", "--json", "-o", out]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert "this cannot be undone" in printed.err
    names = ["array", "time", "predicate_hash", "salt", "files_read", "cells_read"]
    names += ["matches_found", "matches_left", "not_looked_at"]
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    assert {name: told[name] for name in names} == {name: certificate[name] for name in names}
    assert main([*call, "--verify", out]) == 0
    page = tmp_path / "certificate.html"
    write(uri, 60, {9: WHO})
    assert main([*call, "--verify", out, "-o", str(page)]) == 1
    assert "Something is left" in page.read_text()
    capsys.readouterr()
    assert main([*call, "--verify", str(page)]) == 2
    assert "--verify needs the .json certificate" in capsys.readouterr().err
    assert WHO not in page.read_text()


def test_a_group_names_its_own_metadata_and_members(tmp_path: Path) -> None:
    group = str(tmp_path / "g")
    tiledb.Group.create(group)
    plain(make(tmp_path / "g" / "one"))
    with tiledb.Group(group, "w") as members:
        members.add("one", "one", relative=True)
        members.meta["contact"] = f"ask {WHO}"
    call = ["erase", group, "--where", WHERE, "--yes"]
    assert main(call) == 1
    dataset = ct.open(group)
    assert isinstance(dataset, ct.Group)
    report = dataset.erase(WHERE)
    held = {one.path: one.report.certificate for one in report.outcomes if one.report}
    assert [one["what"] for one in held[""]["still_named"]] == ["metadata"]
    # A member that the certificate does not know is looked at all the same.
    plain(make(tmp_path / "g" / "two"))
    with tiledb.Group(group, "w") as members:
        del members.meta["contact"]
        members.add("two", "two", relative=True)
    again = ct.open(group)
    assert isinstance(again, ct.Group)
    verified = again.erase(WHERE, verify=report.to_dict())
    left = {
        one.path: one.report.certificate.get("matches_left")
        for one in verified.outcomes
        if one.report
    }
    assert left == {"": None, "one": 0, "two": 2}
    assert verified.summary() == "the group and 2 members: 2 matches left"
    notes = {one.path: one.report.notes for one in verified.outcomes if one.report}
    assert notes == {"": (), "one": (), "two": ("the certificate does not cover this array",)}
    some = again.erase(WHERE, verify=report.to_dict(), member="one")
    assert some.summary() == "1 member: no match left"
    why = "Operation records of groups were not searched: to blank them, erase in all of a group."
    for done, searches_groups in ((verified, True), (some, False)):
        (at_one,) = (one.report for one in done.outcomes if one.report and one.path == "one")
        whys = [place["why"] for place in at_one.certificate["not_looked_at"]]
        assert (why not in whys) == searches_groups


def test_copies_are_named_by_their_records_and_strange_files_are_searched(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    uri = make(folder)
    plain(uri)
    array = opened(uri)
    array.clone(str(tmp_path / "clone"))
    array.replicate(str(tmp_path / "replica"))
    (folder / "notes.txt").write_text(f"call {WHO}")
    (name,) = (one.name for one in (folder / "__fragments").iterdir() if "__10_10" in one.name)
    shutil.copytree(folder / "__fragments" / name, folder / "__fragments" / f"{name}.bak")
    array.delete(WHERE, at=30)
    planned = array.erase(WHERE, dry_run=True)
    assert any(str(tmp_path / "replica") in note for note in planned.notes)
    found = array.erase(WHERE).certificate
    places = {(one["what"], one["where"]) for one in found["not_looked_at"]}
    assert {("clone", str(tmp_path / "clone")), ("replica", str(tmp_path / "replica"))} <= places
    assert ("file", f"__fragments/{name}.bak") in places
    still = {one["where"].rpartition("/")[0] for one in found["still_named"]}
    assert still == {"", f"__fragments/{name}.bak"}
    # The copies know where they come from.
    replica = opened(str(tmp_path / "replica")).erase(WHERE).certificate
    assert ("original", uri) in {(one["what"], one["where"]) for one in replica["not_looked_at"]}


def test_the_rows_of_a_young_orphan_do_not_count_as_erased(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    array.write(20, {3: 1})
    next(array.commits_folder.glob("__20_20*")).unlink()
    report = opened(array.uri).erase("a == 1")
    assert report.rows == {"erased": 1}
    found = report.certificate
    assert (found["matches_found"], found["matches_left"]) == (2, 1)


def test_an_orphan_without_metadata_goes_if_its_bytes_tell(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    uri = make(folder)
    plain(uri)
    (name,) = (one.name for one in (folder / "__fragments").iterdir() if "__10_10" in one.name)
    torn = folder / "__fragments" / f"__15_15_{'b' * 32}_22"
    shutil.copytree(folder / "__fragments" / name, torn)
    (torn / "__fragment_metadata.tdb").unlink()
    found = opened(uri).erase(WHERE).certificate
    assert [one["where"] for one in found["still_named"]] == [f"__fragments/{torn.name}"]
    assert opened(uri).erase(WHERE, orphan_age=0).certificate["still_named"] == []
    assert holding(folder) == []


def test_footers_of_fragments_that_went_earlier_go(tmp_path: Path) -> None:
    """A `.meta` keeps the first and last text of a dimension, whatever a vacuum removes."""
    uri = str(tmp_path / "a")
    plain = tiledb.FilterList([tiledb.NoOpFilter()])
    domain = tiledb.Domain(tiledb.Dim("d", dtype="ascii", filters=plain))
    attribute = tiledb.Attr("v", dtype="int32")
    tiledb.Array.create(uri, tiledb.ArraySchema(domain=domain, attrs=[attribute], sparse=True))
    for at, places in ((10, [WHO, "a"]), (20, ["b", "c"])):
        with tiledb.open(uri, "w", timestamp=at) as array:
            array[np.array(places, "S")] = np.array([1, 2], "int32")
    ct.open(uri).consolidate("fragment-meta")
    with tiledb.open(uri, "d", timestamp=30) as array:
        array.query(cond=f"d == '{WHO}'").submit()
    settings = tiledb.Config({"sm.consolidation.purge_deleted_cells": "true"})
    tiledb.consolidate(uri, config=settings)
    tiledb.vacuum(uri)
    assert any("__fragment_meta" in path for path in holding(tmp_path / "a"))
    found = opened(uri).erase(f"d == '{WHO}'").certificate
    assert (found["matches_found"], found["still_named"]) == (0, [])
    assert holding(tmp_path / "a") == []
    with tiledb.open(uri) as array:
        assert array[:]["d"].tolist() == [b"a", b"b", b"c"]


def test_dimension_labels_are_searched_and_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "a")
    dim = tiledb.Dim("x", domain=(1, 4), tile=4, dtype="int32")
    labels = {0: {"patient": dim.create_label_schema("increasing", "ascii")}}
    attribute = tiledb.Attr("n", dtype="ascii", var=True)
    schema = tiledb.ArraySchema(tiledb.Domain(dim), attrs=[attribute], dim_labels=labels)
    tiledb.Array.create(uri, schema)
    with tiledb.open(uri, "w", timestamp=10) as array:
        texts = np.array(["A", WHO, "y", "z"], dtype="S")
        array[:] = {"n": np.array(["p", "q", "r", "s"], dtype="S"), "patient": texts}
    found = opened(uri).erase(f"n == '{WHO}'").certificate
    assert found["matches_left"] == 0
    assert [(one["what"], one["where"]) for one in found["still_named"]] == [
        ("dimension label", "__labels/l0")
    ]


def test_an_encrypted_array_is_erased_with_its_key(tmp_path: Path) -> None:
    key = b"0123456789abcdefghijklmnopqrstuv"
    settings = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key.decode()}
    with tiledb.scope_ctx(tiledb.Config(settings)):
        uri = make(tmp_path / "a")
        plain(uri)
        array = ct.open(uri, key=key)
        assert isinstance(array, ct.Array)
        array.delete(f"{WHERE} or v == 1", at=30)
        before = answers(uri)
        found = array.erase(WHERE).certificate
        assert (found["matches_found"], found["matches_left"], found["still_named"]) == (2, 0, [])
        assert answers(uri) == without(before)


def test_on_a_terminal_it_asks(tmp_path: Path) -> None:
    uri = make(tmp_path / "a")
    plain(uri)
    for answer, status, left in (("n", 1, 2), ("y", 0, 0)):
        ours, theirs = os.openpty()
        call = [sys.executable, "-m", "chronotile", "erase", uri, "--where", WHERE]
        with subprocess.Popen(call, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs) as run:
            os.close(theirs)
            os.write(ours, f"{answer}\n".encode())
            words = b""
            with suppress(OSError):  # the other end has closed
                while part := os.read(ours, 4096):
                    words += part
        os.close(ours)
        assert run.returncode == status
        assert b"this cannot be undone: it erases 2 rows" in words
        assert b"Erase them for good?" in words
        assert sum(row[1] == WHO.encode() for row in rows(uri, 0, NOW)) == left


def test_a_bucket_says_whether_it_keeps_versions(s3: S3Server, bucket: str) -> None:
    """In a bucket: all of it is read, rewritten and removed there."""
    uri = f"{bucket}/a"
    with tiledb.scope_ctx(tiledb.Config(s3_settings(s3))):
        make(uri)
        plain(uri)
        array = ct.open(uri, storage_options=s3.options)
        assert isinstance(array, ct.Array)
        array.delete(f"{WHERE} or v == 1", at=30)
        before = answers(uri)
        found = array.erase(WHERE).certificate
        assert answers(uri) == without(before)
    assert (found["matches_found"], found["matches_left"], found["still_named"]) == (2, 0, [])
    files = InBucket(s3, bucket, "a").files()
    assert oracle.holding(files) == []
    assert "object versions" not in {one["what"] for one in found["not_looked_at"]}
    versioned = s3.make_bucket(f"versioned-{uuid.uuid4().hex[:12]}")
    body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    url = f"{s3.endpoint}/{versioned.removeprefix('s3://')}?versioning"
    request = urllib.request.Request(url, data=body, method="PUT")
    request.add_header("Content-Type", "application/xml")
    urllib.request.urlopen(request, timeout=30).close()
    with tiledb.scope_ctx(tiledb.Config(s3_settings(s3))):
        make(f"{versioned}/a")
    other = ct.open(f"{versioned}/a", storage_options=s3.options)
    assert isinstance(other, ct.Array)
    places = other.erase(WHERE).certificate["not_looked_at"]
    (place,) = (one for one in places if one["what"] == "object versions")
    assert place["why"].startswith("the bucket keeps them")


def test_random_histories() -> None:
    """A short form of `make erase-oracle`: see there."""
    found = oracle.judge(0, 6)
    assert found["differences"] == []
    assert found["erased"] >= 4


@pytest.mark.parametrize("name", ["sparse-consolidated-v16", "old-sparse-v4", "old-vacuumed"])
def test_arrays_of_older_engines(tmp_path: Path, name: str) -> None:
    """Before version 12 it refuses; later fragments are rewritten by the engine of today."""
    shutil.copytree(CASES[name].array, tmp_path / "a")
    uri = str(tmp_path / "a")
    ends = sorted({one.t2 for one in ct.open_log(uri).view().fragments})

    def read() -> list[list[tuple[int, int]]]:
        found = []
        for end in (*ends, NOW):
            with tiledb.open(uri, timestamp=(0, end)) as array:
                cells = array[:]
            found.append([*zip(cells["x"].tolist(), cells["a"].tolist(), strict=True)])
        return found

    before = read()
    place = before[-1][0][0]
    if name.startswith("old"):
        with pytest.raises(RefusedError, match="expected fragments from version 12 on"):
            opened(uri).erase(f"x == {place}")
        assert read() == before
        return
    found = opened(uri).erase(f"x == {place}").certificate
    assert (found["matches_left"], found["still_named"]) == (0, [])
    assert read() == [[row for row in rows if row[0] != place] for rows in before]


@pytest.mark.parametrize("duplicates", [False, True], ids=["places", "duplicates"])
def test_a_merge_of_the_engine_meanwhile_doubles_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, duplicates: bool
) -> None:
    """It merges the old fragment while the new one is not yet shown: its `.vac` knows one only."""
    uri = make(tmp_path / "a", duplicates=duplicates)
    plain(uri)
    write(uri, 25, {8: "w"})
    before, look = answers(uri), _Whole.__call__
    merges = [1]

    def merge_once(self: _Whole, store: Store) -> None:
        if merges:
            merges.pop()
            tiledb.consolidate(uri)
        look(self, store)

    monkeypatch.setattr(_Whole, "__call__", merge_once)
    found = opened(uri).erase(WHERE).certificate
    assert not merges
    assert found["matches_left"] == 2  # the merged fragment has them
    assert without(answers(uri)) == without(before)
    assert opened(uri).erase(WHERE).certificate["matches_left"] == 0
    assert answers(uri) == without(before)
    assert holding(tmp_path / "a") == []
