"""What a run says at its end.

In: tables, part by part. Out: `Totals`, which add up, and their words: arrays, commits, findings
by code, the arrays that cost most to open, what maintenance would save. Touches no storage.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

WORST = 10
"""Arrays that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Numbers of a fleet, or of a part of it."""

    arrays: int = 0
    commits: int = 0
    fragments: int = 0
    bytes: int = 0
    open_requests: int = 0
    """Requests that it takes to open every array once."""
    requests_after: int = 0
    """The same after maintenance."""
    findings: tuple[tuple[str, str, int], ...] = ()
    """(severity, code, how many), the most frequent first."""
    worst: tuple[tuple[int, str], ...] = ()
    """(requests, array), the most first."""

    def __add__(self, other: Totals) -> Totals:
        counts: Counter[tuple[str, str]] = Counter()
        for severity, code, count in (*self.findings, *other.findings):
            counts[severity, code] += count
        return Totals(
            arrays=self.arrays + other.arrays,
            commits=self.commits + other.commits,
            fragments=self.fragments + other.fragments,
            bytes=self.bytes + other.bytes,
            open_requests=self.open_requests + other.open_requests,
            requests_after=self.requests_after + other.requests_after,
            findings=tuple((*key, count) for key, count in counts.most_common()),
            worst=_first(self.worst + other.worst),
        )


def totals_of(name: str, table: pa.Table) -> Totals:
    """What one part of one table adds.

    >>> import pyarrow as pa
    >>> totals_of("findings", pa.table({"severity": ["info"] * 2, "code": ["x"] * 2})).findings
    (('info', 'x', 2),)
    """
    if name == "arrays":
        costs = table["open_requests"].to_pylist()
        uris = table["array"].to_pylist()
        return Totals(
            arrays=len(table),
            commits=_sum(table["commits"]),
            fragments=_sum(table["fragments"]),
            bytes=_sum(table["bytes"]),
            open_requests=_sum(table["open_requests"]),
            worst=_first((cost or 0, uri) for cost, uri in zip(costs, uris, strict=True)),
        )
    if name == "listings":
        return Totals(requests_after=_sum(table["requests_after"]))
    if name == "findings":
        pairs = zip(table["severity"].to_pylist(), table["code"].to_pylist(), strict=True)
        counted = Counter(pairs).most_common()
        return Totals(findings=tuple((*pair, count) for pair, count in counted))
    return Totals()


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


def _first(costs: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    return tuple(sorted(costs, key=lambda one: (-one[0], one[1]))[:WORST])


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run has done."""

    out: str
    run: str
    """The folder of the run."""
    totals: Totals
    read: int
    """Arrays that were read."""
    unchanged: int
    """Arrays that were not, as their listing is what it was."""
    unreadable: int
    """Arrays that could not be read: their rows, if there are any, are of an older run."""
    files_read: int
    reads: int
    """How often files were read: as often as there were files, unless an array changed."""
    seconds: float
    maintained: tuple[tuple[str, int], ...] = field(default=())
    """(outcome, arrays) of maintenance, if there was any."""

    @property
    def saved(self) -> int:
        """Requests that maintenance would save, if every array is opened once."""
        return self.totals.open_requests - self.totals.requests_after

    def to_json(self) -> dict[str, Any]:
        """As one JSON document."""
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
            "bytes": totals.bytes,
            "files_read": self.files_read,
            "reads": self.reads,
            "seconds": round(self.seconds, 3),
            "findings": [
                {"severity": severity, "code": code, "count": count}
                for severity, code, count in totals.findings
            ],
            "worst": [{"array": array, "open_requests": cost} for cost, array in totals.worst],
            "open_requests": totals.open_requests,
            "open_requests_after_maintenance": totals.requests_after,
            "maintained": dict(self.maintained),
        }
