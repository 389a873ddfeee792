"""The bar of progress: on a terminal, gone in the end, and nowhere else."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.terminals import PROGRAM, on_terminal

import chronotile as ct
from chronotile.cli import sample

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample.unpack(tmp_path_factory.mktemp("lake")).array


def test_a_deep_check_counts_the_fragments_that_it_opened(array: Path) -> None:
    committed = len(ct.open_log(array).rules.fragment_rows)
    status, seen = on_terminal(["check", "--deep", str(array), "--fail-on", "none"])
    assert status == 0
    bars = re.findall(r"opening fragments .*?━.*?(\d+) .*?\d:\d\d", seen)
    counts = [int(count) for count in bars]
    assert counts == sorted(counts)
    assert counts[-1] == committed > 1
    # The bar clears its line, and hands the cursor back, before the report comes.
    bar, _, report = seen.rpartition("\x1b[2K")
    assert "\x1b[?25h" in bar
    assert "opening fragments" not in report
    assert str(array) in report.replace("\r\n", "")


def test_a_check_counts_arrays_and_a_pipe_gets_no_bar(array: Path) -> None:
    command = ["check", str(array), "--fail-on", "none"]
    assert re.search(r"checking arrays .*━", on_terminal(command)[1])
    for more in ([], ["--deep"]):
        piped = [*PROGRAM, *command, *more]
        done = subprocess.run(piped, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert "━" not in done.stdout
        assert "\x1b" not in done.stdout


def test_a_list_of_places_counts_arrays(array: Path) -> None:
    status, seen = on_terminal(["ls", str(array.parent)])
    assert status == 0
    bar, _, listed = seen.rpartition("\x1b[2K")
    assert re.search(r"reading arrays .*━", bar)
    assert "reading arrays" not in listed
    assert "4 arrays, 2 groups" in listed


def test_rows_count_their_batches(array: Path) -> None:
    command = ["rows", str(array), "--limit", "2"]
    status, seen = on_terminal(command)
    assert status == 0
    bar, _, rows = seen.rpartition("\x1b[2K")
    assert re.search(r"reading rows, in batches .*━", bar)
    assert "━" not in rows
    piped = subprocess.run(
        [*PROGRAM, *command], capture_output=True, text=True, check=True, timeout=60
    )
    assert piped.stderr == ""
    assert "batches" not in piped.stdout
