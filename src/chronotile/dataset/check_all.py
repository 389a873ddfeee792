"""Checks of every array at or below some folders, and of the groups there.

In: folders, groups or arrays. Out: `FleetCheck`: findings, array by array, and the folders that
could not be listed. Members of groups are followed, wherever they lie. One array or
folder that cannot be read does not stop the others.

A damaged array differs from one that could not be read: if the storage refuses, or memory runs
out, the array may be sound, and needs no repair.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from chronotile.check.check_array import check
from chronotile.check.findings import (
    SEALED,
    SEVERITIES,
    UNREADABLE,
    Finding,
    LookedAt,
    finding,
    is_unread,
    wrong_key,
)
from chronotile.dataset.find_arrays import Fleet, Found, Unlisted, find_arrays
from chronotile.errors import (
    ArrayNotFoundError,
    BadFileError,
    BadNameError,
    ChronotileError,
    KeyNeededError,
    ReadError,
    StorageError,
    TooLargeError,
    UnsupportedFilterError,
    WrongKeyError,
)
from chronotile.format.kinds import GROUP
from chronotile.format.timestamps import now_ms
from chronotile.history.read_history import read_history
from chronotile.storage.place import find_place
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Roots: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
"""Arrays, folders above arrays, or patterns of them; one or several."""

__all__ = ["UNREADABLE", "FleetCheck", "check_fleet", "may_pass", "unreadable"]

NO_ARRAY = "expected an array at or below it, found none"

_SEALED = (KeyNeededError, WrongKeyError)
_UNSOUND = (BadFileError, BadNameError)
_NO_DAMAGE = (TooLargeError, UnsupportedFilterError)
"""Errors that name a file, but that no repair removes."""


class FleetCheck(NamedTuple):
    """The findings on every array of a fleet."""

    arrays: tuple[str, ...]
    findings: tuple[Finding, ...]
    """Array by array, the worst first; then the folders that could not be listed."""
    problems: tuple[Unlisted, ...]
    """Folders that could not be listed: arrays below them were not checked."""
    looked_at: LookedAt = LookedAt()
    """What was looked at, in all arrays."""

    def worst(self) -> str | None:
        """The worst severity of all findings.

        >>> FleetCheck((), (), ()).worst() is None
        True
        """
        return min((item.severity for item in self.findings), key=SEVERITIES.index, default=None)

    def is_whole(self) -> bool:
        """Whether everything could be read.

        >>> FleetCheck((), (unreadable("a", MemoryError()),), ()).is_whole()
        False
        """
        return not any(is_unread(item.code, item.severity) for item in self.findings)


def check_fleet(
    roots: Roots,
    *,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[str], None] | None = None,
    log_only: bool = False,
    deep: bool = False,
    on_fragment: Callable[[], None] | None = None,
) -> FleetCheck:
    """Check every array at or below the roots, and the members of every group there.

    Args:
        roots: Arrays, folders above arrays, or patterns of them.
        key: The key of the encrypted arrays.
        storage_options: Options of the storage, such as a region.
        on_array: Called with each array before it is read.
        log_only: Check the commit logs, and no fragment.
        deep: Open the cells of each fragment too; not together with `log_only`.
        on_fragment: Called after each fragment.

    A root that is not there, or has no array below it, is a finding too, behind all others.

    Raises:
        ArrayNotFoundError: The only root does not exist.
        StorageError: The only root cannot be listed.
        ChronotileError: Both `log_only` and `deep` are asked for.

    >>> from chronotile.storage.store import open_store
    >>> open_store("memory:doc-fleet").put_if_absent("a/__schema/s", b"")
    >>> [item.code for item in check_fleet("memory:doc-fleet").findings]
    ['name-malformed']
    """
    if log_only and deep:
        raise ChronotileError("check", "expected log_only or deep, found both")
    fleet = _find(roots, storage_options, key)
    findings: list[Finding] = []
    findings += _group_findings(fleet.groups, key, storage_options)
    looked_at = LookedAt()
    for uri in fleet.uris:
        if on_array is not None:
            on_array(uri)
        history = None
        try:
            store = open_store(uri, storage_options)
            history = read_history(store, key=key)
            target = None if log_only else store
            findings += check(history, None, target, on_fragment, deep=deep, looked_at=looked_at)
        except Exception as error:  # no error of one array may stop the others
            findings.append(unreadable(uri, error))
            if history is not None and isinstance(error, StorageError):
                findings += check(history)  # what the log alone tells is known all the same
    findings += map(unlisted, fleet.problems)
    return FleetCheck(fleet.uris, tuple(findings), fleet.problems, looked_at)


def _find(roots: Roots, storage_options: Mapping[str, str] | None, key: bytes | None) -> Fleet:
    """The arrays below each root; of several, one that cannot be searched stops no other."""
    wanted = (roots,) if isinstance(roots, str | os.PathLike) else tuple(roots)
    arrays: dict[str, Found] = {}
    problems: dict[str, Unlisted] = {}
    groups: set[str] = set()
    for root in wanted:
        try:
            fleet = find_arrays(root, storage_options, follow=True, key=key)
        except ReadError as error:
            if len(wanted) == 1:
                raise
            missing = isinstance(error, ArrayNotFoundError)
            problems[error.where] = Unlisted(error.where, error.problem, missing)
            continue
        arrays |= {array.uri: array for array in fleet.arrays}
        problems |= {problem.uri: problem for problem in fleet.problems}
        groups |= set(fleet.groups)
        if not fleet.arrays and not fleet.problems and not fleet.groups:
            place = find_place(root).uri
            problems[place] = Unlisted(place, NO_ARRAY, missing=True)
    found = tuple(sorted(arrays.values()))
    return Fleet(found, tuple(problems.values()), groups=tuple(sorted(groups)))


def _group_findings(
    groups: Iterable[str], key: bytes | None, storage_options: Mapping[str, str] | None
) -> Iterator[Finding]:
    """The findings on groups; those on a group in another are told with that."""
    from chronotile.dataset.check_group import check_group
    from chronotile.dataset.open_dataset import open_dataset

    told: set[str] = set()
    for group in groups:
        if group in told:
            continue
        try:
            dataset = open_dataset(group, key, storage_options)
            now = now_ms()
            found = list(check_group(dataset, now))
            yield from found
            if not any(item.path.startswith(GROUP) and item.severity == "error" for item in found):
                told |= {node.uri for node in dataset.tree(now) if node.found == "group"}
        except Exception as error:  # no error of one group may stop the others
            yield unreadable(group, error)


def unreadable(array: str, error: Exception, more: str = "") -> Finding:
    """Make the finding on an array that could not be read at all; `more` ends its message.

    >>> unreadable("a", WrongKeyError("a", "expected its key, found another")).code
    'tile-encrypted'
    """
    code, path, problem = UNREADABLE, "", words(error)
    if isinstance(error, ChronotileError) and error.where.startswith(f"{array}/"):
        path, problem = error.where.removeprefix(f"{array}/"), error.problem
    if isinstance(error, WrongKeyError):
        return wrong_key(array, path, f"it cannot be read: {problem}{more}")
    if isinstance(error, KeyNeededError):
        code = SEALED
    elif isinstance(error, BadFileError) and not isinstance(error, _NO_DAMAGE):
        code = "tile-corrupt"
    return finding(array, code, path, f"it cannot be read: {problem}{more}", severity="error")


def unlisted(folder: Unlisted) -> Finding:
    """Make the finding on a folder that could not be listed.

    >>> unlisted(Unlisted("s3://lake", "the storage answered: 403")).message
    'it cannot be listed: the storage answered: 403'
    """
    if folder.missing:
        hint = "give an array, or a folder with arrays below it"
        return finding(folder.uri, UNREADABLE, "", folder.message, hint=hint)
    return finding(folder.uri, UNREADABLE, "", f"it cannot be listed: {folder.message}")


def may_pass(error: Exception) -> bool:
    """Whether another try may succeed: the reading failed, and the array may be sound.

    >>> from chronotile.errors import StorageError
    >>> may_pass(StorageError("a", "503")), may_pass(ArrayNotFoundError("a", "no schema"))
    (True, False)
    """
    return not isinstance(error, (*_SEALED, *_UNSOUND, ArrayNotFoundError))


def words(error: Exception) -> str:
    """An error in words, with its class if it is not ours.

    >>> words(MemoryError())
    'MemoryError'
    """
    if isinstance(error, ChronotileError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
