"""The commands `check` and `usage`: find what is wrong, and why it is so large.

In: arrays, groups or folders. Out: findings, each with what to do about it; bytes by reason, field
and fragment, each with the command that frees it, and a treemap of them. Changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from chronotile.cli.options import (
    FailOn,
    PlaceType,
    access_options,
    array_argument,
    command,
    flag,
    form_of,
    may_ask,
    member_option,
    out_option,
    read_log,
    reporting,
    say,
    time_option,
    wrong_call,
)
from chronotile.errors import ArrayNotFoundError, ChronotileError, ReadError
from chronotile.format.timestamps import time_text
from chronotile.safe_text import printable, shell_word
from chronotile.show.output import (
    Answer,
    Text,
    count_text,
    place_text,
    plain_table,
    progress,
    size_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from rich.console import RenderableType

    from chronotile.change.plan import Report
    from chronotile.change.usage import Usage
    from chronotile.check.findings import Finding, Reach
    from chronotile.check.fix_findings import Fix
    from chronotile.cli.options import Access
    from chronotile.dataset.over_members import GroupReport
    from chronotile.fleet.check_all import FleetCheck
    from chronotile.format.timestamps import Moment
    from chronotile.show.usage_map import Line


_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


def _check_answer(
    found: FleetCheck, least: str, fail_on: str | None, reach: Reach, as_of: int | None = None
) -> Answer:
    """Show the findings of one run.

    Args:
        found: The findings.
        least: The least severity to show.
        fail_on: The least severity that sets the exit status to 1, or `never`.
        reach: What the check looked at.
        as_of: The moment that was asked about; None if that was the present.
    """
    order, worst = [*_STYLES], found.worst()
    shown = [one for one in found.findings if order.index(one.severity) <= order.index(least)]
    fail_on = fail_on or ("error" if least == "error" else "warning")
    status = 0 if found.is_whole() else ReadError.exit_code
    if status == 0 and worst is not None and fail_on != "never":
        status = int(order.index(worst) <= order.index(fail_on))
    document = [item.to_dict() for item in shown]
    return Answer(document, _findings_text(found, shown, reach, as_of), status)


def _findings_text(
    found: FleetCheck, shown: Sequence[Finding], reach: Reach, as_of: int | None
) -> Iterator[RenderableType]:
    """Give array by array, each finding with its hint."""
    first = {item.array: -at for at, item in enumerate(reversed(shown))}
    last = None
    for item in sorted(shown, key=lambda item: first[item.array]):
        if item.array != last:
            yield Text(item.array, "bold")
            last = item.array
        yield Text(f"  {item.severity}: {item.code}  {item.path}".rstrip(), _STYLES[item.severity])
        yield f"      {item.message}"
        yield Text(f"      -> {item.hint}", "green")
    counts = Counter(item.severity for item in found.findings)
    parts = [count_text(counts[word], word) for word in ("error", "warning") if counts[word]]
    parts += [f"{counts['info']:,} info"] if counts["info"] else []
    arrays = count_text(len(found.arrays), "array")
    if as_of is not None and not parts:
        every = f"all {arrays}" if len(found.arrays) > 1 else arrays
        yield f"at {time_text(as_of)} {every} can be read whole"
        return
    yield f"{arrays}: {', '.join(parts) or 'nothing found'}"
    yield Text(found.looked_at.words(reach), "dim")


@command(epilog="\b\nExample:\n  chronotile check demo/array\n  chronotile check s3://lake/arrays")
@click.argument("places", metavar="ARRAY…", nargs=-1, required=True, type=PlaceType("dir"))
@click.option(
    "--severity",
    type=click.Choice(list(_STYLES)),
    default="info",
    help="The least severity to show (default: info).",
)
@click.option(
    "--fail-on",
    type=FailOn(),
    help="The least severity that makes the exit status 1 (default: warning; with --severity "
    "error: error).",
)
@time_option("--as-of", help="Of a group: can it be read whole at this time?")
@flag("--log-only", help="Look at the commit log, and at no fragment.")
@flag("--fix", help="Ask, then run the hinted commands that lose no data, and check again.")
@flag("--yes", help="With --fix: ask nothing.")
@flag("--deep", help="Open the cells of each fragment too.")
@access_options
@reporting
def check(
    places: tuple[str, ...],
    severity: str,
    fail_on: str | None,
    as_of: Moment | None,
    log_only: bool,
    fix: bool,
    yes: bool,
    deep: bool,
    access: Access,
) -> Answer:
    """Find what is wrong or overdue in each ARRAY, or in all arrays of a folder or group.

    Errors keep TileDB from reading, or mean that data is lost; warnings are states that may
    surprise a reader; infos are maintenance that is due. The check reads the log and the metadata
    of each fragment, and compares them with the files. With --deep it also opens the cell files: it
    compares tiles, chunks and checksums, and decompresses every tile whose filters it knows. Exits
    with 1 if there is an error or a warning (--fail-on), and with 3 if something could not be read;
    an encrypted array without a key is an info (--fail-on info).

    With --fix, it runs the repairs, updates and consolidations that the hints name; `chronotile
    undo` takes each of them back. It never vacuums, nor compacts.
    """
    if as_of is not None:
        found, moment = _check_as_of(places, as_of, access)
        return _check_answer(found, severity, fail_on or "warning", "log", moment)
    if log_only and deep:
        raise click.UsageError("expected --log-only or --deep, found both")
    found = _check_all(places, access, log_only=log_only, deep=deep)
    if fix and _fix(found, access, ask=not yes):
        found = _check_all(places, access, log_only=log_only, deep=deep)
    reach: Reach = "log" if log_only else "deep" if deep else "fragments"
    return _check_answer(found, severity, fail_on, reach)


def _check_all(
    places: tuple[str, ...], access: Access, *, log_only: bool, deep: bool
) -> FleetCheck:
    from chronotile.fleet.check_all import check_fleet

    with progress("opening fragments" if deep else "checking arrays") as step:
        return check_fleet(
            places,
            key=access.key,
            storage_options=access.storage,
            on_array=None if deep else lambda _: step(),
            log_only=log_only,
            deep=deep,
            on_fragment=step if deep else None,
        )


def _fix(found: FleetCheck, access: Access, *, ask: bool) -> bool:
    """Carry out what mends findings and loses nothing; return True if anything was done."""
    from chronotile.check.fix_findings import fixes_of

    wanted = []
    for fix in fixes_of(found.findings):
        try:
            plan = _change(access, fix, dry_run=True)
        except ChronotileError as error:
            say(f"left alone: {fix.words}: {error.problem}")
            continue
        if plan.losses:
            say(f"left alone: {fix.words}: {plan.losses[0]}")
        elif plan.can_be_undone:
            say(f"{fix.words}, for {', '.join(fix.codes)}: {plan.summary()}")
            for note in plan.notes:
                say(f"  note: {note}")
            wanted.append(fix)
    for one in found.findings:
        if "chronotile compact " in one.hint:
            command = f"chronotile compact {shell_word(one.array)}"
            say(f"left alone: {command}: it rewrites cells, which can take long")
    if not wanted:
        found_any = any(one.severity != "info" for one in found.findings)
        why = ": what is left would lose data, or is yours to decide" if found_any else ""
        say(f"nothing to fix{why}")
        return False
    count = count_text(len(wanted), "change")
    if ask and not may_ask():
        problem = "nothing was changed: --fix asks first, and there is no terminal to answer"
        raise wrong_call(f"{problem}; add --yes")
    if ask and not click.confirm(f"Make {count}?", err=True):
        say("nothing was changed")
        return False
    for fix in wanted:
        try:
            done = _change(access, fix, message=f"check --fix: {', '.join(fix.codes)}")
        except ChronotileError as error:
            say(f"left alone: {fix.words}: {error.problem}")
            continue
        if done.can_be_undone:
            undo = f"chronotile undo {shell_word(fix.array)} {done.operation}"
            say(f"done: {fix.words}; to undo: {undo}")
    return True


def _change(access: Access, fix: Fix, **how: Any) -> Report | GroupReport:
    """Make one change; a plan that would lose something by now is refused."""

    def before(plan: Report | GroupReport) -> None:
        if plan.losses:
            raise ChronotileError(fix.array, plan.losses[0])

    place = access.open(fix.array)
    done: Report | GroupReport = getattr(place, fix.command)(**fix.options, **how, before=before)
    return done


def _check_as_of(
    groups: tuple[str, ...], as_of: Moment, access: Access
) -> tuple[FleetCheck, int | None]:
    """Ask each group whether it can be read whole at a moment; give that moment too."""
    from chronotile.fleet.check_all import FleetCheck

    arrays: list[str] = []
    findings: list[Finding] = []
    moment = None
    for uri in groups:
        try:
            group = access.open_group(uri)
        except ArrayNotFoundError as error:
            below = error.problem.partition("; ")[2]
            if not below:
                raise
            raise wrong_call(f"--as-of needs a group; {uri} is a folder with {below}") from None
        moment = group.moment(as_of, "--as-of")
        arrays += [node.uri for node in group.tree(moment) if node.found == "array"]
        findings += group.check(as_of=moment)
    return FleetCheck(tuple(arrays), tuple(findings), ()), moment


FORMS = (".html", ".svg", ".png")
LARGEST = 10
"""Fragments that the text shows."""
FIELDS = 20
"""Fields and parts that it shows."""
NOTES = 20
"""Notes that it shows."""


Sums: TypeAlias = "dict[Any, tuple[int, int]]"
"""What rows have in common -> their bytes and files, the most bytes first."""


def _sums(rows: Sequence[dict[str, Any]], key: Callable[[dict[str, Any]], Any]) -> Sums:
    """Add up the rows that a key joins; no key, no sum."""
    sizes: dict[Hashable, list[int]] = defaultdict(list)
    for row in rows:
        if (joined := key(row)) is not None:
            sizes[joined].append(row["bytes"])
    sums = {joined: (sum(found), len(found)) for joined, found in sizes.items()}
    return dict(sorted(sums.items(), key=lambda item: (-item[1][0], str(item[0]))))


def _fields(rows: Sequence[dict[str, Any]]) -> Sums:
    return _sums(rows, lambda row: (row["field"], row["part"]) if row["part"] else None)


def _lines(usage: Usage, rows: Sequence[dict[str, Any]]) -> list[Line]:
    """Add up bytes by reason and by the command that frees them, the most first."""
    from chronotile.show.usage_map import Line

    lost = {way.command: way.lost for way in usage.ways}
    sums = _sums(rows, lambda row: (row["reason"], row["freed_by"]))
    return [
        Line(size, files, reason, command, lost[command] if command else "")
        for (reason, command), (size, files) in sums.items()
    ]


def _usage_json(
    array: str, usage: Usage, rows: Sequence[dict[str, Any]], output: str | None
) -> dict[str, Any]:
    """Give the sums, the ways to free bytes, and one object a file."""
    sizes = {row["path"]: row["bytes"] for row in rows}
    return {
        "array": array,
        "bytes": sum(sizes.values()),
        "reasons": [
            {
                "reason": line.reason,
                "bytes": line.size,
                "files": line.files,
                "freed_by": line.freed_by,
                "lost": line.lost or None,
            }
            for line in _lines(usage, rows)
        ],
        "fields": [
            {"field": field, "part": part, "bytes": size, "files": files}
            for (field, part), (size, files) in _fields(rows).items()
        ],
        "ways": [
            {
                "command": way.command,
                "lost": way.lost,
                "files": len(way.paths & sizes.keys()),
                "bytes": sum(sizes.get(path, 0) for path in way.paths),
                "written": way.written,
            }
            for way in usage.ways
        ],
        "notes": list(usage.notes),
        "output": output,
        "files": rows,
    }


def _usage_text(
    array: str, usage: Usage, rows: Sequence[dict[str, Any]], output: str | None
) -> Iterator[RenderableType]:
    """Give the sums as tables."""
    total = sum(row["bytes"] for row in rows)

    def near(command: str | None) -> str:
        """Shorten a command: name the array as a user in this folder would."""
        return (command or "").replace(printable(array), printable(place_text(array)))

    files = count_text(len(rows), "file")
    yield Text(f"{place_text(array)}: {size_text(total)} in {files}", "bold")
    yield ""
    table = plain_table("bytes", "files", "why", "freed by", "what would be lost", right=2)
    for line in _lines(usage, rows):
        lost = _lost(usage, rows, line)
        table.add_row(
            size_text(line.size), f"{line.files:,}", line.words, near(line.freed_by), lost
        )
    yield table
    if fields := _fields(rows):
        yield ""
        yield _field_table(fields, total)
        yield ""
        yield _fragment_table(rows, total, near)
    if usage.notes:
        yield ""
    for note in usage.notes[:NOTES]:
        yield Text(f"note: {note}", "yellow")
    if len(usage.notes) > NOTES:
        yield f"and {len(usage.notes) - NOTES:,} more notes (--json)"
    if output is not None:
        yield ""
        yield f"{output}: {size_text(Path(output).stat().st_size)}"


def _lost(usage: Usage, rows: Sequence[dict[str, Any]], line: Line) -> str:
    from chronotile.change.vacuum import LOSS

    way = next((way for way in usage.ways if way.command == line.freed_by), None)
    words, is_loss, _ = line.lost.partition(LOSS)
    words += "time travel: see the note" if is_loss else ""
    if way is None or not way.written:
        return words or line.kept
    freed = sum(row["bytes"] for row in rows if row["path"] in way.paths)
    gain = f"a gain of {size_text(freed - way.written)}, as it writes {size_text(way.written)}"
    return f"{words}; {gain}"


def _share(size: int, total: int) -> str:
    return f"{100 * size / total:.1f} %" if total else ""


def _field_table(fields: Sums, total: int) -> RenderableType:
    table = plain_table("bytes", "share", "files", "field", "part", right=3)
    for (field, part), (size, files) in list(fields.items())[:FIELDS]:
        words = "fragment metadata" if part == "metadata" else part
        table.add_row(size_text(size), _share(size, total), f"{files:,}", field or "", words)
    if len(fields) > FIELDS:
        table.add_row("", "", "", f"and {len(fields) - FIELDS:,} more (--json)", "")
    return table


def _fragment_table(
    rows: Sequence[dict[str, Any]], total: int, near: Callable[[str | None], str]
) -> RenderableType:
    names = ("fragment", "reason", "freed_by")
    found = _sums(rows, lambda row: tuple(map(row.get, names)) if row["fragment"] else None)
    table = plain_table("bytes", "share", "fragment", "why", "freed by", right=2)
    table.columns[2].no_wrap = True
    for (name, reason, way), (size, _) in list(found.items())[:LARGEST]:
        table.add_row(size_text(size), _share(size, total), name, reason, near(way))
    if len(found) > LARGEST:
        table.add_row("", "", f"and {len(found) - LARGEST:,} more (--json)", "", "")
    return table


@command(epilog="\b\nExample:\n  chronotile usage demo/array -o usage.html")
@array_argument
@out_option("A treemap: .html, .svg or .png.")
@member_option
@access_options
@reporting
def usage(array: str, output: str | None, member: dict[str, str], access: Access) -> Answer:
    """Show why ARRAY is so large: bytes by reason, by field and part, the largest fragments.

    Each line names the command that frees its bytes, and what that loses. The sums are exact to the
    byte. Nothing is changed.
    """
    form = "" if output is None else form_of(output, FORMS)
    from chronotile.array import Array

    place = access.open(array, member)
    if isinstance(place, Array):
        read_log(place)
    with progress("listing files"):
        used, errors = place.measure_usage(**member)
    rows: list[dict[str, Any]] = used.table.to_pylist()
    if output is not None:
        from chronotile.show.usage_map import draw

        Path(output).write_bytes(draw(place.uri, rows, _lines(used, rows), form))
    document = partial(_usage_json, place.uri, used, rows, output)
    text = _usage_text(place.uri, used, rows, output)
    return Answer(document, text, ReadError.exit_code if errors else 0)
