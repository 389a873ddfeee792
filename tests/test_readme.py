"""The README: short, its table of commands whole, its links and its picture there.

`test_guides` runs its commands and its code.
"""

from __future__ import annotations

import re
from pathlib import Path

from chronotile.cli.program import _ALL

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_it_is_short() -> None:
    assert len(README.encode()) <= 12_000


def test_the_table_of_commands_is_true() -> None:
    named = set(re.findall(r"`chronotile (\w+)", README)) | {"vacuum", "repair"}
    assert named <= set(_ALL)
    for name in _ALL:
        assert re.search(rf"`(chronotile )?{name}\b", README), name


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert len(targets) >= 10
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_picture_is_small_and_of_the_demo() -> None:
    picture = (ROOT / ".github" / "timeline.svg").read_text("utf-8")
    assert picture.startswith("<svg")
    assert len(picture) < 60_000
    assert "History of demo/array" in picture
