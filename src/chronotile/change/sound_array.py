"""What every upkeep of an array does alike.

In: a store. Out: the history of an array that is sound enough to be maintained, or a refusal; and
a place beside the array. Decides nothing on what is removed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from chronotile.change.change_report import Report
from chronotile.check.array import blocking
from chronotile.check.findings import Finding, RefusedError
from chronotile.errors import StorageError, printable_json
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import iso_time, now_ms
from chronotile.history.reading import History, read_history
from chronotile.storage.place import Place
from chronotile.storage.store import Store
from chronotile.visibility.rules import Rules, schema_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chronotile.change.change_report import Step

Before: TypeAlias = "Callable[[Report], None] | None"
"""Called with what is about to be done, before anything is; what it raises stops it."""

FIRST_WITH_COMMITS = 12
"""The first format version that has `__commits`, and `.con` and `.ign` files in it."""

_SURE = 2
"""Readings that must agree that an array is damaged: a writer may have come between two lists."""


def raw_key(key: bytes | str | None) -> bytes | None:
    """A key as bytes.

    >>> raw_key("0123")
    b'0123'
    """
    return key.encode() if isinstance(key, str) else key


def sound_history(
    store: Store, key: bytes | None, *, fragments: bool = True
) -> tuple[History, Rules]:
    """Reads an array's log, and refuses to go on if it is damaged.

    Args:
        store: Where the array is.
        key: Its key.
        fragments: Whether the fragments are looked at; without them, one that is gone is not
            noticed, and the rules say nothing of what is visible.

    Raises:
        RefusedError: It is; the findings are with it.
    """
    found: tuple[Finding, ...] = ()
    for attempt in range(_SURE):
        history = read_history(store.uri, key=key, store=store, fragments=fragments)
        rules = Rules(history)
        now = blocking(history, rules)
        before = frozenset(found)
        found = now if attempt == 0 else tuple(item for item in now if item in before)
        if not found:
            return history, rules
    first = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    problem = f"expected a sound array, found {first.code} in {first.path}{more}: {first.message}"
    raise RefusedError(store.uri, f"{problem}; {first.hint}", found)


def write_version(history: History) -> int:
    """The format version that new commit files get.

    Raises:
        RefusedError: The array is of a version that has no `__commits`.
    """
    version = array_version(history)
    if version < FIRST_WITH_COMMITS:
        found = f"found {version}; upgrade it with the engine first"
        expected = f"expected format version {FIRST_WITH_COMMITS} or later"
        raise RefusedError(history.array, f"{expected}, {found}")
    return version


def array_version(history: History) -> int:
    """The format version of the newest schema, or of the newest commit if that cannot be read."""
    latest = schema_at(history, MAX_TIMESTAMP)
    if latest is not None and latest.schema is not None:
        return latest.schema.version
    # An encrypted array without its key: its commits tell.
    table = history.table
    return max((table.version(row) for row in range(len(table))), default=0)


def beside(store: Store, suffix: str) -> tuple[Store, str]:
    """A store at the folder that holds the array, and the name of a folder beside it.

    Raises:
        StorageError: The array is the root of its bucket or disk: nothing is beside it.

    >>> from chronotile.storage.store import open_store
    >>> above, name = beside(open_store("memory://m/lake/sales"), ".quarantine")
    >>> above.uri, name
    ('memory://m/lake', 'sales.quarantine')
    """
    place = store.place
    parent, _, name = place.root.rpartition("/")
    if not name:
        raise StorageError(store.uri, "expected an array below a folder, found a root itself")
    root = parent or ("/" if place.scheme == "file" else "")
    above = Place(scheme=place.scheme, bucket=place.bucket, root=root)
    made = Store(
        place=above, options=store.options, retry=store.retry, on_operation=store.on_operation
    )
    return made, f"{name}{suffix}"


def stamp(at_ms: int) -> str:
    """A moment as part of a file's name.

    >>> stamp(1_714_550_400_120)
    '20240501T080000.120Z'
    """
    return (iso_time(at_ms) or str(at_ms)).replace("-", "").replace(":", "")


def tell(
    before: Before, command: str, array: str, steps: Sequence[Step], notes: Iterable[str] = ()
) -> None:
    """Says what is about to be done, if anyone wants to know and there is anything."""
    if before is not None and steps:
        planned = Report(
            command=command,
            array=array,
            dry_run=False,
            steps=tuple(steps),
            notes=tuple(notes),
            at_ms=now_ms(),
        )
        before(planned)


def begun_json(report: Report) -> str:
    """A report of what is only about to be done.

    >>> report = Report(command="vacuum", array="a", dry_run=False, steps=(), at_ms=1)
    >>> json.loads(begun_json(report))["state"]
    'begun'
    """
    document = {"state": "begun", **report.to_dict()}
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def save_begun(store: Store, report: Report) -> str:
    """Writes beside the array what is about to be done; `save_report` does away with it.

    Where it is found without a report of the same command, that command was broken off.
    """
    above, folder = beside(store, ".reports")
    path = f"{folder}/{stamp(report.at_ms)}-{report.command}-begun.json"
    above.put_if_absent(path, begun_json(report).encode())
    return path


def save_report(store: Store, report: Report, begun: str | None = None) -> str:
    """Writes a report beside the array, and gives its place.

    Args:
        store: Where the array is.
        report: What was done.
        begun: What `save_begun` gave before; it goes.

    >>> from chronotile.storage.store import open_store
    >>> report = Report(command="vacuum", array="a", dry_run=False, steps=(), at_ms=1)
    >>> save_report(open_store("memory:doc-report/a"), report)
    'memory://doc-report/a.reports/19700101T000000.001Z-vacuum.json'
    """
    above, folder = beside(store, ".reports")
    path = f"{folder}/{stamp(report.at_ms or now_ms())}-{report.command}.json"
    above.put_if_absent(path, report.to_json().encode())
    if begun is not None:
        above.remove([begun])
    return above.uri_of(path)
