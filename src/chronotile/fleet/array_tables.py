"""The tables of a fleet: their columns, and the functions that fill them.

In: the log of one array, or the error of reading it. Out: Arrow tables. `arrays` reads `.meta`
files, `usage` lists the array, `fragments` reads footers if asked; the others read nothing more.

Timestamps are `bigint`; a larger one, which no clock reaches, becomes the largest `bigint`. Beside
each column of ms stands a twin of Spark's type TIMESTAMP.

A call of Arrow takes its time even for one row, and a fleet has many arrays of few rows: so rows
that are made one by one are put into columns once for many arrays.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, groupby
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.change.operations import own_operations
from chronotile.change.usage import bytes_by_reason
from chronotile.check.check_array import find_problems
from chronotile.check.engine_open_cost import Consolidated, consolidated_fragments, open_cost
from chronotile.check.file_uses import BYTES_OF
from chronotile.check.findings import MOST, CappedFindings, unreadable
from chronotile.conditions.tree import fields
from chronotile.errors import ChronotileError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history import text_columns
from chronotile.history.fragment_facts import SCHEMA as FACTS
from chronotile.history.text_columns import TWIN, commit_rows
from chronotile.storage.place import PAGE
from chronotile.visibility.lifelines import fragment_count, lifeline_batches
from chronotile.visibility.rules import overlaps, schema_at
from chronotile.visibility.view import Delete, Update, tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chronotile.check.findings import Finding, Reach
    from chronotile.log import Log
    from chronotile.storage.store import Entry, Store


LARGEST_BIGINT = (1 << 63) - 1
"""The largest `bigint`."""


Piece: TypeAlias = "list[dict[str, Any]] | pa.Table"
"""Some rows of a table, one by one or in columns; those that it lacks are null."""


def gathered(schema: pa.Schema, pieces: Iterable[Piece]) -> pa.Table:
    """Put the rows of all pieces into one table.

    >>> schema = pa.schema([("array", pa.string()), ("t1", pa.int64())])
    >>> own = pa.table({"array": ["b"], "t1": [7]}, schema=schema)
    >>> gathered(schema, [[{"array": "a", "t1": 5}], own]).to_pylist()
    [{'array': 'a', 't1': 5}, {'array': 'b', 't1': 7}]
    """
    tables = [schema.empty_table()]
    for own, alike in groupby(
        pieces, lambda one: one.schema if isinstance(one, pa.Table) else None
    ):
        if own is not None:
            tables.append(_whole(schema, pa.concat_tables(alike)))
        # A column takes its time even without a row.
        elif rows := [*chain.from_iterable(alike)]:
            tables.append(pa.Table.from_pylist(rows, schema=schema))
    return pa.concat_tables(tables)


def _whole(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """Add the columns that a table lacks, of nulls; put all in order."""
    there, count = frozenset(table.column_names), len(table)
    columns = [
        _bigints(table[one.name]) if one.name in there else pa.nulls(count, one.type)
        for one in schema
    ]
    return pa.table(columns, schema=schema)


def _bigints(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give a column of times as `bigint`; any other as it is."""
    if column.type != pa.uint64():
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        last = pa.scalar(LARGEST_BIGINT, pa.uint64())
        return pc.min_element_wise(column, last, skip_nulls=False).cast(pa.int64())


TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Spark's TIMESTAMP."""
MS = ("t1", "t2", "visible_from", "visible_until", "first_timestamp", "last_timestamp")
"""Columns of ms since the epoch."""


def with_twins(schema: pa.Schema) -> pa.Schema:
    """Give the columns of a table, and their twins.

    >>> with_twins(pa.schema([("t1", pa.int64()), ("name", pa.string())])).names
    ['t1', 'name', 't1_time']
    """
    return pa.schema([*schema, *_twins(schema)])


def _twins(schema: pa.Schema) -> Iterator[pa.Field]:
    for name in schema.names:
        if name in MS and f"{name}{TWIN}" not in schema.names:
            yield pa.field(f"{name}{TWIN}", TIMESTAMP)


def twinned(table: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Give a table, or a batch, with the twins that it lacks.

    >>> twinned(pa.table({"t1": [0, None, 2**60]}))["t1_time"].null_count
    2
    """
    for field in _twins(table.schema):
        times = timestamps(table.column(field.name.removesuffix(TWIN)))
        table = table.append_column(field, times)
    return table


def timestamps(ms: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Give times in ms as Spark's TIMESTAMP.

    Null where the ms are, and after the year 9999, where calendars end.
    """
    return text_columns.timestamps(ms).cast(TIMESTAMP)


T = TypeVar("T")

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": TIMESTAMP,
    "array<string>": pa.list_(pa.string()),
}


