"""The files of one array, by their purpose.

In: a store. Out: `Listing`: every file and folder of the array's history, in the hierarchy of the
format, old and new; strangers are kept. Opens no file.

From format version 12 on, an array's files lie in folders of its root: `__commits`,
`__fragments`, `__fragment_meta`, `__schema`, `__meta`, `__labels`. Before that, fragments and
their `.ok`, `.vac` and `.meta` files lie in the root itself, and before version 10 the schema is
the single file `__array_schema.tdb`. Both can be found in one array.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.format.kinds import (
    COMMITS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENTS,
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
from chronotile.history.folder_kinds import no_array
from chronotile.storage.place import PlainNames
from chronotile.storage.store import MissingObjectError, Names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chronotile.storage.store import Store

_LISTED = ("", COMMITS, FRAGMENTS, FRAGMENT_META, SCHEMA, ENUMERATIONS, META)
_ROOT_OWN = frozenset({OLD_SCHEMA, LOCK})
LISTED = frozenset(_LISTED)
"""The folders that a listing of an array lists."""
MEASURED = LISTED | {LABELS}
"""The folders whose content is told apart when an array is measured."""
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
    stray_folders: tuple[str, ...]
    """The folders among the strangers."""
    file_links: tuple[str, ...]
    """Whole paths of symbolic links to files, which are never followed; the engine follows them."""
    folder_links: tuple[str, ...]
    """Whole paths of symbolic links to folders."""
    specials: tuple[str, ...]
    """Links to nothing, pipes, sockets, devices: the engine fails to list the folder around one."""
    linked_fragments: tuple[str, ...]
    """Whole paths of fragments whose folder is a link; `fragments` has their names too."""
    folder_times: Mapping[str, int | None]
    """Folder -> its `change_time` just before it was listed; those that are there, on a disk."""
    fragments_stamp: int | None
    """The disk's own stamp of `__fragments`; None if it cannot tell a later change."""
    requests: int
    """Calls to the storage that the listing took."""
    absent_folders: int
    """Folders that a disk lacks, so that no call was needed; a bucket needs a call for each."""
    heads: int = 0
    """Those calls that asked for one object."""
    has_operations: bool = False
    """Whether the array has a folder of our own: an open by the engine asks for one more object."""
    stamps: tuple[str, ...] = ()
    """Path, size and ETag of the files that are read; only a bucket's listing gives them."""

    def paths_of(self, extension: str | tuple[str, ...]) -> list[str]:
        """The files of `__commits` with an extension other than `.wrt`, sorted."""
        return [f"{COMMITS}/{name}" for name in self.non_writes if name.endswith(extension)]

    def fragment_paths(self) -> dict[str, str]:
        """Fragment's name -> its folder, relative to the array."""
        paths = {name: f"{FRAGMENTS}/{name}" for name in self.fragments}
        return paths | {name: name for name in self.root_fragments}

    def read_paths(self) -> tuple[str, ...]:
        """The files that a reading of the array may read."""
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
    found = {path: listed.get(path, Names()) for path in _LISTED}
    root = found[""]
    schemas = _paths(SCHEMA, found[SCHEMA])
    names = set(root.files)
    old = (OLD_SCHEMA,) if OLD_SCHEMA in names else ()
    if not schemas and not old:
        raise no_array(store, root.folders)
    links = _links(found, "folder-link")
    linked = tuple(p for p in links if _is_linked_fragment(p))
    strange = [name for name in root.folders if name not in _KNOWN_FOLDERS]
    root_fragments = tuple(sorted(name for name in strange if is_name(name)))
    implied, calls = _implied(store, root_fragments, names)
    inside = tuple(p.rpartition("/")[2] for p in linked if p.startswith(f"{FRAGMENTS}/"))
    return Listing(
        commits=found[COMMITS].files,
        non_writes=_non_writes(found[COMMITS].files),
        root_commits=tuple(sorted(n for n in names if n.endswith(ROOT_FILES[:2]))),
        fragments=_joined(found[FRAGMENTS].folders, inside) if fragments else (),
        root_fragments=(*root_fragments, *(p for p in linked if "/" not in p)),
        implied=implied,
        fragment_meta=(
            *sorted(name for name in names if name.endswith(".meta")),
            *_paths(FRAGMENT_META, found[FRAGMENT_META]),
        ),
        schemas=(*old, *schemas),
        enumerations=_paths(ENUMERATIONS, found[ENUMERATIONS]),
        meta=tuple(sorted(found[META].files)),
        others=_others(found),
        stray_folders=_stray_folders(found),
        file_links=_links(found, "file-link"),
        folder_links=links,
        specials=_links(found, "special"),
        linked_fragments=linked,
        folder_times=(
            {p: n.change_time for p, n in listed.items()} if traits.has_change_times else {}
        ),
        fragments_stamp=found[FRAGMENTS].folder_stamp,
        requests=len(listed) + calls,
        heads=calls,
        absent_folders=len(wanted) - len(listed),
        has_operations=OWN in root.folders,
        stamps=_stamps(found.values()),
    )


