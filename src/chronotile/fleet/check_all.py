"""Checks of every array at or below some folders, and of the groups there.

In: folders, groups or arrays. Out: `FleetCheck`: findings, array by array, and the folders that
could not be listed. Members of groups are followed, wherever they lie. One array or folder that
cannot be read does not stop the others.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from chronotile.check.check_array import check
from chronotile.check.findings import (
    SEVERITIES,
    UNREADABLE,
    Finding,
    LookedAt,
    finding,
    is_unread,
    unreadable,
)
from chronotile.errors import ChronotileError, StorageError
from chronotile.fleet.find_arrays import Fleet, Unlisted, find_arrays
from chronotile.fleet.options import Options
from chronotile.format.kinds import GROUP
from chronotile.format.timestamps import now_ms
from chronotile.history.read_history import read_history
from chronotile.log import with_undeletes
from chronotile.storage.place import find_place
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chronotile.check.findings import Reach

Roots: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
"""Arrays, folders above arrays, or patterns of them; one or several."""


class FleetCheck(NamedTuple):
    """The findings on every array of a fleet, and what was looked at in all of them."""

    arrays: tuple[str, ...]
    findings: tuple[Finding, ...]
    """Array by array, the worst first; then the folders that could not be listed."""
    problems: tuple[Unlisted, ...]
    """Folders that could not be listed: arrays below them were not checked."""
    looked_at: LookedAt = LookedAt()

    def by_array(self) -> dict[str, tuple[Finding, ...]]:
        """Give the findings on each array."""
        found: dict[str, list[Finding]] = {array: [] for array in self.arrays}
        for item in self.findings:
            if item.array in found:
                found[item.array].append(item)
        return {array: tuple(items) for array, items in found.items()}

    @property
    def beside_arrays(self) -> tuple[Finding, ...]:
        """Give the findings on groups and folders."""
        arrays = frozenset(self.arrays)
        return tuple(item for item in self.findings if item.array not in arrays)

    def worst(self) -> str | None:
        """Give the worst severity of all findings; None without any."""
        return min((item.severity for item in self.findings), key=SEVERITIES.index, default=None)

    def is_whole(self) -> bool:
        """Tell whether everything could be read."""
        return not any(is_unread(item.code, item.severity) for item in self.findings)


def check_fleet(
    roots: Roots,
    *,
    out: str | os.PathLike[str] | None = None,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[str], None] | None = None,
    log_only: bool = False,
    deep: bool = False,
    on_fragment: Callable[[], None] | None = None,
) -> FleetCheck:
    """Check every array at or below the roots, and the members of every group there.

    Args:
        roots: What to check.
        out: A folder or prefix for the tables, as `chronotile tables` writes them. The table of
            findings has those of groups and folders too.
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
    fleet = _find(
        roots, partial(find_arrays, storage_options=storage_options, follow=True, key=key)
    )
    findings = [*group_findings(fleet.groups, key, storage_options)]
    looked_at = LookedAt()
    for uri in fleet.uris:
        if on_array is not None:
            on_array(uri)
        history = None
        try:
            store = open_store(uri, storage_options)
            history = read_history(store, key=key)
            target = None if log_only else store
            found = check(history, None, target, on_fragment, deep=deep, looked_at=looked_at)
            findings += with_undeletes(target, found)
        except Exception as error:  # no error of one array may stop the others
            findings.append(unreadable(uri, error))
            if history is not None and isinstance(error, StorageError):
                findings += check(history)  # what the log alone tells is known all the same
    findings += map(unlisted, fleet.problems)
    checked = FleetCheck(fleet.uris, tuple(findings), fleet.problems, looked_at)
    if out is not None and fleet.uris:
        from chronotile.fleet.run_pipeline import Job, run
        from chronotile.fleet.run_summary import read_limit

        reach: Reach = "log" if log_only else "deep" if deep else "fragments"
        storage = tuple(sorted((storage_options or {}).items()))
        places = (*fleet.uris, *fleet.groups)
        options = Options(roots=places, check=reach, sizes=True, key=key, storage=storage)
        job = Job(
            options=options,
            out=find_place(out).uri,
            out_storage=dict(storage) if "://" in os.fspath(out) else {},
            checked=checked,
            max_unreadable=read_limit("100%"),
        )
        run(None, job)
    return checked


def _find(roots: Roots, find: Callable[..., Fleet]) -> Fleet:
    """Give the arrays below each root; of several, one that cannot be searched stops no other."""
    wanted = (roots,) if isinstance(roots, str | os.PathLike) else tuple(roots)
    arrays: set[str] = set()
    problems: dict[str, Unlisted] = {}
    groups: set[str] = set()
    for root in wanted:
        fleet = find(root, lenient=len(wanted) > 1)
        arrays |= {*fleet.uris}
        problems |= {problem.uri: problem for problem in fleet.problems}
        groups |= set(fleet.groups)
        if not fleet.uris and not fleet.problems and not fleet.groups:
            place = find_place(root).uri
            problem = "expected an array at or below it, found none"
            problems[place] = Unlisted(place, problem, missing=True)
    return Fleet(tuple(sorted(arrays)), tuple(problems.values()), groups=tuple(sorted(groups)))


def group_findings(
    groups: Iterable[str], key: bytes | None, storage_options: Mapping[str, str] | None
) -> Iterator[Finding]:
    """Give the findings on groups; those on a group in another are told with that."""
    from chronotile.dataset.check_group import check_group
    from chronotile.dataset.open_dataset import dataset_at

    told: set[str] = set()
    seen: set[tuple[str, str, str]] = set()
    for uri in groups:
        if uri in told:
            continue
        try:
            dataset = dataset_at(open_store(uri, storage_options), key)
            now = now_ms()
            found = list(check_group(dataset, now))
            keys = [(item.array, item.code, item.path) for item in found]
            yield from (item for item, one in zip(found, keys, strict=True) if one not in seen)
            seen |= {*keys}
            if not any(item.path.startswith(GROUP) and item.severity == "error" for item in found):
                told |= {node.uri for node in dataset.tree(now) if node.found == "group"}
        except Exception as error:  # no error of one group may stop the others
            yield unreadable(uri, error)


def unlisted(folder: Unlisted) -> Finding:
    """Make the finding on a folder that could not be listed."""
    if folder.missing:
        hint = "give an array, or a folder with arrays below it"
        return finding(folder.uri, UNREADABLE, "", folder.message, hint=hint)
    words = folder.message if folder.hint else f"it cannot be listed: {folder.message}"
    return finding(folder.uri, UNREADABLE, "", words, hint=folder.hint or None)
