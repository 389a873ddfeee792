"""The commands that look: `visible`, `explain`, `fragments`, `members`, `moments`.

In: an array or a group, and mostly a window. Out: what an open sees and why, what each fragment
holds, what a group holds and when all of it can be read. Of a group, one report with a part for
each array; one that cannot be read stops no other. Changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from chronotile.cli.options import (
    PlaceType,
    access_options,
    array_argument,
    command,
    completed_as,
    flag,
    member_option,
    moments_of_group,
    read_log,
    reporting,
    say,
    say_gap,
    time_option,
    window_options,
)
from chronotile.errors import ChronotileError, ReadError, WrongCallError
from chronotile.format.names import is_newer
from chronotile.format.timestamps import Ends, now_ms, span_text, time_text
from chronotile.safe_text import shell_word
from chronotile.show.output import (
    Answer,
    Text,
    count_text,
    place_text,
    plain_table,
    progress,
    size_text,
    window_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from rich.console import RenderableType

    from chronotile.array import Array
    from chronotile.cli.options import Access
    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.moments import WholeState
    from chronotile.dataset.open_dataset import MemberRow
    from chronotile.group import Group
    from chronotile.log import Log
    from chronotile.show.explain_words import Advice
    from chronotile.visibility.explanation import Explanation
    from chronotile.visibility.view import Delete, View


class MemberAnswer(NamedTuple):
    """One member of a group, and what a command says of it."""

    node: Node
    answer: Answer | None = None
    """None for a group, and for what could not be read."""
    error: ChronotileError | None = None

    @property
    def status(self) -> int:
        """3 if it could not be read, else what the command says."""
        if self.error is not None or self.node.found == "unreadable":
            return ReadError.exit_code
        return 0 if self.answer is None else self.answer.status


def _members_json(group: str, parts: Sequence[MemberAnswer]) -> dict[str, Any]:
    """Give one object for each member; `report` is what the command says of an array."""
    members = [
        {
            "member": part.node.path,
            "found": part.node.found,
            "array": part.node.uri,
            "report": None if part.answer is None else part.answer.to_json(),
            "error": None if part.error is None else part.error.to_dict(),
        }
        for part in parts
    ]
    return {"group": group, "members": members}


def _members_text(group: str, parts: Sequence[MemberAnswer]) -> Iterator[RenderableType]:
    """Give one part after the other, each below the path of its member."""
    kinds = Counter(part.node.found for part in parts)
    words = f"{count_text(len(parts), 'member')}: " if parts else "no members"
    words += ", ".join(
        count_text(count, kind) if kind in ("array", "group") else f"{count:,} {kind}"
        for kind, count in sorted(kinds.items())
    )
    yield Text(f"{place_text(group)}: {words}", "bold")
    for node, answer, error in parts:
        if answer is None and error is None and node.found == "group":
            continue
        yield ""
        yield Text(f"── {node.path} ──", "bold cyan")
        if error is not None:
            yield Text(f"it cannot be read: {error}", "red")
        elif answer is None:
            yield Text(f"{node.found}: {node.problem}", "yellow")
        else:
            yield from answer.text


def each_array(
    place: Array | Group,
    answer: Callable[[Array], Answer],
    *,
    member: str | None = None,
    end: Any = None,
) -> Answer:
    """Answer for an array; of a group, for every array that is a member at a moment.

    Args:
        place: The array, or the group.
        answer: Answers for one array.
        member: Of a group: only members whose path fits this pattern.
        end: Of a group: the moment; now, if it is left out.
    """
    from chronotile.array import Array

    if isinstance(place, Array):
        return answer(place)
    nodes = place.nodes(member, end)
    parts: list[MemberAnswer] = []
    absent: list[WrongCallError] = []
    with progress("reading members", sum(node.found == "array" for node in nodes)) as step:
        for node in nodes:
            if node.found != "array" or node.store is None:
                parts.append(MemberAnswer(node))
                continue
            try:
                parts.append(MemberAnswer(node, answer(Array(node.store, place.key))))
            except WrongCallError as error:  # what is asked for is not in this member
                absent.append(error)
            except ChronotileError as error:
                parts.append(MemberAnswer(node, error=error))
            step()
    if absent and not any(part.answer for part in parts):
        raise absent[0]
    if (words := place.dataset.absence(end)) is not None:
        say(f"note: {words}")
    uri, status = place.uri, max((part.status for part in parts), default=0)
    return Answer(lambda: _members_json(uri, parts), _members_text(uri, parts), status)


SHOWN = 1000
"""Rows that a table shows; --json has all."""


Facts: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""Name of a visible fragment -> what it holds, if that was asked for."""


