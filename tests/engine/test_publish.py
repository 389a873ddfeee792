"""What publish takes, refuses and shows, judged by the engine."""

from __future__ import annotations

import re
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.array_places import is_record
from support.engine_arrays import EngineArray
from support.verbs import publish_dataset

import chronotile as ct
from chronotile.array import Array
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.errors import ChangedError
from chronotile.format.names import parse_name
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from chronotile.change.plan import Report

NOW = (0, 1 << 60)


@pytest.mark.parametrize("digit", ["0", "f"])
def test_equal_schemas_are_equal(tmp_path: pathlib.Path, digit: str) -> None:
    """A schema that is created again keeps its time: which of two files is the last says nothing.

    The target's own file is the first of that time, or the last.
    """
    labels = [tiledb.Enumeration(name, False, ["x", "y"]) for name in ("e", "f")]
    target = EngineArray(tmp_path / "target").create()
    evolution = tiledb.ArraySchemaEvolution(target.ctx)
    for enumeration in labels:
        evolution.add_enumeration(enumeration)
        attr = tiledb.Attr(f"of_{enumeration.name}", dtype=np.int8, enum_label=enumeration.name)
        evolution.add_attribute(attr)
    evolution.array_evolve(target.uri)
    first, last = sorted(target.folder.glob("__schema/__*_*"))
    time = last.name.split("_")[2]
    last.rename(last.with_name(f"__{time}_{time}_{digit * 32}"))

    with tiledb.open(target.uri, ctx=target.ctx) as opened:
        tiledb.Array.create(str(tmp_path / "stage"), opened.schema, ctx=target.ctx)
    stage = EngineArray(tmp_path / "stage")
    (made,) = stage.folder.glob("__schema/__*_*")
    assert made.name.split("_")[2] == time
    columns = {
        "a": np.array([2], np.int32),
        "of_e": np.array([1], np.int8),
        "of_f": np.array([0], np.int8),
    }
    stage.write_columns(int(time) + 5, [2], columns)
    then = ct.open_log(target.uri).view(end=int(time) - 1)
    ct.publish(stage.uri, target.uri)
    assert target.answer(*NOW) == ((2, "y", "x", 2),)
    assert ct.open_log(target.uri).view(end=int(time) - 1).schema == then.schema == first.name
    assert [one for one in ct.open_log(target.uri).check() if one.severity == "error"] == []


def with_current_domain(uri: str, last: int) -> EngineArray:
    array = EngineArray(uri)
    domain = tiledb.Domain(tiledb.Dim("x", domain=(0, 99), tile=10, dtype=np.int64), ctx=array.ctx)
    attr = tiledb.Attr("a", dtype=np.int32, ctx=array.ctx)
    schema = tiledb.ArraySchema(domain, [attr], sparse=True, ctx=array.ctx)
    used = tiledb.NDRectangle(array.ctx, domain)
    used.set_range("x", 0, last)
    current = tiledb.CurrentDomain(array.ctx)
    current.set_ndrectangle(used)
    schema.set_current_domain(current)
    tiledb.Array.create(array.uri, schema, ctx=array.ctx)
    return array


def test_a_schema_with_a_smaller_domain_is_another(tmp_path: pathlib.Path) -> None:
    """As the last schema of the target, it would hide rows that are there."""
    target = with_current_domain(str(tmp_path / "target"), 50)
    target.write(10, {1: 1, 40: 40})
    stage = with_current_domain(str(tmp_path / "stage"), 9)
    stage.write(20, {2: 2})
    with pytest.raises(RefusedError, match="which is not that of"):
        ct.publish(stage.uri, target.uri)
    assert target.answer(*NOW) == ((1, 1), (40, 40))


def filled(value: int) -> Any:
    return tiledb.Attr("a", dtype=np.int32, fill=value)


def test_a_schema_with_another_fill_value_is_another(tmp_path: pathlib.Path) -> None:
    target, stage = (
        EngineArray(tmp_path / name).create(attrs=[filled(value)])
        for name, value in (("target", 1), ("stage", 2))
    )
    stage.write(20, {2: 2})
    with pytest.raises(RefusedError, match="which is not that of"):
        ct.publish(stage.uri, target.uri)


def test_fragments_of_an_older_schema_are_named_as_such(tmp_path: pathlib.Path) -> None:
    """The staging array itself has the field that they lack."""
    target = EngineArray(tmp_path / "target").create()
    target.write(10, {1: 1})
    evolution = tiledb.ArraySchemaEvolution(target.ctx)
    evolution.add_attribute(tiledb.Attr("b", dtype=np.int32))
    evolution.array_evolve(target.uri)
    stage = str(tmp_path / "stage")
    ct.open(target.uri).clone(stage)
    words = r"of the schema __schema/.*; their fields are x, a; those of the target are x, a, b"
    with pytest.raises(RefusedError, match=words):
        ct.publish(stage, target.uri)


