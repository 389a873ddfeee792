"""Superseded fragments: those that a vacuum may remove.

In: a history and its rules. Out: the fragments that can go, the reasons why others must stay, and
the windows that lose something. Touches nothing.

A `.vac` hides the fragments that it lists in every window that contains it. Nothing is lost if no
window sees the fragment without the `.vac`. In a sparse array from version 15 on, where an overlap
is enough, that is so if the `.vac`'s times cover the fragment's; if they do not (fault F4 misnames
both), the fragment stays. In a dense or an older array, windows that end or start inside the
`.vac`'s times see only the fragments: those windows lose them.

The data must be elsewhere. The `.vac` leads to the fragment of its own name, or to the fragment
that replaced that one in turn. This fragment must be committed and shown to be whole, together with
all others of its times: one consolidation may write several. If not, nothing that the `.vac` lists
is removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chronotile.check.fragment_health import NEWER
from chronotile.check.undone_restores import undone_restores
from chronotile.format.commit_files import read_vac_line, write_uri
from chronotile.format.names import is_newer, parse_name
from chronotile.safe_text import shell_word
from chronotile.visibility.rules import first_end, has_cell_times_by_name, is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from chronotile.check.fragment_health import Health
    from chronotile.history.read_history import History, VacuumFile
    from chronotile.visibility.lifelines import Kept
    from chronotile.visibility.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A fragment that can go."""

    folder: str
    commit_uri: str
    because: str
    """The `.vac` that lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuumable:
    """The fragments that the `.vac` files of an array allow a vacuum to remove."""

    fragments: tuple[Superseded, ...]
    vacuums: tuple[str, ...]
    """`.vac` files whose fragments are all gone then."""
    losses: tuple[tuple[int, int], ...]
    """Ranges of time: a window that starts or ends inside one loses fragments."""
    notes: tuple[str, ...]
    held_folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Folders of fragments that stay for windows that are to be kept, and why."""
    relied_on: frozenset[str] = frozenset()
    """Folders of the whole fragments that hold what goes."""


def removable(
    history: History,
    rules: Rules,
    health: Callable[[Iterable[str]], Mapping[str, Health]],
    kept: Sequence[Kept] = (),
) -> Vacuumable:
    """Find the fragments that can go, and what is lost; `health` looks into some folders."""
    table, here = history.table, history.listing.fragment_paths()
    committed = {table.name(row): table.fragment_path(row) for row in rules.fragment_rows.tolist()}
    listed = {vacuum.path: _names(vacuum) for vacuum in history.vacuums}
    backing = {
        vacuum.path: _backing(vacuum.name.text, history, listed, committed)
        for vacuum in history.vacuums
        if any(name in here for name in listed[vacuum.path])
    }
    known = health(path for paths in backing.values() for path in paths)
    superseded: dict[str, Superseded] = {}
    done: list[str] = []
    losses: list[tuple[int, int]] = []
    notes: list[str] = []
    held = _held(history, listed, kept)
    undone = {v.path for one in undone_restores(history) for v in one.merges}
    for vacuum in history.vacuums:
        if vacuum.path in undone:
            notes.append(
                f"{vacuum.path} is left alone: it lists what a restore hid, and its fragment shows "
                f"that again; to hide that: chronotile repair {shell_word(history.array)}"
            )
            continue
        lost = [name for name in listed[vacuum.path] if name in committed and name not in here]
        if lost:
            notes.append(
                f"{vacuum.path} is left alone: it hides {lost[0]}, which is committed and gone"
            )
            continue
        targets = [parse_name(name) for name in listed[vacuum.path] if name in here]
        if targets and not backing[vacuum.path] and vacuum.name.text not in here:
            notes.append(
                f"what {vacuum.path} lists stays: a restore or an undelete hides it, and its undo "
                "and reads of earlier times need it"
            )
            continue
        if targets and (doubt := _doubt(backing[vacuum.path], known)) is not None:
            notes.append(
                f"{vacuum.path} is left alone: {doubt}, so what it lists may be the only copy"
            )
            continue
        has_cell_times = has_cell_times_by_name(vacuum.name, dense=history.dense)
        span = vacuum.name[:2]
        exposed = [n.text for n in targets if has_cell_times and not is_inside(*n[:2], *span)]
        newer = [n.text for n in targets if is_newer(n.text)]
        staying = {*exposed, *held, *newer}
        gone = [name for name in targets if name.text not in staying]
        for text in (name.text for name in gone):
            new = Superseded(folder=here[text], commit_uri=write_uri(text), because=vacuum.path)
            superseded.setdefault(text, new)
        if exposed:
            notes.append(
                f"{', '.join(exposed)} must stay: the name of {vacuum.path} does not cover them, "
                f"and windows outside of it read them"
            )
        elif len(gone) == len(targets) and not is_newer(vacuum.path):
            done.append(vacuum.path)
        notes += [f"{name} stays: {NEWER}" for name in newer]
        if not has_cell_times and any(name[:2] != span for name in gone):
            first = min(vacuum.name.t1, *(name.t1 for name in gone))
            losses.append((first, max(vacuum.name.t2, *(name.t2 for name in gone))))
    return Vacuumable(
        fragments=tuple(superseded.values()),
        vacuums=tuple(done),
        losses=_merged(losses),
        notes=tuple(notes),
        held_folders={here[name]: labels for name, labels in held.items() if name in here},
        relied_on=frozenset(
            path for one in superseded.values() for path in backing.get(one.because, ())
        ),
    )


def _held(
    history: History, listed: Mapping[str, tuple[str, ...]], kept: Sequence[Kept]
) -> dict[str, tuple[str, ...]]:
    """Map the names of listed fragments that kept windows see to the reasons."""
    dense = history.dense
    hidden_from: dict[str, int] = {}
    for vacuum in history.vacuums if kept else ():
        moment = first_end(vacuum.name, dense=dense)
        for text in listed[vacuum.path]:
            hidden_from[text] = min(hidden_from.get(text, moment), moment)
    reasons: dict[str, tuple[str, ...]] = {}
    for text, until in hidden_from.items():
        seen = first_end(parse_name(text), dense=dense)
        labels = tuple(one.label for one in kept if one.sees(seen, until))
        if labels:
            reasons[text] = labels
    return reasons


def _names(vacuum: VacuumFile) -> tuple[str, ...]:
    names = (read_vac_line(line).name for line in vacuum.lines)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def _backing(
    own: str,
    history: History,
    listed: Mapping[str, tuple[str, ...]],
    committed: Mapping[str, str],
) -> list[str]:
    """Find the folders of the committed fragments that hold what a `.vac` lists, and stay."""
    waiting, seen, folders = [own], {own}, list[str]()
    while waiting:
        text = waiting.pop()
        above = {v.name.text for v in history.vacuums if text in listed[v.path]}
        if not above and text in committed:
            # One consolidation may have written several fragments, all of the same times.
            times = parse_name(text)[:2]
            folders += [path for name, path in committed.items() if parse_name(name)[:2] == times]
        waiting += sorted(above - seen)
        seen |= above
    return folders


def _doubt(paths: list[str], health: Mapping[str, Health]) -> str | None:
    """Say why these fragments may not hold all that was consolidated into them."""
    if not paths:
        return "its own fragment is not committed"
    for path in paths:
        if not health[path].is_whole:
            return f"{path} was not shown to be whole ({health[path].problem})"
    return None


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
