"""The history of one array: its whole commit log, read once.

In: a store. Out: `History`, a value: commit records as columns in time order, vacuum files,
schemas, and the damage found; and on demand the entries of metadata files. Knows nothing of
windows: `visibility` does.

Every commit file is listed once and read once; a `.wrt` is never opened. A damaged file loses only
its damaged part: the rest is read as the engine reads it, and a `Problem` describes the damage.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.errors import (
    BadFileError,
    BadNameError,
    ChangedError,
    ChronotileError,
    KeyNeededError,
    ReadError,
    StorageError,
    UnknownVersionError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.array_metadata import MetadataItem, decode_items
from chronotile.format.commit_files import decode_vac, vacuumed_name
from chronotile.format.fragment_footer import (
    FIRST_WITH_SCHEMA_NAME,
    METADATA,
    footer_size,
    read_head,
)
from chronotile.format.kinds import COMMITS, CONDITIONS, LINES, META, OK, WRT
from chronotile.format.names import Name, parse_name, try_parse
from chronotile.format.schema import Schema, decode_enumeration, decode_schema
from chronotile.history.commit_table import CommitTable, build_table
from chronotile.history.listing import Listing, list_array
from chronotile.history.log_watch import check_unchanged
from chronotile.history.missing_fragments import lost_writes
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chronotile.history.uri_columns import Mask
    from chronotile.storage.store import Store


ATTEMPTS = 3
"""Readings of an array that changes meanwhile, before an error."""

_LEN_KEPT = 1 << 16
_LEN_TAIL = 1 << 20
"""Bytes at the end of a fragment's metadata that are read to find its footer."""
_READ = (*LINES, *CONDITIONS)
_WITH_CONDITIONS = (".con", *CONDITIONS)


