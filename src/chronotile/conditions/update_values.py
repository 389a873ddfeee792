"""The values that an update sets.

In: a mapping, or `field=value` as typed on a command line, and a schema. Out: raw values, and
from those the JSON of the contract. Knows nothing of conditions, nor that the engine, as it is,
drops these values.
"""

from __future__ import annotations

import difflib
from decimal import Decimal
from typing import TYPE_CHECKING

from chronotile.conditions.predicate_literals import Raw, exact_number, sized
from chronotile.conditions.predicate_parser import parse_literal
from chronotile.conditions.tree import UpdateValue
from chronotile.errors import PredicateError
from chronotile.format import cell_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.conditions.predicate_literals import LiteralValue
    from chronotile.format.cell_values import Json
    from chronotile.format.schema import Field, Schema


def update_values(wanted: Mapping[str, object], schema: Schema) -> tuple[UpdateValue, ...]:
    """Type the values of an update by the schema.

    Args:
        wanted: A value for each field: as `cell_values.encode` takes it, or as JSON holds it.
        schema: The attributes that can be set.

    Raises:
        PredicateError: If a field cannot be set, or a value does not fit it.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> a = Field(name="a", datatype=Datatype.INT32, cell_val_num=1, nullable=False,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(a,), enumeration_files=())
    >>> to_json(update_values({"a": 777}, schema), schema)
    [{'field': 'a', 'value': 777, 'raw': '09030000'}]
    """
    if not wanted:
        raise PredicateError("update", "expected at least one value to set, found none")
    found = []
    for name, value in wanted.items():
        field = _settable(name, schema)
        if isinstance(value, str | list):
            value = cell_values.from_json(field, value)
        found.append(UpdateValue(name, cell_values.encode(field, value)))
    return tuple(found)


def parse_assignments(texts: Iterable[str], schema: Schema) -> tuple[UpdateValue, ...]:
    """Read values as typed on a command line.

    A value is a literal of the predicate language. Text, labels and dates need no quotes;
    in quotes, text may be anything, `None` included.

    Args:
        texts: Each as `field=value`.
        schema: The attributes that can be set.

    Raises:
        PredicateError: If one is no assignment, does not fit, or sets a field again.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> s = Field(name="s", datatype=Datatype.STRING_UTF8, cell_val_num=2**32 - 1, nullable=True,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(s,), enumeration_files=())
    >>> parse_assignments(["s=new"], schema)
    (UpdateValue(field='s', value=b'new'),)
    """
    found: dict[str, UpdateValue] = {}
    for text in texts:
        field, value = _split(text, schema)
        if field.name in found:
            raise PredicateError(field.name, "expected one value to set, found two")
        found[field.name] = UpdateValue(field.name, _raw(field, _literal(field, value)))
    if not found:
        raise PredicateError("update", "expected at least one value to set, found none")
    return tuple(found.values())


def to_json(found: Iterable[UpdateValue], schema: Schema | None = None) -> list[Json]:
    """Give update values as the contract's JSON; `value` is left out where it has no type.

    >>> to_json([UpdateValue("a", b"x")])
    [{'field': 'a', 'raw': '78'}]
    """
    documents: list[Json] = []
    for name, raw in found:
        document: dict[str, Json] = {"field": name}
        field = schema.field(name) if schema else None
        if field is not None and (field.enumeration_name is None or field.enumeration is not None):
            document["value"] = (
                cell_values.to_json(field, cell_values.decode(field, raw)) if raw else None
            )
        document["raw"] = raw.hex()
        documents.append(document)
    return documents


def _settable(name: str, schema: Schema) -> Field:
    field = schema.field(name)
    if field is None:
        near = difflib.get_close_matches(name, [other.name for other in schema.attributes], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise PredicateError(name, f"expected an attribute of the schema, found {name!r}{hint}")
    if field.is_dimension:
        raise PredicateError(name, "expected an attribute, found a dimension")
    return field


def _split(text: str, schema: Schema) -> tuple[Field, str]:
    # A field's name may hold "=" itself: the longest name that fits is meant.
    fitting = [field for field in schema.fields if text.startswith(f"{field.name}=")]
    if fitting:
        name = max((field.name for field in fitting), key=len)
        return _settable(name, schema), text[len(name) + 1 :]
    name, equals, value = text.partition("=")
    if not equals:
        raise PredicateError("update", f"expected field=value, found {text!r:.60}")
    return _settable(name.strip(), schema), value.strip()


def _literal(field: Field, text: str) -> LiteralValue:
    datatype = field.enumeration.datatype if field.enumeration is not None else field.datatype
    quoted = text.startswith(("'", '"', "b'", 'b"', "hex("))
    if cell_values.is_text(datatype) and not quoted and text != "None":
        return text
    if datatype.is_datetime or datatype.is_time:
        try:
            return parse_literal(text)
        except PredicateError:
            return text
    return parse_literal(text)


def _raw(field: Field, literal: LiteralValue) -> bytes:
    if isinstance(literal, Raw):
        return sized(field, literal)
    if isinstance(literal, Decimal):
        literal = exact_number(field, literal)
    return cell_values.encode(field, literal)
