"""The tables of a large array, part by part.

In: an array in parts (see `history.array_parts`). Out: the rows of `array_tables`, as tables of a
few thousand rows: memory grows with a part and not with the array, apart from what all deletes and
updates take, and with `cells` the footers of all fragments in `.meta` files.

`commits` comes in order of time, as in a small array. In `fragments` those that no window sees
stand among the others of their time.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.check.capped_findings import MOST
from chronotile.check.engine_open_cost import (
    Consolidated,
    Counted,
    OpenCost,
    consolidated_fragments,
    count_fragments,
    open_cost,
)
from chronotile.check.large_array import LargeCheck
from chronotile.errors import ChangedError
from chronotile.format.kinds import COMMITS
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import now_ms
from chronotile.history import text_columns
from chronotile.history.log_pieces import OddRecordError
from chronotile.log import Log
from chronotile.storage.store import MissingObjectError
from chronotile.tables.array_tables import (
    SCHEMAS,
    ArrayTables,
    findings_table,
    in_bigint,
    severity_columns,
)
from chronotile.tables.our_open_requests import Names, cost_columns
from chronotile.visibility.lifelines import fragment_count
from chronotile.visibility.rules import Rules, schema_at

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Mapping

    from chronotile.check.capped_findings import CappedFindings
    from chronotile.history.array_parts import ArrayParts
    from chronotile.history.listing import Listing
    from chronotile.history.read_history import History

META_MAX = 8 << 20
"""Bytes of `.meta` files that are read to tell what an open costs; with more the cost is null."""
BY_PART = ("commits", "fragments")
"""The tables of which each part gives rows."""


@dataclass(kw_only=True)
class LargeTables:
    """The tables of one large array."""

    parts: ArrayParts
    key: bytes | None = None
    start: int = 0
    end: int = MAX_TIMESTAMP
    cells: bool = False
    max_findings: int = MOST
    folder_times: Mapping[str, int | None] = field(default_factory=dict)
    """When the folders of the array changed last, before it was read."""
    engine_open: OpenCost | None = None
    """What an engine's open costs, if that is known, once `stream` has come to its end."""
    listing: Listing | None = None
    """The names that belong to no time; likewise."""

    def of_parts(self, first: int, last: int, name: str) -> Iterator[pa.Table]:
        """The rows of `commits` or `fragments` of some parts.

        Raises:
            ChangedError: The array changes.
        """
        with _told_of_changes(self.parts):
            asked = name == "fragments"
            for history in self.parts.histories(first, last, self.key, fragments=asked):
                yield self._of(history).table(name)

    def stream(self, names: Collection[str]) -> Iterator[dict[str, pa.Table]]:
        """Some tables, in pieces; those that sum up the array come last.

        Raises:
            ChangedError: The array changes.
        """
        with _told_of_changes(self.parts):
            by_part = [name for name in BY_PART if name in names]
            frame = self.parts.frame_history(self.key)
            sums = _Sums(self.parts, frame, self.max_findings)
            for history in self.parts.histories(0, len(self.parts), self.key):
                tables = self._of(history)
                for name in by_part:
                    yield {name: tables.table(name)}
                sums.add(tables.log.rules)
                # What a part needed must not add up to more with the next ones.
                pa.default_memory_pool().release_unused()
            findings = sums.check.finished()
            self.engine_open, self.listing = sums.engine_open(), frame.listing
            last = {
                "arrays": sums.row(findings),
                "findings": findings_table(findings.findings()),
                "conditions": self._of(frame).table("conditions"),
            }
            yield {name: last[name] for name in names if name in last}

    def _of(self, history: History) -> ArrayTables:
        log = Log(history, self.parts.store)
        return ArrayTables(log, self.start, self.end, cells=self.cells)


@contextmanager
def _told_of_changes(parts: ArrayParts) -> Generator[None]:
    """Turns the ways in which a changing array shows itself into one error."""
    try:
        yield
    except (MissingObjectError, OddRecordError) as cause:
        problem = "expected it to stay, found its commit files changed; try again"
        raise ChangedError(parts.store.uri, problem) from cause


class _Sums:
    """What the parts add up to."""

    def __init__(self, parts: ArrayParts, frame: History, most: int) -> None:
        self._parts, self._frame = parts, frame
        self.check = LargeCheck(frame, parts.files, most)
        self._commits = self._loose = self._fragments = self._folders = 0
        self._first, self._last = MAX_TIMESTAMP, 0
        self._version: int | None = None
        self._dense: list[bool] = []
        self._counted = Counted()
        self._now = now_ms()
        self._held = self._consolidated()

    def _consolidated(self) -> Consolidated | None:
        """What the `.meta` files hold; None if nobody can say within little memory."""
        paths = [p for p in self._frame.listing.fragment_meta if p.endswith(".meta")]
        store = self._parts.store
        if sum(store.head(path).size or 0 for path in paths) > META_MAX:
            return None
        return consolidated_fragments(store, self._frame) if paths else Consolidated()

    def add(self, rules: Rules) -> None:
        history, table = rules.history, rules.history.table
        self.check.add(rules)
        self._commits += table.commit_count
        self._fragments += fragment_count(rules)
        self._folders += len(history.listing.fragments)
        self._dense.append(history.dense)
        if len(table):
            self._loose += int(np.count_nonzero(table.loose))
            self._first = min(self._first, int(table.uris.t1.min()))
            self._last = max(self._last, int(table.uris.t2.max()))
            versions = text_columns.versions(table, np.arange(len(table)))
            self._version = max(int(versions.to_numpy().max()), self._version or 0)
        if self._held is not None:
            self._counted += count_fragments(rules, self._held.fragments, self._now)

    @property
    def _names(self) -> Names:
        return Names(self._parts.loose, self._folders)

    def engine_open(self) -> OpenCost | None:
        if self._held is None:
            return None
        folders = replace(self._frame.listing, fragments=("",) if self._folders else ())
        rules = Rules(replace(self._frame, listing=folders))
        cost = open_cost(rules, self._held, self._now)
        names = {**cost.names, COMMITS: self._parts.loose}
        return replace(cost, names=names, fragments=self._counted)

    def row(self, findings: CappedFindings) -> pa.Table:
        """The row of `arrays`."""
        frame, parts = self._frame, self._parts
        newest = schema_at(frame, MAX_TIMESTAMP)
        shown = sum(map(len, parts.frame.values()))
        row = {
            "array": frame.array,
            "format_version": newest.schema.version if newest and newest.schema else self._version,
            "dense": all(self._dense),
            "commits": self._commits,
            "loose_commits": self._loose,
            "con_files": sum(name.endswith(".con") for name in frame.listing.commits),
            "fragments": self._fragments,
            "first_timestamp": in_bigint(self._first) if self._first <= self._last else None,
            "last_timestamp": in_bigint(self._last) if self._first <= self._last else None,
            "log_bytes": frame.bytes_read - shown + sum(file.size for file in parts.files),
            **cost_columns(frame, self.engine_open(), self._names),
            **severity_columns(findings),
        }
        return pa.Table.from_pylist([row], schema=SCHEMAS["arrays"])
