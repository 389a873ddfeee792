"""A quarantine beside an array: where repair puts the files that it takes out.

In: a store, and files to move. Out: `<array>.quarantine/<time>/` with the files, byte for byte,
and a manifest; and the way back. Destroys nothing: a file leaves the array only after its copy has
been compared, and leaves the quarantine only after it is back.

The files lie flat under numbered names, so that a quarantine never looks like an array.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.change.beside_array import folder_beside, stamp
from chronotile.change.change_report import Report, Step, json_text, put
from chronotile.check.findings import RefusedError
from chronotile.errors import BadFileError, ChronotileError, shell_word
from chronotile.format.commit_files import is_commit_line
from chronotile.format.documents import read_json
from chronotile.format.kinds import GROUP, LINES
from chronotile.format.names import is_name
from chronotile.format.timestamps import iso_time
from chronotile.storage.compared_put import put_compared
from chronotile.storage.place import is_path
from chronotile.storage.store import MissingObjectError, ObjectExistsError, Store, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

SUFFIX = ".quarantine"
_MANIFEST = "manifest.json"
_STAMP = re.compile(r"[0-9TZ.]{8,40}")
_FILE = re.compile(r"\d{4,}-[^/]+", re.DOTALL)
_TAKEN = re.compile(
    r"(?:__commits|__meta|__fragment_meta|__schema|__group)/[^/]+|[^/]+\.(?:ok|vac|meta)"
    r"|__[0-9a-f_]{33,}/__fragment_metadata\.tdb",
    re.DOTALL,
)
"""Paths that a repair takes files from."""


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
        manifest = f"{self.uri}/{_MANIFEST}"
        return f"chronotile repair {shell_word(self.store.uri)} --restore {shell_word(manifest)}"

    def declare(self, moves: Sequence[Step], puts: Sequence[Step], at_ms: int) -> None:
        """Writes the manifest, before any file is touched."""
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
        put_compared(self.above, f"{self.folder}/{_MANIFEST}", json_text(document).encode())

    def move(
        self, moves: Sequence[Step], first: int = 0, replaced: Mapping[str, bytes] | None = None
    ) -> None:
        """Takes files out of the array.

        Args:
            moves: The files.
            first: The number of the first among those declared.
            replaced: Path -> new content of files whose name stays.
        """
        for number, step in enumerate(moves, first):
            put_compared(self.above, f"{self.folder}/{_file(number, step.path)}", step.data)
            if self.store.read(step.path) != step.data:
                problem = "expected the bytes that were read before, found others"
                raise ChronotileError(self.store.uri_of(step.path), problem)
            new = (replaced or {}).get(step.path)
            if new is None:
                self.store.remove([step.path])
            else:
                self.store.exchange(step.path, step.data, new)


def new_quarantine(store: Store, at_ms: int) -> Quarantine:
    """The quarantine of one repair; nothing is written yet.

    >>> new_quarantine(open_store("memory:doc-quarantine/a"), 1).uri
    'memory://doc-quarantine/a.quarantine/19700101T000000.001Z'
    """
    above, name = folder_beside(store, SUFFIX)
    return Quarantine(store=store, above=above, folder=f"{name}/{stamp(at_ms)}")


def restore(
    array: str | os.PathLike[str],
    manifest: str,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Report:
    """Puts back the files that a repair took out, and removes the files that it put.

    Args:
        array: A path or a URI.
        manifest: The manifest of the repair, in the quarantine beside the array.
        dry_run: Change nothing.
        storage_options: What the storage needs to know.
        store: The array's store, if it is open already.

    Raises:
        RefusedError: The manifest is not of this array, or no repair can have written it.
        BadFileError: It is damaged.

    >>> restore("memory:doc-restore/a", "elsewhere")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.check.findings.RefusedError: elsewhere: expected a manifest in ..., found none
    """
    opened = store or open_store(array, storage_options)
    above, name = folder_beside(opened, SUFFIX)
    folder, data = _find_manifest(above, name, manifest)
    moved, added = _read_manifest(data, above.uri_of(f"{folder}/{_MANIFEST}"))
    originals: dict[str, bytes] = {}
    for entry in moved:
        file = f"{folder}/{entry['file']}"
        originals[entry["path"]] = copy = above.read(file)
        if hashlib.sha256(copy).hexdigest() != entry["sha256"]:
            problem = "expected the bytes that were moved there, found others"
            raise BadFileError(above.uri_of(file), problem)
    steps: list[Step] = []
    for entry in added:
        steps += _withdraw(opened, entry, dry_run=dry_run or entry["path"] not in originals)
    steps += [put(path, copy, "out of the quarantine") for path, copy in originals.items()]
    if not dry_run:
        for path, copy in originals.items():
            _put_back(opened, path, copy)
        for entry in added:
            if entry["path"] not in originals:
                _withdraw(opened, entry, dry_run=False)
        above.remove(f"{folder}/{entry['file']}" for entry in moved)
        above.remove([f"{folder}/{_MANIFEST}"])
        above.remove_folder(folder)
    notes = () if dry_run else ("the array is as it was before the repair",)
    return Report("repair", opened.uri, dry_run=dry_run, steps=tuple(steps), notes=notes)


def _find_manifest(above: Store, name: str, manifest: str) -> tuple[str, bytes]:
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
        # An earlier restore was broken off after this file.
        if store.read(path) != data:
            raise


def _withdraw(store: Store, entry: dict[str, Any], *, dry_run: bool) -> list[Step]:
    """Removes a file that the repair put, unless it has changed or gone since."""
    try:
        data = store.read(entry["path"])
    except MissingObjectError:
        return []
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        return []
    if not dry_run:
        store.remove([entry["path"]])
    return [Step(op="remove", path=entry["path"], size=len(data), reason="that change put it")]


def _read_manifest(data: bytes, where: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    document = read_json(data, where, "the manifest of a quarantine")
    try:
        moved = [dict(entry) for entry in document["moved"]]
        added = [dict(entry) for entry in document["put"]]
        for entry in (*moved, *added):
            if not isinstance(entry["path"], str) or not isinstance(entry["sha256"], str):
                raise TypeError("path")  # noqa: TRY301
    except (ValueError, KeyError, TypeError) as cause:
        raise BadFileError(where, f"expected a manifest, found {cause!r:.80}") from cause
    for path in (entry["path"] for entry in (*moved, *added)):
        if not _TAKEN.fullmatch(path) or not is_path(path):
            raise RefusedError(where, f"expected a file that a repair moves, found {path!r:.80}")
    for entry in moved:
        if not _FILE.fullmatch(str(entry.get("file"))):
            raise RefusedError(where, f"expected a file of it, found {entry.get('file')!r:.80}")
    for entry in added:
        path = str(entry["path"])
        if not path.endswith(LINES) and not is_commit_line(path) and not _is_list(path):
            raise RefusedError(where, f"expected what a repair puts, found {entry['path']!r:.80}")
    return moved, added


def _is_list(path: str) -> bool:
    """Whether it is a list of members of a group."""
    folder, _, name = path.partition("/")
    return folder == GROUP and is_name(name)


def _entry(step: Step) -> dict[str, Any]:
    digest = hashlib.sha256(step.data).hexdigest()
    return {"path": step.path, "size": step.size, "sha256": digest, "reason": step.reason}


def _file(number: int, path: str) -> str:
    return f"{number:04}-{path.rpartition('/')[2]}"
