"""Engines to ask, one for each set of settings.

A context of the engine has threads and memory of its own: tests share theirs.

The engine's sparse reader merges the tiles of several fragments in a task of its own that can
outlive what it works on (tiledb 0.36, core 2.30): seen as a crash in `~MergeUnit` in about every
second run over the corpus. Its merge as of old does not; the setting below asks for that, through
the environment, so that child processes and the C interface get it too.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import tiledb

if TYPE_CHECKING:
    from collections.abc import Mapping


os.environ["TILEDB_SM_QUERY_SPARSE_GLOBAL_ORDER_PREPROCESS_TILE_MERGE"] = "0"


def engine(settings: Mapping[str, str] | None = None) -> tiledb.Ctx:
    """The context for some settings; the same one each time."""
    return _made(tuple(sorted((settings or {}).items())))


@cache
def _made(settings: tuple[tuple[str, str], ...]) -> tiledb.Ctx:
    return tiledb.Ctx(dict(settings))
