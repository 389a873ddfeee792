"""Which arrays of a fleet may have new commits: a look at the storage that costs little.

In: options. Out: `Look`: each array with a mark that changes with its commit files, and what could
not be looked at. Opens no file. The driver of a stream holds one watch, and looks at each trigger.

On a disk, a folder tells when its names last changed: two questions for each array that nothing has
happened to, however many commits it has. A file that is written slowly, or again, changes no name;
so an array with a file that is still young is looked at in full, and so is every array now and
then. In a bucket, a look lists the files of `__commits`, 1,000 in a request: loose commits count,
those in a `.con` do not. A folder that is known to be an array is not searched again.
"""

from __future__ import annotations

import hashlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from chronotile.dataset.check_all import words
from chronotile.dataset.find_arrays import CONCURRENCY, find_arrays
from chronotile.format.kinds import COMMITS, ROOT_FILES, WRITES
from chronotile.format.names import is_name
from chronotile.format.timestamps import now_ms
from chronotile.spark.stream.offsets import GRAIN_MS
from chronotile.storage.store import MissingObjectError, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.spark.source.options import Options
    from chronotile.storage.store import Store

FULL_LOOK_S = 600.0
"""Seconds after which an array of a disk is looked at in full, at the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look found."""

    marks: Mapping[str, str]
    """Array -> a text that changes with its commit files."""
    problems: Mapping[str, str]
    """Array or folder that could not be listed -> why, in words."""

    @property
    def complete(self) -> bool:
        """Whether an array that is not among the marks is gone."""
        return not self.problems


class _Known(NamedTuple):
    """What the last look at an array found."""

    mark: str
    times: tuple[int | None, ...] | None
    """When its folders last changed; None if that does not tell of every change."""
    until: float
    """When to look in full again."""
    has_old_files: bool
    """Whether commits lie in the root, as before format version 12."""


class Watch:
    """Looks at a fleet, again and again."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._known: dict[str, _Known] = {}
        self._stores: dict[str, Store] = {}
        self._chance = random.Random()

    def look(self) -> Look:
        """Finds the arrays, and the mark of each.

        Raises:
            ArrayNotFoundError: A root does not exist.
            StorageError: A root cannot be listed.
        """
        listed, storage = self._options.arrays is not None, self._options.storage_options
        roots = self._options.uris() if listed else self._options.roots
        fleet = find_arrays(
            roots,
            storage,
            missing_ok=listed,
            known=self._known,
            follow=True,
            key=self._options.key,
        )
        problems = {one.uri: f"cannot be listed: {one.message}" for one in fleet.problems}
        marks: dict[str, str] = {}
        # Making a store takes longer than asking a disk whether the array is quiet.
        self._stores = {
            uri: self._stores.get(uri) or open_store(uri, storage) for uri in fleet.uris
        }
        stores = list(self._stores.values())
        for store, known in zip(stores, self._all(stores), strict=True):
            if isinstance(known, _Known):
                marks[store.uri] = known.mark
            else:
                problems[store.uri] = f"cannot be read: {words(known)}"
                self._known.pop(store.uri, None)
        if not problems:
            self._known = {uri: self._known[uri] for uri in marks}
        return Look(marks=marks, problems=problems)

    def _all(self, stores: list[Store]) -> list[_Known | Exception]:
        if all(store.traits.pace == "quick" for store in stores):
            return [self._one(store) for store in stores]
        with ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="chronotile-watch") as pool:
            return list(pool.map(self._one, stores))

    def _one(self, store: Store) -> _Known | Exception:
        try:
            known = self._known.get(store.uri)
            if known is None or not _is_quiet(store, known):
                spread = self._chance.uniform(0.5, 1.0)
                known = _in_full(store, known, time.monotonic() + spread * FULL_LOOK_S)
                self._known[store.uri] = known
        except Exception as error:  # one bad array must not stop the others
            return error
        return known


def _is_quiet(store: Store, known: _Known) -> bool:
    """Whether no commit file can have come since the last look."""
    if known.times is None or time.monotonic() > known.until:
        return False
    return known.times == (store.change_time(""), store.change_time(COMMITS))


def _in_full(store: Store, known: _Known | None, until: float) -> _Known:
    """Lists the commit files, and asks for size and time of those that can be read."""
    began_ms, has_times = now_ms(), store.traits.has_change_times
    digest = hashlib.blake2b(digest_size=12)
    # A bucket takes a request for the root, where no new engine puts commits.
    with_root = has_times or known is None or known.has_old_files or time.monotonic() > known.until
    if known is not None and not with_root:
        until = known.until
    times, is_settled, has_old_files = [], has_times, False
    for folder in ("", COMMITS) if with_root else (COMMITS,):
        names = store.list_names(folder)
        times.append(names.change_time)
        wanted = sorted(name for name in names.files if folder or name.endswith(ROOT_FILES[:2]))
        if not folder:
            old = [name for name in names.folders if is_name(name)]
            has_old_files = bool(wanted or old)
            wanted += sorted(old)
        stamps = {one.path.rpartition("/")[2]: f"{one.size} {one.etag}" for one in names.entries}
        for name in wanted:
            if has_times and not name.endswith(WRITES) and not is_name(name):
                stamps[name], is_old = _stamp(store, f"{folder}/{name}".lstrip("/"), began_ms)
                is_settled &= is_old
            line = f"{folder}/{name} {stamps.get(name, '')}\n"
            digest.update(line.encode("utf-8", "surrogatepass"))
    trusted = tuple(times) if is_settled and None not in times else None
    return _Known(digest.hexdigest(), trusted, until, has_old_files)


def _stamp(store: Store, path: str, began_ms: int) -> tuple[str, bool]:
    """Size and time of a file, and whether a further change would change them."""
    try:
        entry = store.head(path)
    except MissingObjectError:
        return "gone", False
    is_old = entry.modified_ms is not None and entry.modified_ms <= began_ms - GRAIN_MS
    return f"{entry.size} {entry.etag}", is_old
