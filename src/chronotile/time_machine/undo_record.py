"""What a change left behind: its report, and the files that it put.

In: an array, and a report or where it is. Out: the report's document; `UndoRecord`: the files that
are still as they were put. Changes nothing, and judges nothing.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.change.beside_array import folder_beside
from chronotile.change.change_report import Report
from chronotile.check.findings import RefusedError
from chronotile.errors import BadFileError
from chronotile.format.commit_files import (
    commit_name,
    decode_con,
    encode_exchanged,
    encode_lines,
)
from chronotile.format.documents import read_json
from chronotile.format.kinds import COMMITS, FRAGMENT_META, FRAGMENTS, GROUP, META, SCHEMA
from chronotile.storage.place import is_path
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.storage.store import Store

FINAL = "it is final"
"""What is said of a change that nobody can take back any more."""
_FOLDERS = (COMMITS, META, SCHEMA, FRAGMENT_META, GROUP)
"""Where changes put files."""


def find_report(
    store: Store, report: Report | Mapping[str, Any] | str | None
) -> tuple[str, dict[str, Any]]:
    """The report of a change, and where it is.

    Raises:
        RefusedError: There is none.
        BadFileError: It is no report.
    """
    if isinstance(report, Report):
        return "", report.to_dict()
    if report is not None and not isinstance(report, str):
        return "", _checked(dict(report), "report")
    above, folder = folder_beside(store, ".reports")
    if report is not None:
        path = f"{folder}/{report.rstrip('/').rpartition('/')[2]}"
        if not is_path(path):
            raise RefusedError(store.uri, f"expected a report, found {report!r:.120}")
        try:
            return above.uri_of(path), _with_parts(above, path)
        except MissingObjectError:
            problem = f"expected a report in {above.uri_of(folder)}, found none of that name"
            raise RefusedError(report, problem) from None
    undone: set[str] = set()
    for path in sorted((e.path for e in above.list_dir(folder).files), reverse=True):
        if not path.endswith(".json"):
            continue
        document = _with_parts(above, path)
        if document.get("undoes"):
            undone.add(str(document["undoes"]))
        elif above.uri_of(path) not in undone and _has_steps(document):
            if document.get("state") == "begun" and not _has_begun(store, document):
                continue
            return above.uri_of(path), document
    raise RefusedError(store.uri, "expected a report of a change beside it, found none")


def _with_parts(above: Store, path: str) -> dict[str, Any]:
    """A report; of a change of a group that was broken off, with the members that had their turn.

    Before its turn a member is planned anew, so that the group's own plan does not name its files.
    """
    document = _parsed(above, path)
    if document.get("state") != "begun" or "members" not in document or not document.get("dry_run"):
        return document
    stem, files = path.removesuffix("json"), above.list_dir(path.rpartition("/")[0]).files
    parts = sorted(e.path for e in files if e.path.startswith(stem) and e.path.endswith(".part"))
    members = [_parsed(above, part) for part in parts]
    return document | {"members": members, "dry_run": False}


def _parsed(above: Store, path: str) -> dict[str, Any]:
    where = above.uri_of(path)
    return _checked(read_json(above.read(path), where, "the report of a change"), where)


def _checked(document: dict[str, Any], where: str) -> dict[str, Any]:
    """Refuse what is no report, so that nobody has to ask again for the types in it."""
    parts = document.get("members", [document])
    if not isinstance(parts, list) or not all(map(_is_part, parts)):
        raise BadFileError(where, "expected the report of a change, found something else")
    if "members" not in document and "steps" not in document:
        raise BadFileError(where, "expected the report of a change, found no steps in it")
    return document


def _is_part(part: Any) -> bool:
    """Whether something is what a report says of one array, or of a group's own files."""
    if not isinstance(part, dict):
        return False
    lists = [part.get(name, []) for name in ("steps", "added", "hidden")]
    if not all(isinstance(one, list) for one in lists):
        return False
    steps, *names = lists
    are_steps = all(isinstance(one, dict) and isinstance(one.get("path"), str) for one in steps)
    return are_steps and all(isinstance(text, str) for one in names for text in one)


