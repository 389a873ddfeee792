"""The columns that a user chose by a schema, and what is read for them.

In: the schema that Spark hands over, and the columns of a table. Out: options that read what these
columns need and no more; the chosen columns of a batch. Touches no storage.

Spark does not tell a Python source which columns a query selects. A schema is how a user can: with
`.schema("name string, cells bigint")` footers are read, as `cells` stands in them, and with
`.schema("name string, t1 bigint")` they are not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema

from chronotile.check.file_uses import BYTES_OF
from chronotile.errors import ChronotileError
from chronotile.history.fragment_facts import SCHEMA as FACTS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from chronotile.spark.source.options import Options

_IN_FOOTERS = frozenset(FACTS.names[FACTS.get_field_index("cells") :])
"""Columns of `fragments` that stand in footers."""
_OF_SIZES = frozenset({"bytes", *BYTES_OF.values()})
"""Columns of `arrays` for which every file is listed."""


def with_choice(schema: StructType, columns: pa.Schema, options: Options) -> Options:
    """Options for the columns of a schema: all of the table's, or some of them in any order.

    Raises:
        ChronotileError: A column is not of the table, has another type, or is named twice.
    """
    own = from_arrow_schema(columns)
    types = {field.name: field.dataType for field in own}
    names = tuple(field.name for field in schema)
    fits = all(types.get(field.name) == field.dataType for field in schema)
    if not names or not fits or len({*names}) != len(names):
        problem = f"expected columns of {own.simpleString()}, found {schema.simpleString()}"
        raise ChronotileError(f"table {options.table}", problem)
    if names == tuple(columns.names):
        return options
    chosen = frozenset(names)
    return replace(
        options,
        columns=names,
        cells=options.table == "fragments" and not chosen.isdisjoint(_IN_FOOTERS),
        sizes=options.table == "arrays" and not chosen.isdisjoint(_OF_SIZES),
    )


def choose(options: Options, rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """The chosen columns of some rows."""
    return rows.select([*options.columns]) if options.columns else rows
