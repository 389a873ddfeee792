"""What differs between two moments, as far as the log alone knows.

In: a log, or a group, and two moments. Out: a table: commits, schemas, metadata and members that an
open at the later moment has and one at the earlier has not, or the other way round; with cells and
bytes. Asks no engine.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile.format.kinds import META
from chronotile.format.names import try_parse
from chronotile.show.events import delete_words, update_words
from chronotile.visibility.gaps import refuse_gone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.dataset.open_dataset import Dataset
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
is null but in a group; `what` tells of a delete or an update what it did, in words."""


def diff_log(log: Log, first: int, last: int) -> pa.Table:
    """What the log knows of the difference between two moments.

    Reads the footers of the fragments that it names.

    Raises:
        TimeGoneError: A moment can no longer be read whole.
        StorageError: The storage failed.
    """
    refuse_gone_moments(log, first, last)
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


def refuse_gone_moments(log: Log, first: int, last: int) -> None:
    """Refuse two moments, one of which can no longer be read whole.

    Raises:
        TimeGoneError: It cannot.
    """
    call = f"chronotile diff {shlex.quote(log.array)}"
    refuse_gone(log.rules, 0, first, lambda _, moment: f"{call} {moment} {max(moment, last)}")
    refuse_gone(log.rules, 0, last, lambda _, moment: f"{call} {min(moment, first)} {moment}")


def diff_group(dataset: Dataset, first: int, last: int) -> pa.Table:
    """Likewise for a group: members that came or went, and what changed in each array.

    Raises:
        ChronotileError: An array cannot be read.
    """
    then, now = ({node.path for node in dataset.tree(moment)} for moment in (first, last))
    rows = [_member_row(REMOVED, path) for path in sorted(then - now)]
    rows += [_member_row(ADDED, path) for path in sorted(now - then)]
    tables = [pa.Table.from_pylist(rows, LOG_DIFF_SCHEMA)]
    for path, log in dataset.logs().items():
        table = diff_log(log, first, last)
        member = pa.array([path] * len(table), pa.string())
        at = LOG_DIFF_SCHEMA.get_field_index("member")
        tables.append(table.set_column(at, LOG_DIFF_SCHEMA.field(at), member))
    return pa.concat_tables(tables)


def _member_row(change: str, path: str) -> dict[str, Any]:
    return {"change": change, "kind": "member", "member": path, "name": path}


def _objects(log: Log, view: View) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Everything that an open sees, by kind and name."""

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
