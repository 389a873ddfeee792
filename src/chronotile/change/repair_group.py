"""Repair of a group's own files: the engine opens the group again.

In: a group. Out: the plan of the group without the lists of members and the metadata that the
engine cannot read, which go into the quarantine. Touches no member.

An engine writes a list in place, so a session that was killed can leave one that is empty or cut
short, and no window that sees it opens any more. What stands before the cut is as it was written:
these entries go into a new list of the same times. Whatever else only that list told is lost, and
the report says so. The order: the manifest; the new lists; then each damaged file is copied,
compared and removed. Broken off anywhere, the same command goes on.

Of a group that somebody copied, members that are listed elsewhere and whose copies lie in the
folder become relative, in every list.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chronotile.change.operations import is_of_this, schema_names
from chronotile.change.plan import Plan, Seen, Stage, Step, put
from chronotile.change.repair import lost_metadata
from chronotile.check.check_array import group_metadata
from chronotile.check.findings import SEALED, Finding, RefusedError, count_text, finding, wrong_key
from chronotile.errors import ArrayNotFoundError, ChronotileError, TooLargeError
from chronotile.format.groups import decode_start, encode_details
from chronotile.format.kinds import GROUP
from chronotile.format.names import MAX_TIMESTAMP, new_name, try_parse
from chronotile.format.tiles import readable_start
from chronotile.format.timestamps import now_ms
from chronotile.history.group_reading import GroupHistory, read_group
from chronotile.history.listing import is_array, is_group
from chronotile.storage.overlay import overlaid
from chronotile.storage.place import find_place
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.group_members import members_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.format.groups import ReadableStart
    from chronotile.history.read_history import Problem
    from chronotile.storage.place import Entry, Place
    from chronotile.storage.store import Store

_FRESH_MS = 60_000
"""A list on a disk that changed within this time may still be in the writing."""


@dataclass(slots=True)
class _Mend:
    puts: list[Step] = field(default_factory=list)
    moves: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)


def plan_repair_group(store: Store, key: bytes | None) -> Plan:
    """Plan to take out of a group what keeps the engine from opening it, and save what is readable.

    Raises:
        RefusedError: A damaged list has just changed: somebody may be writing it.
    """
    history = read_group(store, key=key)
    mend = _planned(store, history)
    copied = () if mend.moves else tuple(_name_copies(store, history, mend))

    def look(store: Store) -> Seen:
        """Look why the engine still cannot open the group."""
        return Seen(findings=tuple(_wrong(store, key)))

    stages = (
        Stage(name="save", seen="the group is as it was", steps=tuple(mend.puts)),
        Stage(
            name="take out",
            seen="windows that saw no damaged list open, and those without one left",
            steps=tuple(mend.moves),
        ),
        Stage(name="members", seen="some lists name the copies", steps=copied),
        Stage(name="check", seen="the group is mended", looks=(look,)),
    )
    return Plan(
        command="repair",
        array=store.uri,
        stages=stages if mend.moves or copied else (),
        notes=tuple(mend.notes),
        findings=tuple(mend.left),
    )


def mended_history(store: Store, key: bytes | None) -> GroupHistory:
    """Give the history of a group as it will be once it is repaired.

    Raises:
        ArrayNotFoundError: There is no group.
        RefusedError: A damaged list has just changed.
        StorageError: The storage failed.
    """
    plan = plan_repair_group(store, key)
    files = {step.path: step.data for step in plan.steps if step.op in ("put", "replace")}
    shown = overlaid(store, files, without=[s.path for s in plan.steps if s.op == "move"])
    return read_group(shown, key=key)


def is_passed_over(problem: Problem) -> bool:
    """Tell whether the engine opens a group over a problem: it does with every `.vac`."""
    return problem.path.endswith(".vac")


def _planned(store: Store, history: GroupHistory) -> _Mend:
    plan = _Mend()
    there = {entry.path: entry for entry in store.list_dir(GROUP, sizes=True).files}
    for problem in history.problems:
        if is_passed_over(problem):
            continue
        if problem.path not in there or problem.kind == "encrypted":
            plan.left.append(_finding_on(history, problem))
            continue
        _refuse_fresh(store, there[problem.path])
        try:
            data = store.read(problem.path)
        except MissingObjectError:
            continue
        except TooLargeError:
            plan.left.append(_finding_on(history, problem))
            continue
        plan.moves.append(_move(problem.path, data, f"a list of members: {problem.message}"))
        if problem.kind == "tile":
            _save(history, problem.path, data, plan)
    for item in group_metadata(store, history):
        if item.code == SEALED:
            plan.left.append(item)
            continue
        with suppress(MissingObjectError, TooLargeError):
            data = store.read(item.path)
            plan.moves.append(_move(item.path, data, f"metadata: {item.message}"))
            plan.notes.append(lost_metadata(store.uri, item.path))
    return plan


def _move(path: str, data: bytes, reason: str) -> Step:
    return Step(op="move", path=path, size=len(data), reason=reason, data=data)


def _refuse_fresh(store: Store, entry: Entry) -> None:
    """Refuse a list on a disk that somebody may be writing."""
    if not store.traits.shows_partial_files or entry.modified_ms is None:
        return
    if now_ms() - entry.modified_ms < _FRESH_MS:
        words = f"expected lists of members at rest, found {entry.path}, which has just changed"
        hint = "it may still be in the writing; try again in a minute"
        raise RefusedError(store.uri, f"{words}: {hint}")


def folders_beside(store: Store) -> dict[str, str]:
    """List the arrays and groups right in a group's folder: name -> its kind."""
    names = [name for name in store.list_dir().folders if not name.startswith("__")]

    def kind(name: str) -> str | None:
        try:
            folder = store.child(name).list_dir()
        except ChronotileError:
            return None
        return "array" if is_array(folder) else "group" if is_group(folder) else None

    kinds = ahead(kind, names, min(store.concurrency, len(names)))
    return {name: found for name, found in zip(names, kinds, strict=True) if found is not None}


