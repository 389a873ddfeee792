"""The shape of the project: import order, public names, weight, files that stay small."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from spec_files import ROOT

import chronotile

SRC = ROOT / "src" / "chronotile"

# The flow of data: a module imports only from those before it.
FLOW = re.findall(
    r"\w+",
    """
    errors ahead
    places disk buckets store overlays
    names listing
    kaitai datatypes tiles schema fragment_footer
    datetimes values
    condition_nodes conditions condition_text matching expressions surprises
    predicate_tokens predicate_types predicates updates
    records uris growing columns salvage commit_table text_columns con_columns
    missing_fragments history visibility view lifelines explain
    anyfile contents layouts schema_files discovery
    times findings plans reports advice
    fragment_files
    ledger con_holdings checks_conditions checks_files checks_fragments checks_storage checks
    fleet log
    writers maintenance crossings consolidation superseded orphans vacuuming
    quarantine fragment_mending mending repairing sample
    story timeline timeline_axes timeline_counts timeline_chart timeline_page
    complaints cli
    """,
)

FEW_LINES = 420
"""No file is longer without a reason; a little over 400 is none to split one."""


def imports_of(path: Path) -> set[str]:
    """The modules of the package that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "chronotile":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chronotile."):
            found.add(str(node.module).split(".")[1])
    return {name for name in found if (SRC / f"{name}.py").exists()}


@pytest.mark.parametrize("module", FLOW)
def test_nothing_reaches_forward(module: str) -> None:
    place = FLOW.index(module)
    for used in imports_of(SRC / f"{module}.py"):
        assert used in FLOW[:place], f"{module} reaches forward to {used}"


def test_the_flow_names_every_module() -> None:
    assert sorted(FLOW) == sorted(
        path.stem for path in SRC.glob("*.py") if not path.stem.startswith("__")
    )


def test_only_the_store_touches_storage() -> None:
    storage = {"places", "disk", "buckets", "store"}
    for path in SRC.rglob("*.py"):
        text = path.read_text()
        if path.stem not in storage:
            assert "import obstore" not in text, path
            assert "from obstore" not in text, path


def test_only_the_door_opens_the_generated_parsers() -> None:
    users = {p.stem for p in SRC.rglob("*.py") if re.search(r"chronotile_ksy\b", p.read_text())}
    assert users == {"kaitai"}


def test_the_engine_is_no_part_of_the_product() -> None:
    for path in SRC.rglob("*.py"):
        assert not re.search(r"^\s*(import|from) tiledb\b", path.read_text(), re.MULTILINE), path


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_is_short_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= FEW_LINES
    assert ast.get_docstring(ast.parse(text))


def test_public_names() -> None:
    assert set(chronotile.__all__) == set(chronotile._HOMES) | {"__version__"}
    assert len(chronotile.__all__) <= 16
    for name in chronotile.__all__:
        assert getattr(chronotile, name) is not None


def loaded_by(code: str) -> set[str]:
    report = "import sys; print('\\n'.join(m.partition('.')[0] for m in sys.modules))"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import chronotile", "import chronotile.log"])
def test_importing_is_light(code: str) -> None:
    heavy = {"pyspark", "altair", "vl_convert", "tiledb", "cryptography", "pandas"}
    assert not loaded_by(code) & heavy


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
