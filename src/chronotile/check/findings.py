"""Findings: the things that are wrong, or surprising, in an array; and how much a check looked at.

In: codes, paths, messages, errors. Out: `Finding`, the severity and the hint of each code;
`CappedFindings`, the first of each code with true numbers, for an array that has very many;
`LookedAt`; words for messages; the finding on an array that could not be read. Finds nothing
itself: the other modules of this room do.

A damaged array differs from one that could not be read: if the storage refuses, or memory runs
out, the array may be sound, and needs no repair.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from chronotile.errors import (
    ArrayNotFoundError,
    BadFileError,
    BadNameError,
    ChronotileError,
    KeyNeededError,
    WrongKeyError,
    is_damage,
)
from chronotile.safe_text import printable, shell_word

if TYPE_CHECKING:
    from collections.abc import Iterable

Severity: TypeAlias = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The worst first: the engine fails or data is lost; a surprise; debt."""

_SHOWN = 5
_REPAIR = "chronotile repair {array}"
TIDY = "chronotile consolidate {array} && chronotile vacuum {array}"
"""The commands that put commits in order."""
_BACK = f"to bring back what it was made from, if that is there: {_REPAIR}"
_COMPLETED = (
    "to complete its last entry, or to leave out a delete that cannot be read: "
    f"{_REPAIR}; to leave out an entry whose name is lost: {_REPAIR} --accept-loss"
)
_UNCOMMITTED = f"if a backup has the folder, copy it back; if not, take its commit out: {_REPAIR}"
_VACUUM = "chronotile vacuum {array}"
_LOOK = "chronotile check {array}"
_APPLY = "to write these rows with the new values: chronotile apply {array}"
_ROWS_BACK = (
    "to see all rows that it removed: chronotile rows {array} --removed-by {name}; "
    "to bring them back: chronotile undelete {array} {name}"
)
TAKEN_OUT = (
    "if a replica or a backup has this file, copy that back; if none has, to leave out this one "
    f"commit (the rows that it hid show again): {_REPAIR}"
)
"""The hint on a delete or update that cannot be read."""
LEFT_OUT = (
    "to write this .con again without the delete or update that cannot be read (the rows that it "
    f"hid show again): {_REPAIR}"
)
"""The hint on a delete or update that cannot be read and stands in a `.con`."""

KEEP_OR_DROP = (
    "to keep its rows, if no write is under way: chronotile repair {array} --commit-orphans; "
    "to drop them, 24 hours after its files were written: chronotile vacuum {array} --whole-orphans"
)
"""The hint on a fragment that lacks only its commit."""
DROPPED = (
    "to see the rows that come back without it: chronotile rows {array} --removed-by {name}; "
    f"to take it out: {_REPAIR}"
)
"""The hint on a delete that keeps the engine from reading, as it names a field that is gone."""
_BY_HAND = (
    "nothing to run: if no restore wrote this .vac, move it out of the array by hand before the "
    "next vacuum: then what it lists is visible again"
)
_MOMENTS = "to list the times at which all can be read: chronotile moments {array}"


def left_out(copy: str | None) -> str:
    """Give the hint on a delete or update in a `.con` that cannot be read; `copy` holds it whole.

    >>> left_out("__commits/x.del").partition(";")[0]
    '__commits/x.del holds the same delete or update whole'
    """
    if copy is None:
        return LEFT_OUT
    safe = copy.replace("{", "{{").replace("}", "}}")  # a hint is a format
    whole = f"{safe} holds the same delete or update whole"
    return f"{whole}; to write this .con again with it: {_REPAIR}"


UNREADABLE = "unreadable"
"""The code of an array or folder that could not be read, and may be sound."""
SEALED = "tile-encrypted"
"""The code of what no key was given for: an info; or another key than its own: an error."""

