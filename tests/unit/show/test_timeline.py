"""The picture of a history: what it shows is what `visible` says, also in a real browser."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from support.accessibility import faint_texts, spoken, tab_stops
from support.corpus_cases import CASES, Case
from support.handmade_array import START, encode_schema, make_sample, sample_schema

import chronotile
from chronotile.cli import main, sample
from chronotile.format import tiles
from chronotile.format.commit_files import encode_lines
from chronotile.format.kinds import COMMITS, FRAGMENTS, SCHEMA
from chronotile.format.names import new_name
from chronotile.format.timestamps import now_ms
from chronotile.safe_text import is_printable, printable
from chronotile.show import picture as picture_module
from chronotile.show.axes import ends, is_calendar
from chronotile.show.chart import layout_of, to_png, to_svg
from chronotile.show.page import COLOURS
from chronotile.show.picture import tag_marks
from chronotile.show.timeline_page import to_html

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from chronotile.log import Log
    from chronotile.show.picture import Picture

BROWSED = (
    "overlaps",
    "sparse-everything-v22",
    "dense-consolidated-v22",
    "huge-times",
    "update-v22",
)


def open_page(page: Page, html: Path) -> None:
    page.goto(html.as_uri())
    page.wait_for_selector("body[data-ready]")


def names(page: Page, selector: str) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        f"{selector} li[data-name]", "items => items.map((item) => item.dataset.name)"
    )
    return found


def many(folder: Path, count: int, gap: int = 1000) -> Log:
    """An array of many commits, a part of them merged."""
    for name in (SCHEMA, COMMITS, FRAGMENTS):
        (folder / name).mkdir()
    schema = tiles.encode(encode_schema(sample_schema()), version=22)
    (folder / SCHEMA / new_name(START, START, None)).write_bytes(schema)
    written = [new_name(START + gap * at, START + gap * at, 22) for at in range(count)]
    merged = new_name(START, START + gap * (count // 2), 22)
    for name in (*written, merged):
        (folder / FRAGMENTS / name).mkdir()
        (folder / COMMITS / f"{name}.wrt").touch()
    lines = (f"/{FRAGMENTS}/{name}" for name in written[: count // 2])
    (folder / COMMITS / f"{merged}.vac").write_bytes(encode_lines(lines))
    return chronotile.open_log(str(folder))


def seen_at(picture: Picture, place: int) -> set[str]:
    return {bar.name for bar in picture.bars if 0 <= bar.first <= place <= bar.last}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_picture_agrees_with_every_view(case: Case) -> None:
    log = chronotile.open_log(str(case.array), key=case.key)
    picture = log.picture(now_ms())
    assert picture.counts is None
    for place, (moment, following) in enumerate(
        itertools.pairwise((*picture.moments, picture.moments[-1] + 10))
    ):
        for end in {moment, min(following - 1, 2**64 - 1), (moment + following - 1) // 2}:
            if end > 2**64 - 1:
                continue
            view = log.view(0, end)
            assert seen_at(picture, place) == {fragment.name for fragment in view.fragments}
            for kind, commits in (("delete", view.deletes), ("update", view.updates)):
                force = {m.name for m in picture.marks if m.kind == kind and m.first <= place}
                assert force == {commit.name for commit in commits}
    now = log.view()
    assert seen_at(picture, picture.now) == {fragment.name for fragment in now.fragments}


@pytest.mark.parametrize("case", ["bare", "huge-times", "sparse-everything-v22", "bad-name", "ign"])
def test_svg_and_png_need_no_browser(case: str) -> None:
    picture = chronotile.open_log(str(CASES[case].array)).picture(now_ms())
    svg = to_svg(picture)
    assert svg.startswith("<svg")
    assert f"History of {case}/array" in svg
    assert to_png(picture).startswith(b"\x89PNG")


def test_relations_are_drawn(tmp_path: Path) -> None:
    make_sample(str(tmp_path))
    picture = chronotile.open_log(str(tmp_path)).picture(now_ms())
    assert len(picture.links) == 2
    assert {link.new for link in picture.links} <= {bar.name for bar in picture.bars}
    assert sorted(span.kind for span in picture.spans) == ["con", "ign"]
    svg = to_svg(picture)
    for text in ("delete", "update", ".con", ".ign", "Dotted: "):
        assert text in svg
    assert "amount &lt; 3.0" in svg, "what a delete says is on the mark"


@pytest.mark.parametrize("case", BROWSED)
def test_the_slider_shows_what_visible_says(
    case: str, page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = str(CASES[case].array)
    html = tmp_path / "timeline.html"
    assert main(["timeline", array, "-o", str(html)]) == 0
    capsys.readouterr()
    open_page(page, html)
    last = page.evaluate("JSON.parse(document.getElementById('model').textContent).moments.length")
    last -= 1
    assert last >= 1
    for place in (last, *range(last + 1)):
        page.evaluate("place => showMoment(place)", place)
        moment = page.evaluate("document.body.dataset.moment")
        assert main(["visible", array, "--end", moment, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        wanted = [fragment["name"] for fragment in document["fragments"]]
        assert sorted(names(page, "#fragments")) == sorted(wanted)
        commits = [commit["name"] for commit in (*document["deletes"], *document["updates"])]
        assert sorted(names(page, "#commits")) == sorted(commits)
        sums = page.inner_text("#sums")
        assert sums.startswith(f"{len(wanted)} fragment")
        assert page.locator("#chart .fragment.seen").count() == len(wanted)


def test_the_buttons_and_the_hover(page: Page, tmp_path: Path) -> None:
    (tmp_path / "array").mkdir()
    sample = make_sample(str(tmp_path / "array"))
    html = tmp_path / "timeline.html"
    assert main(["timeline", sample.array, "-o", str(html)]) == 0
    open_page(page, html)
    assert "as an open now sees it" in page.inner_text("#sums")
    page.click("#back")
    page.click("#back")
    moved = page.evaluate("document.body.dataset.moment")
    assert moved < str(sample.last_write)
    page.click("#forth")
    assert page.evaluate("document.body.dataset.moment") > moved
    page.click("#now")
    assert "as an open now sees it" in page.inner_text("#sums")
    page.locator("#chart path[aria-label*='amount < 3.0']").hover()
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    assert (
        "deleted rows where `amount < 3.0`; TileDB also removes rows where amount is NULL"
        in tip.inner_text()
    )


def test_names_cannot_break_out_of_the_page(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)</script>" / "x"
    folder.mkdir(parents=True)
    make_sample(str(folder))
    html = tmp_path / "timeline.html"
    html.write_text(to_html(chronotile.open_log(str(folder)).picture(now_ms())))
    open_page(page, html)
    assert page.title() == "History of script>/x"


NASTY = "n\x01\x1b[31m\r\n\x7f\x9b\u202e\u2028\ufffe\udcff</script><b>&"


def nasty(picture: Picture) -> Picture:
    """The same with odd text in every place that holds text."""
    return replace(
        picture,
        array=f"{NASTY}/{NASTY}",
        bars=tuple(bar._replace(why=NASTY, holds=NASTY) for bar in picture.bars),
        marks=tuple(mark._replace(text=NASTY, notes=(NASTY, NASTY)) for mark in picture.marks),
        spans=tuple(span._replace(path=NASTY) for span in picture.spans),
    )


def test_odd_text_in_a_picture(page: Page, tmp_path: Path) -> None:
    make_sample(str(tmp_path))
    picture = nasty(chronotile.open_log(str(tmp_path)).picture(now_ms()))
    svg = to_svg(picture)
    title = printable(f"History of {picture.title}")
    assert title in ElementTree.fromstring(svg).itertext()
    assert not [c for c in svg if c != "\n" and not is_printable(c)]
    assert to_png(picture).startswith(b"\x89PNG")
    html = tmp_path / "timeline.html"
    html.write_text(to_html(picture), "utf-8")
    open_page(page, html)
    assert page.title() == title
    shown = page.inner_text("#commits")
    assert printable(NASTY) in shown
    assert not [c for c in shown if c != "\n" and not is_printable(c)]


def test_the_picture_of_an_array_in_an_odd_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / NASTY.replace("/", "")
    folder.mkdir()
    make_sample(str(folder))
    for form in ("svg", "png", "html"):
        output = tmp_path / f"x\udcff.{form}"
        assert main(["timeline", str(folder), "-o", str(output), "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["array"], report["output"]) == (str(folder), str(output))
        assert output.stat().st_size == report["size"]


def test_many_commits_are_counted(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture_module, "MOST_FRAGMENTS", 100)
    (tmp_path / "array").mkdir()
    log = many(tmp_path / "array", 1200)
    picture = log.picture(now_ms())
    assert picture.counts is not None
    assert not picture.bars
    assert len(picture.moments) <= picture_module.BINS + 1
    assert picture.reach == (START, START + 1000 * 1199), "the axis has all of it"
    for moment, seen in zip(picture.moments, picture.counts.seen, strict=True):
        assert seen == len(log.view(0, moment).fragments)
    assert sum(picture.counts.writes) == picture.fragments == 1201
    assert to_svg(picture).startswith("<svg")
    html = tmp_path / "timeline.html"
    html.write_text(to_html(picture))
    assert html.stat().st_size < 2_000_000
    open_page(page, html)
    assert page.inner_text("#legend").split("\n")[0:3] == ["write", "delete", "update"]
    for place in (0, 40, 100):
        page.evaluate("place => showMoment(place)", place)
        shown = re.match(r"([\d,]+) fragment", page.inner_text("#sums"))
        assert shown is not None
        assert int(shown[1].replace(",", "")) == picture.counts.seen[place]


def test_what_counts_as_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "array").mkdir()
    sample = make_sample(str(tmp_path / "array"))
    target = tmp_path / "x.svg"
    arguments = ["timeline", sample.array, "-o", str(target), "--now", str(sample.update), "--json"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["now"] == sample.update
    assert report["size"] == target.stat().st_size
    assert report["counted"] is False


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """A page of the sample, with cells."""
    array = sample.unpack(tmp_path).array
    html = tmp_path / "timeline.html"
    assert main(["timeline", str(array), "-o", str(html), "--cells"]) == 0
    return html


def test_the_axis_has_dates_and_a_zone_in_every_form(shipped: Path, page: Page) -> None:
    svg = shipped.with_suffix(".svg")
    array = str(shipped.parent / "array")
    assert main(["timeline", array, "-o", str(svg)]) == 0
    drawn = svg.read_text()
    assert "time (UTC)" in drawn
    assert "2024-05-03" in drawn
    for lane in ("schema", "metadata", "delete", "update", ".con", ".ign"):
        assert f">{lane}<" in drawn
    open_page(page, shipped)
    text = page.inner_text("#plot")
    assert "time (UTC)" in text
    assert "2024-05-03" in text


def drawn_heights(svg: str) -> dict[str, float]:
    """Short id of each merged fragment -> how high its bar is drawn."""
    found: dict[str, float] = {}
    for group in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"):
        name = re.match(r"fragment (\w{8}): written \S+ \S+ UTC to ", group.get("aria-label", ""))
        if name:
            found[name[1]] = float(group[-1].get("height", ""))
    return found


def test_a_fragment_is_as_high_as_its_cells_or_its_bytes(
    tmp_path: Path, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    array = sample.unpack(tmp_path).array
    held = {
        row["name"].split("_")[4][:8]: row
        for row in chronotile.open_log(array).fragments().to_pylist()
        if row["t1"] != row["t2"] and row["cells"]
    }
    heights = {}
    for by in ("cells", "bytes"):
        svg, png = tmp_path / f"{by}.svg", tmp_path / f"{by}.png"
        for target in (svg, png):
            assert main(["timeline", str(array), "-o", str(target), "--height", by]) == 0
        assert f"The taller a fragment, the more {by} it holds." in svg.read_text()
        heights[by] = drawn_heights(svg.read_text())
        # The one that holds more is higher; these two hold more cells, and more bytes, in turn.
        assert sorted(held, key=lambda name: held[name][by]) == sorted(
            heights[by], key=lambda name: heights[by][name]
        )
    assert len(held) == 2
    assert sorted(heights["cells"], key=heights["cells"].get) != sorted(  # type: ignore[arg-type]
        heights["bytes"],
        key=heights["bytes"].get,  # type: ignore[arg-type]
    )
    assert (tmp_path / "cells.png").read_bytes() != (tmp_path / "bytes.png").read_bytes()
    html = tmp_path / "timeline.html"
    assert main(["timeline", str(array), "-o", str(html), "--height", "bytes"]) == 0
    open_page(page, html)
    assert page.get_by_role("radio", name="bytes").is_checked()
    page.get_by_role("radio", name="bytes").focus()
    for by, key in (("cells", "ArrowUp"), ("bytes", "ArrowDown")):
        page.keyboard.press(key)
        assert page.get_by_role("radio", name=by).is_checked()
        expected = max(heights[by].values())
        (top,) = (name for name, height in heights[by].items() if height == expected)
        page.wait_for_function(
            "(ids) => { const [top, other] = ids.map((id) => document.querySelector("
            "`.fragment[aria-label^='fragment ${id}'] .bar`).getBBox().height);"
            "return top > other; }",
            arg=[top, next(name for name in held if name != top)],
        )
    plain = tmp_path / "plain.html"
    assert main(["timeline", str(array), "-o", str(plain)]) == 0
    open_page(page, plain)
    assert page.get_by_role("radio").count() == 0
    assert main(["timeline", str(tmp_path / "dataset"), "-o", str(html), "--height", "bytes"]) == 0
    open_page(page, html)
    assert page.get_by_role("radio", name="bytes").is_checked()
    capsys.readouterr()


def test_the_slider_lies_above_the_axis(shipped: Path, page: Page) -> None:
    for width in (390, 800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        open_page(page, shipped)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        box = page.locator("#slider").bounding_box()
        frame = page.locator("#chart .frame").bounding_box()
        assert box is not None
        assert frame is not None
        assert abs(box["x"] + 8 - frame["x"]) < 4
        assert abs(box["width"] - 16 - frame["width"]) < 6
        assert 0 <= knob(page)["knob"] <= width - 8, "the knob is on the screen"
    page.locator("#slider").focus()
    page.keyboard.press("Home")
    assert page.inner_text("#moment").startswith("Before the first commit")
    page.keyboard.press("ArrowRight")
    assert "2024-05-01 09:00:00 UTC" in page.inner_text("#moment")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_keyboard_and_screen_reader(scheme: str, shipped: Path, page: Page) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of both
    for width in (390, 800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        open_page(page, shipped)
        assert faint_texts(page) == []
        told = spoken(page)
        assert [role for role, _ in told].count("main") == 1
        assert next(name for role, name in told if role == "heading").startswith("History of ")
        named = {"button", "slider", "radio", "searchbox", "group", "RadioGroup"}
        assert [role for role, name in told if role in named and not name] == []
        fragments = [name for _, name in told if name.startswith("fragment 1471c1fe: written")]
        assert len(fragments) == 1
        assert "100 cells" in fragments[0]
        stops = tab_stops(page)
        assert [stop.name for stop in stops] == [
            "the moment before",
            "the next moment",
            "now",
            "zoom in",
            "zoom out",
            "all",
            "cells",
            "the end of the window",
            "the picture",
            "search deletes and updates",
        ]
        assert all(stop.has_ring for stop in stops)


@pytest.mark.parametrize(("scheme", "at"), [("light", 0), ("dark", 1)])
def test_fills_are_those_of_the_mode(scheme: Any, at: int, shipped: Path, page: Page) -> None:
    page.emulate_media(color_scheme=scheme)
    open_page(page, shipped)
    fills = {
        ".fragment.seen .bar": "seen",
        ".fragment:not(.seen) .bar": "hidden",
        ".mark.delete": "delete",
        ".mark.update": "update",
        ".mark.schema": "schema",
        "text.label": "fg",
    }
    for selector, name in fills.items():
        fill = page.eval_on_selector(f"#chart {selector}", "node => getComputedStyle(node).fill")
        channels = (int(COLOURS[name][at][place : place + 2], 16) for place in (1, 3, 5))
        assert fill == f"rgb({', '.join(map(str, channels))})", selector


def test_a_page_prints_black_on_white(shipped: Path, page: Page) -> None:
    page.emulate_media(color_scheme="dark", media="print")
    page.set_viewport_size({"width": 700, "height": 990})
    open_page(page, shipped)
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert faint_texts(page, 7) == []
    for hidden in ("#back", "#slider", "#search", "#height"):
        assert not page.locator(hidden).is_visible()
    assert page.evaluate("document.querySelector('#chart').getBoundingClientRect().right") <= 700
    pdf = page.pdf(format="A4")
    assert pdf.count(b"/Type /Page\n") == 1


def test_zoom_pan_search_and_dark(shipped: Path, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    open_page(page, shipped)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    fill = page.evaluate("getComputedStyle(document.querySelector('#chart text')).fill")
    assert (dark, fill) == ("rgb(22, 22, 22)", "rgb(230, 230, 230)")
    shows = "text => document.querySelector('#chart').textContent.includes(text)"
    page.click("#closer")
    page.click("#closer")
    page.wait_for_function(shows.replace("document", "!document"), arg="2024-05-03")
    page.locator("#plot").focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function(shows, arg="2024-05-01")
    page.click("#whole")
    page.wait_for_function(shows, arg="2024-05-15")
    page.fill("#search", "REGION == 'test'")
    assert page.locator("#commits li").count() == 1
    page.fill("#search", "nobody wrote this")
    assert (
        page.inner_text("#commits") == "No match for “nobody wrote this” among 3 commits in force."
    )
    page.evaluate("showMoment(0)")
    assert page.inner_text("#commits") == "Nothing is in force at this moment."


KNOB = """() => {
  const model = JSON.parse(document.getElementById("model").textContent);
  const slider = document.getElementById("slider");
  const box = slider.getBoundingClientRect();
  const [low, high, value] = [slider.min, slider.max, slider.value].map(Number);
  const lines = [...document.querySelectorAll('#chart .now')];
  return {
    knob: box.left + 8 + (value - low) / (high - low) * (box.width - 16),
    lines: lines.map((line) => line.getBoundingClientRect().left),
    wide: high - low,
    away: slider.classList.contains("away"),
    moment: model.moments.findIndex((one) => one.ms === document.body.dataset.moment),
    atKnob: model.moments.findLastIndex((one) => one.x === value),
    heading: document.getElementById("moment").textContent,
    texts: model.moments.map((one) => one.text),
  };
}"""


def knob(page: Page) -> dict[str, Any]:
    """The knob: it stands at the moment that the heading names, above its line in the picture."""
    apart = f"(({KNOB})()).lines.every((line) => Math.abs(line - (({KNOB})()).knob) < 3)"
    page.wait_for_function(f"() => (({KNOB})()).away || {apart}")
    found: dict[str, Any] = page.evaluate(KNOB)
    if found["moment"]:
        assert f"Opened at {found['texts'][found['moment']]}" in found["heading"]
    assert found["away"] == found["heading"].endswith(" what the picture shows")
    if not found["away"]:
        assert found["atKnob"] == found["moment"]
    return found


def test_zooming_keeps_the_chosen_moment_in_place(shipped: Path, page: Page) -> None:
    open_page(page, shipped)
    for place in (0, 3, 7):
        page.click("#whole")
        page.evaluate("place => showMoment(place)", place)
        first = knob(page)
        for clicks in (1, 1, 30):
            for _ in range(clicks):
                page.click("#closer")
            closer = knob(page)
            assert closer["knob"] == pytest.approx(first["knob"], abs=1)
        assert closer["wide"] == pytest.approx(20), "no closer than 20 ms"
        page.locator("#plot").focus()
        for key in ("-", "-", "+"):
            page.keyboard.press(key)
            assert knob(page)["knob"] == pytest.approx(first["knob"], abs=1)


def test_a_moment_outside_of_the_picture_has_no_knob(shipped: Path, page: Page) -> None:
    open_page(page, shipped)
    for _ in range(4):
        page.click("#closer")
    at_the_end = knob(page)
    slider = page.locator("#slider")
    with_knob = slider.screenshot()
    page.locator("#plot").focus()
    page.keyboard.press("ArrowLeft")
    away = knob(page)
    assert away["away"]
    assert away["moment"] == at_the_end["moment"], "to look elsewhere chooses no other moment"
    assert slider.screenshot() != with_knob
    page.fill("#search", "amount")
    assert knob(page)["away"]
    page.click("#back")
    back = knob(page)
    assert (back["away"], back["moment"]) == (False, at_the_end["moment"] - 1)
    assert back["wide"] == pytest.approx(away["wide"])
    for _ in range(back["moment"]):
        page.click("#back")
        assert not knob(page)["away"]
    page.click("#now")
    assert not knob(page)["away"]


def test_a_click_on_the_slider_chooses_the_moment_before_it(shipped: Path, page: Page) -> None:
    open_page(page, shipped)
    page.evaluate("showMoment(7)")
    for _ in range(6):
        page.click("#closer")
    box = page.locator("#slider").bounding_box()
    assert box is not None
    assert knob(page)["moment"] == 7
    page.mouse.click(box["x"] + 9, box["y"] + box["height"] / 2)
    before = knob(page)
    assert (before["moment"], before["away"]) == (6, False), "the picture moves to it"


def test_the_wheel_zooms_about_the_pointer(shipped: Path, page: Page) -> None:
    open_page(page, shipped)
    page.evaluate("showMoment(3)")
    first = knob(page)
    box = page.locator("#chart").bounding_box()
    assert box is not None
    page.mouse.move(first["knob"], box["y"] + 60)
    page.keyboard.down("Control")
    wide = first["wide"]
    for _ in range(5):
        page.mouse.wheel(0, -100)
        page.wait_for_function("wide => slider.max - slider.min < wide", arg=wide)
        closer = knob(page)
        assert closer["knob"] == pytest.approx(first["knob"], abs=3), "a pointer has whole pixels"
        wide = closer["wide"]
    page.keyboard.up("Control")


def test_deletes_of_a_long_history_are_listed(
    shipped: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture_module, "MOST_FRAGMENTS", 2)
    log = chronotile.open_log(shipped.parent / "array")
    shipped.write_text(to_html(log.picture(now_ms())))
    open_page(page, shipped)
    page.fill("#search", "amount < 3")
    assert "deleted rows where `amount < 3.0`" in page.inner_text("#commits")


def labels(page: Page) -> list[str]:
    """The labels of the rows that are shown."""
    shown = (
        "rows => rows.filter((row) => row.style.display !== 'none').map((row) => row.textContent)"
    )
    texts: list[str] = page.eval_on_selector_all("#chart .row", shown)
    return texts


def test_hundreds_of_fragments_share_rows_until_one_zooms(page: Page, tmp_path: Path) -> None:
    (tmp_path / "array").mkdir()
    log = many(tmp_path / "array", 300)
    picture = log.picture(now_ms())
    assert picture.counts is None
    html = tmp_path / "timeline.html"
    html.write_text(to_html(picture))
    assert to_svg(picture).count(" fragments</text>") == len(set(layout_of(picture).rows)) <= 24
    open_page(page, html)
    assert sum(int(label.split()[0]) for label in labels(page)) == 301
    page.evaluate("showMoment(100)")
    for _ in range(6):
        page.click("#closer")
    assert all(re.fullmatch("[0-9a-f]{8}", label) for label in labels(page))
    assert 1 < len(labels(page)) <= 24
    page.click("#whole")
    assert labels(page)[0] == "13 fragments"
    page.locator("#chart .fragment .bar").first.hover()
    tip = page.locator("#tip")
    assert "written 2024-05-01 08:00:00 UTC" in tip.inner_text()
    assert "in-window" not in page.content()


@pytest.mark.parametrize("count", [41, 47, 300])
def test_rows_stay_above_the_lanes_at_every_zoom(page: Page, tmp_path: Path, count: int) -> None:
    (tmp_path / "array").mkdir()
    picture = many(tmp_path / "array", count).picture(now_ms())
    html = tmp_path / "timeline.html"
    html.write_text(to_html(replace(picture, changes=tuple(tag_marks({"a": START})))))
    open_page(page, html)
    bottoms = (
        "all => Math.max(...all.map((one) => one.getBoundingClientRect()).filter((box) =>"
        " box.width).map((box) => box.bottom))"
    )
    for _ in range(8):
        lane = page.locator("#chart .lane .label").first.bounding_box()
        assert lane is not None
        assert page.eval_on_selector_all("#chart .fragment .bar", bottoms) <= lane["y"]
        page.click("#closer")


def test_a_mark_after_the_last_commit_has_its_own_date(page: Page, tmp_path: Path) -> None:
    (tmp_path / "array").mkdir()
    picture = many(tmp_path / "array", 20).picture(now_ms())
    late = {"near": START + 30_000, "far": START + 10**9, "before": START - 10**9}
    picture = replace(picture, changes=tuple(tag_marks(late)))
    first, last = picture.reach
    assert (first, last) == (START, late["near"]), "what is far away does not squeeze the picture"
    assert "Hollow, at the edge" in to_svg(picture)
    html = tmp_path / "timeline.html"
    html.write_text(to_html(picture))
    open_page(page, html)

    def states() -> dict[str, set[str]]:
        return {
            (mark.get_attribute("aria-label") or "").split()[1]: {
                *(mark.get_attribute("class") or "").split()
            }
            & {"later", "beyond"}
            for mark in page.locator("#chart .mark.tag").all()
        }

    assert states() == {"near": set(), "far": {"beyond"}, "before": {"beyond"}}
    page.evaluate("showMoment(3)")
    assert states() == {"near": {"later"}, "far": {"beyond", "later"}, "before": {"beyond"}}


def test_an_event_dense_in_40_ms_gets_ticks(page: Page, tmp_path: Path) -> None:
    (tmp_path / "array").mkdir()
    picture = many(tmp_path / "array", 20, gap=2).picture(now_ms())
    clock = re.compile(r">(\d\d:\d\d:\d\d\.\d{3})<")
    assert len(set(clock.findall(to_svg(picture)))) >= 4
    html = tmp_path / "timeline.html"
    html.write_text(to_html(picture))
    page.set_viewport_size({"width": 390, "height": 800})
    open_page(page, html)
    texts = clock.findall(page.inner_html("#axis"))
    assert len(set(texts)) == len(texts) >= 2


def test_a_single_commit_has_an_hour_around_it(page: Page, tmp_path: Path) -> None:
    (tmp_path / "array").mkdir()
    late = START + 3_000
    picture = replace(many(tmp_path / "array", 1).picture(now_ms()), changes=())
    low, high = ends(picture)
    assert high - low == 3_600_000
    near = replace(picture, changes=tuple(tag_marks({"near": late})))
    assert near.reach == (START, late), "what happened the same day is drawn where it is"
    html = tmp_path / "timeline.html"
    html.write_text(to_html(picture))
    for width in (390, 768):
        page.set_viewport_size({"width": width, "height": 800})
        open_page(page, html)
        boxes = [
            box
            for text in page.locator("#axis text").all()
            if text.inner_html() and (box := text.bounding_box()) is not None
        ]
        assert len(boxes) > 3
        assert all(box["x"] + box["width"] <= width for box in boxes)
        for one, other in itertools.combinations(boxes, 2):
            is_apart = (
                one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            )
            assert is_apart or abs(one["y"] - other["y"]) > 8, "no label lies on another"


def test_an_axis_without_dates_agrees_with_the_heading(page: Page, tmp_path: Path) -> None:
    html = tmp_path / "timeline.html"
    picture = chronotile.open_log(str(CASES["overlaps"].array)).picture(now_ms())
    assert not is_calendar(*ends(picture))
    html.write_text(to_html(picture))
    open_page(page, html)
    assert knob(page)["heading"].endswith(f" ({picture.moments[picture.now]:,} ms)")


def test_tags_and_operations_are_marks(shipped: Path, page: Page) -> None:
    array = shipped.parent / "array"
    chronotile.open(array).tag("after-the-load", author="ana", message="all there")
    assert main(["timeline", str(array), "-o", str(shipped)]) == 0
    open_page(page, shipped)
    told = {kind: page.locator(f"#chart .mark.{kind}") for kind in ("tag", "operation")}
    assert "tag after-the-load" in (told["tag"].last.get_attribute("aria-label") or "")
    told["operation"].last.hover()
    assert 'ana: "all there"' in page.inner_text("#tip")
    told["tag"].first.click()
    assert knob(page)["heading"].startswith("Opened at 2024-05-1"), "a click chooses its moment"
