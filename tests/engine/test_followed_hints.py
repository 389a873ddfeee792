"""Hints, followed: what a hint names is run as it stands there, and then nothing is left to say."""

from __future__ import annotations

import functools
import pathlib
import shutil
from typing import TYPE_CHECKING

import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray
from support.followed_hints import commands_in, follow
from support.groups import member, put_array, put_list

import chronotile as ct
from chronotile.check.debt import MANY_META, MANY_SMALL
from chronotile.check.engine_open_cost import MANY_UNCONSOLIDATED
from chronotile.check.findings import CODES
from chronotile.check.fragments_and_commits import MANY_LOOSE
from chronotile.cli import main
from chronotile.dataset.check_group import MANY_LISTS
from chronotile.format.fragment_footer import METADATA

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chronotile.check.findings import Finding

    Maker = Callable[[Path], str]

AT_ONCE = {"vacuum": ["--orphan-age", "0"], "compact": ["--quiet", "0s"]}
"""Nothing need be old in a test."""
UPDATES = {"sm.allow_updates_experimental": "true"}


def of_corpus(case: str) -> Maker:
    return lambda folder: CASES[case].copy_to(folder)


def small(folder: Path, *times: int) -> EngineArray:
    array = EngineArray(folder / "array").create()
    for at in times:
        array.write(at, {at: at, at + 1: 1})
    return array


def fragments(array: EngineArray) -> list[Path]:
    return sorted((array.folder / "__fragments").iterdir())


def merged(folder: Path) -> tuple[EngineArray, Path]:
    """Two writes, and the fragment that the engine merged them into."""
    array = small(folder, 10, 20)
    sources = fragments(array)
    array.consolidate("fragments")
    (new,) = set(fragments(array)) - set(sources)
    return array, new


def copies(array: EngineArray, count: int) -> None:
    """The first fragment, under many names."""
    fragment, commit = fragments(array)[0], next(array.commits_folder.glob("*.wrt"))
    for number in range(2, count + 1):
        name = f"__{number}_{number}_{number:032x}_22"
        shutil.copytree(fragment, fragment.with_name(name))
        commit.with_name(f"{name}.wrt").touch()


def orphan(folder: Path, *, broken: bool, ignored: bool) -> str:
    array = small(folder, 10, 20)
    fragment = fragments(array)[0]
    kept = shutil.copytree(fragment, folder / "kept")
    if ignored:
        array.consolidate("commits")
        array.vacuum("commits")
        array.delete_fragments(10, 10)
        fragment.mkdir(exist_ok=True)
        shutil.copytree(kept, fragment, dirs_exist_ok=True)
    else:
        (array.commits_folder / f"{fragment.name}.wrt").unlink()
    if broken:
        (fragment / "a0.tdb").unlink()
    return array.uri


def lost_file(folder: Path, *, of: str, file: str) -> str:
    """A fragment that lacks a file: a merged one, one that is hidden by it, or a plain one."""
    if of == "plain":
        array = small(folder, 10, 20)
        (fragments(array)[0] / file).unlink()
        return array.uri
    array, new = merged(folder)
    ((new if of == "merged" else fragments(array)[-1]) / file).unlink()
    return array.uri


def cut_metadata(folder: Path) -> str:
    array = small(folder, 10, 20)
    path = fragments(array)[0] / METADATA
    path.write_bytes(path.read_bytes()[:-9])
    return array.uri


def misnamed_con(folder: Path) -> str:
    array = small(folder, 10, 20)
    array.consolidate("commits")
    (con,) = array.commits_folder.glob("*.con")
    con.rename(con.with_name(con.name.replace("__10_20_", "__20_20_")))
    return array.uri


def superseded_con(folder: Path) -> str:
    array = small(folder, 10, 20)
    ct.consolidate(array.uri)
    array.write(30, {1: 1})
    ct.consolidate(array.uri)
    return array.uri


