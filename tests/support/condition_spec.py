"""Conditions by way of the generated parser: what the fast decoder is held to."""

from __future__ import annotations

from typing import Any

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, UpdateValue
from chronotile.format.parsers import ConditionSpec, UpdateSpec, parse


def decode(payload: bytes) -> Condition:
    return node(parse(ConditionSpec, "spec", payload).root)


def decode_update(payload: bytes) -> tuple[Condition, tuple[UpdateValue, ...]]:
    tree = parse(UpdateSpec, "spec", payload)
    values = (UpdateValue(v.field_name, v.value.raw) for v in tree.values.values)
    return node(tree.condition), tuple(values)


def node(tree: Any) -> Condition:
    if tree.node_type.name == "value":
        body = tree.body
        offsets = body.members.ofs_members if hasattr(body, "members") else ()
        return Compare(
            field=body.field_name,
            op=Op(body.op.value),
            value=body.value.raw,
            offsets=tuple(offsets),
        )
    parts = tuple(node(child) for child in tree.children)
    match tree.body.combination_op.name:
        case "and_op":
            return AllOf(parts=parts)
        case "or_op":
            return AnyOf(parts=parts)
        case _:
            return Not(part=parts[0])
