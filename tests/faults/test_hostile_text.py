"""Text from files that means harm: it reaches no terminal, page or picture as it is.

An array is made whose names, labels, values and paths all hold the same odd text. Whatever is then
run, no character leaves that cannot be printed, but for styles of our own on a terminal; and JSON
gives the very text back.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.panel import Panel
from rich.text import Text
from rich.tree import Tree
from support.handmade_array import make_sample
from support.terminals import PROGRAM, on_terminal

from chronotile.cli import main
from chronotile.conditions import codec
from chronotile.conditions.text import field_name
from chronotile.conditions.tree import Compare, Op
from chronotile.format import tiles
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.format.names import new_name
from chronotile.safe_text import is_printable, printable, printable_json
from chronotile.show.output import emit, plain_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NASTY = (
    "\x1b[31m\x1b]0;title\x07\b\r\n\t\v\f\x7f\x85\x9b2J"  # what moves, colours, rings and breaks
    "\u061c\u200e\u200f\u202a\u202e\u2066\u2069"  # what turns the order of letters around
    "\u2028\u2029\xa0\u3000\xad\u200b\u200d\u2060\ufeff\U000e0001"  # what breaks or hides
    "\u034f\u115f\u3164\ufe0f\u2800\ue000\ufffe\U0010ffff"  # what shows nothing, or is no character
    "</script><b>&'\"\\{}[bold]ä漢ע🙂"  # what means something elsewhere, and plain letters
)
TOKENS = ("dimension-token", "attribute-token", "labelled-token", "enumeration-token")
STYLE = re.compile(r"\x1b\[[0-9;]*m")

odd_texts = st.text(
    st.one_of(st.sampled_from(NASTY), st.characters(exclude_categories=["Cs"])), max_size=12
)


class Hostile:
    """An array with one text in all places where text can stand."""

    def __init__(self, template: Path, folder: Path, text: str) -> None:
        self.text = text
        in_a_path = text.replace("/", "").replace("\0", "")
        self.folder = folder / f"p{in_a_path}\udcff"
        shutil.copytree(template, self.folder)
        self.dimension, self.attribute, self.labelled, self.enumeration = (
            f"{token[0]}{text}" for token in TOKENS
        )
        self._name_fields()
        self._write_labels()
        self._write_metadata()
        self.delete = self._write_delete()
        in_a_line = text.replace("\n", "").encode()
        commits = self.folder / "__commits"
        (commits / f"{new_name(5, 5, 22)}.ign").write_bytes(b"__commits/" + in_a_line + b".wrt\n")
        (commits / f"{new_name(6, 6, 22)}.vac").write_bytes(b"/__fragments/" + in_a_line + b"\n")
        for folder in (commits, self.folder / "__meta", self.folder / "__fragments"):
            (folder / f"f{in_a_path}.wrt").touch()

    def _name_fields(self) -> None:
        (self.schema,) = (p for p in (self.folder / "__schema").iterdir() if p.is_file())
        payload = tiles.decode(self.schema.read_bytes(), "schema").payload
        for token in TOKENS:
            payload = payload.replace(counted(token), counted(f"{token[0]}{self.text}"))
        self.schema.write_bytes(tiles.encode(payload, version=22))

    def _write_labels(self) -> None:
        (self.labels,) = (self.folder / "__schema" / "__enumerations").iterdir()
        data = self.text.encode() + b"plain"
        payload = struct.pack("<I", 0) + counted(self.enumeration) + counted(self.labels.name)
        payload += struct.pack("<BIBQ", Datatype.STRING_UTF8, VAR_NUM, 0, len(data)) + data
        payload += struct.pack("<QQQ", 16, 0, len(self.text.encode()))
        self.labels.write_bytes(tiles.encode(payload, version=22))

    def _write_metadata(self) -> None:
        value = self.text.encode()
        payload = counted(f"k{self.text}") + struct.pack(
            "<BBI", 0, Datatype.STRING_UTF8, len(value)
        )
        self.metadata = self.folder / "__meta" / new_name(7, 7, None)
        self.metadata.write_bytes(tiles.encode(payload + value, version=22))

    def _write_delete(self) -> Path:
        node = Compare(field=self.attribute, op=Op.NE, value=self.text.encode())
        path = self.folder / "__commits" / f"{new_name(20, 20, 22)}.del"
        path.write_bytes(tiles.encode(codec.encode(node), version=22))
        return path

    def commands(self) -> Iterator[tuple[str, ...]]:
        """Every command that can meet the text; what they exit with does not matter here."""
        array = str(self.folder)
        yield ("log", array)
        yield ("check", array)
        yield ("visible", array, "--end", "99")
        yield ("explain", array, "--end", "99")
        for name in ("consolidate", "vacuum", "repair"):
            yield (name, array, "--dry-run")
        for file in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            # The engine's own cells and footers are long, and hold none of the text: once will do.
            long = "__fragments" in file.parts and self.text != NASTY
            yield ("show", str(file), *(() if long else ("--hex",)))
        argument = self.text.replace("\0", "")
        yield ("explain", array, f"n{argument}", "--end", "99")
        yield ("log", f"{array}-{argument}")
        yield ("log", array, f"--x{argument}")
        yield ("log", array, "--kind", argument)
        yield ("log", array, f"x{argument}")
        yield (f"x{argument}",)
        for where in (f"x{argument} == 1", f"{field_name(self.attribute)} < {self.text!r}"):
            yield ("delete", array, "--where", where, "--dry-run")
        value = f"{self.attribute}={argument}"
        yield ("update", array, "--where", "x == 1", "--set", value, "--dry-run")


def counted(text: str) -> bytes:
    return struct.pack("<I", len(text.encode())) + text.encode()


def run(*args: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(args)
    return status, out.getvalue(), err.getvalue()


def strings(document: Any) -> Iterator[str]:
    """Every text in a JSON document."""
    match document:
        case str():
            yield document
        case list():
            for item in document:
                yield from strings(item)
        case dict():
            for name, item in document.items():
                yield name
                yield from strings(item)


def hidden(text: str) -> set[str]:
    return {character for character in text if character != "\n" and not is_printable(character)}


def settled(text: str) -> list[str]:
    """The lines without what differs from run to run: the time, and new names, shortened or not."""
    changing = re.compile(r"[0-9a-f]{16,}|[0-9a-f]{4,}…|\d{5,}[\dTZ.]*")
    return [changing.sub("#", line.rstrip()) for line in text.split("\n")]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array by the engine, whose names are then replaced."""
    folder = tmp_path_factory.mktemp("template") / "array"
    dimension, attribute, labelled, enumeration = TOKENS
    labels = tiledb.Enumeration(enumeration, False, values=["label", "plain"])
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim(dimension, domain=(0, 99), tile=10, dtype=np.int64)),
        attrs=[
            tiledb.Attr(attribute, dtype=str, var=True),
            tiledb.Attr(labelled, dtype=np.int8, enum_label=enumeration),
        ],
        enums=[labels],
        sparse=True,
    )
    tiledb.Array.create(str(folder), schema)
    with tiledb.open(str(folder), "w", timestamp=10) as array:
        array[[1]] = {attribute: np.array(["x"]), labelled: np.array([0], np.int8)}
    return folder


