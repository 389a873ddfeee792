"""The tables of the fleet: columns beside the functions that fill them.

In: the log of one array, or the error that kept it from being read. Out: Arrow tables, one for
each table of the contract. Touches no storage, and knows nothing of Spark.

Timestamps are `bigint`; one beyond its end, which no clock reaches, is given as its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import SEVERITIES
from chronotile.conditions.tree import fields
from chronotile.dataset.check_all import unreadable
from chronotile.errors import ChronotileError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.spark.request_costs import open_requests
from chronotile.visibility.rules import overlaps, schema_at
from chronotile.visibility.view import Delete, Update

if TYPE_CHECKING:
    from chronotile.check.findings import Finding
    from chronotile.log import Log

LAST = (1 << 63) - 1
"""The largest `bigint`."""

SCHEMAS: dict[str, pa.Schema] = {
    "arrays": pa.schema(
        [
            ("array", pa.string()),
            ("format_version", pa.int64()),
            ("dense", pa.bool_()),
            ("commits", pa.int64()),
            ("loose_commits", pa.int64()),
            ("con_files", pa.int64()),
            ("fragments", pa.int64()),
            ("first_timestamp", pa.int64()),
            ("last_timestamp", pa.int64()),
            ("bytes", pa.int64()),
            ("open_requests", pa.int64()),
            ("errors", pa.int64()),
            ("warnings", pa.int64()),
            ("infos", pa.int64()),
            ("stale", pa.string()),
        ]
    ),
    "commits": pa.schema(
        [
            ("array", pa.string()),
            ("name", pa.string()),
            ("kind", pa.string()),
            ("t1", pa.int64()),
            ("t2", pa.int64()),
            ("uuid", pa.string()),
            ("version", pa.int64()),
            ("source", pa.string()),
            ("offset", pa.int64()),
            ("loose", pa.bool_()),
            ("ignored", pa.bool_()),
        ]
    ),
    "conditions": pa.schema(
        [
            ("array", pa.string()),
            ("name", pa.string()),
            ("kind", pa.string()),
            ("t1", pa.int64()),
            ("predicate", pa.string()),
            ("stored", pa.string()),
            ("predicate_json", pa.string()),
            ("values", pa.string()),
            ("fields", pa.list_(pa.string())),
        ]
    ),
    "fragments": pa.schema(
        [
            ("array", pa.string()),
            ("name", pa.string()),
            ("t1", pa.int64()),
            ("t2", pa.int64()),
            ("version", pa.int64()),
            ("visible_from", pa.int64()),
            ("visible_until", pa.int64()),
            ("reason", pa.string()),
            ("because", pa.string()),
        ]
    ),
    "findings": pa.schema(
        [
            ("code", pa.string()),
            ("severity", pa.string()),
            ("array", pa.string()),
            ("path", pa.string()),
            ("message", pa.string()),
            ("hint", pa.string()),
        ]
    ),
}
"""Table -> its columns, in order. `arrays` counts: `commits` the rows of that table, `fragments`
the committed ones, `bytes` what was read of the log; `request_costs` counts `open_requests`.
`stale` is null but in a run of the pipeline that could not read the array: it names the run that
did, whose rows all tables repeat."""

WINDOWED = ("commits", "conditions", "fragments")
"""The tables whose rows have a time, so that a window can choose among them."""
STREAMED = ("commits", "conditions")
"""The tables that only grow, so that they can be streamed."""

_LAST = pa.scalar(LAST, pa.uint64())


@dataclass(frozen=True)
class Rows:
    """The tables of one array, each made when it is asked for."""

    log: Log
    start: int = 0
    end: int = MAX_TIMESTAMP

    def table(self, name: str) -> pa.Table:
        """One table of the contract.

        With a window, `commits`, `conditions` and `fragments` keep the rows whose time range
        touches it.
        """
        made: pa.Table = getattr(self, f"_{name}")()
        return made

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What `check --log-only` says: a fleet's fragments are not looked into."""
        return self.log.check(log_only=True)

    def _in_window(self, found: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows of the array's own table that touch the window, with the array's name."""
        if self.start > 0 or self.end < MAX_TIMESTAMP:
            t1, t2 = found["t1"].to_numpy(), found["t2"].to_numpy()
            found = found.filter(pa.array(overlaps(t1, t2, self.start, self.end)))
        columns = [pa.repeat(self.log.array, len(found))]
        for name in schema.names[1:]:
            column = found[name]
            columns.append(_bigints(column) if column.type == pa.uint64() else column)
        return pa.table(columns, schema=schema)

    def _arrays(self) -> pa.Table:
        history = self.log.history
        table, rules = history.table, self.log.rules
        newest = schema_at(history, MAX_TIMESTAMP)
        version = newest.schema.version if newest and newest.schema else None
        if version is None and len(table):
            version = max(table.version(row) for row in range(len(table)))
        loose = np.array([source.loose for source in table.sources], bool)
        row = {
            "array": self.log.array,
            "format_version": version,
            "dense": history.dense,
            "commits": len(table),
            "loose_commits": int(loose[table.source].sum()) if len(table) else 0,
            "con_files": sum(name.endswith(".con") for name in history.listing.commits),
            "fragments": len(rules.fragments),
            "first_timestamp": _capped(int(table.uris.t1.min())) if len(table) else None,
            "last_timestamp": _capped(int(table.uris.t2.max())) if len(table) else None,
            "bytes": history.bytes_read,
            "open_requests": open_requests(history),
            **_by_severity(self.findings),
        }
        return pa.Table.from_pylist([row], schema=SCHEMAS["arrays"])

    def _commits(self) -> pa.Table:
        return self._in_window(self.log.commits(), SCHEMAS["commits"])

    def _conditions(self) -> pa.Table:
        view = self.log.view(0, MAX_TIMESTAMP)
        commits: list[Delete] = sorted(
            [*view.deletes, *view.updates], key=lambda commit: (commit.t1, commit.t2, commit.name)
        )
        rows = [
            {"array": self.log.array} | condition_row(commit)
            for commit in commits
            if overlaps(commit.t1, commit.t2, self.start, self.end)
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMAS["conditions"])

    def _fragments(self) -> pa.Table:
        return self._in_window(self.log.lifelines(), SCHEMAS["fragments"])

    def _findings(self) -> pa.Table:
        return findings_table(self.findings)


def condition_row(commit: Delete) -> dict[str, Any]:
    """One row of `conditions`, less the array; nulls for what cannot be read."""
    document = commit.to_dict()
    try:
        names = list(fields(commit.stored))
    except ChronotileError:
        names = None
    return {
        "name": commit.name,
        "kind": "update" if isinstance(commit, Update) else "delete",
        "t1": _capped(commit.t1),
        "predicate": _clean(document["text"]),
        "stored": _json(document["stored"]),
        "predicate_json": _json(document["predicate"]),
        "values": _json(document.get("values")),
        "fields": names,
    }


def findings_table(findings: tuple[Finding, ...]) -> pa.Table:
    """Findings as a table."""
    rows = [{name: _clean(text) for name, text in found.to_dict().items()} for found in findings]
    return pa.Table.from_pylist(rows, schema=SCHEMAS["findings"])


def tables_of_unreadable(array: str, error: Exception) -> dict[str, pa.Table]:
    """What the tables say of an array that could not be read.

    >>> tables_of_unreadable("a", ValueError("no"))["arrays"].to_pylist()[0]["errors"]
    1
    """
    finding = unreadable(array, error)
    row = {"array": array} | _by_severity((finding,))
    tables = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    tables["arrays"] = pa.Table.from_pylist([row], schema=SCHEMAS["arrays"])
    tables["findings"] = findings_table((finding,))
    return tables


def _by_severity(findings: tuple[Finding, ...]) -> dict[str, int]:
    return {
        f"{severity}s": sum(found.severity == severity for found in findings)
        for severity in SEVERITIES
    }


def _bigints(times: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return times.cast(pa.int64())
    except pa.ArrowInvalid:
        return pc.min_element_wise(times, _LAST, skip_nulls=False).cast(pa.int64())


def _capped(time: int) -> int:
    return min(time, LAST)


def _json(document: object) -> str | None:
    return None if document is None else _clean(json.dumps(document, ensure_ascii=False))


def _clean(text: str | None) -> str | None:
    """Text that any table can hold: half a letter, from a damaged file, becomes `?`."""
    return None if text is None else text.encode("utf-8", "replace").decode()
