"""Folders: what each is, by the names in it, and the files of an array by their purpose.

In: a store. Out: `Listing`: every file and folder of the array's history, in the hierarchy of the
format, old and new; strangers are kept. For any folder: whether it is an array or a group, and what
lies below it. Opens no file.

From format version 12 on, an array's files lie in folders of its root: `__commits`,
`__fragments`, `__fragment_meta`, `__schema`, `__meta`, `__labels`. Before that, fragments and
their `.ok`, `.vac` and `.meta` files lie in the root itself, and before version 10 the schema is
the single file `__array_schema.tdb`. One array can have both.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ArrayNotFoundError, ChronotileError, ReadError
from chronotile.format.kinds import (
    COMMITS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENTS,
    GROUP,
    GROUP_MARKER,
    LABELS,
    LOCK,
    META,
    OLD_SCHEMA,
    OWN,
    ROOT_FILES,
    SCHEMA,
    WRITES,
)
from chronotile.format.names import is_name, parse_name, version_of
from chronotile.safe_text import shell_word
from chronotile.storage.place import PlainNames
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError, Names, open_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from chronotile.storage.store import Folder, Store

OF_ARRAYS = frozenset({SCHEMA, COMMITS, FRAGMENTS})
"""Folders that only an array has."""
OF_GROUPS = frozenset({GROUP, META, OWN})
"""Folders of a group's own files: no array is searched for in them."""
_MOST_LISTED = 200
"""Folders to list before the answer is "at least"."""
_LISTED = ("", COMMITS, FRAGMENTS, FRAGMENT_META, SCHEMA, ENUMERATIONS, META)
LISTED = frozenset(_LISTED)
"""The folders that a listing of an array lists."""
MEASURED = LISTED | {LABELS}
"""The folders that a measurement of an array counts one by one."""
_ROOT_OWN = frozenset({OLD_SCHEMA, LOCK})
_KNOWN_FOLDERS = frozenset({COMMITS, FRAGMENTS, FRAGMENT_META, SCHEMA, META, LABELS, OWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files and folders of an array.

    Names are without their folder. All are sorted, except `commits` and `fragments`, of which
    there may be very many.
    """

    commits: Sequence[str]
    """Files of `__commits`."""
    non_writes: tuple[str, ...]
    """Files of `__commits` that are no `.wrt`, sorted."""
    root_commits: tuple[str, ...]
    """`.ok` and `.vac` files of the root, from before version 12."""
    fragments: Sequence[str]
    """Folders of `__fragments`; empty if the caller did not ask for them."""
    root_fragments: tuple[str, ...]
    """Fragment folders of the root."""
    implied: tuple[str, ...]
    """Fragments of the root, from before version 5, whose metadata file is their commit."""
    fragment_meta: tuple[str, ...]
    """Whole paths of consolidated fragment metadata."""
    schemas: tuple[str, ...]
    """Whole paths, in the order of their text, the old single file first."""
    enumerations: tuple[str, ...]
    meta: tuple[str, ...]
    """Files of `__meta`."""
    others: tuple[str, ...]
    """Whole paths of strangers: what is no part of an array."""
    stranger_kinds: Mapping[str, str]
    """Their kinds, as of `Stranger`; `stray` for a folder that is no part of an array. Links are
    never followed; the engine follows them, and fails to list a folder with a `special` in it."""
    linked_fragments: tuple[str, ...]
    """Whole paths of fragments whose folder is a link; `fragments` has their names too."""
    folder_times: Mapping[str, int | None]
    """Folder -> its `change_time` just before it was listed; those that are there, on a disk."""
    requests: int
    """Calls to the storage that the listing took."""
    absent_folders: int
    """Folders that a disk lacks, so that no call was needed; a bucket needs a call for each."""
    heads: int = 0
    """The number of these calls that asked for one object."""
    has_operations: bool = False
    """True if the array has a folder of our own: an open by the engine asks for one more object."""
    stamps: tuple[str, ...] = ()
    """Path, size and ETag of the files that are read; only a bucket's listing gives them."""

    def paths_of(self, extension: str | tuple[str, ...]) -> list[str]:
        """List the files of `__commits` with an extension other than `.wrt`, sorted."""
        return [f"{COMMITS}/{name}" for name in self.non_writes if name.endswith(extension)]

    def fragment_paths(self) -> dict[str, str]:
        """Map each fragment's name to its folder, relative to the array."""
        paths = {name: f"{FRAGMENTS}/{name}" for name in self.fragments}
        return paths | {name: name for name in self.root_fragments}

    def read_paths(self) -> tuple[str, ...]:
        """List the files that a reading of the array may read."""
        return (
            *(f"{COMMITS}/{name}" for name in self.non_writes),
            *(name for name in self.root_commits if name.endswith(".vac")),
            *(f"{META}/{name}" for name in self.meta if name.endswith(".vac")),
            *self.fragment_meta,
            *self.schemas,
            *self.enumerations,
        )


def list_array(store: Store, *, fragments: bool = True) -> Listing:
    """List an array, with or without `__fragments`.

    Raises:
        ArrayNotFoundError: There is no schema, so there is no array.
    """
    wanted = [path for path in _LISTED if fragments or path != FRAGMENTS]
    traits = store.traits
    listed = (_one_by_one if traits.pace == "quick" else _at_once)(store, wanted)
    by_folder = {path: listed.get(path, Names()) for path in _LISTED}
    root = by_folder[""]
    schemas = _paths(SCHEMA, by_folder[SCHEMA])
    files = set(root.files)
    old = (OLD_SCHEMA,) if OLD_SCHEMA in files else ()
    if not schemas and not old:
        raise no_array(store, root.folders)
    kinds = {one.path: one.kind for names in by_folder.values() for one in names.strangers}
    linked = tuple(sorted(path for path in kinds if _is_linked_fragment(path, kinds[path])))
    stray = _stray_folders(by_folder)
    strange = [name for name in root.folders if name not in _KNOWN_FOLDERS]
    root_fragments = tuple(sorted(name for name in strange if is_name(name)))
    implied, calls = _implied(store, root_fragments, files)
    inside = tuple(p.rpartition("/")[2] for p in linked if p.startswith(f"{FRAGMENTS}/"))
    folders = by_folder[FRAGMENTS].folders
    return Listing(
        commits=by_folder[COMMITS].files,
        non_writes=_non_writes(by_folder[COMMITS].files),
        root_commits=tuple(sorted(n for n in files if n.endswith(ROOT_FILES[:2]))),
        fragments=(*folders, *inside) if inside else folders,
        root_fragments=(*root_fragments, *(p for p in linked if "/" not in p)),
        implied=implied,
        fragment_meta=(
            *sorted(name for name in files if name.endswith(".meta")),
            *_paths(FRAGMENT_META, by_folder[FRAGMENT_META]),
        ),
        schemas=(*old, *schemas),
        enumerations=_paths(ENUMERATIONS, by_folder[ENUMERATIONS]),
        meta=tuple(sorted(by_folder[META].files)),
        others=_others(by_folder, stray),
        stranger_kinds=kinds | dict.fromkeys(stray, "stray"),
        linked_fragments=linked,
        folder_times=(
            {p: n.change_time for p, n in listed.items()} if traits.has_change_times else {}
        ),
        requests=len(listed) + calls,
        heads=calls,
        absent_folders=len(wanted) - len(listed),
        has_operations=OWN in root.folders,
        stamps=_stamps(by_folder.values()),
    )


def _non_writes(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, PlainNames) and names.lines.count(b".wrt\n") == len(names):
        return ()
    # Comparing a slice is faster than calling `endswith`.
    return tuple(sorted([name for name in names if name[-4:] != ".wrt"]))


def folder_times(store: Store, folders: Sequence[str] = _LISTED) -> dict[str, int | None]:
    """Give `Listing.folder_times` without listing these folders.

    Ask for it before a reading: what comes later then has a later time.
    """
    if not store.traits.has_change_times:
        return {}
    there = {"", *store.list_names("").folders}
    if ENUMERATIONS in folders and SCHEMA in there:
        there |= {f"{SCHEMA}/{name}" for name in store.list_names(SCHEMA).folders}
    return {path: store.change_time(path) for path in folders if path in there}


def _stamps(folders: Iterable[Names]) -> tuple[str, ...]:
    entries = [entry for names in folders for entry in names.entries if entry.etag is not None]
    return tuple(
        f"{one.path} {one.size} {one.etag}" for one in entries if not one.path.endswith(WRITES)
    )


def _at_once(store: Store, paths: list[str]) -> dict[str, Names]:
    """List the folders of a bucket."""
    return dict(zip(paths, ahead(store.list_names, paths, len(paths)), strict=True))


def _one_by_one(store: Store, paths: list[str]) -> dict[str, Names]:
    """List the folders that a disk has, the root first.

    Starting threads takes longer than the listing, especially on busy cores.
    """
    by_folder = {"": store.list_names("")}
    for path in paths[1:]:
        above, _, name = path.rpartition("/")
        names = by_folder.get(above, Names())
        # If something else stands in a folder's place, the store raises the error.
        if name in names.folders or name in names.files or names.strangers:
            by_folder[path] = store.list_names(path)
    return by_folder


def _paths(folder: str, names: Names) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in sorted(names.files))


def _implied(
    store: Store, fragments: tuple[str, ...], names: set[str]
) -> tuple[tuple[str, ...], int]:
    """Find root fragments that are committed without a commit file; count the calls it took."""
    old = [n for n in fragments if version_of(parse_name(n)) < 5 and f"{n}.ok" not in names]

    def has_metadata(name: str) -> bool:
        try:
            store.head(f"{name}/__fragment_metadata.tdb")
        except MissingObjectError:
            return False
        return True

    if not old:
        return (), 0
    whole = zip(old, ahead(has_metadata, old, 8), strict=True)
    return tuple(name for name, is_whole in whole if is_whole), len(old)


def _others(by_folder: dict[str, Names], stray: list[str]) -> tuple[str, ...]:
    root = by_folder[""]
    others = [n for n in root.files if n not in _ROOT_OWN and not n.endswith(ROOT_FILES)]
    others = [name for name in others if not is_name(name)]
    others += stray
    others += [f"{FRAGMENTS}/{name}" for name in by_folder[FRAGMENTS].files]
    for names in by_folder.values():
        others += [s.path for s in names.strangers if not _is_linked_fragment(s.path, s.kind)]
    return tuple(sorted(others))


def _stray_folders(by_folder: dict[str, Names]) -> list[str]:
    """Find the folders that are neither the format's own nor fragments."""
    stray = [n for n in by_folder[""].folders if n not in _KNOWN_FOLDERS and not is_name(n)]
    for path, names in by_folder.items():
        if path not in ("", FRAGMENTS):
            stray += [f"{path}/{n}" for n in names.folders if f"{path}/{n}" != ENUMERATIONS]
    return stray


def _is_linked_fragment(path: str, kind: str) -> bool:
    """Return True if a stranger is a link to a folder in the place of a fragment."""
    folder, _, name = path.rpartition("/")
    return kind == "folder-link" and folder in ("", FRAGMENTS) and is_name(name)


class Below(NamedTuple):
    """The arrays and groups below a folder."""

    arrays: tuple[str, ...]
    groups: tuple[str, ...]
    is_all: bool

    def words(self) -> str:
        """Count them, in words.

        >>> Below(("a", "b"), ("g",), True).words()
        '2 arrays and 1 group below'
        """
        parts = []
        for count, word in ((len(self.arrays), "array"), (len(self.groups), "group")):
            parts += [f"{count} {word}{'' if count == 1 else 's'}"] if count else []
        least = "" if self.is_all else "at least "
        return f"{least}{' and '.join(parts)} below" if parts else "no array or group below"


def is_array(folder: Folder) -> bool:
    """Return True if a folder is an array, perhaps a damaged one, by the names in it.

    >>> from chronotile.storage.store import Folder
    >>> is_array(Folder(folders=("__schema",))), is_array(Folder(folders=("__group", "a")))
    (True, False)
    """
    if not OF_ARRAYS.isdisjoint(folder.folders):
        return True
    return any(entry.path == OLD_SCHEMA for entry in folder.files)


def is_group(folder: Folder) -> bool:
    """Return True if a folder is a group, by the names in it.

    >>> from chronotile.storage.store import Folder
    >>> is_group(Folder(folders=("__group",))), is_group(Folder(folders=("__schema",)))
    (True, False)
    """
    return GROUP in folder.folders or any(entry.path == GROUP_MARKER for entry in folder.files)


def find_below(store: Store) -> Below:
    """Look for arrays and groups below a folder, level by level, in a limited number of folders.

    >>> from chronotile.storage.store import open_store
    >>> for name in ("a/__schema/s", "b/c/__schema/s", "b/g/__tiledb_group.tdb"):
    ...     open_store("memory:doc-below").put_if_absent(name, b"")
    >>> find_below(open_store("memory:doc-below")).words()
    '2 arrays and 1 group below'
    """
    arrays, groups = list[str](), list[str]()
    waiting, listed = deque([store]), 0
    while waiting and listed < _MOST_LISTED:
        place = waiting.popleft()
        listed += 1
        try:
            folder = place.list_dir()
        except ChronotileError:
            continue
        if is_array(folder):
            arrays.append(place.uri)
            continue
        if is_group(folder) and place is not store:
            groups.append(place.uri)
        waiting += [place.child(name) for name in folder.folders if name not in OF_GROUPS]
    return Below(tuple(arrays), tuple(groups), not waiting)


def is_group_at(store: Store) -> bool:
    """Return True if a place is a group, False if it is an array.

    Raises:
        ArrayNotFoundError: It is neither; the message says what is below.
    """
    root = store.list_dir()
    if is_array(root):
        return False
    if is_group(root):
        return True
    raise no_array(store, root.folders)


def no_array(store: Store, folders: Collection[str]) -> ArrayNotFoundError:
    """Make the error of a folder that is no array: it says what the folder is instead."""
    problem = "expected an array, found no schema"
    if GROUP in folders:
        problem = "expected an array, found a group; name one of its members"
        return ArrayNotFoundError(store.uri, problem)
    if folders and OF_ARRAYS.isdisjoint(folders):
        below = find_below(store)
        if below.groups or below.arrays:
            problem = f"{problem}; {below.words()}: chronotile ls {shell_word(store.uri)}"
    elif folders:
        problem = f"{problem}; copy __schema back from a replica or a backup"
    return ArrayNotFoundError(store.uri, problem)


def enter(store: Store) -> Store:
    """Give the array or group that a path leads into, if it does; else the store.

    >>> from chronotile.storage.store import open_store
    >>> open_store("memory:doc-enter/a").put_if_absent("__schema/s", b"")
    >>> enter(open_store("memory:doc-enter/a/__schema")).uri
    'memory://doc-enter/a'
    >>> enter(open_store("memory:doc-enter")).uri
    'memory://doc-enter'
    """
    around = array_around(store)
    if around is not None:
        with suppress(ReadError):
            is_group_at(around)
            with suppress(ReadError):
                if is_array(store.list_dir()):  # an array of labels, which lies in another one
                    return store
            return around
    return store


def with_near(store: Store, error: ReadError) -> ReadError:
    """Add to an error on a place of which nothing is there the path that is most like it."""
    near = store.near_path()
    if near is None:
        return error
    return type(error)(error.where, f"{error.problem}; did you mean {shell_word(near)}?")


def array_around(store: Store) -> Store | None:
    """Find the array or group that a path leads into, such as `A/__commits` into A.

    >>> from chronotile.storage.store import open_store
    >>> array_around(open_store("memory:doc-around/a/__commits")).uri
    'memory://doc-around/a'
    """
    inside = {*OF_ARRAYS, *OF_GROUPS, FRAGMENT_META}
    parts = store.uri.split("/")
    at = next((at for at, part in enumerate(parts) if part in inside), None)
    return None if at is None else open_store("/".join(parts[:at]), dict(store.options))