def _joined(names: Sequence[str], more: tuple[str, ...]) -> Sequence[str]:
    return (*names, *more) if more else names


def _non_writes(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, PlainNames) and names.lines.count(b".wrt\n") == len(names):
        return ()
    # Comparing a slice is faster than calling `endswith`.
    return tuple(sorted([name for name in names if name[-4:] != ".wrt"]))


def folder_times(store: Store) -> dict[str, int | None]:
    """What `Listing.folder_times` has, without a listing of them; to be asked for before one."""
    if not store.traits.has_change_times:
        return {}
    there = {"", *store.list_names("").folders}
    if SCHEMA in there:
        there |= {f"{SCHEMA}/{name}" for name in store.list_names(SCHEMA).folders}
    return {path: store.change_time(path) for path in _LISTED if path in there}


def _stamps(found: Iterable[Names]) -> tuple[str, ...]:
    entries = [entry for names in found for entry in names.entries if entry.etag is not None]
    return tuple(
        f"{one.path} {one.size} {one.etag}" for one in entries if not one.path.endswith(WRITES)
    )


def _at_once(store: Store, paths: list[str]) -> dict[str, Names]:
    """List the folders of a bucket."""
    with ThreadPoolExecutor(len(paths)) as pool:
        return dict(zip(paths, pool.map(store.list_names, paths), strict=True))


def _one_by_one(store: Store, paths: list[str]) -> dict[str, Names]:
    """List the folders that a disk has, the root first.

    Starting threads takes longer than the listing, especially on busy cores.
    """
    found = {"": store.list_names("")}
    for path in paths[1:]:
        above, _, name = path.rpartition("/")
        names = found.get(above, Names())
        # If something else stands in a folder's place, the store raises the error.
        if name in names.folders or name in names.files or names.strangers:
            found[path] = store.list_names(path)
    return found


def _paths(folder: str, names: Names) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in sorted(names.files))


def _implied(
    store: Store, fragments: tuple[str, ...], names: set[str]
) -> tuple[tuple[str, ...], int]:
    """Root fragments that are committed without a commit file, and the calls that this took."""
    old = [n for n in fragments if version_of(parse_name(n)) < 5 and f"{n}.ok" not in names]

    def has_metadata(name: str) -> bool:
        try:
            store.head(f"{name}/__fragment_metadata.tdb")
        except MissingObjectError:
            return False
        return True

    if not old:
        return (), 0
    with ThreadPoolExecutor(8) as pool:
        whole = zip(old, pool.map(has_metadata, old), strict=True)
        return tuple(name for name, is_whole in whole if is_whole), len(old)


def _others(found: dict[str, Names]) -> tuple[str, ...]:
    root = found[""]
    others = [n for n in root.files if n not in _ROOT_OWN and not n.endswith(ROOT_FILES)]
    others = [name for name in others if not is_name(name)]
    others += _stray_folders(found)
    others += [f"{FRAGMENTS}/{name}" for name in found[FRAGMENTS].files]
    for names in found.values():
        others += [s.path for s in names.strangers if not _is_linked_fragment(s.path, s.kind)]
    return tuple(sorted(others))


def _stray_folders(found: dict[str, Names]) -> tuple[str, ...]:
    """Folders that are neither the format's own nor fragments."""
    stray = [n for n in found[""].folders if n not in _KNOWN_FOLDERS and not is_name(n)]
    for path, names in found.items():
        if path not in ("", FRAGMENTS):
            stray += [f"{path}/{n}" for n in names.folders if f"{path}/{n}" != ENUMERATIONS]
    return tuple(sorted(stray))


def _links(found: dict[str, Names], kind: str) -> tuple[str, ...]:
    return tuple(sorted(s.path for n in found.values() for s in n.strangers if s.kind == kind))


def _is_linked_fragment(path: str, kind: str = "folder-link") -> bool:
    """Whether a stranger is a link to a folder in the place of a fragment."""
    folder, _, name = path.rpartition("/")
    return kind == "folder-link" and folder in ("", FRAGMENTS) and is_name(name)
