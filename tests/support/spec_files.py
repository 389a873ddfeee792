"""Which spec describes which file of an array, and the specs themselves as data."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
KSY = ROOT / "ksy"
CORPUS = ROOT / "tests" / "corpus"
PREFIX = "tiledb_"

# Specs of whole files, less the prefix that all specs have.
BY_EXTENSION = {
    ".del": "delete_commit",
    ".upd": "update_commit",
    ".con": "consolidated_commits",
    ".ign": "ignore_file",
    ".vac": "vacuum_file",
    ".meta": "consolidated_footers_file",
}


def spec_of(path: Path) -> str | None:
    """The spec of one file by its place in the array, less the prefix; None where there is none."""
    if path.suffix in BY_EXTENSION:
        return BY_EXTENSION[path.suffix]
    if path.parent.name == "__enumerations":
        return "enumeration_file"
    if path.parent.name == "__schema" or path.name == "__array_schema.tdb":
        return "array_schema_file"
    if path.parent.name == "__group":
        return "group_details_file"
    if path.parent.name == "__meta":
        return "array_metadata_file"
    return None


@cache
def corpus_files(*, damaged: bool = False) -> tuple[tuple[str, Path], ...]:
    """(spec less its prefix, file) of every file in the corpus that a spec describes.

    Args:
        damaged: Give the files of the cases `bad-…`, which were damaged on purpose, instead.
    """
    found = [path for root in ("array", "group") for path in CORPUS.glob(f"*/{root}/**/*")]
    found = sorted(path for path in found if path.is_file())
    chosen = [path for path in found if is_damaged(path) == damaged]
    return tuple((spec, path) for path in chosen if (spec := spec_of(path)))


@cache
def fragment_metadata() -> tuple[Path, ...]:
    """The metadata of every fragment in the corpus."""
    return tuple(sorted(CORPUS.glob("*/array/**/__fragment_metadata.tdb")))


def is_damaged(path: Path) -> bool:
    """Whether a file belongs to a case that was damaged on purpose."""
    return path.relative_to(CORPUS).parts[0].startswith("bad-")


@cache
def spec(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((KSY / f"{name}.ksy").read_text())
    return loaded


@cache
def spec_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in KSY.glob("*.ksy")))


@cache
def types() -> dict[str, tuple[str, dict[str, Any]]]:
    """Every type, its main ones included less their prefix: name -> (file, definition)."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in spec_names():
        main = name.removeprefix(PREFIX)
        for type_name, definition in ((main, spec(name)), *spec(name).get("types", {}).items()):
            assert type_name not in found, f"{type_name} is in {found[type_name][0]} and in {name}"
            found[type_name] = (name, definition)
    return found
