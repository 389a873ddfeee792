"""How damaged commit files are mended.

In: a history and its rules. Out: `Mending`: files that must leave the array, files that take
their place, and what cannot be mended. Reads only what the history holds; touches nothing.

What the engine cannot read is left out of the new files and stays, whole, in the old ones, which
go into quarantine. A commit that stands, undamaged, in another file is taken from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from chronotile.change.consolidate import wanted_order
from chronotile.change.repair_fragments import FragmentMending, is_usable, mend_fragments, write_uri
from chronotile.check.commit_files import damage
from chronotile.check.conditions import commits, refusal, said
from chronotile.check.findings import Finding, finding
from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    UnsupportedFilterError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.commit_files import (
    Record,
    encode_lines,
    encode_record,
    is_commit_line,
    read_vac_line,
)
from chronotile.format.con_names import later_name
from chronotile.format.damaged_con import cut_line
from chronotile.format.kinds import COMMITS, LINES, TILES, WRITES
from chronotile.format.names import Name, is_name, new_name, parse_name
from chronotile.visibility.rules import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.history.reading import History, VacuumFile
    from chronotile.visibility.rules import Rules


@dataclass(slots=True)
class Mending:
    """What a repair does, gathered step by step."""

    moves: dict[str, str] = field(default_factory=dict)
    """Path -> why it leaves the array."""
    puts: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """Path -> content and reason; put before anything is moved."""
    replaced: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """Likewise of files that keep their names; put once the old ones have been moved."""
    stand_ins: dict[str, bytes] = field(default_factory=dict)
    """Path -> content of files that serve while one of those is away."""
    notes: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)


class Mender:
    """Works out how to mend one array."""

    def __init__(
        self,
        history: History,
        rules: Rules,
        *,
        version: int,
        health: Mapping[str, Health],
        accept_loss: bool,
    ) -> None:
        """Prepare.

        Args:
            history: What was read of the array.
            rules: The rules applied to it.
            version: The format version of new files.
            health: What is known of each fragment that is there, by its folder.
            accept_loss: Mend even where something that could be read before is then lost.
        """
        self.history, self.rules, self.version = history, rules, version
        self.health, self.accept_loss = health, accept_loss
        self.found = Mending()
        self.dropped: dict[str, str] = {}
        self.damaged = {p.path: p.kind for p in history.problems}
        self._cons: set[str] = {s.path for s in history.table.sources if not s.loose}

    def mend(self) -> Mending:
        """Everything, in the order in which one thing depends on another."""
        strange = [item for item in damage(self.history) if item.code != "con-truncated"]
        self._move_strangers(strange)
        self._drop_conditions()
        fragments = mend_fragments(
            self.history, self.rules, self.health, accept_loss=self.accept_loss
        )
        self._take_out(fragments)
        lines = {item.path for item in strange if item.path.endswith(LINES)}
        for source in self.history.table.sources:
            if not source.loose and source.path not in self.found.moves:
                self._con(source.path, bytes(source.data), needed=source.path in lines)
        for path in sorted(p for p in lines if p.endswith(".ign")):
            self._ign(path)
        for vacuum in (*self.history.vacuums, *self.history.meta_vacuums):
            if vacuum.path in lines:
                self._vac(vacuum)
        self._put_deletes_back()
        self._schemas(strange)
        return self.found

    def _move_strangers(self, strange: list[Finding]) -> None:
        others = set(self.history.listing.others)
        for item in strange:
            stem = item.path.rpartition("/")[2].rpartition(".")[0]
            if item.path in others:
                self.found.left.append(item)
            elif item.code == "name-malformed" and not (
                item.path.endswith(LINES) and (is_name(stem) or not item.path.endswith(".vac"))
            ):
                self.found.moves[item.path] = f"{item.code}: {item.message}"

    def _drop_conditions(self) -> None:
        """Deletes and updates with which the engine cannot read."""
        for commit, row in commits(self.history, self.rules):
            uri = self.history.table.uri(row)
            try:
                stored = commit.stored
            except (KeyNeededError, UnsupportedFilterError):
                continue
            except ChronotileError as error:
                if self._intact(uri) is None:
                    self._drop(uri, f"tile-corrupt: {error}")
                continue
            why = refusal(self.history, commit, stored)
            if why is not None and why.today and not (commit.offset and uri.endswith(".upd")):
                reason = f"{said(commit)}: {why.message}"
                applied = [p for p, h in self.health.items() if commit.name in h.applied]
                if applied:
                    self._keep_applied(commit.source, why.code, reason, applied)
                else:
                    self._drop(uri, f"{why.code}: {reason}")

    def _keep_applied(self, path: str, code: str, reason: str, applied: list[str]) -> None:
        """Leave a delete that a fragment has applied: without it the engine crashes (F14)."""
        message = (
            f"{reason}; {applied[0]} has applied it, so what it removed there cannot come back, "
            f"and without it the engine's next consolidation of fragments would crash: it stays"
        )
        hint = "open the array at windows that end before it"
        self.found.left.append(finding(self.history.array, code, path, message, hint=hint))

    def _drop(self, uri: str, reason: str) -> None:
        self.dropped[uri] = reason
        self.found.notes.append(f"{uri} is taken out: what it deleted comes back")
        if self._is_loose(uri):
            self.found.moves[uri] = reason

    def _is_loose(self, uri: str) -> bool:
        listing = self.history.listing
        folder, _, text = uri.rpartition("/")
        return text in (listing.commits if folder else listing.root_commits)

    def _take_out(self, fragments: FragmentMending) -> None:
        """Take out commits whose fragment cannot be read, and put others in their place."""
        self.found.notes += fragments.notes
        self.found.left += fragments.left
        self.found.puts |= fragments.puts
        self.found.moves |= fragments.moves
        lost = []
        for uri, reason in fragments.commits.items():
            if self._is_loose(uri):
                self.found.moves[uri] = reason
            if self._in_con(uri):
                lost.append(uri)
        if lost:
            path = f"{COMMITS}/{later_name(lost, (), self.version)}.ign"
            self.found.puts[path] = (encode_lines(lost), f"{len(lost)} fragments are gone")

    def _put_deletes_back(self) -> None:
        """Put back the files of deletes that only a `.con` holds: the engine needs them (F1)."""
        table = self.history.table
        for row in table.tile_rows.tolist():
            uri = table.uri(row)
            if table.is_loose(row) or not uri.endswith(".del") or uri in table.ignores:
                continue
            if self._is_loose(uri) or uri in self.dropped or not is_commit_line(uri):
                continue
            tile = self._intact(uri)
            if tile is not None:
                reason = "its file, which the engine looks for when it consolidates commits"
                self.found.puts.setdefault(uri, (tile, reason))

    def _rows(self, uri: str) -> Iterator[int]:
        table = self.history.table
        name = parse_name(uri.rpartition("/")[2].rpartition(".")[0])
        near = (table.uris.t1 == name.t1) & (table.uris.t2 == name.t2)
        return (row for row in np.flatnonzero(near).tolist() if table.uri(row) == uri)

    def _in_con(self, uri: str) -> bool:
        return any(not self.history.table.is_loose(row) for row in self._rows(uri))

    def _intact(self, uri: str) -> bytes | None:
        """The tile of a delete or update from a file in which it is whole."""
        for row in self._rows(uri):
            tile = self.history.table.tile(row)[0]
            if _opens(tile, self.history.key):
                return tile
        return None

    def _con(self, path: str, data: bytes, *, needed: bool) -> None:
        """Write a `.con` anew without what cannot be read, and with what can be told."""
        table = self.history.table
        number = next(n for n, source in enumerate(table.sources) if source.path == path)
        kept: dict[str, bytes | None] = {}
        changed = needed
        for row in np.flatnonzero(table.source == number).tolist():
            uri = table.uri(row)
            tile = table.tile(row)[0] if uri.endswith(TILES) else None
            if not is_commit_line(uri) or uri in self.dropped:
                changed = True
                continue
            if tile is not None and not _opens(tile, self.history.key):
                tile, changed = self._intact(uri), True
                if tile is None:
                    continue
            kept[uri] = tile
        if self.damaged.get(path) == "con":
            changed |= self._tail(path, data, kept)
        if not changed:
            return
        self.found.moves[path] = f"mended: {self._reason(path)}"
        if kept:
            records = sorted((Record(*item) for item in kept.items()), key=wanted_order)
            name = later_name(kept, self._cons, self.version)
            new = f"{COMMITS}/{name}.con"
            self._cons.add(new)
            content = b"".join(map(encode_record, records))
            self.found.puts[new] = (content, f"{len(kept)} commits of {path}")

    def _tail(self, path: str, data: bytes, kept: dict[str, bytes | None]) -> bool:
        """Tell what the last line said before it was cut; say whether to write it anew."""
        tail = cut_line(data)
        if tail is None:
            return True
        table = self.history.table
        known = {table.uri(row) for row in np.flatnonzero(~table.implied).tolist()}
        free = [n for n in self.rules.uncommitted() if is_name(n) and is_usable(self.health, n)]
        fits = {uri for uri in (*known, *map(write_uri, free)) if uri.startswith(tail)}
        fits -= kept.keys()
        if tail.rpartition("/")[2] and len(fits) == 1:
            uri = fits.pop()
            if uri.endswith(WRITES) or self._intact(uri) is not None:
                kept[uri] = None if uri.endswith(WRITES) else self._intact(uri)
                self.found.notes.append(f"{path} was cut in its last entry, which was {uri}")
                return True
        found = f"{len(fits)} fit" if tail.rpartition("/")[2] else "none of the name is left"
        message = f"the last entry was cut after {tail!r}: {found}, so it cannot be told"
        if self.accept_loss:
            self.found.notes.append(f"{path}: {message}; it is left out")
            return True
        self.found.left.append(finding(self.history.array, "con-truncated", path, message))
        return False

    def _ign(self, path: str) -> None:
        lines = [uri for uri, by in self.history.table.ignores.items() if by == path]
        good = [line for line in lines if is_commit_line(line)]
        self.found.moves[path] = f"mended: {self._reason(path)}"
        if good:
            new = f"{COMMITS}/{later_name(good, (), self.version)}.ign"
            self.found.puts[new] = (encode_lines(good), f"{len(good)} lines of {path}")

    def _vac(self, vacuum: VacuumFile) -> None:
        """Write a `.vac` anew under its own name; a stand-in hides what it hides meanwhile."""
        prefix = "/__meta/" if vacuum.path.startswith("__meta/") else "/__fragments/"
        good: list[str] = []
        for at, line in enumerate(vacuum.lines):
            name = read_vac_line(line).name
            if name is None and at == len(vacuum.lines) - 1:
                name = self._completed(vacuum.name, line)
            if name is not None:
                root = prefix if (parse_name(name).version or 12) >= 12 else "/"
                good.append(f"{root}{name}")
        self.found.moves[vacuum.path] = f"mended: {self._reason(vacuum.path)}"
        if good:
            data, own = encode_lines(good), vacuum.name
            reason = f"{len(good)} lines of the old one"
            self.found.replaced[vacuum.path] = (data, reason)
            if prefix == "/__fragments/":
                text = new_name(own.t1, own.t2, own.version)
                self.found.stand_ins[f"{COMMITS}/{text}.vac"] = data

    def _completed(self, own: Name, line: str) -> str | None:
        rest = line.rpartition("/")[2]
        table = self.history.table
        names = [table.name(row) for row in self.rules.fragments.tolist()]
        fits = [text for text in names if rest and text.startswith(rest)]
        if len(fits) == 1:
            name = parse_name(fits[0])
            if is_inside(name.t1, name.t2, own.t1, own.t2) and name.text != own.text:
                return name.text
        return None

    def _schemas(self, strange: list[Finding]) -> None:
        """What no quarantine can help: a schema that fragments may need."""
        for item in strange:
            if item.code == "tile-corrupt":
                self.found.left.append(item)

    def _reason(self, path: str) -> str:
        for item in damage(self.history):
            if item.path == path:
                return f"{item.code}: {item.message}"
        dropped = [why for uri, why in self.dropped.items() if self._in_con(uri)]
        return dropped[0] if dropped else "a record that cannot be read"


def _opens(tile: bytes, key: bytes | None) -> bool:
    try:
        tiles.decode(tile, "tile", key=key)
    except (KeyNeededError, UnsupportedFilterError):
        return True
    except (BadFileError, WrongKeyError):
        return False
    return True