@pytest.fixture(scope="module")
def nasty(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    return Hostile(template, tmp_path_factory.mktemp("nasty"), NASTY)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("odd")


# --- one text, all commands ------------------------------------------------------------------


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=odd_texts)
@example(text=NASTY)
@example(text="--")
def test_no_text_leaves_as_it_is(text: str, template: Path, root: Path) -> None:
    shutil.rmtree(root)
    hostile = Hostile(template, root, text)
    for command in hostile.commands():
        piped, out, err = run(*command)
        assert not hidden(out + err), command
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FORCE_COLOR", "1")
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", "100000")
            status, styled, _ = run(*command)
        assert status == piped
        assert settled(STYLE.sub("", styled)) == settled(out), "only styles are added"
        # Not at the end: a text may be the "--" after which nothing is an option.
        status, out, err = run(command[0], "--json", *command[1:])
        assert status == piped
        assert not hidden(out + err), command
        assert isinstance(json.loads(out or err), list | dict)
        assert out or "error" in json.loads(err)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=odd_texts)
@example(text=NASTY)
def test_json_gives_the_text_back(text: str, template: Path, root: Path) -> None:
    shutil.rmtree(root)
    hostile = Hostile(template, root, text)
    array = str(hostile.folder)
    names = [hostile.dimension, hostile.attribute, hostile.labelled]
    for command, wanted in (
        (("show", str(hostile.schema)), [*names, hostile.enumeration, str(hostile.schema)]),
        (("show", str(hostile.labels)), [hostile.enumeration, text]),
        (("show", str(hostile.metadata), "--hex"), [f"k{text}", text]),
        (("show", str(hostile.delete), "--hex"), [hostile.attribute, text]),
        (("visible", array, "--end", "99"), [array, hostile.attribute, text]),
        (("check", array), [array]),
        (("repair", array, "--dry-run"), [array]),
    ):
        _, out, _ = run(*command, "--json")
        assert set(strings(json.loads(out))) >= set(wanted), command
    _, _, err = run("vacuum", array, "--json")
    assert json.loads(err)["error"]["where"] == array


