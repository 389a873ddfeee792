"""Erasure: the rows that match a predicate leave every fragment, window and record of an array.

In: an array and a predicate. Out: the plan. Every other row, in every window that can be read, is
as before. It cannot be undone.

The order, so that a stop at any point loses nothing else, and the same command goes on:

  1. each fragment with matches that some window sees is merged aside with a purge, from just that
     fragment and one more with a row that matches, as the engine purges nothing of a lone one. The
     delete of the predicate is in the scratch array alone. The new fragment has the same times, and
     a uuid right after the old one's, so that the order of writes stays;
  2. it is put in; the `.vac` files that hide the old one hide it too; it is committed behind a
     `.vac` of its own name that hides it; then the content of that `.vac` is exchanged: it hides
     the old fragment. A fragment without other rows is only hidden;
  3. hidden fragments with matches go: those of step 2, and superseded ones that another fragment
     holds; then orphans that are old enough, and fragments in the quarantine;
  4. earlier deletes and updates that name a value get a stand-in, or go if no fragment has applied
     them, loose and in every `.con`. One that hides other rows gets the same condition without the
     value;
  5. a new `.meta` takes the place of those with footers of what went;
  6. files of the quarantine that name a value go; records are redacted, and operations that relied
     on something of all this become `final`.

Nothing of an erasure goes into the quarantine.
"""

from __future__ import annotations

import re
import weakref
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.change.consolidate import plan_footers
from chronotile.change.erased_names import kept_files, plan_records, quoted_values
from chronotile.change.operations import (
    QUARANTINE,
    list_operations,
    read_operation,
    unfinished_copies,
)
from chronotile.change.orphan_fragments import Orphan, remove_orphans
from chronotile.change.plan import FOLDERS, Plan, Seen, Source, Stage, Step, at_hand, put
from chronotile.change.repair import Mender, harmless_tiles
from chronotile.change.sound_array import sealing_key, sound_history
from chronotile.change.vacuum import CommitRemoval, age_ms
from chronotile.check.findings import RefusedError, count_text
from chronotile.check.fragment_health import inspect
from chronotile.check.vacuumable_fragments import Superseded, Vacuumable, removable
from chronotile.conditions import codec
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Op, flatten, negate
from chronotile.errors import ChangedError, ChronotileError, PredicateError, option
from chronotile.format import tiles
from chronotile.format.commit_files import (
    FIRST_WITH_COMMITS,
    encode_exchanged,
    encode_lines,
    read_vac_line,
    write_uri,
)
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import (
    erasing_name,
    format_name,
    new_name,
    parse_name,
    try_parse,
    version_of,
)
from chronotile.format.timestamps import now_ms
from chronotile.history.read_footers import FooterFile, read_consolidated
from chronotile.history.read_history import read_history
from chronotile.rows.erase_proof import (
    LINKED,
    Trace,
    copies,
    predicate_hash,
    survey,
    survey_group,
)
from chronotile.rows.every_fragment import other_cells_hidden
from chronotile.rows.merge_aside import NothingLeftError, merge_aside
from chronotile.rows.places import raw_value
from chronotile.rows.scratch_arrays import FAR, stage_fragment
from chronotile.rows.snapshot import Snapshot
from chronotile.safe_text import shell_word
from chronotile.storage.store import MissingObjectError
from chronotile.storage.transfer import ScratchFolder, sweep_scratch
from chronotile.visibility.rules import TIMESTAMPED_CELLS, Rules
from chronotile.visibility.view import Update

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from chronotile.change.plan import Report
    from chronotile.conditions.tree import Condition
    from chronotile.format.names import Name
    from chronotile.rows.erase_proof import Survey
    from chronotile.rows.every_fragment import FragmentMatches
    from chronotile.rows.merge_aside import Merged
    from chronotile.rows.scratch_arrays import StagedFragment
    from chronotile.storage.store import Store

MEMORY = 1 << 31
"""Bytes that the engine may take to rewrite one fragment."""
_MOST_PLACES = 1_000
"""Rows whose earlier values can be erased at a time."""
NO_FIELD = "it has no field of that name"
_FEWER = "every window sees what it saw before, without some or all of the rows that match"


def plan_erase(
    store: Store,
    key: bytes | None,
    *,
    where: str,
    orphan_age: float | str = "24h",
    earlier_values: bool = False,
    is_member: bool = False,
) -> Plan:
    """Plan to erase the rows that match a predicate; see `Handle.erase`.

    `is_member` takes an array without the predicate's fields for one without matches.
    """
    sound_history(store, key)
    try:
        found = survey(store, key, where)
    except PredicateError as error:
        if not is_member or "field" not in error.problem:
            raise
        return Plan(command="erase", array=store.uri, notes=(NO_FIELD,))
    return _Erasure(store, key, found, age_ms(orphan_age), earlier_values=earlier_values).plan()


