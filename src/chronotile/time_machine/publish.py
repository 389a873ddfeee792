"""Publish: the fragments of staging arrays become visible in another array in one step.

In: staging arrays, and a target of the same schema. Out: the target with their fragments, and a
report. Leaves the staging arrays as they are.

The fragments' folders go first, as links or copies: no commit names them yet. Then one `.con`
commits all of them: an open sees none of them or all. A staging array must be sound, which `check`
says first, and must have no delete or update in force: in the target it would hit other rows too.

A fragment names its schema by the file. If the target has no file of that name, it gets it from the
staging array, where the schema before it in the target's own order says the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.change_report import Before, Report, Step, put, tell
from chronotile.change.consolidate import plan_commits
from chronotile.change.sound_array import sound_history
from chronotile.check.check_array import check
from chronotile.check.findings import RefusedError, count_text
from chronotile.check.read_tags import moment_in
from chronotile.errors import ChronotileError, shell_word
from chronotile.format import tiles
from chronotile.format.commit_files import write_uri
from chronotile.format.fragment_footer import read_head
from chronotile.format.kinds import ENUMERATIONS, FRAGMENTS, SCHEMA
from chronotile.format.names import MAX_TIMESTAMP, new_name, time_order
from chronotile.format.schema import cell_layout
from chronotile.format.timestamps import time_text
from chronotile.history.read_footers import FooterReader
from chronotile.history.read_history import read_history
from chronotile.storage.store import Store, open_store
from chronotile.time_machine.carry_out import Plan, carry_out, con_step, copy_of
from chronotile.time_machine.past_state import Past, refuse_newer
from chronotile.visibility.rules import Rules, schema_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.time_machine.past_state import Part


def publish(
    staging: str | Sequence[str],
    target: str,
    *,
    at: Moment | None = None,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Makes all fragments of staging arrays visible in another array, in one step.

    Args:
        staging: Paths or URIs of staging arrays, or one of them.
        target: A path or a URI.
        at: The moment that the first fragment gets; the others follow in their order, a
            millisecond each. Without it all keep their own times.
        dry_run: Change nothing.
        key: The key of the arrays, if they are encrypted: they must share it.
        storage_options: What the storage needs to know.
        store: The target's store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        RefusedError: An array is damaged, schemas differ, a staging array has deletes in force, or
            a fragment is in the target already.

    >>> publish([], "memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ChronotileError: memory://doc-nowhere: expected staging arrays, found none
    """
    opened = store or open_store(target, storage_options)
    places = [staging] if isinstance(staging, str) else list(staging)
    if not places:
        raise ChronotileError(opened.uri, "expected staging arrays, found none")
    load = Load(opened, key)
    for place in places:
        load.add(open_store(place, storage_options))
    plan, report = load.plan(None if at is None else moment_in(opened, load.history, at))
    report = replace(report, dry_run=dry_run)
    if dry_run or not report.steps:
        return report
    tell(before, report)
    carry_out(opened, load.history, plan, alone=False)
    return report


class _Staged(NamedTuple):
    """A fragment of a staging array."""

    store: Store
    part: Part


