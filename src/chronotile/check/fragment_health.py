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
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    TooLargeError,
    UnknownVersionError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.commit_files import is_commit_line
from chronotile.format.consolidated_footers import consolidated_footers
from chronotile.format.fragment_footer import (
    FIRST_WITH_FOOTER,
    FIRST_WITH_SCHEMA_NAME,
    METADATA,
    Footer,
    decode_applied,
    decode_footer,
    footer_size,
    schema_name,
)
from chronotile.format.fragment_size import FragmentMeasure, FragmentSize
from chronotile.format.kinds import COMMITS, FRAGMENTS, OLD_SCHEMA
from chronotile.format.names import NEWEST_VERSION, is_newer, parse_name, version_of
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from chronotile.format.schema import Schema
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
    closed: bool = False
    """Whether the engine cannot open the array with it, as it has no readable footer."""
    size: int = 0
    """Bytes of the files in its folder."""
    measured: FragmentSize | None = None
    """Its tiles and cells, if its footer has them."""

    @property
    def code(self) -> str:
        """The code of the finding for its problem."""
        missing = self.state is Wholeness.FILE_MISSING
        return "fragment-file-missing" if missing else "fragment-damaged"

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
    known = {table.uri(row) for row in table.tile_rows.tolist()}
    lost: dict[str, tuple[str, ...]] = {}
    for path, item in health.items():
        for name in item.applied if item.keeps_deleted else ():
            uri = f"{COMMITS}/{name}" + ("" if name.endswith(".upd") else ".del")
            if uri not in known and is_commit_line(uri):
                lost[uri] = (*lost.get(uri, ()), path)
    return lost


