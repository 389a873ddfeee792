"""New commits: deletes and updates, from a predicate to a file.

In: an array, a predicate as text, values to set. Out: a `.del` or `.upd` in the array, and a
report. Refuses what would break the array, and what its author cannot have meant unless told so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from chronotile.change.change_report import Report, Step
from chronotile.check.findings import RefusedError
from chronotile.check.fragment_health import inspect, lacking_fragments, lacking_words
from chronotile.conditions import codec
from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.side_effects import also_keeps, also_removes, engine_refuses
from chronotile.conditions.text import to_text
from chronotile.conditions.tree import Condition, UpdateValue, fields, flatten, negate
from chronotile.conditions.update_values import parse_assignments, update_values
from chronotile.errors import ChangedError, KeyNeededError, StorageError
from chronotile.format import tiles
from chronotile.format.kinds import COMMITS, OK, WRT
from chronotile.format.names import MAX_TIMESTAMP, new_name
from chronotile.format.timestamps import now_ms
from chronotile.history.reading import History, read_history
from chronotile.storage.store import MissingObjectError, Store, open_store
from chronotile.visibility.rules import TIMESTAMPED_CELLS, Rules, overlaps, schema_at, schemas_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.format.schema import Schema

FIRST_WITH_DELETES = 16
"""The first format version that has deletes and updates."""


def put_compared(store: Store, path: str, data: bytes) -> None:
    """Writes a new object, reads it back and compares.

    Raises:
        ObjectExistsError: The name is taken; what is there stays.
        ChangedError: It is gone already: somebody else is at work.
        StorageError: What was read back is not what was written.

    >>> store = open_store("memory:doc-put-compared")
    >>> put_compared(store, "__commits/a.ign", b"x")
    >>> store.read("__commits/a.ign")
    b'x'
    """
    store.put_if_absent(path, data)
    try:
        found = store.read(path, limit=max(len(data), 1) * 2)
    except MissingObjectError as cause:
        problem = "expected what was just written, found it gone: the array is being maintained"
        raise ChangedError(store.uri_of(path), problem) from cause
    if found != data:
        problem = f"expected the {len(data)} bytes just written, found {len(found)} others"
        raise StorageError(store.uri_of(path), problem)


def write_delete(
    array: str,
    where: str,
    *,
    timestamp: int | None = None,
    allow_null_loss: bool = False,
    allow_older_loss: bool = False,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Report:
    """Deletes the rows that satisfy a predicate, as of a moment.

    Args:
        array: A path or a URI.
        where: The predicate, such as `a < 3 and s == 'x'`.
        timestamp: The moment in ms since the epoch; now, if it is left out.
        allow_null_loss: Go on although the engine would also remove rows with NULL or NaN.
        allow_older_loss: Go on although the engine would also remove all rows that were written
            before a field of the predicate was added.
        dry_run: Write nothing.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.

    Raises:
        PredicateError: The predicate cannot be read, or does not fit the schema.
        RefusedError: The array is dense or too old, the delete would break it, or it would
            remove rows that nobody asked for and nobody allowed it.

    >>> write_delete("memory:doc-nowhere", "a < 3")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    target = _Target(opened, key, timestamp)
    predicate = parse_predicate(where, target.schema)
    stored = target.checked(predicate)
    removed = also_removes(stored, target.schema)
    text = to_text(predicate, target.schema)
    if removed and not allow_null_loss:
        problem = (
            f"expected to remove only what was asked for; it also removes {'; '.join(removed)}"
        )
        raise RefusedError(text, f"{problem} (--allow-null-loss permits it)")
    older = target.older_rows(stored, allowed=allow_older_loss)
    notes = [*older, *(f"also removes {rows}" for rows in removed)]
    notes += [f"leaves {rows}" for rows in also_keeps(stored, target.schema)]
    payload = codec.encode(stored)
    return target.write("delete", ".del", payload, text, tuple(notes), dry_run=dry_run)


