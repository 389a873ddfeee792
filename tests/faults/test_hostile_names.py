"""Names from inside files that mean harm: none of them is ever a path.

Each is put into a `.vac`, a `.con`, an `.ign` and a manifest of a quarantine. Whatever is then
run, nothing outside of the array is touched, no operation names a path outside, and no fragment
of the array is lost.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from support.engine_arrays import EngineArray

from chronotile import open_log, repair, vacuum
from chronotile.array import Array
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError
from chronotile.format.commit_files import is_commit_line, read_vac_line
from chronotile.storage.place import is_path
from chronotile.storage.store import Store, open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

IN_THE_ARRAY = {"__commits/.wrt", "__commits/..wrt", "victim.ok"}
"""Odd names, but of files in the array: a repair might have moved one of them."""
UUID = "00112233445566778899aabbccddeeff"
NAME = f"__10_10_{UUID}_22"

HOSTILE = (
    "../victim",
    "..",
    ".",
    "../",
    "../../victim",
    "../victim/__fragments/" + NAME,
    "__fragments/../../victim",
    "/__fragments/../../victim",
    "/__fragments/..",
    "/__fragments/.",
    "/__fragments/",
    "/__fragments/" + NAME + "/../../../victim",
    "/__fragments/" + NAME + "/a0.tdb",
    "/__fragments//" + NAME,
    "/../victim",
    "/victim",
    "/etc/passwd",
    "/etc/../etc/passwd",
    "file:///etc/passwd",
    "file://../victim",
    "s3://elsewhere/victim",
    "s3://elsewhere/../victim/" + NAME,
    "https://elsewhere.example/" + "__fragments/../" + NAME,
    "//elsewhere/victim",
    "\\\\elsewhere\\victim",
    "..\\victim",
    "C:\\victim",
    "~/victim",
    "$HOME/victim",
    "`touch victim`",
    "%2e%2e/victim",
    "..%2fvictim",
    "\u2024\u2024/victim",  # one dot leaders
    "\uff0e\uff0e/victim",  # full-width full stops
    "/__fragments/__1\uff10_10_" + UUID + "_22",  # a full-width digit
    "/__fragments/__\u0661\u0660_10_" + UUID + "_22",  # Arabic digits
    "/__fragments/" + NAME + "\u200b",  # a space of no width
    "/__fragments/\u202e" + NAME,  # right to left
    "/__fragments/" + NAME + "\r",
    "/__fragments/" + NAME + "\0",
    "/__fragments/" + NAME + "\x1b[2J",
    "/__fragments/ " + NAME,
    "/__fragments/" + NAME.upper(),
    "/__fragments/__10_9_" + UUID + "_22",
    "/__fragments/__-1_10_" + UUID + "_22",
    "/__fragments/__99999999999999999999999_99999999999999999999999_" + UUID + "_22",
    "__commits/../../victim.wrt",
    "__commits/../" + NAME + ".wrt",
    "../__commits/" + NAME + ".wrt",
    "/__commits/" + NAME + ".wrt",
    "__commits//" + NAME + ".wrt",
    "__commits/" + NAME + "/../x.wrt",
    "__commits/.wrt",
    "__commits/..wrt",
    "__fragments/" + NAME + ".wrt",
    "__schema/" + NAME + ".del",
    "victim.ok",
    "../" + NAME + ".ok",
    "x" * 5000,
    "/__fragments/" + "../" * 500 + "victim",
)


def test_none_of_them_is_a_name() -> None:
    for line in HOSTILE:
        assert read_vac_line(line).name is None, line
        assert not is_commit_line(line), line


class World:
    """An array with something to vacuum, and a neighbour that must not be touched."""

    def __init__(self, root: pathlib.Path, origin: pathlib.Path) -> None:
        self.root = root
        shutil.copytree(origin, root / "array")
        self.array = EngineArray(root / "array")
        victim = root / "victim"
        for name in ("__fragments/" + NAME, "__commits", ".", "__schema"):
            (victim / name).mkdir(parents=True, exist_ok=True)
            (victim / name / "precious").write_text(name)
        (root / "victim.wrt").write_text("precious")
        (root / f"{NAME}.ok").write_text("precious")
        self.outside = self.neighbours()
        self.steps: list[tuple[str, str]] = []

    def neighbours(self) -> dict[str, bytes]:
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in found
            if not path.relative_to(self.root).parts[0].startswith("array")
        }

    def store(self) -> Store:
        return open_store(
            self.array.uri, on_operation=lambda what, path: self.steps.append((what, path))
        )

    def fragments(self) -> list[str]:
        return self.array.files("__fragments")

    def is_untouched(self) -> None:
        assert self.neighbours() == self.outside
        assert all(not path or is_path(path) for _, path in self.steps)

    def refuses(self, task: Callable[[Store], object]) -> None:
        with pytest.raises(RefusedError) as refused:
            task(self.store())
        assert {item.code for item in refused.value.findings} & {"name-malformed", "con-truncated"}

    def run_everything(self) -> None:
        """Every command; each may refuse, none may do harm."""
        before = self.fragments()
        self.refuses(lambda store: Array(store).consolidate())
        self.refuses(lambda store: Array(store).vacuum(whole_orphans=True, orphan_age=0))
        assert self.fragments() == before, "refused, so nothing was removed"
        self.is_untouched()
        Array(self.store()).repair(accept_loss=True)
        assert self.fragments() == before
        self.is_untouched()
        assert not isinstance(self.array.answer(), str)
        Array(self.store()).vacuum()
        self.is_untouched()
        answer = self.array.answer()
        assert answer == ((10, 10), (20, 20), (30, 30))


EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    array = EngineArray(tmp_path_factory.mktemp("origin") / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    array.consolidate("commits")
    array.consolidate("fragments", (0, 25))
    return array.folder


@pytest.fixture
def world(tmp_path: pathlib.Path, origin: pathlib.Path) -> World:
    return World(tmp_path, origin)


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_in_a_vacuum_file(world: World, line: str) -> None:
    (vac,) = world.array.files("__commits", "*.vac")
    path = world.array.commits_folder / vac
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")
    assert any(item.code == "name-malformed" for item in open_log(world.array.uri).check())
    world.run_everything()


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_in_a_consolidated_file(world: World, line: str) -> None:
    (con,) = world.array.files("__commits", "*.con")
    path = world.array.commits_folder / con
    path.write_bytes(line.encode() + b"\n" + path.read_bytes())
    world.run_everything()


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_in_an_ignore_file(world: World, line: str) -> None:
    path = world.array.commits_folder / f"__10_10_{UUID}_22.ign"
    path.write_bytes(line.encode() + b"\n")
    world.run_everything()


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_in_a_record(world: World, line: str) -> None:
    """A record that says that a change put, moved or copied something elsewhere."""
    (world.array.commits_folder / "notes.wrt").touch()
    repair(world.array.uri)
    (record,) = (world.array.folder / "__chronotile" / "operations").iterdir()
    document = json.loads(record.read_text())
    inside = world.array.files("__commits"), world.fragments()
    whole = document["steps"][0]
    lies: list[dict[str, object]] = [
        {**whole, "path": line},
        {**whole, "op": "put", "path": line},
        {**whole, "op": "copy", "path": line, "files": {"x": 1}},
        {**whole, "op": "move", "path": "__fragments/x", "files": {line: 1}},
    ]
    for lie in lies:
        record.write_text(json.dumps(document | {"steps": [lie]}))
        with suppress(ChronotileError):
            Array(world.store()).undo()
        world.is_untouched()
    assert set(inside[0]) <= set(world.array.files("__commits"))
    assert world.fragments() == inside[1]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_in_a_manifest(world: World, line: str) -> None:
    """Of a quarantine that an earlier version left."""
    folder = world.root / "array.quarantine" / "20240101T000000.000Z"
    folder.mkdir(parents=True)
    (folder / "0000-notes.wrt").touch()
    world.outside = world.neighbours()
    whole = {"path": "__commits/notes.wrt", "size": 0, "sha256": EMPTY, "file": "0000-notes.wrt"}
    inside = world.array.files("__commits"), world.fragments()
    lies: list[dict[str, object]] = [
        {"moved": [{**whole, "path": line}], "put": []},
        {"moved": [], "put": [{"path": line, "size": 0, "sha256": "0" * 64}]},
    ]
    for lie in lies:
        (folder / "manifest.json").write_text(json.dumps(lie))
        world.outside = world.neighbours()
        with suppress(ChronotileError):
            Array(world.store()).undo(str(folder / "manifest.json"))
        world.is_untouched()
    assert set(inside[0]) <= set(world.array.files("__commits"))
    assert world.fragments() == inside[1]


@pytest.mark.parametrize("manifest", HOSTILE[:34], ids=range(34))
def test_as_a_manifest(world: World, manifest: str) -> None:
    with pytest.raises(ChronotileError):
        Array(world.store()).undo(manifest)
    world.is_untouched()


def test_a_fragment_that_is_a_link(world: World) -> None:
    """A folder that leads outside is not followed, though a `.vac` lists it."""
    (name,) = world.array.files("__fragments", "__10_10_*")
    folder = world.array.folder / "__fragments" / name
    aside = world.root / "aside"
    folder.rename(aside)
    folder.symlink_to(aside)
    world.outside = world.neighbours()
    with pytest.raises(ChronotileError):
        Array(world.store()).vacuum()
    world.is_untouched()


def test_a_link_inside_of_a_fragment(world: World) -> None:
    (name,) = world.array.files("__fragments", "__10_10_*")
    link = world.array.folder / "__fragments" / name / "link"
    link.symlink_to(world.root / "victim")
    before = world.array.answers([(0, 10), (0, 20), (0, 99)])
    with pytest.raises(ChronotileError, match="symbolic link"):
        Array(world.store()).vacuum()
    world.is_untouched()
    assert world.array.answers(before) == before


def test_a_vacuum_file_that_lists_its_own_fragment(world: World) -> None:
    (vac,) = world.array.files("__commits", "*.vac")
    path = world.array.commits_folder / vac
    path.write_text(path.read_text() + f"/__fragments/{vac.removesuffix('.vac')}\n")
    before = world.fragments()
    report = vacuum(world.array.uri)
    assert any("only copy" in note for note in report.notes)
    assert world.fragments() == before


def test_absolute_lines_of_a_new_vacuum_file(world: World) -> None:
    """Another place, a name of ours: no engine writes it so, and nothing is removed for it."""
    (vac,) = world.array.files("__commits", "*.vac")
    path = world.array.commits_folder / vac
    lines = [f"s3://elsewhere/gone{line}" for line in path.read_text().splitlines()]
    path.write_text("".join(f"{line}\n" for line in lines))
    before = world.fragments()
    with pytest.raises(RefusedError, match="vac-absolute"):
        vacuum(world.array.uri)
    assert world.fragments() == before
    repair(world.array.uri)
    vacuum(world.array.uri)
    assert world.array.answer() == ((10, 10), (20, 20), (30, 30))
    assert len(world.fragments()) == 2
