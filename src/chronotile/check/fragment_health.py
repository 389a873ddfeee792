"""The health of a fragment: its metadata, and every file that the metadata names.

In: a store, a history, and folders of fragments. Out: the `Health` of each: whole, or what is wrong
with it, or why it is unknown. Looks into folders and at metadata, never at cells. A name from
inside a file is only compared with listed names.

A fragment is whole if its metadata file is there and ends in a footer, the schema that the footer
names is there, the tiles before the footer open, and each file that the footer names is there with
the size that it names. A fragment is flawed if the engine can still read it: only tiles with least
and largest values and the like are damaged, or the footer is damaged and a `.meta` of the array
holds a copy.
"""

from __future__ import annotations

import enum
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    MissingSchemaError,
    TooLargeError,
    UnknownVersionError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.commit_files import is_commit_line
from chronotile.format.fragment_footer import FIRST_WITH_FOOTER, METADATA, decode_applied
from chronotile.format.kinds import COMMITS, FRAGMENTS, OLD_SCHEMA
from chronotile.format.names import NEWEST_VERSION, is_newer, parse_name, version_of
from chronotile.history.read_footers import FooterReader
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from chronotile.format.fragment_size import FragmentSize
    from chronotile.history.read_footers import StoredFooter
    from chronotile.history.read_history import History
    from chronotile.storage.store import Entry, Store


NEWER = f"its format version is later than {NEWEST_VERSION}, the last that is known here"
"""Why the health of a fragment is unknown, and no change touches it."""
_LISTED_SINGLY = 16
"""Up to this many fragments of a bucket, list each folder by itself."""
_LEN_METADATA = 1 << 28
"""The largest metadata file that is read whole; of a larger one, only the footer is."""


class Wholeness(enum.Enum):
    """The state of a fragment."""

    WHOLE = "whole"
    FLAWED = "damaged where only some reads look"
    FILE_MISSING = "a file is missing"
    DAMAGED = "damaged"
    MISCOUNTED = "its tiles do not fit its domain"
    UNKNOWN = "unknown"


class Health(NamedTuple):
    """The health of one fragment."""

    path: str
    """Its folder, relative to the array."""
    state: Wholeness
    problem: str
    """What is wrong, or why its state is unknown; empty if the fragment is whole."""
    file: str
    """The file with the problem, relative to the array."""
    schema: str | None = None
    """The name of its schema's file, if its metadata could be read."""
    applied: tuple[str, ...] = ()
    """The names of the deletes that it has applied: no read gives a cell that they removed. An
    update, which the engine applies as a delete, ends in `.upd` here."""
    keeps_deleted: bool = False
    """Whether it still holds cells that a delete removed, and notes which delete it was."""
    lacks: str | None = None
    """The file of its schema, relative to the array, if that is all that it lacks."""
    closed: bool = False
    """Whether the engine cannot open the array with it, as it has no readable footer."""
    size: int = 0
    """Bytes of the files in its folder."""
    measured: FragmentSize | None = None
    """Its tiles and cells, if its footer has them."""

    @property
    def code(self) -> str:
        """The code of the finding for its problem."""
        codes = {
            Wholeness.FILE_MISSING: "fragment-file-missing",
            Wholeness.MISCOUNTED: "fragment-tile-count",
        }
        return codes.get(self.state, "fragment-damaged")

    @property
    def is_whole(self) -> bool:
        """Return True if it was shown to be whole."""
        return self.state is Wholeness.WHOLE

    @property
    def is_broken(self) -> bool:
        """Return True if it was shown to be broken."""
        return self.state in (Wholeness.FILE_MISSING, Wholeness.DAMAGED)


def health_by_name(health: Mapping[str, Health], name: str) -> Health | None:
    """Return the health of the fragment of a name, in the root or in `__fragments`."""
    return health.get(f"{FRAGMENTS}/{name}") or health.get(name)


def unreadable_holder(history: History, health: Mapping[str, Health], name: str) -> str | None:
    """Name a broken fragment that holds the rows of a hidden one, and that nothing replaces."""
    waiting = [name]
    for one in waiting:  # it grows meanwhile
        holders = (vacuum.name.text for vacuum in history.vacuums if one in vacuum.targets)
        waiting += [text for text in holders if text not in waiting]
    listed = {target for vacuum in history.vacuums for target in vacuum.targets}
    for text in waiting[1:]:
        known = health_by_name(health, text)
        if text not in listed and known is not None and known.is_broken:
            return text
    return None


