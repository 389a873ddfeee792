"""The judge of undo: random changes of ours among those of the engine, and then all the way back.

In: a first seed and a number of sequences. Out: figures as JSON, with every difference. A model of
each array knows what each window shows: a list of events, from which an undo takes the events of
its operation. The engine reads the windows after each step. Arrays are sparse, dense, with
duplicates, or the members of a group, which is changed as a whole and member by member. Their
schema changes on the way. Some changes and undos are killed; then the same command follows, or an
undo, or another change.

Refusals are counted apart. Without maintenance by the engine, and without a vacuum, nothing must be
refused at all. The engine works in processes of its own, a crash of one is a difference. `make
walk-back` runs this file, and so does a test, for fewer and shorter sequences.
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
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tiledb
from support.crashing import crasher
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.change.operations import list_operations, read_operation
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from support.crashing import Crasher

FAR = 4_000_000_000_000
SIDE = 8
KINDS = ("sparse", "dense", "duplicates", "group")
KEYS = ("k", "l")
SET = 7
"""The value that updates set."""
FILL = -1
BATCH = 20
"""Sequences that one process of the engine lives through."""
_SETTINGS = {"sm.query.sparse_global_order.preprocess_tile_merge": "0"}  # F17
_MEMORY = Path("/dev/shm")
"""Where it is there, arrays lie in memory: a disk spends half of the time in syncs."""
_STRAY = "notes.wrt"
"""A file that a repair takes out."""

Cell = tuple[int, int, "int | None"]
"""Place, and the values of `a` and `b`; None where no write gave one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that changes what is seen from a moment on."""

    kind: str
    t: int = 0
    operation: str | None = None
    """Ours; None for what the engine did."""
    cells: tuple[Cell, ...] | None = None
    """What a write put; the rows of an update that was applied; those of a rewritten restore."""
    low: int = 0
    high: int = -1
    """A delete or an update hits values from `low` to `high`."""
    value: int | None = None
    """Of a key."""
    has_b: bool = False
    """Of a change of the schema."""
    to: int = 0
    """Of a restore: the moment that comes back. An undelete is one too, of the moment before."""
    rows_only: bool = False
    """Of a restore: keys and schema stay."""
    without: frozenset[str] = frozenset()
    """Of a restore: deletes that did not count when it was made."""
    copies: Mapping[str, str] | None = None
    """Of a replay: each delete that was written again -> the one that it was; else None."""
    name: str = ""
    """Of a delete or update; of a key; of what is taken out for ever."""
    names: tuple[str, ...] = ()
    """Of an apply: the updates."""


class Seen(NamedTuple):
    """What an open sees."""

    rows: tuple[Cell, ...]
    keys: tuple[tuple[str, int], ...]

    def without_b(self) -> Seen:
        """Leave out the values of `b`, not whether there is such an attribute."""
        rows = tuple((x, a, None if b is None else 0) for x, a, b in self.rows)
        return self._replace(rows=rows)


class _State(NamedTuple):
    rows: list[Cell]
    keys: dict[str, int]
    has_b: bool


@dataclass(slots=True)
class Model:
    """What an array should show."""

    kind: str
    events: list[Event] = field(default_factory=list)

    def seen(self, end: int) -> Seen:
        """What an open of [0, end] should see."""
        rows, keys, has_b = self.fold(end)
        if self.kind == "dense":
            at = {x: (a, b) for x, a, b in rows}
            rows = [(x, *at.get(x, (FILL, None))) for x in range(SIDE)]
        shown = [(x, a, (FILL if b is None else b) if has_b else None) for x, a, b in rows]
        return Seen(_sorted(shown), tuple(sorted(keys.items())))

    @property
    def is_blurred(self) -> bool:
        """Whether nobody knows what the engine shows of `b`: it was dropped below dense writes."""
        writes = [one for one in sorted(self.events, key=lambda one: one.t) if one.cells]
        has_b = [cell[2] is not None for one in writes for cell in (one.cells or ())[:1]]
        return self.kind == "dense" and (True, False) in pairwise(has_b)

    @property
    def gone(self) -> frozenset[str]:
        """Deletes and updates that were taken out for ever."""
        return frozenset(one.name for one in self.events if one.kind == "ever")

    def fold(
        self, end: int, without: frozenset[str] = frozenset(), *, all_count: bool = False
    ) -> _State:
        """Go through the events up to a moment.

        Args:
            end: The moment.
            without: Deletes and updates that do not count.
            all_count: Count also those that were taken out for ever: copies of them stay.
        """
        without = without if all_count else without | self.gone
        rows: list[Cell] = []
        keys: dict[str, int] = {}
        has_b = False
        for event in sorted(self.events, key=lambda one: one.t):
            if event.t > end:
                break
            if event.kind == "write":
                rows = self._written(rows, event.cells or ())
            elif event.kind in ("delete", "update") and event.name not in without:
                # An update that was applied is a write; with duplicates, a delete of old rows too.
                if event.cells is None or (event.cells and self.kind == "duplicates"):
                    rows = [row for row in rows if not event.low <= row[1] <= event.high]
                rows = self._written(rows, event.cells or ())
            elif event.kind == "key":
                keys.pop(event.name, None)
                keys |= {} if event.value is None else {event.name: event.value}
            elif event.kind == "evolve":
                has_b = event.has_b
            elif event.kind == "restore":
                then = self._restored(event, without, all_count=all_count)
                rows = then.rows
                keys, has_b = (keys, has_b) if event.rows_only else (then.keys, then.has_b)
        return _State(rows, keys, has_b)

    def _restored(self, event: Event, without: frozenset[str], *, all_count: bool) -> _State:
        if event.copies is None:
            then = self.fold(event.to, without | event.without, all_count=all_count)
            return then if event.cells is None else then._replace(rows=list(event.cells))
        # A replay has copies of its own: only what happens to these matters.
        copied = {old for new, old in event.copies.items() if new in without}
        return self.fold(event.to, event.without | copied, all_count=True)

    def _written(self, rows: list[Cell], cells: Iterable[Cell]) -> list[Cell]:
        new = list(cells)
        if self.kind != "duplicates":
            places = {x for x, _, _ in new}
            rows = [row for row in rows if row[0] not in places]
        return rows + new

    def copies(self, name: str) -> frozenset[str]:
        """A delete, and those that replays have made of it."""
        copies = [pair for one in self.events if one.copies for pair in one.copies.items()]
        known = {name}
        while more := {new for new, old in copies if old in known} - known:
            known |= more
        return frozenset(known)

    def hit(self, update: Event) -> tuple[Cell, ...]:
        """The rows that an update changes, with their new values."""
        rows = self.fold(update.t - 1).rows
        return tuple((x, SET, b) for x, a, b in rows if update.low <= a <= update.high)


def _sorted(rows: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple(sorted(rows, key=lambda row: (row[0], row[1], row[2] or 0)))


class Member:
    """One array in the hands of the engine, with its model."""

    def __init__(self, path: str, kind: str, folder: Path, *, has_b: bool = False) -> None:
        self.path, self.kind, self.model = path, kind, Model(kind)
        self.merged = 0
        """When the engine last merged fragments."""
        dim = tiledb.Dim("x", domain=(0, SIDE - 1), tile=4, dtype=np.int64)
        names = ("a", "b") if has_b else ("a",)
        self.array = EngineArray(folder, settings=_SETTINGS).create(
            sparse=kind != "dense",
            dims=[dim],
            attrs=[tiledb.Attr(name, dtype=np.int32, fill=FILL) for name in names],
            duplicates=kind == "duplicates",
        )

    @property
    def has_b(self) -> bool:
        """Whether its schema now has the attribute `b`."""
        return self.model.fold(FAR).has_b

    def write(self, at: int, cells: Sequence[Cell], *, has_b: bool) -> None:
        """Let the engine write cells in a row of places."""
        columns = {"a": np.array([a for _, a, _ in cells], np.int32)}
        columns |= {"b": np.array([b for *_, b in cells], np.int32)} if has_b else {}
        xs = [x for x, _, _ in cells]
        with tiledb.open(self.array.uri, "w", timestamp=at, ctx=self.array.ctx) as opened:
            if self.kind == "dense":
                opened[xs[0] : xs[-1] + 1] = columns
            else:
                opened[xs] = columns

    def add(self, **event: Any) -> None:
        """Let something happen in the model."""
        self.model.events = [*self.model.events, Event(**event)]

    def look(self, start: int, end: int) -> Seen | str:
        """What the engine sees."""
        found = self.array.answer(start, end, metadata=True)
        if isinstance(found, str):
            return found
        *rows, keys = found
        shown = [(name, int(value)) for name, value in keys if name in KEYS]
        return Seen(_sorted(map(self._cell, range(len(rows)), rows)), tuple(sorted(shown)))

    def _cell(self, x: int, row: tuple[int, ...]) -> Cell:
        *values, x = (*row, x) if self.kind == "dense" else row
        return x, values[0], values[1] if len(values) > 1 else None


class Asked(NamedTuple):
    """A change of ours."""

    verb: str
    options: dict[str, Any]
    events: dict[str, Event]
    """What it does to the model of each member; a few things are known only afterwards."""
    place: str
    """The group, or one array."""
    is_group: bool

    @property
    def killed(self) -> str:
        """The change as a process that is killed takes it."""
        return f"{self.verb}{'_group' * self.is_group} {json.dumps(self.options)}"


class Standing(NamedTuple):
    """An operation that stands."""

    id: str
    place: str
    is_group: bool
    corners: dict[Any, Any]
    """What other windows saw before it."""
    engine_steps: int


class Walk:
    """One array or group, its models, and the chance that drives all."""

    def __init__(self, seed: int, folder: Path, killer: Crasher | None, *, steps: int) -> None:
        self.seed, self.folder, self.killer, self.steps = seed, folder, killer, steps
        self.chance = random.Random(seed)
        self.kind = KINDS[seed % len(KINDS)]
        self.calm = (seed // len(KINDS)) % 2 == 0
        """No maintenance by the engine, and no vacuum."""
        self.ends: list[int] = []
        """Windows that are judged end here."""
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []
        self.story: list[str] = []
        self.clock = 0
        self.busy = False
        """Whether there was maintenance."""
        self.stack: list[Standing] = []
        self.engine_steps = 0
        self.uri = str(folder / "there")
        self.members = self._create(Path(self.uri))

    def _create(self, folder: Path) -> list[Member]:
        if self.kind != "group":
            return [Member("", self.kind, folder)]
        tiledb.Group.create(str(folder))
        kinds = self.chance.sample(KINDS[:3], 2)
        members = [Member(f"m{n}", kind, folder / f"m{n}") for n, kind in enumerate(kinds)]
        with tiledb.Group(str(folder), "w") as group:
            for member in members:
                group.add(member.path, name=member.path, relative=True)
        return members

    def _now(self) -> int:
        """A moment after every other, which has come."""
        files = (one for member in self.members for one in member.array.folder.glob("__*/__*"))
        names = (re.match(r"__\d+_(\d+)_", one.name) for one in files)
        times = [int(name[1]) for name in names if name is not None]
        self.clock = max(now_ms(), self.clock + 1, *(at + 1 for at in times), 0)
        while now_ms() < self.clock:
            time.sleep(0.001)
        return self.clock

    # What the engine does

    def _cells(self, member: Member, *, in_a_row: bool = False) -> list[Cell]:
        chance, has_b = self.chance, member.has_b
        if member.kind == "dense" or in_a_row:
            low = chance.randrange(SIDE)
            places = [*range(low, chance.randint(low, SIDE - 1) + 1)]
        else:
            places = sorted(chance.sample(range(SIDE), 3))
        values = [chance.randint(0, 9) for _ in places]
        return [(x, a, 10 * a if has_b else None) for x, a in zip(places, values, strict=True)]

    def _write(self, member: Member) -> None:
        at, cells = self._now(), self._cells(member)
        member.write(at, cells, has_b=member.has_b)
        member.add(t=at, kind="write", cells=tuple(cells))

    def _hits(self) -> tuple[int, int]:
        low = self.chance.randint(0, 9)
        return low, low + self.chance.randint(0, 2)

    def _delete(self, member: Member) -> None:
        at, (low, high) = self._now(), self._hits()
        before = set(member.array.files("__commits"))
        member.array.delete(at, f"a >= {low} and a <= {high}")
        (file,) = set(member.array.files("__commits")) - before
        name = file.rpartition(".")[0]
        member.add(t=at, kind="delete", low=low, high=high, name=name)

    def _key(self, member: Member) -> None:
        at, name = self._now(), self.chance.choice(KEYS)
        value = self.chance.choice((None, 1, 2, 3))
        with tiledb.open(member.array.uri, "w", timestamp=at, ctx=member.array.ctx) as opened:
            if value is None:
                opened.meta[name] = 0
                del opened.meta[name]
            else:
                opened.meta[name] = value
        member.add(t=at, kind="key", name=name, value=value)

    def _evolve(self, member: Member) -> None:
        """Add an attribute, or drop it: no delete names it (F8)."""
        at, had = self._now(), member.has_b
        evolution = tiledb.ArraySchemaEvolution(member.array.ctx)
        if had:
            evolution.drop_attribute("b")
        else:
            evolution.add_attribute(tiledb.Attr("b", dtype=np.int32, fill=FILL))
        evolution.timestamp(at)
        evolution.array_evolve(member.array.uri)
        member.add(t=at, kind="evolve", has_b=not had)

    def _maintain(self, member: Member) -> None:
        modes = ["fragments", "fragments", "fragment_meta", "array_meta"]
        if any(one.kind == "evolve" for one in member.model.events):
            # Merged over a change of the schema, values turn into fill values (section 8).
            modes = modes[2:]
        open_updates = any(one.kind == "update" for one in member.model.events)
        # In a `.con` the engine does not see an update (F11).
        modes += [] if open_updates else ["commits"]
        mode = self.chance.choice(modes)
        self.story[-1] += f" of {mode}"
        try:
            member.array.consolidate(mode)
            member.merged = self._now() if mode == "fragments" else member.merged
            if self.chance.random() < 0.5:
                member.array.vacuum(mode)
                self.story[-1] += " and vacuum"
                if mode in ("fragments", "array_meta"):
                    # It takes the time travel of dense arrays and of metadata.
                    self.ends.clear()
        except tiledb.TileDBError as error:
            words = re.sub(r"'[^']*'|\d+", "…", str(error))
            self.counts[f"the engine refused: {words[:60]}"] += 1
        self.busy = True

    # What we do

    def _ask(self) -> Asked:
        """Choose a change, and where: of a group all of it, or one member."""
        chance = self.chance
        member = chance.choice(self.members)
        is_group = self.kind == "group" and chance.random() < 0.7
        place = self.uri if is_group else member.array.uri
        taking = self.members if is_group else [member]
        sparse = [one for one in taking if one.kind != "dense"]
        every = [(one, delete) for one in sparse for delete in self._deletes(one)]
        deletes = [pair for pair in every if not self._is_mixed(*pair)]
        ever = [(one, delete) for one, delete in deletes if delete.t > one.merged]
        updates = [one for one, delete in every if delete.kind == "update"]
        kinds = {
            "delete": 5 * bool(sparse),
            "update": 4 * bool(sparse),
            "apply": 8 * bool(updates),
            "consolidate": 3,
            "restore": 4 * bool(self.ends),
            "undelete": 4 * bool(deletes),
            "ever": 1.5 * bool(ever),
            "publish": 2,
            "tag": 1,
            "repair": 1,
            "compact": 1,
            "vacuum": 0 if self.calm else 1,
        }
        (low, high), tag = self._hits(), f"t{len(self.story)}"
        where = f"a >= {low} and a <= {high}"
        chosen: list[Member] = [chance.choice(sparse)] if sparse else []
        verb = chance.choices(list(kinds), list(kinds.values()))[0]
        options: dict[str, Any] = {}
        event = Event(kind=verb)
        match verb:
            case "delete" | "update":
                options, event = {"where": where}, Event(kind=verb, low=low, high=high)
                if verb == "update":
                    options |= {"values": [f"a={SET}"], "experimental": True}
            case "apply":
                chosen = [chance.choice(updates)]
            case "undelete" | "ever":
                one, delete = chance.choice(ever if verb == "ever" else deletes)
                chosen, event = [one], Event(kind=verb, name=delete.name)
                options = {"name": delete.name} | ({"ever": True} if verb == "ever" else {})
                return self._asked("undelete", options, event, chosen, place, is_group)
            case "restore":
                to = chance.choice(self.ends)
                options, event, chosen = {"to": to}, Event(kind=verb, to=to), taking
            case "publish":
                return self._staged(taking, place, is_group=is_group)
            case "tag":
                options, chosen = {"name": tag}, taking
            case "repair":
                chosen = [member]
                (member.array.commits_folder / _STRAY).touch()
            case "consolidate":
                modes = ("commits", "commits", "fragment-meta", "array-meta", "all")
                options, chosen = {"mode": chance.choice(modes)}, taking
            case "compact":
                options, chosen = {"quiet": 0}, taking
            case _:
                chosen = taking
        if is_group and verb in ("delete", "update", "apply"):
            options |= {"member": chosen[0].path}
        return self._asked(verb, options, event, chosen, place, is_group)

    @staticmethod
    def _asked(
        verb: str,
        options: dict[str, Any],
        event: Event,
        members: list[Member],
        place: str,
        is_group: bool,
    ) -> Asked:
        return Asked(verb, options, {one.path: event for one in members}, place, is_group)

    @staticmethod
    def _deletes(member: Member) -> list[Event]:
        """Deletes and updates that an undelete can name, also copies that a replay made."""
        events = member.model.events
        known = {one.name: one for one in events if one.kind in ("delete", "update")}
        for one in sorted(events, key=lambda one: one.t):
            if one.kind == "restore" and one.copies:
                known |= {
                    new: replace(known[old], name=new, t=one.t)
                    for new, old in one.copies.items()
                    if old in known
                }
        gone = member.model.gone
        return [one for one in known.values() if one.cells is None and one.name not in gone]

    @staticmethod
    def _is_mixed(member: Member, delete: Event) -> bool:
        """Whether the model cannot know what comes back: old rows of an update were deleted."""
        applied = [one.t for one in member.model.events if one.kind == "update" and one.cells]
        return member.kind == "duplicates" and any(at >= delete.t for at in applied)

    def _staged(self, taking: list[Member], place: str, *, is_group: bool) -> Asked:
        folder = self.folder / f"staging{len(self.story)}"
        if is_group:
            tiledb.Group.create(str(folder))
        events = {}
        for member in taking:
            inside = folder / member.path if is_group else folder
            has_b, cells = member.has_b, self._cells(member, in_a_row=True)
            staging = Member(member.path, member.kind, inside, has_b=has_b)
            staging.write(self._now(), cells, has_b=has_b)
            events[member.path] = Event(kind="write", cells=tuple(cells))
            if is_group:
                with tiledb.Group(str(folder), "w") as group:
                    group.add(member.path, name=member.path, relative=True)
        options: dict[str, Any] = {"staging": str(folder)}
        # A moment ahead takes seconds to come.
        options |= {"own_times": True} if is_group else {}
        return Asked("publish", options, events, place, is_group)

    # The judge

    def judge(self, what: str) -> None:
        """Compare what the engine sees with the models."""
        for member in self.members:
            for end in [*self.ends[:1], *self.ends[-3:], FAR]:
                answer, wanted = member.look(0, end), member.model.seen(end)
                if member.model.is_blurred and isinstance(answer, Seen):
                    answer, wanted = answer.without_b(), wanted.without_b()
                self.counts["windows"] += 1
                if answer != wanted:
                    self.differ(f"{what}, {member.path} at {end}: {answer} in place of {wanted}")

    def differ(self, problem: str) -> None:
        """Note a difference, and stop here."""
        told = "\n    ".join(self.story)
        kinds = ", ".join(one.kind for one in self.members)
        self.differences.append(f"seed {self.seed} ({kinds}): {problem}\n    {told}")
        raise _StopError

    def corners(self) -> dict[Any, Any]:
        """What windows that start later see: an undo with nothing in between gives it back."""
        ends = [*self.ends[-2:], FAR]
        windows = [(s, e) for s in self.ends[-3:] for e in ends if s <= e]
        return {(m.path, *one): m.look(*one) for m in self.members for one in windows}

    def _again(self, corners: dict[Any, Any]) -> dict[Any, Any]:
        by_path = {member.path: member for member in self.members}
        return {window: by_path[window[0]].look(*window[1:]) for window in corners}

    @staticmethod
    def states(place: str) -> dict[str, tuple[str, str]]:
        """Id -> command and state of each operation of a place."""
        return {one.id: (one.command, one.state) for one in list_operations(open_store(place))}

    def live(self) -> None:
        """Go through the steps, then back."""
        try:
            for member in (*self.members, *self.members):
                self._write(member)
            self.ends.append(self.clock)
            for _ in range(self.steps):
                self._step()
            self._walk_back()
        except _StopError:
            pass
        except Exception as error:  # whatever it is, it is a difference
            self.counts["errors"] += 1
            with suppress(_StopError):
                self.differ(f"{type(error).__name__}: {error}")

    def _step(self) -> None:
        turn = self.chance.random()
        if turn < 0.35:
            self._engine_step()
        elif turn < 0.45 and not self.calm:
            self.engine_steps += 1
            member = self.chance.choice(self.members)
            self.story.append(f"engine maintains {member.path}")
            self._maintain(member)
        elif turn < 0.6 and self.stack:
            self._undo()
        elif turn < 0.65 and self.stack:
            self._undo_older()
        else:
            self._change()
        self.judge(self.story[-1])

    def _engine_step(self) -> None:
        self.engine_steps += 1
        member = self.chance.choice(self.members)
        acts = [self._write, self._write, self._write, self._key, self._key, self._key]
        acts += [self._delete] * (3 * (member.kind != "dense"))
        acts += [self._evolve]
        act = self.chance.choice(acts)
        self.story.append(f"engine {act.__name__} {member.path}")
        act(member)
        self.ends.append(self.clock)
        self.story[-1] += f" at {self.clock}"

    def _change(self) -> None:
        corners = self.corners()
        asked = self._ask()
        where = Path(asked.place).name if self.kind == "group" else ""
        self.story.append(f"{asked.verb} {asked.options} {where}")
        self._now()
        if self.killer is not None and self.chance.random() < 0.2 and not self._kill(asked):
            return
        known = self.states(asked.place)
        try:
            report: Any = getattr(ct.open(asked.place), asked.verb)(**asked.options)
        except RefusedError as error:
            self._refused(asked.verb, error)
            report = None
        except ChronotileError as error:
            # Of a delete that was taken out for ever nothing is left.
            if "fits no commit" not in error.problem or "begun" not in str(known):
                raise
            report = None
        if self._settled(known, asked, corners, () if report is None else report.notes):
            corners = {}
        if report is None:
            self._clean(asked.verb)
            return
        self.story[-1] += f" -> {report.operation}"
        self.counts[asked.verb] += 1
        if report.operation is None:
            return
        if not report.has_steps:  # TileDB died while it merged for a compact: nothing was changed
            self.counts[f"came to nothing: {asked.verb}"] += 1
            return
        self._done(report.operation, asked, corners)

    def _documents(self, asked: Asked, operation: str) -> Iterator[tuple[Member, dict[str, Any]]]:
        """Read what an operation did to each member."""
        for member in self.members:
            if asked.is_group:
                store = open_store(member.array.uri)
                for one in list_operations(store):
                    document = read_operation(store, one)
                    if document.get("group") == operation and one.state in ("done", "final"):
                        yield member, document
            elif member.array.uri == asked.place:
                yield member, self.document(asked.place, operation)

    def _done(self, operation: str, asked: Asked, corners: dict[Any, Any]) -> None:
        """Put an operation that was done into the models."""
        for member, document in self._documents(asked, operation):
            event = asked.events.get(member.path)
            if event is not None:
                event = self._event(member, event, document)
                member.model.events = [*member.model.events, replace(event, operation=operation)]
        if asked.verb == "vacuum":
            self.busy = True
            self.ends.clear()
        standing = Standing(operation, asked.place, asked.is_group, corners, self.engine_steps)
        self.stack.append(standing)
        if "ever" not in asked.options:  # its file has a time of the past
            self.ends.append(self._now())

    def _event(self, member: Member, event: Event, document: dict[str, Any]) -> Event:
        """What a change did to the model, with what only its record tells."""
        steps, model = document["steps"], member.model
        rewritten = any(step["op"] == "write" for step in steps)
        match event.kind:
            case "delete" | "update":
                name = document["added"][0].rpartition("/")[2].rpartition(".")[0]
                return replace(event, name=name, t=int(name.split("_")[2]))
            case "write":
                return replace(event, t=max(map(_moment, document["added"])))
            case "apply":
                moved = {
                    step["path"].rpartition("/")[2].removesuffix(".upd")
                    for step in steps
                    if step["op"] == "move"
                }
                due = [one for one in model.events if one.kind == "update" and one.name in moved]
                for one in sorted(due, key=lambda one: one.t):
                    carried_out = replace(one, cells=model.hit(one))
                    model.events = [carried_out if one is old else old for old in model.events]
                return replace(event, t=self._now(), names=tuple(one.name for one in due))
            case "restore" | "undelete":
                t = max(_moment(step["path"]) for step in steps)
                to = event.to if event.kind == "restore" else t - 1
                hidden = model.gone | (model.copies(event.name) if event.name else set())
                if rewritten and event.kind == "undelete":
                    back = Counter(model.fold(t - 1, hidden).rows)
                    back -= Counter(model.fold(t - 1).rows)
                    return Event(kind="write", t=t, cells=tuple(back.elements()))
                cells = tuple(model.fold(to).rows) if rewritten else None
                return Event(
                    kind="restore",
                    t=t,
                    to=to,
                    rows_only=event.kind == "undelete",
                    without=frozenset(hidden) if event.kind == "undelete" else model.gone,
                    copies=_copies(steps),
                    cells=cells,
                )
        return replace(event, t=self._now())

    def _clean(self, verb: str) -> None:
        if verb == "repair":
            for member in self.members:
                (member.array.commits_folder / _STRAY).unlink(missing_ok=True)

    def _refused(self, verb: str, error: RefusedError) -> None:
        self.story[-1] += f" refused: {error.problem}"
        words = re.sub(r"__[0-9a-f_]{34,}|\b[0-9a-f]{8}\b", "…", error.problem)
        words = words.split(", found")[0].split(":")[0][:70]
        self.counts[f"refused: {verb}: {words}"] += 1
        if not self.busy and "no row comes back" not in error.problem:
            self.differ(f"refused: {error.problem}")

    # Back

    def _undo(self, *, plain: bool = False) -> bool:
        """Take the last change back; give whether it was."""
        last = self.stack[-1]
        self.story.append(f"undo of {last.id}")
        if self.killer is not None and not plain and self.chance.random() < 0.3:
            self._kill_undo(last)
        states = self.states(last.place)
        if states[last.id][1] != "undone" or any(s == "begun" for _, s in states.values()):
            try:
                ct.open(last.place).undo()
            except RefusedError as error:
                self._refused("undo", error)
                self.stack.clear()
                return False
        self._is_undone(last)
        self.counts["undo"] += 1
        self.stack.pop()
        before = [member.model.events for member in self.members]
        self._without(last.id)
        self.judge(self.story[-1])
        corners = last.corners
        if last.engine_steps == self.engine_steps and corners != (now := self._again(corners)):
            self.differ(f"{self.story[-1]}: {corners} became {now}")
        if not self.busy:
            self._tidy()
        if not plain and self.chance.random() < 0.15:
            self._redo(last, before)
            self.stack.append(last)
            self._undo(plain=True)
        return True

    def _is_undone(self, last: Standing) -> None:
        if (state := self.states(last.place)[last.id])[1] != "undone":
            self.differ(f"{last.id} is {state} after its undo")
        self._others_stand(last.id)

    def _others_stand(self, id_: str) -> None:
        others = [one for one in self.stack if one.id != id_]
        wrong = [one.id for one in others if self.states(one.place)[one.id][1] == "undone"]
        if wrong:
            self.differ(f"the undo took {wrong} back too")

    def _redo(self, last: Standing, before: list[list[Event]]) -> None:
        """Undo the undo: the change is there again."""
        known = list_operations(open_store(last.place))
        undo = next(one.id for one in known if one.command == "undo")
        self.story.append(f"undo of the undo {undo}")
        for member, events in zip(self.members, before, strict=True):
            if any(one.kind == "repair" and one.operation == last.id for one in events):
                (member.array.commits_folder / _STRAY).touch()
        ct.open(last.place).undo(undo)
        self.counts["redo"] += 1
        if (state := self.states(last.place)[last.id])[1] != "done":
            self.differ(f"{last.id} is {state} after the undo of its undo")
        for member, events in zip(self.members, before, strict=True):
            member.model.events = events
        self.judge(self.story[-1])

    def _undo_older(self) -> None:
        at = self.chance.randrange(len(self.stack))
        older = self.stack[at]
        self.story.append(f"undo of the older {older.id}")
        try:
            ct.open(older.place).undo(older.id)
        except RefusedError as error:
            self.story[-1] += f" refused: {error.problem}"
            self.counts["older undo refused"] += 1
            return
        self.counts["older undo"] += 1
        del self.stack[at]
        self.stack = [one._replace(corners={}, engine_steps=-1) for one in self.stack]
        self._without(older.id)

    def _without(self, operation: str) -> None:
        """Take an operation out of the models."""
        for member in self.members:
            for gone in [one for one in member.model.events if one.operation == operation]:
                if gone.kind == "repair":
                    if not (member.array.commits_folder / _STRAY).exists():
                        self.differ("an undone repair left the file where it was")
                    self._clean("repair")
                member.model.events = [
                    replace(one, cells=None) if one.name in gone.names else one
                    for one in member.model.events
                    if one is not gone
                ]

    def _tidy(self) -> None:
        """Nothing is left that `check` finds, or that stops a vacuum."""
        there: Any = ct.open(self.uri)
        bad = [
            one
            for one in there.check()
            if one.severity == "error" or one.code == "fragment-without-commit"
        ]
        if bad:
            self.differ(f"check finds {bad}")
        there.vacuum(dry_run=True)

    def _walk_back(self) -> None:
        depth = len(self.stack)
        while self.stack:
            if not self._undo():
                self.counts["stopped by a refusal"] += 1
                return
        self.counts["walked back"] += 1
        self.counts["undone on the way back"] += depth

    # Killed on the way

    def document(self, place: str, operation: str) -> dict[str, Any]:
        """Read the record of an operation."""
        store = open_store(place)
        (one,) = (one for one in list_operations(store) if one.id == operation)
        return read_operation(store, one)

    def _kill(self, asked: Asked) -> bool:
        """Run a change in a process that is killed; give whether the change is to follow."""
        assert self.killer is not None
        there: Any = ct.open(asked.place)
        try:
            planned = getattr(there, asked.verb)(**asked.options, dry_run=True)
        except RefusedError:
            return True
        if getattr(planned, "failed", ()):
            return True  # a member cannot
        known = self.states(asked.place)
        die_at = self.chance.randint(1, 20)
        died, _ = self.killer.run(asked.killed, asked.place, die_at=die_at)
        self.counts["killed"] += died
        if asked.verb == "vacuum":
            self.busy = True
            self.ends.clear()
        fresh = [one for one in self.states(asked.place) if one not in known]
        new_states = [self.states(asked.place)[one] for one in fresh]
        self.story[-1] += f" killed {died} at {die_at}: {new_states}"
        if not fresh:
            return True
        (new,) = fresh
        if self.states(asked.place)[new][1] != "begun":
            self._done(new, asked, {})
            return False
        if self.chance.random() < 0.5:
            return True
        there.undo()
        self.story[-1] += ", undo"
        state = self.states(asked.place)[new]
        if state[1] not in ("failed", "undone"):
            self.differ(f"{new} is {state} after its undo")
        self._others_stand("")
        self._clean(asked.verb)
        return False

    def _settled(
        self, known: dict[str, Any], asked: Asked, corners: Any, notes: tuple[str, ...]
    ) -> bool:
        """Take up what became of a change that was killed; give whether it was done."""
        stack = len(self.stack)
        for operation in [one for one in known if known[one][1] == "begun"]:
            state = self.states(asked.place)[operation][1]
            self.story[-1] += f", {operation} is {state}"
            if state in ("done", "final"):
                self._done(operation, asked, corners)
            elif state not in ("failed", "undone"):
                self.differ(f"a killed {asked.verb} is {state}: {notes}")
        return len(self.stack) > stack

    def _kill_undo(self, last: Standing) -> None:
        assert self.killer is not None
        there: Any = ct.open(last.place)
        try:
            there.undo(dry_run=True)
        except RefusedError:
            return
        what, die_at = f"undo{'_group' * last.is_group} {{}}", self.chance.randint(1, 16)
        died, _ = self.killer.run(what, last.place, die_at=die_at)
        self.counts["killed undo"] += died
        self.story[-1] += f" killed {died} at {die_at}, {list(self.states(last.place).items())[:2]}"
        if died and self.chance.random() < 0.3:
            there.tag(f"k{len(self.story)}", record=False)


def _moment(path: str) -> int:
    """The last moment of a file, by its name; 0 if it has none."""
    found = re.match(r"__\d+_(\d+)_", path.rpartition("/")[2])
    return int(found[1]) if found else 0


def _copies(steps: list[dict[str, Any]]) -> dict[str, str] | None:
    """The deletes that a replay wrote again; None if there was no replay."""
    files = [(step["path"], str(step["reason"])) for step in steps if step["op"] == "put"]
    if not any(words == "deletes all before" for _, words in files):
        return None
    return {
        path.rpartition("/")[2].removesuffix(".del"): words.removesuffix(" again")
        for path, words in files
        if path.endswith(".del") and words.endswith(" again")
    }


class _StopError(Exception):
    """The sequence cannot go on."""


def sequences(first: int, count: int, steps: int, *, kill: bool) -> Iterator[Walk]:
    """Live through sequences."""
    with ExitStack() as stack:
        killer = stack.enter_context(crasher()) if kill else None
        for seed in range(first, first + count):
            folder = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
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
        fresh = []
        for one in said:
            counts.update(one["counts"])
            fresh += one["bad"]
        if done.returncode:
            at = first + len(said)
            fresh.append(f"seed {at}: its process ended with {done.returncode}")
        differences += fresh
        ended, known = first + count - asked.seed, len(differences)
        print(
            f"{ended} sequences, {known} differences", *fresh, sep="\n", file=sys.stderr, flush=True
        )
    figures = {"sequences": asked.sequences, **dict(sorted(counts.items()))}
    print(json.dumps(figures | {"differences": differences}, indent=2))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
