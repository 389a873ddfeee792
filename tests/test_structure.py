"""The shape of the project: import order, public names, weight."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.shared_out import SLOW
from support.spec_files import ROOT

import chronotile
from chronotile.format import kinds

SRC = ROOT / "src" / "chronotile"
TESTS = ROOT / "tests"

ROOMS = (
    *("safe_text", "errors", "storage", "format", "conditions", "history", "visibility", "check"),
    *("single_file", "show", "change", "log", "dataset", "rows"),
    *("handle", "array", "group", "shims", "fleet", "spark", "cli"),
)
"""The rooms, and the modules beside them, in the order in which data moves."""

BACK = {
    ("handle", "array"): "what is there decides which of the two is made",
    ("handle", "group"): "as for arrays",
}
"""Edges against the order, and why each is there."""

TESTS_OF = {
    "": "the project as a whole",
    "unit": "one package each, in a folder of its name",
    "engine": "the real engine is the judge",
    "faults": "injected failures, races, kills, hostile input",
    "spark": "Spark itself",
    "specs": "the specs, and the corpus that they are held to",
}
"""Folder -> what the tests in it are about."""

HELPERS = {"support", "bench", "corpus", "conformance"}
"""Folders without tests: what tests share, programs, the arrays of the engines, the kit."""


def room_of(path: Path) -> str:
    """The room that a file is in; a module of the root is one by itself."""
    parts = path.relative_to(SRC).parts
    return parts[0] if len(parts) > 1 else path.stem


def imports_of(path: Path) -> set[str]:
    """The rooms that a file imports from, also inside functions, less its own."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chronotile."):
            found.add(str(node.module).split(".")[1])
    return found - {room_of(path)}


def test_nothing_reaches_forward() -> None:
    for path in SRC.rglob("*.py"):
        room = room_of(path)
        if room in ("__init__", "__main__"):
            continue
        for other in imports_of(path):
            is_back = ROOMS.index(other) < ROOMS.index(room)
            assert is_back or (room, other) in BACK, f"{path} reaches forward to {other}"


def test_each_room_says_what_it_is_for() -> None:
    entries = {p.name.removesuffix(".py") for p in SRC.iterdir()}
    entries -= {"__init__", "__main__", "py.typed", "__pycache__", "guides"}
    assert entries == set(ROOMS)
    for room in ROOMS:
        head = SRC / room / "__init__.py"
        text = ast.get_docstring(
            ast.parse((head if head.exists() else SRC / f"{room}.py").read_text())
        )
        if head.exists():
            assert "In:" in (text or ""), room
            assert "Out:" in (text or ""), room


def test_the_drawing_is_true() -> None:
    """The docstring of the package draws the rooms in the order of the list, and all of them."""
    drawn = re.findall(
        r"^    (\w+)  +\S", (chronotile.__doc__ or "").partition("rooms:")[2], re.MULTILINE
    )
    assert drawn == [room for room in ROOMS if (SRC / room).is_dir()]


def test_only_the_store_touches_storage() -> None:
    for path in SRC.rglob("*.py"):
        text = path.read_text()
        if room_of(path) != "storage":
            assert "import obstore" not in text, path
            assert "from obstore" not in text, path


def test_only_the_store_knows_the_kind_of_storage() -> None:
    """No other room asks for a scheme or a backend: it asks for the traits that it needs."""
    doors = {"scheme", "backend", "_backend"}
    for path in SRC.rglob("*.py"):
        if room_of(path) == "storage":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in doors, f"{path}:{node.lineno} asks for .{node.attr}"
            elif isinstance(node, ast.ImportFrom):
                inside = {"disk", "disk_files", "bucket", "backend"}
                walls = {f"chronotile.storage.{module}" for module in inside}
                assert node.module not in walls, f"{path}:{node.lineno} imports {node.module}"


def test_only_the_door_opens_the_generated_parsers() -> None:
    users = {p for p in SRC.rglob("*.py") if re.search(r"chronotile_ksy\b", p.read_text())}
    assert users == {SRC / "format" / "parsers.py"}


@pytest.mark.parametrize("head", sorted(SRC.glob("*/__init__.py")), ids=room_of)
def test_the_head_of_a_room_names_its_modules(head: Path) -> None:
    words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(head.read_text())) or ""))
    assert {path.stem for path in head.parent.glob("*.py")} <= words | {"__init__"}


def test_kinds_of_files_are_listed_in_one_place() -> None:
    known = {text for kind in kinds.LOG_KINDS for text in (kind, f".{kind}")}
    for path in set(SRC.rglob("*.py")) - {SRC / "format" / "kinds.py"}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                said = {one.value for one in node.elts if isinstance(one, ast.Constant)}
                assert len(said & known) < 3, f"{path}:{node.lineno}"


