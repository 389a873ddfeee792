"""The corpus itself: that it is whole, and that it covers what it must."""

from __future__ import annotations

import ast
import re
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from corpus.judge import window_of
from support.corpus_cases import CASES, ROOT, Case

if TYPE_CHECKING:
    from collections.abc import Iterator

OPS = {"Lt", "LtE", "Gt", "GtE", "Eq", "NotEq", "In", "NotIn"}
NUMBERS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64"
UNITS = "year month day hr sec ms us ns"
ATTRIBUTES = {
    *NUMBERS.split(),
    *(f"datetime_{unit}" for unit in UNITS.split()),
    *("bool", "char", "char*", "ascii*", "utf8*", "time_sec", "enumeration"),
}
DIMENSIONS = "int8 uint16 int32 uint64 float32 float64 ascii* datetime_day datetime_ns"
FORMATS = {3, 4, 5, 8, 10, 16, 17, 18, 20, 21, 22}
NAMES = {
    1: re.compile(r"__[0-9a-f]{32}(_\d+){1,2}"),
    2: re.compile(r"__\d+_\d+_[0-9a-f]{32}"),
    3: re.compile(r"__\d+_\d+_[0-9a-f]{32}_\d+"),
}

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def leaves(predicate: str) -> Iterator[tuple[str, str, Any]]:
    """Field, operator and literal of each comparison."""
    for node in ast.walk(ast.parse(predicate, mode="eval")):
        if isinstance(node, ast.Compare):
            # A field is a name, or `attr("…")` where it is no Python name.
            (field,) = (
                part.id if isinstance(part, ast.Name) else str(part.value)
                for part in ast.walk(node.left)
                if isinstance(part, ast.Constant)
                or (isinstance(part, ast.Name) and part.id != "attr")
            )
            yield field, type(node.ops[0]).__name__, ast.literal_eval(node.comparators[0])


def type_word(field: dict[str, Any]) -> str:
    if field["enumeration"]:
        return "enumeration"
    return str(field["type"]) + ("*" if field["cell_val_num"] == 0xFFFFFFFF else "")


def covered(source: str) -> dict[tuple[str, str], set[str]]:
    """The operators that `commits` or `refused` apply to each (role, type)."""
    found = defaultdict(set)
    for case in CASES.values():
        fields = {field["name"]: field for field in case.expected["fields"]}
        for commit in case.expected[source]:
            for name, op, _ in leaves(commit["predicate"]):
                if name in fields:
                    found[fields[name]["role"], type_word(fields[name])].add(op)
    return found


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == 169, "add the case to the list on purpose"


@each_case
def test_a_case_says_enough(case: Case) -> None:
    said = case.expected
    assert said["case"] == case.name
    assert said["judge"] == {"tiledb": "0.36.1", "libtiledb": "2.30.0"}
    assert len(said["windows"]) >= 4
    assert any(window["start"] > 0 for window in said["windows"])
    for window in said["windows"]:
        assert ("cells" in window) != ("error" in window)
        for cell in window.get("cells", ()):
            assert len(cell) == len(window["fields"])


@each_case
def test_every_recorded_commit_is_in_the_array(case: Case) -> None:
    loose = {file.relative.name for file in case.files("delete", "update")}
    inside = b"".join(file.path.read_bytes() for file in case.files("consolidated"))
    lost = {"bad-con-line", "bad-con-tile"}
    for commit in case.expected["commits"]:
        name = commit["name"] + {"delete": ".del", "update": ".upd"}[commit["kind"]]
        assert name in loose or f"__commits/{name}\n".encode() in inside or case.name in lost


@each_case
def test_the_engine_still_says_so(case: Case, tmp_path: Path) -> None:
    """A clone has no empty folders and another path: the engine must not mind.

    The judge watches which files are read, by anyone: so it gets a copy that no other test reads.
    """
    array = Path(shutil.copytree(case.array, tmp_path / "array"))
    config = {}
    if case.key:
        config = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": case.expected["key"]}
    for window in case.expected["windows"][-2:]:
        said = window_of(array, config, window["start"], window["end"])
        for part in ("cells", "error", "metadata", "conditions_read"):
            assert said.get(part) == window.get(part)


def test_every_operator_on_every_type() -> None:
    found = covered("commits")
    lacking = {kind: OPS - found["attribute", kind] for kind in ATTRIBUTES}
    lacking |= {kind: OPS - found["dimension", kind] for kind in DIMENSIONS.split()}
    assert not {kind: ops for kind, ops in lacking.items() if ops}


def test_what_the_engine_refuses() -> None:
    found = covered("refused")
    assert found["attribute", "blob"] == OPS
    assert found["attribute", "blob*"] == OPS
    assert found["attribute", "enumeration"] >= {"Lt", "LtE", "Gt", "GtE"}


def test_null_and_the_empty_string() -> None:
    asked = {
        (type_word(field).rstrip("*"), op, literal)
        for case in CASES.values()
        for commit in case.expected["commits"]
        for name, op, literal in leaves(commit["predicate"])
        for field in case.expected["fields"]
        if field["name"] == name and (literal is None or literal == "")
    }
    for op in ("Eq", "NotEq"):
        assert {("int32", op, None), ("utf8", op, None), ("utf8", op, "")} <= asked


