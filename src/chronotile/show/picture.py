"""The picture of a history, before it is drawn.

In: the story of an array, and the moment that counts as now. Out: `Picture`: fragments with their
lifelines, marks for deletes and updates, what `.con`, `.ign` and `.vac` files name, and the moments
at which something becomes visible or hidden. Draws nothing.

A picture has times twice: as exact moments, and as places in the list of moments. Places compare as
times do, and are never too large for a browser. For more objects than a picture can show, it has
`Counts` instead.

The picture of a dataset has a lane for each array, over the moments of all of them: the slider of
the page moves all lanes at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from chronotile.format.names import uuid_of
from chronotile.show.events import delete_words, update_words
from chronotile.show.operation_words import name_in
from chronotile.show.output import count_text, size_text
from chronotile.show.story import EventFilter
from chronotile.visibility.lifelines import lifelines
from chronotile.visibility.view import Update

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from chronotile.history.commit_table import CommitTable
    from chronotile.show.operation_words import OperationWords
    from chronotile.show.story import Story
    from chronotile.visibility.view import Delete, View

    Times: TypeAlias = npt.NDArray[Any]

Height: TypeAlias = Literal["cells", "bytes"]
"""What the height of a fragment can go by."""

MOST_FRAGMENTS = 1000
MOST_MARKS = 1000
"""A picture of more than these shows counts."""

MOST_LISTED = 20_000
"""Deletes, and updates, that the page of a long history lists."""

BINS = 160
"""Places on the time axis of a picture of counts."""

_DAY = 86_400_000
"""How near is near to a single moment, in ms."""

NEVER_SEEN = -1
"""The place of a moment that never comes."""


class Bar(NamedTuple):
    """A fragment."""

    name: str
    t1: int
    t2: int
    first: int
    """The place of the first moment that sees it; `NEVER_SEEN` if none does."""
    last: int
    """The place of the last moment that sees it."""
    until: int | None
    """The last `end` that sees it; None if every later one does."""
    why: str
    """Why not every later open sees it, in words; empty if every one does."""
    holds: str
    """Its cells and bytes in words; empty if nobody asked, or they are not known."""
    lane: str = ""
    """The array that it is of, in a picture of many."""
    cells: int | None = None
    bytes: int | None = None


class Mark(NamedTuple):
    """A delete, an update, a change of schema or metadata, an operation, or a tag."""

    name: str
    kind: str
    time: int
    first: int
    """The place of the first moment at which it is in force."""
    text: str
    notes: tuple[str, ...]
    lane: str = ""


class CommitList(NamedTuple):
    """A `.con` or `.ign`, and the moments of what it names."""

    path: str
    kind: str
    t1: int
    t2: int
    times: tuple[int, ...]


class Link(NamedTuple):
    """A `.vac` says that one fragment replaces another."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many commits lie between moments, and how many objects each moment sees."""

    writes: tuple[int, ...]
    deletes: tuple[int, ...]
    updates: tuple[int, ...]
    """The number of those that happened after the moment before, up to this one."""
    seen: tuple[int, ...]
    deletes_in_force: tuple[int, ...]
    updates_in_force: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything that a picture shows."""

    array: str
    moments: tuple[int, ...]
    """The times at which something becomes visible or hidden, 0 first. An open with start 0 and
    any `end` sees what an open at the last moment up to `end` sees."""
    now: int
    """The place of the last moment up to now."""
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    spans: tuple[CommitList, ...]
    links: tuple[Link, ...]
    counts: Counts | None
    """Set if the history is too long to draw; bars, spans and links are then empty, and marks are
    only listed."""
    fragments: int
    """The number of all fragments."""
    commits: int
    """The number of all deletes and updates."""
    changes: tuple[Mark, ...] = ()
    """Changes of the schema and of the metadata, operations, tags; their `first` is -1."""
    height: Height = "cells"
    """What the height of a bar goes by."""
    lanes: tuple[str, ...] = ()
    """The arrays of a dataset, by their paths; empty in the picture of one array."""

    @property
    def title(self) -> str:
        """The last two parts of the array's URI."""
        return "/".join(self.array.rstrip("/").split("/")[-2:])

    @property
    def reach(self) -> tuple[int, int]:
        """The first and the last time on the axis."""
        marks = self.marks if self.counts is None else ()
        times = [mark.time for mark in marks]
        times += [time for bar in self.bars for time in (bar.t1, bar.t2)]
        # The first moment is 0, before everything.
        times = times or [mark.time for mark in self.changes] or [*(self.moments[1:] or (0,))]
        first, last = min(times), max(times)
        # A schema may be much older than all data, an operation much later: they do not squeeze it.
        far = (last - first) or _DAY
        near = [mark.time for mark in self.changes if first - far <= mark.time <= last + far]
        return min(first, *near, first), max(last, *near, last)

    def came(self, mark: Mark) -> int:
        """Give the place of the first moment by which a mark was there."""
        place = bisect_left(self.moments, mark.time)
        is_past = bisect_right(self.moments, mark.time) - 1 <= self.now
        return min(place, self.now) if is_past else place


