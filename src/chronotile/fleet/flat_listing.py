"""Arrays that lie side by side in a bucket, listed flat: 1,000 keys a request, whatever they are.

In: neighbours, which are folders of one folder. Out: the listing of every array in them, at any
depth, as an inventory would give it. Opens no file.

A walk asks once for each folder, and whoever reads an array asks seven times more. So a flat list,
which tells what each array holds as well, is cheaper for arrays of up to 8,000 objects. Of one that
has more, only as many are listed; the list then goes on behind the array, whose reader lists it. So
it costs at most as much again as a walk that reads every array, and for arrays of 30 objects a
250th of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from chronotile.errors import StorageError
from chronotile.fleet.inventory import NAMES, OBJECTS, listing_rows
from chronotile.format.kinds import GROUP, GROUP_MARKER, OLD_SCHEMA, OWN
from chronotile.history.listing import OF_ARRAYS
from chronotile.storage.place import PAGE
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chronotile.fleet.find_arrays import Unlisted
    from chronotile.storage.store import Entry, Store


FEWEST = 16
"""Folders in a folder from which on they are listed flat."""
PAGES_OF_ARRAY = 8
"""Pages of one array at most: so many lists does a walk take, with a reader of the array."""


class Neighbours(NamedTuple):
    """The names of folders in one folder, in the order of their keys."""

    folder: str
    names: tuple[str, ...]

    @property
    def uris(self) -> tuple[str, ...]:
        """The places of the folders."""
        return tuple(f"{self.folder.rstrip('/')}/{name}" for name in self.names)

    def divided(self, most: int) -> Iterator[Neighbours]:
        """Give parts of at most so many folders, each without a gap."""
        for start in range(0, len(self.names), most):
            yield Neighbours(self.folder, self.names[start : start + most])


class Searched(NamedTuple):
    """The arrays that were found among neighbours."""

    rows: pa.Table
    """As in `inventory.NAMES`."""
    groups: tuple[str, ...] = ()
    problems: tuple[Unlisted, ...] = ()
    pages: int = 0
    """Requests that flat lists took."""


def neighbours(store: Store, names: Iterable[str]) -> Neighbours | None:
    """Give the folders of a folder, if a flat list of them pays."""
    ordered = sorted(names, key=lambda name: f"{name}/")
    if len(ordered) < FEWEST or not all(map(store.can_list_after, ordered)):
        return None
    return Neighbours(store.uri, tuple(ordered))


def list_flat(part: Neighbours, storage_options: Mapping[str, str] | None = None) -> Searched:
    """List neighbours.

    >>> store = open_store("memory:doc-flat")
    >>> for key in ("a/__schema/s", "g/b/__commits/c.wrt", "g/__group/x", "z/file"):
    ...     store.put_if_absent(key, b"")
    >>> found = list_flat(Neighbours("memory://doc-flat", ("a", "g", "z")))
    >>> sorted({row["array"] for row in found.rows.to_pylist() if row["strong"]}), found.pages
    (['memory://doc-flat/a', 'memory://doc-flat/g/b'], 1)
    """
    store = open_store(part.folder, storage_options)
    listing = _FlatListing(store, part.names)
    listing.run()
    groups = tuple(sorted({f"{store.uri}/{group}" for group in listing.groups()}))
    return Searched(listing.rows(), groups, (), listing.pages)


class _FlatListing:
    """One flat list, page by page."""

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self._store, self._names = store, names
        self._wanted = frozenset(names)
        self._entries: dict[str, Entry] = {}
        self._arrays: set[str] = set()
        self._large: set[str] = set()
        self.pages = 0

    def run(self) -> None:
        # What comes before `a/`, such as `a-1/`, belongs to others.
        after, last = f"{self._names[0]}.", f"{self._names[-1]}/"
        array, in_array = "", 0
        while True:
            page = self._store.list_after(after)
            self.pages += 1
            for entry in page:
                if entry.path.partition("/")[0] in self._wanted:
                    self._entries[entry.path] = entry
                    self._arrays.add(_array_of(entry.path))
            if len(page) < PAGE or page[-1].path > f"{last}\U0010ffff":
                return
            array_now = self._outermost(page[-1].path)
            in_array = in_array + 1 if array_now and array_now == array else 0
            array = array_now
            begin_at = page[-1].path
            if array and in_array + 1 >= PAGES_OF_ARRAY:
                self._large.add(array)
                begin_at = f"{array}0"  # the first text behind all that begin with `array/`
            if not self._store.can_list_after(begin_at) or begin_at <= after:
                problem = f"expected a key that a list can begin at, found {begin_at!r}"
                raise StorageError(self._store.uri, problem)
            after = begin_at

    def _outermost(self, path: str) -> str:
        """Give the array that a path is in, as far as it is known by now, or ""."""
        ends = (place for place, letter in enumerate(path) if letter == "/")
        return next((path[:end] for end in ends if path[:end] in self._arrays), "")

    def groups(self) -> Iterator[str]:
        """Give the groups among the folders."""
        for path in self._entries:
            above, _, name = path.rpartition("/")
            if name == GROUP_MARKER:
                yield above
            elif above.rpartition("/")[2] == GROUP:
                yield above.rpartition("/")[0]

    def rows(self) -> pa.Table:
        place = self._store.place
        # What lies inside an array is a part of it.
        large = {self._outermost(f"{array}/") for array in self._large}
        inside = tuple(f"{array}/" for array in large)
        own = [one for path, one in self._entries.items() if not path.startswith(inside)]
        columns = {
            "key": [place.join(entry.path) for entry in own],
            "size": [entry.size for entry in own],
            "modified_ms": [entry.modified_ms for entry in own],
            "etag": [entry.etag for entry in own],
        }
        rows = listing_rows(pa.table(columns, schema=OBJECTS), place.top.uri)
        return pa.concat_tables([rows, to_be_listed(map(self._store.uri_of, large))])


def to_be_listed(arrays: Iterable[str]) -> pa.Table:
    """Make rows of arrays whose listing is not known: whoever reads them lists them."""
    rows = [{"array": array, "strong": True} for array in arrays]
    return pa.Table.from_pylist(rows, schema=NAMES)


def _array_of(path: str) -> str:
    """Give the array that a path is in, or "".

    >>> _array_of("g/a/__commits/x"), _array_of("g/notes.txt")
    ('g/a', '')
    """
    if f"/{OWN}/" in path:
        path = path[: path.index(f"/{OWN}/") + 1]
    places = [place for name in OF_ARRAYS if (place := path.find(f"/{name}/")) > 0]
    if path.endswith(f"/{OLD_SCHEMA}"):
        places.append(len(path) - len(OLD_SCHEMA) - 1)
    return path[: min(places)] if places else ""
