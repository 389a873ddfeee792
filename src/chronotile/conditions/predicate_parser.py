"""The predicate language.

In: text as users of TileDB type it, and a schema. Out: the predicate as a tree, flat and typed;
negate it to store it. Refuses comparisons that the engine could not read back, or would read as
something else. Knows no bytes on disk.

    a < 3 and s in ['x', 'y'] or not f >= 2.5      1 < a <= 5      attr("x y") == 3
    dim("d") < val(7)      t >= '2020-01-01'       s is null       c == hex("00ff")

Python's grammar tells which parts belong together; nothing is evaluated. Python never sees a field
or a value: a name of the same length stands for each. So a field may be called `class`, a literal
costs nothing before its size is known, and columns stay true. As in Python, `&` and `|` bind
tighter than comparisons, which need parentheses beside them.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from chronotile.conditions.text import CALLS, COMPARABLE_TEXT, WORDS, field_name
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, flatten, member_of
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype
from chronotile.format.schema import Field, Schema
from chronotile.safe_text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


T = TypeVar("T")

MAX_LENGTH = 1_000_000
"""Characters of the longest predicate."""
MAX_NESTED = 150
"""Parentheses in each other; Python takes 180 of any kind."""
MAX_BIT_SIGNS = 500
"""Signs `&` and `|`; each makes Python's tree one level deeper."""
_LONGEST_NUMBER = 400
_SHOWN = 60

