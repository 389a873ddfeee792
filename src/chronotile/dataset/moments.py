"""The moments at which a dataset can be read whole.

In: a dataset, and the logs of its arrays. Out: `WholeState`s, and what keeps an array from being
whole at a moment. Changes nothing.

An array is whole at T if it was created by then, and if every cell that was written up to T can be
read at T. A fragment that was merged from others over T, in an array without a time for each cell,
is not visible at T; if its parts are gone too, what they held up to T cannot be read at T any more.
A purging consolidation drops the cells that deletes removed, also from every window before them,
and even while the parts are still there: their `.vac` hides them in these windows too. The merged
fragment's metadata tell which deletes; after a further merge and a vacuum nothing does.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from chronotile.dataset.member_tree import LOST
from chronotile.format.names import MAX_TIMESTAMP, try_parse
from chronotile.format.timestamps import now_ms
from chronotile.log import purges_of
from chronotile.visibility.gaps import Gap, gaps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.history.group_reading import GroupHistory
    from chronotile.log import Log


class Span(NamedTuple):
    """The times at which one array can be read, by its log."""

    created: int
    changes: frozenset[int]
    """The moments at which an open begins to see something else."""
    gaps: tuple[Gap, ...]


class WholeState(NamedTuple):
    """A stretch of time with one state of the whole dataset, readable throughout."""

    t: int
    """When the state begins."""
    until: int | None
    """The last moment of it; None if it holds still."""
    arrays: int
    changed: tuple[str, ...]
    """The arrays that changed at `t`, by their paths."""

    def to_dict(self) -> dict[str, object]:
        """Give the JSON form, as `moments --json` prints it."""
        return self._asdict() | {"changed": list(self.changed)}


def span_of(log: Log) -> Span:
    """Find when an array was created and changed, and at which times it is not whole."""
    history = log.history
    starts = [0 if item.name is None else item.name.t1 for item in history.schemas]
    changes = set(starts)
    for text in history.listing.meta:
        name = try_parse(text)
        changes |= set() if name is None else {name.t2}
    table, rules = history.table, log.rules
    for row in (*rules.delete_rows.tolist(), *rules.update_rows.tolist()):
        changes.add(int(table.uris.t2[row]))
    changes.update(map(int, rules.first_ends.tolist()))
    # With times of the writer's own, an array can have a state from before its schema's time.
    first = map(int, table.uris.t1[rules.fragment_rows].tolist())
    created = min((*changes, *first), default=0)
    return Span(created, frozenset(changes), (*gaps_of(rules), *purges_of(log)))


def find_moments(dataset: Dataset) -> tuple[WholeState, ...]:
    """Find the stretches of time at which every member can be read whole, in order.

    A moment at which the dataset has no array is none of them.

    Raises:
        ChronotileError: A member cannot be read: then nothing is certain.
    """
    now = now_ms()
    groups = {dataset.uri: dataset.group}
    spans: dict[str, Span] = {}
    lists = _times_of(groups, now)
    trees: dict[int, tuple[Node, ...]] = {}
    pending = sorted(lists)
    while pending:
        # A nested group has lists of its own, at whose times the tree can change as well.
        for moment in pending:
            trees[moment] = dataset.tree(moment)
            for node in trees[moment]:
                if node.history is not None:
                    groups.setdefault(node.uri, node.history)
        lists = _times_of(groups, now)
        pending = sorted(lists - trees.keys())
    for tree in trees.values():
        for node in tree:
            if node.found == "array" and node.uri not in spans:
                spans[node.uri] = span_of(dataset.log_of(node))
    return tuple(_whole(trees, spans, now))


def _times_of(groups: dict[str, GroupHistory], now: int) -> set[int]:
    return {f.name.t2 for group in groups.values() for f in group.files if f.name.t2 <= now}


def _whole(
    trees: dict[int, tuple[Node, ...]], spans: dict[str, Span], now: int
) -> Iterator[WholeState]:
    borders = set(trees)
    changed: dict[int, Counter[str]] = {}
    paths = {n.uri: n.path for tree in trees.values() for n in tree if n.found == "array"}
    for uri, span in spans.items():
        borders |= span.changes | {span.created}
        borders |= {end for gap in span.gaps for end in (gap.t1, gap.t2 + 1)}
        for moment in span.changes:
            changed.setdefault(moment, Counter())[paths[uri]] += 1
    times = sorted(moment for moment in borders if moment <= now)
    lists = sorted(trees)
    at = -1
    tree: tuple[Node, ...] = ()
    for moment, after in pairwise((*times, MAX_TIMESTAMP)):
        while at + 1 < len(lists) and lists[at + 1] <= moment:
            at += 1
            tree = trees[lists[at]]
        arrays = [node.uri for node in tree if node.found == "array"]
        lost = any(node.found in LOST for node in tree)
        if not arrays or lost or not all(_is_whole(spans[uri], moment) for uri in arrays):
            continue
        until = None if after == MAX_TIMESTAMP else after - 1
        paths_now = sorted(path for path in changed.get(moment, ()) if path)
        yield WholeState(moment, until, len(arrays), tuple(paths_now))


def _is_whole(span: Span, moment: int) -> bool:
    return span.created <= moment and not any(gap.t1 <= moment <= gap.t2 for gap in span.gaps)
