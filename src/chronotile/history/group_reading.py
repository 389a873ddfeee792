"""The history of one group: every list of its members, read once.

In: a store. Out: `GroupHistory`, a value: the details files in time order, the `.vac` files of
`__group`, and the damage found. Knows nothing of windows: `visibility` does. Opens no member.

Every session leaves a list of all members that it knew, so a later list repeats most of them. Such
a list is read only if a caller asks for its members.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
from chronotile.format.groups import GroupDetails, decode_details, stored_members
from chronotile.format.kinds import GROUP, META
from chronotile.format.names import try_parse
from chronotile.history.listing import find_below, is_array, is_group
from chronotile.history.read_history import ATTEMPTS, Problem, VacuumFile
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.format.names import Name
    from chronotile.storage.store import Folder, Store


_VAC = ".vac"


@dataclass(frozen=True, kw_only=True)
class DetailsFile:
    """A file of `__group`."""

    path: str
    name: Name
    size: int
    format_version: int = 0
    encrypted: bool = False
    data: bytes | None = field(default=None, repr=False)
    """The file; None where it could not be read."""
    key: bytes | None = field(default=None, repr=False)
    read: GroupDetails | None = field(default=None, repr=False)
    """Its members, if they were read."""

    @cached_property
    def details(self) -> GroupDetails | None:
        """Its members; None where it could not be read: `GroupHistory.problems` says why."""
        if self.read is not None or self.data is None:
            return self.read
        payload = tiles.decode(self.data, self.path, key=self.key).payload
        return decode_details(payload, self.path)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupHistory:
    """Everything that one reading of a group found."""

    group: str
    """Its URI."""
    files: tuple[DetailsFile, ...]
    """By first moment, then by name."""
    vacuums: tuple[VacuumFile, ...]
    """The `.vac` files of `__group`."""
    meta: tuple[str, ...]
    """The names of files in `__meta`."""
    problems: tuple[Problem, ...]
    key: bytes | None = field(repr=False)
    repeated: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Path of a file -> that of a later one which has every member of it."""

    @property
    def is_sealed(self) -> bool:
        """True if the group is encrypted, and there is no key; one without lists may be."""
        sealed = not self.files or any(one.kind == "encrypted" for one in self.problems)
        return self.key is None and sealed


def read_group(store: Store, *, key: bytes | str | None = None) -> GroupHistory:
    """List and read the details files of a group; start again if a file vanishes in between.

    Raises:
        ArrayNotFoundError: There is no group.
        ChangedError: The group changed each time while it was read.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-read-group")
    >>> store.put_if_absent("__tiledb_group.tdb", b"")
    >>> read_group(store).files
    ()
    """
    raw_key = key.encode() if isinstance(key, str) else key
    for _ in range(ATTEMPTS):
        # A bucket is asked for all three at once: there each round trip counts.
        root, lists, meta = ahead(store.list_dir, ("", GROUP, META), min(store.concurrency, 3))
        if not is_group(root):
            instead = "an array" if is_array(root) else f"no {GROUP}; {find_below(store).words()}"
            raise ArrayNotFoundError(store.uri, f"expected a group, found {instead}")
        try:
            return _read_once(store, raw_key, lists, meta)
        except MissingObjectError:
            continue
    problem = f"expected a group at rest, found it changed during each of {ATTEMPTS} readings"
    raise ChangedError(store.uri, problem)


def _read_once(store: Store, key: bytes | None, folder: Folder, meta: Folder) -> GroupHistory:
    strangers = (*folder.strangers, *meta.strangers)
    problems = [Problem(one.path, one.what, "name") for one in strangers]
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
    lists: list[tuple[str, Name, bytes | None]] = []
    vacuums = []
    for path, answer in store.read_many(named):
        if isinstance(answer, MissingObjectError | StorageError):
            raise answer
        data = answer if isinstance(answer, bytes) else None
        if isinstance(answer, ChronotileError):
            problems.append(Problem(path, answer.problem, "tile"))
        if not path.endswith(_VAC):
            lists.append((path, named[path], data))
            continue
        lines: tuple[str, ...] = ()
        try:
            lines = decode_vac(data or b"", path)
        except ChronotileError as error:
            problems.append(Problem(path, error.problem, "vac"))
        vacuums.append(VacuumFile(path=path, name=named[path], lines=lines))
    files, repeated = _open_lists(lists, key, problems)
    return GroupHistory(
        group=store.uri,
        files=files,
        vacuums=tuple(vacuums),
        meta=tuple(meta.bare().files),
        problems=tuple(problems),
        key=key,
        repeated=repeated,
    )


def _open_lists(
    lists: Iterable[tuple[str, Name, bytes | None]], key: bytes | None, problems: list[Problem]
) -> tuple[tuple[DetailsFile, ...], Mapping[str, str]]:
    """Open details files, given as (path, name, content); give `files` and `repeated`."""
    ordered = sorted(lists, key=lambda one: (one[1].t1, one[1].text))
    files: list[DetailsFile] = []
    repeated: dict[str, str] = {}
    damage: list[Problem] = []
    later, known = "", frozenset[bytes]()  # the last list that was read, and its members
    for path, name, data in reversed(ordered):
        file = DetailsFile(path=path, name=name, size=len(data or b""))
        files.append(file)
        if data is None:
            continue
        try:
            tile = tiles.decode(data, path, key=key)
            members = stored_members(tile.payload) if len(ordered) > 1 else None
            details = None
            if later and members is not None and known.issuperset(members):
                repeated[path] = later
            else:
                details = decode_details(tile.payload, path)
                later, known = path, frozenset(members or ())
        except ChronotileError as error:
            kind = "encrypted" if isinstance(error, KeyNeededError | WrongKeyError) else "tile"
            damage.append(Problem(path, error.problem, kind))
            continue
        files[-1] = replace(
            file,
            format_version=tile.version,
            encrypted=tile.encrypted,
            data=data,
            key=key,
            read=details,
        )
    problems += damage[::-1]
    return tuple(files[::-1]), repeated
