"""Maintenance of one array of a fleet.

In: an array, and the rule of a policy. Out: what `consolidate` and `vacuum` did, or would do, to
it, command by command. An array that they refuse is told like any other. Each change leaves its own
record in the array: see `change.operations`. A dry run plans what the run then does: it plans
`vacuum` for the array with the files that `consolidate` would put.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.array import Array
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.change.plan import Report
    from chronotile.spark.maintenance.policy import Rule
    from chronotile.spark.source.options import Options
    from chronotile.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What one command did to an array."""

    array: str
    command: str
    outcome: str
    """`done`, `planned` (of a dry run), `nothing`, `refused`, `left` (a limit) or `stopped` (the
    stop switch). If a task is lost after its work is done, the task that runs again says `nothing`;
    the record in the array tells what the first one did."""
    put: int = 0
    removed: int = 0
    bytes_put: int = 0
    bytes_removed: int = 0
    why: str = ""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Maintained:
        """Make a result of its JSON form."""
        return cls(**document)


def maintain(array: str, options: Options, rule: Rule, *, dry_run: bool) -> list[Maintained]:
    """Consolidate and vacuum one array, as its rule says."""
    store = open_store(array, options.storage_options)
    done: list[Maintained] = []
    for command, mode in (("consolidate", rule.consolidate), ("vacuum", rule.vacuum)):
        if mode is None:
            continue
        try:
            report = _change(command, store, options, rule, dry_run=dry_run)
        except Exception as error:  # one bad array must not stop a fleet
            why = str(error) or type(error).__name__
            done.append(Maintained(array=array, command=command, outcome="refused", why=why))
            break  # vacuum removes nothing from an array that could not be consolidated
        done.append(_maintained(array, report))
        new = {step.path: step.data for step in report.steps if step.op == "put"}
        store = overlaid(store, new) if dry_run and new else store
    return done


def _change(command: str, store: Store, options: Options, rule: Rule, *, dry_run: bool) -> Report:
    array = Array(store, options.read_key())
    if command == "consolidate":
        assert rule.consolidate is not None
        return array.consolidate(rule.consolidate, dry_run=dry_run)
    assert rule.vacuum is not None
    return array.vacuum(
        rule.vacuum,
        dry_run=dry_run,
        orphans=rule.orphans,
        orphan_age=rule.age_ms / 3_600_000,
        deletes=rule.deletes,
        keep=rule.keep,
        keep_days=rule.keep_days,
    )


def _maintained(array: str, report: Report) -> Maintained:
    sizes: dict[str, list[int]] = {"put": [], "remove": []}
    for step in report.steps:
        sizes.setdefault(step.op, []).append(step.size or 0)
    return Maintained(
        array=array,
        command=report.command,
        outcome=("planned" if report.dry_run else "done") if report.steps else "nothing",
        put=len(sizes["put"]),
        removed=len(sizes["remove"]),
        bytes_put=sum(sizes["put"]),
        bytes_removed=sum(sizes["remove"]),
        why="; ".join(report.notes),
    )


def passed_over(array: str, outcome: str, why: str) -> Maintained:
    """Tell of an array that nothing was done to."""
    return Maintained(array=array, command="maintain", outcome=outcome, why=why)
