"""The tree of a condition.

In: fields, ops and raw values. Out: small frozen nodes, their negation and their flat form.
Knows neither schema nor bytes on disk, nor whether a tree is a predicate or stored.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar, assert_never

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Op(enum.IntEnum):
    """The op of a comparison, numbered as on disk.

    >>> Op.LT.symbol, Op.LT.negated.symbol, Op.NOT_IN.is_set
    ('<', '>=', True)
    """

    LT = 0
    LE = 1
    GT = 2
    GE = 3
    EQ = 4
    NE = 5
    IN = 6
    NOT_IN = 7
    ALWAYS_TRUE = 253
    ALWAYS_FALSE = 254

    @property
    def symbol(self) -> str:
        """The op in the predicate language."""
        return _SYMBOLS[self]

    @property
    def negated(self) -> Op:
        """The op that is true where this one is false, NULL and NaN aside."""
        return _NEGATED[self]

    @property
    def is_set(self) -> bool:
        """True if it compares with a list of members."""
        return self in (Op.IN, Op.NOT_IN)

    @property
    def is_order(self) -> bool:
        """True if it asks which of two values is larger."""
        return self <= Op.GE

    @property
    def is_constant(self) -> bool:
        """True if it compares nothing."""
        return self >= Op.ALWAYS_TRUE


_SIGNS = ("<", "<=", ">", ">=", "==", "!=", "in", "not in", "always_true", "always_false")
_SYMBOLS = dict(zip(Op, _SIGNS, strict=True))
_OPPOSITES = {
    Op.LT: Op.GE,
    Op.GT: Op.LE,
    Op.EQ: Op.NE,
    Op.IN: Op.NOT_IN,
    Op.ALWAYS_TRUE: Op.ALWAYS_FALSE,
}
_NEGATED = _OPPOSITES | {negated: op for op, negated in _OPPOSITES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """One comparison of a field with a value."""

    field: str
    op: Op
    value: bytes = b""
    """Raw bytes of the field's type; no bytes mean NULL or the empty string."""
    offsets: tuple[int, ...] = ()
    """Where each member of an `in` or `not in` starts in the value."""
    is_empty_text: bool = False
    """True if no bytes mean the empty string, and not NULL. A file does not say which."""

    @property
    def members(self) -> tuple[bytes, ...]:
        """The members of an `in` or `not in`."""
        ends = (*self.offsets[1:], len(self.value))
        return tuple(self.value[a:b] for a, b in zip(self.offsets, ends, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """True where every part is true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """True where at least one part is true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """True where its part is false. Legal on disk, but the engine cannot read it."""

    part: Condition


Condition = Compare | AllOf | AnyOf | Not


class UpdateValue(NamedTuple):
    """A field and the raw bytes that an update sets it to."""

    field: str
    value: bytes


def member_of(field: str, op: Op, members: tuple[bytes, ...]) -> Compare:
    """Make an `in` or `not in`.

    >>> member_of("s", Op.IN, (b"ab", b"c")).offsets
    (0, 2)
    """
    ends = itertools.accumulate(map(len, members), initial=0)
    offsets = tuple(itertools.islice(ends, len(members)))
    return Compare(field=field, op=op, value=b"".join(members), offsets=offsets)


def fields(node: Condition) -> tuple[str, ...]:
    """List the fields that a condition names, each once, in the order of the tree.

    >>> a, b = Compare(field="a", op=Op.LT), Compare(field="b", op=Op.GT)
    >>> fields(AllOf(parts=(b, a, b)))
    ('b', 'a')
    """
    return tuple(dict.fromkeys(leaf.field for leaf in leaves(node)))


def fold(
    node: Condition,
    leaf: Callable[[Compare], T],
    join: Callable[[AllOf | AnyOf | Not, list[T]], T],
) -> T:
    """Compute an answer from a tree, from its leaves up, without recursion.

    `leaf` answers for a comparison, `join` for any other node from the answers of its parts.

    >>> a = Compare(field="a", op=Op.LT)
    >>> fold(AllOf(parts=(a, a)), lambda leaf: 1, lambda node, answers: sum(answers))
    2
    """
    if isinstance(node, Compare):
        return leaf(node)
    order: list[Condition] = []
    waiting: list[Condition] = [node]
    while waiting:
        order.append(waiting.pop())
        waiting.extend(_parts(order[-1]))
    answers: list[T] = []
    for part in reversed(order):
        if isinstance(part, Compare):
            answers.append(leaf(part))
        else:
            start = len(answers) - len(_parts(part))
            answers[start:] = [join(part, answers[start:])]
    return answers[0]


def leaves(node: Condition) -> tuple[Compare, ...]:
    """List the comparisons of a condition, from left to right.

    >>> [leaf.field for leaf in leaves(Not(part=Compare(field="a", op=Op.LT)))]
    ['a']
    """
    comparisons: list[Compare] = []
    fold(node, comparisons.append, lambda _node, _answers: None)
    return tuple(comparisons)


def negate(node: Condition) -> Condition:
    """Turn a predicate into the stored condition, or back.

    The negation moves down to the comparisons, as the engine stores it.

    >>> negate(Compare(field="a", op=Op.LT, value=b"x")).op.name
    'GE'
    """

    def join(node: AllOf | AnyOf | Not, parts: list[Condition]) -> Condition:
        if isinstance(node, Not):
            return node.part
        return (AnyOf if isinstance(node, AllOf) else AllOf)(parts=tuple(parts))

    return fold(node, _opposite, join)


def _opposite(leaf: Compare) -> Condition:
    return Compare(
        field=leaf.field,
        op=leaf.op.negated,
        value=leaf.value,
        offsets=leaf.offsets,
        is_empty_text=leaf.is_empty_text,
    )


def flatten(node: Condition) -> Condition:
    """Give the same condition without `Not`, and with no `and` in `and`, no `or` in `or`.

    Only a flat tree is safe to write: the engine cannot read `Not`, and reads an `or` directly
    in an `or` as if it were an `and`.

    >>> a, b, c = (Compare(field=name, op=Op.LT) for name in "abc")
    >>> fields(flatten(AnyOf(parts=(AnyOf(parts=(a, b)), c)))), flatten(AllOf(parts=(a,))) == a
    (('a', 'b', 'c'), True)
    """

    def join(node: AllOf | AnyOf | Not, parts: list[Condition]) -> Condition:
        if isinstance(node, Not):
            return negate(parts[0])
        kind = type(node)
        merged: list[Condition] = []
        for part in parts:
            merged += part.parts if isinstance(part, kind) else (part,)
        return merged[0] if len(merged) == 1 else kind(parts=tuple(merged))

    return fold(node, lambda leaf: leaf, join)


def _parts(node: Condition) -> tuple[Condition, ...]:
    match node:
        case Compare():
            return ()
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return parts
        case Not(part=part):
            return (part,)
        case _:
            assert_never(node)