_WORD = re.compile(
    r"""(?P<null>(?ai:is)\s+(?:(?ai:not)\s+)?(?ai:null)(?!\w))
    |(?P<leaf>(?:[bB]?(?:'(?:[^'\\\n\r\0]|\\[^\r\0])*+'|"(?:[^"\\\n\r\0]|\\[^\r\0])*+")
       |0[xX][0-9a-fA-F][0-9a-fA-F_]*+
       |(?:[0-9][0-9_]*+(?:\.[0-9_]*+)?|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9]++)?
       |[^\W\d]\w*+)(?![\w'".]))
    |(?P<sign><=|>=|==|!=|(?!<>|&&|\|\|)[-+<>()\[\],&|])
    |(?P<space>\s)
    |(?P<wrong>.)""",
    re.VERBOSE | re.DOTALL,
)
"""A leaf is a string, a number or a name. None touches the next: their masks would be one name."""
_OPERATORS = ("and", "or", "not", "in", "is")
_SIGNS_IN_A_ROW = re.compile(r"(?:(?:not\b|[-+])\s*+){50}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ESCAPE = re.compile(r"""\\(?:(?P<large>[4-7][0-7]{2})|[\n\\'"abfnrtv0-7xuU]|(?P<plain>.))""")
_HINTS = {
    "<>": "; write != to compare",
    "&&": "; write and",
    "||": "; write or",
    "=": "; write == to compare",
    "!": "; write not",
}
_OPS: dict[type[ast.cmpop], Op] = {
    ast.Lt: Op.LT,
    ast.LtE: Op.LE,
    ast.Gt: Op.GT,
    ast.GtE: Op.GE,
    ast.Eq: Op.EQ,
    ast.NotEq: Op.NE,
    ast.Is: Op.EQ,
    ast.IsNot: Op.NE,
    ast.In: Op.IN,
    ast.NotIn: Op.NOT_IN,
}
_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_ALWAYS = {"always_true": Op.ALWAYS_TRUE, "always_false": Op.ALWAYS_FALSE}
_CONSTANTS = {"None": None, "True": True, "False": False}


class Hex(NamedTuple):
    """Bytes that the user gave as hex."""

    raw: bytes


LiteralValue = int | Decimal | float | str | bytes | Hex | None
"""A number with a point or an exponent is a Decimal: its digits are checked, not rounded."""


def parse_predicate(text: str, schema: Schema) -> Condition:
    r"""Read a predicate: what its author asks for.

    Raises:
        PredicateError: It cannot be read, or does not fit the schema.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> schema = Schema(version=22, attributes=(Field(name="a", datatype=Datatype.INT8),))
    >>> parse_predicate("not 3 > a", schema) == Compare(field="a", op=Op.GE, value=b"\x03")
    True
    """
    parser = _Parser(text, schema)
    return flatten(parser.read(parser.condition))


def parse_literal(text: str) -> LiteralValue:
    """Read one value of the predicate language, and nothing else.

    Raises:
        PredicateError: It is no value.

    >>> parse_literal("-3"), parse_literal("'x'"), parse_literal("None")
    (-3, 'x', None)
    """
    parser = _Parser(text, Schema(version=0))
    return parser.read(parser.value)


def at_place(text: str, index: int, problem: str) -> PredicateError:
    """Make an error that shows the text, with a caret under a character.

    >>> print(at_place("a << 3", 3, "expected a value, found '<'"))
    predicate, column 4: expected a value, found '<'
      a << 3
         ^
    """
    first, last = max(0, index - _SHOWN), index + _SHOWN
    shown = "".join(c if c.isprintable() else " " for c in text[first:last])
    before, after = "… " if first else "", " …" if last < len(text) else ""
    caret = " " * (len(before) + sum(map(_width, shown[: index - first])))
    lines = f"{problem}\n  {before}{shown}{after}\n  {caret}^"
    return PredicateError(f"predicate, column {index + 1}", lines)


def _width(character: str) -> int:
    """Give the columns that a character takes on a terminal."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class _Parser:
    """A text and a schema; nodes of Python's tree say where in the text a part stands."""

    def __init__(self, text: str, schema: Schema) -> None:
        if len(text) > MAX_LENGTH:
            problem = f"expected at most {MAX_LENGTH} characters, found {len(text)}"
            raise PredicateError("predicate", problem)
        self.text, self.schema = text, schema
        self.indent = len(text) - len(text.lstrip())

    def start(self, node: ast.expr) -> int:
        return node.col_offset + self.indent

    def end(self, node: ast.expr) -> int:
        return (node.end_col_offset or 0) + self.indent

    def text_of(self, node: ast.expr) -> str:
        return self.text[self.start(node) : self.end(node)]

    def fail(self, problem: str, at: int | ast.expr) -> PredicateError:
        return at_place(self.text, at if isinstance(at, int) else self.start(at), problem)

    def mismatch(self, expected: str, node: ast.expr) -> PredicateError:
        text = self.text_of(node)
        hint = f"; a date needs quotes: FIELD >= '{text}'" if _DATE.fullmatch(text) else ""
        return self.fail(f"expected {expected}, found {text!r:.40}{hint}", node)

    def read(self, part: Callable[[ast.expr], T]) -> T:
        """Read the text as one expression of Python, and that as some part of a predicate."""
        masked = _WORD.sub(self.mask, self.text)
        self.bound(masked)
        try:
            return part(ast.parse(masked[self.indent :], mode="eval").body)
        except SyntaxError as cause:
            raise self.misplaced(masked, cause) from None
        except (RecursionError, MemoryError):
            raise self.fail("expected fewer parts in each other, found too many", 0) from None

    def mask(self, word: re.Match[str]) -> str:
        """Replace a word by one of the same length that Python can read."""
        text = word.group()
        if word["wrong"]:
            raise self.fail(self.unknown(word.start()), word.start())
        if word["null"]:
            return re.sub(r"\s", " ", text.lower())
        if word["leaf"] and text not in _OPERATORS:
            return "x" * len(text)
        return " " if word["space"] else text

    def unknown(self, start: int) -> str:
        """Say why no word of the language begins here."""
        rest = self.text[start : start + 80]
        dotted = re.match(r"[^\W\d]\w*\.[\w.]*", rest)
        sign = next((sign for sign in _HINTS if rest.startswith(sign)), None)
        if rest[0] in "'\"":
            return f"expected the end of this string, found {rest[:20]!r}"
        if dotted:
            return f'expected a name without a dot: write attr("{dotted.group()}")'
        if sign:
            return f"expected a comparison, found {sign!r}{_HINTS[sign]}"
        hint = "; a date needs quotes" if re.search(r"\d{4}-\d\d-$", self.text[:start]) else ""
        return f"expected a word of the language, found {rest[:20]!r}{hint}"

    def bound(self, masked: str) -> None:
        """Refuse nesting so deep that Python might not read it."""
        depths = itertools.accumulate((sign in "([") - (sign in ")]") for sign in masked)
        deepest = next((at for at, depth in enumerate(depths) if depth > MAX_NESTED), None)
        if deepest is not None:
            raise self.fail(f"expected at most {MAX_NESTED} nested (, found more", deepest)
        row = _SIGNS_IN_A_ROW.search(masked)
        if row:
            raise self.fail("expected fewer signs in a row, found 50", row.start())
        bit_signs = masked.count("&") + masked.count("|")
        if bit_signs > MAX_BIT_SIGNS:
            problem = f"expected at most {MAX_BIT_SIGNS} of & and |, found {bit_signs}"
            raise self.fail(f"{problem}; write and, or", 0)

    def misplaced(self, masked: str, cause: SyntaxError) -> PredicateError:
        """Say which part cannot stand where it does."""
        start = (cause.offset or len(masked) + 1) - 1 + self.indent
        end = max((cause.end_offset or 0) - 1 + self.indent, start + 1)
        word = self.text[start:end]
        shown = f"{word!r:.40}" if word else "the end"
        if word.lower() in _OPERATORS and word not in _OPERATORS:
            shown += f"; write {word.lower()}"
        if not cause.msg.startswith("invalid syntax"):
            expected, shown = "parentheses in pairs", f"{shown}: {cause.msg}"
        elif "comma" in cause.msg:
            expected = "and, or, or a comma"
        elif masked[:start].rstrip().endswith(("x", ")", "]")):
            expected = "an operator or the end"
        else:
            expected = "a field or a value"
        return self.fail(f"expected {expected}, found {shown}", min(start, len(self.text)))

    def condition(self, node: ast.expr) -> Condition:
        """Read a part that is true or false."""
        match node:
            case ast.BoolOp(op=op, values=values):
                return _joined([*map(self.condition, values)], any_of=isinstance(op, ast.Or))
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr() as sign):
                first: ast.expr = node
                others = []
                while isinstance(first, ast.BinOp) and type(first.op) is type(sign):
                    others.append(first.right)
                    first = first.left
                parts = [*map(self.condition, (first, *reversed(others)))]
                return _joined(parts, any_of=isinstance(sign, ast.BitOr))
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return Not(part=self.condition(part))
            case ast.Compare(left=left, ops=ops, comparators=rights):
                chain = zip((left, *rights), ops, rights, strict=False)
                return _joined([*itertools.starmap(self.comparison, chain)], any_of=False)
            case ast.Call(func=name, args=[named, *more]) if self.text_of(name) in _ALWAYS:
                return self.constant(_ALWAYS[self.text_of(name)], named, more)
        raise self.mismatch("a comparison such as a > 3", node)

    def comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Compare:
        op, one = _OPS[type(sign)], self.operand(left)
        if op.is_set:
            if not isinstance(one, Field):
                raise self.fail(f"expected a field before {op.symbol}, found a value", left)
            between = self.text[self.end(left) : self.start(right)]
            return self.membership(one, op, right, is_listed="(" in between)
        other = None
        if not isinstance(sign, ast.Is | ast.IsNot):
            other = self.operand(right)
        elif isinstance(right, ast.BinOp):
            self.operand(right)  # it says what to write in place of & and |
        elif self.text_of(right).lower() not in ("none", "null"):
            raise self.mismatch("None or null after is", right)
        if not isinstance(one, Field):
            one, other, op, right = other, one, _MIRRORED.get(op, op), left
        if not isinstance(one, Field):
            raise self.fail("expected a field on one side, found two values", left)
        if isinstance(other, Field):
            raise self.fail("expected a value on one side, found two fields", right)
        return self.typed(_comparison, one, op, other, right)

    def membership(self, field: Field, op: Op, node: ast.expr, *, is_listed: bool) -> Compare:
        values = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        if values == [node] and not is_listed:
            raise self.mismatch("[", node)
        if not values:
            raise self.fail("expected at least one value, found none", node)
        members = [self.typed(_raw_value, field, op, self.value(one), one) for one in values]
        if not any(members):
            equal = f"{field_name(field.name, field)} {'==' if op is Op.IN else '!='} ''"
            raise self.fail(f"expected a member that is not empty: write {equal}", node)
        return member_of(field.name, op, tuple(members))

    def constant(self, op: Op, name: ast.expr, more: Sequence[ast.expr]) -> Compare:
        field, raw = self.operand(name), Hex(b"")
        if not isinstance(field, Field):
            raise self.fail("expected a field, found a value", name)
        for one in more:
            value = self.value(one)
            if not isinstance(value, Hex) or len(more) > 1:
                raise self.mismatch('one hex("…") after the field', one)
            raw = value
        return Compare(field=field.name, op=op, value=raw.raw)

    def typed(
        self,
        function: Callable[[Field, Op, LiteralValue], T],
        field: Field,
        op: Op,
        value: LiteralValue,
        node: ast.expr,
    ) -> T:
        """Type a value by its field, or say where it stands and why it does not fit."""
        try:
            return function(field, op, value)
        except PredicateError as cause:
            problem = f"{field_name(field.name, field)}: {cause.problem}"
            raise self.fail(problem, node) from None

    def value(self, node: ast.expr) -> LiteralValue:
        value = self.operand(node)
        if isinstance(value, Field):
            raise self.fail("expected a value, found a field", node)
        return value

    def operand(self, node: ast.expr) -> Field | LiteralValue:
        """Read a field or a value."""
        match node:
            case ast.Name():
                return self.leaf(node)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=inner):
                number = self.operand(inner)
                if isinstance(number, bool) or not isinstance(number, int | Decimal):
                    raise self.mismatch("a number", inner)
                if isinstance(sign, ast.UAdd):
                    return number
                return -number if isinstance(number, int) else number.copy_negate()
            case ast.Call(func=ast.Name() as name, args=[argument]):
                return self.call(self.text_of(name), argument, node)
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as bit_sign):
                mark = "&" if isinstance(bit_sign, ast.BitAnd) else "|"
                problem = f"expected parentheses around the comparisons beside {mark}"
                word = "and" if mark == "&" else "or"
                problem += f", found none: write {word}, or (…) {mark} (…)"
                raise self.fail(problem, self.text.index(mark, self.end(left)))
        raise self.mismatch("a field or a value", node)

    def call(self, name: str, argument: ast.expr, node: ast.expr) -> Field | LiteralValue:
        if name not in CALLS:
            problem = f"expected attr, dim, val, hex or float before (, found {name!r}"
            raise self.fail(problem, node)
        value = self.operand(argument)
        if isinstance(value, Field):
            raise self.fail(f"expected a value in {name}(), found a field", argument)
        if name == "val":
            return value
        if not isinstance(value, str):
            raise self.mismatch(f"text in {name}()", argument)
        try:
            if name == "hex":
                return Hex(bytes.fromhex(value))
            if name == "float":
                return float(value)
        except ValueError:
            raise self.mismatch(f"{name} digits", argument) from None
        field = self.named(value, node)
        if field.is_dimension is not (name == "dim"):
            kinds = ("an attribute", "a dimension")
            expected, other = kinds if name == "attr" else reversed(kinds)
            raise self.fail(f"expected {expected}, found {other}: {value!r}", node)
        return field

    def leaf(self, node: ast.Name) -> Field | LiteralValue:
        text = self.text_of(node)
        if text[-1] in "'\"":
            return self.string(text, node)
        if text[0] in "0123456789.":
            return self.number(text.replace("_", ""), node)
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text in WORDS:
            raise self.mismatch("a field or a value", node)
        return self.named(text, node)

    def string(self, text: str, node: ast.expr) -> str | bytes:
        """Read a string as Python does; a backslash that means nothing stands for itself."""

        def escaped(escape: re.Match[str]) -> str:
            if escape["large"]:
                raise self.fail(f"expected a byte after \\, found {escape['large']}", node)
            is_plain = escape["plain"] or (is_bytes and escape.group() in (r"\u", r"\U"))
            return f"\\{escape.group()}" if is_plain else escape.group()

        is_bytes = text[0] in "bB"
        try:
            value: str | bytes = ast.literal_eval(_ESCAPE.sub(escaped, text))
            value if isinstance(value, bytes) else value.encode()
        except (SyntaxError, UnicodeError) as cause:
            reason = str(cause.msg if isinstance(cause, SyntaxError) else cause)
            reason = reason.rpartition(": ")[2]
            raise self.fail(
                f"expected a string as in Python, found {text!r:.40}: {reason}", node
            ) from None
        return value

    def number(self, digits: str, node: ast.expr) -> int | Decimal:
        if len(digits) > _LONGEST_NUMBER:
            raise self.fail(f"expected a number of at most {_LONGEST_NUMBER} digits", node)
        if digits[:2] in ("0x", "0X"):
            return int(digits, 16)
        try:
            return int(digits) if digits.isdigit() else Decimal(digits)
        except InvalidOperation:
            raise self.mismatch("a number within range", node) from None

    def named(self, name: str, node: ast.expr) -> Field:
        field = self.schema.field(name)
        if field is not None:
            return field
        hint = did_you_mean(name, [one.name for one in self.schema.fields])
        if name.lower() == "null":
            hint = "; to ask for NULL, write FIELD is null, or FIELD is not null"
        hint = hint or "; text needs quotes"
        raise self.fail(f"expected a field of the schema, found {name!r}{hint}", node)


