"""All checks of one array: of its log, and of what lies in the storage beside it.

In: a history and its rules, and a store for checks that look beyond the log. Out: findings, the
worst first. Reads the metadata of each committed fragment and the files of `__fragment_meta` and
`__meta`; cells only if the caller asks for it. Changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.commit_files import consolidated, damage
from chronotile.check.conditions import (
    broken_tiles,
    conditions,
    lacking_fragments,
    lacking_words,
    text_or_name,
)
from chronotile.check.debt import SUPERSEDED, array_metadata_debt, fragment_debt
from chronotile.check.deep import DeepCheck
from chronotile.check.engine_open_cost import unconsolidated
from chronotile.check.findings import (
    CODES,
    Finding,
    LookedAt,
    Severity,
    count_text,
    finding,
    worst_first,
    wrong_key,
)
from chronotile.check.fragment_health import (
    NEWER,
    Wholeness,
    inspect,
    lost_deletes,
    unreadable_holder,
)
from chronotile.check.fragments_and_commits import fragments, lone_vacuums, missing, orphan_paths
from chronotile.check.tags import unreadable_tags
from chronotile.check.undone_restores import hidden_writes
from chronotile.conditions.tree import fields
from chronotile.errors import ChronotileError, KeyNeededError, StorageError, WrongKeyError
from chronotile.format import tiles
from chronotile.format.array_metadata import decode_items
from chronotile.format.kinds import DEL, ENUMERATIONS, META, OWN
from chronotile.format.names import MAX_TIMESTAMP, is_name, is_newer
from chronotile.format.schema import decode_enumeration
from chronotile.history.read_footers import count_cells
from chronotile.history.redundant_con_files import differing_tiles
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.rules import Rules
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.history.group_reading import GroupHistory
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store


_COPY_BACK = "if a replica or a backup has {schema}, copy it back, and nothing is lost"
_HIDDEN = "to remove it (another fragment holds its cells): chronotile vacuum {array}"
"""The hint for damage that no window of today sees."""


def check(
    history: History,
    rules: Rules | None = None,
    store: Store | None = None,
    on_fragment: Callable[[], None] | None = None,
    *,
    deep: bool = False,
    looked_at: LookedAt | None = None,
) -> tuple[Finding, ...]:
    """Find what is wrong with an array, the worst first.

    Without a store nothing is read; with it fragments and metadata are checked too, and `deep`
    opens cell files. `on_fragment` is called after each fragment, and `looked_at` adds up.
    """
    rules, looked_at = rules or Rules(history), looked_at or LookedAt()
    looked_at.schemas += sum(item.schema is not None for item in history.schemas)
    findings = find_problems(history, rules, store, on_fragment, deep=deep, looked_at=looked_at)
    return tuple(sorted(findings, key=worst_first))


def find_problems(
    history: History,
    rules: Rules,
    store: Store | None,
    on_fragment: Callable[[], None] | None = None,
    *,
    deep: bool = False,
    looked_at: LookedAt | None = None,
) -> Iterator[Finding]:
    """Give the findings of `check` one by one, in no order: an array can have a million."""
    lone = orphan_paths(rules)
    orphans = None if store is None else inspect(store, history, lone)
    repairs = {} if store is None else taken_out(store, history, lone)
    yield from damage(history)
    yield from fragments(rules, orphans, repairs)
    yield from conditions(rules)
    yield from hidden_writes(rules)
    yield from differing(history)
    yield from consolidated(rules)
    yield from array_metadata_debt(history)
    if store is None:
        return
    looked_at = looked_at or LookedAt()
    for item in stored(store, rules, on_fragment, deep=deep, looked_at=looked_at):
        # If a vacuum would refuse, it would free nothing.
        if item.code != SUPERSEDED or not blocking(history, rules):
            yield item
    yield from unconsolidated(store, rules)
    yield from unreadable_tags(store, rules)


def blocking(history: History, rules: Rules) -> tuple[Finding, ...]:
    """Find what must be mended before an array is changed."""
    findings = [f for f in damage(history) if f.code != "vac-absolute" or f.severity != "info"]
    findings += [item for item in missing(rules) if item.severity == "error"]
    findings += [*broken_tiles(rules), *differing(history)]
    return tuple(sorted(findings, key=worst_first))


def differing(history: History) -> list[Finding]:
    """Find the first `.con` that holds one delete twice, with two conditions."""
    for path, uri in differing_tiles(history.table):
        message = f"expected one record of {uri}, found two that differ"
        return [finding(history.array, "tile-corrupt", path, message)]
    return []


def stored(
    store: Store,
    rules: Rules,
    on_fragment: Callable[[], None] | None = None,
    *,
    deep: bool,
    looked_at: LookedAt,
) -> Iterator[Finding]:
    """Find what is wrong with fragments and metadata.

    `deep` opens cell files too; `on_fragment` is called after each fragment.
    """
    history, table = rules.history, rules.history.table
    paths = [table.fragment_path(row) for row in rules.fragment_rows[~rules.missing].tolist()]
    health = inspect(store, history, paths, on_fragment=None if deep else on_fragment)
    newer = [path for path in paths if is_newer(path)]
    looked_at.fragments += sum(one.state is not Wholeness.UNKNOWN for one in health.values())
    hidden = rules.superseded(0, MAX_TIMESTAMP)[~rules.missing].tolist()
    for path, is_hidden in zip(paths, hidden, strict=True):
        yield from _not_whole(history, health, path, is_hidden=is_hidden)
    yield from _newer(history.array, newer)
    if deep:
        opener = DeepCheck(store, history, looked_at)
        for path, is_hidden in zip(paths, hidden, strict=True):
            if not is_newer(path):
                yield from _opened(history.array, opener, health[path], is_hidden=is_hidden)
            if on_fragment is not None:
                on_fragment()
        yield from _unopened(history.array, opener)
    yield from _lost_deletes(history, health)
    yield from _older(store, rules, health)
    yield from fragment_debt(store, rules, health)
    yield from metadata(store, history)
    yield from unexplained_vacuums(store, rules)


def _newer(array: str, paths: list[str]) -> Iterator[Finding]:
    """Name fragments of a format version that is not known."""
    if paths:
        count = count_text(len(paths), "fragment")
        message = f"{count} not checked, and left alone by every change: {NEWER}"
        yield finding(array, "version-unknown", paths[0], message)


def _not_whole(
    history: History, every: Mapping[str, Health], path: str, *, is_hidden: bool
) -> Iterator[Finding]:
    """Report the damage of a fragment; a warning if no window of today sees the fragment."""
    array, health = history.array, every[path]
    if health.state is Wholeness.FLAWED:
        message = f"{health.problem}: TileDB reads its cells all the same"
        renew = "nothing to run: to renew it, consolidate its fragments with TileDB"
        yield finding(
            array, "fragment-damaged", health.file, message, severity="warning", hint=renew
        )
    elif health.state is Wholeness.MISCOUNTED:
        yield finding(array, health.code, health.path, health.problem)
    elif health.is_broken:
        severity: Severity = "warning" if is_hidden else "error"
        message = f"{health.problem}: TileDB cannot read its cells"
        name = path.rpartition("/")[2]
        if is_hidden and (holder := unreadable_holder(history, every, name)) is not None:
            message += f", nor those of {holder}, which holds its rows too: remove neither"
        mends = _mends(history, every, path, is_hidden=is_hidden)
        yield finding(array, health.code, health.file, message, severity=severity, hint=mends)


def _mends(
    history: History, health: Mapping[str, Health], path: str, *, is_hidden: bool
) -> str | None:
    """Give the hint for a broken fragment; None for the hint of its code."""
    own, there = path.rpartition("/")[2], history.listing.fragment_paths()
    lacks = health[path].lacks
    copy_back = None if lacks is None else _COPY_BACK.format(schema=lacks)
    if is_hidden:
        is_safe = unreadable_holder(history, health, own) is None
        return _HIDDEN if is_safe else copy_back or "nothing to run: look for a backup of both"
    sources = [name for v in history.vacuums if v.name.text == own for name in v.targets]
    broken = {one.path for one in health.values() if one.is_broken}
    if sources and all(name in there and there[name] not in broken for name in sources):
        return copy_back and f"{copy_back}; if none has, {CODES['fragment-damaged'][1]}"
    if copy_back is not None:
        return f"{copy_back}; if none has, to take the fragment out: chronotile repair {{array}}"
    if health[path].closed:
        return "to take it out (TileDB opens no window that sees it): chronotile repair {array}"
    return "to take it out (until then a part can be read): chronotile repair {array} --accept-loss"


def _opened(array: str, opener: DeepCheck, health: Health, *, is_hidden: bool) -> Iterator[Finding]:
    """Report the damage inside of a fragment's files; a warning if no window of today sees it."""
    if health.is_broken:
        return
    for item in opener.check(health.path):
        severity: Severity | None = "warning" if is_hidden else None
        hint: str | None = "nothing to run: bring the file back from a copy"
        if is_hidden:
            hint = _HIDDEN
        if item.code == "fragment-file-extra":
            hint = None
        yield finding(array, item.code, item.file, item.message, severity=severity, hint=hint)


