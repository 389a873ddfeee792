"""Checks of the commit files themselves: names, `.con`, `.ign` and `.vac` files.

In: a history. Out: findings. Opens no tile; a line of a file is held to the shape of a commit's
or fragment's name and is never taken for a path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chronotile.check.findings import Finding, Severity, finding
from chronotile.format.commit_files import commit_name, is_commit_line, read_vac_line
from chronotile.format.kinds import (
    COMMIT_FILES,
    COMMITS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENTS,
    META,
    OK,
    OLD_SCHEMA,
    ROOT_FILES,
    SCHEMA,
    TILES,
)
from chronotile.format.names import is_name
from chronotile.history.con_coverage import coverage
from chronotile.history.uri_columns import stand_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.reading import History, VacuumFile

RELATIVE_VAC = 19
"""From this version on the lines of a `.vac` are relative to the array."""

_PREFIX = f"{COMMITS}/".encode()
_SHOWN = 5


def shown(texts: list[str]) -> str:
    """A few of several texts, made safe to print.

    >>> shown(["a", "b"])
    "'a', 'b'"
    """
    few = ", ".join(ascii(text[:120]) for text in texts[:_SHOWN])
    return few if len(texts) <= _SHOWN else f"{few} and {len(texts) - _SHOWN} more"


def damage(history: History) -> Iterator[Finding]:
    """Files and lines that are not what they should be."""
    array = history.array
    for problem in history.problems:
        if problem.kind == "name":
            # The engine passes over an `.ok` of the root that has no fragment beside it.
            severity: Severity = "warning" if problem.path.endswith(".ok") else "error"
            yield finding(array, "name-malformed", problem.path, problem.message, severity=severity)
        elif problem.kind == "con":
            yield finding(array, "con-truncated", problem.path, problem.message)
        elif problem.kind in ("ign", "vac"):
            yield finding(array, "name-malformed", problem.path, problem.message)
        elif problem.kind == "schema":
            stranger = problem.path.startswith(SCHEMA) and not is_name(
                problem.path.rpartition("/")[2]
            )
            code = "name-malformed" if stranger else "tile-corrupt"
            yield finding(array, code, problem.path, problem.message)
    yield from _strange_names(history)
    yield from _strange_lines(history)


def _strange_names(history: History) -> Iterator[Finding]:
    listing, known = history.listing, {problem.path for problem in history.problems}
    wanted = "expected a timestamped name, found another"
    yield from _strange_kinds(history)
    for text in listing.non_writes:
        path = f"{COMMITS}/{text}"
        if text.endswith((".con", ".ign")) and not is_name(text[:-4]):
            # The engine reads these whatever they are called.
            yield finding(history.array, "name-malformed", path, wanted, severity="warning")
    for text in listing.meta:
        path, stem = f"{META}/{text}", text.removesuffix(".vac").removesuffix(".tmp")
        if not is_name(stem) and path not in known:
            yield finding(history.array, "name-malformed", path, wanted)
    for path in listing.fragment_meta:
        stem = path.rpartition("/")[2].removesuffix(".meta")
        if not is_name(stem):
            yield finding(history.array, "name-malformed", path, wanted)
        elif not path.endswith(".meta") and path.startswith(FRAGMENT_META):
            yield finding(history.array, "name-malformed", path, "expected a .meta, found another")


def _strange_kinds(history: History) -> Iterator[Finding]:
    """What stands where a file should be and is none: links, folders, pipes, sockets.

    The engine lists the root, `__commits`, `__schema`, `__meta` and `__fragment_meta`, asks for
    the size of everything in them, and follows links.
    """
    listing, array = history.listing, history.array
    by_hand = "see to it by hand: it is never opened, moved or removed here"
    folders = {*listing.stray_folders, *listing.folder_links}
    for path in listing.others:
        place, _, name = path.rpartition("/")
        if place in (FRAGMENTS, ENUMERATIONS):
            continue
        severity: Severity = "error"
        if path in listing.specials:
            message = "neither a file nor a folder: the engine fails to list what holds it"
        elif path in folders and _breaks_as_folder(place, name):
            message = "a folder where the engine wants a file, which it fails to read"
        elif path in listing.file_links and _is_read(place, name):
            message = "a symbolic link, which is not followed here, but is by the engine"
            severity = "error" if _breaks_as_link(history, name) else "warning"
        elif place == COMMITS and name.endswith(COMMIT_FILES) and path not in folders:
            message = "expected a file with a name, found what is never touched"
        else:
            continue
        yield finding(array, "name-malformed", path, message, severity=severity, hint=by_hand)


def _breaks_as_folder(place: str, name: str) -> bool:
    """Whether a folder of that name keeps the engine from opening the array or its metadata."""
    if place == COMMITS:
        return name.endswith(COMMIT_FILES) and not name.endswith(".ok")
    return name.endswith(ROOT_FILES[1:]) if not place else place != FRAGMENTS


def _breaks_as_link(history: History, name: str) -> bool:
    """Whether a link to a file breaks the array by its name alone."""
    stem, _, extension = name.rpartition(".")
    if extension == "wrt":
        return stem not in history.listing.fragments
    return f".{extension}" in (*TILES, ".vac") and not is_name(stem)


def _is_read(place: str, name: str) -> bool:
    """Whether the engine reads a file of that name, or goes by it."""
    if place == COMMITS:
        return name.endswith(COMMIT_FILES)
    return name.endswith((*ROOT_FILES, OLD_SCHEMA)) if not place else True


def _strange_lines(history: History) -> Iterator[Finding]:
    table, array = history.table, history.array
    for number, source in enumerate(table.sources):
        rows = np.flatnonzero(table.source == number)
        if source.loose or not len(rows):
            continue
        in_root = table.uris.ext[rows] == OK
        plain = np.where(in_root, 0, len(_PREFIX)) == table.uris.prefix[rows]
        inside = np.flatnonzero(plain & ~in_root)
        plain[inside] = stand_at(source.data, table.uris.start[rows[inside]], _PREFIX)
        bad = [table.uri(row) for row in rows[~plain].tolist()]
        if bad:
            message = f"expected commits of this array, found {shown(bad)}"
            yield finding(array, "name-malformed", source.path, message)
    lines: dict[str, list[str]] = {}
    for line, path in table.ignores.items():
        if not is_commit_line(line):
            lines.setdefault(path, []).append(line)
    for path, bad in lines.items():
        message = f"expected commits of this array, found {shown(bad)}"
        yield finding(array, "name-malformed", path, message, severity="warning")
    for vacuum in (*history.vacuums, *history.meta_vacuums):
        yield from _vacuum_lines(history, vacuum)


def _vacuum_lines(history: History, vacuum: VacuumFile) -> Iterator[Finding]:
    array = history.array
    bad = [line for line in vacuum.lines if read_vac_line(line).name is None]
    if bad:
        message = f"expected fragments of this array, found {shown(bad)}"
        yield finding(array, "name-malformed", vacuum.path, message)
    absolute = [line for line in vacuum.lines if read_vac_line(line).absolute]
    if absolute:
        modern = (vacuum.name.version or 0) >= RELATIVE_VAC
        message = f"lines that name another place: {shown(absolute)}"
        if modern:
            message += "; no engine writes them so since format 19"
        severity: Severity = "warning" if modern else "info"
        yield finding(array, "vac-absolute", vacuum.path, message, severity=severity)


def consolidated(history: History) -> Iterator[Finding]:
    """What is known of `.con` and `.ign` files: F1, F2, F5, F11, F12."""
    array, table = history.array, history.table
    yield from _ranges(history)
    files = coverage(table)
    gone = files.superseded()
    for path in gone:
        message = "a later .con holds every commit of it that counts"
        yield finding(array, "con-superseded", path, message)
    ignores = [f"{COMMITS}/{text}" for text in history.listing.non_writes if text.endswith(".ign")]
    for path in files.free_ignores(ignores, gone):
        message = "no .con that is needed holds a write that it names"
        yield finding(array, "con-superseded", path, message)
    seen: dict[str, str] = {}
    loose, cons = _tiles(table)
    for path, held in cons.items():
        deletes = [uri for uri in held if uri.endswith(".del")]
        lost = [uri for uri in deletes if uri not in loose and uri not in table.ignores]
        if lost:
            message = f"{_count(lost, 'delete')} whose own file is gone: the engine looks for it"
            yield finding(array, "con-blocks-consolidation", path, message)
        updates = [uri for uri in held if uri.endswith(".upd")]
        if updates:
            message = f"{_count(updates, 'update')} in it, which the engine does not see"
            yield finding(array, "con-has-updates", path, message)
        twice = [uri for uri in deletes if uri in seen]
        if twice:
            message = f"{_count(twice, 'delete')} that also stand in {seen[twice[0]]}"
            yield finding(array, "delete-duplicate", path, f"{message}: loaded twice")
        seen |= dict.fromkeys(deletes, path)
    named: dict[str, list[str]] = {}
    for uri, path in table.ignores.items():
        if uri.endswith(".del") and uri in seen:
            named.setdefault(path, []).append(uri)
    for path, ignored in named.items():
        message = f"it names {shown(sorted(ignored))}, in force all the same"
        yield finding(array, "delete-ignored", path, message)


def _tiles(table: CommitTable) -> tuple[set[str], dict[str, dict[str, None]]]:
    """The URIs of deletes and updates: the loose ones, and those of each `.con` in time order."""
    loose: set[str] = set()
    cons: dict[str, dict[str, None]] = {s.path: {} for s in table.sources if not s.loose}
    for row in table.tile_rows.tolist():
        uri = table.uri(row)
        if table.is_loose(row):
            loose.add(uri)
        else:
            cons[table.path(row)][uri] = None
    return loose, cons


def _ranges(history: History) -> Iterator[Finding]:
    table, array = history.table, history.array
    damaged = {problem.path for problem in history.problems}
    for number, source in enumerate(table.sources):
        if source.loose or source.path in damaged or not is_name(_stem(source.path)):
            continue
        name = commit_name(source.path)
        rows = np.flatnonzero(table.source == number)
        t1, t2 = table.uris.t1[rows], table.uris.t2[rows]
        # The engine names it for two of its records, this package for the outermost times.
        if name.t1 not in t1 or name.t2 not in t2:
            message = f"no record of it is of {name.t1 if name.t1 not in t1 else name.t2}, "
            message += "for which it is named: it may have been cut between two records"
            yield finding(array, "con-truncated", source.path, message, severity="warning")
        if len(rows) and (int(t1.min()) < name.t1 or int(t2.max()) > name.t2):
            found = f"{int(t1.min())} to {int(t2.max())}"
            message = f"its name says {name.t1} to {name.t2}, its commits are of {found}"
            yield finding(array, "con-name-range", source.path, message)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


def _count(items: list[str], word: str) -> str:
    return f"1 {word}" if len(items) == 1 else f"{len(items)} {word}s"
