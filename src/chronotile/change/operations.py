"""Operations: what this package did to an array or a group, kept in its own folder.

In: a plan that is about to begin, and then its report. Out: a file in `__chronotile/operations`
for each change, and the list of them. The engine passes over that folder.

The name of a file tells when, which, what and how it ended, so that a list costs one request:
`20240501T080000.120Z-1f3a9c02-vacuum-done.json`. The file of a change is put before the change
begins, as `begun`; when the change ends, a file with the new state takes its place. So a file that
stays `begun` belongs to a change that was broken off. What is older than 90 days is merged into
one file, `…-merged.json`, when a later change ends; a file of its own counts before that.

Paths in a file are relative to the array, and the file names the array's schemas, the first one
first: a folder that survives its array says nothing of another array at the same place. Any of them
tells: a publication or an evolution may put a schema before the first, and an undo take one away.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

from chronotile.check.findings import RefusedError
from chronotile.errors import BadFileError, ChronotileError, StorageError
from chronotile.format.documents import json_text, read_json
from chronotile.format.kinds import FRAGMENTS, GROUP, OLD_SCHEMA, OWN, SCHEMA
from chronotile.format.names import parse_name
from chronotile.format.timestamps import iso_time, now_ms, to_ms
from chronotile.storage.place import StrangerError, is_path
from chronotile.storage.processes import runs_here, this_process
from chronotile.storage.store import MissingObjectError, ObjectExistsError, put_compared

if TYPE_CHECKING:
    from chronotile.storage.store import Entry, Store


_FOREIGN_MS = 3_600_000
"""A change of another host that began this long ago and has not ended counts as broken off."""

_OLD_MS = 90 * 24 * 3_600_000
"""Records that are older than this are merged into one file."""
MERGED = "-merged.json"
"""How the name of a file ends that holds many records."""
_MOST_SCHEMAS = 100
"""How many schemas of its array a record names."""
_SHOWN = 5
"""Operations that a note names."""
_LONGEST = 1 << 28
"""The most bytes of a record."""

OPERATIONS = f"{OWN}/operations"
QUARANTINE = f"{OWN}/quarantine"
SCRATCH = f"{OWN}/scratch"
"""Where fragments are merged, of an array on a disk."""

State: TypeAlias = Literal["begun", "done", "failed", "undone", "final"]
_LATER = {state: rank for rank, state in enumerate(("begun", "failed", "done", "undone", "final"))}
"""State -> its rank: where a change of state was broken off, the later one counts."""

_NAME = re.compile(
    r"(?P<time>\d{8}T\d{6}\.\d{3}Z)-(?P<id>[0-9a-f]{8})-(?P<command>[a-z-]+)-(?P<state>[a-z]+)\.json"
)


EXCLUSIVE = frozenset({"apply", "erase", "publish", "repair", "restore", "undelete", "undo"})
"""Changes that run beside no other of them, and beside no upkeep."""
UPKEEP = frozenset({"compact", "consolidate", "vacuum"})
"""Changes that replace or remove files and show the same rows; they may run beside each other."""

COPIES = ("clone", "replicate")
"""Commands that make a copy elsewhere: the record in each place names the other."""


class Who(NamedTuple):
    """The caller of a change, with the command and the reason, as the record has them."""

    author: str | None = None
    """None for this user on this host; an empty text leaves them out."""
    message: str | None = None
    options: Mapping[str, Any] = {}
    """The options of the command, without secrets."""
    group: str | None = None
    """The operation of the group that this one is a part of."""

    @property
    def name(self) -> str:
        """The author."""
        if self.author is not None:
            return self.author
        import getpass

        try:
            return f"{getpass.getuser()}@{socket.gethostname()}"
        except (OSError, KeyError):  # a container without a name for its user
            return socket.gethostname()


class Operation(NamedTuple):
    """One change, as far as the name of its file tells."""

    id: str
    at_ms: int
    command: str
    state: State
    path: str

    @property
    def quarantine(self) -> str:
        """The folder for files that the change takes out."""
        return f"{QUARANTINE}/{self.id}"

    def turned(self, state: State) -> Operation:
        """Give the operation in another state, in a file of its own."""
        return self._replace(state=state, path=_path(self.id, self.at_ms, self.command, state))


def new_quarantine() -> str:
    """Name a folder for what a change without a record takes out."""
    return f"{QUARANTINE}/{os.urandom(4).hex()}"


def unfinished_copies(store: Store) -> dict[str, str]:
    """List the fragments that a change is copying, or was when it was broken off.

    Returns:
        Folder of each copy -> the record of the change.

    Raises:
        BadFileError: A record cannot be read, and may name any fragment.
    """
    from chronotile.change.plan import FOLDERS

    copies: dict[str, str] = {}
    for operation in list_operations(store):
        if operation.state != "begun":
            continue
        with suppress(MissingObjectError):
            steps = read_operation(store, operation).get("steps", ())
            paths = [str(step.get("path")) for step in steps if step.get("op") in FOLDERS]
            copies |= dict.fromkeys(paths, operation.path)
    return copies


def old_quarantine(store: Store) -> dict[str, list[Entry]]:
    """List the files in the quarantine that a vacuum may remove, by their folder.

    They are of operations that are final or older than 90 days. Folders without an operation are
    as old as their files.
    """
    known = {one.id: one for one in list_operations(store)}
    oldest = now_ms() - _OLD_MS
    folders: dict[str, list[Entry]] = {}
    with suppress(StrangerError):  # something else is there
        for entry in store.list_prefix(QUARANTINE):
            folder = "/".join(entry.path.split("/")[:3])
            folders.setdefault(folder, []).append(entry)
    found = {}
    for folder, entries in folders.items():
        one = known.get(folder.rpartition("/")[2])
        at_ms = max(e.modified_ms or now_ms() for e in entries) if one is None else one.at_ms
        if at_ms < oldest or (one is not None and one.state == "final"):
            found[folder] = entries
    return found


def stamp(at_ms: int) -> str:
    """Write a moment as part of a file's name.

    >>> stamp(1_714_550_400_120)
    '20240501T080000.120Z'
    """
    return (iso_time(at_ms) or str(at_ms)).replace("-", "").replace(":", "")


def _path(id_: str, at_ms: int, command: str, state: State) -> str:
    return f"{OPERATIONS}/{stamp(at_ms)}-{id_}-{command}-{state}.json"


def operation_of(path: str) -> Operation | None:
    """Read the name of a file; None if it is no file of an operation.

    >>> operation_of("__chronotile/operations/20240501T080000.120Z-1f3a9c02-vacuum-done.json").state
    'done'
    >>> operation_of("notes.txt")
    """
    found = _NAME.fullmatch(path.rpartition("/")[2])
    if found is None or found["state"] not in get_args(State):
        return None
    time = found["time"]
    text = f"{time[:4]}-{time[4:6]}-{time[6:8]}T{time[9:11]}:{time[11:13]}:{time[13:]}"
    try:
        at_ms = to_ms(text)
    except ChronotileError:
        return None
    state: State = found["state"]  # type: ignore[assignment]  # one of them, see above
    return Operation(found["id"], at_ms, found["command"], state, path)


def list_operations(store: Store) -> tuple[Operation, ...]:
    """List the operations of an array or a group, the newest first, by one request.

    >>> from chronotile.storage.store import open_store
    >>> list_operations(open_store("memory:doc-operations"))
    ()
    """
    try:
        names = store.list_names(OPERATIONS).files
    except StrangerError:  # something else is there: no record can be written either
        return ()
    merged: dict[str, Operation] = {}
    own: dict[str, Operation] = {}
    for path in (f"{OPERATIONS}/{name}" for name in names):
        if path.endswith(MERGED):
            found = (_operation_in(document, path) for document in _read_merged(store, path))
            merged |= {one.id: one for one in found if one is not None}
        elif (one := operation_of(path)) is not None:
            before = own.get(one.id)
            if before is None or _LATER[before.state] < _LATER[one.state]:
                own[one.id] = one
    known = merged | own
    return tuple(sorted(known.values(), key=lambda one: (one.at_ms, one.id), reverse=True))


def read_operation(store: Store, operation: Operation) -> dict[str, Any]:
    """Read the file of an operation.

    Raises:
        BadFileError: It is no record.
        MissingObjectError: It is gone.
    """
    return _opened(store, operation, store.read(operation.path, limit=_LONGEST))


def _opened(store: Store, operation: Operation, data: bytes) -> dict[str, Any]:
    where = store.uri_of(operation.path)
    document = read_json(data, where, "a record")
    if operation.path.endswith(MERGED):
        records = _list(document, "records", dict, where)
        fitting = [one for one in records if one.get("id") == operation.id]
        document = fitting[0] if fitting else {}
    if document.get("id") != operation.id:
        raise BadFileError(where, "expected the record of an operation, found another document")
    return check_record(document, where)


def _read_merged(store: Store, path: str) -> list[dict[str, Any]]:
    """Read the records of a merged file; of one that is gone, or was never one, there are none."""
    with suppress(MissingObjectError, BadFileError):
        where = store.uri_of(path)
        document = read_json(store.read(path, limit=_LONGEST), where, "records")
        return _list(document, "records", dict, where)
    return []


def path_of(document: Mapping[str, Any]) -> str:
    """Name the file of a record."""
    return _path(document["id"], to_ms(document["time"]), document["command"], document["state"])


def _operation_in(document: Mapping[str, Any], path: str) -> Operation | None:
    """Read a record of a merged file; None if it lacks what the name of its own file would say."""
    try:
        found = operation_of(path_of(document))
    except (KeyError, TypeError, ChronotileError):
        return None
    return None if found is None else found._replace(path=path)


def merge_older(store: Store) -> None:
    """Merge the records that are older than 90 days into one file."""
    names = store.list_names(OPERATIONS).files
    before = [f"{OPERATIONS}/{name}" for name in names if name.endswith(MERGED)]
    known = [one for one in list_operations(store) if one.at_ms < now_ms() - _OLD_MS]
    old = [one for one in known if one.state != "begun"]
    loose = [one for one in old if not one.path.endswith(MERGED)]
    if len(loose) < 2 and len(before) < 2:
        return
    documents = []
    for one in old:
        with suppress(BadFileError):  # what cannot be read stays where it is
            documents.append(read_operation(store, one))
    path = f"{OPERATIONS}/{stamp(old[0].at_ms)}-{os.urandom(4).hex()}{MERGED}"
    _put(store, path, {"records": documents})
    ids = {document["id"] for document in documents}
    store.remove([*before, *(one.path for one in loose if one.id in ids)])


def check_record(document: dict[str, Any], where: str) -> dict[str, Any]:
    """Refuse a document that is no record, or names a file outside of the array.

    >>> check_record({"steps": [{"op": "put", "path": "../x"}]}, "r.json")
    Traceback (most recent call last):
    chronotile.errors.BadFileError: r.json: expected the record of a change, found step '../x'
    """
    for part in (document, *_list(document, "members", dict, where)):
        for name in ("added", "hidden", "schemas"):
            _list(part, name, str, where)
        for step in _list(part, "steps", dict, where):
            path, op = step.get("path"), step.get("op")
            if not isinstance(path, str) or not isinstance(op, str) or not is_path(path):
                problem = f"expected the record of a change, found step {path!r:.120}"
                raise BadFileError(where, problem)
            files = step.get("files")
            if isinstance(files, Mapping) and not all(map(_is_file, files.items())):
                problem = f"expected the files of {path}, found {str(files)[:80]!r}"
                raise BadFileError(where, problem)
    return document


def _is_file(item: tuple[Any, Any]) -> bool:
    name, size = item
    return isinstance(name, str) and is_path(name) and isinstance(size, int | None)


def _list(document: Mapping[str, Any], name: str, kind: type, where: str) -> list[Any]:
    found = document.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
        raise BadFileError(where, f"expected the record of a change, found {name} {found!r:.80}")
    return found


def tell_operations(store: Store) -> list[dict[str, Any]]:
    """Read the operations of an array or a group, the newest first, as `--json` prints them.

    Of a record that cannot be read there is what its name says, with the problem as its message.
    """
    known = list_operations(store)
    names = schema_names(store) if known else ()
    paths = [operation.path for operation in known]
    records = []
    for operation, (_, data) in zip(known, store.read_many(paths, limit=_LONGEST), strict=True):
        try:
            if isinstance(data, ChronotileError):
                raise data
            document: Mapping[str, Any] = _opened(store, operation, data)
        except MissingObjectError:
            continue  # its state has just changed
        except BadFileError as error:
            document = {"message": str(error)}
        if is_of_this(document, store, names):
            records.append(_described(operation, document))
    return records


def relying_on(
    store: Store, removed: Collection[str], holders: Mapping[str, frozenset[str]] = {}
) -> list[str]:
    """List the operations that can no longer be undone once files are gone.

    Args:
        store: The array, or the group.
        removed: The files.
        holders: `.con` files that hold alone what goes -> the commits in them.
    """
    gone, folders = {*removed}, {path.rpartition("/")[0] for path in removed}
    # A fragment goes file by file; what hides it names it.
    names = {path.rpartition("/")[2] for path in folders if path.startswith(f"{FRAGMENTS}/")}
    emptied = {path.split("/")[2] for path in removed if path.startswith(f"{QUARANTINE}/")}

    def relies(one: Mapping[str, Any]) -> bool:
        put, added = {*one["put"]}, {*one["added"]}
        own = put | added
        return (
            one["id"] in emptied
            or not own.isdisjoint(gone | folders)
            or not names.isdisjoint(one["hidden"])
            # An undo leaves the `.con` of a change that added commits, if others need it.
            or any(not added if path in put else own & held for path, held in holders.items())
        )

    known = tell_operations(store) if removed else ()
    return [one["id"] for one in known if one["state"] == "done" and relies(one)]


def no_way_back(ids: Collection[str]) -> tuple[str, ...]:
    """Say which operations can no longer be undone; nothing if there are none."""
    more = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
    first = ", ".join([*ids][:_SHOWN])
    return (f"operations that can no longer be undone: {first}{more}",) * bool(ids)


def mark_final(store: Store, ids: Collection[str]) -> None:
    """Mark operations that can no longer be undone."""
    for one in list_operations(store):
        if one.id in ids and one.state == "done":
            with suppress(MissingObjectError):  # somebody else does the same
                change_state(store, one, "final")


def _described(operation: Operation, document: Mapping[str, Any]) -> dict[str, Any]:
    from chronotile.change.plan import FOLDERS

    parts = [document, *document.get("members", ())]
    steps = [step for part in parts for step in part.get("steps", ())]
    return {
        "id": operation.id,
        "time": iso_time(operation.at_ms),
        "command": operation.command,
        "options": document.get("options", {}),
        "author": document.get("author"),
        "message": document.get("message"),
        "state": operation.state,
        "undoes": document.get("undoes"),
        "rows": document.get("rows", {}),
        "put": [step["path"] for step in steps if step.get("op") in ("put", "replace", *FOLDERS)],
        "hidden": [name for part in parts for name in part.get("hidden", ())],
        "removed": [step["path"] for step in steps if step.get("op") in ("remove", "move")],
        "added": [uri for part in parts for uri in part.get("added", ())],
        "group": document.get("group"),
    }


def is_of_this(document: Mapping[str, Any], store: Store, names: Sequence[str]) -> bool:
    """Tell whether a record is of the array, or the group, that is there now.

    `names` are its schemas or lists of members. What does not say so counts as one of this: a group
    has no list before its first member.
    """
    own = [document.get("schema"), *document.get("schemas", ())]
    if own[0] is None or any(one in names for one in own):
        return True
    if own[0] == OLD_SCHEMA:  # it stays when such an array is evolved
        return OLD_SCHEMA in store.list_names().files
    lists = [_span(name) for name in names if name.startswith(GROUP)]
    # A vacuum leaves one list in place of those that were merged into it.
    return any(start <= t1 and t2 <= end for t1, t2 in map(_span, own) for start, end in lists)


def own_operations(store: Store) -> list[Operation]:
    """List the operations of the array, or the group, that is there now, the newest first.

    Reads only records that are older than its first schema: others cannot be of an earlier array.
    """
    known = list_operations(store)
    names = schema_names(store) if known else ()
    first = min((_span(name)[0] for name in names), default=0)
    return [one for one in known if (names and one.at_ms >= first) or is_own(store, one, names)]


def is_own(store: Store, operation: Operation, names: Sequence[str]) -> bool:
    """Read a record, and tell whether it is of the array, or the group, that is there now."""
    try:
        return is_of_this(read_operation(store, operation), store, names)
    except MissingObjectError:
        return False
    except BadFileError:  # it stops only those who need it
        return True


def _span(path: object) -> tuple[int, int]:
    with suppress(ChronotileError):
        name = parse_name(str(path).rpartition("/")[2])
        return name.t1, name.t2
    return -1, -1


def schema_names(store: Store) -> tuple[str, ...]:
    """Name the schemas of an array, or the lists of members of a group, in order."""
    for folder in (SCHEMA, GROUP):
        if names := store.list_names(folder).files:
            return tuple(f"{folder}/{name}" for name in sorted(names))
    return (OLD_SCHEMA,) if OLD_SCHEMA in store.list_names().files else ()


class RecordContent(Protocol):
    """The content of a record: the report of an array or of a group."""

    @property
    def command(self) -> str:
        """The name of the change."""

    @property
    def at_ms(self) -> int:
        """When it was planned."""

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON report."""