def followed(message: str) -> int:
    """Run the command that a hint has, and give its exit status."""
    found = re.search(r": chronotile (publish .*?)(;|$)", message)
    assert found is not None, message
    return main(found[1].split())


def staged(folder: pathlib.Path, *, duplicates: bool = False) -> tuple[EngineArray, EngineArray]:
    """A target with a row of 10, and a staging array with rows of 50 and 60."""
    target = EngineArray(folder / "target").create(duplicates=duplicates)
    stage = EngineArray(folder / "stage").create(duplicates=duplicates)
    target.write(10, {1: 1})
    stage.write(50, {5: 5, 6: 6})
    stage.write(60, {7: 7})
    return target, stage


ALL = ((1, 1), (5, 5), (6, 6), (7, 7))


@pytest.mark.parametrize("kind", ["delete", "update"])
def test_a_delete_that_would_hide_rows_is_refused(tmp_path: pathlib.Path, kind: str) -> None:
    target, stage = staged(tmp_path)
    if kind == "delete":
        target.delete(55, "a == 5")
    else:
        target.commit(55, "a == 5", a=9)
    files = target.files("__commits")
    words = rf"the {kind} __55_55_.* 'a == 5' would hide up to 2 rows in 1 fragment"
    with pytest.raises(RefusedError, match=words) as refused:
        ct.publish(stage.uri, target.uri)
    assert target.files("__commits") == files
    with pytest.raises(RefusedError, match="up to 3 rows in 2 fragments"):
        ct.publish(stage.uri, target.uri, at=30)
    assert followed(str(refused.value)) == 0
    assert target.answer(*NOW) == ALL


def test_rows_may_stay_out_of_sight_if_that_is_allowed(tmp_path: pathlib.Path) -> None:
    target, stage = staged(tmp_path)
    target.delete(55, "a == 5")
    target.delete(70, "a == 7")
    with pytest.raises(RefusedError, match="'a == 7' and 1 more would hide up to 3 rows in"):
        ct.publish(stage.uri, target.uri)
    report = ct.publish(stage.uri, target.uri, allow_hidden=True)
    assert not report.rows  # nobody has counted those that show
    assert [note for note in report.notes if "stay out of sight" in note] == [
        note for note in report.notes if "'a == " in note
    ]
    assert any(
        note.endswith("up to 2 rows in 1 fragment stay out of sight") for note in report.notes
    )
    assert target.answer(*NOW) == ((1, 1), (6, 6))


def test_what_a_replay_deletes(tmp_path: pathlib.Path) -> None:
    """It writes a delete of everything: a load that is dated before it would never show."""
    target, stage = staged(tmp_path)
    target.write(12, {2: 2})
    target.delete(20, "a == 1")
    target.delete(25, "a == 2")
    delete, _ = ct.open_log(target.uri).view().deletes
    ct.undelete(target.uri, delete.name)
    assert len(ct.open_log(target.uri).view().deletes) == 4, "one of them deletes everything"
    with pytest.raises(RefusedError, match="up to 3 rows in 2 fragments") as refused:
        ct.publish(stage.uri, target.uri)
    assert followed(str(refused.value)) == 0
    assert target.answer(*NOW) == ALL


def test_a_delete_of_the_future(tmp_path: pathlib.Path) -> None:
    target, stage = staged(tmp_path)
    later = now_ms() + 10_000_000
    target.delete(later, "a == 5")
    with pytest.raises(
        RefusedError, match=f"to show all of it: chronotile publish .* --at {later + 1};"
    ) as refused:
        ct.publish(stage.uri, target.uri, at="now")
    assert followed(str(refused.value)) == 0
    assert target.answer(*NOW) == ALL


def test_a_merged_fragment_has_no_other_time(tmp_path: pathlib.Path) -> None:
    target, stage = staged(tmp_path)
    target.delete(55, "a == 5")
    stage.consolidate("fragments")
    with pytest.raises(
        RefusedError, match=r"in 1 fragment; to publish them hidden, add --allow-hidden"
    ) as refused:
        ct.publish(stage.uri, target.uri)
    assert "--at" not in str(refused.value)
    ct.publish(stage.uri, target.uri, allow_hidden=True)
    assert target.answer(*NOW) == ((1, 1), (6, 6), (7, 7))