def _opened(view: View, reasons: Iterable[str]) -> Iterator[RenderableType]:
    """Give the array and the window; first of all, why an open of it fails."""
    from chronotile.show.explain_words import NO_KEY, lacks_key

    yield from (Text(words, "bold red") for words in reasons)
    place = place_text(view.history.array)
    yield Text(f"{place}, opened at {window_text(view.start, view.end)}", "bold")
    if lacks_key(view.history):
        yield Text(NO_KEY, "red")


def _visible_json(view: View, facts: Facts | None) -> dict[str, Any]:
    """Give the form of `View.to_dict`, with cells and bytes of each fragment if asked for."""
    document = view.to_dict()
    if facts is not None:
        document["fragments"] = [
            one | {name: facts[one["name"]][name] for name in ("cells", "bytes")}
            for one in document["fragments"]
        ]
    return document


def _visible_text(view: View, facts: Facts | None) -> Iterator[RenderableType]:
    """Give the window, then a table of each kind."""
    from chronotile.check.conditions import failures
    from chronotile.show.explain_words import lacks_key

    reasons = [*failures(view)]
    be = "would be " if reasons else ""
    yield from _opened(view, reasons)
    yield f"schema {view.schema or 'none'}"
    yield ""
    yield Text(f"{count_text(len(view.fragments), 'fragment')} {be}visible", "bold green")
    if len(view.fragments):
        yield _fragment_table(view, facts)
    for kind, commits in (("delete", view.deletes), ("update", view.updates)):
        damaged = () if lacks_key(view.history) else [one for one in commits if one.is_damaged]
        names = {one.name for one in damaged}
        whole = [one for one in commits if one.name not in names] if names else commits
        unseen = [one for one in whole if kind == "update" and one.offset]
        whole = [one for one in whole if one not in unseen] if unseen else whole
        for some, state in ((whole, f"{be}in force"), (unseen, "inside a .con, not in force")):
            if len(some):
                yield ""
                yield Text(f"{count_text(len(some), kind)} {state}", "bold yellow")
                yield from _commits(some)
        if damaged:
            yield ""
            yield Text(f"{count_text(len(damaged), kind)} cannot be read", "bold red")
            yield from _commits(damaged)
    if len(view.fragments):
        yield ""
        yield _not_looked_at(view)


def _fragment_table(view: View, facts: Facts | None) -> RenderableType:
    more = () if facts is None else ("cells", "bytes")
    table = plain_table("fragment", "read", "committed by", *more)
    table.columns[0].no_wrap = True
    for fragment in view.fragments[:SHOWN]:
        read = "in part" if fragment.partial else "whole"
        file = fragment.source.rpartition("/")[2]
        own = file.startswith(fragment.name)
        by = f"its own {file.removeprefix(fragment.name)}" if own else fragment.source
        held = {} if facts is None else facts[fragment.name]
        is_known = held.get("cells") is not None
        numbers = (f"{held['cells']:,}", size_text(held["bytes"])) if is_known else ()
        table.add_row(fragment.name, read, by, *numbers)
    if len(view.fragments) > SHOWN:
        table.add_row(f"and {len(view.fragments) - SHOWN:,} more (--json)", "", "")
    return table


def _not_looked_at(view: View) -> Text:
    """Say that a view goes by the log alone, and how to check the fragments."""
    command = f"chronotile check {shell_word(view.history.array)}"
    return Text(f"not looked at: whether all fragments can be read; to look: {command}", "dim")


def _commits(commits: Sequence[Delete]) -> Iterator[RenderableType]:
    from chronotile.show.events import delete_words, update_words
    from chronotile.visibility.view import Update

    for commit in commits[:SHOWN]:
        words, notes = update_words(commit) if isinstance(commit, Update) else delete_words(commit)
        yield f"  {span_text(commit.t1, commit.t2)}  {words}"
        for note in notes:
            yield Text(f"      note: {note}", "red")
    if len(commits) > SHOWN:
        yield f"  … and {len(commits) - SHOWN:,} more (--json)"