CODES: dict[str, tuple[Severity, str]] = {
    "name-malformed": ("error", f"to move it to the quarantine: {_REPAIR}"),
    "con-truncated": ("error", _COMPLETED),
    "con-name-range": ("warning", f"to have a file that is named for what it holds: {TIDY}"),
    "con-superseded": ("info", f"to remove it: {_VACUUM}"),
    "con-blocks-consolidation": ("warning", f"to put the lost files back: {_REPAIR}"),
    "con-has-updates": ("warning", _APPLY),
    "fragment-name-range": ("warning", "open at windows that cover all it was made from"),
    "commit-without-fragment": ("error", _UNCOMMITTED),
    "vac-without-fragment": ("warning", _BY_HAND),
    "fragment-without-commit": ("warning", f"to see if it is whole, and what removes it: {_LOOK}"),
    "restore-undone": ("warning", f"to hide it, and to show what the restore showed: {_REPAIR}"),
    "enumeration-missing": (
        "error",
        "copy this file back from a replica or a backup; if there is none, nothing to run",
    ),
    "fragment-file-missing": ("error", _BACK),
    "fragment-damaged": ("error", _BACK),
    "fragment-tile-count": (
        "error",
        "write its cells again with TileDB core 2.29.2 or later: reads of it fail or are wrong",
    ),
    "fragment-file-extra": ("warning", "nothing to run: TileDB passes over it"),
    "cells-unopened": ("info", "read these fields with TileDB to have them checked"),
    "delete-null": ("error", f"to take it out, and then write it again without NULL: {_REPAIR}"),
    "delete-hits-null": ("warning", _ROWS_BACK),
    "delete-dropped-field": ("error", DROPPED),
    "delete-lost": ("warning", f"to put one that matches no row in its place: {_REPAIR}"),
    "delete-hits-older": ("warning", _ROWS_BACK),
    "late-write-hidden": ("warning", "write its rows again with a later time"),
    "delete-ignored": ("warning", f"to remove the .ign (the delete stays): {TIDY}"),
    "delete-duplicate": ("info", f"to leave one of them: {TIDY}"),
    "update-deletes": ("warning", _APPLY),
    "vac-absolute": ("info", f"to remove it with what it lists: {_VACUUM}"),
    "same-timestamp": (
        "warning",
        "to settle which row shows where both hold one, write that row again, at a later time",
    ),
    "tile-corrupt": (
        "error",
        f"to move it to the quarantine, if the array can be read without it: {_REPAIR}",
    ),
    SEALED: ("info", f"to check it, with the file of its key: {_LOOK} --key-file FILE"),
    "version-unknown": ("info", "pip install --upgrade chronotile"),
    "many-loose-commits": ("info", f"for an open that lists one file: {TIDY}"),
    "superseded-bytes": ("info", f"to free them: {_VACUUM}"),
    "many-small-fragments": (
        "info",
        f"to merge them: chronotile compact {{array}}; then, for good: {_VACUUM} --mode fragments",
    ),
    "metadata-unconsolidated": (
        "info",
        f"for fewer requests: chronotile consolidate {{array}} --mode fragment-meta && {_VACUUM}",
    ),
    "member-missing": (
        "error",
        "nothing to run: put its folder back, or remove the member from the group with TileDB",
    ),
    "member-elsewhere": (
        "warning",
        f"if the group was copied, to name the copies instead: {_REPAIR}",
    ),
    "replica-differs": ("warning", "to bring it up to date: chronotile replicate SOURCE {array}"),
    "member-doubled": ("info", "nothing to run: it counts once"),
    "member-cyclic": ("warning", "remove the member: no program can follow it to an end"),
    "stray-array": ("info", "add it to the group, or move it out of the folder"),
    "many-member-lists": ("info", f"for an open that reads one list: {TIDY}"),
    "as-of-absent": ("warning", _MOMENTS),
    "as-of-partial": ("error", _MOMENTS),
    "future-commit": ("warning", "nothing to run: an open sees it from that time on"),
    "tag-unreadable": (
        "warning",
        "to remove the tag, and then name another moment: chronotile tag remove {array} {name}",
    ),
    UNREADABLE: ("error", "check permissions and the storage, then run this again"),
}
"""Code -> its usual severity, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or surprising."""

    code: str
    severity: Severity
    array: str
    path: str
    """The file or folder, relative to the array."""
    message: str
    hint: str
    """What to do."""

    def to_dict(self) -> dict[str, str]:
        """Return the JSON form, as `check --json` prints it.

        >>> list(finding("memory://a", "vac-absolute", "__commits/x.vac", "…").to_dict())
        ['code', 'severity', 'array', 'path', 'message', 'hint']
        """
        return asdict(self)


