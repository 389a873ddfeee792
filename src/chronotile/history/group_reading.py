"""The history of one group: every list of its members, read once.

In: a store. Out: `GroupHistory`, a value: the details files in time order, the `.vac` files of
`__group`, and the damage found. Knows nothing of windows: `visibility` does. Opens no member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from chronotile.errors import (
    ArrayNotFoundError,
    ChangedError,
    ChronotileError,
    KeyNeededError,
    StorageError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.commit_files import decode_vac
from chronotile.format.group_columns import DetailsColumns, scan_details
from chronotile.format.groups import GroupDetails, decode_details
from chronotile.format.kinds import GROUP, META
from chronotile.format.names import Name, try_parse
from chronotile.history.folder_kinds import find_below, is_array, is_group
from chronotile.history.reading import ATTEMPTS, Problem, VacuumFile
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.storage.store import Store

_VAC = ".vac"


@dataclass(frozen=True, kw_only=True)
class DetailsFile:
    """A file of `__group`."""

    path: str
    name: Name
    columns: DetailsColumns | None = field(default=None, repr=False)
    """Its members as columns, if it is of the usual kind."""
    decoded: GroupDetails | None = field(default=None, repr=False)
    """Its members, if it is not."""
    size: int
    format_version: int = 0
    encrypted: bool = False

    @cached_property
    def details(self) -> GroupDetails | None:
        """Its members; None where it could not be read: `GroupHistory.problems` says why."""
        if self.columns is None:
            return self.decoded
        return decode_details(self.columns.payload, self.path)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupHistory:
    """Everything that one reading of a group found."""

    group: str
    """Where it lies."""
    files: tuple[DetailsFile, ...]
    """By first moment, then by name."""
    vacuums: tuple[VacuumFile, ...]
    """The `.vac` files of `__group`."""
    meta: tuple[str, ...]
    """The names of files in `__meta`."""
    problems: tuple[Problem, ...]
    key: bytes | None = field(repr=False)


def read_group(store: Store, *, key: bytes | str | None = None) -> GroupHistory:
    """Lists and reads the details files of a group, anew if a file vanishes in between.

    Raises:
        ArrayNotFoundError: There is no group.
        ChangedError: The group changed each time while it was read.
        StorageError: The storage failed.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-read-group")
    >>> store.put_if_absent("__tiledb_group.tdb", b"")
    >>> read_group(store).files
    ()
    """
    raw_key = key.encode() if isinstance(key, str) else key
    folder = store.list_dir()
    if not is_group(folder):
        found = "an array" if is_array(folder) else f"no {GROUP}; {find_below(store).words()}"
        raise ArrayNotFoundError(store.uri, f"expected a group, found {found}")
    for _ in range(ATTEMPTS):
        try:
            return _read_once(store, raw_key)
        except MissingObjectError:
            continue
    problem = f"expected a group at rest, found it changed during each of {ATTEMPTS} readings"
    raise ChangedError(store.uri, problem)


def _read_once(store: Store, key: bytes | None) -> GroupHistory:
    folder = store.list_dir(GROUP)
    problems = [Problem(one.path, one.what, "name") for one in folder.strangers]
    problems += [
        Problem(path, "expected a file, found a folder", "name") for path in folder.folders
    ]
    named: dict[str, Name] = {}
    for entry in folder.files:
        text = entry.path.rpartition("/")[2].removesuffix(_VAC)
        name = try_parse(text)
        if name is None:
            problems.append(Problem(entry.path, "expected a timestamped name", "name"))
        else:
            named[entry.path] = name
    files, vacuums = [], []
    for path, got in store.read_many(named):
        if isinstance(got, MissingObjectError):
            raise got
        data = _bytes(got, problems, path)
        if path.endswith(_VAC):
            lines = tuple(_lines(data, path, problems)) if data is not None else ()
            vacuums.append(VacuumFile(path=path, name=named[path], lines=lines))
        else:
            files.append(_details(path, named[path], data, key, problems))
    files.sort(key=lambda file: (file.name.t1, file.name.text))
    meta = store.list_names(META).files
    return GroupHistory(
        group=store.uri,
        files=tuple(files),
        vacuums=tuple(vacuums),
        meta=tuple(sorted(meta)),
        problems=tuple(problems),
        key=key,
    )


def _bytes(got: bytes | ChronotileError, problems: list[Problem], path: str) -> bytes | None:
    if isinstance(got, bytes):
        return got
    if isinstance(got, StorageError):
        raise got
    problems.append(Problem(path, got.problem, "tile"))
    return None


def _lines(data: bytes, path: str, problems: list[Problem]) -> Iterator[str]:
    try:
        yield from decode_vac(data, path)
    except ChronotileError as error:
        problems.append(Problem(path, error.problem, "vac"))


def _details(
    path: str, name: Name, data: bytes | None, key: bytes | None, problems: list[Problem]
) -> DetailsFile:
    if data is None:
        return DetailsFile(path=path, name=name, size=0)
    try:
        tile = tiles.decode(data, path, key=key)
        columns = scan_details(tile.payload)
        return DetailsFile(
            path=path,
            name=name,
            columns=columns,
            decoded=decode_details(tile.payload, path) if columns is None else None,
            size=len(data),
            format_version=tile.version,
            encrypted=tile.encrypted,
        )
    except ChronotileError as error:
        kind = "encrypted" if isinstance(error, KeyNeededError | WrongKeyError) else "tile"
        problems.append(Problem(path, error.problem, kind))
        return DetailsFile(path=path, name=name, size=len(data))