@command(epilog="\b\nExample:\n  chronotile visible demo/array --end 2024-05-01T12:00:00Z")
@array_argument
@window_options
@flag("--cells", help="Also show how many cells and bytes each fragment holds.")
@member_option
@access_options
@reporting
def visible(
    array: str, window: Ends, cells: bool, member: dict[str, str], access: Access
) -> Answer:
    """Show what an open of ARRAY at a window sees: fragments, deletes and updates in force.

    Both ends of the window are part of it. TileDB's `timestamp=(start, end)` means the same.
    """
    place = access.open(array, member)
    start, end = moments_of_group(place, window)

    def answer(one: Array) -> Answer:
        log = read_log(one)
        view, facts = log.view(start, end), None
        say_gap(view, "visible")
        if cells:
            rows = log.fragments(names={fragment.name for fragment in view.fragments}).to_pylist()
            facts = {row["name"]: row for row in rows}
        return Answer(lambda: _visible_json(view, facts), _visible_text(view, facts))

    return each_array(place, answer, end=end, **member)


MOST = 8
"""Groups, and conditions, that fit one screen."""

_STYLES = {"visible": "green", "partial": "yellow", "hidden": "red"}
_DATA = ("fragment", "delete", "update")


def _named_text(log: Log, view: View, explained: Sequence[Explanation]) -> Iterator[RenderableType]:
    """Say of the objects that the user named why they are visible or not."""
    from chronotile.check.conditions import failures
    from chronotile.show.explain_words import advise

    yield from _opened(view, failures(view))
    yield ""
    for advice in advise(explained, view, log.operations):
        yield from _advice_text(advice)
    yield from _late(view, explained)
    if any(one.kind == "fragment" and one.status != "hidden" for one in explained):
        yield _not_looked_at(view)


def _explain_text(
    log: Log, view: View, explained: Sequence[Explanation]
) -> Iterator[RenderableType]:
    """Give one screen on all objects of an array."""
    from chronotile.check.conditions import failures
    from chronotile.show.explain_words import advise, lacks_key

    reasons = [*failures(view)]
    yield from _opened(view, reasons)
    yield ""
    title = "Fragments that would be visible" if reasons else "Fragments visible"
    yield from _seen(view, explained, title)
    hidden = [item for item in explained if item.status != "visible"]
    if lacks_key(view.history):  # the line above says so once
        hidden = [item for item in hidden if item.reason != "unreadable"]
    # Objects that hold data come first; the order is otherwise that of `explain`.
    ordered = sorted(hidden, key=lambda item: item.kind not in _DATA)
    groups = advise(ordered, view, log.operations)
    if groups:
        yield ""
        yield Text("What is not visible, and why", "bold")
    for advice in groups[:MOST]:
        yield from _advice_text(advice)
    if len(groups) > MOST:
        yield f"  … and {count_text(len(groups) - MOST, 'more reason')}: --json lists every object"
    yield from _taken_away(log, view, explained)
    yield from _late(view, explained)
    if len(view.fragments):
        yield ""
        yield _not_looked_at(view)


def _late(view: View, explained: Sequence[Explanation]) -> Iterator[RenderableType]:
    """Name writes that are seen, and of which no row shows."""
    from chronotile.check.undone_restores import late_writes

    names = {item.name for item in explained}
    for found in late_writes(view.rules):
        late = [name for name in found.names if name.text in names]
        if late and view.start <= late[0].t1 and found.delete.t2 <= view.end:
            yield Text(f"  {found._replace(names=tuple(late)).words}", "red")
            yield Text(f"      to see them, open with --end {found.delete.t2 - 1}", "cyan")


def _seen(view: View, explained: Sequence[Explanation], title: str) -> Iterator[RenderableType]:
    fragments = [item for item in explained if item.kind == "fragment"]
    there = view.history.listing.fragment_paths()
    gone = sum(i.reason == "ignored" and i.name not in there for i in fragments)
    first = min((item.t1 or 0 for item in fragments), default=0)
    seen = len(view.fragments)
    line = Text(f"{title}: ")
    line.append(f"{seen:,} of {len(fragments) - gone:,}", "green" if seen else "red")
    line.append(f" ({gone:,} more removed)" if gone else "")
    partial = sum(fragment.status == "partial" for fragment in fragments)
    line.append(f", {partial:,} of them in part" if partial else "")
    yield line
    if not fragments:
        yield "The array has no fragment: nothing was ever written, or all is vacuumed."
    elif not seen and view.end < first:
        yield "The window ends before the first write."
    yield f"Schema in force: {view.schema or 'none'}"
    if seen:
        first, last = min(f.t1 for f in view.fragments), max(f.t2 for f in view.fragments)
        yield f"Time span of the visible fragments: {window_text(first, last)}"


