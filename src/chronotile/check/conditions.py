"""Checks of the conditions of deletes and updates.

In: the rules of a history. Out: findings. Opens every effective tile, with the array's key if there
is one, and compares its condition with the schemas. Looks at no cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.findings import Finding, Severity, count_text, finding
from chronotile.conditions.delete import is_harmless
from chronotile.conditions.side_effects import also_removes, engine_refuses
from chronotile.conditions.tree import Op, leaves
from chronotile.errors import BadFileError, ChronotileError, KeyNeededError, UnsupportedFilterError
from chronotile.format import tiles
from chronotile.format.kinds import DEL
from chronotile.format.names import MAX_TIMESTAMP, NEWEST_VERSION
from chronotile.visibility.rules import schemas_over
from chronotile.visibility.view import Delete, Update, make_commit, tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.conditions.tree import Condition
    from chronotile.history.read_history import History
    from chronotile.visibility.rules import Rules


def conditions(rules: Rules) -> Iterator[Finding]:
    """What each delete and update does that its author may not know."""
    array = rules.history.array
    encrypted = [p.path for p in rules.history.problems if p.kind == "encrypted"]
    for commit, _ in commits(rules):
        try:
            stored = commit.stored
        except KeyNeededError:
            encrypted.append(commit.source)
            continue
        except ChronotileError as error:
            yield finding(array, "tile-corrupt", commit.source, str(error))
            continue
        odd = tiles.oddity(commit.tile, max(commit.version, NEWEST_VERSION))
        if odd is not None:
            code, hint = "tile-corrupt", "nothing to run: the engine reads it all the same"
            yield finding(array, code, commit.source, odd, severity="warning", hint=hint)
        yield from _refused(rules.history, commit, stored)
        if isinstance(commit, Update):
            schema = commit.schema
            if commit.offset == 0 and not (schema and is_harmless(stored, schema)):
                message = f"{commit.text}: the engine deletes these rows, and sets nothing"
                yield finding(array, "update-deletes", commit.source, message)
        elif commit.schema is not None:
            removed = also_removes(stored, commit.schema)
            if removed:
                message = f"{commit.text}: also removes {'; '.join(removed)}"
                yield finding(array, "delete-hits-null", commit.source, message, name=commit.name)
    yield from _broken(array, _copies(rules.history))
    if encrypted:
        message = f"{count_text(len(encrypted), 'file')} could not be read without the key"
        yield finding(array, "tile-encrypted", encrypted[0], message)


def commits(rules: Rules) -> Iterator[tuple[Delete, int]]:
    """The effective deletes and updates, each with its row, in time order."""
    return tile_commits(rules, MAX_TIMESTAMP)


def broken_tiles(rules: Rules) -> Iterator[Finding]:
    """Deletes and updates that cannot be opened, with or without the key."""
    every = (*(commit for commit, _ in commits(rules)), *_copies(rules.history))
    return _broken(rules.history.array, every)


def _copies(history: History) -> Iterator[Delete]:
    """Further copies of deletes in `.con` files: the engine reads each of them (F12)."""
    table = history.table
    for row in table.tile_rows.tolist():
        if not (table.counts[row] or table.is_loose(row) or table.uris.ext[row] != DEL):
            yield make_commit(history, Delete, row, None)


def _broken(array: str, deletes: Iterable[Delete]) -> Iterator[Finding]:
    for commit in deletes:
        try:
            _ = commit.stored
        except (KeyNeededError, UnsupportedFilterError):
            continue
        except BadFileError as error:
            yield finding(array, "tile-corrupt", commit.source, str(error))


def _refused(history: History, commit: Delete, stored: Condition) -> Iterator[Finding]:
    if isinstance(commit, Update) and commit.offset:
        return  # the engine does not see an update in a `.con`
    why = refusal(history, commit, stored)
    if why is not None:
        message = f"{text_or_name(commit)}: {why.message}"
        severity: Severity = "error" if why.today else "warning"
        yield finding(history.array, why.code, commit.source, message, severity=severity)


class Refusal(NamedTuple):
    """Why the engine fails to read an array with a delete in force."""

    code: str
    message: str
    today: bool
    """Whether the engine fails today, and not only at windows that end under an older schema."""


def refusal(history: History, commit: Delete, stored: Condition) -> Refusal | None:
    """Why the engine fails to read an array with this delete in force; None if it does not."""
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


def text_or_name(commit: Delete) -> str:
    """The predicate of a delete as text, or the delete's name if it cannot be read."""
    try:
        return commit.text
    except ChronotileError:
        return commit.name