def plan_redact_group(store: Store, key: bytes | None, *, where: str) -> Plan:
    """Plan to redact the records of a group itself."""
    steps = plan_records(store, quoted_values(where), ()).steps
    stage = Stage(name="records", seen="the group is as before", steps=steps)
    named = [one for one in survey_group(store, key, where) if one.what != "record"]
    notes = tuple(f"{one.what} {one.where} stays as it is: {one.why}" for one in named)
    return Plan(command="erase", array=store.uri, stages=(stage,) if steps else (), notes=notes)


def certified_group(report: Report, store: Store, key: bytes | None, where: str) -> Report:
    """Add to the report of a group itself the files of its own that still name a value."""
    named = [place._asdict() for place in survey_group(store, key, where)]
    return replace(report, certificate={"array": store.uri, "still_named": named})


def certified(
    report: Report,
    store: Store,
    key: bytes | None,
    where: str,
    verify: Mapping[str, Any] | None = None,
    *,
    with_groups: bool = False,
) -> Report:
    """Look at an array again, and add the certificate to the report of an erasure.

    Args:
        report: What was done.
        store: The array.
        key: Its key.
        where: The predicate; an array without its fields gets no certificate.
        verify: A certificate that was made before: its predicate must be this one.
        with_groups: The groups above it are searched too.

    Raises:
        RefusedError: The certificate is of another predicate.
    """
    try:
        found = survey(store, key, where, with_groups=with_groups)
    except PredicateError:
        if report.steps or verify is not None:
            raise
        return replace(report, notes=tuple(dict.fromkeys((*report.notes, NO_FIELD))))
    before, salt = report.rows.get("erased", 0) + found.matches, None
    if verify is not None:
        salt, before = str(verify.get("salt")), int(verify.get("matches_found", 0))
        is_salt = re.fullmatch("(?:[0-9a-f]{2})+", salt) is not None
        if not is_salt or predicate_hash(found.matcher, salt) != verify.get("predicate_hash"):
            problem = "expected the predicate of this certificate, found another one"
            raise RefusedError(store.uri, problem)
    said = {*map(_copy_note, copies(store))}  # the certificate says it too
    notes = tuple(note for note in report.notes if note not in said)
    return replace(report, notes=notes, certificate=found.certificate(before, salt))


def _copy_note(copy: Trace) -> str:
    return f"the {copy.what} {copy.where} may hold these rows; {copy.why}"