def columns(text: str) -> pa.Schema:
    """Give the schema that Spark's notation `name type, …` describes.

    >>> columns("name string, t1 bigint").names
    ['name', 't1']
    """
    pairs = (column.split() for column in text.split(","))
    return pa.schema([(name, _TYPES[kind]) for name, kind in pairs])


SCHEMAS: dict[str, pa.Schema] = {
    "arrays": columns(
        "array string, format_version bigint, dense boolean, commits bigint, loose_commits bigint, "
        "con_files bigint, fragments bigint, first_timestamp bigint, last_timestamp bigint, "
        "bytes bigint, open_requests bigint, engine_open_requests bigint, errors bigint, "
        "warnings bigint, infos bigint, stale string, log_bytes bigint, "
        + ", ".join(f"{name} bigint" for name in BYTES_OF.values())
        + ", open_lists bigint, engine_open_lists bigint, "
        "engine_open_requests_after_maintenance bigint"
    ),
    "commits": columns(
        "array string, name string, kind string, t1 bigint, t2 bigint, uuid string, "
        "version bigint, source string, offset bigint, loose boolean, ignored boolean"
    ),
    "conditions": columns(
        "array string, name string, kind string, t1 bigint, predicate string, stored string, "
        "predicate_json string, values string, fields array<string>"
    ),
    "fragments": columns(
        "array string, name string, t1 bigint, t2 bigint, version bigint, visible_from bigint, "
        "visible_until bigint, reason string, because string, cells bigint, bytes bigint, "
        "domain string, schema string, tiles bigint, dense boolean, has_timestamps boolean, "
        "has_delete_metadata boolean, applied_deletes array<string>, metadata string"
    ),
    "findings": columns(
        "code string, severity string, array string, path string, message string, hint string"
    ),
}
"""Table -> its columns, in order. In `arrays`, `commits` counts each effective commit once, however
many files hold it; `loose_commits` those with a file of their own; `errors`, `warnings` and `infos`
all findings, also those that `findings` only counts, as there are very many of one code;
`log_bytes` what was read of the log. `bytes`, the sum of the columns `bytes_…`, is null unless a
reader asks for sizes, as each file then has to be listed. `open_requests` are those of an open by
this package, of which `open_lists` list; those of an engine are null if a `.meta` cannot be opened;
`…_after_maintenance` are those after commits and footers are consolidated and vacuumed. `stale` is
null unless a run of the pipeline could not read the array: then it names the older run whose rows
all tables repeat. In `fragments` the columns from `cells` on are null unless a reader asks for
them, as each fragment then costs a read of its footer."""

TABLES: dict[str, pa.Schema] = {
    **SCHEMAS,
    "usage": columns(
        "array string, path string, fragment string, field string, part string, bytes bigint, "
        "reason string, freed_by string"
    ),
    "members": columns(
        "group string, name string, kind string, found string, array string, stored_uri string, "
        "relative boolean, commits bigint, last_timestamp bigint, problem string"
    ),
    "operations": columns("array string, id string, time timestamp, command string, state string"),
}
"""Those tables, and what not every reader makes: `usage`, as it lists every file, `members`, with a
row a member of each group, and `operations`, with a row for each change of ours that an array keeps
a record of."""

READABLE: dict[str, pa.Schema] = {
    **TABLES,
    "changes": columns(
        "array string, change string, commit string, t bigint, t_time timestamp, key string, "
        "row string"
    ),
}
"""All that the data source reads; `change_table` makes `changes`: a row each row that a commit
changed."""

WINDOWED = ("commits", "conditions", "fragments", "changes")
"""The tables whose rows have a time, so that a window can choose among them."""
BATCH_ROWS = 1 << 16
"""Rows of a table that are made at once, at most: memory does not grow with them."""
STREAMED = ("commits", "conditions", "findings", "changes")
"""The tables that a stream can follow: each commit, each finding that was not there before, and the
rows that each commit changed."""