def finding(
    array: str,
    code: str,
    path: str,
    message: str,
    *,
    severity: Severity | None = None,
    hint: str | None = None,
    name: str = "NAME",
    place: str | None = None,
) -> Finding:
    """Make a finding; its code gives the severity and the hint, unless the caller does.

    A hint is a command that can be pasted: `{array}` in it becomes the array, or another place if
    the caller names one, and `{name}` the name.

    >>> finding("a", "name-malformed", "__commits/x.wrt", "no name").hint
    'to move it to the quarantine: chronotile repair a'
    """
    usual, advice = CODES[code]
    return Finding(
        code=code,
        severity=severity or usual,
        array=array,
        path=path,
        # A name from inside a file may hold anything, even codes that move a terminal's cursor.
        message=printable(message.removeprefix(f"{path}: ")),
        hint=(advice if hint is None else hint).format(
            array=shell_word(place or array), name=shell_word(name)
        ),
    )


def wrong_key(array: str, path: str, message: str) -> Finding:
    """Make the finding on a file that the given key does not open: nothing is known of it.

    >>> wrong_key("a", "__schema/x", "expected its key, found another").severity
    'error'
    """
    hint = WrongKeyError.hint
    return finding(array, SEALED, path, message, severity="error", hint=hint)


def is_unread(code: str, severity: str) -> bool:
    """Return True for a finding on something that could not be read, and may be sound.

    >>> is_unread("unreadable", "error"), is_unread("tile-encrypted", "info")
    (True, False)
    """
    return severity == "error" and code in (UNREADABLE, SEALED)


def worst_first(item: Finding) -> tuple[int, str, str]:
    """Return the key that sorts findings for a reader."""
    return SEVERITIES.index(item.severity), item.code, item.path


SKEW_MS = 300_000
"""How far clocks of machines may differ before a time counts as in the future."""


class RefusedError(ChronotileError):
    """A change that would do harm, by the state of the array or by what the caller asks for.

    >>> str(RefusedError("a", "the array is damaged"))
    'a: the array is damaged'
    """

    def __init__(self, where: str, problem: str, findings: tuple[Finding, ...] = ()) -> None:
        Exception.__init__(self, where, problem, findings)
        self.where = where
        self.problem = problem
        self.findings = findings
        """The findings that stand in the way."""
        self.hint = findings[0].hint if findings else None


class WrongPlaceError(RefusedError):
    """A source and a target that cannot go together: a wrong call."""

    exit_code = 2


class UnknownNameError(RefusedError):
    """A name or id of something that is not there: a wrong call."""

    exit_code = 2


class OddTimeError(RefusedError):
    """A commit before all data, or in the future: allowed, but rarely meant."""


def shown(texts: list[str]) -> str:
    """Join a few of several texts, made safe to print.

    >>> shown(["a", "b"])
    "'a', 'b'"
    """
    few = ", ".join(ascii(text[:120]) for text in texts[:_SHOWN])
    return few if len(texts) <= _SHOWN else f"{few} and {len(texts) - _SHOWN} more"