def _unopened(array: str, opener: DeepCheck) -> Iterator[Finding]:
    """Name fragments and cell files whose content stayed closed."""
    for reason, paths in opener.closed.items():
        message = f"{count_text(len(paths), 'fragment')} not opened: {reason}"
        yield finding(array, "cells-unopened", paths[0], message)
    for reason, paths in opener.unopened.items():
        files = count_text(len(paths), "file")
        message = f"{files} opened no further than the framing of tiles and chunks: {reason}"
        yield finding(array, "cells-unopened", paths[0], message)


def _lost_deletes(history: History, health: Mapping[str, Health]) -> Iterator[Finding]:
    """Find deletes that a fragment has applied and that are gone (F14)."""
    lost: dict[str, list[str]] = {}
    for uri, paths in lost_deletes(history, health).items():
        for path in paths:
            lost.setdefault(path, []).append(uri.rpartition("/")[2].removesuffix(".del"))
    for path, gone in lost.items():
        few = gone[0] if len(gone) == 1 else f"{gone[0]} and {len(gone) - 1} more"
        message = f"it has applied {few}, which is gone: the removed rows stay removed, and "
        message += "TileDB's next consolidation of fragments crashes"
        yield finding(history.array, "delete-lost", path, message)


def _older(store: Store, rules: Rules, health: Mapping[str, Health]) -> Iterator[Finding]:
    """Find deletes on a field that older fragments lack, as it was added later (F15)."""
    history = rules.history
    for commit, row in tile_commits(rules, MAX_TIMESTAMP):
        if history.table.uris.ext[row] != DEL and commit.offset:
            continue  # the engine does not see an update in a `.con`
        try:
            named = fields(commit.stored)
        except ChronotileError:
            continue
        lacking = lacking_fragments(rules, named, commit.t2, lambda _: health)
        if lacking:
            words = lacking_words(lacking, count_cells(store, history, lacking))
            message = f"{text_or_name(commit)}: {words}"
            yield finding(
                history.array, "delete-hits-older", commit.source, message, name=commit.name
            )


