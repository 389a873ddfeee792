"""Replicas that are read while an engine works on the source and the replicator is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.replicate_race import race

if TYPE_CHECKING:
    from support.servers import S3Server

SECONDS = 6.0


@pytest.mark.parametrize("kind", ["sparse", "dense", "duplicates"])
def test_on_a_disk(kind: str) -> None:
    figures = race(kind, SECONDS, seed=1)
    assert figures["wrong"] == []
    assert figures["windows"] > 0


def test_on_an_s3_server(s3: S3Server) -> None:
    figures = race("sparse", SECONDS, seed=2, s3=s3)
    assert figures["wrong"] == []
    assert figures["windows"] > 0


def test_two_replicators_at_once() -> None:
    figures = race("sparse", SECONDS, seed=3, replicators=2)
    assert figures["wrong"] == []