def _taken_away(log: Log, view: View, explained: Sequence[Explanation]) -> Iterator[RenderableType]:
    from chronotile.show.events import delete_words, update_words
    from chronotile.show.explain_words import lacks_key

    # Those that cannot be read stand above; without a key nobody can tell.
    damaged = {item.name for item in explained if item.reason == "unreadable"}
    damaged = set() if lacks_key(view.history) else damaged
    deletes = [one for one in view.deletes if one.name not in damaged]
    updates = [one for one in view.updates if one.name not in damaged]
    unseen = [one for one in updates if one.offset]
    if unseen:
        yield ""
        yield Text("What TileDB does not see: updates inside a .con", "bold")
        for update in unseen[:MOST]:
            yield f"  {span_text(update.t1, update.t2)}  {update_words(update)[0]}"
        command = f"chronotile apply {shell_word(view.history.array)}"
        yield Text(f"      to write the rows with the new values: {command}", "cyan")
        updates = [one for one in updates if not one.offset]
    first, idle = view.first_time, []
    for kind, every in (("delete", deletes), ("update", updates)):
        if count := sum(one.t2 < first for one in every):
            idle.append(count_text(count, kind))
    deletes = [one for one in deletes if one.t2 >= first and not one.is_stand_in]
    updates = [one for one in updates if one.t2 >= first and not one.is_stand_in]
    if idle:
        yield ""
        why = "every visible fragment is newer" if view.fragments else "no fragment is visible"
        verb = "it hides" if idle in (["1 delete"], ["1 update"]) else "they hide"
        yield f"{' and '.join(idle)} in force, but {verb} no row: {why}"
    commits = []
    for one in deletes[:MOST]:
        words, notes = delete_words(one)
        commits.append((one.t2, one.name, words, (*log.older_words(one), *notes)))
    commits += [(c.t2, c.name, *update_words(c)) for c in updates[:MOST]]
    if not commits:
        return
    more = len(deletes) + len(updates) - MOST
    yield ""
    yield Text("Deletes and updates in force (one may match no row)", "bold")
    for moment, name, words, notes in sorted(commits)[:MOST]:
        yield f"  {span_text(moment, moment)}  {words}"
        for note in notes:
            yield Text(f"      note: {note}", "red")
        command = f"chronotile rows {shell_word(view.history.array)} --removed-by {name}"
        yield Text(f"      to see these rows: {command}", "cyan")
    if more > 0:
        yield f"  … and {more:,} more: chronotile visible {shell_word(view.history.array)}"


def _advice_text(advice: Advice) -> Iterator[RenderableType]:
    names, kind = advice.names, advice.kind
    many = len(names) > 1
    is_foreign = kind == "other" and advice.reason == "uncommitted"
    kind = "foreign file" if is_foreign else "file" if kind == "other" else kind
    head = Text("  ")
    head.append(count_text(len(names), kind) if many else f"{kind} {names[0]}", "bold")
    if not is_foreign:
        head.append(f"  {advice.state}", _STYLES[advice.status])
    yield head
    if many:
        yield Text(f"      {', '.join(names[:2])}{', …' if len(names) > 2 else ''}", "dim")
    yield f"      {advice.why}"
    if advice.todo:
        todo = advice.todo if advice.todo.startswith("to ") else f"to do: {advice.todo}"
        yield Text(f"      {todo.replace('to do: nothing', 'nothing to do')}", "cyan")


@command(epilog="\b\nExample:\n  chronotile explain demo/array --end 2024-05-01T12:00:00Z")
@array_argument
@click.argument("name", metavar="[NAME]", required=False, type=completed_as("commit"))
@window_options
@member_option
@access_options
@reporting
def explain(
    array: str, name: str | None, window: Ends, member: dict[str, str], access: Access
) -> Answer:
    """Explain what an open of ARRAY sees, what it does not see and why, and what to do.

    With NAME, explain why that one object is visible or not; any part of its name is enough.
    """
    place = access.open(array, member)
    start, end = moments_of_group(place, window)

    def answer(one: Array) -> Answer:
        log = read_log(one)
        view = log.view(start, end)
        say_gap(view, "explain")
        explained = one.explain(name, start=view.start, end=view.end)
        text = _explain_text if name is None else _named_text
        return Answer(lambda: [item.to_dict() for item in explained], text(log, view, explained))

    return each_array(place, answer, end=end, **member)


