"""`chronotile check`: what is wrong with an array, or with all below a folder.

In: arrays or folders. Out: findings, each with what to do about it. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import MOMENT, FailOn, Place, access_options, command, reporting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.check.findings import Finding, Reach
    from chronotile.cli.options import Access
    from chronotile.dataset.check_all import FleetCheck
    from chronotile.format.timestamps import Moment

_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The findings of one run."""

    found: FleetCheck
    least: str
    """The least severity to show."""
    fail_on: str
    """The least severity that sets the exit status to 1; `none` for no severity."""
    reach: Reach = "fragments"

    @property
    def status(self) -> int:
        """3 if something could not be read, 1 if something is wrong, else 0."""
        if not self.found.is_whole():
            return 3
        worst, order = self.found.worst(), list(_STYLES)
        if worst is None or self.fail_on == "never":
            return 0
        return int(order.index(worst) <= order.index(self.fail_on))

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each finding."""
        return [item.to_dict() for item in self._shown()]

    def _shown(self) -> list[Finding]:
        severities = list(_STYLES)
        kept = severities[: severities.index(self.least) + 1]
        return [item for item in self.found.findings if item.severity in kept]

    def to_text(self) -> Iterator[RenderableType]:
        """Array by array, each finding with its hint."""
        from chronotile.report.output import Text, count_text

        last = None
        for item in self._shown():
            if item.array != last:
                yield Text(item.array, "bold")
                last = item.array
            yield Text(f"  {item.severity}: {item.code}  {item.path}", _STYLES[item.severity])
            yield f"      {item.message}"
            yield Text(f"      -> {item.hint}", "green")
        counts = Counter(item.severity for item in self.found.findings)
        parts = [count_text(counts[word], word) for word in ("error", "warning") if counts[word]]
        parts += [f"{counts['info']:,} info"] if counts["info"] else []
        arrays = count_text(len(self.found.arrays), "array")
        yield f"{arrays}: {', '.join(parts) or 'nothing found'}"
        yield Text(self.found.looked_at.words(self.reach), "dim")


@command(epilog="\b\nExample:\n  chronotile check demo/array\n  chronotile check s3://lake/arrays")
@click.argument("places", metavar="ARRAY…", nargs=-1, required=True, type=Place("dir"))
@click.option(
    "--severity",
    type=click.Choice(list(_STYLES)),
    default="info",
    help="The least severity to show: info.",
)
@click.option(
    "--fail-on",
    type=FailOn(),
    help="The least severity that the exit status tells of: warning, or error if only errors show.",
)
@click.option(
    "--as-of", metavar="TIME", type=MOMENT, help="Of a group: can it be read whole at this time?"
)
@click.option("--log-only", is_flag=True, help="Look at the commit log, and at no fragment.")
@click.option("--deep", is_flag=True, help="Open the cells of each fragment too.")
@access_options
@reporting
def check(
    places: tuple[str, ...],
    severity: str,
    fail_on: str | None,
    as_of: Moment | None,
    log_only: bool,
    deep: bool,
    access: Access,
) -> CheckReport:
    """What is wrong, surprising or overdue in each ARRAY, or in all arrays of a folder or group.

    Errors keep the engine from reading, or mean that data is lost; warnings are surprises; infos
    are debt. The check reads the log and the metadata of each fragment, and compares them with the
    files. With --deep it opens the cell files too: tiles, chunks and checksums are compared, and
    what can be decompressed is. Exits with 1 if there is an error or a warning (--fail-on), and
    with 3 if something could not be read.
    """
    from chronotile.dataset.check_all import check_fleet
    from chronotile.report.output import progress

    if as_of is not None:
        from chronotile.cli.group_as_of import check_as_of

        return check_as_of(places, severity, fail_on or "warning", as_of, access)
    if log_only and deep:
        raise click.UsageError("expected --log-only or --deep, found both")
    with progress("opening fragments" if deep else "checking arrays") as step:
        found = check_fleet(
            places,
            key=access.key,
            storage_options=access.storage,
            on_array=None if deep else lambda _: step(),
            log_only=log_only,
            deep=deep,
            on_fragment=step if deep else None,
        )
    reach: Reach = "log" if log_only else "deep" if deep else "fragments"
    least = "error" if severity == "error" else "warning"
    return CheckReport(found=found, least=severity, fail_on=fail_on or least, reach=reach)
