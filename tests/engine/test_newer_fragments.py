"""Fragments of a format version that is not known: unknown, never damaged, and never touched."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support.engine_arrays import EngineArray
from support.newer_fragments import NEWER, make_newer
from support.spec_files import ROOT
from support.verbs import restore_rows

import chronotile as ct
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.format.fragment_footer import METADATA
from chronotile.format.names import NEWEST_VERSION, new_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Newer:
    """An array with a newer fragment that is visible, and one that no commit names."""

    array: EngineArray
    visible: str
    orphan: str

    @property
    def uri(self) -> str:
        return self.array.uri

    def files(self) -> dict[str, bytes]:
        """All files of a newer version."""
        files = (path for path in self.array.folder.rglob("*") if path.is_file())
        names = {path.relative_to(self.array.folder).as_posix(): path for path in files}
        return {n: p.read_bytes() for n, p in names.items() if re.search(rf"_{NEWER}\b", n)}


@pytest.fixture(params=["laid out as now", "laid out otherwise"])
def newer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Newer]:
    """Under the old eyes, a footer elsewhere is damage."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30, 40):
        array.write(at, {at: at, at + 1: 1})
    _, visible, orphan, _ = sorted(path.name for path in (array.folder / "__fragments").iterdir())
    (array.commits_folder / f"{orphan}.wrt").unlink()
    names = [make_newer(array.folder, name) for name in (visible, orphan)]
    for name in names:
        if request.param.endswith("otherwise"):
            metadata = array.folder / "__fragments" / name / METADATA
            metadata.write_bytes(metadata.read_bytes() + b"a later idea of a footer")
        for path in (array.folder / "__fragments" / name).iterdir():
            os.utime(path, (1e9, 1e9))
    made = Newer(array, *names)
    before = made.files()
    assert len(before) == 7
    yield made
    assert made.files() == before, "no change touches them"


def codes(uri: str, *, deep: bool = False) -> dict[str, str]:
    return {item.code: item.path for item in ct.open_log(uri).check(deep=deep)}


@pytest.mark.parametrize("deep", [False, True])
def test_check_says_unknown(newer: Newer, deep: bool) -> None:
    found = codes(newer.uri, deep=deep)
    assert found == {
        "version-unknown": f"__fragments/{newer.visible}",
        "fragment-without-commit": f"__fragments/{newer.orphan}",
    }
    (item,) = (i for i in ct.open_log(newer.uri).check() if i.code == "version-unknown")
    assert item.severity == "info"
    assert f"later than {NEWEST_VERSION}, the last that is known here" in item.message


