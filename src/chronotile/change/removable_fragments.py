"""Fragments that a `.vac` has made superfluous.

In: a history and its rules. Out: which fragments can go, which must stay and why, and the windows
that cannot be read as before once they are gone. Touches nothing.

A fragment that a `.vac` lists is hidden in every window that has the `.vac` in it. It can go
without a trace if no window sees the fragment but not the `.vac`: so it is in a sparse array from
version 15 on, where an overlap is enough, if the `.vac`'s times cover the fragment's. Where they
do not (fault F4 misnames both), the fragment stays. In a dense array, or an older one, windows
that end or start inside of the `.vac`'s times see the fragments only: they lose them.

The data must be somewhere: a `.vac` is followed to the fragment of its own name, or to the one
that replaced that in turn, which has to be committed, and has to be shown to be whole, with all
others of its times: a consolidation may write several. A `.vac` without such a one removes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.format.commit_files import read_vac_line
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import Name, parse_name, version_of
from chronotile.visibility.rules import has_cell_times_by_name, is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.history.reading import History, VacuumFile
    from chronotile.visibility.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A fragment that can go."""

    name: Name
    folder: str
    commit_uri: str
    because: str
    """The `.vac` that lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What the `.vac` files of an array allow to be removed."""

    fragments: tuple[Superseded, ...]
    vacuums: tuple[str, ...]
    """`.vac` files that list nothing any more once the fragments are gone."""
    losses: tuple[tuple[int, int], ...]
    """Times such that windows that start or end inside of them cannot be read as before."""
    notes: tuple[str, ...]


def removable(
    history: History, rules: Rules, health: Callable[[Iterable[str]], Mapping[str, Health]]
) -> Removal:
    """Works out which fragments can go, and what that costs.

    Args:
        history: What was read of the array.
        rules: The rules applied to it.
        health: Looks at the fragments in some folders.
    """
    listing, table = history.listing, history.table
    here = {name: f"{FRAGMENTS}/{name}" for name in listing.fragments}
    here |= {name: name for name in listing.root_fragments}
    counting = {table.name(row): table.fragment_path(row) for row in rules.fragments.tolist()}
    listed = {vacuum.path: _names(vacuum) for vacuum in history.vacuums}
    found: dict[str, Superseded] = {}
    done: list[str] = []
    losses: list[tuple[int, int]] = []
    notes: list[str] = []
    for vacuum in history.vacuums:
        lost = [name for name in listed[vacuum.path] if name in counting and name not in here]
        if lost:
            notes.append(
                f"{vacuum.path} is left alone: it hides {lost[0]}, which is committed and gone"
            )
            continue
        targets = [name for name in listed[vacuum.path] if name in here]
        if targets:
            doubt = _doubt(_backing(vacuum.name.text, history, listed, counting), health)
            if doubt is not None:
                notes.append(
                    f"{vacuum.path} is left alone: {doubt}, so what it lists may be the only copy"
                )
                continue
        by_cell = has_cell_times_by_name(vacuum.name, dense=history.dense)
        exposed = []
        for text in targets:
            name = parse_name(text)
            if by_cell and not is_inside(name.t1, name.t2, *vacuum.name[:2]):
                exposed.append(text)
                continue
            found.setdefault(text, _superseded(name, here[text], vacuum))
        if exposed:
            notes.append(
                f"{', '.join(exposed)} must stay: the name of {vacuum.path} does not cover them, "
                f"and windows outside of it read them"
            )
        else:
            done.append(vacuum.path)
        gone = [parse_name(text) for text in targets if text not in exposed]
        if gone and not by_cell and any(name[:2] != vacuum.name[:2] for name in gone):
            first = min(vacuum.name.t1, *(name.t1 for name in gone))
            losses.append((first, max(vacuum.name.t2, *(name.t2 for name in gone))))
    return Removal(
        fragments=tuple(found.values()),
        vacuums=tuple(done),
        losses=_merged(losses),
        notes=tuple(notes),
    )


def _names(vacuum: VacuumFile) -> tuple[str, ...]:
    found = (read_vac_line(line).name for line in vacuum.lines)
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _superseded(name: Name, folder: str, vacuum: VacuumFile) -> Superseded:
    in_root = version_of(name) < 12
    uri = f"{name.text}.ok" if in_root else f"__commits/{name.text}.wrt"
    return Superseded(name=name, folder=folder, commit_uri=uri, because=vacuum.path)


def _backing(
    own: str,
    history: History,
    listed: Mapping[str, tuple[str, ...]],
    counting: Mapping[str, str],
) -> list[str]:
    """The folders of the fragments that hold what a `.vac` lists: committed, and here to stay."""
    waiting, seen, found = [own], {own}, list[str]()
    while waiting:
        text = waiting.pop()
        above = [v.name.text for v in history.vacuums if text in listed[v.path]]
        if not above and text in counting:
            # One consolidation may have written several fragments, all of the same times.
            times = parse_name(text)[:2]
            found += [path for name, path in counting.items() if parse_name(name)[:2] == times]
        for other in above:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return found


def _doubt(paths: list[str], health: Callable[[Iterable[str]], Mapping[str, Health]]) -> str | None:
    """Why fragments cannot be relied on to hold what was consolidated into them."""
    if not paths:
        return "its own fragment is not committed"
    for path, found in health(paths).items():
        if not found.is_whole:
            return f"{path} was not shown to be whole ({found.problem})"
    return None


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)
