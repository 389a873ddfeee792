"""The record of a replica: where it comes from, and what it was when the last round ended.

In: the store of a replica. Out: `ReplicaRecord`, kept in `__chronotile/replica.json`, and replaced
in one step as a round begins and as it ends. The engine passes over that folder.

The record has a digest of the names of all files of the log, as they were when the last round
ended, and the names that a round is about to put. So the next round can tell its own work, even a
killed one's, from files that somebody else wrote.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.errors import ArrayNotFoundError, BadFileError, ChangedError, ChronotileError
from chronotile.format.documents import json_text, read_json
from chronotile.format.kinds import OWN
from chronotile.format.timestamps import iso_time, now_ms, to_ms
from chronotile.storage.processes import this_process
from chronotile.storage.store import MissingObjectError, ObjectExistsError, put_compared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.storage.store import Store

PATH = f"{OWN}/replica.json"
_LONGEST = 1 << 28
OTHER_REPLICATOR = "expected to be the only one who replicates to it, found another; try again"


class ReplicaRecord(NamedTuple):
    """The files that the last round left, and those that a round is about to put."""

    source: str
    """The URI of the source."""
    at_ms: int = 0
    """When the last round ended."""
    digest: str = ""
    """Of the names of the log's files then."""
    names: int = 0
    """The number of these files."""
    begun: tuple[str, ...] = ()
    """Paths that a round is about to put; empty once it has ended."""
    process: Mapping[str, Any] | None = None
    """The process of that round; None once it has ended."""
    stand_ins: tuple[str, ...] = ()
    """Deletes that the source took out, in whose names a delete that matches no row stands."""
    raw: bytes = b""
    """The file."""

    def to_bytes(self) -> bytes:
        """Write the record."""
        document = {
            "source": self.source,
            "time": iso_time(self.at_ms),
            "digest": self.digest,
            "names": self.names,
            "begun": list(self.begun),
            "process": self.process,
            "stand_ins": list(self.stand_ins),
        }
        return json_text(document).encode()


def digest_of(names: Iterable[str]) -> str:
    """Give a digest of names, whatever their order.

    >>> digest_of(["a", "b"]) == digest_of(["b", "a"])
    True
    """
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def read_record(store: Store) -> ReplicaRecord | None:
    """Read the record of a replica; None if there is none.

    Raises:
        BadFileError: It is damaged.
    """
    try:
        raw = store.read(PATH, limit=_LONGEST)
    except (MissingObjectError, ArrayNotFoundError):
        return None
    where = store.uri_of(PATH)
    document = read_json(raw, where, "the record of a replica")
    try:
        return ReplicaRecord(
            str(document["source"]),
            to_ms(document["time"]),
            str(document["digest"]),
            int(document["names"]),
            tuple(map(str, document["begun"])),
            document.get("process"),
            tuple(map(str, document["stand_ins"])),
            raw,
        )
    except (KeyError, TypeError, ValueError) as cause:
        raise BadFileError(where, f"expected the record of a replica, found: {cause}") from cause


def write_record(store: Store, before: bytes, record: ReplicaRecord) -> ReplicaRecord:
    """Put a record, or exchange the one that was read before.

    Raises:
        ChangedError: Somebody else replicates to the same place.
    """
    new = record._replace(at_ms=record.at_ms or now_ms(), raw=b"")
    data = new.to_bytes()
    try:
        if before:
            store.exchange(PATH, before, data)
        else:
            put_compared(store, PATH, data)
    except ObjectExistsError as cause:
        raise ChangedError(store.uri, OTHER_REPLICATOR) from cause
    return new._replace(raw=data)


def release(store: Store) -> None:
    """Let other processes replicate, after a round of this one that failed."""
    with suppress(ChronotileError):
        record = read_record(store)
        if record is not None and record.process == this_process():
            write_record(store, record.raw, record._replace(process=None))
