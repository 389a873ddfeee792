"""What is wrong, or surprising, in an array.

In: nothing. Out: `Finding`, the severity of each code, and what to do about it. Finds nothing
itself: the other modules of this room do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from chronotile.errors import ChronotileError, printable

Severity: TypeAlias = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The worst first: the engine fails or data is lost; a surprise; debt."""

_REPAIR = "chronotile repair {array}"
_TIDY = "chronotile consolidate {array}, then chronotile vacuum {array}"

CODES: dict[str, tuple[Severity, str]] = {
    "name-malformed": ("error", f"{_REPAIR} moves it, or mends the file that names it"),
    "con-truncated": ("error", f"{_REPAIR} brings back what can be told for certain"),
    "con-name-range": ("warning", f"{_TIDY}: the new file is named for what it holds"),
    "con-superseded": ("info", "chronotile vacuum {array} removes it"),
    "con-blocks-consolidation": ("warning", f"{_REPAIR} puts the lost files back"),
    "con-has-updates": ("warning", "nothing to run: an engine that reads updates may need it"),
    "fragment-name-range": ("warning", "open at windows that cover all it was made from"),
    "commit-without-fragment": (
        "error",
        f"{_REPAIR} brings back what it was made from, or takes the commit out",
    ),
    "fragment-without-commit": (
        "warning",
        "if no write is under way, chronotile vacuum {array} --orphans removes it",
    ),
    "fragment-file-missing": (
        "error",
        f"{_REPAIR} brings back what it was made from, if that is there",
    ),
    "fragment-damaged": (
        "error",
        f"{_REPAIR} brings back what it was made from, if that is there",
    ),
    "delete-null": ("error", f"{_REPAIR} moves the delete out; write it anew without NULL"),
    "delete-hits-null": ("warning", "if these rows matter, write them again"),
    "delete-dropped-field": ("error", f"{_REPAIR} moves the delete out and says what comes back"),
    "delete-lost": ("warning", "do not consolidate its fragments with the engine: it would crash"),
    "delete-hits-older": ("warning", "if these rows matter, write them again"),
    "delete-ignored": ("warning", f"{_TIDY}: the delete stays, the .ign goes"),
    "delete-duplicate": ("info", "chronotile vacuum {array} leaves one of them"),
    "update-deletes": ("warning", "write the rows anew, or take the update out by hand"),
    "vac-absolute": ("info", "chronotile vacuum {array} removes it with what it lists"),
    "same-timestamp": ("warning", "write with timestamps of your own that differ"),
    "tile-corrupt": ("error", f"{_REPAIR} moves it out, where the array can do without it"),
    "tile-encrypted": ("info", "give --key-file to have it checked"),
    "many-loose-commits": ("info", f"{_TIDY}: an open then lists one file"),
    "unreadable": ("error", "look at the storage and who may read it, then run this again"),
}
"""Code -> how bad it is as a rule, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that `check` found."""

    code: str
    severity: Severity
    array: str
    path: str
    """What it is about, relative to the array."""
    message: str
    hint: str
    """What to do."""

    def to_dict(self) -> dict[str, str]:
        """What `check --json` prints of it.

        >>> list(finding("memory://a", "vac-absolute", "__commits/x.vac", "…").to_dict())
        ['code', 'severity', 'array', 'path', 'message', 'hint']
        """
        return {
            "code": self.code,
            "severity": self.severity,
            "array": self.array,
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
        }


def finding(
    array: str,
    code: str,
    path: str,
    message: str,
    *,
    severity: Severity | None = None,
    hint: str | None = None,
) -> Finding:
    """Makes a finding with the severity and the hint of its code, unless others are given.

    >>> finding("a", "name-malformed", "__commits/x.wrt", "no name").hint
    'chronotile repair a moves it, or mends the file that names it'
    """
    usual, advice = CODES[code]
    return Finding(
        code=code,
        severity=severity or usual,
        array=array,
        path=path,
        # A name from inside a file may hold anything, even what moves a terminal's cursor.
        message=printable(message),
        hint=(advice if hint is None else hint).format(array=array),
    )


class RefusedError(ChronotileError):
    """The array is in a state, or the call of a kind, that would do harm.

    >>> str(RefusedError("a", "expected a sound array, found damage"))
    'a: expected a sound array, found damage'
    """

    def __init__(self, where: str, problem: str, findings: tuple[Finding, ...] = ()) -> None:
        Exception.__init__(self, where, problem, findings)
        self.where = where
        self.problem = problem
        self.findings = findings
        """What stands in the way."""
        self.hint = findings[0].hint if findings else None

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"
