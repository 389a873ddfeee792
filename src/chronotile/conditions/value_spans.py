"""The values that a row has to hold so that a predicate can match it.

In: a flat predicate, the fields. Out: its covers. A cover is some spans of numbers, or some texts,
and what is left to be asked: a predicate matches just the rows that are in one of the spans and
satisfy the rest. Knows no row.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, fold
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.format.schema import Field

MOST_SPANS = 64
"""What asks for more of them has no cover."""


class Span(NamedTuple):
    """Numbers of one field, both ends included; or one text: both ends are its bytes."""

    field: str
    low: Any
    high: Any


class Cover(NamedTuple):
    """A way to find the rows that a predicate matches."""

    spans: tuple[Span, ...]
    """Each row that matches holds a value of one of them, which is not NULL."""
    rest: tuple[Span | Condition, ...] = ()
    """What such a row has to be in, or to satisfy, besides."""


def number(raw: bytes, field: Field) -> Any:
    r"""A number that a comparison compares with; 0 for bytes of a wrong size.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field
    >>> int(number(b"\x03", Field(name="a", datatype=Datatype.INT8)))
    3
    """
    return _number(raw, field.datatype)


@lru_cache(maxsize=4096)
def _number(raw: bytes, datatype: Datatype) -> Any:
    size = datatype.size
    return np.frombuffer(raw if len(raw) == size else bytes(size), f"<{datatype.code}")[0]


def covers(predicate: Condition, fields: Mapping[str, Field]) -> tuple[Cover, ...]:
    r"""The covers of a flat predicate; none if it can match whatever the values are.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field
    >>> a = Field(name="a", datatype=Datatype.INT8)
    >>> node = Compare(field="a", op=Op.LT, value=b"\x03")
    >>> [(int(span.low), int(span.high)) for span in covers(node, {"a": a})[0].spans]
    [(-128, 2)]
    """

    def leaf(node: Compare) -> list[Cover]:
        cover = _cover(node, fields.get(node.field))
        return [] if cover is None else [cover]

    def join(node: AllOf | AnyOf | Not, parts: list[list[Cover]]) -> list[Cover]:
        if isinstance(node, AllOf):
            return _of_all(node, parts)
        if isinstance(node, Not) or not all(parts):
            return []
        chosen = [min(part, key=_width) for part in parts]
        spans = tuple(span for cover in chosen for span in cover.spans)
        rest = (node,) if any(cover.rest for cover in chosen) else ()
        return [Cover(spans, rest)] if len(spans) <= MOST_SPANS else []

    found: list[Cover] = fold(predicate, leaf, join)
    return tuple(found)


def _cover(node: Compare, field: Field | None) -> Cover | None:
    if field is None or not (field.is_number or is_plain_bytes(field, node.op)):
        return None
    if node.op.is_constant:
        return Cover(()) if node.op is Op.ALWAYS_FALSE else None
    if node.op.is_set:
        return _members(node, field) if node.op is Op.IN else None
    if node.op is Op.NE or (field.nullable and not node.value):
        return None
    return _of_number(node, field) if field.is_number else _of_text(node)


def is_plain_bytes(field: Field, op: Op) -> bool:
    """Whether a comparison compares the bytes of cells as they are."""
    is_char = field.datatype is Datatype.CHAR and not field.is_var and not op.is_set
    return field.datatype.code is None and not is_char


def _of_text(node: Compare) -> Cover | None:
    if node.op is not Op.EQ:
        return None
    return Cover((Span(node.field, node.value, node.value),))


def _of_number(node: Compare, field: Field) -> Cover:
    value = number(node.value, field)
    least, most = _ends(value.dtype)
    if value != value:
        return Cover(())
    low = high = value
    if node.op in (Op.LT, Op.LE):
        low = least
    elif node.op in (Op.GT, Op.GE):
        high = most
    if node.op is Op.LT:
        if value == least:
            return Cover(())
        high = _beside(value, -1)
    elif node.op is Op.GT:
        if value == most:
            return Cover(())
        low = _beside(value, 1)
    return Cover((Span(node.field, low, high),))


def _members(node: Compare, field: Field) -> Cover | None:
    if len(node.offsets) > MOST_SPANS:
        return None
    if not field.is_number:
        return Cover(tuple(Span(node.field, one, one) for one in node.members))
    sized = (one for one in node.members if len(one) == field.datatype.size)
    numbers = [number(one, field) for one in sized]
    if any(one != one for one in numbers):
        return None  # NaN is a member of its own: bytes are compared
    spans = tuple(Span(node.field, one, one) for one in numbers)
    return Cover(spans, (node,) if field.datatype.is_float else ())


def _ends(kind: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and the largest number of a type."""
    if kind.kind == "f":
        return kind.type(-np.inf), kind.type(np.inf)
    limits = np.iinfo(kind)
    return kind.type(limits.min), kind.type(limits.max)


def _beside(value: Any, step: int) -> Any:
    """The next number of a type, downwards or upwards."""
    if value.dtype.kind == "f":
        return np.nextafter(value, value.dtype.type(step * np.inf))
    return value.dtype.type(int(value) + step)


def _of_all(node: AllOf, parts: list[list[Cover]]) -> list[Cover]:
    """The covers of an `and`: the spans of one field are cut to what they share."""
    shared: dict[str, Span] = {}
    alone = [len(part) == 1 and len(part[0].spans) == 1 and not part[0].rest for part in parts]
    for (cover,) in itertools.compress(parts, alone):
        (span,) = cover.spans
        was = shared.get(span.field, span)
        shared[span.field] = Span(span.field, max(was.low, span.low), min(was.high, span.high))
    if any(span.low > span.high for span in shared.values()):
        return [Cover(())]
    # Whatever is no single span: a condition to ask, and perhaps covers of its own.
    others = [
        (part, own) for part, own, one in zip(node.parts, parts, alone, strict=True) if not one
    ]
    asked = tuple(part for part, _ in others)
    spans = tuple(shared.values())
    found = [Cover((span,), (*(one for one in spans if one is not span), *asked)) for span in spans]
    for part, own in others:
        beside = (*spans, *(one for one in asked if one is not part))
        found += [Cover(cover.spans, (*cover.rest, *beside)) for cover in own]
    return found


def _width(cover: Cover) -> int:
    """How much a cover looks like, without a look at the rows."""
    return sum(1 if span.low == span.high else 100 for span in cover.spans)
