"""`chronotile check`: what is wrong with an array, or with all below a folder.

In: arrays or folders. Out: findings with what to do about each. Changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    Place,
    json_option,
    read_key,
    read_storage,
    storage_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.dataset.check_all import FleetCheck

_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The findings of one run."""

    found: FleetCheck
    least: str

    def to_json(self) -> list[dict[str, Any]]:
        """As the contract has it."""
        return [item.to_dict() for item in self._shown()]

    def _shown(self) -> list[Any]:
        from chronotile.check.findings import SEVERITIES

        kept = SEVERITIES[: SEVERITIES.index(self.least) + 1]
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
            yield Text(f"      {item.message}")
            yield Text(f"      -> {item.hint}", "green")
        counts = dict.fromkeys(_STYLES, 0)
        for item in self.found.findings:
            counts[item.severity] += 1
        arrays = count_text(len(self.found.arrays), "array")
        found = ", ".join(count_text(n, word) for word, n in counts.items() if n and word != "info")
        infos = f"{counts['info']:,} info" if counts["info"] else ""
        yield Text(f"{arrays}: {', '.join(t for t in (found, infos) if t) or 'nothing found'}")


@click.command(
    epilog="\b\nExample:\n  chronotile check demo/array\n  chronotile check s3://lake/arrays"
)
@click.argument("places", metavar="ARRAY…", nargs=-1, required=True, type=Place("dir"))
@click.option(
    "--severity",
    type=click.Choice(["error", "warning", "info"]),
    default="info",
    help="The least severity to show: info.",
)
@click.option("--log-only", is_flag=True, help="Look at the commit log, and at no fragment.")
@storage_options
@json_option
def check(
    places: tuple[str, ...],
    severity: str,
    log_only: bool,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> int:
    """What is wrong, surprising or overdue in each ARRAY, or in all arrays below a folder.

    Errors keep the engine from reading, or mean that data is lost; warnings are surprises; infos
    are debt. Besides the log, the metadata of each fragment is read, and held to the files beside
    it; cells are not. Exits with 1 if there is an error or a warning, and with 3 if something could
    not be read, so that nobody knows.
    """
    from chronotile.dataset.check_all import check_fleet
    from chronotile.report.output import emit, progress

    with progress("checking arrays") as step:
        found = check_fleet(
            places,
            key=read_key(key_file),
            storage_options=read_storage(storage),
            on_array=lambda _: step(),
            log_only=log_only,
        )
    emit(CheckReport(found=found, least=severity), as_json=as_json)
    if not found.is_whole():
        return 3
    return 1 if found.worst() in ("error", "warning") else 0
