"""The summary of a run.

In: rows of arrays and findings. Out: `Totals`, which can be added, and `Summary`: arrays, commits,
findings by code, the costliest arrays, what maintenance would save. Touches no storage.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from chronotile.check.capped_findings import number_told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

    def to_text(self) -> str:
        """Give the totals as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Totals:
        """Make totals of what `to_text` gave.

        >>> Totals.from_json(json.loads(Totals(arrays=2).to_text())).arrays
        2
        """
        lists = {name: tuple(map(tuple, document[name])) for name in ("findings", "worst")}
        return cls(**{**document, **lists})


def totals_of(
    row: Mapping[str, Any], findings: Iterable[Mapping[str, Any]], requests_after: int = 0
) -> Totals:
    """Make the totals of one array.

    Args:
        row: Its row of `arrays`.
        findings: Its rows of `findings`.
        requests_after: The requests of an engine's open after maintenance.

    >>> row = {"severity": "info", "code": "x", "path": "a", "message": "m"}
    >>> totals_of({"array": "a"}, [row]).findings
    (('info', 'x', 1),)
    """
    summed = ("commits", "fragments", "bytes", "log_bytes", "engine_open_requests", "open_requests")
    sums: dict[str, Any] = {name: row.get(name) or 0 for name in summed}
    cost = row.get("engine_open_requests")
    return Totals(
        arrays=1,
        measured=int(row.get("bytes") is not None),
        worst=() if cost is None else ((cost, row["array"]),),
        findings=_counted(findings),
        engine_requests_after=requests_after,
        **sums,
    )


def totals_of_findings(findings: Iterable[Mapping[str, Any]]) -> Totals:
    """Make the totals of findings alone."""
    return Totals(findings=_counted(findings))


def sum_totals(parts: Iterable[Totals]) -> Totals:
    """Add totals, of which there may be very many."""
    every = list(parts)
    names = [one.name for one in fields(Totals)]
    sums: dict[str, Any] = {
        name: sum(getattr(one, name) for one in every)
        for name in names
        if name not in ("findings", "worst")
    }
    findings = _most_frequent(row for one in every for row in one.findings)
    return Totals(**sums, findings=findings, worst=_worst(w for one in every for w in one.worst))


def _counted(findings: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, str, int], ...]:
    return _most_frequent(
        (row["severity"], row["code"], number_told(row["path"], row["message"])) for row in findings
    )


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
    """The name of the run."""
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
    versions: Mapping[str, int] = field(default_factory=dict)
    """Table -> its version, of those that got a commit."""
    planned: tuple[str, ...] = ()
    """What a dry run of maintenance would do, a line each."""

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
            "versions": dict(self.versions),
            "planned": list(self.planned),
        }
