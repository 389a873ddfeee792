"""The difference between two moments of an array: the rows, or what the log alone tells.

In: a log, two moments. Out: a table of rows, with the engine: `change` (`insert`, `delete`,
`update_before`, `update_after`), the commit that did it last, its time, and the row. Rows that are
the same at both moments are left out, whatever happened in between. Memory grows with the rows that
changed. Or a table of commits, schemas and metadata that an open at one of them has, and one at the
other has not.

Where a restore in between has hidden fragments, all rows of both moments are read: rows that went
with their fragments were removed by its `.vac`.

Of a dense array only the part is read that fragments of in between cover; cells that only the later
moment has are new.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.undone_restores import hiding_vacs
from chronotile.errors import BadTimeError
from chronotile.format.kinds import META
from chronotile.format.names import try_parse
from chronotile.format.timestamps import time_text
from chronotile.rows.cell_source import cell_source
from chronotile.rows.deletes_and_updates import NOBODY, CellBatch
from chronotile.rows.engine import ROW_MAJOR
from chronotile.rows.engine_cells import all_shown, read_cells, shown_type, stored_type
from chronotile.rows.places import box_of, equal_codes, is_in_box, written_box
from chronotile.rows.read_rows import told_of_damage
from chronotile.rows.scratch_arrays import bare_array
from chronotile.rows.snapshot import snapshot
from chronotile.rows.written_by import Writers
from chronotile.show.events import delete_words, update_words
from chronotile.visibility.gaps import refuse_gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from chronotile.conditions.truth import Mask
    from chronotile.format.names import Name
    from chronotile.format.schema import Schema
    from chronotile.format.timestamps import Moment
    from chronotile.log import Log
    from chronotile.rows.engine import Range
    from chronotile.rows.snapshot import Snapshot
    from chronotile.visibility.view import View

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"
DIFF_HEADS = (("change", pa.string()), ("commit", pa.string()), ("t", pa.uint64()))
"""The columns of a table of changes before the fields."""


class Pairs(NamedTuple):
    """Rows at two moments, side by side; columns as stored."""

    before: tuple[pa.Array, ...]
    was: Mask
    """Whether there was a row before."""
    after: tuple[pa.Array, ...]
    is_there: Mask
    """Whether there is one after."""
    commits: list[str | None]
    times: npt.NDArray[np.uint64]

    def take(self, rows: npt.NDArray[np.intp]) -> Pairs:
        """Return some of the rows."""
        return Pairs(
            tuple(column.take(pa.array(rows)) for column in self.before),
            self.was[rows],
            tuple(column.take(pa.array(rows)) for column in self.after),
            self.is_there[rows],
            [self.commits[row] for row in rows.tolist()],
            self.times[rows],
        )


def with_heads(heads: Sequence[tuple[str, pa.DataType]], schema: Schema) -> pa.Schema:
    """Put columns before the fields of a schema.

    A field that has the name of such a column, as `t`, or of the columns `operation` and `t_time`,
    which tables for users get, has a `_` behind its own.
    """
    names = [name for name, _ in heads]
    for field in schema.fields:
        name = field.name
        while name in (*names, "operation", "t_time") or (
            name != field.name and schema.field(name) is not None
        ):
            name += "_"
        names.append(name)
    kinds = [*(kind for _, kind in heads), *map(shown_type, schema.fields)]
    return pa.schema([*zip(names, kinds, strict=True)])


def pairs_table(where: str, schema: Schema, pairs: Pairs) -> pa.Table:
    """Make the table of changes, each row as it was before the same row as it is after.

    A row that is the same at both moments is left out.
    """
    kind = with_heads(DIFF_HEADS, schema)
    same = pairs.was & pairs.is_there & _alike(pairs.before, pairs.after)
    both = pairs.was & pairs.is_there & ~same
    tables, order = [], []
    for word, mask, columns in (
        (INSERT, pairs.is_there & ~pairs.was, pairs.after),
        (DELETE, pairs.was & ~pairs.is_there, pairs.before),
        (BEFORE, both, pairs.before),
        (AFTER, both, pairs.after),
    ):
        rows = np.flatnonzero(mask)
        if len(rows):
            cells = all_shown(schema.fields, [one.take(pa.array(rows)) for one in columns], where)
            names = pa.array([pairs.commits[row] for row in rows.tolist()], pa.string())
            heads = [pa.array([word] * len(rows)), names, pa.array(pairs.times[rows])]
            tables.append(pa.table([*heads, *cells], schema=kind))
            order.append(rows)
    if len(tables) < 2:
        return tables[0] if tables else kind.empty_table()
    pairwise = np.argsort(np.concatenate(order), kind="stable")
    return pa.concat_tables(tables).take(pa.array(pairwise))


def _alike(one: Sequence[pa.Array], other: Sequence[pa.Array]) -> Mask:
    """Mask the rows that hold the same; NULL and NaN are the same as themselves."""
    same = np.ones(len(one[0]), bool)
    for left, right in zip(one, other, strict=True):
        equal = pc.fill_null(pc.equal(left, right), False)
        if pa.types.is_floating(left.type):
            equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
        same &= np.asarray(pc.or_(equal, pc.and_(left.is_null(), right.is_null())))
    return same


def diff_rows(log: Log, first: int, last: int) -> pa.Table:
    """Compare the rows of two moments of a log.

    Raises:
        ReadError: Cells cannot be read or shown.
    """
    at = snapshot(log, last)
    tables = [pairs_table(log.array, at.schema, one) for one in _pairs(at, first)]
    empty = with_heads(DIFF_HEADS, at.schema).empty_table()
    return pa.concat_tables([empty, *tables]).sort_by([("t", "ascending"), ("commit", "ascending")])


def count_changes(log: Log, first: int, last: int) -> dict[str, int]:
    """Count the rows, or the cells of a dense array, that `diff_rows` finds: each change once."""
    counts = {INSERT: 0, DELETE: 0, AFTER: 0}
    for pairs in _pairs(snapshot(log, last), first):
        both = pairs.was & pairs.is_there
        counts[INSERT] += int((pairs.is_there & ~pairs.was).sum())
        counts[DELETE] += int((pairs.was & ~pairs.is_there).sum())
        counts[AFTER] += int((both & ~_alike(pairs.before, pairs.after)).sum())
    return counts


def _pairs(at: Snapshot, first: int) -> Iterator[Pairs]:
    if at.schema.dense:
        return dense_pairs(at, first)
    if vac := _hiding(at, first):
        return _pairs_of_all(at, first, vac)
    return (
        _pairs_of_cells(at, first) if at.schema.allows_duplicates else _pairs_of_places(at, first)
    )


def _hiding(at: Snapshot, first: int) -> Name | None:
    """Return the name of the last `.vac` by which a restore since a moment hides fragments."""
    vacs = (one.name for one in hiding_vacs(at.log.history, first + 1) if one.name.t2 <= at.end)
    return max(vacs, default=None)


def _commits(
    batch: CellBatch, at: Snapshot, writers: Writers, rows: npt.NDArray[np.intp]
) -> tuple[list[str | None], npt.NDArray[np.uint64]]:
    """Name the last commit that wrote, set or removed each row, and its time."""
    by = batch.done_by[rows]
    names = np.array([*(change.name for change in at.changes), None], object)[by]
    times = _last_times(batch, at)[rows]
    written = np.flatnonzero(by == NOBODY)
    names[written] = writers.names(times[written], batch.cells(rows[written]))
    return names.tolist(), times


def _last_times(batch: CellBatch, at: Snapshot) -> npt.NDArray[np.uint64]:
    """Return when each row was last written, set or removed."""
    moments = np.array([*(change.t for change in at.changes), 0], np.uint64)
    return np.where(batch.done_by == NOBODY, batch.times, moments[batch.done_by])


def _pairs_of_cells(at: Snapshot, first: int) -> Iterator[Pairs]:
    """Compare cell by cell: where an array allows duplicates each is a row of its own."""
    fields, writers = at.schema.fields, Writers(at)
    earlier = [change for change in at.changes if change.t <= first]
    for cells in cell_source(at).batches(fields):
        before = CellBatch(fields, cells).act_all(earlier)
        after = CellBatch(fields, cells).act_all(at.changes)
        was = before.alive & (cells.times <= np.uint64(first))
        is_new = _last_times(after, at) > np.uint64(first)
        rows = np.flatnonzero(is_new & (was | after.alive))
        if len(rows):
            names, times = _commits(after, at, writers, rows)
            alive = after.alive[rows]
            yield Pairs(before.cells(rows), was[rows], after.cells(rows), alive, names, times)


def _pairs_of_places(at: Snapshot, first: int) -> Iterator[Pairs]:
    """Compare place by place: each holds one row."""
    fields, writers = at.schema.fields, Writers(at)
    tables = []
    for cells in cell_source(at).batches(fields):
        batch = CellBatch(fields, cells).act_all(at.changes)
        rows = np.flatnonzero(_last_times(batch, at) > np.uint64(first))
        names, times = _commits(batch, at, writers, rows)
        tables.append(after_table(at.schema, batch.cells(rows), batch.alive[rows], names, times))
    after = pa.concat_tables(tables).combine_chunks() if tables else ()
    if len(after):
        yield side_by_side(snapshot(at.log, first, at.schema_file), after)


def _pairs_of_all(at: Snapshot, first: int, vac: Name) -> Iterator[Pairs]:
    """Compare all rows, as a `.vac` hides some that no newer cell tells of.

    Rows are matched by place; where an array allows duplicates, by all that they hold.
    """
    schema, earlier = at.schema, snapshot(at.log, first, at.schema_file)
    (old, alive, _, _), (new, there, names, times) = _all_cells(earlier), _all_cells(at)
    old = tuple(column.filter(pa.array(alive)) for column in old)
    rank = len(schema.fields) if schema.allows_duplicates else len(schema.dimensions)
    codes = [equal_codes(both) for both in zip(old[:rank], new[:rank], strict=True)]
    ids = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    start = len(old[0])
    # Of equal rows each has its number, those that are left first: the n-th is matched by the n-th.
    left, right = _numbered(ids[:start], np.ones(start, bool)), _numbered(ids[start:], there)
    _, one, other = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    gone = np.setdiff1d(np.arange(start), one)
    came = np.setdiff1d(np.flatnonzero(there), other) + start
    before, after = np.concatenate([one, gone, came]), np.concatenate([other + start, gone, came])
    joined = [pa.concat_arrays(both) for both in zip(old, new, strict=True)]
    is_there = np.concatenate([np.zeros(start, bool), there])[after]
    times = np.concatenate([np.zeros(start, np.uint64), times])[after]
    names = np.concatenate([np.full(start, None, object), names])[after]
    by_vac = times <= np.uint64(first)
    yield Pairs(
        tuple(column.take(pa.array(before)) for column in joined),
        np.arange(len(before)) < len(one) + len(gone),
        tuple(column.take(pa.array(after)) for column in joined),
        is_there,
        np.where(by_vac, vac.text, names).tolist(),
        np.where(by_vac, np.uint64(vac.t2), times),
    )


def _all_cells(
    at: Snapshot,
) -> tuple[tuple[pa.Array, ...], Mask, npt.NDArray[np.object_], npt.NDArray[np.uint64]]:
    """Read all cells of a moment, with those that are left, who changed each last, and when."""
    fields, writers = at.schema.fields, Writers(at)
    columns = [tuple(pa.array([], stored_type(field)) for field in fields)]
    alive, names, times = [np.zeros(0, bool)], [np.empty(0, object)], [np.zeros(0, np.uint64)]
    for cells in cell_source(at).batches(fields):
        batch = CellBatch(fields, cells).act_all(at.changes)
        who, when = _commits(batch, at, writers, np.arange(len(cells)))
        columns.append(batch.cells())
        alive.append(batch.alive)
        names.append(np.array(who, object))
        times.append(when)
    joined = tuple(pa.concat_arrays(same) for same in zip(*columns, strict=True))
    return joined, np.concatenate(alive), np.concatenate(names), np.concatenate(times)


def _numbered(ids: npt.NDArray[np.intp], is_first: Mask) -> npt.NDArray[np.int64]:
    """Make equal numbers differ: by how many equal ones come before, of the first ones first."""
    order = np.lexsort((~is_first, ids))
    ordered = ids[order]
    starts = np.searchsorted(ordered, ordered)
    numbered = np.empty(len(ids), np.int64)
    numbered[order] = ordered + ((np.arange(len(ids)) - starts) << 32)
    return numbered


def after_table(
    schema: Schema,
    columns: Sequence[pa.Array],
    there: Mask,
    commits: Sequence[str | None],
    times: npt.NDArray[np.uint64],
) -> pa.Table:
    """Make a table of rows after a change, with who changed them, when, and if they are left."""
    cells = {field.name: cells for field, cells in zip(schema.fields, columns, strict=True)}
    # No field's name ends in a space, so these names are free.
    beside = {
        "is there ": pa.array(there),
        "commit ": pa.array(commits, pa.string()),
        "t ": pa.array(times),
    }
    return pa.table(cells | beside)


def side_by_side(at: Snapshot, after: pa.Table) -> Pairs:
    """Put the rows of an earlier moment beside those that `after_table` made."""
    names = [field.name for field in at.schema.fields]
    rank = len(at.schema.dimensions)
    before = _rows_at(at, after.select(names[:rank]))
    joined = after.join(
        before, names[:rank], join_type="left outer", right_suffix=" before", use_threads=False
    )
    columns = {name: joined[name].combine_chunks() for name in joined.column_names}
    earlier = [*names[:rank], *(f"{name} before" for name in names[rank:])]
    return Pairs(
        tuple(columns[name] for name in earlier),
        np.asarray(columns["was "].is_valid()),
        tuple(columns[name] for name in names),
        np.asarray(columns["is there "]),
        columns["commit "].to_pylist(),
        np.asarray(columns["t "]),
    )


def _rows_at(at: Snapshot, places: pa.Table) -> pa.Table:
    """Read the rows of a moment at some places, with a column `was `."""
    fields, rank = at.schema.fields, places.num_columns
    stored = [(field.name, stored_type(field)) for field in fields]
    schema = pa.schema([*stored, ("was ", pa.bool_())])
    tables = [schema.empty_table()]
    for cells in cell_source(at).batches(fields, box_of(fields[:rank], places.columns)):
        batch = CellBatch(fields, cells).act_all(at.changes)
        rows = np.flatnonzero(batch.alive)
        table = pa.table([*batch.cells(rows), pa.array(np.ones(len(rows), bool))], schema=schema)
        tables.append(
            table.join(places, places.column_names, join_type="left semi", use_threads=False)
        )
    return pa.concat_tables(tables)


def dense_pairs(at: Snapshot, first: int) -> Iterator[Pairs]:
    """Compare the cells of a dense array that may differ."""
    log, dimensions = at.log, at.schema.dimensions
    earlier = {fragment.name for fragment in log.view(0, first).fragments}
    later = {fragment.name: fragment for fragment in log.view(0, at.end).fragments}
    new = [name for name in later if name not in earlier]
    gone = earlier - {*later}
    vac = _hiding(at, first)
    if not (new or (gone and vac)):
        return
    known, whole = written_box(log, 0, first), written_box(log, 0, at.end)
    names_of_all = {*earlier, *later} if known != whole else {*new, *gone}
    box = written_box(log, 0, at.end, sorted(names_of_all))
    assert box is not None
    after = _dense_cells(at, box)
    before = _dense_cells(replace(at, end=first), box) if known else after
    places = after[: len(dimensions)]
    count = len(places[0])
    none = np.zeros(count, bool)
    was, there = (is_in_box(dimensions, places, one) if one else none for one in (known, whole))
    names, times = np.full(count, None, object), np.zeros(count, np.uint64)
    if vac:
        names[:], times[:] = vac.text, vac.t2
    for name in sorted(new, key=lambda name: (later[name].t1, name)):
        own = written_box(log, 0, at.end, [name])
        mask = is_in_box(dimensions, places, own) if own else none
        names[mask], times[mask] = name, later[name].t2
    yield Pairs(before, was, after, there, names.tolist(), times)


def _dense_cells(at: Snapshot, box: Sequence[Range]) -> tuple[pa.Array, ...]:
    rows = at.log.rules.visible(0, at.end)[0].tolist()
    with bare_array(at, rows) as engine:
        batches = list(read_cells(engine, at.schema.fields, layout=ROW_MAJOR, ranges=box))
    columns = zip(*(cells.columns for cells in batches), strict=True)
    return tuple(pa.concat_arrays(same) for same in columns)


ADDED, REMOVED = "added", "removed"
LOG_DIFF_SCHEMA = pa.schema(
    [
        ("change", pa.string()),
        ("kind", pa.string()),
        ("member", pa.string()),
        ("name", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("cells", pa.int64()),
        ("bytes", pa.int64()),
        ("what", pa.string()),
    ]
)
"""`kind` is `fragment`, `delete`, `update`, `schema`, `metadata` or, of a group, `member`; `member`
is null but in a group; `what` says in words what a delete or an update did."""


def diff_of(log: Log, t1: Moment, t2: Moment, *, rows: bool) -> pa.Table:
    """Compare what opens at two moments see; see `Array.diff`.

    Returns:
        Without `rows`, a line each fragment, delete, update, schema, file of metadata and member:
        `change` (`added` or `removed`), `kind`, `member`, `name`, `t1`, `t2`, `cells`, `bytes`,
        `what`. With `rows`, a line each row that differs: `change` (`insert`, `delete`,
        `update_before`, `update_after`), `commit` (the last one that changed it), `t`, dimensions,
        attributes.

    Raises:
        BadTimeError: A moment is none, or the second is before the first.
    """
    first, last = in_order(log.array, log.moment(t1, "t1"), log.moment(t2, "t2"))
    return diff_between(log, first, last, rows=rows)


def in_order(where: str, first: int, last: int) -> tuple[int, int]:
    """Refuse two moments of which the later one comes first.

    Raises:
        BadTimeError: It does.
    """
    if last < first:
        problem = (
            f"the first moment, {time_text(first)} ({first}), is after the second, "
            f"{time_text(last)} ({last}): give the earlier one first"
        )
        raise BadTimeError(where, problem)
    return first, last


def diff_between(log: Log, first: int, last: int, *, rows: bool) -> pa.Table:
    """Compare what opens at two moments in ms see; see `diff_of`.

    Raises:
        TimeGoneError: A moment can no longer be read whole.
    """
    call = f"chronotile diff {shlex.quote(log.array)}"
    refuse_gone(log.rules, 0, first, lambda _, moment: f"{call} {moment} {max(moment, last)}")
    refuse_gone(log.rules, 0, last, lambda _, moment: f"{call} {min(moment, first)} {moment}")
    if not rows:
        return _diff_log(log, first, last)
    with told_of_damage(log):
        return diff_rows(log, first, last)


def _diff_log(log: Log, first: int, last: int) -> pa.Table:
    """Compare commits, schemas and metadata; read the footers of the fragments that differ."""
    views = log.view(0, first), log.view(0, last)
    before, after = (dict(_objects(log, view)) for view in views)
    rows = [{"change": REMOVED, **before[key]} for key in before if key not in after]
    rows += [{"change": ADDED, **after[key]} for key in after if key not in before]
    names = [row["name"] for row in rows if row["kind"] == "fragment"]
    facts = log.fragments(names=names).to_pylist() if names else []
    known = {fact["name"]: fact for fact in facts}
    for row in rows:
        fact = known.get(row["name"], {}) if row["kind"] == "fragment" else {}
        row |= {"cells": fact.get("cells"), "bytes": fact.get("bytes")}
    ordered = sorted(rows, key=lambda row: (row["t2"] or 0, row["kind"], row["name"]))
    return pa.Table.from_pylist(ordered, LOG_DIFF_SCHEMA)


def _objects(log: Log, view: View) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Give everything that an open sees, by kind and name."""

    def row(kind: str, name: str, t1: int | None, t2: int | None, what: str | None = None) -> Any:
        return (kind, name), {"kind": kind, "name": name, "t1": t1, "t2": t2, "what": what}

    for fragment in view.fragments:
        yield row("fragment", fragment.name, fragment.t1, fragment.t2)
    for delete in view.deletes:
        yield row("delete", delete.name, delete.t1, delete.t2, delete_words(delete)[0])
    for update in view.updates:
        yield row("update", update.name, update.t1, update.t2, update_words(update)[0])
    if view.schema is not None:
        parsed = try_parse(view.schema)
        yield row("schema", view.schema, parsed and parsed.t1, parsed and parsed.t2)
    for file in log.history.listing.meta:
        parsed = try_parse(file.removeprefix(f"{META}/"))
        if parsed is not None and parsed.t2 <= view.end:
            yield row("metadata", parsed.text, parsed.t1, parsed.t2)