def unexplained_vacuums(store: Store, rules: Rules) -> Iterator[Finding]:
    """Find `.vac` files that hide fragments, and that neither a fragment nor a record explains.

    A restore writes such a file, and a record of it; a replica has the records elsewhere.
    """
    history = rules.history
    known = {
        *history.listing.fragment_paths(),
        *map(history.table.name, rules.fragment_rows.tolist()),
    }
    alone = [one for name, one in lone_vacuums(rules).items() if name not in known]
    if not alone:
        return
    folders = (OWN, f"{OWN}/operations") if history.listing.has_operations else ()
    own = [entry.path for folder in folders for entry in store.list_dir(folder).files]
    if f"{OWN}/replica.json" in own:
        return
    records = [data for _, data in store.read_many(own) if isinstance(data, bytes)]
    for one in alone:
        if not any(one.path.encode() in data for data in records):
            message = f"it hides {count_text(one.number, 'fragment')}: it has no fragment of its "
            message += "own, and no record of a restore or an undelete names it"
            yield finding(history.array, "vac-without-fragment", one.path, message)


def taken_out(store: Store, history: History, orphans: Mapping[str, bool]) -> dict[str, str]:
    """Map fragments to the repair that took their commits out and stands, by its record.

    `orphans` says of each fragment without a commit whether an `.ign` names it.
    """
    folders = (f"{OWN}/operations",) if history.listing.has_operations and orphans else ()
    known = [entry.path for folder in folders for entry in store.list_dir(folder).files]
    records = store.read_many(path for path in known if path.endswith("-repair-done.json"))
    return {
        path: record.split("-")[1]
        for record, data in records
        if isinstance(data, bytes)
        for path, is_ignored in orphans.items()
        # A commit file that was moved away has the name, too; else the .ign must be there.
        if f"{path.rpartition('/')[2]}{'' if is_ignored else '.'}".encode() in data
    }


