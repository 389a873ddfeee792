"""The process that merges: all that the engine does for a merge aside, where it may crash.

In: a job, as one JSON document on standard input. Out: two JSON lines on standard output: the name
of the merged fragment, as soon as it is there; then the digests of the rows. An exit status says if
it ran out of memory. `merge_aside` starts it; nothing here touches the array.

It watches itself: it ends when it takes more memory than it may, and when its parent is gone.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError
from chronotile.format.fragment_footer import METADATA
from chronotile.format.kinds import COMMITS, FRAGMENTS, SCHEMA
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history.read_footers import FooterReader
from chronotile.history.read_history import read_history
from chronotile.rows.cell_source import bared_metadata
from chronotile.rows.engine import Engine, EngineError, Range, engine_settings
from chronotile.rows.engine_cells import layout_of, read_cells
from chronotile.rows.row_digest import Digest
from chronotile.rows.scratch_arrays import put_writes, with_duplicates
from chronotile.storage.store import open_store
from chronotile.storage.transfer import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_MEMORY = 77
"""The exit status of a process that took more memory than it may."""
_WATCH_S = 0.02
_LEAST_BUDGET, _MOST_BUDGET = 16 << 20, 160 << 20
_OVERHEAD = 200 << 20
"""Memory of a process that does nothing yet: Python, Arrow and the engine."""


def main() -> None:
    """Do the job on standard input."""
    job = json.load(sys.stdin)
    watch = threading.Thread(target=_watch, args=(job["memory"], os.getppid()), daemon=True)
    watch.start()
    try:
        _Job(job).run()
    except ChronotileError as error:
        _say({"error": error.problem, "refused": isinstance(error, EngineError)})
    # Threads of the engine may still hold what an orderly end would take apart.
    os._exit(0)


def _say(line: Mapping[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")
    sys.stdout.flush()


def _watch(memory: int, parent: int) -> None:
    while True:
        if resident_bytes() > memory:
            os._exit(NO_MEMORY)
        if os.getppid() != parent:
            os._exit(1)
        time.sleep(_WATCH_S)


def resident_bytes() -> int:
    """Return the resident memory of this process now; where nobody says, the most it ever was."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


def _peak_bytes() -> int:
    """Return the most resident memory of this process; a parent's is not in it, as elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024
    except (OSError, StopIteration):
        return resident_bytes()


class _Job:
    """One merge, and the digests of its rows."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job, self.root = job, Path(job["root"])
        self.array = self.root / "merge"
        self.key = None if job["key"] is None else bytes.fromhex(job["key"])
        budget = int((job["memory"] - _OVERHEAD) * 0.6)
        self.settings = engine_settings(None, self.key) | {
            "sm.mem.total_budget": str(min(max(budget, _LEAST_BUDGET), _MOST_BUDGET)),
            "sm.consolidation.purge_deleted_cells": "true" if job["purge"] else "false",
        }

    def run(self) -> None:
        """Merge, then compare."""
        names: list[str] = self.job["names"]
        with self._engine(self.array) as engine:
            engine.consolidate(names)
        there = {path.name for path in (self.array / FRAGMENTS).iterdir()} - {*names}
        if len(there) != 1:
            raise EngineError(self.job["where"], f"TileDB wrote {len(there)} fragments, not 1")
        (merged,) = there
        _say({"merged": merged})
        _say({"digests": self._digests(merged), "peak": _peak_bytes()})

    def _engine(self, array: Path) -> Engine:
        return Engine(self.job["where"], str(array), self.settings)

    def _digests(self, merged: str) -> list[list[list[int | None]]]:
        """Make the digests of sources and of the result, in pairs that must be equal."""
        if not self.job["compare"]:
            return []
        sources, bared = self.job["names"], dict(self.job["bared"])
        if self.job["purge"] and not self._has_duplicates():
            # The engine takes the older cells of a place along: opens after a delete never see
            # them, and only those opens are the same then.
            one = self._view("sources", sources, deletes=True, every_version=False)
            other = self._view("result", [merged], deletes=True, every_version=False)
            moments = self.job["moments"]
            return [[self._digest(view, at) for view in (one, other)] for at in moments]
        if self.job["purge"]:
            one = self._view("sources", sources, deletes=True)
            other = self._view("result", [merged], bared=self._bared(merged))
            return [[self._digest(view) for view in (one, other)]]
        one = self._view("sources", sources, bared=bared)
        other = self._view("result", [merged], bared=self._bared(merged))
        pairs = [[self._digest(view) for view in (one, other)]]
        if self.job["moments"]:
            one = self._view("sources-now", sources, deletes=True)
            other = self._view("result-now", [merged], deletes=True)
            moments = self.job["moments"]
            pairs += [[self._digest(view, at) for view in (one, other)] for at in moments]
        return pairs

    def _has_duplicates(self) -> bool:
        history = read_history(open_store(self.array), key=self.key, fragments=False)
        schema = history.schemas[-1].schema
        return schema is not None and schema.allows_duplicates

    def _bared(self, merged: str) -> dict[str, str]:
        """Write the metadata of the merged fragment without its removed cells, if it has some."""
        store = open_store(self.array)
        history = read_history(store, key=self.key)
        reader = FooterReader(store, history)
        ((_, stored),) = reader.read([merged], own=True)
        if isinstance(stored, ChronotileError):
            raise stored
        if not stored.footer.has_delete_metadata:
            return {}
        path = self.root / "bared-result"
        path.write_bytes(bared_metadata(store, reader, stored))
        return {merged: str(path)}

    def _view(
        self,
        name: str,
        fragments: Sequence[str],
        *,
        deletes: bool = False,
        bared: Mapping[str, str] | None = None,
        every_version: bool = True,
    ) -> Path:
        """Make an array of some fragments that shows every cell, older ones of a place too."""
        root = self.root / name
        view = ScratchFolder.at(root)
        for path in sorted((self.array / SCHEMA).rglob("*")):
            if path.is_file():
                inner, data = path.relative_to(self.array).as_posix(), path.read_bytes()
                is_patched = every_version and inner.count("/") == 1
                view.put(inner, with_duplicates(data, inner, self.key) if is_patched else data)
        for fragment in fragments:
            own = (bared or {}).get(fragment)
            instead = None if own is None else {METADATA: Path(own).read_bytes()}
            view.link(self.array / FRAGMENTS / fragment, f"{FRAGMENTS}/{fragment}", instead)
        put_writes(view, fragments)
        for commit in self.job["deletes"] if deletes else ():
            view.put(f"{COMMITS}/{commit}", (self.array / COMMITS / commit).read_bytes())
        return root

    def _digest(self, array: Path, end: int = MAX_TIMESTAMP) -> list[int | None]:
        history = read_history(open_store(array), key=self.key, fragments=False)
        schema = history.schemas[-1].schema
        assert schema is not None  # the parent has read it
        ranges = [
            Range(at, bytes.fromhex(low), bytes.fromhex(high))
            for at, (low, high) in enumerate(self.job["box"])
        ]
        digest = Digest()
        with self._engine(array) as engine:
            engine.open(0, end)
            cells = read_cells(
                engine,
                schema.fields,
                times=not history.dense,
                layout=layout_of(history),
                ranges=ranges,
            )
            for batch in cells:
                digest.add_cells(batch)
        return digest.to_json()


if __name__ == "__main__":
    main()
