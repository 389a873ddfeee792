"""Replicas, judged by the engine: after each round they show what their source shows."""

from __future__ import annotations

import shutil
import subprocess
from itertools import combinations_with_replacement
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray, s3_settings
from support.groups import codes_of, found_in, member, put_array, put_list

import chronotile as ct
from chronotile.change.replica_record import PATH, read_record, write_record
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.storage.processes import this_process
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import S3Server

TIMES = (0, 10, 15, 20, 22, 25, 30, 35, 40, 50, 60, 70, 1 << 60)
WINDOWS = [*combinations_with_replacement(TIMES, 2)]


def pair(tmp_path: Path, **options: Any) -> tuple[EngineArray, EngineArray]:
    """A source, and the place of its replica."""
    source, target = EngineArray(tmp_path / "source"), EngineArray(tmp_path / "target")
    source.create(**options)
    target.sparse = source.sparse
    return source, target


def assert_replicated(source: EngineArray, target: EngineArray, **options: Any) -> Any:
    """A round makes both equal at every window; a second one has nothing to do."""
    report = ct.replicate(source.uri, target.uri, **options)
    assert target.answers(WINDOWS) == source.answers(WINDOWS)
    ends = [metadata(source, end) for end in TIMES]
    assert [metadata(target, end) for end in TIMES] == ends
    assert not report.findings
    assert not ct.replicate(source.uri, target.uri, **options).steps
    assert not ct.replicate(source.uri, target.uri, check=True).findings
    return report


def metadata(array: EngineArray, end: int) -> dict[str, Any]:
    with tiledb.open(array.uri, timestamp=(0, end), ctx=array.ctx) as opened:
        return dict(opened.meta.items())


def set_key(array: EngineArray, at: int, value: int) -> None:
    with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
        opened.meta["k"] = value


def names_of(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix() for path in files}
    return {name for name in names if "__chronotile/" not in name}


@pytest.mark.parametrize("prune", [False, True], ids=["hide", "prune"])
@pytest.mark.parametrize("kind", ["sparse", "dense", "duplicates"])
def test_a_life_of_an_array(kind: str, prune: bool, tmp_path: Path) -> None:
    source, target = pair(tmp_path, sparse=kind != "dense", duplicates=kind == "duplicates")
    has_deletes = kind != "dense"

    def again() -> None:
        assert_replicated(source, target, prune=prune)

    source.write(10, {1: 1, 2: 2, 3: 3})
    source.write(20, {3: 30, 4: 40})
    set_key(source, 20, 1)
    again()
    if has_deletes:
        source.delete(25, "a < 3")
    source.write(30, {1: 100, 2: 50})
    source.consolidate("commits")
    again()
    source.vacuum("commits")
    again()
    source.consolidate("fragments", (5, 22))
    again()
    source.write(40, {8: 8})
    source.vacuum("fragments")
    again()
    set_key(source, 40, 2)
    source.consolidate("array_meta")
    source.consolidate("fragment_meta")
    again()
    source.vacuum("array_meta")
    source.write(50, {7: 7})
    source.consolidate("fragments")
    source.vacuum("fragments")
    again()
    source.write(60, {9: 9})
    again()
    source.delete_fragments(55, 65)
    again()
    if prune:
        assert names_of(target.folder) == names_of(source.folder)


def test_what_the_source_takes_back_is_taken_back(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    for at in (10, 20, 30):
        source.write(at, {at + 1: at, at + 2: at})
    assert_replicated(source, target)
    array = ct.open(source.uri)
    changes: tuple[Callable[[], Any], ...] = (
        lambda: array.delete("a == 20", at=35),
        lambda: array.undo(),
        lambda: array.delete("a == 10", at=40),
        lambda: array.consolidate(),
        lambda: array.vacuum(loose_deletes=True),
        lambda: array.restore(15),
        lambda: array.undo(),
        lambda: array.restore(25),
        lambda: array.tag("release"),
        lambda: array.undo(),
    )
    for change in changes:
        change()
        assert_replicated(source, target)
    array.undelete(array.commits().filter(_is_delete(array))["name"][0].as_py(), ever=True)
    assert_replicated(source, target)


def _is_delete(array: Any) -> Any:
    return [one == "delete" for one in array.commits()["kind"].to_pylist()]


def test_schemas_and_labels_of_enumerations(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1})
    assert_replicated(source, target)
    evolution = tiledb.ArraySchemaEvolution(source.ctx)
    evolution.add_enumeration(tiledb.Enumeration("e", True, ["red", "blue"]))
    evolution.add_attribute(tiledb.Attr("c", dtype=np.int32, enum_label="e", fill=0))
    evolution.timestamp(20)
    evolution.array_evolve(source.uri)
    with tiledb.open(source.uri, "w", timestamp=30, ctx=source.ctx) as opened:
        opened[[4]] = {"a": np.array([4], np.int32), "c": np.array([1], np.int32)}
    assert_replicated(source, target)


