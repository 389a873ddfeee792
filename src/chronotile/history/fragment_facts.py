"""The facts of each fragment: cells, bytes, domain, tiles, and the deletes that it has applied.

In: a store, and what was read of the array. Out: an Arrow table with one row for each fragment that
a commit or a folder names. Reads footers and no cell; knows nothing of windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.errors import ChronotileError
from chronotile.format.footer_columns import sparse_columns
from chronotile.format.fragment_footer import FIRST_WITH_SCHEMA_NAME
from chronotile.format.fragment_size import domain_text
from chronotile.format.kinds import OK, WRT
from chronotile.format.names import NEWEST_VERSION, try_parse, version_of
from chronotile.history import text_columns
from chronotile.history.read_footers import FooterReader, read_many
from chronotile.storage.store import told_of_one

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy.typing as npt

    from chronotile.format.footer_columns import FooterColumns, Indices
    from chronotile.history.read_footers import ManyFooters
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("version", pa.int64()),
        ("cells", pa.int64()),
        ("bytes", pa.int64()),
        ("domain", pa.string()),
        ("schema", pa.string()),
        ("tiles", pa.int64()),
        ("dense", pa.bool_()),
        ("has_timestamps", pa.bool_()),
        ("has_delete_metadata", pa.bool_()),
        ("applied_deletes", pa.list_(pa.string())),
        ("metadata", pa.string()),
    ]
)
"""`domain` is JSON text, `[[low, high], …]` in the dimensions' order. `metadata` says where the
facts are from: `own`, `consolidated` (a `.meta`), or null. Then all from `cells` on is null."""


class NamedFragments(NamedTuple):
    """The fragments that a commit or a folder names, in time order, as columns."""

    name: pa.Array
    t1: npt.NDArray[np.uint64]
    t2: npt.NDArray[np.uint64]
    version: npt.NDArray[np.int64]

    def only(self, mask: pa.Array) -> NamedFragments:
        """Choose some of them."""
        chosen = np.asarray(mask)
        columns = (self.t1[chosen], self.t2[chosen], self.version[chosen])
        return NamedFragments(self.name.filter(mask), *columns)


def named_fragments(history: History) -> NamedFragments:
    """List every fragment that a commit or a folder names, in time order."""
    table, listing = history.table, history.listing
    rows = np.flatnonzero(table.uris.ext <= OK)
    found = NamedFragments(
        text_columns.names(table, rows),
        table.uris.t1[rows],
        table.uris.t2[rows],
        np.asarray(text_columns.versions(table, rows)),
    )
    if _is_each_write_a_folder(history):
        return found
    folders = pa.array((*listing.fragments, *listing.root_fragments), pa.string())
    others = folders.filter(pc.invert(pc.is_in(folders, value_set=found.name)))
    if not len(others) and len(found.name.unique()) == len(found.name):
        return found
    known = {name: (name, *times) for name, *times in zip(*_lists(found), strict=True)}
    parsed = [name for text in others.to_pylist() if (name := try_parse(text))]
    known |= {one.text: (one.text, one.t1, one.t2, version_of(one)) for one in parsed}
    ordered = sorted(known.values(), key=lambda one: (one[1], one[2], one[0]))
    texts, t1, t2, versions = zip(*ordered, strict=True)
    columns = (np.array(t1, np.uint64), np.array(t2, np.uint64), np.array(versions, np.int64))
    return NamedFragments(pa.array(texts, pa.string()), *columns)


def _is_each_write_a_folder(history: History) -> bool:
    """Return True if the log is writes alone, and their fragments are all folders there are."""
    table, listing = history.table, history.listing
    if len(table) != len(listing.fragments) or listing.root_fragments or history.lost.any():
        return False
    return bool(table.counts.all() and (table.uris.ext == WRT).all())


def _lists(found: NamedFragments) -> tuple[list[Any], ...]:
    return found.name.to_pylist(), found.t1.tolist(), found.t2.tolist(), found.version.tolist()


def read_facts(
    store: Store,
    history: History,
    *,
    names: Collection[str] | None = None,
    sizes: bool = True,
    on_fragment: Callable[[], None] | None = None,
) -> pa.Table:
    """Read the facts of each fragment.

    Args:
        store: Where the array is.
        history: What was read of it.
        names: Only these fragments.
        sizes: Fill `bytes`: that asks for the size of each metadata file.
        on_fragment: Called after each fragment that has a folder.

    Raises:
        StorageError: The storage failed.
    """
    chosen = named_fragments(history)
    if names is not None:
        chosen = chosen.only(pc.is_in(chosen.name, value_set=pa.array([*names], pa.string())))
    there, rows = chosen, np.arange(len(chosen.name))
    if not _is_each_write_a_folder(history):
        folders = (*history.listing.fragments, *history.listing.root_fragments)
        mask = pc.is_in(chosen.name, value_set=pa.array(folders, pa.string()))
        there, rows = chosen.only(mask), np.flatnonzero(np.asarray(mask))
    known = there.version <= NEWEST_VERSION
    if not known.all():
        there, rows = there.only(pa.array(known)), rows[known]
    reader, facts = FooterReader(store, history), _Facts(chosen, sizes=sizes)
    for many in read_many(reader, there.name, there.version, sizes=sizes):
        facts.add(reader, rows[many.rows], many)
        if on_fragment is not None:
            for _ in range(len(many.names)):
                on_fragment()
    return facts.table()


class _Facts:
    """The columns of the table, filled part by part."""

    def __init__(self, chosen: NamedFragments, *, sizes: bool) -> None:
        self._chosen, self._sizes = chosen, sizes
        count = len(chosen.name)
        self._known = np.zeros(count, bool)
        self._numbers = {name: np.zeros(count, np.int64) for name in ("cells", "bytes", "tiles")}
        self._numbers["version"] = chosen.version.copy()
        flags = ("dense", "has_timestamps", "has_delete_metadata")
        self._flags = {name: np.zeros(count, bool) for name in flags}
        self._texts = {name: _Texts(count) for name in ("domain", "schema", "metadata")}
        self._applied: dict[int, tuple[str, ...] | None] = {}
        """The deletes of fragments that were decoded one by one; the others have applied none."""

    def add(self, reader: FooterReader, rows: Indices, many: ManyFooters) -> None:
        """Add some footers, with the row of each."""
        sizes = np.zeros(len(rows), np.int64) if many.sizes is None else many.sizes
        is_there = sizes >= 0
        # A fragment that was made from others may have applied deletes, and an old one names no
        # schema: those are decoded one by one.
        plain = is_there & (self._chosen.version[rows] >= FIRST_WITH_SCHEMA_NAME)
        plain &= self._chosen.t1[rows] == self._chosen.t2[rows]
        spans = many.spans._replace(length=np.where(plain, many.spans.length, 0))
        for part in sparse_columns(spans, reader.layout_of):
            if not part.has_timestamps and not part.has_delete_metadata:
                self._add_columns(rows[part.rows], part, sizes[part.rows])
                self._texts["metadata"].repeat(rows[part.rows], _WORDS[many.tails is None])
                is_there[part.rows] = False
        for at in np.flatnonzero(is_there).tolist():
            self._add_one(reader, int(rows[at]), many, at)

    def _add_columns(self, rows: Indices, part: FooterColumns, sizes: Indices) -> None:
        self._known[rows] = True
        self._numbers["version"][rows] = part.version
        self._numbers["cells"][rows] = part.cells
        self._numbers["bytes"][rows] = part.cell_bytes + sizes
        self._numbers["tiles"][rows] = part.tiles
        self._texts["domain"].put(rows, part.domain)
        self._texts["schema"].repeat(rows, part.schema_name)

    def _add_one(self, reader: FooterReader, row: int, many: ManyFooters, at: int) -> None:
        """Decode one footer by itself; where that fails, its facts are null."""
        try:
            stored = reader.decode(many.raw(reader, at), applied=True)
            tiles, cells = reader.measure(stored)
            domain = domain_text(stored.footer, stored.schema)
        except ChronotileError as error:
            told_of_one(error)
            return
        footer = stored.footer
        self._known[row] = True
        size = footer.cell_bytes + stored.metadata_size
        numbers = {"version": footer.version, "cells": cells, "bytes": size, "tiles": tiles}
        for name, number in numbers.items():
            self._numbers[name][row] = number
        for name, flags in self._flags.items():
            flags[row] = getattr(footer, name)
        self._applied[row] = stored.applied
        words = (domain, stored.schema_file, _WORDS[stored.is_consolidated])
        for texts, text in zip(self._texts.values(), words, strict=True):
            texts.set(row, text)

    def table(self) -> pa.Table:
        """Give all facts."""
        unknown = None if self._known.all() else ~self._known
        columns: dict[str, Any] = {
            "name": self._chosen.name,
            "t1": self._chosen.t1,
            "t2": self._chosen.t2,
            "version": self._numbers.pop("version"),
            "applied_deletes": self._applied_deletes(),
        }
        columns |= {n: pa.array(column, mask=unknown) for n, column in self._numbers.items()}
        if not self._sizes:
            columns["bytes"] = pa.nulls(len(self._known), pa.int64())
        columns |= {n: pa.array(column, mask=unknown) for n, column in self._flags.items()}
        columns |= {name: texts.column() for name, texts in self._texts.items()}
        return pa.table([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)

    def _applied_deletes(self) -> pa.Array:
        unknown, counts = ~self._known, np.zeros(len(self._known), np.int32)
        names: list[str] = []
        for row, deletes in sorted(self._applied.items()):
            unknown[row] |= deletes is None
            counts[row] = len(deletes or ())
            names += deletes or ()
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
        values = pa.array(names, pa.string())
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(unknown))


class _Texts:
    """A column of texts that is filled in any order; null where nothing was put."""

    def __init__(self, count: int) -> None:
        self._place = np.full(count, -1, np.int64)
        """The place of each row's text."""
        self._arrays: list[pa.Array] = []
        self._single: dict[int, str | None] = {}
        self._count = 0

    def put(self, rows: Indices, texts: pa.Array) -> None:
        """Set one text for each row."""
        self._place[rows] = np.arange(self._count, self._count + len(texts))
        self._arrays.append(texts)
        self._count += len(texts)

    def repeat(self, rows: Indices, text: str) -> None:
        """Set the same text for all rows."""
        self._place[rows] = self._count
        self._arrays.append(pa.array([text], pa.string()))
        self._count += 1

    def set(self, row: int, text: str | None) -> None:
        """Set the text of one row."""
        self._single[row] = text

    def column(self) -> pa.Array:
        """Give all rows."""
        if self._single:
            singles = pa.array([*self._single.values()], pa.string())
            self.put(np.array([*self._single], np.int64), singles)
        if not self._arrays:
            return pa.nulls(len(self._place), pa.string())
        whole = self._arrays[0] if len(self._arrays) == 1 else pa.concat_arrays(self._arrays)
        return whole.take(pa.array(self._place, mask=self._place < 0))


_WORDS = {True: "consolidated", False: "own"}
"""The column `metadata`, by whether a `.meta` holds the footer."""
