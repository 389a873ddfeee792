"""Undo: the last change of ours is taken back, by the report that it left.

In: an array, and a report. Out: the array as it was before that change, with all that others wrote
since, and a report. What the change put goes into a quarantine; nothing is destroyed.

A change is taken back only if that loses nothing and leaves nothing half done:

  - what it put is there as it was put, or gone;
  - no other commit stands only in one of these files;
  - none of its commits stands in another file too, or was merged into a fragment since;
  - what it hid is still there: a vacuum makes a change final.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chronotile.change import quarantine
from chronotile.change.change_report import FOLDERS, Before, Report, Step, tell
from chronotile.check.findings import RefusedError, count_text
from chronotile.errors import BadTimeError, ChangedError, shell_word
from chronotile.format.commit_files import (
    commit_name,
    decode_vac,
    vacuumed_name,
)
from chronotile.format.fragment_footer import read_head
from chronotile.format.kinds import META, SCHEMA, WRITES
from chronotile.format.names import parse_name
from chronotile.format.timestamps import time_text, to_ms
from chronotile.history.read_footers import FooterReader, RawFooter
from chronotile.history.read_history import read_history
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import Store, open_store
from chronotile.time_machine.past_state import Past
from chronotile.time_machine.undo_record import FINAL, UndoRecord, find_report, read_record
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.history.read_history import History


def undo(
    array: str,
    report: Report | Mapping[str, Any] | str | None = None,
    *,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Takes back a change of ours.

    Args:
        array: A path or a URI.
        report: The report of the change, or where it is; the last one beside the array, if it is
            left out.
        dry_run: Change nothing.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        RefusedError: There is no such change, or it cannot be taken back any more.

    >>> undo("memory:doc-undo/a")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.check.findings.RefusedError: memory://doc-undo/a: expected a report ... found none
    """
    opened = store or open_store(array, storage_options)
    place, document = find_report(opened, report)
    if "members" in document:
        problem = "expected the report of an array, found one of a group; undo it there"
        raise RefusedError(opened.uri, problem)
    refuse_final(opened, document)
    if document.get("quarantine"):
        return _undo_moves(opened, place, document, dry_run=dry_run)
    history = read_history(opened, key=key)
    record = read_record(opened, document)
    _Judge(opened, history, record).judge()
    moves = tuple(moves_of(record))
    copied = [step["path"] for step in document["steps"] if step.get("op") in FOLDERS]
    done = Report("undo", opened.uri, dry_run=dry_run, steps=moves, undoes=place)
    kept = quarantine.new_quarantine(opened, done.at_ms)
    done = replace(done, notes=tuple(_notes(opened, document, copied, kept.uri)))
    if not dry_run:
        tell(before, done)
        kept.declare(moves, (), done.at_ms)
        if record.veil is not None:
            _show_again(opened, record, record.veil, key)
        kept.move(moves)
    return replace(done, quarantine=kept.uri)


def _show_again(
    store: Store, record: UndoRecord, veil: tuple[str, bytes, bytes], key: bytes | str | None
) -> None:
    """Shows what the change hid in place of what it showed, or leaves all as it was.

    Raises:
        RefusedError: A vacuum removes what the change hid.
    """
    path, shown, hidden = veil
    store.exchange(path, shown, hidden)
    try:
        _Judge(store, read_history(store, key=key), record).refuse_vacuumed()
    except RefusedError:
        with suppress(ChangedError):  # Gone: then nothing hides what the change showed.
            store.exchange(path, hidden, shown)
        raise


def refuse_final(store: Store, document: Mapping[str, Any]) -> None:
    """Refuses a report of a change that cannot be taken back by it."""
    command = str(document.get("command"))
    if document.get("array") != store.uri:
        found = f"found one of {document.get('array')!r:.120}"
        raise RefusedError(store.uri, f"expected a report of this array, {found}")
    if document.get("dry_run"):
        raise RefusedError(store.uri, f"expected a change, found a dry run of {command!r:.40}")
    if any(step.get("op") == "remove" for step in document["steps"]):
        problem = f"expected a change that can be taken back, found {command!r:.40}, which removed"
        raise RefusedError(store.uri, f"{problem} files: {FINAL}")
    moved = any(step.get("op") == "move" for step in document["steps"])
    if moved and not document.get("quarantine"):
        problem = f"expected a change that has ended, found {command!r:.40} broken off"
        raise RefusedError(store.uri, f"{problem}; run the same command again")


def _undo_moves(store: Store, place: str, document: Mapping[str, Any], *, dry_run: bool) -> Report:
    """Takes back a change that moved files into a quarantine: they come out of it again."""
    done = quarantine.restore(store.uri, str(document["quarantine"]), dry_run=dry_run, store=store)
    notes = () if dry_run else (taken_back(document),)
    return replace(done, command="undo", undoes=place, notes=notes)


def taken_back(document: Mapping[str, Any]) -> str:
    """What was taken back, in words."""
    when = document.get("time")
    with suppress(BadTimeError):  # if it is no time, it is told as it is
        when = time_text(to_ms(str(when), "time"))
    return f"taken back: {document.get('command')} of {when}"


def moves_of(record: UndoRecord) -> Iterator[Step]:
    """The files that go, in order: the last first; what ignores commits after what holds them."""
    last_first = record.puts[::-1]
    for one in sorted(last_first, key=lambda one: one.path.endswith(".ign")):
        data = one.data
        if record.veil is not None and one.path == record.veil[0]:
            data = record.veil[2]
        yield Step(op="move", path=one.path, size=len(data), reason=one.reason, data=data)


