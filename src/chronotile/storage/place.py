"""Places: where an array is, and how its objects are named.

In: what a user typed, and relative paths. Out: a `Place`, checked paths, and the rows of a
listing. Touches no storage and knows nothing of what the names mean.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args, overload

from chronotile.errors import BadNameError, ChronotileError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Scheme: TypeAlias = Literal["file", "s3", "gs", "az", "memory"]

_ALIASES: dict[str, Scheme] = {
    **{scheme: scheme for scheme in get_args(Scheme)},
    "s3a": "s3",
    "gcs": "gs",
    "azure": "az",
}
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*")
# Control characters would let a name forge a line of output, a backslash is a separator to
# some, and a lone surrogate is a name that is not UTF-8: none is in any name of the format.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff]")
_LEN_PATH_MAX = 4096
_LEN_AT_ONCE = 1 << 20
# Matches every name of the format: a fast path, as there may be 100,000 names in a folder.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")

_ODD_START = re.compile(rb"\n[.\n-]")
_ODD_FIRSTS = (b".", b"-", b"\n")
_PLAIN_FIRSTS = (string.ascii_letters + string.digits + "_").encode()
_PLAIN_LETTERS = _PLAIN_FIRSTS + b".-"

PAGE = 1000
"""Names in one answer to a list request of a bucket."""
LEFTOVER = re.compile(r"\.chronotile-[0-9a-f]+\.part")
"""A file that an interrupted write to a disk can leave in the array's folder. The engine reads
every file of `__schema`, `__meta` and `__fragment_meta`, but passes over this one in the root."""


OTHER_BYTES = "expected it as it was put, found it gone or with other bytes"
"""What is wrong with an object that somebody else changed."""


class Entry(NamedTuple):
    """One object of a listing.

    >>> Entry("__commits/a.wrt").size is None
    True
    """

    path: str
    """Relative to the root of the store."""
    size: int | None = None
    """Bytes; None if the caller did not ask and it would have cost a call."""
    modified_ms: int | None = None
    """The time of the last write, in ms since the epoch; None likewise."""
    etag: str | None = None
    """A text that changes with the object; None likewise, or if the storage has none."""


class Stranger(NamedTuple):
    """Something in a local folder that no operation opens, moves or removes."""

    path: str
    """Relative to the root, made printable: it may be no valid path."""
    what: str
    """Why it is a stranger, in words."""
    kind: Literal["name", "folder", "leftover", "file-link", "folder-link", "special"] = "name"
    """A `name` or `folder` has a name out of bounds; the kind of a link says where it leads;
    `special` is a link to nothing, a pipe, a socket or a device."""


class Names(NamedTuple):
    """One level of a listing as bare names, in no order: for folders of 100,000 files."""

    files: Sequence[str] = ()
    folders: Sequence[str] = ()
    strangers: tuple[Stranger, ...] = ()
    """With whole paths."""
    change_time: int | None = None
    """The store's `change_time` just before the listing."""
    entries: tuple[Entry, ...] = ()
    """The files again, if the listing gave more than their names."""


class Folder(NamedTuple):
    """One level of a listing, each part sorted by path."""

    files: tuple[Entry, ...] = ()
    folders: tuple[str, ...] = ()
    strangers: tuple[Stranger, ...] = ()

    def bare(self) -> Names:
        """Give the same as bare names.

        >>> Folder((Entry("__commits/a.wrt"),)).bare().files
        ('a.wrt',)
        """
        return Names(
            tuple(entry.path.rpartition("/")[2] for entry in self.files),
            tuple(path.rpartition("/")[2] for path in self.folders),
            self.strangers,
            entries=self.files,
        )


class MissingObjectError(StorageError, FileNotFoundError):
    """No object of that name."""


class StrangerError(StorageError):
    """A link, a pipe or a device stands where a plain file or folder should; nobody opens it."""


