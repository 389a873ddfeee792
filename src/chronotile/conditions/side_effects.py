"""Where a delete does not do what it says.

In: a stored condition and a schema. Out: in words, the rows that it also removes or also keeps,
and why the engine would refuse to read it. It looks at no rows: it reasons on the tree.
"""

from __future__ import annotations

import itertools
import math
import struct
from typing import TYPE_CHECKING, NamedTuple

from chronotile.conditions.text import field_name, to_text
from chronotile.conditions.tree import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Not,
    Op,
    fields,
    flatten,
    fold,
    leaves,
    negate,
)
from chronotile.conditions.truth import Cell, Sense, leaf_truth
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.format.schema import Field, Schema

_COMPARABLE_TEXT = (Datatype.CHAR, Datatype.STRING_ASCII, Datatype.STRING_UTF8)
_MOST_CASES = 500


class _State(NamedTuple):
    """A special content of one field, and what it makes of each comparison of that field."""

    field: Field
    words: str
    cell: bytes | Cell


def also_removes(stored: Condition, schema: Schema) -> tuple[str, ...]:
    r"""Say which rows a delete removes although its author did not ask for them.

    Every row that a sentence describes goes, and not all of them were asked for. `s == None`
    is taken to ask for NULL; on disk it is the same as `s == ''`.

    Args:
        stored: The condition as on disk, negated.
        schema: The types of its fields; a field that is not there is passed over.

    >>> from chronotile.format.schema import Field, Schema
    >>> a = Field(name="a", datatype=Datatype.INT8, cell_val_num=1, nullable=True,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(a,), enumeration_files=())
    >>> also_removes(Compare(field="a", op=Op.GE, value=b"\x03"), schema)
    ('rows where a is NULL',)
    """

    def unasked(stays: Condition | bool, asked: Condition | bool) -> Condition | bool:
        goes = _negated(stays)
        return False if asked is True or goes == asked else goes

    return _sentences(stored, schema, unasked)


def also_keeps(stored: Condition, schema: Schema) -> tuple[str, ...]:
    """Say which rows a delete leaves although its author asked for them.

    >>> from chronotile.format.schema import Field, Schema
    >>> s = Field(name="s", datatype=Datatype.STRING_UTF8, cell_val_num=2**32 - 1, nullable=True,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(s,), enumeration_files=())
    >>> also_keeps(Compare(field="s", op=Op.EQ), schema)
    ("rows where s is ''",)
    """

    def spared(stays: Condition | bool, asked: Condition | bool) -> Condition | bool:
        if _negated(stays) == asked:
            return False
        if isinstance(stays, bool):
            return asked if stays else False
        return stays if asked is True else False

    return _sentences(stored, schema, spared)


def engine_refuses(stored: Condition, schema: Schema) -> tuple[str, ...]:
    """Say why the engine cannot read a stored condition, and so no row of the array.

    >>> from chronotile.format.schema import Schema
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(), enumeration_files=())
    >>> engine_refuses(Compare(field="b", op=Op.LT), schema)
    ('b is no field of the schema',)
    """
    found: list[str] = []
    waiting = [stored]
    while waiting:
        match waiting.pop():
            case Compare() as leaf:
                field = schema.field(leaf.field)
                if field is None:
                    found.append(f"{field_name(leaf.field)} is no field of the schema")
                else:
                    found.extend(_refusals(leaf, field))
            case AllOf(parts=parts) | AnyOf(parts=parts):
                if len(parts) < 2:
                    found.append(f"it combines {len(parts)} conditions: the least is 2")
                waiting.extend(reversed(parts))
            case Not(part=part):
                found.append("it holds NOT")
                waiting.append(part)
    return tuple(dict.fromkeys(found))


def _refusals(leaf: Compare, field: Field) -> Iterator[str]:
    name, op = field_name(leaf.field, field), leaf.op
    text = field.datatype in _COMPARABLE_TEXT
    size = cell_values.cell_size(field)
    if not text and (size is None or field.cell_val_num != 1):
        yield f"{name} has more than one value to a cell"
    elif not text and cell_values.number_format(field.datatype) is None:
        yield f"{name} is {field.datatype.name}, which cannot be compared"
    elif op.is_set:
        if not leaf.value:
            yield f"the members of {name} {op.symbol} […] have no bytes"
        elif field.enumeration_name is None and not _all_sized(leaf.members, size):
            yield f"a member of {name} {op.symbol} […] is not {size} bytes long"
    elif not text and not op.is_constant and len(leaf.value) != size:
        null = ": it is compared with NULL" if not leaf.value else ""
        yield f"the value for {name} has {len(leaf.value)} bytes, not {size}{null}"