_GIVEN_UP: set[str] = set()
"""Operations of this process that nobody is at any more, though their records say `begun`: they
were interrupted, or the storage did not take their end."""


def give_up(operation: Operation) -> None:
    """Note that this process has given an operation up, though its record says `begun`."""
    _GIVEN_UP.add(operation.id)


def abandon(store: Store, operation: Operation, note: str) -> None:
    """Write down that nobody is at an operation any more, and why: the next change settles it."""
    give_up(operation)
    with suppress(ChronotileError):  # a storage that fails may refuse this too
        old = store.read(operation.path, limit=_LONGEST)
        document = read_json(old, store.uri_of(operation.path), "a record")
        document.pop("process", None)
        document["notes"] = [*document.get("notes", ()), note.replace(store.uri, "ARRAY")]
        store.exchange(operation.path, old, json_text(document).encode())


def may_be_running(operation: Operation, document: Mapping[str, Any]) -> bool:
    """Tell whether the process that began an operation may still be at it."""
    if operation.id in _GIVEN_UP:
        return False
    process = document.get("process")
    if isinstance(process, Mapping) and process.get("host") != this_process()["host"]:
        return now_ms() - operation.at_ms < _FOREIGN_MS
    return runs_here(process)


def note_copy(
    here: Store,
    there: Store,
    command: str,
    message: str | None = None,
    window: Mapping[str, object] = {},
) -> None:
    """Write down in both places that one is a copy of the other, where they can be written.

    `window` has the further options of the command.
    """
    from chronotile.change.plan import Report

    options = {"source": here.uri, "target": there.uri, **window}
    who = Who(message=message, options=options)
    for store in (here, there):
        report = Report(command, store.uri, dry_run=False, steps=())
        with suppress(ChronotileError):
            operation = _new(store, report).turned("final")
            _put(store, operation.path, _document(operation, report, who, schema_names(store)))


