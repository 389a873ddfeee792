"""Encrypted arrays: every kind of file that the engine encrypts.

In: an empty scene with a key. Out: arrays in AES-256-GCM.
"""

from __future__ import annotations

import tiledb
from corpus.recipes.eras import (
    plain,
    sparse_commits_vacuumed,
    sparse_consolidated,
    sparse_everything,
)
from corpus.recipes.operators import NEWEST
from corpus.recipes.scene import Recipe, Scene


def loose(scene: Scene) -> None:
    sparse_consolidated(scene)
    scene.meta(45, word="secret", number=7)


def update(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 2, 3], a=[1, 2, 3])
    scene.update(20, "a == 2", a=777)
    scene.delete(30, "x == 3")


def enumeration(scene: Scene) -> None:
    labels = tiledb.Enumeration("animals", False, values=["ant", "bee", "cat"])
    dim = tiledb.Dim("x", domain=(1, 9), tile=9, dtype="uint8")
    attr = tiledb.Attr("a", dtype="uint8", enum_label="animals")
    scene.create([dim], [attr], enums=[labels])
    scene.write(10, x=[1, 2, 3], a=[0, 1, 2])
    scene.delete(20, "a == 'bee'")


def long_list(scene: Scene) -> None:
    plain(scene)
    scene.write(10, x=[1, 2, 3], a=[1, 2, 3])
    scene.delete(20, f"a in {list(range(3, 6000))}")


def dense(scene: Scene) -> None:
    plain(scene, sparse=False)
    scene.write(10, x=[1, 8], a=[1, 2, 3, 4, 5, 6, 7, 8])
    scene.write(20, x=[3, 4], a=[30, 40])
    scene.consolidate("fragments")
    scene.consolidate("fragment_meta")


OLD_AND_NEW = ("0.19.1", "0.36.1")
RECIPES = (
    Recipe("secret-loose", "encrypted: writes, deletes, .vac, metadata", loose, OLD_AND_NEW, True),
    Recipe("secret-con", "encrypted: a .con with deletes", sparse_commits_vacuumed, NEWEST, True),
    Recipe("secret-everything", "encrypted: .con, .ign, .meta", sparse_everything, NEWEST, True),
    Recipe("secret-update", "encrypted: .upd", update, NEWEST, True),
    Recipe("secret-enumeration", "encrypted: an enumeration", enumeration, NEWEST, True),
    Recipe("secret-long-list", "encrypted: a tile of several chunks", long_list, NEWEST, True),
    Recipe("secret-dense", "encrypted: a dense array", dense, NEWEST, True),
)
