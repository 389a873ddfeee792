"""Repair: the engine opens the array again.

In: an array. Out: the plan of the array without the files that the engine cannot read, which go
into the quarantine. Whatever cannot be mended for certain is reported, and stays.

The order: new files; then each old file is copied, compared, and removed or exchanged for a new one
of the same name, one by one. A repair that is broken off at any point loses nothing: new files only
repeat old ones.

Commit files (`Mender`). The new files leave out what the engine cannot read; the old files, in the
quarantine, keep it. A commit that another file holds undamaged is taken from there.

Fragments (`FragmentMender`). The plan that loses least comes first:

  1. The name in the commit is damaged, and the fragment that it means is whole and has no commit:
     that fragment is committed.
  2. The sources of the fragment (it was merged from them) are all there: its commit goes out, and
     so does its `.vac`, which hides the sources; a source without a commit gets one. All rows come
     back.
  3. Only some of its sources are there, or none: those come back, and the rest stays away.

A fragment that has its footer can still be read in part. It goes out only if all of its sources
come back, or if the caller accepts the loss. If the caller asks, whole fragments that no commit
names are committed: the file that named them may have been lost. A fragment stays as it is if
anything says that it is not wanted.

Deletes that cannot leave (`harmless_tiles`). A fragment that has applied a delete notes, cell by
cell, which delete removed it, by the path of the delete's file. Without that file the engine
crashes when it next consolidates the fragment (F14). A delete that matches no row, under the very
same name, keeps everything working. Rows that a fragment has removed stay away; in other fragments
they come back.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from chronotile.change.consolidate import wanted_order
from chronotile.change.operations import unfinished_copies
from chronotile.change.plan import Plan, Seen, Stage, Step, put
from chronotile.change.sound_array import array_version, sealing_key
from chronotile.check.check_array import blocking, check, metadata
from chronotile.check.commit_files import damage
from chronotile.check.conditions import refusal, text_or_name
from chronotile.check.findings import count_text, finding
from chronotile.check.fragment_health import (
    health_by_name,
    inspect,
    lost_deletes,
    unreadable_holder,
)
from chronotile.check.fragments_and_commits import cut_con
from chronotile.check.undone_restores import undone_finding, undone_restores
from chronotile.conditions import codec
from chronotile.conditions.stored_conditions import matches_no_row
from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    UnsupportedFilterError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.commit_files import (
    FIRST_WITH_COMMITS,
    ConRecord,
    commit_name,
    cut_line,
    encode_exchanged,
    encode_lines,
    encode_record,
    is_commit_line,
    later_name,
    read_vac_line,
    write_uri,
)
from chronotile.format.kinds import COMMITS, CONDITIONS, FRAGMENTS, LINES, META, WRITES
from chronotile.format.names import MAX_TIMESTAMP, Name, is_name, is_newer, parse_name, time_order
from chronotile.history.missing_fragments import is_near
from chronotile.history.read_history import read_history
from chronotile.safe_text import shell_word
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.rules import Rules, is_inside, schema_at
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chronotile.check.findings import Finding
    from chronotile.check.fragment_health import Health
    from chronotile.history.commit_table import RecordSource
    from chronotile.history.read_history import History, VacuumFile
    from chronotile.storage.store import Store
    from chronotile.visibility.view import Delete


def plan_repair(
    store: Store, key: bytes | None, *, accept_loss: bool = False, commit_orphans: bool = False
) -> Plan:
    """Plan to take out what keeps the engine from reading an array; see `Handle.repair`."""
    mending = _mending(store, key, accept_loss=accept_loss, commit_orphans=commit_orphans)
    left = tuple(mending.left)

    def look(store: Store) -> Seen:
        """Look what the repair did not mend."""
        return Seen(findings=still_wrong(store, key, left))

    stages = mending_stages(store, mending)
    added: tuple[str, ...] = ()
    if stages:
        added = _added(store, key, [step for stage in stages for step in stage.steps])
        stages = (*stages, Stage(name="check", seen="the array is mended", looks=(look,)))
    return Plan(
        command="repair",
        array=store.uri,
        stages=stages,
        notes=tuple(mending.notes),
        findings=left if stages else still_wrong(store, key, left),
        added=added,
    )


def _added(store: Store, key: bytes | None, steps: Sequence[Step]) -> tuple[str, ...]:
    """Find the commits that are effective after a repair, and were not before."""
    files = {step.path: step.data for step in steps if step.op in ("put", "replace")}
    shown = overlaid(store, files, without=[step.path for step in steps if step.op == "move"])
    before, after = (
        {table.uri(row) for row in table.effective.nonzero()[0].tolist()}
        for table in (read_history(one, key=key).table for one in (store, shown))
    )
    return tuple(sorted(after - before))


def _mending(
    store: Store, key: bytes | None, *, accept_loss: bool, commit_orphans: bool
) -> Mending:
    history = read_history(store, key=key)
    rules, table = Rules(history), history.table
    paths = [path for name, path in history.listing.fragment_paths().items() if is_name(name)]
    # A commit may have come between the two lists: look for its fragment all the same.
    paths += [table.fragment_path(row) for row in rules.fragment_rows[~rules.missing].tolist()]
    health = inspect(store, history, paths)
    harmless: dict[str, bytes] = {}
    if any(item.applied for item in health.values()):
        harmless = harmless_tiles(history, sealing_key(store, history))
    mender = Mender(rules, health, accept_loss=accept_loss, harmless=harmless)
    mending = mender.mend(unfinished_copies(store) if commit_orphans else None)
    for item in metadata(store, history):
        mending.moves.setdefault(item.path, f"{item.code}: {item.message}")
        if item.path.startswith(f"{META}/"):
            mending.notes.append(lost_metadata(store.uri, item.path))
    return mending


def moves_of(store: Store, mending: Mending) -> Iterator[Step]:
    """Give the files that go into the quarantine, or are exchanged, with their content."""
    for path, reason in mending.moves.items():
        with suppress(MissingObjectError):
            data = store.read(path)
            new = mending.replaced.get(path)
            if new is None:
                yield Step(op="move", path=path, size=len(data), reason=reason, data=data)
            else:
                yield replace(new, op="replace", old=data)


def mending_stages(store: Store, mending: Mending) -> tuple[Stage, ...]:
    """Give what a mending does, in the order of the module's text."""
    both = "every window sees what it saw before, or is mended"
    stages = (
        Stage(name="new files", seen=both, steps=tuple(mending.puts.values())),
        Stage(name="take out", seen=both, steps=tuple(moves_of(store, mending))),
    )
    return stages if any(stage.steps for stage in stages) else ()


