"""Checks of the conditions of deletes and updates, and reasons why the engine fails at a window.

In: the rules of a history, or a view. Out: findings, the fragments that lack a field of a delete,
and a sentence for each reason why an open or a read fails. Opens every effective tile, with the
array's key if there is one, and compares its condition with the schemas. Looks at no cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.commit_files import cut_tile, damage
from chronotile.check.findings import (
    DROPPED,
    TAKEN_OUT,
    Finding,
    Severity,
    count_text,
    finding,
    left_out,
)
from chronotile.check.undone_restores import is_passed
from chronotile.conditions.side_effects import also_removes, engine_refuses
from chronotile.conditions.tree import Op, leaves
from chronotile.errors import BadFileError, ChronotileError, KeyNeededError, UnsupportedFilterError
from chronotile.format import tiles
from chronotile.format.kinds import DEL
from chronotile.format.names import MAX_TIMESTAMP, NEWEST_VERSION
from chronotile.safe_text import shell_word
from chronotile.visibility.rules import schemas_over
from chronotile.visibility.view import Delete, Update, make_commit, tile_commits, whole_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.conditions.tree import Condition
    from chronotile.history.read_history import History
    from chronotile.visibility.rules import Rules
    from chronotile.visibility.view import View


def conditions(rules: Rules) -> Iterator[Finding]:
    """Find effects of deletes and updates that their authors may not know."""
    array = rules.history.array
    encrypted = [p.path for p in rules.history.problems if p.kind == "encrypted"]
    # The finding on the damaged `.con` says so already.
    cut = {cut_tile(rules.history, p.path) for p in rules.history.problems if p.kind == "con"}
    for commit, row in tile_commits(rules, MAX_TIMESTAMP):
        try:
            stored = commit.stored
        except KeyNeededError:
            encrypted.append(commit.source)
            continue
        except ChronotileError as error:
            if row not in cut:
                hint = way_out(rules.history, commit)
                yield finding(array, "tile-corrupt", commit.source, str(error), hint=hint)
            continue
        odd = tiles.oddity(commit.tile, max(commit.version, NEWEST_VERSION))
        if odd is not None:
            code, hint = "tile-corrupt", "nothing to run: TileDB reads it all the same"
            yield finding(array, code, commit.source, odd, severity="warning", hint=hint)
        yield from _refused(rules.history, commit, stored)
        if isinstance(commit, Update):
            if not (commit.offset or commit.is_stand_in or is_passed(rules, commit.t1)):
                message = f"{commit.text}: TileDB hides these rows, and sets nothing"
                yield finding(array, "update-deletes", commit.source, message)
        elif commit.schema is not None:
            removed = also_removes(stored, commit.schema)
            if removed:
                message = f"{commit.text}: also removes {'; '.join(removed)}"
                yield finding(array, "delete-hits-null", commit.source, message, name=commit.name)
    copies = ((one, row) for one, row in _copies(rules.history) if row not in cut)
    yield from _broken(rules.history, copies)
    if encrypted:
        message = f"{count_text(len(encrypted), 'file')} could not be read without the key"
        yield finding(array, "tile-encrypted", encrypted[0], message)


def broken_tiles(rules: Rules) -> Iterator[Finding]:
    """Find deletes and updates that cannot be opened, with or without the key."""
    return _broken(rules.history, (*tile_commits(rules, MAX_TIMESTAMP), *_copies(rules.history)))


def _copies(history: History) -> Iterator[tuple[Delete, int]]:
    """Give further copies of deletes in `.con` files: the engine reads each of them (F12)."""
    table = history.table
    for row in table.condition_rows.tolist():
        if not (table.effective[row] or table.is_loose(row) or table.uris.ext[row] != DEL):
            yield make_commit(history, Delete, row, None), row


def _broken(history: History, deletes: Iterable[tuple[Delete, int]]) -> Iterator[Finding]:
    for commit, _ in deletes:
        try:
            _ = commit.stored
        except (KeyNeededError, UnsupportedFilterError):
            continue
        except BadFileError as error:
            path, hint = commit.source, way_out(history, commit)
            yield finding(history.array, "tile-corrupt", path, str(error), hint=hint)


def way_out(history: History, commit: Delete) -> str:
    """Give the hint on a delete or update that cannot be read."""
    if not commit.offset:
        return TAKEN_OUT
    return left_out(whole_copy(history, commit.name, commit.source))


def _refused(history: History, commit: Delete, stored: Condition) -> Iterator[Finding]:
    if isinstance(commit, Update) and commit.offset:
        return  # the engine does not see an update in a `.con`
    why = refusal(history, commit, stored)
    if why is not None:
        message = f"{text_or_name(commit)}: {why.message}"
        severity: Severity = "error" if why.today else "warning"
        name = commit.name
        yield finding(history.array, why.code, commit.source, message, severity=severity, name=name)


class Refusal(NamedTuple):
    """Why the engine fails to read an array with a delete in force."""

    code: str
    message: str
    today: bool
    """Whether the engine fails today, and not only at windows that end under an older schema."""


def refusal(history: History, commit: Delete, stored: Condition) -> Refusal | None:
    """Say why the engine fails to read an array with this delete in force; None if it reads it."""
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
    """Return the predicate of a delete as text, or the delete's name if it cannot be read."""
    try:
        return commit.text
    except ChronotileError:
        return commit.name


