"""Vacuuming: what goes, what stays, and what is said before."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.engine_arrays import EngineArray

from chronotile import consolidate, open_log, vacuum
from chronotile.array import Array
from chronotile.cli.change import change_answer
from chronotile.errors import ChangedError
from chronotile.show.output import emit
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib

    from chronotile.change.plan import Report


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    made = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        made.write(at, {at: at})
    made.delete(25, "a == 10")
    return made


def test_loose_commits_go_once_a_con_holds_them(array: EngineArray) -> None:
    assert not vacuum(array.uri).steps
    consolidate(array.uri)
    array.write(40, {40: 40})
    before = array.answers([(0, 15), (0, 27), (0, 50)])
    report = vacuum(array.uri)
    assert {step.path.rpartition(".")[2] for step in report.steps} == {"wrt"}
    assert len(report.steps) == 3
    assert all(".con" in step.reason for step in report.steps)
    assert [name[:5] for name in array.files("__commits", "*.wrt")] == ["__40_"]
    assert array.answers(before) == before


def test_a_dry_run_lists_every_file_and_removes_none(
    array: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    consolidate(array.uri)
    array.consolidate("fragments")
    before = sorted(array.folder.rglob("*"))
    planned = vacuum(array.uri, dry_run=True)
    assert sorted(array.folder.rglob("*")) == before
    done = vacuum(array.uri)
    gone = {path.relative_to(array.folder).as_posix() for path in before if not path.exists()}
    files = {path for path in gone if not path.startswith("__fragments/") or path.count("/") > 1}
    listed = {step.path for step in planned.steps if step.op == "remove"}
    assert listed == files
    assert {step.path for step in done.steps if step.op == "remove"} >= files
    assert all(step.size is not None and step.reason for step in planned.steps)
    emit(change_answer(planned, verbose=True), as_json=False)
    text = capsys.readouterr().out
    assert all(path in text for path in listed)


def test_a_delete_that_differs_stays(array: EngineArray) -> None:
    """Same name, other bytes: who knows which is right? Both stay."""
    consolidate(array.uri)
    (loose,) = array.commits_folder.glob("*.del")
    array.delete(26, "a == 20")
    (other,) = array.commits_folder.glob("__26_*.del")
    loose.write_bytes(other.read_bytes())
    report = vacuum(array.uri)
    assert loose.exists()
    assert loose.name not in " ".join(step.path for step in report.steps)


def test_fragments_go_with_their_commits(array: EngineArray) -> None:
    consolidate(array.uri)
    array.consolidate("fragments")
    before = array.answers([(0, 10), (0, 22), (0, 50), (15, 50)])
    report = vacuum(array.uri, mode="fragments")
    assert len(array.files("__fragments")) == 1
    assert array.files("__commits", "*.vac") == []
    assert len(array.files("__commits", "*.ign")) == 1, "the .con still names them"
    assert report.steps[0].op == "put"
    assert array.answers(before) == before
    assert not report.notes
    consolidate(array.uri)
    vacuum(array.uri)
    assert array.files("__commits", "*.ign") == []
    assert array.answers(before) == before


def test_without_a_con_no_ignore_file_is_left(array: EngineArray) -> None:
    array.consolidate("fragments")
    vacuum(array.uri)
    assert array.files("__commits", "*.ign") == []
    assert len(array.files("__fragments")) == 1


def test_modes(array: EngineArray) -> None:
    consolidate(array.uri)
    array.consolidate("fragments")
    vacuum(array.uri, mode="commits")
    assert len(array.files("__fragments")) == 4
    assert len(array.files("__commits", "*.vac")) == 1
    vacuum(array.uri, mode="fragments")
    assert len(array.files("__fragments")) == 1


def test_a_dense_array_is_told_what_it_loses(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False)
    for at in (10, 20, 30):
        array.write(at, {x: at + x for x in range(3)})
    array.consolidate("fragments")
    windows = [(0, 9), (0, 30), (0, 99), (31, 99)]
    before, inside = array.answers(windows), array.answer(0, 20)
    said: list[str] = []
    files = len(list(array.folder.rglob("*")))

    def before_all(plan: Report) -> None:
        assert len(list(array.folder.rglob("*"))) == files, "said before anything is done"
        said.extend(plan.losses)

    planned = vacuum(array.uri, dry_run=True)
    report = vacuum(array.uri, before=before_all)
    assert said == list(report.notes) == list(planned.notes)
    assert said[0].startswith("time travel is lost from 10 to 30 ")
    assert array.answers(windows) == before
    assert array.answer(0, 20) != inside


def test_a_vacuum_file_whose_fragment_is_not_committed(array: EngineArray) -> None:
    array.consolidate("fragments")
    next(array.commits_folder.glob("__10_30_*.wrt")).unlink()
    report = vacuum(array.uri)
    assert any("only copy" in note for note in report.notes)
    assert len(array.files("__fragments")) == 4
    assert len(array.files("__commits", "*.vac")) == 1


def test_fragments_consolidated_twice(array: EngineArray) -> None:
    array.consolidate("fragments", (0, 22))
    array.consolidate("fragments")
    before = array.answers([(0, 10), (0, 22), (0, 50), (15, 50)])
    assert len(array.files("__commits", "*.vac")) == 2
    vacuum(array.uri)
    assert len(array.files("__fragments")) == 1
    assert array.files("__commits", "*.vac") == []
    assert array.answers(before) == before


def orphan(array: EngineArray) -> str:
    """A write that never got its commit."""
    array.write(50, {50: 50})
    (commit,) = array.commits_folder.glob("__50_*.wrt")
    commit.unlink()
    return commit.name.removesuffix(".wrt")


def test_orphans_go_only_if_asked_and_old(
    array: EngineArray, request: pytest.FixtureRequest
) -> None:
    name = orphan(array)
    folder = array.folder / "__fragments" / name
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        os.utime(path, (1, 1))
    assert not vacuum(array.uri).steps
    report = vacuum(array.uri, whole_orphans=True)
    assert not report.steps, "it is young, whatever time its files have got"
    assert any("too young" in note for note in report.notes)
    request.getfixturevalue("two_days_later")
    assert len(vacuum(array.uri, whole_orphans=True, dry_run=True).steps) == len(files)
    assert folder.exists()
    before = array.answers([(0, 15), (0, 99)])
    assert len(vacuum(array.uri, whole_orphans=True).steps) == len(files)
    assert not folder.exists()
    assert len(array.files("__fragments")) == 3
    assert array.answers(before) == before


def test_a_folder_without_a_file_is_as_old_as_itself(
    array: EngineArray, request: pytest.FixtureRequest
) -> None:
    """A write makes its folder first."""
    folder = array.folder / "__fragments" / f"__50_50_{'0' * 32}_22"
    folder.mkdir()
    report = vacuum(array.uri, orphans=True)
    assert any("too young" in note for note in report.notes)
    assert folder.exists()
    request.getfixturevalue("two_days_later")
    vacuum(array.uri, orphans=True)
    assert not folder.exists()


def test_an_orphan_that_is_committed_meanwhile_stays(array: EngineArray) -> None:
    name = orphan(array)

    def commit(operation: str, path: str) -> None:
        if operation == "list" and path == f"__fragments/{name}":
            (array.commits_folder / f"{name}.wrt").touch()

    store = open_store(array.uri, on_operation=commit)
    assert not Array(store).vacuum(whole_orphans=True, orphan_age=0).steps
    assert array.answer() == ((20, 20), (30, 30), (50, 50))


def test_an_orphan_that_is_committed_in_a_con_meanwhile_stays(array: EngineArray) -> None:
    name = orphan(array)
    done: list[str] = []

    def commit(operation: str, path: str) -> None:
        if operation == "list" and path == f"__fragments/{name}" and not done:
            done.append(path)
            (array.commits_folder / f"{name}.wrt").touch()
            consolidate(array.uri)
            vacuum(array.uri, mode="commits")

    store = open_store(array.uri, on_operation=commit)
    assert not Array(store).vacuum(whole_orphans=True, orphan_age=0).steps
    assert not array.files("__commits", "*.wrt")
    assert array.answer() == ((20, 20), (30, 30), (50, 50))


def test_a_folder_that_is_no_fragment_stays(array: EngineArray) -> None:
    stranger = array.folder / "__fragments" / "lost+found"
    stranger.mkdir()
    (stranger / "x").touch()
    assert not vacuum(array.uri, whole_orphans=True, orphans_age_ms=0).steps
    assert (stranger / "x").exists()


def test_the_remains_of_a_broken_put(array: EngineArray) -> None:
    part = array.folder / ".chronotile-0123456789abcdef.part"
    part.write_bytes(b"half")
    assert not vacuum(array.uri).steps
    assert len(vacuum(array.uri, whole_orphans=True, orphans_age_ms=0).steps) == 1
    assert not part.exists()


def test_a_con_that_grew_since_it_was_read_stays(array: EngineArray) -> None:
    """An engine that writes a `.con` may be caught in the middle of it."""
    consolidate(array.uri)
    vacuum(array.uri)
    (con,) = array.commits_folder.glob("*.con")
    array.write(40, {40: 40})
    consolidate(array.uri)

    def grow(operation: str, path: str) -> None:
        if operation == "remove" and path.endswith(".wrt"):
            con.write_bytes(con.read_bytes() + f"__commits/__60_60_{'1' * 32}_22.wrt\n".encode())

    with pytest.raises(ChangedError, match="changed"):
        Array(open_store(array.uri, on_operation=grow)).vacuum()
    assert con.exists()


def test_the_report(array: EngineArray) -> None:
    consolidate(array.uri)
    report = vacuum(array.uri, loose_deletes=True)
    document = report.to_dict()
    assert document["command"] == "vacuum"
    assert document["dry_run"] is False
    assert {"op", "path", "size", "reason"} == set(document["steps"][0])
    assert "removed 4 files" in report.summary()
    assert sum(step.size or 0 for step in report.steps if step.op == "remove") > 0


def test_what_was_vacuumed_is_still_in_the_log(array: EngineArray) -> None:
    before = open_log(array.uri).view(0, 50).to_dict()
    consolidate(array.uri)
    vacuum(array.uri)
    after = open_log(array.uri).view(0, 50).to_dict()
    assert [f["name"] for f in before["fragments"]] == [f["name"] for f in after["fragments"]]
    assert [d["text"] for d in before["deletes"]] == [d["text"] for d in after["deletes"]]
