"""A key that does not open an array or a group: every command says so, and exits with 3."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import tiledb
from corpus.recipes.scene import KEY
from support.engine_arrays import EngineArray
from support.verbs import repair_group

from chronotile.cli import main
from chronotile.fleet.check_all import check_fleet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OF_ARRAYS = (
    "log",
    "rows",
    "visible",
    "explain",
    "fragments",
    "usage",
    "check",
    "check --log-only",
    "check --deep",
    "check --fail-on none",
    "diff 1 now",
    "diff 1 now --rows",
    "blame --row x=1",
    "timeline -o {out}/t.html",
    "report -o {out}/r.html",
    "tables --out {out}/tables",
    "delete --where a<3",
    "apply",
    "consolidate",
    "vacuum",
    "repair",
    "clone {out}/clone",
    "restore --to 15",
    "undelete __30",
    "tag list",
    "tag add v1 --at 15",
)
OF_GROUPS = (
    *(one for one in OF_ARRAYS if not one.startswith(("delete", "tag list"))),
    "members",
    "moments",
)


class Sealed:
    """An encrypted array, a group that has it for a member, and a key of something else."""

    def __init__(self, folder: Path) -> None:
        self.group = folder / "group"
        self.array = EngineArray(self.group / "member", key=KEY)
        tiledb.Group.create(str(self.group))
        self.array.create().write(10, {1: 1})
        self.array.delete(30, "a == 1")
        with tiledb.Group(str(self.group), "w") as group:
            group.add("member", name="member", relative=True)
        self.key, self.out = folder / "wrong-key", folder / "out"
        self.key.write_text("x" * 32)
        self.out.mkdir()

    def run(self, command: str, place: Path | str) -> int:
        name, *rest = command.format(out=self.out).split()
        if name == "tag":
            name, rest = "tag " + rest[0], rest[1:]
        return main([*name.split(), str(place), *rest, "--key-file", str(self.key)])


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    return Sealed(tmp_path_factory.mktemp("sealed"))


@pytest.mark.parametrize("command", OF_ARRAYS)
def test_of_an_array(command: str, sealed: Sealed) -> None:
    assert sealed.run(command, sealed.array.uri) == 3


@pytest.mark.parametrize("command", OF_GROUPS)
def test_of_a_group(command: str, sealed: Sealed) -> None:
    assert sealed.run(command, sealed.group) == 3


def test_check_names_the_key_as_the_fault(
    sealed: Sealed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sealed.run("check --json", sealed.array.uri) == 3
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["code"], item["severity"]) == ("tile-encrypted", "error")
    assert "expected the key that it was encrypted with, found another" in item["message"]
    assert (
        item["hint"]
        == "give the key that the array was made with: --key-file FILE (in Python key=…)"
    )
    assert main(["check", sealed.array.uri]) == 0, "without a key, what is open is checked"
    assert "--key-file" in capsys.readouterr().out


def encrypted_group(folder: Path, change: Callable[[tiledb.Group], None]) -> Path:
    """A group whose own files are encrypted."""
    settings = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": KEY}
    context = tiledb.Ctx(settings)
    tiledb.Group.create(str(folder), ctx=context)
    with tiledb.Group(str(folder), "w", ctx=context) as group:
        change(group)
    return folder


def test_repair_takes_nothing_out_of_a_group_that_the_key_does_not_open(tmp_path: Path) -> None:
    def change(group: tiledb.Group) -> None:
        group.meta["a"] = 1

    group = encrypted_group(tmp_path / "group", change)
    (file,) = (path for path in (group / "__meta").iterdir())
    for key in (b"x" * 32, KEY.encode()):
        report = repair_group(str(group), key=key)
        assert [item.code for item in report.findings] == ["tile-encrypted"] * (key[:1] == b"x")
        assert report.steps == ()
        assert file.exists()
        found = check_fleet(str(group), key=key)
        assert found.is_whole() == (key == KEY.encode())


def test_repair_takes_out_damaged_metadata_where_the_key_is_right(tmp_path: Path) -> None:
    """A list of members that the key opens shows that it is the key."""
    EngineArray(tmp_path / "group" / "member").create()

    def change(group: tiledb.Group) -> None:
        group.meta["a"] = 1
        group.add("member", name="member", relative=True)

    group = encrypted_group(tmp_path / "group", change)
    (file,) = (path for path in (group / "__meta").iterdir())
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert [step.path for step in repair_group(str(group), key=b"x" * 32, dry_run=True).steps] == []
    assert [step.path for step in repair_group(str(group), key=KEY.encode()).steps] == [
        f"__meta/{file.name}"
    ]
