"""Undo: a change of ours is taken back, by the record that it left.

In: an array or a group's own files, and the record of an operation. Out: the plan that takes it
back, with all that others wrote since left as it is; or a refusal. What the change put goes into
the quarantine of the undo, what it moved comes out of its own; so an undo can be undone too.

A change is taken back only if that loses nothing and leaves nothing half done:

  - what it put is there as it was put, or gone;
  - no other commit stands only in one of these files;
  - none of its commits stands in another file too, or was merged into a fragment since;
  - what it hid is still there: a vacuum makes a change final;
  - no later change that stands builds on it.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.change import operations
from chronotile.change.past_state import UnreachableError
from chronotile.change.plan import FOLDERS, Plan, Source, Stage, Step, put
from chronotile.change.restore import plan_restore
from chronotile.check.findings import RefusedError
from chronotile.conditions.tree import fields
from chronotile.errors import BadTimeError, ChangedError, ChronotileError, WrongCallError
from chronotile.format import tiles
from chronotile.format.commit_files import (
    commit_name,
    decode_con,
    decode_vac,
    encode_exchanged,
    vacuumed_name,
)
from chronotile.format.fragment_footer import read_head
from chronotile.format.kinds import COMMITS, FRAGMENT_META, FRAGMENTS, GROUP, META, SCHEMA, WRITES
from chronotile.format.names import MAX_TIMESTAMP, format_name, parse_name, try_parse
from chronotile.format.schema import more_content
from chronotile.format.timestamps import time_text, to_ms
from chronotile.history.listing import is_group_at
from chronotile.history.read_footers import FooterReader, RawFooter
from chronotile.history.read_history import read_history
from chronotile.safe_text import shell_word
from chronotile.storage.overlay import overlaid
from chronotile.storage.place import is_path
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.gaps import gap_in
from chronotile.visibility.rules import Rules, visible_metadata
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chronotile.change.operations import Operation
    from chronotile.history.read_history import History, SchemaFile
    from chronotile.storage.store import Store


NOTHING = "nothing to undo: chronotile has made no change here that can be undone"
"""The refusal of an undo where no change stands."""
_TOUCHED = re.compile(
    rf"(?:{COMMITS}|{META}|{SCHEMA}|{FRAGMENT_META}|{FRAGMENTS}|{GROUP})/.+"
    r"|[^/]+\.(?:ok|vac|meta)|__[0-9a-f_]{33,}/__fragment_metadata\.tdb",
    re.DOTALL,
)
"""Paths of files that changes touch; those of an array before version 12 lie in its root."""
_SHOWING = ("apply", "delete", "publish", "restore", "undelete", "update")
"""Changes of the rows that an array shows: a restore can bring back what it showed before."""
_TRIED = 5
"""How many earlier changes a refusal looks at, to name one that can be undone."""
_WHOLE = ("restore", "undelete")
"""Changes that say what the whole array shows: an older change cannot be taken back below them."""


def plan_undo(store: Store, key: bytes | None, *, operation: str | None = None) -> Plan:
    """Plan to take back a change: the last one that stands, or that one; see `Handle.undo`."""
    names = operations.schema_names(store)
    known = [
        one for one in operations.list_operations(store) if operations.is_own(store, one, names)
    ]
    target = _chosen(store, known, operation)
    record = standing_record(store, known, target)
    others = _changes(known, "done") if operation is None else []
    others = [one for one in others if one.command not in operations.UPKEEP]
    refuse_final(store, key, record, others)
    refuse_built_on(store, key, known, target, record)
    return refuse_nothing(plan_inverse(store, key, record))


def _refusal_of(store: Store, key: bytes | None, operation: Operation) -> str | None:
    """Say why an operation cannot be undone; None if it can."""
    try:
        plan_undo(store, key, operation=operation.id)
    except ChronotileError as error:
        return error.problem
    return None


def refuse_nothing(plan: Plan) -> Plan:
    """Refuse a plan that finds nothing to take back."""
    if not plan.steps:
        gone = "no file is left of what the change put: it was undone, or a vacuum removed it"
        hint = f"to see what stands: chronotile operations {shell_word(plan.array)}"
        raise RefusedError(plan.array, f"nothing to undo: {gone}; {hint}")
    return plan


def _chosen(store: Store, known: Sequence[Operation], wanted: str | None) -> Operation:
    """Choose the operation that is to be taken back."""
    if wanted is not None:
        fitting = [one for one in known if one.id.startswith(wanted.lower())]
        if len(fitting) != 1:
            found = f"of {len(fitting)} operations" if fitting else "of no operation"
            problem = f"{wanted!r:.40} begins the id {found}"
            hint = f"to list all: chronotile operations {shell_word(store.uri)}"
            raise WrongCallError(store.uri, f"{problem}; {hint}")
        if fitting[0].state == "undone":
            again = _redo(store, known, fitting)
            raise RefusedError(store.uri, f"{wanted} is undone already{again}")
        return fitting[0]
    if standing := _changes(known, "done", "final"):
        return standing[0]
    raise nothing_to_undo(store, known)


def nothing_to_undo(store: Store, known: Sequence[Operation]) -> RefusedError:
    """Make the refusal where no change stands; it names the undo to take back, if there is one."""
    again = _redo(store, known, _changes(known, "undone"))
    nothing = f"nothing to undo: every change is undone{again}"
    return RefusedError(store.uri, nothing if again else NOTHING)


def _changes(known: Sequence[Operation], *states: str) -> list[Operation]:
    """List the changes of some states, the newest first, without undos and copies."""
    others = ("undo", *operations.COPIES)
    return [one for one in known if one.state in states and one.command not in others]


def _redo(store: Store, known: Sequence[Operation], undone: Sequence[Operation]) -> str:
    """Say how to redo the change that was undone last; nothing if no undo of one stands."""
    changes = {one.id: one for one in undone}
    for one in known:
        if (one.command, one.state) != ("undo", "done"):
            continue
        change = changes.get(str(operations.read_operation(store, one).get("undoes")))
        if change is not None:
            what = f"{change.command} {change.id}"
            return f"; to redo the {what}: chronotile undo {shell_word(store.uri)} {one.id}"
    return ""


def _redo_first(store: Store, known: Sequence[Operation], name: str) -> str:
    """Name the undo that took a file out which another redo needs; nothing if none did."""
    for one in known:
        if (one.command, one.state) == ("undo", "done"):
            moved = (step for step in read_record(store, one).steps if step.get("op") == "move")
            if any(str(step.get("path")).endswith(name) for step in moved):
                return f"; to bring it back first: chronotile undo {shell_word(store.uri)} {one.id}"
    return ""


def standing_record(store: Store, known: Sequence[Operation], target: Operation) -> ChangeRecord:
    """Read the record of a change; of one that came again, with the steps that brought it."""
    record = read_record(store, target)
    undos = [one for one in known if one.command == "undo"]
    undoes = {one.id: str(operations.read_operation(store, one).get("undoes")) for one in undos}
    for one in undos:
        if one.state == "done" and undoes.get(undoes[one.id]) == target.id:
            again = read_record(store, one)
            parts = {name: again.document.get(name, []) for name in ("steps", "members")}
            document = {**record.document, **parts}
            return again._replace(id=target.id, document=document)
    return record


class ChangeRecord(NamedTuple):
    """The record of an operation, with its quarantine."""

    id: str
    document: Mapping[str, Any]
    quarantine_store: Store
    """Where the files are that it moved."""
    folder: str
    """In that store."""

    @property
    def command(self) -> str:
        """The name of the change."""
        return str(self.document.get("command"))

    @property
    def undoes(self) -> str | None:
        """The id of the operation that it takes back, if it is an undo."""
        return self.document.get("undoes")

    @property
    def steps(self) -> list[Mapping[str, Any]]:
        """The steps that it did, in order."""
        return list(self.document.get("steps", ()))

    @property
    def removes(self) -> bool:
        """Return True if it removed files, other than those that it put itself."""
        puts = {step.get("path") for step in self.steps if step.get("op") == "put"}
        return any(s.get("op") == "remove" and s.get("path") not in puts for s in self.steps)

    @property
    def added(self) -> set[str]:
        """URIs of the commits that it added, among them those of fragments that it made."""
        steps = [(step.get("op"), str(step.get("path"))) for step in self.steps]
        made = {path.rpartition("/")[2] for op, path in steps if op in FOLDERS}
        own = {path for op, path in steps if op == "put" and path.endswith(WRITES)}
        own = {path for path in own if path.rpartition("/")[2].rpartition(".")[0] in made}
        return own.union(str(uri) for uri in self.document.get("added", ()))

    @property
    def hidden(self) -> frozenset[str]:
        """Names of the fragments that it hid."""
        return frozenset(str(name) for name in self.document.get("hidden", ()))


def read_record(store: Store, operation: Operation) -> ChangeRecord:
    """Read the record of an operation."""
    document = operations.read_operation(store, operation)
    return ChangeRecord(operation.id, document, store, operation.quarantine)


def refuse_final(
    store: Store, key: bytes | None, record: ChangeRecord, others: Sequence[Operation] = ()
) -> None:
    """Refuse a change that removed files; name the last of others that can be undone."""
    if record.command == "erase" and record.removes:
        raise RefusedError(
            store.uri, "nothing was changed: an erase is final; the erased rows are gone for good"
        )
    if record.removes:
        problem = "it removed files"
    elif record.document.get("state") == "final":
        problem = "a vacuum or an erase removed what it needs"
    else:
        return
    for one in others[:_TRIED]:
        if _refusal_of(store, key, one) is None:
            undo = f"chronotile undo {shell_word(store.uri)} {one.id}"
            hint = f"to undo the {one.command} before it: {undo}"
            raise RefusedError(store.uri, f"{_cannot(record)}: {problem}; {hint}")
    raise refusal(store, key, record, problem)


def refuse_built_on(
    store: Store,
    key: bytes | None,
    known: Sequence[Operation],
    target: Operation,
    record: ChangeRecord,
) -> None:
    """Refuse to take back an older change below a later one that builds on it."""
    later = [one for one in known if (one.at_ms, one.id) > (target.at_ms, target.id)]
    names = {commit_name(uri).text for uri in record.added} | record.hidden
    paths = {str(step.get("path")) for step in record.steps}
    names |= {path.rpartition("/")[2] for path in paths if path.startswith(f"{META}/")}
    for one in later:
        if one.state != "done" or one.command == "undo":
            continue
        other = read_record(store, one)
        touched = {str(step.get("path")) for step in other.steps}
        held = other.hidden | set(_held(store, other))
        # A later apply may have written rows again that this one wrote.
        is_again = one.command == target.command == "apply"
        is_built = is_again or one.command in _WHOLE or not names.isdisjoint(held)
        if is_built or not paths.isdisjoint(touched):
            problem = f"the later {one.command} {one.id} builds on it"
            if _refusal_of(store, key, one) is not None:
                raise refusal(store, key, record, f"{problem}, and cannot be undone either")
            hint = f"to undo that first: chronotile undo {shell_word(store.uri)} {one.id}"
            raise RefusedError(store.uri, f"{_cannot(record)}: {problem}; {hint}")


def _held(store: Store, record: ChangeRecord) -> Iterator[str]:
    """Name what the files of a change hold: commits in a `.con`, what a `.vac` replaces."""
    for step in record.steps:
        path = str(step.get("path"))
        if step.get("op") != "put" or not path.endswith((".con", ".vac")):
            continue
        with suppress(MissingObjectError):
            data = store.read(path)
            if path.endswith(".con"):
                yield from (commit_name(one.uri).text for one in decode_con(data, path))
            else:
                yield from map(vacuumed_name, decode_vac(data, path))


def taken_back(document: Mapping[str, Any]) -> str:
    """Name the change that is taken back."""
    when = document.get("time")
    with suppress(BadTimeError):  # if it is no time, it is shown as it is
        when = time_text(to_ms(str(when), "time"))
    command = document.get("command")
    what = "removal of a tag" if command == "untag" else command
    return f"undoes the {what} of {when}"


def plan_inverse(
    store: Store, key: bytes | None, record: ChangeRecord, *, begun: ChangeRecord | None = None
) -> Plan:
    """Plan the steps of a record backwards, as far as they were done.

    Args:
        store: The array, or the group.
        key: Its key.
        record: What is taken back.
        begun: The undo that was broken off, and is to be finished.

    Raises:
        RefusedError: It cannot be taken back without a loss.
    """
    back: set[str] = set()
    if is_group_at(store):
        inverse = _Inverse(store, record, begun)
        steps = inverse.steps()
        _refuse_gone_vac(store, key, record, inverse)
        _refuse_gone_lists(store, inverse)
    else:
        history = read_history(store, key=key)
        keep, schemas = _schemas_in_use(store, history, record, begun)
        inverse = _Inverse(store, record, begun, keep)
        steps = inverse.steps()
        before, after = _effective(history), _after(store, history, inverse)
        if before - after - record.added:
            inverse = _Inverse(store, record, begun, keep | _cons_of_others(record, inverse))
            steps = inverse.steps()
            after = _after(store, history, inverse)
        judge = _Judge(store, history, record, inverse)
        judge.judge(after)
        if begun is None and inverse.has_steps:
            judge.refuse_other_redo(before, after)
        back = after - before
        # First: a run that was broken off finds out by the schemas that go which ones come back.
        steps = (*schemas, *steps)
    back_first = {step.path for step in steps if step.op == "put"}
    exchanged = [one for one in steps if one.op == "replace" and one.path not in back_first]
    shown = tuple(step for step in exchanged if step.path.endswith(".vac"))
    rest = tuple(step for step in steps if step not in shown)

    def look(now: Store) -> None:
        """Look whether what shows again is there; if a vacuum removed it, hide it again.

        Raises:
            RefusedError: A vacuum removed it; the change stands.
        """
        try:
            _Judge(now, read_history(now, key=key), record, inverse).refuse_vacuumed()
        except RefusedError:
            for step in shown:
                lines = decode_vac(step.old, step.path)
                with suppress(ChangedError):  # Gone: then nothing hides what the change showed.
                    now.exchange(step.path, step.data, encode_exchanged(lines, step.data))
            raise

    stages = (
        Stage(name="show again", seen="the array is as it was before the change", steps=shown),
        Stage(
            name="take back",
            seen="the change is there in part",
            looks=(look,) if shown else (),
            steps=rest,
            folders=_empty_folders(store, inverse),
        ),
    )
    return Plan(
        command="undo",
        array=store.uri,
        stages=tuple(stage for stage in stages if stage.steps or stage.folders),
        notes=(taken_back(record.document),),
        added=tuple(sorted(back)),
        undoes=record.id,
    )


class _Inverse:
    """The steps of a record, backwards, from what is there now."""

    def __init__(
        self,
        store: Store,
        record: ChangeRecord,
        begun: ChangeRecord | None,
        keep: frozenset[str] = frozenset(),
    ) -> None:
        self.store, self.record, self._keep = store, record, keep
        own = () if begun is None else begun.steps
        self.taken = {str(step.get("path")) for step in own if step.get("op") == "move"}
        """What an undo that was broken off may have taken out already."""
        self._own = {(s.get("path"), s.get("sha256")) for s in own if s.get("op") == "replace"}
        """Files as such an undo may have left them."""
        moves = [step for step in record.steps if step.get("op") == "move"]
        self._moved = {(step.get("path"), step.get("sha256")) for step in moves}
        """Files as they were before the change moved them."""
        self.puts: dict[str, bytes] = {}
        """Files that the change put, and that go."""
        self.back: dict[str, bytes] = {}
        """Files that the change took out, and that come back."""
        self._exchanged: set[str] = set()
        """Files whose content the steps so far have exchanged."""
        self.has_steps = False
        self.empty: list[str] = []
        """Folders that the change may have made, without a file in them."""
        self._now: dict[str, bytes | None] = {}
        """Files as they are after the steps so far; None if gone."""

    def steps(self) -> tuple[Step, ...]:
        """Plan them."""
        numbered: list[tuple[int, Mapping[str, Any]]] = []
        moves = 0
        for step in self.record.steps:
            numbered.append((moves, step))
            moves += step.get("op") in ("move", "replace")
        found: list[Step] = []
        for number, step in reversed(numbered):
            path = str(step.get("path"))
            if not is_path(path) or not _TOUCHED.fullmatch(path):
                problem = f"expected what a change touches, found {path!r:.120}"
                raise RefusedError(self.store.uri, problem)
            found += self._inverse(number, step, path)
        self.has_steps = bool(found)
        # What ignores commits goes after what holds them.
        return tuple(sorted(found, key=lambda one: one.path.endswith(".ign")))

    def _content(self, path: str) -> bytes | None:
        if path not in self._now:
            try:
                self._now[path] = self.store.read(path)
            except MissingObjectError:
                self._now[path] = None
        return self._now[path]

    def _inverse(self, number: int, step: Mapping[str, Any], path: str) -> Iterator[Step]:
        op, reason = step.get("op"), f"put by {self.record.command}, which is undone"
        if op == "put":
            data = self._content(path)
            if data is None or path in self._keep:
                return
            known = (path, hashlib.sha256(data).hexdigest())
            if known in self._moved and known[1] != step.get("sha256"):
                return  # it was not moved yet, so that no other took its place
            is_own = known in self._own
            if path not in self._exchanged and not is_own:
                self._refuse_other(path, data, step)
            self.puts[path] = data
            self._now[path] = None
            yield Step(op="move", path=path, size=len(data), reason=reason, data=data)
        elif op == "replace":
            data = self._content(path)
            if data is None or hashlib.sha256(data).hexdigest() != step.get("sha256"):
                return  # it was not exchanged yet
            old, why = self._read_quarantined(number, step, path), "as before"
            if path.endswith(".vac"):
                # An engine that keeps what it read of the file must see that it has changed.
                old = encode_exchanged(decode_vac(old, path), data)
                if any((s.get("op"), s.get("path")) == ("put", path) for s in self.record.steps):
                    why = f"hides what the {self.record.command} put, until that is moved away"
            self._exchanged.add(path)
            self._now[path] = old
            yield Step(op="replace", path=path, size=len(old), reason=why, data=old, old=data)
        elif op == "move":
            yield from self._put_back(number, step, path)
        elif op in FOLDERS:
            yield from self._take_folder(path, reason)

    def _refuse_other(self, path: str, data: bytes, step: Mapping[str, Any]) -> None:
        if hashlib.sha256(data).hexdigest() != step.get("sha256"):
            problem = f"somebody has changed {path} since"
            raise RefusedError(self.store.uri, f"{_cannot(self.record)}: {problem}")

    def _place(self, number: int, path: str) -> str:
        return f"{self.record.folder}/{number:04}-{path.rpartition('/')[2]}"

    def _read_quarantined(self, number: int, step: Mapping[str, Any], path: str) -> bytes:
        """Read what the quarantine keeps of a file."""
        if "old" in step:  # a report of an earlier version
            return str(step["old"]).encode()
        try:
            return self.record.quarantine_store.read(self._place(number, path))
        except MissingObjectError:
            problem = f"{path} is gone from the quarantine"
            raise RefusedError(self.store.uri, f"{_cannot(self.record)}: {problem}") from None

    def _put_back(self, number: int, step: Mapping[str, Any], path: str) -> Iterator[Step]:
        """Put a file back that the change moved into its quarantine."""
        if step.get("files"):
            yield from self._copy_back(self._place(number, path), path, step)
            return
        there = self._content(path)
        if there is not None and hashlib.sha256(there).hexdigest() == step.get("sha256"):
            return
        data = self._read_quarantined(number, step, path)
        if there is not None:
            problem = f"another {path} has taken the place of the one that would come back"
            raise RefusedError(self.store.uri, f"{_cannot(self.record)}: {problem}")
        self._refuse_other(path, data, step)
        self._now[path] = self.back[path] = data
        yield put(path, data, "out of the quarantine")

    def _copy_back(self, kept: str, path: str, step: Mapping[str, Any]) -> Iterator[Step]:
        """Copy a folder back that an undo moved into its quarantine."""
        names = {str(name): int(size) for name, size in dict(step["files"]).items()}
        if is_whole_folder(self.store, path, names):
            return
        source = Source(
            self.record.quarantine_store,
            {f"{kept}/{name}": f"{path}/{name}" for name in names},
            {f"{path}/{name}": size for name, size in names.items()},
        )
        size = sum(names.values())
        yield Step(op="copy", path=path, size=size, reason="out of the quarantine", source=source)

    def _take_folder(self, path: str, reason: str) -> Iterator[Step]:
        """Move a copied fragment into the quarantine of the undo."""
        files = self.store.list_prefix(path)
        if not files:
            self.empty.append(path)
            return
        sizes = {entry.path: entry.size for entry in files}
        source = Source(self.store, {name: name for name in sizes}, sizes)
        size = sum(entry.size or 0 for entry in files)
        yield Step(op="move", path=path, size=size, reason=reason, source=source)


def _empty_folders(store: Store, inverse: _Inverse) -> tuple[str, ...]:
    """Name the empty folders that a change left which was killed before it filled them."""
    if not inverse.empty:
        return ()
    there = {f"{FRAGMENTS}/{name}" for name in store.list_names(FRAGMENTS).folders}
    return tuple(path for path in inverse.empty if path in there)


def _cons_of_others(record: ChangeRecord, inverse: _Inverse) -> frozenset[str]:
    """Name the `.con` files that hold only what was there before: others rely on them by now."""
    return frozenset(
        path
        for path, data in inverse.puts.items()
        if path.endswith(".con")
        and record.added
        and record.added.isdisjoint(one.uri for one in decode_con(data, path))
    )


def _schemas_in_use(
    store: Store, history: History, record: ChangeRecord, begun: ChangeRecord | None
) -> tuple[frozenset[str], tuple[Step, ...]]:
    """Find the schemas that a change put and that later writes use: their files stay.

    From an evolution of the engine on, its schema counts, even if it says the same as one that
    goes: whoever evolved the array asked for it. A file that a change of ours put later, such as a
    publication, says only what the array's schema was; so it does not count.

    Returns:
        Their paths; and the steps that bring the schema of before back all the same: a file that
        says it gets the same moment, and a name behind theirs.

    Raises:
        RefusedError: A delete since names a field that the schema of before lacks (F8).
    """
    names = _put_schemas(record)
    if not names:
        return frozenset(), ()
    table, rules = history.table, Rules(history)
    added = {commit_name(uri).text for uri in record.added}
    rows = rules.fragment_rows[~rules.missing].tolist()
    later = [name for name in map(table.name, rows) if name not in added]
    used = {
        str(read_head(raw.raw, name).schema_name)
        for name, raw in FooterReader(store, history).read_raw(later)
        if isinstance(raw, RawFooter)
    }
    files = {one.text: one for one in history.schemas}
    content = {text: store.read(one.path) for text, one in files.items()}
    says = {text: _said(one, content[text], history.key) for text, one in files.items()}
    ours = _schemas_of_ours(store)
    # In order of time. What an undo that was broken off has put is planned once more.
    again = frozenset() if begun is None else _put_schemas(begun) - names
    steps, texts = [], [text for text in files if text not in again]
    # No window sees a file that has another one of the same moment behind it.
    behind = {a for a, b in pairwise(texts) if a.rpartition("_")[0] == b.rpartition("_")[0]}
    for name in sorted(names & files.keys()):
        at = texts.index(name)
        before = [text for text in texts[:at] if text not in names]
        if not before or says[name] == says[before[-1]]:
            continue
        _refuse_unknown_fields(store, rules, record, files[before[-1]])
        # Later files of ours that say the same came with writes: the engine goes by the last one.
        # An evolution by the engine says what its author asked for.
        after = [text for text in texts[at:] if text not in names and text not in behind]
        differs = [text not in ours or says[text] != says[name] for text in after]
        kept = {name} & used | set(after[: (*differs, True).index(True)])
        reason = f"the schema of {before[-1]} again"
        data = content[before[-1]]
        steps += [put(f"{SCHEMA}/{_name_behind(one)}", data, reason) for one in sorted(kept)]
    return frozenset(f"{SCHEMA}/{name}" for name in names & used), tuple(steps)


def _schema_names(paths: Iterable[str]) -> frozenset[str]:
    """Name the schemas among files."""
    names = (path.removeprefix(f"{SCHEMA}/") for path in paths if path.startswith(f"{SCHEMA}/"))
    return frozenset(name for name in names if "/" not in name)


def _put_schemas(record: ChangeRecord) -> frozenset[str]:
    """Name the schemas that a change put."""
    return _schema_names(str(s.get("path")) for s in record.steps if s.get("op") == "put")


def _schemas_of_ours(store: Store) -> frozenset[str]:
    """Name the schemas that changes of ours put; of a copy nobody knows who made it."""
    told = operations.tell_operations(store)
    made = (one["put"] for one in told if one["command"] not in operations.COPIES)
    return _schema_names(path for paths in made for path in paths)


def _said(file: SchemaFile, data: bytes, key: bytes | None) -> tuple[object, ...]:
    """Give what a schema says: the engine writes equal ones with different bytes."""
    payload = tiles.decode(data, file.path, key=key).payload
    if file.schema is None:
        return (payload,)
    return replace(file.schema, file=None), more_content(payload, file.path)


def _name_behind(text: str) -> str:
    """Make a name of the same moment that comes behind another.

    >>> _name_behind("__7_7_f0000000000000000000000000000000")
    '__7_7_f8000000000000000000000000000000'
    """
    name = parse_name(text)
    return format_name(name.t1, name.t2, f"{(int(name.uuid, 16) + (1 << 128)) // 2:032x}", None)


def _refuse_unknown_fields(
    store: Store, rules: Rules, record: ChangeRecord, before: SchemaFile
) -> None:
    known = {field.name for field in before.schema.fields} if before.schema else set()
    added = {commit_name(uri).text for uri in record.added}
    for commit, _ in tile_commits(rules, MAX_TIMESTAMP):
        if commit.name not in added and set(fields(commit.stored)) - known:
            raise refusal(store, rules.history.key, record, f"{commit.name} needs its schema")


def _cannot(record: ChangeRecord) -> str:
    return f"cannot undo the {record.command:.40} {record.id}".rstrip()


def refusal(store: Store, key: bytes | None, record: ChangeRecord, problem: str) -> RefusedError:
    """Make the refusal to take a change back, with another way to an earlier state."""
    return RefusedError(store.uri, f"{_cannot(record)}: {problem}{_way_back(store, key, record)}")


def _way_back(store: Store, key: bytes | None, record: ChangeRecord) -> str:
    """Name the restore to the moment before a change; nothing if it would not help."""
    if record.command not in _SHOWING or is_group_at(store):
        return ""
    puts = (str(step.get("path")) for step in record.steps if step.get("op") == "put")
    uris = (*record.added, *(path for path in puts if not path.endswith((".con", ".ign"))))
    times = [name.t1 for uri in uris if (name := try_parse(_stem(uri))) is not None]
    with suppress(ChronotileError):
        moment = min(times, default=to_ms(str(record.document.get("time")), "time")) - 1
        if _can_restore(store, key, moment):
            way = f"chronotile restore {shell_word(store.uri)} --to {moment}"
            return f"; to go back to before it, which hides what came later too: {way}"
    return ""


def _can_restore(store: Store, key: bytes | None, moment: int) -> bool:
    """Tell whether a restore can bring a moment back, and changes something."""
    try:
        return bool(plan_restore(store, key, to=moment).steps)
    except UnreachableError:  # TileDB can still read that moment, and writes its rows again
        rules = Rules(read_history(store, key=key))
        return not rules.history.dense and gap_in(rules, 0, moment) is None


def _stem(uri: str) -> str:
    return uri.rpartition("/")[2].partition(".")[0]


def _refuse_gone_vac(
    store: Store, key: bytes | None, record: ChangeRecord, inverse: _Inverse
) -> None:
    """Refuse if a `.vac` that the change put is gone: what it hid went with it."""
    own = {str(s.get("path")) for s in record.steps if s.get("op") == "put"}
    vacs = {path for path in own if path.endswith(".vac")}
    gone = sorted(vacs - inverse.puts.keys() - inverse.taken)
    if gone and record.document.get("state") != "begun":
        raise refusal(store, key, record, f"a vacuum removed {gone[0]}, which it put")


def _refuse_gone_lists(store: Store, inverse: _Inverse) -> None:
    """Refuse if what a `.vac` of a group hides is gone."""
    for path, data in inverse.puts.items():
        if path.endswith(".vac"):
            folder = path.partition("/")[0]
            listed = {vacuumed_name(line) for line in decode_vac(data, path)}
            gone = sorted(name for name in listed - set(store.list_names(folder).files) if name)
            if gone:
                problem = f"a vacuum removed {gone[0]}, which {path} hides"
                raise RefusedError(store.uri, f"{_cannot(inverse.record)}: {problem}")


class _Judge:
    """The checks that a change can be taken back without loss."""

    def __init__(
        self, store: Store, history: History, record: ChangeRecord, inverse: _Inverse
    ) -> None:
        self.store, self.history, self.record = store, history, record
        self.inverse, self.puts = inverse, inverse.puts
        self.there = {*history.listing.fragments, *history.listing.root_fragments}
        self.added = {commit_name(uri).text for uri in record.added}
        self.rules = Rules(history)

    def judge(self, after: set[str]) -> None:
        """Raise an error if it cannot; `after` are the commits that are effective then."""
        self.refuse_vacuumed()
        self._refuse_merged()
        self._refuse_lost(after)
        self._refuse_merged_metadata()

    def _refused(self, problem: str) -> RefusedError:
        return refusal(self.store, self.history.key, self.record, problem)

    def refuse_vacuumed(self) -> None:
        """Refuse if a fragment that the change hid is gone."""
        meta = set(self.history.listing.meta)
        table = self.history.table
        effective = {table.name(row) for row in self.rules.fragment_rows.tolist()}
        lost = sorted(self.record.hidden - (self.there & effective))
        if lost:
            raise self._refused(f"a vacuum removed {lost[0]}, which it hid")
        _refuse_gone_vac(self.store, self.history.key, self.record, self.inverse)
        for path, data in self.puts.items():
            if not path.endswith(".vac"):
                continue
            listed = [vacuumed_name(line) for line in decode_vac(data, path)]
            in_meta = path.startswith(f"{META}/")
            # A run that was broken off may have exchanged it already: it then lists what was added.
            here = meta if in_meta else (self.there & effective) | self.added
            gone = [name for name in listed if name not in here]
            if gone:
                raise self._refused(f"a vacuum removed {gone[0]}, which it hid")
            if self.history.dense and not in_meta:
                self._refuse_spanning(commit_name(path).t2)

    def _refuse_merged(self) -> None:
        """Refuse if the change's own commits have been merged into others since."""
        if not self.record.added:
            return
        for vacuum in self.history.vacuums:
            if vacuum.path not in self.puts and not self.added.isdisjoint(vacuum.targets):
                raise self._refused(f"{vacuum.name.text} was merged from what it added")
        writes = {commit_name(uri).text for uri in self.record.added if uri.endswith(WRITES)}
        taken = {path.rpartition("/")[2] for path in self.inverse.taken}
        gone = sorted(writes - self.there - taken)
        # A change that was broken off may not have come so far.
        if gone and self.inverse.has_steps and self.record.document.get("state") != "begun":
            raise self._refused(f"{gone[0]}, which it added, is gone")
        others = {uri for uri in self.record.added if not uri.endswith(WRITES)}
        # A repair puts deletes that match no row for those that a fragment has applied (F14).
        if self.record.command != "repair":
            self._refuse_applied({uri.rpartition("/")[2] for uri in others})

    def _refuse_applied(self, files: set[str]) -> None:
        """Refuse if a fragment has applied a delete or update that the change put.

        Where duplicates are allowed, an `apply` puts a delete under the name of its update.
        """
        if not files:
            return
        table = self.history.table
        names = [table.name(row) for row in self.rules.fragment_rows[~self.rules.missing].tolist()]
        deletes = {file.removesuffix(".del") for file in files}  # as fragments note them
        reader = FooterReader(self.store, self.history)
        for name, stored in reader.read(names, applied=True):
            found = deletes.intersection(getattr(stored, "applied", None) or ())
            if found:
                applied = min(found).removesuffix(".upd")
                raise self._refused(f"{name} was merged since, and has applied {applied}")

    def _refuse_merged_metadata(self) -> None:
        """Refuse if metadata that the change put has been merged with other metadata since."""
        own = {str(s.get("path")) for s in self.record.steps if s.get("op") == "put"}
        put = {path for path in own if path.startswith(f"{META}/") and not path.endswith(".vac")}
        gone = sorted(put - self.puts.keys() - self.inverse.taken)
        if gone and self.record.document.get("state") != "begun":
            raise self._refused(f"{gone[0]}, which it put, is gone")
        names = {path.rpartition("/")[2] for path in put}
        for vacuum in self.history.meta_vacuums:
            if vacuum.path not in own and not names.isdisjoint(vacuum.targets):
                raise self._refused(f"its metadata was merged into {vacuum.name.text} since")

    def refuse_other_redo(self, before: set[str], after: set[str]) -> None:
        """Refuse to redo a change that relies on what is gone or hidden since it was undone."""
        known = operations.list_operations(self.store)
        undone = [read_record(self.store, one) for one in known if one.id == self.record.undoes]
        for change in undone:
            own = change.added | {str(step.get("path")) for step in change.steps}
            shown = self.rules.visible(0, MAX_TIMESTAMP)[0].tolist()
            there = {self.history.table.name(row) for row in shown}
            there |= {name.text for name in visible_metadata(self.history, 0, MAX_TIMESTAMP)}
            relied_on = set(change.hidden)
            for path, data in self.inverse.back.items():
                if path.startswith(f"{META}/") and path.endswith(".vac"):
                    relied_on |= {vacuumed_name(line) for line in decode_vac(data, path)}
            if lost := sorted(relied_on - there) or sorted(self.record.added - before):
                problem = f"{lost[0]} is gone or hidden since the undo"
            elif lost := sorted(after - before - own):
                problem = f"{lost[0]}, which was taken out since, would come back with it"
            else:
                continue
            first = _redo_first(self.store, known, lost[0].rpartition("/")[2])
            what = f"cannot redo the {change.command} {change.id}: {problem}{first}"
            raise RefusedError(self.store.uri, what)

    def _refuse_spanning(self, moment: int) -> None:
        """Refuse if a dense array was consolidated over the change: order would be wrong."""
        table = self.history.table
        # What the change hid was there before it, such as the copies of an earlier restore.
        own = self.added | self.record.hidden
        for row in self.rules.fragment_rows.tolist():
            name = parse_name(table.name(row))
            if name.t1 < moment <= name.t2 and name.text not in own:
                raise self._refused(f"{name.text} was merged over it since")

    def _refuse_lost(self, after: set[str]) -> None:
        """Refuse if other commits would go, or if its own would stay."""
        lost = sorted(_effective(self.history) - after - self.record.added)
        if lost:
            raise self._refused(f"only the files that it put still hold {lost[0]}")
        left = sorted(self.record.added & after)
        if left:
            raise self._refused(f"another file holds {left[0]} too: it was consolidated since")


def _after(store: Store, history: History, inverse: _Inverse) -> set[str]:
    """Find the commits that are effective once a change is taken back."""
    shown = overlaid(store, inverse.back, without=inverse.puts)
    return _effective(read_history(shown, key=history.key))


def _effective(history: History) -> set[str]:
    table = history.table
    return {table.uri(row) for row in table.effective.nonzero()[0].tolist()}


def is_whole_folder(store: Store, folder: str, files: Mapping[str, int | None]) -> bool:
    """Tell whether a folder is there with all of its files, as far as they are known."""
    found = {entry.path: entry.size for entry in store.list_prefix(folder)}
    wanted = {f"{folder}/{name}": size for name, size in files.items()}
    return bool(found) and all(
        path in found and size in (None, found[path]) for path, size in wanted.items()
    )
