"""`chronotile explain`: why each object is, or is not, visible.

In: an array, a window, and maybe a name. Out: what is seen, what is hidden and why, and what to do
about it, on one screen. The reasons are `explanation`'s and the advice is `advice`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    array_argument,
    check_window,
    end_option,
    json_option,
    open_log,
    start_option,
    storage_options,
)
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.log import View
    from chronotile.report.advice import Advice
    from chronotile.report.output import Text
    from chronotile.visibility.explanation import Explanation

MOST = 8
"""Groups, and conditions, that fit one screen."""

_STYLES = {"visible": "green", "partial": "yellow", "hidden": "red"}
_DATA = ("fragment", "delete", "update")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainReport:
    """All objects of an array, or those that were asked for."""

    view: View
    explained: tuple[Explanation, ...]
    named: bool
    """Whether they were asked for by name."""

    def to_json(self) -> list[dict[str, Any]]:
        """As the contract has it."""
        return [item.to_dict() for item in self.explained]

    def to_text(self) -> Iterator[Text]:
        """One screen."""
        from chronotile.report.advice import advise
        from chronotile.report.output import Text, place_text, window_text

        view = self.view
        place = place_text(view.history.array)
        yield Text(f"{place}, opened at {window_text(view.start, view.end)}", "bold")
        yield Text()
        if self.named:
            for advice in advise(self.explained, view):
                yield from _advice_text(advice)
            return
        yield from self._seen()
        hidden = [item for item in self.explained if item.status != "visible"]
        of_data = [item for item in hidden if item.kind in _DATA]
        others = [item for item in hidden if item.kind not in _DATA]
        groups = advise((*of_data, *others), view)
        if groups:
            yield Text()
            yield Text("Why not all of it is seen", "bold")
        for advice in groups[:MOST]:
            yield from _advice_text(advice)
        if len(groups) > MOST:
            yield Text(f"  … and {len(groups) - MOST} more reasons: --json lists every object")
        yield from self._taken_away()

    def _seen(self) -> Iterator[Text]:
        from chronotile.report.output import Text

        view = self.view
        fragments = [item for item in self.explained if item.kind == "fragment"]
        seen = len(view.fragments)
        line = Text("Fragments seen: ")
        line.append(f"{seen:,} of {len(fragments):,}", "green" if seen else "red")
        partial = sum(fragment.status == "partial" for fragment in fragments)
        line.append(f", {partial:,} of them in part" if partial else "")
        yield line
        if not fragments:
            yield Text("The array has no fragment: nothing was ever written, or all is vacuumed.")
        elif not seen and view.end < min(item.t1 or 0 for item in fragments):
            yield Text("The window ends before the first write.")
        yield Text(f"Schema in force: {view.schema or 'none'}")
        broken = [item for item in fragments if item.reason == "missing"]
        bad = [p for p in view.history.problems if p.kind == "name"]
        if broken or bad:
            yield Text("The engine cannot open this array at this window.", "bold red")
        encrypted = [p for p in view.history.problems if p.kind == "encrypted"]
        if encrypted and view.history.key is None:
            yield Text("The array is encrypted: give --key-file to read conditions.", "red")
        if fragments:
            yield Text(f"Window of all data: {_whole_window(fragments)}")

    def _taken_away(self) -> Iterator[Text]:
        from chronotile.report.events import delete_words, update_words
        from chronotile.report.output import Text, count_text

        view = self.view
        told = [(c.t2, *delete_words(c)) for c in view.deletes[:MOST]]
        told += [(c.t2, *update_words(c)) for c in view.updates[:MOST]]
        if not told:
            return
        total = len(view.deletes) + len(view.updates)
        yield Text()
        yield Text("What takes rows out of the fragments that are seen", "bold")
        for moment, words, notes in sorted(told)[:MOST]:
            yield Text(f"  {moment}  {words}")
            for note in notes:
                yield Text(f"      note: {note}", "red")
        if total > MOST:
            yield Text(
                f"  … and {count_text(total - MOST, 'more', 'more')}: see chronotile visible"
            )
        last = min(moment for moment, _, _ in told)
        yield Text(f"  to see the rows again, open with an --end before {last}", "cyan")


def _whole_window(fragments: list[Explanation]) -> str:
    from chronotile.report.output import window_text

    times = [(item.t1 or 0, item.t2 or 0) for item in fragments]
    return window_text(min(t1 for t1, _ in times), max(t2 for _, t2 in times))


def _advice_text(advice: Advice) -> Iterator[Text]:
    from chronotile.report.output import Text, count_text

    many = len(advice.names) > 1
    head = Text("  ")
    subject = (
        count_text(len(advice.names), advice.kind) if many else f"{advice.kind} {advice.names[0]}"
    )
    head.append(subject, "bold")
    head.append(f"  {advice.status}, {advice.reason}", _STYLES[advice.status])
    yield head
    if many:
        shown = ", ".join(advice.names[:2])
        yield Text(f"      {shown}{', …' if len(advice.names) > 2 else ''}", "dim")
    yield Text(f"      {advice.why}")
    if advice.todo:
        yield Text(f"      to do: {advice.todo}", "cyan")


@click.command(epilog="\b\nExample:\n  chronotile explain demo/array --end 2024-05-01T12:00:00Z")
@array_argument
@click.argument("name", metavar="[NAME]", required=False)
@start_option
@end_option
@storage_options
@json_option
def explain(
    array: str,
    name: str | None,
    start: int,
    end: int | None,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> None:
    """Why don't I see my data? What an open of ARRAY sees, what it does not, and what to do.

    With NAME, why that one object is or is not visible; any part of its name will do.
    """
    from chronotile.format.timestamps import now_ms
    from chronotile.report.output import emit

    last = now_ms() if end is None else end
    check_window(start, last)
    view = open_log(array, key_file, storage).view(start, last)
    explained = tuple(view.explain())
    if name is not None:
        wanted = name.rpartition("/")[2]
        explained = tuple(item for item in explained if wanted in item.name) or tuple(
            item for item in explained if wanted.rpartition(".")[0] == item.name
        )
        if not explained:
            problem = f"expected an object with {name!r} in its name, found none"
            raise ChronotileError(view.history.array, problem)
    emit(ExplainReport(view=view, explained=explained, named=name is not None), as_json=as_json)
