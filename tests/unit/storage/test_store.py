"""The store, on a real disk, in memory, and on a real S3 server with and without faults."""

from __future__ import annotations

import errno
import os
import pickle
import random
import subprocess
import sys
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.servers import FAULTS, random_plan, scripted_plan

from chronotile.errors import (
    ArrayNotFoundError,
    BadNameError,
    ChangedError,
    ChronotileError,
    StorageError,
    TooLargeError,
)
from chronotile.storage import bucket as bucket_module
from chronotile.storage.disk import _is_filled
from chronotile.storage.place import find_place
from chronotile.storage.store import (
    Entry,
    MissingObjectError,
    ObjectExistsError,
    Store,
    open_store,
    put_compared,
)
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import Fault, FaultProxy, S3Server


@pytest.fixture(autouse=True)
def quick_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_module, "FIRST_WAIT_S", 0.005)
    monkeypatch.setattr(bucket_module, "LONGEST_WAIT_S", 0.02)


HOSTILE = (
    *("", "/", "//", ".", "..", "/etc/passwd", "../x", "../../x", "a/../b", "a/../../b", "a/.."),
    *("a/", "/a", "//a", "a//b", "a/./b", "./a", "a/.", "..\\x", "a\\..\\b", "\\x", "C:\\x", "a\\"),
    *("a\0b", "\0", "a/\0", "a\nb", "a\rb", "a\tb", "a\x1b[31mb", "a\x7fb", "a\x85b", "\x01"),
    *("a/b/", "../" * 20 + "etc/passwd", "__commits/../../x", "__commits//a.wrt", "...//x/../.."),
    *("a\udcffb", "\ud800", "x" * 5000, "a/" * 3000 + "a", "./", "../", "/..", "/../x", "a/\n/b"),
)
ODD_NAMES = (
    *("a b", "a%20b", "%2e%2e", "%2F", "ä-é", "日本", "a#b", "a?b", "a+b&c=d", "~", "...", "..a"),
    *(".hidden", "-rf", "a'b", 'a"b', "a:b", "a*b", "$HOME", "x" * 200, "e\u0301", "🜚"),
)


