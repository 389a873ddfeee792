"""Checks of every array at or below some folders.

In: folders or arrays. Out: `FleetCheck`: findings, array by array, and the folders that could not
be listed. One array that cannot be read does not stop the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.checks import check
from chronotile.discovery import Unlisted, find_arrays
from chronotile.errors import ChronotileError, KeyNeededError, WrongKeyError
from chronotile.findings import SEVERITIES, Finding, finding
from chronotile.history import read_history
from chronotile.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["FleetCheck", "check_fleet"]


class FleetCheck(NamedTuple):
    """What was found on a fleet."""

    arrays: tuple[str, ...]
    findings: tuple[Finding, ...]
    """Array by array, the worst first."""
    problems: tuple[Unlisted, ...]
    """Folders that could not be listed: arrays below them were not checked."""

    def worst(self) -> str | None:
        """The worst severity found.

        >>> FleetCheck((), (), ()).worst() is None
        True
        """
        found = {item.severity for item in self.findings}
        return next((severity for severity in SEVERITIES if severity in found), None)


def check_fleet(
    roots: str | Iterable[str],
    *,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[str], None] | None = None,
    log_only: bool = False,
) -> FleetCheck:
    """Checks every array at or below the roots.

    Args:
        roots: Arrays, folders above arrays, or patterns of them.
        key: The key of those that are encrypted.
        storage_options: What the storage needs to know.
        on_array: Called with each array before it is read.
        log_only: Look at the commit logs, and at no fragment.

    Raises:
        ArrayNotFoundError: A root does not exist.

    >>> from chronotile.store import open_store
    >>> open_store("memory:doc-fleet").put_if_absent("a/__schema/s", b"")
    >>> [item.code for item in check_fleet("memory:doc-fleet").findings]
    ['name-malformed']
    """
    fleet = find_arrays(roots, storage_options)
    found: list[Finding] = []
    for uri in fleet.uris:
        if on_array is not None:
            on_array(uri)
        try:
            store = open_store(uri, storage_options)
            history = read_history(uri, key=key, store=store)
            found += check(history, store=None if log_only else store)
        except ChronotileError as error:
            found.append(unreadable(uri, error))
    return FleetCheck(fleet.uris, tuple(found), fleet.problems)


def unreadable(array: str, error: ChronotileError) -> Finding:
    """The finding on an array that could not be read at all.

    >>> unreadable("a", WrongKeyError("a", "expected its key, found another")).code
    'tile-encrypted'
    """
    sealed = isinstance(error, KeyNeededError | WrongKeyError)
    code = "tile-encrypted" if sealed else "tile-corrupt"
    return finding(array, code, "", f"it cannot be read: {error}", severity="error")