class _Named(NamedTuple):
    """The facts in the metadata of a fragment."""

    files: tuple[tuple[str, int], ...]
    schema: str
    applied: tuple[str, ...]
    flaw: str = ""
    keeps_deleted: bool = False


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
    for entry in store.list_prefix(FRAGMENTS, sizes=True):
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
        self.schemas = {item.text: item.schema for item in history.schemas if item.schema}
        self.unreadable = frozenset(item.text for item in history.schemas if item.schema is None)
        self.linked = frozenset(history.listing.linked_fragments)
        self.measures: dict[str, FragmentMeasure] = {}
        self.metas = [p for p in history.listing.fragment_meta if p.endswith(".meta")]

    def inspect(self, path: str, files: _Files) -> Health:
        """Find the health of one fragment."""
        where = f"{path}/{METADATA}"
        if is_newer(path):
            return Health(path, Wholeness.UNKNOWN, NEWER, where)
        if path in self.linked or METADATA in files.links:
            problem = "it is a symbolic link, which is never followed"
            return Health(path, Wholeness.UNKNOWN, problem, where)
        entry = files.sizes.get(METADATA)
        if entry is None:
            what = "is not there" if files.sizes else "is not there, nor is any other file"
            return Health(path, Wholeness.FILE_MISSING, f"{METADATA} {what}", where, closed=True)
        version = version_of(parse_name(path.rpartition("/")[2]))
        try:
            if version < FIRST_WITH_FOOTER:
                self._schema(where, version)
                tiles.decode(self._read(where, entry.size or 0), where, key=self.key)
                why = "its metadata is of a version without a footer"
                return Health(path, Wholeness.UNKNOWN, why, where)
            footer, named, data = self._footer(path, entry.size or 0, version)
        except MissingObjectError:
            problem = f"{METADATA} is gone"
            return Health(path, Wholeness.FILE_MISSING, problem, where, closed=True)
        except (KeyNeededError, UnknownVersionError) as error:
            return Health(path, Wholeness.UNKNOWN, error.problem, where)
        except (BadFileError, WrongKeyError) as error:
            return Health(path, Wholeness.DAMAGED, error.problem, where, closed=True)
        try:
            for offset in sorted(footer.needed) if data else ():
                self._open(where, data, offset)
        except (BadFileError, WrongKeyError) as error:
            return Health(path, Wholeness.DAMAGED, error.problem, where, named.schema)
        health = _compared(path, files, self._with_others(where, footer, named, data))
        return health._replace(measured=self._measured(footer, named.schema, where))

    def _footer(self, path: str, size: int, version: int) -> tuple[Footer, _Named, bytes]:
        """Read the footer, and the whole metadata if it is not too long."""
        where = f"{path}/{METADATA}"
        data = self._read(where, size)
        try:
            length = footer_size(data, size, version, self._schema(where, version), where)
            tail = data[-length:]
            if length > len(data):
                tail = self.store.read_range(where, size - length, size, size=size)
            footer, name = self._decoded(tail, version, where)
            flaw = ""
        except BadFileError as error:
            copy = self._copies.get(path.rpartition("/")[2])
            if copy is None:
                raise
            footer, name = self._decoded(copy, version, where, bare=True)
            flaw = f"{error.problem}; a .meta holds another copy of the footer"
        named = _Named(footer.files, name, (), flaw, footer.has_delete_metadata)
        return footer, named, data if len(data) == size else b""

    def _decoded(
        self, data: bytes, version: int, where: str, *, bare: bool = False
    ) -> tuple[Footer, str]:
        name = schema_name(data, version, where)
        schema = self._schema(where, version, name)
        assert schema is not None  # a footer without a schema's name is older than version 10
        return decode_footer(data, schema, where, bare=bare), name or OLD_SCHEMA

    def _measured(self, footer: Footer, schema: str, where: str) -> FragmentSize | None:
        """Measure the tiles and cells of a fragment; None if its footer cannot be true."""
        if schema not in self.measures:
            self.measures[schema] = FragmentMeasure(self.schemas[schema])
        with suppress(BadFileError):
            return self.measures[schema].measure(footer, where)
        return None

    @cached_property
    def _copies(self) -> dict[str, bytes]:
        """The footers that the array's `.meta` files hold."""
        footers: dict[str, bytes] = {}
        for path, data in self.store.read_many(self.metas):
            with suppress(ChronotileError):
                if isinstance(data, ChronotileError):
                    raise data
                payload = tiles.decode(data, path, key=self.key).payload
                footers |= consolidated_footers(payload, path)
        return footers

    def _with_others(self, where: str, footer: Footer, named: _Named, data: bytes) -> _Named:
        """Add the applied deletes and the flaws of the other tiles to what the metadata says."""
        flaw, applied = named.flaw, named.applied
        for offset in sorted(footer.others) if data else ():
            try:
                payload = self._open(where, data, offset)
                if offset == footer.ofs_processed_conditions and payload is not None:
                    uris = decode_applied(payload, where)
                    applied = tuple(u.rpartition("/")[2].removesuffix(".del") for u in uris)
            except (BadFileError, WrongKeyError) as error:
                flaw = flaw or error.problem
        return named._replace(flaw=flaw, applied=applied)

    def _schema(self, where: str, version: int, name: str | None = None) -> Schema | None:
        """Find the schema of a footer; before version 10 an array has only one."""
        if name is None:
            if version >= FIRST_WITH_SCHEMA_NAME:
                return None
            name = OLD_SCHEMA
        if name in self.unreadable:
            raise KeyNeededError(where, "expected the schema of its files, found it unreadable")
        if name not in self.schemas:
            raise BadFileError(where, f"expected its schema {name!r:.120}, found none of that name")
        return self.schemas[name]

    def _read(self, where: str, size: int) -> bytes:
        if size <= _LEN_METADATA:
            data = self.store.read(where)
            if len(data) != size:
                raise BadFileError(where, f"expected {size} bytes, as listed, found {len(data)}")
            return data
        return self.store.read_range(where, size - (1 << 16), size, size=size)

    def _open(self, where: str, data: bytes, offset: int) -> bytes | None:
        """Open a tile before the footer; return None if the tile is too large."""
        length = tiles.extent(memoryview(data)[offset:])
        if length is None or offset + length > len(data):
            raise BadFileError(where, "expected a tile before the footer, found none", offset)
        try:
            return tiles.decode(data[offset : offset + length], where, key=self.key).payload
        except TooLargeError:
            return None


def _compared(path: str, files: _Files, named: _Named) -> Health:
    """Compare the files of a fragment with those that its metadata names."""

    def health(state: Wholeness, problem: str, file: str) -> Health:
        where, kept = f"{path}/{file}", named.keeps_deleted
        return Health(path, state, problem, where, named.schema, named.applied, kept)

    for name, size in named.files:
        entry = files.sizes.get(name)
        if entry is None and name in files.links:
            problem = "a file is a symbolic link, which is never followed"
            return health(Wholeness.UNKNOWN, problem, name)
        if entry is None:
            problem = f"{size} bytes are named, and no file is there"
            return health(Wholeness.FILE_MISSING, problem, name)
        if entry.size != size:
            problem = f"{size} bytes are named, and {entry.size} are there"
            return health(Wholeness.DAMAGED, problem, name)
    return health(Wholeness.FLAWED if named.flaw else Wholeness.WHOLE, named.flaw, METADATA)
