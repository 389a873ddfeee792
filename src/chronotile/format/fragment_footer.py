"""The footer of a fragment's metadata: what files a fragment has, and how long they are.

In: the end of a `__fragment_metadata.tdb`, and the schema that it names. Out: `Footer`, or
`BadFileError`. Reads no file, and takes no name out of one for a path.

The engine finds the footer by its length, which stands in the last eight bytes: always from
version 10 on, and before that where a dimension varies in length. Elsewhere the length follows
from the schema and from the version in the fragment's own name. From version 10 on the footer
names its schema; before that there is only one. Versions 1 and 2 have no footer at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.errors import BadFileError
from chronotile.format.parsers import FragmentMetadataSpec, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.schema import Schema

METADATA = "__fragment_metadata.tdb"
"""The file that a footer ends."""

FIRST_WITH_FOOTER = 3
"""The first format version whose fragments have a footer."""
FIRST_WITH_SCHEMA_NAME = 10
"""The first version whose footer names its schema, and ends in its own length."""
_LEN_LENGTH = 8
_PERCENT = {
    **{c: f"%{ord(c):02X}" for c in "!#$%&'()*+,/:;=?@[]\""},
    # As the engine has them, though no standard does.
    "<": "%20",
    ">": "%2D",
    "\\": "%30",
    "|": "%3C",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What the footer of one fragment says."""

    version: int
    dense: bool
    files: tuple[tuple[str, int], ...]
    """(name, bytes) of each cell file that holds anything."""
    needed: frozenset[int]
    """Where the generic tiles before it start without which the engine reads no cell."""
    others: frozenset[int]
    """Likewise of those that only some reads need: least and largest values, sums, counts."""
    applied: int | None
    """Where the tile with the deletes starts that the fragment has applied; None before 16."""


def footer_size(tail: bytes, size: int, version: int, schema: Schema | None, where: str) -> int:
    """The bytes from the start of the footer to the end of the file.

    Args:
        tail: The last bytes of the file, at least eight of them if it has so many.
        size: The size of the file.
        version: The format version in the fragment's name.
        schema: The schema of a fragment of before version 10.
        where: The file, for errors.

    Raises:
        BadFileError: The file is too short for what it says.
    """
    if version >= FIRST_WITH_SCHEMA_NAME or (
        schema is not None and any(field.is_var for field in schema.dimensions)
    ):
        length = int.from_bytes(tail[-_LEN_LENGTH:], "little") + _LEN_LENGTH
    elif schema is not None:
        length = _computed_size(version, schema)
    else:
        raise BadFileError(where, "expected the schema of an old fragment, found none")
    if size < _LEN_LENGTH or length > size:
        problem = f"expected a footer of {length} bytes at its end, found a file of {size}"
        raise BadFileError(where, problem)
    return length


def is_dense(data: bytes, where: str) -> bool:
    """Whether a fragment is dense; its footer says so without a schema, and is never encrypted.

    Raises:
        BadFileError: This is no footer.
    """
    return bool(parse(FragmentMetadataSpec.FooterHead, where, data, whole=False).is_dense)


def schema_name(data: bytes, version: int, where: str) -> str | None:
    """The name of the schema's file; None of a fragment that does not name its schema.

    Args:
        data: All bytes of `footer_size`.
        version: The format version in the fragment's name.
        where: The file, for errors.

    Raises:
        BadFileError: This is no footer, or one of another version.
    """
    head = parse(FragmentMetadataSpec.FooterHead, where, data, whole=False)
    if (version >= FIRST_WITH_SCHEMA_NAME) != (head.version >= FIRST_WITH_SCHEMA_NAME):
        problem = f"expected a footer of version {version}, as its name says, found {head.version}"
        raise BadFileError(where, problem)
    return str(head.schema_name) if head.version >= FIRST_WITH_SCHEMA_NAME else None


def decode_footer(data: bytes, schema: Schema, where: str, *, bare: bool = False) -> Footer:
    """Reads a footer.

    Args:
        data: All bytes of `footer_size`.
        schema: The schema that it names.
        where: The file, for errors.
        bare: Whether the length behind it is left out, as in a `.meta`.

    Raises:
        BadFileError: It is damaged.
    """
    head = parse(FragmentMetadataSpec.FooterHead, where, data, whole=False)
    sizes = bytes(0 if f.is_var else f.datatype.size * f.cell_val_num for f in schema.dimensions)
    has_length = head.version >= FIRST_WITH_SCHEMA_NAME or 0 in sizes
    body = data[:-_LEN_LENGTH] if has_length and not bare else data
    spec, count = FragmentMetadataSpec.FragmentFooter, len(schema.attributes)
    tree = parse(spec, where, body, count, sizes)
    needed = frozenset(_needed(tree))
    return Footer(
        version=head.version,
        dense=bool(head.is_dense),
        files=tuple(_files(tree, schema)),
        needed=needed,
        others=frozenset(_tiles(tree)) - needed,
        applied=getattr(tree, "ofs_processed_conditions", None),
    )