class ObjectExistsError(StorageError, FileExistsError):
    """An object of that name exists, and objects are never overwritten."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The folder or prefix that a store is rooted at.

    >>> place = Place(scheme="s3", bucket="lake", root="sales/2024")
    >>> place.uri_of("__commits/a.wrt")
    's3://lake/sales/2024/__commits/a.wrt'
    """

    scheme: Scheme
    bucket: str = ""
    """Bucket, container or memory name; empty on a disk."""
    root: str = ""
    """An absolute local path, or a key prefix with no slash at either end."""

    @property
    def uri(self) -> str:
        """The place in the form that `find_place` takes."""
        if self.scheme == "file":
            return self.root
        return f"{self.scheme}://{self.bucket}/{self.root}".rstrip("/")

    def join(self, path: str) -> str:
        """Give the local path or the key of a checked relative path; of the root for `""`."""
        if not path or not self.root:
            return path or self.root
        return f"{self.root.rstrip('/')}/{path}"

    def uri_of(self, path: str) -> str:
        """Give the full name of a relative path, for messages."""
        return f"{self.uri.rstrip('/')}/{path}" if path else self.uri

    def uri_in_files(self, path: str) -> str:
        """Give the full name of a relative path as the engine writes it into its files.

        >>> Place(scheme="file", root="/data/a").uri_in_files("__meta/x")
        'file:///data/a/__meta/x'
        """
        return f"{'file://' if self.scheme == 'file' else ''}{self.uri_of(path)}"

    @property
    def top(self) -> Place:
        """The bucket, or the disk, that it is on."""
        return replace(self, root="/" if self.scheme == "file" else "")

    @property
    def local_path(self) -> Path | None:
        """The path for programs of this machine; None in a bucket."""
        return Path(self.root) if self.scheme == "file" else None

    def is_below(self, other: Place) -> bool:
        """Tell whether it is a folder, or below it.

        >>> root = Place(scheme="s3", bucket="lake", root="a")
        >>> [root.child("b").is_below(root), root.is_below(root), root.is_below(root.child("b"))]
        [True, True, False]
        """
        top = other.root.rstrip("/")
        is_inside = self.root == other.root or not top or self.root.startswith(f"{top}/")
        return is_inside and self.top == other.top

    def parent(self) -> tuple[Place, str]:
        """Give the folder above, and the name in it.

        Raises:
            StorageError: It is the root of its bucket or disk.

        >>> Place(scheme="memory", bucket="m", root="lake/sales").parent()
        (Place(scheme='memory', bucket='m', root='lake'), 'sales')
        """
        above, _, name = self.root.rpartition("/")
        if not name:
            raise StorageError(self.uri, "expected an array below a folder, found a root itself")
        return replace(self, root=above or self.top.root), name

    def child(self, path: str) -> Place:
        """Give the place of a folder below this one.

        >>> Place(scheme="memory", bucket="m").child("a/b").uri
        'memory://m/a/b'
        """
        return replace(self, root=self.join(check_path(path, self.uri)))


def find_place(array: str | os.PathLike[str]) -> Place:
    """Find the place that a user means.

    A local path may be relative or start with `~`; a URI starts with `file://`, `s3://`, `gs://`,
    `az://` or `memory:`. A percent sign in a URI stands for itself, as in the engine.

    Raises:
        StorageError: The text names no place.

    >>> find_place("s3://lake/sales//")
    Place(scheme='s3', bucket='lake', root='sales')
    """
    text = os.fspath(array)
    if not text or "\0" in text:
        raise StorageError(repr(text), "expected the place of an array, found no path")
    if text[0] == "/" and os.path.normpath(text) == text:  # as a fleet's arrays are: nothing to do
        return Place(scheme="file", root=text)
    uri = _URI.fullmatch(text)
    if uri is None and text.startswith("memory:"):
        return _bucket_place("memory", text.removeprefix("memory:"))
    if uri is None:
        return Place(scheme="file", root=_local_root(str(Path(text).expanduser())))
    scheme = _ALIASES.get(uri[1].lower())
    if scheme is None:
        known = "a local path, file://, s3://, gs:// or az://"
        raise StorageError(text, f"expected {known}, found {uri[1]}://")
    if scheme == "file":
        local = uri[2].removeprefix("localhost")
        if not local.startswith("/"):
            raise StorageError(text, "expected file:// and an absolute path")
        return Place(scheme="file", root=_local_root(local))
    return _bucket_place(scheme, uri[2])


def _local_root(path: str) -> str:
    # `link/../x` is beside the link's target, which only the file system knows.
    return os.path.realpath(path) if ".." in path.split("/") else str(Path(path).absolute())


def _bucket_place(scheme: Scheme, rest: str) -> Place:
    bucket, _, prefix = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        # The message leaves the text out: a mistyped URI may hold a password.
        raise StorageError(f"{scheme}://", "expected a bucket name after ://")
    root = prefix.strip("/")
    checked = check_path(root, f"{scheme}://{bucket}") if root else ""
    return Place(scheme=scheme, bucket=bucket, root=checked)


def is_path(path: str) -> bool:
    """Tell whether a text is a relative path that stays below its root.

    >>> is_path("__commits/__1_1_a_22.wrt"), is_path("../x"), is_path("a//b")
    (True, False, False)
    """
    if _PLAIN.fullmatch(path):
        return True
    return (
        0 < len(path) <= _LEN_PATH_MAX
        and _FORBIDDEN.search(path) is None
        and not any(part in {"", ".", ".."} for part in path.split("/"))
    )


