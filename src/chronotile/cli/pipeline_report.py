"""The report of `chronotile pipeline`, and its exit status.

In: the summary of a run. Out: text, JSON, and the exit status that a scheduler acts on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.check.findings import SEVERITIES, is_unread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.fleet.run_summary import Summary

NEVER = "never"
"""The severity that no finding has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """The summary of a run, and which findings make it fail."""

    summary: Summary
    fail_on: str = "error"

    @property
    def status(self) -> int:
        """3: something could not be read; 1: a grave finding, or maintenance stopped; else 0."""
        grave = SEVERITIES[: SEVERITIES.index(self.fail_on) + 1] if self.fail_on != NEVER else ()
        found = [(severity, code) for severity, code, _ in self.summary.totals.findings]
        if any(is_unread(code, severity) for severity, code in found):
            return 3
        was_stopped = any(outcome.endswith(" stopped") for outcome, _ in self.summary.maintained)
        return int(was_stopped or any(severity in grave for severity, _ in found))

    def to_json(self) -> dict[str, Any]:
        """Give the form of `Summary.to_json`."""
        return self.summary.to_json()

    def to_text(self) -> Iterator[RenderableType]:
        """Give the numbers, the findings, the costliest arrays, and what maintenance saves."""
        from chronotile.show.output import Text, count_text, plain_table, size_text

        summary, totals = self.summary, self.summary.totals
        yield (
            f"{count_text(totals.arrays, 'array')}, {count_text(totals.commits, 'commit')}, "
            f"{count_text(totals.fragments, 'fragment')} in {summary.seconds:.1f} s; "
            f"{size_text(totals.log_bytes)} in {count_text(summary.files_read, 'file')} read"
        )
        if totals.measured:
            yield f"{count_text(totals.measured, 'array')} of {size_text(totals.bytes)} in all"
        if summary.inventory_age_s is not None:
            age = f"by an inventory that is {summary.inventory_age_s / 3600:.1f} hours old"
            yield f"{age}: what is newer is not told, but with --fresh"
        if summary.unchanged:
            yield f"{count_text(summary.unchanged, 'array')} unchanged since the last run"
        if summary.unreadable:
            stale = "could not be read: their rows are of an older run, or missing"
            yield Text(f"{count_text(summary.unreadable, 'array')} {stale}", "red")
        changed = count_text(len(summary.versions), "table")
        yield f"Delta tables in {summary.out}: {changed} got a new version"
        if totals.findings:
            table = plain_table("findings", "severity", "code", right=1)
            for severity, code, count in totals.findings:
                table.add_row(f"{count:,}", severity, code)
            yield table
        if totals.worst:
            table = plain_table("requests of an engine's open", "array", right=1)
            for cost, array in totals.worst:
                table.add_row(f"{cost:,}", array)
            yield table
        requests = count_text(totals.engine_open_requests, "request")
        yield (
            f"an engine opens every array once in {requests} to a bucket, and in "
            f"{totals.engine_requests_after:,} after consolidate --mode all and vacuum: "
            f"{summary.saved:,} saved; chronotile itself takes {totals.open_requests:,}"
        )
        yield from summary.planned
        for outcome, count in summary.maintained:
            yield f"{outcome}: {count_text(count, 'array')}"
