"""Fleets of arrays for the tests and the benchmark of the pipeline.

In: how many arrays, and how many commits in each. Out: folders that the engine opens: the schema,
the fragments' metadata and the deletes are the engine's own, copied from a template; names and
`.con` files are written here. Uses nothing of the product but its codec of `.con` records.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.con_files import con_name, encode_con
from support.engine_arrays import EngineArray

from chronotile.format.commit_files import ConRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST_MS = 1_700_000_000_000
STEP_MS = 1_000
_LINKS_MAX = 30_000
"""File systems bound the number of names that a file may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """An array that the engine made: one fragment, one delete."""

    folder: Path

    @property
    def schema(self) -> Path:
        return next(path for path in (self.folder / "__schema").iterdir() if path.is_file())

    @property
    def fragment(self) -> Path:
        return next((self.folder / "__fragments").iterdir())

    @property
    def delete(self) -> bytes:
        return next((self.folder / "__commits").glob("*.del")).read_bytes()


def make_template(folder: Path) -> Template:
    array = EngineArray(folder).create()
    array.write(FIRST_MS, {1: 1, 2: 2, 3: 3})
    array.delete(FIRST_MS + 1, "a < 2")
    return Template(folder=folder)


class FleetMaker:
    """Makes arrays of one template; the metadata of fragments is linked, not copied."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self._delete = template.delete
        self._metadata = template.fragment / "__fragment_metadata.tdb"
        self._source = self._metadata
        self._links = 0

    def array(
        self, folder: Path, commits: int, *, seed: int, deletes: int = 0, loose: int = 0
    ) -> None:
        """Makes an array: its last `loose` commits are files, the others stand in one `.con`."""
        for name in ("__commits", "__fragments", "__schema", "__meta", "__fragment_meta"):
            (folder / name).mkdir(parents=True)
        shutil.copy(self.template.schema, folder / "__schema")
        records = list(self._records(commits, deletes, random.Random(seed)))
        for record in records:
            if record.tile is None:
                self.fragment(folder, record.uri.removeprefix("__commits/").removesuffix(".wrt"))
        together, alone = records[: commits - loose], records[commits - loose :]
        if together:
            name = con_name(together, 22)
            (folder / "__commits" / f"{name}.con").write_bytes(encode_con(together))
        for record in alone:
            (folder / record.uri).write_bytes(record.tile or b"")

    def fragment(self, folder: Path, name: str) -> None:
        """Makes a fragment of that name: its metadata, which is all that an open reads."""
        made = folder / "__fragments" / name
        made.mkdir()
        os.link(self._link_source(folder.parent), made / "__fragment_metadata.tdb")

    def commit(self, folder: Path, time_ms: int, *, uuid: str, delete: bool = False) -> str:
        """Adds one commit as a file of its own; gives its name."""
        name = f"__{time_ms}_{time_ms}_{uuid}_22"
        if delete:
            (folder / "__commits" / f"{name}.del").write_bytes(self._delete)
        else:
            self.fragment(folder, name)
            (folder / "__commits" / f"{name}.wrt").touch()
        return name

    def _records(self, commits: int, deletes: int, chance: random.Random) -> Iterator[ConRecord]:
        every = commits // deletes if deletes else commits + 1
        for number in range(commits):
            time_ms = FIRST_MS + number * STEP_MS + chance.randrange(STEP_MS)
            name = f"__commits/__{time_ms}_{time_ms}_{chance.getrandbits(128):032x}_22"
            if number % every == every - 1:
                yield ConRecord(f"{name}.del", self._delete)
            else:
                yield ConRecord(f"{name}.wrt", None)

    def _link_source(self, beside: Path) -> Path:
        if self._links % _LINKS_MAX == 0:
            self._source = beside / f".metadata-{self._links}"
            shutil.copy(self._metadata, self._source)
        self._links += 1
        return self._source


def age(root: Path) -> None:
    """Makes new files older: of one just written nobody knows whether it will change again."""
    then = time.time() - 3600
    for path in root.rglob("*"):
        if path.is_file() and path.stat().st_mtime > then + 60:
            os.utime(path, (then, then))


def make_fleet(root: Path, arrays: int, commits: int, *, deletes: int = 2) -> None:
    """Makes a fleet: every tenth array has deletes, arrays lie in groups of a hundred."""
    root.mkdir(parents=True, exist_ok=True)
    maker = FleetMaker(make_template(root.parent / f"{root.name}-template"))
    for number in range(arrays):
        folder = root / f"group-{number // 100:03d}" / f"array-{number:05d}"
        maker.array(folder, commits, seed=number, deletes=0 if number % 10 else deletes)