def _all_sized(members: tuple[bytes, ...], size: int | None) -> bool:
    return size is None or all(len(member) == size for member in members)


def _sentences(
    stored: Condition,
    schema: Schema,
    region: Callable[[Condition | bool, Condition | bool], Condition | bool],
) -> tuple[str, ...]:
    stored = flatten(stored)
    predicate = negate(stored)
    found: list[str] = []
    settled: list[frozenset[tuple[str, str]]] = []
    for case in _cases(stored, schema):
        key = frozenset((state.field.name, state.words) for state in case)
        if any(known <= key for known in settled):
            continue
        rest = region(
            _given(stored, case, Sense.STORED),
            _given(predicate, case, Sense.PREDICATE),
        )
        if rest is False:
            continue
        where = " and ".join(
            f"{field_name(state.field.name, state.field)} is {state.words}" for state in case
        )
        if rest is True:
            settled.append(key)
            found.append(f"rows where {where}")
        else:
            text = to_text(rest, schema)
            text = f"({text})" if isinstance(rest, AnyOf) else text
            found.append(f"rows where {where} and {text}")
    return tuple(found)


def _cases(stored: Condition, schema: Schema) -> Iterator[tuple[_State, ...]]:
    """Every choice of special contents for some of the fields, the smallest first."""
    per_field = [
        states
        for name in fields(stored)
        if (field := schema.field(name)) is not None and (states := _states(field, stored))
    ]
    left = _MOST_CASES
    for size in range(1, len(per_field) + 1):
        for chosen in itertools.combinations(per_field, size):
            for case in itertools.product(*chosen):
                left -= 1
                if left < 0:
                    return
                yield case


def _states(field: Field, stored: Condition) -> tuple[_State, ...]:
    own = [leaf for leaf in leaves(stored) if leaf.field == field.name]
    states = []
    if field.nullable:
        states.append(_State(field, "NULL", Cell.NULL))
    if field.datatype.is_float and not field.is_dimension and field.cell_val_num == 1:
        nan = struct.pack(f"<{cell_values.number_format(field.datatype)}", math.nan)
        states.append(_State(field, "NaN", nan))
    if len(states) == 2 and _alike(states[0], states[1], own):
        return (_State(field, "NULL or NaN", Cell.NULL),)
    none_asked = any(not leaf.value and leaf.op in (Op.EQ, Op.NE) for leaf in own)
    if field.nullable and field.is_var and cell_values.is_text(field.datatype) and none_asked:
        states.append(_State(field, "''", b""))
    return tuple(states)


def _alike(one: _State, other: _State, own: list[Compare]) -> bool:
    return all(
        leaf_truth(leaf, one.field, one.cell, sense)
        is leaf_truth(leaf, other.field, other.cell, sense)
        for stored_leaf in own
        for flipped in leaves(negate(stored_leaf))
        for leaf, sense in (
            (stored_leaf, Sense.STORED),
            (flipped, Sense.PREDICATE),
        )
    )


def _given(node: Condition, case: tuple[_State, ...], sense: Sense) -> Condition | bool:
    """What is left of a flat condition once some fields are known."""

    def leaf(node: Compare) -> Condition | bool:
        for state in case:
            if state.field.name == node.field:
                return leaf_truth(node, state.field, state.cell, sense)
        return node.op is Op.ALWAYS_TRUE if node.op.is_constant else node

    def join(node: AllOf | AnyOf | Not, found: list[Condition | bool]) -> Condition | bool:
        if isinstance(node, Not):
            return _negated(found[0])
        decides = isinstance(node, AnyOf)
        if decides in (part for part in found if isinstance(part, bool)):
            return decides
        left = tuple(part for part in found if not isinstance(part, bool))
        return flatten(type(node)(parts=left)) if left else not decides

    return fold(node, leaf, join)


def _negated(node: Condition | bool) -> Condition | bool:
    return not node if isinstance(node, bool) else negate(node)