def _held_text(
    log: Log, facts: pa.Table, name_of: Callable[[str], str]
) -> Iterator[RenderableType]:
    """Give a line on the array, then a table of its fragments."""
    from chronotile.show.explain_words import NO_KEY, lacks_key

    listing, table_of_log = log.history.listing, log.history.table
    # Fragments that have a commit and no folder; of some an `.ign` takes the commit out, too.
    gone = {*facts["name"].to_pylist()}.difference(listing.fragments, listing.root_fragments)
    removed = gone.intersection(map(table_of_log.name, log.rules.ignored().tolist()))
    cells, size = (sum(facts[name].drop_null().to_pylist()) for name in ("cells", "bytes"))
    words = f": {count_text(facts.num_rows - len(removed), 'fragment')}"
    words += f" ({len(removed):,} more removed)" if removed else ""
    words += f", {count_text(cells, 'cell')}, {size_text(size)}"
    yield Text(f"{place_text(log.array)}{words}", "bold")
    if not facts.num_rows:
        return
    headers = ("cells", "bytes", "tiles", "fragment", "domain", "metadata", "notes")
    table = plain_table(*headers, right=3)
    table.columns[3].no_wrap = True
    for row in facts.slice(0, SHOWN).to_pylist():
        why = "removed" if row["name"] in removed else "files gone" if row["name"] in gone else ""
        table.add_row(*_fragment_cells(row, name_of(row["name"]), why))
    yield table
    if facts.num_rows > SHOWN:
        yield f"and {facts.num_rows - SHOWN:,} more (--json)"
    if lost := len(gone - removed):
        yield f"{count_text(lost, 'fragment')} with a commit, but without files"
    if removed:
        yield f"{count_text(len(removed), 'fragment')} removed: only the names are left"
    if unknown := facts["metadata"].null_count - len(gone):
        why = f". {NO_KEY}" if lacks_key(log.history) else ""
        yield f"{count_text(unknown, 'fragment')} without readable metadata{why}"


def _fragment_cells(row: dict[str, Any], name: str, why_gone: str) -> tuple[str, ...]:
    if row["metadata"] is None:
        unread = "unknown version" if is_newer(row["name"]) else why_gone or "unreadable"
        return ("", "", "", name, "", "", unread)
    notes = [word for word, is_so in _flags(row) if is_so]
    numbers = (f"{row['cells']:,}", size_text(row["bytes"]), f"{row['tiles']:,}")
    return (*numbers, name, domain_words(row["domain"]), row["metadata"], ", ".join(notes))


