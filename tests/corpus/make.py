"""Rebuilds the corpus with the engines themselves.

In: PyPI (or a folder of ready environments). Out: `tests/corpus/<case>/` and the README's table.
Knows nothing of chronotile; what it writes is judged by the newest engine alone.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

HERE = pathlib.Path(__file__).parent
# A fixed place: engines before format 19 write absolute paths into `.vac` files.
ROOT = pathlib.Path(tempfile.gettempdir()) / "chronotile-corpus"
BEGIN, END = "<!-- cases -->", "<!-- /cases -->"


class Engine(NamedTuple):
    """One release of the `tiledb` package."""

    tiledb: str
    python: str
    numpy: str = "numpy<2"


ENGINES = (
    Engine("0.4.4", "3.7"),
    Engine("0.5.9", "3.8"),
    Engine("0.6.6", "3.8"),
    Engine("0.8.11", "3.8"),
    Engine("0.11.5", "3.9"),
    Engine("0.19.1", "3.11"),
    Engine("0.20.0", "3.11"),
    Engine("0.21.6", "3.11"),
    Engine("0.24.1", "3.11"),
    Engine("0.27.1", "3.11"),
    Engine("0.36.1", "3.11", "numpy"),
)
JUDGE = ENGINES[-1]


def find_python(version: str) -> str | None:
    """A Python of that version: this one, one on the PATH, or one of pyenv's."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    home = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}")]
    candidates += [str(path) for path in home.glob(f"versions/{version}.*/bin/python")]
    for candidate in candidates:
        if candidate and subprocess.run([candidate, "-V"], capture_output=True).returncode == 0:
            return candidate
    return None


def environment(engine: Engine, ready: pathlib.Path | None, folder: pathlib.Path) -> str | None:
    """The interpreter of an environment with that engine, made if none is ready."""
    if ready is not None and (ready / f"e{engine.tiledb}/bin/python").exists():
        return str(ready / f"e{engine.tiledb}/bin/python")
    python = find_python(engine.python)
    if python is None:
        return None
    place = folder / engine.tiledb
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin/pip"), "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*pip, f"tiledb=={engine.tiledb}", engine.numpy], check=True)
    return str(place / "bin/python")


def run(python: str, module: str, *arguments: str) -> None:
    """Run a module of the corpus under an engine's interpreter."""
    settings = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Without it the engine crashes now and then (tests/support/engines.py says where).
        "TILEDB_SM_QUERY_SPARSE_GLOBAL_ORDER_PREPROCESS_TILE_MERGE": "0",
    }
    command = [python, "-W", "ignore", "-m", module, *arguments]
    subprocess.run(command, check=True, env=settings)


def install(root: pathlib.Path, engines: set[str], *, replace: bool) -> list[str]:
    """Move judged cases into the corpus; drop the old ones of the same engines."""
    if replace:
        for old in HERE.glob("*/expected.json"):
            if json.loads(old.read_text())["engine"]["tiledb"] in engines:
                shutil.rmtree(old.parent)
    moved = []
    for expected in sorted(root.glob("*/expected.json")):
        case = HERE / expected.parent.name
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir()
        shutil.copytree(expected.parent / "array", case / "array")
        shutil.copy(expected, case / "expected.json")
        check(case)
        moved.append(case.name)
    return moved


def check(case: pathlib.Path) -> None:
    """Refuse a case that says too little, or that tells of this machine."""
    said = json.loads((case / "expected.json").read_text())
    assert len(said["windows"]) >= 4, f"{case.name}: fewer than four windows"
    assert any(window["start"] for window in said["windows"]), f"{case.name}: all start at 0"
    private = [os.fsencode(place) for place in (pathlib.Path.home(), pathlib.Path.cwd())]
    for path in case.rglob("*"):
        if path.is_file():
            assert not any(text in path.read_bytes() for text in private), f"{path}: a path"


def table() -> str:
    """The README's list of cases, from their `expected.json`."""
    lines = ["| case | format | engine | type | what it is |", "|---|---|---|---|---|"]
    for path in sorted(HERE.glob("*/expected.json")):
        said = json.loads(path.read_text())
        lines.append(
            f"| `{said['case']}` | {said['format']} | {said['engine']['tiledb']} "
            f"| {said['array_type']} | {said['about']} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Make, judge and install the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines-dir", type=pathlib.Path, help="ready environments, e<version>")
    parser.add_argument("--only", nargs="*", default=[], help="recipes to make; others stay")
    parser.add_argument("--engine", nargs="*", default=[], help="engines to use; others stay")
    asked = parser.parse_args()
    wanted = [one for one in ENGINES if not asked.engine or one.tiledb in asked.engine]
    shutil.rmtree(ROOT, ignore_errors=True)
    made: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for engine in wanted:
            python = environment(engine, asked.engines_dir, pathlib.Path(folder))
            if python is None:
                print(f"kept as they are: no Python {engine.python} for tiledb {engine.tiledb}")
                continue
            run(python, "corpus.recipes.run", str(ROOT), engine.tiledb, *asked.only)
            made.add(engine.tiledb)
        judge = environment(JUDGE, asked.engines_dir, pathlib.Path(folder))
        if judge is None:
            print(f"no Python {JUDGE.python} for the judge", file=sys.stderr)
            return 1
        run(judge, "corpus.judge", str(ROOT))
    names = install(ROOT, made, replace=not asked.only)
    readme = HERE / "README.md"
    head, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}")
    shutil.rmtree(ROOT)
    print(f"{len(names)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