def test_nesting_and_length() -> None:
    trees = [
        ast.parse(commit["predicate"], mode="eval").body
        for case in CASES.values()
        for commit in case.expected["commits"]
    ]
    shapes = {
        (type(tree.op).__name__, type(part.op).__name__)
        for tree in trees
        if isinstance(tree, ast.BoolOp)
        for part in tree.values
        if isinstance(part, ast.BoolOp)
    }
    assert shapes >= {("And", "Or"), ("Or", "And")}
    longest = max(
        len(literal)
        for case in CASES.values()
        for commit in case.expected["commits"]
        for _, op, literal in leaves(commit["predicate"])
        if op == "In"
    )
    # Each member has an offset of eight bytes, and a chunk holds 64 KiB.
    assert longest * 8 > 1 << 15
    assert any(len(file.path.read_bytes()) > 10_000 for file in CASES["long-list"].files("delete"))


def test_every_kind_of_file() -> None:
    plain = {file.kind for case in CASES.values() if not case.key for file in case.files()}
    secret = {file.kind for case in CASES.values() if case.key for file in case.files()}
    assert plain == {
        *("write", "delete", "update", "consolidated", "ignore", "vacuum", "fragment-meta"),
        *("schema", "enumeration", "meta", "fragment", "label", "other"),
    }
    assert secret == plain - {"label", "other"}


def test_every_format_and_era() -> None:
    formats = defaultdict(set)
    names = set()
    for case in CASES.values():
        said = case.expected
        formats[said["format"]].add(said["array_type"])
        folders = {name for window in said["windows"] for name in window.get("fragments", ())}
        names |= {era for era, form in NAMES.items() if any(map(form.fullmatch, folders))}
    assert set(formats) == FORMATS
    assert names == {1, 2, 3}
    assert all(formats[one] == {"sparse", "dense"} for one in FORMATS if one >= 16)


@pytest.mark.parametrize("version", sorted(one for one in FORMATS if one >= 16))
def test_every_engine_did_everything(version: int) -> None:
    cases = [case for case in CASES.values() if case.expected["format"] == version]
    for array_type in ("sparse", "dense"):
        own = [case for case in cases if case.expected["array_type"] == array_type]
        kinds = {file.kind for case in own for file in case.files()}
        assert "consolidated" in kinds
        assert array_type == "dense" or {"write", "delete", "vacuum"} <= kinds
        names = {
            name
            for case in own
            for window in case.expected["windows"]
            for name in window.get("fragments", ())
        }
        ranges = {tuple(name.split("_")[2:4]) for name in names}
        assert any(first == last for first, last in ranges)
        assert any(first != last for first, last in ranges)


def test_vacuum_files_with_both_spellings() -> None:
    lines = defaultdict(set)
    for case in CASES.values():
        if not case.expected["derived"]:
            for file in case.files("vacuum"):
                absolute = file.path.read_text().startswith("file://")
                version = re.search(r"[0-9a-f]{32}_(\d+)\.", file.relative.name)
                written = int(version[1]) if version else case.expected["format"]
                lines[file.relative.parts[0] == "__meta", absolute].add(written)
    assert max(lines[False, True]) == 18
    assert max(lines[True, True]) == 16
    assert min(lines[False, False]) == 20
    assert min(lines[True, False]) == 22


def test_consolidated_files_of_every_shape() -> None:
    shapes: set[tuple[int, int] | bytes] = set()
    only_record = set()
    for case in CASES.values():
        loose = {file.relative.name for file in case.files("write")}
        for file in case.files("consolidated"):
            data = file.path.read_bytes()
            shapes.add((min(2, data.count(b".wrt\n")), min(2, data.count(b".del\n"))))
            shapes |= {word for word in (b".ok\n", b".upd\n") if word in data}
            if not loose:
                only_record.add(case.name)
    assert shapes >= {(2, 0), (1, 2), (2, 1), (2, 2), b".ok\n", b".upd\n"}
    assert "con-only" in only_record


def test_windows_that_cut_through_a_fragment() -> None:
    cut = set()
    for case in CASES.values():
        for window in case.expected["windows"]:
            for name in window.get("fragments", ()):
                match = re.match(r"__(\d{1,16})_(\d{1,16})_", name)
                if match and int(match[1]) < window["start"]:
                    cut.add("start")
                if match and int(match[2]) > window["end"]:
                    cut.add("end")
    assert cut == {"start", "end"}


def test_errors_at_open_and_at_read() -> None:
    stages = {
        "fields" in window
        for case in CASES.values()
        for window in case.expected["windows"]
        if "error" in window
    }
    assert stages == {True, False}


def files_of_the_corpus() -> list[Path]:
    """All that a clone has, and not what Python leaves beside the recipes."""
    found = (path for path in ROOT.rglob("*") if "__pycache__" not in path.parts)
    return [path for path in found if path.is_file()]


def test_nothing_tells_of_a_machine() -> None:
    private = re.compile(rb"/(root|home|Users)/")
    for path in files_of_the_corpus():
        if path.suffix != ".py":
            assert not private.search(path.read_bytes()), path


def test_the_readme_lists_every_case() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE) == list(CASES)


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in files_of_the_corpus()) < 3_600_000
