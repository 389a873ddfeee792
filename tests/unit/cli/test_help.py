"""The help of every command: its examples work on the sample, and nothing in it is cut."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from chronotile.cli import main, sample
from chronotile.cli.program import _ALL, chronotile

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = (
    *("s3://", "demo/tonight"),
    *("chronotile demo", "chronotile pipeline", "chronotile conformance"),
)
"""Examples of what no sample has, or that other tests run."""


def help_of(*words: str) -> str:
    done = CliRunner().invoke(chronotile, [*words, "--help"], terminal_width=80)
    assert done.exit_code == 0
    return done.output


def examples() -> dict[str, list[str]]:
    """Find the examples of each command, in order: one may need what the one before it made."""
    found = {
        name: [
            line.strip()
            for line in help_of(name).splitlines()
            if re.match(r" *chronotile [a-z]+ ", line)
            and not any(word in line for word in ELSEWHERE)
        ]
        for name in _ALL
    }
    return {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize("name", _ALL)
def test_help_fits_a_terminal_and_says_what_each_option_is(name: str) -> None:
    text = help_of(name)
    lines = text.partition("\nOptions")[2].partition("\n  Example")[0].splitlines()
    assert "..." not in re.sub(r"^Usage:.*", "", text), "nothing is cut"
    assert "INTEGER RANGE" not in text
    assert "Example:" in text
    for option, after in zip(lines, [*lines[1:], ""], strict=True):
        if re.match(r"  -", option) and not re.search(r"\S  +\S", option.strip()):
            assert after.startswith(" " * 8), f"{option.strip()} is not explained"


def test_there_are_examples() -> None:
    without = ("demo", "pipeline", "conformance", "config", "publish")
    assert set(_ALL) - set(examples()) <= set(without)


@pytest.mark.parametrize(("name", "lines"), examples().items(), ids=[*examples()])
def test_the_examples_work_on_the_sample(
    name: str,
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sample.unpack(tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        _, *words = shlex.split(line)
        found = [sorted(map(str, tmp_path.glob(word))) if "*" in word else [word] for word in words]
        status = main([word for some in found for word in some])
        said = capsys.readouterr()
        # `check` finds what the sample has, and the sample has nothing to undo.
        assert status in ((0, 1) if name in ("check", "undo") else (0,)), (line, said.err)
        assert name == "undo" or "expected" not in said.err, (line, said.err)