def test_an_undone_schema_goes_with_prune_alone(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1})
    ct.replicate(source.uri, target.uri)
    schema = next((target.folder / "__schema").glob("__[0-9]*"))
    stray = schema.with_name("__90_90_" + "ab" * 16)
    shutil.copy(schema, source.folder / "__schema" / stray.name)
    ct.replicate(source.uri, target.uri)
    assert stray.exists()
    (source.folder / "__schema" / stray.name).unlink()
    (found,) = ct.replicate(source.uri, target.uri).findings
    assert found.code == "replica-differs"
    assert found.path == f"__schema/{stray.name}"
    assert not ct.replicate(source.uri, target.uri, prune=True).findings
    assert not stray.exists()


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("bad-")])
def test_the_corpus(name: str, tmp_path: Path) -> None:
    """Arrays of every version, encrypted ones without their key."""
    case = CASES[name]
    source = case.copy_to(tmp_path / "source")
    target = str(tmp_path / "target")
    ct.replicate(source, target)
    first, second = (ct.open_log(uri, key=case.key) for uri in (source, target))
    times = sorted({*first.commits()["t1"].to_pylist(), *first.commits()["t2"].to_pylist()})
    for end in (*times[:: max(1, len(times) // 6)], MAX_TIMESTAMP):
        views = [log.view(0, end).to_dict() | {"array": ""} for log in (first, second)]
        assert views[0] == views[1], end
    assert not ct.replicate(source, target, check=True).findings
    assert not ct.replicate(source, target).steps


def test_a_fragment_of_the_root_is_hidden(tmp_path: Path) -> None:
    case = CASES["old-sparse-v4"]
    source, target = case.copy_to(tmp_path / "source"), str(tmp_path / "target")
    ct.replicate(source, target)
    first = next(path for path in Path(source).iterdir() if path.is_dir() and "_" in path.name[2:])
    shutil.rmtree(first)
    Path(f"{first}.ok").unlink(missing_ok=True)
    ct.replicate(source, target)
    answers = [EngineArray(uri).answer() for uri in (source, target)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("way", ["disk-s3", "s3-disk", "s3-s3", "disk-memory"])
def test_across_storages(way: str, tmp_path: Path, s3: S3Server, bucket: str) -> None:
    here, there = way.split("-")
    places = {"disk": str(tmp_path / "x"), "s3": f"{bucket}/x", "memory": f"memory:{bucket[5:]}/x"}
    settings = s3_settings(s3)
    source = EngineArray(places[here] + "-source", settings=settings).create()
    source.live()
    target = places[there] + "-target"
    for _ in range(2):
        report = ct.replicate(source.uri, target, storage_options=s3.options)
        assert not ct.replicate(source.uri, target, storage_options=s3.options).steps
        assert bool(report.checksums) == (way != "s3-s3")
        if there != "memory":
            copy = EngineArray(target, settings=settings)
            assert copy.answers(WINDOWS) == source.answers(WINDOWS)
        source.write(70, {9: 9})
        source.consolidate("fragments")
        source.vacuum("fragments")


def test_a_checksum_is_of_the_file(tmp_path: Path) -> None:
    import hashlib

    source, target = pair(tmp_path)
    source.write(10, {1: 1})
    report = ct.replicate(source.uri, target.uri)
    files = {name for name in names_of(target.folder) if not name.endswith((".con", ".vac"))}
    assert set(report.checksums) == files
    for path, checksum in report.to_dict()["sha256"].items():
        assert hashlib.sha256((target.folder / path).read_bytes()).hexdigest() == checksum


def other_write(target: EngineArray) -> str:
    target.write(45, {5: 5})
    return "__45_45_"


def other_delete(target: EngineArray) -> str:
    target.delete(46, "a == 1")
    return ".del"


def other_metadata(target: EngineArray) -> str:
    set_key(target, 47, 3)
    return "__meta/__47_47_"


def other_size(target: EngineArray) -> str:
    (shown,) = (target.folder.parent / "source").rglob("a0.tdb")
    path = target.folder / shown.relative_to(target.folder.parent / "source")
    path.write_bytes(b"?")
    return "a0.tdb"


@pytest.mark.parametrize("other", [other_write, other_delete, other_metadata, other_size])
@pytest.mark.parametrize("prune", [False, True])
def test_a_replica_that_somebody_wrote_to_is_refused(
    other: Callable[[EngineArray], str], prune: bool, tmp_path: Path
) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1, 2: 2})
    source.write(20, {3: 3})
    ct.replicate(source.uri, target.uri)
    source.consolidate("fragments")
    source.vacuum("fragments")
    ct.replicate(source.uri, target.uri)
    named = other(target)
    source.write(30, {4: 4})
    with pytest.raises(RefusedError, match="somebody else wrote") as caught:
        ct.replicate(source.uri, target.uri, prune=prune)
    assert named in str(caught.value)
    found = ct.replicate(source.uri, target.uri, check=True).findings
    hints = [item.hint for item in found]
    assert f"to make another copy: chronotile replicate {source.uri} NEW_TARGET" in hints


def test_a_delete_of_ours_in_a_replica_is_named_with_its_undo(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1, 2: 2})
    ct.replicate(source.uri, target.uri)
    done = ct.open(target.uri).delete("a == 1")
    source.write(20, {3: 3})
    undo = f"to take that back: chronotile undo {target.uri} {done.operation}"
    with pytest.raises(RefusedError) as caught:
        ct.replicate(source.uri, target.uri)
    assert undo in str(caught.value)
    checked = ct.replicate(source.uri, target.uri, check=True)
    ways = {item.path.rpartition(".")[2]: (item.message, item.hint) for item in checked.findings}
    assert ways["del"] == ("only in the target", undo)
    assert ways["wrt"][0] == "only in the source"
    ct.open(target.uri).undo(done.operation)
    assert_replicated(source, target)


def test_a_delete_that_stands_in_is_no_file_of_somebody_else(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1, 2: 2})
    done = ct.open(source.uri).delete("a == 1", at=20)
    ct.replicate(source.uri, target.uri)
    ct.open(source.uri).undo(done.operation)
    ct.replicate(source.uri, target.uri)
    foreign = other_write(target)
    with pytest.raises(RefusedError, match="somebody else wrote") as caught:
        ct.replicate(source.uri, target.uri)
    assert foreign in str(caught.value)
    assert ".del" not in str(caught.value)


