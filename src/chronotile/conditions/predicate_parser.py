"""The predicate language.

In: text as users of TileDB type it, and a schema. Out: the predicate as a tree, flat and typed;
negate it to store it. Refuses what the engine could not read back, or would read as another.

    a < 3 and s in ['x', 'y'] or not f >= 2.5      1 < a <= 5      attr("x y") == 3
    dim("d") < val(7)      t >= '2020-01-01'       s == None       c == hex("00ff")

`&` and `|` join comparisons too, and bind tighter than `not`, `and` and `or`.
"""

from __future__ import annotations

import difflib
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from chronotile.conditions.codec import MAX_LEVELS
from chronotile.conditions.predicate_literals import LiteralValue, Raw, raw_value
from chronotile.conditions.predicate_tokens import Cursor, Token, string_value
from chronotile.conditions.text import WORDS, field_name
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
_NO_FIELDS = Schema(
    version=0,
    dense=False,
    allows_duplicates=False,
    dimensions=(),
    attributes=(),
    enumeration_files=(),
)
_LONGEST_NUMBER = 400
_DEEPEST_OPERAND = 50


class _Literal(NamedTuple):
    value: LiteralValue
    at: int


class _Named(NamedTuple):
    field: Field
    at: int


class _Group:
    """An `and` or `or` under construction: flat, and aware of its depth."""

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

    Args:
        text: The predicate.
        schema: The fields that it may name, and their types.

    Raises:
        PredicateError: If it cannot be read, or does not fit the schema.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> a = Field(name="a", datatype=Datatype.INT8, cell_val_num=1, nullable=False,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(a,), enumeration_files=())
    >>> parse_predicate("not 3 > a", schema) == Compare(field="a", op=Op.GE, value=b"\x03")
    True
    """
    whole = _Parser(text, schema).whole()
    return whole.tree() if isinstance(whole, _Group) else whole


def parse_literal(text: str) -> LiteralValue:
    """Read one value of the predicate language, and nothing else.

    Raises:
        PredicateError: If it is no value.

    >>> parse_literal("-3"), parse_literal("'x'"), parse_literal("None")
    (-3, 'x', None)
    """
    return _Parser(text, _NO_FIELDS).literal()


class _Parser(Cursor):
    def __init__(self, text: str, schema: Schema) -> None:
        super().__init__(text)
        self.schema = schema

    def literal(self) -> LiteralValue:
        value = self.operand()
        after = self.take()
        if isinstance(value, _Named) or after.kind != "end":
            raise self.fail(f"expected one value, found {after.text!r} after it", after)
        return value.value

    # The grammar, without recursion: the text chooses its depth.

    def whole(self) -> _Group | Compare:
        operands: list[_Group | Compare] = []
        operators: list[Token] = []
        wants_operand = True
        while True:
            token = self.peek()
            if wants_operand:
                if self.is_word("not"):
                    self.index += 1
                    if operators and operators[-1].text in ("&", "|"):
                        raise self.fail("expected ( before not, found none", token)
                    if operators and operators[-1].text == "not":
                        operators.pop()
                    else:
                        operators.append(token)
                elif token.text == "(" and self.operand_end(self.index) is None:
                    operators.append(token)
                    self.index += 1
                else:
                    operands.append(self.comparison())
                    wants_operand = False
            elif token.text == ")" and token.kind == "symbol":
                self.reduce(operands, operators, 0)
                if not operators:
                    raise self.fail("expected a ( before this ), found none", token)
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
                raise self.fail(f"expected and, or, or the end, found {token.text!r}", token)
        self.reduce(operands, operators, 0)
        if operators:
            raise self.fail("expected a ) for this (, found none", operators[-1])
        return operands[0]

    def reduce(
        self, operands: list[_Group | Compare], operators: list[Token], binding: int
    ) -> None:
        while operators and operators[-1].text != "(":
            token = operators[-1]
            if _BINDING[token.text] < binding:
                return
            operators.pop()
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
                raise self.fail(f"expected at most {MAX_LEVELS} levels, found more", token)
            operands.append(left)

    def comparison(self) -> _Group | Compare:
        token = self.peek()
        if token.text in ("always_true", "always_false") and self.peek(1).text == "(":
            return self.constant()
        left = self.operand()
        if self.is_word("in") or (self.is_word("not") and self.peek(1).text == "in"):
            return self.membership(left)
        found: list[_Group | Compare] = []
        while self.peek().text in _OPS and self.peek().kind == "symbol":
            op = _OPS[self.take().text]
            right = self.operand()
            found.append(self.compare(left, op, right))
            left = right
        if not found:
            after = self.peek()
            raise self.fail(
                f"expected a comparison, found {after.text or 'the end'!r}"
                f"{_HINTS.get(after.text, '')}",
                after,
            )
        return found[0] if len(found) == 1 else _Group(any_of=False, parts=found)

    def constant(self) -> Compare:
        op = Op[self.take().text.upper()]
        self.expect("(")
        named = self.operand()
        if isinstance(named, _Literal):
            raise self.fail_at("expected a field, found a value", named.at)
        raw = b""
        if self.peek().text == ",":
            self.index += 1
            raw = self.raw(self.operand())
        self.expect(")")
        return Compare(field=named.field.name, op=op, value=raw)

    def membership(self, left: _Named | _Literal) -> Compare:
        op = Op.IN if self.take().text == "in" else Op.NOT_IN
        if op is Op.NOT_IN:
            self.index += 1
        if isinstance(left, _Literal):
            raise self.fail_at(f"expected a field before {op.symbol}, found a value", left.at)
        start = self.expect("[")
        members: list[bytes] = []
        while not members or self.peek().text == ",":
            if members:
                self.index += 1
                if self.peek().text == "]":
                    break
            members.append(self.member(left.field, op))
        self.expect("]")
        if not any(members):
            name = field_name(left.field.name, left.field)
            equal = "==" if op is Op.IN else "!="
            problem = f"expected a member that is not empty: write {name} {equal} ''"
            raise self.fail(problem, start)
        return member_of(left.field.name, op, tuple(members))

    def member(self, field: Field, op: Op) -> bytes:
        if self.peek().text == "]":
            raise self.fail("expected at least one value, found none", self.peek())
        value = self.operand()
        if isinstance(value, _Named):
            raise self.fail_at("expected a value, found a field", value.at)
        return self.typed(field, op, value)

    def operand(self, level: int = 1) -> _Named | _Literal:
        token = self.take()
        if level > _DEEPEST_OPERAND:
            raise self.fail(f"expected at most {_DEEPEST_OPERAND} nested ( here", token)
        if token.kind == "symbol" and token.text == "(":
            inner = self.operand(level + 1)
            self.expect(")")
            return inner
        if token.kind in ("string", "bytes"):
            return _Literal(string_value(token, self.text), token.at)
        if token.kind == "number" or (token.kind == "symbol" and token.text in "+-"):
            return self.signed(token)
        if token.kind == "name":
            if token.text in ("None", "True", "False"):
                return _Literal({"None": None, "True": True, "False": False}[token.text], token.at)
            if self.peek().text == "(":
                return self.call(token, level)
            if token.text not in WORDS:
                return self.named(token.text, token)
        found = repr(token.text) if token.text else "the end"
        hint = _HINTS.get(token.text, "")
        raise self.fail(f"expected a field or a value, found {found}{hint}", token)

    def call(self, token: Token, level: int) -> _Named | _Literal:
        if token.text not in ("attr", "dim", "val", "hex", "float"):
            problem = f"expected attr, dim, val, hex or float before (, found {token.text!r}"
            raise self.fail(problem, token)
        self.expect("(")
        argument = self.operand(level + 1)
        if isinstance(argument, _Named):
            raise self.fail_at(f"expected a value in {token.text}(), found a field", argument.at)
        self.expect(")")
        value = argument.value
        if token.text == "val":
            return argument
        if not isinstance(value, str):
            raise self.fail_at(f"expected text in {token.text}(), found {value!r}", argument.at)
        try:
            if token.text == "hex":
                return _Literal(Raw(bytes.fromhex(value)), token.at)
            if token.text == "float":
                return _Literal(float(value), token.at)
        except ValueError:
            problem = f"expected {token.text} digits, found {value!r:.40}"
            raise self.fail_at(problem, argument.at) from None
        named = self.named(value, token)
        if named.field.is_dimension is not (token.text == "dim"):
            other = "a dimension" if named.field.is_dimension else "an attribute"
            raise self.fail(f"{value!r} is {other}", token)
        return named

    def signed(self, token: Token) -> _Literal:
        sign = 1
        first = token
        while token.kind == "symbol" and token.text in "+-":
            sign = -sign if token.text == "-" else sign
            token = self.take()
        if token.kind != "number":
            raise self.fail(f"expected a number, found {token.text!r}", token)
        text = token.text.replace("_", "")
        if len(text) > _LONGEST_NUMBER:
            raise self.fail(f"expected a number of at most {_LONGEST_NUMBER} digits", token)
        if text[:2] in ("0x", "0X"):
            return _Literal(sign * int(text, 16), first.at)
        if text.isdigit():
            return _Literal(sign * int(text), first.at)
        return _Literal(Decimal(text).copy_sign(Decimal(sign)), first.at)

    def named(self, name: str, token: Token) -> _Named:
        field = self.schema.field(name)
        if field is not None:
            return _Named(field, token.at)
        if self.peek().text == "." and token.text == name:
            raise self.fail(f'expected a name without a dot: write attr("{name}.…")', token)
        known = [other.name for other in self.schema.fields]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "text needs quotes"
        raise self.fail(f"expected a field of the schema, found {name!r}; {hint}", token)

    def compare(self, left: _Named | _Literal, op: Op, right: _Named | _Literal) -> Compare:
        if isinstance(left, _Literal):
            if isinstance(right, _Literal):
                raise self.fail_at("expected a field on one side, found two values", left.at)
            left, right, op = right, left, _MIRRORED[op]
        if isinstance(right, _Named):
            raise self.fail_at("expected a value on one side, found two fields", right.at)
        raw = self.typed(left.field, op, right)
        return Compare(field=left.field.name, op=op, value=raw)

    def typed(self, field: Field, op: Op, literal: _Literal) -> bytes:
        try:
            return raw_value(field, op, literal.value)
        except PredicateError as cause:
            named = f"{field_name(field.name, field)}: {cause.problem}"
            raise self.fail_at(named, literal.at) from None

    def raw(self, operand: _Named | _Literal) -> bytes:
        if isinstance(operand, _Literal) and isinstance(operand.value, Raw):
            return operand.value.raw
        raise self.fail_at('expected hex("…"), found something else', operand.at)

    def operand_end(self, start: int) -> int | None:
        """Where a single operand in parentheses ends, if that is what starts here."""
        end = start + 1
        while end < len(self.tokens) and self.tokens[end].text in ("+", "-"):
            end += 1
        if end + 1 >= len(self.tokens) or self.tokens[end].kind in ("symbol", "end"):
            return None
        if self.tokens[end].text in ("attr", "dim", "val", "hex", "float"):
            while end < len(self.tokens) - 1 and self.tokens[end].text != ")":
                end += 1
        return end + 1 if self.tokens[min(end + 1, len(self.tokens) - 1)].text == ")" else None


def _flipped(part: _Group | Compare) -> _Group | Compare:
    if isinstance(part, Compare):
        return Compare(field=part.field, op=part.op.negated, value=part.value, offsets=part.offsets)
    part.any = not part.any
    part.parts = [_flipped(child) for child in part.parts]
    return part
