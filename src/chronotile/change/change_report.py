"""What a change is about to do to an array, or has done.

In: steps. Out: `Report`: the steps as one line for people and as JSON. Does nothing to the array
itself.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chronotile.check.findings import count_text
from chronotile.errors import ChronotileError, html_card, printable, printable_json
from chronotile.format.timestamps import iso_time, now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.check.findings import Finding

Op: TypeAlias = Literal["put", "write", "link", "copy", "replace", "remove", "move"]
Before: TypeAlias = "Callable[[Report], None] | None"
"""Called with the planned steps before the first of them; an error that it raises stops the run."""


FOLDERS = ("write", "link", "copy")
"""Steps that can make a whole fragment, whose folder stays whatever becomes of its commit."""

_DONE = {
    "put": "put",
    "write": "wrote",
    "link": "linked",
    "copy": "copied",
    "replace": "replaced",
    "remove": "removed",
    "move": "moved",
}
"""What a step is called once it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens to one file."""

    op: Op
    path: str
    """Relative to the array."""
    size: int | None
    """Bytes; None if unknown."""
    reason: str
    data: bytes = field(default=b"", repr=False, compare=False)
    """The content of a file that is put, replaced or moved."""
    fragment_files: int | None = None
    """If it makes a whole fragment: how many files that has, 0 if nobody knows yet."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; a file that is put has the digest by which an undo knows it again."""
        document = {"op": self.op, "path": self.path, "size": self.size, "reason": self.reason}
        if self.fragment_files is not None:
            document["files"] = self.fragment_files or None
        if self.op in ("put", "replace"):
            document["sha256"] = hashlib.sha256(self.data).hexdigest()
        return document


_FEW = 8
"""Steps that a notebook shows."""


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """What a command is about to do, or what it did."""

    command: str
    array: str
    _: KW_ONLY
    dry_run: bool
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    """What the user must know: what the change loses, what it left alone and why."""
    findings: tuple[Finding, ...] = ()
    """What the repair could not mend."""
    at_ms: int = field(default_factory=now_ms)
    quarantine: str | None = None
    """Where the moved files are."""
    restore: str | None = None
    """The command that puts the moved files back."""
    added: tuple[str, ...] = ()
    """URIs of the commits that the change adds: an undo takes them out again, and no others."""
    hidden: tuple[str, ...] = ()
    """Names of fragments that the change hides: an undo needs them all."""
    undoes: str | None = None
    """The report of the change that this one took back."""
    engine_open_requests: tuple[int, int] | None = None
    """Requests that an engine's open costs in a bucket, before and after; None if not known."""

    def __repr__(self) -> str:
        # A delete says in its only step what it deletes.
        reason = f": {self.steps[0].reason}" if len(self.steps) == 1 else ""
        return f"<{self.command} of {self.array}: {self.summary()}{printable(reason)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows: list[tuple[str, str]] = [
            (step.op, f"{step.path}: {step.reason}") for step in self.steps[:_FEW]
        ]
        if len(self.steps) > _FEW:
            rows.append(("…", f"and {len(self.steps) - _FEW:,} more"))
        rows += [("note", note) for note in self.notes]
        title = f"{self.command} of {self.array}: {self.summary()}"
        return html_card(title, [*rows, *((one.code, one.message) for one in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """The JSON report.

        >>> Report("vacuum", "a", dry_run=True, steps=()).to_dict()["steps"]
        []
        """
        document: dict[str, Any] = {
            "command": self.command,
            "array": self.array,
            "dry_run": self.dry_run,
            "time": iso_time(self.at_ms),
            "steps": [step.to_dict() for step in self.steps],
            "notes": list(self.notes),
            "findings": [item.to_dict() for item in self.findings],
        }
        if self.engine_open_requests is not None:
            first, then = self.engine_open_requests
            document["engine_open_requests"] = {"before": first, "after": then}
        if self.added:
            document["added"] = list(self.added)
        if self.hidden:
            document["hidden"] = list(self.hidden)
        if self.undoes is not None:
            document["undoes"] = self.undoes
        if self.quarantine is not None:
            document |= {"quarantine": self.quarantine, "restore": self.restore}
        return document

    def to_json(self) -> str:
        """The JSON report as text."""
        return json_text(self.to_dict())

    def begun_json(self) -> str:
        """The JSON report of steps that are about to begin."""
        return json_text({"state": "begun", **self.to_dict()})

    def summary(self) -> str:
        """The steps in one line.

        >>> Report("vacuum", "a", dry_run=False, steps=()).summary()
        'nothing to do'
        """
        parts = []
        for op, done in _DONE.items():
            steps = [step for step in self.steps if step.op == op]
            kinds = (
                [step for step in steps if step.fragment_files is not None],
                [step for step in steps if step.fragment_files is None],
            )
            word = f"would {op}" if self.dry_run else done
            parts += [f"{word} {_counted(own)}" for own in kinds if own]
        return ", ".join(parts) or "nothing to do"


def _counted(steps: list[Step]) -> str:
    """Fragments or files, with their bytes.

    >>> one = Step(op="link", path="__fragments/x", size=5, reason="", fragment_files=3)
    >>> _counted([one, one])
    '2 fragments (6 files, 10 bytes)'
    """
    sizes = [step.size for step in steps if step.size is not None]
    size = f"{sum(sizes):,} bytes" if sizes else "bytes not known beforehand"
    if steps[0].fragment_files is None:
        return f"{count_text(len(steps), 'file')} ({size})"
    files = sum(step.fragment_files or 0 for step in steps)
    inside = f"{count_text(files, 'file')}, {size}" if files else size
    return f"{count_text(len(steps), 'fragment')} ({inside})"


def tell(before: Before, planned: Report) -> None:
    """Calls `before`, if there is one, with steps that are about to begin."""
    if before is not None and planned.steps:
        before(planned)


def check_mode(where: str, mode: str, known: tuple[str, ...]) -> None:
    """Refuses a mode that a command does not have.

    >>> check_mode("a", "everything", ("commits", "all"))
    Traceback (most recent call last):
    chronotile.errors.ChronotileError: a: expected a mode of commits, all; found 'everything'
    """
    if mode not in known:
        raise ChronotileError(where, f"expected a mode of {', '.join(known)}; found {mode!r:.80}")


def put(path: str, data: bytes, reason: str) -> Step:
    """The step that puts a new file."""
    return Step(op="put", path=path, size=len(data), reason=reason, data=data)


def json_text(document: dict[str, Any]) -> str:
    """A document as JSON text that can be printed."""
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"
