"""Side effects: where a delete does not do what its author asked for.

In: a stored condition and a schema. Out: in words, the rows that it also removes or also keeps,
and why the engine would refuse to read it. Reads no rows: it reasons on the tree.
"""

from __future__ import annotations

import itertools
import math
import struct
from typing import TYPE_CHECKING, NamedTuple

from chronotile.conditions.text import COMPARABLE_TEXT, field_name, to_text
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.format.schema import Field, Schema

_MOST_CASES = 500


class _SpecialCell(NamedTuple):
    """NULL, NaN or the empty string in one field."""

    field: Field
    words: str
    cell: bytes | Cell


def also_removes(stored: Condition, schema: Schema) -> tuple[str, ...]:
    r"""Say which rows a delete removes although its author did not ask for them.

    The delete removes every row that a sentence describes; its author asked for some of them at
    most. `s == None` counts as asking for NULL; on disk it is the same as `s == ''`. A field that
    the schema lacks is passed over.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> a = Field(name="a", datatype=Datatype.INT8, nullable=True)
    >>> schema = Schema(version=22, attributes=(a,))
    >>> also_removes(Compare(field="a", op=Op.GE, value=b"\x03"), schema)
    ('rows where a is NULL',)
    """

    def unasked(stays: Condition | bool, asked: Condition | bool) -> Condition | bool:
        goes = _negated(stays)
        return False if asked is True or goes == asked else goes

    return _sentences(stored, schema, unasked)


def also_keeps(stored: Condition, schema: Schema) -> tuple[str, ...]:
    """Say which rows a delete keeps although its author asked for them.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> s = Field(name="s", datatype=Datatype.STRING_UTF8, cell_val_num=2**32 - 1, nullable=True)
    >>> also_keeps(Compare(field="s", op=Op.EQ), Schema(version=22, attributes=(s,)))
    ("rows where s is ''",)
    """

    def kept(stays: Condition | bool, asked: Condition | bool) -> Condition | bool:
        if _negated(stays) == asked:
            return False
        return asked if stays is True else stays if asked is True else False

    return _sentences(stored, schema, kept)


def engine_refuses(stored: Condition, schema: Schema) -> tuple[str, ...]:
    """Say why the engine cannot read a stored condition, and so no row of the array.

    >>> from chronotile.format.schema import Schema
    >>> engine_refuses(Compare(field="b", op=Op.LT), Schema(version=22))
    ('b is no field of the schema',)
    """
    reasons: list[str] = []
    waiting = [stored]
    while waiting:
        match waiting.pop():
            case Compare() as leaf:
                field = schema.field(leaf.field)
                if field is None:
                    reasons.append(f"{field_name(leaf.field)} is no field of the schema")
                else:
                    reasons.extend(_refusals(leaf, field))
            case AllOf(parts=parts) | AnyOf(parts=parts):
                if len(parts) < 2:
                    reasons.append(f"it combines {len(parts)} conditions: the least is 2")
                waiting.extend(reversed(parts))
            case Not(part=part):
                reasons.append("it holds NOT")
                waiting.append(part)
    return tuple(dict.fromkeys(reasons))


def _refusals(leaf: Compare, field: Field) -> Iterator[str]:
    name, op = field_name(leaf.field, field), leaf.op
    text = field.datatype in COMPARABLE_TEXT
    size = field.cell_size
    if not text and field.cell_val_num != 1:
        yield f"{name} has more than one value in each cell"
    elif not text and field.datatype.code is None:
        yield f"{name} is {field.datatype.name}, which cannot be compared"
    elif op.is_set:
        lengths = {len(member) for member in leaf.members}
        if not leaf.value:
            yield f"the members of {name} {op.symbol} […] have no bytes"
        elif field.enumeration_name is None and size is not None and lengths - {size}:
            yield f"a member of {name} {op.symbol} […] is not {size} bytes long"
    elif not text and not op.is_constant and len(leaf.value) != size:
        null = ": it is compared with NULL" if not leaf.value else ""
        yield f"the value for {name} has {len(leaf.value)} bytes, not {size}{null}"