@pytest.fixture(params=["disk", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind, rooted in a folder of its own."""
    if request.param == "disk":
        root = tmp_path / "odd root %20 ü" / "array"
        root.mkdir(parents=True)
        return open_store(root)
    if request.param == "memory":
        return open_store(f"memory://{uuid.uuid4().hex}/odd root %20 ü/array")
    s3: S3Server = request.getfixturevalue("s3")
    bucket: str = request.getfixturevalue("bucket")
    return open_store(f"{bucket}/odd root %20 ü/array/", s3.options)


@pytest.fixture
def disk(tmp_path: Path) -> Store:
    root = tmp_path / "array"
    root.mkdir()
    return open_store(root)


def names_in(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def paths_of(store: Store) -> list[str]:
    return [entry.path for entry in store.list_prefix()]


def operations(store: Store) -> dict[str, Callable[[str], object]]:
    return {
        "list_dir": lambda path: store.list_dir(path),
        "list_prefix": lambda path: store.list_prefix(path),
        "head": lambda path: store.head(path),
        "read": lambda path: store.read(path),
        "read_range": lambda path: store.read_range(path, 0, 1),
        "put": lambda path: store.put_if_absent(path, b"x"),
        "exchange": lambda path: store.exchange(path, b"x", b"y"),
        "remove": lambda path: store.remove(["fine", path]),
        "remove_folder": lambda path: store.remove_folder(path),
        "duplicate from": lambda path: Transfer(store, store).files({path: "target"}),
        "duplicate to": lambda path: Transfer(store, store).files({"fine": path}),
        "child": lambda path: store.child(path),
    }


# Places


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("/data/a", "/data/a"),
        ("/data/a///", "/data/a"),
        ("/data//a/./b", "/data/a/b"),
        ("/data/a%20b ü", "/data/a%20b ü"),
        ("file:///data/a%20b/", "/data/a%20b"),
        ("file://localhost/data/a", "/data/a"),
        ("s3://lake", "s3://lake"),
        ("s3://lake/", "s3://lake"),
        ("s3://lake/a b/%41/ü//", "s3://lake/a b/%41/ü"),
        ("S3A://lake/a", "s3://lake/a"),
        ("gcs://lake/a", "gs://lake/a"),
        ("gs://lake/a", "gs://lake/a"),
        ("azure://box/a", "az://box/a"),
        ("az://box/a", "az://box/a"),
        ("memory:m/a", "memory://m/a"),
        ("memory://m", "memory://m"),
    ],
)
def test_place(text: str, uri: str) -> None:
    place = find_place(text)
    assert place.uri == uri
    assert find_place(place.uri) == place


def test_place_relative_home_and_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    assert find_place("a/b/").uri == str(tmp_path / "a" / "b")
    assert find_place(".").uri == str(tmp_path)
    assert find_place("~/a").uri == str(tmp_path / "home" / "a")
    assert find_place(Path("a")).uri == str(tmp_path / "a")
    assert find_place("link/../x").uri == str((tmp_path / "real" / "x").resolve())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\0b",
        "hdfs://host/a",
        "tiledb://ns/a",
        "s3://",
        "s3:///a",
        "file://relative",
        "memory:",
    ],
)
def test_no_place(text: str) -> None:
    with pytest.raises(StorageError):
        open_store(text)


@pytest.mark.parametrize("text", ["s3://lake/a//b", "s3://lake/../x", "s3://lake/a/./b"])
def test_bad_prefix(text: str) -> None:
    with pytest.raises(BadNameError):
        open_store(text)


def test_password_in_a_uri_is_not_repeated() -> None:
    with pytest.raises(StorageError) as caught:
        open_store("s3://user:hush@lake/a")
    assert "hush" not in str(caught.value)


# What every kind of storage does alike


def test_round_trip(store: Store) -> None:
    store.put_if_absent("__commits/a.wrt", b"")
    store.put_if_absent("__commits/b.del", b"payload")
    store.put_if_absent("__fragments/f/x.tdb", b"123")
    store.put_if_absent("top", b"t")
    assert store.read("__commits/a.wrt") == b""
    assert store.read("__commits/b.del") == b"payload"
    assert paths_of(store) == [
        *("__commits/a.wrt", "__commits/b.del", "__fragments/f/x.tdb", "top"),
    ]
    root = store.list_dir()
    assert [entry.path for entry in root.files] == ["top"]
    assert root.folders == ("__commits", "__fragments")
    assert root.strangers == ()
    assert store.list_dir("__fragments").folders == ("__fragments/f",)
    assert store.list_dir("__fragments").files == ()
    sized = store.list_dir("__commits", sizes=True).files
    assert [(e.path, e.size) for e in sized] == [("__commits/a.wrt", 0), ("__commits/b.del", 7)]
    assert all(entry.modified_ms and entry.modified_ms > 1_600_000_000_000 for entry in sized)
    assert store.head("__commits/b.del").size == 7


def test_prefix_is_a_folder_not_a_text(store: Store) -> None:
    store.put_if_absent("ab/x", b"")
    store.put_if_absent("a/x", b"")
    store.put_if_absent("a.b", b"")
    assert [entry.path for entry in store.list_prefix("a")] == ["a/x"]
    assert [entry.path for entry in store.list_dir("a").files] == ["a/x"]


def test_odd_names_are_taken_literally(store: Store) -> None:
    wanted = {f"dir {name}/{name}": name.encode() for name in ODD_NAMES}
    for path, data in wanted.items():
        store.put_if_absent(path, data)
    assert paths_of(store) == sorted(wanted)
    assert dict(store.read_many(wanted)) == wanted
    for name in ODD_NAMES:
        assert [e.path for e in store.list_dir(f"dir {name}").files] == [f"dir {name}/{name}"]
    store.remove(wanted)
    assert store.list_prefix() == ()


def test_missing(store: Store) -> None:
    store.put_if_absent("a", b"")
    assert store.list_dir("nowhere") == ((), (), ())
    assert store.list_prefix("nowhere") == ()
    for call in (store.read, store.head, lambda path: store.read_range(path, 0, 1)):
        with pytest.raises(MissingObjectError) as caught:
            call("no/such")
        assert caught.value.where == store.uri_of("no/such")
        assert isinstance(caught.value, StorageError | FileNotFoundError)


def test_read_range(store: Store) -> None:
    store.put_if_absent("a", b"0123456789")
    for start in range(12):
        for end in range(start, 13):
            assert store.read_range("a", start, end) == b"0123456789"[start:end]
    for start, end in ((-1, 2), (3, 2)):
        with pytest.raises(StorageError, match="expected a range"):
            store.read_range("a", start, end)


def test_limit(store: Store) -> None:
    store.put_if_absent("a", b"0123456789")
    assert store.read("a", limit=10) == b"0123456789"
    with pytest.raises(TooLargeError, match="expected at most 9 bytes, found 10"):
        store.read("a", limit=9)
    assert [type(got) for _, got in store.read_many(["a", "a"], limit=9)] == [TooLargeError] * 2


def test_put_never_overwrites(store: Store) -> None:
    store.put_if_absent("a/b", b"first")
    for data in (b"second", b"first", b""):
        with pytest.raises(ObjectExistsError) as caught:
            store.put_if_absent("a/b", data)
        assert caught.value.where == store.uri_of("a/b")
    assert store.read("a/b") == b"first"
    assert paths_of(store) == ["a/b"]


def test_an_exchange_takes_the_place_of_known_bytes_only(store: Store) -> None:
    with pytest.raises(ChangedError, match="found it gone or with other bytes"):
        store.exchange("a/b", b"first", b"second")
    assert paths_of(store) == []
    store.put_if_absent("a/b", b"first")
    store.exchange("a/b", b"first", b"second")
    store.exchange("a/b", b"first", b"second")
    with pytest.raises(ChangedError, match="found it gone or with other bytes"):
        store.exchange("a/b", b"first", b"third")
    assert store.read("a/b") == b"second"
    assert paths_of(store) == ["a/b"]


def test_read_many_keeps_order_and_tells_errors(store: Store) -> None:
    for n in range(40):
        store.put_if_absent(f"d/{n}", str(n).encode())
    asked = [f"d/{n}" for n in range(39, -1, -1)]
    asked[7:7] = ["d/none", "../out", "d/3"]
    got = list(store.read_many(asked))
    assert [path for path, _ in got] == asked
    for path, answer in got:
        if path == "d/none":
            assert isinstance(answer, MissingObjectError)
        elif path == "../out":
            assert isinstance(answer, BadNameError)
        else:
            assert answer == path.removeprefix("d/").encode()
    assert list(store.read_many([])) == []


def test_read_many_reads_little_ahead(store: Store) -> None:
    asked = [f"d/{n}" for n in range(200)]
    store.put_if_absent("d/0", b"0")
    calls: Counter[str] = Counter()
    watched = store.watched(lambda operation, _: calls.update([operation]))
    answers = watched.read_many(asked)
    assert next(answers) == ("d/0", b"0")
    assert calls["read"] <= 2 * store.concurrency
    getattr(answers, "close")()  # noqa: B009 - an Iterator by type, a generator in fact
    assert calls["read"] <= 2 * store.concurrency


def test_remove(store: Store) -> None:
    for name in ("a", "d/b", "d/c"):
        store.put_if_absent(name, b"")
    store.remove(["d/b", "gone", "no/such/folder", "a"])
    assert paths_of(store) == ["d/c"]
    store.remove([])
    store.remove(["d/b"])
    assert paths_of(store) == ["d/c"]


def test_remove_folder(store: Store) -> None:
    for name in ("f/a", "f/deep/er/b", "f/deep/c", "fg/d"):
        store.put_if_absent(name, b"x")
    store.remove_folder("f")
    assert paths_of(store) == ["fg/d"]
    assert store.list_dir().folders == ("fg",)
    store.remove_folder("f")


def test_duplicate(store: Store) -> None:
    store.put_if_absent("a", b"data")
    Transfer(store, store).files({"a": "q/deep/a"})
    assert paths_of(store) == ["a", "q/deep/a"]
    assert store.read("q/deep/a") == b"data"
    with pytest.raises(MissingObjectError):
        Transfer(store, store).files({"never-was": "elsewhere"})


def test_hook_sees_every_operation(store: Store) -> None:
    steps: list[tuple[str, str]] = []
    watched = store.watched(lambda *step: steps.append(step))
    store.put_if_absent("c/there", b"")
    watched.put_if_absent("a", b"1")
    watched.list_dir()
    watched.list_prefix()
    watched.head("a")
    watched.read("a")
    watched.read_range("a", 0, 1)
    Transfer(watched, watched).files({"a": "b"})
    watched.remove(["a"])
    watched.child("c").put_if_absent("d", b"")
    with pytest.raises(MissingObjectError):
        watched.read("none")
    expected = [("put", "a"), ("list", ""), ("list", ""), ("head", "a"), ("read", "a")]
    expected += [("read", "a"), ("copy", "a"), ("remove", "a"), ("put", "d")]
    doubled = [step for op, path in expected for step in ((op, path), (f"{op}.done", path))]
    assert steps == [*doubled, ("read", "none")]


def test_child_and_discovery(store: Store) -> None:
    for name in ("one", "group/two"):
        store.put_if_absent(f"{name}/__schema/s", name.encode())
    assert store.list_dir().folders == ("group", "one")
    assert store.child("group").list_dir().folders == ("two",)
    assert store.child("group").child("two").read("__schema/s") == b"group/two"
    assert store.child("group/two").uri == f"{store.uri}/group/two"
    assert store.exists()
    assert not store.child("three").exists()
    with pytest.raises(ArrayNotFoundError) as caught:
        store.child("three").list_dir()
    assert caught.value.where == f"{store.uri}/three"


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: ascii(path)[:30])
def test_hostile_paths(store: Store, path: str) -> None:
    def refuse(operation: str, _: str) -> None:
        reached.append(operation)

    reached: list[str] = []
    if store.place.scheme == "file":
        Path(store.uri, "fine").write_bytes(b"fine")
        (Path(store.uri).parent / "x").write_bytes(b"outside")
    for name, call in operations(store.watched(refuse)).items():
        if not path and name.startswith("list"):
            continue
        with pytest.raises(BadNameError) as caught:
            call(path)
        assert ascii(path)[:200] in str(caught.value)
        str(caught.value).encode()
    assert not any(operation.endswith(".done") for operation in reached)
    if store.place.scheme == "file":
        assert Path(store.uri, "fine").read_bytes() == b"fine"
        assert (Path(store.uri).parent / "x").read_bytes() == b"outside"
        assert names_in(Path(store.uri).parent) == ["array", "x"]


def test_one_of_many_threads_wins(store: Store) -> None:
    def put(rival: int) -> bool:
        try:
            store.put_if_absent("race/a", bytes([rival]) * 1000)
        except ObjectExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            won = list(pool.map(put, range(8)))
            assert won.count(True) == 1
            assert store.read("race/a") == bytes([won.index(True)]) * 1000
            store.remove(["race/a"])
    store.put_if_absent("last", b"")
    assert store.list_dir().strangers == ()


RIVAL = """
import pickle, sys
from chronotile.storage.store import ObjectExistsError
store, rival, rounds = pickle.loads(bytes.fromhex(sys.stdin.readline()))
for n in range(rounds):
    try:
        store.put_if_absent(f"race/{n}", bytes([rival]) * 1000)
        print(n)
    except ObjectExistsError:
        pass
"""


@pytest.mark.parametrize("store", ["disk", "s3"], indirect=True)
def test_one_of_many_processes_wins(store: Store) -> None:
    rounds, command = 30, [sys.executable, "-c", RIVAL]

    def run(rival: int) -> set[int]:
        told = pickle.dumps((store, rival, rounds)).hex().encode()
        ran = subprocess.run(command, input=told, capture_output=True, check=True, timeout=60)
        return {int(line) for line in ran.stdout.split()}

    with ThreadPoolExecutor(3) as pool:
        won = list(pool.map(run, range(3)))
    for n in range(rounds):
        winners = [rival for rival in range(3) if n in won[rival]]
        assert len(winners) == 1
        assert store.read(f"race/{n}") == bytes(winners) * 1000


@pytest.mark.parametrize("store", ["disk", "s3"], indirect=True)
def test_pickled_store_works_elsewhere(store: Store) -> None:
    store.put_if_absent("a", b"data")
    sent = pickle.dumps(store.watched(lambda *_: None))
    assert pickle.loads(sent) == store
    assert pickle.loads(sent).on_operation is None
    code = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).read('a'))"
    ran = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert ran.stdout == b"b'data'\n"


def test_memory_is_shared_by_name() -> None:
    name = uuid.uuid4().hex
    open_store(f"memory:{name}").put_if_absent("a/b", b"1")
    assert open_store(f"memory://{name}/a").read("b") == b"1"
    assert not open_store(f"memory:{name}x").list_prefix()


def test_errors_can_be_pickled(disk: Store) -> None:
    with pytest.raises(MissingObjectError) as caught:
        disk.read("a")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (MissingObjectError, str(caught.value))


def test_secrets_are_not_shown() -> None:
    secrets = {"access_key_id": "AKHUSH1", "secret_access_key": "HUSH2", "token": "HUSH3"}
    options = {**secrets, "endpoint": "http://127.0.0.1:9/HUSH2", "region": "us-east-1"}
    store = open_store("s3://lake/a", options)
    shown = [repr(store), str(store), repr(store.child("b"))]
    for call in (store.list_dir, lambda: store.read("a"), lambda: store.put_if_absent("a", b"")):
        with pytest.raises(StorageError) as caught:
            call()
        shown += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
    assert not [text for text in shown if "HUSH" in text]


# Disk


def test_missing_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for root in (tmp_path / "none", tmp_path / "file"):
        for name, call in operations(open_store(root)).items():
            if name not in {"child", "list_dir"}:
                with pytest.raises(ArrayNotFoundError):
                    call("a")
        with pytest.raises(ArrayNotFoundError):
            open_store(root).list_dir()
    assert names_in(tmp_path) == ["file"]


def test_links_are_strangers_and_never_followed(disk: Store, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", Path(disk.uri)
    (outside / "sub").mkdir(parents=True)
    (outside / "secret").write_bytes(b"secret")
    (root / "real").mkdir()
    (root / "real" / "file").write_bytes(b"inside")
    (root / "to_file").symlink_to(outside / "secret")
    (root / "to_folder").symlink_to(outside)
    (root / "to_inside").symlink_to(root / "real")
    (root / "dangling").symlink_to(outside / "new")
    (root / "real" / "up").symlink_to("..")
    found = disk.list_dir()
    assert (found.files, found.folders) == ((), ("real",))
    assert [s.path for s in found.strangers] == ["dangling", "to_file", "to_folder", "to_inside"]
    assert {s.what for s in found.strangers} == {"a symbolic link, which is never followed"}
    assert [entry.path for entry in disk.list_prefix()] == ["real/file"]
    for path, link in (
        ("to_file", "to_file"),
        ("to_folder/secret", "to_folder"),
        ("to_inside/file", "to_inside"),
        ("dangling", "dangling"),
        ("real/up/real/file", "real/up"),
    ):
        for name, call in operations(disk).items():
            if name not in {"list_dir", "list_prefix", "remove_folder", "child", "duplicate to"}:
                with pytest.raises(StorageError) as caught:
                    call(path)
                assert caught.value.where == disk.uri_of(link)
    for path in ("to_folder", "to_inside", "real/up", "to_folder/sub"):
        for name in ("list_dir", "list_prefix", "remove_folder", "child"):
            with pytest.raises(StorageError, match="symbolic link"):
                operations(disk)[name](path)
    with pytest.raises(StorageError, match="symbolic link"):
        Transfer(disk, disk).files({"real/file": "to_folder/file"})
    with pytest.raises(StorageError, match="symbolic link"):
        disk.remove_folder("real")
    assert (root / "real" / "file").read_bytes() == b"inside"
    assert names_in(outside) == ["secret", "sub"]
    assert len(names_in(root)) == 5


def test_root_may_be_a_link(disk: Store, tmp_path: Path) -> None:
    disk.put_if_absent("a", b"1")
    (tmp_path / "link").symlink_to(disk.uri)
    assert open_store(tmp_path / "link").read("a") == b"1"


def test_other_strangers(disk: Store) -> None:
    os.mkfifo(Path(disk.uri, "pipe"))
    Path(disk.uri, "back\\slash").write_bytes(b"")
    Path(disk.uri, "new\nline").write_bytes(b"")
    Path(os.fsdecode(os.fsencode(disk.uri) + b"/latin-\xe9")).write_bytes(b"")
    assert [stranger.path for stranger in disk.list_dir().strangers] == [
        *("back\\slash", "latin-\\udce9", "new\\nline", "pipe"),
    ]
    with pytest.raises(StorageError, match="neither a file nor a folder"):
        disk.read("pipe")
    Path(disk.uri, "folder").mkdir()
    with pytest.raises(StorageError, match="found a folder"):
        disk.remove(["folder"])
    disk.put_if_absent("file", b"")
    with pytest.raises(StorageError, match="found a file"):
        disk.list_dir("file")


def test_empty_folders_exist_on_a_disk(disk: Store) -> None:
    Path(disk.uri, "__commits").mkdir()
    assert disk.list_dir().folders == ("__commits",)
    assert disk.list_dir("__commits") == ((), (), ())
    disk.remove_folder("__commits")
    assert disk.list_dir().folders == ()


def test_huge_file_takes_no_memory(disk: Store) -> None:
    with Path(disk.uri, "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLargeError):
        disk.read("huge")
    assert disk.read_range("huge", (1 << 40) - 2, 1 << 41) == b"\0\0"


def test_long_listing(disk: Store) -> None:
    folder = Path(disk.uri, "__commits")
    folder.mkdir()
    names = [f"__{n}_{n}_{n:032x}_22.wrt" for n in range(5000)]
    for name in names:
        (folder / name).touch()
    plain = disk.list_dir("__commits").files
    assert plain == tuple(Entry(f"__commits/{name}") for name in sorted(names))
    assert [e.path for e in disk.list_dir("__commits", sizes=True).files] == [e.path for e in plain]
    assert [entry[:2] for entry in disk.list_prefix()] == [(entry.path, 0) for entry in plain]


@pytest.mark.parametrize(
    ("event", "way"), [("os.link", "unnamed"), ("os.link", "named"), ("os.remove", "named")]
)
def test_killed_inside_a_put(disk: Store, event: str, way: str) -> None:
    code = (
        "import os, sys; from chronotile.storage.store import open_store\n"
        "from chronotile.storage import disk_files\n"
        "disk_files._TMPFILE *= sys.argv[3] == 'unnamed'\n"
        "store = open_store(sys.argv[1])\n"
        "sys.addaudithook(lambda event, _: os._exit(9) if event == sys.argv[2] else None)\n"
        "store.put_if_absent('__meta/a', b'data' * 1000)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, disk.uri, event, way], check=False)
    assert ran.returncode == 9
    whole = event == "os.remove"
    assert paths_of(disk) == (["__meta/a"] if whole else [])
    left = [] if way == "unnamed" else ["left by an interrupted write"]
    assert [stranger.what for stranger in disk.list_dir().strangers] == left
    if whole:
        assert disk.read("__meta/a") == b"data" * 1000
    else:
        disk.put_if_absent("__meta/a", b"other")
        assert disk.read("__meta/a") == b"other"


def test_a_put_on_a_mount_without_links(disk: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("chronotile.storage.disk_files._TMPFILE", 0)
    monkeypatch.setattr(os, "link", refuse)
    disk.put_if_absent("__meta/a", b"1")
    with pytest.raises(ObjectExistsError):
        disk.put_if_absent("__meta/a", b"2")
    assert (disk.read("__meta/a"), paths_of(disk)) == (b"1", ["__meta/a"])
    assert not disk.list_dir().strangers


def test_failed_put_leaves_nothing(disk: Store) -> None:
    disk.put_if_absent("a", b"1")
    with pytest.raises(ObjectExistsError):
        disk.put_if_absent("a", b"2")
    with pytest.raises(StorageError):
        disk.put_if_absent("a/below-a-file", b"2")
    with pytest.raises(StorageError, match="too long"):
        disk.put_if_absent("x" * 300, b"2")
    assert names_in(disk.uri) == ["a"]


# Puts that are read back


def test_put_compared_never_overwrites(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_compared(store, "a", b"1")
    with pytest.raises(ObjectExistsError):
        put_compared(store, "a", b"2")
    assert store.read("a") == b"1"


def test_put_compared_notices_what_was_not_written(tmp_path: Path) -> None:
    def spoil(operation: str, path: str) -> None:
        if operation == "put.done":
            (tmp_path / path).write_bytes(b"other")

    with pytest.raises(ChronotileError, match="just written"):
        put_compared(open_store(tmp_path, on_operation=spoil), "a", b"first")


def test_put_compared_notices_that_its_object_is_gone(tmp_path: Path) -> None:
    def take(operation: str, path: str) -> None:
        if operation == "put.done":
            (tmp_path / path).unlink()

    with pytest.raises(ChangedError, match="found it gone"):
        put_compared(open_store(tmp_path, on_operation=take), "a", b"first")


# S3


def test_environment_is_enough(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    store = open_store(f"{bucket}/a")
    store.put_if_absent("b", b"1")
    assert open_store(bucket).list_prefix()[0].path == "a/b"


def test_missing_bucket_and_unknown_option(s3: S3Server, bucket: str) -> None:
    store = open_store("s3://no-such-bucket/a", s3.options)
    calls = (store.list_dir, store.list_prefix, lambda: store.put_if_absent("a", b""))
    for call in calls:
        with pytest.raises(ArrayNotFoundError):
            call()
    with pytest.raises(StorageError, match="nonsense"):
        open_store(bucket, s3.options | {"nonsense": "1"}).list_dir()
    assert open_store(bucket, s3.options).list_dir() == ((), (), ())


@pytest.mark.parametrize("used_before", [False, True])
def test_forked_process_reads_or_says_why_not(s3: S3Server, bucket: str, used_before: bool) -> None:
    store = open_store(f"{bucket}/array", s3.options)
    store.put_if_absent("a", b"data")
    code = (
        "import os, pickle, sys; store = pickle.loads(sys.stdin.buffer.read())\n"
        "if sys.argv[1] == 'True': store.read('a')\n"
        "if os.fork(): sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "try: print(store.read('a'))\n"
        "except OSError as error: print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(used_before)],
        input=pickle.dumps(store),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert ("found a fork" if used_before else "b'data'") in ran.stdout.decode()


def test_folder_markers_are_no_objects(s3: S3Server, bucket: str) -> None:
    name = bucket.removeprefix("s3://")
    for key in ("array/", "array/__commits/", "array/__commits/a.wrt"):
        s3.send("PUT", f"{name}/{key}")
    store = open_store(f"{bucket}/array", s3.options)
    assert store.list_dir().folders == ("__commits",)
    assert store.list_dir().files == ()
    assert [entry.path for entry in store.list_dir("__commits").files] == ["__commits/a.wrt"]
    assert paths_of(store) == ["__commits/a.wrt"]


def test_key_that_is_no_path_is_a_clear_error(s3: S3Server, bucket: str) -> None:
    s3.send("PUT", f"{bucket.removeprefix('s3://')}/array//x")
    with pytest.raises(StorageError, match="empty path segment") as caught:
        open_store(f"{bucket}/array", s3.options).list_dir()
    assert caught.value.where == f"{bucket}/array"


def test_more_than_a_page(s3: S3Server, bucket: str) -> None:
    store = open_store(f"{bucket}/array", s3.options)
    names = sorted(f"__commits/{n}" for n in range(1005))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put_if_absent(name, b""), names))
    assert [entry.path for entry in store.list_dir("__commits").files] == names
    assert paths_of(store) == names
    store.remove(names)
    assert store.list_prefix() == ()


# Faults


def served(proxy: FaultProxy, bucket: str) -> Store:
    return open_store(f"{bucket}/array", proxy.options)


@pytest.mark.parametrize("fault", FAULTS)
def test_reads_survive_each_fault(proxy: FaultProxy, bucket: str, fault: Fault) -> None:
    store, data = served(proxy, bucket), bytes(range(256)) * 400
    store.put_if_absent("d/a", data)
    for call, wanted in (
        (lambda: store.read("d/a"), data),
        (lambda: store.read_range("d/a", 10, 5000), data[10:5000]),
        (lambda: paths_of(store), ["d/a"]),
        (lambda: store.list_dir("d").files[0].size, len(data)),
    ):
        proxy.seen.clear()
        proxy.plan = scripted_plan("GET", fault, fault)
        assert call() == wanted
        assert [seen for _, _, seen in proxy.seen].count(fault) >= 1


@pytest.mark.parametrize("fault", FAULTS)
def test_put_knows_its_own_object(proxy: FaultProxy, bucket: str, fault: Fault) -> None:
    store = served(proxy, bucket)
    proxy.plan = scripted_plan("PUT", fault, fault)
    store.put_if_absent("a", b"mine")
    assert store.read("a") == b"mine"
    proxy.plan = scripted_plan("PUT", fault)
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("a", b"yours")
    assert store.read("a") == b"mine"


@pytest.mark.parametrize("fault", FAULTS)
def test_an_exchange_knows_its_own_bytes(proxy: FaultProxy, bucket: str, fault: Fault) -> None:
    store = served(proxy, bucket)
    store.put_if_absent("a", b"old")
    proxy.plan = scripted_plan("PUT", fault, fault)
    store.exchange("a", b"old", b"new")
    assert store.read("a") == b"new"


@pytest.mark.parametrize("fault", ["drop", "reset", "500", "503", "cut"])
def test_lasting_fault_is_a_clear_error(proxy: FaultProxy, bucket: str, fault: Fault) -> None:
    store = served(proxy, bucket)
    store.put_if_absent("a", b"data")
    proxy.plan = lambda *_: fault
    for call in (lambda: store.read("a"), store.list_dir, lambda: store.list_prefix()):
        proxy.seen.clear()
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.where.startswith(f"{bucket}/array")
        assert not isinstance(caught.value, MissingObjectError)
    if fault != "cut":
        with pytest.raises(StorageError, match="may have been written"):
            store.put_if_absent("b", b"data")


@pytest.mark.parametrize("fault", ["drop", "reset", "500", "503", "429", "cut"])
def test_an_outage_costs_few_requests(proxy: FaultProxy, bucket: str, fault: Fault) -> None:
    """One layer repeats a request: the client; or, if a list breaks off, this package.

    A put asks once more, to know whose object is there.
    """
    store = served(proxy, bucket)
    store.put_if_absent("a", b"data")
    proxy.plan = lambda *_: fault
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "read": (lambda: store.read("a"), bucket_module.ATTEMPTS),
        "head": (lambda: store.head("a"), bucket_module.ATTEMPTS),
        "list_dir": (store.list_dir, bucket_module.ATTEMPTS),
        "list_prefix": (store.list_prefix, bucket_module.ATTEMPTS),
        "remove": (lambda: store.remove(["a", "b"]), bucket_module.ATTEMPTS),
        "exchange": (lambda: store.exchange("a", b"data", b"new"), bucket_module.ATTEMPTS),
        "put": (lambda: store.put_if_absent("b", b"data"), bucket_module.ATTEMPTS + 1),
    }
    if fault == "cut":  # an answer without a body that counts, or one that nobody repeats
        calls = {name: calls[name] for name in ("read", "list_dir", "list_prefix")}
    for name, (call, most) in calls.items():
        proxy.seen.clear()
        with pytest.raises(StorageError):
            call()
        assert len(proxy.seen) == most, name


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except ChronotileError as error:
        return error


@pytest.mark.parametrize("seed", range(8))
def test_random_faults_never_give_a_wrong_answer(
    s3: S3Server, proxy: FaultProxy, bucket: str, seed: int
) -> None:
    sure, store = open_store(f"{bucket}/array", s3.options), served(proxy, bucket)
    truth = {f"d/{n}": bytes([n, seed]) * (n * 37) for n in range(12)}
    for path, data in truth.items():
        sure.put_if_absent(path, data)
    proxy.plan = random_plan(seed, rate=0.2 + 0.08 * seed)
    right = 0
    for _ in range(3):
        for path, got in store.read_many([*truth, "d/none"]):
            if path == "d/none":
                assert type(got) in {StorageError, MissingObjectError}
            else:
                assert type(got) is StorageError or got == truth[path]
                right += isinstance(got, bytes)
        listed = outcome(lambda: paths_of(store))
        assert type(listed) is StorageError or listed == sorted(truth)
    assert right
    for n in range(6):
        path = f"new/{n}"
        put = outcome(partial(store.put_if_absent, path, b"new"))
        if put is None:
            assert sure.read(path) == b"new"
        else:
            assert type(put) is StorageError
            assert "may have been written" in str(put)
        removed = outcome(partial(store.remove, [path]))
        if removed is None:
            assert path not in paths_of(sure)
        else:
            assert type(removed) is StorageError
    assert dict(sure.read_many(truth)) == truth


@pytest.mark.parametrize("size", [0, 1, (1 << 22) - 1, 1 << 22, (9 << 20) + 7, 70 << 20])
def test_a_file_of_any_size_is_viewed_whole(tmp_path: Path, size: int) -> None:
    """From 4 MiB on several threads read it, into one room."""
    data = random.Random(size).randbytes(size)
    (tmp_path / "a").write_bytes(data)
    ((_, view),) = open_store(tmp_path).view_many(["a"])
    assert isinstance(view, memoryview)
    assert view.readonly
    assert bytes(view) == data
    ((_, refused),) = open_store(tmp_path).view_many(["a"], limit=size - 1)
    assert isinstance(refused, TooLargeError)


@pytest.mark.parametrize("more", [-1, 0, 1, 1 << 21, -(1 << 21)])
def test_a_file_that_has_another_size_by_now_does_not_fill_its_room(
    tmp_path: Path, more: int
) -> None:
    size = 5 << 20
    (tmp_path / "a").write_bytes(bytes(size))
    with (tmp_path / "a").open("rb") as file:
        assert _is_filled(memoryview(bytearray(size + more)), file.fileno()) is (more == 0)
