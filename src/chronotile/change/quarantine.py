"""A quarantine beside an array: where repair puts what it takes out.

In: a store, and files to move. Out: `<array>.quarantine/<time>/` with the files, byte for byte,
and a manifest; and all of it back again. Destroys nothing: a file leaves the array only once its
copy has been compared, and leaves the quarantine only once it is back.

The files lie flat under numbered names, so that a quarantine never looks like an array.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.change.change_report import Report, Step
from chronotile.change.delete_update import put_compared
from chronotile.change.sound_array import beside, stamp
from chronotile.check.findings import RefusedError
from chronotile.errors import BadFileError, ChronotileError, printable_json
from chronotile.format.commit_files import is_commit_line
from chronotile.format.kinds import LINES
from chronotile.format.timestamps import iso_time, now_ms
from chronotile.storage.place import is_path
from chronotile.storage.store import MissingObjectError, ObjectExistsError, Store, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUFFIX = ".quarantine"
_MANIFEST = "manifest.json"
_STAMP = re.compile(r"[0-9TZ.]{8,40}")
_FILE = re.compile(r"\d{4,}-[^/]+", re.DOTALL)
_TAKEN = re.compile(
    r"(?:__commits|__meta|__fragment_meta|__schema)/[^/]+|[^/]+\.(?:ok|vac|meta)"
    r"|__[0-9a-f_]{33,}/__fragment_metadata\.tdb",
    re.DOTALL,
)
"""Where a repair takes files from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """One folder of a quarantine, made for one repair."""

    store: Store
    """The array."""
    above: Store
    folder: str

    @property
    def uri(self) -> str:
        """Where it is."""
        return self.above.uri_of(self.folder)

    @property
    def restore(self) -> str:
        """The command that puts everything back."""
        return f"chronotile repair {self.store.uri} --restore {self.uri}/{_MANIFEST}"

    def declare(self, moves: Sequence[Step], puts: Sequence[Step], at_ms: int) -> None:
        """Write the manifest, before anything is touched."""
        document = {
            "array": self.store.uri,
            "made": iso_time(at_ms),
            "restore": self.restore,
            "moved": [
                {**_entry(step), "file": _file(number, step.path)}
                for number, step in enumerate(moves)
            ],
            "put": [_entry(step) for step in puts],
        }
        text = printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"
        put_compared(self.above, f"{self.folder}/{_MANIFEST}", text.encode())

    def move(self, moves: Sequence[Step]) -> None:
        """Take files out of the array."""
        for number, step in enumerate(moves):
            data = step.data or b""
            put_compared(self.above, f"{self.folder}/{_file(number, step.path)}", data)
            if self.store.read(step.path) != data:
                problem = "expected the bytes that were read before, found others"
                raise ChronotileError(self.store.uri_of(step.path), problem)
            self.store.remove([step.path])


def new_quarantine(store: Store, at_ms: int) -> Quarantine:
    """A place for what one repair takes out; nothing is written yet.

    >>> new_quarantine(open_store("memory:doc-quarantine/a"), 1).uri
    'memory://doc-quarantine/a.quarantine/19700101T000000.001Z'
    """
    above, name = beside(store, SUFFIX)
    return Quarantine(store=store, above=above, folder=f"{name}/{stamp(at_ms)}")


