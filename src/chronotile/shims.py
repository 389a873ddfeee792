"""Functions of one line: the names that programs called before there was a handle.

In: a place, and the options of a method. Out: what the method of `ct.open` gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.group import Group
from chronotile.handle import open as open_place
from chronotile.handle import wrong_member

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from chronotile.array import Array
    from chronotile.change.plan import Report
    from chronotile.dataset.open_dataset import DatasetView
    from chronotile.dataset.over_members import GroupReport

    Uri = str | os.PathLike[str]
    Key = bytes | str | None
    Storage = Mapping[str, str] | None


def _at(uri: Uri, key: Key, storage_options: Storage) -> Array:
    """Open a place. These functions are of arrays; a group has the same methods."""
    return open_place(uri, key=key, storage_options=storage_options)  # type: ignore[return-value]


def _rows_at(uri: Uri, key: Key, storage_options: Storage, options: Mapping[str, Any]) -> Array:
    """Open a place whose rows are read; only a group has members."""
    found = _at(uri, key, storage_options)
    if options.get("member") is not None and not isinstance(found, Group):
        raise wrong_member(found.uri)
    return found


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

    opened = Dataset(open_store(uri, storage_options), _raw(key))
    _ = opened.dataset  # a place without a group is refused now
    return opened


def _raw(key: Key) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


def write_delete(
    array: Uri, where: str, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> Report:
    """Delete the rows that satisfy a predicate: `Handle.delete`."""
    return _at(array, key, storage_options).delete(where, **_at_moment(options))


def write_update(
    array: Uri,
    where: str,
    values: Mapping[str, object] | Sequence[str],
    *,
    key: Key = None,
    storage_options: Storage = None,
    **options: Any,
) -> Report:
    """Write an update: `Handle.update`."""
    return _at(array, key, storage_options).update(where, values, **_at_moment(options))


def _at_moment(options: dict[str, Any]) -> dict[str, Any]:
    """Take `timestamp`, the older name of `at`."""
    moment = options.pop("timestamp", None)
    return options if moment is None else options | {"at": moment}


def consolidate(
    array: Uri, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> Report:
    """Put what many files hold into one: `Handle.consolidate`."""
    return _at(array, key, storage_options).consolidate(**options)


def vacuum(
    array: Uri, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> Report:
    """Remove files that no window needs: `Handle.vacuum`."""
    if "orphans_age_ms" in options:
        options["orphan_age"] = options.pop("orphans_age_ms") / 3_600_000
    return _at(array, key, storage_options).vacuum(**options)


def repair(
    array: Uri, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> Report:
    """Take out what keeps the engine from reading: `Handle.repair`."""
    return _at(array, key, storage_options).repair(**options)


def apply_updates(
    array: Uri, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> Report:
    """Carry out updates: `Handle.apply`."""
    return _at(array, key, storage_options).apply(**options)


def restore(
    array: Uri, to: Any, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> Report:
    """Make it, from a moment on, as it was at an earlier one: `Handle.restore`."""
    return _at(array, key, storage_options).restore(to, **options)


def undelete(
    array: Uri, name: str, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> Report:
    """Bring back the rows that one delete or update hides: `Handle.undelete`."""
    return _at(array, key, storage_options).undelete(name, **options)


def undo(
    array: Uri,
    report: Report | GroupReport | Mapping[str, Any] | str | None = None,
    *,
    key: Key = None,
    storage_options: Storage = None,
    **options: Any,
) -> Report:
    """Take back a change of ours: `Handle.undo`, also by the report of an earlier version."""
    return _at(array, key, storage_options).undo(report, **options)


def publish(
    staging: str | Sequence[str],
    target: Uri,
    *,
    key: Key = None,
    storage_options: Storage = None,
    **options: Any,
) -> Report:
    """Make all fragments of staging arrays visible in one step: `Handle.publish`."""
    return _at(target, key, storage_options).publish(staging, **options)


def clone(
    source: Uri, target: str, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> Report:
    """Make an array elsewhere that shows what an open of this one shows: `Handle.clone`."""
    return _at(source, key, storage_options).clone(target, **options)


def read_rows(
    array: Uri, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> pa.Table:
    """Read the rows that an open at a window should see: `Array.rows`."""
    return _rows_at(array, key, storage_options, options).rows(**options)


def removed_rows(
    array: Uri, name: str, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> pa.Table:
    """Read the rows that one delete removed, or one update changed: `Array.removed_rows`."""
    return _rows_at(array, key, storage_options, options).removed_rows(name, **options)


def diff(
    array: Uri,
    t1: Any,
    t2: Any,
    *,
    key: Key = None,
    storage_options: Storage = None,
    **options: Any,
) -> pa.Table:
    """Compare what opens at two moments see: `Array.diff`."""
    return _rows_at(array, key, storage_options, options).diff(t1, t2, **options)


def blame(
    array: Uri, row: Any, *, key: Key = None, storage_options: Storage = None, **options: Any
) -> pa.Table:
    """List every commit that had to do with a row: `Array.blame`."""
    return _rows_at(array, key, storage_options, options).blame(row, **options)
