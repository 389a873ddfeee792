"""Records that earlier versions left beside an array: reports, and quarantines with a manifest.

In: a store, and a report or its place. Out: the `ChangeRecord` that `undo` takes back. Writes
nothing: `operations` records new changes in the array itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chronotile.change.operations import check_record
from chronotile.change.undo import ChangeRecord, plan_inverse, refuse_final, refuse_nothing
from chronotile.check.findings import RefusedError, UnknownNameError
from chronotile.errors import BadFileError
from chronotile.format.commit_files import commit_name, encode_lines
from chronotile.format.documents import read_json
from chronotile.format.kinds import FRAGMENTS
from chronotile.safe_text import shell_word
from chronotile.storage.place import is_path
from chronotile.storage.store import MissingObjectError, Store

if TYPE_CHECKING:
    from chronotile.change.plan import Plan

_MANIFEST = "manifest.json"
_STAMP = re.compile(r"[0-9TZ.]{8,40}")


def _above(store: Store) -> tuple[Store, str]:
    """Give the folder that holds the array, and the array's name in it."""
    place, name = store.place.parent()
    return store.watched(None).at(place), name


def _read(store: Store, path: str) -> dict[str, Any]:
    kind = "the manifest of a quarantine" if path.endswith(_MANIFEST) else "the report of a change"
    return read_json(store.read(path, limit=1 << 28), store.uri_of(path), kind)


def record_of(store: Store, report: Mapping[str, Any] | str) -> ChangeRecord:
    """Read a report: a document, a file in `ARRAY.reports`, or a manifest in `ARRAY.quarantine`.

    Raises:
        RefusedError: There is none, or it is of another array.
        BadFileError: It is no report.
    """
    above, name = _above(store)
    if isinstance(report, Mapping):
        return _of_report(store, above, name, "", report)
    words = report.rstrip("/").removesuffix(f"/{_MANIFEST}").rpartition("/")[2]
    with suppress(MissingObjectError):
        if _STAMP.fullmatch(words):
            folder = f"{name}.quarantine/{words}"
            return _of_manifest(above, folder, _read(above, f"{folder}/{_MANIFEST}"))
    return _of_report(store, above, name, *read_report(store, report))


def read_report(store: Store, report: str) -> tuple[str, dict[str, Any]]:
    """Read a report beside an array or a group: its place, and what it says.

    Raises:
        RefusedError: There is none.
        BadFileError: It is no report.
    """
    above, name = _above(store)
    path = f"{name}.reports/{report.rstrip('/').rpartition('/')[2]}"
    with suppress(MissingObjectError):
        if is_path(path):
            return above.uri_of(path), _read(above, path)
    problem = f"expected the id of an operation, found {report!r:.120}"
    hint = f"to list all: chronotile operations {shell_word(store.uri)}"
    raise UnknownNameError(store.uri, f"{problem}; {hint}")


def _of_report(
    store: Store, above: Store, name: str, place: str, report: Mapping[str, Any]
) -> ChangeRecord:
    check_record(dict(report), place or store.uri)
    if report.get("array") != store.uri:
        found = f"found one of {report.get('array')!r:.120}"
        raise RefusedError(store.uri, f"expected a report of this array, {found}")
    if report.get("dry_run"):
        found = f"found a dry run of {str(report.get('command'))!r:.40}"
        raise RefusedError(store.uri, f"expected a change, {found}")
    stamp = str(report.get("quarantine") or "").rstrip("/").rpartition("/")[2]
    folder = f"{name}.quarantine/{stamp}"
    with suppress(MissingObjectError):
        if _STAMP.fullmatch(stamp):  # a manifest says of each file what it held, a report may not
            return _of_manifest(above, folder, _read(above, f"{folder}/{_MANIFEST}"))
    lines = [
        f"/{FRAGMENTS}/{commit_name(str(uri)).text}"
        for uri in report.get("added", ())
        if str(uri).endswith(".wrt")
    ]
    old = encode_lines(lines).decode()
    steps = [
        {"old": old, **step} if step.get("op") == "replace" else step
        for step in report.get("steps", ())
    ]
    return ChangeRecord(place, {**report, "steps": steps}, above, folder)


def _of_manifest(above: Store, folder: str, manifest: Mapping[str, Any]) -> ChangeRecord:
    try:
        moved = [{**entry, "op": "move"} for entry in manifest["moved"]]
        puts = [{**entry, "op": "put"} for entry in manifest["put"]]
        paths = {str(entry["path"]) for entry in moved}
        _ = [entry["path"] for entry in puts]
    except (KeyError, TypeError) as cause:
        problem = f"expected a manifest, found {cause!r:.80}"
        raise BadFileError(above.uri_of(f"{folder}/{_MANIFEST}"), problem) from cause
    first = [entry for entry in puts if entry["path"] not in paths]
    last = [entry for entry in puts if entry["path"] in paths]
    where = above.uri_of(f"{folder}/{_MANIFEST}")
    document = {"command": "repair", "time": manifest.get("made"), "steps": [*first, *moved, *last]}
    return ChangeRecord(above.uri_of(folder), check_record(document, where), above, folder)


def plan_undo_report(store: Store, key: bytes | None, *, report: Mapping[str, Any] | str) -> Plan:
    """Plan to take back what a report of an earlier version says."""
    record = record_of(store, report)
    refuse_final(store, key, record)
    return refuse_nothing(plan_inverse(store, key, record))