def restore(
    array: str,
    manifest: str,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Report:
    """Puts back what a repair took out, and takes out what it put.

    Args:
        array: A path or a URI.
        manifest: The manifest of the repair, in the quarantine beside the array.
        dry_run: Change nothing.
        storage_options: What the storage needs to know.
        store: The array's store, if it is open already.

    Raises:
        RefusedError: The manifest is not of this array, or says what no repair writes.
        BadFileError: It is damaged.

    >>> restore("memory:doc-restore/a", "elsewhere")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.check.findings.RefusedError: elsewhere: expected a manifest in ..., found none
    """
    opened = store or open_store(array, storage_options)
    above, name = beside(opened, SUFFIX)
    folder, data = _found(above, name, manifest)
    moved, put = _read_manifest(data, above.uri_of(f"{folder}/{_MANIFEST}"))
    steps: list[Step] = []
    copies = [(entry, above.read(f"{folder}/{entry['file']}")) for entry in moved]
    for entry, copy in copies:
        _same(copy, entry, above.uri_of(f"{folder}/{entry['file']}"))
    originals = {entry["path"]: copy for entry, copy in copies}
    for entry in put:
        steps += _withdrawn(opened, entry, dry_run=dry_run or entry["path"] not in originals)
    for path, copy in originals.items():
        steps.append(Step(op="put", path=path, size=len(copy), reason="out of the quarantine"))
        if not dry_run:
            _put_back(opened, path, copy)
    if not dry_run:
        for entry in put:
            if entry["path"] not in originals:
                _withdrawn(opened, entry, dry_run=False)
        above.remove(f"{folder}/{entry['file']}" for entry, _ in copies)
        above.remove([f"{folder}/{_MANIFEST}"])
        above.remove_folder(folder)
    return Report(
        command="repair",
        array=opened.uri,
        dry_run=dry_run,
        steps=tuple(steps),
        notes=("the array is as it was before the repair",) if not dry_run else (),
        at_ms=now_ms(),
    )


def _found(above: Store, name: str, manifest: str) -> tuple[str, bytes]:
    """The folder of a repair in the quarantine of that name, and its manifest."""
    wanted = manifest.rstrip("/").removesuffix(f"/{_MANIFEST}").rpartition("/")[2]
    folder = f"{name}/{wanted}"
    try:
        if not _STAMP.fullmatch(wanted):
            raise MissingObjectError(manifest, "expected a time")  # noqa: TRY301
        data = above.read(f"{folder}/{_MANIFEST}")
    except MissingObjectError:
        problem = f"expected a manifest in {above.uri_of(name)}, found none"
        raise RefusedError(manifest, problem) from None
    return folder, data


def _put_back(store: Store, path: str, data: bytes) -> None:
    try:
        put_compared(store, path, data)
    except ObjectExistsError:
        # A restore that was broken off has been here.
        if store.read(path) != data:
            raise


def _withdrawn(store: Store, entry: dict[str, Any], *, dry_run: bool) -> list[Step]:
    """Remove a file that the repair put, if it is still the same."""
    try:
        data = store.read(entry["path"])
    except MissingObjectError:
        return []
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        return []
    if not dry_run:
        store.remove([entry["path"]])
    reason = "the repair put it"
    return [Step(op="remove", path=entry["path"], size=len(data), reason=reason)]


def _read_manifest(data: bytes, where: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    try:
        document = json.loads(data)
        moved = [dict(entry) for entry in document["moved"]]
        put = [dict(entry) for entry in document["put"]]
        for entry in (*moved, *put):
            if not isinstance(entry["path"], str) or not isinstance(entry["sha256"], str):
                raise TypeError("path")  # noqa: TRY301
    except (ValueError, KeyError, TypeError) as cause:
        raise BadFileError(where, f"expected a manifest, found {cause!r:.80}") from cause
    for path in (entry["path"] for entry in (*moved, *put)):
        if not _TAKEN.fullmatch(path) or not is_path(path):
            raise RefusedError(where, f"expected a file that a repair moves, found {path!r:.80}")
    for entry in moved:
        if not _FILE.fullmatch(str(entry.get("file"))):
            raise RefusedError(where, f"expected a file of it, found {entry.get('file')!r:.80}")
    for entry in put:
        if not entry["path"].endswith(LINES) and not is_commit_line(entry["path"]):
            raise RefusedError(where, f"expected what a repair puts, found {entry['path']!r:.80}")
    return moved, put


def _same(data: bytes, entry: dict[str, Any], where: str) -> None:
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise BadFileError(where, "expected the bytes that were moved there, found others")


def _entry(step: Step) -> dict[str, Any]:
    digest = hashlib.sha256(step.data or b"").hexdigest()
    return {"path": step.path, "size": step.size, "sha256": digest, "reason": step.reason}


def _file(number: int, path: str) -> str:
    return f"{number:04}-{path.rpartition('/')[2]}"