def of_member(certificate: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """Find the certificate of a member in that of its group; None if it has none."""
    for one in certificate.get("members", ()):
        if one.get("member") == path and "predicate_hash" in one:
            return one  # type: ignore[no-any-return]
    return None


def without_names(message: str | None, where: str) -> str | None:
    """Write the message of an erasure without the texts that its predicate quotes."""
    return None if message is None else str(quoted_values(where).redact(message, is_message=True))


class Rewrite(NamedTuple):
    """A fragment that is written again without its matches."""

    matches: FragmentMatches
    new: Name
    bare: bool
    """Keep the cells that it notes as deleted: all deletes that it has applied are there."""
    older: tuple[tuple[int, Condition], ...] = ()
    """Deletes of earlier values: their time, and the rows that they match."""
    older_count: int = 0

    @property
    def left(self) -> int:
        """Cells that stay."""
        lost = 0 if self.bare else self.matches.marked
        return self.matches.left - self.older_count - lost

    @property
    def folder(self) -> str:
        """The new folder."""
        return f"{FRAGMENTS}/{self.new.text}"

    @property
    def veil(self) -> str:
        """The `.vac` that hides the new fragment at first, and the old one then."""
        return f"{COMMITS}/{self.new.text}.vac"


@dataclass(frozen=True, slots=True)
class _Later:
    """Plan stages when they are due, in place of the steps that were foreseen."""

    make: Callable[[Store], Iterable[Stage]]
    planned: frozenset[str]

    def __call__(self, store: Store) -> Seen:
        """Plan."""
        return Seen(leave=self.planned, stages=tuple(self.make(store)))


def _later(name: str, make: Callable[[Store], Iterable[Stage]], steps: Sequence[Step]) -> Stage:
    planned = frozenset(step.path for step in steps)
    return Stage(name=name, seen=_FEWER, looks=(_Later(make, planned),), steps=tuple(steps))


class _Erasure:
    """Plans one erasure."""

    def __init__(
        self, store: Store, key: bytes | None, found: Survey, age_ms: int, *, earlier_values: bool
    ) -> None:
        self.store, self.key, self.found = store, key, found
        self.log, self.rules = found.log, found.log.rules
        self.oldest = now_ms() - age_ms
        self.earlier_values = earlier_values
        self.notes: list[str] = []
        self.losses: list[str] = []
        self.staying: list[FragmentMatches] = []
        """Fragments that keep their matches."""

    def plan(self) -> Plan:
        """Plan it."""
        superseded = self._superseded()
        unseen = {one.folder for one in superseded.fragments}
        self._refuse(unseen)
        committed = [one for one in self.found.matching if one.folder.role == "committed"]
        visible = [one for one in committed if one.path not in unseen]
        rewrites = self._rewrites(visible)
        kept = [one for one in self.found.holding if one.folder.role == "kept"]
        begun = self._begun()
        orphans = self._orphans(begun)
        left_by = self._leftovers()
        deletes = self._deletes()
        self._note_blanked(deletes)
        rewritten = (one.matches for one in rewrites)
        going = begun | {one.folder.name.text for one in (*committed, *rewritten)}
        touched = going | {one.rpartition("/")[2].rpartition(".")[0] for one in deletes}
        touched |= {path.split("/")[2] for path in (one.path for one in kept)}
        touched |= {orphan.path.rpartition("/")[2] for orphan in orphans}
        stages: list[Stage] = []
        if left_by:
            steps = [
                step for name in left_by for step in _removals(self.store, f"{FRAGMENTS}/{name}")
            ]
            stages.append(_later("leftovers", partial(self._remove_leftovers, left_by), steps))
        stages += [
            _later(f"rewrite {one.new.text}", partial(self._rewrite, one), _foreseen(one))
            for one in rewrites
        ]
        steps = [step for one in committed for step in _file_steps(one)]
        steps += self._abandoned(begun)
        if steps or rewrites:
            make = partial(self._remove_hidden, going, superseded.relied_on, rewrites)
            stages.append(_later("hidden fragments", make, steps))
        stages += self._other_copies(orphans, kept)
        if deletes:
            steps = [
                Step(op="replace", path=uri, size=None, reason=why)
                for uri, (_, why) in deletes.items()
            ]
            stages.append(_later("deletes", partial(self._exchange, deletes), steps))
        is_old = bool(going) or any(one.what == "footers" for one in self.found.named)
        footers = self._footer_files(self.store, going) if is_old else ()
        if footers:
            steps = [
                Step(op="remove", path=path, size=None, reason=_OLD_FOOTERS) for path in footers
            ]
            stages.append(_later("footers", partial(self._new_footers, going), steps))
        touched |= self._quarantines(going)
        named = tuple(kept_files(self.store, self.key, self.found.values, going))
        touched |= {step.path.split("/")[2] for step in named}
        if named:
            stages.append(Stage(name="quarantine", seen=_FEWER, steps=named))
        records = plan_records(self.store, self.found.values, touched)
        if records.steps:
            make = partial(self._redact, frozenset(touched))
            stages.append(_later("records", make, records.steps))
        if records.final:
            ids = ", ".join(records.final)
            self.losses.append(f"operations that can no longer be undone: {ids}")
        return self._plan(stages, rewrites)

    def _plan(self, stages: list[Stage], rewrites: Sequence[Rewrite]) -> Plan:
        found = self.found
        lost = sum(one.matches.marked for one in rewrites if not one.bare)
        if lost:
            rows = count_text(lost, "row")
            self.losses.append(
                f"{rows} that were deleted already go too, also for windows before their delete: "
                "that delete is gone, and only the fragment has noted it"
            )
        going = [one for one in found.matching if one not in self.staying]
        erased = sum(one.matches for one in going)
        if erased or stages:
            count = count_text(erased, "row")
            where = count_text(len(going), "fragment folder")
            where += " (a row counts once in each that holds it)" if len(going) > 1 else ""
            first = f"this cannot be undone: it erases {count} in {where}, from every window"
            self.losses.insert(0, first)
        self.notes += [f"the window of {label} loses the rows that match" for label in found.tags()]
        linked = {one.where for one in found.not_looked_at if one.what == "hard links"}
        self.notes += [LINKED + one.path for one in found.matching if one.path in linked]
        self.notes += [f"{one.what} {one.where} stays as it is: {one.why}" for one in found.lasting]
        self.notes += map(_copy_note, copies(self.store))
        return Plan(
            command="erase",
            array=self.store.uri,
            stages=tuple(stages),
            losses=tuple(self.losses),
            notes=tuple(self.notes),
            rows={"erased": erased} if erased else {},
            facts={"fragments": [one.to_dict() for one in found.fragments]},
        )

    def _refuse(self, unseen: Collection[str]) -> None:
        """Refuse what the engine cannot do without harm to other rows; unseen ones only go."""
        found, uri = self.found, self.store.uri
        if self.log.history.dense and found.matches:
            listed = ", ".join(f"{one.path} ({one.matches:,})" for one in found.matching)
            matches = count_text(found.matches, "match", "matches")
            problem = f"expected a sparse array, found a dense one with {matches}: {listed}"
            problem += "; write other values there; then, to remove these"
            command = f"chronotile compact {shell_word(uri)} --quiet 0s --vacuum"
            raise RefusedError(uri, f"{problem}: {command}")
        if self.log.history.listing.linked_fragments and found.matches:
            path = self.log.history.listing.linked_fragments[0]
            raise RefusedError(uri, f"expected fragments of its own, found the link {path}")
        for one in found.matching:
            is_rewritten = one.folder.role == "committed" and one.path not in unseen
            if is_rewritten and (obstacle := _obstacle(one)) is not None:
                raise RefusedError(uri, obstacle)

    def _superseded(self) -> Vacuumable:
        """Find the fragments that no window sees, as another one was shown to hold their cells."""
        history = self.log.history
        return removable(history, self.rules, partial(inspect, self.store, history))

    def _rewrites(self, visible: Sequence[FragmentMatches]) -> list[Rewrite]:
        taken = {*self.log.history.listing.fragments, *_names_of_commits(self.store)}
        older = self._earlier_values()
        by_path = {one.path: one for one in visible}
        for one in self.found.fragments:
            if one.path in older:
                by_path.setdefault(one.path, one)
        found: list[Rewrite] = []
        written: int | None = None
        for one in by_path.values():
            conditions, count = older.get(one.path, ((), 0))
            bare = self._can_be_bared(one)
            rewrite = Rewrite(one, one.folder.name, bare, conditions, count)
            if rewrite.left and written is None:
                written = self._companion(one, conditions)[1].version
            version = written if rewrite.left and written else version_of(one.folder.name)
            new = _next_name(one.folder.name, version, taken)
            taken.add(new.text)
            found.append(rewrite._replace(new=new))
        return found

    def _companion(
        self, one: FragmentMatches, older: Sequence[tuple[int, Condition]]
    ) -> tuple[str, StagedFragment]:
        """Write a fragment aside with one row that is to go; its version is the engine's own."""
        row, moment = self.found.matcher.first_row(one, [condition for _, condition in older])
        assert one.opened is not None  # it was read
        at = Snapshot(log=self.log, end=moment, schema_file=one.opened.schema_file)
        staged = stage_fragment(at, row, moment)
        return new_name(moment, moment, staged.version), staged

    def _can_be_bared(self, one: FragmentMatches) -> bool:
        """Tell whether deletes that are there remove just what a fragment notes as deleted."""
        if one.opened is None or not one.marked:
            return True
        applied = {name for name in one.opened.applied if not name.endswith(".upd")}
        commits = {commit.name: commit for commit in self.log.view(0, FAR).deletes}
        there = [commits[name] for name in applied if name in commits]
        if len(there) != len(one.opened.applied) or any(one.is_stand_in for one in there):
            return False
        count = other_cells_hidden(self.found.matcher, one, there)
        return count == one.marked

    def _earlier_values(self) -> dict[str, tuple[tuple[tuple[int, Condition], ...], int]]:
        """Find older cells of places whose newest cell goes: they would show again.

        Raises:
            RefusedError: There are some, and the caller did not ask to erase them too.
        """
        matcher = self.found.matcher
        if matcher.is_of_places or matcher.schema.allows_duplicates:
            return {}
        matching = [one for one in self.found.matching if one.folder.role == "committed"]
        if not matching:
            return {}
        matched: dict[tuple[object, ...], int] = {}
        for one in matching:
            columns = (column.to_pylist() for column in one.places)
            for place, t in zip(zip(*columns, strict=True), one.times, strict=True):
                matched[place] = max(t, matched.get(place, 0))
        deletes = self.log.view(0, FAR).deletes
        found: dict[str, tuple[tuple[tuple[int, Condition], ...], int]] = {}
        rows: list[str] = []
        for one in self.found.fragments:
            if one.folder.role != "committed" or one.problem is not None:
                continue
            older = matcher.older_cells(one, matched, deletes)
            if older.until:
                conditions = _by_time(matcher.schema.dimensions, older)
                found[one.path] = (conditions, len(older.until))
                rows += older.words
        total = sum(count for _, count in found.values())
        if found and not self.earlier_values:
            shown = "; ".join(dict.fromkeys(rows[:5]))
            problem = f"expected no earlier values, found {total:,} that would show again: {shown}"
            hint = f"to erase them too, add {option('earlier_values')}"
            raise RefusedError(self.store.uri, f"{problem}; {hint}")
        if total > _MOST_PLACES:
            problem = f"expected at most {_MOST_PLACES:,} earlier values, found {total:,}"
            raise RefusedError(self.store.uri, f"{problem}; erase in parts")
        if total:
            self.losses.append(f"{count_text(total, 'earlier value')} of these rows are erased too")
        return found

    def _begun(self) -> frozenset[str]:
        """Name the fragments that an erasure which was broken off has taken out, or was about to.

        No commit shows them any more. Such a folder may be there in part, and hold matches.
        """
        table = self.log.history.table
        committed = {table.name(row) for row in self.rules.fragment_rows.tolist()}
        folders = (path for path in self._broken_off("remove") if path.startswith(f"{FRAGMENTS}/"))
        return frozenset(path.rpartition("/")[2] for path in folders) - committed

    def _abandoned(self, begun: frozenset[str]) -> Iterator[Step]:
        """List what is left of these fragments, and of the `.vac` files that hide them."""
        there = self.log.history.listing.fragment_paths()
        for name in sorted(begun & there.keys()):
            yield from _removals(self.store, there[name])
        for vacuum in self.log.history.vacuums:
            if not begun.isdisjoint(vacuum.targets):
                yield Step(op="remove", path=vacuum.path, size=None, reason=_LEFT)

    def _orphans(self, begun: frozenset[str]) -> tuple[Orphan, ...]:
        """Find the uncommitted fragments with matches that are old enough to go."""
        found = []
        copies = unfinished_copies(self.store)
        for one in self.found.holding:
            if one.folder.role != "uncommitted" or one.folder.name.text in begun:
                continue
            newest = self.store.newest_ms(one.path)
            is_young = newest is None or newest > self.oldest
            if one.path in copies or is_young:
                why = f"a write may be under way; to erase it too, add {option('orphan_age', '0')}"
                self.notes.append(f"{one.path} has no commit and stays, with its matches: {why}")
                self.staying.append(one)
                continue
            if one.left:
                rows = count_text(one.left, "other row")
                self.losses.append(f"{one.path}, which was never committed, goes with {rows}")
            files = self.store.list_prefix(one.path)
            found.append(Orphan(path=one.path, files=files, is_folder=True))
        return tuple(found)

    def _broken_off(self, *ops: str) -> set[str]:
        """List the folders that erasures which were broken off were to make, or to empty."""
        found: set[str] = set()
        for operation in list_operations(self.store):
            if operation.command == "erase" and operation.state in ("begun", "failed"):
                with suppress(ChronotileError):
                    steps = read_operation(self.store, operation).get("steps", ())
                    paths = [str(step["path"]) for step in steps if step.get("op") in ops]
                    found |= {
                        path if "remove" not in ops else path.rpartition("/")[0] for path in paths
                    }
        return found

    def _leftovers(self) -> tuple[str, ...]:
        """Name the new fragments of an erasure that was broken off before it showed them."""
        names = {path.rpartition("/")[2] for path in self._broken_off(*FOLDERS)}
        veiled = {v.name.text for v in self.log.history.vacuums if v.name.text in v.targets}
        there = set(self.log.history.listing.fragments)
        return tuple(sorted(names & there & (veiled | self.rules.uncommitted.keys())))

    def _deletes(self) -> dict[str, tuple[bytes | None, str]]:
        """Decide on the deletes that name a value: URI -> its new tile, or None; and why."""
        found: dict[str, tuple[bytes | None, str]] = {}
        table, history = self.log.history.table, self.log.history
        seal = sealing_key(self.store, history)
        harmless = harmless_tiles(history, seal)
        for commit, row in self.found.naming:
            uri = table.uri(row)
            hides = sum(
                other_cells_hidden(self.found.matcher, one, [commit])
                for one in self.found.fragments
                if one.folder.role == "committed" and one.problem is None
            )
            if not hides:
                tile: bytes | None = harmless[uri[-4:]]
                found[uri] = (tile, _BLANKED)
                continue
            if isinstance(commit, Update):
                problem = f"found {commit.name}, which names a value and is not applied"
                hint = f"to carry it out first: chronotile apply {shell_word(self.store.uri)}"
                raise RefusedError(self.store.uri, f"expected no such update, {problem}; {hint}")
            schema = commit.schema
            new = None if schema is None else self.found.values.without(commit.stored, schema)
            if new is None or schema is None:
                rows = count_text(hides, "other row")
                self.notes.append(f"{uri} stays, and names a value: it hides {rows}")
                continue
            tile = tiles.encode(codec.encode(new), version=schema.version, key=seal)
            found[uri] = (tile, "it hides the same rows, and names no value that is erased")
        return found

    def _note_blanked(self, deletes: Mapping[str, tuple[bytes | None, str]]) -> None:
        """Count the deletes and updates that name a value of the rows, and what they become."""
        for suffix, noun in ((".del", "delete"), (".upd", "update")):
            whys = [why for uri, (_, why) in deletes.items() if uri.endswith(suffix)]
            blanked, kept = whys.count(_BLANKED), len(whys) - whys.count(_BLANKED)
            if blanked:
                them = "it covers" if blanked == 1 else "they cover"
                which = f"{count_text(blanked, noun)} of these rows"
                self.notes.append(f"blanks {which}: {them} no other row, and from now on none")
            if kept:
                self.notes.append(f"takes the erased values out of {count_text(kept, noun)}")

    def _other_copies(
        self, orphans: tuple[Orphan, ...], kept: Sequence[FragmentMatches]
    ) -> Iterator[Stage]:
        if orphans:
            yield Stage(
                name="orphans",
                seen=_FEWER,
                looks=(partial(remove_orphans, self.key, orphans),),
                steps=tuple(step for orphan in orphans for step in orphan.steps),
                folders=tuple(orphan.path for orphan in orphans),
            )
        if kept:
            steps = tuple(step for one in kept for step in _file_steps(one))
            folders = tuple(one.path for one in kept)
            yield Stage(name="kept fragments", seen=_FEWER, steps=steps, folders=folders)

    def _quarantines(self, going: Iterable[str]) -> set[str]:
        """Name the operations whose quarantine keeps a fragment that goes from the array."""
        names = set(going)
        kept = (one for one in self.found.fragments if one.folder.role == "kept")
        return {
            one.path.split("/")[2]
            for one in kept
            if one.path.startswith(f"{QUARANTINE}/") and one.folder.name.text in names
        }

    # What follows runs between the looks of the executor.

    def _remove_leftovers(self, names: Sequence[str], store: Store) -> Iterator[Stage]:
        veils = [f"{COMMITS}/{name}.vac" for name in names]
        commits = [write_uri(name) for name in names]
        folders = tuple(f"{FRAGMENTS}/{name}" for name in names)

        def gone(paths: Iterable[str]) -> tuple[Step, ...]:
            return tuple(Step(op="remove", path=path, size=None, reason=_LEFT) for path in paths)

        yield Stage(name="commits", seen=_FEWER, steps=gone(commits))
        steps = tuple(step for folder in folders for step in _removals(store, folder))
        yield Stage(name="folders", seen=_FEWER, steps=steps, folders=folders)
        yield Stage(name="veils", seen=_FEWER, steps=gone(veils))

    def _rewrite(self, one: Rewrite, store: Store) -> Iterator[Stage]:
        """Merge a fragment aside, and show the result in its place; or only hide it."""
        old_line = f"/{FRAGMENTS}/{one.matches.folder.name.text}"
        shown = encode_lines([old_line])
        if not one.left:
            step = put(one.veil, shown, f"hides {one.matches.path}: all of its rows match")
            yield Stage(name="hide", seen=_FEWER, steps=(step,))
            return
        sweep_scratch()  # what a run that was killed left there holds matches
        self.scratch = ScratchFolder()
        weakref.finalize(self, self.scratch.__exit__)
        try:
            merged = self._purged(one, self.scratch)
        except NothingLeftError:
            raise ChangedError(
                store.uri, "expected rows that stay, found none: try again"
            ) from None
        if merged.cells != one.left:
            problem = f"expected {one.left:,} cells without the matches, found {merged.cells:,}"
            raise ChangedError(f"{store.uri}/{one.matches.path}", f"{problem}; nothing was changed")
        source = Source(
            merged.store,
            {f"{merged.folder}/{file}": f"{one.folder}/{file}" for file in merged.sizes},
            {f"{one.folder}/{file}": size for file, size in merged.sizes.items()},
        )
        reason = _foreseen(one)[0].reason
        copy = Step(op="copy", path=one.folder, size=merged.size, reason=reason, source=source)
        yield Stage(name="new fragment", seen=_FEWER, steps=(copy,))
        new_line = f"/{FRAGMENTS}/{one.new.text}"
        veil = encode_lines([new_line])
        hides = put(one.veil, veil, "hides the new fragment until it is committed")
        commit = put(write_uri(one.new.text), b"", "commits the new fragment")
        yield Stage(name="commit", seen=_FEWER, steps=(*self._lists(one, store), hides, commit))
        data = encode_exchanged([old_line], veil)
        switch = Step(
            op="replace",
            path=one.veil,
            size=len(data),
            reason=f"hides {one.matches.path}, which the new fragment replaces",
            data=data,
            old=veil,
            keep=False,
        )
        there = _Whole(one.folder, merged.sizes)
        yield Stage(name="switch", seen=_FEWER, looks=(there,), steps=(switch,))
        back = replace(there, veil=one.veil, shown=data)

        def merged_meanwhile(store: Store) -> Seen:
            return Seen(steps=tuple(self._lists(one, store)))

        looks = (back, merged_meanwhile, _Swept(self.scratch))
        yield Stage(name="confirm", seen=_FEWER, looks=looks)

    def _lists(self, one: Rewrite, store: Store) -> Iterator[Step]:
        """Let every `.vac` that hides the old fragment hide the new one too."""
        old, new = one.matches.folder.name.text, one.new.text
        for vacuum in read_history(store, key=self.key).vacuums:
            if old in vacuum.targets and new not in vacuum.targets and vacuum.path != one.veil:
                lines = [*vacuum.lines, f"/{FRAGMENTS}/{new}"]
                yield _exchanged(vacuum.path, store.read(vacuum.path), lines, new)

    def _purged(self, one: Rewrite, scratch: ScratchFolder) -> Merged:
        matches, log = one.matches, self.log
        assert matches.opened is not None  # it holds matches
        item = matches.opened.schema_file
        schema = item.schema
        assert schema is not None  # see `open_fragment`
        seal = sealing_key(self.store, log.history)
        last = max(matches.folder.name.t2, *(matches.times or (0,)), *(t for t, _ in one.older), 0)
        deletes: dict[str, bytes] = {}
        conditions = [*one.older]
        if matches.matches and matches.predicate is not None:
            conditions.append((last + 2, matches.predicate))
        for moment, condition in conditions:
            name = erasing_name(moment, schema.version)
            payload = codec.encode(flatten(negate(condition)))
            deletes[f"{name}.del"] = tiles.encode(payload, version=schema.version, key=seal)
        name, companion = self._companion(matches, one.older)
        return merge_aside(
            self.store,
            log.history,
            [matches.folder.name.text],
            scratch,
            memory=MEMORY,
            deletes=deletes,
            purge=True,
            extra={name: companion.files},
            cell_by_cell=True,
            bare=one.bare,
        )

    def _remove_hidden(
        self,
        going: frozenset[str],
        relied_on: frozenset[str],
        rewrites: Sequence[Rewrite],
        store: Store,
    ) -> Iterator[Stage]:
        """Remove fragments that a `.vac` hides, and then the `.vac` files that are done with."""
        history = read_history(store, key=self.key)
        here = history.listing.fragment_paths()
        found: dict[str, Superseded] = {}
        done, trimmed = [], []
        for vacuum in history.vacuums:
            names = [read_vac_line(line).name for line in vacuum.lines]
            gone = [name for name in names if name in going]
            for name in gone:
                if name is not None and name in here:
                    one = Superseded(
                        folder=here[name], commit_uri=write_uri(name), because=vacuum.path
                    )
                    found.setdefault(name, one)
            rest = [
                line for line, name in zip(vacuum.lines, names, strict=True) if name not in going
            ]
            if gone and not any(read_vac_line(line).name in here for line in rest):
                done.append(vacuum.path)
            elif gone:
                trimmed.append((vacuum.path, rest))
        missing = sorted(name for name in going if name in here and name not in found)
        if missing:
            raise ChangedError(store.uri, f"expected {missing[0]} to be hidden; try again")
        new = {one.folder for one in rewrites if one.left}
        held = frozenset(new | set(relied_on) - {here.get(name, "") for name in going})
        vacuumable = Vacuumable(
            fragments=tuple(found.values()),
            vacuums=tuple(done),
            losses=(),
            notes=(),
            relied_on=frozenset(path for path in held if path.rpartition("/")[2] in here),
        )
        yield from CommitRemoval(
            store, history, vacuumable, staying=(".del", ".upd"), retire=False
        ).stages()
        steps = tuple(_exchanged(path, store.read(path), rest, "") for path, rest in trimmed)
        yield Stage(name="lists", seen=_FEWER, steps=steps)

    def _exchange(
        self, deletes: Mapping[str, tuple[bytes | None, str]], store: Store
    ) -> Iterator[Stage]:
        """Give deletes their new tiles; take out those that no fragment has applied."""
        history = read_history(store, key=self.key)
        rules = Rules(history)
        there = history.listing.fragment_paths().items()
        health = inspect(store, history, [path for name, path in there if try_parse(name)])
        applied = {name for item in health.values() for name in item.applied}
        latest = harmless_tiles(history, sealing_key(store, history))
        new: dict[str, bytes | None] = {}
        for uri, (tile, _) in deletes.items():
            name = uri.rpartition("/")[2].removesuffix(".del")
            is_needed = name in applied or tile not in latest.values()
            new[uri] = tile if is_needed else None
        mender = Mender(rules, health, accept_loss=False, harmless={})
        mending = mender.exchange(new, "it names no value that is erased")
        yield Stage(name="new .con", seen=_FEWER, steps=tuple(mending.puts.values()))
        steps = []
        for path, reason in mending.moves.items():
            with suppress(MissingObjectError):
                old = store.read(path)
                other = mending.replaced.get(path)
                if other is None:
                    steps.append(Step(op="remove", path=path, size=len(old), reason=reason))
                else:
                    steps.append(replace(other, op="replace", old=old, keep=False))
        yield Stage(name="old deletes", seen=_FEWER, steps=tuple(steps))

    def _footer_files(self, store: Store, going: Iterable[str]) -> tuple[str, ...]:
        """List the `.meta` files with a footer of a fragment that goes, or has gone before."""
        history = read_history(store, key=self.key)
        stay = {*history.listing.fragments} - {*going}
        return tuple(
            path
            for path, one in read_consolidated(store, history).items()
            if not isinstance(one, FooterFile)
            or any(item.fragment not in stay for item in one.index.listed())
        )

    def _new_footers(self, going: frozenset[str], store: Store) -> Iterator[Stage]:
        old = self._footer_files(store, going)
        history = read_history(store, key=self.key)
        steps = plan_footers(store, history, Rules(history)).steps
        yield Stage(name="new footers", seen=_FEWER, steps=steps)
        gone = [Step(op="remove", path=path, size=None, reason=_OLD_FOOTERS) for path in old]
        yield Stage(name="old footers", seen=_FEWER, steps=tuple(gone))

    def _redact(self, touched: frozenset[str], store: Store) -> Iterator[Stage]:
        steps = plan_records(store, self.found.values, touched).steps
        yield Stage(name="records", seen=_FEWER, steps=steps)


_LEFT = "an erasure that was broken off left it"
_BLANKED = "it matches no row: what it removed is erased"
_OLD_FOOTERS = "it holds footers of fragments that are erased"


@dataclass(frozen=True, slots=True)
class _Whole:
    """Look whether a new fragment is there; if not, show the old one again."""

    folder: str
    sizes: Mapping[str, int] = field(repr=False)
    veil: str | None = None
    """The `.vac` that hides the old fragment by now, if it does."""
    shown: bytes = b""

    def __call__(self, store: Store) -> None:
        """Look.

        Raises:
            ChangedError: A vacuum removed it.
        """
        found = {entry.path.rpartition("/")[2] for entry in store.list_dir(self.folder).files}
        if found >= self.sizes.keys():
            return
        if self.veil is not None:
            with suppress(MissingObjectError):
                if store.read(self.veil) == self.shown:
                    store.remove([self.veil])
        problem = "expected the new fragment to stay, found it gone: somebody vacuums; try again"
        raise ChangedError(store.uri_of(self.folder), problem)


@dataclass(frozen=True, slots=True)
class _Swept:
    """Remove a scratch folder that is no longer needed."""

    scratch: ScratchFolder

    def __call__(self, store: Store) -> None:  # noqa: ARG002
        """Remove it."""
        self.scratch.__exit__()


def _obstacle(one: FragmentMatches) -> str | None:
    """Say why a fragment cannot be written again without its matches; None if it can."""
    name, version = one.folder.name, version_of(one.folder.name)
    rows = "; ".join(one.wrong)
    if version < FIRST_WITH_COMMITS:
        found = f"found {one.path}; consolidate it with TileDB, and vacuum"
        return f"expected fragments from version {FIRST_WITH_COMMITS} on, {found}"
    if not one.left:
        return None
    if one.lacks:
        harm = f"{one.path} was written before {', '.join(one.lacks)}: TileDB would delete all of"
        harm += f" its rows, and {one.wrong_count:,} match by the fill value ({rows})"
        return f"expected rows that a delete can tell apart, found {harm}"
    if one.wrong_count:
        more = one.wrong_count - len(one.wrong)
        rows += f"; and {more:,} more" if more > 0 else ""
        harm = f"TileDB would also remove {count_text(one.wrong_count, 'row')} of {one.path}"
        harm += f" that do not match, as they hold NULL or NaN: {rows}"
        return f"nothing was erased: {harm}; choose the rows by a field without NULL"
    if version < TIMESTAMPED_CELLS and name.t1 != name.t2:
        found = f"found {one.path} of version {version}; consolidate it with TileDB"
        return f"expected fragments that keep the times of cells, {found}"
    return None


def _by_time(dimensions: Sequence[Any], older: Any) -> tuple[tuple[int, Condition], ...]:
    """Make a delete for each moment, of the places whose earlier values go then."""
    groups: dict[int, list[Condition]] = {}
    for row, moment in zip(zip(*older.places, strict=True), older.until, strict=True):
        parts = tuple(
            Compare(field=one.name, op=Op.EQ, value=raw_value(one, value))
            for one, value in zip(dimensions, row, strict=True)
        )
        condition: Condition = parts[0] if len(parts) == 1 else AllOf(parts=parts)
        if condition not in groups.setdefault(moment, []):
            groups[moment].append(condition)
    return tuple(
        (moment, some[0] if len(some) == 1 else AnyOf(parts=tuple(some)))
        for moment, some in sorted(groups.items())
    )


def _foreseen(one: Rewrite) -> list[Step]:
    if not one.left:
        reason = f"hides {one.matches.path}: all of its rows match"
        return [Step(op="put", path=one.veil, size=None, reason=reason)]
    rows, gone = count_text(one.left, "row"), count_text(one.matches.matches, "match", "matches")
    reason = f"{rows} of {one.matches.folder.name.text}, without {gone}"
    return [
        Step(op="copy", path=one.folder, size=None, reason=reason, source=at_hand({})),
        put(write_uri(one.new.text), b"", "commits the new fragment"),
    ]


def _file_steps(one: FragmentMatches) -> list[Step]:
    reason = one.words
    if one.problem is not None:
        reason = "it is damaged, and its bytes hold a value"
    return [
        Step(op="remove", path=entry.path, size=entry.size, reason=reason)
        for entry in one.folder.files
    ]


def _removals(store: Store, folder: str) -> tuple[Step, ...]:
    files = store.list_prefix(folder)
    return tuple(Step(op="remove", path=f.path, size=f.size, reason=_LEFT) for f in files)


def _exchanged(path: str, old: bytes, lines: Sequence[str], new: str) -> Step:
    data = encode_exchanged(dict.fromkeys(lines), old)
    reason = f"it hides {new} too" if new else "it no longer lists what is erased"
    size = len(data)
    return Step(op="replace", path=path, size=size, reason=reason, data=data, old=old, keep=False)


def _names_of_commits(store: Store) -> set[str]:
    return {name.rpartition(".")[0] for name in store.list_names(COMMITS).files}


def _next_name(name: Name, version: int, taken: set[str]) -> Name:
    """Name the fragment that takes the place of another: its uuid follows at once.

    Of writes of one millisecond the one whose name is last shows (F13).
    """
    number = int(name.uuid, 16)
    while True:
        number = (number + 1) % (1 << 128)
        text = format_name(name.t1, name.t2, f"{number:032x}", version)
        if text not in taken:
            return parse_name(text)
