"""How much a check looked at.

In: counts, added up while a check runs. Out: `LookedAt`, and the same in words. Finds nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from chronotile.check.findings import count_text

Reach: TypeAlias = Literal["log", "fragments", "deep"]
"""How far a check goes: the commit log; also the metadata of fragments; also their cells."""


@dataclass(slots=True)
class LookedAt:
    """What the checks of one array, or of many, have looked at."""

    schemas: int = 0
    fragments: int = 0
    """Fragments whose metadata was read."""
    files: int = 0
    """Cell files whose tiles and chunks were looked at."""
    opened: int = 0
    """Cell files that were opened to their content."""
    bytes: int = 0
    """Bytes of the cell files."""

    def to_dict(self) -> dict[str, int]:
        """The counts by their names."""
        return asdict(self)

    def words(self, reach: Reach) -> str:
        """What was looked at, in one line, and what was not.

        >>> LookedAt(schemas=1, fragments=2).words("fragments")
        'looked at the log, 1 schema and the metadata of 2 fragments; --deep also opens cells'
        >>> LookedAt(schemas=1).words("log")
        'looked at the log and 1 schema, and at no fragment'
        """
        schemas, fragments = (
            count_text(self.schemas, "schema"),
            count_text(self.fragments, "fragment"),
        )
        if reach == "log":
            return f"looked at the log and {schemas}, and at no fragment"
        words = f"looked at the log, {schemas} and the metadata of {fragments}"
        if reach == "fragments":
            return f"{words}; --deep also opens cells"
        files = count_text(self.files, "cell file")
        depth = "all of them" if self.opened == self.files else f"{self.opened:,} of them"
        return f"{words}, and at {files} of {self.bytes:,} bytes, {depth} to the content"
