"""Replicate a whole folder: every array and every group in it, each in its own round.

In: the store of an array, of a group, or of a folder above them, and the place of the copy. Out:
the copy, and a `GroupReport` with a part for each place that changed. What has not changed costs
nothing but one listing of both sides.

The arrays of dimension labels go first, then arrays, then groups, the innermost first: a list of
members never names what is not there. A place that fails does not stop the others; the groups
around it wait for the next run. Files that are of no array and of no group are not copied.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change import operations
from chronotile.change.executor import execute
from chronotile.change.plan import Report
from chronotile.change.replica_reading import MUTABLE, is_log_file, root_of
from chronotile.change.replica_record import read_record, release
from chronotile.change.replicate import plan_replicate
from chronotile.check.findings import RefusedError, WrongPlaceError, count_text
from chronotile.dataset.over_members import GroupReport, MemberOutcome
from chronotile.errors import ArrayNotFoundError, ChangedError, ChronotileError, option
from chronotile.format.kinds import GROUP, GROUP_MARKER, LABELS, OLD_SCHEMA, OWN, SCHEMA
from chronotile.safe_text import printable
from chronotile.storage.prefetch import ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.change.plan import Plan
    from chronotile.storage.store import Entry, Store

_ATTEMPTS = 10
"""How often to begin a round again whose source changes."""
_PLACES_AT_ONCE = 8
"""Arrays that are copied at once, where each request takes a round trip."""


class ReplicateOptions(NamedTuple):
    """The options of `Handle.replicate`."""

    prune: bool = False
    check: bool = False
    dry_run: bool = False
    message: str | None = None
    before: Callable[[Report], None] | None = None
    """Called with the planned steps of each place, before anything is written there."""
    on_file: Callable[[], None] | None = None
    """Called after each file that is copied."""
    raises: bool = False
    """Raise the error of a place, and do not go on with the others."""


@dataclass(slots=True)
class _Pair:
    """An array or a group below the folder that is copied, on both sides."""

    root: str
    """Relative to the folder."""
    is_group: bool = False
    here: dict[str, int | None] = field(default_factory=dict)
    """Path -> size of its files in the source."""
    there: dict[str, int | None] = field(default_factory=dict)

    @property
    def order(self) -> tuple[bool, bool, int]:
        """Labels first, groups last, the innermost of them first."""
        return self.is_group, f"{LABELS}/" not in self.root, -self.root.count("/")


def replicate_tree(
    here: Store, there: Store, key: bytes | None, options: ReplicateOptions
) -> GroupReport:
    """Make a place hold copies of all arrays and groups of another one.

    Args:
        here: An array, a group, or a folder above them.
        there: The place of nothing yet, or of an earlier copy.
        key: The key of an encrypted source; see `plan_replicate`.
        options: What to do.

    Raises:
        WrongPlaceError: One place lies in the other, or is an array, and the other one a group.
        ArrayNotFoundError: The source has neither an array nor a group.
    """
    if there.place.is_below(here.place) or here.place.is_below(there.place):
        problem = "source and target are the same place"
        if there.uri != here.uri:
            problem = "source and target lie one inside of the other"
        raise WrongPlaceError(there.uri, problem)
    places, misnamed = _places(here, there)
    for place in places:
        if place.is_group and not place.root and (mixed := _mixed(place)) is not None:
            raise WrongPlaceError(there.uri, mixed)
    due = [place for place in places if not _is_unchanged(here, there, place)]
    run = _Run(here, there, key, options)
    outcomes: list[MemberOutcome] = []
    for order in sorted({place.order for place in due}):
        some = [place for place in due if place.order == order]
        threads = min(_PLACES_AT_ONCE, len(some)) if _is_slow(here, there) else 1
        done = [*ahead(run.replicate, some, threads)]
        run.failed |= {one.path for one in done if one.error is not None and not one.skipped}
        outcomes += done
    outcomes = [one for one in outcomes if one.has_steps or one.error or _has_findings(one)]
    same = len(places) - len(outcomes)
    notes: tuple[str, ...] = ()
    if same and len(places) > 1:
        changed = {one.path for one in outcomes}
        groups = sum(place.is_group for place in places if place.root not in changed)
        arrays = same - groups
        counts = [count_text(n, word) for n, word in ((groups, "group"), (arrays, "array")) if n]
        notes = (f"{' and '.join(counts)} unchanged",)
    if misnamed:
        files = count_text(len(misnamed), "file")
        notes += (f"{files} not copied: names out of bounds, such as {misnamed[0]}",)
    dry = options.dry_run or options.check
    return GroupReport("replicate", there.uri, dry_run=dry, outcomes=tuple(outcomes), notes=notes)


def replicate_array(
    here: Store, there: Store, key: bytes | None, options: ReplicateOptions
) -> Report:
    """Make a place hold a copy of an array, and of the arrays of its labels; see `replicate_tree`.

    Raises:
        RefusedError: Somebody else wrote to the copy, or the source is damaged.
        ChangedError: The source changes all the time; try again.
    """
    done = replicate_tree(here, there, key, options._replace(raises=True))
    reports = [(one.path, one.report) for one in done.outcomes if one.report is not None]
    joined = Report("replicate", there.uri, dry_run=done.dry_run, steps=(), notes=done.notes)
    for path, report in reports:
        above = f"{path}/" if path else ""
        joined = replace(
            joined,
            steps=joined.steps + tuple(replace(s, path=above + s.path) for s in report.steps),
            notes=joined.notes + report.notes,
            losses=tuple(dict.fromkeys(joined.losses + report.losses)),
            findings=joined.findings + report.findings,
            checksums={**joined.checksums, **{above + p: c for p, c in report.checksums.items()}},
        )
    return joined


def _is_slow(here: Store, there: Store) -> bool:
    """Tell whether requests take a round trip; on disks threads only wait for each other."""
    return max(here.concurrency, there.concurrency) > 1


def _has_findings(outcome: MemberOutcome) -> bool:
    return outcome.report is not None and bool(outcome.report.findings)


def _places(here: Store, there: Store) -> tuple[list[_Pair], list[str]]:
    """Find the arrays and groups of both sides, and files whose names are no paths."""

    def listed(store: Store) -> tuple[Entry, ...]:
        with suppress(ArrayNotFoundError):
            return store.list_files()
        return ()

    found: dict[str, _Pair] = {}
    misnamed: list[str] = []
    own, group = f"{OWN}/", (f"{GROUP}/", GROUP_MARKER)
    threads = 2 if _is_slow(here, there) else 1
    both = ahead(listed, (here, there), threads)
    for is_source, entries in zip((True, False), both, strict=True):
        for entry in entries:
            whole = entry.path
            root = root_of(whole)
            if root is None:
                continue
            if "\\" in whole:
                misnamed += [whole] if is_source else []
                continue
            place = found.get(root) or found.setdefault(root, _Pair(root))
            path = whole[len(root) + 1 :] if root else whole
            if not path.startswith(own):
                (place.here if is_source else place.there)[path] = entry.size
            if path.startswith(group):
                place.is_group = True
        if not found:
            raise ArrayNotFoundError(here.uri, "expected an array or a group, found neither")
    return sorted(found.values(), key=lambda place: (place.order, place.root)), misnamed


def _is_unchanged(here: Store, there: Store, place: _Pair) -> bool:
    """Tell whether both sides have the same files: by name and size, and some by content."""
    if place.here != place.there or place.is_group:
        return not place.here and not place.there
    mutable = [path for path in place.here if path.endswith(MUTABLE) and is_log_file(path)]
    if not mutable:
        return True
    sides = (_below(store, place.root).read_many(mutable) for store in (here, there))
    return all(isinstance(a, bytes) and a == b for (_, a), (_, b) in zip(*sides, strict=True))


@dataclass(slots=True)
class _Run:
    here: Store
    there: Store
    key: bytes | None = field(repr=False)
    options: ReplicateOptions
    failed: set[str] = field(default_factory=set)
    """Places whose round failed."""

    def replicate(self, place: _Pair) -> MemberOutcome:
        """Do rounds of one place until one ends."""
        here, there = _below(self.here, place.root), _below(self.there, place.root)
        outcome = MemberOutcome(path=place.root, array=there.uri, is_group=place.is_group)
        inside = [path for path in self.failed if _is_inside(path, place.root)]
        try:
            if place.is_group and inside:
                problem = f"the group's own files wait until {inside[0]} is copied"
                raise RefusedError(there.uri, problem)
            if place.is_group and (mixed := _mixed(place)) is not None:
                raise RefusedError(there.uri, mixed)
            if not place.here and (words := self._stays(here, there)) is not None:
                return replace(outcome, error=words, skipped=True)
            return replace(outcome, report=self._round(here, there, place))
        except ChronotileError as error:
            if self.options.raises:
                raise
            return replace(outcome, error=str(error), status=error.exit_code)

    def _stays(self, here: Store, there: Store) -> str | None:
        """Say why a place that only the target has is left alone; None if it is not."""
        record = read_record(there)
        if record is None:
            return "only in the target, and not put there by replicate: it stays"
        if record.source != here.uri:
            return f"only in the target, and a copy of {printable(record.source)}: it stays"
        is_asked = self.options.prune or self.options.check
        return None if is_asked else f"only in the target; to remove it, add {option('prune')}"

    def _round(self, here: Store, there: Store, place: _Pair) -> Report:
        options = self.options
        is_new = read_record(there) is None

        def plan() -> Plan:
            return plan_replicate(
                here,
                there,
                self.key,
                is_group=place.is_group,
                prune=options.prune,
                tree=(self.here.place, self.there.place),
                gone=not place.here,
                check=options.check,
            )

        for attempt in range(1, _ATTEMPTS + 1):
            try:
                planned = plan()
                if options.dry_run or options.check:
                    return planned.report()
                report = execute(there, planned, before=options.before, on_file=options.on_file)
            except (ChronotileError, KeyboardInterrupt) as error:
                release(there)
                if not isinstance(error, ChangedError) or attempt == _ATTEMPTS:
                    raise
            else:
                break
        if is_new and report.steps:
            operations.note_copy(here, there, "replicate", options.message)
        return report


def _mixed(place: _Pair) -> str | None:
    """Say that one side is an array and the other one a group; None if both are groups."""
    schemas = (f"{SCHEMA}/", OLD_SCHEMA)
    if any(path.startswith(schemas) for path in place.here):
        return "the source is an array, and the target a group"
    if any(path.startswith(schemas) for path in place.there):
        return "the source is a group, and the target an array"
    return None


def _below(store: Store, root: str) -> Store:
    return store.at(store.place.child(root)) if root else store


def _is_inside(path: str, root: str) -> bool:
    return not root or path.startswith(f"{root}/")
