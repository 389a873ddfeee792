"""TileDB-Py's own tests, while every array is changed by us and changed back before each read.

In: the tests that the wheel of `tiledb` has in it. Out: figures as JSON: the tests that pass
without us, and those of them that fail with us. As a plugin of pytest this module stands before
each open of a local array for reading: it makes a change, a different one each time, and undoes it.
A change may be refused; an undo may not. `make upstream-tests` runs this file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import tiledb

import chronotile as ct
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError
from chronotile.format.cell_values import raw_to_json
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.array import Array

FAR = 1 << 62
_COUNTS = "CHRONOTILE_UPSTREAM_COUNTS"
"""The folder in which each process leaves its counts."""
_counts: Counter[str] = Counter()


def _delete(array: Array) -> Any:
    """Delete every row, which only a sparse array takes."""
    latest = schema_at(array.log.history, FAR)
    assert latest is not None
    assert latest.schema is not None
    dimension = latest.schema.dimensions[0]
    half = dimension.domain[: len(dimension.domain) // 2]
    low = raw_to_json(dimension, half) if half else "a"
    return array.delete(f"{dimension.name} >= {low!r}", any_time=True)


def _restore(array: Array) -> Any:
    """Go back to the middle of the history."""
    times = sorted(array.commits()["t1"].to_pylist())
    return array.restore(to=times[len(times) // 2] if times else 0, commits_only=True)


_CHANGES: tuple[Callable[[Array], Any], ...] = (
    lambda array: array.tag("upstream"),
    lambda array: array.consolidate("commits"),
    _restore,
    lambda array: array.consolidate("all"),
    _delete,
)


def change_and_undo(uri: str, key: str | None) -> None:
    """Change an array, and change it back."""
    _counts["reads"] += 1
    change = _CHANGES[_counts["reads"] % len(_CHANGES)]
    try:
        array = ct.open(uri, key=key)
        report = change(array)  # type: ignore[arg-type]  # no group
    except ChronotileError as error:
        kind = "refused" if isinstance(error, RefusedError) else type(error).__name__
        _counts[f"{kind}: {error.problem.split(', found')[0][:80]}"] += 1
        return
    if report.steps:
        array.undo(report)
        _counts[f"{report.command} undone"] += 1


def pytest_configure() -> None:
    """Stand before each open for reading."""
    original = tiledb.array.preload_array

    def preload_array(uri: Any, mode: str, key: Any, timestamp: Any, ctx: Any = None) -> Any:
        text = os.fspath(uri) if isinstance(uri, os.PathLike) else str(uri)
        path = text.removeprefix("file://")
        if mode == "r" and os.path.isdir(f"{path}/__schema"):  # noqa: PTH112 (of every open)
            settings = (ctx or tiledb.default_ctx()).config()
            change_and_undo(path, key or settings["sm.encryption_key"] or None)
        return original(uri, mode, key, timestamp, ctx)

    tiledb.array.preload_array = preload_array


def pytest_unconfigure() -> None:
    """Leave the counts."""
    folder = os.environ.get(_COUNTS)
    if folder:
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(_counts))


def run(chosen: Path, *, changed: bool) -> tuple[dict[str, str], Counter[str]]:
    """Run the tests of a file; give the outcome of each, and what we did meanwhile.

    Where the engine ends the process, there is none.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "tests.xml")
        call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
        call += [
            "--collect-in-virtualenv",
            "--import-mode=importlib",
            "-o",
            "python_classes=*Test*",
        ]
        call += [str(chosen), f"--junitxml={out}"]
        call += ["-p", "bench.upstream_tests"] if changed else []
        paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), _COUNTS: folder}
        subprocess.run(call, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=False)
        outcomes = {}
        for case in ElementTree.parse(out).iter("testcase") if out.exists() else ():
            kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
            outcomes[f"{case.get('classname')}.{case.get('name')}"] = min(kinds, default="passed")
        counts: Counter[str] = Counter()
        for file in Path(folder).glob("*.json"):
            counts.update(json.loads(file.read_text()))
        return outcomes, counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="Such as test_metadata.py; all of them.")
    asked = parser.parse_args()
    there = Path(tiledb.__file__).parent / "tests"
    chosen = [there / name for name in asked.files] or sorted(there.rglob("test_*.py"))
    tests, passed = 0, 0
    broken: list[str] = []
    crashed: list[str] = []
    counts: Counter[str] = Counter()
    for file in chosen:
        alone, _ = run(file, changed=False)
        changed, done = run(file, changed=True)
        good = [name for name, outcome in alone.items() if outcome == "passed"]
        bad = [name for name in good if changed.get(name) != "passed"]
        tests, passed = tests + len(alone), passed + len(good)
        broken, crashed = broken + bad, crashed + [file.name] * (not alone)
        counts += done
        print(f"{file.name}: {len(good)} passed, {len(bad)} broken", file=sys.stderr, flush=True)
    figures: dict[str, Any] = {"tests": tests, "passed without": passed, "broken": broken}
    figures["ended by the engine without us"] = crashed
    print(json.dumps(figures | dict(sorted(counts.items())), indent=2))
    return 1 if broken or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
