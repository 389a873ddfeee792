"""A small run of the attack: `make attack` is the large one."""

from __future__ import annotations

import pytest
from bench.attack import attack


@pytest.mark.parametrize("first", [0, 5000])
def test_damaged_arrays_lose_nothing(first: int) -> None:
    said: list[str] = []
    assert attack(first, arrays=30, histories=6, say=said.append) == []
    assert "30 arrays, 0 exceptions" in said[-1]