def lost_delete(folder: Path) -> str:
    array = small(folder, 10, 20)
    array.delete(25, "a < 3")
    array.consolidate("fragments")
    array.vacuum("fragments")
    next(array.commits_folder.glob("*.del")).unlink()
    return array.uri


def hit_null(folder: Path) -> str:
    attr = tiledb.Attr("a", dtype="int32", nullable=True)
    array = EngineArray(folder / "array").create(attrs=[attr])
    array.write_raw(10, x=[1, 2, 3], a=[1, 2, None])
    array.commit(20, "a == 1")
    return array.uri


def bad_meta(folder: Path) -> str:
    array = small(folder, 10, 20)
    array.consolidate("fragment_meta")
    next((array.folder / "__fragment_meta").iterdir()).write_bytes(b"cut")
    return array.uri


def loose(folder: Path, *, held: bool) -> str:
    array = small(folder, 1)
    copies(array, MANY_LOOSE)
    if held:
        ct.consolidate(array.uri)
    return array.uri


def unconsolidated(folder: Path) -> str:
    array = small(folder, 1)
    copies(array, MANY_UNCONSOLIDATED)
    return array.uri


def much_metadata(folder: Path) -> str:
    array = small(folder, 1)
    for number in range(1, MANY_META + 1):
        with tiledb.open(array.uri, "w", timestamp=number, ctx=array.ctx) as opened:
            opened.meta[f"k{number}"] = number
    return array.uri


def small_fragments(folder: Path) -> str:
    array = small(folder, 1)
    copies(array, MANY_SMALL)
    return array.uri


def lost_tag(folder: Path) -> str:
    array = EngineArray(folder / "array").create(sparse=False)
    for at in (10, 20, 30):
        array.write(at, {1: at, 2: at})
    assert main(["tag", "add", array.uri, "a-tag", "--at", "15"]) == 0
    array.consolidate("fragments", (5, 25))
    array.vacuum("fragments")
    return array.uri


def copied_group(tmp_path: Path) -> str:
    put_array(tmp_path / "first" / "cells")
    put_list(tmp_path / "first", 10, member(f"file://{tmp_path}/first/cells", "cells"))
    return str(shutil.copytree(tmp_path / "first", tmp_path / "group"))


def many_lists(folder: Path) -> str:
    put_array(folder / "group" / "cells")
    for at in range(20, 21 + MANY_LISTS):
        put_list(folder / "group", at, member("cells", "cells"))
    return str(folder / "group")


SITUATIONS: dict[str, Maker] = {
    "name-malformed": of_corpus("bad-name"),
    "con-truncated, in its last line": of_corpus("bad-con-line"),
    "con-truncated, in a tile": of_corpus("bad-con-tile"),
    "con-name-range": misnamed_con,
    "con-superseded": superseded_con,
    "con-blocks-consolidation": of_corpus("con-many-deletes"),
    "con-has-updates": of_corpus("bad-update-in-con"),
    "commit-without-fragment": of_corpus("bad-no-fragment"),
    "fragment-without-commit, whole": functools.partial(orphan, broken=False, ignored=False),
    "fragment-without-commit, broken": functools.partial(orphan, broken=True, ignored=False),
    "fragment-without-commit, ignored": functools.partial(orphan, broken=False, ignored=True),
    "fragment-without-commit, both": functools.partial(orphan, broken=True, ignored=True),
    "fragment-file-missing, merged": functools.partial(lost_file, of="merged", file="a0.tdb"),
    "fragment-file-missing, hidden": functools.partial(lost_file, of="hidden", file="a0.tdb"),
    "fragment-file-missing, plain": functools.partial(lost_file, of="plain", file="a0.tdb"),
    "fragment-file-missing, metadata": functools.partial(lost_file, of="plain", file=METADATA),
    "fragment-damaged": cut_metadata,
    "delete-null": of_corpus("null-bricks-eq"),
    "delete-hits-null": hit_null,
    "delete-dropped-field": of_corpus("schema-drop-named"),
    "delete-lost": lost_delete,
    "delete-hits-older": of_corpus("schema-add"),
    "delete-ignored": of_corpus("bad-ignored-delete"),
    "delete-duplicate": of_corpus("con-twice"),
    "update-deletes": of_corpus("update-v22"),
    "update-deletes, applied": of_corpus("update-fragments"),
    "vac-absolute, old": of_corpus("dense-consolidated-v16"),
    "vac-absolute, now": of_corpus("bad-vac-absolute"),
    "tile-corrupt": of_corpus("bad-tile"),
    "tile-corrupt, a .meta": bad_meta,
    "many-loose-commits": functools.partial(loose, held=False),
    "many-loose-commits, held": functools.partial(loose, held=True),
    "superseded-bytes": of_corpus("dense-consolidated-v22"),
    "metadata-unconsolidated": unconsolidated,
    "metadata-unconsolidated, of the array": much_metadata,
    "many-small-fragments": small_fragments,
    "tag-unreadable": lost_tag,
    "many-member-lists": many_lists,
    "member-elsewhere": copied_group,
}
"""The code, and which of its hints -> what makes it."""

