"""Checks of the commit files themselves: names, `.con`, `.ign` and `.vac` files.

In: a history. Out: findings. Opens no tile but the copies of one that is cut. A line of a file must
have the shape of a commit's or fragment's name, and is never taken for a path.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from chronotile.check.findings import (
    CODES,
    Finding,
    Severity,
    count_text,
    finding,
    left_out,
    shown,
)
from chronotile.check.undone_restores import is_passed
from chronotile.format.commit_files import commit_name, is_commit_line, is_cut_con, read_vac_line
from chronotile.format.kinds import (
    COMMIT_FILES,
    COMMITS,
    CONDITIONS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENTS,
    LINES,
    META,
    OK,
    OLD_SCHEMA,
    ROOT_FILES,
    SCHEMA,
)
from chronotile.format.names import MAX_TIMESTAMP, is_name
from chronotile.history.redundant_con_files import coverage
from chronotile.history.uri_columns import stand_at
from chronotile.visibility.rules import schema_at
from chronotile.visibility.view import Update, make_commit, whole_copy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.history.read_history import History, VacuumFile
    from chronotile.visibility.rules import Rules

RELATIVE_VAC = 19
"""From this version on, the lines of a `.vac` are relative to the array."""

_PREFIX = f"{COMMITS}/".encode()
_CODES = {"con": "con-truncated", "schema": "tile-corrupt", "version": "version-unknown"}
_CODES |= dict.fromkeys(("name", "ign", "vac"), "name-malformed")
"""Kind of a problem -> code of its finding."""

_IN_TILE = re.compile(r"\b(?:delete|update)_record\b")
"""What a message says if a `.con` is damaged inside a tile: the name before the tile is whole."""
_CUT = re.compile(r"at byte (\d+): expected (?:an end of line|\d+ bytes)")
"""What a message says if a `.con` ends too early."""
_TIMES = re.compile(r"__(\d{1,20})_(\d{1,20})_", re.ASCII)
_RENEWED = "to write it again without these lines: chronotile repair {array}"
_NAME_STAYS = (
    "nothing to run: no reader goes by this name, "
    "and a consolidation after the next write makes another file"
)


def damage(history: History) -> Iterator[Finding]:
    """Find files and lines that are damaged, misnamed or of another kind."""
    for path, message, kind in history.problems:
        code = _CODES.get(kind)
        if kind == "schema" and path.startswith(SCHEMA) and not is_name(path.rpartition("/")[2]):
            code = "name-malformed"
        # The engine passes over an `.ok` of the root that has no fragment beside it.
        is_harmless = kind == "name" and path.endswith(".ok")
        severity: Severity | None = "warning" if is_harmless else None
        if kind == "version":
            severity = "error"
        hint = CODES["enumeration-missing"][1] if path.startswith(f"{ENUMERATIONS}/") else None
        if kind == "con":
            if _IN_TILE.search(message):
                row = cut_tile(history, path)
                name = None if row is None else history.table.name(row)
                hint = left_out(None if name is None else whole_copy(history, name, path))
            if (cut := _CUT.search(message)) is not None and _is_cut(history, path):
                message = f"the file ends in the middle of its last entry (at byte {cut[1]})"
        if code == "name-malformed":
            message = _backwards(path) or message
            hint = _RENEWED if path.endswith(LINES) and is_name(_stem(path)) else hint
        if code is not None:
            yield finding(history.array, code, path, message, severity=severity, hint=hint)
    yield from _strange_names(history)
    yield from _strange_kinds(history)
    yield from _strange_lines(history)


def cut_tile(history: History, path: str) -> int | None:
    """Return the row of the last delete or update of a `.con` if the file ends inside of it."""
    table = history.table
    if not _is_cut(history, path):
        return None
    rows = [row for row in table.condition_rows.tolist() if table.path(row) == path]
    return max(rows, key=lambda row: table.tile(row)[1], default=None)


def _is_cut(history: History, path: str) -> bool:
    sources = (one for one in history.table.sources if one.path == path)
    return any(is_cut_con(bytes(one.data)) for one in sources)


def _backwards(path: str) -> str | None:
    """Say that a name ends before it starts, if so."""
    times = _TIMES.match(path.rpartition("/")[2])
    if times is None or int(times[1]) <= int(times[2]):
        return None
    return f"the name's start time ({times[1]}) is after its end time ({times[2]})"


def _strange_names(history: History) -> Iterator[Finding]:
    listing, known = history.listing, {problem.path for problem in history.problems}
    message = "expected a timestamped name (__t1_t2_uuid_v)"
    for path in (*listing.paths_of(".con"), *listing.paths_of(".ign")):
        if not is_name(_stem(path)):
            # The engine reads these files whatever their names are.
            yield finding(history.array, "name-malformed", path, message, severity="warning")
    for text in listing.meta:
        path, stem = f"{META}/{text}", text.removesuffix(".vac").removesuffix(".tmp")
        if not is_name(stem) and path not in known:
            yield finding(history.array, "name-malformed", path, message)
    for path in listing.fragment_meta:
        stem = path.rpartition("/")[2].removesuffix(".meta")
        if not is_name(stem):
            yield finding(history.array, "name-malformed", path, message)
        elif not path.endswith(".meta") and path.startswith(FRAGMENT_META):
            yield finding(history.array, "name-malformed", path, "expected a .meta, found another")


def _strange_kinds(history: History) -> Iterator[Finding]:
    """Find links, folders, pipes and sockets in the place of a file.

    The engine lists the root, `__commits`, `__schema`, `__meta` and `__fragment_meta`, asks for
    the size of everything in them, and follows links.
    """
    listing, array = history.listing, history.array
    by_hand = "see to it by hand: it is never opened, moved or removed here"
    for path in listing.others:
        place, _, name = path.rpartition("/")
        if place in (FRAGMENTS, ENUMERATIONS):
            continue
        severity: Severity = "error"
        kind = listing.stranger_kinds.get(path)
        is_folder = kind in ("stray", "folder-link")
        if kind == "special":
            message = "neither a file nor a folder: TileDB fails to list the folder around it"
        elif is_folder and _breaks_as_folder(place, name):
            message = "expected a file, found a folder, which TileDB fails to read"
        elif kind == "file-link" and _is_read(place, name):
            message = "a symbolic link, which TileDB follows, but this tool does not"
            severity = "error" if _breaks_as_link(history, name) else "warning"
        elif place == COMMITS and name.endswith(COMMIT_FILES) and not is_folder:
            message = "expected a file, found something that this tool never touches"
        else:
            continue
        yield finding(array, "name-malformed", path, message, severity=severity, hint=by_hand)


def _breaks_as_folder(place: str, name: str) -> bool:
    """Return True if the engine fails to open the array or its metadata over such a folder."""
    if place == COMMITS:
        return name.endswith(COMMIT_FILES) and not name.endswith(".ok")
    return name.endswith(ROOT_FILES[1:]) if not place else place != FRAGMENTS


def _breaks_as_link(history: History, name: str) -> bool:
    """Return True if a link to a file breaks the array by its name alone."""
    stem, _, extension = name.rpartition(".")
    if extension == "wrt":
        return stem not in history.listing.fragments
    return f".{extension}" in (*CONDITIONS, ".vac") and not is_name(stem)


def _is_read(place: str, name: str) -> bool:
    """Return True if the engine reads a file of that name, or relies on the name."""
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
            yield finding(array, "name-malformed", source.path, message, hint=_RENEWED)
    bad_lines = ((line, path) for line, path in table.ignores.items() if not is_commit_line(line))
    for path, bad in _grouped(bad_lines).items():
        message = f"expected commits of this array, found {shown(bad)}"
        yield finding(array, "name-malformed", path, message, severity="warning", hint=_RENEWED)
    for vacuum in (*history.vacuums, *history.meta_vacuums):
        yield from _vacuum_lines(history, vacuum)


def _vacuum_lines(history: History, vacuum: VacuumFile) -> Iterator[Finding]:
    array = history.array
    bad = [line for line in vacuum.lines if read_vac_line(line).name is None]
    if bad:
        message = f"expected fragments of this array, found {shown(bad)}"
        yield finding(array, "name-malformed", vacuum.path, message, hint=_RENEWED)
    absolute = [line for line in vacuum.lines if read_vac_line(line).absolute]
    if absolute:
        modern = (vacuum.name.version or 0) >= RELATIVE_VAC
        number = "1 line names" if len(absolute) == 1 else f"{len(absolute):,} lines name"
        message = f"{number} another place than this array: {shown(absolute)}"
        if modern:
            message += "; TileDB writes no such line since format 19"
            # No vacuum goes on with such a file: it may be damaged.
            hint = "to write it again with lines of this array: chronotile repair {array}"
            yield finding(
                array, "vac-absolute", vacuum.path, message, severity="warning", hint=hint
            )
        else:
            yield finding(array, "vac-absolute", vacuum.path, message)


def consolidated(rules: Rules) -> Iterator[Finding]:
    """Find debt and faults of whole `.con` and `.ign` files: F1, F2, F5, F9, F11, F12."""
    yield from _name_ranges(rules.history)
    yield from _unneeded(rules.history)
    yield from _records_with_tiles(rules)


def _unneeded(history: History) -> Iterator[Finding]:
    """Find the `.con` and `.ign` files that nobody needs (F5)."""
    files = coverage(history.table)
    superseded = files.superseded()
    for path, holder in superseded.items():
        message = f"{holder} holds every effective commit of it"
        if holder is None:
            message = "it holds no effective commit"
        yield finding(history.array, "con-superseded", path, message)
    ignores = history.listing.paths_of(".ign")
    idle = files.free_ignores(ignores, ())
    for path in files.free_ignores(ignores, superseded):
        message = "this .ign names no write in any .con, so it has no effect"
        if path not in idle:
            message = "every .con that holds a write of this .ign is to be removed with it"
        yield finding(history.array, "con-superseded", path, message)


def _records_with_tiles(rules: Rules) -> Iterator[Finding]:
    """Find the effects of deletes and updates inside of `.con` files: F1, F11, F12."""
    history, array, table = rules.history, rules.history.array, rules.history.table
    tiles = table.condition_rows.tolist()
    loose = {table.uri(row) for row in tiles if table.is_loose(row)}
    in_cons = _grouped(
        (table.uri(row), table.path(row)) for row in tiles if not table.is_loose(row)
    )
    damaged = {problem.path for problem in history.problems}
    updates = [row for row in tiles if table.uri(row).endswith(".upd") and not table.is_loose(row)]
    latest = schema_at(history, MAX_TIMESTAMP)
    idle = {
        table.uri(row)
        for row in updates
        if make_commit(history, Update, row, latest).is_stand_in
        or is_passed(rules, int(table.uris.t1[row]))
    }
    seen: dict[str, str] = {}
    for path in (source.path for source in table.sources if source.path in in_cons):
        uris = dict.fromkeys(in_cons[path])
        deletes = [uri for uri in uris if uri.endswith(".del")]
        lost = sum(uri not in loose and uri not in table.ignores for uri in deletes)
        if lost:
            message = "TileDB cannot consolidate commits: it looks for the file of "
            message += f"{count_text(lost, 'delete')} that stands only in this .con"
            hint = "to mend this .con, and to put back the files of deletes that can be read: "
            hint += "chronotile repair {array}"
            hint = hint if path in damaged else CODES["con-blocks-consolidation"][1]
            yield finding(array, "con-blocks-consolidation", path, message, hint=hint)
        if count := len(uris.keys() - idle) - len(deletes):
            message = f"{count_text(count, 'update')} in it, which TileDB does not see"
            yield finding(array, "con-has-updates", path, message)
        twice = [uri for uri in deletes if uri in seen]
        if twice:
            message = f"{count_text(len(twice), 'delete')} that also stand in {seen[twice[0]]}"
            yield finding(array, "delete-duplicate", path, f"{message}: loaded twice")
        seen |= dict.fromkeys(deletes, path)
    files = coverage(table)
    free = {*files.free_ignores(history.listing.paths_of(".ign"), files.superseded())}
    ignored = ((u, path) for u, path in table.ignores.items() if u.endswith(".del") and u in seen)
    for path, names in _grouped(ignored).items():
        message = f"it names {shown(sorted(names))}: TileDB ignores only writes, so a delete stays"
        hint = "to remove the .ign (the delete stays in force): chronotile vacuum {array}"
        yield finding(array, "delete-ignored", path, message, hint=hint if path in free else None)


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group pairs of line and file by file."""
    lines: dict[str, list[str]] = {}
    for line, path in pairs:
        lines.setdefault(path, []).append(line)
    return lines