def test_a_clone_is_no_replica(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1})
    source.write(20, {2: 2})
    ct.clone(source.uri, target.uri)
    with pytest.raises(RefusedError, match=r"no copy of \S+ that replicate made: it alone has"):
        ct.replicate(source.uri, target.uri)
    words = {item.message for item in ct.replicate(source.uri, target.uri, check=True).findings}
    assert "only in the target, which replicate did not make" in words


def test_a_copy_of_another_source_is_not_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("one", "two"):
        put_array(source / name, "sparse-loose")
    put_array(tmp_path / "else", "sparse-loose")
    put_array(target / "own", "sparse-loose")
    ct.replicate(str(source), str(target))
    ct.replicate(str(tmp_path / "else"), str(target / "else"))
    others = {name: names_of(target / name) for name in ("else", "own")}
    shutil.rmtree(source / "two")
    assert main(["replicate", str(source), str(target)]) == 0
    out = capsys.readouterr().out
    assert f"else: only in the target, and a copy of {tmp_path / 'else'}: it stays" in out
    assert "own: only in the target, and not put there by replicate: it stays" in out
    assert "two: only in the target; to remove it, add --prune" in out
    ct.replicate(str(source), str(target), prune=True)
    assert {name: names_of(target / name) for name in others} == others
    assert not names_of(target / "two")
    assert main(["replicate", str(source), str(target), "--check"]) == 0


