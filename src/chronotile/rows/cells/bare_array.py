"""Fragments without the deletes and updates: what the engine cannot be asked for otherwise.

In: a log, fragments of it, a schema. Out: a scratch array of these fragments alone, open in the
engine: every cell that was ever written is there, with its time. Copies nothing on a disk, where
links do; of a bucket's fragments, what is going to be read is copied to the disk. The array itself
is not touched.

The engine takes an update for a delete, and knows no way to leave it out (F11). It opens an array
as long as its folder has a schema and commits: the scratch folder has links to the fragments, and
of the commits only the writes. A bucket has no links, and the engine finds fragments only below the
array that it opens: to read them in place, the scratch array would have to be in the bucket.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from chronotile.format import tiles
from chronotile.format.fragment_footer import METADATA
from chronotile.format.kinds import COMMITS, OK, SCHEMA
from chronotile.format.names import format_name, new_name, parse_name
from chronotile.rows.cells.engine import Engine
from chronotile.rows.cells.engine_settings import engine_settings
from chronotile.rows.cells.unread_files import unread_files
from chronotile.storage.transfer import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log

_LAST_UUID = "f" * 32
_FAR = 1 << 62
"""A time after every other."""
_FIRST_WITH_DUPLICATES = 5
_AT_DUPLICATES = 4
"""The byte of a schema's payload that says whether duplicates are allowed."""


class Bare(NamedTuple):
    """A scratch array."""

    engine: Engine
    root: str
    """Its folder."""


@contextmanager
def bare_array(
    log: Log,
    rows: Sequence[int],
    schema: SchemaFile,
    end: int,
    *,
    every_version: bool = False,
    metadata: Mapping[str, bytes | None] | None = None,
    fields: Collection[str] | None = None,
) -> Iterator[Bare]:
    """A scratch array of some fragments, with neither deletes nor updates.

    Args:
        log: The log of the array.
        rows: The rows of the fragments' commits in the table of the log.
        schema: What an open at `end` is to find in force.
        end: The end of the windows that it is opened at.
        every_version: Whether the engine gives every cell that was written at a place, instead of
            the newest.
        metadata: Merged fragment, whose cells have their own times -> the metadata that stands in
            for its own, if any. Its name may lie about the times (F4): here it has another.
        fields: What is going to be read, besides coordinates; all if left out. Of a bucket's
            fragments, files with other attributes are not copied.

    Raises:
        NoEngineError: The engine is not installed.
        StorageError: The storage failed.
    """
    table, store, history = log.history.table, log.storage, log.history
    with ScratchFolder() as scratch:
        merged = metadata or {}
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
            if item == schema:
                scratch.put(f"{SCHEMA}/{format_name(end, end, _LAST_UUID, None)}", data)
        key = history.key if encrypted else None
        with Engine(log.array, scratch.root, engine_settings(None, key)) as engine:
            yield Bare(engine, scratch.root)


def _name(name: str, merged: Collection[str]) -> str:
    """The name of a fragment here; one that is merged is open to all times, cell by cell."""
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


def _schema_bytes(log: Log, item: SchemaFile, *, every_version: bool) -> tuple[bytes, bool]:
    """The file of a schema, and whether it is encrypted."""
    data = log.storage.read(item.path)
    tile = tiles.decode(data, item.path, key=log.history.key)
    version = item.schema.version if item.schema else 0
    if every_version and version >= _FIRST_WITH_DUPLICATES:
        payload = bytearray(tile.payload)
        payload[_AT_DUPLICATES] = 1
        key = log.history.key if tile.encrypted else None
        data = tiles.encode(bytes(payload), version=version, key=key)
    return data, tile.encrypted
