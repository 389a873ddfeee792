"""Arrays with a very long commit log, made without the engine.

In: an empty folder, and numbers. Out: an array whose commits stand in `.con` files, a `.del` among
them now and then; written piece by piece, so that memory does not grow with it.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from support.handmade_array import VERSION, encode_schema, sample_schema

from chronotile.conditions.codec import encode
from chronotile.conditions.tree import Compare, Op
from chronotile.format import tiles
from chronotile.format.commit_files import ConRecord, encode_record
from chronotile.format.kinds import COMMITS, FRAGMENTS, SCHEMA
from chronotile.format.names import new_name

FIRST_MS = 1_600_000_000_000
_AT_ONCE = 1 << 16


def lines_of(first: int, count: int, seed: int) -> bytes:
    """The records of writes, one each millisecond, as a `.con` holds them."""
    random = np.random.default_rng([seed, first])
    uuids = random.integers(0, 256, (count, 16), np.uint8).tobytes().hex()
    times = range(FIRST_MS + first, FIRST_MS + first + count)
    return b"".join(
        b"%s/__%d_%d_%s_%d.wrt\n" % (COMMITS.encode(), t, t, uuids[n : n + 32].encode(), VERSION)
        for n, t in zip(range(0, 32 * count, 32), times, strict=True)
    )


def make_large_array(
    folder: Path, commits: int, *, cons: int = 4, folders: bool = False, seed: int = 7
) -> None:
    """Makes an array of so many writes, in so many `.con` files.

    Args:
        folder: Where to; it must not exist.
        commits: Writes; each `.con` has one delete more.
        cons: `.con` files.
        folders: Whether to make the fragments' folders, too: else every commit has lost its own.
        seed: Of the uuids.
    """
    for name in (COMMITS, FRAGMENTS, SCHEMA):
        (folder / name).mkdir(parents=True)
    schema = tiles.encode(encode_schema(sample_schema()), version=VERSION)
    (folder / SCHEMA / new_name(FIRST_MS, FIRST_MS, None)).write_bytes(schema)
    each = -(-commits // cons)
    for start in range(0, commits, each):
        end = min(start + each, commits)
        name = f"__{FIRST_MS + start}_{FIRST_MS + end - 1}_{seed:032x}_{VERSION}"
        with (folder / COMMITS / f"{name}.con").open("wb") as file:
            for at in range(start, end, _AT_ONCE):
                lines = lines_of(at, min(_AT_ONCE, end - at), seed)
                file.write(lines)
                for line in lines.decode().split() if folders else ():
                    (folder / FRAGMENTS / Path(line).stem).mkdir()
            file.write(_delete(FIRST_MS + end - 1))


def _delete(time: int) -> bytes:
    """The record of a delete of all rows with a negative id."""
    stored = Compare(field="id", op=Op.GE, value=struct.pack("<q", 0))
    tile = tiles.encode(encode(stored), version=VERSION)
    return encode_record(ConRecord(f"{COMMITS}/{new_name(time, time, VERSION)}.del", tile))
