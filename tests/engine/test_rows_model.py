"""Rows held to a plain dictionary that plays the same history."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from support.row_histories import RowHistory

from chronotile import apply_updates, blame, consolidate, vacuum
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows import scratch_arrays
from chronotile.rows.commit_changes import RowEvent, commit_changes, removed_of, row_events
from chronotile.rows.diff import diff_of
from chronotile.rows.engine import Engine, engine_settings
from chronotile.rows.engine_cells import read_cells, shown
from chronotile.rows.read_rows import rows_of
from chronotile.rows.scratch_arrays import unread_files
from chronotile.rows.snapshot import schema_in_force
from chronotile.rows.written_by import OR
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

WINDOWS = 20


def listed(table: pa.Table) -> list[dict[str, Any]]:
    """Rows that equal themselves, NaN too, in the order of the model."""
    return sorted(map(plain, table.to_pylist()), key=repr)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: "nan" if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }


def log_of(uri: str) -> Log:
    store = open_store(uri)
    return Log(read_history(store, labels=True), store)


def engine_rows(uri: str, start: int, end: int) -> list[dict[str, Any]]:
    """What the engine by itself reads at a window."""
    with Engine(uri, uri, engine_settings(None, None)) as engine:
        engine.open(start, end)
        schema = schema_in_force(log_of(uri), end).schema
        assert schema is not None
        return [
            row
            for cells in read_cells(engine, schema.fields)
            for row in pa.table(
                [shown(f, c, uri) for f, c in zip(schema.fields, cells.columns, strict=True)],
                names=[field.name for field in schema.fields],
            ).to_pylist()
        ]


def modelled(history: RowHistory, start: int, end: int) -> list[dict[str, Any]]:
    return sorted(map(plain, history.model.rows(start, end)), key=repr)


@pytest.mark.parametrize("first", range(0, 50, 10))
def test_rows_are_those_of_the_model(first: int, tmp_path: pathlib.Path) -> None:
    for seed in range(first, first + 10):
        history = RowHistory(seed, tmp_path / str(seed), consolidates=seed % 3 == 0)
        history.live(12)
        log = log_of(history.array.uri)
        for start, end in history.windows(WINDOWS):
            found = listed(rows_of(log, start, end).table())
            assert found == modelled(history, start, end), (seed, start, end)


def test_what_is_not_read_is_not_copied_either(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an array that does not lie on a disk; the rows are those of the model all the same."""
    left = Counter[str]()

    def counted(*arguments: Any) -> dict[str, frozenset[str]]:
        found = unread_files(*arguments)
        left.update(name for files in found.values() for name in files)
        return found

    monkeypatch.setattr(scratch_arrays, "unread_files", counted)
    for seed in range(600, 608):
        history = RowHistory(seed, tmp_path / str(seed), consolidates=seed % 3 == 0)
        history.live(8)
        store = open_store(f"memory:test-unread-{seed}")
        folder = history.array.folder
        for path in (one for one in folder.rglob("*") if one.is_file()):
            store.put_if_absent(str(path.relative_to(folder)), path.read_bytes())
        log = Log(read_history(store, labels=True), store)
        for start, end in history.windows(5):
            fields = history.chance.sample([*history.model.names, "a", "f", "s"], 2)
            reader = rows_of(log, start, end, fields=fields)
            found = pa.Table.from_batches(reader.batches(played=True), schema=reader.schema)
            rows = history.model.rows(start, end)
            wanted = [plain({name: row[name] for name in fields}) for row in rows]
            assert listed(found) == sorted(wanted, key=repr), (seed, start, end)
    assert left.keys() == {"a0.tdb", "a0_validity.tdb", "a1.tdb"} | {
        f"a2{part}.tdb" for part in ("", "_var", "_validity")
    }


