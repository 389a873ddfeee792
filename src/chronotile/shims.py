"""Functions of one line: the names that programs called before there was a handle.

In: a place, and the options of a method. Out: what the method of `ct.open` gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.array import Array
from chronotile.group import Group
from chronotile.handle import open as open_place

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from chronotile.change.plan import Report
    from chronotile.dataset.open_dataset import DatasetView
    from chronotile.dataset.over_members import GroupReport

    Uri = str | os.PathLike[str]
    Key = bytes | str | None
    Storage = Mapping[str, str] | None


class Dataset(Group):
    """A group, by the name and with all that it had."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dataset, name)

    def view(self, end: Any = None) -> DatasetView:  # type: ignore[override]  # as it was
        """Give the members at a moment, and what an open of each sees: `Group.view`."""
        return super().view(end=end)

    def add_tag(self, name: str, **options: Any) -> GroupReport:
        """Give a moment of the group a name: `Group.tag`."""
        return self.tag(name, **options)

    def remove_tag(self, name: str, **options: Any) -> GroupReport:
        """Take a tag of the group away: `Group.untag`."""
        return self.untag(name, **options)


def open_dataset(uri: Uri, key: Key = None, storage_options: Storage = None) -> Dataset:
    """Open a group: `ct.open` does the same for arrays and groups.

    >>> from chronotile.storage.store import open_store
    >>> open_store("memory:doc-open-dataset").put_if_absent("__tiledb_group.tdb", b"")
    >>> open_dataset("memory:doc-open-dataset").members()
    ()
    """
    from chronotile.storage.store import open_store

    opened = Dataset(open_store(uri, storage_options), key)
    _ = opened.dataset  # a place without a group is refused now
    return opened


def _verb(method: str, **older: str) -> Callable[..., Any]:
    """Make the function of a method of `ct.open`, which takes the place first.

    Args:
        method: Its name.
        older: The name that an option had -> the name that it has.
    """

    def call(
        array: Uri, *given: Any, key: Key = None, storage_options: Storage = None, **options: Any
    ) -> Any:
        found = open_place(array, key=key, storage_options=storage_options)
        options = {older.get(name, name): value for name, value in options.items()}
        return getattr(found, method)(*given, **options)

    call.__doc__ = getattr(Array, method).__doc__
    return call


write_delete: Callable[..., Report] = _verb("delete", timestamp="at")
write_update: Callable[..., Report] = _verb("update", timestamp="at")
consolidate: Callable[..., Report] = _verb("consolidate")
repair: Callable[..., Report] = _verb("repair")
apply_updates: Callable[..., Report] = _verb("apply")
restore: Callable[..., Report] = _verb("restore")
undelete: Callable[..., Report] = _verb("undelete")
undo: Callable[..., Report] = _verb("undo", report="operation")
read_rows: Callable[..., pa.Table] = _verb("rows")
removed_rows: Callable[..., pa.Table] = _verb("removed_rows")
diff: Callable[..., pa.Table] = _verb("diff")
blame: Callable[..., pa.Table] = _verb("blame")
_vacuum, _publish, _clone = _verb("vacuum"), _verb("publish"), _verb("clone")


def vacuum(array: Uri, **options: Any) -> Report:
    """Remove files that no window needs: `Handle.vacuum`."""
    if "orphans_age_ms" in options:
        options["orphan_age"] = options.pop("orphans_age_ms") / 3_600_000
    report: Report = _vacuum(array, **options)
    return report


def publish(staging: str | Sequence[str], target: Uri, **options: Any) -> Report:
    """Make all fragments of staging arrays visible in one step: `Handle.publish`."""
    report: Report = _publish(target, staging, **options)
    return report


def clone(source: Uri, target: str, **options: Any) -> Report:
    """Make an array elsewhere that shows what an open of this one shows: `Handle.clone`."""
    report: Report = _clone(source, target, **options)
    return report


def replicate(
    source: Uri, target: str, key: Key = None, storage_options: Storage = None, **options: Any
) -> Any:
    """Make a copy of an array, of a group, or of a folder above them: `Handle.replicate`."""
    from chronotile.handle import open_tree
    from chronotile.storage.store import open_store

    return open_tree(open_store(source, storage_options), key).replicate(target, **options)
