"""One command over all members of a group, array by array.

In: a command that reports on one array, and a group. Out: one report with a part for each member.
An array that cannot be read stops no other. Knows nothing of what the command says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.cli.options import wrong_call
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from chronotile.array import Array
    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a command says of one member."""

    node: Node
    report: Any = None
    """None for a group, and for what could not be read."""
    error: ChronotileError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersReport:
    """What a command says of each member."""

    group: str
    parts: tuple[Part, ...]

    @property
    def status(self) -> int:
        """3 if a member could not be read, else the worst of the parts."""
        if any(part.error is not None or part.node.found == "unreadable" for part in self.parts):
            return 3
        return max((getattr(part.report, "status", 0) for part in self.parts), default=0)

    def to_json(self) -> dict[str, Any]:
        """One object for each member; `report` is what the command says of an array."""
        return {
            "group": self.group,
            "members": [
                {
                    "member": part.node.path,
                    "found": part.node.found,
                    "array": part.node.uri,
                    "report": None if part.report is None else part.report.to_json(),
                    "error": None if part.error is None else part.error.to_dict(),
                }
                for part in self.parts
            ],
        }

    def to_text(self) -> Iterator[RenderableType]:
        """The parts one after the other, each below the path of its member."""
        from chronotile.show.output import Text, count_text, place_text

        arrays = sum(part.node.found == "array" for part in self.parts)
        words = f"{count_text(arrays, 'array')} of {count_text(len(self.parts), 'member')}"
        yield Text(f"{place_text(self.group)}: {words}", "bold")
        for part in self.parts:
            if part.report is None and part.error is None and part.node.found == "group":
                continue
            yield ""
            yield Text(f"── {part.node.path} ──", "bold cyan")
            if part.error is not None:
                yield Text(f"it cannot be read: {part.error}", "red")
            elif part.report is None:
                yield Text(f"{part.node.found}: {part.node.problem}", "yellow")
            else:
                yield from part.report.to_text()


def each_array(
    place: Array | Group,
    report: Callable[[Array], Any],
    *,
    member: str | None = None,
    end: Any = None,
) -> Any:
    """Report on an array; of a group, on every array that is a member at a moment.

    Args:
        place: The array, or the group.
        report: Reports on one array.
        member: Of a group: only members whose path fits this pattern.
        end: Of a group: the moment; now, if it is left out.
    """
    from chronotile.array import Array
    from chronotile.show.output import progress

    if isinstance(place, Array):
        if member is not None:
            raise wrong_call("--member: expected a group, found an array")
        return report(place)
    nodes = chosen(place.dataset, member, end)
    parts = []
    arrays = sum(node.found == "array" for node in nodes)
    with progress("reading members", arrays) as step:
        for node in nodes:
            if node.found != "array" or node.store is None:
                parts.append(Part(node=node))
                continue
            try:
                parts.append(Part(node=node, report=report(Array(node.store, place.key))))
            except ChronotileError as error:
                parts.append(Part(node=node, error=error))
            step()
    return MembersReport(group=place.uri, parts=tuple(parts))


def chosen(dataset: Dataset, pattern: str | None, end: Any = None) -> list[Node]:
    """The members at a moment whose paths fit a pattern.

    Raises:
        ChronotileError: None does.
    """
    nodes = [node for node in dataset.tree(end) if node.fits(pattern)]
    if pattern is not None and not nodes:
        problem = f"expected members that fit {pattern!r}, found none"
        raise ChronotileError(dataset.uri, problem)
    return nodes
