"""The summary of a run, its metrics for a monitoring system, and how much may be unreadable.

In: the tables `arrays` and `findings`. Out: `Totals` and `Summary`: arrays, commits, findings by
code, the costliest arrays, what maintenance would save; a file in the text format of Prometheus, as
its node exporter's textfile collector reads it. Knows nothing of Spark.

Every sample has the label `out`, so that the files of several pipelines can lie in one folder. A
run that failed leaves the first four metrics only: alert on `chronotile_run_success`, and on the
age of `chronotile_run_end_timestamp_seconds`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import number_of
from chronotile.errors import ChronotileError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


WORST = 10
"""Costly arrays that a summary names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Numbers of a fleet, or of a part of it."""

    arrays: int = 0
    commits: int = 0
    fragments: int = 0
    arrays_measured: int = 0
    """Arrays whose size is known: none, unless sizes were asked for."""
    bytes: int = 0
    """Of these arrays."""
    log_bytes: int = 0
    engine_open_requests: int = 0
    """Requests that it takes an engine to open every array once, in a bucket."""
    engine_open_requests_after_maintenance: int = 0
    open_requests: int = 0
    findings: tuple[tuple[str, str, int], ...] = ()
    """(severity, code, how many), the most frequent first."""
    worst: tuple[tuple[int, str], ...] = ()
    """(requests of an engine's open, array), the most first."""


def totals_in(text: str) -> Totals | None:
    """Read totals as `run_history` has them; None if another version wrote them.

    >>> totals_in(json.dumps(asdict(Totals(arrays=2, worst=((7, "a"),)))))  # doctest: +ELLIPSIS
    Totals(arrays=2, ..., findings=(), worst=((7, 'a'),))
    """
    row = json.loads(text)
    if row.keys() != Totals.__dataclass_fields__.keys():
        return None
    lists = {name: tuple(map(tuple, row[name])) for name in ("findings", "worst")}
    return Totals(**{**row, **lists})


_SUMMED = (
    *("commits", "fragments", "bytes", "log_bytes", "open_requests", "engine_open_requests"),
    "engine_open_requests_after_maintenance",
)
"""Columns of `arrays` that are added up."""
_OF_FINDINGS = ["severity", "code", "path", "message"]
"""Columns of `findings` by which they are counted."""


def totals_of(rows: Callable[[str, list[str]], Iterable[pa.RecordBatch]]) -> Totals:
    """Add up the tables of a fleet, of which a function reads some columns, batch by batch.

    >>> def rows(name, columns):
    ...     value = 0 if name == "arrays" else "x"
    ...     return [pa.record_batch([[value]] * len(columns), columns)] * 2
    >>> totals_of(rows).findings
    (('x', 'x', 2),)
    """
    sums: Counter[str] = Counter()
    worst: list[tuple[int, str]] = []
    for batch in rows("arrays", ["uri", *_SUMMED]):
        sums["arrays"] += len(batch)
        sums["arrays_measured"] += len(batch) - batch["bytes"].null_count
        for column in _SUMMED:
            if column in batch.schema.names:
                sums[column] += pc.sum(batch[column]).as_py() or 0
        order = [("engine_open_requests", "descending"), ("uri", "ascending")]
        known = batch.filter(pc.is_valid(batch["engine_open_requests"])).sort_by(order)
        top = (known[name].slice(0, WORST).to_pylist() for name, _ in order)
        worst += zip(*top, strict=True)
    counts: Counter[tuple[str, str]] = Counter()
    for batch in rows("findings", _OF_FINDINGS):
        columns = (batch[name].to_pylist() for name in _OF_FINDINGS)
        for severity, code, path, message in zip(*columns, strict=True):
            counts[severity, code] += number_of(path, message)
    return Totals(
        **sums,
        findings=tuple((*pair, count) for pair, count in counts.most_common()),
        worst=tuple(sorted(worst, key=lambda pair: (-pair[0], pair[1]))[:WORST]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The summary of a run."""

    out: str
    run: str
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

    def to_json(self) -> dict[str, Any]:
        """Make one JSON object."""
        totals = self.totals
        return {
            "out": self.out,
            "run": self.run,
            **asdict(totals),
            "bytes": totals.bytes if totals.arrays_measured else None,
            "findings": [
                {"severity": severity, "code": code, "count": count}
                for severity, code, count in totals.findings
            ],
            "worst": [
                {"array": array, "engine_open_requests": cost} for cost, array in totals.worst
            ],
            "arrays_read": self.read,
            "arrays_unchanged": self.unchanged,
            "arrays_unreadable": self.unreadable,
            "files_read": self.files_read,
            "reads": self.reads,
            "seconds": round(self.seconds, 3),
            "maintained": dict(self.maintained),
            "inventory_age_s": self.inventory_age_s,
            "versions": dict(self.versions),
            "planned": list(self.planned),
        }


METRICS = {
    "chronotile_run_success": "1 if the run ended well, else 0.",
    "chronotile_run_exit_status": "The exit status of the command.",
    "chronotile_run_end_timestamp_seconds": "When the run ended, in seconds since the epoch.",
    "chronotile_run_duration_seconds": "How long the run took.",
    "chronotile_arrays": "Arrays in the tables.",
    "chronotile_arrays_read": "Arrays that the run read.",
    "chronotile_arrays_unchanged": "Arrays that had not changed since the last run.",
    "chronotile_arrays_unreadable": "Arrays that could not be read.",
    "chronotile_commits": "Commits of all arrays.",
    "chronotile_fragments": "Fragments of all arrays.",
    "chronotile_bytes": "Bytes of all arrays, if sizes were asked for.",
    "chronotile_log_bytes": "Bytes of commit logs.",
    "chronotile_files_read": "Files that the run read.",
    "chronotile_engine_open_requests": "Requests of TileDB to open every array once.",
    "chronotile_engine_open_requests_after_maintenance": "The same after maintenance.",
    "chronotile_open_requests": "Requests of chronotile to open every array once.",
    "chronotile_findings": "Findings, by severity and code.",
    "chronotile_array_engine_open_requests": "Requests of TileDB to open one of the costliest.",
    "chronotile_maintenance_arrays": "Arrays that maintenance looked at, by command and outcome.",
}
"""Metric -> its meaning. All are gauges."""


def write_metrics(
    path: Path, out: str, status: int, seconds: float, summary: Summary | None = None
) -> None:
    """Replace the file of metrics in one step; a run that failed has no summary.

    Raises:
        StorageError: The file cannot be written.
    """
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry, gauges = CollectorRegistry(), dict[str, Gauge]()
    for name, labels, value in _samples(status, seconds, summary):
        pairs = {"out": out, **labels}
        if name not in gauges:
            gauges[name] = Gauge(name, METRICS[name], pairs, registry=registry)
        clean = {key: text.encode("utf-8", "replace").decode() for key, text in pairs.items()}
        gauges[name].labels(**clean).set(value)
    try:
        write_to_textfile(str(path), registry)
    except OSError as cause:
        problem = f"expected to write metrics, found: {cause.strerror or cause}"
        raise StorageError(str(path), problem) from cause


def _samples(
    status: int, seconds: float, summary: Summary | None
) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Give name, labels and value of each sample."""
    yield "chronotile_run_success", {}, int(summary is not None)
    yield "chronotile_run_exit_status", {}, status
    yield "chronotile_run_end_timestamp_seconds", {}, round(time.time(), 3)
    yield "chronotile_run_duration_seconds", {}, round(seconds, 3)
    if summary is None:
        return
    document = summary.to_json()
    for name in METRICS:
        value = document.get(name.removeprefix("chronotile_"))
        if isinstance(value, int):
            yield name, {}, value
    for severity, code, count in summary.totals.findings:
        yield "chronotile_findings", {"severity": severity, "code": code}, count
    for cost, array in summary.totals.worst:
        yield "chronotile_array_engine_open_requests", {"array": array}, cost
    for text, count in summary.maintained:
        command, _, outcome = text.partition(" ")
        yield "chronotile_maintenance_arrays", {"command": command, "outcome": outcome}, count


_NAMED = 3
"""Unreadable arrays that the error names."""
_WORDS_MAX = 300


class UnreadArrays(NamedTuple):
    """An array that could not be read, and why."""

    array: str
    words: str


class Limit(NamedTuple):
    """A number of arrays, or a share of the fleet; and the text that the user wrote."""

    text: str
    value: int | Fraction

    def of(self, total: int) -> int:
        """Give the number of arrays that may be unreadable in a fleet of `total` arrays.

        >>> [read_limit("0.001").of(total) for total in (5, 999, 1_000, 2_500)]
        [0, 0, 1, 2]
        """
        return self.value if isinstance(self.value, int) else int(self.value * total)


def read_limit(text: str) -> Limit:
    """Parse a limit: `3` is a number of arrays; `0.01`, `1%` and `1/100` are shares.

    Raises:
        ChronotileError: The text is neither.

    >>> read_limit("3").of(10), read_limit("25%").of(10), read_limit("1.0").of(10)
    (3, 2, 10)
    >>> read_limit("many")
    Traceback (most recent call last):
    chronotile.errors.ChronotileError: limit: expected a number of arrays or a share, found 'many'
    """
    if text.isascii() and text.isdigit():
        return Limit(text, int(text))
    try:
        share = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise ChronotileError("limit", f"expected a number of arrays or a share, found {text!r}")
    return Limit(text, share)


MAX_UNREADABLE = read_limit("0.1%")
"""1 in 1,000: of a smaller fleet, none."""


class UnreadableError(StorageError):
    """Too many arrays of a fleet could not be read: the run publishes nothing."""

    exit_code = 3


def check_limit(
    out: str, unread: Sequence[UnreadArrays], total: int, limit: Limit, *, more: int = 0
) -> None:
    """Refuse a run that could not read more arrays than the limit allows.

    Nobody holds the names of `more` of them.

    Raises:
        UnreadableError: The run is above the limit.

    >>> check_limit("out", [UnreadArrays("a", "503")], 5, MAX_UNREADABLE)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.fleet.run_summary.UnreadableError: out: expected at most 0 of 5 ...
    """
    count = len(unread) + more
    if count <= limit.of(total):
        return
    first = "; ".join(one.array for one in unread[:_NAMED])
    others = f" and {count - _NAMED} more" if count > _NAMED else ""
    expected = f"expected at most {limit.of(total)} of {total} arrays unreadable"
    found = f"found {count}: {first}{others} ({unread[0].words[:_WORDS_MAX]})"
    kept = "nothing was published, the last good tables stay"
    raise UnreadableError(out, f"{expected} (--max-unreadable {limit.text}), {found}; {kept}")
