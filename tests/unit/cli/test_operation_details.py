"""`operations ARRAY ID` in words, as users type a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.corpus_cases import CASES

import chronotile as ct
from chronotile.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_an_operation_has_its_options_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = CASES["sparse-loose"].copy_to(tmp_path / "array")
    array = ct.open(uri)
    tagged = array.tag("first")
    removed = array.untag("first")
    deleted = array.delete("a == 77")
    expected = {
        tagged.operation: ("tag, done", "options: name first"),
        removed.operation: ("tag remove, done", "options: name first"),
        deleted.operation: ("delete, done", "options: where 'a == 77'"),
    }
    for id_, (head, options) in expected.items():
        assert id_ is not None
        assert main(["operations", uri, id_]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"{id_}: {head}"
        assert options in lines
    assert main(["operations", uri]) == 0
    assert "tag remove" in capsys.readouterr().out
