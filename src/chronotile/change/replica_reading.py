"""The log of an array or a group, by one listing, for a copy of it.

In: a store. Out: `LogReading`: its files, and what its commit files say: the writes, deletes and
updates that count, and the files that hide others. Opens no schema and no fragment, and needs no
key. A source is listed so that all fragments of the commits in the reading are in it, and none of
its files is one that an engine is still writing.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, ChangedError, ChronotileError
from chronotile.format import tiles
from chronotile.format.commit_files import is_cut_con, salvage_con, vacuumed_name
from chronotile.format.kinds import (
    COMMIT_FILES,
    COMMITS,
    CONDITIONS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENT_METADATA,
    FRAGMENTS,
    GROUP,
    GROUP_MARKER,
    LINES,
    LOCK,
    META,
    OLD_SCHEMA,
    OWN,
    ROOT_FILES,
    SCHEMA,
    WRITES,
)
from chronotile.format.names import is_name, parse_name, version_of
from chronotile.format.timestamps import now_ms
from chronotile.safe_text import shell_word
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.storage.store import Entry, Store

MUTABLE = (*CONDITIONS, *LINES)
"""Extensions of files whose content can change under one name."""
ATTEMPTS = 8
"""How often to list a place that changes meanwhile."""
_FRESH_MS = 60_000
"""A file on a disk that changed within this time may still be in the writing."""
_PAUSE_S = 0.05
_WHOLE_FOLDERS = frozenset({SCHEMA, ENUMERATIONS, FRAGMENT_META, META, GROUP})
_ROOT_OWN = frozenset({OLD_SCHEMA, LOCK, GROUP_MARKER})
_NAME = r"__[0-9a-f_]{34,}"
_PARTS = f"{SCHEMA}|{COMMITS}|{FRAGMENTS}|{FRAGMENT_META}|{META}|{GROUP}|{OWN}"
_INSIDE = re.compile(
    rf"(?:^|/)(?:(?:{_PARTS}|{_NAME})(?=/)|(?:{OLD_SCHEMA}|{LOCK}|{GROUP_MARKER}|{_NAME}"
    r"\.(?:ok|vac|meta))$)"
)


def root_of(path: str) -> str | None:
    """Give the folder of the array or group that a file is a part of; None if it is of neither.

    An array in the folder `__labels` of another one has a folder of its own.

    >>> root_of("lake/sales/__commits/x.wrt"), root_of("__schema/s"), root_of("notes/a.txt")
    ('lake/sales', '', None)
    """
    found = _INSIDE.search(path)
    return None if found is None else path[: found.start()]


def is_log_file(path: str) -> bool:
    """Tell whether a path, relative to an array or group, is one of its log: not of a fragment.

    >>> is_log_file("__schema/s"), is_log_file("__fragments/f/a.tdb"), is_log_file("notes.txt")
    (True, False, False)
    """
    folder, _, name = path.rpartition("/")
    if folder in _WHOLE_FOLDERS:
        return True
    stem, dot, extension = name.rpartition(".")
    if folder == COMMITS:
        return dot + extension in COMMIT_FILES and is_name(stem)
    return not folder and (name in _ROOT_OWN or (dot + extension in ROOT_FILES and is_name(stem)))


def fragment_of(path: str) -> str | None:
    """Give the folder of the fragment that a file is in; None if it is in none."""
    folder = path.rpartition("/")[0]
    above, _, name = folder.rpartition("/")
    return folder if above in ("", FRAGMENTS) and is_name(name) else None


@dataclass(frozen=True, kw_only=True)
class LogReading:
    """One reading of the log of an array or a group."""

    store: Store
    files: Mapping[str, Entry]
    """Path -> file, of the log and of fragments."""
    content: Mapping[str, bytes]
    """Path -> content, of files whose content can change; of a group, of all files of the log."""

    @cached_property
    def log_files(self) -> dict[str, Entry]:
        """The files of the log, in order."""
        return {path: entry for path, entry in self.files.items() if is_log_file(path)}

    @cached_property
    def fragments(self) -> dict[str, dict[str, Entry]]:
        """Name of a fragment -> its files."""
        found: dict[str, dict[str, Entry]] = {}
        for path, entry in self.files.items():
            folder = fragment_of(path)
            if folder is not None:
                found.setdefault(folder.rpartition("/")[2], {})[path] = entry
        return found

    @cached_property
    def loose(self) -> dict[str, str]:
        """Name of a fragment -> the file that is its commit."""
        return {
            path.rpartition("/")[2].rpartition(".")[0]: path
            for path in self.log_files
            if path.endswith(WRITES)
            and (path.startswith(f"{COMMITS}/") or path.rpartition(".")[0] in self.fragments)
        }

    @cached_property
    def implied(self) -> frozenset[str]:
        """Fragments of old whose metadata file is their commit."""
        return frozenset(
            name
            for name, files in self.fragments.items()
            if f"{name}/{FRAGMENT_METADATA}" in files
            and version_of(parse_name(name)) < 5
            and name not in self.loose
        )

    @cached_property
    def records(self) -> dict[str, list[tuple[str, bytes | None]]]:
        """`.con` file -> its commits: URI, and tile of a delete or update."""
        found = {}
        for path, data in self.content.items():
            if path.endswith(".con"):
                spans, tiles = salvage_con(data)
                by_number = {number: data[at : at + size] for number, at, size in tiles}
                found[path] = [
                    (data[at : at + size].decode("utf-8", "replace"), by_number.get(number))
                    for number, (at, size) in enumerate(spans)
                ]
        return found

    def lines(self, path: str) -> list[str]:
        """Give the lines of an `.ign` or a `.vac`."""
        return self.content[path].decode("utf-8", "replace").splitlines()

    @cached_property
    def ignored(self) -> frozenset[str]:
        """URIs of the writes that an `.ign` names."""
        files = (path for path in self.content if path.endswith(".ign"))
        return frozenset(line for path in files for line in self.lines(path))

    @cached_property
    def writes(self) -> frozenset[str]:
        """Names of the fragments that are committed."""
        listed = {
            uri.rpartition("/")[2].rpartition(".")[0]
            for records in self.records.values()
            for uri, _ in records
            if uri.endswith(WRITES) and uri not in self.ignored
        }
        return frozenset(listed) | self.loose.keys() | self.implied

    @cached_property
    def tiles(self) -> dict[str, set[bytes]]:
        """URI of a delete or update -> its content, wherever it stands."""
        found: dict[str, set[bytes]] = {}
        for path, data in self.content.items():
            if path.endswith(CONDITIONS):
                found.setdefault(path, set()).add(data)
        for records in self.records.values():
            for uri, tile in records:
                if tile is not None:
                    found.setdefault(uri, set()).add(tile)
        return found

    @cached_property
    def targets(self) -> dict[str, frozenset[str]]:
        """`.vac` file -> the names that it hides."""
        return {
            path: frozenset(map(vacuumed_name, self.lines(path)))
            for path in self.content
            if path.endswith(".vac")
        }

    def vacs(self, folder: str) -> list[str]:
        """List the `.vac` files of a folder; those of a root count to `__commits`."""
        folders = (COMMITS, "") if folder == COMMITS else (folder,)
        return [path for path in self.targets if path.rpartition("/")[0] in folders]

    def hidden(self, folder: str) -> set[str]:
        """Names that a `.vac` of a folder hides."""
        return {name for path in self.vacs(folder) for name in self.targets[path]}


def read_source(store: Store, *, is_group: bool) -> LogReading:
    """Read the log of a source: all that its commits need is in the reading.

    Raises:
        ChangedError: It changed during each attempt.
    """
    problem = f"expected a log at rest, found it changed during each of {ATTEMPTS} listings"
    for attempt in range(ATTEMPTS):
        time.sleep(attempt * _PAUSE_S)
        # Commits first: what they need was there before them.
        first: set[str] = set()
        if not is_group:
            first = {f"{COMMITS}/{name}" for name in store.list_names(COMMITS).files}
            first |= set(store.list_names("").files)
        files = {entry.path: entry for entry in _listed(store, is_group=is_group)}
        if not all(path in files for path in first if is_log_file(path)):
            continue
        if not is_group:
            later = [p for p in files if _is_commit(p) and p not in first]
            for path in later:
                del files[path]
        try:
            content = _content(store, files, is_group=is_group)
            cut = next(_cut_files(store, files, content), None)
        except MissingObjectError:
            continue
        if cut is None:
            return LogReading(store=store, files=files, content=content)
        problem = f"expected whole files, found that {cut} is cut short: somebody is writing it"
        look = f"chronotile check {shell_word(store.uri)}"
        problem = f"{problem}, or has failed to; to look into it: {look}"
    raise ChangedError(store.uri, problem)


def _cut_files(
    store: Store, files: dict[str, Entry], content: Mapping[str, bytes]
) -> Iterator[str]:
    """Find files that lack bytes; correct the sizes of those that were listed before their end."""
    for path, data in content.items():
        if _is_cut(path, data, len(data)):
            yield path
    if not store.traits.shows_partial_files:
        return
    for path, entry in files.items():
        is_old = now_ms() - (entry.modified_ms or 0) > _FRESH_MS
        if is_old or path in content or not is_log_file(path):
            continue
        start = store.read_range(path, 0, tiles.LEN_HEADER)
        files[path] = store.head(path)
        if _is_cut(path, start, files[path].size or 0):
            yield path


def _is_cut(path: str, start: bytes, size: int) -> bool:
    """Tell whether a file of a log, which begins so, lacks bytes: needs no key."""
    stem, dot, extension = path.rpartition("/")[2].partition(".")
    if not is_name(stem) or dot + extension in WRITES:
        return False
    if path.endswith(".con"):
        return is_cut_con(start)
    if path.endswith(LINES):
        return not start.endswith(b"\n")
    header = tiles.read_header(start)
    whole = None if header is None else header.extent
    return whole is None or whole > size


def read_target(store: Store, *, is_group: bool) -> LogReading:
    """Read the log of a target, which may not be there yet."""
    for _ in range(ATTEMPTS):
        try:
            files = {entry.path: entry for entry in _listed(store, is_group=is_group)}
        except ArrayNotFoundError:
            files = {}
        with suppress(MissingObjectError):
            content = _content(store, files, is_group=is_group)
            return LogReading(store=store, files=files, content=content)
    raise ChangedError(store.uri, "expected a replica at rest, found files of it removed")


def _is_commit(path: str) -> bool:
    return path.endswith(COMMIT_FILES) and (path.startswith(f"{COMMITS}/") or "/" not in path)


def _listed(store: Store, *, is_group: bool) -> Iterable[Entry]:
    if not is_group:
        files = [e for e in store.list_files() if "\\" not in e.path]  # those are no paths
        return [e for e in files if is_log_file(e.path) or fragment_of(e.path)]
    own = store.list_dir("", sizes=True).files
    lists = [e for folder in (GROUP, META) for e in store.list_dir(folder, sizes=True).files]
    return [entry for entry in (*own, *lists) if is_log_file(entry.path)]


def _content(store: Store, files: Mapping[str, Entry], *, is_group: bool) -> dict[str, bytes]:
    """Read what can change under one name.

    Raises:
        MissingObjectError: A file is gone meanwhile.
    """
    wanted = [p for p in files if is_log_file(p) and (is_group or p.endswith(MUTABLE))]
    content: dict[str, bytes] = {}
    for path, data in store.read_many(wanted):
        if isinstance(data, ChronotileError):
            raise data
        content[path] = data
    return content
