"""`chronotile check --as-of`: whether datasets can be read whole at a time.

In: groups, and a time. Out: the report of `check`, with the members that have no state then, or a
part of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.cli.check import CheckReport

if TYPE_CHECKING:
    from chronotile.check.findings import Finding
    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Moment


def check_as_of(
    groups: tuple[str, ...], severity: str, fail_on: str, as_of: Moment, access: Access
) -> CheckReport:
    """Asks each group whether it can be read whole at a time."""
    from chronotile.dataset.check_all import FleetCheck

    arrays: list[str] = []
    findings: list[Finding] = []
    for group in groups:
        dataset = access.open_group(group).dataset
        moment = dataset.moment(as_of, "--as-of")
        arrays += [node.uri for node in dataset.arrays(moment)]
        findings += dataset.check(as_of=moment)
    found = FleetCheck(tuple(arrays), tuple(findings), ())
    return CheckReport(found=found, least=severity, fail_on=fail_on, reach="log")
