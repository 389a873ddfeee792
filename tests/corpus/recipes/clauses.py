"""A condition in Python's notation, as the engine's own condition object.

In: text such as `a < 3 and (b in [1, 2] or c == None)`. Out: a handle for a delete or update.
Knows nothing of how the engine stores it.
"""

from __future__ import annotations

import ast
import ctypes
from typing import TYPE_CHECKING, Any

from corpus.recipes.codec import encode

if TYPE_CHECKING:
    from corpus.recipes.capi import FieldType, Session

_OPS = {"Lt": 0, "LtE": 1, "Gt": 2, "GtE": 3, "Eq": 4, "NotEq": 5, "In": 6, "NotIn": 7}
_AND, _OR = 0, 1


def build(session: Session, predicate: str, fields: dict[str, FieldType]) -> ctypes.c_void_p:
    """The engine's condition for a predicate.

    Args:
        session: A session with the array open.
        predicate: Comparisons of a field with a literal, joined by `and` and `or`. A string or
            bytes literal is taken as the bytes of the value.
        fields: The array's fields by name.
    """
    return _node(session, ast.parse(predicate, mode="eval").body, fields)


def _node(session: Session, node: ast.AST, fields: dict[str, FieldType]) -> ctypes.c_void_p:
    if isinstance(node, ast.BoolOp):
        parts = [_node(session, part, fields) for part in node.values]
        joined = parts[0]
        for part in parts[1:]:
            both = ctypes.c_void_p()
            how = ctypes.c_int(_AND if isinstance(node.op, ast.And) else _OR)
            session.call("tiledb_query_condition_combine", joined, part, how, ctypes.byref(both))
            joined = both
        return joined
    if isinstance(node, ast.Compare):
        op = _OPS[type(node.ops[0]).__name__]
        literal = ast.literal_eval(node.comparators[0])
        return _leaf(session, fields[_name(node.left)], op, literal)
    raise ValueError(ast.dump(node))


def _name(node: ast.AST) -> str:
    # `attr("b c")` names a field that is no Python name, as in the engine's own package.
    if isinstance(node, ast.Call):
        return str(ast.literal_eval(node.args[0]))
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError(ast.dump(node))


def _leaf(session: Session, field: FieldType, op: int, literal: Any) -> ctypes.c_void_p:
    # An enumeration is asked for by its label; the engine looks the index up. The corpus has
    # labels of text and of int32.
    datatype = "int32" if field.enumeration else field.type
    condition = ctypes.c_void_p()
    name = field.name.encode()
    if isinstance(literal, list):
        members = [encode(datatype, member) for member in literal]
        starts: list[int] = [0]
        for member in members:
            starts.append(starts[-1] + len(member))
        offsets = (ctypes.c_uint64 * len(members))(*starts[:-1])
        data = b"".join(members)
        session.call(
            "tiledb_query_condition_alloc_set_membership",
            name,
            data,
            ctypes.c_uint64(len(data)),
            offsets,
            ctypes.c_uint64(8 * len(members)),
            ctypes.c_int(op),
            ctypes.byref(condition),
        )
        return condition
    session.call("tiledb_query_condition_alloc", ctypes.byref(condition))
    value = None if literal is None else encode(datatype, literal)
    size = ctypes.c_uint64(0 if value is None else len(value))
    session.call("tiledb_query_condition_init", condition, name, value, size, ctypes.c_int(op))
    return condition
