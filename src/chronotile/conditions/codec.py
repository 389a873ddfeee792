"""Conditions as bytes.

In: the payload of a delete or update tile, or a tree. Out: the other one.
Knows no schema, so values stay raw. Checks each size before it uses it.
"""

from __future__ import annotations

import itertools
import struct
from typing import assert_never

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, UpdateValue
from chronotile.errors import BadFileError, PredicateError

MAX_LEVELS = 250
"""Levels of the deepest tree that `decode` and `encode` take; the root is level 1."""

_SMALLEST_NODE = 10
_SMALLEST_LEAF = 14
_NODE = struct.Struct("<BB")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_OPS = {int(op): op for op in Op}


def encode(node: Condition) -> bytes:
    r"""Write a condition as the payload of a delete tile.

    Raises:
        PredicateError: The tree has more than `MAX_LEVELS` levels.

    >>> encode(Compare(field="a", op=Op.GE, value=b"\x03\0\0\0")).hex()
    '01030100000061040000000000000003000000'
    """
    out: list[bytes] = []
    waiting: list[tuple[Condition, int]] = [(node, 1)]
    while waiting:
        part, level = waiting.pop()
        if level > MAX_LEVELS:
            problem = f"expected at most {MAX_LEVELS} levels, found more"
            raise PredicateError("condition", problem)
        match part:
            case Compare():
                out.append(_leaf_bytes(part))
                continue
            case AllOf(parts=parts):
                kind = 0
            case AnyOf(parts=parts):
                kind = 1
            case Not():
                kind, parts = 2, (part.part,)
            case _:
                assert_never(part)
        out.append(_NODE.pack(0, kind) + _U64.pack(len(parts)))
        waiting.extend((child, level + 1) for child in reversed(parts))
    return b"".join(out)


def encode_update(node: Condition, values: tuple[UpdateValue, ...]) -> bytes:
    r"""Write a condition and the values that it sets as the payload of an update tile.

    >>> node = Compare(field="a", op=Op.GE, value=b"\x03\0\0\0")
    >>> decode_update(encode_update(node, (UpdateValue("a", b"x"),)))[1]
    (UpdateValue(field='a', value=b'x'),)
    """
    out = [encode(node), _U64.pack(len(values))]
    for field, value in values:
        name = field.encode()
        out += (_U64.pack(len(name)), name, _U64.pack(len(value)), value)
    return b"".join(out)


def decode(payload: bytes, where: str = "condition") -> Condition:
    """Read the payload of a delete tile.

    >>> decode(bytes.fromhex("01030100000061040000000000000003000000")).field
    'a'
    """
    leaf = _plain_leaf(payload)
    if leaf is not None:
        return leaf
    cursor = _Cursor(payload, where)
    node = cursor.tree()
    cursor.finish()
    return node


def _plain_leaf(payload: bytes) -> Compare | None:
    """Read one comparison with one value, as in most deletes; None for anything else."""
    op = _OPS.get(payload[1]) if len(payload) >= _SMALLEST_LEAF and payload[0] == 1 else None
    if op is None or op.is_set:
        return None
    name_end = 6 + int.from_bytes(payload[2:6], "little")
    start = name_end + 8
    if start + int.from_bytes(payload[name_end:start], "little") != len(payload):
        return None
    try:
        field = payload[6:name_end].decode()
    except UnicodeDecodeError:
        return None
    return Compare(field=field, op=op, value=payload[start:])


