"""The base of a backend: what a disk and a bucket both do, and what a bucket has no need to do.

In: checked paths, relative to a root. Out: listings and bytes, or one of our errors. `Store` checks
paths and calls a backend; nothing outside of this room does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chronotile.storage.place import Entry, Folder, Names


Options: TypeAlias = tuple[tuple[str, str], ...]
"""Options of `obstore`, sorted by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The traits of a storage by which callers choose between two right ways."""

    pace: Literal["quick", "slow"]
    """An operation takes microseconds, or a round trip over a network."""
    concurrency: int
    """Operations that are worth doing at once."""
    batch: int
    """Objects for one call of `remove`."""
    has_links: bool
    """A second name of a file takes no room; elsewhere it is a copy."""
    has_change_times: bool
    """A folder has the time of its last change."""
    shows_partial_files: bool
    """A reader can see a file that the engine is still writing."""


class Backend(Protocol):
    """The objects below one root. What has a body here is right for storage without folders."""

    traits: Traits

    def list_dir(self, path: str, *, sizes: bool) -> Folder:
        """List one level. A folder that is not there is empty, unless it is the root."""

    def list_names(self, path: str) -> Names:
        """List one level as bare names, in no order."""
        return self.list_dir(path, sizes=False).bare()

    def walk(self, path: str) -> Folder:
        """List all levels below a folder, with sizes."""

    def list_files(self) -> tuple[Entry, ...]:
        """List every file with its size, also one whose name is no path."""
        return self.walk("").files

    def linked_elsewhere(self) -> tuple[str, ...]:
        """List the files that have a name outside of the root too, as far as a storage can tell."""
        return ()

    def keeps_versions(self) -> bool | None:
        """Tell whether the storage keeps what is replaced or removed; None if it does not say."""
        return False

    def list_after(self, path: str, name: str) -> tuple[Entry, ...]:
        """List the objects below a folder that come after a name, a page of them."""

    def can_list_after(self, name: str) -> bool:  # noqa: ARG002
        """Tell whether `list_after` costs one request, whatever comes before the name."""
        return False

    def change_time(self, path: str) -> int | None:  # noqa: ARG002
        """Give the time of a folder's last change in ns; None if the storage is not sure."""
        return None

    def newest_ms(self, path: str) -> int | None:
        """Give the time of the last change of a folder and of all below it."""

    def head(self, path: str) -> Entry:
        """Give size and time of one object."""

    def read(self, path: str, limit: int) -> bytes | memoryview:
        """Read one object, which may have `limit` bytes at most."""

    def read_range(self, path: str, start: int, end: int, size: int | None = None) -> bytes:
        """Read the bytes from `start` to before `end`, or to the end of the object."""

    def read_tail(self, path: str, length: int, size: int | None) -> tuple[bytes, int]:
        """Read the last bytes of an object, and give its size."""

    def open_folder(self, path: str) -> int | None:  # noqa: ARG002
        """Give the descriptor of a folder, which the caller closes; None without descriptors."""
        return None

    def put(self, path: str, data: bytes) -> None:
        """Write a new object; readers see all of it or none."""

    def put_parts(self, path: str, parts: Iterable[bytes], size: int) -> None:
        """Write a new object of this size part by part; readers see all of it or none."""

    def exchange(self, path: str, old: bytes, new: bytes) -> None:
        """Put new bytes in the place of old ones; the caller reads back what is there then."""

    def may_link(self, other: Backend) -> bool:  # noqa: ARG002
        """Tell whether files of another backend can be linked here, as far as anybody knows."""
        return False

    def take(self, other: Backend, source: str, target: str) -> bool:
        """Link or copy a file of another backend without reading it; False if there is no way."""

    def link_folder(self, target: str, path: str) -> None:
        """Make a symbolic link to a local folder."""

    def make_folder(self, path: str) -> None:  # noqa: ARG002
        """Make a folder and those above it, even the root, where folders exist by themselves."""
        return

    def remove(self, paths: Sequence[str]) -> None:
        """Remove objects. One that is gone already is no error."""

    def remove_folders(self, paths: Sequence[str]) -> None:  # noqa: ARG002
        """Remove empty folders, the deepest first."""
        return

    def sync_names(self, paths: Sequence[str]) -> None:  # noqa: ARG002
        """Make the new or removed names of these paths outlast a loss of power."""
        return

    def check_child(self, path: str) -> None:  # noqa: ARG002
        """Refuse a folder behind a link."""
        return
