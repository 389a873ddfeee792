"""Explanations: every object once, as the view has it, and every rule somewhere."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import CASES, expected, log_of
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.visibility.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.visibility.explanation import Explanation
    from chronotile.visibility.view import View

KINDS = {
    "fragment",
    "delete",
    "update",
    "consolidated",
    "ignore",
    "vacuum",
    "schema",
    "meta",
    "fragment-meta",
    "other",
}
BY_SUFFIX = {
    ".del": "delete",
    ".upd": "update",
    ".con": "consolidated",
    ".ign": "ignore",
    ".vac": "vacuum",
    ".wrt": "fragment",
    ".ok": "fragment",
}


def views(case: str) -> Iterator[View]:
    for window in expected(case)["windows"]:
        yield log_of(case).view(window["start"], window["end"])


@pytest.mark.parametrize("case", CASES)
def test_every_object_once(case: str) -> None:
    array = Path(log_of(case).array)
    for view in views(case):
        found = Counter((one.kind, one.name) for one in view.explain())
        assert not {one: n for one, n in found.items() if n > 1}
        assert {kind for kind, _ in found} <= KINDS
        for path in array.rglob("*"):
            assert is_told(path.relative_to(array), path.is_dir(), found), path


def is_told(path: Path, is_folder: bool, found: Counter[tuple[str, str]]) -> bool:
    """Whether a file or folder of the array is among the explained objects, by its own rules."""
    top, name, stem = path.parts[0], path.name, path.stem
    if path.as_posix() == "__lock.tdb":  # the engine's own, which holds nothing
        return ("other", "__lock.tdb") not in found
    if ("other", path.as_posix()) in found:
        return True
    if top == "__labels" or is_folder:
        known = {"__commits", "__fragments", "__fragment_meta", "__schema", "__meta", "__labels"}
        deeper = len(path.parts) > 2 or top == "__labels" or name == "__enumerations"
        return name in known or deeper or ("fragment", name) in found
    if top == "__commits":
        return (BY_SUFFIX[path.suffix], stem) in found
    if name.endswith(".meta"):
        return ("fragment-meta", stem) in found
    if top == "__schema" or name == "__array_schema.tdb":
        return ("schema", name) in found
    if top == "__meta":
        return (("vacuum", stem) if name.endswith(".vac") else ("meta", name)) in found
    if len(path.parts) == 1:
        return (BY_SUFFIX.get(path.suffix, "other"), stem) in found
    return True  # inside a fragment


@pytest.mark.parametrize("case", CASES)
def test_the_view_and_its_explanation_agree(case: str) -> None:
    for view in views(case):
        told = view.explain()
        status = {"visible": False, "partial": True}
        fragments = {o.name: status[o.status] for o in told if of(o, "fragment")}
        assert fragments == {one.name: one.partial for one in view.fragments}
        in_force = {("delete", one.name) for one in view.deletes}
        in_force |= {("update", one.name) for one in view.updates}
        assert in_force == {
            (one.kind, one.name)
            for one in told
            if one.kind in ("delete", "update") and one.reason in ("in-window", "unreadable")
        }
        schemas = [o.name for o in told if of(o, "schema") and o.name.count("_") > 3]
        assert view.schema in [*schemas, "__array_schema.tdb"]
        assert len(schemas) <= 1


def of(one: Explanation, kind: str) -> bool:
    return one.kind == kind and one.status != "hidden"


@cache
def everything() -> list[Explanation]:
    """All that is said of every window of the corpus."""
    return [one for case in CASES for view in views(case) for one in view.explain()]


@pytest.mark.parametrize("rule", list(Rule))
def test_every_rule_is_the_answer_somewhere(rule: Rule) -> None:
    said = [one for one in everything() if one.reason == rule.value]
    assert said
    assert {one.status for one in said} == {rule.status}


def test_because(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.live()
    told = {(one.kind, one.name[:8]): one for one in ct.open_log(array.uri).view(0, 100).explain()}
    assert said(told["fragment", "__10_10_"]) == ("ignored", ".ign")
    assert said(told["fragment", "__30_30_"]) == ("in-window", ".con")
    assert said(told["fragment", "__40_40_"]) == ("superseded", ".vac")
    assert said(told["fragment", "__40_50_"]) == ("in-window", None)
    assert said(told["delete", "__25_25_"]) == ("in-window", ".con")
    assert said(told["delete", "__60_60_"]) == ("in-window", None)


def said(one: Explanation) -> tuple[str, str | None]:
    return one.reason, Path(one.because).suffix if one.because else None


def test_strangers_are_kept_and_told(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    root = Path(array.uri)
    strangers = [
        "README.txt",
        "__commits/thumbs.db",
        "__commits/.hidden",
        "__fragment_meta/notes",
        "__fragments/file",
        "__1_1_nonsense",
    ]
    for text in strangers:
        (root / text).parent.mkdir(exist_ok=True)
        (root / text).touch()
    for text in ("__fragments/lost+found", "__schema/folder", "__commits/folder", "attic"):
        (root / text).mkdir()
        strangers.append(text)
    (root / "__commits/link.wrt").symlink_to(root / "README.txt")
    log = ct.open_log(array.uri)
    told = {one.name for one in log.view().explain() if one.kind == "other"}
    assert told == {*strangers, "__commits/link.wrt"}
    assert len(log.view().fragments) == 1
    assert log.lifelines().num_rows == 1
