"""The judge of undo: random changes of ours among those of the engine, and then all the way back.

In: a first seed and a number of sequences. Out: figures as JSON, with every difference. A model
knows what each window shows: a list of events, from which an undo takes the event of its operation.
The engine reads the windows after each step. Some changes and undos are killed on the way; then the
same command follows, or an undo, or another change.

Refusals are counted apart. Without maintenance by the engine, and without a vacuum, an undo must
not be refused at all. The engine works in processes of its own, a crash of one is a difference.
`make walk-back` runs this file, and so does a test, for fewer and shorter sequences.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tiledb
from support.crashing import crasher
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.change.operations import list_operations, read_operation
from chronotile.check.findings import RefusedError
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.crashing import Crasher

    from chronotile.array import Array
    from chronotile.change.plan import Report

FAR = 4_000_000_000_000
SIDE = 8
KINDS = ("sparse", "dense", "duplicates")
KEYS = ("k", "l")
SET = 7
"""The value that updates set."""
BATCH = 20
"""Sequences that one process of the engine lives through."""
_SETTINGS = {"sm.query.sparse_global_order.preprocess_tile_merge": "0"}  # F17


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that changes what is seen from a moment on."""

    kind: str
    t: int = 0
    operation: str | None = None
    """Ours; None for what the engine did."""
    cells: tuple[tuple[int, int], ...] = ()
    low: int = 0
    high: int = -1
    """A delete or an update hits values from `low` to `high`."""
    value: int | None = None
    """What an update sets, once it is applied; the value of a key."""
    to: int = 0
    """Of a restore."""
    name: str = ""
    """Of a delete or update; of what an undelete brings back; of a key."""
    for_ever: bool = False


class Asked(NamedTuple):
    """A change of ours."""

    verb: str
    options: dict[str, Any]
    event: Event
    """What it does to the model; a few things are known only afterwards."""


class Seen(NamedTuple):
    """What an open sees."""

    rows: tuple[tuple[int, int], ...]
    keys: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Model:
    """What an array should show."""

    kind: str
    events: list[Event] = field(default_factory=list)

    def seen(self, end: int) -> Seen:
        """What an open of [0, end] should see."""
        rows, keys = self._fold(end, frozenset())
        if self.kind == "dense":
            shown = dict(rows)
            rows = [(x, shown.get(x, -1)) for x in range(SIDE)]
        return Seen(tuple(sorted(rows)), tuple(sorted(keys.items())))

    def _fold(
        self, end: int, without: frozenset[str]
    ) -> tuple[list[tuple[int, int]], dict[str, int]]:
        gone = frozenset(one.name for one in self.events if one.for_ever)
        without |= gone
        rows: list[tuple[int, int]] = []
        keys: dict[str, int] = {}
        for event in sorted(self.events, key=lambda one: one.t):
            if event.t > end:
                break
            if event.kind == "write":
                if self.kind != "duplicates":
                    places = {x for x, _ in event.cells}
                    rows = [row for row in rows if row[0] not in places]
                rows += event.cells
            elif event.kind in ("delete", "update") and event.name not in without:
                hit = [row for row in rows if event.low <= row[1] <= event.high]
                rows = [row for row in rows if row not in hit]
                if event.value is not None:
                    rows += [(x, event.value) for x, _ in hit]
            elif event.kind == "key":
                if event.value is None:
                    keys.pop(event.name, None)
                else:
                    keys[event.name] = event.value
            elif event.kind == "restore":
                rows, keys = self._fold(event.to, without)
            elif event.kind == "undelete" and not event.for_ever:
                rows, _ = self._fold(event.t - 1, without | {event.name})
        return rows, keys