@dataclass(frozen=True)
class ArrayTables:
    """The tables of one array; `table` makes each on demand."""

    log: Log
    start: int = 0
    end: int = MAX_TIMESTAMP
    cells: bool = False
    """Whether to read what each fragment holds."""
    check: Reach = "log"
    """How far the findings go."""
    measured: Sequence[Entry] | None = None
    """The array's files with their sizes, if they were asked for."""
    max_findings: int = MOST
    """Findings of one code and severity that are listed."""
    checked: Sequence[Finding] | None = None
    """The findings, if a check has them already."""

    def table(self, name: str) -> pa.Table:
        """Make one table of `TABLES`.

        With a window, `commits`, `conditions` and `fragments` keep the rows whose time range
        touches it.
        """
        return gathered(TABLES[name], self.pieces(name))

    def pieces(self, name: str) -> Iterable[Piece]:
        """Give the rows of one table, as they are at hand, in pieces of at most `BATCH_ROWS`.

        Each table has a method of its name: `_commits` makes `commits`.
        All is read before this returns; rows of an array with many commits are made as taken.
        """
        return self._taken(getattr(self, f"_{name}")())

    def batches(self, name: str) -> Iterable[pa.Table]:
        """Give what `pieces` gives as tables."""
        return self._taken(gathered(TABLES[name], [piece]) for piece in self.pieces(name))

    def _taken(self, made: Iterable[T]) -> Iterable[T]:
        return made if len(self.log.history.table) > BATCH_ROWS else [*made]

    @cached_property
    def findings(self) -> CappedFindings:
        """The findings, as far as `check` goes."""
        log, store = self.log, None if self.check == "log" else self.log.store
        found: Iterable[Finding] | None = self.checked
        if found is None:
            found = find_problems(log.history, log.rules, store, deep=self.check == "deep")
        return CappedFindings(log.array, found, self.max_findings)

    def _in_window(self, table: pa.Table) -> pa.Table:
        """Give the rows that touch the window, with the array."""
        if self.start > 0 or self.end < MAX_TIMESTAMP:
            t1, t2 = table["t1"].to_numpy(), table["t2"].to_numpy()
            table = table.filter(pa.array(overlaps(t1, t2, self.start, self.end)))
        return table.append_column("array", pa.repeat(self.log.array, len(table)))

    def _arrays(self) -> list[Piece]:
        history = self.log.history
        table, rules = history.table, self.log.rules
        newest = schema_at(history, MAX_TIMESTAMP)
        version = newest.schema.version if newest and newest.schema else None
        if version is None and len(table):
            version = max(table.version(row) for row in range(len(table)))
        row = {
            "array": self.log.array,
            "format_version": version,
            "dense": history.dense,
            "commits": table.commit_count,
            "loose_commits": int(np.count_nonzero(table.loose)),
            "con_files": sum(name.endswith(".con") for name in history.listing.commits),
            "fragments": fragment_count(rules),
            "first_timestamp": in_bigint(int(table.uris.t1.min())) if len(table) else None,
            "last_timestamp": in_bigint(int(table.uris.t2.max())) if len(table) else None,
            "log_bytes": history.bytes_read,
            **self._sizes(),
            **self._costs(),
            **severity_columns(self.findings),
        }
        return [[row]]

    def _sizes(self) -> dict[str, int]:
        measured = self.measured
        if measured is None or any(entry.size is None for entry in measured):
            return {}
        sizes = bytes_by_reason(self.log.store, self.log.history, self.log.rules, measured)
        return {"bytes": sum(sizes.values())} | {BYTES_OF[name]: n for name, n in sizes.items()}

    def _costs(self) -> dict[str, int]:
        """Count the requests of an open, and those of them that list."""
        history, listing = self.log.history, self.log.history.listing
        root = (*listing.root_commits, *listing.root_fragments)
        folders = (listing.commits, listing.fragments, listing.fragment_meta, listing.meta, root)
        further_pages = sum(max(1, ceil(len(names) / PAGE)) - 1 for names in folders)
        lists = listing.requests - listing.heads + listing.absent_folders + further_pages
        reads = history.requests - listing.requests + listing.heads
        row = {"open_requests": reads + lists, "open_lists": lists}
        has_meta = any(path.endswith(".meta") for path in listing.fragment_meta)
        held = consolidated_fragments(self.log.store, history) if has_meta else Consolidated()
        if held is not None:
            cost = open_cost(self.log.rules, held)
            row |= {"engine_open_requests": cost.requests, "engine_open_lists": cost.lists}
            row["engine_open_requests_after_maintenance"] = cost.requests_after_maintenance
        return row

    def _commits(self) -> Iterator[Piece]:
        table = self.log.history.table
        for first in range(0, len(table), BATCH_ROWS):
            yield self._in_window(commit_rows(table, first, first + BATCH_ROWS))

    def _conditions(self) -> list[Piece]:
        commits = [commit for commit, _ in tile_commits(self.log.rules, MAX_TIMESTAMP)]
        commits.sort(key=lambda commit: (commit.t1, commit.t2, commit.name))
        rows = [
            {"array": self.log.array} | condition_row(commit)
            for commit in commits
            if overlaps(commit.t1, commit.t2, self.start, self.end)
        ]
        return [rows]

    def _fragments(self) -> Iterable[Piece]:
        batches: Iterable[pa.Table] = lifeline_batches(self.log.rules, BATCH_ROWS)
        if self.cells:
            facts = self.log.fragments()
            batches = (_with_facts(lines, facts) for lines in batches)
        return map(self._in_window, batches)

    def _usage(self) -> list[Piece]:
        usage = self.log.usage()
        arrays = pa.repeat(self.log.array, len(usage))
        return [pa.table([arrays, *usage.columns], schema=TABLES["usage"])]

    def _members(self) -> list[Piece]:
        return []  # an array has none: `members_table` is of groups

    def _operations(self) -> list[Piece]:
        return [operations_rows(self.log.store)]

    def _findings(self) -> list[Piece]:
        return [findings_rows(self.findings.findings())]


