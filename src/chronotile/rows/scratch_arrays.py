"""Scratch arrays: fragments without deletes and updates, and a fragment that is written aside.

In: a snapshot; fragments to read, or rows to write. Out: the engine with a scratch array open in
it, or the files of one new fragment. The array itself is not touched.

The engine takes an update for a delete, and knows no way to leave it out (F11). It opens any folder
that has a schema and commits. So a scratch folder has links to the fragments, and of the commits
only the writes: every cell that was ever written is there, with its time. A bucket has no links,
and the engine finds fragments only below the array that it opens: the files to read of a bucket's
fragments are copied to the disk.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.format import tiles
from chronotile.format.fragment_footer import METADATA
from chronotile.format.kinds import COMMITS, FRAGMENTS, OK, SCHEMA
from chronotile.format.names import format_name, new_name, parse_name, version_of
from chronotile.history.read_footers import FooterReader
from chronotile.rows.engine import (
    COMPLETED,
    UNORDERED,
    WRITE,
    Engine,
    EngineError,
    engine_settings,
)
from chronotile.rows.engine_cells import to_buffers
from chronotile.storage.store import open_store
from chronotile.storage.transfer import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.snapshot import Snapshot

_LAST_UUID = "f" * 32
_FAR = 1 << 62
"""A time after every other."""
_FIRST_WITH_DUPLICATES = 5
_AT_DUPLICATES = 4
"""The byte of a schema's payload that says whether duplicates are allowed."""


@contextmanager
def bare_array(
    at: Snapshot,
    rows: Sequence[int],
    *,
    start: int = 0,
    every_version: bool = False,
    metadata: Mapping[str, bytes | None] | None = None,
    fields: Collection[str] | None = None,
) -> Iterator[Engine]:
    """Open some fragments of an array in the engine, with neither deletes nor updates.

    Args:
        at: The array; its schema is in force at the end of the window.
        rows: The rows of the fragments' commits in the table of the log.
        start: The start of the window.
        every_version: Let the engine give every cell that was written at a place, and not only the
            newest.
        metadata: Merged fragment, whose cells have their own times -> the metadata that stands in
            for its own, if any. Its name may lie about the times (F4): here it has another.
        fields: The fields to read, besides coordinates; all if left out. Of a bucket's fragments,
            files with other attributes are not copied.

    Raises:
        NoEngineError: The engine is not installed.
        StorageError: The storage failed.
    """
    log, merged = at.log, metadata or {}
    table, store, history = log.history.table, log.storage, log.history
    with ScratchFolder() as scratch:
        names = {row: _name(table.name(row), merged) for row in rows}
        unread = {}
        if fields is not None and not store.traits.has_links:
            unread = unread_files(log, [table.name(row) for row in rows], fields)
        for row, name in names.items():
            own, path = merged.get(table.name(row)), table.fragment_path(row)
            target = f"{path.rpartition('/')[0]}/{name}".removeprefix("/")
            instead = None if own is None else {METADATA: own}
            scratch.take(store, path, target, instead, unread.get(table.name(row), ()))
        _put_commits(log, scratch, names)
        for path in history.listing.enumerations:
            scratch.put(path, store.read(path))
        encrypted = False
        for item in history.schemas:
            data, encrypted = _schema_bytes(log, item, every_version=every_version)
            scratch.put(item.path, data)
            if item == at.schema_file:
                scratch.put(f"{SCHEMA}/{format_name(at.end, at.end, _LAST_UUID, None)}", data)
        settings = engine_settings(None, history.key if encrypted else None)
        with Engine(log.array, scratch.root, settings) as engine:
            engine.open(start, at.end)
            yield engine


def unread_files(
    log: Log, fragments: Collection[str], fields: Collection[str]
) -> dict[str, frozenset[str]]:
    """Find the files that a read of some fields has no need of, by fragment.

    Of a fragment whose footer cannot be read, every file is needed.

    Raises:
        StorageError: The storage failed.
    """
    schemas = [item.schema for item in log.history.schemas if item.schema is not None]
    if {field.name for schema in schemas for field in schema.attributes} <= {*fields}:
        return {}
    unread = {}
    for name, stored in FooterReader(log.storage, log.history).read(fragments):
        if not isinstance(stored, ChronotileError):
            others = {field.name for field in stored.schema.attributes} - {*fields}
            files = stored.footer.cell_files
            unread[name] = frozenset(file.name for file in files if file.field in others)
    return unread


class StagedFragment(NamedTuple):
    """A fragment that is not in its array yet."""

    version: int
    files: dict[str, bytes]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(map(len, self.files.values()))


def stage_fragment(at: Snapshot, columns: Sequence[pa.Array], moment: int) -> StagedFragment:
    """Let the engine write rows at a moment, aside.

    Args:
        at: The array; the rows have its schema.
        columns: The rows as stored, a column for each field of the schema.
        moment: The time of the fragment.

    Raises:
        EngineError: The engine refused.
    """
    log = at.log
    with ScratchFolder() as scratch:
        for enumeration in log.history.listing.enumerations:
            scratch.put(enumeration, log.storage.read(enumeration))
        data, encrypted = _schema_bytes(log, at.schema_file)
        scratch.put(at.schema_file.path, data)
        scratch.make_folder(COMMITS)
        scratch.make_folder(FRAGMENTS)
        settings = engine_settings(None, log.history.key if encrypted else None)
        with Engine(log.array, scratch.root, settings) as engine:
            engine.open(0, moment, WRITE)
            with engine.query(WRITE, UNORDERED) as query:
                for field, cells in zip(at.schema.fields, columns, strict=True):
                    query.set(field.name, to_buffers(field, cells))
                if query.submit() != COMPLETED:
                    raise EngineError(log.array, "the engine did not finish a write")
                query.finalize()
        written = open_store(scratch.root)
        (folder,) = written.list_dir(FRAGMENTS).folders
        files = {
            entry.path.rpartition("/")[2]: written.read(entry.path)
            for entry in written.list_dir(folder).files
        }
    return StagedFragment(version_of(parse_name(folder.rpartition("/")[2])), files)


def _name(name: str, merged: Collection[str]) -> str:
    """Return the name of a fragment here; one that is merged is open to all times, cell by cell."""
    if name not in merged:
        return name
    parsed = parse_name(name)
    return format_name(0, _FAR, parsed.uuid, parsed.version)


def _put_commits(log: Log, scratch: ScratchFolder, names: Mapping[int, str]) -> None:
    table = log.history.table
    for folder in (COMMITS, SCHEMA):
        scratch.make_folder(folder)
    lines = []
    for row, name in names.items():
        if table.uris.ext[row] == OK:
            if not table.path(row).endswith(".tdb"):
                scratch.put(f"{name}.ok", b"")
        else:
            lines.append(f"{COMMITS}/{name}.wrt\n")
    if lines:
        version = max(table.version(row) for row in names)
        scratch.put(f"{COMMITS}/{new_name(0, _FAR, version)}.con", "".join(lines).encode())


def _schema_bytes(log: Log, item: SchemaFile, *, every_version: bool = False) -> tuple[bytes, bool]:
    """Return the file of a schema, with duplicates if wanted, and whether it is encrypted."""
    data = log.storage.read(item.path)
    tile = tiles.decode(data, item.path, key=log.history.key)
    version = item.schema.version if item.schema else 0
    if every_version and version >= _FIRST_WITH_DUPLICATES:
        payload = bytearray(tile.payload)
        payload[_AT_DUPLICATES] = 1
        key = log.history.key if tile.encrypted else None
        data = tiles.encode(bytes(payload), version=version, key=key)
    return data, tile.encrypted