def lacking_fragments(
    rules: Rules,
    named: Iterable[str],
    moment: int,
    look: Callable[[list[str]], Mapping[str, Health]],
) -> dict[str, tuple[str, ...]]:
    """Find the visible fragments whose schema lacks some fields, and the fields that each lacks.

    A delete that names such a field removes all of their rows: for the engine every comparison
    with it is false, and a delete stores the negation of its author's predicate (F15).

    Fragments that begin after `moment`, the time of the delete, do not matter. `look` gives the
    health of fragments; it is not called if every schema has all of the fields.
    """
    wanted, history, table = tuple(named), rules.history, rules.history.table
    schemas = {item.text: item.schema for item in history.schemas if item.schema is not None}
    if all(schema.field(name) is not None for schema in schemas.values() for name in wanted):
        return {}
    rows = rules.visible(0, MAX_TIMESTAMP)[0].tolist()
    paths = [table.fragment_path(row) for row in rows if table.uris.t1[row] <= moment]
    health = look(paths)
    lacking = {}
    for path in paths:
        schema = schemas.get(health[path].schema or "") if path in health else None
        names = tuple(n for n in wanted if schema is not None and schema.field(n) is None)
        if names:
            lacking[path] = names
    return lacking


def lacking_words(
    lacking: Mapping[str, tuple[str, ...]], cells: int | None = None, lead: str = "it also removes"
) -> str:
    """Say what a delete does to fragments that lack its fields, and to their cells.

    >>> lacking_words({"a": ("b",)})
    'it also removes rows written before b was added, in 1 fragment'
    >>> lacking_words({"a": ("b",)}, 7, "it would hide")
    'it would hide rows written before b was added, in 1 fragment: up to 7 cells'
    """
    fields = ", ".join(sorted({name for names in lacking.values() for name in names}))
    count, was = count_text(len(lacking), "fragment"), "were" if "," in fields else "was"
    at_most = "" if cells is None else f": up to {count_text(cells, 'cell')}"
    return f"{lead} rows written before {fields} {was} added, in {count}{at_most}"


def failures(view: View) -> Iterator[str]:
    """Give each reason why an open or every read at the view's window fails, in a sentence."""
    for item in damage(view.history):
        if item.severity == "error" and item.code == "name-malformed":
            problem = item.message.removeprefix(f"{item.path}: ")
            words = f"TileDB cannot open this array: {item.path}: {problem}"
            yield f"{words}; {item.hint}"
    rules, table = view.rules, view.history.table
    _, in_window = rules.in_window(view.start, view.end)
    gone = in_window & rules.missing & ~rules.superseded(view.start, view.end)
    if rows := rules.fragment_rows[gone].tolist():
        hint = finding(view.history.array, "commit-without-fragment", "", "").hint
        names = table.name(rows[0]) + (f" and {len(rows) - 1:,} more" if len(rows) > 1 else "")
        gone_words = f"the files of {count_text(len(rows), 'fragment')} are gone ({names})"
        yield f"TileDB cannot open this array at this window: {gone_words}; {hint}"
    for commit in (*view.deletes, *(one for one in view.updates if not one.offset)):
        if not commit.schemas:
            continue
        try:
            reasons = engine_refuses(commit.stored, commit.schemas[0])
            text = commit.text if reasons else ""
        except BadFileError as error:
            if not isinstance(error, (KeyNeededError, UnsupportedFilterError)):
                words = way_out(view.history, commit)
                hint = words.format(array=shell_word(view.history.array))
                yield f"TileDB cannot read this array at this window: {error}; {hint}"
            continue
        except ChronotileError:
            continue
        if reasons:
            hint = DROPPED.format(array=shell_word(view.history.array), name=commit.name)
            why = f"because of the delete `{text}`: {reasons[0]}"
            yield f"Every read at this window fails {why}; {hint}"
