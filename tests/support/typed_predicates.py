"""What a predicate means, whoever wrote it down: the author of a delete, or the log.

In: a predicate in Python's notation, or as the JSON of a condition, and the types of the fields.
Out: a tree that two predicates share if and only if they ask for the same. Uses nothing of
chronotile, so that what the log says can be held to what was typed.

Three things are the same on disk, and so here: a count of days and its date, NULL and the empty
text, and the members of a list in any order.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Meaning: TypeAlias = tuple[Any, ...]

OPS = {
    "Lt": "lt",
    "LtE": "le",
    "Gt": "gt",
    "GtE": "ge",
    "Eq": "eq",
    "NotEq": "ne",
    "In": "in",
    "NotIn": "not_in",
    "And": "and",
    "Or": "or",
}
UNITS = {"year": "Y", "month": "M", "week": "W", "day": "D", "hr": "h", "min": "m", "sec": "s"}


def meaning(predicate: str, types: Mapping[str, str]) -> Meaning:
    """What a predicate in Python's notation asks for.

    >>> meaning("a < 3 and (d == '1970-01-03' or d in [5, 4])", {"d": "datetime_day"})
    ('and', ('lt', 'a', 3), ('or', ('eq', 'd', 2), ('in', 'd', frozenset({4, 5}))))
    """
    return _of_node(ast.parse(predicate, mode="eval").body, types)


def meaning_of_json(condition: Mapping[str, Any], types: Mapping[str, str]) -> Meaning:
    """What a condition asks for, as `visible --json` prints it.

    >>> meaning_of_json({"op": "in", "field": "a", "value": ["x"], "raw": "78"}, {})
    ('in', 'a', frozenset({'x'}))
    """
    if "children" in condition:
        parts = (meaning_of_json(child, types) for child in condition["children"])
        return _joined(condition["op"], parts)
    return _leaf(condition["op"], condition["field"], condition["value"], types)


def value_meaning(value: Any, datatype: str) -> Any:
    """A value of a field: dates and times of day as counts, bytes as text, no text as NULL.

    >>> value_meaning("01:00:00", "time_sec"), value_meaning("1971", "datetime_year")
    (3600, 1)
    >>> value_meaning("", "utf8") is value_meaning(None, "utf8")
    True
    """
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, str):
        return value
    kind, _, unit = datatype.partition("_")
    if kind == "datetime":
        return int(np.array(value, f"datetime64[{UNITS.get(unit, unit)}]").astype(np.int64))
    if datatype == "time_sec":
        hours, minutes, seconds = map(int, value.split(":"))
        return (hours * 60 + minutes) * 60 + seconds
    return value or None


def _of_node(node: ast.expr, types: Mapping[str, str]) -> Meaning:
    if isinstance(node, ast.BoolOp):
        return _joined(OPS[type(node.op).__name__], (_of_node(one, types) for one in node.values))
    assert isinstance(node, ast.Compare), ast.dump(node)
    left, (op,), (right,) = node.left, node.ops, node.comparators
    # `attr("b c")` names a field that is no Python name.
    field = left.id if isinstance(left, ast.Name) else None
    if isinstance(left, ast.Call):
        field = ast.literal_eval(left.args[0])
    assert field is not None, ast.dump(node)
    return _leaf(OPS[type(op).__name__], field, ast.literal_eval(right), types)


def _joined(op: str, parts: Iterable[Meaning]) -> Meaning:
    """Parts of a part of the same op are parts of the whole."""
    flat: list[Meaning] = []
    for part in parts:
        flat.extend(part[1:] if part[0] == op else (part,))
    return (op, *flat)


def _leaf(op: str, field: str, value: Any, types: Mapping[str, str]) -> Meaning:
    datatype = types.get(field, "")
    if op in ("in", "not_in"):
        return op, field, frozenset(value_meaning(one, datatype) for one in value)
    return op, field, value_meaning(value, datatype)
