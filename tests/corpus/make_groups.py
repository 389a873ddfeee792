"""Rebuilds the groups of the corpus with the packages that people make groups with.

In: PyPI (or a folder of ready environments). Out: `tests/corpus/group-<case>/`. Knows nothing of
chronotile; the newest engine judges what was written.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from corpus.make import JUDGE, ROOT, find_python, run  # noqa: E402


class Maker(NamedTuple):
    """A package that writes groups, and a recipe for it."""

    case: str
    about: str
    packages: tuple[str, ...]
    python: str
    recipe: str
    arguments: tuple[str, ...] = ()


ENGINE = (f"tiledb=={JUDGE.tiledb}", JUDGE.numpy)
MAKERS = (
    Maker("group-nested", "grown, renamed, removed", ENGINE, "3.11", "group_engine", ("nested",)),
    Maker(
        "group-copied", "absolute URIs of another place", ENGINE, "3.11", "group_engine", ("odd",)
    ),
    Maker(
        "group-v1",
        "version 1: the newest list alone counts",
        ("tiledb==0.17.6", "numpy<2"),
        "3.9",
        "group_engine",
        ("first-version",),
    ),
    Maker("group-soma", "an experiment", ("tiledbsoma==2.3.0",), "3.11", "group_soma"),
    Maker(
        "group-vectors",
        "a vector index",
        ("tiledb-vector-search", "numpy>=2,<2.4"),
        "3.11",
        "group_vectors",
    ),
)


def interpreter(packages: tuple[str, ...], python: str, folder: pathlib.Path) -> str | None:
    """The interpreter of an environment with these packages, made once."""
    place = folder / "-".join(packages).translate(str.maketrans("<>=,", "----"))
    if not place.exists():
        base = find_python(python)
        if base is None:
            return None
        subprocess.run([base, "-m", "venv", str(place)], check=True)
        pip = [str(place / "bin/pip"), "install", "--quiet", "--only-binary", ":all:"]
        subprocess.run([*pip, *packages], check=True)
    return str(place / "bin/python")


def main() -> int:
    """Make and judge the groups."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=pathlib.Path, help="a folder to keep them in")
    parser.add_argument("--only", nargs="*", default=[], help="cases to make; others stay")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.environments or pathlib.Path(scratch)
        for maker in MAKERS:
            if asked.only and maker.case not in asked.only:
                continue
            python = interpreter(maker.packages, maker.python, folder)
            judge = interpreter(ENGINE, JUDGE.python, folder)
            if python is None or judge is None:
                print(f"kept as it is: no Python {maker.python} for {maker.case}")
                continue
            # A fixed place: some packages write absolute paths into their files.
            shutil.rmtree(ROOT, ignore_errors=True)
            work = ROOT / maker.case
            work.mkdir(parents=True)
            run(python, f"corpus.recipes.{maker.recipe}", str(work), *maker.arguments)
            run(judge, "corpus.judge_groups", str(work), maker.about, maker.packages[0])
            install(work, HERE / maker.case)
    shutil.rmtree(ROOT, ignore_errors=True)
    return 0


def install(work: pathlib.Path, case: pathlib.Path) -> None:
    """Move a judged group into the corpus."""
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(work, case)
    private = [os.fsencode(place) for place in (pathlib.Path.home(), pathlib.Path.cwd())]
    for path in case.rglob("*"):
        if path.is_file():
            assert not any(text in path.read_bytes() for text in private), f"{path}: a path"


if __name__ == "__main__":
    sys.exit(main())
