"""What the engine answers of a case, and at which windows it may answer differently.

In: a copy of a case, windows, and the notes of a vacuum. Out: the engine's answers as text; the
times that the vacuum announced as lost. Knows nothing of how maintenance works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tiledb
from support.engine_arrays import QUIET
from support.engines import engine

if TYPE_CHECKING:
    from support.corpus_cases import Case
    from support.engine_arrays import Window


def context(key: bytes | None) -> tiledb.Ctx:
    settings = dict(QUIET)
    if key is not None:
        settings |= {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key.decode()}
    return engine(settings)


def read(uri: str, case: Case, window: Window) -> str:
    """All that the engine gives at a window, as text; or its error."""
    try:
        with tiledb.open(uri, timestamp=window, ctx=context(case.key)) as array:
            found: Any = array[:]
            if not array.schema.sparse:
                return repr(found)
            columns = [map(plain, found[name].tolist()) for name in sorted(found)]
            return repr(sorted(zip(*columns, strict=True), key=repr))
    except (tiledb.TileDBError, UnicodeDecodeError) as error:
        return f"error: {str(error).replace(uri, '')}"


def plain(value: Any) -> Any:
    return (
        bytes(value) if isinstance(value, memoryview) else getattr(value, "tolist", lambda: value)()
    )


def answers(uri: str, case: Case, windows: list[Window]) -> dict[Window, str]:
    return {window: read(uri, case, window) for window in windows}


def cuts(window: Window, times: tuple[int, int]) -> bool:
    """Whether a window starts or ends inside of some times."""
    start, end = window
    first, last = times
    return start <= last and first <= end and not (start <= first and last <= end)


def announced(notes: tuple[str, ...]) -> list[tuple[int, int]]:
    """The times that a vacuum said are lost to time travel."""
    lost = [note.split(" (")[0].split() for note in notes if note.startswith("time travel is lost")]
    return [(int(words[-3]), int(words[-1])) for words in lost]
