"""Metrics of a run, for a monitoring system.

In: the summary of a run, or the exit status of one that failed. Out: a file in the text format of
Prometheus, as its node exporter's textfile collector reads it; `prometheus_client` writes it. A
reader sees the old file or the new one, never a part. Knows nothing of Spark.

Every sample has the label `out`, so that the files of several pipelines can lie in one folder. A
run that failed leaves the first four metrics only: alert on `chronotile_run_success`, and on the
age of `chronotile_run_end_timestamp_seconds`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.errors import ChronotileError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from chronotile.spark.pipeline.run_summary import Summary

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
    "chronotile_engine_open_requests": "Requests of an engine that opens every array once.",
    "chronotile_engine_open_requests_after_maintenance": "The same after maintenance.",
    "chronotile_open_requests": "Requests of chronotile to open every array once.",
    "chronotile_findings": "Findings, by severity and code.",
    "chronotile_array_engine_open_requests": "Requests of an engine's open, the costliest arrays.",
    "chronotile_maintenance_arrays": "Arrays that maintenance looked at, by command and outcome.",
}
"""Metric -> its meaning. All are gauges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended."""

    out: str
    status: int
    seconds: float
    summary: Summary | None = None
    """None if the run failed."""


def write_metrics(path: Path, ending: Ending) -> None:
    """Replace the file in one step.

    Raises:
        ChronotileError: `prometheus_client` is not installed.
        StorageError: The file cannot be written.
    """
    try:
        from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
    except ImportError as cause:
        problem = "expected prometheus_client, found none: pip install 'chronotile[spark]'"
        raise ChronotileError(str(path), problem) from cause
    registry, gauges = CollectorRegistry(), dict[str, Gauge]()
    for name, labels, value in _samples(ending, time.time()):
        pairs = {"out": ending.out, **labels}
        if name not in gauges:
            gauges[name] = Gauge(name, METRICS[name], pairs, registry=registry)
        clean = {key: text.encode("utf-8", "replace").decode() for key, text in pairs.items()}
        gauges[name].labels(**clean).set(value)
    try:
        write_to_textfile(str(path), registry)
    except OSError as cause:
        problem = f"expected to write metrics, found: {cause.strerror or cause}"
        raise StorageError(str(path), problem) from cause


def _samples(ending: Ending, now_s: float) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Give name, labels and value of each sample."""
    summary = ending.summary
    yield "chronotile_run_success", {}, int(summary is not None)
    yield "chronotile_run_exit_status", {}, ending.status
    yield "chronotile_run_end_timestamp_seconds", {}, round(now_s, 3)
    yield "chronotile_run_duration_seconds", {}, round(ending.seconds, 3)
    if summary is None:
        return
    totals = summary.totals
    yield "chronotile_arrays", {}, totals.arrays
    yield "chronotile_arrays_read", {}, summary.read
    yield "chronotile_arrays_unchanged", {}, summary.unchanged
    yield "chronotile_arrays_unreadable", {}, summary.unreadable
    yield "chronotile_commits", {}, totals.commits
    yield "chronotile_fragments", {}, totals.fragments
    if totals.measured:
        yield "chronotile_bytes", {}, totals.bytes
    yield "chronotile_log_bytes", {}, totals.log_bytes
    yield "chronotile_files_read", {}, summary.files_read
    yield "chronotile_engine_open_requests", {}, totals.engine_open_requests
    yield "chronotile_engine_open_requests_after_maintenance", {}, totals.engine_requests_after
    yield "chronotile_open_requests", {}, totals.open_requests
    for severity, code, count in totals.findings:
        yield "chronotile_findings", {"severity": severity, "code": code}, count
    for cost, array in totals.worst:
        yield "chronotile_array_engine_open_requests", {"array": array}, cost
    yield from _maintenance(summary.maintained)


def _maintenance(
    maintained: Iterable[tuple[str, int]],
) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for text, count in maintained:
        command, _, outcome = text.partition(" ")
        yield "chronotile_maintenance_arrays", {"command": command, "outcome": outcome}, count
