"""Whole `.con` files, as a reader of the format would write them.

In: commit records. Out: the bytes of a file and its name. Touches no storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import BadFileError
from chronotile.format.commit_files import ConRecord, commit_name, encode_record
from chronotile.format.names import new_name, time_order

if TYPE_CHECKING:
    from collections.abc import Iterable


def encode_con(records: Iterable[ConRecord]) -> bytes:
    r"""Writes a consolidated commits file, by time and then by name.

    Raises:
        BadNameError: A URI does not end in a timestamped name and a commit's extension.

    >>> u = "00112233445566778899aabbccddeeff"
    >>> encode_con([ConRecord(f"__commits/__{t}_{t}_{u}_22.wrt", None) for t in (10, 9)])[:15]
    b'__commits/__9_9'
    """
    return b"".join(encode_record(record) for record in sorted(records, key=_order))


def con_name(records: Iterable[ConRecord], version: int) -> str:
    """A fresh name for a `.con`, true to the smallest and largest time that it holds.

    >>> u = "00112233445566778899aabbccddeeff"
    >>> records = [ConRecord(f"__commits/__{t}_{t + 1}_{u}_22.wrt", None) for t in (100, 9)]
    >>> con_name(records, 22)[:8]
    '__9_101_'
    """
    names = [commit_name(record.uri) for record in records]
    if not names:
        raise BadFileError(".con", "expected at least one record, found none")
    return new_name(min(n.t1 for n in names), max(n.t2 for n in names), version)


def _order(record: ConRecord) -> tuple[int, int, str]:
    return time_order(commit_name(record.uri))