def count_text(count: int, one: str, many: str | None = None) -> str:
    """Say a number of things in words.

    >>> count_text(1, "fragment"), count_text(12000, "delete")
    ('1 fragment', '12,000 deletes')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


MOST = 1_000
"""Findings of one code and severity that are listed, unless the user asks for more or fewer."""

_MORE = re.compile(r"([\d,]+) more of this code are not listed")


class CappedFindings:
    """The first findings of each code and severity, and the number of all.

    >>> every = (finding("a", "vac-absolute", f"{n}.vac", "…") for n in range(3))
    >>> capped = CappedFindings("a", every, most=1)
    >>> [(item.path, item.message) for item in capped.findings()]
    [('0.vac', '…'), ('', '2 more of this code are not listed')]
    >>> capped.by_severity()
    {'error': 0, 'warning': 0, 'info': 3}
    """

    def __init__(self, array: str, findings: Iterable[Finding], most: int = MOST) -> None:
        self._array, self._most = array, most
        self._first: list[Finding] = []
        self._counts: Counter[tuple[str, Severity]] = Counter()
        for item in findings:
            pair = item.code, item.severity
            if self._counts[pair] < self._most:
                self._first.append(item)
            self._counts[pair] += 1

    def findings(self) -> tuple[Finding, ...]:
        """List the first, the worst code first, and after each code how many more there are."""
        more = [
            finding(
                self._array,
                code,
                "",
                f"{number - self._most:,} more of this code are not listed",
                severity=severity,
            )
            for (code, severity), number in self._counts.items()
            if number > self._most
        ]
        ordered = [(*worst_first(item)[:2], 0, item.path, item) for item in self._first]
        ordered += [(*worst_first(item)[:2], 1, "", item) for item in more]
        return tuple(item for *_, item in sorted(ordered, key=lambda one: one[:4]))

    def by_severity(self) -> dict[Severity, int]:
        """Count the findings of each severity, listed or not."""
        counts = dict.fromkeys(SEVERITIES, 0)
        for (_, severity), number in self._counts.items():
            counts[severity] += number
        return counts


def number_of(path: str, message: str) -> int:
    """Return the number of findings that a listed one stands for.

    >>> number_of("", "1,200 more of this code are not listed"), number_of("a.con", "…")
    (1200, 1)
    """
    more = None if path else _MORE.fullmatch(message)
    return int(more[1].replace(",", "")) if more else 1


Reach: TypeAlias = Literal["log", "fragments", "deep"]
"""How far a check goes: the commit log; also the metadata of fragments; also their cells."""


@dataclass(slots=True)
class LookedAt:
    """The things that the checks of one array, or of many, have looked at."""

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
        """Return the counts by their names."""
        return asdict(self)

    def words(self, reach: Reach) -> str:
        """Say in one line what was looked at, and what was not.

        >>> LookedAt(schemas=1, fragments=2).words("fragments").partition(";")[0]
        'read the commit files, 1 schema and the metadata of 2 committed fragments'
        >>> LookedAt(schemas=1).words("log")
        'read the commit files and 1 schema, and no fragment'
        """
        schemas, fragments = (
            count_text(self.schemas, "schema"),
            count_text(self.fragments, "committed fragment"),
        )
        if reach == "log":
            return f"read the commit files and {schemas}, and no fragment"
        words = f"read the commit files, {schemas} and the metadata of {fragments}"
        if reach == "fragments":
            return f"{words}; --deep also opens cells"
        files = count_text(self.files, "cell file")
        content = "with" if self.opened == self.files else f"{self.opened:,} of them with"
        return f"{words}, and {files} ({self.bytes:,} bytes in all), {content} their content"


_SEALED = (KeyNeededError, WrongKeyError)
_UNSOUND = (BadFileError, BadNameError)


def unreadable(array: str, error: Exception) -> Finding:
    """Make the finding on an array that could not be read at all.

    >>> unreadable("a", WrongKeyError("a", "expected its key, found another")).code
    'tile-encrypted'
    """
    code, path, problem, hint = UNREADABLE, "", error_words(error), ""
    if isinstance(error, ArrayNotFoundError) and error.where == array:
        problem, _, hint = error.problem.partition("; ")
    if isinstance(error, ChronotileError) and error.where.startswith(f"{array}/"):
        path, problem = error.where.removeprefix(f"{array}/"), error.problem
    if isinstance(error, WrongKeyError):
        return wrong_key(array, path, f"it cannot be read: {problem}")
    if isinstance(error, KeyNeededError):
        code = SEALED
    elif is_damage(error):
        code = "tile-corrupt"
    return finding(
        array, code, path, f"it cannot be read: {problem}", severity="error", hint=hint or None
    )


def may_pass(error: Exception) -> bool:
    """Tell whether another try may succeed: the reading failed, and the array may be sound.

    >>> from chronotile.errors import StorageError
    >>> may_pass(StorageError("a", "503")), may_pass(ArrayNotFoundError("a", "no schema"))
    (True, False)
    """
    return not isinstance(error, (*_SEALED, *_UNSOUND, ArrayNotFoundError))


def error_words(error: Exception) -> str:
    """Put an error in words, with its class if it is not ours.

    >>> error_words(MemoryError())
    'MemoryError'
    """
    if isinstance(error, ChronotileError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