def summarize(table: pa.Table, *, rows: bool) -> dict[str, Any]:
    """Count what a diff shows.

    Returns:
        Of rows: `insert`, `delete`, `update`, and `fields` with how many updates changed each. Else
        for `added` and `removed`: kind -> count, and the `cells` and `bytes` of fragments.
    """
    if rows:
        return _summarize_rows(table)
    found: dict[str, Any] = {}
    for row in table.select(["change", "kind", "cells", "bytes"]).to_pylist():
        counts = found.setdefault(row["change"], {})
        counts[row["kind"]] = counts.get(row["kind"], 0) + 1
        for name in ("cells", "bytes"):
            if row[name] is not None:
                counts[name] = counts.get(name, 0) + row[name]
    return found


def _summarize_rows(table: pa.Table) -> dict[str, Any]:
    kinds = table["change"].to_pylist()
    before, after = (table.filter(pc.equal(table["change"], kind)) for kind in (BEFORE, AFTER))
    fields: dict[str, int] = {}
    for name in table.column_names[table.column_names.index("t") + 1 :]:
        pairs = zip(before[name].to_pylist(), after[name].to_pylist(), strict=True)
        changed = sum(one != other and (one == one or other == other) for one, other in pairs)
        fields |= {name: changed} if changed and name != "t_time" else {}
    counts = {kind: kinds.count(kind) for kind in (INSERT, DELETE)}
    return counts | {"update": len(before), "fields": fields}