class Problem(NamedTuple):
    """Something in the array that is not as it should be."""

    path: str
    message: str
    kind: str
    """`name`, `con`, `ign`, `vac`, `tile`, `schema`, `version` or `encrypted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumFile:
    """A `.vac` file: it lists fragments, or metadata files, that another one has replaced."""

    path: str
    name: Name
    lines: tuple[str, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the files or fragments that it hides."""
        return tuple(vacuumed_name(line) for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFile:
    """A schema file, with the time from which it is in force."""

    path: str
    name: Name | None
    """None for the old single file, which has no time."""
    schema: Schema | None
    """None where it could not be read."""

    @property
    def text(self) -> str:
        """The name of the file, as users see it."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class History:
    """Everything that one reading of an array found."""

    array: str
    listing: Listing
    table: CommitTable
    lost: Mask
    """Mask of the effective writes whose fragment is gone; empty if no fragments were listed."""
    vacuums: tuple[VacuumFile, ...]
    """The `.vac` files of fragments."""
    meta_vacuums: tuple[VacuumFile, ...]
    """The `.vac` files of `__meta`."""
    schemas: tuple[SchemaFile, ...]
    dense: bool
    problems: tuple[Problem, ...]
    bytes_read: int
    requests: int
    key: bytes | None = field(repr=False)

    @property
    def is_sealed(self) -> bool:
        """True if the array is encrypted, and there is no key."""
        return self.key is None and any(one.kind == "encrypted" for one in self.problems)


def read_history(
    store: Store,
    *,
    key: bytes | str | None = None,
    fragments: bool = True,
    labels: bool = False,
) -> History:
    """List and read an array's log; start again if a file vanishes in between.

    Args:
        store: Where the array is.
        key: The key of an encrypted array, 32 bytes or characters.
        fragments: List the fragments, of which there may be very many. Without them nobody knows
            what is visible.
        labels: Read the values of enumerations even if there is no delete or update that may need
            them.

    Raises:
        ArrayNotFoundError: There is no array.
        ChangedError: The array changed during each attempt.
        WrongKeyError: The key does not open it.
    """
    raw_key = key.encode() if isinstance(key, str) else key
    for attempt in range(ATTEMPTS):
        try:
            listed = list_array(store, fragments=fragments)
            return _read(store, listed, raw_key, fragments=fragments, labels=labels)
        except (MissingObjectError, ChangedError) as cause:
            if attempt + 1 == ATTEMPTS:
                problem = "expected it to stay, found it gone: the array is changing; try again"
                raise ChangedError(cause.where, problem) from cause
    raise AssertionError  # the loop returns or raises


def _read(
    store: Store, listing: Listing, key: bytes | None, *, fragments: bool, labels: bool
) -> History:
    commits = listing.paths_of(_READ)
    commits += [n for n in listing.root_commits if n.endswith(".vac")]
    meta = [f"{META}/{name}" for name in listing.meta if name.endswith(".vac")]
    has_conditions = any(name.endswith(_WITH_CONDITIONS) for name in listing.non_writes)
    enumerations = listing.enumerations if has_conditions or labels else ()
    wanted = [*commits, *meta, *listing.schemas, *enumerations]
    files: dict[str, bytes] = {}
    cons: dict[str, memoryview] = {}
    for path, data in store.view_many(wanted):
        if isinstance(data, ChronotileError):
            raise data
        if path.startswith(f"{COMMITS}/") and path.endswith(".con"):
            cons[path] = data
        else:
            files[path] = bytes(data)
    problems: list[Problem] = []
    schemas = _schemas(listing, files, enumerations, key, problems)
    table = build_table(listing, files, cons, lambda *p: problems.append(Problem(*p)))
    lost = lost_writes(table, listing.fragments) if fragments else np.zeros(len(table), bool)
    calls = check_unchanged(store, listing) if lost.any() else 0
    vacuums = tuple(_vacuums((p for p in commits if p.endswith(".vac")), files, problems))
    meta_vacuums = tuple(_vacuums(meta, files, problems))
    dense, asked = _is_dense(store, schemas, table, lost)
    return History(
        array=store.uri,
        listing=listing,
        table=table,
        lost=lost,
        vacuums=vacuums,
        meta_vacuums=meta_vacuums,
        schemas=schemas,
        dense=dense,
        problems=tuple(problems),
        bytes_read=sum(map(len, (*files.values(), *cons.values()))),
        requests=listing.requests + len(wanted) + asked + calls,
        key=key,
    )


def _schemas(
    listing: Listing,
    files: Mapping[str, bytes],
    enumerations: Iterable[str],
    key: bytes | None,
    problems: list[Problem],
) -> tuple[SchemaFile, ...]:
    payloads = _payloads([*enumerations, *listing.schemas], files, key, problems)
    labels = {}
    for path in enumerations:
        try:
            if path in payloads:
                labels[path.rpartition("/")[2]] = decode_enumeration(payloads[path], path)
        except BadFileError as error:
            problems.append(Problem(path, str(error), "schema"))
    schemas = []
    for path in listing.schemas:
        schema = None
        try:
            if path in payloads:
                schema = _schema(payloads[path], path)
                # By file, not by name: an extended enumeration keeps its name.
                own = [labels[text] for _, text in schema.enumeration_files if text in labels]
                schema = schema.with_enumerations(own) if own else schema
        except UnknownVersionError as error:
            problems.append(Problem(path, str(error), "version"))
        except BadFileError as error:
            problems.append(Problem(path, str(error), "schema"))
        name = try_parse(path.rpartition("/")[2])
        schemas.append(SchemaFile(path=path, name=name, schema=schema))
    return tuple(schemas)


def _payloads(
    paths: Iterable[str],
    files: Mapping[str, bytes],
    key: bytes | None,
    problems: list[Problem],
) -> dict[str, bytes]:
    """Open the tiles that can be opened.

    Raises:
        WrongKeyError: The key opens no tile. If it opens one, the others are damaged.
    """
    payloads: dict[str, bytes] = {}
    unopened: dict[str, WrongKeyError] = {}
    for path in paths:
        try:
            payloads[path] = tiles.decode(files[path], path, key=key).payload
        except WrongKeyError as error:
            unopened[path] = error
        except KeyNeededError as error:
            if key is not None:  # there is a key, but no package that can use it
                raise
            problems.append(Problem(path, str(error), "encrypted"))
        except BadFileError as error:
            problems.append(Problem(path, str(error), "schema"))
    for path, wrong_key in unopened.items():
        if not payloads:
            raise wrong_key
        problem = "expected a tile that the array's key opens, found damaged bytes"
        problems.append(Problem(path, f"{path}: {problem}", "schema"))
    return payloads


def _schema(payload: bytes, path: str) -> Schema:
    """Decode a schema; one that many arrays share is decoded once."""
    if len(payload) <= _LEN_KEPT:
        with suppress(BadFileError):
            return _decoded(payload)
    return decode_schema(payload, path)


@lru_cache(maxsize=64)
def _decoded(payload: bytes) -> Schema:
    return decode_schema(payload, "")


def _vacuums(
    paths: Iterable[str], files: Mapping[str, bytes], problems: list[Problem]
) -> Iterator[VacuumFile]:
    for path in paths:
        try:
            name = parse_name(path.rpartition("/")[2].removesuffix(".vac"))
        except BadNameError as error:
            problems.append(Problem(path, str(error), "name"))
            continue
        try:
            lines = decode_vac(files[path], path)
        except BadFileError as error:
            problems.append(Problem(path, str(error), "vac"))
            # The engine takes the last line even without its newline.
            text = files[path].decode("utf-8", "replace")
            lines = tuple(line for line in text.split("\n") if line)
        yield VacuumFile(path=path, name=name, lines=lines)


def _is_dense(
    store: Store, schemas: tuple[SchemaFile, ...], table: CommitTable, lost: Mask
) -> tuple[bool, int]:
    """Find out if the array is dense; give also the calls that this took.

    The schema says so. If it cannot be read, as in an encrypted array without its key, a delete
    shows that the array is sparse, and so may the footer of a committed fragment, which is never
    encrypted. A folder that no commit names may be unfinished, so it does not count.
    """
    for item in schemas:
        if item.schema is not None:
            return item.schema.dense, 0
    if len(table.condition_rows):
        return False, 0
    calls = 0
    writes = table.effective & ~lost & ((table.uris.ext == WRT) | (table.uris.ext == OK))
    for row in np.flatnonzero(writes).tolist():
        calls += 2
        with suppress(BadFileError, MissingObjectError):
            dense = _is_dense_fragment(store, table.fragment_path(row), table.version(row))
            if dense is not None:
                return dense, calls
    return True, calls


def _is_dense_fragment(store: Store, path: str, version: int) -> bool | None:
    """Return True if a fragment is dense; None if only a schema could find its footer."""
    if version < FIRST_WITH_SCHEMA_NAME:
        files = [entry.path.rpartition("/")[2] for entry in store.list_dir(path).files]
        return False if any(name.startswith(("d", "__coords")) for name in files) else None
    where = f"{path}/{METADATA}"
    size = store.head(where).size or 0
    tail = store.read_range(where, max(size - _LEN_TAIL, 0), size, size=size)
    length = footer_size(tail, size, version, None, where)
    return read_head(tail[-length:], where).dense if length <= len(tail) else None


class MetadataFile:
    """A file of `__meta`, decoded."""

    def __init__(self, name: Name, tile: tiles.Tile, where: str) -> None:
        self.name, self.is_encrypted, self.payload = name, tile.encrypted, tile.payload
        # Of one key, the last entry counts.
        self.items = {item.key: item for item in decode_items(tile.payload, where)}


def open_metadata(
    store: Store, names: Sequence[Name], key: bytes | None
) -> Iterator[MetadataFile | ReadError]:
    """Open files of `__meta`, in the order of the names; give why one cannot be opened.

    Raises:
        ChangedError: A file is gone since the array was listed.
    """
    paths = [f"{META}/{name.text}" for name in names]
    for name, (path, data) in zip(names, store.read_many(paths), strict=True):
        if isinstance(data, MissingObjectError):
            problem = "expected the metadata as it was listed, found it changed; try again"
            raise ChangedError(store.uri_of(path), problem)
        if isinstance(data, StorageError):
            raise data
        try:
            if isinstance(data, ChronotileError):
                raise data
            opened: MetadataFile | ReadError
            opened = MetadataFile(name, tiles.decode(data, path, key=key), path)
        except ReadError as error:
            opened = error
        yield opened


def read_metadata(store: Store, names: Sequence[Name], key: bytes | None) -> Iterator[MetadataFile]:
    """Open files of `__meta`, in the order of the names.

    Raises:
        ChangedError: A file is gone since the array was listed.
        BadFileError: A file is damaged.
        KeyNeededError, WrongKeyError: The array is encrypted, and the key is missing or another.
    """
    for file in open_metadata(store, names, key):
        if isinstance(file, ReadError):
            raise file
        yield file


def merged_items(files: Iterable[MetadataFile]) -> dict[bytes, MetadataItem]:
    """Merge the entries of files, in their order: the later wins, and a removal drops the key."""
    merged: dict[bytes, MetadataItem] = {}
    for file in files:
        merged |= file.items
    return {key: item for key, item in merged.items() if not item.is_removal}
