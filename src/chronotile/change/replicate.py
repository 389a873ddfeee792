"""Replicate: the plan of one round that makes a copy equal to one reading of its source.

In: the stores of a source and of its copy, an array or a group's own files. Out: a `Plan` for the
copy. Needs no key, and writes nothing to the source.

A reader can open the copy at any time. Before a stage it sees what it saw, and after it whole
commits more:

    schemas    enumerations, then schemas
    fragments  folders that no commit of the copy names yet; then a look whether the source still
               has all that the round relies on
    commits    writes, deletes, updates, `.con`; before them an `.ign` and each `.vac` that hides
               nothing which the copy shows
    hide       the `.vac` files: what replaces the hidden fragments is there
    metadata   files of metadata, then their `.vac`; of a group its lists of members, which are last
    take out   what the source took out, and what is hidden there without a trace

By default nothing is removed. A fragment that the source no longer has is hidden by a `.vac` with
the times and the version of the fragment's own name: an open sees both or neither, in sparse and in
dense arrays, so that every window shows what the source shows. A delete that the source took out
stays in its name as one that matches no row. `prune` removes all of that instead.

A file that somebody else put into the copy is never touched: the round is refused, and names it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from chronotile.change import operations
from chronotile.change.plan import Plan, Source, Stage, Step, at_hand, put
from chronotile.change.repair import harmless_tiles
from chronotile.change.replica_reading import fragment_of, is_log_file, read_source, read_target
from chronotile.change.replica_record import (
    OTHER_REPLICATOR,
    ReplicaRecord,
    digest_of,
    read_record,
    write_record,
)
from chronotile.change.sound_array import sealing_key
from chronotile.check.findings import RefusedError, finding, shown
from chronotile.check.fragment_health import inspect
from chronotile.errors import (
    GIVE_KEY,
    ChangedError,
    ChronotileError,
    KeyNeededError,
    StorageError,
    WrongKeyError,
    option,
)
from chronotile.format import tiles
from chronotile.format.commit_files import (
    FIRST_WITH_COMMITS,
    ConRecord,
    encode_exchanged,
    encode_lines,
    encode_record,
    vacuumed_name,
)
from chronotile.format.groups import decode_details, encode_details
from chronotile.format.kinds import (
    COMMITS,
    CONDITIONS,
    ENUMERATIONS,
    FRAGMENT_META,
    FRAGMENT_METADATA,
    FRAGMENTS,
    GROUP,
    GROUP_MARKER,
    LABELS,
    LOCK,
    META,
    OLD_SCHEMA,
    SCHEMA,
    WRITES,
)
from chronotile.format.names import format_name, parse_name, try_parse, version_of
from chronotile.format.timestamps import now_ms
from chronotile.history.read_history import read_history
from chronotile.safe_text import shell_word
from chronotile.storage.place import find_place
from chronotile.storage.processes import runs_here, this_process
from chronotile.visibility.rules import has_cell_times_by_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from chronotile.change.plan import Look
    from chronotile.change.replica_reading import LogReading
    from chronotile.check.findings import Finding
    from chronotile.format.groups import GroupEntry
    from chronotile.history.read_history import History
    from chronotile.storage.place import Place
    from chronotile.storage.store import Store

DIFFERS = "replica-differs"
"""The code of a finding that says where two places differ."""
_ARRAY_FOLDERS = (COMMITS, FRAGMENTS, FRAGMENT_META, LABELS, META, SCHEMA, ENUMERATIONS)
_GROUP_FOLDERS = (GROUP, META)
_LISTED_AGAIN = 64
"""Up to this many new fragments, each is listed again after it was copied."""
_PRUNED = (
    "files that the source no longer has are removed: an open of the target at that moment may "
    "fail once, as with any vacuum"
)
_AS_BEFORE = "what it saw before"
_AND_MORE = "what it saw before, and whole commits more"
_GONE = "the source no longer has it"


def plan_replicate(
    here: Store,
    there: Store,
    key: bytes | None = None,
    *,
    is_group: bool = False,
    prune: bool = False,
    tree: tuple[Place, Place] | None = None,
    gone: bool = False,
    check: bool = False,
) -> Plan:
    """Plan a round.

    Args:
        here: The source.
        there: The copy, or the place of nothing yet.
        key: The key of an encrypted source. It is needed only to rewrite a list of members, or to
            put a delete that matches no row in the place of one.
        is_group: Copy the own files of a group.
        prune: Remove what the source no longer has.
        tree: The places above both, if more is copied: members below them stay together.
        gone: The source itself is gone: prune all of the copy.
        check: Plan nothing; the findings are the files in which both differ.

    Raises:
        RefusedError: Somebody else wrote to the copy, or the source is damaged.
        ChangedError: The source changes; try again.
    """
    record = read_record(there)
    other = None if record is None else record.process
    if other != this_process() and runs_here(other) and not check:
        raise ChangedError(there.uri, OTHER_REPLICATOR)
    # The source comes last: what the copy has and the source has not is gone, and not yet to come.
    target = read_target(there, is_group=is_group)
    source = read_target(here, is_group=is_group) if gone else read_source(here, is_group=is_group)
    places = tree or (here.place, there.place)
    return _Round(source, target, record, key, is_group, prune, places, check).plan()


def hiding_path(folder: str, name: str) -> str:
    """Name the `.vac` that hides one file or fragment from every window that would see it."""
    parsed = parse_name(name)
    uuid = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    text = format_name(parsed.t1, parsed.t2, uuid, parsed.version)
    return f"{folder}/{text}.vac" if folder else f"{text}.vac"


@dataclass
class _Round:
    here: LogReading
    there: LogReading
    record: ReplicaRecord | None
    key: bytes | None = field(repr=False)
    is_group: bool
    prune: bool
    tree: tuple[Place, Place]
    check: bool
    notes: list[str] = field(default_factory=list)
    differences: list[tuple[str, str]] = field(default_factory=list)
    """Paths in which the two places differ, with words."""
    findings: list[Finding] = field(default_factory=list)
    """Differences that this round leaves."""
    stand_by: list[str] = field(default_factory=list)
    """Commits that the round puts beside those of the source."""
    left_out: set[str] = field(default_factory=set)
    """Fragments that are superseded, and no longer whole in the source."""

    def plan(self) -> Plan:
        others = self._written_by_others()
        if others and not self.check:
            self._refuse_others(others)
        fragments = self._fragments()
        schemas = (*self._copies(SCHEMA), *self._copies("", (OLD_SCHEMA, LOCK)))
        stages = [
            Stage(name="labels", seen=_AS_BEFORE, steps=tuple(self._copies(ENUMERATIONS))),
            Stage(name="schemas", seen=f"{_AS_BEFORE}; new columns are empty", steps=schemas),
            Stage(name="fragments", seen=_AS_BEFORE, steps=fragments),
            *self._commits(fragments),
            *self._log_of(META),
            *self._log_of(GROUP),
            Stage(name="marker", seen="a group", steps=tuple(self._copies("", (GROUP_MARKER,)))),
        ]
        taken_out = [*self._prune()] if self.prune else [self._take_out()]
        stages = [stage for stage in (*stages, *taken_out) if stage.steps or stage.folders]
        if self.check:
            way = self._way_back(others) if others else None
            parts = {part for path in others for part in (path, *_parts(path))}
            found = [
                self._differing(path, words, way if path in parts else None)
                for path, words in self.differences
            ]
            named = {path for path, _ in self.differences}
            words = "only in the target, which replicate did not make"
            words = words if self.record is None else "somebody else wrote it to the target"
            found += [
                self._differing(path, words, way)
                for path in others
                if named.isdisjoint((path, *_parts(path)))
            ]
            return Plan(command="replicate", array=self.there.store.uri, findings=tuple(found))
        if stages:
            stages = self._recorded(stages)
        removes = self.prune and any(s.op == "remove" for stage in stages for s in stage.steps)
        return Plan(
            command="replicate",
            array=self.there.store.uri,
            stages=tuple(stages),
            notes=tuple(self.notes),
            losses=(_PRUNED,) if removes else (),
            findings=tuple(self.findings),
        )

    def _recorded(self, stages: list[Stage]) -> list[Stage]:
        """Write down what is about to be put before the first stage, and what is there at the end.

        A stage that brings commits looks at the source first.
        """
        steps = [step for stage in stages for step in stage.steps]
        puts = [s.path for s in steps if s.op in ("put", "copy") and s.fragment_files is None]
        removed = {step.path for step in steps if step.op == "remove"}
        names = (self.there.log_files.keys() | set(puts)) - removed
        stand_ins = [s.path for s in steps if s.op == "replace" and s.path.endswith(CONDITIONS)]
        there, uri = self.there.log_files, self.here.store.uri
        old = self.record or ReplicaRecord(uri, 0, digest_of(there), len(there))
        old = old._replace(source=uri)
        begun = old._replace(
            begun=tuple(dict.fromkeys((*old.begun, *puts))),
            process=this_process(),
            stand_ins=tuple(
                path
                for path in dict.fromkeys((*old.stand_ins, *stand_ins))
                if path not in self.here.tiles
            ),
        )
        ended = begun._replace(
            digest=digest_of(names), names=len(names), begun=(), process=None, at_ms=0
        )
        folders = _GROUP_FOLDERS if self.is_group else _ARRAY_FOLDERS
        progress = _Progress(begun, ended, () if self.there.files else folders)
        begin = Stage(name="record", seen=_AS_BEFORE, looks=(progress.begin,))
        end = Stage(name="end", seen="what the source shows", looks=(progress.end,))
        owned = [replace(one, looks=(progress.look, *one.looks)) for one in stages]
        return [begin, *owned, end]

    # What the copy must not hold.

    def _written_by_others(self) -> list[str]:
        """List the files of the copy that somebody else has written."""
        mine, theirs = self.here.files, self.there.files
        other = [
            path
            for path, entry in theirs.items()
            if path in mine and path not in self.there.content and entry.size != mine[path].size
        ]
        if not other and not self._is_as_left():
            own = {*self.record.begun, *self.record.stand_ins} if self.record else set()
            other = [
                path
                for path, entry in self.there.log_files.items()
                if path not in mine
                and path not in own
                and not self._own_names(path)
                and (self.record is None or self._grew or self._is_new(entry.modified_ms))
            ]
        return sorted(other)

    def _refuse_others(self, others: list[str]) -> None:
        """Refuse a copy that somebody else has written to.

        Raises:
            RefusedError: Always, unless it is another replicator.
            ChangedError: Another replicator has written these files.
        """
        if read_record(self.there.store) != self.record:
            raise ChangedError(self.there.store.uri, OTHER_REPLICATOR)
        problem = f"it is not only a copy of {self.here.store.uri}: somebody else wrote"
        if self.record is None:
            problem = f"it is no copy of {self.here.store.uri} that replicate made: it alone has"
        problem += f" {shown(others)}; nothing was copied; {self._way_back(others)}"
        raise RefusedError(self.there.store.uri, problem)

    def _way_back(self, others: Collection[str]) -> str:
        """Say how to take back what somebody else wrote to the copy."""
        uri = shell_word(self.there.store.uri)
        for one in operations.tell_operations(self.there.store):
            is_ours = one["state"] == "done" and not one["group"]
            if is_ours and not set(others).isdisjoint((*one["put"], *one["added"])):
                return f"to take that back: chronotile undo {uri} {one['id']}"
        source = shell_word(self.here.store.uri)
        return f"to make another copy: chronotile replicate {source} NEW_TARGET"

    def _is_new(self, modified_ms: int | None) -> bool:
        assert self.record is not None
        return modified_ms is None or modified_ms >= self.record.at_ms - 1000

    @cached_property
    def _left(self) -> set[str]:
        """Files of the copy's log that a round which did not end has not put."""
        begun = self.record.begun if self.record else ()
        return self.there.log_files.keys() - set(begun)

    @property
    def _grew(self) -> bool:
        return self.record is not None and len(self._left) > self.record.names

    def _is_as_left(self) -> bool:
        return self.record is not None and digest_of(self._left) == self.record.digest

    def _own_names(self, path: str) -> list[str]:
        """Give the names that a file hides, if it is a `.vac` of ours."""
        folder = path.rpartition("/")[0]
        names = self.there.targets.get(path, ())
        return [n for n in names if try_parse(n) is not None and hiding_path(folder, n) == path]

    # What goes over.

    def _copies(self, folder: str, only: tuple[str, ...] = ()) -> Iterator[Step]:
        """Copy the files of a folder that the copy does not have."""
        for path in self.here.log_files:
            above, _, name = path.rpartition("/")
            if above == folder and (not only or name in only) and path not in self.there.files:
                yield self._bring(path)

    def _bring(self, path: str) -> Step:
        """Copy a file of the log, or write it from memory where its content is at hand."""
        self._differ(path, "only in the source")
        data = self._wanted.get(path)
        if data is None:
            size = self.here.files[path].size
            source = Source(self.here.store, {path: path}, {path: size}, link="copy")
        else:
            size, source = len(data), at_hand({path: data})
        return Step(op="copy", path=path, size=size, reason="new in the source", source=source)

    def _exchange(self, path: str, data: bytes, reason: str, words: str = "other content") -> Step:
        self._differ(path, words)
        old = self.there.content[path]
        return Step(
            op="replace", path=path, size=len(data), reason=reason, data=data, old=old, keep=False
        )

    def _differ(self, path: str, words: str) -> None:
        self.differences.append((path, words))

    def _leave(self, path: str, words: str) -> None:
        """Leave a file that only a removal can take out of the copy."""
        self._differ(path, words)
        self.findings.append(self._differing(path, words))

    def _differing(self, path: str, words: str, hint: str | None = None) -> Finding:
        """Make a finding on a file of the copy that is not as in the source."""
        source = shell_word(self.here.store.uri)
        if not self.here.files:
            places = " ".join(shell_word(place.uri) for place in self.tree)
            hint = f"to remove it: chronotile replicate {places} --prune"
        hint = hint or f"to bring it up to date: chronotile replicate {source} {{array}}"
        return finding(self.there.store.uri, DIFFERS, path, words, hint=hint)

    @cached_property
    def _history(self) -> History:
        return read_history(self.here.store, key=self.key)

    def _fragments(self) -> tuple[Step, ...]:
        """Copy the folders of committed fragments, or what is missing of them.

        Raises:
            ChangedError: A fragment that shows is not whole: somebody removes it just now, or the
                source is damaged.
        """
        hidden = self.here.hidden(COMMITS)
        steps, doubtful = {}, []
        for name in sorted(self.here.writes, key=_time_of):
            files = self.here.fragments.get(name, {})
            folder = fragment_of(next(iter(files), "")) or name
            is_whole = f"{folder}/{FRAGMENT_METADATA}" in files
            if not is_whole and name not in hidden:
                problem = f"expected the fragment {name}, found no metadata of it"
                hint = f"to look into it: chronotile check {shell_word(self.here.store.uri)}"
                raise ChangedError(self.here.store.uri, f"{problem}; {hint}")
            if not is_whole:
                self.left_out.add(name)
                continue
            if all(path in self.there.files for path in files):
                continue
            steps[name] = self._folder_step(name, folder)
            if name in hidden:
                doubtful.append(folder)
        if doubtful:
            # Somebody may be removing them: the engine removes their files before their commits.
            for folder, health in inspect(self.here.store, self._history, doubtful).items():
                if health.is_broken:
                    name = folder.rpartition("/")[2]
                    self.left_out.add(name)
                    del steps[name]
        return tuple(steps.values())

    def _folder_step(self, name: str, folder: str) -> Step:
        files = self.here.fragments[name]
        sizes = {path: entry.size for path, entry in files.items()}
        if name in self.here.implied:
            sizes.pop(f"{folder}/{FRAGMENT_METADATA}")  # it is the commit
        names = {path: path for path in sizes if path not in self.there.files}
        size = sum(sizes[path] or 0 for path in names)
        source = Source(self.here.store, names, sizes, link="copy")
        return Step(op="copy", path=folder, size=size, reason="new in the source", source=source)

    def _commits(self, fragments: tuple[Step, ...]) -> Iterator[Stage]:
        """Bring the commits, and hide what they replace."""
        here, there = self.here, self.there
        shown_there = there.writes - self._hidden_by_own(COMMITS)
        superseded = here.hidden(COMMITS)
        early: list[Step] = []
        commits: list[Step] = []
        late: list[Step] = []
        hide: list[Step] = []
        for name in sorted(here.implied - there.implied, key=_time_of):
            path = f"{name}/{FRAGMENT_METADATA}"
            commits.append(self._bring(path))
        for path in sorted(here.log_files, key=_path_time):
            above, _, file = path.rpartition("/")
            if above not in (COMMITS, "") or path in (OLD_SCHEMA, LOCK, GROUP_MARKER):
                continue
            data = here.content.get(path)
            if path in there.files:
                if data is not None and there.content[path] != data:
                    hide.append(self._exchange(path, data, "it has changed in the source"))
                continue
            name = file.rpartition(".")[0]
            if path.endswith(WRITES):
                if name not in self.left_out:
                    (late if name in superseded else commits).append(self._bring(path))
            elif path.endswith(".meta"):
                early.append(self._bring(path))
            elif path.endswith(".ign"):
                early += (*self._keep_in_sight(path, shown_there), self._bring(path))
            elif path.endswith(".vac"):
                is_veil = not (here.targets[path] & shown_there)
                (early if is_veil else hide).append(self._bring(path))
            elif path.endswith(".con") and self._lacks_a_fragment(path):
                commits += self._loose_commits(path)
                late.append(self._bring(path))
            else:
                commits.append(self._bring(path))

        def look(store: Store) -> None:  # noqa: ARG001 (the source is looked at)
            self._look_at_source([step.path for step in fragments])

        early = [*self._copies(FRAGMENT_META), *early]
        parts = (
            ("what hides nothing", early),
            ("commits", commits),
            ("hide", hide),
            ("rest", late),
        )
        looks: tuple[Look, ...] = (look,) if any(steps for _, steps in parts) else ()
        for name, steps in parts:
            if steps:
                yield Stage(name=name, seen=_AND_MORE, looks=looks, steps=tuple(steps))
                looks = ()

    def _look_at_source(self, folders: list[str]) -> None:
        """Look whether the source still has the commits of the reading, and what was copied.

        Raises:
            ChangedError: It has not: the round begins again.
        """
        source = self.here.store
        known = {f"{COMMITS}/{name}" for name in source.list_names(COMMITS).files}
        known |= set(source.list_names("").files)
        relied = [p for p in self.here.log_files if p.startswith(f"{COMMITS}/") or "/" not in p]
        gone = [path for path in relied if path not in known]
        for folder in folders if not gone and len(folders) <= _LISTED_AGAIN else ():
            names = set(source.list_names(folder).files)
            files = self.here.fragments[folder.rpartition("/")[2]]
            gone += [path for path in files if path.rpartition("/")[2] not in names]
        if gone:
            problem = "expected it to stay, found it gone: the source is changing; try again"
            raise ChangedError(source.uri_of(gone[0]), problem)

    def _keep_in_sight(self, path: str, shown_there: frozenset[str]) -> Iterator[Step]:
        """Commit what an `.ign` would take out of sight before its replacement is there."""
        for line in self.here.lines(path):
            name = line.rpartition("/")[2].rpartition(".")[0]
            if name in shown_there and name not in self.there.loose and line.endswith(WRITES):
                self.stand_by.append(line)
                yield put(line, b"", "stays in sight until its replacement is there")

    def _lacks_a_fragment(self, path: str) -> bool:
        """Tell whether a `.con` commits a fragment that the source no longer has, and hides."""
        uris = (uri for uri, _ in self.here.records[path] if uri not in self.here.ignored)
        return any(uri.rpartition("/")[2].rpartition(".")[0] in self.left_out for uri in uris)

    def _loose_commits(self, path: str) -> Iterator[Step]:
        """Commit the fragments of a `.con` one by one, so that the `.con` can wait for a `.vac`."""
        superseded = self.here.hidden(COMMITS)
        for uri, _ in self.here.records[path]:
            name = uri.rpartition("/")[2].rpartition(".")[0]
            if uri.endswith(WRITES) and name not in superseded | self.there.writes:
                self.stand_by.append(uri)
                yield put(uri, b"", f"shows before {path} does")

    # Files of metadata, and lists of members.

    def _log_of(self, folder: str) -> Iterator[Stage]:
        """Bring the files of a folder in which a `.vac` names files, then its `.vac`."""
        paths = (path for path in self.here.log_files if path.rpartition("/")[0] == folder)
        steps = []
        for path in sorted(paths, key=lambda path: path.endswith(".vac")):
            data = self._wanted.get(path)
            if path not in self.there.files:
                steps.append(self._bring(path))
            elif data is not None and not self._is_same(path, data):
                steps.append(self._exchange(path, data, "it has changed in the source"))
        yield Stage(name=folder, seen=f"{_AS_BEFORE}, and whole files more", steps=tuple(steps))

    @cached_property
    def _wanted(self) -> dict[str, bytes]:
        """The content that files get in the copy, of those whose content is at hand."""
        if not self.is_group:
            return dict(self.here.content)
        return {path: self._moved(path, data) for path, data in self.here.content.items()}

    def _moved(self, path: str, data: bytes) -> bytes:
        """Give a file of a group as it is in the copy: its URIs lead to the copy."""
        folder = path.rpartition("/")[0]
        if path.endswith(".vac"):
            start = self.here.store.place.uri_in_files(f"{folder}/")
            lines = self.here.lines(path)
            moved = [
                self._line(folder, vacuumed_name(line)) if line.startswith(start) else line
                for line in lines
            ]
            return encode_lines(moved) if moved != lines else data
        if folder != GROUP:
            return data
        where = self.here.store.uri_of(path)
        try:
            tile = tiles.decode(data, where, key=self.key)
        except (KeyNeededError, WrongKeyError):
            note = f"{path} is encrypted: members that it names by whole URIs lead to the source"
            self.notes.append(f"{note}; to let them lead to the copy, give {GIVE_KEY}")
            return data
        details = decode_details(tile.payload, where)
        entries = tuple(map(self._moved_entry, details.entries))
        if entries == details.entries:
            return data
        key = self.key if tile.encrypted else None
        return encode_details(
            entries, format_version=tile.version, key=key, version=details.version
        )

    def _moved_entry(self, entry: GroupEntry) -> GroupEntry:
        """Let a member that lies within be relative, and one beside it lead to its copy."""
        return moved_member(entry, self.here.store.place, self.tree)

    def _is_same(self, path: str, wanted: bytes) -> bool:
        stored = self.there.content[path]
        if stored == wanted or not path.startswith(f"{GROUP}/") or path.endswith(".vac"):
            return stored == wanted
        try:  # two encryptions of one list differ
            first, second = (
                decode_details(tiles.decode(data, path, key=self.key).payload, path)
                for data in (stored, wanted)
            )
        except ChronotileError:
            return False
        return first == second

    # What the source no longer has.

    def _line(self, folder: str, name: str) -> str:
        """Give the line of a `.vac` of the copy that hides a file or a fragment."""
        if self.is_group:
            return self.there.store.place.uri_in_files(f"{folder}/{name}")
        if folder != COMMITS:
            return f"/{folder}/{name}"
        return f"/{name}" if _is_in_root(name) else f"/{FRAGMENTS}/{name}"

    def _hidden_by_own(self, folder: str) -> set[str]:
        """Names that a `.vac` of ours hides."""
        return {name for path in self.there.vacs(folder) for name in self._own_names(path)}

    def _take_out(self) -> Stage:
        """Hide what the source no longer has, and show what it shows again."""
        steps = [*self._lines_that_hide(), *self._con_records(), *self._deletes()]
        gone = self.there.writes - self.here.writes - self._hidden_by_own(COMMITS)
        for name in sorted(gone, key=_time_of):
            if not self._is_covered(name):
                folder = "" if _is_in_root(name) else COMMITS
                steps.append(self._hide(folder, name, self._line(COMMITS, name)))
        for folder in (META, GROUP):
            names = {
                path.rpartition("/")[2]
                for path in self.there.log_files.keys() - self.here.log_files.keys()
                if path.startswith(f"{folder}/") and not path.endswith(".vac")
            }
            names = {name for name in names if try_parse(name) is not None}
            for name in sorted(names - self._hidden_by_own(folder)):
                steps.append(self._hide(folder, name, self._line(folder, name)))  # noqa: PERF401
        for path in self.there.log_files.keys() - self.here.log_files.keys():
            if path.startswith((f"{SCHEMA}/", OLD_SCHEMA)) and self.here.log_files:
                self._leave(path, f"only in the target; to remove it, add {option('prune')}")
        return Stage(name="take out", seen="what the source shows, or more", steps=tuple(steps))

    def _hide(self, folder: str, name: str, line: str) -> Step:
        path, reason = hiding_path(folder, name), f"hides {name}: {_GONE}"
        if path in self.there.content:
            data = encode_exchanged([line], self.there.content[path])
            return self._exchange(path, data, reason)
        self._differ(name, "only in the target")
        return put(path, encode_lines([line]), reason)

    def _is_covered(self, name: str) -> bool:
        """Tell whether a `.vac` of the source hides a fragment from every window that sees it."""
        one = parse_name(name)
        for path, names in self.there.targets.items():
            if name not in names:
                continue
            vac = try_parse(path.rpartition("/")[2].rpartition(".")[0])
            if vac is None or not vac.t1 <= one.t1 <= one.t2 <= vac.t2:
                continue
            try:
                dense = self._history.dense
            except ChronotileError:
                return False
            if all(has_cell_times_by_name(item, dense=dense) for item in (vac, one)):
                return True
        return False

    def _lines_that_hide(self) -> Iterator[Step]:
        """Take lines out of `.vac` and `.ign` files of the copy alone that hide what shows."""
        plain = {path.rpartition("/")[2] for path in self.here.log_files}
        for path in self.there.content:
            if path in self.here.files or not path.endswith((".vac", ".ign")):
                continue
            is_of_commits = path.rpartition("/")[0] in (COMMITS, "")
            seen = self.here.writes if is_of_commits else plain
            lines = self.there.lines(path)
            left = [one for one in lines if _named(one) not in seen]
            if left != lines:
                own = [f"/{FRAGMENTS}/{path.rpartition('/')[2].rpartition('.')[0]}"]
                data = encode_exchanged(left or own, self.there.content[path])
                yield self._exchange(path, data, "it hides what the source shows")

    def _con_records(self) -> Iterator[Step]:
        """Take deletes that the source took out, out of `.con` files of the copy alone."""
        for path, records in self.there.records.items():
            if path in self.here.files:
                continue
            left = [
                ConRecord(uri, tile)
                for uri, tile in records
                if tile is None or tile in self.here.tiles.get(uri, ())
            ]
            if len(left) < len(records):
                data = b"".join(map(encode_record, left)) or b"__commits/none\n"
                yield self._exchange(path, data, "it holds a delete that the source took out")

    def _deletes(self) -> Iterator[Step]:
        """Let deletes that the source took out match no row."""
        stand_ins = set(self.record.stand_ins) if self.record else set()
        for path, data in self.there.content.items():
            if not path.endswith(CONDITIONS) or path in self.here.files:
                continue
            wanted = self.here.tiles.get(path)
            if wanted is not None:
                if data not in wanted:
                    yield self._exchange(path, min(wanted), "it has changed in the source")
            elif not self.here.files:
                self._leave(path, "only in the target")
            elif path not in stand_ins:
                try:
                    made = harmless_tiles(
                        self._history, sealing_key(self.here.store, self._history)
                    )
                except KeyNeededError:
                    made = {}
                if path[-4:] in made:
                    reason = "matches no row: the source took the delete out"
                    data = made[path[-4:]]
                    yield self._exchange(path, data, reason, "only in the target")
                else:
                    words = "only in the target, and hides rows; to let it match no row, give "
                    words += f"{GIVE_KEY}; to remove it, add {option('prune')}"
                    self._leave(path, words)

    def _prune(self) -> Iterator[Stage]:
        """Remove what the source no longer has: commits, then what hides, then what they name."""
        mine, theirs = self.here.files, self.there.files
        gone = {path: entry.size for path, entry in theirs.items() if path not in mine}
        gone |= dict.fromkeys((path for path in self.stand_by if path not in mine), 0)
        folders = {
            folder
            for path in gone
            if (folder := fragment_of(path))
            and folder.rpartition("/")[2] not in self.here.fragments
        }
        if not mine:
            folders |= {*(_GROUP_FOLDERS if self.is_group else _ARRAY_FOLDERS)}
        parts: tuple[list[str], ...] = ([], [], [])
        for path in sorted(gone):
            if is_log_file(path):
                parts[_rank(path)].append(path)
                self._differ(path, "only in the target")
            elif fragment_of(path) in folders:
                parts[-1].append(path)
        for paths in parts:
            yield Stage(
                name="prune",
                seen="what the source shows",
                steps=tuple(
                    Step(op="remove", path=path, size=gone[path], reason=_GONE) for path in paths
                ),
                folders=tuple(sorted(folders)) if paths is parts[-1] else (),
            )