def _with_facts(lines: pa.Table, facts: pa.Table) -> pa.Table:
    """Add what each fragment holds to rows of `lifelines`."""
    place = pc.index_in(lines["name"], value_set=facts["name"].combine_chunks())
    for name in FACTS.names[4:]:
        lines = lines.append_column(FACTS.field(name), facts[name].take(place))
    # The name of an old fragment tells no version; its footer does.
    version = pc.coalesce(facts["version"].take(place), lines["version"])
    return lines.set_column(lines.schema.get_field_index("version"), "version", version)


def condition_row(commit: Delete) -> dict[str, Any]:
    """Make one row of `conditions`, without the array; what cannot be read is null."""
    document = commit.to_dict()
    try:
        names = list(fields(commit.stored))
    except ChronotileError:
        names = None
    return {
        "name": commit.name,
        "kind": "update" if isinstance(commit, Update) else "delete",
        "t1": in_bigint(commit.t1),
        "predicate": _clean(document["text"]),
        "stored": _json(document["stored"]),
        "predicate_json": _json(document["predicate"]),
        "values": _json(document.get("values")),
        "fields": names,
    }


def findings_rows(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Give findings as rows of their table."""
    return [{name: _clean(text) for name, text in item.to_dict().items()} for item in findings]


def findings_table(findings: Iterable[Finding]) -> pa.Table:
    """Give findings as a table."""
    return pa.Table.from_pylist(findings_rows(findings), schema=SCHEMAS["findings"])


def operations_rows(store: Store) -> list[dict[str, Any]]:
    """Give the operations of an array or group as rows of a table."""
    return [
        {
            "array": store.uri,
            "id": one.id,
            "time": datetime.fromtimestamp(one.at_ms / 1000, UTC),
            "command": one.command,
            "state": one.state,
        }
        for one in own_operations(store)
    ]


def members_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Give members, as `dataset.open_dataset` has them, as a table."""
    made = [
        {
            "group": row["group"],
            "name": _clean(row["name"]),
            "kind": row["kind"],
            "found": row["found"],
            "array": _clean(row["uri"]),
            "stored_uri": _clean(row["stored_uri"]),
            "relative": row["is_relative"],
            "commits": row["commits"],
            "last_timestamp": None if row["changed"] is None else in_bigint(row["changed"]),
            "problem": _clean(row["error"] or row["problem"] or None),
        }
        for row in rows
    ]
    return pa.Table.from_pylist(made, schema=TABLES["members"])


def tables_of_unreadable(array: str, error: Exception) -> dict[str, pa.Table]:
    """Give the tables of an array that could not be read: one row, and one finding.

    >>> tables_of_unreadable("a", ValueError("no"))["arrays"].to_pylist()[0]["errors"]
    1
    """
    finding = unreadable(array, error)
    row = {"array": array} | severity_columns(CappedFindings(array, (finding,)))
    tables = {name: schema.empty_table() for name, schema in TABLES.items()}
    tables["arrays"] = pa.Table.from_pylist([row], schema=SCHEMAS["arrays"])
    tables["findings"] = findings_table((finding,))
    return tables


def severity_columns(findings: CappedFindings) -> dict[str, int]:
    """Give the columns of `arrays` that count findings, listed or not."""
    return {f"{severity}s": count for severity, count in findings.by_severity().items()}


def in_bigint(time: int) -> int:
    """Give a time that a `bigint` can hold."""
    return min(time, LARGEST_BIGINT)


def _json(document: object) -> str | None:
    return None if document is None else _clean(json.dumps(document, ensure_ascii=False))


def _clean(text: str | None) -> str | None:
    """Give text that any table can hold: a lone surrogate, from a damaged file, becomes `?`."""
    return None if text is None else text.encode("utf-8", "replace").decode()
