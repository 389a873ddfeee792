"""A sample array, made without the engine.

In: an empty place. Out: a sparse array with a history: writes, deletes, an update, merged
fragments, consolidated commits, a vacuum. Its commit log and the metadata of its fragments are
real; the fragments have no cells, so the engine finds nothing to read.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from chronotile.array import Array
from chronotile.format import tiles
from chronotile.format.commit_files import encode_lines
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.format.fragment_footer import METADATA
from chronotile.format.kinds import COMMITS, FRAGMENTS, SCHEMA
from chronotile.format.names import new_name, parse_name
from chronotile.format.schema import Field, Schema
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from chronotile.storage.store import Store

VERSION = 22
START = 1_714_550_400_000
"""2024-05-01 08:00:00 UTC: the creation of the sample array."""
MINUTE = 60_000

_NO_FILTERS = struct.pack("<II", 64 << 10, 0)


class Sample(NamedTuple):
    """A sample array, and moments of it that are worth a look."""

    array: str
    first_delete: int
    update: int
    last_write: int


def sample_schema() -> Schema:
    """The schema of the sample array: sales.

    >>> [field.name for field in sample_schema().fields]
    ['id', 'amount', 'region']
    """
    field = partial(Field, is_dimension=False, enumeration_name=None, enumeration=None)
    integer, text = Datatype.INT64, Datatype.STRING_ASCII
    return Schema(
        version=VERSION,
        dense=False,
        allows_duplicates=False,
        dimensions=(
            field(
                name="id",
                datatype=integer,
                cell_val_num=1,
                nullable=False,
                is_dimension=True,
                domain=struct.pack("<qq", 0, 999_999),
                tile_extent=struct.pack("<q", 1000),
            ),
        ),
        attributes=(
            field(name="amount", datatype=Datatype.FLOAT64, cell_val_num=1, nullable=True),
            field(name="region", datatype=text, cell_val_num=VAR_NUM, nullable=False),
        ),
        enumeration_files=(),
        capacity=10_000,
    )


def encode_schema(schema: Schema) -> bytes:
    """Writes the payload of a schema tile: sparse, with dimensions of INT64 and no filters.

    >>> from chronotile.format.schema import decode_schema
    >>> decode_schema(encode_schema(sample_schema()), "schema") == sample_schema()
    True
    """
    array_type, row_major = 1, 0
    orders = (row_major, row_major)
    head = struct.pack("<IBBBBQ", schema.version, 0, array_type, *orders, schema.capacity)
    dimensions = b"".join(_dimension(field) for field in schema.dimensions)
    attributes = b"".join(_attribute(field) for field in schema.attributes)
    labels_and_enumerations = struct.pack("<II", 0, 0)
    empty_current_domain = struct.pack("<IB", 0, 1)
    dimensions = struct.pack("<I", len(schema.dimensions)) + dimensions
    attributes = struct.pack("<I", len(schema.attributes)) + attributes
    tail = labels_and_enumerations + empty_current_domain
    return head + 3 * _NO_FILTERS + dimensions + attributes + tail


def _dimension(field: Field) -> bytes:
    head = _named(field) + struct.pack("<BI", field.datatype, field.cell_val_num)
    domain = struct.pack("<Q", len(field.domain)) + field.domain
    return head + _NO_FILTERS + domain + b"\0" + field.tile_extent


def _attribute(field: Field) -> bytes:
    fill = bytes(field.datatype.size)
    head = _named(field) + struct.pack("<BI", field.datatype, field.cell_val_num)
    nullable = struct.pack("<BB", field.nullable, 0)
    unordered, no_enumeration = struct.pack("<B", 0), struct.pack("<I", 0)
    size = struct.pack("<Q", len(fill))
    return head + _NO_FILTERS + size + fill + nullable + unordered + no_enumeration


def _named(field: Field) -> bytes:
    return struct.pack("<I", len(field.name)) + field.name.encode()


def make_sample(array: str) -> Sample:
    """Makes the sample array in an empty folder, or at a URI with nothing below it."""
    store = open_store(array)
    times = [START + 10 * MINUTE * step for step in range(12)]
    payload, schema = encode_schema(sample_schema()), new_name(times[0], times[0], None)
    store.put_if_absent(f"{SCHEMA}/{schema}", tiles.encode(payload, version=VERSION))
    fragments = _Fragments(store, schema)
    first, second = fragments.write(times[1]), fragments.write(times[2])
    Array(store).delete("amount < 3", at=times[3], allow_null_loss=True)
    fragments.write(times[4])
    Array(store).update("id == 7", {"region": "north"}, at=times[5], experimental=True)
    fragments.merge(first, second)
    Array(store).consolidate()
    Array(store).vacuum(loose_deletes=True)
    third, fourth = fragments.write(times[6]), fragments.write(times[7])
    fragments.merge(third, fourth)
    where = "region == 'test' and amount >= 100"
    Array(store).delete(where, at=times[8], allow_null_loss=True)
    fragments.put(times[9], times[9])
    fragments.write(times[10])
    return Sample(array=array, first_delete=times[3], update=times[5], last_write=times[10])


class _Fragments:
    """The fragments of a sample array."""

    def __init__(self, store: Store, schema: str) -> None:
        self._store, self._metadata = store, encode_fragment_metadata(sample_schema(), schema)

    def put(self, first: int, last: int) -> str:
        """Puts a fragment without a commit."""
        name = new_name(first, last, VERSION)
        self._store.put_if_absent(f"{FRAGMENTS}/{name}/{METADATA}", self._metadata)
        return name

    def write(self, moment: int) -> str:
        """Puts a fragment and its commit."""
        name = self.put(moment, moment)
        self._store.put_if_absent(f"{COMMITS}/{name}.wrt", b"")
        return name

    def merge(self, *names: str) -> None:
        """Puts one fragment in place of several, and a `.vac` that names those."""
        times = [parse_name(name) for name in names]
        name = self.put(min(n.t1 for n in times), max(n.t2 for n in times))
        lines = (f"/{FRAGMENTS}/{old}" for old in names)
        self._store.put_if_absent(f"{COMMITS}/{name}.vac", encode_lines(lines))
        self._store.put_if_absent(f"{COMMITS}/{name}.wrt", b"")


def encode_fragment_metadata(schema: Schema, name: str) -> bytes:
    """Writes the metadata of a sparse fragment that has no cells.

    Args:
        schema: The array's schema.
        name: The name of its file.

    >>> from support.footers import decode_footer
    >>> from chronotile.format.fragment_footer import footer_size
    >>> data = encode_fragment_metadata(sample_schema(), "__1_1_ab")
    >>> size = footer_size(data, len(data), VERSION, None, "sample")
    >>> decode_footer(data[-size:], sample_schema(), "sample").cell_files
    ()
    """
    fanout, no_levels = 10, 0
    tree = tiles.encode(struct.pack("<II", fanout, no_levels), version=VERSION)
    statistics = struct.pack("<QQQQ", 0, 0, 0, 0)
    fields = len(schema.attributes) + 1 + len(schema.dimensions)
    summary = tiles.encode(statistics * fields, version=VERSION)
    conditions = tiles.encode(struct.pack("<Q", 0), version=VERSION)
    no_numbers = tiles.encode(struct.pack("<Q", 0), version=VERSION)
    no_bounds = tiles.encode(struct.pack("<QQ", 0, 0), version=VERSION)
    offsets, body = [], b""
    for tile in (tree, no_numbers, no_bounds, summary, conditions):
        offsets.append(len(body))
        body += tile
    text = name.encode()
    footer = struct.pack("<IQ", VERSION, len(text)) + text
    sparse, no_domain, no_tiles, no_times = b"\0", b"\1", bytes(16), bytes(2)
    footer += sparse + no_domain + no_tiles + no_times
    footer += bytes(8 * 3 * fields)
    at_numbers, at_bounds = (struct.pack("<Q", offset) * fields for offset in offsets[1:3])
    footer += struct.pack("<Q", offsets[0]) + at_numbers * 4 + at_bounds * 2 + at_numbers * 2
    footer += struct.pack("<QQ", *offsets[3:])
    return body + footer + struct.pack("<Q", len(footer))
