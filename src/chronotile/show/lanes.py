"""The picture of a dataset: a lane for each array, on one time axis.

In: the pictures of arrays, each with its path in the dataset. Out: one `Picture` over the moments
of all of them. The slider of the page moves all lanes at once: the places of bars and marks count
in the common list of moments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from chronotile.show.output import count_text
from chronotile.show.picture import NEVER_SEEN, Bar, Mark, Picture, tag_marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
    bars = [bar for path, picture in pictures for bar in _bars(path, picture, moments)]
    marks = [mark for path, picture in pictures for mark in _marks(path, picture, moments)]
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


def _bars(path: str, picture: Picture, moments: tuple[int, ...]) -> Iterator[Bar]:
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


def _marks(path: str, picture: Picture, moments: tuple[int, ...]) -> Iterator[Mark]:
    for mark in picture.marks:
        first = bisect_left(moments, picture.moments[mark.first])
        text = f"{path}: {mark.text}"
        yield mark._replace(name=f"{path}: {mark.name}", first=first, text=text, lane=path)
