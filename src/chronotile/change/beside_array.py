"""Folders beside an array: `<array>.reports` and `<array>.quarantine`.

In: the store of an array. Out: a store of the folder above it, and the reports of changes written
there. Knows nothing of what the array holds.
"""

from __future__ import annotations

import json
from typing import Protocol

from chronotile.errors import BadFileError, ChronotileError, StorageError
from chronotile.format.timestamps import iso_time
from chronotile.storage.place import Place
from chronotile.storage.store import MissingObjectError, Store

_BEGUN = "-begun.json"
"""How the name of a record ends, of a change that has not ended."""


def folder_beside(store: Store, suffix: str) -> tuple[Store, str]:
    """A store of the folder that holds the array, and the name of a folder beside the array.

    Raises:
        StorageError: The array is the root of its bucket or disk, so nothing is beside it.

    >>> from chronotile.storage.store import open_store
    >>> above, name = folder_beside(open_store("memory://m/lake/sales"), ".quarantine")
    >>> above.uri, name
    ('memory://m/lake', 'sales.quarantine')
    """
    place = store.place
    parent, _, name = place.root.rpartition("/")
    if not name:
        raise StorageError(store.uri, "expected an array below a folder, found a root itself")
    root = parent or ("/" if place.scheme == "file" else "")
    above = Place(scheme=place.scheme, bucket=place.bucket, root=root)
    options, hook = store.options, store.on_operation
    opened = Store(place=above, options=options, retry=store.retry, on_operation=hook)
    return opened, f"{name}{suffix}"


def stamp(at_ms: int) -> str:
    """A moment as part of a file's name.

    >>> stamp(1_714_550_400_120)
    '20240501T080000.120Z'
    """
    return (iso_time(at_ms) or str(at_ms)).replace("-", "").replace(":", "")


class Saved(Protocol):
    """What can be written down: a report of one array, or of a group."""

    @property
    def command(self) -> str:
        """What was done."""

    @property
    def at_ms(self) -> int:
        """When."""

    def to_json(self) -> str:
        """The report as text."""

    def begun_json(self) -> str:
        """The report of steps that are about to begin."""


def save_begun(store: Store, report: Saved) -> str:
    """Writes the planned steps beside the array; `save_report` removes the file.

    A file that stays without a report of the same command shows that the command was broken off.
    """
    above, folder = folder_beside(store, ".reports")
    path = f"{folder}/{stamp(report.at_ms)}-{report.command}{_BEGUN}"
    above.put_if_absent(path, report.begun_json().encode())
    return path


def unfinished_copies(store: Store) -> dict[str, str]:
    """The fragments that a change of the array is copying, or was when it was broken off.

    Returns:
        Folder of each copy -> the record of the change.

    Raises:
        BadFileError: A record cannot be read, and may name any fragment.
    """
    try:
        above, folder = folder_beside(store, ".reports")
    except StorageError:
        return {}
    copies: dict[str, str] = {}
    records = [file.path for file in above.list_dir(folder).files]
    for path, data in above.read_many(path for path in records if path.endswith(_BEGUN)):
        if isinstance(data, MissingObjectError):
            continue
        if isinstance(data, ChronotileError):
            raise data
        try:
            steps = json.loads(data)["steps"]
            copies |= {step["path"]: path for step in steps if step["op"] == "copy"}
        except (ValueError, KeyError, TypeError) as cause:
            problem = f"expected the record of a change, found {cause!r:.80}"
            raise BadFileError(above.uri_of(path), problem) from cause
    return copies


def part_of(begun: str, number: int) -> str:
    """The path of a part of what `save_begun` wrote: what is about to happen to one member.

    >>> part_of("g.reports/20240501T080000.120Z-restore-begun.json", 1)
    'g.reports/20240501T080000.120Z-restore-begun.0001.part'
    """
    return f"{begun.removesuffix('.json')}.{number:04}.part"


def save_part(store: Store, begun: str, number: int, text: str) -> None:
    """Writes down what is about to happen to one member of a group."""
    folder_beside(store, ".reports")[0].put_if_absent(part_of(begun, number), text.encode())


def save_report(store: Store, report: Saved, begun: str | None = None, parts: int = 0) -> str:
    """Writes a report beside the array, removes what was begun and its parts, and gives the URI.

    >>> from chronotile.change.change_report import Report
    >>> from chronotile.storage.store import open_store
    >>> report = Report("vacuum", "a", dry_run=False, steps=(), at_ms=1)
    >>> save_report(open_store("memory:doc-report/a"), report)
    'memory://doc-report/a.reports/19700101T000000.001Z-vacuum.json'
    """
    above, folder = folder_beside(store, ".reports")
    path = f"{folder}/{stamp(report.at_ms)}-{report.command}.json"
    above.put_if_absent(path, report.to_json().encode())
    if begun is not None:
        # Parts of what nobody says to have begun are no records any more.
        above.remove([begun])
        above.remove([part_of(begun, number) for number in range(parts)])
    return above.uri_of(path)
