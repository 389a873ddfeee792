"""The store: the one door to storage.

In: the place of an array. Out: listings as entries, objects as bytes; puts, copies, removals.
Knows nothing of what the objects mean, and touches nothing outside the array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from chronotile.errors import ArrayNotFoundError, ChangedError, ChronotileError, StorageError
from chronotile.storage.disk import Disk
from chronotile.storage.place import (
    OTHER_BYTES,
    Entry,
    Folder,
    MissingObjectError,
    Names,
    ObjectExistsError,
    Place,
    Stranger,
    StrangerError,
    check_path,
    find_place,
    options_at,
)
from chronotile.storage.prefetch import ahead

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
    from pathlib import Path

    from chronotile.storage.backend import Backend, Options, Traits

__all__ = [
    "Entry",
    "Folder",
    "MissingObjectError",
    "Names",
    "ObjectExistsError",
    "Store",
    "Stranger",
    "StrangerError",
    "about_one_object",
    "open_file",
    "open_store",
    "put_compared",
]

READ_LIMIT = 1 << 31
"""Most bytes of an object to read, unless the caller sets another limit."""

_BESIDE = 2000
"""Most names beside a missing one that are compared with it."""

Hook: TypeAlias = Callable[[str, str], None]
_NO_HOOK = nullcontext()


@contextmanager
def _hooked(hook: Hook, operation: str, path: str) -> Generator[None]:
    hook(operation, path)
    yield
    hook(f"{operation}.done", path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The objects of one array, or of a folder above arrays.

    A plain value: cheap, safe to share between threads, and pickled as its place and options,
    without the hook. It checks every path, which is relative to its root.

    >>> store = open_store("memory://doc-store/array")
    >>> store.put_if_absent("__commits/a.ign", b"__commits/b.wrt")
    >>> store.read("__commits/a.ign")
    b'__commits/b.wrt'
    """

    place: Place
    options: Options = field(default=(), repr=False)
    """Storage options; they may hold secrets, so no message and no `repr` shows them."""
    on_operation: Hook | None = field(default=None, repr=False, compare=False)
    """Called with (operation, path) before each operation on the storage: `list`, `head`,
    `read`, `put`, `copy`, `remove`; and again after it has succeeded, with `.done` added. Several
    threads call it. What it raises stops the operation."""
    backend: Backend = field(init=False, repr=False, compare=False)
    """For this room alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", self._made())

    def _made(self) -> Backend:
        if self.place.scheme == "file":
            return Disk(self.place)
        from chronotile.storage.bucket import Bucket  # its client takes longer to load than a log

        return Bucket(self.place, options_at(self.place, self.options))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.place, self.options)

    @property
    def uri(self) -> str:
        """The place of the root, as a local path or URI."""
        return self.place.uri

    @property
    def traits(self) -> Traits:
        """The traits of the storage that a caller may know."""
        return self.backend.traits

    @property
    def concurrency(self) -> int:
        """Operations that are worth doing at once: 1 on a disk."""
        return self.backend.traits.concurrency

    def near_path(self) -> str | None:
        """Find the path on this disk that is most like this one, of which nothing is there."""
        import difflib

        wanted = self.local_path
        if wanted is None or wanted.exists():
            return None
        missing = [one for one in (wanted, *wanted.parents) if not one.exists()][-1]
        try:
            beside = [one.name for one in itertools.islice(missing.parent.iterdir(), _BESIDE)]
        except OSError:
            return None
        for name in difflib.get_close_matches(missing.name, beside, n=3):
            near = missing.parent / name / wanted.relative_to(missing)
            if near.is_dir():
                return str(near)
        return None

    @property
    def local_path(self) -> Path | None:
        """The root for programs of this machine; None in a bucket."""
        return self.place.local_path

    def uri_of(self, path: str) -> str:
        """Give the full name of an object, for messages."""
        return self.place.uri_of(path)

    def watched(self, on_operation: Hook | None) -> Store:
        """Give the same store with a hook, over the same backend.

        >>> seen = []
        >>> store = open_store("memory:doc-hook").watched(lambda *step: seen.append(step))
        >>> store.put_if_absent("a", b"")
        >>> seen
        [('put', 'a'), ('put.done', 'a')]
        """
        return replace(self, on_operation=on_operation).over(self.backend)

    def over(self, backend: Backend) -> Store:
        """Give the same store with another backend; one that is made from it has its own again."""
        store = replace(self)
        object.__setattr__(store, "backend", backend)
        return store

    def at(self, place: Place) -> Store:
        """Give a store at another place, with the same hook.

        Storage options go along only to the same kind of storage: they may hold secrets. Those
        for a place and what is below it find their own.
        """
        is_same = place.scheme == self.place.scheme
        options = tuple(one for one in self.options if is_same or " " in one[0])
        return replace(self, place=place, options=options)

    def child(self, path: str) -> Store:
        """Give a store rooted at a folder below this one, with the same options and hook."""
        place = self.place.child(path)
        self.backend.check_child(path)
        return self.at(place)

    def checked(self, path: str) -> str:
        """Give a path back if it stays below the root; raise `BadNameError` otherwise."""
        return check_path(path, self.place.uri)

    def step(self, operation: str, path: str) -> AbstractContextManager[None]:
        """Call the hook around an operation."""
        return _hooked(self.on_operation, operation, path) if self.on_operation else _NO_HOOK

    def list_dir(self, path: str = "", *, sizes: bool = False) -> Folder:
        """List one level, by default the root: files, folders, and strangers such as links.

        A folder that does not exist is empty: only a disk could tell the difference. `sizes` asks
        for sizes and times even if each costs a call, as on a disk.

        Raises:
            ArrayNotFoundError: The root does not exist or, in a bucket, has nothing in it.

        >>> store = open_store("memory:doc-list-dir")
        >>> store.put_if_absent("__schema/__1_1_ab", b"")
        >>> store.list_dir().folders
        ('__schema',)
        """
        with self.step("list", path):
            return self.backend.list_dir(path and self.checked(path), sizes=sizes)

    def list_names(self, path: str = "") -> Names:
        """List one level, as `list_dir` does, as bare names in no order: cheap for very many."""
        with self.step("list", path):
            return self.backend.list_names(path and self.checked(path))

    def list_prefix(self, path: str = "") -> tuple[Entry, ...]:
        """List the files below a folder at any depth, with sizes, sorted by path; no strangers.

        >>> store = open_store("memory:doc-list-prefix")
        >>> store.put_if_absent("__fragments/f/a.tdb", b"abc")
        >>> [(entry.path, entry.size) for entry in store.list_prefix()]
        [('__fragments/f/a.tdb', 3)]
        """
        with self.step("list", path):
            return self.backend.walk(path and self.checked(path)).files

    def list_files(self) -> tuple[Entry, ...]:
        """List every file below the root with its size, also one whose name is no path.

        >>> store = open_store("memory:doc-list-files")
        >>> store.put_if_absent("a/b", b"abc")
        >>> [(entry.path, entry.size) for entry in store.list_files()]
        [('a/b', 3)]
        """
        with self.step("list", ""):
            return self.backend.list_files()

    def linked_elsewhere(self) -> tuple[str, ...]:
        """List the files that have a name outside of the root too: hard links, by their count.

        >>> open_store("memory:doc-linked").linked_elsewhere()
        ()
        """
        with self.step("list", ""):
            return self.backend.linked_elsewhere()

    def keeps_versions(self) -> bool | None:
        """Tell whether the storage keeps what is replaced or removed; None if it does not say.

        >>> open_store("memory:doc-versions").keeps_versions()
        False
        """
        with self.step("list", ""):
            return self.backend.keeps_versions()

    def measure(self, folders: Collection[str]) -> tuple[Entry, ...]:
        """List the files of some folders with their sizes, and sum up the folders in them.

        A folder that is summed up has a slash at its end. `""` stands for the root.

        >>> store = open_store("memory:doc-measure")
        >>> for path in ("__schema/s", "__fragments/f/a.tdb", "__fragments/f/b.tdb"):
        ...     store.put_if_absent(path, b"abc")
        >>> [entry[:2] for entry in store.measure({"", "__schema", "__fragments"})]
        [('__fragments/f/', 6), ('__schema/s', 3)]
        """
        sums: dict[str, int] = {}
        files: list[Entry] = []
        for entry in self.list_files():
            if entry.path.rpartition("/")[0] in folders:
                files.append(entry)
                continue
            end = entry.path.find("/")
            while entry.path[:end] in folders:
                end = entry.path.find("/", end + 1)
            folder = entry.path[: end + 1]
            sums[folder] = sums.get(folder, 0) + (entry.size or 0)
        return (*map(Entry, sums, sums.values()), *files)

    def list_after(self, name: str, folder: str = "") -> tuple[Entry, ...]:
        """List the files below a folder that come after a name; fewer than `PAGE` are the last.

        In a bucket this is one request, however many names come before.

        >>> store = open_store("memory:doc-after")
        >>> for path in ("a/x", "b/x", "c/y/z"):
        ...     store.put_if_absent(path, b"")
        >>> [entry.path for entry in store.list_after("a/x")], store.list_after("y/zz", "c")
        (['b/x', 'c/y/z'], ())
        """
        with self.step("list", folder or name):
            return self.backend.list_after(folder and self.checked(folder), name)

    def can_list_after(self, name: str) -> bool:
        """Tell whether `list_after` costs one request only, for this name.

        >>> store = open_store("memory:doc-can-list-after")
        >>> store.can_list_after("a/__commits/__1_1_ab_22.wrt"), store.can_list_after("a~")
        (True, False)
        """
        return self.backend.can_list_after(name)

    def change_time(self, path: str) -> int | None:
        """Give the time when one level last changed, in ns; None if the storage is not sure."""
        return self.backend.change_time(path and self.checked(path))

    def newest_ms(self, path: str) -> int | None:
        """Give the time when a folder, or a file below it, last changed or got its name, in ms.

        A hard link on a disk has the `modified_ms` of its source; here it has a time of its own.
        None if nothing is there, or if the storage knows no times.

        >>> store = open_store("memory:doc-newest")
        >>> store.put_if_absent("__fragments/f/a.tdb", b"abc")
        >>> store.newest_ms("__fragments/f") == store.head("__fragments/f/a.tdb").modified_ms
        True
        """
        with self.step("list", path):
            return self.backend.newest_ms(self.checked(path))

    def exists(self) -> bool:
        """Tell whether the root exists; in a bucket, whether any object is below it."""
        try:
            self.list_dir()
        except ArrayNotFoundError:
            return False
        return True

    def head(self, path: str) -> Entry:
        """Give size and time of one object.

        Raises:
            MissingObjectError: There is no such object.
        """
        with self.step("head", path):
            return self.backend.head(self.checked(path))

    def read(self, path: str, *, limit: int = READ_LIMIT) -> bytes:
        """Read one object of at most `limit` bytes, checked before it takes memory.

        Raises:
            MissingObjectError: There is no such object.
            TooLargeError: It is larger than the limit.

        >>> open_store("memory:doc-read").read("a")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        chronotile.storage.place.MissingObjectError: ...read/a: expected a file, found nothing
        """
        with self.step("read", path):
            data = self.backend.read(self.checked(path), limit)
            return data if isinstance(data, bytes) else bytes(data)

    def read_range(self, path: str, start: int, end: int, *, size: int | None = None) -> bytes:
        """Read the bytes from `start` to before `end`, or to the end of the object.

        A `size` that the caller knows saves a request to a bucket.

        >>> store = open_store("memory:doc-range")
        >>> store.put_if_absent("a", b"abcdef")
        >>> store.read_range("a", 2, 4), store.read_range("a", 5, 99)
        (b'cd', b'f')
        """
        self.checked(path)
        if not 0 <= start <= end:
            raise StorageError(self.uri_of(path), f"expected a range, found {start} to {end}")
        with self.step("read", path):
            return self.backend.read_range(path, start, end, size)

    def read_tail(self, path: str, length: int, *, size: int | None = None) -> tuple[bytes, int]:
        """Read the last bytes of an object; give also its size, which may be known already."""
        with self.step("read", path):
            return self.backend.read_tail(self.checked(path), length, size)

    def read_many(
        self, paths: Iterable[str], *, limit: int = READ_LIMIT
    ) -> Iterator[tuple[str, bytes | ChronotileError]]:
        """Read objects concurrently; give each path with its bytes or its error, in order.

        It reads few objects ahead of the caller, so memory does not grow with their number.
        Each may have `limit` bytes at most.

        >>> store = open_store("memory:doc-many")
        >>> store.put_if_absent("a", b"abc")
        >>> [(path, type(got).__name__) for path, got in store.read_many(["a", "b"])]
        [('a', 'bytes'), ('b', 'MissingObjectError')]
        """
        for path, got in self.view_many(paths, limit=limit):
            yield path, got if isinstance(got, ChronotileError) else bytes(got)

    def view_many(
        self, paths: Iterable[str], *, limit: int = READ_LIMIT
    ) -> Iterator[tuple[str, memoryview | ChronotileError]]:
        """Read objects as `read_many` does, as views: without a copy of a large object."""
        wanted = tuple(paths)

        def outcome(path: str) -> memoryview | ChronotileError:
            try:
                with self.step("read", path):
                    return memoryview(self.backend.read(self.checked(path), limit))
            except ChronotileError as error:
                return error

        threads = min(self.concurrency, len(wanted))
        yield from zip(wanted, ahead(outcome, wanted, threads), strict=True)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a new object, durably; readers see all of it or none.

        Raises:
            ObjectExistsError: The name is taken; the object there is left as it is.
            ArrayNotFoundError: On a disk, the root does not exist.

        >>> store = open_store("memory:doc-put")
        >>> store.put_if_absent("a", b"1")
        >>> store.put_if_absent("a", b"2")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        chronotile.storage.place.ObjectExistsError: ...doc-put/a: expected no object, found one
        """
        with self.step("put", path):
            self.backend.put(self.checked(path), data)

    def exchange(self, path: str, old: bytes, new: bytes) -> None:
        """Exchange the content of an object; readers see all of the old or all of the new.

        A bucket does it only if the object is still the one that holds the old bytes. A disk
        cannot: somebody who removes the file between the last look at it and the exchange, which
        follows at once, finds it there again.

        Raises:
            ChangedError: The object is gone, or holds other bytes.

        >>> store = open_store("memory:doc-exchange")
        >>> store.put_if_absent("a", b"1")
        >>> store.exchange("a", b"1", b"22")
        >>> store.read("a")
        b'22'
        >>> store.exchange("a", b"1", b"3")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        chronotile.errors.ChangedError: ...exchange/a: expected it as it was put, found ...
        """
        try:
            with self.step("put", path):
                self.backend.exchange(self.checked(path), old, new)
            stored = self.read(path, limit=len(new) * 2 + 1024)
        except MissingObjectError:
            raise ChangedError(self.uri_of(path), OTHER_BYTES) from None
        if stored != new:
            raise ChangedError(self.uri_of(path), OTHER_BYTES)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects; one that is gone already is no error.

        It checks all paths first. On a disk it removes one after the other, in the order given;
        in a bucket up to 1,000 in one request, in no order.

        >>> store = open_store("memory:doc-remove")
        >>> store.put_if_absent("a", b"1")
        >>> store.remove(["a", "never-was"])
        >>> store.list_prefix()
        ()
        """
        wanted = [self.checked(path) for path in paths]
        for start in range(0, len(wanted), self.traits.batch):
            batch = wanted[start : start + self.traits.batch]
            with ExitStack() as steps:
                for path in batch:
                    steps.enter_context(self.step("remove", path))
                self.backend.remove(batch)
        self.backend.sync_names(wanted)

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all files in it, or nothing if a stranger is in it.

        Raises:
            StorageError: A symbolic link or another stranger is below it.
        """
        with self.step("list", path):
            tree = self.backend.walk(self.checked(path))
        for stranger in tree.strangers:
            problem = f"expected nothing but files, found {stranger.what}"
            raise StorageError(self.uri_of(stranger.path), problem)
        self.remove(entry.path for entry in tree.files)
        with self.step("remove", path):
            self.backend.remove_folders((path, *tree.folders))

    def make_folder(self, path: str = "") -> None:
        """Make a folder and those above it, even the root, where folders exist by themselves."""
        self.backend.make_folder(path and self.checked(path))


