"""The format: `show` decodes files, `conformance` checks any reader of them.

In: files of any kind, in their array or away from it; or a file of cases and a command. Out: the
content as a tree or as JSON, with the byte range of each field; or a score for each chapter.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chronotile.cli.options import PlaceType, access_options, command, flag, reporting
from chronotile.errors import BadFileError, ChronotileError, StorageError, WrongCallError
from chronotile.format.kinds import FRAGMENTS, KINDS, OWN, SCHEMA
from chronotile.safe_text import shell_word
from chronotile.show.output import Answer, Text, plain_table, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from chronotile.cli.options import Access
    from chronotile.format.schema import Schema
    from chronotile.show.byte_ranges import Region
    from chronotile.single_file.decode import AnyFile


_HEX = 16
"""Bytes of a field that a table shows."""


class Shown(NamedTuple):
    """One file, read and decoded."""

    place: str
    size: int
    file: AnyFile
    schemas: tuple[Schema, ...]
    key: bytes | None
    regions: tuple[Region, ...] | None
    """The byte ranges, if they were asked for."""

    def _content(self) -> dict[str, Any]:
        from chronotile.show.file_json import name_json, to_json

        name = name_json(self.place, self.file.kind)
        return name | to_json(self.file, self.schemas, self.key)

    def to_json(self) -> dict[str, Any]:
        """Give the file, its kind and size, its content, and the byte ranges."""
        document = {"file": self.place, "kind": self.file.kind, "size": self.size}
        document |= self._content()
        if self.regions is not None:
            document["layout"] = [_region_json(region) for region in self.regions]
        return document

    def to_text(self) -> Iterator[RenderableType]:
        """Give a tree; with byte ranges, a table for each region after it."""
        from rich.tree import Tree

        from chronotile.show.file_json import WORDS

        title = f"{self.place.rpartition('/')[2]}: {WORDS[self.file.kind]}, {size_text(self.size)}"
        tree = Tree(Text(title, "bold"), guide_style="dim")
        _grow(tree, self._content())
        yield tree
        for region in self.regions or ():
            yield ""
            yield Text(f"{region.title}: {size_text(len(region.data))}", "bold")
            yield _region_table(region)


def _several(found: Sequence[Shown | ChronotileError]) -> Answer:
    """Show one file after the other, then those that could not be read."""
    shown = [one for one in found if isinstance(one, Shown)]
    errors = [one for one in found if isinstance(one, ChronotileError)]

    def document() -> list[dict[str, Any]]:
        failed = [{"file": error.where, "error": error.to_dict()} for error in errors]
        return [*(one.to_json() for one in shown), *failed]

    def text() -> Iterator[RenderableType]:
        for number, one in enumerate(shown):
            if number:
                yield ""
            yield from one.to_text()
        yield from (Text(str(error), "red") for error in errors)

    return Answer(document, text(), max((error.exit_code for error in errors), default=0))


def _grow(tree: Any, document: Any) -> None:
    """Add a JSON value to a tree: one line for each value that fits a line."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in pairs:
        label = Text(str(name), "cyan")
        line = _one_line(value)
        if line is not None:
            tree.add(label.append("  ").append(line, "default"))
        else:
            _grow(tree.add(label), value)


def _per_cell(values: Any) -> str:
    """Say how many values a cell has, unless it is one."""
    if values == 1:
        return ""
    return ", variable length" if not isinstance(values, int) else f", {values} values in each cell"


def _one_line(value: Any) -> str | None:
    match value:
        case {"uri": uri, "type": kind, "deleted": deleted}:
            named = "" if value["name"] is None else f"{value['name']}: "
            where = "below the group" if value["relative"] else "absolute"
            return f"{named}{kind} {uri} ({where}){', removed' if deleted else ''}"
        case {"key": key, "removed": True}:
            return f"{key} removed"
        case {"key": key, "value": of_key, "datatype": datatype}:
            return f"{key} = {of_key} ({datatype.lower()})"
        case {"field": field, "raw": raw}:
            shown = f" {value['value']}" if value.get("value") is not None else ""
            return f"{field} {value.get('op', '=')}{shown}, raw {raw or 'empty'}"
        case {"uri": uri, "offset": offset} if len(value) == 2:
            return f"{uri} at byte {offset}"
        case {"name": name, "datatype": datatype, "nullable": nullable}:
            several = _per_cell(value["values"])
            labels = f", labels of {value['enumeration']}" if value["enumeration"] else ""
            return f"{name}: {datatype.lower()}{several}{', nullable' if nullable else ''}{labels}"
        case dict():
            return None
    if isinstance(value, list):
        flat = all(not isinstance(item, dict | list) for item in value)
        line = ", ".join(map(str, value))
        return line or "none" if flat and (len(line) <= 60 or not value) else None
    return "none" if value is None else str(value)


