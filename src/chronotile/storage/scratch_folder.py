"""A scratch folder on the local disk that stands for a part of an array.

In: a store, folders and files to take. Out: a temporary folder: with links to what lies on this
disk, with copies of what lies in a bucket; and files of its own. It is gone when its user is done.
Knows nothing of what the names mean.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from chronotile.errors import ChronotileError
from chronotile.storage.place import check_path

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from chronotile.storage.store import Store


class ScratchFolder:
    """A temporary folder; a context manager that removes it.

    >>> from chronotile.storage.store import open_store
    >>> with ScratchFolder() as scratch:
    ...     scratch.put("__commits/a.wrt", b"")
    ...     (Path(scratch.root) / "__commits/a.wrt").exists()
    True
    """

    def __init__(self) -> None:
        self.root = tempfile.mkdtemp(prefix="chronotile-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Links are removed, never what they lead to.
        shutil.rmtree(self.root, ignore_errors=True)

    def put(self, path: str, data: bytes) -> None:
        """Write a file of its own."""
        target = Path(self.root) / check_path(path, self.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def make_folder(self, path: str) -> None:
        """Make an empty folder."""
        (Path(self.root) / check_path(path, self.root)).mkdir(parents=True, exist_ok=True)

    def take(
        self,
        store: Store,
        folder: str,
        target: str,
        instead: Mapping[str, bytes] | None = None,
        without: Collection[str] = (),
    ) -> None:
        """Put a folder of a store here.

        Args:
            store: Where it is.
            folder: Relative to the store.
            target: Relative to this folder.
            instead: Files that stand in for those of the same names.
            without: Files that are not needed: they are not copied. Links cost nothing.

        Raises:
            StorageError: A file cannot be read.
        """
        is_local, own = store.place.scheme == "file", instead or {}
        if is_local and not own:
            self._link(store, folder, target)
            return
        paths = [entry.path for entry in store.list_dir(folder).files]
        others = [path for path in paths if path.rpartition("/")[2] not in own]
        if is_local:
            for path in others:
                self._link(store, path, f"{target}/{path.rpartition('/')[2]}")
        else:
            needed = [path for path in others if path.rpartition("/")[2] not in without]
            for path, found in store.view_many(needed):
                if isinstance(found, ChronotileError):
                    raise found
                self.put(f"{target}/{path.rpartition('/')[2]}", bytes(found))
        for name, data in own.items():
            self.put(f"{target}/{name}", data)

    def _link(self, store: Store, path: str, target: str) -> None:
        link = Path(self.root) / check_path(target, self.root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(store.place.join(path))
