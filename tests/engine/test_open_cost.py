"""The requests of an engine's open, against the log of a real S3 server.

A proxy in front of the server counts what the engine sends; writes go to the server itself.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.engine_arrays import EngineArray, s3_settings
from support.footers import consolidated_footers
from support.servers import FaultProxy, S3Server

import chronotile as ct
from chronotile.check.engine_open_cost import consolidated_fragments, open_cost
from chronotile.format import tiles
from chronotile.format.consolidated_footers import (
    encode_consolidated_footers,
)
from chronotile.format.names import new_name
from chronotile.format.timestamps import now_ms
from chronotile.history.read_history import read_history
from chronotile.storage.store import open_store
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.change.plan import Report
    from chronotile.storage.store import Store

PATIENT = {"vfs.s3.request_timeout_ms": "60000", "vfs.s3.connect_timeout_ms": "60000"}
"""A request that is sent again, as the machine is busy, would count twice."""


@dataclass
class Counted:
    """An array in a bucket, whose opens by the engine are counted."""

    array: EngineArray
    server: S3Server
    proxy: FaultProxy
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = open_store(self.array.uri, self.server.options)

    def by_engine(self) -> int:
        """The requests that an open by the engine sends, as the server's log has them."""
        self.proxy.seen.clear()
        tiledb.open(self.array.uri, ctx=self._through_proxy()).close()
        return len(self.proxy.seen)

    def _through_proxy(self) -> tiledb.Ctx:
        through = s3_settings(S3Server(self.proxy.endpoint))
        return tiledb.Ctx(self.array.settings | through | PATIENT)

    def to_read_metadata(self) -> int:
        """The requests that an open and reading the metadata send."""
        self.proxy.seen.clear()
        # The engine keeps Python's lock meanwhile: the proxy, which is Python, needs another's.
        code = "import json, sys, tiledb; ctx = tiledb.Ctx(json.loads(sys.argv[2]))\n"
        code += "with tiledb.open(sys.argv[1], ctx=ctx) as opened: dict(opened.meta)"
        settings = json.dumps(self._through_proxy().config().dict())
        command = [sys.executable, "-c", code, self.array.uri, settings]
        subprocess.run(command, check=True, timeout=120)
        return len(self.proxy.seen)

    def counted(self) -> int:
        """The same, as we count it."""
        history = read_history(self.store)
        held = consolidated_fragments(self.store, history)
        assert held is not None
        return open_cost(Rules(history), held).requests

    def agreed(self) -> int:
        found = self.by_engine()
        assert self.counted() == found
        return found

    def change(self, report: Report) -> tuple[int, int]:
        """What a report tells, held to the engine after the change."""
        assert report.engine_open_requests is not None
        assert report.engine_open_requests[1] == self.agreed()
        return report.engine_open_requests


@pytest.fixture
def counted(s3: S3Server, bucket: str) -> Iterator[Counted]:
    array = EngineArray(f"{bucket}/array", settings=s3_settings(s3)).create(upper=9999)
    with FaultProxy(s3.endpoint) as proxy:
        yield Counted(array, s3, proxy)


def test_each_kind_of_file(counted: Counted) -> None:
    array = counted.array
    assert counted.agreed() == 6
    for at in (10, 20, 30):
        array.write(at, {at: at})
    assert counted.agreed() == 6 + 9
    array.delete(35, "a == 10")
    for at in (10, 20):
        with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
            opened.meta["key"] = at
    assert counted.agreed() == 6 + 9, "neither deletes nor metadata are read"
    array.consolidate("array_meta")
    assert counted.agreed() == 6 + 9 + 2
    array.consolidate("commits")
    assert counted.agreed() == 6 + 9 + 4
    array.consolidate("fragment_meta")
    assert counted.agreed() == 6 + 4 + 1
    array.consolidate("fragments", (5, 22))
    assert counted.agreed() == 6 + 4 + 1 + 2 + 3, "a .vac, and a fragment that is in no .meta"
    array.delete_fragments(30, 30)
    assert counted.agreed() == 6 + 4 + 1 + 2 + 3 + 2, "an .ign"


