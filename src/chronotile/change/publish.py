"""Publish: the fragments of staging arrays become visible in another array in one step.

In: staging arrays, and a target of the same schema. Out: the target with their fragments, and a
report. Leaves the staging arrays as they are.

The fragments' folders go first, as links or copies: no commit names them yet. Then one `.con`
commits all of them: an open sees none of them or all. A staging array must be sound, which `check`
says first, and must have no delete or update in force: in the target it would hit other rows too.
A delete of the target that is later than a staged fragment would hide rows of it: that is refused,
unless the caller allows it.

A copy with a time of its own has a uuid that comes from the name of its source. So a second run, of
a command that was killed or that was done, knows the fragments that are in the target already, and
leaves them out. What was there and is out of sight now is published again only if the caller says
so: nobody can tell whether its rows live on in a merged fragment. Just before the `.con` is put,
the target's commits are looked at once more: another run may have been faster.

A fragment names its schema by the file. If the target has no file of that name, it gets it from the
staging array, unless a window would then see another schema than before. Schemas are compared by
what they say: `tiledb.Array.create(staging, target.schema)` makes a file of another name.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.consolidate import plan_commits
from chronotile.change.past_state import Past, PastState, refuse_newer, refuse_old, sum_cells
from chronotile.change.plan import Plan, Stage, Step, put
from chronotile.change.sound_array import damaged, sound_history
from chronotile.change.transition import Effect, Holds, con_step, copy_step
from chronotile.change.unneeded_deletes import removes_nothing
from chronotile.check.check_array import check
from chronotile.check.conditions import text_or_name
from chronotile.check.findings import RefusedError, WrongPlaceError, count_text
from chronotile.check.tags import moment_in
from chronotile.conditions.side_effects import also_removes
from chronotile.errors import ChangedError, ChronotileError, option
from chronotile.format import tiles
from chronotile.format.commit_files import decode_con, write_uri
from chronotile.format.fragment_footer import read_head
from chronotile.format.kinds import COMMITS, CONDITIONS, ENUMERATIONS, SCHEMA
from chronotile.format.names import (
    MAX_TIMESTAMP,
    Name,
    format_name,
    parse_name,
    time_order,
    try_parse,
)
from chronotile.format.schema import more_content
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.read_footers import FooterReader
from chronotile.history.read_history import SchemaFile, read_history
from chronotile.safe_text import shell_word
from chronotile.storage.store import Store, open_store
from chronotile.visibility.rules import Rules, schema_at
from chronotile.visibility.view import Update, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chronotile.change.past_state import PastFragment
    from chronotile.format.schema import Enumeration
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.visibility.view import Delete


def plan_publish(
    store: Store,
    key: bytes | None,
    *,
    staging: Sequence[str],
    at: Moment | None = None,
    again: bool = False,
    allow_hidden: bool = False,
) -> Plan:
    """Plan to make all fragments of staging arrays visible, in one step; see `Handle.publish`."""
    if not staging:
        raise ChronotileError(store.uri, "expected staging arrays, found none")
    command = f"chronotile publish {' '.join(map(shell_word, (*staging, store.uri)))}"
    load = Load(store, key, Wish(command, "--at now", again=again, allow_hidden=allow_hidden))
    for place in staging:
        load.add(open_store(place, dict(store.options)))
    return load.plan(None if at is None else moment_in(store, load.history, at))


class _Staged(NamedTuple):
    """A fragment of a staging array."""

    store: Store
    part: PastFragment
    name: Name
    """The name that it gets in the target."""


class Wish(NamedTuple):
    """The options of the caller, besides times."""

    command: str
    """The command without options, for hints."""
    from_now: str
    """The options with which all of it shows from now on."""
    again: bool
    allow_hidden: bool


class Load:
    """The fragments that are about to be published in one array.

    Raises:
        RefusedError: The array is damaged.
    """

    def __init__(self, store: Store, key: bytes | None, wish: Wish) -> None:
        history, _ = sound_history(store, key)
        if history.listing.enumerations:
            history = read_history(store, key=key, labels=True)
        self.store, self.history, self.key = store, history, key
        self.rules, self.wish = Rules(history), wish
        self.staged: dict[str, _Staged] = {}
        self.puts: dict[str, Step] = {}
        latest = schema_at(history, MAX_TIMESTAMP)
        assert latest is not None  # a listing without a schema is no array
        self.wanted = self._content(store, history, latest.path)

    def add(self, source: Store) -> None:
        """Take the visible fragments of a staging array.

        Raises:
            RefusedError: They cannot be published.
        """
        if source.uri == self.store.uri:
            raise WrongPlaceError(source.uri, "the staging array is the target itself")
        history = read_history(source, key=self.key, labels=True)
        rules = Rules(history)
        # TileDB leaves labels out of an array that it makes from another's schema: the target has
        # them.
        found = (one for one in check(history, rules, source) if one.code != "enumeration-missing")
        wrong = [item for item in found if item.severity == "error"]
        if wrong:
            raise damaged(source.uri, tuple(wrong))
        state = Past(source, rules).now()
        refuse_newer(source.uri, state.parts)
        names = [part.name.text for part in state.parts]
        self._take_schemas(source, history, names)  # first: deletes do not matter if these differ
        _refuse_conditions(source, rules, state)
        refuse_old(source.uri, state.parts)
        for part in state.parts:
            if part.name.text in self.staged:
                problem = f"expected every fragment once, found {part.name.text} twice"
                raise RefusedError(source.uri, problem)
            self.staged[part.name.text] = _Staged(source, part, part.name)

    def _take_schemas(self, source: Store, history: History, names: list[str]) -> None:
        files: set[str] = set()
        for name, raw in FooterReader(source, history).read_raw(names):
            if isinstance(raw, ChronotileError):
                raise raw
            files.add(read_head(raw.raw, name).schema_name or "")
        there = {item.text for item in self.history.schemas}
        for file in sorted(files):
            path = f"{SCHEMA}/{file}"
            if self._content(source, history, path) != self.wanted:
                raise RefusedError(source.uri, self._other_schema(history, path))
            if file not in there:
                self._refuse_other_past(source, file)
                schema = next(item.schema for item in history.schemas if item.path == path)
                for _, label in () if schema is None else schema.enumeration_files:
                    where = f"{ENUMERATIONS}/{label}"
                    if where not in self.history.listing.enumerations:
                        reason = "labels of the staged fragments"
                        self.puts[where] = put(where, source.read(where), reason)
                self.puts[path] = put(path, source.read(path), "the schema of staged fragments")

    def _other_schema(self, history: History, path: str) -> str:
        """Say that a schema of a staging array is not that of the target, and how they differ."""
        latest = schema_at(self.history, MAX_TIMESTAMP)
        theirs = next((item.schema for item in history.schemas if item.path == path), None)
        ours = None if latest is None else latest.schema
        names = [
            [] if one is None else [field.name for field in one.fields] for one in (theirs, ours)
        ]
        detail = ""
        if names[0] != names[1]:
            here, there = map(", ".join, names)
            detail = f"; their fields are {here}; those of the target are {there}"
        return (
            f"it has fragments of the schema {path}, which is not that of {self.store.uri}; "
            f"nothing was changed{detail}"
        )

    def _content(self, store: Store, history: History, path: str) -> tuple[object, ...]:
        """Give the content of a schema without the names of its file and of its enumerations.

        An array that the engine made from the target's schema may lack the files of enumerations:
        it names those of the target.
        """
        schema = next((item.schema for item in history.schemas if item.path == path), None)
        if schema is None:
            raise RefusedError(store.uri, f"expected a readable schema, found {path}")
        labels = _labels(self.history) | _labels(history)
        own = [labels[file] for _, file in schema.enumeration_files if file in labels]
        named = replace(schema.with_enumerations(own), file=None, enumeration_files=())
        payload = tiles.decode(store.read(path), path, key=history.key).payload
        return named, more_content(payload, path)

    def _refuse_other_past(self, source: Store, file: str) -> None:
        """Refuse a schema that a window would see in place of one that says something else."""
        new = SchemaFile(path=f"{SCHEMA}/{file}", name=try_parse(file), schema=None)
        listed = sorted((*self.history.schemas, new), key=lambda one: (bool(one.name), one.text))
        after = replace(self.history, schemas=tuple(listed))
        for end in {0, *(one.name.t2 for one in listed if one.name is not None)}:
            before = schema_at(self.history, end)
            assert before is not None  # a listing without a schema is no array
            is_seen = schema_at(after, end) is new
            if is_seen and self._content(self.store, self.history, before.path) != self.wanted:
                problem = f"expected a schema that is later than the target's, found {file}"
                clone = f"chronotile clone {shell_word(self.store.uri)} staging --start now"
                hint = f"to make one that fits: {clone}"
                raise RefusedError(source.uri, f"{problem}; {hint}")

    def plan(self, at: int | None) -> Plan:
        """Plan the change.

        Args:
            at: The moment that the first fragment gets; None if all keep their own.

        Raises:
            RefusedError: A fragment cannot get another time, a later delete would hide rows of it,
                or it was in the target and is out of sight.
        """
        copies = self._copies(at)
        notes = [*self._notes(copies, at)] if self.staged else ["nothing is staged"]
        writes = tuple(write_uri(one.name.text) for one in copies)
        stages: tuple[Stage, ...] = ()
        if copies:
            none = "nothing of the load"
            commits = plan_commits(self.history)
            steps = tuple(
                copy_step(one.store, self.store, one.part.folder, one.name.text) for one in copies
            )
            switch = con_step(self.history, commits, list(writes), {})
            look = partial(self._refuse_changed, copies)
            shows = {step.path: step.source.sizes for step in steps if step.source is not None}
            # A vacuum that takes copies for orphans looks at the commits once more before they go
            # for good; we look at the copies before and after the commit. One sees the other.
            holds = Holds(self.history, frozenset(), writes, shows, Effect())
            stages = (
                *commits.stages(self.history),
                Stage(name="copies", seen=none, steps=(*steps, *self.puts.values())),
                Stage(name="commit", seen="all of the load", looks=(look, holds), steps=(switch,)),
                Stage(
                    name="confirm",
                    seen="all of the load",
                    looks=(replace(holds, taken_back=switch),),
                ),
            )
        # What a delete hides of them, only the engine could tell.
        is_known = not any(self._hidden(copies))
        cells = sum_cells(one.part for one in copies) if is_known else None
        return Plan(
            command="publish",
            array=self.store.uri,
            stages=stages,
            notes=tuple(notes),
            added=writes,
            rows={"published": cells} if cells else {},
        )

    def _copies(self, at: int | None) -> list[_Staged]:
        """Name the fragments that are not in the target yet, in their order."""
        staged = sorted(self.staged.items(), key=lambda item: time_order(item[1].part.name))
        ignored = map(_stem, self.history.table.ignores)
        traces = {} if self.wish.again else self._traces(self._committed.union(ignored))
        copies: list[_Staged] = []
        for number, (text, one) in enumerate(staged):
            if any(map(self._is_shown, traces.get(text, ()))):
                continue
            self._refuse_unseen(text, traces.get(text, ()))
            if at is not None and one.part.cells_timed:
                problem = f"{text} cannot get another time: its cells keep their own"
                raise RefusedError(one.store.uri, problem)
            name = one.part.name if at is None else self._named(one.part.name, at + number)
            if name.text in self._committed or write_uri(name.text) in self.history.table.ignores:
                problem = f"the fragment {name.text} is or was there already; nothing was changed"
                way = f"to publish its rows under another time, add {option('at', 'TIME')}"
                raise RefusedError(self.store.uri, f"{problem}; {way}")
            copies.append(one._replace(name=name))
        self._refuse_hidden(copies)
        return copies

    def _refuse_changed(self, copies: list[_Staged], store: Store) -> None:
        """Look at the target once more, just before the copies are committed.

        Raises:
            ChangedError: Another run has committed them, a delete has come that hides rows, or a
                vacuum has removed a copy.
        """
        names = set(store.list_names(COMMITS).files) - set(self.history.listing.commits)
        uris = [f"{COMMITS}/{name}" for name in sorted(names)]
        for path, data in store.read_many([uri for uri in uris if uri.endswith(".con")]):
            if isinstance(data, ChronotileError):
                raise data
            uris += [record.uri for record in decode_con(data, path)]
        table = self.history.table
        known = {table.uri(row) for row in range(len(table))}
        fresh = {_stem(uri): uri for uri in uris if uri not in known}
        traces = {} if self.wish.again else self._traces(fresh)
        unwanted = [name for one in copies for name in traces.get(one.part.name.text, ())]
        first = min(one.name.t1 for one in copies)
        for text, uri in fresh.items() if not self.wish.allow_hidden else ():
            name = try_parse(text)
            if uri.endswith(CONDITIONS) and name is not None and name.t2 >= first:
                unwanted.append(text)
        for text in unwanted:
            problem = f"expected that nobody else publishes this or deletes, found {text}"
            raise ChangedError(store.uri, f"{problem}; try again")

    def _named(self, source: Name, at: int) -> Name:
        """Name a copy, so that a second run knows it again; short ids differ all the same."""
        head = secrets.token_hex(8) if self.wish.again else _half(f"{source.text} {at}")
        return parse_name(format_name(at, at, head + _half(source.text), source.version))

    @cached_property
    def _committed(self) -> frozenset[str]:
        """The names of all writes of the target."""
        table = self.history.table
        return frozenset(table.name(row) for row in self.rules.fragment_rows.tolist())

    @cached_property
    def _visible(self) -> frozenset[str]:
        table = self.history.table
        return frozenset(map(table.name, self.rules.visible(0, MAX_TIMESTAMP)[0].tolist()))

    def _traces(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Find the names, among some of the target, of each staged fragment and its copies."""
        sources = {key: text for text in self.staged for key in (text, _half(text))}
        found: dict[str, list[str]] = {}
        for text in names:
            # In a name of any era the uuid is the part of 32 digits.
            halves = (word[16:] for word in text.split("_") if len(word) == 32)
            source = next((sources[key] for key in (text, *halves) if key in sources), None)
            if source is not None:
                found.setdefault(source, []).append(text)
        return found

    def _is_shown(self, text: str) -> bool:
        """Tell whether a fragment of the target, or one that was merged from it, is visible."""
        waiting, seen = [text], {text}
        while waiting:
            name = waiting.pop()
            if name in self._visible:
                return True
            merged = self._merged_into.get(name, set()) & self._committed
            waiting += merged - seen
            seen |= merged
        return False

    @cached_property
    def _merged_into(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for vacuum in self.history.vacuums:
            for target in vacuum.targets:
                found.setdefault(target, set()).add(vacuum.name.text)
        return found

    def _refuse_unseen(self, source: str, traces: Sequence[str]) -> None:
        """Refuse a fragment that was in the target: its rows may live on, or may be gone."""
        for text in traces:
            problem = (
                f"expected a fragment that was never in the target, found {source}: "
                f"it was there as {text}, and was merged, removed or hidden since"
            )
            way = " ".join(filter(None, (self.wish.command, self.wish.from_now, "--again")))
            raise RefusedError(self.store.uri, f"{problem}; to show its rows once more: {way}")

    def _refuse_hidden(self, copies: list[_Staged]) -> None:
        """Refuse if a delete of the target would hide rows, unless that is allowed."""
        found = [] if self.wish.allow_hidden else list(self._hidden(copies))
        if not found:
            return
        delete, hidden = max(found, key=lambda pair: pair[0].t2)
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        what, how_many = _told(delete), _counted(hidden)
        problem = f"{what}{others} would hide {how_many}"
        is_ahead = delete.t2 >= now_ms()
        options = f"--at {delete.t2 + 1}" if is_ahead else self.wish.from_now
        ways = [f"to show all of it: {self.wish.command} {options}".rstrip()]
        if any(one.part.cells_timed for one in copies):
            ways = []  # they cannot get another time
        ways.append(f"to publish them hidden, add {option('allow_hidden')}")
        raise RefusedError(self.store.uri, f"{problem}; {'; '.join(ways)}")

    def _hidden(self, copies: list[_Staged]) -> Iterator[tuple[Delete, list[_Staged]]]:
        """Find the deletes and updates of the target that may hide rows of copies, with these."""
        view = View(self.rules, 0, MAX_TIMESTAMP)
        # The engine does not see an update in a `.con`.
        for one in (*view.deletes, *(update for update in view.updates if not update.offset)):
            hidden = [copy for copy in copies if copy.name.t1 <= one.t2]
            if hidden and not removes_nothing(one):
                yield one, hidden

    def _notes(self, copies: list[_Staged], at: int | None) -> Iterator[str]:
        if copies:
            arrays = count_text(len({one.store.uri for one in copies}), "staging array")
            cells = sum_cells(one.part for one in copies)
            words = "" if cells is None else f" with {count_text(cells, 'cell')}"
            when = "with their own times" if at is None else f"from {at} ({time_text(at)}) on"
            yield f"{count_text(len(copies), 'fragment')}{words} of {arrays}, {when}"
            yield "metadata of staging arrays is not published"
        there = len(self.staged) - len(copies)
        if there:
            verb = "is" if there == 1 else "are"
            yield f"{count_text(there, 'staged fragment')} {verb} already there"
        for delete, hidden in self._hidden(copies):
            yield f"{_told(delete)} is later: {_counted(hidden)} stay out of sight"
        table = self.history.table
        taken = {*table.uris.t1.tolist(), *table.uris.t2.tolist()}
        for one in copies:
            if taken & {one.name.t1, one.name.t2}:
                text = one.name.text
                yield f"{text} has the time of another commit: their order is not defined"


def _stem(uri: str) -> str:
    return uri.rpartition("/")[2].rpartition(".")[0]


def _half(text: str) -> str:
    """Derive half a uuid from a text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _refuse_conditions(source: Store, rules: Rules, state: PastState) -> None:
    """Refuse a staging array whose deletes and updates are not yet part of its fragments.

    A fragment that a purge has taken the deleted cells out of no longer needs the delete.

    Raises:
        RefusedError: A delete or an update is in force, or a fragment still keeps deleted cells.
    """
    place, deletes = shell_word(source.uri), View(rules, 0, MAX_TIMESTAMP).deletes
    known = {one.name: one for one in deletes}
    for_good = "nothing was changed; to remove the deleted rows for good, which cannot be undone"
    for item in state.updates:
        problem = f"the update {item.name.text} is in force, and would hide rows of the target"
        hint = f"nothing was changed; to write its rows: chronotile apply {place}"
        raise RefusedError(source.uri, f"{problem}; {hint}")
    for item in state.deletes:
        problem = f"the delete {item.name.text} is in force, and would hide rows of the target"
        way = f"chronotile erase {place} --where {shell_word(text_or_name(known[item.name.text]))}"
        if _hits_null(known[item.name.text]):  # an erasure refuses to
            way = f"chronotile compact {place} --purge --vacuum"
            way += f"; then, a day later: chronotile vacuum {place} --deletes"
        raise RefusedError(source.uri, f"{problem}; {for_good}: {way}")
    for part in state.parts:
        if part.keeps_deleted:
            problem = f"the fragment {part.name.text} keeps rows that {part.applied[0]} deleted"
            purge = f"once they are 10 minutes old: chronotile compact {place} --purge"
            raise RefusedError(source.uri, f"{problem}; {for_good}, {purge}")


def _hits_null(delete: Delete) -> bool:
    """Tell if a delete also removes rows that its author did not name, such as with NULL."""
    try:
        return delete.schema is not None and bool(also_removes(delete.stored, delete.schema))
    except ChronotileError:
        return False


def _told(delete: Delete) -> str:
    kind = "update" if isinstance(delete, Update) else "delete"
    when = f"{delete.t2} ({time_text(delete.t2)})"
    return f"the {kind} {delete.name} of {when}, {text_or_name(delete)!r:.120}"


def _counted(hidden: list[_Staged]) -> str:
    """Count the rows that a delete may hide: no more than the fragments have."""
    cells = sum_cells(one.part for one in hidden)
    rows = "rows" if cells is None else f"up to {count_text(cells, 'row')}"
    return f"{rows} in {count_text(len(hidden), 'fragment')}"


def _labels(history: History) -> dict[str, Enumeration]:
    """Read the labels of an array's enumerations, by file."""
    return {
        file: field.enumeration
        for item in history.schemas
        if item.schema is not None
        for name, file in item.schema.enumeration_files
        for field in item.schema.attributes
        if field.enumeration_name == name and field.enumeration is not None
    }
