"""Explanations: why each object of an array is, or is not, visible at one window.

In: a view. Out: an `Explanation` of every object: the rule that decided on it, and the file behind
that. Only repeats what `rules` decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.format.kinds import COMMIT_FILES, COMMIT_WORDS, COMMITS, FILE_WORDS, LINES, META
from chronotile.format.names import is_name, try_parse
from chronotile.visibility.rules import (
    Rule,
    hidden_metadata,
    is_inside,
    is_later,
    is_seen,
    schema_at,
)
from chronotile.visibility.view import LazySequence, tile_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.history.read_history import SchemaFile
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
    """The file that decides, unless that is the object itself."""
    path: str
    """The file that holds the object, or its folder, relative to the array."""
    t1: int | None
    """None if the name has no time."""
    t2: int | None
    row: int | None
    """The row of a commit in the commit table; None for other objects."""

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON form, as `explain --json` prints it."""
        return dict(zip(self._fields[:5], self, strict=False))


class Explanations(LazySequence[Explanation]):
    """Every object of an array: the committed fragments in their rules' order, then all others.

    There may be very many committed fragments: each is explained when a caller looks at it.
    """

    __slots__ = ("others",)

    def __init__(
        self, count: int, committed: Callable[[int], Explanation], others: tuple[Explanation, ...]
    ) -> None:
        def explained(at: int) -> Explanation:
            return committed(at) if at < count else others[at - count]

        super().__init__(np.arange(count + len(others)), explained)
        self.others = others


def explain(view: View) -> Explanations:
    """Explain every object of the array, ordered by kind and then by time."""
    others = (
        *_other_fragments(view),
        *_conditions(view),
        *_commit_files(view),
        *_schemas(view),
        *_metadata(view),
        *_others(view),
    )
    return Explanations(len(view.rules.fragment_rows), _committed(view), others)


def _of_row(view: View, row: int, kind: str, rule: Rule, because: str | None) -> Explanation:
    table = view.history.table
    t1, t2 = int(table.uris.t1[row]), int(table.uris.t2[row])
    words = (rule.status, rule.value, because)
    return Explanation(table.name(row), kind, *words, table.path(row), t1, t2, row)


def _of_file(
    text: str, kind: str, rule: Rule, path: str, because: str | None = None
) -> Explanation:
    name = try_parse(text)
    t1, t2 = (None, None) if name is None else name[:2]
    return Explanation(text, kind, rule.status, rule.value, because, path, t1, t2, None)


def _hidden_by(view: View) -> dict[int, str]:
    """Map the place of a committed fragment to the first `.vac` of the window that lists it."""
    hidden_by: dict[int, str] = {}
    for vacuum, listed in zip(view.history.vacuums, view.rules.vacuumed, strict=True):
        if is_seen(vacuum.name, view.start, view.end, dense=view.history.dense):
            for at in listed.tolist():
                hidden_by.setdefault(at, vacuum.path)
    return hidden_by


def _committed(view: View) -> Callable[[int], Explanation]:
    rules, table = view.rules, view.history.table
    decided = rules.decide(view.start, view.end)
    hidden_by = _hidden_by(view)

    def explained(at: int) -> Explanation:
        rule, row = decided[at], int(rules.fragment_rows[at])
        source = None if table.is_loose(row) else table.path(row)
        because = hidden_by[at] if rule is Rule.SUPERSEDED else source
        return _of_row(view, row, "fragment", rule, because)

    return explained


def _other_fragments(view: View) -> Iterator[Explanation]:
    rules, table = view.rules, view.history.table
    for row in rules.ignored().tolist():
        yield _of_row(view, row, "fragment", Rule.IGNORED, table.ignores[table.uri(row)])
    for name, path in rules.uncommitted.items():
        if is_name(name):
            yield _of_file(name, "fragment", Rule.UNCOMMITTED, path)
    for row in rules.ok_without_folder.tolist():
        yield _of_row(view, row, "fragment", Rule.MISSING, table.path(row))


def _conditions(view: View) -> Iterator[Explanation]:
    table = view.history.table
    for commit, row in tile_commits(view.rules, view.end):
        because = None if table.is_loose(row) else table.path(row)
        rule = Rule.OUTSIDE
        if is_inside(commit.t1, commit.t2, view.start, view.end):
            rule = Rule.UNREADABLE if commit.is_damaged else Rule.INSIDE
        yield _of_row(view, row, COMMIT_WORDS[table.uris.ext[row]], rule, because)


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
        name = try_parse(stem)
        rule = Rule.INSIDE
        if name is None or path in damaged:
            rule = Rule.UNREADABLE
        elif kind == "vacuum" and not is_seen(name, view.start, view.end, dense=view.history.dense):
            rule = Rule.OUTSIDE
        yield _of_file(stem or text, kind, rule, path)


def _schemas(view: View) -> Iterator[Explanation]:
    in_force = schema_at(view.history, view.end)
    for item in view.history.schemas:
        rule, because = Rule.SUPERSEDED, in_force.path if in_force else None
        if item is in_force:
            rule = Rule.INSIDE if item.schema is not None else Rule.UNREADABLE
            because = None
        elif is_later(item, view.end):
            rule, because = Rule.OUTSIDE, None
        yield _of_file(item.text, "schema", rule, item.path, because)
    if in_force is not None:
        yield from _enumerations(view, in_force)


def _enumerations(view: View, in_force: SchemaFile) -> Iterator[Explanation]:
    """Explain the enumerations: those of the schema in force, and those of other schemas."""
    schema = in_force.schema
    named = {text for _, text in schema.enumeration_files} if schema is not None else set()
    for path in view.history.listing.enumerations:
        text = path.rpartition("/")[2]
        if schema is None:
            yield _of_file(text, "schema", Rule.UNREADABLE, path)
        elif text in named:
            yield _of_file(text, "schema", Rule.INSIDE, path)
        else:
            yield _of_file(text, "schema", Rule.SUPERSEDED, path, in_force.path)


def _metadata(view: View) -> Iterator[Explanation]:
    hidden = hidden_metadata(view.history, view.start, view.end)
    for text in view.history.listing.meta:
        stem = text.removesuffix(".vac")
        name = try_parse(stem)
        rule, because = Rule.INSIDE, None
        if name is None:
            rule = Rule.UNREADABLE
        elif not is_inside(name.t1, name.t2, view.start, view.end):
            rule = Rule.OUTSIDE
        elif text in hidden:
            rule, because = Rule.SUPERSEDED, hidden[text]
        kind = "meta" if stem == text else "vacuum"
        yield _of_file(stem, kind, rule, f"{META}/{text}", because)
    for path in view.history.listing.fragment_meta:
        if path.endswith(".meta"):
            stem = path.rpartition("/")[2].removesuffix(".meta")
            yield _of_file(stem, "fragment-meta", Rule.INSIDE, path)


def _others(view: View) -> Iterator[Explanation]:
    """Explain strangers, and commits whose names cannot be read."""
    listing = view.history.listing
    for problem in view.history.problems:
        # A bad name inside a file makes the file unreadable: `_commit_files` explains that.
        if problem.kind == "name" and not problem.path.endswith(LINES):
            yield _of_file(problem.path, "other", Rule.UNREADABLE, problem.path)
    strangers = [
        *(f"{COMMITS}/{n}" for n in listing.non_writes if not n.endswith(COMMIT_FILES)),
        *(path for path in listing.fragment_meta if not path.endswith(".meta")),
        *(path for name, path in view.rules.uncommitted.items() if not is_name(name)),
        *listing.others,
    ]
    for path in strangers:
        yield _of_file(path, "other", Rule.UNCOMMITTED, path)