def inspect(
    store: Store,
    history: History,
    paths: Iterable[str],
    *,
    on_fragment: Callable[[], None] | None = None,
) -> dict[str, Health]:
    """Find the health of each fragment, by its folder; call `on_fragment` after each."""
    wanted = tuple(dict.fromkeys(paths))
    inspector = _Inspector(store, history)
    listed = _listed(store, wanted)
    inspected = {}

    def look(path: str) -> Health:
        files = listed(path)
        size = sum(entry.size or 0 for entry in files.sizes.values())
        return inspector.inspect(path, files)._replace(size=size)

    for health in ahead(look, wanted, store.concurrency):
        inspected[health.path] = health
        if on_fragment is not None:
            on_fragment()
    return inspected


def lost_deletes(history: History, health: Mapping[str, Health]) -> dict[str, tuple[str, ...]]:
    """Find deletes that are gone although a fragment notes the cells that they removed (F14).

    A fragment from which the cells themselves are gone, as after a purge, needs them no more. To
    the engine an update is a delete.

    Returns:
        The URIs of the deletes and updates, each with the folders of the fragments.
    """
    table = history.table
    known = {table.uri(row) for row in table.condition_rows.tolist()}
    lost: dict[str, tuple[str, ...]] = {}
    for path, item in health.items():
        for name in item.applied if item.keeps_deleted else ():
            uri = f"{COMMITS}/{name}" + ("" if name.endswith(".upd") else ".del")
            if uri not in known and is_commit_line(uri):
                lost[uri] = (*lost.get(uri, ()), path)
    return lost


class _Files(NamedTuple):
    """The files of one fragment."""

    sizes: Mapping[str, Entry]
    links: frozenset[str]
    """Names of symbolic links and the like, which are never opened."""


def _listed(store: Store, paths: tuple[str, ...]) -> Callable[[str], _Files]:
    """Return a lister of folders; many folders of a bucket are listed at once, beforehand."""
    if store.traits.pace == "quick" or len(paths) <= _LISTED_SINGLY:

        def one(path: str) -> _Files:
            folder = store.list_dir(path, sizes=True)
            strangers = frozenset(s.path.rpartition("/")[2] for s in folder.strangers)
            return _Files({e.path.rpartition("/")[2]: e for e in folder.files}, strangers)

        return one
    folders: dict[str, dict[str, Entry]] = {}
    for entry in store.list_prefix(FRAGMENTS):
        folder, _, name = entry.path.rpartition("/")
        folders.setdefault(folder, {})[name] = entry
    for path in paths:
        if "/" not in path:
            inside = store.list_dir(path, sizes=True).files
            folders[path] = {entry.path.rpartition("/")[2]: entry for entry in inside}
    return lambda path: _Files(folders.get(path, {}), frozenset())