UNFOLLOWED = {
    "tile-encrypted": "the key is asked for: below",
    "as-of-absent": "a question: it lists the times that can be had, below",
    "as-of-partial": "the same",
    "fragment-tile-count": "the cells come from where they came from (F19)",
    "fragment-name-range": "the engine's name (F4); no command renames a fragment",
    "fragment-file-extra": "harmless",
    "enumeration-missing": "no other file has the labels",
    "cells-unopened": "a filter that is not known here",
    "same-timestamp": "the writer decides about times",
    "member-missing": "a person decides what the group lacks",
    "replica-differs": "tests/engine/test_replicate.py: it asks for the source",
    "member-doubled": "harmless",
    "member-cyclic": "a person decides which member goes",
    "stray-array": "a person decides whether it belongs to the group",
    "future-commit": "it shows when its time comes",
    "unreadable": "permissions, or the storage",
    "version-unknown": "a later chronotile knows it",
    "restore-undone": "its hint is followed where a consolidation brings rows back",
    "vac-without-fragment": "a person knows if a restore wrote it: tests/unit/check",
    "late-write-hidden": "the writer gives its rows another time",
}
"""Codes without a command that mends them, and why."""


def found(uri: str, code: str) -> list[Finding]:
    group = "group" in uri.rpartition("/")[2]
    findings = ct.open_dataset(uri).check() if group else ct.open_log(uri).check()
    return [item for item in findings if item.code == code]


def test_every_code_is_followed_or_says_why_not() -> None:
    followed = {name.partition(",")[0] for name in SITUATIONS}
    assert followed | set(UNFOLLOWED) == set(CODES)
    assert not followed & set(UNFOLLOWED)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_check_names_mends_it(situation: str, tmp_path: Path) -> None:
    uri = SITUATIONS[situation](tmp_path)
    code = situation.partition(",")[0]
    (item, *_) = found(uri, code)
    assert follow(item.hint, AT_ONCE)
    assert item.path not in {left.path for left in found(uri, code)}


def test_a_young_orphan_is_said_to_stay_for_a_day(tmp_path: Path) -> None:
    uri = orphan(tmp_path, broken=False, ignored=False)
    (item,) = found(uri, "fragment-without-commit")
    assert "24 hours after its files were written" in item.hint
    follow(item.hint.partition("; ")[2])
    assert found(uri, "fragment-without-commit") == [item]


