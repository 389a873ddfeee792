"""Arrays, opened for their rows.

In: a place. Out: its log, read with the labels of enumerations; the schema in force at a moment;
the last moment that matters. Refuses to begin without the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chronotile.errors import KeyNeededError
from chronotile.format.timestamps import now_ms
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows.cells.engine import require_engine
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from chronotile.history.read_history import SchemaFile
    from chronotile.storage.store import Store


def open_labelled(store: Store, key: bytes | None) -> Log:
    """Read the log of an array whose rows are going to be read.

    Raises:
        NoEngineError: The engine is not installed.
        ArrayNotFoundError: There is no array.
    """
    require_engine()
    return Log(read_history(store, key=key, labels=True), store)


def schema_in_force(log: Log, moment: int) -> SchemaFile:
    """The schema in force at a moment.

    Raises:
        KeyNeededError: It cannot be read.
    """
    item = schema_at(log.history, moment)
    if item is None or item.schema is None:
        problem = "expected a schema that can be read, found none: give its key"
        raise KeyNeededError(log.array, problem)
    return item


def last_time(log: Log) -> int:
    """The time of the last commit, or now, whichever is later."""
    times = log.history.table.uris.t2
    return max(now_ms(), int(np.max(times)) if len(times) else 0)