def metadata(store: Store, history: History) -> Iterator[Finding]:
    """Find files of `__fragment_meta`, `__meta` and enumerations that cannot be opened."""
    listing = history.listing
    known = {problem.path for problem in history.problems}
    paths = [path for path in listing.fragment_meta if path.endswith(".meta")]
    paths = [path for path in paths if not is_newer(path)]
    paths += [f"{META}/{name}" for name in listing.meta if is_name(name)]
    paths += [path for path in listing.enumerations if path not in known]
    yield from damaged_tiles(store, history, history.array, paths)
    yield from lost_enumerations(history)


def lost_enumerations(history: History) -> Iterator[Finding]:
    """Find enumerations whose file is gone, each with the first schema that names it."""
    named: dict[str, tuple[str, str]] = {}
    for item in history.schemas:
        for name, file in () if item.schema is None else item.schema.enumeration_files:
            named.setdefault(f"{ENUMERATIONS}/{file}", (name, item.path))
    for path in sorted(named.keys() - {*history.listing.enumerations}):
        name, schema = named[path]
        message = f"the labels of {name!r:.80} are gone, which {schema} names: TileDB cannot read"
        yield finding(
            history.array, "enumeration-missing", path, f"{message} values of its attributes"
        )


def group_metadata(store: Store, history: GroupHistory) -> Iterator[Finding]:
    """Find files of a group's `__meta` that cannot be opened."""
    paths = [f"{META}/{name}" for name in history.meta if is_name(name)]
    # A list that the key opens shows that it is the right one; an array's schema does for an array.
    is_right = any(file.encrypted for file in history.files)
    yield from damaged_tiles(store, history, history.group, paths, is_key_right=is_right)


def damaged_tiles(
    store: Store,
    history: History | GroupHistory,
    array: str,
    paths: Iterable[str],
    *,
    is_key_right: bool = True,
) -> Iterator[Finding]:
    """Find the files among some of an array, or a group, that cannot be opened.

    One that the key does not open is damaged only if the key is known to be the right one.
    """
    for path, data in store.read_many(paths):
        if isinstance(data, MissingObjectError):
            continue
        if isinstance(data, StorageError):
            raise data
        try:
            if isinstance(data, ChronotileError):
                raise data
            payload = tiles.decode(data, path, key=history.key).payload
            if path.startswith(f"{META}/"):
                decode_items(payload, path)
            elif path.startswith(f"{ENUMERATIONS}/"):
                decode_enumeration(payload, path)
        except ChronotileError as error:
            if history.is_sealed and isinstance(error, KeyNeededError):
                continue
            if isinstance(error, WrongKeyError) and not is_key_right:
                yield wrong_key(array, path, error.problem)
            else:
                is_enumeration = path.startswith(f"{ENUMERATIONS}/")
                hint = CODES["enumeration-missing"][1] if is_enumeration else None
                yield finding(array, "tile-corrupt", path, error.problem, hint=hint)
