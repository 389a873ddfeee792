"""Finding the arrays of a fleet.

In: folders, or patterns of folders, on any storage. Out: `Fleet`: every array below them, the
groups, and the folders that could not be listed. Of a group it reads the lists of members; it opens
no other file.

A folder with a schema, or with another folder that only arrays have, is an array. The search does
not go below it: the arrays in its `__labels` are parts of it. It goes through every other folder,
and if asked to the members of groups, wherever they lie. A member that is not there is no problem
here: a check of its group tells of it.

Tables ask with `Options`: the data source by `find_all`, which follows members of groups; a run by
`find_fleet`, which does not, and then `search_wide`, which does if asked.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from chronotile.dataset.member_tree import member_store
from chronotile.errors import (
    ArrayNotFoundError,
    ChronotileError,
    ReadError,
    StorageError,
    is_damage,
)
from chronotile.fleet.flat_listing import Neighbours, Searched, list_flat, neighbours, to_be_listed
from chronotile.fleet.inventory import whole_arrays
from chronotile.format.timestamps import now_ms
from chronotile.history.group_reading import read_group
from chronotile.history.listing import OF_GROUPS, enter, is_array, is_group, with_near
from chronotile.safe_text import shell_word
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import open_store
from chronotile.visibility.group_members import members_at

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from chronotile.fleet.options import Options
    from chronotile.storage.store import Store


CONCURRENCY = 64
"""Folders to list at once: in a bucket most of the time is waiting."""
IN_FLAT = 64
"""Folders of one flat list, at least, as long as there are so many."""
FLAT_AT_ONCE = 16
"""Flat lists that are asked for at once."""

_WILD = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"


class Unlisted(NamedTuple):
    """A folder that could not be listed, or does not exist: arrays below it may be missing."""

    uri: str
    message: str
    missing: bool = False
    hint: str = ""
    """What to do, if it is not the usual."""


class Fleet(NamedTuple):
    """The arrays below the roots, the folders that could not be listed, and the groups, sorted."""

    uris: tuple[str, ...]
    problems: tuple[Unlisted, ...]
    left: tuple[str, ...] = ()
    """Folders that the search did not come to, as it had listed as many as it was allowed to."""
    groups: tuple[str, ...] = ()
    wide: tuple[Neighbours, ...] = ()
    """Folders that were left for a flat list, as it is cheaper."""


def find_arrays(
    roots: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    storage_options: Mapping[str, str] | None = None,
    *,
    lenient: bool = False,
    known: Container[str] = (),
    follow: bool = False,
    key: bytes | None = None,
    most: int | None = None,
    flat: bool = False,
) -> Fleet:
    """Find all arrays at or below the roots, each once; symbolic links are not followed.

    Args:
        roots: Folders or URIs; a root that does not exist may be a pattern: `*`, `?` and `[…]`
            match within a folder's name, `**` any number of folders.
        storage_options: Options of the storage, such as a region.
        lenient: Put a root that does not exist, or cannot be listed, among the problems.
        known: Folders that are known to be arrays, and are not listed again.
        follow: Go to the members of groups too, wherever they lie.
        key: The key of encrypted groups.
        most: Folders to list at most, or a few more; `Fleet.left` has the others.
        flat: Leave folders of a bucket to `Fleet.wide` where a flat list of them is cheaper.

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
    visit = partial(_visit, known=known, follow=follow, key=key, flat=flat)
    search = _FolderSearch(visit, known, most)
    stores: list[Store] = []
    for root in wanted:
        place = os.fspath(root)
        try:
            stores += _expanded(place, storage_options or {})
        except ReadError as error:
            if not lenient:
                raise
            missing = isinstance(error, ArrayNotFoundError)
            search.problems[place] = Unlisted(place, error.problem, missing)
    fresh = search.fresh(stores)
    left = search.run([store for store in fresh if store.traits.pace == "quick"], 1)
    left += search.run([store for store in fresh if store.traits.pace == "slow"], CONCURRENCY)
    for store in stores:
        problem = search.problems.get(store.uri)
        if problem is not None and store.uri not in search.groups:
            kind = ArrayNotFoundError if problem.missing else StorageError
            named = with_near(store, kind(problem.uri, problem.message))
            if not lenient:
                raise named
            search.problems[store.uri] = problem._replace(message=named.problem)
    return search.fleet(left)