def _has_begun(store: Store, document: Mapping[str, Any]) -> bool:
    """Whether a change that was broken off has put anything; of a group, it may have."""
    if "members" in document:
        return True
    paths = [step["path"] for step in document["steps"] if step.get("op") == "put"]
    for path in paths:
        with suppress(MissingObjectError):
            store.head(path)
            return True
    return False


def _has_steps(document: Mapping[str, Any]) -> bool:
    told = document.get("members", [document])
    return any(one.get("steps") for one in told)


class Put(NamedTuple):
    """A file that the change put, and that is still there."""

    path: str
    data: bytes
    reason: str


class UndoRecord(NamedTuple):
    """What is left of a change."""

    puts: tuple[Put, ...]
    """In the order in which they were put."""
    added: frozenset[str]
    """URIs of the commits that it added."""
    hidden: frozenset[str]
    """Names of the fragments that it hid."""
    veil: tuple[str, bytes, bytes] | None
    """A `.vac` whose content was exchanged: its path, the content now, and the one before."""


def has_put(store: Store, document: Mapping[str, Any]) -> bool:
    """Whether there is anything to take back of a change that was broken off.

    Raises:
        RefusedError: A file is not as it was put.
    """
    return bool(_read_record(store, document).puts)


def read_record(store: Store, document: Mapping[str, Any]) -> UndoRecord:
    """Reads what a change put.

    Raises:
        RefusedError: A file is not as it was put, or there is none any more.
    """
    record = _read_record(store, document)
    if not record.puts:
        problem = "expected what the change put, found nothing of it"
        raise RefusedError(store.uri, f"{problem}: it was taken back already, or {FINAL}")
    return record


def _read_record(store: Store, document: Mapping[str, Any]) -> UndoRecord:
    known: dict[str, tuple[set[str], str]] = {}
    exchanged: set[str] = set()
    for step in document["steps"]:
        path = step["path"]
        if step.get("op") not in ("put", "replace"):
            continue
        if not is_path(path) or not path.startswith(tuple(f"{name}/" for name in _FOLDERS)):
            raise RefusedError(store.uri, f"expected what a change puts, found {path!r:.120}")
        known.setdefault(path, (set(), str(step.get("reason"))))[0].add(str(step.get("sha256")))
        if step["op"] == "replace":
            exchanged.add(path)
    added = frozenset(str(uri) for uri in document.get("added", ()))
    writes = [uri for uri in document.get("added", ()) if str(uri).endswith(".wrt")]
    lines = [f"/{FRAGMENTS}/{commit_name(uri).text}" for uri in writes]
    veiled = set(encode_lines(lines).split(b"\n"))
    puts, veil = [], None
    for path, (digests, reason) in known.items():
        try:
            data = store.read(path)
        except MissingObjectError:
            continue
        # Exchanged again, by an undo that was broken off or a change that was taken back.
        is_veil = path in exchanged and set(data.split(b"\n")) == veiled
        if hashlib.sha256(data).hexdigest() not in digests and not is_veil:
            problem = f"expected {path} as it was put, found other bytes"
            raise RefusedError(store.uri, f"{problem}: it cannot be taken back")
        if added and path.endswith(".con") and not _holds_any(data, path, added):
            # It holds what was there before: it may stay.
            continue
        puts.append(Put(path, data, reason))
        if path in exchanged:
            veil = (path, data, data if is_veil else encode_exchanged(lines, data))
    hidden = frozenset(str(name) for name in document.get("hidden", ()))
    return UndoRecord(tuple(puts), added, hidden, veil)


def _holds_any(data: bytes, path: str, uris: frozenset[str]) -> bool:
    return not uris.isdisjoint(record.uri for record in decode_con(data, path))