def excludes(command: str, other: str, *, of_group: bool = False) -> bool:
    """Tell whether two changes must not run beside each other.

    A group is changed member by member: a delete beside a restore could come before it in one
    member and after it in the next, so there they exclude each other, too.

    >>> excludes("undo", "consolidate"), excludes("compact", "consolidate")
    (True, False)
    >>> excludes("delete", "restore"), excludes("delete", "restore", of_group=True)
    (False, True)
    """
    both = {command, other}
    if both.isdisjoint(EXCLUSIVE):
        return False
    return both.isdisjoint(COPIES) if of_group else both <= EXCLUSIVE | UPKEEP


def find_other(
    store: Store,
    command: str,
    own: Collection[str | None] = (),
    known: Collection[Operation] | None = None,
    *,
    of_group: bool = False,
) -> Operation | None:
    """Find a change that one must not run beside, after that one was written down.

    Two changes that look after they are written down never miss each other.

    Args:
        store: The array, or the group.
        command: The change that looks.
        own: Its id, and that of the group's change that it is a part of.
        known: The operations that were there before it was planned: whatever ended since then may
            have changed what it relies on. None asks only for changes that are under way.
        of_group: It changes the members of a group one by one.
    """
    for other in list_operations(store):
        if other.id in own or not excludes(command, other.command, of_group=of_group):
            continue
        if other.state == "begun":
            with suppress(MissingObjectError):  # it has just ended
                document = read_operation(store, other)
                if document.get("aside"):
                    continue
                if may_be_running(other, document):
                    return other
        if known is not None and other not in known:
            return other
    return None


