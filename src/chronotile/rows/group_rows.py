"""Rows of the arrays of a group, each with its member.

In: a dataset, and a question for every array. Out: one table of all: the column `member`, then the
columns of an array by itself; NULL where a member lacks a field. Decides nothing about rows.

A member that lacks a field of the question is left out and named in a note; so is one that is not
there. Labels of enumerations are plain text here, as each array has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from chronotile.check.findings import RefusedError
from chronotile.dataset.member_tree import LOST
from chronotile.dataset.open_dataset import refuse_groups
from chronotile.errors import ChronotileError, PredicateError, ReadError
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows.blame import BLAME_HEADS, blame_of
from chronotile.rows.commit_changes import removed_of
from chronotile.rows.diff import (
    ADDED,
    DELETE,
    DIFF_HEADS,
    LOG_DIFF_SCHEMA,
    REMOVED,
    diff_between,
    in_order,
    with_heads,
)
from chronotile.rows.engine import require_engine
from chronotile.rows.read_rows import rows_of, with_notes
from chronotile.safe_text import shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.format.timestamps import Moment
    from chronotile.rows.commit_changes import RemovedRows
    from chronotile.rows.read_rows import RowReader

    T = TypeVar("T")

MEMBER = "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """Rows of several arrays, to be read batch by batch."""

    schema: pa.Schema
    readers: tuple[tuple[str, RowReader], ...]
    """Path of a member -> its rows."""
    notes: tuple[str, ...]
    start: int
    end: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows, member by member."""
        for path, reader in self.readers:
            for batch in reader.batches():
                yield _with_member(self.schema, path, batch)

    def table(self) -> pa.Table:
        """Read all rows at once."""
        return with_notes(pa.Table.from_batches(self.batches(), schema=self.schema), self.notes)


def group_rows(
    dataset: Dataset,
    start: Moment = 0,
    end: Moment | None = None,
    *,
    where: str | None = None,
    fields: Sequence[str] | None = None,
    pattern: str | None = None,
) -> GroupRows:
    """Make a reader of the rows of the arrays that are members at the end of a window.

    Raises:
        ChronotileError: No member fits, or fields of one name have different types.
    """
    first = dataset.moment(start, "start")
    last = dataset.moment("now" if end is None else end, "end")
    nodes, notes = _arrays(dataset, last, pattern)
    readers, left_out = _ask_each(
        dataset, nodes, lambda log: rows_of(log, first, last, where=where, fields=fields)
    )
    notes += [f"{path}: {note}" for path, reader in readers for note in reader.notes]
    return GroupRows(
        schema=_joined(dataset.uri, [(path, reader.schema) for path, reader in readers]),
        readers=tuple(readers),
        notes=(*notes, *left_out),
        start=first,
        end=last,
    )


def blame_group(
    dataset: Dataset, row: Mapping[str, object] | Sequence[str], pattern: str | None = None
) -> tuple[pa.Table, tuple[str, ...]]:
    """List every commit that had to do with such rows, in each array that has the fields.

    Returns:
        The table, and notes on members that are left out.
    """
    nodes, notes = _arrays(dataset, None, pattern)
    tables, left_out = _ask_each(dataset, nodes, lambda log: blame_of(log, row))
    return _one_table(dataset.uri, BLAME_HEADS, tables), (*notes, *left_out)


def diff_of_group(
    dataset: Dataset, t1: Moment, t2: Moment, *, rows: bool, pattern: str | None = None
) -> tuple[pa.Table, tuple[str, ...]]:
    """Compare two moments of a group, and give notes too; rows can be those of some members.

    Raises:
        BadTimeError: A moment is none, or the second is before the first.
        ChronotileError: An array cannot be read.
    """
    first, last = in_order(dataset.uri, dataset.moment(t1), dataset.moment(t2))
    if rows:
        return _diff_rows(dataset, first, last, pattern)
    then, now = (
        {(node.path, node.uri): node for node in dataset.tree(moment)} for moment in (first, last)
    )
    changed = [(REMOVED, path) for path, _ in sorted(then.keys() - now.keys())]
    changed += [(ADDED, path) for path, _ in sorted(now.keys() - then.keys())]
    members = [
        {"change": change, "kind": MEMBER, "member": path, "name": path} for change, path in changed
    ]
    tables = [pa.Table.from_pylist(members, LOG_DIFF_SCHEMA)]
    for path, uri in sorted({*then, *now}):
        node = now.get((path, uri)) or then[path, uri]
        if node.found != "array":
            continue
        log = dataset.log_of(node)
        if (path, uri) in now:  # all of an array that came in between is new
            table = diff_between(log, first if (path, uri) in then else 0, last, rows=False)
        else:
            table = diff_between(log, 0, first, rows=False)
            gone = pa.array([REMOVED] * len(table), pa.string())
            table = table.set_column(table.column_names.index("change"), "change", gone)
        member = pa.array([path] * len(table), pa.string())
        tables.append(table.set_column(table.column_names.index(MEMBER), MEMBER, member))
    return pa.concat_tables(tables), ()