def _region_json(region: Region) -> dict[str, Any]:
    fields = [
        {
            "field": span.path,
            "start": span.start,
            "end": span.end,
            "value": _plain(span.value),
            "raw": region.data[span.start : span.end].hex(),
        }
        for span in region.spans
    ]
    return {"region": region.title, "size": len(region.data), "fields": fields}


def _region_table(region: Region) -> RenderableType:
    table = plain_table("from", "to", "bytes", "field", "value", right=2)
    for span in region.spans:
        raw = region.data[span.start : span.end]
        more = " …" if len(raw) > _HEX else ""
        shown = "" if isinstance(span.value, bytes) else str(_plain(span.value))
        table.add_row(str(span.start), str(span.end), raw[:_HEX].hex(" ") + more, span.path, shown)
    return table


def _plain(value: Any) -> Any:
    """Make JSON of a value of the generated parsers: bytes as hex, an enum as its name."""
    if isinstance(value, bytes):
        return value.hex()
    return value.name if hasattr(value, "name") else value


def _schemas_near(place: str, access: Access) -> tuple[Schema, ...]:
    """Read the schemas of the array around a file; give none if there is no array."""
    from chronotile.single_file.decode import read_schemas, split_place
    from chronotile.storage.store import open_store

    array, _ = split_place(place)
    while array.rpartition("/")[2].startswith("__"):
        array = array.rpartition("/")[0]
    try:
        return read_schemas(open_store(array, access.storage), access.key_at(array))
    except ChronotileError:
        return ()


def _schemas_at(place: str, access: Access) -> tuple[Schema, ...]:
    """Read the schemas of an array, or the one in a file of its `__schema`."""
    from chronotile.single_file.decode import kind_of_name, read_schemas, split_place
    from chronotile.storage.store import open_store

    if kind_of_name(place) != "schema":
        return read_schemas(open_store(place, access.storage), access.key_at(place))
    folder, name = split_place(place)
    array = folder.removesuffix(f"/{SCHEMA}")
    file = name if array == folder else f"{SCHEMA}/{name}"
    return read_schemas(open_store(array, access.storage), access.key_at(array), file)


@command(epilog="\b\nExample:\n  chronotile show demo/array/__commits/*.del --hex")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=PlaceType("file"))
@click.option("--kind", type=click.Choice(KINDS), help="Its kind, if the name does not show it.")
@click.option("--schema", metavar="PLACE", type=PlaceType("file"), help="Schema file, or an array.")
@flag("--hex", "as_hex", help="Show the bytes of each field.")
@access_options
@reporting
def show(
    files: tuple[str, ...], kind: str | None, schema: str | None, as_hex: bool, access: Access
) -> Answer:
    """Decode each FILE of an array's log: commit, schema, enumeration, or metadata.

    Values get their types from the array that holds the file. Without an array they stay raw,
    unless --schema names a schema file or an array. If the name of a file does not tell its kind,
    its content may.
    """
    if len(files) == 1:
        one = _show(files[0], kind, schema, access, as_hex=as_hex)
        return Answer(one.to_json, one.to_text())
    found: list[Shown | ChronotileError] = []
    for file in files:
        try:
            found.append(_show(file, kind, schema, access, as_hex=as_hex))
        except ChronotileError as error:
            found.append(error)
    return _several(found)