class Load:
    """What is about to be published in one array.

    Raises:
        RefusedError: The array is damaged.
    """

    def __init__(self, store: Store, key: bytes | str | None) -> None:
        history, _ = sound_history(store, key)
        if history.listing.enumerations:
            history = read_history(store, key=key, labels=True)
        self.store, self.history, self.key = store, history, key
        self.staged: list[_Staged] = []
        self.puts: dict[str, Step] = {}
        latest = schema_at(history, MAX_TIMESTAMP)
        assert latest is not None  # a listing without a schema is no array
        self.wanted = _Content(store, history, latest.path)

    def add(self, source: Store) -> None:
        """Takes the visible fragments of a staging array.

        Raises:
            RefusedError: They cannot be published.
        """
        if source.uri == self.store.uri:
            raise RefusedError(source.uri, "expected a staging array, found the target itself")
        history = read_history(source, key=self.key, labels=True)
        rules = Rules(history)
        wrong = [item for item in check(history, rules, source) if item.severity == "error"]
        if wrong:
            problem = f"expected a sound array, found {wrong[0].code} in {wrong[0].path}"
            raise RefusedError(source.uri, f"{problem}: {wrong[0].message}", tuple(wrong))
        state = Past(source, rules).now()
        refuse_newer(source.uri, state.parts)
        for item in (*state.deletes, *state.updates):
            problem = f"expected no delete or update in force, found {item.name.text}"
            hint = "in the target it would hit other rows too: consolidate with purge first"
            raise RefusedError(source.uri, f"{problem}; {hint}")
        for part in state.parts:
            if part.applied:
                problem = f"expected no delete that a fragment has applied, found {part.applied[0]}"
                raise RefusedError(source.uri, f"{problem}; consolidate with purge first")
            if not part.folder.startswith(f"{FRAGMENTS}/"):
                problem = f"expected fragments from version 12 on, found {part.name.text}"
                raise RefusedError(source.uri, problem)
            self.staged.append(_Staged(source, part))
        self._take_schemas(source, history, [part.name.text for part in state.parts])

    def _take_schemas(self, source: Store, history: History, names: list[str]) -> None:
        files: set[str] = set()
        for name, raw in FooterReader(source, history).read_raw(names):
            if isinstance(raw, ChronotileError):
                raise raw
            files.add(read_head(raw.raw, name).schema_name or "")
        there = {item.text for item in self.history.schemas}
        for file in sorted(files):
            found = _Content(source, history, f"{SCHEMA}/{file}")
            if found != self.wanted:
                problem = f"expected the schema of {self.store.uri}, found another in {file}"
                raise RefusedError(source.uri, problem)
            if file not in there:
                self._refuse_other_past(source, file)
                path = f"{SCHEMA}/{file}"
                for label in found.labels:
                    where = f"{ENUMERATIONS}/{label}"
                    if where not in self.history.listing.enumerations:
                        reason = "labels of the staged fragments"
                        self.puts[where] = put(where, source.read(where), reason)
                self.puts[path] = put(path, source.read(path), "the schema of staged fragments")

    def _refuse_other_past(self, source: Store, file: str) -> None:
        """Refuses a schema whose own time would change what an older window sees."""
        before = [item for item in self.history.schemas if item.text < file]
        beside = before[-1] if before else self.history.schemas[0]
        if _Content(self.store, self.history, beside.path) != self.wanted:
            problem = f"expected a schema that is later than the target's, found {file}"
            clone = f"chronotile clone {shell_word(self.store.uri)} STAGING --start now"
            hint = f"{clone} makes one that fits"
            raise RefusedError(source.uri, f"{problem}; {hint}")

    def plan(self, at: int | None) -> tuple[Plan, Report]:
        """The steps, and a report of them.

        Args:
            at: The moment that the first fragment gets; None if all keep their own.

        Raises:
            RefusedError: A fragment cannot get another time, or is there already.
        """
        plan, notes = self._plan(at)
        notes = notes or ["nothing is staged"]
        report = Report(
            "publish",
            self.store.uri,
            dry_run=False,
            steps=plan.steps(),
            notes=tuple(notes),
            added=plan.added,
        )
        return plan, report

    def _plan(self, at: int | None) -> tuple[Plan, list[str]]:
        staged = sorted(self.staged, key=lambda one: time_order(one.part.name))
        if not staged:
            return Plan(), []
        table = self.history.table
        here = {table.name(row) for row in range(len(table))}
        taken = {*table.uris.t1.tolist(), *table.uris.t2.tolist()}
        notes: list[str] = []
        names: list[str] = []
        for number, (source, part) in enumerate(staged):
            if at is not None and part.cells_timed:
                problem = f"expected fragments that can get another time, found {part.name.text}"
                raise RefusedError(source.uri, f"{problem}, whose cells keep their own")
            moment = 0 if at is None else at + number
            name = part.name.text if at is None else new_name(moment, moment, part.name.version)
            if name in here or name in names:
                raise RefusedError(self.store.uri, f"expected no fragment {name}, found it")
            if taken & ({moment} if at is not None else {part.name.t1, part.name.t2}):
                notes.append(f"{name} has the time of another commit: their order is not defined")
            names.append(name)
        copies = tuple(
            copy_of(source, self.store, part.folder, name)
            for (source, part), name in zip(staged, names, strict=True)
        )
        writes = [write_uri(name) for name in names]
        commits = plan_commits(self.history)
        switch = con_step(self.history, commits, writes, {})
        needed = tuple(self.puts.values())
        notes[:0] = _told(staged, at)
        plan = Plan(
            commits=commits,
            copies=copies,
            needed=needed,
            switch=switch,
            added=tuple(writes),
        )
        return plan, notes


def _told(staged: list[_Staged], at: int | None) -> Iterator[str]:
    arrays = count_text(len({source.uri for source, _ in staged}), "staging array")
    cells = [part.cells for _, part in staged]
    known = [count for count in cells if count is not None]
    words = f" with {count_text(sum(known), 'cell')}" if len(known) == len(cells) else ""
    when = "with their own times" if at is None else f"from {at} ({time_text(at)}) on"
    yield f"{count_text(len(staged), 'fragment')}{words} of {arrays}, {when}"
    yield "metadata of staging arrays is not published"


class _Content:
    """What a schema says, whatever its file and those of its enumerations are called."""

    def __init__(self, store: Store, history: History, path: str) -> None:
        schemas = {item.path: item.schema for item in history.schemas}
        schema = schemas.get(path)
        if schema is None:
            raise RefusedError(store.uri, f"expected a readable schema, found {path}")
        payload = tiles.decode(store.read(path), path, key=history.key).payload
        self.labels = [file for _, file in schema.enumeration_files]
        named = replace(schema, file=None, enumeration_files=())
        self._said = named, cell_layout(payload, path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self._said == other._said

    __hash__ = None  # type: ignore[assignment]  # compared only
