"""`chronotile clone`, `restore`, `undelete`, `undo`, `publish`: the time machine.

In: an array, and a moment, a delete, a report or staging arrays. Out: what the change did, on
standard output, and a JSON report beside the array. Decides nothing itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.maintain import Change, changing
from chronotile.cli.options import MOMENT, Place, access_options, json_option, wrong_call
from chronotile.history.folder_kinds import GroupFoundError

if TYPE_CHECKING:
    from chronotile.change.change_report import Report
    from chronotile.cli.options import Access
    from chronotile.storage.store import Store

_from = click.option(
    "--from", "at", metavar="TIME", type=MOMENT, help="From when on: now; after every commit."
)


def _names(store: Store, key: bytes | None, given: tuple[str, ...]) -> tuple[str, ...]:
    """The names that short ids mean; of a group, what was given."""
    from chronotile.history.read_history import read_history
    from chronotile.log import Log

    if not given:
        return ()
    try:
        log = Log(read_history(store, key=key), store)
    except GroupFoundError:
        return given
    return tuple(log.find_name(text) for text in given)


@click.command(epilog="\b\nExample:\n  chronotile clone demo/array demo/copy --end 2024-05-04")
@click.argument("array", metavar="SOURCE", type=Place("dir"))
@click.argument("target", metavar="TARGET", type=Place("dir"))
@click.option("--start", metavar="TIME", type=MOMENT, default=0, help="Start of the window: 0.")
@click.option("--end", metavar="TIME", type=MOMENT, help="End of the window: now.")
@click.option("--without", metavar="NAME", multiple=True, help="A commit to leave out.")
@click.option(
    "--link",
    type=click.Choice(["hard", "symbolic", "copy"]),
    default="hard",
    help="How to take fragments over on one disk: hard links.",
)
@click.option("--dry-run", is_flag=True, help="Only list each file, its size and why.")
@click.option("--verbose", is_flag=True, help="List every file, and not the first few alone.")
@access_options
@json_option
def clone(
    array: str,
    target: str,
    without: tuple[str, ...],
    dry_run: bool,
    verbose: bool,
    access: Access,
    as_json: bool,
    **options: Any,
) -> int:
    """Make an array at TARGET that shows what an open of SOURCE at a window shows.

    Fragments are linked on one disk, and copied by the storage inside one bucket. Every TileDB
    program opens the clone. --without asks: what if this delete had not happened? SOURCE may be an
    array that the engine refuses to open.
    """
    from chronotile.time_machine.clone import clone as run

    change = Change(
        array=target,
        store=access.open_store(target),
        key=access.key,
        dry_run=dry_run,
        place="-",
        as_json=as_json,
        verbose=verbose,
    )
    source = access.open_store(array)
    options["without"] = _names(source, access.key, without)
    made = partial(run, array, store=source, target_store=change.store)
    try:
        return change.finish(made(target, key=access.key, dry_run=dry_run, **options))
    except GroupFoundError:
        return _clone_group(access, array, change, options)


def _clone_group(access: Access, source: str, change: Change, options: dict[str, Any]) -> int:
    from chronotile.cli.group_change import GroupChangeReport
    from chronotile.dataset.clone_members import clone_members
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.history.group_reading import read_group
    from chronotile.report.output import emit

    store = access.open_store(source)
    dataset = Dataset(store, read_group(store, key=access.key))
    done = clone_members(dataset, change.store, dry_run=change.dry_run, **options)
    emit(GroupChangeReport(report=done), as_json=change.as_json)
    return 0


@click.command(epilog="\b\nExample:\n  chronotile restore demo/array --to 2024-05-15 --dry-run")
@changing
@click.option("--to", metavar="TIME", type=MOMENT, required=True, help="The moment to go back to.")
@_from
@click.option("--at", "at_too", metavar="TIME", type=MOMENT, help="The same as --from.")
@click.option("--keep-metadata", is_flag=True, help="Leave the metadata as it is now.")
@click.option("--rewrite", is_flag=True, help="Let TileDB write the rows of then anew.")
def restore(change: Change, at: Any, at_too: Any, rewrite: bool, **options: Any) -> int:
    """From now on, make ARRAY as it was at an earlier moment: rows, schema and metadata.

    Every window that ends before stays as it is; no fragment is removed. What goes out of sight
    and what comes back is told first with --dry-run. Where commits alone cannot do it, --rewrite
    can, in a sparse array, with TileDB installed.
    """
    from chronotile.time_machine.restore import restore as run

    if rewrite:
        from chronotile.rows.restore_rows import restore_rows as run
    at = at_too if at is None else at
    return change.run(run, before=change.record, at=at, **options)


@click.command(epilog="\b\nExample:\n  chronotile undelete demo/array 1edafe --ever --dry-run")
@changing
@click.argument("name", metavar="NAME")
@_from
@click.option("--ever", is_flag=True, help="Take it out of the whole history, to the quarantine.")
def undelete(change: Change, name: str, **options: Any) -> int:
    """Let the rows of ARRAY that one delete or update hides come back.

    From now on, and every window that ends before stays as it is; or, with --ever, in every window.
    """
    from chronotile.time_machine.undelete import undelete as run

    (whole,) = _names(change.store, change.key, (name,))
    return change.run(run, before=change.record, name=whole, **options)


@click.command(epilog="\b\nExample:\n  chronotile undo demo/array --dry-run")
@changing
@click.argument("report", metavar="[REPORT]", required=False)
def undo(change: Change, **options: Any) -> int:
    """Take the last change of ARRAY back, or the one that a report beside it tells of.

    That is a restore, undelete, publish, repair, delete, update or consolidate. What it put goes
    into the quarantine. A vacuum in between can make a change final; then nothing is done.
    """
    from chronotile.time_machine.undo import undo as run
    from chronotile.time_machine.undo_record import find_report

    place, document = find_report(change.store, options["report"])
    if "members" in document:
        return _undo_group(change, place, document)
    return change.run(run, before=change.record, **options)


def _undo_group(change: Change, place: str, document: dict[str, Any]) -> int:
    from chronotile.cli.group_change import Begun, GroupChangeReport
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.dataset.undo_members import undo_members
    from chronotile.history.group_reading import read_group
    from chronotile.report.output import emit

    dataset = Dataset(change.store, read_group(change.store, key=change.key))
    begun = Begun(change)
    done = undo_members(dataset, place, document, dry_run=change.dry_run, before=begun.record)
    emit(GroupChangeReport(report=done), as_json=change.as_json)
    # Of a change that was killed before it put anything: from now on, an older one comes next.
    begun.save(done, even_if_nothing=True)
    return 1 if done.failed else 0


@click.command(epilog="\b\nExample:\n  chronotile publish demo/tonight demo/array")
@click.argument("staging", metavar="STAGING...", nargs=-1, required=True, type=Place("dir"))
@changing
@click.option("--at", metavar="TIME", type=MOMENT, help="Times of the fragments: their own.")
@click.option("--own-times", is_flag=True, help="Of a group too, whose members then follow.")
@click.option("--again", is_flag=True, help="Take also fragments that are, or were, there already.")
@click.option(
    "--allow-hidden", is_flag=True, help="Go on although a later delete hides rows of them."
)
def publish(change: Change, staging: tuple[str, ...], **options: Any) -> int:
    """Make all fragments of STAGING arrays visible in ARRAY, in one step.

    They have the same schema as ARRAY, and no deletes in force; `check` looks at them first. A
    reader sees none of it or all. In a group, what is staged for all members shows at one moment,
    just ahead: readers who open them at one time of theirs see none of it or all. The same command
    again does what is left to do, and leaves alone what is there.
    """
    from chronotile.time_machine.publish import publish as run

    storage = dict(change.store.options)

    def publish(array: str, *, staging: tuple[str, ...], own_times: bool, **options: Any) -> Report:
        if own_times and options["at"] is not None:
            raise wrong_call("expected --at or --own-times, found both")
        return run(list(staging), array, storage_options=storage, **options)

    return change.run(publish, before=change.record, staging=staging, **options)
