"""The certificate of an erasure, as lines and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.accessibility import faint_texts, spoken

from chronotile.show.certificate_page import certificate_lines, certificate_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

CERTIFICATE = {
    "array": "lake/<visits>",
    "time": "2024-05-01T08:00:00.000Z",
    "predicate_hash": "ab" * 32,
    "salt": "cd" * 16,
    "files_read": ["__fragments/f/a0.tdb", "__commits/x.con"],
    "cells_read": 1200,
    "matches_found": 2,
    "matches_left": 0,
    "still_named": [],
    "not_looked_at": [{"what": "backups", "where": "elsewhere", "why": "nobody can"}],
}


def test_lines_say_what_is_left() -> None:
    assert list(certificate_lines(CERTIFICATE)) == [
        "certificate: 1,200 cells in 2 files read: no match left (the erasure found 2)",
        "not searched: backups elsewhere; nobody can",
    ]
    left = [{"what": "enumeration", "where": "e", "why": "a label"}]
    told = list(certificate_lines(CERTIFICATE | {"still_named": left}))
    assert told[1] == "still there: enumeration e: a label"
    assert list(certificate_lines({})) == []


def test_the_page_prints(tmp_path: Path, page: Page) -> None:
    html = tmp_path / "certificate.html"
    html.write_text(certificate_page([CERTIFICATE], 0), "utf-8")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 794, "height": 1123})  # A4 at 96 dots an inch
    page.goto(html.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert faint_texts(page) == []
    told = spoken(page)
    assert ("heading", "Certificate of erasure") in told
    assert ("heading", "lake/<visits>") in told
    text = page.inner_text("main")
    assert "Nothing that could be looked at matches." in text
    assert "ab" * 32 in text
    assert "Signature" in text
    assert "Files that were read of lake/<visits>: 2" in text


def test_the_page_says_if_something_is_left() -> None:
    assert "Something is left." in certificate_page([CERTIFICATE | {"matches_left": 1}], 0)