def _sentences(
    stored: Condition,
    schema: Schema,
    surprise: Callable[[Condition | bool, Condition | bool], Condition | bool],
) -> tuple[str, ...]:
    """Describe the rows for which `surprise`, given what stays and what was asked, is true."""
    stored = flatten(stored)
    predicate = negate(stored)
    sentences: list[str] = []
    settled: list[frozenset[tuple[str, str]]] = []
    for case in _cases(stored, schema):
        key = frozenset((item.field.name, item.words) for item in case)
        if any(known <= key for known in settled):
            continue
        rest = surprise(
            _given(stored, case, Sense.STORED),
            _given(predicate, case, Sense.PREDICATE),
        )
        if rest is False:
            continue
        where = [f"{field_name(item.field.name, item.field)} is {item.words}" for item in case]
        if isinstance(rest, bool):
            settled.append(key)
        else:
            text = to_text(rest, schema)
            where.append(f"({text})" if isinstance(rest, AnyOf) else text)
        sentences.append(f"rows where {' and '.join(where)}")
    return tuple(sentences)


def _cases(stored: Condition, schema: Schema) -> Iterator[tuple[_SpecialCell, ...]]:
    """List every choice of special cells for some of the fields, the smallest choice first."""
    per_field = [
        cells
        for name in fields(stored)
        if (field := schema.field(name)) is not None and (cells := _special_cells(field, stored))
    ]
    cases = (
        case
        for size in range(1, len(per_field) + 1)
        for chosen in itertools.combinations(per_field, size)
        for case in itertools.product(*chosen)
    )
    return itertools.islice(cases, _MOST_CASES)


def _special_cells(field: Field, stored: Condition) -> tuple[_SpecialCell, ...]:
    own = [leaf for leaf in leaves(stored) if leaf.field == field.name]
    cells = []
    if field.nullable:
        cells.append(_SpecialCell(field, "NULL", Cell.NULL))
    if field.datatype.is_float and not field.is_dimension and field.cell_val_num == 1:
        nan = struct.pack(f"<{field.datatype.code}", math.nan)
        cells.append(_SpecialCell(field, "NaN", nan))
        if field.nullable and _truths(Cell.NULL, field, own) == _truths(nan, field, own):
            return (_SpecialCell(field, "NULL or NaN", Cell.NULL),)
    none_asked = any(not leaf.value and leaf.op in (Op.EQ, Op.NE) for leaf in own)
    if field.nullable and field.is_var and cell_values.is_text(field.datatype) and none_asked:
        cells.append(_SpecialCell(field, "''", b""))
    return tuple(cells)


def _truths(cell: bytes | Cell, field: Field, own: list[Compare]) -> list[bool]:
    """Tell which comparisons of its field a cell satisfies, as stored and as asked."""
    asked = [leaf for stored in own for leaf in leaves(negate(stored))]
    return [
        *(leaf_truth(leaf, field, cell, Sense.STORED) for leaf in own),
        *(leaf_truth(leaf, field, cell, Sense.PREDICATE) for leaf in asked),
    ]


def _given(node: Condition, case: tuple[_SpecialCell, ...], sense: Sense) -> Condition | bool:
    """Simplify a flat condition by cells that are known."""

    def leaf(node: Compare) -> Condition | bool:
        for known in case:
            if known.field.name == node.field:
                return leaf_truth(node, known.field, known.cell, sense)
        return node.op is Op.ALWAYS_TRUE if node.op.is_constant else node

    def join(node: AllOf | AnyOf | Not, parts: list[Condition | bool]) -> Condition | bool:
        if isinstance(node, Not):
            return _negated(parts[0])
        decides = isinstance(node, AnyOf)
        if any(part is decides for part in parts):
            return decides
        left = tuple(part for part in parts if not isinstance(part, bool))
        return flatten(type(node)(parts=left)) if left else not decides

    return fold(node, leaf, join)


def _negated(node: Condition | bool) -> Condition | bool:
    return not node if isinstance(node, bool) else negate(node)
