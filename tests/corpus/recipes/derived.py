"""Arrays that no engine at hand writes any more, made from ones that it wrote.

In: the array of another case. Out: the first era's names, and old layouts with new commits.
Each step is in the code below; the newest engine reads the results and is their judge.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import tiledb
from corpus.recipes.operators import NEWEST
from corpus.recipes.scene import Recipe, Scene

if TYPE_CHECKING:
    import pathlib

FOOTER = "__fragment_metadata.tdb"


def first_era(scene: Scene) -> None:
    """Give format 3 fragments the names and the metadata file of formats 1 and 2."""
    scene.borrow("old-sparse-v3")
    cells = [[1, 2, 3], [3, 4]]
    folders = sorted(path for path in scene.folder.iterdir() if path.is_dir())
    scene.times = []
    for at, folder in enumerate(folders):
        (folder / FOOTER).write_bytes(_tile(_metadata(folder, cells[at])))
        t1, _, uuid = folder.name.strip("_").split("_")
        # The last fragment has the longer of the two spellings: `__uuid_t1_t2`.
        name = f"__{uuid}_{t1}" if at < 1 else f"__{uuid}_{t1}_{int(t1) + 5}"
        folder.rename(folder.with_name(name))
        scene.times.append(int(name.rpartition("_")[2]))


def _metadata(folder: pathlib.Path, coords: list[int]) -> bytes:
    """The metadata of one tile of `int64` coordinates with one `int32` attribute."""
    ends = struct.pack("<qq", min(coords), max(coords))
    one_tile_at_zero = struct.pack("<QQ", 1, 0)
    sizes = [(folder / name).stat().st_size for name in ("a.tdb", "__coords.tdb")]
    return b"".join(
        (
            struct.pack("<IQ", 2, len(ends)) + ends,  # version, non-empty domain
            struct.pack("<Q", 1) + ends,  # bounding rectangles
            struct.pack("<Q", 1) + struct.pack("<qq", coords[0], coords[-1]),
            one_tile_at_zero * 2,  # offsets in the two files
            one_tile_at_zero * 2,  # variable-length offsets and sizes
            struct.pack("<Q", len(coords)),  # cells in the last tile
            struct.pack("<QQQ", *sizes, 0),
        )
    )


def _tile(payload: bytes) -> bytes:
    """A generic tile of version 2 with one chunk through GZIP."""
    packed = zlib.compress(payload)
    chunk = struct.pack("<III", len(payload), len(packed), 16)
    chunk += struct.pack("<IIII", 0, 1, len(payload), len(packed)) + packed
    body = struct.pack("<Q", 1) + chunk
    pipeline = struct.pack("<IIBIBi", 1 << 16, 1, 1, 5, 1, -1)
    head = struct.pack("<IQQBQBI", 2, len(body), len(payload), 4, 1, 0, len(pipeline))
    return head + pipeline + body


def grown(scene: Scene) -> None:
    """Go on writing to an array of format 8 with the newest engine, which refuses to delete."""
    scene.borrow("old-sparse-consolidated-v8")
    scene.write(50, x=[6], a=[60])
    scene.delete(60, "a == 60 or x == 1")


def grown_dense(scene: Scene) -> None:
    """Go on with a dense array of format 10, consolidate, vacuum."""
    scene.borrow("old-dense-consolidated-v10")
    scene.sparse = False
    scene.write(50, x=[1, 2], a=[-1, -2])
    scene.consolidate("fragments")
    scene.vacuum("fragments")


def upgraded(scene: Scene) -> None:
    """Upgrade an array of format 8, then go on: both layouts in one array."""
    scene.borrow("old-sparse-consolidated-v8")
    with tiledb.open(scene.uri) as array:
        array.upgrade_version(scene.ctx().config())
    scene.write(50, x=[6], a=[60])
    # The new schema is of today, and only under it does the engine delete.
    scene.delete(5000000000000, "a == 60 or x == 1")
    scene.write(5000000000001, x=[1], a=[7])


def upgraded_commits(scene: Scene) -> None:
    """Likewise, then consolidate the commits: the `.con` lists `.ok` files."""
    upgraded(scene)
    scene.consolidate("commits")


def upgraded_commits_vacuumed(scene: Scene) -> None:
    """Likewise, and remove the files that the `.con` lists, then the fragments."""
    upgraded_commits(scene)
    scene.vacuum("commits")
    scene.vacuum("fragments")


RECIPES = (
    Recipe(
        "era-one",
        "format 3 fragments given the names and metadata files of formats 1 and 2",
        first_era,
        NEWEST,
        derived=True,
    ),
    Recipe("grown", "an array of format 8, continued by the newest engine", grown, NEWEST),
    Recipe(
        "grown-dense", "a dense array of format 10, continued, consolidated", grown_dense, NEWEST
    ),
    Recipe(
        "upgraded",
        "an array of format 8, upgraded: both layouts in one, and a .con that lists .ok files",
        upgraded_commits,
        NEWEST,
    ),
    Recipe(
        "upgraded-vacuumed",
        "likewise; the .ok files gone, and what the .vac lists",
        upgraded_commits_vacuumed,
        NEWEST,
    ),
)