def test_an_array_and_a_group_are_no_pair(tmp_path: Path) -> None:
    array, group = tmp_path / "array", tmp_path / "group"
    put_array(array, "sparse-loose")
    put_array(group / "one", "sparse-loose")
    put_list(group, 10, member("one", "one"))
    before = names_of(array)
    for source, target in ((str(array), str(group)), (str(group), str(array))):
        with pytest.raises(RefusedError, match=r"the source is an? .*, and the target an? "):
            ct.replicate(source, target)
    assert names_of(array) == before


def test_a_target_that_is_no_replica_is_refused(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1})
    target.create()
    target.write(10, {2: 2})
    with pytest.raises(RefusedError, match="__commits/__10_10_"):
        ct.replicate(source.uri, target.uri)


def test_a_copy_by_hand_is_taken_over(tmp_path: Path) -> None:
    """And what only the engine removes from a replica does no harm."""
    source, target = pair(tmp_path)
    source.live()
    shutil.copytree(source.uri, target.uri)
    next(target.folder.rglob("a0.tdb")).unlink()
    assert_replicated(source, target)
    source.vacuum("fragments")
    assert_replicated(source, target)
    target.vacuum("fragments")
    assert_replicated(source, target)


def test_both_places_know_of_each_other(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1})
    array = ct.open(source.uri)
    array.delete("a == 1", at=20)
    for message in ("for the readers in the north", "again"):
        ct.replicate(source.uri, target.uri, message=message)
        source.write(30, {2: 2})
    for uri in (source.uri, target.uri):
        (record,) = [
            one for one in ct.open(uri).operations().to_pylist() if one["command"] == "replicate"
        ]
        assert source.uri in record["options"]
        assert target.uri in record["options"]
        assert record["message"] == "for the readers in the north"
    record = read_record(open_store(target.uri))
    assert record is not None
    assert record.source == source.uri
    assert array.undo().undoes  # it is the delete that is taken back
    assert not (source.folder / PATH).exists()


def test_one_replicator_at_a_time(tmp_path: Path) -> None:
    """One that was killed holds nobody up, nor one that has failed."""
    source, target = pair(tmp_path)
    source.write(10, {1: 1})
    ct.replicate(source.uri, target.uri)
    source.write(20, {2: 2})
    store = open_store(target.uri)
    record = read_record(store)
    assert record is not None
    with subprocess.Popen(["sleep", "60"]) as other:
        process = this_process(other.pid)
        write_record(store, record.raw, record._replace(process=process))
        with pytest.raises(ct.ChronotileError, match="only one who replicates"):
            ct.replicate(source.uri, target.uri)
        other.kill()
    assert_replicated(source, target)
    source.write(30, {3: 3})
    with pytest.raises(KeyboardInterrupt):
        ct.replicate(source.uri, target.uri, on_file=_stopped)
    record = read_record(store)
    assert record is not None
    assert record.begun
    assert record.process is None
    assert_replicated(source, target)


def _stopped() -> None:
    raise KeyboardInterrupt


def test_places_inside_of_each_other_are_refused(tmp_path: Path) -> None:
    source, _ = pair(tmp_path)
    with pytest.raises(RefusedError, match="source and target are the same place"):
        ct.replicate(source.uri, source.uri)
    for target in (f"{source.uri}/copy", str(tmp_path)):
        with pytest.raises(RefusedError, match="one inside of the other"):
            ct.replicate(source.uri, target)


def test_a_damaged_source_leaves_the_replica_as_it_is(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1})
    ct.replicate(source.uri, target.uri)
    source.write(20, {2: 2})
    before = target.answer()
    shutil.rmtree(next((source.folder / "__fragments").glob("__20_*")))
    with pytest.raises(ct.ChronotileError, match="chronotile check"):
        ct.replicate(source.uri, target.uri)
    assert target.answer() == before


