"""Fragments of a format version that is not known yet.

In: an array on a disk, and a fragment that the engine wrote in it. Out: the same fragment as a
version that is not known would have it: another version in its name, its footer and the headers of
its tiles.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from chronotile.format.fragment_footer import METADATA
from chronotile.format.names import NEWEST_VERSION
from chronotile.history.read_footers import FooterReader, StoredFooter
from chronotile.history.read_history import read_history
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

NEWER = NEWEST_VERSION + 1


def make_newer(array: Path, name: str) -> str:
    """Give a fragment the first version that is not known; return its new name."""
    store = open_store(array)
    ((_, stored),) = FooterReader(store, read_history(store)).read([name], own=True)
    assert isinstance(stored, StoredFooter), stored
    stem, _, version = name.rpartition("_")
    newer = f"{stem}_{NEWER}"
    path = array / "__fragments" / name / METADATA
    data = bytearray(path.read_bytes())
    start = len(data) - 8 - len(stored.raw)
    for offset in (start, *stored.footer.needed, *stored.footer.others):
        assert struct.unpack_from("<I", data, offset) == (int(version),)
        struct.pack_into("<I", data, offset, NEWER)
    path.write_bytes(data)
    path.parent.rename(path.parent.with_name(newer))
    for commit in (array / "__commits").glob(f"{name}.*"):
        commit.rename(commit.with_name(newer + commit.suffix))
    return newer
