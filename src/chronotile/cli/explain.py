"""`chronotile explain`: why each object is, or is not, visible.

In: an array, a window, and maybe a name. Out: one screen: what is visible, what is hidden and why,
and what to do about it. `explanation` finds the reasons, `explain_words` what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.group_each import MembersReport, each_array
from chronotile.cli.options import (
    access_options,
    array_argument,
    command,
    member_option,
    moments_of_group,
    reporting,
    say_gap,
    window_options,
)
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.array import Array
    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Ends
    from chronotile.log import Log, View
    from chronotile.report.explain_words import Advice
    from chronotile.visibility.explanation import Explanation

MOST = 8
"""Groups, and conditions, that fit one screen."""

_STYLES = {"visible": "green", "partial": "yellow", "hidden": "red"}
_DATA = ("fragment", "delete", "update")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainReport:
    """All objects of an array, or those whose name the user gave."""

    log: Log
    view: View
    explained: tuple[Explanation, ...]
    named: bool
    """True if the user gave a name."""

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each object of the array."""
        return [item.to_dict() for item in self.explained]

    def to_text(self) -> Iterator[RenderableType]:
        """One screen."""
        from chronotile.log.engine_failures import failures
        from chronotile.report.explain_words import NO_KEY, advise, lacks_key
        from chronotile.report.output import Text, place_text, window_text

        view = self.view
        for words in failures(self.log, view):
            yield Text(words, "bold red")
        place = place_text(view.history.array)
        yield Text(f"{place}, opened at {window_text(view.start, view.end)}", "bold")
        if lacks_key(view.history):
            yield Text(NO_KEY, "red")
        yield ""
        if self.named:
            for advice in advise(self.explained, view):
                yield from _advice_text(advice)
            yield from self._late()
            return
        yield from self._seen()
        hidden = [item for item in self.explained if item.status != "visible"]
        if lacks_key(view.history):  # said once, above
            hidden = [item for item in hidden if item.reason != "unreadable"]
        # Objects that hold data come first; the order is otherwise that of `explain`.
        groups = advise(sorted(hidden, key=lambda item: item.kind not in _DATA), view)
        if groups:
            yield ""
            yield Text("Why not all of it is seen", "bold")
        for advice in groups[:MOST]:
            yield from _advice_text(advice)
        if len(groups) > MOST:
            yield f"  … and {len(groups) - MOST} more reasons: --json lists every object"
        yield from self._taken_away()
        yield from self._late()

    def _late(self) -> Iterator[RenderableType]:
        """Writes that are seen, and of which no row shows."""
        from chronotile.check.restores import late_writes
        from chronotile.report.output import Text

        view, names = self.view, {item.name for item in self.explained}
        for found in late_writes(view.rules):
            late = [name for name in found.names if name.text in names]
            if late and view.start <= late[0].t1 and found.delete.t2 <= view.end:
                yield Text(f"  {found._replace(names=tuple(late)).words}", "red")
                yield Text(f"      to see them, open with --end {found.delete.t2 - 1}", "cyan")

    def _seen(self) -> Iterator[RenderableType]:
        from chronotile.report.output import Text, window_text

        view = self.view
        fragments = [item for item in self.explained if item.kind == "fragment"]
        first = min((item.t1 or 0 for item in fragments), default=0)
        seen = len(view.fragments)
        line = Text("Fragments seen: ")
        line.append(f"{seen:,} of {len(fragments):,}", "green" if seen else "red")
        partial = sum(fragment.status == "partial" for fragment in fragments)
        line.append(f", {partial:,} of them in part" if partial else "")
        yield line
        if not fragments:
            yield "The array has no fragment: nothing was ever written, or all is vacuumed."
        elif not seen and view.end < first:
            yield "The window ends before the first write."
        yield f"Schema in force: {view.schema or 'none'}"
        if fragments:
            last = max(item.t2 or 0 for item in fragments)
            yield f"Window of all data: {window_text(first, last)}"

    def _taken_away(self) -> Iterator[RenderableType]:
        from chronotile.format.timestamps import span_text, time_text
        from chronotile.log.events import delete_words, older_words, update_words
        from chronotile.report.output import Text, count_text

        view = self.view
        commits = []
        for one in view.deletes[:MOST]:
            words, notes = delete_words(one)
            commits.append((one.t2, words, (*older_words(self.log, one), *notes)))
        commits += [(c.t2, *update_words(c)) for c in view.updates[:MOST]]
        if not commits:
            return
        more = len(view.deletes) + len(view.updates) - MOST
        yield ""
        yield Text("What takes rows out of the fragments that are seen", "bold")
        for moment, words, notes in sorted(commits)[:MOST]:
            yield f"  {span_text(moment, moment)}  {words}"
            for note in notes:
                yield Text(f"      note: {note}", "red")
        if more > 0:
            yield f"  … and {count_text(more, 'more', 'more')}: see chronotile visible"
        first = min(commits)[0]
        end = f"an --end before {first} ({time_text(first)})"
        yield Text(f"  to see the rows again, open with {end}", "cyan")


def _advice_text(advice: Advice) -> Iterator[RenderableType]:
    from chronotile.report.output import Text, count_text

    names, kind = advice.names, advice.kind
    many = len(names) > 1
    head = Text("  ")
    head.append(count_text(len(names), kind) if many else f"{kind} {names[0]}", "bold")
    head.append(f"  {advice.status}, {advice.reason}", _STYLES[advice.status])
    yield head
    if many:
        yield Text(f"      {', '.join(names[:2])}{', …' if len(names) > 2 else ''}", "dim")
    yield f"      {advice.why}"
    if advice.todo:
        yield Text(f"      to do: {advice.todo}", "cyan")


@command(epilog="\b\nExample:\n  chronotile explain demo/array --end 2024-05-01T12:00:00Z")
@array_argument
@click.argument("name", metavar="[NAME]", required=False)
@window_options
@member_option
@access_options
@reporting
def explain(
    array: str, name: str | None, window: Ends, member: dict[str, str], access: Access
) -> ExplainReport | MembersReport:
    """Why don't I see my data? What an open of ARRAY sees, what it does not, and what to do.

    With NAME, why that one object is or is not visible; any part of its name will do.
    """
    place = access.open(array)
    start, end = moments_of_group(place, window)
    report = partial(_explained, access, name, (start, end))
    return each_array(place, report, end=end, **member)  # type: ignore[no-any-return]


def _explained(access: Access, name: str | None, window: Ends, array: Array) -> ExplainReport:
    """Explain one array."""
    log = access.log_of(array)
    view = log.view(*window)
    say_gap(view, "explain")
    explained = tuple(view.explain())
    if name is not None:
        wanted = name.rpartition("/")[2]
        explained = tuple(item for item in explained if wanted in item.name) or tuple(
            item for item in explained if wanted.rpartition(".")[0] == item.name
        )
        if not explained:
            problem = f"expected an object with {name!r} in its name, found none"
            raise ChronotileError(view.history.array, problem)
    return ExplainReport(log=log, view=view, explained=explained, named=name is not None)
