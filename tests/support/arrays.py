"""Arrays that tests make with the engine: one small history, on a disk or in a bucket.

In: a place, and settings of the engine. Out: an array. Knows nothing of chronotile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import tiledb
from corpus.recipes import commits
from support.engines import engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SMALL = "100000"
"""Bytes of the engine's buffers: it takes seconds to clear those that it takes by itself."""


class Made:
    """A sparse array of one dimension `x` and one attribute `a`.

    Args:
        uri: Where it goes: a path, or a URI that the engine knows.
        config: Settings of the engine, such as where S3 is.
        dense: Whether it is to be dense instead.
    """

    def __init__(
        self, uri: object, config: Mapping[str, str] | None = None, *, dense: bool = False
    ) -> None:
        self.uri = str(uri)
        self.config = dict(config or {})
        dim = tiledb.Dim("x", domain=(1, 8), tile=4, dtype="int64")
        attr = tiledb.Attr("a", dtype="int32")
        schema = tiledb.ArraySchema(domain=tiledb.Domain(dim), attrs=[attr], sparse=not dense)
        tiledb.Array.create(self.uri, schema, ctx=engine(self.config))

    def write(self, at: int, x: Sequence[int], a: Sequence[int]) -> None:
        commits.write(self.uri, self.config, at, {"x": x, "a": a})

    def delete(self, at: int, predicate: str) -> None:
        commits.delete_or_update(self.uri, self.config, at, predicate, {})

    def update(self, at: int, predicate: str, **values: Any) -> None:
        commits.delete_or_update(self.uri, self.config, at, predicate, values)

    def consolidate(self, mode: str = "fragments", start: int = 0, end: int = 0) -> None:
        settings = {
            **self.config,
            "sm.consolidation.mode": mode,
            "sm.consolidation.buffer_size": SMALL,
        }
        if end:
            settings["sm.consolidation.timestamp_start"] = str(start)
            settings["sm.consolidation.timestamp_end"] = str(end)
        config = tiledb.Config(settings)
        tiledb.consolidate(self.uri, config=config, ctx=engine(self.config))

    def vacuum(self, mode: str = "fragments") -> None:
        config = tiledb.Config({**self.config, "sm.vacuum.mode": mode})
        tiledb.vacuum(self.uri, config=config, ctx=engine(self.config))

    def delete_fragments(self, start: int, end: int) -> None:
        tiledb.Array.delete_fragments(self.uri, start, end, ctx=engine(self.config))

    def live(self) -> None:
        """A bit of everything: `.wrt`, `.del`, `.con`, `.ign`, `.vac`, loose and consolidated."""
        self.write(10, x=[1, 2, 3], a=[1, 2, 3])
        self.write(20, x=[3, 4], a=[30, 40])
        self.delete(25, "a < 3")
        self.write(30, x=[1, 5], a=[100, 50])
        self.consolidate("commits")
        self.vacuum("commits")
        self.consolidate("fragments", 5, 22)
        self.vacuum("fragments")
        self.write(40, x=[8], a=[8])
        self.write(50, x=[7], a=[7])
        self.consolidate("fragments", 35, 55)
        self.delete(60, "a == 100 and x == 1")

    def rows(self, start: int, end: int) -> dict[int, int]:
        """What the engine reads at a window."""
        ctx = engine(self.config)
        with tiledb.open(self.uri, timestamp=(start, end), ctx=ctx) as array:
            found = array[:]
        return dict(zip(found["x"].tolist(), found["a"].tolist(), strict=True))


def s3_config(endpoint: str) -> dict[str, str]:
    """Settings of the engine for an S3 server, as `servers.options_for` has them for us."""
    return {
        "vfs.s3.endpoint_override": urlsplit(endpoint).netloc,
        "vfs.s3.scheme": "http",
        "vfs.s3.region": "us-east-1",
        "vfs.s3.use_virtual_addressing": "false",
        "vfs.s3.aws_access_key_id": "test-access-key",
        "vfs.s3.aws_secret_access_key": "test-secret-key",
    }
