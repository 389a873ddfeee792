"""Every fragment that is there, seen by an open or not, read by itself without any delete.

In: an array and a predicate. Out: for each fragment folder how many cells it holds and how many
match, or why nobody can tell. Orphans, superseded fragments and those in the quarantine count as
well as visible ones. A fragment is linked (from a bucket: copied) into a scratch array of its own,
and the engine reads it there: every version of every cell, also those that the fragment notes as
deleted, as its metadata is handed in without these notes. Changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.tree import Compare, Condition, fields, flatten, negate
from chronotile.conditions.truth import Column, Sense, column_truth, rows_asked_for, rows_kept
from chronotile.errors import NEEDS_KEY, ChronotileError, PredicateError, ReadError
from chronotile.format import tiles
from chronotile.format.fragment_footer import METADATA, FooterLayout, without_delete_metadata
from chronotile.format.fragment_metadata import decode_metadata, frame_metadata
from chronotile.format.kinds import FRAGMENTS, LABELS, OLD_SCHEMA, OWN
from chronotile.format.names import format_name, try_parse
from chronotile.format.schema import decode_schema
from chronotile.history.read_history import SchemaFile
from chronotile.rows.cell_source import lacked_fields
from chronotile.rows.engine import (
    GLOBAL_ORDER,
    ROW_MAJOR,
    UNORDERED,
    Engine,
    Range,
    engine_settings,
)
from chronotile.rows.engine_cells import all_shown, read_cells
from chronotile.rows.scratch_arrays import FAR, put_lone_fragment
from chronotile.storage.transfer import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chronotile.conditions.truth import Mask
    from chronotile.format.fragment_footer import Footer
    from chronotile.format.names import Name
    from chronotile.format.schema import Field, Schema
    from chronotile.log import Log
    from chronotile.rows.engine_cells import Cells
    from chronotile.storage.store import Entry
    from chronotile.visibility.view import Delete

_NAMED = re.compile(r"__\d+_\d+_[0-9a-f]{32}(?:_\d+)?$|__[0-9a-f]{32}_\d+(?:_\d+)?$")
_MOST_NAMED = 5
"""Rows that a message names."""

Role: TypeAlias = Literal["committed", "uncommitted", "kept"]
"""Whether a commit names a fragment; `kept` is one in a folder of ours, such as the quarantine."""


class FragmentFolder(NamedTuple):
    """A folder with the files of a fragment."""

    path: str
    """Relative to the array."""
    name: Name
    role: Role
    files: tuple[Entry, ...]


def fragment_folders(log: Log) -> tuple[FragmentFolder, ...]:
    """List the folders of an array that hold files of a fragment, wherever they are."""
    table = log.history.table
    committed = {table.name(row) for row in log.rules.fragment_rows.tolist()}
    files: dict[str, list[Entry]] = {}
    for entry in log.store.list_files():
        files.setdefault(entry.path.rpartition("/")[0], []).append(entry)
    found = []
    for path, entries in sorted(files.items()):
        named = _NAMED.search(path.rpartition("/")[2])
        name = try_parse(named.group()) if named else None
        if name is None or path.startswith(f"{LABELS}/"):
            continue
        is_own = path.startswith(f"{OWN}/")
        is_in_place = path in (name.text, f"{FRAGMENTS}/{name.text}")
        if is_own or is_in_place:
            role: Role = "committed" if name.text in committed else "uncommitted"
            found.append(FragmentFolder(path, name, "kept" if is_own else role, tuple(entries)))
    return tuple(found)


class OpenedFragment(NamedTuple):
    """The metadata of a fragment, ready to be read by itself."""

    schema_file: SchemaFile
    footer: Footer
    applied: tuple[str, ...]
    """Names of the deletes that it has applied."""
    bared: bytes | None
    """Its metadata without the notes on deleted cells; None if it has none."""


def open_fragment(log: Log, path: str) -> OpenedFragment:
    """Read the metadata of the fragment in a folder.

    Raises:
        ChronotileError: It is missing or damaged, or its schema cannot be read.
    """
    where = f"{path}/{METADATA}"
    data = log.store.read(where)
    frame = frame_metadata(data, where)
    text = frame.head.schema_name or OLD_SCHEMA
    items = [item for item in log.history.schemas if item.text == text]
    item = items[0] if items else _kept_schema(log, path, text)
    if item is None or item.schema is None:
        raise ReadError(where, f"expected its schema {text!r:.120}, found none that can be read")
    schema = item.schema
    metadata = decode_metadata(data, schema, where, key=log.history.key)
    bared = None
    if metadata.footer.has_delete_metadata:
        raw = data[frame.footer_start : -8]
        end = without_delete_metadata(raw, metadata.footer, FooterLayout(schema))
        bared = data[: frame.footer_start] + end
    applied = (one.rpartition("/")[2].removesuffix(".del") for one in metadata.applied_deletes)
    return OpenedFragment(item, metadata.footer, tuple(applied), bared)


def _kept_schema(log: Log, path: str, text: str) -> SchemaFile | None:
    """Read the schema of a fragment in the quarantine that lies there beside it; None if none."""
    if not path.startswith(f"{OWN}/"):
        return None
    for entry in log.store.list_dir(path.rpartition("/")[0]).files:
        if entry.path.endswith(f"-{text}"):
            tile = tiles.decode(log.store.read(entry.path), entry.path, key=log.history.key)
            schema = decode_schema(tile.payload, entry.path)
            return SchemaFile(path=entry.path, name=try_parse(text), schema=schema)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentMatches:
    """The cells of one fragment that match."""

    folder: FragmentFolder
    cells: int = 0
    matches: int = 0
    problem: str | None = None
    """Why nobody can tell."""
    marked: int = 0
    """Cells that it notes as deleted, and that do not match."""
    opened: OpenedFragment | None = None
    predicate: Condition | None = None
    """The predicate, typed by its schema."""
    wrong: tuple[str, ...] = ()
    """Rows that a delete of TileDB would remove although they do not match, or leave although they
    do; the first few."""
    wrong_count: int = 0
    lacks: tuple[str, ...] = ()
    """Fields of the predicate that its cells were written without (F15)."""
    places: tuple[pa.Array, ...] = ()
    """The coordinates of the cells that match, a column for each dimension."""
    times: tuple[int, ...] = ()
    """When they were written."""

    @property
    def path(self) -> str:
        """The folder, relative to the array."""
        return self.folder.path

    @property
    def words(self) -> str:
        """Say how many of its rows match."""
        return f"{self.matches:,} of its {self.cells:,} rows match{'es' * (self.matches == 1)}"

    @property
    def left(self) -> int:
        """Cells that do not match."""
        return self.cells - self.matches

    def to_dict(self) -> dict[str, object]:
        """Give the JSON form, for a dry run."""
        found = {"path": self.path, "role": self.folder.role, "problem": self.problem}
        return {**found, "cells": self.cells, "matches": self.matches}


class Matcher:
    """Counts the cells of fragments that satisfy a predicate.

    Args:
        log: The array, with the labels of its enumerations.
        where: The predicate.

    Raises:
        PredicateError: It cannot be read, or fits no schema of the array.
    """

    def __init__(self, log: Log, where: str) -> None:
        self.log, self._where = log, where
        self.item, self.predicate = self._typed()

    def _typed(self) -> tuple[SchemaFile, Condition]:
        """Type the predicate by the newest schema that has its fields: some may be dropped."""
        first: PredicateError | None = None
        for item in reversed(self.log.history.schemas):
            if item.schema is None:
                continue
            try:
                return item, parse_predicate(self._where, item.schema)
            except PredicateError as error:
                first = first or error
        raise first or ReadError(self.log.array, NEEDS_KEY)

    @property
    def schema(self) -> Schema:
        """The schema that types the predicate."""
        assert self.item.schema is not None  # see `_typed`
        return self.item.schema

    @cached_property
    def is_of_places(self) -> bool:
        """True if the coordinates alone decide: every cell of a place matches, or none."""
        return all(self._field(name).is_dimension for name in fields(self.predicate))

    def _field(self, name: str) -> Field:
        field = self.schema.field(name)
        assert field is not None  # the predicate is typed by the schema
        return field

    def matches(self, folder: FragmentFolder) -> FragmentMatches:
        """Read a fragment, and count its cells that match."""
        try:
            opened = open_fragment(self.log, folder.path)
            return self._count(folder, opened)
        except ChronotileError as error:
            return FragmentMatches(folder=folder, problem=error.problem)

    def _count(self, folder: FragmentFolder, opened: OpenedFragment) -> FragmentMatches:
        own = opened.schema_file.schema
        assert own is not None  # see `open_fragment`
        lacks = tuple(sorted(lacked_fields(own, self.schema, fields(self.predicate))))
        schema, predicate = (self.schema, self.predicate) if lacks else (own, self._under(own))
        read = [*schema.dimensions, *(f for f in schema.attributes if f.name in fields(predicate))]
        stored = flatten(negate(predicate))
        rank, cells, matches, wrong_count = len(schema.dimensions), 0, 0, 0
        wrong: list[str] = []
        places: list[list[pa.Array]] = [[] for _ in schema.dimensions]
        times: list[int] = []
        for batch in read_fragment(self.log, folder, opened, read, self.item if lacks else None):
            masks = _Masks(read, batch)
            asked = masks.asked_for(predicate)
            cells, matches = cells + len(batch), matches + int(asked.sum())
            odd = np.flatnonzero(asked if lacks else asked != masks.removed(stored))
            wrong_count += len(odd)
            some = odd[: _MOST_NAMED - len(wrong)]
            wrong += _row_words(read[:rank], [c.take(pa.array(some)) for c in batch.columns[:rank]])
            if len(batch.times) and asked.any() and not self.is_of_places:
                for place, column in zip(places, batch.columns, strict=False):
                    place.append(column.filter(pa.array(asked)))
                times += batch.times[asked].tolist()
        marked = 0
        if matches and opened.bared is not None:
            marked = cells - matches
            for batch in read_fragment(self.log, folder, opened._replace(bared=None), read):
                marked -= int((~_Masks(read, batch).asked_for(predicate)).sum())
        return FragmentMatches(
            folder=folder,
            cells=cells,
            matches=matches,
            marked=marked,
            opened=opened,
            predicate=predicate,
            wrong=tuple(wrong),
            wrong_count=wrong_count,
            lacks=lacks,
            places=tuple(pa.concat_arrays(place) for place in places if place),
            times=tuple(times),
        )

    def _under(self, schema: Schema) -> Condition:
        """Type the predicate by another schema that has its fields."""
        return parse_predicate(self._where, schema)

    def older_cells(
        self, one: FragmentMatches, matched: Mapping[tuple[object, ...], int], deletes: Deletes
    ) -> OlderCells:
        """Find the cells of a fragment that would show again once newer ones of their places go.

        Args:
            one: The fragment.
            matched: Coordinates of the cells that match -> the time of the newest.
            deletes: All deletes: one between the two cells hides the older one anyhow.
        """
        assert one.opened is not None  # it was read
        schema = self.schema if one.lacks else one.opened.schema_file.schema
        assert schema is not None  # see `open_fragment`
        rank, found = len(schema.dimensions), OlderCells([[] for _ in schema.dimensions], [], [])
        named = {name for delete in deletes for name in fields(delete.stored)}
        read = _fields(schema, named | {*fields(self.predicate)})
        other = self.item if one.lacks else None
        for batch in read_fragment(self.log, one.folder, one.opened, read, other):
            masks = _Masks(read, batch)
            rest = ~masks.matches_of(one)
            places = zip(*(c.to_pylist() for c in batch.columns[:rank]), strict=True)
            until = np.array([matched.get(place, -1) for place in places], np.int64)
            times = batch.times.astype(np.int64)
            rest &= times <= until
            for delete in deletes if rest.any() else ():
                gone = masks.removed(delete.stored)
                rest &= ~(gone & (times <= delete.t2) & (delete.t2 <= until))
            some = pa.array(np.flatnonzero(rest))
            for column, cells in zip(found.places, batch.columns, strict=False):
                column += cells.take(some).to_pylist()
            found.until.extend(until[rest].tolist())
            if len(found.words) < _MOST_NAMED:
                found.words.extend(
                    _row_words(read[:rank], [c.take(some) for c in batch.columns[:rank]])
                )
        return found

    def first_row(
        self, one: FragmentMatches, older: Sequence[Condition]
    ) -> tuple[list[pa.Array], int]:
        """Read a cell of a fragment that is to go, and when it was written."""
        assert one.opened is not None  # it was read
        schema = one.opened.schema_file.schema
        assert schema is not None  # see `open_fragment`
        wanted = [one.predicate] if one.matches and one.predicate is not None else [*older]
        for batch in read_fragment(self.log, one.folder, one.opened, schema.fields):
            masks = _Masks(schema.fields, batch)
            for condition in wanted:
                rows = np.flatnonzero(masks.asked_for(condition))
                if len(rows):
                    at = pa.array(rows[:1])
                    return [c.take(at) for c in batch.columns], int(batch.times[rows[0]])
        raise ReadError(self.log.array, f"expected a row of {one.path} that matches, found none")


def read_fragment(
    log: Log,
    folder: FragmentFolder,
    opened: OpenedFragment,
    read: Sequence[Field],
    other: SchemaFile | None = None,
) -> Iterator[Cells]:
    """Read every cell of one fragment.

    Args:
        log: The array.
        folder: The fragment.
        opened: Its metadata.
        read: The fields to read.
        other: A later schema to read with: a field that the fragment lacks has its fill value.
    """
    name, footer = folder.name, opened.footer
    if footer.domain is None:
        return  # a fragment without cells crashes a read
    if footer.has_timestamps and name.version is not None:
        # Its name may lie about the times of its cells (F4).
        open_name = try_parse(format_name(0, FAR, name.uuid, name.version))
        name = open_name or name
    items = [opened.schema_file]
    if other is not None and other != opened.schema_file:
        items.append(other)
    named = {field.name for field in read}
    unread = {file.name for file in footer.cell_files if file.field not in named}
    unread = {one for one in unread if not one.startswith(("t.", "dt.", "dci.", "__coords"))}
    dense = footer.dense
    with ScratchFolder() as scratch:
        encrypted = put_lone_fragment(
            scratch,
            log,
            folder.path,
            name,
            items,
            metadata=opened.bared,
            every_version=not dense,
            unread=() if log.store.traits.has_links else unread,
        )
        settings = engine_settings(None, log.history.key if encrypted else None)
        with Engine(log.array, scratch.root, settings) as engine:
            engine.open(0, FAR)
            layout = ROW_MAJOR if dense else GLOBAL_ORDER if len(items) > 1 else UNORDERED
            box = [Range(at, low, high) for at, (low, high) in enumerate(footer.domain)]
            ranges = box if dense else ()
            yield from read_cells(engine, read, times=not dense, layout=layout, ranges=ranges)


class OlderCells(NamedTuple):
    """Cells that newer ones hide: they show again once those are gone."""

    places: list[list[object]]
    """Coordinates, a list for each dimension."""
    until: list[int]
    """The time of the newest cell that goes at each place."""
    words: list[str]


Deletes: TypeAlias = "Sequence[Delete]"


def other_cells_hidden(matcher: Matcher, one: FragmentMatches, deletes: Deletes) -> int:
    """Count the cells of a fragment that do not match, and that some deletes remove."""
    assert one.opened is not None  # it was read
    schema = one.opened.schema_file.schema
    assert schema is not None  # see `open_fragment`
    if one.matches and one.lacks:
        return 0  # all of it matches, or the plan is refused
    named = {name for delete in deletes for name in fields(delete.stored)}
    read = _fields(schema, named | {*fields(matcher.predicate)})
    count = 0
    for batch in read_fragment(matcher.log, one.folder, one.opened, read):
        masks = _Masks(read, batch)
        gone = np.zeros(len(batch), bool)
        for delete in deletes:
            gone |= masks.removed(delete.stored) & (batch.times <= np.uint64(delete.t2))
        count += int((gone & ~masks.matches_of(one)).sum())
    return count


def _fields(schema: Schema, named: set[str]) -> list[Field]:
    """List all dimensions, and the attributes that are named."""
    return [*schema.dimensions, *(one for one in schema.attributes if one.name in named)]


class _Masks:
    """Says of each cell of a batch whether conditions hold for it."""

    def __init__(self, read: Sequence[Field], batch: Cells) -> None:
        self._columns = {f.name: Column(f, c) for f, c in zip(read, batch.columns, strict=True)}
        self._count = len(batch)

    def asked_for(self, predicate: Condition) -> Mask:
        """Find the cells that match a predicate."""
        found = rows_asked_for(predicate, lambda node: self._truth(node, Sense.PREDICATE))
        return np.broadcast_to(found, self._count)

    def matches_of(self, one: FragmentMatches) -> Mask:
        """Find the cells that match the predicate of a fragment; none, if it was counted so."""
        if one.matches and one.predicate is not None:
            return self.asked_for(one.predicate)
        return np.zeros(self._count, bool)

    def removed(self, stored: Condition) -> Mask:
        """Find the cells that a delete of the engine takes; a field may be missing (F15)."""

        def truth(node: Compare) -> Mask | None:
            return self._truth(node, Sense.STORED) if node.field in self._columns else None

        return ~np.broadcast_to(rows_kept(stored, truth), self._count)

    def _truth(self, node: Compare, sense: Sense) -> Mask:
        return column_truth(node, self._columns[node.field], sense)


def _row_words(dimensions: Sequence[Field], places: Sequence[pa.Array]) -> list[str]:
    """Name rows by their coordinates."""
    try:
        shown = [column.to_pylist() for column in all_shown(dimensions, places, "row")]
    except ReadError:
        shown = [column.to_pylist() for column in places]
    names = [field.name for field in dimensions]
    return [
        ", ".join(f"{name} = {value}" for name, value in zip(names, row, strict=True))
        for row in zip(*shown, strict=True)
    ]
