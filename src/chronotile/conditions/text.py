"""Conditions as text and as JSON.

In: a tree, and a schema where one is at hand. Out: the predicate language, or the JSON of the
contract. It does not say whether a tree is stored or asked.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, assert_never

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, fold
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datetime_values import ticks_to_text

if TYPE_CHECKING:
    from chronotile.format.cell_values import Json, Scalar
    from chronotile.format.datatypes import Datatype
    from chronotile.format.schema import Field, Schema

WORDS = frozenset(
    (
        *("and", "or", "not", "in", "is", "None", "True", "False"),
        *("attr", "dim", "val", "hex", "float", "always_true", "always_false"),
    )
)
"""Names that mean something in the predicate language, and so are never bare fields."""

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = {op: op.name.lower() for op in Op}


def to_text(node: Condition, schema: Schema | None = None) -> str:
    """Write a condition in the predicate language.

    `predicate_parser.parse_predicate` reads it back, `flatten`ed. Without a schema, and where the
    bytes are no value of the field, a value is `hex("…")`.

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
    """Give a condition as the contract's JSON; `value` is left out where it cannot be typed.

    >>> to_json(Compare(field="a", op=Op.LT, value=b"x"))
    {'op': 'lt', 'field': 'a', 'raw': '78'}
    """
    words = {AllOf: "and", AnyOf: "or", Not: "not"}
    return fold(
        node,
        lambda leaf: _compare_json(leaf, schema.field(leaf.field) if schema else None),
        lambda node, found: {"op": words[type(node)], "children": list(found)},
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
    datatype = field.enumeration.datatype if field.enumeration is not None else field.datatype
    if isinstance(value, tuple):
        return f"[{', '.join(_spelled(datatype, part) for part in value)}]"
    return _spelled(datatype, value)


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
    match node:
        case AllOf(parts=parts):
            bare = [isinstance(part, Compare) for part in parts]
            return " and ".join(map(_in_parentheses, texts, bare)) or "always_true()"
        case AnyOf(parts=parts):
            # `and` binds tighter than `or`.
            bare = [isinstance(part, Compare) or _is_and(part) for part in parts]
            return " or ".join(map(_in_parentheses, texts, bare)) or "always_false()"
        case Not():
            return f"not ({texts[0]})"
        case _:
            assert_never(node)


def _in_parentheses(text: str, bare: bool) -> str:
    return text if bare else f"({text})"


def _is_and(node: Condition) -> bool:
    return isinstance(node, AllOf) and len(node.parts) > 1


def _compare_text(node: Compare, field: Field | None) -> str:
    name = field_name(node.field, field)
    if node.op.is_constant:
        return f"{node.op.symbol}({name}{f', {literal(None, node.value)}' if node.value else ''})"
    if node.op.is_set:
        return f"{name} {node.op.symbol} [{', '.join(literal(field, m) for m in node.members)}]"
    if not node.value and field is not None and field.nullable and not node.op.is_order:
        return f"{name} {node.op.symbol} None"
    return f"{name} {node.op.symbol} {literal(field, node.value)}"


def _spelled(datatype: Datatype, value: Scalar) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, int) and (datatype.is_datetime or datatype.is_time):
        return repr(ticks_to_text(datatype, value))
    if isinstance(value, str):
        # A label that is not UTF-8 holds lone surrogates, which no terminal prints.
        try:
            value.encode()
        except UnicodeEncodeError:
            return repr(value.encode("utf-8", "surrogateescape"))
    return repr(value)


def _lacks_labels(field: Field) -> bool:
    return field.enumeration_name is not None and field.enumeration is None


def _compare_json(node: Compare, field: Field | None) -> dict[str, Json]:
    document: dict[str, Json] = {"op": _NAMES[node.op], "field": node.field}
    if field is not None and not _lacks_labels(field):
        document["value"] = _json_value(node, field)
    document["raw"] = node.value.hex()
    return document


def _json_value(node: Compare, field: Field) -> Json:
    if node.op.is_set:
        return [
            cell_values.to_json(field, cell_values.decode(field, member)) for member in node.members
        ]
    return cell_values.to_json(field, cell_values.decode(field, node.value)) if node.value else None
