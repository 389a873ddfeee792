"""The facts of each fragment: cells, bytes, domain, tiles, and the deletes that it has applied.

In: a store, and what was read of the array. Out: an Arrow table with one row for each fragment that
a commit or a folder names. Reads footers and no cell; knows nothing of windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.errors import ChronotileError
from chronotile.format import arrow_compute as pc
from chronotile.format.footer_columns import sparse_columns
from chronotile.format.fragment_footer import FIRST_WITH_SCHEMA_NAME
from chronotile.format.fragment_size import domain_text
from chronotile.format.kinds import OK, WRT
from chronotile.format.names import NEWEST_VERSION, try_parse, version_of
from chronotile.history import text_columns
from chronotile.history.read_footers import FooterReader, read_many
from chronotile.storage.store import about_one_object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import numpy.typing as npt

    from chronotile.format.footer_columns import FooterColumns, Indices
    from chronotile.history.read_footers import ManyFooters, StoredFooter
    from chronotile.history.read_history import History
    from chronotile.history.uri_columns import Mask
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
_FACTS = pa.schema([*SCHEMA][SCHEMA.get_field_index("version") :])
"""The columns that a footer fills."""
_WORDS = {True: "consolidated", False: "own"}
"""The column `metadata`, by whether a `.meta` holds the footer."""


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
    committed = NamedFragments(
        text_columns.names(table, rows),
        table.uris.t1[rows],
        table.uris.t2[rows],
        np.asarray(text_columns.versions(table, rows)),
    )
    if _is_each_write_a_folder(history):
        return committed
    folders = pa.array((*listing.fragments, *listing.root_fragments), pa.string())
    others = folders.filter(pc.invert(pc.is_in(folders, value_set=committed.name)))
    if not len(others) and len(committed.name.unique()) == len(committed.name):
        return committed
    columns = (committed.name.to_pylist(), *(one.tolist() for one in committed[1:]))
    known = {row[0]: row for row in zip(*columns, strict=True)}
    parsed = [name for text in others.to_pylist() if (name := try_parse(text))]
    known |= {one.text: (one.text, one.t1, one.t2, version_of(one)) for one in parsed}
    ordered = sorted(known.values(), key=lambda one: (one[1], one[2], one[0]))
    texts, t1, t2, versions = zip(*ordered, strict=True)
    times = np.array(t1, np.uint64), np.array(t2, np.uint64)
    return NamedFragments(pa.array(texts, pa.string()), *times, np.array(versions, np.int64))


def _is_each_write_a_folder(history: History) -> bool:
    """Return True if the log is writes alone, and their fragments are all folders there are."""
    table, listing = history.table, history.listing
    if len(table) != len(listing.fragments) or listing.root_fragments or history.lost.any():
        return False
    return bool(table.effective.all() and (table.uris.ext == WRT).all())


def read_facts(
    store: Store,
    history: History,
    *,
    names: Collection[str] | None = None,
    sizes: bool = True,
    on_fragment: Callable[[], None] | None = None,
) -> pa.Table:
    """Read the facts of each fragment.

    To fill `bytes`, `sizes` asks for the size of each metadata file. `on_fragment` is called after
    each fragment that has a folder.
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
    reader = FooterReader(store, history)
    places, parts = [np.empty(0, np.int64)], [_FACTS.empty_table()]
    for many in read_many(reader, there.name, there.version, sizes=sizes):
        here = rows[many.rows]
        is_merged = chosen.t1[here] != chosen.t2[here]
        for at, part in _facts(reader, many, chosen.version[here], is_merged):
            places.append(here[at])
            parts.append(part)
        if on_fragment is not None:
            for _ in range(len(here)):
                on_fragment()
    return _with_facts(chosen, np.concatenate(places), pa.concat_tables(parts), sizes=sizes)


def _facts(
    reader: FooterReader, many: ManyFooters, versions: Indices, is_merged: Mask
) -> Iterator[tuple[Indices, pa.Table]]:
    """Decode footers, part by part: their places among these, and the facts of each."""
    sizes = many.metadata_sizes()
    is_left = sizes >= 0
    # A fragment that was made from others may have applied deletes, and an old one names no
    # schema: those are decoded one by one.
    is_plain = is_left & ~is_merged & (versions >= FIRST_WITH_SCHEMA_NAME)
    spans = many.spans._replace(length=np.where(is_plain, many.spans.length, 0))
    for part in sparse_columns(spans, lambda file: reader.layout(file, file)):
        if not part.has_timestamps and not part.has_delete_metadata:
            is_left[part.rows] = False
            yield part.rows, _facts_of_writes(part, sizes[part.rows], _WORDS[many.tails is None])
    singles = {}
    for at in np.flatnonzero(is_left).tolist():
        try:
            singles[at] = _facts_of_one(reader.decode(many.raw(reader, at), applied=True))
        except ChronotileError as error:
            about_one_object(error)
    yield np.array([*singles], np.int64), pa.Table.from_pylist([*singles.values()], _FACTS)


def _facts_of_writes(part: FooterColumns, sizes: Indices, metadata: str) -> pa.Table:
    """Give the facts of plain sparse writes: they have applied no delete."""
    count = len(sizes)
    no, nothing = pa.repeat(False, count), np.zeros(count + 1, np.int32)
    columns = {
        "version": np.full(count, part.version),
        "cells": part.cells,
        "bytes": part.cell_bytes + sizes,
        "domain": part.domain,
        "schema": pa.repeat(part.schema_name, count),
        "tiles": part.tiles,
        "dense": no,
        "has_timestamps": no,
        "has_delete_metadata": no,
        "applied_deletes": pa.ListArray.from_arrays(nothing, pa.array([], pa.string())),
        "metadata": pa.repeat(metadata, count),
    }
    return pa.table([pa.array(columns[one.name], one.type) for one in _FACTS], schema=_FACTS)


def _facts_of_one(stored: StoredFooter) -> dict[str, object]:
    """Give the facts of any fragment.

    Raises:
        BadFileError: The footer cannot be true.
    """
    footer = stored.footer
    tiles, cells = stored.measure()
    return {
        "version": footer.version,
        "cells": cells,
        "bytes": footer.cell_bytes + stored.metadata_size,
        "domain": domain_text(footer, stored.schema),
        "schema": stored.schema_file,
        "tiles": tiles,
        "dense": footer.dense,
        "has_timestamps": footer.has_timestamps,
        "has_delete_metadata": footer.has_delete_metadata,
        "applied_deletes": stored.applied,
        "metadata": _WORDS[stored.is_consolidated],
    }


def _with_facts(chosen: NamedFragments, rows: Indices, facts: pa.Table, *, sizes: bool) -> pa.Table:
    """Put the facts beside the fragments, by row; null where there are none."""
    place = np.full(len(chosen.name), -1, np.int64)
    place[rows] = np.arange(len(rows))
    facts = facts.combine_chunks().take(pa.array(place, mask=place < 0))
    columns = dict(zip(_FACTS.names, facts.columns, strict=True))
    columns["version"] = pc.coalesce(columns["version"], pa.array(chosen.version))
    if not sizes:
        columns["bytes"] = pa.nulls(len(place), pa.int64())
    named = (chosen.name, pa.array(chosen.t1), pa.array(chosen.t2))
    return pa.table([*named, *columns.values()], schema=SCHEMA)