def find_all(options: Options, *, known: Container[str] = (), flat: bool = True) -> Searched:
    """Find the arrays that the options ask for; follow members of groups, wherever they lie."""
    return search_wide(find_fleet(options, known=known, flat=flat), options, follow=True)


def find_fleet(
    options: Options, *, known: Container[str] = (), most: int | None = None, flat: bool = True
) -> Fleet:
    """Find the arrays that the options ask for; members of groups are not followed."""
    listed = options.arrays is not None
    fleet = find_arrays(
        options.uris() if listed else options.roots,
        options.storage_options,
        lenient=listed,
        known=known,
        most=most,
        flat=flat,
    )
    refused = [one for one in fleet.problems if not one.missing]
    if listed and refused and not (fleet.uris or fleet.wide or fleet.left):
        raise StorageError(refused[0].uri, refused[0].message)
    return fleet


def search_wide(fleet: Fleet, options: Options, *, follow: bool) -> Searched:
    """List the neighbours of a fleet flat; give all arrays, if asked with members of groups."""
    wide = [part for one in fleet.wide for part in one.divided(IN_FLAT)]
    found = list(ahead(partial(search_folders, options=options), wide, FLAT_AT_ONCE))
    rows = whole_arrays([to_be_listed(fleet.uris), *(one.rows for one in found)])
    groups = {*fleet.groups, *(group for one in found for group in one.groups)}
    problems = [*fleet.problems, *(problem for one in found for problem in one.problems)]
    if follow and groups:
        # Members that lie elsewhere; those that were found are not listed again.
        known = frozenset(rows["array"].unique().to_pylist())
        more = find_arrays(
            sorted(groups),
            options.storage_options,
            lenient=True,
            known=known,
            follow=True,
            key=options.key_at_driver(),
        )
        elsewhere = (uri for uri in more.uris if uri not in known)
        rows = whole_arrays([rows, to_be_listed(elsewhere)])
        groups |= {*more.groups}
        problems += more.problems
    pages = sum(one.pages for one in found)
    return Searched(rows, tuple(sorted(groups)), tuple(sorted({*problems})), pages=pages)


def search_folders(folders: Neighbours | tuple[str, ...], options: Options) -> Searched:
    """Find the arrays of some folders: of neighbours by a flat list, if it can be had."""
    if isinstance(folders, Neighbours):
        try:
            return list_flat(folders, options.storage_options)
        except ChronotileError:
            folders = folders.uris
    found = find_arrays(folders, options.storage_options, lenient=True)
    return Searched(to_be_listed(found.uris), found.groups, found.problems)


