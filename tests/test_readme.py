"""The README: its commands are run, its output is real, its code works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
CODE = [text for language, text in BLOCKS if language == "python"]
PROGRAM = [sys.executable, "-m", "chronotile"]
BIN = str(Path(sys.executable).parent)
ENVIRONMENT = os.environ | {"TZ": "UTC", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
"""As in an environment that was activated: Spark's workers look for Python on the path."""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo in it, as after `make demo`."""
    folder = tmp_path_factory.mktemp("readme")
    subprocess.run(
        [*PROGRAM, "demo", "--no-spark", "--json"],
        cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return folder


def commands() -> list[tuple[str, str]]:
    """(command, what it is said to print) of every console block."""
    found = []
    for language, text in BLOCKS:
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append((command, output.strip()))
    return found


def test_the_blocks_are_found() -> None:
    languages = [language for language, _ in BLOCKS]
    assert languages.count("console") >= 3
    assert languages.count("python") == 2
    assert {command.split()[0] for command, _ in commands()} == {"make", "chronotile"}


@pytest.mark.parametrize(("command", "output"), commands(), ids=lambda text: text[:40])
def test_a_command_prints_what_is_shown(command: str, output: str, workplace: Path) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        dry = ["make", "--dry-run", "--directory", str(ROOT), *arguments]
        assert subprocess.run(dry, capture_output=True, timeout=60, check=False).returncode == 0
        return
    done = subprocess.run(
        [*PROGRAM, *arguments],
        cwd=workplace, env=ENVIRONMENT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if output:
        assert done.stdout.strip() == output


@pytest.mark.parametrize(
    ("code", "words"),
    list(zip(CODE, (" ignored __commits/", "superseded"), strict=True)),
    ids=["plain", "spark"],
)
def test_the_code_runs(code: str, words: str, workplace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=workplace, env=ENVIRONMENT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    assert "amount < 3.0" in done.stdout


def test_the_table_of_commands_is_true() -> None:
    from chronotile.cli.program import _ALL

    named = set(re.findall(r"`chronotile (\w+)", README)) | {"vacuum", "repair"}
    assert named <= set(_ALL)
    for name in _ALL:
        assert re.search(rf"`(chronotile )?{name}\b", README) or name == "demo", name


def test_every_fault_is_there() -> None:
    assert re.findall(r"^\| (F\d+) \|", README, re.MULTILINE) == [
        f"F{number}" for number in range(1, 16)
    ]


def test_links_and_specs_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
    specs = README.partition("## In the Kaitai Web IDE")[2].partition("\n## ")[0]
    names = re.findall(r"`([a-z]+_[a-z_]+)(?:\.ksy)?`", specs)
    assert len(names) >= 8
    for name in names:
        assert (ROOT / "ksy" / f"{name}.ksy").exists(), name


def test_the_picture_is_small_and_of_the_demo() -> None:
    picture = (ROOT / ".github" / "timeline.svg").read_text("utf-8")
    assert picture.startswith("<svg")
    assert len(picture) < 60_000
    assert "History of demo/array" in picture
