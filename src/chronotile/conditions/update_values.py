"""The values that an update sets.

In: a mapping, or `field=value` as typed on a command line, and a schema. Out: raw values, and
their JSON. Knows nothing of conditions, nor that the engine drops these values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.conditions.predicate_parser import encoded, parse_literal
from chronotile.conditions.tree import Compare, Op, UpdateValue
from chronotile.errors import PredicateError, no_field
from chronotile.format import cell_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.conditions.predicate_parser import LiteralValue
    from chronotile.format.cell_values import Json
    from chronotile.format.schema import Field, Schema


def update_values(wanted: Mapping[str, object], schema: Schema) -> tuple[UpdateValue, ...]:
    """Type the values of an update by the schema.

    Args:
        wanted: A value for each field: as `cell_values.encode` takes it, or as JSON holds it.
        schema: The attributes that can be set.

    Raises:
        PredicateError: A field cannot be set, or a value does not fit it.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> schema = Schema(version=22, attributes=(Field(name="a", datatype=Datatype.INT32),))
    >>> to_json(update_values({"a": 777}, schema), schema)
    [{'field': 'a', 'value': 777, 'raw': '09030000'}]
    """
    values = []
    for name, value in wanted.items():
        field = _settable(name, schema)
        if isinstance(value, str | list):
            value = cell_values.from_json(field, value)
        values.append(UpdateValue(name, cell_values.encode(field, value)))
    return _at_least_one(values)


def parse_assignments(texts: Iterable[str], schema: Schema) -> tuple[UpdateValue, ...]:
    """Read values as typed on a command line.

    Each text is `field=value`, where the value is a literal of the predicate language. Text,
    labels and dates need no quotes; in quotes, text may be anything, even `None`.

    Raises:
        PredicateError: A text is no assignment, does not fit the schema, or sets a field again.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> s = Field(name="s", datatype=Datatype.STRING_UTF8, cell_val_num=2**32 - 1)
    >>> parse_assignments(["s=new"], Schema(version=22, attributes=(s,)))
    (UpdateValue(field='s', value=b'new'),)
    """
    values = [
        UpdateValue(_settable(field.name, schema).name, encoded(field, value))
        for field, value in _assigned(texts, schema)
    ]
    return _at_least_one(values)


def parse_row(texts: Iterable[str], schema: Schema) -> tuple[Compare, ...]:
    r"""Read what a row holds in some fields, dimensions too, as typed on a command line.

    Raises:
        PredicateError: A text is no `field=value`, does not fit the schema, or names a field again.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> x = Field(name="x", datatype=Datatype.INT8, is_dimension=True)
    >>> parse_row(["x=7"], Schema(version=22, dimensions=(x,)))[0].value
    b'\x07'
    """
    row = [(field.name, value, encoded(field, value)) for field, value in _assigned(texts, schema)]
    return tuple(
        Compare(field=name, op=Op.EQ, value=raw, is_empty_text=not raw and value is not None)
        for name, value, raw in row
    )


def to_json(values: Iterable[UpdateValue], schema: Schema | None = None) -> list[Json]:
    """Give update values as JSON; without `value` where the type of the field is not known.

    >>> to_json([UpdateValue("a", b"x")])
    [{'field': 'a', 'raw': '78'}]
    """
    documents: list[Json] = []
    for name, raw in values:
        document: dict[str, Json] = {"field": name}
        field = schema.field(name) if schema else None
        if field is not None and not field.lacks_labels:
            document["value"] = cell_values.raw_to_json(field, raw) if raw else None
        documents.append(document | {"raw": raw.hex()})
    return documents


def _assigned(texts: Iterable[str], schema: Schema) -> list[tuple[Field, LiteralValue]]:
    values: dict[str, tuple[Field, LiteralValue]] = {}
    for text in texts:
        field, value = _split(text, schema)
        if field.name in values:
            raise PredicateError(field.name, "expected one value, found two")
        values[field.name] = field, _literal(field, value)
    return list(values.values())


def _at_least_one(values: Iterable[UpdateValue]) -> tuple[UpdateValue, ...]:
    if not (result := tuple(values)):
        raise PredicateError("update", "expected at least one value to set, found none")
    return result


def _known(name: str, schema: Schema) -> Field:
    field = schema.field(name)
    if field is None:
        raise PredicateError(name, no_field(name, [one.name for one in schema.fields]))
    return field


def _settable(name: str, schema: Schema) -> Field:
    field = _known(name, schema)
    if field.is_dimension:
        raise PredicateError(name, "expected an attribute, found a dimension")
    return field


def _split(text: str, schema: Schema) -> tuple[Field, str]:
    # A field's name may hold "=" itself: take the longest name that fits.
    names = [field.name for field in schema.fields if text.startswith(f"{field.name}=")]
    if names:
        name = max(names, key=len)
        return _known(name, schema), text[len(name) + 1 :]
    name, equals, value = text.partition("=")
    if not equals:
        raise PredicateError(f"{text!r:.60}", "expected field=value, found no = in it")
    return _known(name.strip(), schema), value.strip()


def _literal(field: Field, text: str) -> LiteralValue:
    quoted = text.startswith(("'", '"', "b'", 'b"', "hex("))
    if cell_values.is_text(field.value_datatype) and not quoted and text != "None":
        return text
    try:
        return parse_literal(text)
    except PredicateError:
        if quoted:
            raise
        if text.lower() == "null":
            problem = "expected a value, found null; write None for NULL"
            raise PredicateError(field.name, problem) from None
        return text  # a date; or the field says what it expects