def _flags(row: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    applied = row["applied_deletes"] or ()
    of_updates = sum(name.endswith(".upd") for name in applied)
    of_deletes = len(applied) - of_updates
    yield "dense", row["dense"]
    yield "a time for each cell", row["has_timestamps"]
    yield "delete marks", row["has_delete_metadata"]
    yield f"{count_text(of_deletes, 'delete')} applied", of_deletes > 0
    yield f"{count_text(of_updates, 'update')} applied as a delete", of_updates > 0


def short_name(name: str) -> str:
    """Shorten the uuid in a fragment's name.

    >>> short_name("__1_2_00112233445566778899aabbccddeeff_22")
    '__1_2_00112233…_22'
    """
    parts = name.split("_")
    return "_".join(f"{part[:8]}…" if len(part) == 32 else part for part in parts)


def domain_words(domain: str | None) -> str:
    """Write a domain for people.

    >>> domain_words('[[1, 25], ["a", "b"]]')
    '1 to 25, a to b'
    """
    ranges = json.loads(domain) if domain else []
    return ", ".join(f"{low} to {high}" for low, high in ranges)


@command(epilog="\b\nExample:\n  chronotile fragments demo/array")
@array_argument
@flag("--names", "whole_names", help="Whole names, not shortened ones.")
@member_option
@access_options
@reporting
def fragments(array: str, whole_names: bool, member: dict[str, str], access: Access) -> Answer:
    """Show what each fragment of ARRAY holds: cells, bytes, tiles, domain.

    Reads each fragment's footer, or one .meta file that holds the footers of many. The column
    metadata says which: own, or consolidated.
    """

    def answer(one: Array) -> Answer:
        from chronotile.history.fragment_facts import named_fragments, read_facts

        log = read_log(one)
        with progress("reading footers", len(named_fragments(log.history).name)) as step:
            facts = read_facts(one.store, log.history, on_fragment=step)
        name_of = str if whole_names else short_name
        return Answer(facts.to_pylist, _held_text(log, facts, name_of))

    return each_array(access.open(array, member), answer, **member)


group_argument = click.argument("group", metavar="GROUP", type=PlaceType("dir"))
_FOUND_STYLES = {"array": "green", "group": "cyan", "doubled": "dim", "cyclic": "yellow"}


def _tree(group: str, rows: Sequence[MemberRow]) -> Iterator[RenderableType]:
    from rich.tree import Tree

    arrays = [row for row in rows if row.found == "array"]
    size = sum(row.bytes or 0 for row in arrays)
    head = f"{place_text(group)}: {count_text(len(arrays), 'array')}"
    tree = Tree(Text(f"{head}, {size_text(size)}", "bold"), guide_style="dim")
    above: list[Any] = [tree]
    for row in rows:
        label = Text(row.path.rpartition("/")[2] if row.depth else row.path)
        label.append(f"  {row.found}", _FOUND_STYLES.get(row.found, "red"))
        label.append(f"  {_facts(row)}", "default")
        del above[row.depth + 1 :]
        above.append(above[-1].add(label))
    yield tree


def _facts(row: MemberRow) -> str:
    parts = []
    if row.commits is not None:
        is_group = row.found == "group"
        many = "files that list members" if is_group else "commits"
        one = "file that lists members" if is_group else "commit"
        parts.append(count_text(row.commits, one, many))
    if row.bytes is not None:
        parts.append(size_text(row.bytes))
    if row.changed is not None:
        parts.append(f"changed {time_text(row.changed)}")
    if not row.is_inside and row.found != "refused":
        parts.append(f"at {row.uri}")
    if row.problem:
        parts.append(row.problem)
    facts = [", ".join(parts), f"it cannot be read: {row.error}" if row.error else ""]
    return "; ".join(filter(None, facts))


@command(epilog="\b\nExample:\n  chronotile members demo/dataset")
@group_argument
@time_option("--as-of", help="The members at this time (default: now).")
@flag("--no-size", help="Do not add up the files of each array.")
@access_options
@reporting
def members(group: str, as_of: Any, no_size: bool, access: Access) -> Answer:
    """List the members of GROUP at any depth: what each is, commits, bytes, last change.

    A member that is missing, or no longer an array, is marked. A group that contains itself is
    listed once.
    """
    from chronotile.dataset.open_dataset import member_rows

    dataset = access.open_group(group).dataset
    moment = now_ms() if as_of is None else dataset.moment(as_of, "--as-of")
    with progress("reading members", len(dataset.tree(moment))) as step:
        rows = tuple(member_rows(dataset, moment, sizes=not no_size, on_member=step))
    listed = [row.to_dict() for row in rows]
    document = {"group": dataset.uri, "end": moment, "members": listed}
    unread = any(row.error or row.found == "unreadable" for row in rows)
    return Answer(document, _tree(dataset.uri, rows), ReadError.exit_code if unread else 0)


def _states(group: str, states: Sequence[WholeState], limit: int) -> Iterator[RenderableType]:
    count = count_text(len(states), "stretch", "stretches")
    words = f"{count} of time in which every member can be read whole"
    yield Text(f"{place_text(group)}: {words}", "bold")
    if not states:
        return
    table = plain_table("from (ms)", "to (ms)", "from", "arrays", "changed then", right=2)
    for state in states[-limit:]:
        until = "now" if state.until is None else str(state.until)
        few = ", ".join(state.changed[:3])
        more = f" and {len(state.changed) - 3} more" if len(state.changed) > 3 else ""
        table.add_row(str(state.t), until, time_text(state.t), str(state.arrays), few + more)
    yield table


@command(epilog="\b\nExample:\n  chronotile moments demo/dataset")
@group_argument
@click.option("-n", "--limit", metavar="N", type=click.IntRange(min=1), help="Only the last N.")
@access_options
@reporting
def moments(group: str, limit: int | None, access: Access) -> Answer:
    """List the times at which every member of GROUP can be read whole.

    An array cannot be read before it was created. A dense array cannot be read whole at times
    between writes that were merged and vacuumed.
    """
    from chronotile.dataset.member_tree import LOST

    place = access.open_group(group)
    with progress("reading members"):
        states = place.moments()
    if not states and not place.tree():
        raise ChronotileError(place.uri, "expected members, found none")
    text = [*_states(place.uri, states, limit or len(states))]
    if not states or states[-1].until is not None:
        lost = (node for node in place.tree() if node.found in LOST)
        text += [Text(f"not now: the member {node.path}: {node.problem}", "red") for node in lost]
    return Answer([state.to_dict() for state in states], text, 0 if states else 1)
