"""The arrays and groups below a place, one row each; and the operations on them.

In: roots of arrays. Out: the kind of each, its commits, fragments, bytes, last change and worst
finding, out of the tables of the fleet; groups are read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chronotile.change.operations import tell_operations
from chronotile.check.findings import SEVERITIES, is_unread
from chronotile.errors import ChronotileError
from chronotile.fleet.find_arrays import find_arrays
from chronotile.fleet.fleet_without_spark import make_tables
from chronotile.history.group_reading import read_group
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chronotile.storage.store import Store

Sort = Literal["place", "kind", "commits", "fragments", "size", "changed", "finding"]
"""What a list can be sorted by."""


class PlaceRow(NamedTuple):
    """An array or a group, in short."""

    uri: str
    kind: str
    """`dense`, `sparse`, `group` or `unreadable`."""
    commits: int | None
    """Commits of an array; of a group, its lists of members."""
    fragments: int | None
    bytes: int | None
    changed: int | None
    """The last time in its log, in ms."""
    severity: str | None
    finding: str | None
    """The worst finding: its severity and code."""

    @property
    def is_unread(self) -> bool:
        """True if it could not be read."""
        return bool(self.finding and self.severity and is_unread(self.finding, self.severity))

    def key(self, sort: Sort) -> tuple[Any, ...]:
        """Order rows: the largest, the last or the worst first."""
        if sort == "finding":
            rank = SEVERITIES.index(self.severity) if self.severity else len(SEVERITIES)
            return rank, self.finding or "", self.uri
        if sort in ("place", "kind"):
            return (self.kind if sort == "kind" else "", self.uri)
        number = {"size": self.bytes}.get(sort, getattr(self, sort, None))
        return -(number if number is not None else -1), self.uri


def operations_below(
    root: str,
    storage_options: Mapping[str, str] | None = None,
    key: bytes | None = None,
    *,
    parts: bool = False,
) -> list[dict[str, Any]] | None:
    """List the operations of all arrays and groups below a place, newest first; None without any.

    Members of a group count, wherever they lie.

    A change of a group is there once, unless `parts`: the records in its members point to it.
    """
    fleet = find_arrays(root, storage_options, follow=True, key=key)
    places = (*fleet.groups, *fleet.uris)
    found = [
        {"array": uri, **record}
        for uri in places
        for record in tell_operations(open_store(uri, storage_options))
    ]
    ids = {record["id"] for record in found}
    found = [record for record in found if parts or record["group"] not in ids]
    return sorted(found, key=lambda one: (one["time"], one["id"]), reverse=True) if places else None


def list_places(
    roots: str | Sequence[str],
    *,
    sort: Sort = "place",
    sizes: bool = True,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[], None] = lambda: None,
) -> list[PlaceRow]:
    """List the arrays and groups at or below some roots; the arguments are as of `make_tables`.

    Raises:
        ArrayNotFoundError: A root does not exist.
    """
    made = make_tables(
        roots,
        names=("arrays", "findings"),
        sizes=sizes,
        key=key,
        storage_options=storage_options,
        on_array=on_array,
    )
    worst: dict[str, tuple[str, str]] = {}
    findings = made.tables["findings"].select(["array", "severity", "code"]).to_pylist()
    # What could not be read comes first among errors: it sets the status.
    for one in sorted(findings, key=_rank):
        worst.setdefault(one["array"], (one["severity"], one["code"]))
    rows = [_array_row(one, worst) for one in made.tables["arrays"].to_pylist()]
    rows += [_group_row(open_store(uri, storage_options), key, worst) for uri in made.groups]
    known = {row.uri for row in rows}
    rows += [
        PlaceRow(one.uri, "unreadable", None, None, None, None, *worst[one.uri])
        for one in made.problems
        if one.uri not in known
    ]
    return sorted(rows, key=lambda row: row.key(sort))


def _array_row(one: Mapping[str, Any], worst: Mapping[str, tuple[str, str]]) -> PlaceRow:
    uri, dense = one["array"], one["dense"]
    kind = "unreadable" if dense is None else "dense" if dense else "sparse"
    numbers = (one[name] for name in ("commits", "fragments", "bytes", "last_timestamp"))
    return PlaceRow(uri, kind, *numbers, *worst.get(uri, (None, None)))


def _group_row(store: Store, key: bytes | None, worst: Mapping[str, tuple[str, str]]) -> PlaceRow:
    found = worst.get(store.uri, (None, None))
    try:
        history = read_group(store, key=key)
    except ChronotileError:
        return PlaceRow(store.uri, "group", None, None, None, None, *found)
    changed = max((file.name.t2 for file in history.files), default=None)
    return PlaceRow(store.uri, "group", len(history.files), None, None, changed, *found)


def _rank(finding: Mapping[str, str]) -> tuple[int, bool]:
    severity = finding["severity"]
    return SEVERITIES.index(severity), not is_unread(finding["code"], severity)