def _new(
    store: Store, planned: RecordContent, known: Collection[Operation] | None = None
) -> Operation:
    """Give an operation an id, and a time behind all others: a clock may have gone back."""
    known = list_operations(store) if known is None else known
    at_ms = max((planned.at_ms, *(one.at_ms + 1 for one in known)))
    return Operation(os.urandom(4).hex(), at_ms, planned.command, "begun", "").turned("begun")


def begin(
    store: Store,
    planned: RecordContent,
    who: Who,
    *,
    exclusive: bool = False,
    known: Collection[Operation] | None = None,
    of_group: bool = False,
) -> Operation:
    """Write down what is about to happen.

    Args:
        store: The array, or the group.
        planned: What is about to happen.
        who: The caller.
        exclusive: Other such changes are refused until this one has ended.
        known: The operations that were there before it was planned.
        of_group: It changes the members of a group one by one.

    Raises:
        StorageError: The folder cannot be written.
        RefusedError: Another change is under way, or has ended since this one was planned.
    """
    operation = _new(store, planned, known)
    document = _document(operation, planned, who, schema_names(store))
    document |= {"process": this_process(), "exclusive": exclusive}
    # A compact merges away from the array first: beside that, anything may run.
    document |= {"aside": True} if planned.command == "compact" else {}
    try:
        _put(store, operation.path, document)
    except ChronotileError:
        give_up(operation)  # the storage may have taken it all the same
        raise
    own = (operation.id, who.group)
    other = None
    if "aside" not in document:
        other = find_other(store, operation.command, own, known, of_group=of_group)
    if other is not None:
        give_up(operation)  # nothing has been done
        store.remove([operation.path])
        problem = f"expected no other change, found {other.command} {other.id}"
        if other.state == "begun":
            raise RefusedError(store.uri, f"{problem} under way; try again when it has ended")
        raise RefusedError(store.uri, f"{problem}, which ended since this was planned; try again")
    return operation


