"""The files of fragments that a read of some fields has no need of.

In: a log, fragments, the fields to read. Out: for each fragment the names of files that hold other
attributes. Reads footers; of a fragment whose footer cannot be read, every file is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import ChronotileError
from chronotile.history.read_footers import FooterReader

if TYPE_CHECKING:
    from collections.abc import Collection

    from chronotile.log import Log


def unread_files(
    log: Log, fragments: Collection[str], fields: Collection[str]
) -> dict[str, frozenset[str]]:
    """The files that hold attributes which are not read, by fragment.

    Raises:
        StorageError: The storage failed.
    """
    schemas = [item.schema for item in log.history.schemas if item.schema is not None]
    if {field.name for schema in schemas for field in schema.attributes} <= {*fields}:
        return {}
    found = {}
    for name, stored in FooterReader(log.storage, log.history).read(fragments):
        if not isinstance(stored, ChronotileError):
            others = {field.name for field in stored.schema.attributes} - {*fields}
            files = stored.footer.cell_files
            found[name] = frozenset(file.name for file in files if file.field in others)
    return found
