"""Why an engine cannot open an array, or fails to read it, at one window.

In: a view. Out: a sentence for each reason, with what mends it. Agrees with `check`, as
both ask the same rules. Reads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.commit_files import damage
from chronotile.check.findings import finding
from chronotile.conditions.side_effects import engine_refuses
from chronotile.errors import ChronotileError, shell_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.visibility.view import View


def failures(view: View) -> Iterator[str]:
    """Give each reason why an open or every read at the view's window fails, in a sentence."""
    for item in damage(view.history):
        if item.severity == "error" and item.code == "name-malformed":
            problem = item.message.removeprefix(f"{item.path}: ")
            words = f"The engine cannot open this array: {item.path}: {problem}"
            yield f"{words}; {item.hint}"
    rules, table = view.rules, view.history.table
    gone = {table.name(row) for row in rules.fragments[rules.missing].tolist()}
    seen = [one for one in view.explain() if one.reason == "missing" and one.name in gone]
    if seen:
        hint = finding(view.history.array, "commit-without-fragment", "", "").hint
        names = seen[0].name if len(seen) == 1 else f"{seen[0].name} and {len(seen) - 1} more"
        yield f"The engine cannot open this array at this window: {names}: files gone; {hint}"
    for commit in (*view.deletes, *(one for one in view.updates if not one.offset)):
        if not commit.schemas:
            continue
        try:
            reasons = engine_refuses(commit.stored, commit.schemas[0])
            text = commit.text
        except ChronotileError:
            continue
        if reasons:
            repair = f"chronotile repair {shell_word(view.history.array)}"
            hint = f"{repair} moves it out, and says which rows come back"
            yield f"Every read at this window fails, by the delete `{text}`: {reasons[0]}; {hint}"
