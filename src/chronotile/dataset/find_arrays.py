"""Finding the arrays of a fleet.

In: folders, or patterns of folders, on any storage. Out: `Fleet`: every array below them, each
with the weight of its commit log, and the folders that could not be listed. Opens no file.

A folder with a schema, or with another folder that only arrays have, is an array. The search does
not go below it: the arrays in its `__labels` are parts of it. The search goes through every other
folder, which is a group or a plain folder.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import Future, ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from chronotile.errors import ArrayNotFoundError, ChronotileError, StorageError
from chronotile.format.kinds import COMMITS, FRAGMENTS, OLD_SCHEMA, SCHEMA
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from chronotile.storage.store import Folder, Store

    _Visited: TypeAlias = "tuple[Found | None, tuple[Store, ...], tuple[Unlisted, ...]]"

CONCURRENCY = 64
"""Folders to list at once: in a bucket most of the time is waiting."""

_OF_ARRAYS = frozenset({SCHEMA, COMMITS, FRAGMENTS})
_OF_GROUPS = frozenset({"__group", "__meta"})
_WILD = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"

WEIGHT_OF_ARRAY = 4096
"""The cost of opening an array without its commit files, in bytes that take as long to read."""
WEIGHT_OF_FILE = 128
"""The cost of one commit file without its content."""


class Found(NamedTuple):
    """An array."""

    uri: str
    weight: int
    """Bytes of its commit files, and an allowance for each file; for planning only."""


class Unlisted(NamedTuple):
    """A folder that could not be listed: arrays below it may be missing."""

    uri: str
    message: str
    missing: bool = False
    """Whether the folder does not exist."""


class Fleet(NamedTuple):
    """The arrays below the roots, and the folders that could not be listed, both sorted."""

    arrays: tuple[Found, ...]
    problems: tuple[Unlisted, ...]
    left: tuple[str, ...] = ()
    """Folders that the search did not come to, as it had listed as many as it was allowed to."""

    @property
    def uris(self) -> tuple[str, ...]:
        """The places of the arrays."""
        return tuple(array.uri for array in self.arrays)


def find_arrays(
    roots: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    storage_options: Mapping[str, str] | None = None,
    *,
    weigh: bool = False,
    missing_ok: bool = False,
    known: Container[str] = (),
    concurrency: int = CONCURRENCY,
    most: int | None = None,
) -> Fleet:
    """Find all arrays at or below the roots, each once.

    The search follows no symbolic link below a root. A folder that cannot be listed does not stop
    it: it is among the problems.

    Args:
        roots: Folders or URIs. `*`, `?` and `[…]` match within a folder's name, and `**` any
            number of folders; a root that exists as written is no pattern.
        storage_options: Options of the storage, such as a region.
        weigh: List also the commit files of each array, for `Found.weight`.
        missing_ok: Put a root that does not exist among the problems.
        known: Folders that are known to be arrays, and are not listed again.
        concurrency: Folders to list at once.
        most: Folders to list at most, or a few more; `Fleet.left` has the others.

    Raises:
        ArrayNotFoundError: A root does not exist, or a pattern matches no folder.
        StorageError: A root cannot be listed.

    >>> from chronotile.storage.store import open_store
    >>> for name in ("a/__schema/s", "g/b/__schema/s", "g/b/__labels/l/__schema/s"):
    ...     open_store("memory:doc-find").put_if_absent(name, b"")
    >>> find_arrays("memory:doc-find").uris
    ('memory://doc-find/a', 'memory://doc-find/g/b')
    >>> find_arrays("memory://doc-find/*/b").uris
    ('memory://doc-find/g/b',)
    """
    wanted = (roots,) if isinstance(roots, str | os.PathLike) else tuple(roots)
    stores = [
        store for root in wanted for store in _expanded(os.fspath(root), storage_options or {})
    ]
    search = _Search(weigh, known, most)
    fresh = search.fresh(stores)
    left = search.on_disk([store for store in fresh if store.place.scheme == "file"])
    remote = [store for store in fresh if store.place.scheme != "file"]
    left += search.in_buckets(remote, max(concurrency, 1))
    for root in (search.problems[s.uri] for s in stores if s.uri in search.problems):
        if not root.missing:
            raise StorageError(root.uri, root.message)
        if not missing_ok:
            raise ArrayNotFoundError(root.uri, root.message)
    arrays, problems = search.arrays.values(), search.problems.values()
    rest = tuple(sorted(store.uri for store in left))
    return Fleet(tuple(sorted(arrays)), tuple(sorted(problems)), rest)


class _Search:
    """One search, with the arrays and problems that it has found so far."""

    def __init__(self, weigh: bool, known: Container[str] = (), most: int | None = None) -> None:
        self.weigh = weigh
        self.known = known
        self._most = most
        self.arrays: dict[str, Found] = {}
        self.problems: dict[str, Unlisted] = {}
        self._seen: set[str] = set()
        self._visited = 0

    def fresh(self, stores: Iterable[Store]) -> list[Store]:
        """The folders that the search has not met before; keeps arrays that are known."""
        new = {store.uri: store for store in stores if store.uri not in self._seen}
        self._seen.update(new)
        again = [uri for uri in new if uri in self.known]
        self.arrays |= {uri: Found(uri, 0) for uri in again}
        return [store for uri, store in new.items() if uri not in self.known]

    def _taken(self, store: Store, visit: Callable[[], _Visited]) -> list[Store]:
        """Keep the result of a visit, and give the folders to visit next."""
        self._visited += 1
        try:
            array, folders, problems = visit()
        except ChronotileError as error:
            missing = isinstance(error, ArrayNotFoundError)
            self.problems[store.uri] = Unlisted(store.uri, error.problem, missing)
            return []
        if array is not None:
            self.arrays[array.uri] = array
        self.problems |= {problem.uri: problem for problem in problems}
        return self.fresh(folders)

    def _may_go_on(self) -> bool:
        return self._most is None or self._visited < self._most

    def on_disk(self, waiting: list[Store]) -> list[Store]:
        """Visit folders of a disk, one by one: threads gain nothing there. Gives those left."""
        while waiting and self._may_go_on():
            store = waiting.pop()
            waiting += self._taken(store, partial(_visit, store, self.weigh))
        return waiting

    def in_buckets(self, waiting: list[Store], concurrency: int) -> list[Store]:
        """Visit folders of buckets, many at once. Gives those left."""
        # `concurrent.futures.wait` would look at every future again for each one that is done.
        done: SimpleQueue[tuple[Store, Future[_Visited]]] = SimpleQueue()
        running = 0
        with ThreadPoolExecutor(concurrency, thread_name_prefix="chronotile-find") as pool:
            while running or (waiting and self._may_go_on()):
                while waiting and running < 2 * concurrency and self._may_go_on():
                    store = waiting.pop()
                    visit = pool.submit(_visit, store, self.weigh)
                    visit.add_done_callback(lambda visit, store=store: done.put((store, visit)))  # type: ignore[misc]
                    running += 1
                store, visit = done.get()
                running -= 1
                waiting += self._taken(store, visit.result)
        return waiting


def _visit(store: Store, weigh: bool) -> _Visited:
    folder = store.list_dir()
    if is_array(folder):
        return Found(store.uri, _weight(store, folder) if weigh else 0), (), ()
    below = [store.child(name) for name in folder.folders if name not in _OF_GROUPS]
    problems = [
        Unlisted(store.uri_of(stranger.path), f"{stranger.what}: arrays below it were not searched")
        for stranger in folder.strangers
        if stranger.kind == "folder"
    ]
    return None, tuple(below), tuple(problems)


def _weight(store: Store, folder: Folder) -> int:
    files = list(folder.files)
    if COMMITS in folder.folders:
        try:
            files += store.list_dir(COMMITS, sizes=True).files
        except ChronotileError:
            return WEIGHT_OF_ARRAY  # the read of the array will say what is wrong
    sizes = sum(entry.size or 0 for entry in files)
    return WEIGHT_OF_ARRAY + WEIGHT_OF_FILE * len(files) + sizes


def is_array(folder: Folder) -> bool:
    """Whether a folder is an array, perhaps a damaged one, by the names in it.

    >>> from chronotile.storage.store import Folder
    >>> is_array(Folder(folders=("__schema",))), is_array(Folder(folders=("__group", "a")))
    (True, False)
    """
    if not _OF_ARRAYS.isdisjoint(folder.folders):
        return True
    return any(entry.path == OLD_SCHEMA for entry in folder.files)


def _expanded(root: str, options: Mapping[str, str]) -> Iterator[Store]:
    """The folders that a root or a pattern names."""
    literal = open_store(root, options)
    if not _WILD.search(root) or literal.exists():
        yield literal
        return
    scheme, separator, path = root.rpartition("://")
    parts = path.split("/")
    fixed = next(depth for depth, part in enumerate(parts) if _WILD.search(part))
    top = scheme + separator + ("/".join(parts[:fixed]) or ("/" if path.startswith("/") else "."))
    matches = list(_matches(open_store(top, options), [part for part in parts[fixed:] if part]))
    if not matches:
        raise ArrayNotFoundError(root, "expected folders of that pattern, found none")
    yield from matches


def _matches(store: Store, patterns: list[str]) -> Iterator[Store]:
    if not patterns:
        yield store
        return
    pattern, rest = patterns[0], patterns[1:]
    if pattern == _ANY_DEPTH:
        yield from _matches(store, rest)
    folder = store.list_dir()
    if is_array(folder):
        return
    for name in folder.folders:
        if name in _OF_GROUPS:
            continue
        if pattern == _ANY_DEPTH:
            yield from _matches(store.child(name), patterns)
        elif fnmatchcase(name, pattern):
            yield from _matches(store.child(name), rest)
