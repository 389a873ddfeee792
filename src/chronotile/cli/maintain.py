"""`chronotile delete`, `update`, `consolidate`, `vacuum`, `repair`: what changes an array.

In: an array and what to do. Out: the changed array, a report on standard output, and a JSON
report beside the array. Decides nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chronotile.cli.options import (
    Moment,
    array_argument,
    json_option,
    read_key,
    read_storage,
    say,
    storage_options,
)
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from chronotile.change.change_report import Report
    from chronotile.storage.store import Store

F = TypeVar("F", bound="Callable[..., Any]")

_dry_run = click.option("--dry-run", is_flag=True, help="Only list each file, its size and why.")
_report = click.option(
    "--report",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where the JSON report goes: beside the array, in ARRAY.reports. '-' for nowhere.",
)
_older = click.option(
    "--allow-older-loss",
    is_flag=True,
    help="Go on although all rows go of before a field of the predicate was added.",
)
_where = click.option("--where", required=True, metavar="PREDICATE", help="Such as: a < 3.")
_at = click.option("--at", metavar="TIME", type=Moment(), help="The commit's time: now.")


def _common(function: F) -> F:
    return array_argument(_dry_run(_report(storage_options(json_option(function)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """What a command did, on its way out."""

    report: Report

    def to_json(self) -> dict[str, Any]:
        """The JSON report."""
        return self.report.to_dict()

    def to_text(self) -> Iterator[RenderableType]:
        """A line, a table of files, and what must be known."""
        from chronotile.report.output import Text, plain_table

        report = self.report
        yield Text(f"{report.array}: {report.summary()}", "bold")
        if report.steps:
            table = plain_table("size", "what", "file", "why", right=1)
            for step in report.steps:
                size = "?" if step.size is None else f"{step.size:,}"
                table.add_row(size, step.op, step.path, step.reason)
            yield table
        for note in report.notes:
            yield Text(f"note: {note}", "yellow")
        for item in report.findings:
            yield Text(f"{item.severity}: {item.code}  {item.path}: {item.message}", "red")
        if report.quarantine is not None:
            yield Text(f"quarantine: {report.quarantine}")
            yield Text(f"to undo: {report.restore}")


def _open(array: str, storage: tuple[str, ...]) -> Store:
    from chronotile.storage.store import open_store

    return open_store(array, read_storage(storage))


class _Record:
    """What is about to be done, written down first, for whoever finds it broken off."""

    def __init__(self, store: Store, place: str | None) -> None:
        self._store = store
        self._place = place
        self.begun: str | None = None
        """Where it is, beside the array."""

    def __call__(self, planned: Report) -> None:
        from chronotile.change.sound_array import begun_json, save_begun

        try:
            if self._place is None:
                self.begun = save_begun(self._store, planned)
            elif self._place != "-":
                Path(self._place).write_text(begun_json(planned), encoding="utf-8")
        except (ChronotileError, OSError) as error:
            if any(step.op != "put" for step in planned.steps):
                problem = f"expected to write down first what is about to go, found: {error}"
                hint = "give --report FILE, or '-' for no record"
                raise ChronotileError(planned.array, f"{problem}; {hint}") from error


def _finish(
    store: Store,
    done: Report,
    place: str | None,
    *,
    as_json: bool,
    record: _Record | None = None,
) -> int:
    """Show a report, and keep it if anything was done."""
    from chronotile.change.sound_array import save_report
    from chronotile.report.output import emit

    emit(ChangeReport(report=done), as_json=as_json)
    begun = record.begun if record is not None else None
    if not done.dry_run and (done.steps or begun) and place != "-":
        try:
            if place is None:
                say(f"report: {save_report(store, done, begun)}")
            else:
                Path(place).write_text(done.to_json(), encoding="utf-8")
        except (ChronotileError, OSError) as error:
            # What was to be done is done: a report that cannot be kept does not undo it.
            say(f"chronotile: the report could not be kept: {error}")
    return 1 if done.findings else 0


@click.command(epilog="\b\nExample:\n  chronotile delete demo/array --where 'a < 3'")
@_common
@_where
@_at
@click.option(
    "--allow-null-loss", is_flag=True, help="Go on although rows with NULL or NaN go too."
)
@_older
def delete(
    array: str,
    where: str,
    at: int | None,
    allow_null_loss: bool,
    allow_older_loss: bool,
    dry_run: bool,
    report: str | None,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> int:
    """Delete the rows of ARRAY that satisfy a predicate: write a delete commit.

    Rows written at or before the commit's time disappear from every open that covers it.
    """
    from chronotile.change.delete_update import write_delete

    store = _open(array, storage)
    done = write_delete(
        array,
        where,
        timestamp=at,
        allow_null_loss=allow_null_loss,
        allow_older_loss=allow_older_loss,
        dry_run=dry_run,
        key=read_key(key_file),
        store=store,
    )
    return _finish(store, done, report, as_json=as_json)


@click.command(
    epilog="\b\nExample:\n  chronotile update demo/array --where 'a < 3' --set a=4 --experimental"
)
@_common
@_where
@click.option("--set", "values", required=True, multiple=True, metavar="FIELD=VALUE")
@_at
@click.option("--experimental", is_flag=True, help="I know that the engine takes it for a delete.")
@_older
def update(
    array: str,
    where: str,
    values: tuple[str, ...],
    at: int | None,
    experimental: bool,
    allow_older_loss: bool,
    dry_run: bool,
    report: str | None,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> int:
    """Write an update commit: new values for the rows of ARRAY that satisfy a predicate.

    Today's engine takes an update for a delete: the rows disappear, and no value is set.
    """
    from chronotile.change.delete_update import write_update

    store = _open(array, storage)
    done = write_update(
        array,
        where,
        values,
        timestamp=at,
        experimental=experimental,
        allow_older_loss=allow_older_loss,
        dry_run=dry_run,
        key=read_key(key_file),
        store=store,
    )
    return _finish(store, done, report, as_json=as_json)


@click.command(epilog="\b\nExample:\n  chronotile consolidate demo/array --dry-run")
@_common
@click.option(
    "--updates", is_flag=True, help="Take updates in too: the engine loses sight of them."
)
def consolidate(
    array: str,
    updates: bool,
    dry_run: bool,
    report: str | None,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> int:
    """Put all commits of ARRAY into one .con file. Nothing is removed: vacuum does that."""
    from chronotile.change.consolidate import consolidate as run

    store = _open(array, storage)
    record = _Record(store, report)
    done = run(
        array, dry_run=dry_run, updates=updates, before=record, key=read_key(key_file), store=store
    )
    return _finish(store, done, report, as_json=as_json, record=record)


@click.command(epilog="\b\nExample:\n  chronotile vacuum demo/array --dry-run")
@_common
@click.option(
    "--mode",
    type=click.Choice(["all", "commits", "fragments"]),
    default="all",
    help="What to look at: all.",
)
@click.option(
    "--orphans", is_flag=True, help="Remove also unfinished fragments that no commit names."
)
@click.option("--whole-orphans", is_flag=True, help="Those too that lack nothing but their commit.")
@click.option(
    "--orphan-age",
    metavar="HOURS",
    type=click.FloatRange(min=0),
    default=24.0,
    help="How old they must be: 24.",
)
@click.option(
    "--loose-deletes",
    is_flag=True,
    help="Remove also files of deletes that a .con holds: the engine then misses them.",
)
@click.option("--updates", is_flag=True, help="Remove also loose updates that a .con holds.")
def vacuum(
    array: str,
    mode: str,
    orphans: bool,
    whole_orphans: bool,
    orphan_age: float,
    loose_deletes: bool,
    updates: bool,
    dry_run: bool,
    report: str | None,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> int:
    """Remove what no window of ARRAY needs: commits that a .con holds, replaced fragments.

    A dense array loses time travel into what was consolidated; that is said before.
    """
    from chronotile.change.vacuum import vacuum as run

    store = _open(array, storage)
    record = _Record(store, report)
    done = run(
        array,
        mode=mode,  # type: ignore[arg-type]  # one of the choices
        dry_run=dry_run,
        orphans=orphans,
        orphans_age_ms=int(orphan_age * 3_600_000),
        whole_orphans=whole_orphans,
        loose_deletes=loose_deletes,
        updates=updates,
        before=record,
        key=read_key(key_file),
        store=store,
        announce=lambda note: say(f"note: {note}"),
    )
    return _finish(store, done, report, as_json=as_json, record=record)


@click.command(epilog="\b\nExample:\n  chronotile repair demo/array --dry-run")
@_common
@click.option("--accept-loss", is_flag=True, help="Mend a cut .con without its last entry.")
@click.option("--restore", metavar="MANIFEST", help="Undo a repair.")
def repair(
    array: str,
    accept_loss: bool,
    restore: str | None,
    dry_run: bool,
    report: str | None,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> int:
    """Take out of ARRAY what keeps the engine from reading it, into ARRAY.quarantine.

    Nothing is destroyed: the report has the command that undoes it. Exits with 1 if something is
    left that cannot be mended.
    """
    from chronotile.change.quarantine import restore as put_back
    from chronotile.change.repair import repair as run

    store = _open(array, storage)
    record = _Record(store, report)
    if restore is not None:
        done = put_back(array, restore, dry_run=dry_run, store=store)
    else:
        done = run(
            array,
            dry_run=dry_run,
            accept_loss=accept_loss,
            before=record,
            key=read_key(key_file),
            store=store,
        )
    return _finish(store, done, report, as_json=as_json, record=record)
