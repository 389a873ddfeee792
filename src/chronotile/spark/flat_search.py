"""A flat list of neighbours, whatever the storage does.

In: neighbours, and options. Out: the arrays in them, with their listings where a flat list could
tell them; by a walk where the storage refuses it, with the folders that cannot be listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from chronotile.dataset.find_arrays import Unlisted, find_arrays
from chronotile.dataset.flat_listing import FlatFound, Neighbours, list_flat, unlisted_rows
from chronotile.dataset.inventory_arrays import NAMES
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from chronotile.spark.options import Options


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
    if not found.left:
        return Searched(found.rows, found.groups)
    walked = find_arrays(found.left, options.storage_options, missing_ok=True)
    rows = pa.concat_tables([found.rows, unlisted_rows(walked.uris)])
    return Searched(rows, (*found.groups, *walked.groups), walked.problems)