def _show(
    file: str, kind: str | None, schema: str | None, access: Access, *, as_hex: bool
) -> Shown:
    from chronotile.show.byte_ranges import layout
    from chronotile.single_file.decode import decode, kind_of_name, read_file, recognise

    key = access.key_at(file)
    try:
        data = read_file(file, access.storage)
    except StorageError as error:
        if not error.problem.endswith("found a folder"):
            raise
        array = re.sub(r"(/__[^/]*)+/?$", "", file)
        hint = f"for the array: chronotile log {shell_word(array)}"
        raise WrongCallError(file, f"{error.problem}; {hint}") from None
    chosen: Any = kind or kind_of_name(file)
    if chosen is None:
        if (instead := _instead(file)) is not None:
            raise WrongCallError(file, instead)
        chosen = recognise(data, file, key=key)
    decoded = decode(data, chosen, file, key=key)
    schemas = _schemas_near(file, access) if schema is None else _schemas_at(schema, access)
    return Shown(
        place=file,
        size=len(data),
        file=decoded,
        schemas=schemas,
        key=key,
        regions=layout(data, chosen, file, key=key, schemas=schemas) if as_hex else None,
    )


def _instead(file: str) -> str | None:
    """Name the command for a file that only another command shows."""
    for folder, what, verb in (
        (f"/{FRAGMENTS}/", "it holds cells", "rows"),
        (f"/{OWN}/operations/", "it is the record of an operation", "operations"),
    ):
        array, inside, name = file.partition(folder)
        if inside and name.endswith(".tdb" if verb == "rows" else ".json"):
            id_ = re.search(r"-([0-9a-f]{8})-", name) if verb == "operations" else None
            call = f"chronotile {verb} {shell_word(array)}" + (f" {id_[1]}" if id_ else "")
            return f"{what}; to see what it holds: {call}"
    return None


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


def _score_json(report: ConformanceReport) -> dict[str, Any]:
    """Give the score of each chapter, and each failure."""
    chapters = [
        {"chapter": name, "passed": s.passed, "cases": s.cases, "not_asked": s.not_asked}
        for name, s in report.scores.items()
    ]
    names = ("chapter", "path", "window", "edit")
    failures = [
        {name: getattr(case, name) for name in names} | {"problem": problem}
        for case, problem in report.failures
    ]
    return {"chapters": chapters, "failures": failures}


def _score_text(report: ConformanceReport) -> Iterator[RenderableType]:
    """Give a table of chapters, then the first failures."""
    table = plain_table("passed", "cases", "not asked", "chapter", right=3)
    for name, score in report.scores.items():
        table.add_row(f"{score.passed:,}", f"{score.cases:,}", f"{score.not_asked:,}", Text(name))
    yield table
    for case, problem in report.failures[:_LISTED]:
        window = "" if case.window is None else f" at {list(case.window)}"
        yield Text(f"{case.path}{window}: {problem}", "red")
    if len(report.failures) > _LISTED:
        yield f"and {len(report.failures) - _LISTED:,} more failures (--json)"


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
        why = cause.strerror if isinstance(cause, OSError) else cause
        raise BadFileError(place, f"expected a file of cases, found: {why}") from cause
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


@command(
    epilog="\b\nExample:\n  chronotile conformance tests/conformance/cases.json -- ./my-reader"
)
@click.argument("cases", metavar="CASES", type=PlaceType("file"))
@click.argument("command", metavar="COMMAND…", nargs=-1, required=True)
@click.option("--only", metavar="TEXT", help="Only chapters whose name holds this text.")
@click.option(
    "--timeout",
    type=float,
    default=30.0,
    metavar="SECONDS",
    help="Most seconds for one case (default: 30).",
)
@reporting
def conformance(cases: str, command: tuple[str, ...], only: str | None, timeout: float) -> Answer:
    """Check a reader of the format, COMMAND, against the cases in CASES.

    For each case COMMAND runs with a path (and --window START END, --key KEY) added, and prints
    a JSON object. Exit status 1 if an answer is wrong.
    """
    root, every = read_cases(cases)
    chosen = [case for case in every if only is None or only in case.chapter]
    if not chosen:
        raise BadFileError(cases, f"expected cases of a chapter with {only!r}, found none")
    report = check_reader(root, chosen, command_asker(command, timeout))
    return Answer(partial(_score_json, report), _score_text(report), report.status)
