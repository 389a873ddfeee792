"""Whether a fragment is whole: its metadata, and every file that the metadata names.

In: a store, a history, and fragments of it. Out: for each a `Health`: whole, or what is wrong
with it, or why that cannot be told. Looks into folders and at metadata, never at cells; a name
that stands in a file is only compared with what is listed.

A fragment is shown to be whole if its metadata file is there and ends in a footer, the schema
that the footer names is there, the tiles before the footer open, and each file that the footer
names is there with the size that it names. The engine reads it all the same if only tiles are
damaged that tell of least and largest values and the like, or if the footer is, and a `.meta` of
the array holds another copy: such a fragment is flawed.
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
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.fragment_footer import (
    FIRST_WITH_FOOTER,
    FIRST_WITH_SCHEMA_NAME,
    METADATA,
    Footer,
    consolidated_footers,
    decode_applied,
    decode_footer,
    footer_size,
    schema_name,
)
from chronotile.format.kinds import FRAGMENTS, OLD_SCHEMA
from chronotile.format.names import MAX_TIMESTAMP, parse_name, version_of
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chronotile.format.schema import Schema
    from chronotile.history.reading import History
    from chronotile.storage.store import Entry, Store
    from chronotile.visibility.rules import Rules

READ_AT_ONCE = 32
"""Fragments that are looked at at once in a bucket."""
_LISTED_SINGLY = 16
"""Up to so many fragments of a bucket each folder is listed by itself."""
_LEN_METADATA = 1 << 28
"""Bytes of metadata that are read; of larger files only the footer is."""


class State(enum.Enum):
    """How a fragment fares."""

    WHOLE = "whole"
    FLAWED = "damaged where only some reads look"
    FILE_MISSING = "a file is missing"
    DAMAGED = "damaged"
    UNKNOWN = "it cannot be told"


class Health(NamedTuple):
    """What is known of one fragment."""

    path: str
    """Its folder, relative to the array."""
    state: State
    problem: str
    """What is wrong, or why it cannot be told; empty if it is whole."""
    file: str
    """The file that it is about, relative to the array."""
    schema: str | None = None
    """The name of its schema's file, where its metadata could be read."""
    applied: tuple[str, ...] = ()
    """The names of the deletes that it has applied: its cells are without what they took."""
    closed: bool = False
    """Whether the engine cannot open the array with it: there is no footer to be had."""

    @property
    def code(self) -> str:
        """The code of the finding that tells of it."""
        missing = self.state is State.FILE_MISSING
        return "fragment-file-missing" if missing else "fragment-damaged"

    @property
    def is_whole(self) -> bool:
        """Whether it was shown to be whole."""
        return self.state is State.WHOLE

    @property
    def is_broken(self) -> bool:
        """Whether it was shown not to be."""
        return self.state in (State.FILE_MISSING, State.DAMAGED)


def health_by_name(health: Mapping[str, Health], name: str) -> Health | None:
    """What is known of a fragment by its name, wherever its folder is."""
    return health.get(f"{FRAGMENTS}/{name}") or health.get(name)


def fragment_paths(history: History) -> dict[str, str]:
    """The folder of each fragment that was listed, by its name."""
    listing = history.listing
    found = {name: f"{FRAGMENTS}/{name}" for name in listing.fragments}
    return found | {name: name for name in listing.root_fragments}


def inspect(
    store: Store,
    history: History,
    paths: Iterable[str],
    *,
    on_fragment: Callable[[], None] | None = None,
) -> dict[str, Health]:
    """Looks at fragments, several at a time.

    Args:
        store: Where the array is.
        history: What was read of it: the schemas are.
        paths: The folders of the fragments.
        on_fragment: Called after each.

    Returns:
        Path -> what is known of it.
    """
    wanted = tuple(dict.fromkeys(paths))
    inspector = _Inspector(store, history)
    threads = 1 if store.place.scheme == "file" else READ_AT_ONCE
    listed = _listed(store, wanted)
    found = {}
    for path, health in zip(
        wanted, ahead(lambda p: inspector.inspect(p, listed(p)), wanted, threads), strict=True
    ):
        found[path] = health
        if on_fragment is not None:
            on_fragment()
    return found


