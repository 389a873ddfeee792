"""Array schemas, as far as a commit log needs them.

In: the payload of a schema or enumeration tile. Out: `Schema`, with its fields, their types,
labels and filters, and whether the array is dense. Reads no other part of the schema.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chronotile.errors import BadFileError, UnknownVersionError
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.format.filters import Filter, read_filters
from chronotile.format.names import NEWEST_VERSION
from chronotile.format.parsers import ArraySchemaSpec, EnumerationSpec, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Label = str | int | float | bool | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration:
    """The labels that an attribute's indices stand for."""

    name: str
    datatype: Datatype
    cell_val_num: int
    ordered: bool
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A dimension or an attribute."""

    name: str
    datatype: Datatype
    cell_val_num: int = 1
    """Values in a cell; `VAR_NUM` where cells vary in length."""
    nullable: bool = False
    is_dimension: bool = False
    enumeration_name: str | None = None
    """The enumeration that the values index, if any."""
    enumeration: Enumeration | None = None
    """Its labels, if its file was found."""
    domain: bytes = b""
    """Of a dimension: the least and the largest coordinate that it may have, if they are fixed."""
    tile_extent: bytes = b""
    """Of a dimension: coordinates in a space tile; none where the schema leaves it open."""
    filters: tuple[Filter, ...] = ()
    """The filters of its values; of a dimension without its own, those of all coordinates."""

    @property
    def is_var(self) -> bool:
        """True if cells vary in length."""
        return self.cell_val_num == VAR_NUM

    @property
    def is_number(self) -> bool:
        """True if a cell is one number, date, time or index."""
        return self.datatype.code is not None and self.cell_val_num == 1

    @property
    def cell_size(self) -> int | None:
        """Bytes of a cell, or None where cells vary in length."""
        return None if self.is_var else self.datatype.size * self.cell_val_num

    @property
    def value_datatype(self) -> Datatype:
        """The datatype that users see: that of the labels, if the field has labels."""
        return self.datatype if self.enumeration is None else self.enumeration.datatype

    @property
    def lacks_labels(self) -> bool:
        """True if the values are indices of labels that were not found."""
        return self.enumeration_name is not None and self.enumeration is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """An array's schema, as far as a commit log needs it."""

    version: int
    dense: bool = False
    allows_duplicates: bool = False
    dimensions: tuple[Field, ...] = ()
    attributes: tuple[Field, ...] = ()
    enumeration_files: tuple[tuple[str, str], ...] = ()
    """(enumeration name, file name below `__schema/__enumerations`)."""
    capacity: int = 0
    """Cells in each tile of a sparse fragment but the last; 0 where that is not known."""
    coords_filters: tuple[Filter, ...] = ()
    """Of the times of cells, and of dimensions without filters of their own."""
    offsets_filters: tuple[Filter, ...] = ()
    validity_filters: tuple[Filter, ...] = ()
    in_use: tuple[tuple[bytes, bytes], ...] = dataclasses.field(default=(), compare=False)
    """The current domain: the least and the largest coordinate of each dimension."""
    file: str | None = None
    """The name of its file, where it was read from an array."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """Dimensions, then attributes."""
        return self.dimensions + self.attributes

    def field(self, name: str) -> Field | None:
        """Return the dimension or attribute of that name, if there is one."""
        for field in self.fields:
            if field.name == name:
                return field
        return None

    def with_enumerations(self, enumerations: Iterable[Enumeration]) -> Schema:
        """Add the labels of each attribute that indexes an enumeration."""
        by_name = {enumeration.name: enumeration for enumeration in enumerations}
        attributes = [
            replace(a, enumeration=by_name.get(a.enumeration_name or "")) for a in self.attributes
        ]
        return replace(self, attributes=tuple(attributes))


def decode_schema(payload: bytes, where: str) -> Schema:
    """Read the payload of a schema tile, of any format version that is known.

    Raises:
        UnknownVersionError: It is of a later version.
    """
    version = int.from_bytes(payload[:4], "little")
    if version > NEWEST_VERSION:
        problem = f"expected a version from 1 to {NEWEST_VERSION}, found {version}"
        raise UnknownVersionError(where, problem)
    tree = parse(ArraySchemaSpec, where, payload)
    return Schema(
        version=tree.version,
        dense=tree.array_type == ArraySchemaSpec.ArrayTypes.dense,
        allows_duplicates=tree.is_dups_allowed,
        dimensions=tuple(_dimension(tree, dimension) for dimension in tree.domain.dimensions),
        attributes=tuple(_attribute(attribute) for attribute in tree.attributes),
        enumeration_files=tuple((e.name, e.file_name) for e in getattr(tree, "enumerations", ())),
        capacity=tree.capacity,
        coords_filters=read_filters(tree.coords_filters),
        offsets_filters=read_filters(tree.offsets_filters),
        validity_filters=read_filters(tree.validity_filters) if tree.version >= 7 else (),
        in_use=_in_use(tree),
    )


def _in_use(tree: Any) -> tuple[tuple[bytes, bytes], ...]:
    current = getattr(tree, "current_domain", None)
    ranges = () if current is None or current.is_empty else current.ranges
    return tuple((one.least, one.largest) for one in ranges)


def more_content(payload: bytes, where: str) -> tuple[object, ...]:
    """Give the content of a schema that `Schema` leaves out, to be compared.

    That is the order of cells, fill values, labels, and the domain in use.
    """
    tree = parse(ArraySchemaSpec, where, payload)
    names = ("name", "fill_value", "fill_value_validity", "order")
    attributes = [tuple(getattr(one, name, None) for name in names) for one in tree.attributes]
    labels = [
        (one.dimension_index, one.name, one.attribute_name, one.order, one.num_cell_values)
        for one in getattr(tree, "labels", ())
    ]
    return tree.tile_order, tree.cell_order, tuple(attributes), tuple(labels), _in_use(tree)


def decode_enumeration(payload: bytes, where: str) -> Enumeration:
    """Read the payload of an enumeration tile."""
    tree = parse(EnumerationSpec, where, payload)
    datatype = Datatype(tree.datatype.code.value)
    return Enumeration(
        name=tree.name,
        datatype=datatype,
        cell_val_num=tree.num_cell_values,
        ordered=tree.is_ordered,
        labels=tuple(_label(cell, datatype) for cell in _cells(tree, datatype, where)),
    )


def _dimension(tree: Any, dimension: Any) -> Field:
    # Before version 5 all dimensions share the domain's datatype, one value to a cell.
    has_own_type = tree.version >= 5
    code = (dimension if has_own_type else tree.domain).datatype.code.value
    return Field(
        name=dimension.name,
        datatype=Datatype(code),
        cell_val_num=dimension.num_cell_values if has_own_type else 1,
        is_dimension=True,
        domain=dimension.domain,
        tile_extent=b"" if dimension.is_null_tile_extent else dimension.tile_extent,
        filters=(read_filters(dimension.filters) if has_own_type else ())
        or read_filters(tree.coords_filters),
    )


def _attribute(attribute: Any) -> Field:
    return Field(
        name=attribute.name,
        datatype=Datatype(attribute.datatype.code.value),
        cell_val_num=attribute.num_cell_values,
        nullable=attribute.is_nullable,
        filters=read_filters(attribute.filters),
        enumeration_name=getattr(attribute, "enumeration_name", "") or None,
    )


def _cells(tree: Any, datatype: Datatype, where: str) -> Iterator[bytes]:
    data = tree.data.raw
    if tree.is_var:
        starts, ends = tree.ofs_labels, [*tree.ofs_labels[1:], len(data)]
        if starts and (starts[0] != 0 or sorted(ends) != ends):
            problem = f"expected offsets that rise from 0 to {len(data)}"
            raise BadFileError(where, f"{problem}, found {starts[:8]}")
        for start, end in zip(starts, ends, strict=False):
            yield data[start:end]
        return
    width = datatype.size * tree.num_cell_values
    if width == 0 or len(data) % width:
        problem = f"expected labels of {width} bytes, found {len(data)} in all"
        raise BadFileError(where, problem)
    for start in range(0, len(data), width):
        yield data[start : start + width]


def _label(cell: bytes, datatype: Datatype) -> Label:
    if datatype.is_string:
        return cell.decode("utf-8", "surrogateescape")
    if datatype.code is None or len(cell) != datatype.size:
        return cell
    (number,) = struct.unpack(f"<{datatype.code}", cell)
    return bool(number) if datatype is Datatype.BOOL else number