def twin_of(place: Place, store: Store, beside: Mapping[str, str]) -> str | None:
    """Find the folder of a copied member in a copied group, if its place is elsewhere."""
    last = place.root.rpartition("/")[2]
    return last if last in beside and not place.is_below(store.place) else None


def _name_copies(store: Store, history: GroupHistory, plan: _Mend) -> Iterator[Step]:
    """Let lists of a copied group name the copies of its members."""
    beside = folders_beside(store)
    moved: dict[str, str | None] = {}

    def copy_of(uri: str) -> str | None:
        """Give the copy of a member: the same array or group, or what is left of one."""
        with suppress(ChronotileError):
            place = find_place(uri)
            twin = twin_of(place, store, beside)
            if twin is None:
                return None
            names: tuple[str, ...] = ()
            with suppress(ArrayNotFoundError):
                names = schema_names(store.at(place))
            known, copy = {"schema": next(iter(names), None), "schemas": names}, store.child(twin)
            if is_of_this(known, copy, schema_names(copy)):
                return twin
            plan.notes.append(f"{uri} stays: {twin} in the folder is another {beside[twin]}")
        return None

    for file in history.files:
        if file.details is None or file.data is None:
            continue
        entries = []
        for entry in file.details.entries:
            if not entry.is_relative and entry.uri not in moved:
                moved[entry.uri] = copy_of(entry.uri)
            twin = None if entry.is_relative else moved[entry.uri]
            entries.append(entry._replace(uri=twin, is_relative=True) if twin else entry)
        if tuple(entries) != file.details.entries:
            key = history.key if file.encrypted else None
            data = encode_details(
                entries,
                format_version=file.format_version,
                key=key,
                version=file.details.version,
            )
            reason = "names the copies of members in this folder"
            yield Step(
                op="replace",
                path=file.path,
                size=len(data),
                reason=reason,
                data=data,
                old=file.data,
            )


def list_findings(history: GroupHistory) -> Iterator[Finding]:
    """Find lists of members that cannot be read, or that the engine cannot open together."""
    for problem in history.problems:
        yield _finding_on(history, problem)
    if not history.problems:
        try:
            members_at(history, 0, MAX_TIMESTAMP)
        except ChronotileError as error:
            hint = "write the group's members again with one version of TileDB"
            yield finding(history.group, "tile-corrupt", GROUP, error.problem, hint=hint)


def _finding_on(history: GroupHistory, problem: Problem) -> Finding:
    message = f"a list of members: {problem.message}"
    if problem.kind == "encrypted" and history.key is not None:
        return wrong_key(history.group, problem.path, message)
    if problem.kind == "encrypted":
        return finding(history.group, SEALED, problem.path, message)
    code = "name-malformed" if problem.kind == "name" else "tile-corrupt"
    hint = "to take it out (TileDB cannot open the group over it): chronotile repair {array}"
    if is_passed_over(problem):
        hint = "nothing to run: TileDB passes over it"
    return finding(history.group, code, problem.path, message, hint=hint)


def _save(history: GroupHistory, path: str, data: bytes, plan: _Mend) -> None:
    """Put the members that can be read in a damaged list into a new one."""
    start = decode_start(readable_start(data), path)
    plan.notes.append(_loss(path, start))
    name = try_parse(path.rpartition("/")[2])
    if start is None or not start.entries or name is None:
        return
    twins = [file for file in history.files if file.name[:2] == name[:2]]
    if any(file.details is not None and file.details.entries == start.entries for file in twins):
        return  # a repair that was broken off has put it
    version = int.from_bytes(data[:4], "little")
    saved = encode_details(start.entries, format_version=version)
    reason = f"{count_text(len(start.entries), 'entry', 'entries')} of {path}"
    plan.puts.append(put(f"{GROUP}/{new_name(name.t1, name.t2, 2)}", saved, reason))


def _loss(path: str, start: ReadableStart | None) -> str:
    if start is not None:
        lost = start.stated - len(start.entries)
        kept = count_text(len(start.entries), "entry", "entries")
        return (
            f"{path} was cut short: {kept} of {start.stated} can be read and stay, {lost} are lost"
        )
    return (
        f"what only {path} says is lost: members that it added leave the group (chronotile check "
        "finds them in the folder), and members that it removed come back"
    )


def _wrong(store: Store, key: bytes | str | None) -> Iterator[Finding]:
    """Find out why the engine cannot open the group, or read its metadata."""
    history = read_group(store, key=key)
    passed = {problem.path for problem in history.problems if is_passed_over(problem)}
    yield from (item for item in list_findings(history) if item.path not in passed)
    yield from group_metadata(store, history)