class _Inspector:
    """An inspector of the fragments of one array."""

    def __init__(self, store: Store, history: History) -> None:
        self.store, self.key = store, history.key
        self.reader = FooterReader(store, history)
        self.linked = frozenset(history.listing.linked_fragments)

    def inspect(self, path: str, files: _Files) -> Health:
        """Find the health of one fragment."""
        where, name = f"{path}/{METADATA}", path.rpartition("/")[2]
        if is_newer(path):
            return Health(path, Wholeness.UNKNOWN, NEWER, where)
        if path in self.linked or METADATA in files.links:
            problem = "it is a symbolic link, which is never followed"
            return Health(path, Wholeness.UNKNOWN, problem, where)
        entry = files.sizes.get(METADATA)
        if entry is None:
            what = "is not there" if files.sizes else "is not there, nor is any other file"
            return Health(path, Wholeness.FILE_MISSING, f"{METADATA} {what}", where, closed=True)
        try:
            data = self._read(where, entry.size or 0)
            if version_of(parse_name(name)) < FIRST_WITH_FOOTER:
                self.reader.schema(OLD_SCHEMA, where)
                tiles.decode(data, where, key=self.key)
                why = "its metadata is of a version without a footer"
                return Health(path, Wholeness.UNKNOWN, why, where)
            stored, flaw = self._footer(name, data, entry.size or 0)
        except MissingObjectError:
            problem = f"{METADATA} is gone"
            return Health(path, Wholeness.FILE_MISSING, problem, where, closed=True)
        except (KeyNeededError, UnknownVersionError) as error:
            return Health(path, Wholeness.UNKNOWN, error.problem, where)
        except (BadFileError, WrongKeyError) as error:
            lacks = error.schema if isinstance(error, MissingSchemaError) else None
            return Health(path, Wholeness.DAMAGED, error.problem, where, lacks=lacks, closed=True)
        if len(data) < (entry.size or 0):
            data = b""  # too long to be read whole: its tiles stay closed
        try:
            for offset in sorted(stored.footer.needed) if data else ():
                self._open(where, data, offset)
        except (BadFileError, WrongKeyError) as error:
            return Health(path, Wholeness.DAMAGED, error.problem, where, stored.schema_file)
        health = _compared(files, *self._with_others(stored, flaw, data))
        with suppress(BadFileError):
            health = health._replace(measured=stored.measure())
        if health.is_whole and stored.footer.dense and data and health.measured is not None:
            problem = self._miscounted(stored, data, health.measured.tiles)
            state = Wholeness.MISCOUNTED if problem else Wholeness.WHOLE
            health = health._replace(state=state, problem=problem)
        return health

    def _miscounted(self, stored: StoredFooter, data: bytes, tiles: int) -> str:
        """Say that a dense fragment has other tiles than its domain (F19)."""
        footer = stored.footer
        starts = zip(footer.ofs_tile_offsets, footer.file_sizes, strict=True)
        first = next((offset for offset, size in starts if size), None)
        payload = None if first is None else self._open(stored.where, data, first)
        there = tiles if payload is None else int.from_bytes(payload[:8], "little")
        if there == tiles:
            return ""
        return (
            f"its files have {there:,} tiles, its domain {tiles:,}: a core before 2.29.2 cut a "
            "write wrongly (F19)"
        )

    def _footer(self, name: str, data: bytes, size: int) -> tuple[StoredFooter, str]:
        """Decode the footer; if it is damaged, its copy in a `.meta`, and say so."""
        try:
            return self.reader.decode(self.reader.cut(name, data, size)), ""
        except BadFileError as error:
            ((_, copy),) = self.reader.read_raw([name])
            if isinstance(copy, ChronotileError) or not copy.is_consolidated:
                raise
            flaw = f"{error.problem}; a .meta holds another copy of the footer"
            return self.reader.decode(copy), flaw

    def _with_others(
        self, stored: StoredFooter, flaw: str, data: bytes
    ) -> tuple[StoredFooter, str]:
        """Read the applied deletes, and look for flaws in the tiles that only some reads need."""
        footer, applied = stored.footer, tuple[str, ...]()
        for offset in sorted(footer.others) if data else ():
            try:
                payload = self._open(stored.where, data, offset)
                if offset == footer.ofs_processed_conditions and payload is not None:
                    uris = decode_applied(payload, stored.where)
                    applied = tuple(u.rpartition("/")[2].removesuffix(".del") for u in uris)
            except (BadFileError, WrongKeyError) as error:
                flaw = flaw or error.problem
        return replace(stored, applied=applied), flaw

    def _read(self, where: str, size: int) -> bytes:
        if size <= _LEN_METADATA:
            data = self.store.read(where)
            if len(data) != size:
                raise BadFileError(where, f"expected {size} bytes, as listed, found {len(data)}")
            return data
        return self.store.read_range(where, size - (1 << 16), size, size=size)

    def _open(self, where: str, data: bytes, offset: int) -> bytes | None:
        """Open a tile before the footer; return None if the tile is too large."""
        try:
            return tiles.open_at(data, offset, where, key=self.key)
        except TooLargeError:
            return None


def _compared(files: _Files, stored: StoredFooter, flaw: str) -> Health:
    """Compare the files of a fragment with those that its metadata names."""

    def health(state: Wholeness, problem: str, file: str) -> Health:
        where, applied = f"{stored.path}/{file}", stored.applied or ()
        kept = stored.footer.has_delete_metadata
        return Health(stored.path, state, problem, where, stored.schema_file, applied, kept)

    for _, _, name, size, _ in stored.footer.cell_files:
        entry = files.sizes.get(name)
        if entry is None and name in files.links:
            problem = "a file is a symbolic link, which is never followed"
            return health(Wholeness.UNKNOWN, problem, name)
        if entry is None:
            problem = f"the file is missing ({size:,} bytes)"
            return health(Wholeness.FILE_MISSING, problem, name)
        if entry.size != size:
            problem = f"the file should have {size:,} bytes and has {entry.size or 0:,}"
            return health(Wholeness.DAMAGED, problem, name)
    return health(Wholeness.FLAWED if flaw else Wholeness.WHOLE, flaw, METADATA)