class _FolderSearch:
    """One search, with the arrays and problems that it has found so far."""

    def __init__(
        self, visit: Callable[[Store], _Visited], known: Container[str], most: int | None
    ) -> None:
        self.problems: dict[str, Unlisted] = {}
        self._visit, self._known, self._most = visit, known, most
        self._arrays: set[str] = set()
        self.groups: set[str] = set()
        self._wide: set[Neighbours] = set()
        self._members: set[str] = set()
        self._seen: set[str] = set()
        self._visited = 0

    def fresh(self, stores: Iterable[Store]) -> list[Store]:
        """Give the folders that are new and no known arrays; keep those."""
        new = {store.uri: store for store in stores if store.uri not in self._seen}
        self._seen.update(new)
        self._arrays |= {uri for uri in new if uri in self._known}
        return [store for uri, store in new.items() if uri not in self._known]

    def run(self, waiting: list[Store], threads: int) -> list[Store]:
        """Visit folders, and those in them; give those that are left.

        The last ones come first, so that few folders wait, however many there are.
        """
        while waiting and self._may_go_on():
            # This ends, too, if no folder waits while others are visited, which may have some.
            for store, found in ahead(self._tried, self._next(waiting), threads):
                waiting += self._taken(store, found)
        return waiting

    def _next(self, waiting: list[Store]) -> Iterator[Store]:
        while waiting and self._may_go_on():
            yield waiting.pop()

    def _may_go_on(self) -> bool:
        return self._most is None or self._visited < self._most

    def _tried(self, store: Store) -> tuple[Store, _Visited | ChronotileError]:
        try:
            return store, self._visit(store)
        except ChronotileError as error:
            return store, error

    def _taken(self, store: Store, found: _Visited | ChronotileError) -> list[Store]:
        """Keep the result of a visit, and give the folders to visit next."""
        self._visited += 1
        if isinstance(found, ChronotileError):
            missing = isinstance(found, ArrayNotFoundError)
            if not missing or store.uri not in self._members:
                self.problems[store.uri] = Unlisted(store.uri, found.problem, missing)
            return []
        self._arrays |= {store.uri} if found.is_array else {*found.known}
        self.groups |= {store.uri} if found.is_group else set()
        self._wide |= {found.wide} if found.wide else set()
        self.problems |= {problem.uri: problem for problem in found.problems}
        self._members |= {member.uri for member in found.members}
        return self.fresh((*found.folders, *found.members))

    def fleet(self, left: Iterable[Store]) -> Fleet:
        """Give all that was found."""
        rest = (store.uri for store in left)
        found = (self._arrays, self.problems.values(), rest, self.groups, self._wide)
        return Fleet(*(tuple(sorted(one)) for one in found))  # type: ignore[arg-type]


class _Visited(NamedTuple):
    """The findings of a visit to one folder."""

    is_array: bool = False
    known: tuple[str, ...] = ()
    """Folders that are known to be arrays."""
    folders: tuple[Store, ...] = ()
    members: tuple[Store, ...] = ()
    problems: tuple[Unlisted, ...] = ()
    is_group: bool = False
    wide: Neighbours | None = None


def _visit(
    store: Store, *, known: Container[str], follow: bool, key: bytes | None, flat: bool
) -> _Visited:
    folder = store.list_dir()
    if is_array(folder):
        return _Visited(is_array=True)
    names = [name for name in folder.folders if name not in OF_GROUPS]
    wide = neighbours(store, names) if flat else None
    uris = {} if wide else {name: store.uri_of(name) for name in names}
    below = [store.child(name) for name, uri in uris.items() if uri not in known]
    problems = [
        Unlisted(store.uri_of(stranger.path), f"{stranger.what}: arrays below it were not searched")
        for stranger in folder.strangers
        if stranger.kind == "folder"
    ]
    members: list[Store] = []
    if follow and is_group(folder):
        try:
            members += _members(store, key)
        except ChronotileError as error:
            words = f"members of it that lie elsewhere are not known: {error.problem}"
            hint = f"chronotile repair {shell_word(store.uri)}" if is_damage(error) else ""
            problems.append(Unlisted(store.uri, words, hint=hint))
    return _Visited(
        known=tuple(uri for uri in uris.values() if uri in known),
        folders=tuple(below),
        members=tuple(members),
        problems=tuple(problems),
        is_group=is_group(folder),
        wide=wide,
    )


def _members(store: Store, key: bytes | None) -> Iterator[Store]:
    """Open the places where the members of a group lie now."""
    for entry in members_at(read_group(store, key=key), 0, now_ms()).values():
        with suppress(ChronotileError):  # a URI that may not be followed
            yield member_store(store, entry)


def _expanded(root: str, options: Mapping[str, str]) -> Iterator[Store]:
    """Give the folders that a root or a pattern names."""
    literal = enter(open_store(root, options))
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
        if name in OF_GROUPS:
            continue
        if pattern == _ANY_DEPTH:
            yield from _matches(store.child(name), patterns)
        elif fnmatchcase(name, pattern):
            yield from _matches(store.child(name), rest)
