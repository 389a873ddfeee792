"""SQL over the tables of a fleet, with DuckDB.

In: a query, roots of arrays, perhaps one array whose rows are a table too. Out: the answer as an
Arrow table. Makes only the tables that the query names. Needs the extra `sql`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile.errors import ChronotileError
from chronotile.fleet.array_tables import SCHEMAS, TABLES, operations_rows
from chronotile.fleet.delta_store import renamed
from chronotile.fleet.fleet_without_spark import make_tables
from chronotile.fleet.options import Options
from chronotile.fleet.read_share import members_of
from chronotile.safe_text import did_you_mean
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chronotile.fleet.fleet_without_spark import FleetTables

BESIDE = ("members", "operations")
"""Tables that are of groups too."""
ASKED = (*SCHEMAS, "usage", *BESIDE)
"""The tables that a query can name."""
ROWS = "rows"
"""The table of the rows of one array."""
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")


class QueryError(ChronotileError, ValueError):
    """A query that DuckDB does not take."""

    exit_code = 2


def query_fleet(
    query: str,
    roots: Sequence[str],
    *,
    rows: Callable[[], pa.Table] | None = None,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[], None] = lambda: None,
) -> pa.Table:
    """Answer a query over the tables of every array at or below some roots.

    The column of the array is `uri`, as in the tables of the pipeline. `rows` reads the rows of one
    array, for the table of that name; the other arguments are as of `make_tables`.

    Raises:
        ModuleNotFoundError: DuckDB is not installed.
        QueryError: DuckDB does not take the query.
    """
    import duckdb

    words = set(re.findall(r"[a-z_]+", query.lower()))
    asked = [name for name in ASKED if name in words]
    names = [name for name in asked if name not in BESIDE]
    tables: dict[str, Any] = {}
    if asked:
        made = make_tables(
            roots, names=names, key=key, storage_options=storage_options, on_array=on_array
        )
        tables |= made.tables
        tables |= {name: _beside(name, made, key, storage_options) for name in asked[len(names) :]}
    if rows is not None and ROWS in words:
        tables[ROWS] = rows()
    # No name of a variable here is a table, and nothing is downloaded.
    settings = {"python_enable_replacements": "false", "autoinstall_known_extensions": "false"}
    with duckdb.connect(config=settings) as base:
        for name, table in tables.items():
            base.register(name, table if name == ROWS else renamed(table))
        try:
            answer = base.sql(query)
        except duckdb.Error as cause:
            hint = "; the column of arrays is called uri: array is a word of SQL"
            problem = _problem(str(cause), [*ASKED, ROWS])
            if rows is None and problem.startswith(f"there is no table {ROWS!r}"):
                problem, hint = f"the table {ROWS} is of one ROOT: give one array or group", ""
            raise QueryError("sql", f"{problem}{hint if 'array' in words else ''}") from None
        if answer is None:
            raise QueryError("sql", "expected a query that gives rows, found none")
        return answer.to_arrow_table()


def _beside(
    name: str,
    made: FleetTables,
    key: bytes | None,
    storage_options: Mapping[str, str] | None,
) -> pa.Table:
    """Make the table of members, or of operations; a group that cannot be read has no members."""
    if name == "operations":
        places = (open_store(uri, storage_options) for uri in (*made.groups, *made.arrays))
        rows = [row for store in places for row in operations_rows(store)]
        return pa.Table.from_pylist(rows, schema=TABLES["operations"])
    options = Options(key=key, storage=tuple(sorted((storage_options or {}).items())))
    parts = [TABLES["members"].empty_table()]
    for group in made.groups:
        with suppress(ChronotileError):
            parts.append(members_of(group, options))
    return pa.concat_tables(parts)


def _problem(message: str, known: Sequence[str]) -> str:
    r"""Say in one line what DuckDB found.

    >>> _problem("Catalog Error: Table with name comits does not exist!\nDid …", ["commits"])
    "there is no table 'comits'; did you mean commits?"
    """
    missing = _NO_TABLE.search(message)
    if missing is None:
        first = message.partition("\n\n")[0].replace("\n", " ")
        return f"DuckDB refuses the query: {first}"
    there = f"; there are {', '.join(ASKED)}; and {ROWS}, if ROOT is one array or group"
    hint = did_you_mean(missing[1], known) or there
    return f"there is no table {missing[1]!r}{hint}"