def decode_update(
    payload: bytes, where: str = "update"
) -> tuple[Condition, tuple[UpdateValue, ...]]:
    """Read the payload of an update tile.

    >>> node = Compare(field="a", op=Op.LT)
    >>> decode_update(encode_update(node, ()))[0] == node
    True
    """
    cursor = _Cursor(payload, where)
    node = cursor.tree()
    count = cursor.u64("a number of values", cursor.left(8) // 16)
    values = []
    for _ in range(count):
        field = cursor.text(cursor.u64("the size of a name", cursor.left(8)))
        values.append(UpdateValue(field, cursor.take(cursor.u64("a size", cursor.left(8)))))
    cursor.finish()
    return node, tuple(values)


def _leaf_bytes(leaf: Compare) -> bytes:
    name = leaf.field.encode()
    parts = [_NODE.pack(1, leaf.op), _U32.pack(len(name)), name]
    parts += [_U64.pack(len(leaf.value)), leaf.value]
    if leaf.op.is_set:
        count = len(leaf.offsets)
        parts.append(struct.pack(f"<{count + 1}Q", 8 * count, *leaf.offsets))
    return b"".join(parts)


class _Cursor:
    """A position in the bytes; it checks each size against the bytes left before it uses it."""

    __slots__ = ("data", "position", "where")

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        self.position = 0

    def left(self, after: int = 0) -> int:
        return len(self.data) - self.position - after

    def wrong(self, problem: str, start: int) -> BadFileError:
        return BadFileError(self.where, problem, start)

    def take(self, size: int) -> bytes:
        if self.left() < size:
            raise self.wrong(f"expected {size} bytes, found {self.left()}", self.position)
        self.position += size
        return self.data[self.position - size : self.position]

    def u64(self, what: str, most: int) -> int:
        start = self.position
        number: int = _U64.unpack(self.take(8))[0]
        if number > most:
            raise self.wrong(f"expected {what} of at most {max(most, 0)}, found {number}", start)
        return number

    def text(self, size: int) -> str:
        start = self.position
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as cause:
            raise self.wrong("expected a field name in UTF-8, found other bytes", start) from cause

    def finish(self) -> None:
        if self.left():
            raise self.wrong(f"expected the end, found {self.left()} bytes more", self.position)

    def tree(self) -> Condition:
        """Read one tree, without recursion: the bytes choose its depth."""
        open_nodes: list[tuple[int, int, list[Condition]]] = []
        while True:
            start = self.position
            kind, op = _NODE.unpack(self.take(2))
            if kind == 1:
                node: Condition = self.leaf(op, start)
            elif kind == 0:
                count = self.count(op, len(open_nodes) + 1, start)
                if count:
                    open_nodes.append((op, count, []))
                    continue
                node = _joined(op, [])
            else:
                raise self.wrong(f"expected node type 0 or 1, found {kind}", start)
            while open_nodes:
                op, count, parts = open_nodes[-1]
                parts.append(node)
                if len(parts) < count:
                    break
                open_nodes.pop()
                node = _joined(op, parts)
            else:
                return node

    def count(self, op: int, level: int, start: int) -> int:
        if op > 2:
            raise self.wrong(f"expected combination op 0, 1 or 2, found {op}", start + 1)
        count = self.u64("a number of children", self.left(8) // _SMALLEST_NODE)
        if count and level >= MAX_LEVELS:
            raise self.wrong(f"expected at most {MAX_LEVELS} levels, found more", start)
        if op == 2 and count != 1:
            raise self.wrong(f"expected one child of NOT, found {count}", start + 2)
        return count

    def leaf(self, number: int, start: int) -> Compare:
        op = _OPS.get(number)
        if op is None:
            raise self.wrong(f"expected an op from 0 to 7, 253 or 254, found {number}", start + 1)
        field = self.text(_U32.unpack(self.take(4))[0])
        value = self.take(self.u64("a value size", self.left(8)))
        offsets = self.offsets(len(value)) if op.is_set else ()
        return Compare(field=field, op=op, value=value, offsets=offsets)

    def offsets(self, most: int) -> tuple[int, ...]:
        start = self.position
        size = self.u64("a size of offsets", self.left(8))
        if size % 8:
            raise self.wrong(f"expected offsets of 8 bytes each, found {size} bytes", start)
        offsets: tuple[int, ...] = struct.unpack(f"<{size // 8}Q", self.take(size))
        if any(a > b for a, b in itertools.pairwise(offsets)) or (offsets and offsets[-1] > most):
            raise self.wrong(f"expected offsets that rise, up to {most}, found others", start + 8)
        return offsets


def _joined(op: int, parts: list[Condition]) -> Condition:
    if op == 2:
        return Not(part=parts[0])
    return AllOf(parts=tuple(parts)) if op == 0 else AnyOf(parts=tuple(parts))
