"""`chronotile usage` of a group: the bytes of all members together.

In: a group. Out: the report of `usage`, whose files are those of every array and of the groups
themselves, each below the path of its member.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronotile.cli.group_each import chosen
from chronotile.cli.usage import UsageReport, _draw
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.kinds import GROUP, GROUP_MARKER, META

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from chronotile.change.usage import Usage, Way
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.storage.store import Store


def group_usage(
    _: Callable[..., Any],
    dataset: Dataset,
    pattern: str | None,
    *,
    output: str | None,
    **rest: Any,  # noqa: ARG001  (options of arrays alone)
) -> UsageReport:
    """Why a dataset is so large."""
    import pyarrow as pa

    from chronotile.change.usage import Usage, measure_usage
    from chronotile.report.output import progress

    nodes = chosen(dataset, pattern)
    tables: list[pa.Table] = [] if pattern is not None else [_own("", dataset.store)]
    ways: list[Way] = []
    notes: list[str] = []
    status = 0
    with progress("listing files", len(nodes)) as step:
        for node in nodes:
            if node.found == "group" and node.store is not None:
                tables.append(_own(f"{node.path}/", node.store))
            elif node.found == "array" and node.store is not None:
                log = dataset.read_log(node)
                if isinstance(log, ChronotileError):
                    notes.append(f"{node.path} cannot be read: {log}")
                    status = ReadError.exit_code
                    continue
                used = _below(node.path, measure_usage(node.store, log.history, log.rules))
                tables.append(used.table)
                ways += used.ways
                notes += used.notes
            elif node.problem:
                notes.append(f"{node.path}: {node.problem}")
            step()
    table = pa.concat_tables(tables)
    usage = Usage(table=table, ways=tuple(ways), notes=tuple(notes))
    report = UsageReport(array=dataset.uri, usage=usage, output=output, status=status)
    if output is not None:
        Path(output).write_bytes(_draw(report, Path(output).suffix.lower()))
    return report


def _below(path: str, used: Usage) -> Usage:
    """The usage of an array, its files and fragments below the path of its member."""
    import pyarrow as pa

    from chronotile.change.usage import SCHEMA

    def lower(text: str | None) -> str | None:
        return None if text is None else f"{path}/{text}"

    table = used.table
    for place, name in enumerate(SCHEMA.names):
        if name in ("path", "fragment"):
            texts = pa.array([lower(text) for text in table[name].to_pylist()], pa.string())
            table = table.set_column(place, SCHEMA.field(place), texts)
    return replace(
        used,
        table=table,
        ways=tuple(
            replace(way, paths=frozenset(f"{path}/{one}" for one in way.paths)) for way in used.ways
        ),
        notes=tuple(f"{path}: {note}" for note in used.notes),
    )


def _own(prefix: str, store: Store) -> pa.Table:
    """A group's own files: its marker, its lists of members, its metadata."""
    import pyarrow as pa

    from chronotile.change.usage import SCHEMA

    def entries() -> Iterator[tuple[str, int]]:
        for folder in ("", GROUP, META):
            for entry in store.list_dir(folder, sizes=True).files:
                if folder or entry.path == GROUP_MARKER:
                    yield entry.path, entry.size or 0

    rows = [
        {"path": f"{prefix}{path}", "bytes": size, "reason": "metadata"} for path, size in entries()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)
