"""Checks of what deletes and updates say.

In: a history and its rules. Out: findings. Opens every tile that counts, with the array's key
if it was given, and reasons on the condition and the schemas; it looks at no rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.check.findings import Finding, Severity, finding
from chronotile.conditions.side_effects import also_removes, engine_refuses
from chronotile.conditions.tree import Op, leaves
from chronotile.errors import BadFileError, ChronotileError, KeyNeededError, UnsupportedFilterError
from chronotile.format import tiles
from chronotile.format.kinds import DEL
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.visibility.rules import schema_at, schemas_over
from chronotile.visibility.view import Delete, Update, make_commit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.conditions.tree import Condition
    from chronotile.history.reading import History
    from chronotile.visibility.rules import Rules


def conditions(history: History, rules: Rules) -> Iterator[Finding]:
    """What each delete and update does that its author may not know."""
    sealed = [problem.path for problem in history.problems if problem.kind == "encrypted"]
    for commit, _ in commits(history, rules):
        try:
            stored = commit.stored
        except KeyNeededError:
            sealed.append(commit.source)
            continue
        except ChronotileError as error:
            yield finding(history.array, "tile-corrupt", commit.source, str(error))
            continue
        odd = tiles.oddity(commit.tile)
        if odd is not None:
            hint = "nothing to run: the engine reads it all the same"
            yield finding(
                history.array, "tile-corrupt", commit.source, odd, severity="warning", hint=hint
            )
        yield from _refusal(history, commit, stored)
        if isinstance(commit, Update):
            if commit.offset == 0:
                message = f"{commit.text}: the engine deletes these rows, and sets nothing"
                yield finding(history.array, "update-deletes", commit.source, message)
        elif commit.schema is not None:
            removed = also_removes(stored, commit.schema)
            if removed:
                message = f"{commit.text}: also removes {'; '.join(removed)}"
                yield finding(history.array, "delete-hits-null", commit.source, message)
    for path, message in _broken_copies(history):
        yield finding(history.array, "tile-corrupt", path, message)
    if sealed:
        files = "1 file" if len(sealed) == 1 else f"{len(sealed)} files"
        message = f"{files} could not be read without the key"
        yield finding(history.array, "tile-encrypted", sealed[0], message)


def commits(history: History, rules: Rules) -> Iterator[tuple[Delete, int]]:
    """The deletes and updates that count, each with its row, in time order."""
    latest = schema_at(history, MAX_TIMESTAMP)
    for row in np.sort(np.concatenate((rules.deletes, rules.updates))).tolist():
        kind = Delete if history.table.uris.ext[row] == DEL else Update
        yield make_commit(history, kind, row, latest), row


def broken_tiles(history: History, rules: Rules) -> Iterator[tuple[str, str]]:
    """Deletes and updates that cannot be opened, key or no key: the file, and why."""
    for commit, _ in commits(history, rules):
        try:
            _ = commit.stored
        except (KeyNeededError, UnsupportedFilterError):
            continue
        except BadFileError as error:
            yield commit.source, str(error)
    yield from _broken_copies(history)


def _broken_copies(history: History) -> Iterator[tuple[str, str]]:
    """Further copies of deletes in `.con` files: the engine reads each of them (F12)."""
    table = history.table
    for row in table.tile_rows.tolist():
        if table.counts[row] or table.is_loose(row) or table.uris.ext[row] != DEL:
            continue
        try:
            _ = make_commit(history, Delete, row, None).stored
        except (KeyNeededError, UnsupportedFilterError):
            continue
        except BadFileError as error:
            yield table.path(row), str(error)


def _refusal(history: History, commit: Delete, stored: Condition) -> Iterator[Finding]:
    if isinstance(commit, Update) and commit.offset:
        return  # the engine does not see it at all
    found = refusal(history, commit, stored)
    if found is not None:
        message = f"{said(commit)}: {found.message}"
        severity: Severity = "error" if found.today else "warning"
        yield finding(history.array, found.code, commit.source, message, severity=severity)


class Refusal(NamedTuple):
    """Why the engine fails to read an array with a delete in force."""

    code: str
    message: str
    today: bool
    """Whether it fails today, and not only at windows that end under an older schema."""


def refusal(history: History, commit: Delete, stored: Condition) -> Refusal | None:
    """Why the engine fails to read an array with this delete in force, if it does."""
    for number, schema in enumerate(schemas_over(history, commit.t2)):
        reasons = engine_refuses(stored, schema)
        if not reasons:
            continue
        today = number == 0
        which = "that covers it" if today else "that covers it and ends under an older schema"
        message = f"no read {which} succeeds: {'; '.join(reasons)}"
        others = [item.schema for item in history.schemas if item.schema is not None]
        dropped = any("no field of the schema" in reason for reason in reasons)
        if dropped or any(not engine_refuses(stored, other) for other in others):
            return Refusal("delete-dropped-field", message, today)
        with_null = any(not leaf.value and leaf.op in (Op.EQ, Op.NE) for leaf in leaves(stored))
        return Refusal("delete-null" if with_null else "tile-corrupt", message, today)
    return None


def said(commit: Delete) -> str:
    """A delete in words, or its name where it cannot be read."""
    try:
        return commit.text
    except ChronotileError:
        return commit.name