def still_wrong(store: Store, key: bytes | None, left: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Find what a repair does not mend, and every error that a new check finds."""
    history = read_history(store, key=key)
    rules = Rules(history)
    errors = [item for item in check(history, rules, store) if item.severity == "error"]
    known = {(item.code, item.path) for item in left}
    new = dict.fromkeys((*errors, *blocking(history, rules)))
    return (*left, *(item for item in new if (item.code, item.path) not in known))


@dataclass(slots=True)
class Mending:
    """The steps of a repair, gathered one by one."""

    moves: dict[str, str] = field(default_factory=dict)
    """Path -> why the file leaves the array."""
    commits: dict[str, str] = field(default_factory=dict)
    """URI -> why the commit of a fragment leaves the array, loose or in a `.con`."""
    puts: dict[str, Step] = field(default_factory=dict)
    """New files by path; put before any file is moved."""
    replaced: dict[str, Step] = field(default_factory=dict)
    """New content of files that are moved: each is exchanged in one step."""
    notes: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    """Problems that the repair does not mend."""

    def replace(self, path: str, data: bytes, why: str, reason: str) -> None:
        """Exchange the content of a file; `why` is the reason to move the old one."""
        self.moves[path] = why
        self.replaced[path] = put(path, data, reason)

    def put(self, path: str, data: bytes, reason: str) -> None:
        """Add a new file."""
        self.puts[path] = put(path, data, reason)


ROWS_OF_STAND_IN = (
    "one that matches no row takes its place: the rows that it removed come back, except in "
    "fragments that have applied it"
)
"""What a delete that matches no row means for the rows of the one in whose name it stands."""


def lost_metadata(where: str, path: str) -> str:
    """Say what goes with a damaged file of the metadata of an array or a group."""
    return (
        f"the metadata in {path} is lost, and a tag with it; add a lost tag again before the next "
        f"vacuum; to list the tags that are left: chronotile tag list {where}"
    )


class Mender:
    """Decide how to mend one array.

    Args:
        rules: The rules of its history.
        health: The health of each fragment that is there, by its folder.
        accept_loss: Mend even if that loses something that can be read now.
        harmless: Tiles that match no row, by extension, if they can be made.
    """

    def __init__(
        self,
        rules: Rules,
        health: Mapping[str, Health],
        *,
        accept_loss: bool,
        harmless: Mapping[str, bytes],
    ) -> None:
        self.history, self.rules, self.health = rules.history, rules, health
        self.harmless = harmless
        self.swapped: dict[str, bytes] = {}
        """URIs of deletes that get another tile: the harmless one, as a rule."""
        self.accept_loss = accept_loss
        self.version = max(array_version(self.history), FIRST_WITH_COMMITS)
        self.mending = Mending()
        self.dropped: dict[str, str] = {}
        self.completed: set[str] = set()
        """URIs of commits that were cut, and are known all the same."""
        every = list(damage(self.history))
        self.damage = [item for item in every if not is_newer(item.path)]
        self.mending.left += [item for item in every if is_newer(item.path)]
        self.damaged_cons = {p.path for p in self.history.problems if p.kind == "con"}
        self._cons = {source.path for source in self.history.table.sources if not source.loose}

    def mend(self, copies: Mapping[str, str] | None = None) -> Mending:
        """Mend everything, in the order in which one thing depends on another.

        Args:
            copies: Folders of fragments that must not be committed, each with the record of the
                change that copies it; None to commit no fragment but those that a commit means.
        """
        self._move_strangers()
        self._drop_conditions()
        FragmentMender(
            self.rules, self.health, self.mending, accept_loss=self.accept_loss
        ).mend_all()
        self._take_out_fragments()
        self._hide_undone()
        bad_lines = {
            item.path
            for item in self.damage
            if item.code != "con-truncated" and item.path.endswith(LINES)
        }
        for number, source in enumerate(self.history.table.sources):
            if not (source.loose or source.path in self.mending.moves or is_newer(source.path)):
                self._mend_con(number, source, has_bad_lines=source.path in bad_lines)
        for path in sorted(path for path in bad_lines if path.endswith(".ign")):
            self._mend_ign(path)
        for vacuum in (*self.history.vacuums, *self.history.meta_vacuums):
            if vacuum.path in bad_lines:
                self._mend_vac(vacuum)
        self._put_deletes_back()
        self._replace_lost(self._commit_orphans(copies))
        # No quarantine helps with a damaged schema: fragments may need it.
        unmended = ("tile-corrupt", "version-unknown")
        self.mending.left += [item for item in self.damage if item.code in unmended]
        return self.mending

    def take_out(self, commit: Delete, uri: str, reason: str) -> Mending:
        """Take one sound delete or update out of all files that hold it."""
        self._take_delete_out(commit, uri, "undelete", reason)
        self._mend_all_cons()
        return self.mending

    def leave_out(self, reasons: Mapping[str, str]) -> Mending:
        """Take commits, by URI, out of every `.con` that holds them; files of their own stay."""
        self.dropped |= reasons
        self._mend_all_cons()
        return self.mending

    def exchange(self, new: Mapping[str, bytes | None], reason: str) -> Mending:
        """Give deletes, by URI, other tiles in all files that hold them; None takes one out."""
        for uri, tile in new.items():
            if tile is None:
                self.dropped[uri] = reason
            else:
                self.swapped[uri] = tile
            if self._is_loose(uri) and tile is None:
                self.mending.moves[uri] = reason
            elif self._is_loose(uri) and tile is not None:
                self.mending.replace(uri, tile, reason, reason)
        self._mend_all_cons()
        return self.mending

    def _mend_all_cons(self) -> None:
        for number, source in enumerate(self.history.table.sources):
            if not source.loose:
                self._mend_con(number, source, has_bad_lines=False)

    def _move_strangers(self) -> None:
        others = set(self.history.listing.others)
        for item in self.damage:
            stem = item.path.rpartition("/")[2].rpartition(".")[0]
            if item.code == "con-truncated":
                continue
            if item.path in others:
                self.mending.left.append(item)
            elif item.code == "name-malformed" and not (
                item.path.endswith(LINES) and (is_name(stem) or not item.path.endswith(".vac"))
            ):
                self.mending.moves[item.path] = f"{item.code}: {item.message}"

    def _drop_conditions(self) -> None:
        """Take out deletes and updates with which the engine cannot read the array."""
        for commit, row in tile_commits(self.rules, MAX_TIMESTAMP):
            uri = self.history.table.uri(row)
            if is_newer(uri):
                continue
            try:
                stored = commit.stored
            except (KeyNeededError, UnsupportedFilterError):
                continue
            except ChronotileError as error:
                if self._intact(uri) is None:
                    self._take_delete_out(commit, uri, "tile-corrupt", str(error))
                continue
            why = refusal(self.history, commit, stored)
            if why is not None and why.today and not (commit.offset and uri.endswith(".upd")):
                reason = f"{text_or_name(commit)}: {why.message}"
                self._take_delete_out(commit, uri, why.code, reason)

    def _take_delete_out(self, commit: Delete, uri: str, code: str, reason: str) -> None:
        """Take a delete out; if a fragment has applied it, another one takes its place (F14)."""
        known = uri.rpartition("/")[2].removesuffix(".del")
        applied = [path for path, item in self.health.items() if known in item.applied]
        if not applied:
            self._drop(uri, f"{code}: {reason}")
        elif not self.harmless:
            self._keep_applied(commit.source, code, reason, applied)
        else:
            self.swapped[uri] = self._stand_in(uri)
            self.mending.notes.append(f"{uri}: {ROWS_OF_STAND_IN}")
            if self._is_loose(uri):
                why, new = f"{code}: {reason}", self._stand_in(uri)
                self.mending.replace(uri, new, why, "it matches no row")

    def _stand_in(self, uri: str) -> bytes:
        return self.harmless[uri[-4:]]

    def _commit_orphans(self, copies: Mapping[str, str] | None) -> set[str]:
        """Commit whole fragments that no commit names; give their folders."""
        whole, notes = _find_lost_commits(self.rules, self.health, copies or {})
        if copies is None:
            self._note_uncommitted(whole)
            return set()
        again = {p: n for p, n in whole.items() if write_uri(n) not in self.mending.puts}
        uris = sorted(map(write_uri, again.values()), key=lambda uri: time_order(commit_name(uri)))
        # A fragment older than version 12 lies in the root, and so does its commit.
        in_con = [uri for uri in uris if not uri.endswith(".ok")]
        for uri in (uri for uri in uris if uri.endswith(".ok")):
            self.mending.put(uri, b"", "its fragment is whole")
        if in_con:
            path = f"{COMMITS}/{later_name(in_con, self._cons, self.version)}.con"
            self._cons.add(path)
            number = count_text(len(in_con), "whole fragment")
            reason = f"commits {number} that no commit names"
            self.mending.put(path, encode_lines(in_con), reason)
        self.mending.notes += notes
        return set(again)

    def _note_uncommitted(self, whole: Mapping[str, str]) -> None:
        """Note whole fragments whose commits are probably lost, in the cut part of a `.con`."""
        known = {*self.mending.puts, *self.completed}
        lost = [
            path
            for path, name in whole.items()
            if write_uri(name) not in known
            and (cut_con(self.history, name) or not len(self.rules.fragment_rows))
        ]
        if lost:
            number = count_text(len(lost), "whole fragment")
            command = f"chronotile repair {shell_word(self.history.array)} --commit-orphans"
            note = f"the commits of {number} are probably lost, as of {lost[0]}"
            self.mending.notes.append(f"{note}; to show the rows: {command}")

    def _replace_lost(self, orphans: set[str]) -> None:
        """Put a delete that matches no row where one is gone that a fragment needs (F14)."""
        there = {self.history.table.fragment_path(row) for row in self.rules.fragment_rows.tolist()}
        there |= orphans
        for uri, paths in lost_deletes(self.history, self.health).items():
            if not self.harmless or there.isdisjoint(paths):
                continue
            reason = f"for one that is gone: {paths[0]} has applied it"
            self.mending.put(uri, self._stand_in(uri), reason)
            note = f"{uri} is back, and matches no row: what it removed stays away"
            self.mending.notes.append(note)

    def _keep_applied(self, path: str, code: str, reason: str, applied: list[str]) -> None:
        """Leave a delete that a fragment has applied: without it the engine crashes (F14)."""
        message = (
            f"{reason}; {applied[0]} has applied it, so what it removed there cannot come back, "
            f"and without it TileDB's next consolidation of fragments would crash: it stays"
        )
        hint = "open the array at windows that end before it"
        self.mending.left.append(finding(self.history.array, code, path, message, hint=hint))

    def _drop(self, uri: str, reason: str) -> None:
        self.dropped[uri] = reason
        kind = "update" if uri.endswith(".upd") else "delete"
        name = uri.rpartition("/")[2].rpartition(".")[0]
        note = f"the {kind} {name} is left out: the rows that it hid become visible again"
        self.mending.notes.append(note)
        if self._is_loose(uri):
            self.mending.moves[uri] = reason

    def _is_loose(self, uri: str) -> bool:
        listing = self.history.listing
        folder, _, text = uri.rpartition("/")
        return text in (listing.commits if folder else listing.root_commits)

    def _take_out_fragments(self) -> None:
        """Take out the commits of fragments that cannot be read."""
        commits = self.mending.commits
        self.mending.moves |= {uri: why for uri, why in commits.items() if self._is_loose(uri)}
        if in_con := [uri for uri in commits if self._is_in_con(uri)]:
            self._put_ign(in_con, f"cancels the commits of {count_text(len(in_con), 'fragment')}")

    def _hide_undone(self) -> None:
        """Hide merged fragments that show what a restore hid, if their sources are all there."""
        table = self.history.table
        committed = {table.name(row) for row in self.rules.fragment_rows.tolist()}
        for one in undone_restores(self.history):
            sources = {name for vacuum in one.merges for name in vacuum.targets}
            if not all(n in committed and is_usable(self.health, n) for n in sources):
                self.mending.left.append(undone_finding(self.history, one))
                continue
            for vacuum in one.merges:
                why = f"restore-undone: it hides what {vacuum.name.text} was made from"
                line, old = f"/{FRAGMENTS}/{vacuum.name.text}", encode_lines(vacuum.lines)
                new = encode_exchanged([line], old)
                self.mending.replace(vacuum.path, new, why, "hides the merged fragment instead")
            note = f"{one.name} is out of sight: it was made from what {one.restore} hides"
            self.mending.notes.append(f"{note}; what else it was made from shows in its place")

    def _put_ign(self, uris: list[str], reason: str) -> None:
        path = f"{COMMITS}/{later_name(uris, (), self.version)}.ign"
        self.mending.put(path, encode_lines(uris), reason)

    def _put_deletes_back(self) -> None:
        """Put back the files of deletes that only a `.con` holds: the engine needs them (F1)."""
        table = self.history.table
        for row in table.condition_rows.tolist():
            uri = table.uri(row)
            if table.is_loose(row) or not uri.endswith(".del") or uri in table.ignores:
                continue
            if self._is_loose(uri) or uri in self.dropped or not is_commit_line(uri):
                continue
            tile = self.swapped.get(uri) or self._intact(uri)
            if tile is not None and uri not in self.mending.puts:
                reason = "its file, which TileDB looks for when it consolidates commits"
                self.mending.put(uri, tile, reason)

    def _is_in_con(self, uri: str) -> bool:
        table = self.history.table
        return not all(table.is_loose(row) for row in table.find([uri]).tolist())

    def _intact(self, uri: str) -> bytes | None:
        """Find the tile of a delete or update in a file that holds it undamaged."""
        for row in self.history.table.find([uri]).tolist():
            tile = self.history.table.tile(row)[0]
            if _opens(tile, self.history.key):
                return tile
        return None

    def _mend_con(self, number: int, source: RecordSource, *, has_bad_lines: bool) -> None:
        """Rewrite a `.con` without unreadable records, with a cut one if it is known."""
        table, path = self.history.table, source.path
        kept: dict[str, bytes | None] = {}
        changed = has_bad_lines
        for row in np.flatnonzero(table.source == number).tolist():
            uri = table.uri(row)
            tile = table.tile(row)[0] if uri.endswith(CONDITIONS) else None
            if not is_commit_line(uri) or uri in self.dropped:
                changed = True
                continue
            if uri in self.swapped:
                tile, changed = self.swapped[uri], True
            elif tile is not None and not is_newer(uri) and not _opens(tile, self.history.key):
                tile, changed = self._intact(uri), True
                if tile is None:
                    continue
            kept[uri] = tile
        if path in self.damaged_cons:
            changed |= self._mend_tail(path, bytes(source.data), kept)
        if not changed:
            return
        self._move_mended(path)
        if kept:
            records = sorted((ConRecord(*item) for item in kept.items()), key=wanted_order)
            new = f"{COMMITS}/{later_name(kept, self._cons, self.version)}.con"
            self._cons.add(new)
            content = b"".join(map(encode_record, records))
            self.mending.put(new, content, f"{count_text(len(kept), 'commit')} of {path}")

    def _mend_tail(self, path: str, data: bytes, kept: dict[str, bytes | None]) -> bool:
        """Add the last record, which was cut, if it is known; tell whether to mend the file."""
        tail = cut_line(data)
        if tail is None:
            return True
        table = self.history.table
        known = {table.uri(row) for row in np.flatnonzero(~table.implied).tolist()}
        free = [n for n in self.rules.uncommitted if is_name(n) and is_usable(self.health, n)]
        fits = {uri for uri in (*known, *map(write_uri, free)) if uri.startswith(tail)}
        fits -= kept.keys()
        if tail.rpartition("/")[2] and len(fits) == 1:
            uri = fits.pop()
            tile = None if uri.endswith(WRITES) else self._intact(uri)
            if uri.endswith(WRITES) or tile is not None:
                kept[uri] = tile
                self.completed.add(uri)
                self.mending.notes.append(f"{path} was cut in its last entry, which was {uri}")
                return True
        message = (
            f"its last entry was cut after {tail!r:.120}, with which {len(fits)} commits begin"
        )
        if self.accept_loss:
            self.mending.notes.append(f"{path}: {message}; it is left out")
            return True
        hint = "to leave that entry out: chronotile repair {array} --accept-loss"
        array, code = self.history.array, "con-truncated"
        message = f"not repaired: {message}"
        self.mending.left.append(finding(array, code, path, message, hint=hint))
        return False

    def _mend_ign(self, path: str) -> None:
        ignores = self.history.table.ignores
        good = [uri for uri, by in ignores.items() if by == path and is_commit_line(uri)]
        self._move_mended(path)
        if good:
            self._put_ign(good, f"{count_text(len(good), 'line')} of {path}")

    def _mend_vac(self, vacuum: VacuumFile) -> None:
        """Rewrite a `.vac` under its own name."""
        folder = META if vacuum.path.startswith(f"{META}/") else FRAGMENTS
        good: list[str] = []
        for at, line in enumerate(vacuum.lines):
            name = read_vac_line(line).name
            if name is None and at == len(vacuum.lines) - 1:
                name = self._completed(vacuum.name, line)
            if name is not None:
                version = parse_name(name).version or FIRST_WITH_COMMITS
                good.append(f"/{folder}/{name}" if version >= FIRST_WITH_COMMITS else f"/{name}")
        self._move_mended(vacuum.path)
        if good:
            reason = f"keeps {count_text(len(good), 'line')}, with names of this array"
            why = self.mending.moves[vacuum.path]
            self.mending.replace(vacuum.path, encode_lines(good), why, reason)

    def _completed(self, own: Name, line: str) -> str | None:
        """Find the one fragment that a cut line of a `.vac` can mean."""
        rest = line.rpartition("/")[2]
        table = self.history.table
        names = [table.name(row) for row in self.rules.fragment_rows.tolist()]
        fits = [text for text in names if rest and text.startswith(rest)]
        if len(fits) == 1:
            name = parse_name(fits[0])
            if is_inside(name.t1, name.t2, own.t1, own.t2) and name.text != own.text:
                return name.text
        return None

    def _move_mended(self, path: str) -> None:
        """Move a file that a new one replaces, for the first reason that is known."""
        reasons = [f"{item.code}: {item.message}" for item in self.damage if item.path == path]
        reasons += [why for uri, why in self.dropped.items() if self._is_in_con(uri)]
        reasons += [f"{uri} has another content" for uri in self.swapped if self._is_in_con(uri)]
        self.mending.moves[path] = f"replaced: {[*reasons, 'a record that cannot be read'][0]}"


def _opens(tile: bytes, key: bytes | None) -> bool:
    try:
        tiles.decode(tile, "tile", key=key)
    except (KeyNeededError, UnsupportedFilterError):
        return True
    except (BadFileError, WrongKeyError):
        return False
    return True


class FragmentMender:
    """Decides what to do about the fragments that cannot be read."""

    def __init__(
        self, rules: Rules, health: Mapping[str, Health], mending: Mending, *, accept_loss: bool
    ) -> None:
        self.history, self.rules, self.health = rules.history, rules, health
        self.mending, self.accept_loss = mending, accept_loss
        table = self.history.table
        self.committed = {table.name(row) for row in rules.fragment_rows.tolist()}
        self.taken_out: list[int] = []
        """The rows of the commits that go out."""
        self.uncommitted = tuple(name for name in rules.uncommitted if is_name(name))

    def mend_all(self) -> None:
        """Decide on every fragment, and add the steps to the mending."""
        hidden = self.rules.superseded(0, MAX_TIMESTAMP)
        for at, row in enumerate(self.rules.fragment_rows.tolist()):
            self.mend(row, missing=bool(self.rules.missing[at]), hidden=bool(hidden[at]))
        out = (self.rules.history.table.fragment_path(row) for row in self.taken_out)
        lacking = (self.health[path].lacks for path in out if path in self.health)
        self.mending.notes += [
            f"{file} is missing: if a replica or a backup has it, copy it back instead of this "
            f"repair, and nothing is lost; after the repair, undo that too"
            for file in dict.fromkeys(one for one in lacking if one is not None)
        ]

    def mend(self, row: int, *, missing: bool, hidden: bool) -> None:
        """Decide on one fragment."""
        table = self.history.table
        uri, path, name = table.uri(row), table.fragment_path(row), table.name(row)
        health = self.health.get(path)
        if not is_commit_line(uri) or is_newer(uri):
            return
        if not missing and (health is None or not health.is_broken):
            return
        # Without a footer, the engine opens no window that sees the fragment.
        closed = missing or health is None or health.closed
        if hidden and not closed:
            return
        code, why = "commit-without-fragment", f"{path} is gone"
        if health and not missing:
            code, why = health.code, f"{path}: {health.problem}"
        reason = f"{code}: {why}"
        if missing and self._renamed(name, row, reason, hidden=hidden):
            return
        if hidden:
            # Its own `.vac` still hides its sources: a later fragment holds all of it.
            self._take_out(row, reason)
            holder = unreadable_holder(self.history, self.health, name)
            later = "but a later fragment holds its rows"
            if holder is not None:
                later = f"and {holder}, which holds its rows too, cannot be read either"
            self.mending.notes.append(f"{why}, {later}")
            return
        there, gone = self._sources(name)
        if not (closed or (there and not gone) or self.accept_loss):
            self._leave(health)
            return
        self._take_out(row, reason)
        self._bring_back(name, path, there, gone)

    def _take_out(self, row: int, reason: str) -> None:
        table = self.history.table
        self.taken_out.append(row)
        if table.implied[row]:
            self.mending.moves[table.path(row)] = reason
        else:
            self.mending.commits[table.uri(row)] = reason

    def _renamed(self, name: str, row: int, reason: str, *, hidden: bool) -> bool:
        """Commit the fragment that a damaged name means, if there is no doubt which it is.

        A fragment that a `.vac` hides stays as it is: no `.vac` would hide it under its other name.
        """
        near = [n for n in self.uncommitted if is_near(name, n) and self._is_whole(n)]
        if len(near) != 1:
            return False
        if hidden:
            return True
        if parse_name(near[0])[:2] != parse_name(name)[:2]:
            # Nobody knows which of the two times is right.
            self.mending.notes.append(f"{near[0]} may be {name}, its name damaged: it stays")
            return False
        self._take_out(row, reason)
        self.mending.put(write_uri(near[0]), b"", f"for {name}, of which the name is damaged")
        self.mending.notes.append(f"{name} is {near[0]}, its name damaged: its rows are back")
        return True

    def _sources(self, name: str) -> tuple[list[str], list[str]]:
        """List the sources of a fragment: those that are there and not broken, and the others."""
        there: list[str] = []
        gone: list[str] = []
        for vacuum in self.history.vacuums:
            if vacuum.name.text == name:
                for line in vacuum.lines:
                    source = read_vac_line(line).name
                    if source is not None:
                        (there if is_usable(self.health, source) else gone).append(source)
        return there, gone

    def _bring_back(self, name: str, path: str, there: list[str], gone: list[str]) -> None:
        """Make the sources of a fragment visible again, and note the rows that stay away."""
        for vacuum in self.history.vacuums:
            if vacuum.name.text == name and there:
                self.mending.moves[vacuum.path] = f"it hides what {name} was made from"
        for source in there:
            if source not in self.committed:
                self.mending.put(write_uri(source), b"", f"{name} was made from it")
        span = parse_name(name)
        times = f"at time {span.t1}" if span.t1 == span.t2 else f"from {span.t1} to {span.t2}"
        if there and not gone:
            count = count_text(len(there), "fragment")
            note = f"the rows of {path} are back: {count} that it was made from"
        elif there:
            back, away = ", ".join(there), ", ".join(gone)
            note = f"the rows of {path} that {back} holds are back; those of {away} are not here"
        elif (health := self.health.get(path)) is not None and health.lacks is not None:
            note = f"the rows written {times} ({path}) cannot be read without {health.lacks}"
        else:
            note = f"this array holds no copy of the rows written {times} ({path}): "
            note += "look for one in replicas and backups"
        self.mending.notes.append(note)

    def _leave(self, health: Health | None) -> None:
        assert health is not None  # the commit of a missing fragment goes out
        message = f"{health.problem}: the rest of it can still be read, so it stays"
        hint = "to take the fragment out: chronotile repair {array} --accept-loss"
        array, code = self.history.array, health.code
        self.mending.left.append(finding(array, code, health.file, message, hint=hint))

    def _is_whole(self, name: str) -> bool:
        health = health_by_name(self.health, name)
        return health is not None and health.is_whole


def is_usable(health: Mapping[str, Health], name: str) -> bool:
    """Tell whether a fragment is there, and not known to be broken."""
    known = health_by_name(health, name)
    return known is not None and not known.is_broken and not is_newer(name)


def _find_lost_commits(
    rules: Rules, health: Mapping[str, Health], copies: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Find whole fragments whose commits may have been lost.

    `copies` are folders that a change copies, or did when it was broken off, with its record.

    Returns:
        Folder -> name, of those to commit again; and doubts, and why others stay as they are.
    """
    history, there = rules.history, rules.history.listing.fragment_paths()
    going: dict[str, str] = {}
    for vacuum in history.vacuums:
        listed = [name for line in vacuum.lines if (name := read_vac_line(line).name) is not None]
        if any(name not in there for name in listed):
            going |= dict.fromkeys(listed, vacuum.path)
    again: dict[str, str] = {}
    notes: list[str] = []
    for name, path in rules.uncommitted.items():
        if not is_name(name):
            continue
        if (ignore := history.table.ignores.get(write_uri(name))) is not None:
            notes.append(f"{path} stays without a commit: {ignore} says that it was removed")
        elif name in going:
            notes.append(
                f"{path} stays without a commit: a vacuum removes what {going[name]} lists"
            )
        elif path in copies:
            notes.append(f"{path} stays without a commit: it is a copy of {copies[path]}")
        elif path not in health or not health[path].is_whole:
            why = health[path].problem if path in health else "it is gone"
            notes.append(f"{path} stays without a commit: {why}")
        else:
            again[path] = name
    if again:
        sizes = (health[path].measured for path in again)
        cells = count_text(sum(size.cells for size in sizes if size is not None), "cell")
        what = f"{count_text(len(again), 'whole fragment')} ({cells}) without a commit"
        doubt = "unfinished writes, removed ones, and merged ones beside what they were made from"
        doubt += " look the same, so look at the rows afterwards"
        deletes = (
            "if a .con was lost, deletes and updates that stood only in it stay lost: the rows "
            "that they hid show again"
        )
        notes[:0] = [f"{what}: {doubt}", deletes]
    return again, notes


def harmless_tiles(history: History, key: bytes | None) -> dict[str, bytes]:
    """Make tiles that match no row, by extension: a delete, and an update, which sets nothing.

    Without a readable schema there are none. The key encrypts them.
    """
    latest = schema_at(history, MAX_TIMESTAMP)
    if latest is None or latest.schema is None:
        return {}
    condition, version = matches_no_row(latest.schema), latest.schema.version
    payloads = {".del": codec.encode(condition), ".upd": codec.encode_update(condition, ())}
    return {
        extension: tiles.encode(payload, version=version, key=key)
        for extension, payload in payloads.items()
    }