class Walk:
    """One array, its model, and the chance that drives both."""

    def __init__(self, seed: int, folder: Path, killer: Crasher | None, *, steps: int) -> None:
        self.seed, self.folder, self.killer, self.steps = seed, folder, killer, steps
        self.chance = random.Random(seed)
        self.kind = KINDS[seed % len(KINDS)]
        self.calm = (seed // len(KINDS)) % 2 == 0
        """No maintenance by the engine, and no vacuum."""
        self.model = Model(self.kind)
        self.ends: list[int] = []
        """Windows that are judged end here."""
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []
        self.story: list[str] = []
        self.clock = 0
        self.busy = False
        """Whether there was maintenance."""
        self.stack: list[tuple[str, dict[Any, Any], int]] = []
        """Operations that stand, with what other windows saw before and the engine's steps."""
        self.engine_steps = 0
        self.wiped: list[int] = []
        """Moments at which a replay deleted everything, to begin again."""
        self.array = self._create(folder / "array")

    def _create(self, folder: Path) -> EngineArray:
        dim = tiledb.Dim("x", domain=(0, SIDE - 1), tile=4, dtype=np.int64)
        attr = tiledb.Attr("a", dtype=np.int32, fill=-1)
        return EngineArray(folder, settings=_SETTINGS).create(
            sparse=self.kind != "dense",
            dims=[dim],
            attrs=[attr],
            duplicates=self.kind == "duplicates",
        )

    @property
    def handle(self) -> Array:
        """The array, in our hands."""
        return ct.open(self.array.uri)  # type: ignore[return-value]  # no group

    def _now(self) -> int:
        """A moment after every other, which has come."""
        names = (re.match(r"__\d+_(\d+)_", one.name) for one in self.array.folder.glob("__*/__*"))
        times = [int(name[1]) for name in names if name is not None]
        self.clock = max(now_ms(), self.clock + 1, *(at + 1 for at in times), 0)
        while now_ms() < self.clock:
            time.sleep(0.001)
        return self.clock

    # What the engine does

    def _write(self) -> None:
        at = self._now()
        if self.kind == "dense":
            low = self.chance.randrange(SIDE)
            places = [*range(low, self.chance.randint(low, SIDE - 1) + 1)]
        else:
            places = sorted(self.chance.sample(range(SIDE), 3))
        cells = {x: self.chance.randint(0, 9) for x in places}
        self.array.write(at, cells)
        self.model.events.append(Event(t=at, kind="write", cells=tuple(cells.items())))
        self.ends.append(at)

    def _hits(self) -> tuple[int, int]:
        low = self.chance.randint(0, 9)
        return low, low + self.chance.randint(0, 2)

    def _engine_delete(self) -> None:
        at, (low, high) = self._now(), self._hits()
        before = set(self.array.files("__commits"))
        self.array.delete(at, f"a >= {low} and a <= {high}")
        (file,) = set(self.array.files("__commits")) - before
        name = file.rpartition(".")[0]
        self.model.events.append(Event(t=at, kind="delete", low=low, high=high, name=name))
        self.ends.append(at)

    def _key(self) -> None:
        at, name = self._now(), self.chance.choice(KEYS)
        value = self.chance.choice((None, 1, 2, 3))
        with tiledb.open(self.array.uri, "w", timestamp=at, ctx=self.array.ctx) as opened:
            if value is None:
                opened.meta[name] = 0
                del opened.meta[name]
            else:
                opened.meta[name] = value
        self.model.events.append(Event(t=at, kind="key", name=name, value=value))
        self.ends.append(at)

    def _maintain(self) -> None:
        modes = ["fragments", "fragments", "fragment_meta", "array_meta"]
        open_updates = any(one.kind == "update" and one.value is None for one in self.model.events)
        # In a `.con` the engine does not see an update (F11).
        modes += [] if open_updates else ["commits"]
        mode = self.chance.choice(modes)
        try:
            self.array.consolidate(mode)
            self.story[-1] += f" consolidate {mode}"
            if self.chance.random() < 0.5:
                self.array.vacuum(mode)
                self.story[-1] += " and vacuum"
                if mode in ("fragments", "array_meta"):
                    self._forget()
        except tiledb.TileDBError as error:
            self.counts[f"the engine refused: {str(error)[:60]}"] += 1
        self.busy = True

    def _forget(self) -> None:
        """A vacuum takes the time travel of dense arrays and of metadata, and what undo needs."""
        self.ends.clear()

    # What we do

    def _ask(self) -> Asked:
        """Choose a change."""
        sparse, chance = self.kind != "dense", self.chance
        deletes = self._standing()
        updates = [one for one in deletes if one.kind == "update"]
        # What came back in between has the rows as the engine saw them: without the update's.
        back = [one.t for one in self.model.events if one.kind in ("restore", "undelete")]
        if any(at > one.t for at in back for one in updates):
            updates = []
        kinds = {
            "delete": 5 * sparse,
            "update": 4 * sparse,
            "apply": 8 * bool(updates),
            "consolidate": 3,
            "restore": 4 * bool(self.ends),
            "undelete": 4 * bool(deletes),
            "ever": 1.5 * bool(deletes),
            "publish": 2,
            "tag": 1,
            "repair": 1,
            "vacuum": 0 if self.calm else 1,
        }
        (low, high), tag = self._hits(), f"t{len(self.story)}"
        where = f"a >= {low} and a <= {high}"
        match chance.choices(list(kinds), list(kinds.values()))[0]:
            case "delete":
                return Asked("delete", {"where": where}, Event(kind="delete", low=low, high=high))
            case "update":
                options = {"where": where, "values": [f"a={SET}"], "experimental": True}
                return Asked("update", options, Event(kind="update", low=low, high=high))
            case "restore":
                to = chance.choice(self.ends)
                return Asked("restore", {"to": to}, Event(kind="restore", to=to))
            case "undelete":
                name = chance.choice(deletes).name
                return Asked("undelete", {"name": name}, Event(kind="undelete", name=name))
            case "ever":
                name = chance.choice(deletes).name
                event = Event(kind="undelete", name=name, for_ever=True)
                return Asked("undelete", {"name": name, "ever": True}, event)
            case "publish":
                return self._staged()
            case "tag":
                return Asked("tag", {"name": tag}, Event(kind="tag"))
            case "repair":
                (self.array.commits_folder / "notes.wrt").touch()
                return Asked("repair", {}, Event(kind="repair"))
            case "consolidate":
                modes = ("commits", "commits", "fragment-meta", "array-meta", "all")
                options = {"mode": chance.choice(modes)}
                return Asked("consolidate", options, Event(kind="consolidate"))
            case verb:
                return Asked(verb, {}, Event(kind=verb))

    def _standing(self) -> list[Event]:
        """Deletes and updates that an undelete can name."""
        taken = {one.name for one in self.model.events if one.kind == "undelete"}
        return [
            one
            for one in self.model.events
            if one.kind in ("delete", "update")
            and one.value is None
            and one.name not in taken
            and one.t > max(self.wiped, default=0)
        ]

    def _staged(self) -> Asked:
        staging = self._create(self.folder / f"staging{len(self.story)}")
        at, low = self._now(), self.chance.randrange(SIDE - 2)
        cells = {x: self.chance.randint(0, 9) for x in range(low, low + 3)}
        staging.write(at, cells)
        event = Event(t=at, kind="write", cells=tuple(cells.items()))
        return Asked("publish", {"staging": staging.uri}, event)

    # The judge

    def windows(self) -> list[int]:
        """Ends of the windows that are looked at now."""
        return [*self.ends[:1], *self.ends[-3:], FAR]

    def look(self, start: int, end: int) -> Seen | str:
        """What the engine sees."""
        found = self.array.answer(start, end, metadata=True)
        if isinstance(found, str):
            return found
        *rows, keys = found
        pairs = (
            [(x, row[0]) for x, row in enumerate(rows)]
            if self.kind == "dense"
            else [(x, a) for a, x in rows]
        )
        shown = [(name, int(value)) for name, value in keys if name in KEYS]
        return Seen(tuple(sorted(pairs)), tuple(sorted(shown)))

    def judge(self, what: str, *models: Model) -> Model:
        """Compare what the engine sees with the models; give the one that fits."""
        models = models or (self.model,)
        for end in self.windows():
            answer = self.look(0, end)
            fitting = [model for model in models if model.seen(end) == answer]
            self.counts["windows"] += 1
            if not fitting:
                wanted = " or ".join(str(model.seen(end)) for model in models)
                self.differ(f"{what}, at {end}: {answer} in place of {wanted}")
                return models[0]
        return models[0]

    def differ(self, problem: str) -> None:
        """Note a difference, and stop here."""
        told = "\n    ".join(self.story)
        self.differences.append(f"seed {self.seed} ({self.kind}): {problem}\n    {told}")
        raise _StopError

    def corners(self) -> dict[Any, Any]:
        """What windows that start later see: an undo with nothing in between gives it back."""
        ends = [*self.ends[-3:], FAR]
        starts = self.ends[-4:]
        return {(s, e): self.look(s, e) for s in starts for e in ends if s <= e}

    def states(self) -> dict[str, tuple[str, str]]:
        """Id -> command and state of each operation."""
        return {
            one.id: (one.command, one.state) for one in list_operations(open_store(self.array.uri))
        }

    def live(self) -> None:
        """Go through the steps, then back."""
        try:
            self._write()
            self._write()
            for _ in range(self.steps):
                self._step()
            self._walk_back()
        except _StopError:
            pass
        except Exception as error:  # whatever it is, it is a difference
            told = "\n    ".join(self.story)
            self.differences.append(
                f"seed {self.seed} ({self.kind}): {type(error).__name__}: {error}\n    {told}"
            )

    def _step(self) -> None:
        turn = self.chance.random()
        if turn < 0.35:
            self.engine_steps += 1
            acts = [self._write, self._key]
            acts += [self._engine_delete] if self.kind != "dense" else []
            act = self.chance.choice(acts)
            self.story.append(f"engine {act.__name__}")
            act()
            self.story[-1] += f" at {self.clock}"
        elif turn < 0.45 and not self.calm:
            self.engine_steps += 1
            self.story.append("engine")
            self._maintain()
        elif turn < 0.6 and self.stack:
            self._undo()
        elif turn < 0.65 and self.stack:
            self._undo_older()
        else:
            self._change()
        self.judge(self.story[-1])

    def _change(self) -> None:
        corners = self.corners()
        asked = self._ask()
        self.story.append(f"{asked.verb} {asked.options}")
        self._now()
        if self.killer is not None and self.chance.random() < 0.2 and not self._kill(asked):
            return
        known = self.states()
        try:
            report: Report | None = getattr(self.handle, asked.verb)(**asked.options)
        except RefusedError as error:
            self._refused(asked.verb, error)
            report = None
        if self._settled(known, asked, corners, () if report is None else report.notes):
            corners = {}
        if report is None:
            self._clean(asked.verb)
            return
        self.story[-1] += f" -> {report.operation} {[step.op for step in report.steps]}"
        self.counts[asked.verb] += 1
        if report.operation is not None:
            self._done(report.operation, asked, corners)

    def _done(self, operation: str, asked: Asked, corners: dict[Any, Any]) -> None:
        """Put an operation that was done into the model."""
        document = self.document(operation)
        event = asked.event
        if event.kind in ("delete", "update"):
            name = document["added"][0].rpartition("/")[2].rpartition(".")[0]
            event = replace(event, name=name, t=int(name.split("_")[2]))
        elif event.kind in ("restore", "undelete"):
            event = replace(event, t=_last_moment(document))
        elif event.kind != "write":
            event = replace(event, t=self._now())
        if event.kind == "apply":
            self.model.events = [
                replace(one, value=SET) if one.kind == "update" and one.value is None else one
                for one in self.model.events
            ]
        self.model.events = [*self.model.events, replace(event, operation=operation)]
        if event.kind == "vacuum":
            self.busy = True
            self._forget()
        if any(step.get("reason") == "deletes all before" for step in document["steps"]):
            self.wiped.append(event.t)
        self.stack.append((operation, corners, self.engine_steps))
        if not event.for_ever:  # its file has a time of the past
            self.ends.append(event.t)

    def _clean(self, verb: str) -> None:
        if verb == "repair":
            (self.array.commits_folder / "notes.wrt").unlink(missing_ok=True)

    def _refused(self, verb: str, error: RefusedError) -> None:
        self.story[-1] += f" refused: {error.problem}"
        words = error.problem.split(", found")[0].split(":")[0][:70]
        quiet = "" if self.busy else " (calm)"
        self.counts[f"refused{quiet}: {verb}: {words}"] += 1

    # Back

    def _undo(self, *, plain: bool = False) -> bool:
        """Take the last change back; give whether it was."""
        operation, corners, engine_steps = self.stack[-1]
        self.story.append(f"undo of {operation}")
        if self.killer is not None and not plain and self.chance.random() < 0.3:
            self._kill_undo(operation)
        states = self.states()
        if states[operation][1] != "undone" or any(s == "begun" for _, s in states.values()):
            try:
                self.handle.undo()
            except RefusedError as error:
                self._refused("undo", error)
                if not self.busy:
                    self.differ(f"refused: {error.problem}")
                self.stack.clear()
                return False
        self._is_undone(operation)
        self.counts["undo"] += 1
        self.stack.pop()
        before = self.model.events
        self._without(operation)
        self.judge(self.story[-1])
        if engine_steps == self.engine_steps and corners != (now := self._again(corners)):
            self.differ(f"{self.story[-1]}: {corners} became {now}")
        if not self.busy:
            self._tidy()
        if not plain and self.chance.random() < 0.15:
            self._redo(operation, before)
            self.stack.append((operation, corners, engine_steps))
            self._undo(plain=True)
        return True

    def _is_undone(self, operation: str) -> None:
        states = self.states()
        if states[operation][1] != "undone":
            self.differ(f"{operation} is {states[operation]} after its undo")
        wrong = [one for one, *_ in self.stack if one != operation and states[one][1] == "undone"]
        if wrong:
            self.differ(f"the undo took {wrong} back too")

    def _redo(self, operation: str, before: list[Event]) -> None:
        """Undo the undo: the change is there again."""
        store = open_store(self.array.uri)
        undo = next(one.id for one in list_operations(store) if one.command == "undo")
        self.story.append(f"undo of the undo {undo}")
        if any(one.kind == "repair" and one.operation == operation for one in before):
            (self.array.commits_folder / "notes.wrt").touch()
        self.handle.undo(undo)
        self.counts["redo"] += 1
        if self.states()[operation][1] != "done":
            self.differ(f"{operation} is {self.states()[operation]} after the undo of its undo")
        self.model.events = before
        self.judge(self.story[-1])

    def _undo_older(self) -> None:
        at = self.chance.randrange(len(self.stack))
        operation = self.stack[at][0]
        self.story.append(f"undo of the older {operation}")
        try:
            self.handle.undo(operation)
        except RefusedError as error:
            self.story[-1] += f" refused: {error.problem}"
            self.counts["older undo refused"] += 1
            return
        self.counts["older undo"] += 1
        del self.stack[at]
        self.stack = [(one, {}, -1) for one, *_ in self.stack]
        self._without(operation)

    def _again(self, corners: dict[Any, Any]) -> dict[Any, Any]:
        return {window: self.look(*window) for window in corners}

    def _without(self, operation: str) -> None:
        """Take an operation out of the model."""
        (gone,) = (one for one in self.model.events if one.operation == operation)
        if gone.kind == "repair":
            if not (self.array.commits_folder / "notes.wrt").exists():
                self.differ("an undone repair left the file where it was")
            self._clean("repair")
        rest = [one for one in self.model.events if one is not gone]
        if gone.kind == "apply":
            others = [one.t for one in rest if one.kind == "apply"]
            rest = [
                replace(one, value=None)
                if one.kind == "update" and not any(at > one.t for at in others)
                else one
                for one in rest
            ]
        self.model.events = rest
        self.wiped = [at for at in self.wiped if at != gone.t]

    def _tidy(self) -> None:
        """Nothing is left that `check` finds, or that stops a vacuum."""
        bad = [
            one
            for one in self.handle.check()
            if one.severity == "error" or one.code == "fragment-without-commit"
        ]
        if bad:
            self.differ(f"check finds {bad}")
        self.handle.vacuum(dry_run=True)

    def _walk_back(self) -> None:
        while self.stack and self._undo():
            pass
        self.counts["walked back" if not self.stack else "stuck"] += 1

    # Killed on the way

    def document(self, operation: str) -> dict[str, Any]:
        """Read the record of an operation."""
        store = open_store(self.array.uri)
        (one,) = (one for one in list_operations(store) if one.id == operation)
        return read_operation(store, one)

    def _kill(self, asked: Asked) -> bool:
        """Run a change in a process that is killed; give whether the change is to follow."""
        assert self.killer is not None
        try:
            getattr(self.handle, asked.verb)(**asked.options, dry_run=True)
        except RefusedError:
            return True
        known = self.states()
        what = f"{asked.verb} {json.dumps(asked.options)}"
        died, _ = self.killer.run(what, self.array.uri, die_at=self.chance.randint(1, 20))
        self.counts["killed"] += died
        fresh = [one for one in self.states() if one not in known]
        self.story[-1] += f" killed {died}: {[self.states()[one] for one in fresh]}"
        if not fresh:
            return True
        (new,) = fresh
        if self.states()[new][1] != "begun":
            self._done(new, asked, {})
            return False
        if self.chance.random() < 0.5:
            return True
        self.handle.undo()
        self.story[-1] += ", undo"
        if self.states()[new][1] not in ("failed", "undone"):
            self.differ(f"{new} is {self.states()[new]} after its undo")
        wrong = [one for one, *_ in self.stack if self.states()[one][1] == "undone"]
        if wrong:
            self.differ(f"the undo took {wrong} back too")
        self._clean(asked.verb)
        return False

    def _settled(
        self, known: dict[str, Any], asked: Asked, corners: Any, notes: tuple[str, ...]
    ) -> bool:
        """Take up what became of a change that was killed; give whether it was done."""
        stack = len(self.stack)
        for operation in [one for one in known if known[one][1] == "begun"]:
            state = self.states()[operation][1]
            self.story[-1] += f", {operation} is {state}"
            if state == "done":
                self._done(operation, asked, corners)
            elif state != "failed":
                self.differ(f"a killed {asked.verb} is {state}: {notes}")
        return len(self.stack) > stack

    def _kill_undo(self, operation: str) -> None:
        assert self.killer is not None
        try:
            self.handle.undo(dry_run=True)
        except RefusedError:
            return
        died, _ = self.killer.run("undo {}", self.array.uri, die_at=self.chance.randint(1, 16))
        self.counts["killed undo"] += died
        self.story[-1] += f" killed {died}, {list(self.states().items())[:2]}"
        if died and self.chance.random() < 0.3:
            self.handle.tag(f"k{len(self.story)}", record=False)
        del operation


def _last_moment(document: dict[str, Any]) -> int:
    """The last moment of all files that a change put."""
    paths = [step["path"].rpartition("/")[2] for step in document["steps"]]
    return max(int(found[1]) for path in paths if (found := re.match(r"__\d+_(\d+)_", path)))


class _StopError(Exception):
    """The sequence cannot go on."""


def sequences(first: int, count: int, steps: int, *, kill: bool) -> Iterator[Walk]:
    """Live through sequences."""
    with ExitStack() as stack:
        killer = stack.enter_context(crasher()) if kill else None
        for seed in range(first, first + count):
            folder = Path(tempfile.mkdtemp())
            walk = Walk(seed, folder, killer, steps=steps)
            walk.live()
            yield walk
            shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--no-kill", action="store_true")
    parser.add_argument("--here", action="store_true", help="In this process alone.")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    differences: list[str] = []
    if asked.here:
        for walk in sequences(asked.seed, asked.sequences, asked.steps, kill=not asked.no_kill):
            print(
                json.dumps({"seed": walk.seed, "counts": walk.counts, "bad": walk.differences}),
                flush=True,
            )
        return 0
    for first in range(asked.seed, asked.seed + asked.sequences, BATCH):
        count = min(BATCH, asked.seed + asked.sequences - first)
        call = [sys.executable, "-m", "bench.walk_back", "--here", "--steps", str(asked.steps)]
        call += ["--seed", str(first), "--sequences", str(count)]
        call += ["--no-kill"] * asked.no_kill
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=False)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        for one in said:
            counts.update(one["counts"])
            differences += one["bad"]
        if done.returncode:
            at = first + len(said)
            differences.append(f"seed {at}: its process ended with {done.returncode}")
    figures = {"sequences": asked.sequences, **dict(sorted(counts.items()))}
    print(json.dumps(figures | {"differences": differences}, indent=2))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