def make_picture(
    story: Story,
    now: int,
    facts: Iterable[Mapping[str, Any]] = (),
    *,
    height: Height = "cells",
    tags: Mapping[str, int] = MappingProxyType({}),
) -> Picture:
    """Gather what a picture of a history shows.

    Args:
        story: The events of the array, seen from after all of them.
        now: The moment that counts as now, in ms.
        facts: Rows of `log.fragments()`, if cells and bytes are to be shown.
        height: What the height of a fragment goes by then.
        tags: Names of moments, in ms.
    """
    view = story.view
    rules, history = view.rules, view.history
    many = len(rules.fragment_rows) > MOST_FRAGMENTS
    if many or len(rules.delete_rows) + len(rules.update_rows) > MOST_MARKS:
        return _counted(view, now)
    lines = lifelines(rules).to_pylist()
    commits: list[Delete] = [*view.deletes, *view.updates]
    commits.sort(key=lambda commit: (commit.t2, commit.name))
    changes = {0, *(commit.t2 for commit in commits)}
    changes |= {line["visible_from"] for line in lines if line["visible_from"] is not None}
    changes |= {line["visible_until"] + 1 for line in lines if line["visible_until"] is not None}
    moments = tuple(sorted(changes))
    holds = {row["name"]: row for row in facts}
    why = {line["name"]: _why(line, story.operations) for line in lines}
    return Picture(
        array=history.array,
        moments=moments,
        now=bisect_right(moments, now) - 1,
        bars=tuple(
            _bar(line, moments, holds, why[line["name"]]) for line in sorted(lines, key=_line_order)
        ),
        marks=tuple(_mark(commit, bisect_left(moments, commit.t2)) for commit in commits),
        spans=tuple(_spans(history.table)),
        links=tuple(
            Link(old, vacuum.name.text) for vacuum in history.vacuums for old in vacuum.targets
        ),
        counts=None,
        fragments=len(lines),
        commits=len(commits),
        changes=(*_changes(story), *tag_marks(tags)),
        height=height,
    )


def _changes(story: Story) -> Iterable[Mark]:
    """Tell the changes of the schema and of the metadata, and operations of this package."""
    words = {"schema": "schema", "meta": "metadata"}
    for event in story.events(EventFilter(kinds=frozenset(words)), reverse=True):
        if event.t2 is not None:
            kind = words[event.kind]
            yield Mark(event.name, kind, event.t2, NEVER_SEEN, event.text, event.notes)
    for event in story.operations.events():
        notes = (f"undone by {event.because}",) if event.because else ()
        yield Mark(event.name, "operation", event.t2 or 0, NEVER_SEEN, event.text, notes)


def tag_marks(tags: Mapping[str, int]) -> Iterable[Mark]:
    """Make a mark for each tag."""
    for name, time in tags.items():
        yield Mark(name, "tag", time, NEVER_SEEN, f"tag {name}", ())


LOST = "its folder is missing"
_WHY = {
    "missing": LOST,
    "ignored": "an .ign file leaves it out",
    "uncommitted": "no commit names it: the write did not finish",
}
"""Why no open sees a fragment -> the words for it."""


