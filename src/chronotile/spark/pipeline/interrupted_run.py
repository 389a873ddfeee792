"""What a run that never ended has left, so that another can go on from there.

In: the output of the pipeline. Out: `Interrupted`: the files of the tasks that were done. The rows
in them are used like those of an older run: an array is listed again, and its rows are taken only
if its listing is still the same. So it does not matter why the run ended, or how long ago.

    DIR/staging/<run>/plan.json             how the fleet was divided
    DIR/staging/<run>/done/<bucket>-….json  the files of one task, put when all of them were written
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.errors import ArrayNotFoundError
from chronotile.format.timestamps import now_ms
from chronotile.spark.pipeline.older_run_rows import OlderBucket
from chronotile.spark.pipeline.runs import ABANDONED_MS, STAGING, Part, Run, started_ms
from chronotile.storage.store import MissingObjectError, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAN = "plan.json"
_DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """A run that was not published."""

    run: Run
    buckets: int
    parts: Mapping[int, tuple[Part, ...]]
    """Bucket -> the files of the task that read most of it."""

    def bucket(self, bucket: int, buckets: int) -> OlderBucket | None:
        """What the run has read of a bucket, if the fleet is divided as it was."""
        if buckets != self.buckets or bucket not in self.parts:
            return None
        return OlderBucket(
            run=self.run,
            parts=self.parts[bucket],
            bucket=bucket,
            buckets=buckets,
            # The files are taken away when another run is published: rows are written anew.
            is_whole=False,
        )


def note_plan(run: Run, buckets: int, words: Mapping[str, Any]) -> None:
    """Notes how the fleet is divided, and what must be equal in a run that goes on."""
    document = {**words, "buckets": buckets}
    run.store().put_if_absent(f"{run.staging}/{_PLAN}", json.dumps(document).encode())


def note_done(run: Run, bucket: int, parts: Sequence[Part]) -> None:
    """Notes that all files of a task are written."""
    if parts:
        path = f"{run.staging}/{_DONE}/{bucket}-{secrets.token_hex(4)}.json"
        run.store().put_if_absent(path, json.dumps([list(part) for part in parts]).encode())


def find_interrupted(
    out: str, storage: Mapping[str, str], words: Mapping[str, Any], last: Run | None
) -> Interrupted | None:
    """The newest run of the last day that was not published, if this one can go on from it.

    Args:
        out: The output.
        storage: The options of its storage.
        words: What must be equal: see `note_plan`.
        last: The last run that was published; an older one is of no use.
    """
    store = open_store(out, storage)
    try:
        names = sorted(path.rpartition("/")[2] for path in store.list_dir(STAGING).folders)
    except ArrayNotFoundError:
        return None
    after = last.name if last is not None else ""
    for name in reversed(names):
        if name <= after or started_ms(name) < now_ms() - ABANDONED_MS:
            return None
        run = Run(out=out, name=name, storage=tuple(sorted(storage.items())))
        document = _read(run, _PLAN)
        if document is not None and {**document, "buckets": 0} == {**words, "buckets": 0}:
            return Interrupted(run=run, buckets=document["buckets"], parts=_parts(run))
    return None


def _parts(run: Run) -> dict[int, tuple[Part, ...]]:
    """Of the tasks of a bucket the one with most arrays: they may have some in common."""
    found: dict[int, tuple[Part, ...]] = {}
    for file in run.store().list_dir(f"{run.staging}/{_DONE}").files:
        name = file.path.rpartition("/")[2]
        parts = tuple(Part(*one) for one in _read(run, f"{_DONE}/{name}") or ())
        bucket = int(name.partition("-")[0])
        if _arrays(parts) > _arrays(found.get(bucket, ())):
            found[bucket] = parts
    return found


def _arrays(parts: tuple[Part, ...]) -> int:
    return sum(part.rows for part in parts if part.table == "listings")


def _read(run: Run, name: str) -> Any:
    try:
        return json.loads(run.store().read(f"{run.staging}/{name}"))
    except (MissingObjectError, ValueError):
        return None
