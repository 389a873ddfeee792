"""Storage in a bucket: S3, GCS, Azure, or the memory of this process.

In: a `Place` in a bucket, options and checked relative paths. Out: listings and bytes. Knows
no disk. Turns every error of `obstore` into one that names the object and hides secrets.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from chronotile.errors import (
    ArrayNotFoundError,
    ChangedError,
    ChronotileError,
    StorageError,
    TooLargeError,
)
from chronotile.safe_text import SECRET_NAME, without_queries, without_secrets
from chronotile.storage.backend import Backend, Options, Traits
from chronotile.storage.place import (
    OTHER_BYTES,
    PAGE,
    Entry,
    Folder,
    MissingObjectError,
    ObjectExistsError,
    Place,
    with_secrets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from obstore import GetOptions, ObjectMeta, UpdateVersion
    from obstore.store import ObjectStore

T = TypeVar("T")

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
_UNREACHED = re.compile("error sending request|operation timed out")
"""What an error says if no answer came."""
_BROKEN_OFF = "Error getting list response body"
"""How the client says that a part of a list arrived: it repeats all requests but this one."""
_PAGED = frozenset({"s3", "gs", "memory"})
"""Storage that can begin a list at any key: Azure's would send all that come before, too."""
_SENT_AS_IT_IS = re.compile(r"[A-Za-z0-9_./=+@:,-]*")
"""A key that can begin a list: other letters would be sent in another form."""
_LEN_PART = 1 << 23
"""Bytes of an object that goes through this process in one request."""
_PARTS_AT_ONCE = 2
"""Parts of one object that are on their way at once; each takes memory."""
_LEN_COPIED = 5 << 30
"""S3 copies no larger object in one request."""
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
ATTEMPTS = 4
"""Most requests of the client for one answer."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.3, 5.0
"""Few requests, and about two seconds of patience."""
_TIMEOUT_S = 60.0
"""After this time there is no further attempt."""


class Bucket(Backend):
    """The objects below one prefix of a bucket.

    >>> bucket = Bucket(Place(scheme="memory", bucket="doc-bucket"), ())
    >>> bucket.put("__commits/a.wrt", b"")
    >>> bucket.list_dir("", sizes=False).folders
    ('__commits',)
    """

    # S3 removes up to 1,000 objects in one request.
    traits = Traits(
        pace="slow",
        concurrency=32,
        batch=1000,
        has_links=False,
        has_change_times=False,
        shows_partial_files=False,
    )

    def __init__(self, place: Place, options: Options) -> None:
        self._place = place
        self._options = options
        self._len_root = len(place.root) + 1 if place.root else 0

    def _client(self, *, retries: bool = True) -> ObjectStore:
        """Give the client of the whole bucket, which all the stores in it share."""
        place = self._place
        # The client's threads do not survive a fork: its first request would wait forever.
        if _FIRST_USER.setdefault("pid", os.getpid()) != os.getpid():
            problem = "expected the process that first used a bucket, found a fork of it"
            raise StorageError(place.uri, f"{problem}: start processes with 'spawn'")
        if place.scheme == "memory":
            return _MEMORIES.setdefault(place.bucket, MemoryStore())
        key = (place.scheme, place.bucket, self._options, retries)
        client = _CLIENTS.get(key)
        if client is None:
            attempts = ATTEMPTS if retries else 1
            client = _CLIENTS.setdefault(key, _connect(place, self._options, attempts))
        return client

    def _error(self, path: str, cause: BaseException) -> StorageError:
        words = (str(cause).strip() or type(cause).__name__).split("\n", 1)[0]
        words = without_queries(words)
        words = without_secrets(words, (v for name, v in self._options if _SECRET.search(name)))
        if _NO_CREDENTIALS.search(words):
            scheme = self._place.scheme
            problem = f"expected credentials for {scheme}, found none: {_CREDENTIALS[scheme]}"
            return StorageError(self._place.uri, problem)
        verb = "did not answer" if _UNREACHED.search(words) else "answered"
        return StorageError(self._place.uri_of(path), f"the storage {verb}: {words[:500]}")

    def _missing(self, path: str) -> MissingObjectError:
        return MissingObjectError(self._place.uri_of(path), "expected a file, found nothing")

    def _no_bucket(self) -> ArrayNotFoundError:
        return ArrayNotFoundError(self._place.uri, "expected a bucket, found nothing")

    @contextmanager
    def _asking(self, path: str = "", *, missing: ChronotileError | None = None) -> Generator[None]:
        """Raise our error for one of the client, which has repeated the request already."""
        try:
            yield
        except ChronotileError:
            raise
        except (exceptions.BaseError, OSError, ValueError) as cause:
            if isinstance(cause, FileNotFoundError) or "status code: 404" in str(cause):
                raise missing or self._missing(path) from None
            raise self._error(path, cause) from None

    def _list(self, path: str, request: Callable[[], T]) -> T:
        """Make a list; repeat one that broke off, the one failure that the client does not."""
        for left in reversed(range(ATTEMPTS)):
            with self._asking(path, missing=self._no_bucket()):
                try:
                    return request()
                except exceptions.GenericError as cause:
                    if not left or _BROKEN_OFF not in str(cause):
                        raise
        raise AssertionError  # the loop returns or raises

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
        listed = self._list(path, lambda: obstore.list_with_delimiter(self._client(), prefix))
        files = self._entries(listed["objects"], path)
        folders = [folder[self._len_root :] for folder in listed["common_prefixes"]]
        if not path and self._place.root and not listed["objects"] and not folders:
            raise ArrayNotFoundError(self._place.uri, "expected objects below it, found none")
        return Folder(tuple(sorted(files)), tuple(sorted(folders)))

    def list_after(self, path: str, name: str) -> tuple[Entry, ...]:
        """List the objects that come after a name, a page of them: one request."""
        folder = self._place.join(path) or None
        offset = self._place.join(f"{path}/{name}" if path else name)

        def page() -> tuple[Entry, ...]:
            pages = obstore.list(self._client(), folder, offset=offset, chunk_size=PAGE)
            return tuple(self._entry(meta) for meta in next(iter(pages), ()))

        return self._list(path, page)

    def can_list_after(self, name: str) -> bool:
        """Tell whether a list can begin at a name."""
        key = self._place.join(name)
        return self._place.scheme in _PAGED and _SENT_AS_IT_IS.fullmatch(key) is not None

    def newest_ms(self, path: str) -> int | None:
        """Give the time of the last write below a prefix; a copy counts as a write."""
        times = (entry.modified_ms for entry in self.walk(path).files)
        return max((time for time in times if time is not None), default=None)

    def walk(self, path: str) -> Folder:
        """List all objects below a prefix, at any depth; `folders` stays empty."""
        prefix = self._place.join(path) or None

        def every_page() -> list[Entry]:
            pages = obstore.list(self._client(), prefix, chunk_size=PAGE)
            return sorted(entry for page in pages for entry in self._entries(page, path))

        files = self._list(path, every_page)
        parents = {entry.path.rpartition("/")[0] for entry in files}
        return Folder(tuple(e for e in files if e.size or e.path not in parents))

    def head(self, path: str) -> Entry:
        """Give size and time of one object."""
        with self._asking(path):
            return self._entry(obstore.head(self._client(), self._place.join(path)))

    def keeps_versions(self) -> bool | None:
        """Ask for the newest object: its version has a number if the bucket keeps versions."""
        if self._place.scheme == "memory":
            return False
        newest = max(self.list_files(), key=lambda one: one.modified_ms or 0, default=None)
        if self._place.scheme == "gs" or newest is None:
            return None  # Google's storage numbers the versions of all objects
        with self._asking(newest.path):
            answer = obstore.head(self._client(), self._place.join(newest.path))
        return answer["version"] is not None

    def read(self, path: str, limit: int) -> memoryview:
        """Read one object, which may have `limit` bytes at most."""
        with self._asking(path):
            answer = obstore.get(self._client(), self._place.join(path))
            size = answer.meta["size"]
            if size > limit:
                where = self._place.uri_of(path)
                raise TooLargeError(where, f"expected at most {limit} bytes, found {size}")
            return self._whole(memoryview(answer.bytes()), size)

    def read_range(self, path: str, start: int, end: int, size: int | None = None) -> bytes:
        """Read the bytes from `start` to before `end`, or to the end of the object."""
        # Ask for the size first: stores differ in their answers to a range beyond the end.
        stop = min(end, (self.head(path).size or 0) if size is None else size)
        if start >= stop:
            return b""
        with self._asking(path):
            options: GetOptions = {"range": (start, stop)}
            answer = obstore.get(self._client(), self._place.join(path), options=options)
            return bytes(self._whole(memoryview(answer.bytes()), stop - start))

    def read_tail(self, path: str, length: int, size: int | None) -> tuple[bytes, int]:
        """Read the last bytes of an object, and give its size."""
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
        # The client must not repeat the first request. If that arrived and only its answer was
        # lost, the second finds the object of the first and takes it for a rival's.
        key = self._place.join(path)
        with self._asking(path, missing=self._no_bucket()):
            client = self._client(retries=False)
            try:
                obstore.put(client, key, data, mode="create", use_multipart=False)
            except exceptions.AlreadyExistsError:
                self._refuse_rival(path)
            except FileNotFoundError:
                raise
            except (exceptions.GenericError, OSError) as cause:
                if _REFUSED.search(str(cause)) or _NO_CREDENTIALS.search(str(cause)):
                    raise
                self._put_again(path, data)

    def _put_again(self, path: str, data: bytes) -> None:
        """Repeat a put that may have arrived: the same bytes are those of the first request."""
        client, key = self._client(), self._place.join(path)
        try:
            with self._asking(path):
                try:
                    obstore.put(client, key, data, mode="create", use_multipart=False)
                except exceptions.AlreadyExistsError:
                    with suppress(TooLargeError, MissingObjectError):
                        if self.read(path, len(data)) == data:
                            return
                    self._refuse_rival(path)
        except ObjectExistsError:
            raise
        except StorageError as error:
            doubt = "the object may have been written all the same"
            raise StorageError(self._place.uri_of(path), f"{error.problem}; {doubt}") from None

    def _refuse_rival(self, path: str) -> NoReturn:
        """Refuse to put an object that is there already."""
        where = self._place.uri_of(path)
        try:
            self.head(path)
        except MissingObjectError:
            # S3 also says that an object exists during a rival's write, which may still fail.
            raise StorageError(
                where, "another write of this object failed meanwhile; try again"
            ) from None
        raise ObjectExistsError(where, "expected no object, found one")

    def put_parts(self, path: str, parts: Iterable[bytes], size: int) -> None:
        """Write a new object; a large one replaces an object that has just got its name."""
        if size <= _LEN_PART:
            self.put(path, b"".join(parts))
            return
        with self._asking(path):
            # The parts may come from a bucket too: they must not be read inside of the client. A
            # writer that is not closed, as after an error, shows no object.
            key = self._place.join(path)
            writer = obstore.open_writer(
                self._client(), key, buffer_size=_LEN_PART, max_concurrency=_PARTS_AT_ONCE
            )
            for part in parts:
                writer.write(part)
            writer.close()

    def exchange(self, path: str, old: bytes, new: bytes) -> None:
        """Put new bytes in the place of old ones, only if the object still holds these."""
        client, key = self._client(), self._place.join(path)
        with self._asking(path):
            answer = obstore.get(client, key)
            meta = answer.meta
            is_short = meta["size"] <= max(len(old), len(new))
            stored = bytes(answer.bytes()) if is_short else None
            if stored == new:
                return
            if stored != old:
                raise ChangedError(self._place.uri_of(path), OTHER_BYTES)
            seen: UpdateVersion = {"e_tag": meta["e_tag"]}
            if meta["version"] is not None:
                seen["version"] = meta["version"]
            # A request that the client repeats may find its own bytes: the caller reads them back.
            with suppress(exceptions.PreconditionError):
                obstore.put(client, key, new, mode=seen, use_multipart=False)

    def take(self, other: Backend, source: str, target: str) -> bool:
        """Let the storage copy an object, which replaces any object of that name."""
        if not isinstance(other, Bucket) or self._options != other._options:
            return False
        if self._place.top != other._place.top:
            return False
        keys = other._place.join(source), self._place.join(target)
        try:
            with other._asking(source):
                obstore.copy(self._client(), *keys)
        except MissingObjectError:
            raise
        except StorageError:
            if (other.head(source).size or 0) <= _LEN_COPIED:
                raise
            return False
        return True

    def link_folder(self, target: str, path: str) -> None:  # noqa: ARG002 - whatever it is
        """Refuse: a bucket has no links."""
        raise StorageError(self._place.uri, "expected two local folders to link, found a bucket")

    def remove(self, paths: Sequence[str]) -> None:
        """Remove objects. One that is gone already is no error."""
        keys = [self._place.join(path) for path in paths]
        try:
            with self._asking(paths[0]):
                obstore.delete(self._client(), keys)
        except MissingObjectError:
            # GCS and Azure stop at an object that is gone: the others may still be there.
            for path, key in zip(paths, keys, strict=True):
                with suppress(MissingObjectError), self._asking(path):
                    obstore.delete(self._client(), key)


def _connect(place: Place, options: Options, attempts: int) -> ObjectStore:
    config: dict[str, Any] = {name.lower(): value for name, value in with_secrets(options).items()}
    given = [value for name, value in config.items() if "endpoint" in name]
    from_environment = [os.environ.get(name, "") for name in _ENDPOINTS[place.scheme]]
    # A user who writes http:// allows it.
    if any(value.startswith("http://") for value in given or from_environment):
        config.setdefault("allow_http", "true")
    settings: dict[str, Any] = {
        "config": config,
        "retry_config": {
            "max_retries": attempts - 1,
            "retry_timeout": timedelta(seconds=_TIMEOUT_S),
            "backoff": {
                "init_backoff": timedelta(seconds=FIRST_WAIT_S),
                "max_backoff": timedelta(seconds=LONGEST_WAIT_S),
            },
        },
    }
    if place.scheme == "s3":
        return S3Store(place.bucket, **settings)
    if place.scheme == "gs":
        return GCSStore(place.bucket, **settings)
    return AzureStore(place.bucket, **settings)