_NOUNS = {"metadata": "metadata file"}


def summary_words(found: Mapping[str, Any]) -> str:
    """Say what a diff shows, in one sentence.

    >>> summary_words({"insert": 12, "delete": 0, "update": 2, "fields": {"amount": 2}})
    '12 rows inserted, 2 rows updated (amount in 2)'
    >>> summary_words({"added": {"fragment": 1, "cells": 40, "bytes": 4571, "delete": 2}})
    'added: 1 fragment (40 cells, 4.6 kB), 2 deletes'
    >>> summary_words({"added": {"schema": 1, "metadata": 1}, "removed": {"schema": 1}})
    'replaced: 1 schema; added: 1 metadata file'
    """
    from chronotile.show.output import count_text, size_text

    parts = []
    for kind in (INSERT, DELETE, "update"):
        if found.get(kind):
            fields = [f"{name} in {count:,}" for name, count in found["fields"].items()]
            more = f" ({', '.join(fields)})" if kind == "update" and fields else ""
            past = "d" if kind.endswith("e") else "ed"
            parts.append(f"{count_text(found[kind], 'row')} {kind}{past}{more}")
    if all("schema" in found.get(change, {}) for change in (ADDED, REMOVED)):
        # Its file stays: another schema is in force.
        found = {name: {**part, "schema": 0} for name, part in found.items()}
        parts.append("replaced: 1 schema")
    for change in (ADDED, REMOVED):
        counts = {kind: count for kind, count in found.get(change, {}).items() if count}
        cells, size = counts.pop("cells", None), counts.pop("bytes", None)
        held = "" if cells is None else f" ({count_text(cells, 'cell')}, {size_text(size)})"
        words = [
            count_text(count, _NOUNS.get(kind, kind)) + (held if kind == "fragment" else "")
            for kind, count in counts.items()
        ]
        parts += [f"{change}: {', '.join(words)}"] if words else []
    return ("; " if "fields" not in found else ", ").join(parts) or "nothing changed"
