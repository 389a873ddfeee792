"""Finding the arrays of a fleet.

In: folders, or patterns of folders, on any storage. Out: `Fleet`: every array below them, each
with what its commit log weighs, and the folders that could not be listed. Opens no file.

A folder with a schema, or with what only an array has, is an array. Nothing below it is looked
at: what lies in its own folders, such as the arrays in `__labels`, is part of it. Every other
folder is a group, or just a folder, and is gone through.
"""

from __future__ import annotations

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
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chronotile.storage.store import Folder, Store

    _Visited: TypeAlias = "tuple[Found | None, tuple[Store, ...], tuple[Unlisted, ...]]"

CONCURRENCY = 64
"""How many folders are listed at once: in a bucket most of the time is waiting."""

_OF_ARRAYS = frozenset({SCHEMA, COMMITS, FRAGMENTS})
_OF_GROUPS = frozenset({"__group", "__meta"})
_WILD = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"

WEIGHT_OF_ARRAY = 4096
"""What opening an array costs beside its commit files, in bytes that would take as long."""
WEIGHT_OF_FILE = 128
"""What one commit file costs beside its content."""


class Found(NamedTuple):
    """An array."""

    uri: str
    weight: int
    """Bytes of its commit files, and an allowance for each file; for planning only."""


class Unlisted(NamedTuple):
    """A folder that could not be listed, so that arrays below it may be missing."""

    uri: str
    message: str
    missing: bool = False
    """Whether there is nothing at all."""


class Fleet(NamedTuple):
    """What lies below the roots, sorted."""

    arrays: tuple[Found, ...]
    problems: tuple[Unlisted, ...]

    @property
    def uris(self) -> tuple[str, ...]:
        """The places of the arrays."""
        return tuple(array.uri for array in self.arrays)


