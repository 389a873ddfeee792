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


def examples() -> list[str]:
    texts = [help_of(name) for name in _ALL]
    found = [line.strip() for text in texts for line in text.splitlines()]
    lines = [line for line in found if re.match(r"chronotile [a-z]+ ", line)]
    return [line for line in lines if not any(word in line for word in ELSEWHERE)]


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
    assert len(examples()) >= len(_ALL) - 4


@pytest.mark.parametrize("line", examples())
def test_an_example_works_on_the_sample(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.unpack(tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    _, *arguments = shlex.split(line)
    if "*" in line:
        arguments = [
            str(path)
            for word in arguments
            for path in (sorted(tmp_path.glob(word)) if "*" in word else [word])
        ]
    status = main(arguments)
    said = capsys.readouterr()
    # `check` finds what the sample has, and the sample has nothing to undo.
    assert status in ((0, 1) if arguments[0] in ("check", "undo") else (0,)), said.err
    assert arguments[0] == "undo" or "expected" not in said.err, said.err
