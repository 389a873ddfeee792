"""A change as values: what it does, stage by stage, and the report of what it did.

In: steps. Out: `Plan`, which `executor` carries out, and `Report`: the steps as one line for people
and as JSON. A dry run is the report of a plan that nobody executed. Touches no array.
"""

from __future__ import annotations

import hashlib
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from chronotile.check.findings import count_text
from chronotile.errors import ChronotileError
from chronotile.format.documents import json_text
from chronotile.format.timestamps import iso_time, now_ms
from chronotile.safe_text import html_card, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chronotile.check.findings import Finding
    from chronotile.storage.store import Store
    from chronotile.storage.transfer import Link

Op: TypeAlias = Literal["put", "write", "link", "copy", "replace", "remove", "move"]
Before: TypeAlias = "Callable[[Report], None] | None"
"""Called with the planned steps before the first of them; an error that it raises stops the run."""


FOLDERS = ("write", "link", "copy")
"""Steps that make a whole fragment from files that are elsewhere, or at hand."""

_DONE = {
    "put": "put",
    "write": "wrote",
    "link": "linked",
    "copy": "copied",
    "replace": "replaced",
    "remove": "removed",
    "move": "moved",
}
"""Operation -> the word for it once it is done."""


class Source(NamedTuple):
    """The files of a folder: where they are, and the names that they get.

    They are taken from `store`, or written from `content`. With neither, they are there already, as
    a look wrote them: the step only compares their `sizes`.
    """

    store: Store | None
    names: Mapping[str, str]
    """Path in that store -> path in the array."""
    sizes: Mapping[str, int | None]
    """Path in the array -> bytes."""
    content: Mapping[str, bytes] = {}
    """Path in the array -> content, of files that are at hand."""
    link: Link = "hard"
    """How the files are taken over on one disk."""


