"""Fragments merged aside: the engine's own answers are the same with the merged one in place."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.engine_arrays import EngineArray, s3_settings

from chronotile.check.deep import DeepCheck
from chronotile.history.read_history import read_history
from chronotile.rows.merge_aside import (
    EngineDiedError,
    Merged,
    NoMemoryError,
    NothingLeftError,
    WrongMergeError,
    merge_aside,
)
from chronotile.storage.store import Store, open_store
from chronotile.storage.transfer import ScratchFolder
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.servers import S3Server

KEY = "0123456789abcdef0123456789abcdef"
MEMORY = 1 << 30


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[ScratchFolder]:
    with ScratchFolder(str(tmp_path)) as folder:
        yield folder


def filled(array: EngineArray, *, sparse: bool = True, duplicates: bool = False) -> EngineArray:
    text = tiledb.Attr("s", dtype=str, var=True, nullable=True)
    number = tiledb.Attr("a", dtype=np.int32)
    attrs = [number, text] if sparse else [number]
    array.create(sparse=sparse, attrs=attrs, duplicates=duplicates)
    rng = np.random.default_rng(7)
    for at in range(10, 70, 10):
        xs = np.unique(rng.integers(0, 60, 20)).tolist()
        if sparse:
            texts = np.array([f"text {x}" if x % 3 else "" for x in xs], object)
            columns = {"a": rng.integers(0, 99, len(xs)).astype(np.int32), "s": texts}
            array.write_columns(at, xs, columns)
        else:
            array.write(at, {x: int(rng.integers(0, 99)) for x in range(at // 2, at // 2 + 9)})
    return array


def merge(store: Store, scratch: ScratchFolder, **more: Any) -> Merged:
    history = read_history(store, key=more.pop("key", None))
    rules, table = Rules(history), history.table
    names = [table.name(row) for row in rules.visible(0, 1 << 60)[0].tolist()]
    handed = {table.uri(row).rpartition("/")[2]: table.tile(row)[0] for row in rules.delete_rows}
    deletes = {name: bytes(tile) for name, tile in handed.items()} if more.get("purge") else {}
    options: dict[str, Any] = {"memory": MEMORY, "deletes": deletes} | more
    return merge_aside(store, history, names, scratch, **options)


def every_cell(uri: str, ctx: tiledb.Ctx, end: int = 1 << 60) -> list[tuple[object, ...]]:
    with tiledb.open(uri, timestamp=end, ctx=ctx) as opened:
        found = opened[:]
        names = sorted(found) if isinstance(found, dict) else []
        columns = [found[name].tolist() for name in names] if names else [found.tolist()]
        return sorted(zip(*columns, strict=True), key=repr)


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("kind", ["sparse", "duplicates", "dense"])
def test_the_scratch_array_reads_as_the_array(
    kind: str, key: str | None, tmp_path: Path, scratch: ScratchFolder
) -> None:
    array = filled(
        EngineArray(tmp_path / "array", key=key),
        sparse=kind != "dense",
        duplicates=kind == "duplicates",
    )
    before = every_cell(array.uri, array.ctx)
    files = sorted(str(path) for path in Path(array.uri).rglob("*"))
    merged = merge(open_store(array.uri), scratch, key=key.encode() if key else None)
    assert (merged.t1, merged.t2, merged.applied) == (10, 60, ())
    assert every_cell(merged.store.uri, array.ctx) == before
    assert merged.cells == merged.source_cells or kind == "dense"
    assert sorted(str(path) for path in Path(array.uri).rglob("*")) == files


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_delete_that_a_source_has_applied_stays_applied(
    duplicates: bool, tmp_path: Path, scratch: ScratchFolder
) -> None:
    array = filled(EngineArray(tmp_path / "array"), duplicates=duplicates)
    array.delete(35, "a < 50")
    array.consolidate("fragments")
    array.vacuum("fragments")
    array.write_columns(100, [1], {"a": np.array([1], np.int32), "s": np.array(["x"], object)})
    windows = (10, 30, 34, 35, 60, 99, 100)
    before = {end: every_cell(array.uri, array.ctx, end) for end in windows}
    merged = merge(open_store(array.uri), scratch)
    assert len(merged.applied) == 1
    assert {end: every_cell(merged.store.uri, array.ctx, end) for end in windows} == before


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_delete_that_is_gone_does_not_crash_the_merge(
    duplicates: bool, tmp_path: Path, scratch: ScratchFolder
) -> None:
    """F14: the engine would crash on the array itself."""
    array = filled(EngineArray(tmp_path / "array"), duplicates=duplicates)
    array.delete(35, "a < 50")
    array.consolidate("fragments")
    array.vacuum("fragments")
    (delete,) = (tmp_path / "array" / "__commits").glob("*.del")
    array.write_columns(100, [1], {"a": np.array([1], np.int32), "s": np.array(["x"], object)})
    delete.unlink()
    before = every_cell(array.uri, array.ctx)
    merged = merge(open_store(array.uri), scratch)
    assert merged.applied == (delete.stem,)
    # Where duplicates are allowed, the engine shows removed rows if the array has no delete at all.
    (Path(merged.store.uri) / "__commits" / delete.name).unlink()
    assert every_cell(merged.store.uri, array.ctx) == before


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_purge_takes_the_deleted_rows_out_of_the_past(
    duplicates: bool, tmp_path: Path, scratch: ScratchFolder
) -> None:
    array = filled(EngineArray(tmp_path / "array"), duplicates=duplicates)
    array.delete(65, "a < 50")
    before = every_cell(array.uri, array.ctx)
    merged = merge(open_store(array.uri), scratch, purge=True)
    assert merged.cells < merged.source_cells
    (Path(merged.store.uri) / "__commits" / f"{merged.applied[0]}.del").unlink()
    assert every_cell(merged.store.uri, array.ctx) == before
    earlier = every_cell(merged.store.uri, array.ctx, 60)
    assert earlier == before, "rows of before the delete are gone too"


def test_a_purge_of_every_row_says_so(tmp_path: Path, scratch: ScratchFolder) -> None:
    array = filled(EngineArray(tmp_path / "array"))
    array.delete(65, "a >= 0")
    with pytest.raises(NothingLeftError):
        merge(open_store(array.uri), scratch, purge=True)


def test_a_lone_fragment_is_purged_beside_a_companion(
    tmp_path: Path, scratch: ScratchFolder
) -> None:
    array = EngineArray(tmp_path / "array").create()
    shutil.copytree(array.uri, tmp_path / "other")
    array.write(10, {1: 1, 2: 2, 3: 3})
    EngineArray(tmp_path / "other").write(11, {1: 1})
    (folder,) = (tmp_path / "other" / "__fragments").iterdir()
    array.delete(20, "a == 1")
    extra = {folder.name: {path.name: path.read_bytes() for path in folder.iterdir()}}
    merged = merge(open_store(array.uri), scratch, purge=True, extra=extra)
    assert (merged.cells, merged.t1, merged.t2) == (2, 10, 10)


def test_too_little_memory_ends_the_process_and_nothing_else(
    tmp_path: Path, scratch: ScratchFolder
) -> None:
    array = filled(EngineArray(tmp_path / "array"))
    with pytest.raises(NoMemoryError, match="at most 60 MB"):
        merge(open_store(array.uri), scratch, memory=60 << 20)


def test_a_crash_of_the_engine_is_told(
    tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = filled(EngineArray(tmp_path / "array"))
    start = subprocess.Popen

    def killed(*arguments: Any, **more: Any) -> Any:
        process = start(*arguments, **more)
        os.kill(process.pid, signal.SIGSEGV)
        return process

    monkeypatch.setattr(subprocess, "Popen", killed)
    with pytest.raises(EngineDiedError, match="ended with status -11"):
        merge(open_store(array.uri), scratch)


LOSES = """
from chronotile.rows.engine import Engine
merge = Engine.consolidate
Engine.consolidate = lambda engine, names: merge(engine, names[:-1])
"""


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_merge_that_lost_cells_is_not_taken(
    kind: str, tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = filled(EngineArray(tmp_path / "array"), sparse=kind == "sparse")
    (tmp_path / "sitecustomize.py").write_text(LOSES)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(WrongMergeError, match="merged wrongly: expected"):
        merge(open_store(array.uri), scratch)


def test_a_merged_fragment_with_a_damaged_file_is_not_taken(
    tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = filled(EngineArray(tmp_path / "array"))
    check = DeepCheck.check

    def damaged(self: DeepCheck, path: str) -> Iterator[Any]:
        file = Path(self.store.uri) / path / "a0.tdb"
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        yield from check(self, path)

    monkeypatch.setattr(DeepCheck, "check", damaged)
    with pytest.raises(WrongMergeError, match="bad file"):
        merge(open_store(array.uri), scratch)


def test_fragments_of_a_bucket_are_merged_on_the_disk(s3: S3Server, scratch: ScratchFolder) -> None:
    place = f"{s3.make_bucket('merge-aside')}/array"
    array = filled(EngineArray(place, settings=s3_settings(s3)))
    before = every_cell(array.uri, array.ctx)
    merged = merge(open_store(place, s3.options), scratch)
    assert every_cell(merged.store.uri, array.ctx) == before
