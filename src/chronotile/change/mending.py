"""What a repair does, gathered step by step.

In: files and commits, from those who look at files and at fragments. Out: `Mending`, which `repair`
carries out. Touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chronotile.change.change_report import put

if TYPE_CHECKING:
    from chronotile.change.change_report import Step
    from chronotile.check.findings import Finding


@dataclass(slots=True)
class Mending:
    """What a repair does, gathered step by step."""

    moves: dict[str, str] = field(default_factory=dict)
    """Path -> why the file leaves the array."""
    commits: dict[str, str] = field(default_factory=dict)
    """URI -> why the commit of a fragment leaves the array, loose or in a `.con`."""
    puts: dict[str, Step] = field(default_factory=dict)
    """New files by path; put before any file is moved."""
    replaced: dict[str, Step] = field(default_factory=dict)
    """New content of files that are moved: each is exchanged in one step."""
    notes: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    """What the repair does not mend."""

    def replace(self, path: str, data: bytes, why: str, reason: str) -> None:
        """Exchanges the content of a file; `why` is the reason to move the old one."""
        self.moves[path] = why
        self.replaced[path] = put(path, data, reason)

    def put(self, path: str, data: bytes, reason: str) -> None:
        """Adds a new file."""
        self.puts[path] = put(path, data, reason)


def lost_metadata(where: str, path: str) -> str:
    """Say what goes with a damaged file of the metadata of an array or a group."""
    return (
        f"the metadata that only {path} holds is lost, and a tag with it: chronotile tag list "
        f"{where} lists those that are left; add a lost one again before the next vacuum"
    )