def decode_applied(payload: bytes, where: str) -> tuple[str, ...]:
    r"""The deletes that a fragment has applied: the paths of their files in the array.

    Args:
        payload: Of the tile that `Footer.applied` tells of.
        where: The file, for errors.

    >>> decode_applied(bytes([1] + [0] * 7 + [1] + [0] * 7) + b"a", "x")
    ('a',)
    """
    tree = parse(FragmentMetadataSpec.ProcessedConditions, where, payload)
    return tuple(item.uri for item in tree.conditions)


def _computed_size(version: int, schema: Schema) -> int:
    attributes, dimensions = len(schema.attributes), schema.dimensions
    fields = attributes + 1 + (len(dimensions) if version >= 5 else 0)
    var_fields = fields if version >= 5 else attributes
    domain = sum(2 * field.datatype.size * field.cell_val_num for field in dimensions)
    validity = 2 * fields if version >= 7 else 0
    numbers = 2 + fields + var_fields + 1 + fields + 2 * var_fields + validity
    return 4 + 1 + 1 + domain + 8 * numbers


def _files(tree: Any, schema: Schema) -> Iterator[tuple[str, int]]:
    names = _stems(tree, schema)
    sizes = tree.file_sizes, tree.var_file_sizes, getattr(tree, "validity_file_sizes", None) or ()
    for suffix, column in zip(("", "_var", "_validity"), sizes, strict=True):
        for stem, size in zip(names, column, strict=False):
            if size:
                yield f"{stem}{suffix}.tdb", size


def _stems(tree: Any, schema: Schema) -> list[str]:
    """The names of the fields' files, less what comes behind them, in the footer's order."""
    version = tree.head.version
    if version >= 9:
        attributes = [f"a{at}" for at in range(len(schema.attributes))]
        dimensions = [f"d{at}" for at in range(len(schema.dimensions))]
    else:
        plain = version < 8
        attributes = [_encoded(field.name, plain=plain) for field in schema.attributes]
        dimensions = [_encoded(field.name, plain=plain) for field in schema.dimensions]
    special = ["t"] if version >= 14 and tree.has_timestamps else []
    if version >= 15 and tree.has_delete_metadata:
        special += ["dt", "dci"]
    return [*attributes, "__coords", *(dimensions if version >= 5 else ()), *special]


def _encoded(name: str, *, plain: bool) -> str:
    return name if plain else "".join(_PERCENT.get(c, c) for c in name)


def _needed(tree: Any) -> Iterator[int]:
    """Where the tiles start that tell where cells are: of the fields that have any."""
    yield tree.ofs_r_tree
    parts = (
        (tree.file_sizes, (tree.ofs_tile_offsets,)),
        (tree.var_file_sizes, (tree.ofs_var_tile_offsets, tree.ofs_var_tile_sizes)),
    )
    for sizes, columns in parts:
        for at, size in enumerate(sizes):
            if size:
                yield from (column[at] for column in columns)
    if tree.head.version >= 7:
        for size, offset in zip(
            tree.validity_file_sizes, tree.ofs_validity_tile_offsets, strict=True
        ):
            if size:
                yield offset


def _tiles(tree: Any) -> Iterator[int]:
    """Where all tiles start; one that is not there has the place of the first."""
    yield tree.ofs_r_tree
    for name in (
        "ofs_tile_offsets",
        "ofs_var_tile_offsets",
        "ofs_var_tile_sizes",
        "ofs_validity_tile_offsets",
        "ofs_tile_minima",
        "ofs_tile_maxima",
        "ofs_tile_sums",
        "ofs_tile_null_counts",
    ):
        yield from getattr(tree, name, None) or ()
    for name in ("ofs_fragment_statistics", "ofs_processed_conditions"):
        offset = getattr(tree, name, None)
        if offset is not None:
            yield offset


def consolidated_footers(payload: bytes, where: str) -> dict[str, bytes]:
    """The footers that a `.meta` holds, by the names of their fragments.

    Args:
        payload: Of its tile.
        where: The file, for errors.

    Raises:
        BadFileError: It is damaged.
    """
    tree = parse(FragmentMetadataSpec.ConsolidatedFooters, where, payload)
    starts = sorted({item.ofs_footer for item in tree.fragments})
    ends = dict(zip(starts, [*starts[1:], len(payload)], strict=True))
    return {
        item.name.rstrip("/").rpartition("/")[2]: payload[item.ofs_footer : ends[item.ofs_footer]]
        for item in tree.fragments
    }