@given(text=st.text(), more=st.text())
def test_escaping_is_whole_and_stable(text: str, more: str) -> None:
    shown = printable(text)
    assert not hidden(shown)
    assert "\n" not in shown
    assert printable(shown) == shown
    document = {text: [more, {"x": text}]}
    for written in (json.dumps(document, ensure_ascii=False), json.dumps(document, indent=2)):
        safe = printable_json(written)
        assert json.loads(safe) == document
        assert not hidden(safe)


@pytest.mark.parametrize(
    "text", ["naïve", "漢字", "עברית", "العربية", "हिन्दी", "ไทย", "🙂", "e\u0301", "a b", "\\"]
)
def test_letters_of_every_script_stay(text: str) -> None:
    assert printable(text) == text


# --- real terminals, real processes ----------------------------------------------------------


def test_a_terminal_gets_our_styles_only(nasty: Hostile) -> None:
    array = str(nasty.folder)
    for command in (("log", array), ("show", str(nasty.schema), "--hex"), ("log", f"{array}-x")):
        status, seen = on_terminal(command)
        assert status == (3 if command[1].endswith("-x") else 0)
        # A line ends in CR LF here, and a bar of progress moves up and clears its line.
        plain = re.sub(r"\r\n|\r|\x1b\[(?:2K|1A|\?25[lh])", "\n", STYLE.sub("", seen))
        assert not hidden(plain), command
        assert "\\x1b[31m" in seen.replace("\r\n", "")
        assert "Traceback" not in seen


def test_rows_reach_a_terminal_escaped_and_a_pipe_as_they_are(tmp_path: Path) -> None:
    name, array = "s\x1b[2J\u202e", str(tmp_path / "array")
    x = tiledb.Dim("x", domain=(0, 9), tile=10, dtype=np.int64)
    schema = tiledb.ArraySchema(
        tiledb.Domain(x), attrs=[tiledb.Attr(name, dtype="U0", var=True)], sparse=True
    )
    tiledb.Array.create(array, schema)
    with tiledb.open(array, "w") as opened:
        opened[[1]] = {name: np.array([NASTY], dtype="O")}
    for form in (("--json",), ("--format", "csv"), ("--format", "jsonl"), ()):
        command = ["rows", array, *form]
        status, seen = on_terminal(command)
        assert status == 0
        plain = re.sub(r"\r\n|\r|\x1b\[(?:2K|1A|\?25[lh])", "\n", STYLE.sub("", seen))
        assert not hidden(plain), form
        assert "漢" in seen, form
        assert "[31m" in seen.replace("\r\n", ""), "it is told, but not done"
        done = subprocess.run([*PROGRAM, *command], capture_output=True, timeout=60, check=True)
        piped = done.stdout.decode()
        if form == ("--json",):
            assert json.loads(piped)["rows"] == [{"x": 1, name: NASTY}]
        elif "jsonl" in form:
            assert json.loads(piped) == {"x": 1, name: NASTY}
        elif "csv" in form:
            assert list(csv.reader(io.StringIO(piped, newline=""))) == [["x", name], ["1", NASTY]]