@pytest.mark.parametrize("pattern", ["__meta/*", "__schema/__40*", "__commits/*.del", "*/*.con"])
def test_a_file_that_an_engine_is_still_writing_is_waited_for(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair(tmp_path)
    source.write(10, {1: 1, 2: 2})
    ct.replicate(source.uri, target.uri)
    before = target.answer()
    source.consolidate("commits")
    source.delete(20, "a == 1")
    set_key(source, 30, 1)
    evolution = tiledb.ArraySchemaEvolution(source.ctx)
    evolution.add_attribute(tiledb.Attr("c", dtype=np.int32))
    evolution.timestamp(40)
    evolution.array_evolve(source.uri)
    (path,) = source.folder.glob(pattern)
    whole = path.read_bytes()
    waits: list[float] = []
    monkeypatch.setattr("chronotile.change.replica_reading.time.sleep", waits.append)
    for size in {0, 40, len(whole) - 1}:
        path.write_bytes(whole[:size])
        with pytest.raises(ct.ChronotileError, match="cut short"):
            ct.replicate(source.uri, target.uri)
        assert target.answer() == before
    monkeypatch.setattr(
        "chronotile.change.replica_reading.time.sleep", lambda _: path.write_bytes(whole)
    )
    assert_replicated(source, target)


def lake(tmp_path: Path) -> Path:
    """A folder with a group of groups, whose members are named in several ways, and an array."""
    root = tmp_path / "lake"
    group = root / "group"
    put_array(group / "cells", "sparse-everything-v22")
    put_array(group / "inner" / "genes", "labels")
    put_array(root / "beside", "dense-square")
    put_list(group / "inner", 10, member(f"file://{group}/inner/genes", "genes"))
    put_list(group / "inner", 20, member(f"file://{root}/beside", "beside"))
    entries = (
        member("cells", "cells"),
        member(f"file://{group}/inner", "inner", "group"),
        member("file:///else/where", "far"),
    )
    put_list(group, 30, *entries)
    (root / "notes.txt").write_text("not ours")
    with tiledb.Group(str(group), "w") as opened:
        opened.meta["k"] = 1
    return root


def test_a_folder_with_groups_is_copied_whole(tmp_path: Path) -> None:
    root = lake(tmp_path)
    target = tmp_path / "copy"
    report = ct.replicate(root, str(target))
    assert not report.findings
    assert not (target / "notes.txt").exists()
    expected = {path: kind for path, kind in found_in(root / "group").items() if path != "far"}
    shutil.move(root, tmp_path / "away")
    found = found_in(target / "group")
    assert {path: kind for path, kind in found.items() if path != "far"} == expected
    with tiledb.Group(str(target / "group")) as opened:
        assert opened.meta["k"] == 1
        assert opened["inner"].uri == f"file://{target}/group/inner"
    with tiledb.Group(f"{target}/group/inner") as opened:
        assert opened["genes"].uri == f"file://{target}/group/inner/genes"
        assert opened["beside"].uri == f"file://{target}/beside"
        with tiledb.open(opened["genes"].uri) as array:
            assert array.schema.domain.ndim
    again = ct.replicate(tmp_path / "away", str(target))
    assert not [
        step for one in again.outcomes for step in one.report.steps if "__" not in step.path
    ]


def test_names_that_cannot_be_copied_are_told(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    names = ("with space", "%41", "a#b?c", "-dash", ".dot", "ünï", "*", "new\nline", "back\\slash")
    for name in names:
        put_array(tmp_path / "lake" / name, "sparse-loose")
    (tmp_path / "lake" / "%41" / "__meta").mkdir(exist_ok=True)
    (tmp_path / "lake" / "%41" / "__meta" / "evil\x1b[2J").write_bytes(b"?")
    targets = str(tmp_path / "copy"), f"{bucket}/copy"
    for target in targets:
        for _ in range(2):
            report = ct.replicate(tmp_path / "lake", target, storage_options=s3.options)
            assert not report.failed
            assert any("out of bounds, such as" in note for note in report.notes), report.notes
        assert not report.has_steps
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {*names[:-2]}
    copied = open_store(targets[1], s3.options).list_dir().folders
    assert {*copied} == {*names[:-2]}


def test_a_group_is_brought_up_to_date(tmp_path: Path) -> None:
    root, target = lake(tmp_path), tmp_path / "copy"
    group = root / "group"
    ct.replicate(root, str(target))
    assert not ct.replicate(root, str(target)).has_steps
    put_array(group / "more", "bare")
    with tiledb.Group(str(group), "w") as opened:
        opened.add("more", "more", relative=True)
        opened.meta["k"] = 2
    shutil.rmtree(root / "beside")
    report = ct.replicate(root, str(target))
    assert [one.path for one in report.outcomes] == ["group/more", "beside", "group"]
    assert report.outcomes[1].skipped
    ct.open(str(group)).consolidate()
    ct.replicate(root, str(target))
    ct.open(str(group)).vacuum()
    both: tuple[dict[str, Any], ...] = ({}, {"prune": True})
    for options in both:
        ct.replicate(root, str(target), **options)
        with tiledb.Group(f"{target}/group") as opened:
            assert {one.name for one in opened} == {"cells", "inner", "far", "more"}
            assert opened.meta["k"] == 2
        assert not ct.replicate(root, str(target), **options).has_steps
    assert {path.name for path in (target / "beside").iterdir()} == {"__chronotile"}
    assert names_of(target / "group") == names_of(group)


def test_a_member_that_is_gone_does_not_hold_its_group_back(tmp_path: Path) -> None:
    group, target = tmp_path / "group", str(tmp_path / "copy")
    for name in ("one", "two"):
        put_array(group / name, "sparse-loose")
    put_list(group, 10, member("one", "one"), member("two", "two"))
    ct.replicate(group, target)
    put_list(group, 20, member("two", "two", gone=True))
    shutil.rmtree(group / "two")
    report = ct.replicate(group, target)
    assert not report.failed
    assert [one.path for one in report.outcomes if one.skipped] == ["two"]
    assert found_in(tmp_path / "copy") == {"one": "array"}
    assert ct.replicate(group, target).notes == ("1 group and 1 array unchanged",)
    (hint, *_) = (item.hint for item in ct.replicate(group, target, check=True).findings)
    assert hint == f"to remove it: chronotile replicate {group} {target} --prune"


def test_a_member_that_fails_holds_its_group_back(tmp_path: Path) -> None:
    root, target = lake(tmp_path), tmp_path / "copy"
    ct.replicate(root, str(target))
    put_array(root / "group" / "more", "sparse-loose")
    put_array(root / "apart", "bare")
    shutil.rmtree(next((root / "group" / "more" / "__fragments").iterdir()))
    put_list(root / "group", 40, member("more", "more"))
    report = ct.replicate(root, str(target))
    assert [one.path for one in report.failed] == ["group/more", "group"]
    assert report.failed[1].error is not None
    assert "the group's own files wait until group/more is copied" in report.failed[1].error
    assert report.failed[1].status == 1
    assert (target / "apart" / "__schema").exists()
    assert "more" not in found_in(target / "group")


def test_a_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = pair(tmp_path)
    source.live()
    words = ["replicate", source.uri, target.uri]
    assert main([*words, "--check"]) == 1
    assert "only in the source" in capsys.readouterr().out
    assert main([*words, "--dry-run"]) == 0
    assert "would copy" in capsys.readouterr().out
    assert not target.folder.exists()
    assert main(words) == 0
    assert "copied" in capsys.readouterr().out
    assert main([*words, "--check", "--json"]) == 0
    assert main([*words, "--prune"]) == 0


def test_a_group_that_was_copied_by_hand_is_mended(tmp_path: Path) -> None:
    root = lake(tmp_path)
    put_list(root / "group", 35, member(f"file://{root}/group/cells", "cells"))
    copied = tmp_path / "by-hand"
    shutil.copytree(root / "group", copied)
    # An evolution that is dated back puts a schema before the first; it is the same array.
    evolution = tiledb.ArraySchemaEvolution()
    evolution.add_attribute(tiledb.Attr("late", dtype=np.int32))
    evolution.timestamp(1_000_000_000_000)
    evolution.array_evolve(str(copied / "cells"))
    assert ("member-elsewhere", "warning", "cells") in codes_of(copied)
    report = ct.open(str(copied)).repair(dry_run=True)
    assert report.has_steps
    ct.open(str(copied)).repair()
    shutil.rmtree(root)
    codes = {code for code, *_ in codes_of(copied)}
    assert "member-elsewhere" not in codes
    with tiledb.Group(str(copied)) as opened:
        assert opened["cells"].uri == f"file://{copied}/cells"
        assert opened["inner"].uri == f"file://{copied}/inner"
    with tiledb.Group(f"{copied}/inner") as opened:
        assert opened["genes"].uri == f"file://{copied}/inner/genes"
    ct.open(str(copied)).undo()
    assert ("member-elsewhere", "warning", "cells") in codes_of(copied)
