"""Conditions as text and as JSON.

In: a tree, and perhaps a schema. Out: the predicate language, or JSON. Does not know whether a
tree is a predicate or stored.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, fold
from chronotile.conditions.truth import asks_for_null
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype
from chronotile.format.datetime_values import ticks_to_text

if TYPE_CHECKING:
    from chronotile.format.cell_values import Json, Scalar
    from chronotile.format.schema import Field, Schema

CALLS = ("attr", "dim", "val", "hex", "float")
"""Functions of the predicate language that make an operand."""
WORDS = frozenset(
    ("and", "or", "not", "in", "is", "None", "True", "False", "always_true", "always_false", *CALLS)
)
"""Names with a meaning in the predicate language: none can be a bare field."""
COMPARABLE_TEXT = (Datatype.CHAR, Datatype.STRING_ASCII, Datatype.STRING_UTF8)
"""The types of text that the engine compares."""

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_text(node: Condition, schema: Schema | None = None) -> str:
    """Write a condition in the predicate language.

    `predicate_parser.parse_predicate` reads it back, `flatten`ed. Without a schema, or if the
    bytes are no value of the field, a value is `hex("…")`.

    >>> from chronotile.conditions.tree import Op
    >>> node = AnyOf(parts=(Compare(field="a", op=Op.LT, value=b"x"),
    ...                     Compare(field="x y", op=Op.EQ, value=b"z")))
    >>> to_text(node)
    'a < hex("78") or attr("x y") == hex("7a")'
    """
    return fold(
        node,
        lambda leaf: _compare_text(leaf, schema.field(leaf.field) if schema else None),
        _joined_text,
    )


def to_json(node: Condition, schema: Schema | None = None) -> dict[str, Json]:
    """Give a condition as JSON; without `value` where the type of the field is not known.

    >>> from chronotile.conditions.tree import Op
    >>> to_json(Compare(field="a", op=Op.LT, value=b"x"))
    {'op': 'lt', 'field': 'a', 'raw': '78'}
    """
    words = {AllOf: "and", AnyOf: "or", Not: "not"}
    return fold(
        node,
        lambda leaf: _compare_json(leaf, schema.field(leaf.field) if schema else None),
        lambda node, children: {"op": words[type(node)], "children": list(children)},
    )


def literal(field: Field | None, raw: bytes) -> str:
    """Write raw bytes as a value of the predicate language.

    >>> literal(None, b"x")
    'hex("78")'
    """
    if field is None:
        return f'hex("{raw.hex()}")'
    value = cell_values.decode(field, raw)
    try:
        lossless = value is not None and cell_values.encode(field, value) == raw
    except PredicateError:
        lossless = False
    if value is None or not lossless:
        return f'hex("{raw.hex()}")'
    if isinstance(value, tuple):
        return f"[{', '.join(_spelled(field.value_datatype, part) for part in value)}]"
    return _spelled(field.value_datatype, value)


def field_name(name: str, field: Field | None = None) -> str:
    """Write a field's name as the predicate language takes it.

    >>> field_name("a"), field_name("a.b"), field_name("not")
    ('a', 'attr("a.b")', 'attr("not")')
    """
    if _BARE.fullmatch(name) and name not in WORDS:
        return name
    quoted = repr(name)[1:-1].replace('"', '\\"')
    return f'{"dim" if field is not None and field.is_dimension else "attr"}("{quoted}")'


def _joined_text(node: AllOf | AnyOf | Not, texts: list[str]) -> str:
    if isinstance(node, Not):
        return f"not ({texts[0]})"
    is_any = isinstance(node, AnyOf)
    parts = [
        text if isinstance(part, Compare) or (is_any and _is_and(part)) else f"({text})"
        for text, part in zip(texts, node.parts, strict=True)
    ]
    if is_any:
        return " or ".join(parts) or "always_false()"
    return " and ".join(parts) or "always_true()"


def _is_and(node: Condition) -> bool:
    """Return True if it needs no parentheses in an `or`: `and` binds tighter."""
    return isinstance(node, AllOf) and len(node.parts) > 1


def _compare_text(node: Compare, field: Field | None) -> str:
    name = field_name(node.field, field)
    if node.op.is_constant:
        return f"{node.op.symbol}({name}{f', {literal(None, node.value)}' if node.value else ''})"
    if node.op.is_set:
        return f"{name} {node.op.symbol} [{', '.join(literal(field, m) for m in node.members)}]"
    if field is not None and asks_for_null(node, field):
        return f"{name} {node.op.symbol} None"
    return f"{name} {node.op.symbol} {literal(field, node.value)}"


def _spelled(datatype: Datatype, value: Scalar) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, int) and datatype.is_temporal:
        return repr(ticks_to_text(datatype, value))
    return repr(cell_values.bytes_unless_text(value) if isinstance(value, str) else value)


def _compare_json(node: Compare, field: Field | None) -> dict[str, Json]:
    document: dict[str, Json] = {"op": node.op.name.lower(), "field": node.field}
    if field is not None and not field.lacks_labels:
        if node.op.is_set:
            document["value"] = [cell_values.raw_to_json(field, raw) for raw in node.members]
        else:
            document["value"] = cell_values.raw_to_json(field, node.value) if node.value else None
    document["raw"] = node.value.hex()
    return document