def test_a_process_takes_bytes_that_are_no_text() -> None:
    commands = ("log", "visible", "explain", "check", "show", "consolidate", "vacuum", "repair")
    command = [os.fsencode(part) for part in (*PROGRAM, "log")] + [b"no-such-\xff\x1b"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.endswith(b"no-such-\\udcff\\x1b: expected a folder, found nothing\n")
    for name in commands:
        for more in ((), ("--json",)):
            status, out, err = run(name, "no-such-\udcff\x1b", *more)
            assert (status in (1, 3), out, err.count("\n")) == (True, "", 1)
            assert re.search(r"no-such-\\+udcff\\+(x|u00)1b", err)
    for options in (["--storage", "region=\udcff"], ["--storage", "\udcff=x"]):
        status, out, err = run("log", "s3://bucket/array", *options)
        assert (status, out, err.count("\n")) == (3, "", 1)


def test_a_terminal_without_the_letters_gets_json_all_the_same(nasty: Hostile) -> None:
    command = [*PROGRAM, "show", str(nasty.metadata), "--json"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, timeout=60, env=environment, check=True)
    assert NASTY in set(strings(json.loads(done.stdout.decode("ascii"))))


# --- bytes in files that are no text ---------------------------------------------------------


@pytest.mark.parametrize("place", ["schema", "labels", "metadata", "delete"])
def test_names_that_are_not_utf_8(place: str, template: Path, tmp_path: Path) -> None:
    hostile = Hostile(template, tmp_path, "broken\x1b")
    path: Path = getattr(hostile, place)
    payload = tiles.decode(path.read_bytes(), "x").payload
    path.write_bytes(tiles.encode(payload.replace(b"broken", b"\xff\xfe\x9bken"), version=22))
    for command in hostile.commands():
        for more in ((), ("--json",)):
            _, out, err = run(*command, *more)
            assert not hidden(out + err), command
            assert "expected to finish" not in err, "no error that nobody expected"
    status, out, err = run("show", str(path))
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert re.search("expected .*UTF-8", err)


# --- what is kept in files -------------------------------------------------------------------


def test_reports_on_an_array_are_kept(tmp_path: Path) -> None:
    place = tmp_path / "report.json"
    array = tmp_path / "a\u202e\udcff"
    array.mkdir()
    make_sample(str(array))
    for command in (("consolidate", str(array)), ("delete", str(array), "--where", "id == 5")):
        status, _, err = run(*command, "--report", str(place))
        assert (status, hidden(err)) == (0, set())
        written = place.read_text("utf-8")
        assert not hidden(written)
        assert json.loads(written)["array"] == str(array)


def test_the_demo_shows_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "d\x1b[31m\u202e\udcff"
    status, out, err = run("demo", str(folder), "--no-spark")
    assert status == 0
    assert not hidden(out + err)
    assert "$ chronotile log" in out


# --- what a report may be made of ------------------------------------------------------------


class Made:
    """A report of whatever it is given."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def to_json(self) -> Any:
        return list(map(str, self.parts))

    def to_text(self) -> Any:
        return self.parts


def test_text_that_is_not_ours_is_escaped_too(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table("h\x1b[1m")
    table.add_row("cell\u202e")
    table.add_row(Text("text\x9b", "red"))
    tree = Tree("label\x1b[2J")
    tree.add(Text("child\u2028")).add("grandchild\n")
    emit(Made("bare\x07", Text("a", "bold").append("b\x1b", "red"), table, tree), as_json=False)
    out = capsys.readouterr().out
    assert not hidden(out)
    for shown in ("bare\\x07", "ab\\x1b", "h\\x1b[1m", "cell\\u202e", "text\\x9b", "label\\x1b[2J"):
        assert shown in out
    assert "child\\u2028\n" in out
    assert "grandchild\\n\n" in out


def test_our_styles_stay(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    emit(Made(Text("a", "bold").append("b\x1b[31m", "red")), as_json=False)
    assert capsys.readouterr().out == "\x1b[1ma\x1b[0m\x1b[1;31mb\\x1b[31m\x1b[0m\n"


def test_a_report_of_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a text, a table or a tree, found Panel"):
        emit(Made(Panel("x")), as_json=False)


def test_a_folder_that_is_not_looked_into_is_told(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m" / "array").mkdir(parents=True)
    (tmp_path / "fine").mkdir()
    status, out, err = run("check", str(tmp_path))
    assert status == 3
    assert "were not searched" in out + err
    assert not hidden(out + err)
