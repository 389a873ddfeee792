"""The history of one group: every list of its members, read once.

In: a store. Out: `GroupHistory`, a value: the details files in time order, the `.vac` files of
`__group`, and the damage found. Knows nothing of windows: `visibility` does. Opens no member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chronotile.errors import (
    ArrayNotFoundError,
    ChangedError,
    ChronotileError,
    StorageError,
)
from chronotile.format.commit_files import decode_vac
from chronotile.format.kinds import GROUP, META
from chronotile.format.names import Name, try_parse
from chronotile.history.details_files import open_lists
from chronotile.history.folder_kinds import find_below, is_array, is_group
from chronotile.history.read_history import ATTEMPTS, Problem, VacuumFile
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.history.details_files import DetailsFile
    from chronotile.storage.store import Folder, Store

_VAC = ".vac"


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
    repeated: Mapping[str, str] = field(default_factory=dict, repr=False)
    """See `OpenedLists`."""

    @property
    def is_sealed(self) -> bool:
        """Whether the group is encrypted, and there is no key; one without lists may be."""
        sealed = not self.files or any(one.kind == "encrypted" for one in self.problems)
        return self.key is None and sealed


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
    for _ in range(ATTEMPTS):
        # A bucket is asked for all three at once: there each round trip counts.
        root, lists, meta = ahead(store.list_dir, ("", GROUP, META), min(store.concurrency, 3))
        if not is_group(root):
            found = "an array" if is_array(root) else f"no {GROUP}; {find_below(store).words()}"
            raise ArrayNotFoundError(store.uri, f"expected a group, found {found}")
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
    for path, got in store.read_many(named):
        if isinstance(got, MissingObjectError):
            raise got
        data = _bytes(got, problems, path)
        if not path.endswith(_VAC):
            lists.append((path, named[path], data))
            continue
        lines = tuple(_lines(data, path, problems)) if data is not None else ()
        vacuums.append(VacuumFile(path=path, name=named[path], lines=lines))
    opened = open_lists(lists, key)
    return GroupHistory(
        group=store.uri,
        files=opened.files,
        vacuums=tuple(vacuums),
        meta=tuple(meta.bare().files),
        problems=(*problems, *opened.problems),
        key=key,
        repeated=opened.repeated,
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
