"""The look that all pages share: in a real browser, light, dark and in print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.accessibility import faint_texts, spoken

from chronotile.show.page import COLOURS, escaped, page, plain_style, table

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

ROWS = [("<b>not a tag</b>".replace("<", "&lt;"), "12"), (escaped("n\x1b</td>"), "3")]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    html = tmp_path / "page.html"
    body = table("What went", ("what", "rows"), ROWS, numbers=[1])
    body += '<p class="error">lost</p><p class="warning">late</p><p class="soft">soft</p>'
    html.write_text(page("A <title>\x1b", body, made_ms=0, back=("x.html", "all of it")), "utf-8")
    return html


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_at_every_width(scheme: str, written: Path, page: Page) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of both
    for width in (390, 768, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(written.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert faint_texts(page) == []
        told = spoken(page)
        assert ("heading", r"A <title>\x1b") in told
        assert ("table", "What went") in told
        assert {"main", "contentinfo", "banner", "navigation"} <= {role for role, _ in told}
    wanted = COLOURS["bg"][scheme == "dark"].removeprefix("#")
    shown = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert shown == f"rgb({', '.join(str(int(wanted[at : at + 2], 16)) for at in (0, 2, 4))})"


def test_it_prints_black_on_white(written: Path, page: Page) -> None:
    page.emulate_media(color_scheme="dark", media="print")
    page.goto(written.as_uri())
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert faint_texts(page, 7) == []
    assert not page.locator("nav").is_visible()


def test_a_picture_that_stands_alone_has_colours_and_no_names_of_them() -> None:
    rules = "".join(f"a {{ fill: var(--{name}); }}" for name in COLOURS)
    assert "var(" not in plain_style(rules)
