"""What consolidated fragment metadata saves: requests of an engine's open, and time to make it.

In: a folder, and how to tell a figure. Out: the figures. The bucket is a real S3 server's; the
engine opens through a proxy that counts.
"""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import tiledb
from bench.bench_facts import FIRST_MS, SETTLED
from support.engine_arrays import s3_settings
from support.servers import FaultProxy, S3Server, s3_server

import chronotile as ct
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IN_BUCKET = 1_000
ON_DISK = 2_000
_METADATA = "__fragment_metadata.tdb"


def many_fragments(path: Path, count: int) -> Path:
    """An array of many fragments: one that the engine wrote, under many names."""
    dimension = tiledb.Dim("d", domain=(0, 999), tile=1000, dtype=np.int32)
    attribute = tiledb.Attr("a", dtype=np.int32)
    schema = tiledb.ArraySchema(tiledb.Domain(dimension), attrs=[attribute], sparse=True)
    tiledb.Array.create(str(path), schema)
    with tiledb.open(str(path), "w", timestamp=FIRST_MS + 1) as array:
        array[np.arange(10, dtype=np.int32)] = np.arange(10, dtype=np.int32)
    (fragment,) = (path / "__fragments").iterdir()
    (commit,) = (path / "__commits").iterdir()
    files = {file.name: file.read_bytes() for file in fragment.iterdir()}
    for number in range(2, count + 1):
        when = FIRST_MS + number
        name = f"__{when}_{when}_{number:032x}_22"
        folder = fragment.with_name(name)
        folder.mkdir()
        for file, data in files.items():
            (folder / file).write_bytes(data)
        commit.with_name(f"{name}.wrt").touch()
    return path


def requests(folder: Path, say: Callable[..., None]) -> None:
    """Requests of an engine's open before and after, as the server gets them."""
    source = many_fragments(folder / "for-a-bucket", IN_BUCKET)
    with s3_server() as server, FaultProxy(server.endpoint) as proxy:
        uri = f"{server.make_bucket('bench')}/array"
        store = open_store(uri, server.options)
        # An open reads no cell: the files of cells need not be there.
        wanted = [p for p in source.rglob("*") if p.is_file()]
        wanted = [p for p in wanted if p.parent.parent.name != "__fragments" or p.name == _METADATA]
        with ThreadPoolExecutor(8) as pool:
            relative = [(p.relative_to(source).as_posix(), p.read_bytes()) for p in wanted]
            list(pool.map(lambda pair: store.put_if_absent(*pair), relative))

        def opened() -> int:
            proxy.seen.clear()
            settings = s3_settings(S3Server(proxy.endpoint))
            tiledb.open(uri, ctx=tiledb.Ctx(settings)).close()
            return len(proxy.seen)

        before = opened()
        report = ct.consolidate(uri, mode="fragment-meta", storage_options=server.options)
        after = opened()
        assert report.engine_open_requests == (before, after)
    say(
        f"requests of an open of {IN_BUCKET:,} fragments",
        "a twentieth after consolidate",
        before=before,
        after=after,
        times=before / after,
    )


def making(folder: Path, rounds: int, say: Callable[..., None]) -> None:
    """The time to make a `.meta`, against the engine."""
    path = many_fragments(folder / "for-a-disk", ON_DISK)
    mode = tiledb.Config({"sm.consolidation.mode": "fragment_meta"})
    works: tuple[Callable[[], object], ...] = (
        lambda: ct.consolidate(str(path), mode="fragment-meta"),
        lambda: tiledb.consolidate(str(path), config=mode),
    )
    time.sleep(SETTLED)
    best = [float("inf"), float("inf")]
    for _ in range(5 * rounds):
        for at, work in enumerate(works):
            gc.collect()
            begin = time.perf_counter()
            work()
            best[at] = min(best[at], time.perf_counter() - begin)
            (made,) = (path / "__fragment_meta").iterdir()
            made.unlink()
    say(
        f"write a .meta of {ON_DISK:,} fragments",
        "2 times the engine",
        ours_s=best[0],
        engine_s=best[1],
        times=best[1] / best[0],
    )