def _diff_rows(
    dataset: Dataset, first: int, last: int, pattern: str | None
) -> tuple[pa.Table, tuple[str, ...]]:
    """Compare the rows of two moments of a dataset.

    All rows of an array that came in between are new. Those of one that went are deleted, though no
    commit did it.
    """
    require_engine()
    dataset.fitting(pattern, first, last)  # a member may be there at one of them only
    fitting = ([node for node in dataset.tree(t) if node.fits(pattern)] for t in (first, last))
    (before, gone), (after, lost) = map(_arrays_of, fitting)
    then, now = ({(node.path, node.uri): node for node in nodes} for nodes in (before, after))
    tables = []
    for key in sorted({*then, *now}):
        log = _log(dataset, now.get(key) or then[key])
        if key in now:
            table = diff_between(log, first if key in then else 0, last, rows=True)
        else:
            table = _all_deleted(rows_of(log, 0, first))
        tables.append((key[0], table))
    return _one_table(dataset.uri, DIFF_HEADS, tables), tuple(dict.fromkeys((*gone, *lost)))


def removed_in_group(
    dataset: Dataset, name: str, pattern: str | None = None, values: Sequence[str] = ()
) -> RemovedRows:
    """Find the rows that one delete or update of a member took.

    Raises:
        ChronotileError: No member holds it, or several do.
    """
    holders = {}
    problem = ChronotileError(dataset.uri, f"expected a member that holds {name[:80]!r}")
    for node in _arrays(dataset, None, pattern)[0]:
        log = _log(dataset, node)
        try:
            holders[node.path] = removed_of(log, name, values)
        except ChronotileError as error:
            problem = error
    if len(holders) > 1:
        paths = ", ".join(holders)
        raise ChronotileError(dataset.uri, f"expected one member that holds it, found {paths}")
    for removed in holders.values():
        return removed
    raise problem


def _arrays(
    dataset: Dataset, moment: int | None, pattern: str | None
) -> tuple[list[Node], list[str]]:
    """Find the arrays whose paths fit a pattern; note members that are not there."""
    require_engine()
    arrays, notes = _arrays_of(dataset.fitting(pattern, moment))
    if (words := dataset.absence(moment)) is not None:
        notes.append(words)
    elif not arrays and (pattern is not None or notes):
        if pattern is not None:
            refuse_groups(dataset.uri, pattern)
        raise ChronotileError(dataset.uri, "expected members that are arrays, found none")
    return arrays, notes


def _arrays_of(nodes: Sequence[Node]) -> tuple[list[Node], list[str]]:
    """Take the arrays among some members; note those that are not there."""
    lost = [node for node in nodes if node.found in LOST]
    unreadable = [node for node in lost if node.found == "unreadable"]
    if unreadable:
        look = f"to look into it: chronotile check {shell_word(unreadable[0].uri)}"
        raise ReadError(unreadable[0].uri, f"{unreadable[0].problem}; {look}")
    notes = [f"the member {n.path} is left out: {n.problem or n.found}" for n in lost]
    return [node for node in nodes if node.found == "array"], notes


def _log(dataset: Dataset, node: Node) -> Log:
    assert node.store is not None  # an array was found there
    return Log(read_history(node.store, key=dataset.key, labels=True), node.store)


def _ask_each(
    dataset: Dataset, nodes: Iterable[Node], ask: Callable[[Log], T]
) -> tuple[list[tuple[str, T]], list[str]]:
    """Ask each array that can answer; note those that lack a field, or are of the wrong kind."""
    answers, notes = [], []
    error: PredicateError | RefusedError | None = None
    for node in nodes:
        try:
            answers.append((node.path, ask(_log(dataset, node))))
        except (PredicateError, RefusedError) as problem:
            error = error or problem
            words = str(problem).split("\n")[0]  # without the predicate and its caret
            notes.append(f"the member {node.path} is left out: {words}")
    if error is not None and not answers:
        raise error
    return answers, notes


def _all_deleted(reader: RowReader) -> pa.Table:
    rows, schema = reader.table(), with_heads(DIFF_HEADS, reader.at.schema)
    change, commit, t = (kind for _, kind in DIFF_HEADS)
    heads = [pa.array([DELETE] * len(rows), change)]
    heads += [pa.nulls(len(rows), commit), pa.nulls(len(rows), t)]
    return pa.table([*heads, *rows.columns], schema=schema)


def _one_table(
    where: str,
    heads: Sequence[tuple[str, pa.DataType]],
    tables: Sequence[tuple[str, pa.Table]],
) -> pa.Table:
    """Join the tables of members; the columns before the fields are there without a member too."""
    schemas = [("the group", pa.schema(heads)), *((path, table.schema) for path, table in tables)]
    schema = _joined(where, schemas)
    parts = [_with_member(schema, path, b) for path, table in tables for b in table.to_batches()]
    return pa.Table.from_batches(parts, schema=schema)


def _joined(where: str, schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Join the columns of all members, each once; the member comes first.

    Raises:
        ChronotileError: Two members have other types under one name.
    """
    known: dict[str, tuple[str, pa.DataType]] = {MEMBER: ("the group", pa.string())}
    for path, schema in schemas:
        for field in schema:
            kind = _plain(field.type)
            first, wanted = known.setdefault(field.name, (path, kind))
            if kind != wanted or field.name == MEMBER:
                problem = (
                    f"expected fields of one name with one type, found {field.name} as {wanted} in "
                    f"{first} and as {kind} in {path}; name members that are alike"
                )
                raise ChronotileError(where, problem)
    return pa.schema([(name, kind) for name, (_, kind) in known.items()])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _with_member(schema: pa.Schema, path: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.repeat(pa.scalar(path), len(batch))]
    for field in list(schema)[1:]:
        if field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(len(batch), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
