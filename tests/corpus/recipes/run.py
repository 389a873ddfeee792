"""Makes every case that one engine has a recipe for.

In: a root folder and an engine's version. Out: `<case>/array` and `<case>/scene.json` below it.
Knows nothing of what a reader should see.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import shutil

import tiledb
from corpus.recipes.scene import KEY, Recipe, Scene

THEMES = (
    "eras",
    "operators",
    "nulls",
    "shapes",
    "times",
    "encryption",
    "updates",
    "evolution",
    "metadata",
    "insides",
    "derived",
    "faults",
)


def recipes() -> list[Recipe]:
    """The recipes of every theme that this engine can load."""
    found: list[Recipe] = []
    for theme in THEMES if tiledb.libtiledb.version() >= (2, 13) else ("layouts",):
        found += importlib.import_module(f"corpus.recipes.{theme}").RECIPES
    return found


def make(root: pathlib.Path, recipe: Recipe, engine: str) -> None:
    """Make one case below a root folder."""
    work = root / "at-work"
    shutil.rmtree(str(work), ignore_errors=True)
    scene = Scene(work / "array", encrypted=recipe.encrypted)
    recipe.build(scene)
    scene.finish()
    name = recipe.name
    if len(recipe.engines) > 1:
        name += f"-v{scene.format}"
    story = {
        "case": name,
        "about": recipe.about,
        "engine": {"tiledb": engine, "libtiledb": ".".join(map(str, tiledb.libtiledb.version()))},
        "format": scene.format,
        "derived": recipe.derived,
        "key": KEY if recipe.encrypted else None,
        "windows": scene.windows,
        "commits": scene.commits,
        "refused": scene.refused,
    }
    shutil.rmtree(str(root / name), ignore_errors=True)
    (root / name).mkdir()
    shutil.move(str(work / "array"), str(root / name / "array"))
    (root / name / "scene.json").write_text(json.dumps(story))
    print(name)


def main() -> None:
    """Make the cases of one engine, or those that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("engine")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    asked.root.mkdir(parents=True, exist_ok=True)
    for recipe in recipes():
        if asked.engine in recipe.engines and (not asked.names or recipe.name in asked.names):
            make(asked.root, recipe, asked.engine)


if __name__ == "__main__":
    main()
