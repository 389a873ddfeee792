"""The wheel: both roots in one, and it works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    (built,) = place.glob("*.whl")
    return built


def test_all_of_the_packages_are_in_it(wheel: Path) -> None:
    roots = ("src/chronotile", "src/pyspark_chronotile", "generated/chronotile_ksy")
    wanted = {
        path.relative_to(ROOT / root.partition("/")[0])
        for root in roots
        for path in (ROOT / root).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as packed:
        found = {Path(name) for name in packed.namelist()}
    assert {path for path in found if ".dist-info" not in path.parts[0]} == wanted
    assert Path("chronotile/show/page.css") in wanted
    assert Path("chronotile/guides/time-machine.md") in wanted


def test_pip_installs_it_into_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """With what it asks for, from PyPI, and nothing else: no extra, no tool, no checkout."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet", "--no-compile"]
    pinned = ["--disable-pip-version-check", "--constraint", str(ROOT / ".ci" / "constraints.txt")]
    bare = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(*pip, *pinned, str(wheel))
    program = str(python.parent / "chronotile")
    assert run(program, "--version") == f"chronotile, version {version('chronotile')}\n"
    assert "Open demo/timeline.html first" in run(program, "demo")
    assert "9 commits" in run(program, "log", "demo/array")
    where = "import chronotile, chronotile_ksy; print(chronotile.__file__, chronotile_ksy.__file__)"
    assert run(str(python), "-c", where).count(str(tmp_path)) == 2
