"""The footers of many fragments as places in few buffers, for `footer_columns`.

In: a `FooterReader` and names. Out: `ManyFooters`, part by part: those that a `.meta` holds, then
those that stand in the fragments themselves. Decodes nothing: any of them can be taken out for the
reader to look at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.errors import ChronotileError
from chronotile.format.footer_columns import FooterSpans, KnownFooters
from chronotile.format.fragment_footer import FIRST_WITH_SCHEMA_NAME, LEN_LENGTH
from chronotile.history.read_footers import MANY
from chronotile.storage.store import told_of_one

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.format.footer_columns import Indices
    from chronotile.history.read_footers import FooterReader, RawFooter
    from chronotile.storage.side_by_side import Tail

_NOTHING: Tail = (b"", -1)
"""In place of the end of a file that could not be read."""


class ManyFooters(NamedTuple):
    """Footers of some fragments; item i of each column is about the i-th name."""

    rows: Indices
    """Which of the fragments asked for these are."""
    names: pa.Array
    spans: FooterSpans
    """Of a footer that must be looked at by itself, the length is 0."""
    sizes: Indices | None
    """Bytes of each fragment's own metadata file, -1 if there is no metadata at hand; None if
    nobody asked for them."""
    tails: Sequence[Tail] | None = None
    """The ends of the metadata files; None if a `.meta` holds the footers."""

    def raw(self, reader: FooterReader, at: int) -> RawFooter:
        """One footer, for the reader to decode.

        Raises:
            BadFileError: There is none.
            StorageError: The storage failed.
        """
        if self.tails is None:
            name = self.names[at].as_py()
            size = reader.own.sizes([name])[0] if self.sizes is None else int(self.sizes[at])
            if isinstance(size, ChronotileError):
                raise size
            return reader.copied(name, self.spans.footer(at), size)
        return reader.cut(self.names[at].as_py(), *self.tails[at])


def read_many(
    reader: FooterReader, names: pa.Array, versions: Indices, *, sizes: bool = True
) -> Iterator[ManyFooters]:
    """Reads footers, part by part.

    Args:
        reader: Of the array.
        names: The names of the fragments.
        versions: The format version in each name.
        sizes: Ask for the sizes of metadata files whose footers a `.meta` holds.

    Raises:
        StorageError: The storage failed.
    """
    places = reader.consolidated.places(names)
    is_held = np.asarray(places.is_valid())
    if (held := np.flatnonzero(is_held)).size:
        here = names if len(held) == len(names) else names.take(pa.array(held))
        chosen = _chosen(reader.consolidated.spans, np.asarray(places.drop_null()))
        known_sizes = _whole(reader.own.sizes(here.to_pylist())) if sizes else None
        yield ManyFooters(held, here, chosen, known_sizes)
    own = np.flatnonzero(~is_held)
    for start in range(0, len(own), MANY):
        rows = own[start : start + MANY]
        here = names.take(pa.array(rows))
        found = reader.own.tails(here.to_pylist())
        tails = [_NOTHING if isinstance(tail, ChronotileError) else tail for tail in found]
        lengths = np.array([size for _, size in tails], np.int64)
        yield ManyFooters(rows, here, _ends(tails, versions[rows]), lengths, tails)


class OwnFooters(NamedTuple):
    """What the fragments themselves hold, by their names."""

    footers: dict[str, bytes]
    """As bytes that decode with their schema."""
    errors: dict[str, ChronotileError]
    """Why a fragment has no such footer."""


def own_footers(reader: FooterReader, names: pa.Array, versions: Indices) -> OwnFooters:
    """Reads the footers in the fragments themselves.

    Gives what the reader gives of each, in less time where there are many.

    Args:
        reader: Of the array.
        names: The names of the fragments.
        versions: The format version in each name.

    Raises:
        StorageError: The storage failed.
    """
    known, own = KnownFooters(), OwnFooters({}, {})
    for start in range(0, len(names), MANY):
        texts = names[start : start + MANY].to_pylist()
        found = reader.own.tails(texts)
        tails = [_NOTHING if isinstance(tail, ChronotileError) else tail for tail in found]
        spans = _ends(tails, versions[start : start + MANY])
        decodes = known.decodes(spans)
        at = 0
        while at < len(texts) and not decodes[at:].all():
            name, tail = texts[at], found[at]
            if decodes[at]:
                own.footers[name] = spans.footer(at)
            elif isinstance(tail, ChronotileError):
                own.errors[name] = tail
            else:
                try:
                    raw = reader.cut(name, *tail)
                    stored = reader.decode(raw)
                except ChronotileError as error:
                    own.errors[name] = told_of_one(error)
                else:
                    if known.learn(raw.raw, reader.layout(stored.schema_file)):
                        decodes |= known.decodes(spans)
                    own.footers[name] = raw.raw
            at += 1
        own.footers.update(zip(texts[at:], spans.footers()[at:], strict=True))
    return own


def _chosen(spans: FooterSpans, at: Indices) -> FooterSpans:
    return FooterSpans(spans.data, spans.start[at], spans.length[at])


def _whole(sizes: Sequence[int | ChronotileError]) -> Indices:
    return np.array([-1 if isinstance(size, ChronotileError) else size for size in sizes], np.int64)


def _ends(tails: Sequence[Tail], versions: Indices) -> FooterSpans:
    """The footers at the ends of metadata files, by the lengths behind them."""
    data = b"".join([tail for tail, _ in tails])
    sizes = np.array([len(tail) for tail, _ in tails], np.int64)
    ends = np.cumsum(sizes) - LEN_LENGTH
    # Before version 10 a footer need not have its length behind it.
    whole = (sizes >= LEN_LENGTH) & (versions >= FIRST_WITH_SCHEMA_NAME)
    lengths = np.zeros(len(tails), np.uint64)
    numbers = np.ndarray((max(len(data) - LEN_LENGTH + 1, 0),), "<u8", data, 0, (1,))
    lengths[whole] = numbers[ends[whole]]
    whole &= lengths <= (sizes - LEN_LENGTH).clip(0).astype(np.uint64)
    lengths[~whole] = 0
    length = lengths.astype(np.int64)
    return FooterSpans(data, ends - length, length)
