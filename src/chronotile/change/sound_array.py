"""Sound arrays: a reading of an array that may be changed.

In: a store. Out: the history of the array, or a refusal; the format version of new files. Removes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.check_array import blocking
from chronotile.check.findings import Finding, RefusedError, count_text
from chronotile.errors import NEEDS_KEY, KeyNeededError
from chronotile.format import tiles
from chronotile.format.commit_files import FIRST_WITH_COMMITS
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history.read_history import History, read_history
from chronotile.visibility.rules import Rules, schema_at

if TYPE_CHECKING:
    from chronotile.storage.store import Store

_READINGS = 2
"""Readings that must agree that an array is damaged: a write may come between two lists of one."""


def sound_history(
    store: Store, key: bytes | str | None, *, fragments: bool = True
) -> tuple[History, Rules]:
    """Read an array's log, and refuse to go on if it is damaged.

    Without the fragments a lost one is not noticed, and the rules cannot tell what is visible.

    Raises:
        RefusedError: The array is damaged; the error carries the findings.
    """
    agreed: tuple[Finding, ...] = ()
    for attempt in range(_READINGS):
        history = read_history(store, key=key, fragments=fragments)
        rules = Rules(history)
        findings, before = blocking(history, rules), frozenset(agreed)
        agreed = tuple(item for item in findings if attempt == 0 or item in before)
        if not agreed:
            return history, rules
    raise damaged(store.uri, agreed)


def damaged(array: str, findings: tuple[Finding, ...]) -> RefusedError:
    """Make the refusal of a damaged array: its first finding, then what mends it.

    >>> from chronotile.check.findings import finding
    >>> damaged("a", (finding("a", "con-truncated", "__commits/x", "cut", hint="mend it"),)).problem
    'the array is damaged: __commits/x: cut (con-truncated); mend it'
    """
    first = findings[0]
    more = f" and {count_text(len(findings) - 1, 'finding')} more" if len(findings) > 1 else ""
    problem = f"the array is damaged: {first.path}: {first.message} ({first.code}{more})"
    return RefusedError(array, f"{problem}; {first.hint}", findings)


def write_version(history: History) -> int:
    """Give the format version of new commit files.

    Raises:
        RefusedError: The array is of a version that has no `__commits`.
    """
    version = array_version(history)
    if version < FIRST_WITH_COMMITS:
        found = f"found {version}; upgrade it with TileDB first"
        expected = f"expected format version {FIRST_WITH_COMMITS} or later"
        raise RefusedError(history.array, f"{expected}, {found}")
    return version


def array_version(history: History) -> int:
    """Give the format version of the newest schema; of the newest commit if it is unreadable."""
    latest = schema_at(history, MAX_TIMESTAMP)
    if latest is not None and latest.schema is not None:
        return latest.schema.version
    # The commits of an encrypted array carry the version in their names.
    table = history.table
    return max((table.version(row) for row in range(len(table))), default=0)


def sealing_key(store: Store, history: History) -> bytes | None:
    """Give the key that encrypts new tiles; None if the array is not encrypted.

    Raises:
        KeyNeededError: It is encrypted, and there is no key.
    """
    latest = schema_at(history, MAX_TIMESTAMP)
    assert latest is not None  # a listing without a schema is no array
    try:
        tile = tiles.decode(store.read(latest.path), latest.path, key=history.key)
    except KeyNeededError as error:
        raise KeyNeededError(store.uri, NEEDS_KEY) from error
    return history.key if tile.encrypted else None
