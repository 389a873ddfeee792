"""What a reader sees of a restore in between, if rows, schema and metadata all change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.evolved_arrays import WAYS, Shown, evolved, shown, without_b

import chronotile as ct
from chronotile.array import Array
from chronotile.change import restore as restore_module
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib

CHANGES = ("put", "copy", "remove")
FAR = 1 << 60


class Watched:
    """An array, and what an open of it shows after each storage step of a change."""

    def __init__(self, folder: pathlib.Path, way: str) -> None:
        self.array, self.moment = evolved(folder, way)
        old, then = shown(self.array), shown(self.array, self.moment)
        assert isinstance(old, Shown)
        assert isinstance(then, Shown)
        self.old = old
        # The metadata of then is in another file than its schema and rows.
        self.new = then
        self.between = without_b(then, old)
        self.now: list[Any] = [old]
        self.later: list[Any] = [shown(self.array, FAR)]

    def run(self, function: Any, **options: Any) -> None:
        store = open_store(self.array.uri, on_operation=self._look)
        function(Array(store), **options)

    def _look(self, operation: str, path: str) -> None:
        # What is written down of the change, the end of it too, is no step of it.
        if operation.partition(".")[0] in CHANGES and "__chronotile" not in path:
            for states, end in ((self.now, None), (self.later, FAR)):
                found = shown(self.array, end)
                if found != states[-1]:
                    states.append(found)


@pytest.mark.parametrize("way", WAYS)
def test_every_state_in_between_is_old_or_harmless(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    # Opens after each step take their time: the moment must not come before they are done.
    monkeypatch.setattr(restore_module, "_LEAD_MS", {"quick": 10_000})
    watched = Watched(tmp_path / "array", way)
    old, between, new = watched.old, watched.between, watched.new
    begun = now_ms()
    watched.run(Array.restore, to=watched.moment)
    steps = [old, between, between._replace(fields=new.fields, rows=new.rows), new]
    assert watched.later == steps
    assert watched.now == ([old] if way == "hide" else steps)
    assert shown(watched.array) == new
    if way == "hide":
        assert now_ms() - begun >= 10_000, "it ended before its moment came"


def test_a_moment_to_come_shows_all_at_once(tmp_path: pathlib.Path) -> None:
    """Whatever the way: what is put before its moment shows when it comes."""
    watched = Watched(tmp_path / "array", "replay")
    moment = now_ms() + 10_000
    plan = ct.restore(watched.array.uri, watched.moment, at=moment, dry_run=True)
    assert f"what others write until {moment} may be hidden then" in plan.notes
    watched.run(Array.restore, to=watched.moment, at=moment)
    assert watched.now == [watched.old]
    assert shown(watched.array, moment - 1) == watched.old
    # A replay takes a millisecond each fragment and delete.
    assert shown(watched.array, moment + 100) == watched.new


def test_rows_that_are_written_anew_go_first_too(tmp_path: pathlib.Path) -> None:
    watched = Watched(tmp_path / "array", "replay")
    watched.run(Array.restore, rewrite=True, to=watched.moment)
    between, new = watched.between, watched.new
    middle = between._replace(fields=new.fields, rows=new.rows)
    assert watched.now == [watched.old, between, middle, new]


@pytest.mark.parametrize("way", ["hide", "replay"])
def test_an_undo_goes_the_same_way_back(tmp_path: pathlib.Path, way: str) -> None:
    watched = Watched(tmp_path / "array", way)
    report = ct.restore(watched.array.uri, watched.moment)
    watched.now = [shown(watched.array)]
    watched.run(Array.undo, operation=report)
    old, between, new = watched.old, watched.between, watched.new
    middle = between._replace(fields=new.fields, rows=new.rows)
    assert watched.now == [new, middle, between, old]


def test_a_restore_says_what_an_open_could_see(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_module, "_LEAD_MS", {"quick": 5_000})
    for way in WAYS:
        array, moment = evolved(tmp_path / way, way)
        notes = ct.restore(array.uri, moment).notes
        mixed = any(
            "rows with the schema and metadata that the array had until then" in n for n in notes
        )
        assert mixed == (way != "hide"), notes