def find_arrays(
    roots: str | Iterable[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    weigh: bool = False,
    missing_ok: bool = False,
    concurrency: int = CONCURRENCY,
) -> Fleet:
    """Finds all arrays at or below the roots, each once.

    A symbolic link below a root is not followed. One folder that cannot be listed does not
    stop the search: it is among the problems.

    Args:
        roots: Folders or URIs. `*`, `?` and `[…]` match within a folder's name, and `**` any
            number of folders; a root that exists as it is written is taken as it is written.
        storage_options: What the storage needs to know.
        weigh: List also the commit files of each array, for `Found.weight`.
        missing_ok: Count a root that does not exist among the problems, as one of a long list.
        concurrency: How many folders are listed at once.

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
    wanted = (roots,) if isinstance(roots, str) else tuple(roots)
    stores = [store for root in wanted for store in _expanded(root, storage_options or {})]
    fleet = _search(stores, weigh=weigh, concurrency=max(concurrency, 1))
    failed = {problem.uri: problem for problem in fleet.problems}
    for root in (failed[store.uri] for store in stores if store.uri in failed):
        if not root.missing:
            raise StorageError(root.uri, root.message)
        if not missing_ok:
            raise ArrayNotFoundError(root.uri, root.message)
    return fleet


def _search(stores: Iterable[Store], *, weigh: bool, concurrency: int) -> Fleet:
    search = _Search(weigh)
    wanted = search.fresh(stores)
    search.on_disk([store for store in wanted if store.place.scheme == "file"])
    search.in_buckets([s for s in wanted if s.place.scheme != "file"], concurrency)
    arrays, problems = search.arrays.values(), search.problems.values()
    return Fleet(tuple(sorted(arrays)), tuple(sorted(problems)))


class _Search:
    """One search, and what it has found so far."""

    def __init__(self, weigh: bool) -> None:
        self.weigh = weigh
        self.arrays: dict[str, Found] = {}
        self.problems: dict[str, Unlisted] = {}
        self._seen: set[str] = set()

    def fresh(self, stores: Iterable[Store]) -> list[Store]:
        """Those of some folders that were not come upon before."""
        found = {store.uri: store for store in stores if store.uri not in self._seen}
        self._seen.update(found)
        return [*found.values()]

    def _taken(self, store: Store, visit: Callable[[], _Visited]) -> list[Store]:
        """Keeps what a visit found, and gives the folders to go on with."""
        try:
            array, folders, odd = visit()
        except ChronotileError as error:
            missing = isinstance(error, ArrayNotFoundError)
            self.problems[store.uri] = Unlisted(store.uri, error.problem, missing)
            return []
        if array is not None:
            self.arrays[array.uri] = array
        self.problems |= {problem.uri: problem for problem in odd}
        return self.fresh(folders)

    def on_disk(self, look: list[Store]) -> None:
        """Goes through folders of a disk, one by one: threads gain nothing there."""
        while look:
            store = look.pop()
            look += self._taken(store, partial(_visit, store, self.weigh))

    def in_buckets(self, look: list[Store], concurrency: int) -> None:
        """Goes through folders of buckets, many at once."""
        # Whoever waits for the first of very many futures asks each of them, each time.
        done: SimpleQueue[tuple[Store, Future[_Visited]]] = SimpleQueue()
        under_way = 0
        with ThreadPoolExecutor(concurrency, thread_name_prefix="chronotile-find") as pool:
            while look or under_way:
                for store in look:
                    visit = partial(_visit, store, self.weigh)
                    pool.submit(visit).add_done_callback(partial(_put, done, store))
                under_way += len(look)
                store, over = done.get()
                under_way -= 1
                look = self._taken(store, over.result)


def _put(
    queue: SimpleQueue[tuple[Store, Future[_Visited]]], store: Store, over: Future[_Visited]
) -> None:
    queue.put((store, over))


def _visit(store: Store, weigh: bool) -> _Visited:
    folder = store.list_dir()
    if is_array(folder):
        return Found(store.uri, _weight(store, folder) if weigh else 0), (), ()
    below = [name for name in folder.folders if name not in _OF_GROUPS]
    odd = [
        Unlisted(store.uri_of(one.path), f"{one.what}: what is below it was not looked at", False)
        for one in folder.strangers
        if one.kind == "folder"
    ]
    return None, tuple(store.child(name) for name in below), tuple(odd)


def _weight(store: Store, folder: Folder) -> int:
    files = list(folder.files)
    if COMMITS in folder.folders:
        try:
            files += store.list_dir(COMMITS, sizes=True).files
        except ChronotileError:
            return WEIGHT_OF_ARRAY  # whoever reads it will say what is wrong
    sizes = sum(entry.size or 0 for entry in files)
    return WEIGHT_OF_ARRAY + WEIGHT_OF_FILE * len(files) + sizes


def is_array(folder: Folder) -> bool:
    """Whether a folder, by what lies in it, is an array, if perhaps a damaged one.

    >>> from chronotile.storage.store import Folder
    >>> is_array(Folder(folders=("__schema",))), is_array(Folder(folders=("__group", "a")))
    (True, False)
    """
    if not _OF_ARRAYS.isdisjoint(folder.folders):
        return True
    return any(entry.path == OLD_SCHEMA for entry in folder.files)


def _expanded(root: str, options: Mapping[str, str]) -> Iterator[Store]:
    """The folders that a root, or a pattern, stands for."""
    if not _WILD.search(root):
        yield open_store(root, options)
        return
    literal = open_store(root, options)
    if literal.exists():
        yield literal
        return
    scheme, mark, path = root.rpartition("://")
    parts = path.split("/")
    fixed = next(at for at, part in enumerate(parts) if _WILD.search(part))
    top = scheme + mark + ("/".join(parts[:fixed]) or ("/" if path.startswith("/") else "."))
    found = list(_matches(open_store(top, options), [part for part in parts[fixed:] if part]))
    if not found:
        raise ArrayNotFoundError(root, "expected folders of that pattern, found none")
    yield from found


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
