"""`chronotile members`, `chronotile moments`: what a group holds, and when all is readable.

In: a group. Out: the tree of its members, each with what it is, commits, bytes and last change; the
stretches of time at which every member can be read whole. Changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import MOMENT, Place, access_options, command, reporting
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.cli.options import Access
    from chronotile.dataset.members_table import MemberRow
    from chronotile.dataset.moments import WholeState

group_argument = click.argument("group", metavar="GROUP", type=Place("dir"))
_STYLES = {"array": "green", "group": "cyan", "doubled": "dim", "cyclic": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersTree:
    """The members of a group at a moment."""

    group: str
    end: int
    rows: tuple[MemberRow, ...]

    @property
    def status(self) -> int:
        """3 if a member could not be read."""
        return 3 if any(row.error for row in self.rows) else 0

    def to_json(self) -> dict[str, Any]:
        """One object for each member, a group before its members."""
        return {
            "group": self.group,
            "end": self.end,
            "members": [row.to_dict() for row in self.rows],
        }

    def to_text(self) -> Iterator[RenderableType]:
        """A tree."""
        from rich.tree import Tree

        from chronotile.show.output import Text, count_text, place_text, size_text

        arrays = [row for row in self.rows if row.found == "array"]
        size = sum(row.bytes or 0 for row in arrays)
        head = f"{place_text(self.group)}: {count_text(len(arrays), 'array')}"
        tree = Tree(Text(f"{head}, {size_text(size)}", "bold"), guide_style="dim")
        above: list[Any] = [tree]
        for row in self.rows:
            label = Text(row.path.rpartition("/")[2] if row.depth else row.path)
            label.append(f"  {row.found}", _STYLES.get(row.found, "red"))
            label.append(f"  {_facts(row)}", "default")
            del above[row.depth + 1 :]
            above.append(above[-1].add(label))
        yield tree


def _facts(row: MemberRow) -> str:
    from chronotile.format.timestamps import time_text
    from chronotile.show.output import count_text, size_text

    parts = []
    if row.commits is not None:
        is_group = row.found == "group"
        many = "lists of members" if is_group else "commits"
        parts.append(count_text(row.commits, "list of members" if is_group else "commit", many))
    if row.bytes is not None:
        parts.append(size_text(row.bytes))
    if row.changed is not None:
        parts.append(f"changed {time_text(row.changed)}")
    if not row.is_inside and row.found != "refused":
        parts.append(f"at {row.uri}")
    if row.problem:
        parts.append(row.problem)
    return ", ".join(parts) + (f"; it cannot be read: {row.error}" if row.error else "")


@command(epilog="\b\nExample:\n  chronotile members demo/dataset")
@group_argument
@click.option("--as-of", "end", metavar="TIME", type=MOMENT, help="The members at this time: now.")
@click.option("--end", "end", metavar="TIME", type=MOMENT, hidden=True)
@click.option("--no-size", is_flag=True, help="Do not add up the files of each array.")
@access_options
@reporting
def members(group: str, end: Any, no_size: bool, access: Access) -> MembersTree:
    """The members of GROUP at any depth: what each is, commits, bytes, last change.

    A member that is not there, or that is no array any more, is told as such. A group that holds
    itself is told once, and not followed.
    """
    from chronotile.dataset.members_table import member_rows
    from chronotile.format.timestamps import now_ms
    from chronotile.show.output import progress

    dataset = access.open_group(group).dataset
    moment = now_ms() if end is None else dataset.moment(end, "--as-of")
    with progress("reading members", len(dataset.tree(moment))) as step:
        rows = tuple(member_rows(dataset, moment, sizes=not no_size, on_member=step))
    return MembersTree(group=dataset.uri, end=moment, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentsReport:
    """When a dataset can be read whole."""

    group: str
    states: tuple[WholeState, ...]
    limit: int | None

    @property
    def status(self) -> int:
        """1 if there is no such time."""
        return 0 if self.states else 1

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each stretch of time."""
        return [state.to_dict() for state in self.states]

    def to_text(self) -> Iterator[RenderableType]:
        """A table."""
        from chronotile.format.timestamps import time_text
        from chronotile.show.output import Text, count_text, place_text, plain_table

        count = count_text(len(self.states), "stretch", "stretches")
        words = f"{count} of time at which every member can be read whole"
        yield Text(f"{place_text(self.group)}: {words}", "bold")
        if not self.states:
            return
        table = plain_table("from (ms)", "to (ms)", "from", "arrays", "changed then", right=2)
        for state in self.states[-(self.limit or len(self.states)) :]:
            until = "now" if state.until is None else str(state.until)
            few = ", ".join(state.changed[:3])
            more = f" and {len(state.changed) - 3} more" if len(state.changed) > 3 else ""
            table.add_row(str(state.t), until, time_text(state.t), str(state.arrays), few + more)
        yield table


@command(epilog="\b\nExample:\n  chronotile moments demo/dataset")
@group_argument
@click.option("-n", "--limit", metavar="N", type=click.IntRange(min=1), help="Only the last ones.")
@access_options
@reporting
def moments(group: str, limit: int | None, access: Access) -> MomentsReport:
    """The times at which every member of GROUP can be read whole.

    An array has no state before it was created. A dense array whose fragments were merged over a
    time, and vacuumed, can no longer be read whole at that time.
    """
    from chronotile.show.output import progress

    dataset = access.open_group(group).dataset
    with progress("reading members"):
        states = dataset.moments()
    if not states and not dataset.tree():
        raise ChronotileError(dataset.uri, "expected members, found none")
    return MomentsReport(group=dataset.uri, states=states, limit=limit)
