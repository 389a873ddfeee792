"""The summary of a run.

In: tables, part by part. Out: `Totals`, which can be added, and `Summary`: arrays, commits,
findings by code, the costliest arrays, what maintenance would save. Touches no storage.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from chronotile.check.findings import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from chronotile.spark.table_formats.open_tables import Committed

WORST = 10
"""Costly arrays that a summary names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Numbers of a fleet, or of a part of it."""

    arrays: int = 0
    commits: int = 0
    fragments: int = 0
    measured: int = 0
    """Arrays whose size is known: none, unless sizes were asked for."""
    bytes: int = 0
    """Of these arrays."""
    log_bytes: int = 0
    """Read of the commit logs."""
    engine_open_requests: int = 0
    """Requests that it takes an engine to open every array once, in a bucket."""
    engine_requests_after: int = 0
    """The same after commits and footers are consolidated and vacuumed."""
    open_requests: int = 0
    """Requests that it takes this package to open every array once."""
    findings: tuple[tuple[str, str, int], ...] = ()
    """(severity, code, how many), the most frequent first."""
    worst: tuple[tuple[int, str], ...] = ()
    """(requests of an engine's open, array), the most first."""

    def __add__(self, other: Totals) -> Totals:
        names = [one.name for one in fields(self)]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        counted = {"findings": _most_frequent(sums["findings"]), "worst": _worst(sums["worst"])}
        return Totals(**(sums | counted))


def totals_of(name: str, table: pa.Table) -> Totals:
    """The totals of one part of one table.

    >>> import pyarrow as pa
    >>> columns = {"severity": ["info"], "code": ["x"], "path": ["a"], "message": ["m"]}
    >>> totals_of("findings", pa.table(columns)).findings
    (('info', 'x', 1),)
    """
    if name == "arrays":
        opens = ("engine_open_requests", "open_requests")
        summed = ("commits", "fragments", "bytes", "log_bytes", *opens)
        sums: dict[str, Any] = {name: pc.sum(table[name]).as_py() or 0 for name in summed}
        known = table.filter(pc.field("engine_open_requests").is_valid())
        pairs = (known[name].to_pylist() for name in ("engine_open_requests", "array"))
        worst = _worst(zip(*pairs, strict=True))
        measured = len(table) - table["bytes"].null_count
        return Totals(arrays=len(table), measured=measured, worst=worst, **sums)
    if name == "listings":
        return Totals(engine_requests_after=pc.sum(table["requests_after"]).as_py() or 0)
    if name == "findings":
        names = ("severity", "code", "path", "message")
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        return Totals(findings=_most_frequent((s, c, number_of(*told)) for s, c, *told in rows))
    return Totals()


def _most_frequent(counts: Iterable[tuple[str, str, int]]) -> tuple[tuple[str, str, int], ...]:
    sums: Counter[tuple[str, str]] = Counter()
    for severity, code, count in counts:
        sums[severity, code] += count
    return tuple((*pair, count) for pair, count in sums.most_common())


def _worst(costs: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    return tuple(sorted(costs, key=lambda pair: (-pair[0], pair[1]))[:WORST])


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run did."""

    out: str
    run: str
    """The folder of the run."""
    totals: Totals
    read: int
    """Arrays that were read."""
    unchanged: int
    """Arrays that were not read, as their listing has not changed."""
    unreadable: int
    """Arrays that could not be read: their rows, if there are any, are of an older run."""
    files_read: int
    reads: int
    """Reads of files: one for each file, unless an array changed meanwhile."""
    seconds: float
    maintained: tuple[tuple[str, int], ...] = field(default=())
    """(outcome, arrays) of maintenance, if there was any."""
    inventory_age_s: float | None = None
    """How old the inventory was, if the arrays were found in one."""
    committed: tuple[Committed, ...] = ()
    """What became of each table of Delta or Iceberg."""

    @property
    def saved(self) -> int:
        """Requests that maintenance would save, if an engine opens every array once."""
        return self.totals.engine_open_requests - self.totals.engine_requests_after

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        totals = self.totals
        return {
            "out": self.out,
            "run": self.run,
            "arrays": totals.arrays,
            "arrays_read": self.read,
            "arrays_unchanged": self.unchanged,
            "arrays_unreadable": self.unreadable,
            "commits": totals.commits,
            "fragments": totals.fragments,
            "arrays_measured": totals.measured,
            "bytes": totals.bytes if totals.measured else None,
            "log_bytes": totals.log_bytes,
            "files_read": self.files_read,
            "reads": self.reads,
            "seconds": round(self.seconds, 3),
            "findings": [
                {"severity": severity, "code": code, "count": count}
                for severity, code, count in totals.findings
            ],
            "worst": [
                {"array": array, "engine_open_requests": cost} for cost, array in totals.worst
            ],
            "engine_open_requests": totals.engine_open_requests,
            "engine_open_requests_after_maintenance": totals.engine_requests_after,
            "open_requests": totals.open_requests,
            "maintained": dict(self.maintained),
            "inventory_age_s": self.inventory_age_s,
            "committed": [one._asdict() for one in self.committed],
        }
