"""Repair: the engine opens the array again, and nothing is destroyed."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import CASES
from support.engine_answers import answers
from support.engine_arrays import EngineArray, s3_settings

from chronotile import consolidate, open_log, repair, undo, vacuum
from chronotile.array import Array
from chronotile.check.check_array import blocking
from chronotile.check.findings import RefusedError
from chronotile.cli.program import main
from chronotile.errors import BadFileError, StorageError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib

    from support.servers import S3Server

Files = dict[str, bytes]
BROKEN = (
    "bad-backwards",
    "bad-con-tile",
    "bad-empty-delete",
    "bad-name",
    "bad-no-fragment",
    "bad-tile",
    "null-bricks-eq",
    "null-bricks-ne",
    "null-blob",
    "schema-drop-named",
)


def read_all(folder: pathlib.Path) -> Files:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def healthy(folder: pathlib.Path) -> EngineArray:
    array = EngineArray(folder).create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    array.delete(25, "a == 10")
    return array


def own_files(folder: pathlib.Path) -> dict[str, bytes]:
    """All files of an array, less the records of operations."""
    found = read_all(folder)
    return {path: data for path, data in found.items() if not path.startswith("__chronotile/")}


@pytest.mark.parametrize("name", BROKEN)
def test_the_engine_reads_it_again(name: str, tmp_path: pathlib.Path) -> None:
    case = CASES[name]
    uri = case.copy_to(tmp_path)
    folder = tmp_path / "array"
    windows = [(window["start"], window["end"]) for window in case.expected["windows"]]
    before, files = answers(uri, case, windows), read_all(folder)
    assert any(answer.startswith("error") for answer in before.values())
    planned = repair(uri, dry_run=True)
    assert read_all(folder) == files
    report = repair(uri)
    assert [(s.op, s.size) for s in report.steps] == [(s.op, s.size) for s in planned.steps]
    after = answers(uri, case, windows)
    assert not any(answer.startswith("error") for answer in after.values())
    if name != "schema-drop-named":  # there, older windows could read; the rows come back in them
        for window, answer in before.items():
            assert answer.startswith("error") or after[window] == answer, window
    assert not blocking((log := open_log(uri)).history, log.rules)
    assert report.quarantine is not None
    kept = read_all(folder / "__chronotile" / "quarantine")
    moved = {step.path for step in report.steps if step.op in ("move", "replace")}
    assert {files[path] for path in moved} <= set(kept.values())
    undo(uri)
    assert own_files(folder) == files
    assert answers(uri, case, windows) == before


@pytest.mark.parametrize(
    "path",
    [
        "__commits/notes.wrt",
        "__commits/notes.del",
        "__commits/notes.upd",
        "__commits/notes.vac",
        f"__commits/__9_8_{'0' * 32}_22.wrt",
        f"__commits/__9_9_{'0' * 32}_22.wrt",
        "__meta/notes",
        "__meta/notes.vac",
        "__schema/README",
        "__fragment_meta/notes.meta",
        "__fragment_meta/notes",
        "notes.vac",
        "notes.meta",
    ],
)
def test_files_that_have_no_business_there(path: str, tmp_path: pathlib.Path) -> None:
    array = healthy(tmp_path / "array")
    before = array.answer()
    target = array.folder / path
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(b"" if "commits" in path else b"hello")
    assert isinstance(array.answer(), str), "the engine does not open it"
    assert any(item.severity == "error" for item in open_log(array.uri).check())
    report = repair(array.uri)
    assert not report.findings
    assert not target.exists()
    assert array.answer() == before
    assert not vacuum(array.uri).steps


def test_the_record(tmp_path: pathlib.Path) -> None:
    array = healthy(tmp_path / "array")
    (array.commits_folder / "notes.wrt").write_bytes(b"precious")
    report = repair(array.uri)
    (record,) = (array.folder / "__chronotile" / "operations").iterdir()
    document = json.loads(record.read_text())
    assert (document["id"], document["state"]) == (report.operation, "done")
    (moved,) = document["steps"]
    assert moved["path"] == "__commits/notes.wrt"
    assert moved["sha256"] == hashlib.sha256(b"precious").hexdigest()
    folder = array.folder / "__chronotile" / "quarantine" / document["id"]
    assert report.quarantine == str(folder)
    assert (folder / "0000-notes.wrt").read_bytes() == b"precious"


def test_a_copy_that_was_changed_is_not_put_back(tmp_path: pathlib.Path) -> None:
    array = healthy(tmp_path / "array")
    (array.commits_folder / "notes.wrt").write_bytes(b"precious")
    report = repair(array.uri)
    assert report.quarantine is not None
    (copy,) = (array.folder / "__chronotile" / "quarantine").rglob("*notes.wrt")
    copy.write_bytes(b"forged")
    with pytest.raises(RefusedError, match=r"somebody has changed __commits/notes\.wrt"):
        undo(array.uri)
    assert not (array.commits_folder / "notes.wrt").exists()


def test_nothing_to_repair(tmp_path: pathlib.Path) -> None:
    array = healthy(tmp_path / "array")
    report = repair(array.uri)
    assert not report.steps
    assert not report.findings
    assert report.quarantine is None
    assert not (array.folder / "__chronotile").exists()


def test_a_cut_delete_is_taken_from_its_loose_file(tmp_path: pathlib.Path) -> None:
    array = healthy(tmp_path / "array")
    before = array.answers([(0, 15), (0, 27), (0, 40)])
    array.consolidate("commits")
    (con,) = array.commits_folder.glob("*.con")
    data = con.read_bytes()
    con.write_bytes(data[: data.index(b".del\n") + 40])
    report = repair(array.uri)
    assert not report.findings
    assert array.answers(before) == before
    consolidate(array.uri)
    vacuum(array.uri)
    assert array.answers(before) == before


def test_a_cut_delete_is_gone_and_that_is_told(tmp_path: pathlib.Path) -> None:
    array = healthy(tmp_path / "array")
    array.consolidate("commits")
    array.vacuum("commits")
    (con,) = array.commits_folder.glob("*.con")
    data = con.read_bytes()
    con.write_bytes(data[: data.index(b".del\n") + 40])
    assert isinstance(array.answer(), str)
    report = repair(array.uri)
    assert any("become visible again" in note for note in report.notes)
    assert not isinstance(array.answer(), str)


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_vacuum_file_cut_short(tmp_path: pathlib.Path, cut: int) -> None:
    array = healthy(tmp_path / "array")
    array.consolidate("fragments")
    before = array.answers([(0, 15), (0, 27), (0, 40), (15, 40)])
    (vac,) = array.commits_folder.glob("*.vac")
    whole = vac.read_bytes()
    vac.write_bytes(whole[:-cut])
    with pytest.raises(RefusedError, match="name-malformed"):
        vacuum(array.uri)
    assert not repair(array.uri).findings
    assert sorted(vac.read_bytes().splitlines()) == sorted(whole.splitlines())
    assert array.files("__commits", "*.vac") == [vac.name]
    assert array.answers(before) == before
    vacuum(array.uri)
    assert array.answers(before) == before


def test_an_ignore_file_cut_short(tmp_path: pathlib.Path) -> None:
    array = healthy(tmp_path / "array")
    array.consolidate("commits")
    array.vacuum("commits")
    array.delete_fragments(10, 20)
    before = array.answer()
    (ign,) = array.commits_folder.glob("*.ign")
    ign.write_bytes(ign.read_bytes()[:-20])
    assert isinstance(array.answer(), str), "a fragment that is gone counts again"
    assert not repair(array.uri).findings
    assert array.answer() == before


def test_a_corrupt_schema_is_told(tmp_path: pathlib.Path) -> None:
    array = healthy(tmp_path / "array")
    (schema,) = (path for path in (array.folder / "__schema").iterdir() if path.is_file())
    data = bytearray(schema.read_bytes())
    data[-5] ^= 0xFF
    schema.write_bytes(bytes(data))
    report = repair(array.uri)
    assert [item.code for item in report.findings] == ["tile-corrupt"]
    assert schema.exists()


def test_what_a_writer_is_about_to_commit_stays(tmp_path: pathlib.Path) -> None:
    """A commit that comes between two lists has its fragment: it is no F10."""
    array = healthy(tmp_path / "array")
    done: list[str] = []

    def write(operation: str, path: str) -> None:
        if operation == "list.done" and path == "__fragments" and not done:
            done.append(path)
            array.write(40, {40: 40})

    report = Array(open_store(array.uri, on_operation=write)).repair()
    assert done
    assert not report.steps
    assert array.answer() == ((20, 20), (30, 30), (40, 40))


@pytest.mark.parametrize("at", range(1, 40))
def test_broken_off_at_any_operation(at: int, tmp_path: pathlib.Path) -> None:
    """What was broken stays broken or is mended; the same command finishes; nothing is lost."""
    array = healthy(tmp_path / "array")
    array.consolidate("commits")
    array.vacuum("commits")
    (con,) = array.commits_folder.glob("*.con")
    data = con.read_bytes()
    con.write_bytes(data[:-20])
    (array.commits_folder / "notes.wrt").touch()
    steps: list[str] = []

    def stop(operation: str, path: str) -> None:
        if "list" in operation or "head" in operation:
            return
        steps.append(f"{operation} {path}")
        if len(steps) == at:
            raise StorageError(path, "the plug was pulled")

    try:
        Array(open_store(array.uri, on_operation=stop)).repair()
    except StorageError:
        everything = set(read_all(tmp_path).values())
        assert data[:-20] in everything
    assert not repair(array.uri).findings
    assert array.answer() == ((20, 20), (30, 30))
    consolidate(array.uri)
    vacuum(array.uri)
    assert array.answer() == ((20, 20), (30, 30))
    assert [name[-4:] for name in array.files("__commits")] == [".con", ".del"]


def test_on_s3(s3: S3Server, bucket: str) -> None:
    array = EngineArray(f"{bucket}/lake/array", settings=s3_settings(s3)).create()
    array.write(10, {1: 1})
    before = array.answer()
    store = open_store(array.uri, s3.options)
    store.put_if_absent("__commits/notes.wrt", b"")
    assert isinstance(array.answer(), str)
    report = repair(array.uri, storage_options=s3.options)
    assert str(report.quarantine).startswith(f"{array.uri}/__chronotile/quarantine/")
    assert array.answer() == before
    undo(array.uri, storage_options=s3.options)
    assert store.read("__commits/notes.wrt") == b""


def test_an_array_that_is_a_whole_bucket(s3: S3Server, bucket: str) -> None:
    array = EngineArray(bucket, settings=s3_settings(s3)).create()
    store = open_store(bucket, s3.options)
    store.put_if_absent("__commits/notes.wrt", b"")
    repair(array.uri, storage_options=s3.options)
    assert "notes.wrt" not in store.list_names("__commits").files
    undo(array.uri, storage_options=s3.options)
    assert store.read("__commits/notes.wrt") == b""


FULL = ((10, 10), (20, 20), (30, 30))


@pytest.fixture
def lost(tmp_path: pathlib.Path) -> EngineArray:
    """An array whose only `.con` is gone."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    lose_commits(array)
    return array


