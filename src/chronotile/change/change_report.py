"""Plans of changes to an array, and reports of what was done.

In: steps. Out: `Report`: what is to be done or was done, as a line for people and as JSON. Does
nothing to the array itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chronotile.errors import printable_json
from chronotile.format.timestamps import iso_time

if TYPE_CHECKING:
    from chronotile.check.findings import Finding

Op: TypeAlias = Literal["put", "remove", "move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One file, and what happens to it."""

    op: Op
    path: str
    """Relative to the array."""
    size: int | None
    """Bytes; None where nobody asked."""
    reason: str
    data: bytes | None = field(default=None, repr=False, compare=False)
    """What is put."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a command is going to do, or what it did."""

    command: str
    array: str
    dry_run: bool
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    """What its user must know: what is lost by it, what was left alone and why."""
    findings: tuple[Finding, ...] = ()
    """What could not be mended."""
    at_ms: int = 0
    quarantine: str | None = None
    """Where moved files are, if any were."""
    restore: str | None = None
    """The command that puts them back."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON report.

        >>> Report(command="vacuum", array="a", dry_run=True, steps=()).to_dict()["steps"]
        []
        """
        document: dict[str, Any] = {
            "command": self.command,
            "array": self.array,
            "dry_run": self.dry_run,
            "time": iso_time(self.at_ms) if self.at_ms else None,
            "steps": [
                {"op": step.op, "path": step.path, "size": step.size, "reason": step.reason}
                for step in self.steps
            ],
            "notes": list(self.notes),
            "findings": [item.to_dict() for item in self.findings],
        }
        if self.quarantine is not None:
            document |= {"quarantine": self.quarantine, "restore": self.restore}
        return document

    def to_json(self) -> str:
        """The JSON report as text."""
        return printable_json(json.dumps(self.to_dict(), indent=2, ensure_ascii=False)) + "\n"

    def summary(self) -> str:
        """What it does, in one line.

        >>> Report(command="vacuum", array="a", dry_run=False, steps=()).summary()
        'nothing to do'
        """
        said = []
        for op, done in (("put", "put"), ("remove", "removed"), ("move", "moved")):
            sizes = [step.size or 0 for step in self.steps if step.op == op]
            if sizes:
                files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
                word = f"would {op}" if self.dry_run else done
                said.append(f"{word} {files} ({sum(sizes)} bytes)")
        return ", ".join(said) or "nothing to do"