def _why(line: Mapping[str, Any], operations: OperationWords) -> str:
    """Say why an open does not see a fragment, or does not any more."""
    because = line["because"]
    if line["reason"] != "superseded" or because is None:
        return _WHY.get(line["reason"], "")
    if operation := operations.of_name.get(name_in(because)):
        return f"hidden by {operations.phrase(operation)}"
    return f"replaced by fragment {(uuid_of(because) or because)[:8]}"


def _line_order(line: dict[str, Any]) -> tuple[int, int, str]:
    """Order by the end; a fragment that was merged from others comes after them."""
    return line["t2"], -line["t1"], line["name"]


def _holds(row: Mapping[str, Any]) -> str:
    if row["cells"] is None:
        return ""
    return f"{count_text(row['cells'], 'cell')}, {size_text(row['bytes'])}"


def _bar(
    line: dict[str, Any],
    moments: tuple[int, ...],
    holds: Mapping[str, Mapping[str, Any]],
    why: str,
) -> Bar:
    first, last = NEVER_SEEN, NEVER_SEEN
    if line["visible_from"] is not None:
        first, last = bisect_left(moments, line["visible_from"]), len(moments) - 1
        if line["visible_until"] is not None:
            last = bisect_right(moments, line["visible_until"]) - 1
    name, t1, t2, until = (line[key] for key in ("name", "t1", "t2", "visible_until"))
    held = holds.get(name, {"cells": None, "bytes": None})
    sizes = {key: held[key] for key in ("cells", "bytes")}
    return Bar(name, t1, t2, first, last, until, why, _holds(held), **sizes)


def _mark(commit: Delete, first: int) -> Mark:
    if isinstance(commit, Update):
        return Mark(commit.name, "update", commit.t2, first, *update_words(commit))
    return Mark(commit.name, "delete", commit.t2, first, *delete_words(commit))


def _spans(table: CommitTable) -> Iterable[CommitList]:
    for number, source in enumerate(table.sources):
        rows = np.flatnonzero(table.source == number)
        if not source.loose and len(rows):
            yield _commit_list(source.path, "con", table.uris.t1[rows], table.uris.t2[rows])
    ignored: dict[str, dict[str, int]] = {}
    for row in np.flatnonzero(table.ignored).tolist():
        uri = table.uri(row)  # a commit may stand in several files: its last row stands for all
        ignored.setdefault(table.ignores[uri], {})[uri] = row
    for path, rows_of in sorted(ignored.items()):
        numbers = list(rows_of.values())
        yield _commit_list(path, "ign", table.uris.t1[numbers], table.uris.t2[numbers])


def _commit_list(path: str, kind: str, t1: Times, t2: Times) -> CommitList:
    return CommitList(path, kind, int(t1.min()), int(t2.max()), tuple(t2.tolist()))


