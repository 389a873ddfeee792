"""New commits: deletes and updates, from a predicate to a file.

In: an array, a predicate as text, values to set. Out: the plan of a `.del` or `.upd`. Refuses a
commit that would break the array, and one that does more than its author asked for, unless the
caller allows that.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from chronotile.change.plan import Plan, Stage, put
from chronotile.change.sound_array import sealing_key
from chronotile.check.conditions import lacking_fragments, lacking_words
from chronotile.check.findings import SKEW_MS, OddTimeError, RefusedError
from chronotile.check.fragment_health import inspect
from chronotile.check.tags import moment_in
from chronotile.conditions import codec
from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.side_effects import also_keeps, also_removes, engine_refuses
from chronotile.conditions.text import field_name, to_text
from chronotile.conditions.tree import Condition, fields, flatten, leaves, negate
from chronotile.conditions.truth import asks_for_null
from chronotile.conditions.update_values import parse_assignments, update_values
from chronotile.errors import NEEDS_KEY, KeyNeededError, option
from chronotile.format import tiles
from chronotile.format.kinds import COMMIT_WORDS, COMMITS, EXTENSIONS, OK, WRT
from chronotile.format.names import new_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.read_footers import count_cells
from chronotile.history.read_history import History, read_history
from chronotile.safe_text import shell_word
from chronotile.visibility.rules import TIMESTAMPED_CELLS, Rules, overlaps, schema_at, schemas_over

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chronotile.format.schema import Schema
    from chronotile.format.timestamps import Moment
    from chronotile.storage.store import Store

FIRST_WITH_DELETES = 16
"""The first format version that has deletes and updates."""


def plan_delete(
    store: Store,
    key: bytes | None,
    *,
    where: str,
    at: Moment | None = None,
    any_time: bool = False,
    allow_null_loss: bool = False,
    allow_older_loss: bool = False,
) -> Plan:
    """Plan a delete commit; see `Handle.delete`."""
    target = _Target(store, key, at, any_time=any_time)
    predicate = parse_predicate(where, target.schema)
    stored = target.checked(predicate)
    removed = also_removes(stored, target.schema)
    text = to_text(predicate, target.schema)
    if removed and not allow_null_loss:
        problem = f"TileDB would also delete the {'; the '.join(removed)}; nothing was changed"
        ways = "to keep them, choose the rows by a field without NULL; "
        ways += f"to delete them too, add {option('allow_null_loss')}"
        raise RefusedError(store.uri, f"{problem}; {ways}")
    older = target.older_rows("delete", stored, allowed=allow_older_loss)
    notes = [*older, *(f"also removes {rows}" for rows in removed)]
    notes += [f"leaves {rows}" for rows in also_keeps(stored, target.schema)]
    return target.plan("delete", codec.encode(stored), text, notes)


def plan_update(
    store: Store,
    key: bytes | None,
    *,
    where: str,
    values: Mapping[str, object] | Sequence[str],
    at: Moment | None = None,
    any_time: bool = False,
    experimental: bool = False,
    allow_older_loss: bool = False,
) -> Plan:
    """Plan an update commit; see `Handle.update`."""
    effect = "TileDB treats an update as a delete: it hides the rows and sets no value"
    if not experimental:
        hint = f"to write the update, add {option('experimental')}; "
        hint += "then, to write the rows with new values: "
        hint += f"chronotile apply {shell_word(store.uri)}"
        raise RefusedError(store.uri, f"{effect}; nothing was changed; {hint}")
    target = _Target(store, key, at, any_time=any_time)
    predicate = parse_predicate(where, target.schema)
    stored = target.checked(predicate)
    text = to_text(predicate, target.schema)
    if any(leaf.is_empty_text for leaf in leaves(predicate)):
        problem = "expected a value that is not empty, found '' for a field that may be NULL"
        raise RefusedError(text, f"{problem}: an update on disk does not tell one from the other")
    wanted = (
        update_values(values, target.schema)
        if isinstance(values, Mapping)
        else parse_assignments(values, target.schema)
    )
    payload = codec.encode_update(stored, wanted)
    apply = f"to write them with the new values: chronotile apply {shell_word(store.uri)}"
    notes = [
        f"TileDB treats an update as a delete: rows that match are hidden until apply; {apply}"
    ]
    notes += target.older_rows("hide", stored, allowed=allow_older_loss)
    notes += [f"also hits {rows}" for rows in also_removes(stored, target.schema)]
    return target.plan("update", payload, text, notes)


class _Target:
    """An array that is about to get a commit."""

    def __init__(
        self, store: Store, key: bytes | None, at: Moment | None, *, any_time: bool
    ) -> None:
        self.store = store
        self.history = read_history(store, key=key, labels=True)
        self.moment = now_ms() if at is None else moment_in(store, self.history, at)
        self.schema = _schema_at(self.history, self.moment)
        self._refuse_unfit()
        if at is not None and not any_time:
            self._refuse_odd_time()

    def _refuse_unfit(self) -> None:
        where, version = self.store.uri, self.schema.version
        if self.schema.dense:
            raise RefusedError(
                where, "the array is dense: TileDB deletes rows only in sparse arrays"
            )
        if version < FIRST_WITH_DELETES:
            found = f"found {version}; upgrade it with TileDB first"
            raise RefusedError(
                where, f"expected format version {FIRST_WITH_DELETES} or later, {found}"
            )
        table = self.history.table
        writes = (table.uris.ext == WRT) | (table.uris.ext == OK)
        writes &= overlaps(table.uris.t1, table.uris.t2, self.moment, self.moment)
        for row in writes.nonzero()[0].tolist():
            if table.version(row) < TIMESTAMPED_CELLS:
                found = f"found {table.name(row)}, whose cells have no time of their own"
                raise RefusedError(where, f"expected a moment outside of old fragments, {found}")

    def _refuse_odd_time(self) -> None:
        """Refuse a moment that is rarely meant: before all data, or in the future."""
        table, when = self.history.table, f"{time_text(self.moment)} ({self.moment})"
        writes = (table.uris.ext == WRT) | (table.uris.ext == OK)
        first = int(table.uris.t1[writes].min()) if writes.any() else 0
        if self.moment > now_ms() + SKEW_MS:
            effect = "in the future: until then it removes nothing, then also what came meanwhile"
        elif self.moment < first:
            effect = f"before all data, which begins {time_text(first)}: it removes nothing"
        else:
            return
        problem = f"{when} is {effect}"
        raise OddTimeError(self.store.uri, f"{problem}; if you mean it, add {option('any_time')}")

    def checked(self, predicate: Condition) -> Condition:
        """Give the condition to store; refuse one that the engine cannot read under some schema."""
        self._refuse_null(predicate)
        stored = flatten(negate(predicate))
        for schema in schemas_over(self.history, self.moment):
            reasons = engine_refuses(stored, schema)
            if reasons:
                problem = "expected a condition that TileDB can read"
                problem += f", found one that breaks every read: {'; '.join(reasons)}"
                raise RefusedError(to_text(predicate, self.schema), problem)
        return stored

    def _refuse_null(self, predicate: Condition) -> None:
        """Refuse to ask for NULL in a field of a fixed size (F6)."""
        for leaf in leaves(predicate):
            field = self.schema.field(leaf.field)
            if field is not None and not field.is_var and asks_for_null(leaf, field):
                name = field_name(field.name, field)
                problem = f"expected a value for {name}, found NULL: {name} has a fixed size"
                problem += ", and TileDB cannot read a delete or update that asks for NULL"
                look = ("chronotile", "rows", self.store.uri, "--where", f"{name} is null")
                problem += f"; to see these rows: {shlex.join(look)}"
                raise RefusedError(to_text(predicate, self.schema), problem)

    def older_rows(self, verb: str, stored: Condition, *, allowed: bool) -> list[str]:
        """Note that rows are older than a field of the condition (F15), if some are."""
        store, rules = self.store, Rules(self.history)
        look = partial(inspect, store, self.history)
        lacking = lacking_fragments(rules, fields(stored), self.moment, look)
        if not lacking:
            return []
        cells = count_cells(store, self.history, lacking)
        if not allowed:
            words = lacking_words(lacking, cells, f"TileDB would also {verb}")
            way = f"to {verb} them too, add {option('allow_older_loss')}"
            raise RefusedError(store.uri, f"{words}; nothing was changed; {way}")
        return [lacking_words(lacking, cells)]

    def plan(self, kind: str, payload: bytes, text: str, notes: Iterable[str]) -> Plan:
        """Plan the put of the commit."""
        store, version = self.store, self.schema.version
        data = tiles.encode(payload, version=version, key=sealing_key(store, self.history))
        name = new_name(self.moment, self.moment, version)
        extension = EXTENSIONS[COMMIT_WORDS.index(kind)]
        step = put(f"{COMMITS}/{name}{extension}", data, f"{kind} where {text}")
        stage = Stage(name="commit", seen=f"the {kind} is in force", steps=(step,))
        return Plan(
            command=kind, array=store.uri, stages=(stage,), notes=tuple(notes), added=(step.path,)
        )


def _schema_at(history: History, moment: int) -> Schema:
    item = schema_at(history, max(moment, now_ms()))
    if item is None or item.schema is None:
        problem = "expected a schema that can be read, found none"
        if any(problem.kind == "encrypted" for problem in history.problems):
            problem = NEEDS_KEY
        raise KeyNeededError(history.array, problem)
    return item.schema
