"""Verbs as functions, on a place or on a store that a test watches.

In: a place, or a store. Out: what the method of the handle gives. A group's own files can be
changed by themselves here, without its members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.change.executor import execute
from chronotile.change.merge_metadata import plan_consolidate_group
from chronotile.change.operations import Who
from chronotile.change.repair_group import plan_repair_group
from chronotile.change.settle import settle
from chronotile.change.vacuum_metadata import plan_vacuum_group
from chronotile.group import Group
from chronotile.handle import open_at
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chronotile.array import Array
    from chronotile.change.plan import Plan, Report
    from chronotile.dataset.over_members import GroupReport
    from chronotile.storage.store import Store


def place(
    uri: str,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Array | Group:
    """Open a place, or a store that is open."""
    return open_at(store or open_store(uri, storage_options), key)


def add_tag(
    uri: str,
    name: str,
    *,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    **options: Any,
) -> Any:
    """Give a moment a name."""
    return place(uri, key, storage_options, store).tag(name, **options)


def remove_tag(
    uri: str,
    name: str,
    *,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    **options: Any,
) -> Any:
    """Take a tag away."""
    return place(uri, key, storage_options, store).untag(name, **options)


def restore_rows(
    uri: str,
    to: Any,
    *,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    **options: Any,
) -> Any:
    """Write the rows of a moment again."""
    return place(uri, key, storage_options, store).restore(to, rewrite=True, **options)


def open_rows(
    uri: str,
    *,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """Open the rows of a window, to be read batch by batch."""
    return place(uri, key, storage_options).row_reader(**options)


def tag_dataset(dataset: Any, name: str, **options: Any) -> GroupReport:
    """Give a moment of a group a name."""
    return Group(dataset.store, dataset.key).tag(name, **options)


def untag_dataset(dataset: Any, name: str, **options: Any) -> GroupReport:
    """Take a tag of a group away."""
    return Group(dataset.store, dataset.key).untag(name, **options)


def publish_dataset(dataset: Any, staging: Any, **options: Any) -> GroupReport:
    """Publish what is staged for the members of a group."""
    return Group(dataset.store, dataset.key).publish(staging, **options)


def _own(
    planner: Callable[..., Plan],
    uri: str,
    *,
    dry_run: bool = False,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Any = None,
    **options: Any,
) -> Report:
    opened = store or open_store(uri, storage_options)
    if dry_run:
        return planner(opened, key, **options).report()
    settle(opened, key, exclusive=False)
    plan = planner(opened, key, **options)
    return execute(
        opened, plan, Who(), again=lambda: planner(opened, key, **options), before=before
    )


def consolidate_group(uri: str, **options: Any) -> Report:
    """Merge a group's own files, and touch no member."""
    return _own(plan_consolidate_group, uri, **options)


def vacuum_group(uri: str, **options: Any) -> Report:
    """Remove a group's own files that merged ones replace."""
    return _own(plan_vacuum_group, uri, **options)


def repair_group(uri: str, **options: Any) -> Report:
    """Mend a group's own files."""
    return _own(plan_repair_group, uri, **options)