def _counted(view: View, now: int) -> Picture:
    lines = lifelines(view.rules)
    uris, rules = view.history.table.uris, view.rules
    written = lines["t2"].to_numpy()
    deleted, updated = uris.t2[rules.delete_rows], uris.t2[rules.update_rows]
    every = np.concatenate([written, deleted, updated])
    first, last = int(every.min()), int(every.max())
    edges = {first + (last - first) * edge // (BINS - 1) for edge in range(BINS)}
    moments = np.array(sorted({0} | edges), np.uint64)
    # A fragment comes once and goes once: the difference is what is visible.
    came = np.sort(lines["visible_from"].drop_null().to_numpy())
    went = np.sort(lines["visible_until"].drop_null().to_numpy())
    seen = np.searchsorted(came, moments, "right") - np.searchsorted(went, moments, "left")
    return Picture(
        array=view.history.array,
        moments=tuple(int(moment) for moment in moments),
        now=int(np.searchsorted(moments, np.uint64(now), "right")) - 1,
        bars=(),
        marks=tuple(_listed(view, moments)),
        spans=(),
        links=(),
        counts=Counts(
            writes=_between(written, moments),
            deletes=_between(deleted, moments),
            updates=_between(updated, moments),
            seen=tuple(seen.tolist()),
            deletes_in_force=_up_to(deleted, moments),
            updates_in_force=_up_to(updated, moments),
        ),
        fragments=lines.num_rows,
        commits=len(deleted) + len(updated),
    )


def _listed(view: View, moments: Times) -> Iterable[Mark]:
    """List the first deletes and updates of a long history, which a page searches."""
    commits: list[Delete] = [*view.deletes[:MOST_LISTED], *view.updates[:MOST_LISTED]]
    for commit in sorted(commits, key=lambda one: (one.t2, one.name)):
        yield _mark(commit, int(np.searchsorted(moments, np.uint64(commit.t2), "left")))


def _up_to(times: Times, moments: Times) -> tuple[int, ...]:
    return tuple(np.searchsorted(np.sort(times), moments, "right").tolist())


def _between(times: Times, moments: Times) -> tuple[int, ...]:
    return tuple(np.diff(_up_to(times, moments), prepend=0).tolist())


def join_pictures(
    group: str, pictures: Sequence[tuple[str, Picture]], now: int, tags: Mapping[str, int]
) -> Picture:
    """Put the pictures of arrays into one, each in a lane of its own.

    Args:
        group: Where the dataset is.
        pictures: Path of an array in the dataset, and its picture.
        now: The moment that counts as now, in ms.
        tags: The tags of the group itself.
    """
    moments = tuple(sorted({0}.union(*(picture.moments for _, picture in pictures))))
    bars = [bar for path, picture in pictures for bar in _lane_bars(path, picture, moments)]
    marks = [mark for path, picture in pictures for mark in _lane_marks(path, picture, moments)]
    changes = [
        mark._replace(text=f"{path}: {mark.text}", lane=path)
        for path, picture in pictures
        for mark in picture.changes
        if mark.kind in ("operation", "tag")
    ]
    return Picture(
        array=group,
        moments=moments,
        now=bisect_right(moments, now) - 1,
        bars=tuple(bars),
        marks=tuple(sorted(marks, key=lambda mark: (mark.time, mark.name))),
        spans=(),
        links=(),
        counts=None,
        fragments=sum(picture.fragments for _, picture in pictures),
        commits=sum(picture.commits for _, picture in pictures),
        changes=(*changes, *tag_marks(tags)),
        lanes=tuple(path for path, _ in pictures),
        height=pictures[0][1].height if pictures else "cells",
    )


def _lane_bars(path: str, picture: Picture, moments: tuple[int, ...]) -> Iterator[Bar]:
    if picture.counts is not None:
        # Too long a history for a bar each: one for all writes between two moments.
        for place, count in enumerate(picture.counts.writes):
            time = picture.moments[place]
            first = bisect_left(moments, time)
            if count:
                name = f"{path}: {count_text(count, 'write')}"
                yield Bar(name, time, time, first, len(moments) - 1, None, "", "", path)
        return
    for bar in picture.bars:
        first, last = NEVER_SEEN, NEVER_SEEN
        if bar.first != NEVER_SEEN:
            first, last = bisect_left(moments, picture.moments[bar.first]), len(moments) - 1
            if bar.until is not None:
                last = bisect_right(moments, bar.until) - 1
        yield bar._replace(name=f"{path}: {bar.name}", first=first, last=last, lane=path)


def _lane_marks(path: str, picture: Picture, moments: tuple[int, ...]) -> Iterator[Mark]:
    for mark in picture.marks:
        first = bisect_left(moments, picture.moments[mark.first])
        text = f"{path}: {mark.text}"
        yield mark._replace(name=f"{path}: {mark.name}", first=first, text=text, lane=path)


def draw(picture: Picture, form: str, back: tuple[str, str] | None = None) -> bytes:
    """Draw a picture as `.html`, `.svg` or `.png`; a page may have a link that leads back."""
    if form == ".html":
        from chronotile.show.timeline_page import to_html

        return to_html(picture, back).encode()
    from chronotile.show.chart import to_png, to_svg

    return to_png(picture) if form == ".png" else to_svg(picture).encode()
