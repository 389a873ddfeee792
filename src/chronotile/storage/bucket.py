"""Storage in a bucket: S3, GCS, Azure, or the memory of this process.

In: a `Place` in a bucket, options and checked relative paths. Out: listings and bytes. Knows
no disk. Turns every error of `obstore` into one that names the object and hides secrets.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from chronotile.errors import (
    SECRET_NAME,
    ArrayNotFoundError,
    ChangedError,
    ChronotileError,
    StorageError,
    TooLargeError,
    without_queries,
)
from chronotile.storage.place import (
    OTHER_BYTES,
    Entry,
    Folder,
    MissingObjectError,
    Names,
    ObjectExistsError,
    Place,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from obstore import ObjectMeta, UpdateVersion
    from obstore.store import ObjectStore

T = TypeVar("T")
Options: TypeAlias = tuple[tuple[str, str], ...]

_CLIENTS: dict[tuple[object, ...], ObjectStore] = {}
_MEMORIES: dict[str, MemoryStore] = {}
_FIRST_USER: dict[str, int] = {}
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "gs": (),
}
_SECRET = re.compile(SECRET_NAME, re.IGNORECASE)
_REFUSED = re.compile(r"status code: 4(?!08|29)\d\d")
_NO_CREDENTIALS = re.compile(
    r"//169\.254\.|//metadata\.google|//\[fd00:ec2::254\]|[Nn]o credentials"
    r"|/latest/(api/token|meta-data/)|/computeMetadata/|/metadata/identity/"
)
"""What an error says if no credentials are set: the storage asked the machine's own service."""
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give --storage access_key_id=… "
    "--storage secret_access_key=… (skip_signature=true for a public bucket)",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or give --storage service_account_path=…",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or give --storage "
    "account_name=… --storage account_key=…",
}
"""Scheme -> what to do without credentials."""
_FINAL = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.InvalidPathError,
    exceptions.NotSupportedError,
    exceptions.UnknownConfigurationKeyError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and for how long, to repeat a failing request.

    >>> Retry(attempts=2).wait_s(3)
    0.8
    """

    attempts: int = 4
    """Most attempts by this package, and in each of them most attempts by its client."""
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    timeout_s: float = 60.0
    """After this time there is no further attempt."""

    def wait_s(self, attempt: int) -> float:
        """Seconds to wait after the attempt of this number, counted from 0."""
        return min(self.first_wait_s * float(2**attempt), self.longest_wait_s)


class Bucket:
    """The objects below one prefix of a bucket.

    >>> bucket = Bucket(Place(scheme="memory", bucket="doc-bucket"), (), Retry())
    >>> bucket.put("__commits/a.wrt", b"")
    >>> bucket.list_dir("", sizes=False).folders
    ('__commits',)
    """

    batch = 1000
    """Objects for one call of `remove`: S3 takes that many in a request."""

    concurrency = 32
    """Reads at once, unless the caller says otherwise."""

    def __init__(self, place: Place, options: Options, retry: Retry) -> None:
        self._place = place
        self._options = options
        self._retry = retry
        self._len_root = len(place.root) + 1 if place.root else 0

    def _client(self, *, retries: bool = True) -> ObjectStore:
        """A client for the whole bucket, shared by all the stores in it."""
        place = self._place
        # The client's threads do not survive a fork: its first request would wait forever.
        if _FIRST_USER.setdefault("pid", os.getpid()) != os.getpid():
            problem = "expected the process that first used a bucket, found a fork of it"
            raise StorageError(place.uri, f"{problem}: start processes with 'spawn'")
        if place.scheme == "memory":
            return _MEMORIES.setdefault(place.bucket, MemoryStore())
        key = (place.scheme, place.bucket, self._options, self._retry, retries)
        client = _CLIENTS.get(key)
        if client is None:
            attempts = self._retry.attempts if retries else 0
            client = _CLIENTS.setdefault(key, _connect(place, self._options, self._retry, attempts))
        return client

    def _error(self, path: str, cause: BaseException) -> StorageError:
        words = (str(cause).strip() or type(cause).__name__).split("\n", 1)[0]
        words = without_queries(words)
        for name, value in self._options:
            if _SECRET.search(name) and value:
                words = words.replace(value, "…")
        if _NO_CREDENTIALS.search(words):
            scheme = self._place.scheme
            problem = f"expected credentials for {scheme}, found none: {_CREDENTIALS[scheme]}"
            return StorageError(self._place.uri, problem)
        return StorageError(self._place.uri_of(path), f"the storage answered: {words[:500]}")

    def _missing(self, path: str) -> MissingObjectError:
        return MissingObjectError(self._place.uri_of(path), "expected an object, found nothing")

    def _no_bucket(self) -> ArrayNotFoundError:
        return ArrayNotFoundError(self._place.uri, "expected a bucket, found nothing")

    def _tried(self, path: str, request: Callable[[], T]) -> T:
        """Repeat a request, which may arrive twice, until it succeeds or the attempts are used."""
        began = time.monotonic()
        for attempt in range(self._retry.attempts):
            try:
                return request()
            except ChronotileError:
                raise
            except FileNotFoundError:
                raise self._missing(path) from None
            except _FINAL as cause:
                raise self._error(path, cause) from None
            except (exceptions.BaseError, OSError) as cause:
                if _NO_CREDENTIALS.search(str(cause)):
                    raise self._error(path, cause) from None
                if "status code: 404" in str(cause):
                    raise self._missing(path) from None
                spent = time.monotonic() - began
                last = attempt + 1 == self._retry.attempts or spent > self._retry.timeout_s
                if last or _REFUSED.search(str(cause)):
                    raise self._error(path, cause) from None
            time.sleep(self._retry.wait_s(attempt))
        raise StorageError(self._place.uri_of(path), "expected at least one attempt, found 0")

    def _entries(self, objects: Sequence[ObjectMeta], path: str) -> list[Entry]:
        # Some tools mark a folder with an empty object `folder/`, which arrives here with the
        # path of the folder itself: leave it out.
        folder = self._place.join(path)
        return [self._entry(meta) for meta in objects if meta["path"] != folder]

    def _entry(self, meta: ObjectMeta) -> Entry:
        modified_ms = int(meta["last_modified"].timestamp() * 1000)
        return Entry(meta["path"][self._len_root :], meta["size"], modified_ms, meta["e_tag"])

    def list_dir(self, path: str, *, sizes: bool) -> Folder:  # noqa: ARG002 - they cost nothing here
        """List one level. A prefix with nothing below it is empty, unless it is the root."""
        prefix = self._place.join(path) or None
        try:
            listed = self._tried(path, lambda: obstore.list_with_delimiter(self._client(), prefix))
        except MissingObjectError:
            raise self._no_bucket() from None
        files = self._entries(listed["objects"], path)
        folders = [folder[self._len_root :] for folder in listed["common_prefixes"]]
        if not path and self._place.root and not listed["objects"] and not folders:
            raise ArrayNotFoundError(self._place.uri, "expected objects below it, found none")
        return Folder(tuple(sorted(files)), tuple(sorted(folders)))

    def list_names(self, path: str) -> Names:
        """List one level as bare names."""
        return self.list_dir(path, sizes=False).bare()

    def has_names_after(self, path: str, name: str) -> bool:
        """Whether a prefix has a name after this one: one page tells."""
        prefix = self._place.join(path)

        def look() -> bool:
            client = self._client()
            pages = obstore.list(client, prefix, offset=f"{prefix}/{name}", chunk_size=1)
            return any(len(page) for page in pages)

        try:
            return self._tried(path, look)
        except MissingObjectError:
            return False

    def change_time(self, path: str) -> None:
        """Give None: a bucket does not say when a prefix changed."""

    def newest_ms(self, path: str) -> int | None:
        """The last write of an object below a prefix; a copy counts as a write."""
        times = (entry.modified_ms for entry in self.walk(path, sizes=True).files)
        return max((time for time in times if time is not None), default=None)

    def walk(self, path: str, *, sizes: bool) -> Folder:  # noqa: ARG002 - they cost nothing here
        """List all objects below a prefix, at any depth; `folders` stays empty."""
        prefix = self._place.join(path) or None

        def collect() -> list[Entry]:
            chunks = obstore.list(self._client(), prefix, chunk_size=1000)
            return [entry for chunk in chunks for entry in self._entries(chunk, path)]

        try:
            files = sorted(self._tried(path, collect))
        except MissingObjectError:
            raise self._no_bucket() from None
        parents = {entry.path.rpartition("/")[0] for entry in files}
        return Folder(tuple(e for e in files if e.size or e.path not in parents))

    def head(self, path: str) -> Entry:
        """Size and time of one object."""
        key = self._place.join(path)
        return self._entry(self._tried(path, lambda: obstore.head(self._client(), key)))

    def read(self, path: str, limit: int) -> bytes:
        """All bytes of one object, which may have `limit` at most."""
        return bytes(self.view(path, limit))

    def view(self, path: str, limit: int) -> memoryview:
        """What `read` gives, not copied."""

        def once() -> memoryview:
            answer = obstore.get(self._client(), self._place.join(path))
            size = answer.meta["size"]
            if size > limit:
                where = self._place.uri_of(path)
                raise TooLargeError(where, f"expected at most {limit} bytes, found {size}")
            return self._whole(memoryview(answer.bytes()), size)

        return self._tried(path, once)

    def read_range(self, path: str, start: int, end: int, size: int | None = None) -> bytes:
        """The bytes from `start` to before `end`, or to the end of the object."""

        def once() -> bytes:
            # Ask for the size first: stores differ in their answers to a range beyond the end.
            client, key = self._client(), self._place.join(path)
            stop = min(end, obstore.head(client, key)["size"] if size is None else size)
            if start >= stop:
                return b""
            answer = obstore.get(client, key, options={"range": (start, stop)})
            return bytes(self._whole(memoryview(answer.bytes()), stop - start))

        return self._tried(path, once)

    def read_tail(self, path: str, length: int, size: int | None) -> tuple[bytes, int]:
        """The last bytes of an object, and its size."""
        whole = (self.head(path).size or 0) if size is None else size
        return self.read_range(path, max(whole - length, 0), whole, whole), whole

    @staticmethod
    def _whole(data: memoryview, size: int) -> memoryview:
        if len(data) != size:
            message = f"expected {size} bytes, found {len(data)}"
            raise OSError(message)
        return data

    def put(self, path: str, data: bytes) -> None:
        """Write a new object; readers see all of it or none."""
        # The client must not try again by itself: if its first request arrived and only the
        # answer was lost, the second finds the object of the first and takes it for a rival's.
        client, key = self._client(retries=False), self._place.join(path)
        where = self._place.uri_of(path)
        sent_before = False

        def once() -> None:
            nonlocal sent_before
            try:
                obstore.put(client, key, data, mode="create", use_multipart=False)
            except exceptions.AlreadyExistsError:
                # S3 also says so during a rival's write, which may still fail.
                try:
                    size = obstore.head(self._client(), key)["size"]
                except FileNotFoundError:
                    message = "a rival write failed"
                    raise OSError(message) from None
                if not (sent_before and size == len(data) and self.read(path, size) == data):
                    raise ObjectExistsError(where, "expected no object, found one") from None
            except FileNotFoundError:
                raise self._no_bucket() from None
            except (exceptions.GenericError, OSError):
                sent_before = True
                raise

        try:
            self._tried(path, once)
        except ObjectExistsError:
            raise
        except StorageError as error:
            if not sent_before:
                raise
            doubt = "the object may have been written all the same"
            raise StorageError(where, f"{error.problem}; {doubt}") from None

    def exchange(self, path: str, old: bytes, new: bytes) -> None:
        """Put new bytes in the place of old ones, only if the object still holds these."""
        # As in `put`, the client must not try again by itself: what it wrote would look strange.
        client, key = self._client(retries=False), self._place.join(path)
        limit = max(len(old), len(new))

        def once() -> None:
            answer = obstore.get(client, key)
            meta = answer.meta
            data = bytes(answer.bytes()) if meta["size"] <= limit else None
            if data == new:
                return
            if data != old:
                raise ChangedError(self._place.uri_of(path), OTHER_BYTES)
            seen: UpdateVersion = {"e_tag": meta["e_tag"]}
            if meta["version"] is not None:
                seen["version"] = meta["version"]
            try:
                obstore.put(client, key, new, mode=seen, use_multipart=False)
            except exceptions.PreconditionError:
                raise ChangedError(self._place.uri_of(path), OTHER_BYTES) from None

        self._tried(path, once)

    def duplicate(self, source: str, target: str) -> None:
        """Let the storage copy an object; the copy replaces any object of that name."""
        keys = self._place.join(source), self._place.join(target)
        self._tried(source, lambda: obstore.copy(self._client(), *keys))

    def remove(self, paths: Sequence[str]) -> None:
        """Remove objects. One that is gone already is no error."""
        keys = [self._place.join(path) for path in paths]
        try:
            self._tried(paths[0], lambda: obstore.delete(self._client(), keys))
        except MissingObjectError:
            # GCS and Azure stop at an object that is gone: the others may still be there.
            for path, key in zip(paths, keys, strict=True):
                with suppress(MissingObjectError):
                    self._tried(path, lambda key=key: obstore.delete(self._client(), key))  # type: ignore[misc]

    def settle(self, paths: Sequence[str]) -> None:
        """Do nothing: each change in a bucket lasts once it is answered."""

    def remove_folders(self, paths: Sequence[str]) -> None:
        """Do nothing: a folder goes with its last object."""

    def check_child(self, path: str) -> None:
        """Do nothing: a bucket has no links."""


def _connect(place: Place, options: Options, retry: Retry, attempts: int) -> ObjectStore:
    config: dict[str, Any] = {name.lower(): value for name, value in options}
    given = [value for name, value in config.items() if "endpoint" in name]
    from_environment = [os.environ.get(name, "") for name in _ENDPOINTS[place.scheme]]
    # A user who writes http:// allows it.
    if any(value.startswith("http://") for value in given or from_environment):
        config.setdefault("allow_http", "true")
    settings: dict[str, Any] = {
        "config": config,
        "retry_config": {
            "max_retries": attempts,
            "retry_timeout": timedelta(seconds=retry.timeout_s),
            "backoff": {
                "init_backoff": timedelta(seconds=retry.first_wait_s),
                "max_backoff": timedelta(seconds=retry.longest_wait_s),
            },
        },
    }
    if place.scheme == "s3":
        return S3Store(place.bucket, **settings)
    if place.scheme == "gs":
        return GCSStore(place.bucket, **settings)
    return AzureStore(place.bucket, **settings)
