"""Generators for property tests: fields, values, schemas and conditions."""

from __future__ import annotations

import functools
import math
import struct
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from chronotile.conditions.tree import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Not,
    Op,
    UpdateValue,
    member_of,
)
from chronotile.format import cell_values
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.format.schema import Enumeration, Field, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

ORDER_OPS = (Op.LT, Op.LE, Op.GT, Op.GE)
PLAIN_OPS = (*ORDER_OPS, Op.EQ, Op.NE)
SET_OPS = (Op.IN, Op.NOT_IN)
COMPARABLE_TEXT = (Datatype.CHAR, Datatype.STRING_ASCII, Datatype.STRING_UTF8)
NUMBERS = tuple(datatype for datatype in Datatype if datatype.code)


def make_field(
    name: str,
    datatype: Datatype,
    *,
    num: int = 1,
    nullable: bool = False,
    dimension: bool = False,
    enumeration: Enumeration | None = None,
) -> Field:
    return Field(
        name=name,
        datatype=datatype,
        cell_val_num=num,
        nullable=nullable,
        is_dimension=dimension,
        enumeration_name=enumeration.name if enumeration else None,
        enumeration=enumeration,
    )


def make_schema(*found: Field) -> Schema:
    return Schema(
        version=22,
        dense=False,
        allows_duplicates=False,
        dimensions=tuple(field for field in found if field.is_dimension),
        attributes=tuple(field for field in found if not field.is_dimension),
        enumeration_files=(),
    )


def make_enumeration(name: str, labels: Sequence[str], *, ordered: bool) -> Enumeration:
    return Enumeration(
        name=name,
        datatype=Datatype.STRING_UTF8,
        cell_val_num=VAR_NUM,
        ordered=ordered,
        labels=tuple(labels),
    )


COLOURS = make_enumeration("colours", ("red", "green", "blüe", "it's"), ordered=False)
SIZES = make_enumeration("sizes", ("small", "medium", "large"), ordered=True)

RICH = make_schema(
    make_field("d", Datatype.INT64, dimension=True),
    make_field("key dim", Datatype.STRING_ASCII, num=VAR_NUM, dimension=True),
    *(
        make_field(f"{prefix}{datatype.name.lower()}", datatype, nullable=nullable)
        for nullable, prefix in ((False, ""), (True, "n_"))
        for datatype in NUMBERS
    ),
    *(
        make_field(f"{prefix}{datatype.name.lower()}", datatype, num=VAR_NUM, nullable=nullable)
        for nullable, prefix in ((False, ""), (True, "n_"))
        for datatype in COMPARABLE_TEXT
    ),
    make_field("fixed ascii", Datatype.STRING_ASCII, num=4),
    make_field("one char", Datatype.CHAR),
    make_field('odd "name"\\ of a.field\'s', Datatype.INT16, nullable=True),
    make_field("not", Datatype.UINT8),
    make_field("col", Datatype.INT8, enumeration=COLOURS),
    make_field("n_size", Datatype.UINT16, nullable=True, enumeration=SIZES),
)
"""A field of every type that the engine can compare, nullable and not."""


@st.composite
def any_fields(draw: st.DrawFn) -> Field:
    """A field of any type, comparable or not."""
    datatype = draw(st.sampled_from(list(Datatype)))
    return make_field(
        draw(st.text(min_size=1, max_size=8)),
        datatype,
        num=draw(st.sampled_from((1, 1, 2, 3, VAR_NUM))),
        nullable=draw(st.booleans()),
    )


def texts(field: Field) -> SearchStrategy[str]:
    most = 8 if field.is_var else field.cell_val_num
    if field.datatype is Datatype.STRING_ASCII or not field.is_var:
        return st.text(st.characters(max_codepoint=127), max_size=most)
    return st.text(max_size=most)


