"""Files that get a second name elsewhere: every kind of storage to every other."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import uuid
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chronotile.errors import StorageError
from chronotile.storage.processes import this_process
from chronotile.storage.store import MissingObjectError, ObjectExistsError, Store, open_store
from chronotile.storage.transfer import ScratchFolder, Transfer, sweep_scratch

if TYPE_CHECKING:
    from support.servers import S3Server

    from chronotile.storage.transfer import Link

KINDS = ("disk", "memory", "s3")
LARGE = random.Random(1).randbytes((8 << 20) + 5)
"""More than goes through this process in one part."""


def make(kind: str, name: str, request: pytest.FixtureRequest) -> Store:
    if kind == "disk":
        root: Path = request.getfixturevalue("tmp_path") / name
        root.mkdir()
        return open_store(root)
    if kind == "memory":
        return open_store(f"memory://{uuid.uuid4().hex}/{name}")
    s3: S3Server = request.getfixturevalue("s3")
    return open_store(f"{request.getfixturevalue('bucket')}/{name}", s3.options)


@pytest.mark.parametrize(("source", "target"), [*product(KINDS, KINDS)])
def test_files_arrive_whole(source: str, target: str, request: pytest.FixtureRequest) -> None:
    here, there = make(source, "here", request), make(target, "there", request)
    files = {"a": b"", "d/b": b"data", "d/large": LARGE}
    for path, data in files.items():
        here.put_if_absent(path, data)
    transfer = Transfer(here, there)
    assert transfer.links == (source == target == "disk")
    names = {path: f"new/{path}" for path in files}
    transfer.files(names)
    transfer.files({"a": "new/a", "d/b": "new/d/b"})  # there already, with the same bytes
    assert dict(there.read_many(names.values())) == {names[p]: data for p, data in files.items()}
    assert transfer.links == (source == target == "disk")
    with pytest.raises(MissingObjectError):
        transfer.files({"none": "none"})


@pytest.mark.parametrize("target", KINDS)
def test_a_large_file_that_cannot_be_read_leaves_nothing(
    target: str, request: pytest.FixtureRequest
) -> None:
    here, there = make("disk", "here", request), make(target, "there", request)
    here.put_if_absent("x", LARGE + LARGE)
    there.put_if_absent("other", b"")

    read = os.pread

    def breaks_off(file: int, length: int, at: int) -> bytes:
        if at >= len(LARGE):
            raise OSError(5, os.strerror(5))
        return read(file, length, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", breaks_off)
        with pytest.raises(StorageError):
            Transfer(here, there, "copy").files({"x": "x"})
    assert [entry.path for entry in there.list_prefix()] == ["other"]


@pytest.mark.parametrize("link", ["hard", "copy"])
@pytest.mark.parametrize(("source", "target"), [("disk", "disk"), ("disk", "s3"), ("s3", "disk")])
def test_a_file_is_never_replaced(
    source: str, target: str, link: Link, request: pytest.FixtureRequest
) -> None:
    here, there = make(source, "here", request), make(target, "there", request)
    here.put_if_absent("x", b"1")
    there.put_if_absent("x", b"2")
    with pytest.raises(ObjectExistsError, match="found another one"):
        Transfer(here, there, link).files({"x": "x"})
    assert there.read("x") == b"2"


def test_memory_has_a_bound_whatever_the_size_of_a_file(tmp_path: Path) -> None:
    """Two large files go over at once, in a process that says how much memory it took."""
    for name in "ab":
        with (tmp_path / name).open("wb") as file:
            file.truncate(96 << 20)
    work = f"""
import resource
from chronotile.storage.store import open_store
from chronotile.storage.transfer import Transfer
here, there = open_store({str(tmp_path)!r}), open_store({str(tmp_path / "copy")!r})
there.make_folder()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
names = dict(zip("ab", "xy"))
taken = Transfer(here, there, "copy").files(names, dict.fromkeys("xy", 96 << 20))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(set(taken.values())), after - before >> 10)
"""
    call = [sys.executable, "-c", work]
    done = subprocess.run(call, check=True, capture_output=True, text=True)
    checksums, grown_mib = map(int, done.stdout.split())
    assert checksums == 1
    assert grown_mib < 64


def test_a_disk_that_gives_no_link_gets_a_copy(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = make("disk", "here", request), make("disk", "there", request)
    here.put_if_absent("x", b"1")
    link = os.link

    def other_device(source: str, *args: str, **more: int) -> None:
        if not source.startswith("/proc/"):
            raise OSError(18, os.strerror(18))
        link(source, *args, **more)  # type: ignore[arg-type]  # as the disk calls it

    monkeypatch.setattr(os, "link", other_device)
    transfer = Transfer(here, there)
    assert transfer.links
    transfer.files({"x": "x"})
    assert not transfer.links
    assert there.read("x") == b"1"
    assert Path(here.uri, "x").stat().st_ino != Path(there.uri, "x").stat().st_ino


def test_symbolic_links_are_for_disks(request: pytest.FixtureRequest) -> None:
    here, there = make("disk", "here", request), make("disk", "there", request)
    here.put_if_absent("f/x", b"1")
    for _ in range(2):
        Transfer(here, there, "symbolic").folder("f", "deep/f")
    assert Path(there.uri, "deep/f").readlink() == Path(here.uri, "f")
    with pytest.raises(StorageError, match="expected two local folders"):
        Transfer(here, make("memory", "there", request), "symbolic")


@pytest.mark.parametrize("kind", KINDS)
def test_a_scratch_folder_stands_for_a_part(kind: str, request: pytest.FixtureRequest) -> None:
    store = make(kind, "here", request)
    for name in ("own", "other", "unread"):
        store.put_if_absent(f"f/{name}", name.encode())
    with ScratchFolder() as scratch:
        scratch.take(store, "f", "plain")
        scratch.take(store, "f", "g/f", {"own": b"instead"}, without=["unread"])
        root = Path(scratch.root)
        assert (root / "plain" / "own").read_bytes() == b"own"
        assert (root / "g" / "f" / "own").read_bytes() == b"instead"
        assert (root / "g" / "f" / "other").read_bytes() == b"other"
        assert (root / "g" / "f" / "unread").exists() == (kind == "disk"), "a link costs nothing"
    assert not root.exists()
    assert store.read("f/own") == b"own"


def test_only_the_same_machine_sweeps_scratch_by_processes(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "0"]) as ended:
        pass
    one = this_process(ended.pid)
    other, old = (f"chronotile-{'f' * 12}-{ended.pid}-abcdefg{n}" for n in "01")
    own, strange = f"chronotile-{one['host']}-{ended.pid}-abcdefgh", "chronotile-2024-backup"
    for name in (other, old, own, strange):
        (tmp_path / name / "merge").mkdir(parents=True)
    for name in (old, strange):
        os.utime(tmp_path / name, (1, 1))
    with ScratchFolder(str(tmp_path)) as running:
        sweep_scratch(str(tmp_path))
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {other, strange, Path(running.root).name}