def python_files_of_tests() -> list[Path]:
    """Every module below `tests`, less the arrays of the corpus."""
    return [path for path in TESTS.rglob("*.py") if "array" not in path.relative_to(TESTS).parts]


def test_tests_lie_in_the_folder_of_what_they_test() -> None:
    folders = {path.name for path in TESTS.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders == {*TESTS_OF, *HELPERS} - {""}
    for path in python_files_of_tests():
        folder = path.relative_to(TESTS).parent
        top = folder.parts[0] if folder.parts else ""
        assert path.name.startswith("test_") == (top in TESTS_OF) or path.stem == "conftest", path
        if top == "unit":
            assert not folder.parts[1:] or folder.parts[1] in ROOMS, path
        elif top in TESTS_OF:
            assert len(folder.parts) <= 1, path


def test_names_of_test_files_are_unique() -> None:
    found = [path.name for path in python_files_of_tests() if path.name.startswith("test_")]
    assert sorted(found) == sorted(set(found))


def test_the_files_that_are_begun_first_are_there() -> None:
    assert {path.stem for path in python_files_of_tests()} >= set(SLOW)
    assert len(set(SLOW)) == len(SLOW)


def test_no_test_imports_from_another() -> None:
    """What two tests share is in `support`, which imports from no test and from no program."""
    for path in python_files_of_tests():
        top = path.relative_to(TESTS).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                first, *_ = name.split(".")
                assert first not in {*TESTS_OF, "tests", "conftest"}, f"{path} imports {name}"
                assert not first.startswith("test_"), f"{path} imports {name}"
                assert top != "support" or first != "bench", f"{path} imports {name}"


def test_one_module_alone_opens_the_engine() -> None:
    """The engine is an extra, for rows: no other module so much as names its package's modules."""
    loads = re.compile(r"^\s*(import|from) tiledb\b|import_module\(.tiledb", re.MULTILINE)
    assert {p for p in SRC.rglob("*.py") if loads.search(p.read_text())} == {
        SRC / "rows" / "engine.py"
    }


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_public_names() -> None:
    assert set(chronotile.__all__) == set(chronotile._HOMES) | {"__version__"}
    assert len(chronotile.__all__) <= 30
    for name in chronotile.__all__:
        assert getattr(chronotile, name) is not None


def loaded_by(code: str) -> set[str]:
    report = "import sys; print('\\n'.join(m.partition('.')[0] for m in sys.modules))"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import chronotile", "import chronotile.log"])
def test_importing_is_light(code: str) -> None:
    heavy = {"pyspark", "vl_convert", "tiledb", "cryptography", "pandas"}
    assert not loaded_by(code) & heavy


def loaded_by_command(*arguments: str) -> tuple[set[str], float]:
    """Give the modules that a command loads, and the seconds of a processor that it takes."""
    code = f"import sys, time; from chronotile.cli import main; main({[*arguments]!r})"
    report = "print(time.process_time(), *sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    seconds, *modules = done.stderr.split()
    return set(modules), float(seconds)


def test_a_timeline_draws_with_what_it_has(tmp_path: Path) -> None:
    """A page needs no library for pictures, no engine, and no client of a bucket."""
    from chronotile.cli import sample

    array = str(sample.unpack(tmp_path).array)
    loaded, seconds = loaded_by_command("timeline", array, "-o", str(tmp_path / "page.html"))
    assert "chronotile.show.timeline_page" in loaded
    heavy = {"vl_convert", "tiledb", "duckdb", "deltalake", "pyspark", "obstore", "pandas"}
    assert not loaded & {*heavy, "pyarrow.parquet", "chronotile.show.usage_map"}
    assert len([name for name in loaded if name.startswith("chronotile.")]) <= 90
    assert seconds <= 1


def test_the_log_of_a_small_array_loads_little(tmp_path: Path) -> None:
    """Neither Rich nor Arrow's functions: loading them takes longer than reading the log."""
    from chronotile.cli import sample

    loaded, _ = loaded_by_command("log", str(sample.unpack(tmp_path).array))
    assert "chronotile.log" in loaded
    assert not loaded & {"rich.console", "pyarrow.compute", "pyarrow.parquet", "tiledb", "duckdb"}
    assert len([name for name in loaded if name.startswith("chronotile.")]) <= 85


def test_no_paths_or_addresses_of_one_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert files, "not a checkout"
    downloads = re.compile(r"(resolved|registry|index-url)\W{1,6}https?://")
    here = [f"{path}/" for path in (Path.home(), ROOT.parent) if len(path.parts) > 2]
    for path in files:
        if path.suffix in {".py", ".toml", ".txt", ".json", ".md", ".mjs", ".yml", ""}:
            text = path.read_text(errors="replace")
            assert not downloads.search(text), path
            assert not any(place in text for place in here), path
