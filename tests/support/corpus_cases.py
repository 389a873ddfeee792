"""The cases of the corpus, for other tests to import.

In: the folders below `tests/corpus`. Out: `CASES`, each with its array, what the engine says of
it, its files by kind, and its log. Knows nothing of what the files hold.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import chronotile as ct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).parents[1] / "corpus"
KINDS = {
    ".wrt": "write",
    ".ok": "write",
    ".del": "delete",
    ".upd": "update",
    ".con": "consolidated",
    ".ign": "ignore",
    ".vac": "vacuum",
    ".meta": "fragment-meta",
}
FOLDERS = {"__meta": "meta", "__schema": "schema", "__labels": "label", "__fragments": "fragment"}


class CaseFile(NamedTuple):
    """One file of an array."""

    path: pathlib.Path
    relative: pathlib.PurePosixPath
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One array of the corpus."""

    name: str
    array: pathlib.Path
    """The array's folder."""
    expected: Mapping[str, Any]
    """What `expected.json` says; the corpus's README explains it."""

    @property
    def key(self) -> bytes | None:
        """The encryption key, or None."""
        text = self.expected["key"]
        return None if text is None else str(text).encode()

    def copy_to(self, folder: pathlib.Path) -> str:
        """Copies the array into a folder; gives its URI."""
        shutil.copytree(self.array, folder / "array")
        return str(folder / "array")

    def files(self, *kinds: str) -> Iterator[CaseFile]:
        """The files of the array in order of their paths, of some kinds or of all."""
        for path in sorted(self.array.rglob("*")):
            if path.is_file():
                relative = pathlib.PurePosixPath(path.relative_to(self.array).as_posix())
                kind = kind_of(relative)
                if not kinds or kind in kinds:
                    yield CaseFile(path, relative, kind)


def kind_of(relative: pathlib.PurePosixPath) -> str:
    """What a file is, by its folder and extension.

    >>> kind_of(pathlib.PurePosixPath("__commits/__1_1_00_22.del"))
    'delete'
    >>> kind_of(pathlib.PurePosixPath("__schema/__enumerations/__1"))
    'enumeration'
    >>> kind_of(pathlib.PurePosixPath("__1_1_00_8/a.tdb"))
    'fragment'
    """
    top = relative.parts[0]
    if "__enumerations" in relative.parts:
        return "enumeration"
    if len(relative.parts) == 1 and relative.name == "__array_schema.tdb":
        return "schema"
    if top in ("__meta", "__commits") and relative.suffix == ".vac":
        return "vacuum"
    if len(relative.parts) == 1 or top in ("__commits", "__fragment_meta"):
        return KINDS.get(relative.suffix, "other")
    return FOLDERS.get(top, "fragment")


def _load() -> dict[str, Case]:
    found = {}
    for path in sorted(ROOT.glob("*/expected.json")):
        case = path.parent
        expected = json.loads(path.read_text(encoding="utf-8"))
        found[case.name] = Case(name=case.name, array=case / "array", expected=expected)
    return found


CASES = _load()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCase:
    """One group of the corpus."""

    name: str
    group: pathlib.Path
    said: Mapping[str, Any]
    """What `members.json` says; the corpus's README explains it."""


GROUPS = {
    path.parent.name: GroupCase(
        name=path.parent.name,
        group=path.parent / "group",
        said=json.loads(path.read_text(encoding="utf-8")),
    )
    for path in sorted(ROOT.glob("*/members.json"))
}


def expected(case: str) -> Mapping[str, Any]:
    """What the engine says of a case."""
    return CASES[case].expected


@cache
def log_of(case: str) -> ct.Log:
    """The log of a case, opened once."""
    return ct.open_log(str(CASES[case].array), key=expected(case)["key"])
