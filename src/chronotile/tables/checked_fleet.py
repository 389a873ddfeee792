"""The check of a fleet, which leaves the tables of the fleet as well, if asked.

In: roots of arrays. Out: the findings, as `dataset.check_all` gives them; the tables that
`fleet_without_spark` makes, as Parquet. Decides nothing by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.dataset import check_all
from chronotile.tables.array_tables import findings_table
from chronotile.tables.fleet_without_spark import make_tables
from chronotile.tables.stored_tables import write_tables

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from chronotile.dataset.check_all import FleetCheck, Roots


def check_fleet(
    roots: Roots,
    *,
    out: str | os.PathLike[str] | None = None,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[str], None] | None = None,
    log_only: bool = False,
    deep: bool = False,
    on_fragment: Callable[[], None] | None = None,
) -> FleetCheck:
    """Check every array at or below the roots, and the members of every group there.

    Args:
        roots: Arrays, folders above arrays, or patterns of them.
        out: A folder or prefix for the tables, as `chronotile tables` writes them; several
            processes make them. The table of findings has those of groups and folders too.
        key: The key of the encrypted arrays.
        storage_options: Options of the storage, such as a region.
        on_array: Called with each array before it is read.
        log_only: Check the commit logs, and no fragment.
        deep: Open the cells of each fragment too; not together with `log_only`.
        on_fragment: Called after each fragment.

    A root that is not there, or has no array below it, is a finding too, behind all others.

    Raises:
        ArrayNotFoundError: The only root does not exist.
        StorageError: The only root cannot be listed.
        ChronotileError: Both `log_only` and `deep` are asked for.

    >>> from chronotile.storage.store import open_store
    >>> open_store("memory:doc-checked-fleet").put_if_absent("a/__schema/s", b"")
    >>> [item.code for item in check_fleet("memory:doc-checked-fleet").findings]
    ['name-malformed']
    """
    checked = check_all.check_fleet(
        roots,
        key=key,
        storage_options=storage_options,
        on_array=on_array,
        log_only=log_only,
        deep=deep,
        on_fragment=on_fragment,
    )
    if out is not None:
        names = ("arrays", "commits", "conditions", "fragments")
        made = make_tables(checked.arrays, names=names, key=key, storage_options=storage_options)
        tables = {**made.tables, "findings": findings_table(checked.findings)}
        write_tables(tables, out, storage_options)
    return checked
