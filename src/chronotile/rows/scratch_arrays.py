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
from chronotile.format.commit_files import FIRST_WITH_COMMITS
from chronotile.format.fragment_footer import METADATA
from chronotile.format.kinds import COMMITS, FRAGMENTS, OK, OWN, SCHEMA
from chronotile.format.names import format_name, new_name, parse_name, version_of
from chronotile.format.schema import decode_schema
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

    from chronotile.format.names import Name
    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.snapshot import Snapshot

_LAST_UUID = "f" * 32
FAR = 1 << 62
"""A time after every other."""
_FIRST_WITH_DUPLICATES = 5
_AT_DUPLICATES = 4
"""The byte of a schema's payload that says whether duplicates are allowed."""


@contextmanager
def bare_array(
    at: Snapshot,
    commit_rows: Sequence[int],
    *,
    start: int = 0,
    every_version: bool = False,
    merged: Mapping[str, Mapping[str, bytes]] | None = None,
    fields: Collection[str] | None = None,
) -> Iterator[Engine]:
    """Open some fragments of an array in the engine, with neither deletes nor updates.

    Args:
        at: The array; its schema is in force at the end of the window.
        commit_rows: The rows of the fragments' commits in the table of the log.
        start: The start of the window.
        every_version: Let the engine give every cell that was written at a place, and not only the
            newest.
        merged: Merged fragment, whose cells have their own times -> files that stand in for its
            own, if any. Its name may lie about the times (F4): here it has another.
        fields: The fields to read, besides coordinates; all if left out. Of a bucket's fragments,
            files with other attributes are not copied.
    """
    log, known = at.log, merged or {}
    table, store, history = log.history.table, log.store, log.history
    with ScratchFolder() as scratch:
        names = {row: _name(table.name(row), known) for row in commit_rows}
        unread = {}
        if fields is not None and not store.traits.has_links:
            unread = unread_files(log, [table.name(row) for row in commit_rows], fields)
        for row, name in names.items():
            instead, path = known.get(table.name(row)), table.fragment_path(row)
            target = f"{path.rpartition('/')[0]}/{name}".removeprefix("/")
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


def put_lone_fragment(
    scratch: ScratchFolder,
    log: Log,
    folder: str,
    name: Name,
    items: Sequence[SchemaFile],
    *,
    metadata: bytes | None = None,
    every_version: bool = False,
    unread: Collection[str] = (),
) -> bool:
    """Put one fragment into an empty scratch array, wherever its folder is, and commit it.

    Args:
        scratch: The scratch array.
        log: The array that the schemas are from.
        folder: The fragment's folder, relative to the array.
        name: The name that it gets.
        items: The schemas; the last one is in force.
        metadata: The metadata that stands in for its own.
        every_version: Let the engine give every cell that was written at a place.
        unread: Files that nobody is going to read.

    Returns:
        True if the schemas are encrypted.
    """
    for made in (COMMITS, FRAGMENTS, SCHEMA):
        scratch.make_folder(made)
    instead = None if metadata is None else {METADATA: metadata}
    if version_of(name) < FIRST_WITH_COMMITS:
        scratch.take(log.store, folder, name.text, instead, unread)
        scratch.put(f"{name.text}.ok", b"")
    else:
        scratch.take(log.store, folder, f"{FRAGMENTS}/{name.text}", instead, unread)
        put_writes(scratch, [name.text])
    for path in log.history.listing.enumerations:
        scratch.put(path, log.store.read(path))
    encrypted = False
    for item in items:
        data, encrypted = _schema_bytes(log, item, every_version=every_version)
        # In the quarantine a number stands before its name.
        is_kept = item.path.startswith(f"{OWN}/")
        scratch.put(f"{SCHEMA}/{item.text.partition('-')[2]}" if is_kept else item.path, data)
    if len(items) > 1:
        scratch.put(f"{SCHEMA}/{format_name(FAR, FAR, _LAST_UUID, None)}", data)
    return encrypted


def unread_files(
    log: Log, fragments: Collection[str], fields: Collection[str]
) -> dict[str, frozenset[str]]:
    """Find the files that a read of some fields has no need of, by fragment.

    Of a fragment whose footer cannot be read, every file is needed.
    """
    schemas = [item.schema for item in log.history.schemas if item.schema is not None]
    if {field.name for schema in schemas for field in schema.attributes} <= {*fields}:
        return {}
    unread = {}
    for name, stored in FooterReader(log.store, log.history).read(fragments):
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

    The columns are the rows as stored, one for each field of the schema.

    Raises:
        EngineError: The engine refused.
    """
    log = at.log
    with ScratchFolder() as scratch:
        for enumeration in log.history.listing.enumerations:
            scratch.put(enumeration, log.store.read(enumeration))
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
                    raise EngineError(log.array, "TileDB did not finish a write")
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
    return format_name(0, FAR, parsed.uuid, parsed.version)


def _put_commits(log: Log, scratch: ScratchFolder, names: Mapping[int, str]) -> None:
    table = log.history.table
    for folder in (COMMITS, SCHEMA):
        scratch.make_folder(folder)
    writes = []
    for row, name in names.items():
        if table.uris.ext[row] != OK:
            writes.append(name)
        elif not table.path(row).endswith(".tdb"):
            scratch.put(f"{name}.ok", b"")
    if writes:
        put_writes(scratch, writes)


def put_writes(scratch: ScratchFolder, names: Sequence[str]) -> None:
    """Commit fragments of a scratch array, by one file."""
    version = max(version_of(parse_name(name)) for name in names)
    lines = "".join(f"{COMMITS}/{name}.wrt\n" for name in names)
    scratch.put(f"{COMMITS}/{new_name(0, FAR, version)}.con", lines.encode())


def _schema_bytes(log: Log, item: SchemaFile, *, every_version: bool = False) -> tuple[bytes, bool]:
    """Return the file of a schema, with duplicates if wanted, and whether it is encrypted."""
    data, key = log.store.read(item.path), log.history.key
    encrypted = tiles.decode(data, item.path, key=key).encrypted
    return with_duplicates(data, item.path, key) if every_version else data, encrypted


def with_duplicates(data: bytes, where: str, key: bytes | None) -> bytes:
    """Return the file of a schema with duplicates allowed: a read then gives every cell.

    A schema of a dense array, and one of a version without duplicates, stays as it is.
    """
    tile = tiles.decode(data, where, key=key)
    schema = decode_schema(tile.payload, where)
    if schema.dense or schema.version < _FIRST_WITH_DUPLICATES:
        return data
    payload = bytearray(tile.payload)
    payload[_AT_DUPLICATES] = 1
    own = key if tile.encrypted else None
    return tiles.encode(bytes(payload), version=schema.version, key=own)