def lacking_fragments(
    history: History,
    rules: Rules,
    named: Iterable[str],
    moment: int,
    health: Mapping[str, Health] | Callable[[list[str]], Mapping[str, Health]],
) -> dict[str, tuple[str, ...]]:
    """The visible fragments of up to a moment whose schema lacks some fields.

    A delete that names such a field removes all of their rows: the engine takes every comparison
    with it for false, and a delete stores the negation of what it asks for (F15).

    Args:
        history: What was read of the array.
        rules: The rules applied to it.
        named: The fields.
        moment: The time of the delete.
        health: What is known of the fragments, or what looks at them; it is not called if every
            schema of the array has all of the fields.

    Returns:
        Path -> the fields that the fragment lacks.
    """
    wanted = tuple(named)
    schemas = {item.text: item.schema for item in history.schemas if item.schema is not None}
    if all(schema.field(name) is not None for schema in schemas.values() for name in wanted):
        return {}
    table, rows = history.table, rules.visible(0, MAX_TIMESTAMP)[0]
    paths = [table.fragment_path(row) for row in rows.tolist() if table.uris.t1[row] <= moment]
    known = health(paths) if callable(health) else health
    found = {}
    for path in paths:
        schema = schemas.get(known[path].schema or "") if path in known else None
        lacking = tuple(n for n in wanted if schema is not None and schema.field(n) is None)
        if lacking:
            found[path] = lacking
    return found


def lacking_words(found: Mapping[str, tuple[str, ...]]) -> str:
    """What a delete does to fragments that lack its fields, in words.

    >>> lacking_words({"__fragments/a": ("b",)})
    'it removes every row of 1 fragment of before b was added that it compares with b'
    """
    fields = ", ".join(sorted({name for names in found.values() for name in names}))
    count = "1 fragment" if len(found) == 1 else f"{len(found)} fragments"
    was = "was" if "," not in fields else "were"
    return (
        f"it removes every row of {count} of before {fields} {was} added "
        f"that it compares with {fields}"
    )


class _Named(NamedTuple):
    """What the metadata of a fragment says."""

    files: tuple[tuple[str, int], ...]
    schema: str
    applied: tuple[str, ...]
    flaw: str = ""


class _Files(NamedTuple):
    """The files of one fragment."""

    sizes: Mapping[str, Entry]
    links: frozenset[str]
    """Names of what is listed but never opened, such as symbolic links."""


