"""Arrays made and read by the real engine.

In: a folder or an S3 URI. Out: `EngineArray`: writes, deletes, the engine's own upkeep, and what
the engine answers at a window. Knows nothing of chronotile.
"""

from __future__ import annotations

import math
import pathlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tiledb
from corpus.recipes import commits
from support.engines import engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from support.servers import S3Server

Answer: TypeAlias = "tuple[tuple[Any, ...], ...] | str"
Window: TypeAlias = tuple[int, int]

# One thread each: contexts are made by the hundred, and the machine is shared.
QUIET = {
    "sm.compute_concurrency_level": "1",
    "sm.io_concurrency_level": "1",
    "sm.mem.total_budget": "20000000",
    "sm.consolidation.buffer_size": "100000",
}


def s3_settings(server: S3Server) -> dict[str, str]:
    host = server.endpoint.removeprefix("http://")
    return {
        "vfs.s3.endpoint_override": host,
        "vfs.s3.scheme": "http",
        "vfs.s3.use_virtual_addressing": "false",
        "vfs.s3.region": "us-east-1",
        "vfs.s3.aws_access_key_id": "test-access-key",
        "vfs.s3.aws_secret_access_key": "test-secret-key",
    }


class EngineArray:
    """An array in the hands of the engine: of one dimension `x` and an attribute `a`, or of more.

    Args:
        uri: Where it goes: a path, or a URI that the engine knows.
        key: Of 32 characters, where the array is encrypted.
        settings: Further ones of the engine, such as where S3 is.
    """

    def __init__(
        self,
        uri: str | pathlib.Path,
        *,
        key: str | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.uri = str(uri)
        self.settings = QUIET | (settings or {})
        if key is not None:
            self.settings |= {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key}
        self.ctx = engine(self.settings)
        self.sparse = True

    @property
    def folder(self) -> pathlib.Path:
        return pathlib.Path(self.uri)

    @property
    def commits_folder(self) -> pathlib.Path:
        return self.folder / "__commits"

    def create(
        self,
        *,
        sparse: bool = True,
        dims: Sequence[Any] = (),
        attrs: Sequence[Any] = (),
        duplicates: bool = False,
        upper: int = 99,
        **more: Any,
    ) -> EngineArray:
        """Make the array: of `x` up to a bound and of `a`, unless other fields are given."""
        self.sparse = sparse
        x = tiledb.Dim("x", domain=(0, upper), tile=10, dtype=np.int64)
        schema = tiledb.ArraySchema(
            domain=tiledb.Domain(*(dims or [x])),
            attrs=list(attrs) or [tiledb.Attr("a", dtype=np.int32)],
            sparse=sparse,
            allows_duplicates=duplicates,
            **more,
        )
        tiledb.Array.create(self.uri, schema, ctx=self.ctx)
        return self

    def write(self, at: int, cells: dict[int, int]) -> None:
        """Write cells of a sparse array, or those of a dense one in a row."""
        with tiledb.open(self.uri, "w", timestamp=at, ctx=self.ctx) as array:
            xs = sorted(cells)
            values = np.array([cells[x] for x in xs], np.int32)
            if self.sparse:
                array[xs] = values
            else:
                array[xs[0] : xs[-1] + 1] = values

    def write_columns(self, at: int, xs: list[int], columns: dict[str, Any]) -> None:
        with tiledb.open(self.uri, "w", timestamp=at, ctx=self.ctx) as array:
            array[xs] = columns

    def delete(self, at: int, where: str) -> None:
        with tiledb.open(self.uri, "d", timestamp=at, ctx=self.ctx) as array:
            array.query(cond=where).submit()

    def write_raw(self, at: int, **columns: Sequence[Any]) -> None:
        """Write through the C interface, where None is NULL."""
        commits.write(self.uri, self.settings, at, columns)

    def commit(self, at: int, where: str, **values: Any) -> None:
        """A delete through the C interface, which takes more; with values, an update."""
        commits.delete_or_update(self.uri, self.settings, at, where, values)

    def evolve(self, *, drop: str = "", add: Any = None, at: int | None = None) -> None:
        """Drop an attribute, or add one; now, or at a moment."""
        evolution = tiledb.ArraySchemaEvolution(self.ctx)
        if drop:
            evolution.drop_attribute(drop)
        if add is not None:
            evolution.add_attribute(add)
        if at is not None:
            evolution.timestamp(at)
        evolution.array_evolve(self.uri)

    def _config(self, **more: str) -> Any:
        return tiledb.Config(self.settings | {n.replace("__", "."): v for n, v in more.items()})

    def consolidate(self, mode: str = "commits", window: Window | None = None, **more: str) -> None:
        extra = {"sm__consolidation__mode": mode} | more
        if window is not None:
            extra["sm__consolidation__timestamp_start"] = str(window[0])
            extra["sm__consolidation__timestamp_end"] = str(window[1])
        config = self._config(**extra)
        tiledb.consolidate(self.uri, config=config, ctx=self.ctx)

    def vacuum(self, mode: str = "commits") -> None:
        config = self._config(sm__vacuum__mode=mode)
        tiledb.vacuum(self.uri, config=config, ctx=self.ctx)

    def delete_fragments(self, start: int, end: int) -> None:
        tiledb.Array.delete_fragments(self.uri, start, end, ctx=self.ctx)

    def live(self) -> None:
        """A bit of everything: `.wrt`, `.del`, `.con`, `.ign`, `.vac`, loose and consolidated."""
        self.write(10, {1: 1, 2: 2, 3: 3})
        self.write(20, {3: 30, 4: 40})
        self.delete(25, "a < 3")
        self.write(30, {1: 100, 5: 50})
        self.consolidate("commits")
        self.vacuum("commits")
        self.consolidate("fragments", (5, 22))
        self.vacuum("fragments")
        self.write(40, {8: 8})
        self.write(50, {7: 7})
        self.consolidate("fragments", (35, 55))
        self.delete(60, "a == 100 and x == 1")

    def rows(self, start: int, end: int) -> dict[int, int]:
        """What the engine reads at a window, as it was written."""
        with tiledb.open(self.uri, timestamp=(start, end), ctx=self.ctx) as array:
            found = array[:]
        return dict(zip(found["x"].tolist(), found["a"].tolist(), strict=True))

    def answer(self, start: int = 0, end: int = 1 << 60, *, metadata: bool = False) -> Answer:
        """The rows that the engine gives at a window, sorted; or its error, in its words.

        Args:
            start: Of the window.
            end: Of the window.
            metadata: Whether the array's metadata, by the same open, comes behind the rows.
        """
        try:
            with tiledb.open(self.uri, timestamp=(start, end), ctx=self.ctx) as array:
                found = array[:]
                named = found if isinstance(found, dict) else {"a": found}
                rows = zip(*(_listed(named[name].ravel()) for name in sorted(named)), strict=True)
                found = tuple(sorted(rows, key=repr) if self.sparse else rows)
                return (*found, tuple(array.meta.items())) if metadata else found
        except (tiledb.TileDBError, UnicodeDecodeError) as error:
            return f"error: {error}"

    def answers(self, windows: Iterable[Window]) -> dict[Window, Answer]:
        return {window: self.answer(*window) for window in windows}

    def files(self, folder: str, pattern: str = "*") -> list[str]:
        return sorted(path.name for path in (self.folder / folder).glob(pattern))


def _listed(column: Any) -> list[Any]:
    hidden = np.ma.getmaskarray(column).tolist()
    values = np.ma.getdata(column).tolist()
    return [None if no else _plain(value) for value, no in zip(values, hidden, strict=True)]


def _plain(value: Any) -> Any:
    """A value that equals itself, NaN too, and that JSON has."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, memoryview):
        return bytes(value).hex()
    return value.decode() if isinstance(value, bytes) else value