def test_several_schemas(counted: Counted) -> None:
    array = counted.array
    array.write(10, {1: 1})
    evolution = tiledb.ArraySchemaEvolution(array.ctx)
    evolution.add_attribute(tiledb.Attr("b", dtype=np.int32))
    evolution.array_evolve(array.uri)
    assert counted.agreed() == 7 + 3


def test_what_is_outside_of_the_window(counted: Counted) -> None:
    """A fragment and a `.vac` of tomorrow cost nothing but their place in the list."""
    array, later = counted.array, now_ms() + 86_400_000
    for at in (later, later + 10):
        array.write(at, {1: 1})
    assert counted.agreed() == 6
    array.consolidate("fragments", (later, later + 20))
    assert counted.agreed() == 6
    for at in (later, later + 10):
        with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
            opened.meta["key"] = 1
    array.consolidate("array_meta", (later, later + 20))
    assert any(name.endswith(".vac") for name in counted.store.list_names("__meta").files)
    assert counted.agreed() == 6


def test_more_names_than_a_page_holds(counted: Counted) -> None:
    """A thousand names are a page: 1,001 commits need two, one `.con` of them one."""
    array, store = counted.array, counted.store
    array.write(10, {1: 1})
    later = now_ms() + 86_400_000
    names = [new_name(later, later + number, 22) for number in range(999)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put_if_absent(f"__commits/{name}.wrt", b""), names))
    assert counted.agreed() == 6 + 3
    store.put_if_absent(f"__commits/{new_name(later, later, 22)}.wrt", b"")
    assert counted.agreed() == 6 + 3 + 1


def test_a_meta_that_is_larger_than_what_the_engine_reads_ahead(counted: Counted) -> None:
    array, store = counted.array, counted.store
    array.write(10, {1: 1})
    (step,) = ct.consolidate(
        array.uri, mode="fragment-meta", storage_options=counted.server.options, dry_run=True
    ).steps
    footers = list(consolidated_footers(tiles.decode(step.data, "x").payload, "x").items())
    chance, version = random.Random(1), footers[0][1][:4]
    for count, requests in ((100, 7), (400, 8)):
        more = [(new_name(1, 1, 22), version + chance.randbytes(300)) for _ in range(count)]
        data = encode_consolidated_footers([*footers, *more], version=22)
        assert (len(data) > 102_400) == (requests == 8)
        store.put_if_absent(step.path, data)
        assert counted.agreed() == requests
        store.remove([step.path])


def test_reports_tell_the_truth(counted: Counted) -> None:
    array, server = counted.array, counted.server
    for at in range(10, 20):
        array.write(at, {at: at})
    for at in (10, 20):
        with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
            opened.meta["key"] = at

    def maintain(command: str, mode: str) -> tuple[int, int]:
        run: Any = {"consolidate": ct.consolidate, "vacuum": ct.vacuum}[command]
        planned = run(array.uri, mode=mode, storage_options=server.options, dry_run=True)
        done = run(array.uri, mode=mode, storage_options=server.options)
        assert planned.engine_open_requests == done.engine_open_requests
        return counted.change(done)

    assert maintain("consolidate", "commits") == (36, 39), "our own folder costs one"
    assert maintain("vacuum", "commits") == (39, 39)
    assert maintain("consolidate", "fragment-meta") == (39, 10)
    assert counted.to_read_metadata() == 10 + 2
    assert maintain("consolidate", "array-meta") == (10, 12)
    assert maintain("vacuum", "array-meta") == (12, 10)
    assert counted.to_read_metadata() == 10 + 1
    array.write(40, {40: 40})
    assert maintain("consolidate", "all") == (13, 13), "a .con and a .meta more, 3 requests less"
    assert maintain("vacuum", "all") == (13, 10)
