"""New events of a dataset, as they come.

In: a way to open the group. Out: the events of all members that were not there at the last look, in
order of time; members that join are told of from then on. A look reads only the members that have
changed. Never waits: who calls decides when to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.dataset.dataset_events import member_events
from chronotile.history.log_watch import WATCHED_IN_ARRAYS, WATCHED_IN_GROUPS, LogWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.dataset.dataset_events import MemberEvent, Told
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.show.story import EventFilter
    from chronotile.storage.store import Store


class DatasetFollowing:
    """Looks at a dataset again and again."""

    def __init__(
        self,
        open_again: Callable[[], Dataset],
        window: EventFilter,
        *,
        pattern: str | None = None,
        sizes: bool = True,
    ) -> None:
        """Tells the events of now.

        Args:
            open_again: Opens the group.
            window: The events to tell of.
            pattern: Only members whose path fits.
            sizes: Add up the files of each array.
        """
        self._open, self._window, self._pattern, self._sizes = open_again, window, pattern, sizes
        self._watches: dict[str, LogWatch] = {}
        dataset = open_again()
        self._watch(dataset)
        self.told = member_events(dataset, window, pattern=pattern, sizes=sizes, reverse=True)
        """What is known at the first look, the oldest first."""
        self._seen = {
            _identity(one) for one in self.told.events if one.event.reason != "uncommitted"
        }

    def look(self) -> list[MemberEvent]:
        """The events that have come since the last look.

        Raises:
            ChronotileError: The group cannot be read now; a later look tells what this one missed.
        """
        changed = {place for place, watch in self._watches.items() if watch.has_changed()}
        if not changed:
            return []
        try:
            dataset = self._open()
            changed |= self._watch(dataset)
            told = self._tell(dataset, changed)
        except BaseException:
            self._forget(changed)
            raise
        lost = {node.uri for node in dataset.tree() if node.path in told.errors}
        self._forget(lost)
        fresh = [one for one in told.events if _identity(one) not in self._seen]
        fresh = [one for one in fresh if one.event.reason != "uncommitted"]
        self._seen.update(map(_identity, fresh))
        return fresh

    def _tell(self, dataset: Dataset, changed: set[str]) -> Told:
        return member_events(
            dataset,
            self._window,
            pattern=self._pattern,
            sizes=self._sizes,
            reverse=True,
            only=changed,
        )

    def _forget(self, places: set[str]) -> None:
        for place in places & self._watches.keys():
            self._watches[place].forget()

    def _watch(self, dataset: Dataset) -> set[str]:
        """Watches what is not watched yet; gives its places."""
        before = set(self._watches)
        stores: dict[str, tuple[Store, tuple[str, ...]]] = {
            dataset.uri: (dataset.store, WATCHED_IN_GROUPS)
        }
        for node in dataset.tree():
            if node.store is not None and node.found in ("array", "group"):
                stores[node.uri] = (
                    node.store,
                    WATCHED_IN_ARRAYS if node.found == "array" else WATCHED_IN_GROUPS,
                )
        for place, (store, folders) in stores.items():
            if place not in before:
                self._watches[place] = LogWatch(store, folders)
        for place in before - stores.keys():
            del self._watches[place]
        return set(self._watches) - before


def _identity(one: MemberEvent) -> tuple[str, str, str]:
    return one.member, one.event.kind, one.event.name