def test_a_check_of_the_log_alone_says_who_looks_further(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = orphan(tmp_path, broken=False, ignored=False)
    (item,) = ct.open_log(uri).check(log_only=True)
    assert follow(item.hint) == [["check", uri]]
    assert "--whole-orphans" in capsys.readouterr().out


def test_an_encrypted_array_asks_for_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES["secret-loose-v22"]
    uri = case.copy_to(tmp_path)
    (item,) = found(uri, "tile-encrypted")
    assert case.key is not None
    (tmp_path / "key").write_bytes(case.key)
    follow(item.hint.replace("FILE", str(tmp_path / "key"), 1))
    assert "tile-encrypted" not in capsys.readouterr().out


def test_a_group_that_lacks_a_state_names_its_moments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_array(tmp_path / "dense", "dense-vacuumed-v22")
    put_list(tmp_path, 1, member("dense", "dense"))
    for code, at in (("as-of-absent", 0), ("as-of-partial", 15)):
        hints = [i.hint for i in ct.open_dataset(str(tmp_path)).check(as_of=at) if i.code == code]
        assert follow(hints[-1]) == [["moments", str(tmp_path)]]
    assert "UTC" in capsys.readouterr().out


def test_old_fragments_that_no_meta_helps_are_no_debt(tmp_path: Path) -> None:
    """The engine looks fragments from before version 9 up by their URIs, and finds none."""
    folder = pathlib.Path(CASES["old-sparse-consolidated-v8"].copy_to(tmp_path))
    (first, *_) = sorted(path for path in folder.iterdir() if path.name.endswith("_8"))
    for number in range(MANY_LOOSE):
        name = f"__{100 + number}_{100 + number}_{number:032x}_8"
        shutil.copytree(first, folder / name)
        (folder / f"{name}.ok").touch()
    assert len(ct.open_log(folder).view().fragments) > MANY_LOOSE
    codes = {item.code for item in ct.open_log(folder).check()}
    assert "metadata-unconsolidated" not in codes
    assert "many-loose-commits" not in codes, "the array is too old to have a .con"


def test_commits_that_a_con_holds_want_a_vacuum_alone(tmp_path: Path) -> None:
    uri = loose(tmp_path, held=True)
    (item,) = found(uri, "many-loose-commits")
    assert list(commands_in(item.hint)) == [["vacuum", uri]]


def test_commits_that_stay_loose_are_no_debt(tmp_path: Path) -> None:
    """Neither a consolidation nor a vacuum removes the file of a delete."""
    array = small(tmp_path, 1)
    array.delete(2, "a == 99")
    (delete,) = array.commits_folder.glob("*.del")
    for number in range(3, 3 + MANY_LOOSE):
        shutil.copy(delete, delete.with_name(f"__{number}_{number}_{number:032x}_22.del"))
    assert found(array.uri, "many-loose-commits") == []


def test_an_array_with_a_space_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "my arrays").mkdir()
    uri = superseded_con(tmp_path / "my arrays")
    (item,) = found(uri, "con-superseded")
    assert follow(item.hint) == [["vacuum", uri]]
    assert not found(uri, "con-superseded")


def sizes_of(uri: str) -> dict[str, int]:
    """What is on the disk, less what is written down of each change."""
    files = (path for path in pathlib.Path(uri).rglob("*") if path.is_file())
    files = (path for path in files if "__chronotile" not in path.parts)
    return {path.relative_to(uri).as_posix(): path.stat().st_size for path in files}


@pytest.mark.parametrize(
    ("make", "command"),
    [
        # A `.con` of three writes is larger than their files, which are empty.
        (lambda folder: small(folder, 10, 20, 30).uri, None),
        (lambda folder: merged(folder)[0].uri, "chronotile vacuum A"),
        (of_corpus("con-twice"), "chronotile consolidate A && chronotile vacuum A"),
    ],
)
def test_usage_names_what_frees_bytes(make: Maker, command: str | None, tmp_path: Path) -> None:
    uri = make(tmp_path)
    rows = ct.open_log(uri).usage().to_pylist()
    named = {row["freed_by"] for row in rows}
    if command is None:
        assert named == {None}
        return
    before, text = sizes_of(uri), command.replace("A", uri)
    assert text in named
    follow(text)
    left = sizes_of(uri)
    assert not {row["path"] for row in rows if row["freed_by"] == text} & left.keys()
    assert sum(left.values()) < sum(before.values())


