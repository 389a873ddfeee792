"""Facts of many fragments, side by side with `tiledb.array_fragments`: a part of `make bench`.

The engine writes one fragment; the others are that folder again under other names, each with a
commit. On a disk both are timed in turns, more often than longer works: a round takes a tenth of a
second. In a bucket both are asked once: there requests decide, and the server's own log counts
them.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import tiledb
from support.servers import FaultProxy, s3_server

import chronotile as ct
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.servers import Fault, S3Server

FRAGMENTS = 2_000
IN_BUCKET = 300
FIRST_MS = 1_700_000_000_000
SETTLED = 3.5
"""Seconds after which an array is no longer being written: of a folder that changed just now a
disk's stamp tells nothing, and each file is opened with more care."""


def make_fragments(path: Path, count: int) -> None:
    """A sparse array of two attributes, with so many fragments of 25 cells."""
    dimension = tiledb.Dim("d", domain=(0, 999_999), tile=100, dtype=np.int64)
    attributes = [tiledb.Attr("a", dtype=np.int64), tiledb.Attr("s", dtype="U0", var=True)]
    schema = tiledb.ArraySchema(
        tiledb.Domain(dimension), attrs=attributes, sparse=True, capacity=10
    )
    tiledb.Array.create(str(path), schema)
    with tiledb.open(str(path), "w", timestamp=FIRST_MS) as array:
        text = np.array(["x"] * 25, dtype="O")
        array[np.arange(25)] = {"a": np.arange(25), "s": text}
    (first,) = (path / "__fragments").iterdir()
    for number in range(1, count):
        when = FIRST_MS + number
        name = f"__{when}_{when}_{random.randbytes(16).hex()}_22"
        folder = path / "__fragments" / name
        folder.mkdir()
        for file in first.iterdir():
            os.link(file, folder / file.name)
        (path / "__commits" / f"{name}.wrt").touch()


def ours(uri: str, options: dict[str, str] | None = None, *, sizes: bool = True) -> int:
    table = ct.open_log(uri, storage_options=options).fragments(sizes=sizes)
    assert table["cells"].null_count == 0
    return int(table.num_rows)


def engine(uri: str) -> int:
    facts = tiledb.array_fragments(uri)
    return len([(one.cell_num, one.nonempty_domain) for one in facts])


def consolidate_footers(uri: str, ctx: tiledb.Ctx | None = None) -> None:
    tiledb.consolidate(
        uri, ctx=ctx, config=tiledb.Config({"sm.consolidation.mode": "fragment_meta"})
    )


def on_disk(
    folder: Path, rounds: int, say: Callable[..., None], in_turns: Callable[..., list[float]]
) -> None:
    path = folder / "facts"
    make_fragments(path, FRAGMENTS)
    time.sleep(SETTLED)
    uri = str(path)
    works = (
        ("each with its own metadata", "3 times", True),
        ("with a .meta", "10 times", True),
        ("with a .meta, without bytes, which the engine does not tell", "10 times", False),
    )
    for number, (words, aim, sizes) in enumerate(works):
        if number == 1:
            consolidate_footers(uri)
        assert ours(uri, sizes=sizes) == engine(uri) == FRAGMENTS
        mine, theirs = in_turns(5 * rounds, lambda: ours(uri, sizes=sizes), lambda: engine(uri))  # noqa: B023
        say(
            f"facts of {FRAGMENTS:,} fragments, {words}",
            f"{aim} tiledb.array_fragments",
            ours_s=mine,
            engine_s=theirs,
            times=theirs / mine,
        )


def in_bucket(folder: Path, say: Callable[..., None]) -> None:
    path = folder / "bucket"
    make_fragments(path, IN_BUCKET)
    with s3_server() as server:
        server.make_bucket("bench")
        store = open_store("s3://bench/array", server.options)
        sent: set[Path] = set()
        for words in ("each with its own metadata", "with a .meta"):
            if words == "with a .meta":
                consolidate_footers(str(path))
            files = {file for file in path.rglob("*") if file.is_file()} - sent
            for file in files:
                store.put_if_absent(file.relative_to(path).as_posix(), file.read_bytes())
            sent |= files
            work = f"facts of {IN_BUCKET} fragments in a bucket, {words}"
            say(work, "requests decide", **_bucket_figures(server))


_ENGINE = """
import json, sys, time, tiledb
uri, settings = json.loads(sys.stdin.read())
begin = time.perf_counter()
facts = tiledb.array_fragments(uri, ctx=tiledb.Ctx(settings))
count = len([(one.cell_num, one.nonempty_domain) for one in facts])
print(json.dumps([count, time.perf_counter() - begin]))
"""


def _engine_apart(uri: str, settings: dict[str, str]) -> tuple[int, float]:
    """The engine in a process of its own: it keeps Python's lock, and the proxy needs it."""
    done = subprocess.run(
        [sys.executable, "-c", _ENGINE],
        input=json.dumps([uri, settings]),
        capture_output=True,
        text=True,
        check=True,
    )
    count, seconds = json.loads(done.stdout)
    return int(count), float(seconds)


def _ours_here(uri: str, options: dict[str, str]) -> tuple[int, float]:
    begin = time.perf_counter()
    count = ours(uri, options)
    return count, time.perf_counter() - begin


def _bucket_figures(server: S3Server) -> dict[str, float]:
    uri, figures = "s3://bench/array", dict[str, float]()
    with FaultProxy(server.endpoint) as proxy:
        settings = {
            "vfs.s3.endpoint_override": proxy.endpoint.removeprefix("http://"),
            "vfs.s3.scheme": "http",
            "vfs.s3.request_timeout_ms": "60000",
            "vfs.s3.use_virtual_addressing": "false",
            "vfs.s3.region": "us-east-1",
            "vfs.s3.aws_access_key_id": "test-access-key",
            "vfs.s3.aws_secret_access_key": "test-secret-key",
        }
        works: dict[str, Callable[[], tuple[int, float]]] = {
            "ours": lambda: _ours_here(uri, proxy.options),
            "engine": lambda: _engine_apart(uri, settings),
        }
        for who, work in works.items():
            asked: list[str] = []

            def plan(number: int, method: str, path: str, asked: list[str] = asked) -> Fault:
                del number, path
                asked.append(method)
                return "pass"

            proxy.plan = plan
            count, seconds = work()
            assert count == IN_BUCKET
            figures |= {f"{who}_s": seconds, f"{who}_requests": len(asked)}
    return figures | {"times": figures["engine_s"] / figures["ours_s"]}