def go_on(
    store: Store, operation: Operation, planned: RecordContent, who: Who, *, aside: bool = False
) -> None:
    """Write down what else is about to happen, in the record of an operation that was begun.

    `aside` says that it works away from the array again, so that others may change it.

    Raises:
        StorageError: The record cannot be written.
        ChangedError: Somebody has settled the operation: it must not go on.
    """
    old = store.read(operation.path, limit=_LONGEST)
    before = read_json(old, store.uri_of(operation.path), "a record")
    names = ("process", "exclusive", "schema", "schemas")
    kept = {name: before[name] for name in names if name in before}
    document = _document(operation, planned, who, ()) | kept
    document |= {"aside": True} if aside else {}
    store.exchange(operation.path, old, json_text(document).encode())


def end(
    store: Store, operation: Operation, report: RecordContent, who: Who, state: State = "done"
) -> Operation:
    """Write down how a change ended, in place of what was begun."""
    ended = operation.turned(state)
    try:
        _put(store, ended.path, _document(ended, report, who, schema_names(store)))
    except ChronotileError:
        give_up(operation)  # nobody is at it any more
        raise
    store.remove([operation.path])
    with suppress(ChronotileError):  # the change is done, whatever becomes of older records
        merge_older(store)
    return ended


def foreseen(store: Store, planned: RecordContent, id_: str, state: State) -> dict[str, bytes]:
    """Give the record that a planned change will have, to plan what comes after it."""
    done = _new(store, planned)._replace(id=id_).turned(state)
    document = _document(done, planned, Who(author=""), schema_names(store))
    return {done.path: json_text(document).encode()}


