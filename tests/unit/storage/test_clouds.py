"""Azure's and Google's storage, by servers on loopback: a store's promises, a round of commands.

Google's server is there if `CHRONOTILE_GCS` names its program, as in `make gcs`.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import CASES
from support.google_server import GoogleServer, google_server
from support.servers import AzureServer, azure_server

import chronotile as ct
from chronotile.cli import main
from chronotile.errors import ChangedError
from chronotile.storage.store import MissingObjectError, ObjectExistsError, Store, open_store
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = bytes(range(256)) * (9 << 12)
"""More than one part of a file."""


GOOGLE = os.environ.get("CHRONOTILE_GCS")


@pytest.fixture(scope="module", params=["azure", "google"] if GOOGLE else ["azure"])
def server(request: pytest.FixtureRequest) -> Iterator[AzureServer | GoogleServer]:
    starts = azure_server() if request.param == "azure" else google_server(Path(GOOGLE or ""))
    with starts as started:
        yield started


@pytest.fixture
def container(server: AzureServer | GoogleServer) -> str:
    return server.make_bucket(f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def store(server: AzureServer | GoogleServer, container: str) -> Store:
    return open_store(f"{container}/array", server.options)


def test_an_object_is_put_once(store: Store) -> None:
    store.put_if_absent("a", b"1")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("a", b"2")
    assert store.read("a") == b"1"
    store.exchange("a", b"1", b"22")
    with pytest.raises(ChangedError):
        store.exchange("a", b"1", b"3")
    assert store.read_range("a", 1, 9) == b"2"


def test_objects_are_removed_and_missing_ones_are_no_error(store: Store) -> None:
    for name in ("a", "b", "c/d"):
        store.put_if_absent(name, b"")
    store.remove(["a", "never-was", "b"])
    assert [entry.path for entry in store.list_prefix()] == ["c/d"]
    store.remove(["a", "c/d"])
    assert not store.exists()
    with pytest.raises(MissingObjectError):
        store.read("a")


def test_lists_have_pages(store: Store) -> None:
    page = 5000 if store.place.scheme == "az" else 1000
    names = [f"{number:05}" for number in range(page + 3)]
    Transfer(_made(names), store, "copy").files({name: f"many/{name}" for name in names})
    assert [entry.path for entry in store.list_prefix("many")] == [f"many/{n}" for n in names]
    assert len(store.list_dir("many").files) == len(names)


def _made(names: list[str]) -> Store:
    made = open_store(f"memory:{uuid.uuid4().hex}")
    for name in names:
        made.put_if_absent(name, name.encode())
    return made


def test_copies_inside_of_it_and_large_objects(store: Store, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(LARGE)
    there = open_store(tmp_path)
    taken = Transfer(there, store, "copy").files({"large": "x"}, {"x": len(LARGE)})
    assert set(taken) == {"x"}
    assert store.read("x") == LARGE
    Transfer(store, store).files({"x": "y"})
    assert store.head("y").size == len(LARGE)
    Transfer(store, there, "copy").files({"y": "back"})
    assert (tmp_path / "back").read_bytes() == LARGE


def test_a_round_of_commands(
    server: AzureServer | GoogleServer,
    container: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = CASES["sparse-everything-v22"].copy_to(tmp_path)
    uri, storage = f"{container}/array", [f"--storage={n}={v}" for n, v in server.options.items()]
    given = [f"--target-{one[2:]}" for one in storage]
    assert main(["replicate", source, uri, *given]) == 0
    assert main(["replicate", source, uri, *given, "--check"]) == 0
    assert main(["replicate", uri, str(tmp_path / "back"), *storage]) == 0
    for words in (["log"], ["visible"], ["fragments"], ["usage"], ["operations"]):
        assert main([*words, uri, *storage]) == 0, words
    assert main(["check", uri, *storage, "--fail-on", "error"]) in (0, 1)
    clone = f"{container}/clone"
    assert main(["clone", uri, clone, *storage]) == 0
    for words in (
        ["delete", clone, "--where", "a == 1", "--allow-null-loss", "--allow-older-loss"],
        ["consolidate", clone],
        ["undo", clone],
        ["vacuum", clone, "--dry-run"],
    ):
        assert main([*words, *storage]) == 0, (words, capsys.readouterr().err)
    views = [ct.open_log(one, storage_options=server.options).view() for one in (source, uri)]
    names = [[fragment.name for fragment in view.fragments] for view in views]
    assert names[0] == names[1]