def test_once_updates_are_applied_the_engine_itself_gives_the_rows(tmp_path: pathlib.Path) -> None:
    left = 0
    for seed in range(200, 226):
        history = RowHistory(seed, tmp_path / str(seed), consolidates=seed % 5 == 0)
        history.live(10)
        uri = history.array.uri
        if seed % 2 and not history.model.duplicates and not history.consolidates:
            consolidate(uri, updates=True)
            vacuum(uri, updates=True)
        done = apply_updates(uri)
        if any("left alone" in note for note in done.notes):
            left += 1
            assert history.model.duplicates
            continue
        assert not apply_updates(uri).steps
        for start, end in history.windows(10):
            # A merged fragment hides rows for good: what is written again is of the update's time.
            first = 0 if history.consolidates else start
            found = sorted(map(plain, engine_rows(uri, first, end)), key=repr)
            assert found == modelled(history, first, end), (seed, first, end)
            assert found == listed(rows_of(log_of(uri), first, end).table())
    assert left < 5


def test_rows_of_a_diff_turn_one_moment_into_the_other(tmp_path: pathlib.Path) -> None:
    """What differs between any two moments, done to the first state, gives the second."""
    for seed in range(300, 310):
        history = RowHistory(seed, tmp_path / str(seed), consolidates=seed % 3 == 0)
        history.live(12)
        log = log_of(history.array.uri)
        names = {event.name: event.t for event in history.model.events}
        for first, last in history.windows(6):
            state = Counter(map(repr, modelled(history, 0, first)))
            for row in map(plain, diff_of(log, first, last, rows=True).to_pylist()):
                change, commit, t = (row.pop(name) for name in ("change", "commit", "t"))
                assert first < t <= last
                assert names[commit] == t
                state[repr(row)] += 1 if change in ("insert", "update_after") else -1
            assert min(state.values(), default=0) >= 0, (seed, first, last)
            assert +state == Counter(map(repr, modelled(history, 0, last))), (seed, first, last)


def test_rows_removed_and_blamed_are_those_of_the_model(tmp_path: pathlib.Path) -> None:
    for seed in range(400, 408):
        history = RowHistory(seed, tmp_path / str(seed), consolidates=seed % 4 == 0)
        history.live(10)
        uri, model = history.array.uri, history.model
        log = log_of(uri)
        for event in model.events:
            if event.rank != 1:
                before = model.state(event.t, before=event)
                hit = [model.shown(row) for row in before if row.alive and model.hits(row, event)]
                taken = removed_of(log, event.name)
                found = pa.Table.from_batches(taken.batches(), schema=taken.schema)
                assert listed(found) == sorted(map(plain, hit), key=repr), (seed, event)
        place = history.chance.choice([row.place for row in model.state(99)])
        where = [f"{name}={value}" for name, value in zip(model.names, place, strict=True)]
        told = Counter(blame(uri, where)["commit"].to_pylist())
        # Once its fragment is vacuumed, one of two writes of one moment is named with the other.
        wanted = Counter(_named(told, name) for name in model.blamed(place))
        assert told == wanted, (seed, place)


def _named(told: Counter[str], name: str) -> str:
    """A commit as a blame names it: by itself, or with others of its moment."""
    return next((one for one in told if name in one.split(OR)), name)


def rows_changed(log: Log, event: RowEvent) -> Iterator[dict[str, Any]]:
    for table in commit_changes(log, event):
        for row in map(plain, table.to_pylist()):
            assert (row.pop("commit"), row.pop("t")) == (event.name, event.t)
            yield row


def test_the_changes_of_every_commit_add_up_to_the_rows(tmp_path: pathlib.Path) -> None:
    """Also once updates are applied: the fragment and the delete stand for the update."""
    for seed in range(500, 508):
        history = RowHistory(seed, tmp_path / str(seed))
        history.live(10)
        uri = history.array.uri
        for _ in range(2):
            log = log_of(uri)
            state: Counter[str] = Counter()
            for t, events in itertools.groupby(row_events(log), key=lambda event: event.t):
                for event in events:
                    for row in rows_changed(log, event):
                        change = row.pop("change")
                        state[repr(row)] += 1 if change in ("insert", "update_after") else -1
                wanted = Counter(map(repr, modelled(history, 0, t)))
                assert +state == wanted, (seed, t)
            apply_updates(uri)