def lose_commits(array: EngineArray) -> None:
    consolidate(array.uri)
    vacuum(array.uri, loose_deletes=True)
    (con,) = array.files("__commits", "*.con")
    (array.commits_folder / con).unlink()


def test_lost_commits_are_put_back_on_request(
    lost: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lost.answer() == ()
    (finding, *_) = open_log(lost.uri).check()
    assert f"chronotile repair {lost.uri} --commit-orphans" in finding.hint
    report = repair(lost.uri)
    assert not report.steps
    assert f"chronotile repair {lost.uri} --commit-orphans" in report.notes[0]
    planned = repair(lost.uri, commit_orphans=True, dry_run=True)
    assert lost.answer() == ()
    report = repair(lost.uri, commit_orphans=True)
    assert [step.reason for step in report.steps] == [step.reason for step in planned.steps]
    assert report.steps[0].reason == "commits 3 whole fragments that no commit names"
    assert not report.findings
    assert lost.answer() == FULL
    assert lost.answer(0, 25) == FULL[:2]
    assert "3 whole fragments (3 cells) without a commit: unfinished writes" in report.notes[0]
    assert (
        "if a .con was lost, deletes and updates that stood only in it stay lost" in report.notes[1]
    )
    capsys.readouterr()
    assert main(["log", lost.uri, "-n", "1"]) == 0
    words = "repaired the array: committed 3 fragments that no commit named"
    assert words in capsys.readouterr().out
    assert not repair(lost.uri, commit_orphans=True).steps
    lost.write(40, {40: 40})
    lost.consolidate("commits")
    lost.vacuum("commits")
    assert lost.answer() == (*FULL, (40, 40))


def test_commits_that_were_put_back_can_be_taken_back(lost: EngineArray) -> None:
    before = own_files(lost.folder)
    report = repair(lost.uri, commit_orphans=True)
    assert report.operation
    undo(lost.uri, report)
    assert own_files(lost.folder) == before


def test_a_fragment_that_is_not_whole_gets_no_commit(lost: EngineArray) -> None:
    (name,) = lost.files("__fragments", "__20_*")
    (lost.folder / "__fragments" / name / "a0.tdb").unlink()
    report = repair(lost.uri, commit_orphans=True)
    assert any(
        note.startswith(f"__fragments/{name} stays without a commit") for note in report.notes
    )
    assert lost.answer() == (FULL[0], FULL[2])


def test_a_fragment_that_an_ign_names_gets_no_commit(lost: EngineArray) -> None:
    (name,) = lost.files("__fragments", "__20_*")
    (lost.commits_folder / f"__20_20_{'0' * 32}_22.ign").write_text(f"__commits/{name}.wrt\n")
    report = repair(lost.uri, commit_orphans=True)
    assert any(".ign says that it was removed" in note for note in report.notes)
    assert lost.answer() == (FULL[0], FULL[2])


def test_merged_fragments_and_their_sources_get_commits(tmp_path: pathlib.Path) -> None:
    """The `.vac` hides the sources as before; those of a vacuum that has begun stay away."""
    array = EngineArray(tmp_path / "array").create(sparse=False, duplicates=False)
    for at in (10, 20):
        array.write(at, dict.fromkeys(range(at), at))
    array.consolidate("fragments")
    before = array.answers([(0, 15), (0, 25)])
    lose_commits_only(array)
    repair(array.uri, commit_orphans=True)
    assert array.answers(before) == before
    lose_commits_only(array)
    shutil.rmtree(array.folder / "__fragments" / array.files("__fragments", "__20_20_*")[0])
    report = repair(array.uri, commit_orphans=True)
    assert sum("a vacuum removes what" in note for note in report.notes) == 1
    assert array.answer(0, 25) == before[(0, 25)]


def lose_commits_only(array: EngineArray) -> None:
    for path in array.commits_folder.iterdir():
        if path.suffix != ".vac":
            path.unlink()


def test_a_merge_without_its_vac_is_told(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(duplicates=True)
    for at in (10, 20):
        array.write(at, {at: at})
    array.consolidate("fragments")
    for path in array.commits_folder.iterdir():
        path.unlink()
    report = repair(array.uri, commit_orphans=True, dry_run=True)
    assert any("merged ones beside what they were made from" in note for note in report.notes)


def test_a_delete_that_was_lost_with_its_con_gets_a_stand_in(tmp_path: pathlib.Path) -> None:
    """F14: a fragment has applied it, and without it the engine's next merge crashes."""
    array = healthy(tmp_path / "array")
    array.consolidate("fragments")
    vacuum(array.uri)
    before = array.answer()
    lose_commits(array)
    report = repair(array.uri, commit_orphans=True)
    assert sorted(step.path[-4:] for step in report.steps) == [".con", ".del"]
    assert array.answer() == before
    assert not report.findings
    array.write(40, {40: 40})
    array.consolidate("fragments")
    assert array.answer() == (*before, (40, 40))


def test_a_copy_that_a_change_is_making_gets_no_commit(lost: EngineArray) -> None:
    (name,) = lost.files("__fragments", "__20_*")
    records = lost.folder / "__chronotile" / "operations"
    steps = [{"op": "link", "path": f"__fragments/{name}"}]
    record = records / "20240501T080000.120Z-01234567-restore-begun.json"
    document = {"id": "01234567", "state": "begun", "steps": steps}
    record.write_text(json.dumps(document))
    report = repair(lost.uri, commit_orphans=True, dry_run=True)
    assert any(f"it is a copy of __chronotile/operations/{record.name}" in n for n in report.notes)
    record.write_text("{")
    with pytest.raises(BadFileError, match="expected a record"):
        repair(lost.uri, commit_orphans=True, dry_run=True)


def test_without_its_key_no_fragment_of_an_encrypted_array_gets_a_commit(
    tmp_path: pathlib.Path,
) -> None:
    key = "0123456789abcdef0123456789abcdef"
    array = EngineArray(tmp_path / "array", key=key).create()
    array.write(10, {10: 10})
    lose_commits(array)
    assert not repair(array.uri, commit_orphans=True).steps
    repair(array.uri, commit_orphans=True, key=key)
    assert array.answer() == FULL[:1]