def test_fragments_and_usage_say_no_more_than_is_known(
    newer: Newer, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {row["name"]: row for row in ct.open_log(newer.uri).fragments().to_pylist()}
    assert [facts[name]["version"] for name in (newer.visible, newer.orphan)] == [NEWER] * 2
    assert {facts[newer.visible][name] for name in ("cells", "bytes", "metadata")} == {None}
    assert main(["fragments", newer.uri]) == 0
    assert capsys.readouterr().out.count("unknown version") == 2
    rows = ct.open_log(newer.uri).usage().to_pylist()
    own = [row for row in rows if row["fragment"] in (newer.visible, newer.orphan)]
    assert {(row["fragment"], row["reason"]) for row in own} == {
        (newer.visible, "visible"),
        (newer.orphan, "uncommitted"),
    }
    assert {(row["field"], row["freed_by"]) for row in own} == {(None, None)}
    assert sum(row["bytes"] for row in own) == sum(map(len, newer.files().values()))


def test_no_maintenance_touches_them(newer: Newer, capsys: pytest.CaptureFixture[str]) -> None:
    rest = newer.array.answer(0, 15), newer.array.answer(35, 45)
    calls = (
        ["vacuum", "--orphans", "--whole-orphans", "--orphan-age", "0", "--deletes"],
        ["repair", "--accept-loss"],
        ["consolidate", "--mode", "all"],
        ["vacuum", "--orphans", "--whole-orphans", "--orphan-age", "0"],
    )
    for command, *options in calls:
        assert main([command, newer.uri, *options, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert not document["findings"]
        if command == "vacuum":
            (note,) = (one for one in document["notes"] if f"__fragments/{newer.orphan}" in one)
            assert note.endswith("the last that is known here: it stays")
        if command == "consolidate":
            assert [note.partition(":")[0] for note in document["notes"]] == [
                "1 commit left loose",
                "1 fragment left out of the .meta",
            ]
    assert (newer.array.answer(0, 15), newer.array.answer(35, 45)) == rest
    assert [one.name for one in ct.open_log(newer.uri).view().fragments][1] == newer.visible


def test_what_the_engine_says_is_told(newer: Newer, capsys: pytest.CaptureFixture[str]) -> None:
    """The engine of today reads a later version that is laid out as now."""
    status = main(["rows", newer.uri])
    out, err = capsys.readouterr()
    answer = newer.array.answer()
    if isinstance(answer, str):
        assert status == 3
        assert err.count("\n") == 1
        assert "fault of chronotile" not in err
    else:
        assert status == 0
        assert f"{len(answer)} rows" in out


def test_a_restore_neither_hides_nor_copies_one(newer: Newer) -> None:
    with pytest.raises(RefusedError, match=f"found __fragments/{newer.visible}: its format"):
        ct.restore(newer.uri, 15)
    with pytest.raises(RefusedError, match=f"found __fragments/{newer.visible}: its format"):
        restore_rows(newer.uri, 15)
    report = ct.restore(newer.uri, 25)
    assert len(report.hidden) == 1
    assert [one.name for one in ct.open_log(newer.uri).view().fragments][1:] == [newer.visible]


def test_it_is_not_published(newer: Newer, tmp_path: Path) -> None:
    target = EngineArray(tmp_path / "target").create()
    target.write(5, {5: 5})
    with pytest.raises(RefusedError, match=f"found __fragments/{newer.visible}: its format"):
        ct.publish(newer.uri, target.uri)
    assert len(ct.open_log(target.uri).view().fragments) == 1


def test_a_clone_has_it_as_it_is(newer: Newer, tmp_path: Path) -> None:
    ct.clone(newer.uri, str(tmp_path / "clone"))
    source, copy = (
        folder / "__fragments" / newer.visible
        for folder in (newer.array.folder, tmp_path / "clone")
    )
    files = {path.name: path.read_bytes() for path in source.iterdir()}
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == files
    seen = [one.name for one in ct.open_log(tmp_path / "clone").view().fragments]
    assert seen == [one.name for one in ct.open_log(newer.uri).view().fragments]
    assert newer.visible in seen


def test_a_superseded_one_stays(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    array.write(20, {2: 2})
    first, last = sorted(path.name for path in (array.folder / "__fragments").iterdir())
    array.consolidate("fragments")
    newer = make_newer(array.folder, last)
    (vac,) = array.commits_folder.glob("*.vac")
    vac.write_text(vac.read_text().replace(last, newer))
    report = ct.vacuum(array.uri)
    assert any(note.startswith(f"{newer} stays: its format version") for note in report.notes)
    left = {path.name for path in (array.folder / "__fragments").iterdir()}
    assert newer in left
    assert first not in left
    assert vac.exists(), "it still hides one"


def test_a_repair_leaves_other_files_of_a_later_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    (array.folder / "__fragment_meta").mkdir(exist_ok=True)
    odd = {
        f"__commits/{new_name(11, 11, NEWER)}.del": b"a later idea of a delete",
        f"__commits/{new_name(12, 12, NEWER)}.con": b"a later idea of commits",
        f"__fragment_meta/{new_name(13, 13, NEWER)}.meta": b"a later idea of footers",
        f"__commits/{new_name(14, 14, NEWER)}.wrt": b"a fragment that lies elsewhere",
    }
    for path, data in odd.items():
        (array.folder / path).write_bytes(data)
    assert main(["repair", array.uri, "--accept-loss", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["steps"] == []
    assert {path: (array.folder / path).read_bytes() for path in odd} == odd


def test_a_schema_of_a_later_version_is_unknown(tmp_path: Path) -> None:
    from chronotile.format import tiles

    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    schema = next(path for path in (array.folder / "__schema").iterdir() if path.is_file())
    payload = bytearray(tiles.decode(schema.read_bytes(), "x").payload)
    payload[:4] = (NEWER + 1).to_bytes(4, "little")
    later = schema.with_name(new_name(1 << 50, 1 << 50, None))
    later.write_bytes(tiles.encode(bytes(payload), version=NEWER + 1))
    found = {item.code: item for item in ct.open_log(array.uri).check(log_only=True)}
    assert found["version-unknown"].severity == "error"
    assert "tile-corrupt" not in found
    with pytest.raises(RefusedError, match="version-unknown"):
        ct.consolidate(array.uri)
    assert not ct.repair(array.uri).steps


def test_one_constant_says_what_is_known() -> None:
    spec = (ROOT / "ksy" / "tiledb_fragment_metadata.ksy").read_text()
    assert re.search(r"min: 3\n\s+max: (\d+)", spec)[1] == str(NEWEST_VERSION)  # type: ignore[index]
    numbers = []
    for path in (ROOT / "src").rglob("*.py"):
        code = re.sub(r'"""(?s:.*?)"""', "", path.read_text())
        numbers += re.findall(r"NEWEST\w* = \d+", code)
    assert numbers == [f"NEWEST_VERSION = {NEWEST_VERSION}"]