class PlainNames(Sequence[str]):
    r"""Names that consist of the characters of the format's own names, held as one text.

    A million of them take the memory of their letters; whoever asks for one gets it as `str`.

    >>> names = PlainNames(b"a.wrt\nb.wrt\n")
    >>> len(names), [*names], "b.wrt" in names, names == ("a.wrt", "b.wrt")
    (2, ['a.wrt', 'b.wrt'], True, True)
    """

    __slots__ = ("_count", "lines")

    def __init__(self, lines: bytes) -> None:
        self.lines = lines
        """The names one below the other, each with a newline behind it."""
        self._count = lines.count(b"\n")

    def __reduce__(self) -> tuple[object, ...]:
        return PlainNames, (self.lines,)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        first, size = 0, len(self.lines)
        while first < size:
            last = self.lines.find(b"\n", min(first + _LEN_AT_ONCE, size - 1)) + 1
            yield from self.lines[first:last].decode().split("\n")[:-1]
            first = last

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        return tuple(self)[at]

    def __contains__(self, name: object) -> bool:
        line = f"{name}\n".encode("utf-8", "replace")
        return self.lines.startswith(line) or b"\n" + line in self.lines

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PlainNames):
            return self.lines == other.lines
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def plain_names(names: Sequence[str]) -> PlainNames | None:
    r"""Give names as one text; None unless all consist of the characters of the format's names.

    It takes a moment for 100,000 names. If it is None, `is_path` has to look at each name.

    >>> plain_names(["__1_1_a_22.wrt", "b.del"]).lines
    b'__1_1_a_22.wrt\nb.del\n'
    """
    lines = "\n".join((*names, "")).encode("utf-8", "replace")
    newlines = lines.translate(None, _PLAIN_LETTERS)
    if newlines != b"\n" * len(names) or lines[:1] in _ODD_FIRSTS:
        return None
    return None if _ODD_START.search(lines) else PlainNames(lines)


def check_path(path: str, where: str) -> str:
    """Give the path back if it is relative and stays below the root `where`.

    Raises:
        BadNameError: It is empty, absolute, too long, or has `..`, `.`, an empty part, a
            backslash or a control character in it.

    >>> check_path("../secret", "/data/a")
    Traceback (most recent call last):
    chronotile.errors.BadNameError: /data/a: expected a path below it, found '../secret'
    """
    if not isinstance(path, str) or not is_path(path):
        text = ascii(path)
        shown = text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
        raise BadNameError(where, f"expected a path below it, found {shown}")
    return path


_OPTION_PREFIXES = ("aws_", "google_", "azure_storage_", "azure_")
_OPTION_ALIASES = {
    "endpoint_url": "endpoint",
    "endpoint_url_s3": "endpoint",
    "default_region": "region",
    "token": "session_token",
}


def bare_option(name: str) -> str:
    """Give the one name of an option of a storage, or of the environment variable for it.

    >>> bare_option("AWS_ENDPOINT_URL"), bare_option("aws_region")
    ('endpoint', 'region')
    """
    lower = name.lower()
    for prefix in _OPTION_PREFIXES:
        lower = lower.removeprefix(prefix)
    return _OPTION_ALIASES.get(lower, lower)


def option_below(prefix: str, name: str) -> str:
    """Name an option that holds at a place and below it only; `options_at` finds it there."""
    return f"{find_place(prefix).uri} {name}"


def options_at(place: Place, options: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Give the options that hold at a place: those without a place come first, then the nearest.

    >>> options = [("s3://lake region", "a"), ("s3://lake/x region", "b"), ("timeout", "9 s")]
    >>> options_at(find_place("s3://lake/x/y"), options)
    (('region', 'b'), ('timeout', '9 s'))
    >>> options_at(find_place("s3://elsewhere"), options)
    (('timeout', '9 s'),)
    """
    split = ((*name.rpartition(" ")[::2], value) for name, value in options)
    here = [one for one in split if not one[0] or place.is_below(find_place(one[0]))]
    here.sort(key=lambda one: (not one[0], len(one[0])))
    found = {bare_option(name): (name, value) for _, name, value in here}
    return tuple(sorted(found.values()))


FROM_ENVIRONMENT = "env:"
"""How the value of an option begins that is the name of an environment variable."""


def with_secrets(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give options of a storage, with what the environment of this process has for `env:NAME`.

    So a secret stays where it is: what is sent to another process is the name of its variable.

    Raises:
        ChronotileError: There is no such variable.

    >>> with_secrets([("region", "eu"), ("session_token", "env:NO_SUCH_NAME")])
    Traceback (most recent call last):
    chronotile.errors.ChronotileError: option 'session_token': expected an environment variable \
NO_SUCH_NAME, found none
    """
    found = {}
    for name, value in options:
        variable = (
            value.removeprefix(FROM_ENVIRONMENT) if value.startswith(FROM_ENVIRONMENT) else None
        )
        if variable is not None and variable not in os.environ:
            problem = f"expected an environment variable {variable}, found none"
            raise ChronotileError(f"option {name!r}", problem)
        found[name] = value if variable is None else os.environ[variable]
    return found