def _listed(store: Store, paths: tuple[str, ...]) -> Callable[[str], _Files]:
    """Lists folders when they are asked for; many of a bucket all at once, beforehand."""
    if store.place.scheme == "file" or len(paths) <= _LISTED_SINGLY:

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
    """Looks at one fragment after the other."""

    def __init__(self, store: Store, history: History) -> None:
        self.store, self.key = store, history.key
        self.schemas = {item.text: item.schema for item in history.schemas if item.schema}
        self.sealed = frozenset(item.text for item in history.schemas if item.schema is None)
        self.linked = frozenset(history.listing.linked_fragments)
        self.metas = [p for p in history.listing.fragment_meta if p.endswith(".meta")]

    def inspect(self, path: str, files: _Files) -> Health:
        """What is known of one fragment."""
        where = f"{path}/{METADATA}"
        if path in self.linked or METADATA in files.links:
            problem = "it is a symbolic link, which is never followed"
            return Health(path, State.UNKNOWN, problem, where)
        entry = files.sizes.get(METADATA)
        if entry is None:
            what = "is not there" if files.sizes else "is not there, nor is any other file"
            return Health(path, State.FILE_MISSING, f"{METADATA} {what}", where, closed=True)
        version = version_of(parse_name(path.rpartition("/")[2]))
        try:
            if version < FIRST_WITH_FOOTER:
                self._schema(where, version)
                tiles.decode(self._read(where, entry.size or 0), where, key=self.key)
                why = "its metadata is of a version without a footer"
                return Health(path, State.UNKNOWN, why, where)
            footer, named, data = self._footer(path, entry.size or 0, version)
        except MissingObjectError:
            problem = f"{METADATA} is gone"
            return Health(path, State.FILE_MISSING, problem, where, closed=True)
        except (BadFileError, WrongKeyError) as error:
            return Health(path, State.DAMAGED, error.problem, where, closed=True)
        except KeyNeededError as error:
            return Health(path, State.UNKNOWN, error.problem, where)
        try:
            for offset in sorted(footer.needed) if data else ():
                self._open(where, data, offset)
        except (BadFileError, WrongKeyError) as error:
            return Health(path, State.DAMAGED, error.problem, where, named.schema)
        return self._compared(path, files, self._with_others(where, footer, named, data))

    def _footer(self, path: str, size: int, version: int) -> tuple[Footer, _Named, bytes]:
        """The footer, what it says, and all of the metadata if it is not too long."""
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
        return footer, _Named(footer.files, name, (), flaw), data if len(data) == size else b""

    def _decoded(
        self, data: bytes, version: int, where: str, *, bare: bool = False
    ) -> tuple[Footer, str]:
        name = schema_name(data, version, where)
        schema = self._schema(where, version, name)
        assert schema is not None  # a footer that names no schema is of before version 10
        return decode_footer(data, schema, where, bare=bare), name or OLD_SCHEMA

    @cached_property
    def _copies(self) -> dict[str, bytes]:
        """The footers that the array's `.meta` files hold."""
        found: dict[str, bytes] = {}
        for path, data in self.store.read_many(self.metas):
            with suppress(ChronotileError):
                if isinstance(data, ChronotileError):
                    raise data
                payload = tiles.decode(data, path, key=self.key).payload
                found |= consolidated_footers(payload, path)
        return found

    def _with_others(self, where: str, footer: Footer, named: _Named, data: bytes) -> _Named:
        """What is said, with the deletes applied, and what is wrong with the other tiles."""
        flaw, applied = named.flaw, named.applied
        for offset in sorted(footer.others) if data else ():
            try:
                payload = self._open(where, data, offset)
                if offset == footer.applied and payload is not None:
                    uris = decode_applied(payload, where)
                    applied = tuple(u.rpartition("/")[2].removesuffix(".del") for u in uris)
            except (BadFileError, WrongKeyError) as error:
                flaw = flaw or error.problem
        return named._replace(flaw=flaw, applied=applied)

    def _schema(self, where: str, version: int, name: str | None = None) -> Schema | None:
        """The schema of a footer; before version 10 there is only one."""
        if name is None:
            if version >= FIRST_WITH_SCHEMA_NAME:
                return None
            name = OLD_SCHEMA
        if name in self.sealed:
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
        """Opens one of the tiles before the footer; None if it is too large for that."""
        length = tiles.extent(memoryview(data)[offset:])
        if length is None or offset + length > len(data):
            raise BadFileError(where, "expected a tile before the footer, found none", offset)
        try:
            return tiles.decode(data[offset : offset + length], where, key=self.key).payload
        except TooLargeError:
            return None

    def _compared(self, path: str, files: _Files, named: _Named) -> Health:
        known = (named.schema, named.applied)
        for name, problem, state in _differences(files, named.files):
            return Health(path, state, problem, f"{path}/{name}", *known)
        state = State.FLAWED if named.flaw else State.WHOLE
        return Health(path, state, named.flaw, f"{path}/{METADATA}", *known)


def _differences(
    files: _Files, named: tuple[tuple[str, int], ...]
) -> Iterator[tuple[str, str, State]]:
    for name, size in named:
        entry = files.sizes.get(name)
        if entry is None and name in files.links:
            yield name, "a file is a symbolic link, which is never followed", State.UNKNOWN
        elif entry is None:
            yield name, f"{size} bytes are named, and no file is there", State.FILE_MISSING
        elif entry.size != size:
            yield name, f"{size} bytes are named, and {entry.size} are there", State.DAMAGED
