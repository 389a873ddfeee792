"""Conditions from their JSON: the way back that the tests hold the JSON to.

In: a document as `chronotile.conditions.text.to_json` gives it, and a schema where one is at hand.
Out: the tree. It does not say whether a tree is stored or asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.conditions.codec import MAX_LEVELS
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, member_of
from chronotile.errors import PredicateError
from chronotile.format import cell_values

if TYPE_CHECKING:
    from chronotile.format.cell_values import Json
    from chronotile.format.schema import Field, Schema

_BY_NAME = {op.name.lower(): op for op in Op}


def from_json(document: object, schema: Schema | None = None) -> Condition:
    """Take back what `to_json` gave.

    `raw` is what counts, where it is there. The members of an `in` are found by `value`, or
    by the width of the field, so an `in` needs the schema.

    Raises:
        PredicateError: If the document is no condition.

    >>> from_json({"op": "lt", "field": "a", "raw": "78"}).value
    b'x'
    """
    return _from_json(document, schema, 1)


def _from_json(document: object, schema: Schema | None, level: int) -> Condition:
    if not isinstance(document, dict) or not isinstance(document.get("op"), str):
        raise _wrong("an object with an op", document)
    if level > MAX_LEVELS:
        raise _wrong(f"at most {MAX_LEVELS} levels", "more")
    op = document["op"]
    if op in ("and", "or", "not"):
        children = document.get("children")
        if not isinstance(children, list) or (op == "not" and len(children) != 1):
            raise _wrong("a list of children, one for not", children)
        parts = tuple(_from_json(child, schema, level + 1) for child in children)
        if op == "not":
            return Not(part=parts[0])
        return AllOf(parts=parts) if op == "and" else AnyOf(parts=parts)
    if op not in _BY_NAME:
        raise _wrong(f"an op of {', '.join(_BY_NAME)}, and, or, not", op)
    return _leaf_from_json(document, _BY_NAME[op], schema)


def _leaf_from_json(document: dict[str, Json], op: Op, schema: Schema | None) -> Compare:
    name, raw_text = document.get("field"), document.get("raw")
    if not isinstance(name, str):
        raise _wrong("a field name", name)
    field = schema.field(name) if schema else None
    raw = None
    if raw_text is not None:
        try:
            raw = bytes.fromhex(raw_text)  # type: ignore[arg-type]  # a TypeError says the same
        except (ValueError, TypeError) as cause:
            raise _wrong("raw as hex digits", raw_text) from cause
    if op.is_set:
        return member_of(name, op, _members(document, field, raw))
    if raw is None:
        raw = _raw(field, name, document.get("value"))
    return Compare(field=name, op=op, value=raw)


def _raw(field: Field | None, name: str, value: Json) -> bytes:
    if value is None:
        return b""
    if field is None:
        raise _wrong("raw, or a schema that has the field", name)
    return cell_values.encode(field, cell_values.from_json(field, value))


def _members(
    document: dict[str, Json], field: Field | None, raw: bytes | None
) -> tuple[bytes, ...]:
    listed = document.get("value")
    size = field.cell_size if field is not None else None
    if raw is not None and size and len(raw) % size == 0:
        return tuple(raw[at : at + size] for at in range(0, len(raw), size))
    if raw == b"" and listed in (None, []):
        return ()
    if field is None or not isinstance(listed, list):
        raise _wrong("a list of values, and a schema that has the field", listed)
    members: list[bytes] = []
    for value in listed:
        members.append(_member(field, value, None if raw is None else raw[_size(members) :]))
    if raw is not None and b"".join(members) != raw:
        raise _wrong("values that agree with raw", listed)
    return tuple(members)


def _size(members: list[bytes]) -> int:
    return sum(len(member) for member in members)


def _member(field: Field, value: Json, rest: bytes | None) -> bytes:
    member = cell_values.encode(field, cell_values.from_json(field, value))
    if rest is None or rest.startswith(member) or not isinstance(value, str):
        return member
    # Bytes that are not text are hex in JSON: only `raw` tells them from text.
    try:
        return bytes.fromhex(value)
    except ValueError:
        return member


def _wrong(expected: str, found: object) -> PredicateError:
    return PredicateError("condition", f"expected {expected}, found {found!r:.60}")
