"""What changed in an array between two moments.

In: an array, two moments. Out: a table of what the log alone knows, without the engine; or of rows,
with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import BadTimeError
from chronotile.rows.differences.log_diff import diff_group, diff_log
from chronotile.rows.differences.row_diff import diff_rows
from chronotile.rows.group_rows import diff_group_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from chronotile.dataset.open_dataset import Dataset
    from chronotile.format.timestamps import Moment
    from chronotile.log import Log


def diff_of_group(
    dataset: Dataset, t1: Moment, t2: Moment, *, rows: bool, pattern: str | None = None
) -> tuple[pa.Table, tuple[str, ...]]:
    """Compare two moments of a group; give notes too. Rows can be those of some members."""
    first, last = _in_order(dataset.uri, dataset.moment(t1), dataset.moment(t2))
    if rows:
        return diff_group_rows(dataset, first, last, pattern)
    return diff_group(dataset, first, last), ()


def diff_of(log: Log, t1: Moment, t2: Moment, *, rows: bool) -> pa.Table:
    """Compare what opens at two moments see; see `Array.diff`.

    Returns:
        Without `rows`, a line each fragment, delete, update, schema, file of metadata and member:
        `change` (`added` or `removed`), `kind`, `member`, `name`, `t1`, `t2`, `cells`, `bytes`,
        `what`. With `rows`, a line each row that differs: `change` (`insert`, `delete`,
        `update_before`, `update_after`), `commit` (the last one that changed it), `t`, dimensions,
        attributes.

    Raises:
        BadTimeError: A moment is none, or the second is before the first.
    """
    first, last = _in_order(log.array, log.moment(t1, "t1"), log.moment(t2, "t2"))
    return diff_rows(log, first, last) if rows else diff_log(log, first, last)


def _in_order(where: str, first: int, last: int) -> tuple[int, int]:
    if last < first:
        problem = f"expected the earlier moment first, found {first} and {last}"
        raise BadTimeError(where, problem)
    return first, last
