"""The treemap: it holds every byte, areas are as bytes, and odd text stays text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from support.corpus_cases import CASES, log_of

from chronotile.check.file_uses import REASONS
from chronotile.safe_text import is_printable, printable
from chronotile.show.usage_map import _MOST, Line, to_html, to_png, to_svg, usage_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from chronotile.show.usage_map import Area

NASTY = "n\x01\x1b[31m\r\n\x7f\u202e\udcff</script><b title='x'>&\"--></svg>"


def row(path: str, size: int, **more: Any) -> dict[str, Any]:
    """One row of `log.usage()`."""
    blank = {"fragment": None, "field": None, "part": None, "reason": "stray", "freed_by": None}
    return {"path": path, "bytes": size} | blank | more


def nasty_rows() -> list[dict[str, Any]]:
    """Rows with odd text in every place that holds text of files."""
    cells = {"fragment": NASTY, "field": NASTY, "part": "data", "freed_by": f"chronotile {NASTY}"}
    return [row(NASTY, 100), row(f"{NASTY}/x", 50, reason="visible", **cells)]


def leaves(nodes: tuple[Area, ...]) -> Iterator[Area]:
    for node in nodes:
        if node.children:
            assert sum(child.size for child in node.children) == node.size
            yield from leaves(node.children)
        else:
            yield node


@pytest.mark.parametrize("case", CASES)
def test_the_tree_holds_every_byte(case: str) -> None:
    rows = log_of(case).usage().to_pylist()
    nodes = usage_tree(rows)
    assert [node.label for node in nodes] == [
        reason for reason in REASONS if any(r["reason"] == reason and r["bytes"] for r in rows)
    ]
    assert sum(leaf.size for leaf in leaves(nodes)) == sum(one["bytes"] for one in rows)
    assert ElementTree.fromstring(to_svg(case, rows)).tag.endswith("svg")


def test_very_many_files_become_one() -> None:
    count = _MOST + 500
    rows = [row(f"f{number}", number + 1) for number in range(count)]
    (node,) = usage_tree(rows)
    assert len(node.children) == _MOST + 1
    assert node.children[-1].label == "500 more parts"
    assert node.size == sum(one["bytes"] for one in rows)


def test_kinds_of_parts_hold_fragments_and_metadata_is_one_block() -> None:
    names = [f"__{at}_{at}_{at:032x}_22" for at in range(1, 4)]
    rows = [
        row(f"__fragments/{name}/{file}", 100, fragment=name, reason="visible", **more)
        for name in names
        for file, more in (
            ("a0.tdb", {"field": "amount", "part": "data"}),
            ("__fragment_metadata.tdb", {"part": "metadata"}),
        )
    ]
    (visible,) = usage_tree(rows)
    parts = {part.label: [leaf.label for leaf in part.children] for part in visible.children}
    assert parts == {"amount data": ["00000000"] * 3, "fragment metadata": []}


def drawn_texts(page: Page, selector: str) -> list[str]:
    texts: list[str] = page.eval_on_selector_all(
        f"{selector} text", "all => all.map((one) => one.textContent).filter(Boolean)"
    )
    return texts


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_labels_are_whole_or_none(
    scheme: str, page: Page, tmp_path: Path
) -> None:
    rows = log_of("inside-dense-v22").usage().to_pylist()
    html = tmp_path / "usage.html"
    html.write_text(to_html("x/inside-dense", rows, [Line(1, 2, "visible", None, "")]), "utf-8")
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of both
    for width, shown in ((390, ".tall-map"), (768, ".middle-map"), (1280, ".wide-map")):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(html.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.locator("#map > div:visible").count() == 1
        assert not [text for text in drawn_texts(page, shown) if "…" in text]
        assert any(text.startswith("fragment metadata") for text in drawn_texts(page, shown))
        drawn = f"document.querySelector('{shown} svg')"
        scale = page.evaluate(f"{drawn}.clientWidth / {drawn}.viewBox.baseVal.width")
        assert 11 * scale >= 9.5, "letters are large enough to be read"
    fills = "all => all.map((one) => getComputedStyle(one).fill)"
    colours = page.eval_on_selector_all(".wide-map path[aria-label]", fills)
    assert len(set(colours)) >= 3, "colours come from the style sheet"


def test_areas_are_as_bytes() -> None:
    sizes = [900, 400, 200, 100]
    svg = to_svg("a", [row(f"f{size}", size) for size in sizes])
    areas = {}
    for one in ElementTree.fromstring(svg).iter():
        label, drawn = one.get("aria-label", ""), re.findall(r"[hv](-?[\d.]+)", one.get("d", ""))
        if label.startswith("f"):
            areas[int(label.partition(":")[0][1:])] = abs(float(drawn[0]) * float(drawn[1]))
    assert sorted(areas) == sorted(sizes)
    for size, area in areas.items():
        assert area / areas[100] == pytest.approx(size / 100, rel=0.1)


def test_an_array_without_a_byte() -> None:
    assert usage_tree([row("empty", 0)]) == ()
    assert "0 bytes in 1 file" in to_svg("a", [row("empty", 0)])


def test_odd_text_stays_text() -> None:
    svg = to_svg(f"{NASTY}/{NASTY}", nasty_rows())
    labels = [one.get("aria-label", "") for one in ElementTree.fromstring(svg).iter()]
    assert any(printable(NASTY) in label for label in labels)
    assert not [c for c in svg if c != "\n" and not is_printable(c)]
    assert to_png("a", nasty_rows()).startswith(b"\x89PNG")


def test_a_real_browser_shows_what_is_pointed_at(page: Page, tmp_path: Path) -> None:
    rows = log_of("inside-dense-v22").usage().to_pylist()
    lines = [Line(1, 2, "superseded", "chronotile vacuum A", "time travel is lost")]
    html = tmp_path / "usage.html"
    html.write_text(to_html("x/inside-dense", rows, lines), "utf-8")
    page.goto(html.as_uri())
    page.wait_for_selector("body[data-ready]")
    assert page.title() == "Usage of x/inside-dense"
    assert not page.locator("#tip").is_visible()
    largest = max((r for r in rows if r["part"] == "data"), key=lambda r: r["bytes"])
    box = page.locator(f'#map path[aria-label*="{largest["path"]}"]').first
    box.hover()
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    words = tip.inner_text()
    assert largest["path"] in words
    assert words.startswith(f"{largest['field']} data: ")
    assert largest["reason"] in words
    page.mouse.move(1, 1)
    tip.wait_for(state="hidden")
    assert "time travel is lost" in page.inner_text("table")


def test_odd_text_in_a_real_browser(page: Page, tmp_path: Path) -> None:
    html = tmp_path / "usage.html"
    lines = [Line(1, 1, "stray", NASTY, NASTY)]
    html.write_text(to_html(f"{NASTY}/{NASTY}", nasty_rows(), lines), "utf-8")
    page.goto(html.as_uri())
    page.wait_for_selector("body[data-ready]")
    # The part of a path behind its last slash is what a label shows.
    assert page.title().endswith(printable(NASTY).rpartition("/")[2])
    assert page.locator("b").count() == 0
    labels = "all => all.map((one) => one.getAttribute('aria-label'))"
    tips = page.eval_on_selector_all("#map path[aria-label]", labels)
    assert any(printable(NASTY) in tip for tip in tips)
    assert not [c for c in "".join(tips) if c != "\n" and not is_printable(c)]
    assert printable(NASTY) in re.sub(r"\s+", " ", page.inner_text("table"))