def _joined(parts: Sequence[Condition], *, any_of: bool) -> Condition:
    if len(parts) == 1:
        return parts[0]
    return AnyOf(parts=tuple(parts)) if any_of else AllOf(parts=tuple(parts))


def _comparison(field: Field, op: Op, value: LiteralValue) -> Compare:
    """Compare a field with a literal.

    Raises:
        PredicateError: The comparison would not do what it says.

    >>> from chronotile.format.schema import Field
    >>> s = Field(name="s", datatype=Datatype.CHAR, cell_val_num=2**32 - 1, nullable=True)
    >>> _comparison(s, Op.EQ, "").is_empty_text, _comparison(s, Op.EQ, None).is_empty_text
    (True, False)
    """
    raw = _raw_value(field, op, value)
    can_be_null = not raw and field.nullable and op in (Op.EQ, Op.NE)
    is_empty_text = can_be_null and isinstance(value, str | bytes)
    return Compare(field=field.name, op=op, value=raw, is_empty_text=is_empty_text)


def _raw_value(field: Field, op: Op, value: LiteralValue) -> bytes:
    """Type a literal, or one member of the list of an `in`, by the field that it is compared with.

    Raises:
        PredicateError: The comparison would not do what it says.

    >>> from chronotile.format.schema import Field
    >>> _raw_value(Field(name="a", datatype=Datatype.INT8), Op.LT, Decimal("3.0")).hex()
    '03'
    """
    if value is None:
        _check_null(field, op)
        return b""
    _check_comparable(field, op)
    if isinstance(value, float) and math.isnan(value) and not op.is_set:
        problem = f"expected a number, found NaN: nothing is {op.symbol} NaN"
        raise PredicateError(field.name, f"{problem}; it can stand in a list after in")
    return encoded(field, value)