def test_a_delete_that_matches_no_row_hides_none(tmp_path: pathlib.Path) -> None:
    """Such a one stands in for a delete that a merged fragment has applied (F14)."""
    target, stage = staged(tmp_path)
    target.write(20, {2: 2})
    target.delete(80, "a == 2")
    target.consolidate("fragments")
    (file,) = target.commits_folder.glob("*.del")
    file.unlink()
    ct.repair(target.uri)
    assert file.exists()
    ct.publish(stage.uri, target.uri)
    assert target.answer(*NOW) == ALL


def test_a_second_run_does_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever times the first and the second run give, rows show once."""
    for first, second in (
        (["--at", "100"], ["--at", "100"]),
        (["--at", "now"], ["--at", "now"]),
        (["--at", "100"], []),
        ([], ["--at", "100"]),
        ([], []),
    ):
        folder = tmp_path / "-".join((*first, "then", *second))
        folder.mkdir()
        target, stage = staged(folder, duplicates=True)
        assert main(["publish", stage.uri, target.uri, *first]) == 0
        files = target.files("__commits"), target.files("__fragments")
        capsys.readouterr()
        assert main(["publish", stage.uri, target.uri, *second]) == 0
        said = capsys.readouterr().out
        assert "nothing to do" in said
        assert "2 staged fragments are already there" in said
        assert (target.files("__commits"), target.files("__fragments")) == files
        assert target.answer(*NOW) == ALL


def test_only_what_is_new_is_published(tmp_path: pathlib.Path) -> None:
    target, stage = staged(tmp_path, duplicates=True)
    ct.publish(stage.uri, target.uri, at=100)
    stage.write(70, {8: 8})
    report = ct.publish(stage.uri, target.uri, at=100)
    assert "2 staged fragments are already there" in report.notes
    assert target.answer(*NOW) == (*ALL, (8, 8))
    assert target.answer(0, 101) == ALL, "it has a moment of its own"
    with pytest.raises(RefusedError, match=r"expected every fragment once, found __.* twice"):
        ct.publish([stage.uri, stage.uri], target.uri, at=200)


def test_what_was_merged_since_is_there(tmp_path: pathlib.Path) -> None:
    target, stage = staged(tmp_path, duplicates=True)
    ct.publish(stage.uri, target.uri, at=80)
    target.consolidate("fragments")
    assert ct.publish(stage.uri, target.uri, at=90).steps == ()
    # After a vacuum only an `.ign` says that it was there: nobody knows where its rows are now.
    target.vacuum("fragments")
    for at in (80, 90, None):
        with pytest.raises(RefusedError, match="and was merged, removed or hidden since"):
            ct.publish(stage.uri, target.uri, at=at)
    assert target.answer(*NOW) == ALL


def test_what_was_restored_away_can_be_published_again(tmp_path: pathlib.Path) -> None:
    target, stage = staged(tmp_path, duplicates=True)
    ct.publish(stage.uri, target.uri, at=100)
    ct.restore(target.uri, 99)
    assert target.answer(*NOW) == ((1, 1),)
    with pytest.raises(
        RefusedError, match=r"found __50_50_.* it was there as __100_100_"
    ) as refused:
        ct.publish(stage.uri, target.uri, at=100)
    assert followed(str(refused.value)) == 0
    assert target.answer(*NOW) == ALL
    assert ct.publish(stage.uri, target.uri, at=100).steps == ()
    names = ct.open_log(target.uri).fragments()["name"].to_pylist()
    assert len(names) == 5
    assert len({parse_name(name).uuid[:6] for name in names}) == 5, "short ids differ"


def test_a_group_is_published_once(tmp_path: pathlib.Path) -> None:
    groups = {name: tmp_path / name for name in ("group", "stage")}
    for folder in groups.values():
        tiledb.Group.create(str(folder))
        for name in ("a", "b"):
            EngineArray(folder / name).create(duplicates=True)
            with tiledb.Group(str(folder), "w") as group:
                group.add(name, name=name, relative=True)
    arrays = [EngineArray(groups["group"] / name) for name in ("a", "b")]
    for name in ("a", "b"):
        EngineArray(groups["stage"] / name).write(50, {5: 5})
    arrays[0].delete(55, "a == 5")
    words = f"to show all of it: chronotile publish {groups['stage']} {groups['group']};"
    with pytest.raises(RefusedError, match=f"the member a cannot be changed: .*{words}"):
        publish_dataset(ct.open_dataset(str(groups["group"])), str(groups["stage"]), own_times=True)
    for _ in range(2):
        assert followed(words) == 0
        assert [array.answer(*NOW) for array in arrays] == [((5, 5),)] * 2
    EngineArray(groups["stage"] / "b").write(60, {6: 6})
    report = ct.open_dataset(str(groups["group"])).publish(str(groups["stage"]))
    assert [one.path for one in report.outcomes if one.has_steps] == ["b"]
    assert arrays[1].answer(*NOW) == ((5, 5), (6, 6))


def test_of_two_runs_at_once_one_publishes(tmp_path: pathlib.Path) -> None:
    """Another run comes while the first one still copies; then a delete does."""
    target, stage = staged(tmp_path, duplicates=True)

    def publish_too() -> None:
        with pytest.raises(RefusedError, match=r"found publish .* under way"):
            ct.publish(stage.uri, target.uri, at=90)

    meanwhile: list[Callable[[], object]] = [publish_too]

    def hook(operation: str, _: str) -> None:
        if operation == "copy" and meanwhile:
            meanwhile.pop()()

    def run(at: int) -> Report:
        return Array(open_store(target.uri, on_operation=hook)).publish(stage.uri, at=at)

    run(80)
    assert not meanwhile
    assert target.answer(*NOW) == ALL
    assert run(80).notes[0] == "2 staged fragments are already there"
    stage.write(70, {8: 8})
    meanwhile.append(lambda: target.delete(95, "a == 8"))
    with pytest.raises(ChangedError, match="nobody else publishes this or deletes, found __95_95_"):
        run(92)
    with pytest.raises(RefusedError, match="up to 1 row in 1 fragment"):
        run(92)
    assert target.answer(*NOW) == ALL
    run(96)
    assert target.answer(*NOW) == (*ALL, (8, 8))


@pytest.mark.parametrize("when", ["copied", "committed"])
def test_a_copy_that_is_removed_meanwhile_is_never_shown(tmp_path: pathlib.Path, when: str) -> None:
    """The engine cannot open an array whose committed fragment is gone."""
    target, stage = staged(tmp_path)
    before, cons = target.answer(*NOW), list[str]()

    def hook(operation: str, path: str) -> None:
        if operation != "put.done" or is_record(path):
            return
        # A `.con` with the commits that were there comes first, then the copies and their schema.
        cons.extend([path] if path.endswith(".con") else [])
        if path.startswith("__schema/") if when == "copied" else len(cons) == 2:
            (copy,) = target.folder.glob("__fragments/__91_91_*")
            shutil.rmtree(copy)

    with pytest.raises(ChangedError, match=r"__fragments/__91_91_.* to stay, found it removed"):
        Array(open_store(target.uri, on_operation=hook)).publish(stage.uri, at=90)
    assert target.answer(*NOW) == before
    ct.publish(stage.uri, target.uri, at=90)
    assert target.answer(*NOW) == ALL


@pytest.mark.parametrize("kind", ["fragments", "one fragment", "merged", "update"])
def test_the_hint_on_a_delete_in_force_gets_there(
    kind: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows that the staging array shows are published, and none of the target goes."""
    target = EngineArray(tmp_path / "target").create()
    target.write(10, {1: 1, 2: 7})
    stage = EngineArray(tmp_path / "stage").create()
    stage.write(50, {50: 1, 51: 7})
    if kind != "one fragment":
        stage.write(52, {52: 2})
    if kind == "update":
        wish = ("--set", "a=9", "--where", "a == 7", "--at", "60", "--experimental")
        assert main(["update", stage.uri, *wish]) == 0
    else:
        stage.delete(60, "a == 7")
    if kind == "merged":
        stage.consolidate("fragments")
    with pytest.raises(RefusedError, match="is in force, and would") as refusal:
        ct.publish(stage.uri, target.uri)
    commands = re.findall(r": chronotile ([^;]+)", refusal.value.problem)
    assert ("cannot be undone" in refusal.value.problem) == (kind != "update")
    # What the hint asks to wait for, no test waits for.
    young = {"compact": ("--quiet", "0s"), "vacuum": ("--orphan-age", "0s"), "erase": ("--yes",)}
    for command in commands:
        words = shlex.split(command)
        assert main([*words, *young.get(words[0], ())]) == 0, command
    capsys.readouterr()
    wanted = {*target.answer(*NOW), *stage.answer(*NOW)}
    ct.publish(stage.uri, target.uri)
    assert set(target.answer(*NOW)) == wanted
    assert (7, 2) in wanted
    assert (7, 51) not in wanted
    target.write(100, {60: 3})
    target.consolidate("fragments")  # crashes if a delete is missing (F14)
    target.vacuum("fragments")
    assert set(target.answer(*NOW)) == {*wanted, (3, 60)}
    assert [item for item in ct.open_log(target.uri).check() if item.severity == "error"] == []
