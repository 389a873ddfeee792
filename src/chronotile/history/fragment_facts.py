"""What each fragment holds: cells, bytes, domain, tiles, and the deletes that it has applied.

In: a store, and what was read of the array. Out: an Arrow table with one row for each fragment that
a commit or a folder names. Reads footers and no cell; knows nothing of windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chronotile.errors import ChronotileError
from chronotile.format.fragment_size import domain_text
from chronotile.format.kinds import OK
from chronotile.format.names import Name, time_order, try_parse, version_of
from chronotile.history import text_columns
from chronotile.history.fragment_footers import FooterReader, StoredFooter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

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


def fragment_names(history: History) -> tuple[Name, ...]:
    """Every fragment that a commit or a folder names, in time order."""
    table, listing = history.table, history.listing
    committed = text_columns.names(table, np.flatnonzero(table.uris.ext <= OK)).to_pylist()
    texts = {*committed, *listing.fragments, *listing.root_fragments}
    return tuple(sorted(filter(None, map(try_parse, texts)), key=time_order))


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
    chosen = [name for name in fragment_names(history) if names is None or name.text in names]
    there = {*history.listing.fragments, *history.listing.root_fragments}
    reader = FooterReader(store, history)
    known = dict(reader.read((name.text for name in chosen if name.text in there), applied=True))
    rows = []
    for name in chosen:
        facts = _facts(reader, known.get(name.text))
        head = {"name": name.text, "t1": name.t1, "t2": name.t2, "version": version_of(name)}
        rows.append(head | facts)
        if on_fragment is not None:
            on_fragment()
    columns = {field.name: [row.get(field.name) for row in rows] for field in SCHEMA}
    return pa.table(columns, schema=SCHEMA)


def _facts(reader: FooterReader, stored: StoredFooter | ChronotileError | None) -> dict[str, Any]:
    if not isinstance(stored, StoredFooter):
        return {}
    footer = stored.footer
    try:
        tiles, cells = reader.measure(stored)
        domain = domain_text(footer, stored.schema)
    except ChronotileError:
        return {}
    return {
        "cells": cells,
        "bytes": footer.cell_bytes + stored.metadata_size,
        "domain": domain,
        "schema": stored.schema_file,
        "tiles": tiles,
        "dense": footer.dense,
        "has_timestamps": footer.has_timestamps,
        "has_delete_metadata": footer.has_delete_metadata,
        "applied_deletes": stored.applied,
        "metadata": "consolidated" if stored.is_consolidated else "own",
    }
