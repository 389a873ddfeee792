"""The difference between two moments of an array.

In: a log, two moments. Out: a table of rows, with the engine; or one that the log alone gives:
commits, schemas and metadata that an open at the later moment has and one at the earlier has not,
or the other way round, with cells and bytes.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile.errors import BadTimeError
from chronotile.format.kinds import META
from chronotile.format.names import try_parse
from chronotile.rows.row_diff import diff_rows
from chronotile.show.events import delete_words, update_words
from chronotile.visibility.gaps import refuse_gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.timestamps import Moment
    from chronotile.log import Log
    from chronotile.visibility.view import View

ADDED, REMOVED = "added", "removed"
LOG_DIFF_SCHEMA = pa.schema(
    [
        ("change", pa.string()),
        ("kind", pa.string()),
        ("member", pa.string()),
        ("name", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("cells", pa.int64()),
        ("bytes", pa.int64()),
        ("what", pa.string()),
    ]
)
"""`kind` is `fragment`, `delete`, `update`, `schema`, `metadata` or, of a group, `member`; `member`
is null but in a group; `what` says in words what a delete or an update did."""


def diff_of(log: Log, t1: Moment, t2: Moment, *, rows: bool) -> pa.Table:
    """Compare what opens at two moments see; see `Array.diff`.

    Returns:
        Without `rows`, a line each fragment, delete, update, schema, file of metadata and member:
        `change` (`added` or `removed`), `kind`, `member`, `name`, `t1`, `t2`, `cells`, `bytes`,
        `what`. With `rows`, a line each row that differs: `change` (`insert`, `delete`,
        `update_before`, `update_after`), `commit` (the last one that changed it), `t`, dimensions,
        attributes.

    Raises:
        BadTimeError: A moment is none, or the second is before the first.
    """
    first, last = in_order(log.array, log.moment(t1, "t1"), log.moment(t2, "t2"))
    return diff_between(log, first, last, rows=rows)


def in_order(where: str, first: int, last: int) -> tuple[int, int]:
    """Refuse two moments of which the later one comes first.

    Raises:
        BadTimeError: It does.
    """
    if last < first:
        problem = f"expected the earlier moment first, found {first} and {last}"
        raise BadTimeError(where, problem)
    return first, last


def diff_between(log: Log, first: int, last: int, *, rows: bool) -> pa.Table:
    """Compare what opens at two moments in ms see; see `diff_of`.

    Raises:
        TimeGoneError: A moment can no longer be read whole.
        StorageError: The storage failed.
    """
    call = f"chronotile diff {shlex.quote(log.array)}"
    refuse_gone(log.rules, 0, first, lambda _, moment: f"{call} {moment} {max(moment, last)}")
    refuse_gone(log.rules, 0, last, lambda _, moment: f"{call} {min(moment, first)} {moment}")
    return diff_rows(log, first, last) if rows else _diff_log(log, first, last)


def _diff_log(log: Log, first: int, last: int) -> pa.Table:
    """Compare commits, schemas and metadata; read the footers of the fragments that differ."""
    views = log.view(0, first), log.view(0, last)
    before, after = (dict(_objects(log, view)) for view in views)
    rows = [{"change": REMOVED, **before[key]} for key in before if key not in after]
    rows += [{"change": ADDED, **after[key]} for key in after if key not in before]
    names = [row["name"] for row in rows if row["kind"] == "fragment"]
    facts = log.fragments(names=names).to_pylist() if names else []
    known = {fact["name"]: fact for fact in facts}
    for row in rows:
        fact = known.get(row["name"], {}) if row["kind"] == "fragment" else {}
        row |= {"cells": fact.get("cells"), "bytes": fact.get("bytes")}
    ordered = sorted(rows, key=lambda row: (row["t2"] or 0, row["kind"], row["name"]))
    return pa.Table.from_pylist(ordered, LOG_DIFF_SCHEMA)


def _objects(log: Log, view: View) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Give everything that an open sees, by kind and name."""

    def row(kind: str, name: str, t1: int | None, t2: int | None, what: str | None = None) -> Any:
        return (kind, name), {"kind": kind, "name": name, "t1": t1, "t2": t2, "what": what}

    for fragment in view.fragments:
        yield row("fragment", fragment.name, fragment.t1, fragment.t2)
    for delete in view.deletes:
        yield row("delete", delete.name, delete.t1, delete.t2, delete_words(delete)[0])
    for update in view.updates:
        yield row("update", update.name, update.t1, update.t2, update_words(update)[0])
    if view.schema is not None:
        parsed = try_parse(view.schema)
        yield row("schema", view.schema, parsed and parsed.t1, parsed and parsed.t2)
    for file in log.history.listing.meta:
        parsed = try_parse(file.removeprefix(f"{META}/"))
        if parsed is not None and parsed.t2 <= view.end:
            yield row("metadata", parsed.text, parsed.t1, parsed.t2)
