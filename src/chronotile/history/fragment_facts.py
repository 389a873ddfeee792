"""What each fragment holds: cells, bytes, domain, tiles, and the deletes that it has applied.

In: a store, and what was read of the array. Out: an Arrow table with one row for each fragment that
a commit or a folder names. Reads footers and no cell; knows nothing of windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.errors import ChronotileError, StorageError
from chronotile.format.footer_columns import sparse_columns
from chronotile.format.fragment_footer import read_head
from chronotile.format.fragment_size import domain_text
from chronotile.format.kinds import OK, OLD_SCHEMA
from chronotile.format.names import try_parse, version_of
from chronotile.history import text_columns
from chronotile.history.fragment_footers import FooterReader, RawFooter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from chronotile.format.footer_columns import FooterColumns, Indices
    from chronotile.history.reading import History
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


class NamedFragment(NamedTuple):
    """A fragment that a commit or a folder names."""

    name: str
    t1: int
    t2: int
    version: int


def fragment_names(history: History) -> list[NamedFragment]:
    """Every fragment that a commit or a folder names, in time order."""
    table, listing = history.table, history.listing
    rows = np.flatnonzero(table.uris.ext <= OK)
    columns = (
        text_columns.names(table, rows).to_pylist(),
        table.uris.t1[rows].tolist(),
        table.uris.t2[rows].tolist(),
        text_columns.versions(table, rows).to_pylist(),
    )
    known = {row[0]: NamedFragment(*row) for row in zip(*columns, strict=True)}
    folders = (*listing.fragments, *listing.root_fragments)
    others = [name for text in folders if text not in known and (name := try_parse(text))]
    if not others:
        return list(known.values())
    known |= {n.text: NamedFragment(n.text, n.t1, n.t2, version_of(n)) for n in others}
    return sorted(known.values(), key=lambda one: (one.t1, one.t2, one.name))


def read_facts(
    store: Store,
    history: History,
    *,
    names: Collection[str] | None = None,
    on_fragment: Callable[[], None] | None = None,
) -> pa.Table:
    """Reads what each fragment holds.

    Args:
        store: Where the array is.
        history: What was read of it.
        names: Only these fragments.
        on_fragment: Called after each fragment.

    Raises:
        StorageError: The storage failed.
    """
    chosen = [one for one in fragment_names(history) if names is None or one.name in names]
    there = {*history.listing.fragments, *history.listing.root_fragments}
    reader, facts = FooterReader(store, history), _Facts(chosen)
    wanted = {one.name: row for row, one in enumerate(chosen) if one.name in there}
    by_schema: dict[bytes, list[tuple[int, RawFooter]]] = {}
    for name, raw in reader.read_raw(wanted):
        if isinstance(raw, RawFooter):
            end = 12 + int.from_bytes(raw.raw[4:12], "little")
            by_schema.setdefault(raw.raw[12:end], []).append((wanted[name], raw))
        if on_fragment is not None:
            on_fragment()
    for group in by_schema.values():
        facts.add(reader, group)
    return facts.table()


class _Facts:
    """The columns of the table, filled group by group."""

    def __init__(self, chosen: list[NamedFragment]) -> None:
        self._chosen = chosen
        count = len(chosen)
        self._known = np.zeros(count, bool)
        self._spans_time = np.array([one.t1 != one.t2 for one in chosen], bool)
        self._numbers = {name: np.zeros(count, np.int64) for name in ("cells", "bytes", "tiles")}
        self._numbers["version"] = np.array([one.version for one in chosen], np.int64)
        flags = ("dense", "has_timestamps", "has_delete_metadata")
        self._flags = {name: np.zeros(count, bool) for name in flags}
        texts = ("domain", "schema", "applied_deletes", "metadata")
        self._others: dict[str, list[Any]] = {name: [None] * count for name in texts}

    def add(self, reader: FooterReader, group: list[tuple[int, RawFooter]]) -> None:
        """Takes the footers of one schema, with the row of each."""
        rows, raws = np.array([row for row, _ in group]), [raw for _, raw in group]
        done = np.zeros(len(group), bool)
        try:
            file = read_head(raws[0].raw, raws[0].path).schema_name or OLD_SCHEMA
            schema = reader.schema(file, raws[0].path)
            together = [*sparse_columns([raw.raw for raw in raws], schema, reader.layout(file))]
        except ChronotileError:
            together = []
        sizes = np.array([raw.metadata_size for raw in raws], np.int64)
        for part in together:
            self._add_columns(rows[part.rows], [raws[at] for at in part.rows], part, file)
            self._numbers["bytes"][rows[part.rows]] += sizes[part.rows]
            done[part.rows] = True
        for at in np.flatnonzero(~done).tolist():
            self._add_one(reader, int(rows[at]), raws[at])
        # A fragment that was made from others may have applied deletes.
        merged = self._spans_time[rows] | self._flags["has_timestamps"][rows]
        merged |= self._flags["has_delete_metadata"][rows]
        for at in np.flatnonzero(done & merged).tolist():
            self._add_one(reader, int(rows[at]), raws[at])

    def _add_columns(
        self, rows: Indices, raws: list[RawFooter], part: FooterColumns, file: str
    ) -> None:
        self._known[rows] = True
        self._numbers["version"][rows] = part.version
        self._numbers["cells"][rows] = part.cells
        self._numbers["bytes"][rows] = part.cell_bytes
        self._numbers["tiles"][rows] = part.tiles
        self._flags["has_timestamps"][rows] = part.has_timestamps
        self._flags["has_delete_metadata"][rows] = part.has_delete_metadata
        for row, raw, domain in zip(rows.tolist(), raws, part.domain, strict=True):
            self._others["domain"][row] = domain
            self._others["schema"][row] = file
            self._others["applied_deletes"][row] = ()
            self._others["metadata"][row] = _WORDS[raw.is_consolidated]

    def _add_one(self, reader: FooterReader, row: int, raw: RawFooter) -> None:
        """Decodes one footer by itself; where that fails, its facts are null."""
        self._known[row] = False
        for values in self._others.values():
            values[row] = None
        try:
            stored = reader.decode(raw, applied=True)
            tiles, cells = reader.measure(stored)
            domain = domain_text(stored.footer, stored.schema)
        except StorageError:
            raise
        except ChronotileError:
            return
        footer = stored.footer
        self._known[row] = True
        size = footer.cell_bytes + stored.metadata_size
        numbers = {"version": footer.version, "cells": cells, "bytes": size, "tiles": tiles}
        for name, number in numbers.items():
            self._numbers[name][row] = number
        for name, flags in self._flags.items():
            flags[row] = getattr(footer, name)
        others = (domain, stored.schema_file, stored.applied, _WORDS[stored.is_consolidated])
        for values, value in zip(self._others.values(), others, strict=True):
            values[row] = value

    def table(self) -> pa.Table:
        """All of it."""
        unknown = ~self._known
        columns: dict[str, Any] = {
            "name": [one.name for one in self._chosen],
            "t1": [one.t1 for one in self._chosen],
            "t2": [one.t2 for one in self._chosen],
            "version": self._numbers.pop("version"),
        }
        columns |= {n: pa.array(column, mask=unknown) for n, column in self._numbers.items()}
        columns |= {n: pa.array(column, mask=unknown) for n, column in self._flags.items()}
        for name, values in self._others.items():
            columns[name] = values
        return pa.table([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


_WORDS = {True: "consolidated", False: "own"}
"""The column `metadata`, by whether a `.meta` holds the footer."""
