"""The search for arrays in a part of a fleet, whatever the storage does.

In: neighbours, or folders, and options. Out: the arrays in them, with their listings where a flat
list could tell them; by a walk where the storage refuses it, with folders that cannot be listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from chronotile.dataset.find_arrays import Unlisted, find_arrays
from chronotile.dataset.flat_listing import FlatFound, Neighbours, list_flat, unlisted_rows
from chronotile.dataset.inventory_arrays import NAMES
from chronotile.errors import ChronotileError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.spark.source.options import Options


class Searched(NamedTuple):
    """What was found among neighbours."""

    rows: pa.Table
    """As in `inventory_arrays.NAMES`."""
    groups: tuple[str, ...] = ()
    problems: tuple[Unlisted, ...] = ()


def search_flat(part: Neighbours, options: Options) -> Searched:
    """Finds the arrays of neighbours."""
    try:
        found = list_flat(part, options.storage_options)
    except ChronotileError:
        found = FlatFound(NAMES.empty_table(), (), part.uris, 0)
    walked = walk(found.left, options)
    rows = pa.concat_tables([found.rows, walked.rows])
    return Searched(rows, (*found.groups, *walked.groups), walked.problems)


def walk(folders: Sequence[str], options: Options) -> Searched:
    """Finds the arrays of some folders, one level after the other.

    A folder that cannot be listed is told, and stops no other.
    """
    try:
        found = [find_arrays(folders, options.storage_options, missing_ok=True)]
        problems: list[Unlisted] = []
    except StorageError:
        found, problems = [], []
        for folder in folders:
            try:
                found.append(find_arrays(folder, options.storage_options, missing_ok=True))
            except StorageError as error:
                problems.append(Unlisted(folder, error.problem))
    return Searched(
        unlisted_rows(uri for one in found for uri in one.uris),
        tuple(group for one in found for group in one.groups),
        tuple(sorted([*problems, *(problem for one in found for problem in one.problems)])),
    )