def at_hand(content: Mapping[str, bytes]) -> Source:
    """Give files that are in memory: path in the array -> content."""
    return Source(None, {}, {path: len(data) for path, data in content.items()}, content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One file, or one folder that is copied, and what happens to it."""

    op: Op
    path: str
    """Relative to the array."""
    size: int | None
    """Bytes; None if unknown."""
    reason: str
    data: bytes = field(default=b"", repr=False, compare=False)
    """The content of a file that is put, replaced or moved."""
    old: bytes = field(default=b"", repr=False, compare=False)
    """The content that a replacement expects to find."""
    source: Source | None = field(default=None, repr=False, compare=False)
    """The files of a folder that is copied, or moved into the quarantine; or one file, which has
    the path of the step."""
    keep: bool = field(default=True, compare=False)
    """Whether the quarantine keeps the old content of a replacement."""
    may_vanish: bool = field(default=False, compare=False)
    """Another maintainer may remove the file at once, for a later one that holds the same."""

    @property
    def fragment_files(self) -> int | None:
        """The number of files of a whole fragment, 0 if nobody knows it yet; else None."""
        if self.source is None or self.path in self.source.sizes:
            return None
        return len(self.source.sizes)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON form, with all that an undo needs to recognise the file."""
        document: dict[str, Any] = {
            "op": self.op,
            "path": self.path,
            "size": self.size,
            "reason": self.reason,
        }
        if self.source is not None and self.fragment_files is not None:
            start = len(self.path) + 1
            document["files"] = {path[start:]: size for path, size in self.source.sizes.items()}
        elif self.op in ("put", "replace", "move"):
            document["sha256"] = hashlib.sha256(self.data).hexdigest()
        return document


class Seen(NamedTuple):
    """The findings of a look that the plan could not know."""

    steps: tuple[Step, ...] = ()
    """Steps that have become necessary, before those of the stage."""
    leave: frozenset[str] = frozenset()
    """Paths of steps of the stage that must not be done any more."""
    stages: tuple[Stage, ...] = ()
    """Stages that take the place of the stage's own steps."""
    notes: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    """URIs of commits that the change adds, and that the plan did not know."""
    hidden: tuple[str, ...] = ()
    """Names of fragments that the change hides, and that the plan did not know."""
    hides: tuple[str, ...] = ()
    """Names of fragments that its stages are about to hide: whoever settles a run that was broken
    off must know them, as a vacuum may have removed them since."""
    findings: tuple[Finding, ...] | None = None
    """What is wrong now, in place of what the plan knew; None if the look was not for that."""


Look: TypeAlias = "Callable[[Store], Seen | None]"
"""A look at the array just before the steps of a stage: it gives what was found, or raises
`ChangedError` if what the plan relies on is gone or has changed.

Most only read. A few act, where what is to be done depends on what is found just then:

  - `RewrittenRows`, `_BatchMerge`, `_Later` and `take_deletes_out` make the stages that follow; the
    first three write rows aside for them. The stage's own steps are what the dry run tells, and are
    left out;
  - `remove_orphans` removes orphans; the stage's own steps find them gone, and count them;
  - `Holds`, the last look of an undo and a merge's `after` take a switch back that must not stand;
  - the last look of `Showing` waits for a moment.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Steps between which the array is never in doubt; a run may stop before or after them."""

    name: str
    """What it is about. This and `seen` are for people who read a planner: no code does."""
    seen: str = "every window sees what it saw before"
    """The view of a reader if the run stops before the next stage."""
    looks: tuple[Look, ...] = ()
    steps: tuple[Step, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders that go once the files in them are removed."""


@dataclass(frozen=True, slots=True, repr=False)
class _Change:
    """The facts about a change that its plan and its report share."""

    command: str
    array: str
    _: KW_ONLY
    notes: tuple[str, ...] = ()
    """Notes for the user: losses, and files that the change leaves alone, with the reason."""
    findings: tuple[Finding, ...] = ()
    """Problems that a repair cannot mend."""
    added: tuple[str, ...] = ()
    """URIs of the commits that the change adds: an undo takes them out again, and no others."""
    hidden: tuple[str, ...] = ()
    """Names of fragments that the change hides: an undo needs them all."""
    undoes: str | None = None
    """The operation that this one takes back."""
    finals: tuple[str, ...] = ()
    """Operations that can no longer be undone once this one is done."""
    losses: tuple[str, ...] = ()
    """Losses that cannot be undone, in words: they are printed before the first step."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows that the change touches, by what happens to them; empty if nobody counted."""
    engine_open_requests: tuple[int, int] | None = None
    """Requests that an engine's open costs in a bucket, before and after; None if not known."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further facts for the JSON report of a dry run."""
    at_ms: int = field(default_factory=now_ms)


@dataclass(frozen=True, slots=True)
class Plan(_Change):
    """All that one change of one array, or of a group's own files, is going to do."""

    _: KW_ONLY
    stages: tuple[Stage, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in order."""
        return tuple(step for stage in self.stages for step in stage.steps)

    def report(self) -> Report:
        """Report what would be done: the dry run. Its notes begin with the losses."""
        shared = {one.name: getattr(self, one.name) for one in fields(_Change)}
        shared["notes"] = (*self.losses, *self.notes)
        return Report(**shared, dry_run=True, steps=lasting(self.steps))


def lasting(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Leave out the files that a change puts and removes again.

    >>> there = put("a", b"", "stands in")
    >>> gone = Step(op="remove", path="a", size=0, reason="no longer needed")
    >>> lasting((there, put("b", b"", "stays"), gone))
    (Step(op='put', path='b', size=0, reason='stays', keep=True, may_vanish=False),)
    """
    last = {step.path: step.op for step in steps}
    puts = {step.path for step in steps if step.op == "put"}
    passing = {path for path in puts if last[path] == "remove"}
    return tuple(step for step in steps if step.path not in passing)


_MOST_SHOWN = 8
"""Steps that a notebook shows."""


@dataclass(frozen=True, slots=True, repr=False)
class Report(_Change):
    """The steps that a command is about to do, or has done."""

    _: KW_ONLY
    dry_run: bool
    steps: tuple[Step, ...]
    quarantine: str | None = None
    """Where the moved files are."""
    operation: str | None = None
    """The id of the operation that keeps the record."""
    certificate: Mapping[str, Any] = field(default_factory=dict)
    """Of an erasure: what was read, and what is left; no record has it."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Path -> SHA-256 of a file that was copied through this process, taken on its way."""

    @property
    def has_steps(self) -> bool:
        """Return True if anything is, or was, to be done."""
        return bool(self.steps)

    @property
    def state(self) -> Literal["done", "final"]:
        """The state of the change once it is done: what removed files is final."""
        return "final" if any(step.op == "remove" for step in self.steps) else "done"

    @property
    def can_be_undone(self) -> bool:
        """Return True if there is something to undo, and a way to do it."""
        return bool(self.steps) and self.state == "done"

    def __repr__(self) -> str:
        # A delete says in its only step what it deletes.
        reason = f": {self.steps[0].reason}" if len(self.steps) == 1 else ""
        return f"<{self.command} of {self.array}: {self.summary()}{printable(reason)}>"

    def _repr_html_(self) -> str:
        """Show the report in a notebook."""
        rows: list[tuple[str, str]] = [
            (step.op, f"{step.path}: {step.reason}") for step in self.steps[:_MOST_SHOWN]
        ]
        if len(self.steps) > _MOST_SHOWN:
            rows.append(("…", f"and {len(self.steps) - _MOST_SHOWN:,} more"))
        rows += [("note", note) for note in self.notes]
        title = f"{self.command} of {self.array}: {self.summary()}"
        return html_card(title, [*rows, *((one.code, one.message) for one in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON report.

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
        if self.operation is not None:
            document["operation"] = self.operation
        if self.rows:
            document["rows"] = dict(self.rows)
        if self.checksums:
            document["sha256"] = dict(self.checksums)
        if self.added:
            document["added"] = list(self.added)
        if self.hidden:
            document["hidden"] = list(self.hidden)
        if self.undoes is not None:
            document["undoes"] = self.undoes
        if self.dry_run:
            document |= self.facts
        if self.quarantine is not None:
            document |= {"quarantine": self.quarantine, "restore": None}
        return document | dict(self.certificate)

    def to_json(self) -> str:
        """Give the JSON report as text."""
        return json_text(self.to_dict())

    def summary(self, *, would: str = "would") -> str:
        """Count the steps in one line, and the findings that are left.

        `would` is the word before a step that is not done yet.

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
            word = f"{would} {op}" if self.dry_run else done
            where = " to the quarantine" if op == "move" else ""
            parts += [f"{word} {_counted(own)}{where}" for own in kinds if own]
        if self.findings:
            noun = "difference" if self.command == "replicate" else "finding"
            left = "" if self.command == "replicate" else " not repaired"
            parts.append(f"{count_text(len(self.findings), noun)}{left}")
        idle = "nothing to do"
        if "matches_left" in self.certificate:
            left = self.certificate["matches_left"]
            idle = f"{count_text(left, 'match', 'matches')} left" if left else "no match left"
        return ", ".join(parts) or idle


def _counted(steps: list[Step]) -> str:
    """Count fragments or files, with their bytes.

    >>> source = Source(None, {}, {"f/a": 2, "f/b": 3})
    >>> one = Step(op="link", path="f", size=5, reason="", source=source)
    >>> _counted([one, one])
    '2 fragments (4 files, 10 bytes)'
    """
    sizes = [step.size for step in steps if step.size is not None]
    size = f"{sum(sizes):,} bytes" if sizes else "bytes not known beforehand"
    if steps[0].fragment_files is None:
        return f"{count_text(len(steps), 'file')} ({size})"
    files = sum(step.fragment_files or 0 for step in steps)
    inside = f"{count_text(files, 'file')}, {size}" if files else size
    return f"{count_text(len(steps), 'fragment')} ({inside})"


def tell(before: Before, planned: Report) -> None:
    """Call `before`, if there is one, with steps that are about to begin."""
    if before is not None and planned.steps:
        before(planned)


def check_mode(where: str, mode: str, known: tuple[str, ...]) -> None:
    """Refuse a mode that a command does not have.

    >>> check_mode("a", "everything", ("commits", "all"))
    Traceback (most recent call last):
    chronotile.errors.ChronotileError: a: expected a mode of commits, all; found 'everything'
    """
    if mode not in known:
        raise ChronotileError(where, f"expected a mode of {', '.join(known)}; found {mode!r:.80}")


def put(path: str, data: bytes, reason: str, *, may_vanish: bool = False) -> Step:
    """Make the step that puts a new file."""
    size = len(data)
    return Step(op="put", path=path, size=size, reason=reason, data=data, may_vanish=may_vanish)
