"""Arrays that are broken, or that hold what the engine never writes.

In: an empty scene. Out: a sound array with one thing done to it by hand, as the code says.
The engine judges them like any other; where it refuses, its words are what is expected.
"""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

from corpus.recipes.eras import plain
from corpus.recipes.operators import NEWEST
from corpus.recipes.scene import Recipe, Scene

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable


def _loose(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 2, 3], a=[1, 2, 3])
    scene.write(20, x=[3, 4], a=[30, 40])
    scene.delete(25, "a < 3")


def _consolidated(scene: Scene) -> None:
    _loose(scene)
    scene.consolidate("commits")


def _vacuumed(scene: Scene) -> None:
    _consolidated(scene)
    scene.vacuum("commits")


def _only(scene: Scene, pattern: str) -> pathlib.Path:
    return min((scene.folder / "__commits").glob(pattern))


def cut_short(scene: Scene) -> None:
    _vacuumed(scene)
    con = _only(scene, "*.con")
    data = con.read_bytes()
    con.write_bytes(data[: data.rindex(b"__commits/") + 20])


def cut_in_tile(scene: Scene) -> None:
    _vacuumed(scene)
    con = _only(scene, "*.con")
    data = con.read_bytes()
    con.write_bytes(data[: data.index(b".del\n") + 40])


def missing_fragment(scene: Scene) -> None:
    _loose(scene)
    shutil.rmtree(min((scene.folder / "__fragments").glob("__20_*")))


def uncommitted(scene: Scene) -> None:
    _loose(scene)
    _only(scene, "__20_*.wrt").unlink()


def bad_name(scene: Scene) -> None:
    _loose(scene)
    (scene.folder / "__commits" / "notes.wrt").touch()
    scene.windows = [(0, 10), (0, 40), (15, 40), (20, 20)]


def backwards(scene: Scene) -> None:
    _loose(scene)
    name = "__50_40_00000000000000000000000000000001_22.wrt"
    (scene.folder / "__commits" / name).touch()
    scene.windows = [(0, 10), (0, 40), (15, 40), (20, 20)]


def strangers(scene: Scene) -> None:
    _loose(scene)
    (scene.folder / "README.txt").write_text("not the engine's\n")
    (scene.folder / "__commits" / ".keep").touch()
    (scene.folder / "__commits" / "thumbs.db").write_bytes(b"\0\1\2")
    (scene.folder / "__fragments" / "lost+found").mkdir()
    (scene.folder / "__fragments" / "lost+found" / "a").touch()


def ignored_delete(scene: Scene) -> None:
    _vacuumed(scene)
    name = scene.commits[0]["name"]
    ign = "__25_25_00000000000000000000000000000002_22.ign"
    (scene.folder / "__commits" / ign).write_text(f"__commits/{name}.del\n")


def ignored_loose_write(scene: Scene) -> None:
    _consolidated(scene)
    wrt = _only(scene, "__20_*.wrt").name
    ign = "__20_20_00000000000000000000000000000003_22.ign"
    (scene.folder / "__commits" / ign).write_text(f"__commits/{wrt}\n")


def bad_tile(scene: Scene) -> None:
    _loose(scene)
    file = _only(scene, "__25_*.del")
    data = bytearray(file.read_bytes())
    data[-5] ^= 0xFF
    file.write_bytes(bytes(data))


def empty_delete(scene: Scene) -> None:
    _loose(scene)
    _only(scene, "__25_*.del").write_bytes(b"")


def update_in_con(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 2, 3], a=[1, 2, 3])
    scene.update(20, "a == 2", a=777)
    scene.write(30, x=[4], a=[4])
    wrt = _only(scene, "__10_*.wrt")
    upd = _only(scene, "*.upd")
    tile = upd.read_bytes()
    data = f"__commits/{wrt.name}\n__commits/{upd.name}\n".encode()
    data += struct.pack("<Q", len(tile)) + tile
    con = "__10_20_00000000000000000000000000000004_22.con"
    (scene.folder / "__commits" / con).write_bytes(data)
    wrt.unlink()
    upd.unlink()


def stale_vac(scene: Scene) -> None:
    _loose(scene)
    scene.consolidate("fragments")
    vac = _only(scene, "*.vac")
    lines = vac.read_text().splitlines()
    lines = [f"s3://elsewhere/gone{line}" for line in lines]
    lines.append("/__fragments/__15_15_00000000000000000000000000000005_22")
    vac.write_text("\n".join(lines) + "\n")


def lone_vac(scene: Scene) -> None:
    _loose(scene)
    scene.consolidate("fragments")
    _only(scene, "__10_20_*.wrt").unlink()


def _recipe(name: str, about: str, build: Callable[[Scene], None]) -> Recipe:
    return Recipe(name, about, build, NEWEST, derived=True)


RECIPES = (
    _recipe("bad-con-line", "a .con cut short in a line", cut_short),
    _recipe("bad-con-tile", "a .con cut short in a tile", cut_in_tile),
    _recipe("bad-no-fragment", "a commit without its fragment", missing_fragment),
    _recipe("bad-uncommitted", "a fragment without its commit", uncommitted),
    _recipe("bad-name", "a .wrt whose name is no name", bad_name),
    _recipe("bad-backwards", "a .wrt that ends before it starts", backwards),
    _recipe("bad-strangers", "files and folders that are not the engine's", strangers),
    _recipe("bad-ignored-delete", "a .ign that names a delete", ignored_delete),
    _recipe(
        "bad-ignored-write", "a .ign that names a write which is also loose", ignored_loose_write
    ),
    _recipe("bad-tile", "a .del with a flipped byte", bad_tile),
    _recipe("bad-empty-delete", "a .del of no bytes", empty_delete),
    _recipe("bad-update-in-con", "a .upd inside a .con, as the format allows", update_in_con),
    _recipe("bad-vac-absolute", "a .vac with lines from elsewhere", stale_vac),
    _recipe("bad-vac-alone", "a .vac whose own fragment is not committed", lone_vac),
)