def open_store(
    array: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    on_operation: Hook | None = None,
) -> Store:
    """Make a store for an array, or for a folder above arrays, without reading anything.

    Args:
        array: A local path, or a URI: `file://`, `s3://`, `gs://`, `az://`, `memory:`.
        storage_options: Options of `obstore` for that storage (`region`, `endpoint`,
            `access_key_id`, `timeout`, …). Others come from the usual environment variables.
            An `http://` endpoint needs no further option.
        on_operation: See `Store.on_operation`.

    Raises:
        StorageError: The text names no place.

    >>> open_store("s3://lake/sales/", {"secret_access_key": "hush"})
    Store(place=Place(scheme='s3', bucket='lake', root='sales'))
    """
    options = {name: str(value) for name, value in (storage_options or {}).items()}
    return Store(
        place=find_place(array),
        options=tuple(sorted(options.items())),
        on_operation=on_operation,
    )


def open_file(
    file: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> tuple[Store, str]:
    """Make a store for the folder of a file; give the file's name in it too.

    >>> open_file("s3://lake/lists/all.csv")
    (Store(place=Place(scheme='s3', bucket='lake', root='lists')), 'all.csv')
    """
    folder, name = find_place(file).parent()
    return open_store(folder.uri, storage_options), name


def put_compared(store: Store, path: str, data: bytes) -> None:
    """Write a new object, read it back and compare.

    Raises:
        ObjectExistsError: The name is taken; the object there stays.
        ChangedError: The object is gone already: somebody else changes the array.
        StorageError: The bytes read back are not the bytes written.

    >>> store = open_store("memory:doc-put-compared")
    >>> put_compared(store, "__commits/a.ign", b"x")
    >>> store.read("__commits/a.ign")
    b'x'
    """
    store.put_if_absent(path, data)
    try:
        stored = store.read(path, limit=max(len(data), 1) * 2)
    except MissingObjectError as cause:
        problem = "expected what was just written, found it gone: the array is being maintained"
        raise ChangedError(store.uri_of(path), problem) from cause
    if stored != data:
        problem = f"expected the {len(data)} bytes just written, found {len(stored)} others"
        raise StorageError(store.uri_of(path), problem)


def about_one_object(error: ChronotileError) -> ChronotileError:
    """Give an error back if it is about one object; raise one of the storage as a whole."""
    if isinstance(error, MissingObjectError | StrangerError) or not isinstance(error, StorageError):
        return error
    raise error


def _rebuild(place: Place, options: Options) -> Store:
    return Store(place=place, options=options)
