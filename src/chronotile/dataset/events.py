"""What happened in a dataset: the objects of all members in one order of time.

In: a dataset. Out: an Arrow table, one row an object of an array and one a list of members. No
words: `report` finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.dataset.open_dataset import Dataset
    from chronotile.history.group_reading import GroupHistory

EVENTS_SCHEMA = pa.schema(
    [
        ("member", pa.string()),
        ("array", pa.string()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("time", pa.timestamp("ms", "UTC")),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("because", pa.string()),
        ("path", pa.string()),
    ]
)
_MOST_MS = 1 << 63


def events_table(dataset: Dataset) -> pa.Table:
    """Every object of every member, in time order; `member` is empty for the group's own lists.

    `status`, `reason` and `because` tell whether an open now sees it.

    Raises:
        ChronotileError: A member cannot be read.
    """
    rows = list(_lists("", dataset.group))
    for node in dataset.tree():
        if node.history is not None:
            rows += _lists(node.path, node.history)
    for node, log in dataset.read_logs():
        if isinstance(log, ChronotileError):
            raise log
        rows += [
            {
                "member": node.path,
                "array": node.uri,
                "name": item.name,
                "kind": "write" if item.kind == "fragment" else item.kind,
                "t1": item.t1,
                "t2": item.t2,
                "time": _time(item.t2),
                "status": item.status,
                "reason": item.reason,
                "because": item.because,
                "path": item.path,
            }
            for item in log.view().explain()
        ]
    table = pa.Table.from_pylist(rows, schema=EVENTS_SCHEMA)
    order = [("t2", "ascending"), ("t1", "ascending"), ("member", "ascending")]
    return table.take(pc.sort_indices(table, sort_keys=[*order, ("name", "ascending")]))


def _lists(path: str, group: GroupHistory) -> Iterator[dict[str, Any]]:
    for file in group.files:
        yield {
            "member": path,
            "array": group.group,
            "name": file.name.text,
            "kind": "members",
            "t1": file.name.t1,
            "t2": file.name.t2,
            "time": _time(file.name.t2),
            "status": "visible",
            "reason": "in-window",
            "path": file.path,
        }


def _time(moment: int | None) -> int | None:
    """A moment that Arrow can hold as a time."""
    return moment if moment is not None and moment < _MOST_MS else None
