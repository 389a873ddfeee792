"""The store: the one door to storage.

In: the place of an array. Out: listings as entries, objects as bytes; puts, moves, removals.
Knows nothing of what the objects mean, and touches nothing outside the array.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from chronotile.errors import ArrayNotFoundError, ChronotileError, StorageError
from chronotile.storage.bucket import Bucket, Options, Retry
from chronotile.storage.local_disk import Disk
from chronotile.storage.place import (
    Entry,
    Folder,
    MissingObjectError,
    Names,
    ObjectExistsError,
    Place,
    Stranger,
    check_path,
    find_place,
)
from chronotile.storage.prefetch import ahead

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterable, Iterator, Mapping

__all__ = [
    "Entry",
    "Folder",
    "MissingObjectError",
    "Names",
    "ObjectExistsError",
    "Retry",
    "Store",
    "Stranger",
    "open_store",
]

READ_LIMIT = 1 << 31
"""Bytes of an object that are read unless the caller sets another ceiling."""

Hook: TypeAlias = Callable[[str, str], None]
Progress: TypeAlias = Callable[[int, int], None]
_UNTOLD = nullcontext()


@contextmanager
def _told(hook: Hook, operation: str, path: str) -> Generator[None]:
    hook(operation, path)
    yield
    hook(f"{operation}.done", path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The objects of one array, or of a folder above arrays.

    A plain value: cheap, safe to share between threads, and pickled as its place and options
    (the hook stays behind). Paths are relative to its root and always checked.

    >>> store = open_store("memory://doc-store/array")
    >>> store.put_if_absent("__commits/a.ign", b"__commits/b.wrt")
    >>> store.read("__commits/a.ign")
    b'__commits/b.wrt'
    """

    place: Place
    options: Options = field(default=(), repr=False)
    """Storage options; they may hold secrets, so no message and no `repr` shows them."""
    retry: Retry = field(default_factory=Retry)
    on_operation: Hook | None = field(default=None, repr=False, compare=False)
    """Called with (operation, path) before each operation on the storage: `list`, `head`,
    `read`, `put`, `copy`, `remove`; and again after it has succeeded, with `.done` added. It
    is called from several threads. What it raises stops the operation."""
    _backend: Disk | Bucket = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        backend: Disk | Bucket = (
            Disk(self.place)
            if self.place.scheme == "file"
            else Bucket(self.place, self.options, self.retry)
        )
        object.__setattr__(self, "_backend", backend)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.place, self.options, self.retry)

    @property
    def uri(self) -> str:
        """The place of the root, as a local path or URI."""
        return self.place.uri

    def uri_of(self, path: str) -> str:
        """The full name of an object, for messages."""
        return self.place.uri_of(path)

    def watched(self, on_operation: Hook | None) -> Store:
        """The same store with a hook.

        >>> seen = []
        >>> store = open_store("memory:doc-hook").watched(lambda *step: seen.append(step))
        >>> store.put_if_absent("a", b"")
        >>> seen
        [('put', 'a'), ('put.done', 'a')]
        """
        return replace(self, on_operation=on_operation)

    def child(self, path: str) -> Store:
        """A store rooted at a folder below this one, with the same options and hook.

        >>> open_store("memory:doc-child").child("sales").uri
        'memory://doc-child/sales'
        """
        place = self.place.child(path)
        self._backend.check_child(path)
        return replace(self, place=place)

    def _checked(self, path: str) -> str:
        return check_path(path, self.place.uri)

    def _step(self, operation: str, path: str) -> AbstractContextManager[None]:
        return _told(self.on_operation, operation, path) if self.on_operation else _UNTOLD

    def list_dir(self, path: str = "", *, sizes: bool = False) -> Folder:
        """List one level: files, folders, and strangers such as symbolic links.

        Args:
            path: A folder below the root; the root itself if empty. One that does not exist
                has nothing in it: only a disk could tell the difference.
            sizes: Give sizes and times even where each costs a call, as on a disk.

        Raises:
            ArrayNotFoundError: The root does not exist or, in a bucket, has nothing in it.

        >>> store = open_store("memory:doc-list-dir")
        >>> store.put_if_absent("__schema/__1_1_ab", b"")
        >>> store.list_dir().folders
        ('__schema',)
        """
        with self._step("list", path):
            return self._backend.list_dir(path and self._checked(path), sizes=sizes)

    def list_names(self, path: str = "") -> Names:
        """List one level as bare names, in no order: cheap where there are very many.

        Raises:
            ArrayNotFoundError: As of `list_dir`.

        >>> store = open_store("memory:doc-list-names")
        >>> store.put_if_absent("__commits/a.wrt", b"")
        >>> store.list_names("__commits").files
        ('a.wrt',)
        """
        with self._step("list", path):
            return self._backend.list_names(path and self._checked(path))

    def list_prefix(self, path: str = "", *, sizes: bool = False) -> tuple[Entry, ...]:
        """List the files below a folder at any depth, without strangers, sorted by path.

        >>> store = open_store("memory:doc-list-prefix")
        >>> store.put_if_absent("__fragments/f/a.tdb", b"abc")
        >>> [(entry.path, entry.size) for entry in store.list_prefix(sizes=True)]
        [('__fragments/f/a.tdb', 3)]
        """
        with self._step("list", path):
            return self._backend.walk(path and self._checked(path), sizes=sizes).files

    def mark(self, path: str) -> int | None:
        """A number that changes as soon as one level does; None if the storage has none."""
        return self._backend.mark(self._checked(path))

    def exists(self) -> bool:
        """Tell whether the root is there; in a bucket, whether anything is below it."""
        try:
            self.list_dir()
        except ArrayNotFoundError:
            return False
        return True

    def head(self, path: str) -> Entry:
        """Size and time of one object.

        Raises:
            MissingObjectError: There is no such object.

        >>> store = open_store("memory:doc-head")
        >>> store.put_if_absent("a", b"abc")
        >>> store.head("a").size
        3
        """
        with self._step("head", path):
            return self._backend.head(self._checked(path))

    def read(self, path: str, *, limit: int = READ_LIMIT) -> bytes:
        """Read one object.

        Args:
            path: The object.
            limit: The most bytes that it may have; checked before memory is taken.

        Raises:
            MissingObjectError: There is no such object.
            TooLargeError: It is larger than the limit.

        >>> open_store("memory:doc-read").read("a")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        chronotile.storage.place.MissingObjectError: ...read/a: expected an object, found nothing
        """
        with self._step("read", path):
            return self._backend.read(self._checked(path), limit)

    def read_range(self, path: str, start: int, end: int, *, size: int | None = None) -> bytes:
        """Read the bytes from `start` to before `end`, less what is beyond the object's end.

        Args:
            path: The object.
            start: The first byte.
            end: The byte behind the last one.
            size: The size of the object, if it is known: a bucket is then asked once, not twice.

        >>> store = open_store("memory:doc-range")
        >>> store.put_if_absent("a", b"abcdef")
        >>> store.read_range("a", 2, 4), store.read_range("a", 5, 99)
        (b'cd', b'f')
        """
        self._checked(path)
        if not 0 <= start <= end:
            raise StorageError(self.uri_of(path), f"expected a range, found {start} to {end}")
        with self._step("read", path):
            return self._backend.read_range(path, start, end, size)

    def read_many(
        self,
        paths: Iterable[str],
        *,
        limit: int = READ_LIMIT,
        concurrency: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[tuple[str, bytes | ChronotileError]]:
        """Read objects concurrently; give each path with its bytes or its error, in order.

        Few objects are read ahead of the caller, so memory does not grow with their number.

        Args:
            paths: The objects.
            limit: The most bytes that each may have.
            concurrency: How many reads may be under way at once; by itself 32 in a bucket
                and 1 on a disk, where more gains nothing while the files are in the cache.
            progress: Called with (objects done, objects in all) after each.

        >>> store = open_store("memory:doc-many")
        >>> store.put_if_absent("a", b"abc")
        >>> [(path, type(got).__name__) for path, got in store.read_many(["a", "b"])]
        [('a', 'bytes'), ('b', 'MissingObjectError')]
        """
        found = self.view_many(paths, limit=limit, concurrency=concurrency, progress=progress)
        for path, got in found:
            yield path, got if isinstance(got, ChronotileError) else bytes(got)

    def view_many(
        self,
        paths: Iterable[str],
        *,
        limit: int = READ_LIMIT,
        concurrency: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[tuple[str, memoryview | ChronotileError]]:
        """What `read_many` gives, as views: a large object is not copied once it has been read."""
        wanted = tuple(paths)

        def outcome(path: str) -> memoryview | ChronotileError:
            try:
                with self._step("read", path):
                    return self._backend.view(self._checked(path), limit)
            except ChronotileError as error:
                return error

        threads = min(concurrency or self._backend.concurrency, len(wanted))
        found = zip(wanted, ahead(outcome, wanted, threads), strict=True)
        for done, (path, got) in enumerate(found, start=1):
            if progress is not None:
                progress(done, len(wanted))
            yield path, got

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a new object, durably; it is seen whole or not at all.

        Raises:
            ObjectExistsError: The name is taken; the object there is left as it is.
            ArrayNotFoundError: On a disk, the root does not exist.

        >>> store = open_store("memory:doc-put")
        >>> store.put_if_absent("a", b"1")
        >>> store.put_if_absent("a", b"2")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        chronotile.storage.place.ObjectExistsError: ...doc-put/a: expected no object, found one
        """
        with self._step("put", path):
            self._backend.put(self._checked(path), data)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects; one that is gone already is no error.

        All paths are checked first. On a disk they go one after the other, in the order
        given; in a bucket up to 1,000 go in one request, in no order.

        >>> store = open_store("memory:doc-remove")
        >>> store.put_if_absent("a", b"1")
        >>> store.remove(["a", "never-was"])
        >>> store.list_prefix()
        ()
        """
        wanted = [self._checked(path) for path in paths]
        for at in range(0, len(wanted), self._backend.batch):
            batch = wanted[at : at + self._backend.batch]
            with ExitStack() as steps:
                for path in batch:
                    steps.enter_context(self._step("remove", path))
                self._backend.remove(batch)
        self._backend.settle(wanted)

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it, or nothing if a stranger is in it.

        Raises:
            StorageError: A symbolic link or another stranger is below it.

        >>> store = open_store("memory:doc-remove-folder")
        >>> store.put_if_absent("__fragments/f/a.tdb", b"abc")
        >>> store.remove_folder("__fragments/f")
        >>> store.list_prefix()
        ()
        """
        with self._step("list", path):
            found = self._backend.walk(self._checked(path), sizes=False)
        for stranger in found.strangers:
            problem = f"expected nothing but files, found {stranger.what}"
            raise StorageError(self.uri_of(stranger.path), problem)
        self.remove(entry.path for entry in found.files)
        with self._step("remove", path):
            self._backend.remove_folders((path, *found.folders))

    def duplicate(self, names: Mapping[str, str]) -> None:
        """Give objects second names; in a bucket the storage copies them, over what is there."""

        def once(source: str) -> None:
            with self._step("copy", source):
                self._backend.duplicate(self._checked(source), self._checked(names[source]))

        for _ in ahead(once, names, self._backend.concurrency):
            pass
        self._backend.settle(tuple(names.values()))


def open_store(
    array: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    retry: Retry | None = None,
    on_operation: Hook | None = None,
) -> Store:
    """Make a store for an array, or for a folder above arrays. Nothing is read yet.

    Args:
        array: A local path, or a URI: `file://`, `s3://`, `gs://`, `az://`, `memory:`.
        storage_options: What `obstore` takes for that storage (`region`, `endpoint`,
            `access_key_id`, `timeout`, …). What is not given comes from the usual
            environment variables. An `http://` endpoint may be used as it is.
        retry: How long to go on after failures.
        on_operation: See `Store.on_operation`.

    Raises:
        StorageError: The text names no place.

    >>> open_store("s3://lake/sales/", {"secret_access_key": "hush"})  # doctest: +ELLIPSIS
    Store(place=Place(scheme='s3', bucket='lake', root='sales'), retry=Retry(attempts=4, ...))
    """
    options = {name: str(value) for name, value in (storage_options or {}).items()}
    return Store(
        place=find_place(array),
        options=tuple(sorted(options.items())),
        retry=retry or Retry(),
        on_operation=on_operation,
    )


def _rebuild(place: Place, options: Options, retry: Retry) -> Store:
    return Store(place=place, options=options, retry=retry)
