"""The `.meta` files of an array: the footers of many fragments in few files.

In: a store, and what was read of the array. Out: for each `.meta` the footers of this array's
fragments, or why it cannot be opened. Knows nothing of what a footer says; a name out of a file is
only compared with what is listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.errors import ChronotileError, UnknownVersionError
from chronotile.format import tiles
from chronotile.format.consolidated_footers import read_index
from chronotile.format.footer_columns import FooterSpans, joined
from chronotile.format.names import NEWEST_VERSION, is_newer
from chronotile.storage.store import told_of_one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.format.consolidated_footers import FooterIndex, ListedFooter
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store


class NamedFooters(NamedTuple):
    """Footers as columns, with the names of their fragments; the last of a name counts."""

    names: pa.Array
    spans: FooterSpans

    def places(self, names: pa.Array) -> pa.Array:
        """Where the footers of some fragments are, each asked for once; null if there is none."""
        if names.equals(self.names):  # as a rule: both are in time order
            return pa.array(np.arange(len(names)))
        found = pc.index_in(names, value_set=self.names[::-1])
        return pc.subtract(pa.scalar(len(self.names) - 1, pa.int64()), found)


@dataclass(frozen=True, kw_only=True)
class MetaFile:
    """A `.meta`, opened."""

    size: int
    """Bytes of the file."""
    index: FooterIndex
    array: str
    """The array whose fragments are meant."""

    @cached_property
    def footers(self) -> dict[str, bytes]:
        """The footers, by the names of their fragments; the last of a name counts."""
        listed = self.index.listed()
        return {item.fragment: item.footer for item in listed if _is_here(item, self.array)}

    @cached_property
    def columns(self) -> NamedFooters:
        """The same as columns."""
        names, spans = self.index.names, self.index.spans()
        if b"/" in names.buffers()[2].to_pybytes():
            footers = self.footers
            return NamedFooters(pa.array([*footers], pa.string()), joined(footers.values()))
        return NamedFooters(names, spans)


def read_consolidated(store: Store, history: History) -> dict[str, MetaFile | ChronotileError]:
    """Reads the `.meta` files: path -> what it holds, or why it cannot be opened.

    Raises:
        StorageError: The storage failed.
    """
    paths = [p for p in history.listing.fragment_meta if p.endswith(".meta")]
    held: dict[str, MetaFile | ChronotileError] = {}
    for path, data in store.read_many(paths):
        if isinstance(data, ChronotileError):
            held[path] = told_of_one(data)
            continue
        try:
            if is_newer(path):
                raise UnknownVersionError(path, f"expected a version up to {NEWEST_VERSION}")
            index = read_index(tiles.decode(data, path, key=history.key).payload, path)
            held[path] = MetaFile(size=len(data), index=index, array=history.array)
        except ChronotileError as error:
            held[path] = error
    return held


def footers_of(files: Iterable[MetaFile]) -> NamedFooters:
    """What all files hold together; of a name that several have, the last file's counts."""
    columns = [file.columns for file in files]
    if len(columns) == 1:
        return columns[0]
    bases = np.cumsum([0, *(len(one.spans.data) for one in columns)])
    starts = [one.spans.start + base for one, base in zip(columns, bases, strict=False)]
    nothing = np.empty(0, np.int64)
    spans = FooterSpans(
        b"".join(one.spans.data for one in columns),
        np.concatenate([nothing, *starts]),
        np.concatenate([nothing, *(one.spans.length for one in columns)]),
    )
    names = [pa.array([], pa.string()), *(one.names for one in columns)]
    return NamedFooters(pa.concat_arrays(names), spans)


def _is_here(item: ListedFooter, array: str) -> bool:
    """Whether a `.meta` means a fragment of this array: before version 9 it names a whole URI.

    If the array has moved, the engine does not find its fragments in there either.
    """
    whole = item.name.rstrip("/").removeprefix("file://")
    return "/" not in item.name or whole == f"{array}/{item.fragment}"
