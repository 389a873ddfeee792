"""Usage: the size of each file of an array, with the command that frees it.

In: a store, and what was read of the array. Out: `Usage`: a table with one row a file, and the ways
to free some of them. The plans of the commands themselves say what they free; nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.change.consolidate import plan_consolidate
from chronotile.change.vacuum import LOSS, plan_vacuum
from chronotile.check import file_uses
from chronotile.check.findings import RefusedError
from chronotile.check.fragment_health import inspect
from chronotile.errors import ArrayNotFoundError, BadNameError, StorageError
from chronotile.format.kinds import LABELS, OK
from chronotile.format.names import is_name
from chronotile.history.listing import MEASURED
from chronotile.history.read_history import read_history
from chronotile.safe_text import shell_word
from chronotile.storage.overlay import overlaid
from chronotile.storage.place import LEFTOVER
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from chronotile.change.plan import Report
    from chronotile.history.read_history import History
    from chronotile.storage.store import Entry, Store

SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("fragment", pa.string()),
        ("field", pa.string()),
        ("part", pa.string()),
        ("bytes", pa.int64()),
        ("reason", pa.string()),
        ("freed_by", pa.string()),
    ]
)
"""`field` and `part` are of cell files, by the fragment's own schema; `reason` is one of
`check.file_uses.REASONS`; `freed_by` is a command, or null where none frees the file."""

NOTHING = "nothing: a read at any time gives the same"
_OPTIONS = {
    "orphans": "what is left of a write that did not finish",
    "whole_orphans": "cells of a write whose commit may have been lost",
}
"""Option of a vacuum -> what is lost by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to free some files."""

    command: str
    lost: str
    """The loss that it brings."""
    paths: frozenset[str]
    """The files that it frees, beyond those of the ways before it."""
    written: int = 0
    """Bytes that it writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Every file of an array, and the ways to free some of them."""

    table: pa.Table
    ways: tuple[Way, ...]
    notes: tuple[str, ...]
    """The notes of the commands: files that they leave alone, and refusals."""


def measure_usage(store: Store, history: History, rules: Rules | None = None) -> Usage:
    """List every file of an array, and ask the commands what they would free.

    The files of dimension labels, which are arrays of their own, are told of in the same way.
    """
    rules = rules or Rules(history)
    files = store.list_files()
    labels = _labels(files)
    own = [entry for entry in files if _label_of(entry.path) not in labels]
    ways, notes = _ways(store, history, rules, files)
    table = _table(file_uses.file_uses(store, history, rules, own), ways)
    parts = [table]
    for label in sorted(labels):
        try:
            below = store.child(label)
            inner = measure_usage(below, read_history(below, key=history.key))
        except (ArrayNotFoundError, BadNameError):
            strangers = [entry for entry in files if _label_of(entry.path) == label]
            parts.append(_table(file_uses.file_uses(store, history, rules, strangers), ()))
            continue
        paths = [f"{label}/{path}" for path in inner.table["path"].to_pylist()]
        parts.append(inner.table.set_column(0, SCHEMA.field(0), pa.array(paths, pa.string())))
        ways += tuple(
            replace(way, paths=frozenset(f"{label}/{path}" for path in way.paths))
            for way in inner.ways
        )
        notes += tuple(f"{label}: {note}" for note in inner.notes)
    whole = pa.concat_tables(parts).sort_by("path") if labels else table
    return Usage(table=whole, ways=ways, notes=notes)


def bytes_by_reason(
    store: Store, history: History, rules: Rules, measured: Iterable[Entry]
) -> dict[str, int]:
    """Sum the bytes of an array by reason, without a look at each file's field.

    The store is asked only for dimension labels, which are arrays of their own.
    """
    entries = tuple(measured)
    labels = _labels(entries)
    own = [entry for entry in entries if _label_of(entry.path) not in labels]
    sizes = file_uses.bytes_by_reason(history, rules, own)
    for label in sorted(labels):
        try:
            below = store.child(label)
            inner = read_history(below, key=history.key)
        except (ArrayNotFoundError, BadNameError):
            strangers = [entry for entry in entries if _label_of(entry.path) == label]
            more = file_uses.bytes_by_reason(history, rules, strangers)
        else:
            more = bytes_by_reason(below, inner, Rules(inner), below.measure(MEASURED))
        sizes = {reason: size + more[reason] for reason, size in sizes.items()}
    return sizes


def _label_of(path: str) -> str | None:
    """Name the folder of the dimension label that a file belongs to."""
    top, _, rest = path.partition("/")
    name, slash, _ = rest.partition("/")
    return f"{top}/{name}" if top == LABELS and slash else None


def _labels(files: Iterable[Entry]) -> set[str]:
    return {label for entry in files if (label := _label_of(entry.path)) is not None}


def _table(uses: Iterable[file_uses.FileUse], ways: Iterable[Way]) -> pa.Table:
    freed_by = {path: way.command for way in ways for path in way.paths}
    rows = [(*use, freed_by.get(use.path)) for use in uses]
    columns = zip(*rows, strict=True) if rows else ((),) * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def _ways(
    store: Store, history: History, rules: Rules, files: Collection[Entry]
) -> tuple[tuple[Way, ...], tuple[str, ...]]:
    """List the ways to free files, the gentlest first, with the notes of their commands."""
    # A column holds text: a place that is none is told with escapes.
    place = shell_word(store.uri)
    command = f"chronotile vacuum {place}"

    def ask(at: Store, **options: bool) -> Report:
        return plan_vacuum(at, history.key, **options).report()  # type: ignore[arg-type]

    try:
        plan = ask(store)
    except RefusedError as error:
        return (), (f"nothing can be freed now: {error.problem}",)
    ways = [Way(command=command, lost=_lost(plan), paths=_removed(plan))]
    notes = dict.fromkeys(plan.notes)
    tidy = f"chronotile consolidate {place} && {command}"
    put = _consolidation(store, history)
    if put:
        merged = ask(overlaid(store, put))
        written = sum(map(len, put.values()))
        ways.append(_beyond(ways, tidy, _lost(merged), _removed(merged), written))
    orphans = _orphans(rules, history)
    ignored = _ignored_orphans(store, history, rules, ways)
    for option, own in _OPTIONS.items():
        lost = own if _lost(plan) == NOTHING else f"{own}; {_lost(plan)}"
        if orphans:
            try:
                more = ask(store, orphans=True, whole_orphans=option == "whole_orphans")
            except (RefusedError, BadNameError, StorageError) as error:
                # An array that is the root of its bucket, or has an odd name, has nothing beside
                # it; any other error of the storage tells of the storage.
                if isinstance(error, StorageError) and store.place.root.strip("/"):
                    raise
                notes[f"orphans stay: {error.problem}"] = None
                orphans = False
            else:
                notes |= dict.fromkeys(more.notes)
                ways.append(_beyond(ways, f"{command} {_flag(option)}", lost, _removed(more)))
        folders = tuple(f"{path}/" for path, needed in ignored if needed == option)
        paths = frozenset(e.path for e in files if e.path.startswith(folders))
        again = f"{tidy} && {command} {_flag(option)}"
        ways.append(_beyond(ways, again, lost, paths, written=sum(map(len, put.values()))))
    sizes = {entry.path: entry.size or 0 for entry in files}
    return tuple(way for way in ways if _pays(way, sizes)), tuple(notes)


def _pays(way: Way, sizes: Mapping[str, int]) -> bool:
    """Tell whether a way leaves fewer bytes, or as many in fewer files."""
    if not way.paths:
        return False
    return not way.written or sum(sizes.get(path, 0) for path in way.paths) > way.written


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _beyond(
    before: Iterable[Way], command: str, lost: str, paths: frozenset[str], written: int = 0
) -> Way:
    """Make a way with the paths that no way before it frees."""
    known = frozenset[str]().union(*(way.paths for way in before))
    return Way(command=command, lost=lost, paths=paths - known, written=written)


def _removed(plan: Report) -> frozenset[str]:
    return frozenset(step.path for step in plan.steps if step.op == "remove")


def _lost(plan: Report) -> str:
    return "; ".join(note for note in plan.notes if note.startswith(LOSS)) or NOTHING


def _consolidation(store: Store, history: History) -> dict[str, bytes]:
    """List the files that a consolidation of commits would put."""
    try:
        plan = plan_consolidate(store, history.key)
    except RefusedError:  # the array is too old to have a `.con`
        return {}
    return {step.path: step.data for step in plan.steps}


def _orphans(rules: Rules, history: History) -> bool:
    """Tell whether the array may have orphans."""
    return any(map(is_name, rules.uncommitted)) or any(
        LEFTOVER.fullmatch(path) for path in history.listing.others
    )


def _ignored_orphans(
    store: Store, history: History, rules: Rules, ways: Iterable[Way]
) -> tuple[tuple[str, str], ...]:
    """List the folders of ignored fragments, each with the option that frees it in a second vacuum.

    They become orphans once no `.con` names them any more.
    """
    table, folders = history.table, history.listing.fragment_paths()
    gone = frozenset[str]().union(*(way.paths for way in ways))
    names = {table.name(row) for row in rules.ignored().tolist()} & folders.keys()
    if not names:
        return ()
    for row in np.flatnonzero(table.uris.ext <= OK).tolist():
        if table.path(row) not in gone:
            names.discard(table.name(row))
    health = inspect(store, history, sorted(folders[name] for name in names))
    options = {True: "whole_orphans", False: "orphans"}
    return tuple(
        (path, options[one.is_whole])
        for path, one in health.items()
        if one.is_whole or one.is_broken
    )
