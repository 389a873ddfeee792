"""`chronotile conformance`: check any reader of the format against the cases of the kit.

In: a file of cases and a command. Out: a score for each chapter. Runs the command once for each
case, with limits on its time and its output, and knows nothing of the format.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chronotile.cli.options import Place, reporting
from chronotile.errors import BadFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

Ask = Callable[[str, "Case"], Any]
"""Gives the answer of a reader to a case whose file lies at a path."""

_LARGEST = 16 << 20
"""Bytes of one answer that are read."""
_LISTED = 20
"""Failures that the text lists; --json has all."""


class Case(NamedTuple):
    """One question, and the right answer."""

    chapter: str
    path: str
    expect: dict[str, Any]
    window: tuple[int, int] | None = None
    key: str | None = None
    edit: dict[str, int] | None = None


class Failure(NamedTuple):
    """A case that a reader got wrong."""

    case: Case
    problem: str


@dataclass(slots=True)
class Score:
    """The count of cases in one chapter."""

    passed: int = 0
    cases: int = 0
    not_asked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceReport:
    """The score of one reader."""

    scores: dict[str, Score]
    failures: tuple[Failure, ...]

    @property
    def status(self) -> int:
        """1 if the reader got a case wrong."""
        return int(bool(self.failures))

    def to_json(self) -> dict[str, Any]:
        """The score of each chapter, and each failure."""
        chapters = [
            {"chapter": name, "passed": s.passed, "cases": s.cases, "not_asked": s.not_asked}
            for name, s in self.scores.items()
        ]
        failures = [
            {
                "chapter": case.chapter,
                "path": case.path,
                "window": case.window,
                "edit": case.edit,
                "problem": problem,
            }
            for case, problem in self.failures
        ]
        return {"chapters": chapters, "failures": failures}

    def to_text(self) -> Iterator[RenderableType]:
        """A table of chapters, then the first failures."""
        from chronotile.show.output import Text, plain_table

        table = plain_table("passed", "cases", "not asked", "chapter", right=3)
        for name, score in self.scores.items():
            table.add_row(
                f"{score.passed:,}", f"{score.cases:,}", f"{score.not_asked:,}", Text(name)
            )
        yield table
        for case, problem in self.failures[:_LISTED]:
            window = "" if case.window is None else f" at {list(case.window)}"
            yield Text(f"{case.path}{window}: {problem}", "red")
        if len(self.failures) > _LISTED:
            yield f"and {len(self.failures) - _LISTED:,} more failures (--json)"


def read_cases(place: str) -> tuple[Path, list[Case]]:
    """Read a file of cases; gives the folder of their paths too.

    Raises:
        BadFileError: It is no file of cases.
    """
    try:
        document = json.loads(Path(place).read_text("utf-8"))
        root = Path(place).parent / document["root"]
        cases = [
            Case(
                chapter=str(one["chapter"]),
                path=str(one["path"]),
                expect=dict(one["expect"]),
                window=tuple(one["window"]) if "window" in one else None,
                key=one.get("key"),
                edit=one.get("edit"),
            )
            for one in document["cases"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise BadFileError(place, "expected a file of cases, found another") from cause
    for case in cases:
        path = PurePosixPath(case.path)
        if path.is_absolute() or ".." in path.parts:
            raise BadFileError(place, f"expected paths below its root, found {case.path!r}")
    return root, cases


def check_reader(root: Path, cases: Iterable[Case], ask: Ask) -> ConformanceReport:
    """Ask a reader every case, and compare."""
    scores: dict[str, Score] = {}
    failures = []
    for case in cases:
        score = scores.setdefault(case.chapter, Score())
        answer = _answer(root, case, ask)
        problem = problem_of(case.expect, answer)
        if problem is None:
            score.not_asked += 1
            continue
        score.cases += 1
        score.passed += not problem
        if problem:
            failures.append(Failure(case, problem))
    return ConformanceReport(scores=scores, failures=tuple(failures))


def problem_of(expect: dict[str, Any], answer: Any) -> str | None:
    """Compare an answer: empty if it is right, None if the reader cannot say.

    >>> problem_of({"t1": 1}, {"t1": 1, "more": 2}), problem_of({"t1": 1}, {"t1": None})
    ('', None)
    >>> problem_of({"t1": 1}, {"t1": 2})
    't1: expected 1, found 2'
    """
    if not isinstance(answer, dict):
        return "expected a JSON object, found another answer"
    if answer.get("cannot_say"):
        return None
    if "refused" in expect:
        return "" if answer.get("refused") else "expected a refusal, found an answer"
    if answer.get("refused"):
        return f"expected an answer, found a refusal: {_short(answer['refused'])}"
    if all(name in answer and answer[name] is None for name in expect):
        return None
    for name, value in expect.items():
        found = answer.get(name)
        if found != value and not (name in answer and found is None):
            return f"{name}: expected {_short(value)}, found {_short(found)}"
    return ""


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:120]}…"


def _answer(root: Path, case: Case, ask: Ask) -> Any:
    if case.edit is None:
        return ask(str(root / case.path), case)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / case.path
        copy.parent.mkdir(parents=True)
        copy.write_bytes(_edited((root / case.path).read_bytes(), case.edit))
        return ask(str(copy), case)


def _edited(data: bytes, edit: dict[str, int]) -> bytes:
    if "truncate" in edit:
        return data[: edit["truncate"]]
    at = edit["flip"]
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def command_asker(command: Sequence[str], timeout: float) -> Ask:
    """Make a reader of a command that gets a path and prints JSON."""

    def ask(path: str, case: Case) -> Any:
        window = () if case.window is None else ("--window", *map(str, case.window))
        key = () if case.key is None else ("--key", case.key)
        return _run([*command, path, *window, *key], timeout)

    return ask


def _run(command: list[str], timeout: float) -> Any:
    """Run a command in a process group of its own; give its JSON, or None."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        timer = threading.Timer(timeout, _end, (process,))
        timer.start()
        try:
            output = process.stdout.read(_LARGEST + 1) if process.stdout else b""
            if len(output) > _LARGEST:
                _end(process)
            process.wait()
        finally:
            timer.cancel()
    try:
        return json.loads(output) if len(output) <= _LARGEST else None
    except (ValueError, RecursionError):
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


@click.command(
    epilog="\b\nExample:\n  chronotile conformance tests/conformance/cases.json -- ./my-reader"
)
@click.argument("cases", metavar="CASES", type=Place("file"))
@click.argument("command", metavar="COMMAND…", nargs=-1, required=True)
@click.option("--only", metavar="TEXT", help="Only chapters whose name holds this text.")
@click.option("--timeout", type=float, default=30.0, metavar="SECONDS", help="For one case (30).")
@reporting
def conformance(
    cases: str, command: tuple[str, ...], only: str | None, timeout: float
) -> ConformanceReport:
    """Check a reader of the format, COMMAND, against the cases in CASES.

    For each case COMMAND runs with a path (and --window START END, --key KEY) added, and prints
    a JSON object. Exit status 1 if an answer is wrong.
    """
    root, every = read_cases(cases)
    chosen = [case for case in every if only is None or only in case.chapter]
    if not chosen:
        raise BadFileError(cases, f"expected cases of a chapter with {only!r}, found none")
    return check_reader(root, chosen, command_asker(command, timeout))
