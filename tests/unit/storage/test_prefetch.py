"""A thread that works ahead hands over all, and never stays behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from chronotile.storage.prefetch import OneAhead

if TYPE_CHECKING:
    from collections.abc import Generator


class Source:
    """Numbers, and what became of whoever made them."""

    def __init__(self, fails_at: int = 99) -> None:
        self.made = 0
        self.closed_by: str | None = None
        self._fails_at = fails_at

    def numbers(self) -> Generator[int, None, None]:
        try:
            for number in range(5):
                if number == self._fails_at:
                    raise ValueError(number)
                self.made += 1
                yield number
        finally:
            self.closed_by = threading.current_thread().name


def wait_until_closed(source: Source) -> None:
    for _ in range(6000):
        if source.closed_by is not None:
            return
        time.sleep(0.01)
    pytest.fail("the generator is still open")


def test_one_item_is_made_ahead_and_no_more() -> None:
    source = Source()
    with OneAhead(source.numbers()) as items:
        assert next(items) == 0
        for _ in range(6000):
            if source.made == 2:
                break
            time.sleep(0.01)
        time.sleep(0.05)
        assert source.made == 2
        assert list(items) == [1, 2, 3, 4]
    assert source.closed_by == "chronotile-ahead"


def test_an_error_comes_in_its_turn() -> None:
    source = Source(fails_at=1)
    with OneAhead(source.numbers()) as items:
        assert next(items) == 0
        with pytest.raises(ValueError, match="1"):
            next(items)
    assert source.closed_by == "chronotile-ahead"


def test_one_that_is_closed_early_leaves_no_thread() -> None:
    source = Source()
    before = threading.active_count()
    with OneAhead(source.numbers()) as items:
        assert next(items) == 0
    assert source.closed_by == "chronotile-ahead"
    assert threading.active_count() == before


def test_one_that_is_given_up_closes_by_itself() -> None:
    source = Source()
    items = OneAhead(source.numbers())
    assert next(items) == 0
    del items
    wait_until_closed(source)


def test_one_whose_own_thread_collects_it_does_not_wait_for_itself() -> None:
    """Garbage is collected in whatever thread makes some, the one that works ahead too."""
    held: list[OneAhead[int]] = []
    closed = threading.Event()

    def numbers() -> Generator[int, None, None]:
        yield 0
        while not held:
            time.sleep(0.001)
        held.pop().__exit__()
        closed.set()
        yield 1

    items = OneAhead(numbers())
    assert next(items) == 0
    held.append(items)
    assert closed.wait(60)


def test_a_program_ends_while_one_is_open() -> None:
    code = (
        "from chronotile.storage.prefetch import OneAhead\n"
        "def numbers():\n"
        "    try:\n"
        "        yield from range(9)\n"
        "    finally:\n"
        "        print('closed')\n"
        "items = OneAhead(numbers())\n"
        "print(next(items))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["0", "closed"]