def encoded(field: Field, value: LiteralValue) -> bytes:
    """Give the raw bytes of a literal for a field.

    Raises:
        PredicateError: The field cannot hold the literal.

    >>> from chronotile.format.schema import Field
    >>> encoded(Field(name="f", datatype=Datatype.INT16), Hex(b"xy"))
    b'xy'
    """
    if isinstance(value, Hex):
        size = field.cell_size
        if size is not None and len(value.raw) != size:
            raise PredicateError(field.name, f"expected {size} bytes, found {len(value.raw)}")
        return value.raw
    return cell_values.encode(field, _exact(field, value) if isinstance(value, Decimal) else value)


def _check_null(field: Field, op: Op) -> None:
    name = field_name(field.name, field)
    if op.is_set:
        problem = f"expected a value, found None: NULL is in no list; write or {name} is null"
        raise PredicateError(field.name, problem)
    if op not in (Op.EQ, Op.NE):
        problem = f"expected a value after {op.symbol}, found None; write {name} is null"
        raise PredicateError(field.name, problem)
    if not field.nullable:
        kind = "a dimension" if field.is_dimension else "not nullable"
        problem = f"expected a value, found None: {name} is never NULL, as it is {kind}"
        raise PredicateError(field.name, problem)


def _check_comparable(field: Field, op: Op) -> None:
    name = field_name(field.name, field)
    problem = None
    if field.datatype in COMPARABLE_TEXT:
        several = not field.is_var and field.cell_val_num > 1
        if several and field.datatype is Datatype.CHAR and not op.is_set:
            problem = f"expected in or not in for {name}, found {op.symbol}"
            problem += ": TileDB would compare its first byte only"
    elif field.datatype.code is None:
        problem = f"expected a field that can be compared, found {name}"
        problem += f", which is {field.datatype.name}"
    elif field.cell_val_num != 1:
        problem = f"expected one value in each cell, found {name} with more"
    if field.enumeration is not None and op.is_order and not field.enumeration.ordered:
        problem = f"expected ==, != or in, found {op.symbol}: the labels of {name} have no order"
    if problem:
        raise PredicateError(field.name, problem)


def _exact(field: Field, exact: Decimal) -> float:
    """Return the float that a decimal stands for; refuse digits that the field cannot hold."""
    number, datatype = float(exact), field.value_datatype
    if math.isinf(number) or (number == 0.0 and exact):
        raise PredicateError(field.name, f"expected a number within range, found {exact}")
    # `cell_values.encode` judges a 32-bit float: it knows how few digits tell it apart.
    fits = exact == Decimal(number) or datatype is Datatype.FLOAT32
    if not fits and not (datatype.is_float and exact == Decimal(repr(number))):
        problem = f"expected a number that {datatype.name} holds, found {exact}"
        raise PredicateError(field.name, problem)
    return number