def raw_values(field: Field) -> SearchStrategy[bytes]:
    """The bytes of a cell that fit the field: what the engine itself could have written."""
    if field.enumeration is not None:
        return st.sampled_from(
            [cell_values.encode(field, label) for label in field.enumeration.labels]
        )
    count = st.integers(0, 4) if field.is_var else st.just(field.cell_val_num)
    code = field.datatype.code
    if code is None or field.datatype in COMPARABLE_TEXT:
        if cell_values.is_text(field.datatype):
            return texts(field).map(lambda text: cell_values.encode(field, text))
        size = field.cell_size
        return st.binary(min_size=size or 0, max_size=8 if size is None else size)
    width = field.datatype.size
    if field.datatype is Datatype.BOOL:
        return count.flatmap(
            lambda n: st.lists(st.sampled_from((0, 1)), min_size=n, max_size=n)
        ).map(bytes)
    if field.datatype.is_float:
        numbers = st.floats(width=32 if width == 4 else 64, allow_nan=False)
        return count.flatmap(lambda n: st.lists(numbers, min_size=n, max_size=n)).map(
            lambda parts: struct.pack(f"<{len(parts)}{code}", *parts)
        )
    near_zero = st.integers(-9 if code.islower() else 0, 9).map(
        lambda n: struct.pack(f"<{code}", n)
    )
    return count.flatmap(
        lambda n: st.lists(
            st.one_of(near_zero, st.binary(min_size=width, max_size=width)), min_size=n, max_size=n
        )
    ).map(b"".join)


def comparisons(schema: Schema) -> SearchStrategy[Compare]:
    """Comparisons that the predicate language takes."""
    # Names, not fields: hypothesis prints what it samples from.
    names = [field.name for field in schema.fields]
    return st.sampled_from(names).flatmap(lambda name: _comparisons_of(schema.field(name)))


@functools.cache
def _comparisons_of(field: Field | None) -> SearchStrategy[Compare]:
    assert field is not None
    unordered = field.enumeration is not None and not field.enumeration.ordered
    ops = (Op.EQ, Op.NE) if unordered else PLAIN_OPS
    plain = st.builds(
        lambda op, value: Compare(field=field.name, op=op, value=value),
        st.sampled_from(ops),
        raw_values(field),
    )
    members = st.lists(raw_values(field), min_size=1, max_size=4).filter(any)
    sets = st.builds(
        lambda op, found: member_of(field.name, op, tuple(found)), st.sampled_from(SET_OPS), members
    )
    return st.one_of(plain, plain, sets)


def predicates(schema: Schema, max_leaves: int = 8) -> SearchStrategy[Condition]:
    """Flat trees of `comparisons`: what `parse_predicate` gives."""
    return trees(comparisons(schema), max_leaves=max_leaves)


def trees(
    found: SearchStrategy[Compare], *, max_leaves: int = 8, flat: bool = True
) -> SearchStrategy[Condition]:
    def extend(children: SearchStrategy[Condition]) -> SearchStrategy[Condition]:
        parts = st.lists(children, min_size=2, max_size=4).map(tuple)
        joined = st.one_of(
            parts.map(lambda found: AllOf(parts=found)), parts.map(lambda found: AnyOf(parts=found))
        )
        if flat:
            return joined.filter(is_flat)
        return st.one_of(joined, children.map(lambda part: Not(part=part)))

    return st.recursive(found, extend, max_leaves=max_leaves)


def is_flat(node: Condition) -> bool:
    match node:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return not any(type(part) is type(node) for part in parts)
        case _:
            return True


@st.composite
def raw_comparisons(draw: st.DrawFn) -> Compare:
    """Comparisons that can be on disk, whether or not any schema makes sense of them."""
    name = draw(st.text(max_size=6))
    op = draw(st.sampled_from(list(Op)))
    if op.is_set:
        return member_of(name, op, tuple(draw(st.lists(st.binary(max_size=5), max_size=4))))
    return Compare(field=name, op=op, value=draw(st.binary(max_size=10)))


def raw_conditions() -> SearchStrategy[Condition]:
    """Any tree that can be on disk."""
    return trees(raw_comparisons(), flat=False)


def update_lists() -> SearchStrategy[tuple[UpdateValue, ...]]:
    return st.lists(
        st.builds(UpdateValue, st.text(max_size=6), st.binary(max_size=9)), max_size=4
    ).map(tuple)


def same(one: cell_values.Value, other: cell_values.Value) -> bool:
    """Equal, with NaN equal to NaN."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other and type(one) is type(other)
