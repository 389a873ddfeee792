"""Deletes that no fragment needs any more, and how they leave the array.

In: a store, and what was read of the array. Out: the deletes that may go, each with the reason; the
files that go, and the `.con` that takes the place of those that hold a delete. Reads the metadata
of fragments, and no cell.

A delete touches cells that were written at or before its own time. It may go if that holds of every
fragment that is there, committed or not, visible or not:

  - its oldest cell is younger than the delete; or
  - it has applied the delete, and the removed cells are gone from it (a purge). If they are still
    in it, each notes which delete removed it, and the engine needs that delete's file (F14).

A delete that matches no row (see `repair`) touches no cell: only the note counts there.
The oldest cell is that of the fragment's name; in a fragment with a time for each cell, of the
metadata's least time, as such a fragment can be misnamed (F4). A young delete stays: a write that
began before it may still be under way.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.consolidate import CommitsPlan, plan_con, wanted_rows
from chronotile.change.plan import Seen, Stage, Step
from chronotile.change.sound_array import sound_history
from chronotile.change.vacuum_metadata import refuse_other_bytes
from chronotile.check.findings import count_text
from chronotile.conditions.stored_conditions import is_harmless
from chronotile.errors import BadFileError, ChangedError, ChronotileError
from chronotile.format.fragment_metadata import decode_metadata
from chronotile.format.kinds import COMMITS, DEL, FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, parse_name, try_parse
from chronotile.history.fragment_facts import named_fragments
from chronotile.history.read_footers import FooterReader, StoredFooter
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules
    from chronotile.visibility.view import Delete


class _FragmentNeeds(NamedTuple):
    """Facts of a fragment that decide whether it needs a delete."""

    path: str
    oldest: int
    """The time of its oldest cell; 0 if it is unknown."""
    purged_of: frozenset[str]
    """Deletes that it has applied, and whose cells are gone."""
    notes: frozenset[str]
    """Deletes that it has applied, and whose cells are still in it."""


class Unneeded(NamedTuple):
    """The deletes that may go."""

    reasons: dict[str, str]
    """URI -> why no fragment needs it."""
    notes: tuple[str, ...]
    """Which others stay, and why."""
    seen: frozenset[str]
    """The names of all fragments that were looked at."""

    @property
    def last(self) -> int:
        """The time of the latest of them."""
        return max((parse_name(_name(uri)).t2 for uri in self.reasons), default=0)


def unneeded_deletes(
    store: Store, rules: Rules, oldest_ms: int, *, without: Collection[str] = ()
) -> Unneeded:
    """Find the deletes that no fragment needs.

    Deletes after `oldest_ms` stay; `without` are folders of fragments that are about to go.
    """
    history = rules.history
    deletes = [
        (commit, history.table.uri(row))
        for commit, row in tile_commits(rules, MAX_TIMESTAMP)
        if history.table.uris.ext[row] == DEL
    ]
    seen = frozenset(named_fragments(history).name.to_pylist())
    if not deletes:
        return Unneeded({}, (), seen)
    fragments = tuple(_fragments(store, history, without))
    reasons, kept = {}, []
    for commit, uri in deletes:
        why = f"it is of {commit.t2}, so recent that a write may be under way"
        needed = why if commit.t2 > oldest_ms else _needed(commit, fragments)
        if needed is None:
            purged = sum(commit.name in one.purged_of for one in fragments)
            rest = count_text(len(fragments) - purged, "other")
            reasons[uri] = f"{count_text(purged, 'fragment')} purged of it, {rest} out of its reach"
        else:
            kept.append(f"{uri} stays: {needed}")
    few = tuple(kept[:5]) + ((f"{len(kept) - 5} more deletes stay",) if len(kept) > 5 else ())
    return Unneeded(reasons, few, seen)


def _needed(commit: Delete, fragments: tuple[_FragmentNeeds, ...]) -> str | None:
    """Say why a delete must stay; None if it need not."""
    for one in fragments:
        if commit.name in one.notes:
            return f"{one.path} has applied it, and keeps the removed cells, marked"
    if removes_nothing(commit):
        return None
    for one in fragments:
        if one.oldest <= commit.t2 and commit.name not in one.purged_of:
            return f"{one.path} may hold cells as old as it"
    return None


def removes_nothing(commit: Delete) -> bool:
    """Tell whether a delete or update is one that stands in for another and matches no row."""
    try:
        return commit.schema is not None and is_harmless(commit.stored, commit.schema)
    except ChronotileError:
        return False


def _fragments(
    store: Store, history: History, without: Collection[str]
) -> Iterator[_FragmentNeeds]:
    reader, paths = FooterReader(store, history), history.listing.fragment_paths()
    names = named_fragments(history).name.to_pylist()
    there = [name for name in names if name in paths and paths[name] not in without]
    for name, stored in reader.read(there, own=True, applied=True):
        known = stored if isinstance(stored, StoredFooter) else None
        if known is None or known.applied is None:
            yield _FragmentNeeds(paths[name], 0, frozenset(), frozenset())
            continue
        applied, noted = frozenset(known.applied), known.footer.has_delete_metadata
        oldest = parse_name(name).t1
        if known.footer.has_timestamps:
            oldest = _least_time(store, known, history.key)
        purged, notes = (frozenset(), applied) if noted else (applied, frozenset())
        yield _FragmentNeeds(known.path, oldest, purged, notes)


def _least_time(store: Store, stored: StoredFooter, key: bytes | None) -> int:
    """Give the time of the oldest cell by the metadata; 0 if it has none."""
    try:
        data = store.read(stored.where)
        metadata = decode_metadata(data, stored.schema, stored.where, key=key)
    except BadFileError:
        return 0
    for one in metadata.fields:
        if one.name == "__timestamps" and one.statistics is not None:
            return int.from_bytes(one.statistics.least, "little")
    return 0


def plan_deletes(store: Store, history: History, unneeded: Unneeded) -> tuple[Stage, ...]:
    """Plan the removal of deletes; change nothing.

    A `.con` with all other commits takes the place of those that hold such a delete.
    """
    table, gone = history.table, unneeded.reasons
    rows = table.find(list(gone)).tolist() if gone else []
    loose = {table.uri(row) for row in rows if table.is_loose(row)}
    old = dict.fromkeys(table.path(row) for row in rows if not table.is_loose(row))
    sizes = {entry.path: entry.size for entry in store.list_dir(COMMITS, sizes=True).files}
    new = CommitsPlan()
    if old:
        wanted = wanted_rows(table, updates=False)
        kept = wanted[[table.uri(row) not in gone for row in wanted.tolist()]]
        if len(kept):
            reason = f"all commits but {count_text(len(gone), 'delete')} that no fragment needs"
            new = plan_con(history, kept, reason)
    read = {s.path: bytes(s.data) for s in history.table.sources if s.path in old}
    looks = (partial(_refuse_newcomers, unneeded), partial(refuse_other_bytes, read))
    cons = tuple(_removal(path, sizes, "the new .con holds the rest of it") for path in old)
    deletes = tuple(_removal(uri, sizes, gone[uri]) for uri in gone if uri in loose)
    return (
        *new.stages(history),
        Stage(name="old .con", looks=looks, steps=cons),
        Stage(name="deletes", steps=deletes),
    )


def take_deletes_out(
    key: bytes | None, oldest_ms: int, planned: frozenset[str], store: Store
) -> Seen:
    """Look again which deletes no fragment needs, as the fragments are gone that were to go.

    Give the stages that take them out, in place of the planned steps.
    """
    history, rules = sound_history(store, key)
    unneeded = unneeded_deletes(store, rules, oldest_ms)
    return Seen(leave=planned, stages=plan_deletes(store, history, unneeded))


def _refuse_newcomers(unneeded: Unneeded, store: Store) -> None:
    """Look whether a fragment has come that is as old as a delete that is to go.

    Raises:
        ChangedError: One has.
    """
    for folder in ("", FRAGMENTS):
        for text in store.list_names(folder).folders:
            name = try_parse(text)
            if name is not None and text not in unneeded.seen and name.t1 <= unneeded.last:
                problem = f"expected no new fragment as old as a delete, found {text}"
                raise ChangedError(store.uri, f"{problem}; try again")


def _removal(path: str, sizes: dict[str, int | None], reason: str) -> Step:
    return Step(op="remove", path=path, size=sizes.get(path), reason=reason)


def _name(uri: str) -> str:
    return uri.rpartition("/")[2].removesuffix(".del")
