"""What changed in an array between two moments.

In: an array, two moments. Out: a table of what the log alone knows, without the engine; or of rows,
with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.dataset.open_dataset import open_dataset
from chronotile.errors import BadTimeError
from chronotile.history.folder_kinds import GroupFoundError
from chronotile.log import open_log
from chronotile.rows.differences.log_diff import diff_group, diff_log
from chronotile.rows.differences.row_diff import diff_rows
from chronotile.rows.group_rows import diff_group_rows
from chronotile.rows.open_for_rows import open_labelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from chronotile.dataset.open_dataset import Dataset
    from chronotile.format.timestamps import Moment
    from chronotile.log import Log


def diff(
    array: str,
    t1: Moment,
    t2: Moment,
    *,
    rows: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """What an open at one moment sees that one at an earlier moment does not, and the reverse.

    Args:
        array: A path or a URI, of an array or a group.
        t1: The earlier moment.
        t2: The later one.
        rows: Tell the rows that differ. This needs the engine, `chronotile[engine]`.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.

    Returns:
        Without `rows`, a line each fragment, delete, update, schema, file of metadata and member:
        `change` (`added` or `removed`), `kind`, `member`, `name`, `t1`, `t2`, `cells`, `bytes`,
        `what`. With `rows`, a line each row that differs: `change` (`insert`, `delete`,
        `update_before`, `update_after`), `commit` (who did it last), `t`, dimensions, attributes;
        of a group the column `member` first.

    Raises:
        BadTimeError: A moment is none, or the second is before the first.
        NoEngineError: Rows are asked for, and the engine is not installed.

    >>> diff("memory:doc-nowhere", 1, 2)
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    try:
        log = open_to_compare(array, rows=rows, key=key, storage_options=storage_options)
    except GroupFoundError:
        dataset = open_dataset(array, key, storage_options)
        return diff_of_group(dataset, t1, t2, rows=rows)[0]
    return diff_of(log, t1, t2, rows=rows)


def diff_of_group(
    dataset: Dataset, t1: Moment, t2: Moment, *, rows: bool, pattern: str | None = None
) -> tuple[pa.Table, tuple[str, ...]]:
    """What changed between two moments of a group, and notes; rows of some members only."""
    first, last = _in_order(dataset.uri, dataset.moment(t1), dataset.moment(t2))
    if rows:
        return diff_group_rows(dataset, first, last, pattern)
    return diff_group(dataset, first, last), ()


def open_to_compare(
    array: str,
    *,
    rows: bool,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Log:
    """Opens the log that `diff_of` needs: to compare rows, with its labels."""
    opened = open_labelled if rows else open_log
    return opened(array, key, storage_options)


def diff_of(log: Log, t1: Moment, t2: Moment, *, rows: bool) -> pa.Table:
    """What changed between two moments of a log that has been read."""
    first, last = _in_order(log.array, log.moment(t1, "t1"), log.moment(t2, "t2"))
    return diff_rows(log, first, last) if rows else diff_log(log, first, last)


def _in_order(where: str, first: int, last: int) -> tuple[int, int]:
    if last < first:
        problem = f"expected the earlier moment first, found {first} and {last}"
        raise BadTimeError(where, problem)
    return first, last
