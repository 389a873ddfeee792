"""Fixtures that several test modules share: servers on loopback, a fresh bucket, a browser."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from support import engines  # noqa: F401  (its settings hold for every engine of the tests)
from support.servers import FaultProxy, S3Server, s3_server
from support.shared_out import rank_of, scheduler

from chronotile.change import consolidate
from chronotile.change.orphan_fragments import HOURS_24
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

# A busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the slow files first."""
    items.sort(key=lambda item: rank_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives each worker whole files."""
    return scheduler(config, log)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server for the whole run; the environment's own storage settings are put aside."""
    with pytest.MonkeyPatch.context() as patch, s3_server() as server:
        for name in tuple(os.environ):
            if name.startswith("AWS_") or name.lower().endswith("_proxy"):
                patch.delenv(name)
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """The URI of a new, empty bucket."""
    return s3.make_bucket(f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    """A proxy in front of the S3 server that breaks what the test plans."""
    with FaultProxy(s3.endpoint) as running:
        yield running


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """For races in which nobody removes a fragment: what looks out for that looks less long.

    A consolidation whose commits somebody else vacuums looks for a second whether their fragments
    go too. How often that happens is chance, and rounds without that rest race more.
    """
    waits = tuple(wait / 10 for wait in consolidate.WAITS_S)
    monkeypatch.setattr(consolidate, "WAITS_S", waits)


@pytest.fixture
def two_days_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """For orphans, which go only at an age: nobody can set the time back at which a file came."""
    monkeypatch.setattr("chronotile.change.vacuum.now_ms", lambda: now_ms() + 2 * HOURS_24)


FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a network of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    """A page that fails on any error in it and on any look outside."""
    opened = browser.new_page(viewport={"width": 1240, "height": 900}, timezone_id="UTC")
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request",
        lambda request: wrong.append(request.url) if not request.url.startswith("file:") else None,
    )
    yield opened
    opened.close()
    assert not wrong