def write_update(
    array: str,
    where: str,
    values: Mapping[str, object] | Sequence[str],
    *,
    timestamp: int | None = None,
    experimental: bool = False,
    allow_older_loss: bool = False,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Report:
    """Writes an update: new values for the rows that satisfy a predicate.

    Today's engine takes an update for a delete: the rows disappear, and the values are dropped.

    Args:
        array: A path or a URI.
        where: The predicate.
        values: A value for each field, or texts such as `a=3`.
        timestamp: The moment in ms since the epoch; now, if it is left out.
        experimental: Say that you know what an engine makes of it.
        allow_older_loss: As for a delete.
        dry_run: Write nothing.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.

    Raises:
        PredicateError: The predicate or a value cannot be read, or does not fit the schema.
        RefusedError: `experimental` is not set, or as for a delete.

    >>> write_update("memory:doc-nowhere", "a < 3", {"a": 4}, experimental=True)
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    meaning = "the engine takes an update for a delete: the rows disappear, no value is set"
    if not experimental:
        raise RefusedError(opened.uri, f"{meaning} (--experimental permits it)")
    target = _Target(opened, key, timestamp)
    predicate = parse_predicate(where, target.schema)
    stored = target.checked(predicate)
    wanted: tuple[UpdateValue, ...] = (
        update_values(values, target.schema)
        if isinstance(values, Mapping)
        else parse_assignments(values, target.schema)
    )
    older = target.older_rows(stored, allowed=allow_older_loss)
    hit = (f"also hits {rows}" for rows in also_removes(stored, target.schema))
    notes = (meaning, *older, *hit)
    payload = codec.encode_update(stored, wanted)
    text = to_text(predicate, target.schema)
    return target.write("update", ".upd", payload, text, notes, dry_run=dry_run)


class _Target:
    """An array that is about to get a commit."""

    def __init__(self, store: Store, key: bytes | str | None, timestamp: int | None) -> None:
        self.store = store
        self.key = key.encode() if isinstance(key, str) else key
        self.history = read_history(store.uri, key=self.key, store=store, labels=True)
        self.moment = now_ms() if timestamp is None else timestamp
        if not 0 <= self.moment <= MAX_TIMESTAMP:
            raise RefusedError(store.uri, f"expected ms of 64 bits, found {self.moment}")
        self.schema = _schema_at(self.history, self.moment)
        self._refuse_unfit()

    def _refuse_unfit(self) -> None:
        where, version = self.store.uri, self.schema.version
        if self.schema.dense:
            raise RefusedError(where, "expected a sparse array, found a dense one: no deletes")
        if version < FIRST_WITH_DELETES:
            found = f"found {version}; upgrade it with the engine first"
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

    def checked(self, predicate: Condition) -> Condition:
        """The condition to store, if the engine can read it under every schema that covers it."""
        stored = flatten(negate(predicate))
        for schema in schemas_over(self.history, self.moment):
            reasons = engine_refuses(stored, schema)
            if reasons:
                problem = "expected a condition that the engine can read"
                problem += f", found one that breaks every read: {'; '.join(reasons)}"
                raise RefusedError(to_text(predicate, self.schema), problem)
        return stored

    def older_rows(self, stored: Condition, *, allowed: bool) -> list[str]:
        """What is to be said of rows from before a field of the condition was added (F15)."""
        found = lacking_fragments(
            self.history,
            Rules(self.history),
            fields(stored),
            self.moment,
            lambda paths: inspect(self.store, self.history, paths),
        )
        if not found:
            return []
        words = lacking_words(found)
        if not allowed:
            problem = f"expected to remove only what was asked for; {words}"
            raise RefusedError(self.store.uri, f"{problem} (--allow-older-loss permits it)")
        return [words]

    def write(
        self,
        command: str,
        extension: str,
        payload: bytes,
        text: str,
        notes: tuple[str, ...],
        *,
        dry_run: bool,
    ) -> Report:
        """Put the commit, or say that it would be put."""
        version = self.schema.version
        data = tiles.encode(payload, version=version, key=self.key if self._encrypted() else None)
        name = new_name(self.moment, self.moment, version)
        path = f"{COMMITS}/{name}{extension}"
        if not dry_run:
            put_compared(self.store, path, data)
        step = Step(op="put", path=path, size=len(data), reason=f"{command} where {text}")
        return Report(
            command=command,
            array=self.store.uri,
            dry_run=dry_run,
            steps=(step,),
            notes=notes,
            at_ms=now_ms(),
        )

    def _encrypted(self) -> bool:
        latest = schema_at(self.history, MAX_TIMESTAMP)
        assert latest is not None  # a listing without a schema is no array
        data = self.store.read(latest.path)
        return tiles.decode(data, latest.path, key=self.key).encrypted


def _schema_at(history: History, moment: int) -> Schema:
    item = schema_at(history, max(moment, now_ms()))
    if item is None or item.schema is None:
        problem = "expected a schema that can be read, found none"
        sealed = any(problem.kind == "encrypted" for problem in history.problems)
        raise KeyNeededError(history.array, f"{problem}{': give its key' if sealed else ''}")
    return item.schema
