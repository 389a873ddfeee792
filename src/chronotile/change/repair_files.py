"""How a repair mends damaged commit files.

In: the rules of a history. Out: `Mending`: files that leave the array, files that take their place,
and what cannot be mended. Reads only what the history holds; touches nothing.

The new files leave out what the engine cannot read; the old files, which go into quarantine, keep
it. A commit that another file holds undamaged is taken from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chronotile.change.consolidate import wanted_order
from chronotile.change.mending import Mending
from chronotile.change.repair_fragments import FragmentMender, find_lost_commits, is_usable
from chronotile.change.sound_array import array_version
from chronotile.change.stand_in_deletes import row_words
from chronotile.check.commit_files import damage
from chronotile.check.conditions import commits, refusal, text_or_name
from chronotile.check.findings import count_text, finding
from chronotile.check.fragment_health import lost_deletes
from chronotile.check.restores import undone_finding, undone_restores
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
from chronotile.format.kinds import COMMITS, FRAGMENTS, LINES, META, TILES, WRITES
from chronotile.format.names import Name, is_name, is_newer, parse_name, time_order
from chronotile.visibility.rules import is_inside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.history.commit_table import RecordSource
    from chronotile.history.read_history import VacuumFile
    from chronotile.visibility.rules import Rules
    from chronotile.visibility.view import Delete


class Mender:
    """Decides how to mend one array.

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
        self.swapped: set[str] = set()
        """URIs of deletes that get the harmless tile."""
        self.accept_loss = accept_loss
        self.version = max(array_version(self.history), FIRST_WITH_COMMITS)
        self.mending = Mending()
        self.dropped: dict[str, str] = {}
        every = list(damage(self.history))
        self.damage = [item for item in every if not is_newer(item.path)]
        self.mending.left += [item for item in every if is_newer(item.path)]
        self.damaged_cons = {p.path for p in self.history.problems if p.kind == "con"}
        self._cons = {source.path for source in self.history.table.sources if not source.loose}

    def mend(self, copies: Mapping[str, str] | None = None) -> Mending:
        """Everything, in the order in which one thing depends on another.

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
        """Takes one sound delete or update out of all files that hold it."""
        self._take_delete_out(commit, uri, "undelete", reason)
        self._mend_all_cons()
        return self.mending

    def leave_out(self, reasons: Mapping[str, str]) -> Mending:
        """Takes commits, by URI, out of every `.con` that holds them; files of their own stay."""
        self.dropped |= reasons
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
        """Takes out deletes and updates with which the engine cannot read the array."""
        for commit, row in commits(self.rules):
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
        """Takes a delete out; if a fragment has applied it, another one takes its place (F14)."""
        known = uri.rpartition("/")[2].removesuffix(".del")
        applied = [path for path, item in self.health.items() if known in item.applied]
        if not applied:
            self._drop(uri, f"{code}: {reason}")
        elif not self.harmless:
            self._keep_applied(commit.source, code, reason, applied)
        else:
            self.swapped.add(uri)
            words = row_words(self.rules, commit.name, applied)
            self.mending.notes.append(f"{uri} is replaced by one that matches no row: {words}")
            if self._is_loose(uri):
                why, new = f"{code}: {reason}", self._stand_in(uri)
                self.mending.replace(uri, new, why, "it matches no row")

    def _stand_in(self, uri: str) -> bytes:
        return self.harmless[uri[-4:]]

    def _commit_orphans(self, copies: Mapping[str, str] | None) -> set[str]:
        """Commits whole fragments that no commit names; gives their folders."""
        found = find_lost_commits(self.rules, self.health, copies or {})
        if copies is None:
            if found.again and not len(self.rules.fragments):
                number = count_text(len(found.again), "whole fragment")
                command = f"chronotile repair {self.history.array} --commit-orphans"
                note = f"no fragment has a commit, and {number} could be seen: {command}"
                self.mending.notes.append(note)
            return set()
        again = {p: n for p, n in found.again.items() if write_uri(n) not in self.mending.puts}
        uris = sorted(map(write_uri, again.values()), key=lambda uri: time_order(commit_name(uri)))
        # A fragment of before version 12 lies in the root, and so does its commit.
        in_con = [uri for uri in uris if not uri.endswith(".ok")]
        for uri in (uri for uri in uris if uri.endswith(".ok")):
            self.mending.put(uri, b"", "its fragment is whole")
        if in_con:
            path = f"{COMMITS}/{later_name(in_con, self._cons, self.version)}.con"
            self._cons.add(path)
            number = count_text(len(in_con), "whole fragment")
            reason = f"commits {number} that no commit names"
            self.mending.put(path, encode_lines(in_con), reason)
        self.mending.notes += found.notes
        return set(again)

    def _replace_lost(self, orphans: set[str]) -> None:
        """Puts a delete that matches no row where one is gone that a fragment needs (F14)."""
        there = {self.history.table.fragment_path(row) for row in self.rules.fragments.tolist()}
        there |= orphans
        for uri, paths in lost_deletes(self.history, self.health).items():
            if not self.harmless or there.isdisjoint(paths):
                continue
            reason = f"for one that is gone: {paths[0]} has applied it"
            self.mending.put(uri, self._stand_in(uri), reason)
            note = f"{uri} is back, and matches no row: what it removed stays away"
            self.mending.notes.append(note)

    def _keep_applied(self, path: str, code: str, reason: str, applied: list[str]) -> None:
        """Leaves a delete that a fragment has applied: without it the engine crashes (F14)."""
        message = (
            f"{reason}; {applied[0]} has applied it, so what it removed there cannot come back, "
            f"and without it the engine's next consolidation of fragments would crash: it stays"
        )
        hint = "open the array at windows that end before it"
        self.mending.left.append(finding(self.history.array, code, path, message, hint=hint))

    def _drop(self, uri: str, reason: str) -> None:
        self.dropped[uri] = reason
        self.mending.notes.append(f"{uri} is taken out: what it deleted comes back")
        if self._is_loose(uri):
            self.mending.moves[uri] = reason

    def _is_loose(self, uri: str) -> bool:
        listing = self.history.listing
        folder, _, text = uri.rpartition("/")
        return text in (listing.commits if folder else listing.root_commits)

    def _take_out_fragments(self) -> None:
        """Takes out the commits of fragments that cannot be read."""
        commits = self.mending.commits
        self.mending.moves |= {uri: why for uri, why in commits.items() if self._is_loose(uri)}
        if in_con := [uri for uri in commits if self._is_in_con(uri)]:
            self._put_ign(in_con, f"{count_text(len(in_con), 'fragment')} gone")

    def _hide_undone(self) -> None:
        """Hides merged fragments that show what a restore hid, if their sources are all there."""
        table = self.history.table
        committed = {table.name(row) for row in self.rules.fragments.tolist()}
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
        """Puts back the files of deletes that only a `.con` holds: the engine needs them (F1)."""
        table = self.history.table
        for row in table.tile_rows.tolist():
            uri = table.uri(row)
            if table.is_loose(row) or not uri.endswith(".del") or uri in table.ignores:
                continue
            if self._is_loose(uri) or uri in self.dropped or not is_commit_line(uri):
                continue
            tile = self._stand_in(uri) if uri in self.swapped else self._intact(uri)
            if tile is not None and uri not in self.mending.puts:
                reason = "its file, which the engine looks for when it consolidates commits"
                self.mending.put(uri, tile, reason)

    def _is_in_con(self, uri: str) -> bool:
        table = self.history.table
        return not all(table.is_loose(row) for row in table.find([uri]).tolist())

    def _intact(self, uri: str) -> bytes | None:
        """The tile of a delete or update from a file that holds it undamaged."""
        for row in self.history.table.find([uri]).tolist():
            tile = self.history.table.tile(row)[0]
            if _opens(tile, self.history.key):
                return tile
        return None

    def _mend_con(self, number: int, source: RecordSource, *, has_bad_lines: bool) -> None:
        """Writes a `.con` anew: without unreadable records, with a cut one if it is known."""
        table, path = self.history.table, source.path
        kept: dict[str, bytes | None] = {}
        changed = has_bad_lines
        for row in np.flatnonzero(table.source == number).tolist():
            uri = table.uri(row)
            tile = table.tile(row)[0] if uri.endswith(TILES) else None
            if not is_commit_line(uri) or uri in self.dropped:
                changed = True
                continue
            if uri in self.swapped:
                tile, changed = self._stand_in(uri), True
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
        """Adds the last record, which was cut, if it is known; true if the file is to be mended."""
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
                self.mending.notes.append(f"{path} was cut in its last entry, which was {uri}")
                return True
        found = f"{len(fits)} fit" if tail.rpartition("/")[2] else "none of the name is left"
        message = f"the last entry was cut after {tail!r}: {found}, so nobody can tell which it was"
        if self.accept_loss:
            self.mending.notes.append(f"{path}: {message}; it is left out")
            return True
        self.mending.left.append(finding(self.history.array, "con-truncated", path, message))
        return False

    def _mend_ign(self, path: str) -> None:
        ignores = self.history.table.ignores
        good = [uri for uri, by in ignores.items() if by == path and is_commit_line(uri)]
        self._move_mended(path)
        if good:
            self._put_ign(good, f"{count_text(len(good), 'line')} of {path}")

    def _mend_vac(self, vacuum: VacuumFile) -> None:
        """Writes a `.vac` anew under its own name."""
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
            reason = f"{count_text(len(good), 'line')} of the old one"
            why = self.mending.moves[vacuum.path]
            self.mending.replace(vacuum.path, encode_lines(good), why, reason)

    def _completed(self, own: Name, line: str) -> str | None:
        """The one fragment that a cut line of a `.vac` can mean."""
        rest = line.rpartition("/")[2]
        table = self.history.table
        names = [table.name(row) for row in self.rules.fragments.tolist()]
        fits = [text for text in names if rest and text.startswith(rest)]
        if len(fits) == 1:
            name = parse_name(fits[0])
            if is_inside(name.t1, name.t2, own.t1, own.t2) and name.text != own.text:
                return name.text
        return None

    def _move_mended(self, path: str) -> None:
        """Moves a file that a new one replaces, for the first reason that is known."""
        reasons = [f"{item.code}: {item.message}" for item in self.damage if item.path == path]
        reasons += [why for uri, why in self.dropped.items() if self._is_in_con(uri)]
        reasons += [f"{uri} breaks reads" for uri in self.swapped if self._is_in_con(uri)]
        self.mending.moves[path] = f"mended: {[*reasons, 'a record that cannot be read'][0]}"


def _opens(tile: bytes, key: bytes | None) -> bool:
    try:
        tiles.decode(tile, "tile", key=key)
    except (KeyNeededError, UnsupportedFilterError):
        return True
    except (BadFileError, WrongKeyError):
        return False
    return True
