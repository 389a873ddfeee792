"""The predicate language.

In: text as users of TileDB type it, and a schema. Out: the predicate as a tree, flat and typed;
negate it to store it. Refuses what the engine could not read back, or would read as another.
Knows no bytes on disk.

    a < 3 and s in ['x', 'y'] or not f >= 2.5      1 < a <= 5      attr("x y") == 3
    dim("d") < val(7)      t >= '2020-01-01'       s == None       c == hex("00ff")

`&` and `|` join comparisons too, and bind tighter than `not`, `and` and `or`.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from chronotile.conditions.codec import MAX_LEVELS
from chronotile.conditions.predicate_literals import LiteralValue, Raw, raw_value
from chronotile.conditions.predicate_tokens import Cursor, Token, string_value
from chronotile.conditions.text import CALLS, WORDS, field_name
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Op, member_of
from chronotile.errors import PredicateError
from chronotile.format.schema import Schema

if TYPE_CHECKING:
    from chronotile.format.schema import Field

_OPS = {op.symbol: op for op in Op if op <= Op.NE}
_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.NE: Op.NE}
_BINDING = {"or": 1, "and": 2, "not": 3, "|": 4, "&": 5}
_HINTS = {
    "=": "; write == to compare",
    "<>": "; write != to compare",
    "&&": "; write and",
    "||": "; write or",
    "is": "; write == None or != None",
    "!": "; write not",
}
_CONSTANTS = {"None": None, "True": True, "False": False}
_LONGEST_NUMBER = 400
_DEEPEST_OPERAND = 50


class _Literal(NamedTuple):
    value: LiteralValue
    start: int


class _Named(NamedTuple):
    field: Field
    start: int


class _Group:
    """An `and` or `or` under construction, kept flat, with the number of its levels."""

    __slots__ = ("any", "levels", "parts")

    def __init__(self, *, any_of: bool, parts: list[_Group | Compare]) -> None:
        self.any = any_of
        self.parts: list[_Group | Compare] = []
        self.levels = 2
        for part in parts:
            self.add(part)

    def add(self, part: _Group | Compare) -> None:
        if isinstance(part, _Group) and part.any is self.any:
            self.parts += part.parts
            self.levels = max(self.levels, part.levels)
        else:
            self.parts.append(part)
            self.levels = max(self.levels, 1 + (part.levels if isinstance(part, _Group) else 1))

    def tree(self) -> Condition:
        parts = tuple(part.tree() if isinstance(part, _Group) else part for part in self.parts)
        return AnyOf(parts=parts) if self.any else AllOf(parts=parts)


def parse_predicate(text: str, schema: Schema) -> Condition:
    r"""Read a predicate: what its author asks to delete or update.

    Raises:
        PredicateError: It cannot be read, or does not fit the schema.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> schema = Schema(version=22, attributes=(Field(name="a", datatype=Datatype.INT8),))
    >>> parse_predicate("not 3 > a", schema) == Compare(field="a", op=Op.GE, value=b"\x03")
    True
    """
    whole = _Parser(text, schema).whole()
    return whole.tree() if isinstance(whole, _Group) else whole


def parse_literal(text: str) -> LiteralValue:
    """Read one value of the predicate language, and nothing else.

    Raises:
        PredicateError: It is no value.

    >>> parse_literal("-3"), parse_literal("'x'"), parse_literal("None")
    (-3, 'x', None)
    """
    return _Parser(text, Schema(version=0)).literal()


class _Parser(Cursor):
    def __init__(self, text: str, schema: Schema) -> None:
        super().__init__(text)
        self.schema = schema

    def literal(self) -> LiteralValue:
        value = self.operand()
        after = self.take()
        if isinstance(value, _Named) or after.kind != "end":
            raise self.fail(f"expected one value, found {after.text!r} after it", after.start)
        return value.value

    def whole(self) -> _Group | Compare:
        """Read the whole predicate, without recursion: the text chooses its depth."""
        operands: list[_Group | Compare] = []
        operators: list[Token] = []
        wants_operand = True
        while True:
            token = self.peek()
            if wants_operand:
                if self.is_word("not"):
                    self.index += 1
                    if operators and operators[-1].text in ("&", "|"):
                        raise self.fail("expected ( before not, found none", token.start)
                    if operators and operators[-1].text == "not":
                        operators.pop()
                    else:
                        operators.append(token)
                elif token.text == "(" and not self.is_operand():
                    operators.append(token)
                    self.index += 1
                else:
                    operands.append(self.comparison())
                    wants_operand = False
            elif token.text == ")" and token.kind == "symbol":
                self.reduce(operands, operators, 0)
                if not operators:
                    raise self.fail("expected a ( before this ), found none", token.start)
                operators.pop()
                self.index += 1
            elif token.kind in ("symbol", "name") and _BINDING.get(token.text, 3) != 3:
                self.reduce(operands, operators, _BINDING[token.text])
                operators.append(token)
                self.index += 1
                wants_operand = True
            elif token.kind == "end":
                break
            else:
                raise self.fail(f"expected and, or, or the end, found {token.text!r}", token.start)
        self.reduce(operands, operators, 0)
        if operators:
            raise self.fail("expected a ) for this (, found none", operators[-1].start)
        return operands[0]

    def reduce(
        self, operands: list[_Group | Compare], operators: list[Token], binding: int
    ) -> None:
        """Apply the operators that bind at least as tightly, back to the last parenthesis."""
        while operators and _BINDING.get(operators[-1].text, -1) >= binding:
            token = operators.pop()
            if token.text == "not":
                operands[-1] = _flipped(operands[-1])
                continue
            right, left = operands.pop(), operands.pop()
            any_of = token.text in ("or", "|")
            if isinstance(left, _Group) and left.any is any_of:
                left.add(right)
            else:
                left = _Group(any_of=any_of, parts=[left, right])
            if left.levels > MAX_LEVELS:
                raise self.fail(f"expected at most {MAX_LEVELS} levels, found more", token.start)
            operands.append(left)

    def comparison(self) -> _Group | Compare:
        token = self.peek()
        if token.text in ("always_true", "always_false") and self.peek(1).text == "(":
            return self.constant()
        left = self.operand()
        if self.is_word("in") or (self.is_word("not") and self.peek(1).text == "in"):
            return self.membership(left)
        chain: list[_Group | Compare] = []
        while self.peek().text in _OPS and self.peek().kind == "symbol":
            op = _OPS[self.take().text]
            right = self.operand()
            chain.append(self.compare(left, op, right))
            left = right
        if not chain:
            after = self.peek()
            problem = f"expected a comparison, found {after.text or 'the end'!r}"
            raise self.fail(f"{problem}{_HINTS.get(after.text, '')}", after.start)
        return chain[0] if len(chain) == 1 else _Group(any_of=False, parts=chain)

    def constant(self) -> Compare:
        op = Op[self.take().text.upper()]
        self.expect("(")
        named = self.operand()
        if isinstance(named, _Literal):
            raise self.fail("expected a field, found a value", named.start)
        raw = b""
        if self.peek().text == ",":
            self.index += 1
            value = self.operand()
            if not (isinstance(value, _Literal) and isinstance(value.value, Raw)):
                raise self.fail('expected hex("…"), found something else', value.start)
            raw = value.value.raw
        self.expect(")")
        return Compare(field=named.field.name, op=op, value=raw)

    def membership(self, left: _Named | _Literal) -> Compare:
        op = Op.IN if self.take().text == "in" else Op.NOT_IN
        if op is Op.NOT_IN:
            self.index += 1
        if isinstance(left, _Literal):
            raise self.fail(f"expected a field before {op.symbol}, found a value", left.start)
        bracket = self.expect("[")
        members: list[bytes] = []
        while self.peek().text != "]":
            value = self.operand()
            if isinstance(value, _Named):
                raise self.fail("expected a value, found a field", value.start)
            members.append(self.typed(left.field, op, value))
            if self.peek().text != ",":
                break
            self.index += 1
        if not members:
            raise self.fail("expected at least one value, found none", self.peek().start)
        self.expect("]")
        if not any(members):
            name = field_name(left.field.name, left.field)
            equal = "==" if op is Op.IN else "!="
            problem = f"expected a member that is not empty: write {name} {equal} ''"
            raise self.fail(problem, bracket.start)
        return member_of(left.field.name, op, tuple(members))

    def operand(self, level: int = 1) -> _Named | _Literal:
        token = self.take()
        if level > _DEEPEST_OPERAND:
            raise self.fail(f"expected at most {_DEEPEST_OPERAND} nested ( here", token.start)
        if token.kind == "symbol" and token.text == "(":
            inner = self.operand(level + 1)
            self.expect(")")
            return inner
        if token.kind in ("string", "bytes"):
            return _Literal(string_value(token, self.text), token.start)
        if token.kind == "number" or (token.kind == "symbol" and token.text in "+-"):
            return self.signed(token)
        if token.kind == "name":
            if token.text in _CONSTANTS:
                return _Literal(_CONSTANTS[token.text], token.start)
            if self.peek().text == "(":
                return self.call(token, level)
            if token.text not in WORDS:
                return self.named(token.text, token)
        shown = repr(token.text) if token.text else "the end"
        hint = _HINTS.get(token.text, "")
        raise self.fail(f"expected a field or a value, found {shown}{hint}", token.start)

    def call(self, token: Token, level: int) -> _Named | _Literal:
        if token.text not in CALLS:
            problem = f"expected attr, dim, val, hex or float before (, found {token.text!r}"
            raise self.fail(problem, token.start)
        self.expect("(")
        argument = self.operand(level + 1)
        if isinstance(argument, _Named):
            raise self.fail(f"expected a value in {token.text}(), found a field", argument.start)
        self.expect(")")
        value = argument.value
        if token.text == "val":
            return argument
        if not isinstance(value, str):
            raise self.fail(f"expected text in {token.text}(), found {value!r}", argument.start)
        try:
            if token.text == "hex":
                return _Literal(Raw(bytes.fromhex(value)), token.start)
            if token.text == "float":
                return _Literal(float(value), token.start)
        except ValueError:
            problem = f"expected {token.text} digits, found {value!r:.40}"
            raise self.fail(problem, argument.start) from None
        named = self.named(value, token)
        if named.field.is_dimension is not (token.text == "dim"):
            expected, found = "an attribute", "a dimension"
            if token.text == "dim":
                expected, found = found, expected
            raise self.fail(f"expected {expected}, found {found}: {value!r}", token.start)
        return named

    def signed(self, token: Token) -> _Literal:
        sign, start = 1, token.start
        while token.kind == "symbol" and token.text in "+-":
            sign = -sign if token.text == "-" else sign
            token = self.take()
        if token.kind != "number":
            raise self.fail(f"expected a number, found {token.text!r}", token.start)
        text = token.text.replace("_", "")
        if len(text) > _LONGEST_NUMBER:
            raise self.fail(f"expected a number of at most {_LONGEST_NUMBER} digits", token.start)
        if text[:2] in ("0x", "0X"):
            return _Literal(sign * int(text, 16), start)
        if text.isdigit():
            return _Literal(sign * int(text), start)
        return _Literal(Decimal(text).copy_sign(Decimal(sign)), start)

    def named(self, name: str, token: Token) -> _Named:
        field = self.schema.field(name)
        if field is not None:
            return _Named(field, token.start)
        if self.peek().text == "." and token.text == name:
            raise self.fail(f'expected a name without a dot: write attr("{name}.…")', token.start)
        known = [other.name for other in self.schema.fields]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "text needs quotes"
        raise self.fail(f"expected a field of the schema, found {name!r}; {hint}", token.start)

    def compare(self, left: _Named | _Literal, op: Op, right: _Named | _Literal) -> Compare:
        if isinstance(left, _Literal):
            if isinstance(right, _Literal):
                raise self.fail("expected a field on one side, found two values", left.start)
            left, right, op = right, left, _MIRRORED[op]
        if isinstance(right, _Named):
            raise self.fail("expected a value on one side, found two fields", right.start)
        raw = self.typed(left.field, op, right)
        return Compare(field=left.field.name, op=op, value=raw)

    def typed(self, field: Field, op: Op, literal: _Literal) -> bytes:
        try:
            return raw_value(field, op, literal.value)
        except PredicateError as cause:
            problem = f"{field_name(field.name, field)}: {cause.problem}"
            raise self.fail(problem, literal.start) from None

    def is_operand(self) -> bool:
        """Whether the next token opens parentheses around a single operand."""
        ahead = 1
        while self.peek(ahead).text in ("+", "-"):
            ahead += 1
        if self.peek(ahead).kind in ("symbol", "end"):
            return False
        if self.peek(ahead).text in CALLS:
            while self.peek(ahead).text != ")" and self.peek(ahead).kind != "end":
                ahead += 1
        return self.peek(ahead + 1).text == ")"


def _flipped(part: _Group | Compare) -> _Group | Compare:
    if isinstance(part, Compare):
        return replace(part, op=part.op.negated)
    part.any = not part.any
    part.parts = [_flipped(child) for child in part.parts]
    return part
