"""One file of any kind, decoded on its own; and the schemas of an array, without its log.

In: a file's path, or its bytes. Out: a frozen value of its kind. If the name does not say the
kind, the content decides, where it can. Knows no array around the file: the values of a condition
stay raw, until a caller gives them the schemas.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from chronotile.conditions import codec
from chronotile.conditions.stored_conditions import StoredDelete, StoredUpdate
from chronotile.errors import ArrayNotFoundError, BadFileError, ChronotileError, option
from chronotile.format import tiles
from chronotile.format.commit_files import (
    ConRecord,
    decode_con,
    decode_ign,
    decode_vac,
    vacuumed_name,
)
from chronotile.format.consolidated_footers import ListedFooter, read_index
from chronotile.format.datatypes import Datatype
from chronotile.format.fragment_footer import read_head
from chronotile.format.fragment_metadata import (
    FragmentMetadata,
    Frame,
    decode_metadata,
    frame_metadata,
)
from chronotile.format.groups import GroupDetails, decode_details
from chronotile.format.kinds import (
    CONDITIONS,
    ENUMERATIONS,
    FOLDER_KINDS,
    FRAGMENT_METADATA,
    KINDS,
    LOG_KINDS,
    OLD_SCHEMA,
    SCHEMA,
    TILE_KINDS,
    WRITES,
    Kind,
)
from chronotile.format.names import try_parse
from chronotile.format.parsers import ArrayMetadataSpec, GenericTileSpec
from chronotile.format.parsers import parse as parse_spec
from chronotile.format.schema import Enumeration, Schema, decode_enumeration, decode_schema
from chronotile.storage.store import MissingObjectError, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile:
    """A `.wrt` or `.ok`, which is empty: its name is the whole commit."""

    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesFile:
    """An `.ign` or a `.vac`."""

    kind: Kind
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidatedFile:
    """A `.con`; the tiles in it stay closed."""

    kind: Kind
    records: tuple[ConRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile(StoredDelete):
    """A `.del`."""

    kind: Kind
    tile: tiles.Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFile(StoredUpdate):
    """A `.upd`."""

    kind: Kind
    tile: tiles.Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySchemaFile:
    """A file of `__schema`."""

    kind: Kind
    tile: tiles.Tile
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumerationFile:
    """A file of `__schema/__enumerations`."""

    kind: Kind
    tile: tiles.Tile
    enumeration: Enumeration


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataEntry:
    """A key of the array's metadata that was set or removed."""

    key: str
    removed: bool
    datatype: Datatype | None = None
    """None if it was removed."""
    count: int = 0
    raw: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayMetadataFile:
    """A file of `__meta`."""

    kind: Kind
    tile: tiles.Tile
    entries: tuple[MetadataEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFile:
    """A file of `__group`."""

    kind: Kind
    tile: tiles.Tile
    details: GroupDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidatedFootersFile:
    """A `.meta`."""

    kind: Kind
    tile: tiles.Tile
    footers: tuple[ListedFooter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentMetadataFile:
    """A `__fragment_metadata.tdb`."""

    kind: Kind
    frame: Frame
    data: bytes = field(repr=False)
    where: str = field(repr=False, compare=False)

    def decode(self, schema: Schema, key: bytes | None = None) -> FragmentMetadata:
        """Read all of it, with the schema that `frame.head` names.

        Raises:
            BadFileError: It is damaged, or not of this schema.
        """
        return decode_metadata(self.data, schema, self.where, key=key)


AnyFile: TypeAlias = (
    WriteFile
    | LinesFile
    | ConsolidatedFile
    | DeleteFile
    | UpdateFile
    | ArraySchemaFile
    | EnumerationFile
    | ArrayMetadataFile
    | GroupFile
    | ConsolidatedFootersFile
    | FragmentMetadataFile
)


def parse(
    path_or_bytes: str | os.PathLike[str] | bytes,
    kind: str | None = None,
    *,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AnyFile:
    r"""Decode one file.

    Args:
        path_or_bytes: A local path, a URI, or the content itself.
        kind: One of `KINDS`; by default the name decides, then the content.
        key: The AES-256 key of an encrypted array.
        storage_options: Options of the storage, such as a region.

    Raises:
        BadFileError: It is damaged, of another kind, or of no kind that its content shows.
        KeyNeededError: It is encrypted, and there is no key.

    >>> parse(b"__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt\n", kind="ign").lines
    ('__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt',)
    """
    if isinstance(path_or_bytes, bytes):
        where, data, named = "bytes", path_or_bytes, None
    else:
        where = os.fspath(path_or_bytes)
        data, named = read_file(where, storage_options), kind_of_name(where)
    raw_key = key.encode() if isinstance(key, str) else key
    given = next((known for known in KINDS if known == kind), None)
    if kind is not None and given is None:
        raise BadFileError(where, f"expected a kind of {', '.join(KINDS)}, found {kind!r}")
    return decode(data, given or named or recognise(data, where, key=raw_key), where, key=raw_key)


def read_file(place: str, storage_options: Mapping[str, str] | None = None) -> bytes:
    """Read one file, from a disk or a bucket."""
    folder, name = split_place(place)
    return open_store(folder, storage_options).read(name)


def split_place(place: str) -> tuple[str, str]:
    """Split a place into the folder of a file, and its name.

    >>> split_place("s3://lake/sales/__commits/a.del")
    ('s3://lake/sales/__commits', 'a.del')
    """
    if "://" in place:
        folder, _, name = place.rstrip("/").rpartition("/")
        return folder, name
    path = Path(place).absolute()
    return str(path.parent), path.name


def kind_of_name(place: str) -> Kind | None:
    """Tell the kind of a file by its name and folder, if they show one.

    >>> kind_of_name("a/__schema/__1_1_ab"), kind_of_name("__1_1_ab_22.vac"), kind_of_name("x")
    ('schema', 'vac', None)
    """
    folder, name = split_place(place)
    for kind in LOG_KINDS:
        if name.endswith(f".{kind}"):
            return kind
    if name == OLD_SCHEMA:
        return "schema"
    if name == FRAGMENT_METADATA:
        return "fragment-metadata"
    if name.endswith(".meta") and name != ".meta":
        return "fragment-meta"
    return FOLDER_KINDS.get(folder.rpartition("/")[2]) if "." not in name else None


def recognise(data: bytes, where: str, *, key: bytes | None = None) -> Kind:
    r"""Tell the kind of a file by its content alone.

    A `.con` of writes only and an `.ign` look the same: then it refuses, and does not guess.

    Raises:
        BadFileError: No kind fits, or more than one.

    >>> recognise(b"/__fragments/__1_1_00112233445566778899aabbccddeeff_22\n", "x")
    'vac'
    """
    if not data:
        return "wrt"
    if _is_framed(data, where):
        return "fragment-metadata"
    kinds = _tile_kinds(data, where, key) if _is_tile(data) else _line_kinds(data, where)
    if len(kinds) == 1:
        return kinds[0]
    problem = "it is no commit file, schema or metadata of TileDB"
    if kinds:
        problem = f"it may be {' or '.join(kinds)}; give {option('kind', 'KIND')}"
    raise BadFileError(where, problem)


def decode(data: bytes, kind: Kind, where: str, *, key: bytes | None = None) -> AnyFile:
    r"""Decode bytes of a known kind.

    Raises:
        BadFileError: They are not of that kind.

    >>> decode(b"", "wrt", "a.wrt")
    WriteFile(kind='wrt')
    """
    match kind:
        case "wrt" | "ok":
            if data:
                raise BadFileError(where, f"expected no content, found {len(data)} bytes")
            return WriteFile(kind=kind)
        case "ign":
            return LinesFile(kind=kind, lines=decode_ign(data, where))
        case "vac":
            return LinesFile(kind=kind, lines=decode_vac(data, where))
        case "con":
            return ConsolidatedFile(kind=kind, records=decode_con(data, where))
        case "fragment-metadata":
            frame = frame_metadata(data, where)
            return FragmentMetadataFile(kind=kind, frame=frame, data=data, where=where)
    return decode_payload(tiles.decode(data, where, key=key), kind, where)


def decode_payload(tile: tiles.Tile, kind: Kind, where: str) -> AnyFile:
    """Decode the payload of an opened tile of a known kind.

    >>> tile = tiles.decode(tiles.encode(b"", version=22), "a")
    >>> decode_payload(tile, "meta", "a").entries
    ()
    """
    payload = tile.payload
    match kind:
        case "del":
            return DeleteFile(kind=kind, tile=tile, stored=codec.decode(payload, where))
        case "upd":
            stored, values = codec.decode_update(payload, where)
            return UpdateFile(kind=kind, tile=tile, stored=stored, values=values)
        case "schema":
            return ArraySchemaFile(kind=kind, tile=tile, schema=decode_schema(payload, where))
        case "enumeration":
            labels = decode_enumeration(payload, where)
            return EnumerationFile(kind=kind, tile=tile, enumeration=labels)
        case "group":
            return GroupFile(kind=kind, tile=tile, details=decode_details(payload, where))
        case "fragment-meta":
            footers = read_index(payload, where).listed()
            return ConsolidatedFootersFile(kind=kind, tile=tile, footers=footers)
    entries = parse_spec(ArrayMetadataSpec, where, payload).entries
    return ArrayMetadataFile(kind=kind, tile=tile, entries=tuple(map(_metadata_entry, entries)))


def _metadata_entry(entry: Any) -> MetadataEntry:
    if entry.is_deletion:
        return MetadataEntry(key=entry.key, removed=True)
    value = entry.insertion
    return MetadataEntry(
        key=entry.key,
        removed=False,
        datatype=Datatype(value.datatype.code.value),
        count=value.num_values,
        raw=value.value.raw,
    )


def _is_tile(data: bytes) -> bool:
    try:
        parse_spec(GenericTileSpec, "tile", data)
    except BadFileError:
        return False
    return True


def _tile_kinds(data: bytes, where: str, key: bytes | None) -> list[Kind]:
    tile = tiles.decode(data, where, key=key)
    kinds = []
    for kind in TILE_KINDS:
        with suppress(ChronotileError):
            decoded = decode_payload(tile, kind, where)
            if not isinstance(decoded, ConsolidatedFootersFile) or _is_packed(decoded):
                kinds.append(kind)
    return kinds


def _line_kinds(data: bytes, where: str) -> list[Kind]:
    try:
        records = decode_con(data, where)
    except BadFileError:
        records = ()
    if any(record.tile is not None for record in records):
        return ["con"]
    try:
        lines = decode_vac(data, where)
    except BadFileError:
        return []
    if all(_is_commit(line) for line in lines):
        return ["con", "ign"] if records else ["ign"]
    return ["vac"] if all(try_parse(vacuumed_name(line)) for line in lines) else []


def _is_commit(uri: str) -> bool:
    stem, _, extension = uri.rpartition("/")[2].rpartition(".")
    return f".{extension}" in (*WRITES, *CONDITIONS) and try_parse(stem) is not None


def _is_framed(data: bytes, where: str) -> bool:
    """Return True if bytes are tiles with a footer behind them."""
    try:
        return bool(frame_metadata(data, where).tiles)
    except ChronotileError:
        return False


def _is_packed(file: ConsolidatedFootersFile) -> bool:
    """Return True if footers follow their names at once, as in every file of the engine."""
    footers = file.footers
    end = 4 + sum(16 + len(item.name.encode()) for item in footers)
    try:
        for item in footers:
            read_head(item.footer, item.name)
    except ChronotileError:
        return False
    return bool(footers) and min(item.offset for item in footers) == end


def read_schemas(store: Store, key: bytes | None = None, file: str = "") -> tuple[Schema, ...]:
    """Read the schemas of an array with their labels, the newest first; or the one in a file.

    Raises:
        ChronotileError: There is no schema, or it cannot be read.
    """
    if file:
        return (_labelled(decode_schema(_payload(store, file, key), file), store, key),)
    paths = sorted((entry.path for entry in store.list_dir(SCHEMA).files), reverse=True)
    schemas = [_named(store, path, key) for path in paths]
    try:
        schemas.append(_named(store, OLD_SCHEMA, key))
    except MissingObjectError:
        if not schemas:
            raise ArrayNotFoundError(store.uri, "expected an array, found no schema") from None
    return tuple(_labelled(schema, store, key) for schema in schemas)


def _named(store: Store, path: str, key: bytes | None) -> Schema:
    schema = decode_schema(_payload(store, path, key), path)
    return replace(schema, file=path.rpartition("/")[2])


def _payload(store: Store, path: str, key: bytes | None) -> bytes:
    return tiles.decode(store.read(path), store.uri_of(path), key=key).payload


def _labelled(schema: Schema, store: Store, key: bytes | None) -> Schema:
    labels: list[Enumeration] = []
    for _, file in schema.enumeration_files:
        path = f"{ENUMERATIONS}/{file}"
        # A schema away from its array has no labels: its values then stay raw.
        with suppress(ChronotileError):
            labels.append(decode_enumeration(_payload(store, path, key), path))
    return schema.with_enumerations(labels)