def undo_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if line.startswith("to undo: ")]
    return lines[0] if lines else None


def with_update(folder: Path) -> EngineArray:
    array = EngineArray(folder / "array", settings=UPDATES).create()
    array.write(10, {1: 1, 2: 2})
    array.commit(20, "a == 1", a=7)
    return array


def with_delete(folder: Path) -> EngineArray:
    array = small(folder, 10, 20)
    array.delete(25, "a == 1")
    return array


def with_staging(folder: Path) -> EngineArray:
    array = small(folder, 10)
    ct.clone(array.uri, str(folder / "staging"), start="now")
    staging = EngineArray(folder / "staging")
    staging.write(50, {5: 5})
    return array


def with_bad_name(folder: Path) -> EngineArray:
    array = small(folder, 10)
    (array.commits_folder / "bad.wrt").touch()
    return array


CHANGES: dict[str, tuple[Callable[[Path], EngineArray], list[str]]] = {
    "restore": (lambda folder: small(folder, 10, 20), ["--to", "15"]),
    "restore, rewritten": (with_delete, ["--to", "15", "--rewrite"]),
    "undelete": (with_delete, ["NAME"]),
    "undelete, ever": (with_delete, ["NAME", "--ever"]),
    "publish": (with_staging, []),
    "repair": (with_bad_name, []),
    "apply": (with_update, []),
}
"""Command, and which of its ways -> what makes an array for it, and options."""


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_names_takes_it_back(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, options = CHANGES[change]
    array, command = make(tmp_path), change.partition(",")[0]
    names = [one.name for one in ct.open_log(array.uri).view().deletes]
    words = [names[0] if word == "NAME" else word for word in options]
    places = [str(tmp_path / "staging"), array.uri] if command == "publish" else [array.uri]
    before = array.answer(metadata=True)
    assert main([command, *places, *words, "--dry-run"]) == 0
    planned = capsys.readouterr()
    assert undo_line(planned.out + planned.err) is None, "nothing was done"
    assert main([command, *places, *words]) == 0
    done = capsys.readouterr()
    assert array.answer(metadata=True) != before
    line = undo_line(done.err)
    assert line is not None
    operation = ct.open(array.uri).operations().to_pylist()[0]["id"]
    assert line == f"to undo: chronotile undo {array.uri} {operation}"
    assert follow(line) == [["undo", array.uri]]
    assert array.answer(metadata=True) == before
    assert main(["undo", array.uri]) == 1, "and there is nothing more to take back"


def test_what_did_nothing_is_not_to_be_undone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = with_delete(tmp_path)
    for call in (["restore", array.uri, "--to", "30"], ["repair", array.uri], ["apply", array.uri]):
        assert main(call) == 0
        out, err = capsys.readouterr()
        assert "nothing to do" in out
        assert undo_line(out + err) is None


def test_what_a_vacuum_takes_from_the_engine_a_repair_puts_back(tmp_path: Path) -> None:
    array = with_delete(tmp_path)
    ct.consolidate(array.uri)
    report = ct.vacuum(array.uri, loose_deletes=True)
    assert found(array.uri, "con-blocks-consolidation")
    (note,) = (note for note in report.notes if "F1" in note)
    assert list(commands_in(note)) == [["repair", array.uri]]
    follow(note)
    assert not found(array.uri, "con-blocks-consolidation")


def test_an_undo_leaves_no_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = with_delete(tmp_path)
    (name,) = (one.name for one in ct.open_log(array.uri).view().deletes)
    before = fragments(array)
    assert main(["undelete", array.uri, name]) == 0
    assert fragments(array) != before
    follow(undo_line(capsys.readouterr().err) or "")
    assert fragments(array) == before
