"""Events of all members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.groups import member, put_array, put_list

import chronotile as ct

if TYPE_CHECKING:
    from pathlib import Path


def test_events_of_all_members_are_in_one_order(group: Path) -> None:
    put_array(group / "dense", "dense-vacuumed-v22")
    put_list(group, 20, member("dense", "dense"))
    events = ct.open_dataset(str(group)).events().to_pylist()
    times = [event["t2"] for event in events]
    assert times == sorted(times, reverse=True)
    assert {event["member"] for event in events} == {"", "cells", "dense", "inner", "inner/deep"}
    assert {"members", "write", "schema"} <= {event["kind"] for event in events}