def _name_ranges(history: History) -> Iterator[Finding]:
    """Find the `.con` files whose names do not fit their records (F2, F9)."""
    array, table = history.array, history.table
    damaged = {problem.path for problem in history.problems}
    for number, source in enumerate(table.sources):
        path = source.path
        if source.loose or path in damaged or not is_name(_stem(path)):
            continue
        name = commit_name(path)
        rows = np.flatnonzero(table.source == number)
        t1, t2 = table.uris.t1[rows], table.uris.t2[rows]
        # The engine takes the times of two of its records, this package the outermost times.
        if name.t1 not in t1 or name.t2 not in t2:
            message = f"no record has the time {name.t2 if name.t1 in t1 else name.t1} "
            message += "of its name: it may have been cut between two records"
            hint = "nothing to run: a fragment that no commit names may be what it lost"
            yield finding(array, "con-truncated", path, message, severity="warning", hint=hint)
        first, last = (int(t1.min()), int(t2.max())) if len(rows) else name[:2]
        if first < name.t1 or last > name.t2:
            message = (
                f"its name says {name.t1} to {name.t2}, its commits are from {first} to {last}"
            )
            if f"{COMMITS}/__{first}_{last}_" < path:
                yield finding(array, "con-name-range", path, message)
            else:
                # A vacuum keeps it for one with a better name: see `redundant_con_files`.
                hint = _NAME_STAYS
                yield finding(array, "con-name-range", path, message, severity="info", hint=hint)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]
