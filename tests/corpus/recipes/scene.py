"""One array under construction: what a recipe does to it, and a note of what was asked.

In: an empty folder and an encryption key. Out: an array, and a list of its commits.
Runs under every engine of the corpus (Python 3.7, tiledb 0.4.4 and later).
"""

from __future__ import annotations

import pathlib
import re
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import tiledb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEY = "0123456789abcdef0123456789abcdef"
"""The only key in the corpus: 32 characters, used as bytes. It guards nothing."""


class Recipe(NamedTuple):
    """How to make one case, and with which engines."""

    name: str
    about: str
    build: Callable[[Scene], None]
    engines: tuple[str, ...]
    encrypted: bool = False
    derived: bool = False


class Scene:
    """An array and the record of what was done to it.

    Args:
        folder: Where the array goes.
        encrypted: Whether it is encrypted with `KEY`.
    """

    def __init__(self, folder: pathlib.Path, *, encrypted: bool) -> None:
        self.folder = folder
        self.uri = str(folder)
        self.sparse = True
        self.config: dict[str, str] = {}
        if encrypted:
            self.config["sm.encryption_type"] = "AES_256_GCM"
            self.config["sm.encryption_key"] = KEY
        self.commits: list[dict[str, Any]] = []
        self.refused: list[dict[str, Any]] = []
        self.windows: list[tuple[int, int]] = []
        self.times: list[int] = []
        self.format = 0

    def ctx(self, **more: str) -> Any:
        """A context with the array's key and further settings (`__` stands for a dot)."""
        settings = dict(self.config)
        settings.update({name.replace("__", "."): value for name, value in more.items()})
        return tiledb.Ctx(tiledb.Config(settings))

    def create(self, dims: Sequence[Any], attrs: Sequence[Any], **more: Any) -> None:
        """Create the array from dimensions and attributes."""
        domain = tiledb.Domain(*dims)
        more.setdefault("sparse", True)
        self.sparse = more["sparse"]
        schema = tiledb.ArraySchema(domain=domain, attrs=list(attrs), **more)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        tiledb.Array.create(self.uri, schema, ctx=self.ctx())

    def write(self, at: int, **columns: Sequence[Any]) -> None:
        """Write cells: in a sparse array every field has one value a cell, None for NULL.

        In a dense array a dimension has two values: its range.
        """
        from corpus.recipes import commits

        self.times.append(at)
        commits.write(self.uri, self.config, at, columns)

    def delete(self, at: int, predicate: str) -> None:
        """Delete at a timestamp; a refusal is noted with the engine's words."""
        self._commit("delete", at, predicate, {})

    def update(self, at: int, predicate: str, **values: Any) -> None:
        """Write an update, which needs the engine's experimental switch."""
        self._commit("update", at, predicate, values)

    def _commit(self, kind: str, at: int, predicate: str, values: dict[str, Any]) -> None:
        from corpus.recipes import capi, commits

        before = self.files("__commits")
        asked = {"kind": kind, "t": at, "predicate": predicate, "values": commits.shown(values)}
        try:
            commits.delete_or_update(self.uri, self.config, at, predicate, values)
        except capi.EngineError as error:
            self.refused.append({**asked, "error": str(error)})
            return
        self.times.append(at)
        (new,) = self.files("__commits") - before
        self.commits.append({"name": new.rpartition(".")[0], **asked})

    def files(self, folder: str) -> set[str]:
        """The names in one folder of the array."""
        where = self.folder / folder
        return {entry.name for entry in where.iterdir()} if where.is_dir() else set()

    def consolidate(
        self, mode: str = "fragments", start: int = 0, end: int = 0, **more: str
    ) -> None:
        """Consolidate; `end` 0 means no limit."""
        settings = {**self.config, "sm.consolidation.mode": mode}
        if end:
            settings["sm.consolidation.timestamp_start"] = str(start)
            settings["sm.consolidation.timestamp_end"] = str(end)
        settings.update({f"sm.consolidation.{name}": value for name, value in more.items()})
        config = tiledb.Config(settings)
        tiledb.consolidate(self.uri, config=config, ctx=tiledb.Ctx(config))

    def vacuum(self, mode: str = "fragments") -> None:
        """Remove what consolidation made superfluous."""
        config = tiledb.Config({**self.config, "sm.vacuum.mode": mode})
        tiledb.vacuum(self.uri, config=config, ctx=tiledb.Ctx(config))

    def open(self, mode: str, at: Any) -> Any:
        """The array through the Python package, at a timestamp."""
        kind = tiledb.SparseArray if self.sparse else tiledb.DenseArray
        return kind(self.uri, mode=mode, timestamp=at, ctx=self.ctx())

    def meta(self, at: int, drop: str | None = None, **values: Any) -> None:
        """Set, or drop, keys of the array metadata."""
        self.times.append(at)
        with self.open("w", at) as array:
            for name, value in values.items():
                array.meta[name] = value
            if drop is not None:
                del array.meta[drop]

    def finish(self) -> None:
        """Read the newest format version off the names; choose windows where none are set."""
        versions = [0]
        for entry in self.folder.rglob("__*_*_*"):
            match = re.match(r"__\d+_\d+_[0-9a-f]{32}_(\d+)", entry.name)
            versions.append(int(match.group(1)) if match else 0)
        # Names without a version: the one in the header of the schema's tile.
        schemas = [*self.folder.glob("__schema/__*_*_*"), *self.folder.glob("__array_schema.tdb")]
        versions += [int.from_bytes(one.read_bytes()[:4], "little") for one in schemas]
        self.format = max(versions)
        if not self.windows:
            self.windows = windows_over(self.times)
        # Git keeps no empty folders, and the corpus must be what a clone has.
        for entry in sorted(self.folder.rglob("*"), reverse=True):
            if entry.is_dir() and not any(entry.iterdir()):
                entry.rmdir()

    def borrow(self, case: str) -> None:
        """Start from the array of another case: one just made, or the one in the corpus."""
        here = self.folder.parent.parent / case
        kept = pathlib.Path(__file__).parent.parent / case
        shutil.copytree(str((here if here.is_dir() else kept) / "array"), self.uri)
        self.times += [int(one) for entry in self.folder.rglob("__*") for one in _times(entry.name)]


def _times(name: str) -> list[str]:
    match = re.match(r"__(\d{1,12})_(\d{1,12})_", name)
    return list(match.groups()) if match else []


def windows_over(times: Sequence[int]) -> list[tuple[int, int]]:
    """Windows that end, or start, at each of some timestamps.

    >>> windows_over([10, 20, 30])
    [(0, 10), (0, 20), (0, 30), (0, 29), (0, 1030), (11, 30), (20, 30), (20, 20)]
    """
    marks = sorted(set(times))
    first, last = marks[0], marks[-1]
    found = [(0, mark) for mark in marks]
    found += [(0, last - 1), (0, last + 1000), (first + 1, last)]
    found += [(mark, last) for mark in marks[1:-1]][:3]
    found += [(marks[len(marks) // 2], marks[len(marks) // 2])]
    return list(dict.fromkeys(found))