def _notes(
    store: Store, document: Mapping[str, Any], copied: list[str], kept: str
) -> Iterator[str]:
    yield taken_back(document)
    if copied:
        folders = count_text(len(copied), "copy", "copies")
        command = f"chronotile vacuum {shell_word(store.uri)} --whole-orphans --orphan-age 0"
        stay = f"{folders} of fragments stay, which no commit names"
        yield f"{stay}: once {kept} is removed, {command} removes them"


class _Judge:
    """Whether a change can be taken back without loss."""

    def __init__(self, store: Store, history: History, record: UndoRecord) -> None:
        self.store, self.history, self.record = store, history, record
        self.paths = {one.path for one in record.puts}
        self.there = {*history.listing.fragments, *history.listing.root_fragments}
        self.added = {commit_name(uri).text for uri in record.added}

    def judge(self) -> None:
        """Raises an error if it cannot."""
        self.refuse_vacuumed()
        self._refuse_merged()
        self._refuse_lost()
        self._refuse_used_schema()

    def _refused(self, problem: str) -> RefusedError:
        return RefusedError(self.store.uri, f"expected a change that can be taken back, {problem}")

    def refuse_vacuumed(self) -> None:
        """Refuses if a fragment that the change hid is gone."""
        meta = set(self.history.listing.meta)
        table = self.history.table
        effective = {table.name(row) for row in Rules(self.history).fragments.tolist()}
        lost = sorted(self.record.hidden - (self.there & effective))
        if lost:
            problem = f"found {lost[0]} gone, which it hid: a vacuum removed it, and {FINAL}"
            raise self._refused(problem)
        for one in self.record.puts:
            if not one.path.endswith(".vac"):
                continue
            listed = [vacuumed_name(line) for line in decode_vac(one.data, one.path)]
            in_meta = one.path.startswith(f"{META}/")
            # A run that was broken off may have exchanged it already: it then lists what was added.
            here = meta if in_meta else (self.there & effective) | self.added
            gone = [name for name in listed if name not in here]
            if gone:
                problem = f"found {gone[0]} gone, which it hid: a vacuum removed it, and {FINAL}"
                raise self._refused(problem)
            if self.history.dense and not in_meta:
                self._refuse_spanning(commit_name(one.path).t2)

    def _refuse_merged(self) -> None:
        """Refuses if the change's own commits have been merged into others since."""
        if not self.record.added:
            return
        names = {commit_name(uri).text: uri for uri in self.record.added}
        for vacuum in self.history.vacuums:
            if vacuum.path not in self.paths and not names.keys().isdisjoint(vacuum.targets):
                problem = f"found {vacuum.name.text}, which was merged from what it added"
                raise self._refused(f"{problem}: {FINAL}")
        writes = [name for name, uri in names.items() if uri.endswith(WRITES)]
        gone = [name for name in writes if name not in self.there]
        if gone and self.record.puts:
            raise self._refused(f"found {gone[0]} gone, which it added: {FINAL}")
        tiles = {name for name, uri in names.items() if not uri.endswith(WRITES)}
        self._refuse_applied(tiles)

    def _refuse_applied(self, deletes: set[str]) -> None:
        if not deletes:
            return
        rules = Rules(self.history)
        past = Past(self.store, rules)
        for row in rules.fragments[~rules.missing].tolist():
            name = parse_name(self.history.table.name(row))
            found = deletes.intersection(past.part(name).applied)
            if found:
                problem = f"found {name.text}, which has applied {min(found)}"
                raise self._refused(f"{problem}: {FINAL}")

    def _refuse_spanning(self, moment: int) -> None:
        """Refuses if a dense array was consolidated over the change: order would be wrong."""
        table, rules = self.history.table, Rules(self.history)
        for row in rules.fragments.tolist():
            name = parse_name(table.name(row))
            if name.t1 < moment <= name.t2 and name.text not in self.added:
                raise self._refused(f"found {name.text}, which was merged since: {FINAL}")

    def _refuse_lost(self) -> None:
        """Refuses if other commits would go, or if its own would stay."""
        shown = overlaid(self.store, {}, without=self.paths)
        after = _effective(read_history(shown, key=self.history.key))
        before = _effective(self.history)
        lost = sorted(before - after - self.record.added)
        if lost:
            raise self._refused(f"found {lost[0]} in no other file: it would be lost")
        left = sorted(self.record.added & after)
        if left:
            raise self._refused(f"found {left[0]} in another file too: it was consolidated since")

    def _refuse_used_schema(self) -> None:
        names = {
            one.path.rpartition("/")[2]
            for one in self.record.puts
            if one.path.startswith(f"{SCHEMA}/") and one.path.count("/") == 1
        }
        if not names:
            return
        table, rules = self.history.table, Rules(self.history)
        later = [
            table.name(row)
            for row in rules.fragments[~rules.missing].tolist()
            if table.name(row) not in self.added
        ]
        for name, raw in FooterReader(self.store, self.history).read_raw(later):
            if isinstance(raw, RawFooter) and read_head(raw.raw, name).schema_name in names:
                raise self._refused(f"found {name}, which was written with its schema: {FINAL}")


def _effective(history: History) -> set[str]:
    table = history.table
    return {table.uri(row) for row in table.counts.nonzero()[0].tolist()}
