"""Groups with random histories that the engine writes, and what it says of them.

In: a seed. Out: a group that grew, shrank and was renamed at random moments; its members, by the
engine and by us.
"""

from __future__ import annotations

import random
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import tiledb

import chronotile as ct

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = [*"abcdef", "with space", "ünï", "x/y"]
KINDS = {tiledb.Array: "array", tiledb.Group: "group"}


@contextmanager
def opened(uri: str, mode: str, at: int | None = None) -> Iterator[tiledb.Group]:
    config = tiledb.Config({} if at is None else {"sm.group.timestamp_end": str(at)})
    group = tiledb.Group(uri, mode, config)
    try:
        yield group
    finally:
        group.close()


def make_array(uri: str) -> None:
    dim = tiledb.Dim("d", domain=(0, 9), tile=5, dtype=np.int32)
    attributes = [tiledb.Attr("a", dtype=np.int32)]
    tiledb.Array.create(uri, tiledb.ArraySchema(tiledb.Domain(dim), attributes, sparse=True))


def make_places(root: Path) -> Path:
    """Arrays and groups that can be members."""
    for number in range(4):
        make_array(str(root / f"array{number}"))
        tiledb.Group.create(str(root / f"group{number}"))
    return root


def by_engine(uri: str, at: int | None) -> set[tuple[str | None, str, str]]:
    with opened(uri, "r", at) as group:
        return {(one.name, one.uri, KINDS[one.type]) for one in group}


def by_us(uri: str, at: int | None) -> set[tuple[str | None, str, str]]:
    return {(m.name, f"file://{m.uri}", m.kind) for m in ct.open_dataset(uri).members(at)}


class GroupWriter:
    """Random sessions of a group, each at a random moment."""

    def __init__(self, seed: int, uri: str, places: Path) -> None:
        self.random, self.uri, self.places = random.Random(seed), uri, places
        self.moments = set[int]()
        tiledb.Group.create(uri)

    def session(self) -> None:
        at = self.random.choice([self.random.randint(1, 2000), self.random.choice([9, 10, 99])])
        self.moments.add(at)
        with opened(self.uri, "w", at) as group:
            for _ in range(self.random.randint(1, 3)):
                self.step(group)

    def step(self, group: tiledb.Group) -> None:
        known = sorted(by_engine(self.uri, self.random.choice([*self.moments])), key=str)
        try:
            if known and self.random.random() < 0.45:
                name, uri, _ = self.random.choice(known)
                group.remove(name or uri)
                if self.random.random() < 0.4:  # a new name for the same place
                    group.add(uri, self.random.choice(NAMES))
                return
            place = f"{self.random.choice(['array', 'group'])}{self.random.randrange(4)}"
            name = self.random.choice([None, *NAMES])
            if self.random.random() < 0.5:
                shutil.copytree(self.places / place, f"{self.uri}/{place}", dirs_exist_ok=True)
                group.add(place, name, relative=True)
            else:
                group.add(str(self.places / place), name)
        except tiledb.TileDBError:
            pass  # twice in one session, or not there any more: the engine refuses it
