"""A fragment that the engine writes aside: its files, to be put into an array.

In: a log, a schema, rows as stored, a moment. Out: the files of the fragment, by name. The engine
writes into a scratch array with the same schema; the array itself is not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.format import tiles
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import parse_name, version_of
from chronotile.rows.cells.cell_columns import to_buffers
from chronotile.rows.cells.engine import COMPLETED, UNORDERED, WRITE, Engine, EngineError
from chronotile.rows.cells.engine_settings import engine_settings
from chronotile.storage.store import open_store
from chronotile.storage.transfer import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log


class StagedFragment(NamedTuple):
    """A fragment that is not in its array yet."""

    version: int
    files: dict[str, bytes]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.files.values()))


def stage_fragment(
    log: Log, schema_file: SchemaFile, columns: Sequence[pa.Array], moment: int
) -> StagedFragment:
    """Let the engine write rows at a moment, aside.

    Raises:
        EngineError: The engine refused.
    """
    schema, store = schema_file.schema, log.storage
    assert schema is not None
    with ScratchFolder() as scratch:
        for path in (*log.history.listing.enumerations, schema_file.path):
            data = store.read(path)
            scratch.put(path, data)
        scratch.make_folder(COMMITS)
        scratch.make_folder(FRAGMENTS)
        encrypted = tiles.decode(data, schema_file.path, key=log.history.key).encrypted
        settings = engine_settings(None, log.history.key if encrypted else None)
        with Engine(log.array, scratch.root, settings) as engine:
            engine.open(0, moment, WRITE)
            with engine.query(WRITE, UNORDERED) as query:
                for field, cells in zip(schema.fields, columns, strict=True):
                    query.set(field.name, to_buffers(field, cells))
                if query.submit() != COMPLETED:
                    raise EngineError(log.array, "the engine did not finish a write")
                query.finalize()
        written = open_store(scratch.root)
        (folder,) = written.list_dir(FRAGMENTS).folders
        files = {
            entry.path.rpartition("/")[2]: written.read(entry.path)
            for entry in written.list_dir(folder).files
        }
    return StagedFragment(version_of(parse_name(folder.rpartition("/")[2])), files)
