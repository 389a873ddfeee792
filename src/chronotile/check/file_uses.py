"""The use of each file of an array.

In: the files of an array, and the rules of its history. Out: `FileUse`: the fragment, the field and
the part that a file belongs to, and the reason why it is there. Reads footers only where the
array's schemas do not agree on a file's name. Knows nothing of what could be removed.

A fragment that a commit names is visible if an open of all time sees it, and superseded if a `.vac`
hides it then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.format.fragment_footer import FIRST_WITH_SCHEMA_NAME, cell_files_of
from chronotile.format.kinds import (
    COMMIT_FILES,
    COMMITS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENT_METADATA,
    FRAGMENTS,
    LOCK,
    META,
    OLD_SCHEMA,
    OWN,
    ROOT_FILES,
    SCHEMA,
)
from chronotile.format.names import MAX_TIMESTAMP, is_name, is_newer, parse_name, version_of
from chronotile.history import text_columns
from chronotile.history.read_footers import FooterReader, StoredFooter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.history.read_history import History
    from chronotile.storage.store import Entry, Store
    from chronotile.visibility.rules import Rules

    Parts = Mapping[str, tuple[str, str]]

REASONS = (
    "visible",
    "superseded",
    "ignored",
    "uncommitted",
    "commit-log",
    "schema",
    "metadata",
    "operations",
    "stray",
)
"""Why a file is there. The first four are of fragments; `operations` are records of what this
package did, and what it took out; `stray` is no part of an array."""

BYTES_OF = {reason: f"bytes_{reason.replace('-', '_')}" for reason in REASONS}
"""Reason -> the column of `arrays` with the bytes that it takes."""

_ABSENT = "uncommitted"
"""The state of a fragment that the log does not know: it was written after the log was read."""


class FileUse(NamedTuple):
    """One file, and its use."""

    path: str
    """Relative to the array."""
    fragment: str | None
    """The name of the fragment whose folder it is in."""
    field: str | None
    """By its name in the fragment's own schema; None unless it is a file of cells."""
    part: str | None
    """`data`, `offsets`, `validity`, `timestamps`, `deletes`; `metadata` of a fragment's own."""
    size: int
    reason: str
    """One of `REASONS`."""


def file_uses(
    store: Store, history: History, rules: Rules, files: Iterable[Entry]
) -> tuple[FileUse, ...]:
    """Find the use of each of an array's files, in their order."""
    entries = tuple(files)
    states = _states(history, rules)
    places = [_fragment_of(entry.path) for entry in entries]
    folders: dict[str, list[str]] = {}
    for place in places:
        if place is not None:
            folders.setdefault(place[0], []).append(place[1])
    parts = _CellFiles(store, history).of(folders)
    uses = []
    for entry, place in zip(entries, places, strict=True):
        size = entry.size or 0
        if place is None:
            uses.append(FileUse(entry.path, None, None, None, size, _reason(entry.path)))
            continue
        name, file = place
        field, part = parts.get(name, {}).get(file, (None, None))
        if file == FRAGMENT_METADATA:
            part = "metadata"
        reason = states.get(name, _ABSENT)
        uses.append(FileUse(entry.path, name, field, part, size, reason))
    return tuple(uses)


def bytes_by_reason(history: History, rules: Rules, measured: Iterable[Entry]) -> dict[str, int]:
    """Add up the bytes of each of `REASONS`, by the sizes of files and of whole folders.

    A measured path that ends with a slash stands for all that is below it.
    """
    states = _states(history, rules)
    sizes = dict.fromkeys(REASONS, 0)
    for entry in measured:
        place = _fragment_of(entry.path)
        reason = _reason(entry.path) if place is None else states.get(place[0], _ABSENT)
        sizes[reason] += entry.size or 0
    return sizes


def _fragment_of(path: str) -> tuple[str, str] | None:
    """Find the fragment that a file lies in, and the file's path below its folder."""
    inside = path.removeprefix(f"{FRAGMENTS}/")
    name, slash, file = inside.partition("/")
    return (name, file) if slash and is_name(name) else None


def _reason(path: str) -> str:
    """Say why a file outside of all fragments is there."""
    folder, _, name = path.rpartition("/")
    if path.startswith(f"{OWN}/"):
        return "operations"
    if folder == COMMITS and name.endswith(COMMIT_FILES):
        return "commit-log"
    if folder in (SCHEMA, ENUMERATIONS) or path == OLD_SCHEMA:
        return "schema"
    if folder == META or (folder in ("", FRAGMENT_META) and name.endswith(ROOT_FILES[-1])):
        return "metadata"
    if not folder and name.endswith(ROOT_FILES[:-1]):
        return "commit-log"
    return "commit-log" if path == LOCK else "stray"


def _states(history: History, rules: Rules) -> dict[str, str]:
    """Find the reason for each fragment that is there."""
    table = history.table
    states = dict.fromkeys(text_columns.names(table, rules.ignored()).to_pylist(), "ignored")
    states |= dict.fromkeys(
        text_columns.names(table, rules.fragment_rows).to_pylist(), "superseded"
    )
    seen = rules.visible(0, MAX_TIMESTAMP)[0]
    states |= dict.fromkeys(text_columns.names(table, seen).to_pylist(), "visible")
    return states | dict.fromkeys(rules.uncommitted, _ABSENT)


class _CellFiles:
    """The field and part of each cell file, by the fragment's own schema."""

    def __init__(self, store: Store, history: History) -> None:
        self._store, self._history = store, history
        self._schemas = {item.text: item.schema for item in history.schemas}
        self._known: dict[tuple[str, int], Parts] = {}

    def of(self, folders: Mapping[str, list[str]]) -> dict[str, Parts]:
        """Find the field and part of the files in the folder of each fragment."""
        known: dict[str, Parts] = {}
        unsure = []
        for name, files in folders.items():
            if is_newer(name):
                continue
            agreed = self._agreed(version_of(parse_name(name)), files)
            if agreed is not None:
                known[name] = agreed
            elif FRAGMENT_METADATA in files:
                unsure.append(name)
        return known | dict(self._read(unsure))

    def _agreed(self, version: int, files: list[str]) -> Parts | None:
        """Return the parts by all schemas that the fragment may have; None if these differ."""
        is_old = version < FIRST_WITH_SCHEMA_NAME
        names = [name for name in self._schemas if (name == OLD_SCHEMA) == is_old]
        if not names or any(self._schemas[name] is None for name in names):
            return None if len(names) > 1 else {}
        first, *others = (self._of_schema(name, version) for name in names)
        alike = all(first.get(file) == other.get(file) for other in others for file in files)
        return first if alike else None

    def _of_schema(self, name: str, version: int) -> Parts:
        key, schema = (name, version), self._schemas.get(name)
        if key not in self._known:
            self._known[key] = {} if schema is None else cell_files_of(schema, version)
        return self._known[key]

    def _read(self, names: list[str]) -> Iterator[tuple[str, Parts]]:
        for name, stored in FooterReader(self._store, self._history).read(names):
            if isinstance(stored, StoredFooter):
                yield name, self._of_schema(stored.schema_file, version_of(parse_name(name)))
