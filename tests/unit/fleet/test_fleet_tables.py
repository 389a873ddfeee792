"""Tables of a fleet without Spark, and the page that is made from them."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from support.accessibility import faint_texts, spoken, tab_stops
from support.corpus_cases import CASES
from support.stored_tables import as_read, stored, version

import chronotile as ct
from chronotile.cli import main, sample
from chronotile.fleet import fleet_without_spark
from chronotile.fleet.array_tables import SCHEMAS, ArrayTables
from chronotile.fleet.fleet_without_spark import FEW, make_tables
from chronotile.fleet.read_share import measure_array
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from playwright.sync_api import Page
    from support.servers import S3Server

NAMES = [name for name, case in CASES.items() if case.key is None][: FEW + 8]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    for name in NAMES:
        shutil.copytree(CASES[name].array, folder / name)
    (folder / "damaged" / "__schema").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("parquet", [False, True])
def test_processes_write_what_each_log_says(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], parquet: bool
) -> None:
    more = ["--parquet"] if parquet else []
    assert main(["tables", str(fleet), "--out", str(tmp_path), *more, "--json"]) == 3
    written = json.loads(capsys.readouterr().out)

    def read(folder: Path) -> pa.Table:
        return as_read(pq.read_table(folder)) if parquet else stored(folder)

    arrays = read(tmp_path / "arrays")
    assert arrays.num_rows == len(NAMES) + 1
    for name, schema in SCHEMAS.items():
        table = read(tmp_path / name).select(schema.names)
        if parquet:
            assert table.num_rows == written[name]["rows"]
        for case in NAMES[::7]:
            uri = str(fleet / case)
            rows = [row for row in table.to_pylist() if row["array"] == uri]
            log = ct.open_log(uri)
            measured = measure_array(log.store).entries
            assert rows == ArrayTables(log, measured=measured).table(name).to_pylist()
    for row in arrays.to_pylist():
        if row["fragments"] is not None:
            assert row["fragments"] == ct.open_log(row["array"]).lifelines().num_rows
    codes = [row["code"] for row in read(tmp_path / "findings").to_pylist()]
    assert "unreadable" in codes


def test_tables_without_spark_go_on_where_they_were(fleet: Path, tmp_path: Path) -> None:
    """The same job as with Spark: an unchanged run commits nothing."""
    for path in (fleet, *fleet.rglob("*")):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    roots = [str(fleet / name) for name in NAMES]
    call = ["tables", *roots, "--out", str(tmp_path), "--since-last"]
    status = main(call)
    first = {name: one.version() for name, one in ct.fleet_tables(tmp_path).items()}
    assert main(call) == status
    assert {name: version(tmp_path / name) for name in first} == first
    assert ct.fleet_tables(tmp_path)["arrays"].to_pyarrow_table().num_rows == len(NAMES)


def test_one_process_says_the_same(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = make_tables(fleet)
    for few in ("FEW", "FEW_ON_DISK"):
        monkeypatch.setattr(fleet_without_spark, few, 1)
    several = make_tables(fleet)
    for name, table in alone.tables.items():
        assert table.equals(several.tables[name])


def test_a_page_names_its_folder_and_cuts_no_word(
    tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sample.unpack(tmp_path / "lake")
    made.array.rename(made.array.parent / "metadata-unconsolidated-of-all")
    monkeypatch.chdir(tmp_path / "lake")
    assert main(["report", ".", "-o", "report.html", "--no-timelines"]) == 0
    for width in (390, 768, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((tmp_path / "lake" / "report.html").as_uri())
        assert page.inner_text("h1") == f"Fleet report on {tmp_path / 'lake'}"
        # A name breaks at a slash or a hyphen, if at all.
        texts = "#attention [title], #findings td:nth-child(2)"
        assert page.evaluate(_CUT, texts) == []


def test_a_single_array_has_its_own_name(tmp_path: Path, page: Page) -> None:
    array, html = sample.unpack(tmp_path / "lake").array, tmp_path / "report.html"
    assert main(["report", str(array), "-o", str(html), "--no-timelines"]) == 0
    page.goto(html.as_uri())
    name = page.locator("#arrays [title]")
    assert (name.inner_text(), name.get_attribute("title")) == ("array", str(array))


_CUT = """selector => [...document.querySelectorAll(selector)].flatMap((cell) => {
  const cut = [];
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    for (const word of node.textContent.matchAll(/[a-z]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (range.getClientRects().length > 1) cut.push(word[0]);
    }
  }
  return cut;
})"""
"""Finds the words that lie on two lines."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_fleet(
    scheme: str, tmp_path: Path, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    made = sample.unpack(tmp_path / "<i>lake")
    html = tmp_path / "report.html"
    assert main(["report", str(made.array.parent), "-o", str(html), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["arrays"], said["timelines"]) == (4, 4)
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of both
    for width in (390, 800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(html.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert faint_texts(page) == []
        tables = [name for role, name in spoken(page) if role == "table"]
        assert tables[0] == "Arrays that need attention", "also where a phone shows cards"
    headings = page.locator("h2").all_inner_texts()
    assert headings[0] == "What needs attention"
    assert headings[1:] == [
        "Findings",
        "Commits over time",
        "Size by reason",
        "Slowest opens",
        "Arrays",
    ]
    assert "delete-hits-null" in page.inner_text("#attention")
    assert page.get_by_role("group", name="Commits over time of 4 arrays").count() == 1
    assert "No open needs attention: none takes more than " in page.inner_text("#opens")
    assert "ARRAY" not in page.inner_text("#findings"), "a hint names a real array"
    assert page.locator("#sizes tbody .swatch").count() == page.locator("#sizes tbody tr").count()
    assert page.locator("#time rect").count() > 4
    told = spoken(page)
    roles = [role for role, _ in told]
    assert roles.count("main") == 1
    assert next(name for role, name in told if role == "heading").startswith("Fleet report on ")
    images = {name for role, name in told if role == "image"}
    strips = images - {"Size by reason"}
    assert (len(images), len(strips)) == (5, 4)
    assert all(re.match(r"\S+: \d+ commits?, most of them between 2024-", name) for name in strips)
    named = ("link", "searchbox", "table", "columnheader", "group", "navigation", "image")
    assert [role for role, name in told if role in named and not name] == []
    stops = tab_stops(page)
    assert stops[0].name == "To what needs attention"
    assert [stop.name for stop in stops[1:7]] == [
        "What needs attention",
        "Findings",
        "Commits over time",
        "Size by reason",
        "Slowest opens",
        "Arrays",
    ]
    assert "filter arrays" in [stop.name for stop in stops]
    assert all(stop.has_ring and stop.name for stop in stops)
    tops = [stop.top for stop in stops[7:]]
    assert all(after >= before - 40 for before, after in itertools.pairwise(tops)), "from the top"
    sizes_of = "cells => cells.map((cell) => Number(cell.dataset.key))"
    for sign in (-1, 1):
        page.locator("#arrays th button", has_text="size").press("Enter")
        found = page.eval_on_selector_all("#arrays tbody td:nth-child(2)", sizes_of)
        assert len(found) == 4
        assert found == sorted(found, key=lambda size: sign * size), "most first, then least"
    assert page.locator("td.number:not([data-key])").count() == 0, "numbers do not sort as texts"
    page.get_by_label("filter arrays").fill("stations")
    assert page.locator("#arrays tbody tr:visible").count() == 1
    page.locator("#arrays a").filter(has_text="stations").click()
    page.wait_for_selector("body[data-ready]")
    assert "History of dataset/stations" in page.title()
    page.get_by_role("link", name="Fleet report on").click()
    assert page.title().startswith("Fleet report on ")


def test_the_page_prints_black_on_white(tmp_path: Path, page: Page) -> None:
    """Also from a browser in dark mode: what is left is text that ink can show."""
    made = sample.unpack(tmp_path / "lake")
    html, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    assert main(["report", str(made.array.parent), "-o", str(html)]) == 0
    page.emulate_media(color_scheme="dark", media="print")
    page.set_viewport_size({"width": 700, "height": 990})
    page.goto(html.as_uri())
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert faint_texts(page, 7) == []
    for hidden in ("#filter", "nav", "a.skip"):
        assert not page.locator(hidden).is_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.pdf(path=pdf, format="A4").startswith(b"%PDF")
    pages = pdf.read_bytes().count(b"/Type /Page\n")
    assert 1 <= pages <= 4


def test_the_page_is_made_from_tables_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = sample.unpack(tmp_path / "lake")
    html = tmp_path / "report.html"
    for more in ([], ["--no-sizes"], ["--parquet", "--no-sizes"], ["--parquet"]):
        out = str(tmp_path / f"tables{''.join(more)}")
        assert main(["tables", str(made.array.parent), "--out", out, *more]) == 0
        assert main(["report", out, "-o", str(html)]) == 0
        text = html.read_text()
        assert str(made.dataset / "readings") in text
        assert ("The tables say nothing of sizes" in text) == ("--no-sizes" in more)
        assert ('aria-label="Size by reason"' in text) != ("--no-sizes" in more)
        assert "4 arrays" in capsys.readouterr().out


def test_tables_in_a_bucket(
    tmp_path: Path, s3: S3Server, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = sample.unpack(tmp_path / "lake")
    storage = [part for pair in s3.options.items() for part in ("--storage", "=".join(pair))]
    out = f"{bucket}/tables"
    call = ["tables", str(made.array.parent), "--out", out, "--parquet", *storage]
    assert main([*call, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["arrays"] == {"file": f"{out}/arrays/arrays.parquet", "rows": 4}
    store = open_store(out, s3.options)
    table = pq.read_table(io.BytesIO(store.read("commits/commits.parquet")))
    assert table.num_rows == written["commits"]["rows"] > 13
    # Nothing in a bucket is overwritten: not one of the tables, and it is said before.
    store.remove(["findings/findings.parquet"])
    assert main(call) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected no table there, found one" in line
    assert "give another folder" in line
    assert store.list_dir("findings").files == ()
    assert main(["tables", str(made.array.parent), "--out", f"{bucket}/more", *storage]) == 0
    html = tmp_path / "report.html"
    assert main(["report", f"{bucket}/more", "-o", str(html), *storage]) == 0
    assert 'aria-label="Size by reason"' in html.read_text()
    capsys.readouterr()
    (tmp_path / "a-file").touch()
    assert main(["tables", str(made.array.parent), "--out", str(tmp_path / "a-file")]) in (1, 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert "a-file" in line
