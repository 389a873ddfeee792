"""Why each object of an array is, or is not, visible at one window.

In: a view. Out: `Explanation`s: every object with the rule that decided on it, and the file
behind that. Says only what `rules` decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.errors import BadNameError, ChronotileError
from chronotile.format.kinds import (
    COMMIT_FILES,
    COMMITS,
    DEL,
    FILE_WORDS,
    FRAGMENTS,
    LINES,
)
from chronotile.format.names import Name, parse_name
from chronotile.visibility.rules import Rule, is_inside, is_later, is_seen, schema_at
from chronotile.visibility.view import Delete, Rows, Update, make_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chronotile.history.reading import SchemaFile
    from chronotile.visibility.view import View


class Explanation(NamedTuple):
    """One object, and why it is or is not visible."""

    name: str
    kind: str
    """`fragment`, `delete`, `update`, `consolidated`, `ignore`, `vacuum`, `schema`, `meta`,
    `fragment-meta` or `other`."""
    status: str
    """`visible`, `partial` or `hidden`."""
    reason: str
    because: str | None
    """The file that decides, if it is another than the object itself."""


def explain(view: View) -> Sequence[Explanation]:
    """Every object of the array, in the order of its kinds and then of time.

    What is said of a committed fragment is made when it is looked at: there may be very many.
    """
    committed = _committed(view)
    others = (
        *_other_fragments(view),
        *_tiles(view),
        *_commit_files(view),
        *_schemas(view),
        *_metadata(view),
        *_others(view),
    )
    count = len(view.rules.fragments)

    def explained(at: int) -> Explanation:
        return committed(at) if at < count else others[at - count]

    return Rows(np.arange(count + len(others)), explained)


def _said(name: str, kind: str, rule: Rule, because: str | None = None) -> Explanation:
    return Explanation(name, kind, rule.status, rule.value, because)


def _committed(view: View) -> Callable[[int], Explanation]:
    rules, table = view.rules, view.history.table
    decided = rules.decide(view.start, view.end)
    hider: dict[int, str] = {}
    for vacuum, listed in zip(view.history.vacuums, rules.vacuumed, strict=True):
        if is_seen(vacuum.name, view.start, view.end, dense=view.history.dense):
            for at in listed.tolist():
                hider.setdefault(at, vacuum.path)

    def explained(at: int) -> Explanation:
        rule, row = decided[at], int(rules.fragments[at])
        source = None if table.is_loose(row) else table.path(row)
        because = hider[at] if rule is Rule.SUPERSEDED else source
        return _said(table.name(row), "fragment", rule, because)

    return explained


def _other_fragments(view: View) -> Iterator[Explanation]:
    rules, table = view.rules, view.history.table
    for row in rules.ignored().tolist():
        because = table.ignores[table.uri(row)]
        yield _said(table.name(row), "fragment", Rule.IGNORED, because)
    for name in rules.uncommitted():
        if _name(name) is not None:
            yield _said(name, "fragment", Rule.UNCOMMITTED)
    yield from _lost_old_fragments(view)


def _lost_old_fragments(view: View) -> Iterator[Explanation]:
    table = view.history.table
    for row in view.rules.ok_without_folder.tolist():
        yield _said(table.name(row), "fragment", Rule.MISSING, table.path(row))


def _tiles(view: View) -> Iterator[Explanation]:
    table, rules = view.history.table, view.rules
    in_force = schema_at(view.history, view.end)
    for row in np.sort(np.concatenate((rules.deletes, rules.updates))).tolist():
        is_delete = table.uris.ext[row] == DEL
        commit = make_commit(view.history, Delete if is_delete else Update, row, in_force)
        because = None if table.is_loose(row) else table.path(row)
        rule = Rule.OUTSIDE
        if is_inside(commit.t1, commit.t2, view.start, view.end):
            rule = Rule.INSIDE if _is_readable(commit) else Rule.UNREADABLE
        yield _said(commit.name, "delete" if is_delete else "update", rule, because)


def _is_readable(commit: Delete) -> bool:
    try:
        _ = commit.stored
    except ChronotileError:
        return False
    return True


def _commit_files(view: View) -> Iterator[Explanation]:
    damaged = {problem.path for problem in view.history.problems}
    listing = view.history.listing
    paths = [f"{COMMITS}/{name}" for name in listing.non_writes] + list(listing.root_commits)
    for path in paths:
        text = path.rpartition("/")[2]
        stem, _, extension = text.rpartition(".")
        kind = FILE_WORDS.get(f".{extension}")
        if kind is None:
            continue
        name = _name(stem)
        rule = Rule.INSIDE
        if name is None or path in damaged:
            rule = Rule.UNREADABLE
        elif kind == "vacuum" and not is_seen(name, view.start, view.end, dense=view.history.dense):
            rule = Rule.OUTSIDE
        yield _said(stem or text, kind, rule)
    for text in view.history.skipped:
        stem, _, extension = text.rpartition(".")
        yield _said(stem, FILE_WORDS[f".{extension}"], Rule.OUTSIDE)


def _schemas(view: View) -> Iterator[Explanation]:
    in_force = schema_at(view.history, view.end)
    for item in view.history.schemas:
        if item is in_force:
            rule = Rule.INSIDE if item.schema is not None else Rule.UNREADABLE
            yield _said(item.text, "schema", rule)
        elif is_later(item, view.end):
            yield _said(item.text, "schema", Rule.OUTSIDE)
        else:
            yield _said(item.text, "schema", Rule.SUPERSEDED, in_force.path if in_force else None)
    if in_force is not None:
        yield from _enumerations(view, in_force)


def _enumerations(view: View, in_force: SchemaFile) -> Iterator[Explanation]:
    """The labels of the schema in force, and those that only others name."""
    schema = in_force.schema
    named = {text for _, text in schema.enumeration_files} if schema is not None else set()
    for path in view.history.listing.enumerations:
        text = path.rpartition("/")[2]
        if schema is None:
            yield _said(text, "schema", Rule.UNREADABLE)
        elif text in named:
            yield _said(text, "schema", Rule.INSIDE)
        else:
            yield _said(text, "schema", Rule.SUPERSEDED, in_force.path)


def _metadata(view: View) -> Iterator[Explanation]:
    hidden: dict[str, str] = {}
    for vacuum in view.history.meta_vacuums:
        if is_inside(*vacuum.name[:2], view.start, view.end):
            hidden |= dict.fromkeys(vacuum.targets, vacuum.path)
    for text in view.history.listing.meta:
        stem = text.removesuffix(".vac")
        name = _name(stem)
        rule, because = Rule.INSIDE, None
        if name is None:
            rule = Rule.UNREADABLE
        elif not is_inside(name.t1, name.t2, view.start, view.end):
            rule = Rule.OUTSIDE
        elif text in hidden:
            rule, because = Rule.SUPERSEDED, hidden[text]
        yield _said(stem, "meta" if stem == text else "vacuum", rule, because)
    for path in view.history.listing.fragment_meta:
        if path.endswith(".meta"):
            stem = path.rpartition("/")[2].removesuffix(".meta")
            yield _said(stem, "fragment-meta", Rule.INSIDE)


def _others(view: View) -> Iterator[Explanation]:
    """What belongs to nobody, and commits whose names cannot be read."""
    listing = view.history.listing
    for problem in view.history.problems:
        # A name that stands inside a file makes the file unreadable, and that has been said.
        if problem.kind == "name" and not problem.path.endswith(LINES):
            yield _said(problem.path, "other", Rule.UNREADABLE)
    strangers = [
        *(f"{COMMITS}/{n}" for n in listing.non_writes if not n.endswith(COMMIT_FILES)),
        *(path for path in listing.fragment_meta if not path.endswith(".meta")),
        *(f"{FRAGMENTS}/{name}" for name in view.rules.uncommitted() if _name(name) is None),
        *listing.others,
    ]
    for path in strangers:
        yield _said(path, "other", Rule.UNCOMMITTED)


def _name(text: str) -> Name | None:
    try:
        return parse_name(text)
    except BadNameError:
        return None