def _document(
    operation: Operation, report: RecordContent, who: Who, schemas: Sequence[str]
) -> dict[str, Any]:
    document = report.to_dict()
    # A moved array takes its records along: they say nothing of where it was.
    for part in (document, *document.get("members", ())):
        place = str(part.get("group") or part.get("array"))
        part["notes"] = [note.replace(place, "ARRAY") for note in part.get("notes", ())]
        for name in ("array", "group", "dry_run", "quarantine", "restore", "operation"):
            part.pop(name, None)
    document["time"] = iso_time(operation.at_ms)
    head: dict[str, Any] = {
        "id": operation.id,
        "command": operation.command,
        "state": operation.state,
        "author": who.name,
        "message": who.message,
        "options": dict(who.options),
        "schema": schemas[0] if schemas else None,
    }
    if len(schemas) > 1:
        head["schemas"] = list(schemas[1:_MOST_SCHEMAS])
    if who.group is not None:
        head["group"] = who.group
    return head | document


def _put(store: Store, path: str, document: dict[str, Any]) -> None:
    try:
        put_compared(store, path, json_text(document).encode())
    except StorageError as cause:
        problem = f"the record of the change cannot be written: {cause.problem}"
        hint = "to go on without a way back, add --no-record (in Python record=False)"
        raise StorageError(store.uri_of(path), f"{problem}; {hint}") from cause


def change_state(store: Store, operation: Operation, state: State, **more: Any) -> Operation:
    """Give an operation another state: `undone`, `final`, or `done` again."""
    document = read_operation(store, operation) | {"state": state} | more
    turned = operation.turned(state)
    with suppress(ObjectExistsError):  # somebody else does the same, or was killed at it
        put_compared(store, turned.path, json_text(document).encode())
    if turned.path != operation.path and not operation.path.endswith(MERGED):
        store.remove([operation.path])
    return turned