@dataclass(slots=True)
class _Progress:
    """The record of a round, as it begins and as it ends."""

    begun: ReplicaRecord
    ended: ReplicaRecord
    folders: tuple[str, ...]
    """Folders that the engine expects in a new place on a disk, even if they are empty."""

    def begin(self, store: Store) -> None:
        """Write down what is about to be put."""
        if self.folders:
            for path in ("", *self.folders):
                store.make_folder(path)
        self.begun = write_record(store, self.begun.raw, self.begun)

    def look(self, store: Store) -> None:
        """Look whether another replicator has begun.

        Raises:
            ChangedError: One has, on another machine: it goes on from here.
        """
        record = read_record(store)
        if record is None or record.raw != self.begun.raw:
            raise ChangedError(store.uri, OTHER_REPLICATOR)

    def end(self, store: Store) -> None:
        """Write down what is there."""
        write_record(store, self.begun.raw, self.ended._replace(at_ms=now_ms()))


def moved_member(entry: GroupEntry, group: Place, tree: tuple[Place, Place]) -> GroupEntry:
    """Give a member of a group that was copied: relative if it lies within the group.

    Args:
        entry: The member.
        group: The group that was copied.
        tree: A place above the group, and the place that it was copied to.
    """
    if entry.is_relative:
        return entry
    try:
        place = find_place(entry.uri)
    except StorageError:
        return entry
    if place.is_below(group) and place != group:
        path = place.root[len(group.root) :].strip("/")
        return entry._replace(uri=path, is_relative=True)
    if place.is_below(tree[0]) and place != tree[0]:
        path = place.root[len(tree[0].root) :].strip("/")
        return entry._replace(uri=tree[1].child(path).uri_in_files(""))
    return entry


def _named(line: str) -> str:
    """Name what a line of a `.vac` or `.ign` hides."""
    name = vacuumed_name(line)
    return name.removesuffix(".wrt").removesuffix(".ok")


def _parts(path: str) -> list[str]:
    """Give the names in a path, without the extension of a file."""
    return [*path.split("/"), path.rpartition("/")[2].rpartition(".")[0]]


def _is_in_root(name: str) -> bool:
    return version_of(parse_name(name)) < FIRST_WITH_COMMITS


def _time_of(name: str) -> tuple[int, int, str]:
    parsed = try_parse(name)
    return (0, 0, name) if parsed is None else (parsed.t2, parsed.t1, name)


def _path_time(path: str) -> tuple[int, int, str]:
    return _time_of(path.rpartition("/")[2].rpartition(".")[0])


def _rank(path: str) -> int:
    if path.startswith((f"{COMMITS}/", f"{META}/", f"{GROUP}/")) or "/" not in path:
        if path.endswith((".vac", ".ign")):
            return 1
        return 0 if path != OLD_SCHEMA else 2
    return 2
