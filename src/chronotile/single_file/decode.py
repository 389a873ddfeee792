"""One file of any kind, decoded on its own.

In: a file's path, or its bytes. Out: a frozen value of its kind. A file whose name does not tell
its kind is recognised by its content, where that is possible. Knows no array around the file: the
values of a condition stay raw.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from chronotile.conditions import codec
from chronotile.conditions.tree import Condition, UpdateValue, negate
from chronotile.errors import BadFileError, BadNameError, ChronotileError
from chronotile.format import tiles
from chronotile.format.commit_files import (
    Record,
    commit_name,
    decode_con,
    decode_ign,
    decode_vac,
    vacuumed_name,
)
from chronotile.format.datatypes import Datatype
from chronotile.format.kinds import (
    FOLDER_KINDS,
    KINDS,
    LOG_KINDS,
    OLD_SCHEMA,
    TILE_KINDS,
    TILES,
    WRITES,
    Kind,
)
from chronotile.format.names import parse_name
from chronotile.format.parsers import ArrayMetadataSpec, GenericTileSpec
from chronotile.format.parsers import parse as parse_spec
from chronotile.format.schema import Enumeration, Schema, decode_enumeration, decode_schema
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile:
    """A `.wrt` or `.ok`: its name is all that it says."""

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
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A `.del`."""

    kind: Kind
    tile: tiles.Tile
    stored: Condition
    """The condition as on disk: what rows must satisfy to stay."""

    @property
    def predicate(self) -> Condition:
        """What its author asked for."""
        return negate(self.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFile(DeleteFile):
    """A `.upd`."""

    values: tuple[UpdateValue, ...]


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
    datatype: Datatype | None
    """None where it was removed."""
    count: int
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """A file of `__meta`."""

    kind: Kind
    tile: tiles.Tile
    entries: tuple[MetadataEntry, ...]


AnyFile: TypeAlias = (
    WriteFile
    | LinesFile
    | ConsolidatedFile
    | DeleteFile
    | UpdateFile
    | ArraySchemaFile
    | EnumerationFile
    | MetadataFile
)


def parse(
    path_or_bytes: str | os.PathLike[str] | bytes,
    kind: str | None = None,
    *,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AnyFile:
    r"""Decodes one file.

    Args:
        path_or_bytes: A local path, a URI, or the content itself.
        kind: One of `KINDS`, if neither name nor content is to decide.
        key: The AES-256 key of an encrypted array.
        storage_options: What the storage needs to know.

    Raises:
        BadFileError: It is damaged, of another kind, or its kind cannot be told.
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
    chosen = _checked(kind, where) or named or recognise(data, where, key=raw_key)
    return decode(data, chosen, where, key=raw_key)


def read_file(place: str, storage_options: Mapping[str, str] | None = None) -> bytes:
    """Reads one file, from a disk or a bucket.

    Raises:
        ChronotileError: There is none, or it cannot be read.
    """
    folder, name = split_place(place)
    return open_store(folder, storage_options).read(name)


def split_place(place: str) -> tuple[str, str]:
    """The folder of a file, and its name.

    >>> split_place("s3://lake/sales/__commits/a.del")
    ('s3://lake/sales/__commits', 'a.del')
    """
    if "://" in place:
        folder, _, name = place.rstrip("/").rpartition("/")
        return folder, name
    path = Path(place).absolute()
    return str(path.parent), path.name


def kind_of_name(place: str) -> Kind | None:
    """The kind that a file's name and folder tell, if they tell one.

    >>> kind_of_name("a/__schema/__1_1_ab"), kind_of_name("__1_1_ab_22.vac"), kind_of_name("x")
    ('schema', 'vac', None)
    """
    folder, name = split_place(place)
    extension = name.rpartition(".")[2]
    for kind in LOG_KINDS:
        if extension == kind and name != kind:
            return kind
    if name == OLD_SCHEMA:
        return "schema"
    return FOLDER_KINDS.get(folder.rpartition("/")[2]) if "." not in name else None


def recognise(data: bytes, where: str, *, key: bytes | None = None) -> Kind:
    r"""Tells the kind of a file by its content alone.

    A `.con` of writes only and an `.ign` look the same; that is refused, not guessed.

    Raises:
        BadFileError: No kind fits, or more than one.

    >>> recognise(b"/__fragments/__1_1_00112233445566778899aabbccddeeff_22\n", "x")
    'vac'
    """
    if not data:
        return "wrt"
    fitting = _tile_kinds(data, where, key) if _is_tile(data) else _line_kinds(data, where)
    if len(fitting) == 1:
        return fitting[0]
    expected = "expected a file whose content tells its kind"
    if fitting:
        named = " or ".join(fitting)
        raise BadFileError(where, f"{expected}, found one that may be {named}: say which")
    raise BadFileError(where, f"{expected}, found no commit file, schema or metadata")


def decode(data: bytes, kind: Kind, where: str, *, key: bytes | None = None) -> AnyFile:
    r"""Decodes bytes of a known kind.

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
    return decode_payload(tiles.decode(data, where, key=key), kind, where)


def decode_payload(tile: tiles.Tile, kind: Kind, where: str) -> AnyFile:
    """Decodes the payload of an opened tile of a known kind.

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
            found = decode_enumeration(payload, where)
            return EnumerationFile(kind=kind, tile=tile, enumeration=found)
    return MetadataFile(kind=kind, tile=tile, entries=_metadata(payload, where))


def _metadata(payload: bytes, where: str) -> tuple[MetadataEntry, ...]:
    found = []
    for entry in parse_spec(ArrayMetadataSpec, where, payload).entries:
        value = None if entry.is_deletion else entry.insertion
        found.append(
            MetadataEntry(
                key=entry.key,
                removed=value is None,
                datatype=None if value is None else Datatype(value.datatype.code.value),
                count=0 if value is None else value.num_values,
                raw=b"" if value is None else value.value,
            )
        )
    return tuple(found)


def _checked(kind: str | None, where: str) -> Kind | None:
    for known in KINDS:
        if kind == known:
            return known
    if kind is None:
        return None
    raise BadFileError(where, f"expected a kind of {', '.join(KINDS)}, found {kind!r}")


def _is_tile(data: bytes) -> bool:
    try:
        parse_spec(GenericTileSpec, "tile", data)
    except BadFileError:
        return False
    return True


def _tile_kinds(data: bytes, where: str, key: bytes | None) -> list[Kind]:
    tile = tiles.decode(data, where, key=key)
    fitting = []
    for kind in TILE_KINDS:
        try:
            decode_payload(tile, kind, where)
        except ChronotileError:
            continue
        fitting.append(kind)
    return fitting


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
    return ["vac"] if all(_is_name(vacuumed_name(line)) for line in lines) else []


def _is_commit(uri: str) -> bool:
    try:
        commit_name(uri)
    except BadNameError:
        return False
    return uri.endswith((*WRITES, *TILES))


def _is_name(text: str) -> bool:
    try:
        parse_name(text)
    except BadNameError:
        return False
    return True
