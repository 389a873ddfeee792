"""New events of one array, as they come.

In: a way to open the array's story. Out: the events that were not there at the last look, in order
of time. A look reads nothing if nothing has changed. Never waits: who calls decides when to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.history.log_watch import LogWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.log.events import Event
    from chronotile.log.story import Story, Window
    from chronotile.storage.store import Store


class Following:
    """Looks at an array again and again."""

    def __init__(
        self, store: Store, story: Callable[[], Story], window: Callable[[Story], Window]
    ) -> None:
        """Opens the story of now.

        Args:
            store: Where the array is.
            story: Opens its story.
            window: The events to tell of; it may name a tag of the array.
        """
        self._open = story
        self._watch = LogWatch(store)
        self.story = story()
        """What is known at the first look."""
        self.window = window(self.story)
        self._seen = set(self.story.identities(self.window))

    def look(self) -> list[Event]:
        """The events that have come since the last look.

        Raises:
            ChronotileError: The array cannot be read now; a later look tells what this one missed.
        """
        if not self._watch.has_changed():
            return []
        try:
            story = self._open()
        except BaseException:
            self._watch.forget()
            raise
        events = story.events(self.window, reverse=True, seen=self._seen)
        # A fragment lies there before it is committed: it is told of when it is.
        fresh = [event for event in events if event.reason != "uncommitted"]
        self._seen.update((event.kind, event.name) for event in fresh)
        return fresh
