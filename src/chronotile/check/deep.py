"""The deep check: whether each fragment's cell files hold what its metadata says.

In: a store, a history, and folders of fragments. Out: for each fragment the damage that was found,
and how far its files were opened. Opens cells, and never shows one; changes nothing. A name from
inside a file is only compared with listed names.

Looked at, in this order: missing and additional files; the number of tiles by the domain, by the
R-tree and by each list of the metadata; where tiles start and end; chunks; checksums and
decompression; how many bytes, offsets and NULLs each tile has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.cell_files import Layout, check_file
from chronotile.check.looked_at import LookedAt
from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    TooLargeError,
    WrongKeyError,
)
from chronotile.format.datatypes import Datatype
from chronotile.format.filters import AES_256_GCM, Filter, Pipeline
from chronotile.format.fragment_footer import COORDS, METADATA
from chronotile.format.fragment_metadata import decode_tile_lists
from chronotile.format.fragment_size import FragmentMeasure, FragmentSize
from chronotile.history.read_footers import FooterReader, StoredFooter
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.format.fragment_footer import Footer
    from chronotile.format.fragment_metadata import FileTiles, TileLists
    from chronotile.format.schema import Schema
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store

_LEN_METADATA = 1 << 28
"""The largest metadata that is read whole."""


class Damage(NamedTuple):
    """What is wrong with a file of a fragment."""

    code: str
    file: str
    """Relative to the array."""
    message: str


class DeepCheck:
    """Checks the fragments of one array, one by one."""

    def __init__(
        self,
        store: Store,
        history: History,
        looked_at: LookedAt | None = None,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        self.store, self.key, self.on_bytes = store, history.key, on_bytes
        self.looked_at = looked_at or LookedAt()
        self.unopened: dict[str, list[str]] = {}
        """Filter that is not known, or other reason -> cell files of which it kept the content."""
        self.closed: dict[str, list[str]] = {}
        """Reason -> metadata of fragments of which no cell file was looked at."""
        self._reader = FooterReader(store, history)
        self._measures: dict[str, FragmentMeasure] = {}

    def check(self, path: str) -> Iterator[Damage]:
        """What is wrong with one fragment that plain checks found whole.

        Raises:
            StorageError: The storage failed.
        """
        ((_, stored),) = self._reader.read([path.rpartition("/")[2]], own=True)
        if isinstance(stored, ChronotileError):
            self.closed.setdefault(stored.problem, []).append(f"{path}/{METADATA}")
            return
        yield from self._extra_files(stored)
        try:
            size, lists = self._lists(stored)
        except (KeyNeededError, TooLargeError) as error:
            self.closed.setdefault(error.problem, []).append(stored.where)
            return
        except (BadFileError, WrongKeyError) as error:
            yield _damaged(stored.where, error)
            return
        for tiles in lists.files:
            yield from self._cell_file(stored, size, lists, tiles)

    def _extra_files(self, stored: StoredFooter) -> Iterator[Damage]:
        """Files that the metadata does not name."""
        footer = stored.footer
        named = {METADATA, *(name for name, _ in footer.files)}
        empty = {f"{f.stem}{end}.tdb" for f in footer.fields for end in ("", "_var", "_validity")}
        folder = self.store.list_dir(stored.path, sizes=True)
        for entry in folder.files:
            name = entry.path.rpartition("/")[2]
            if name not in named and not (name in empty and not entry.size):
                message = f"a file of {entry.size} bytes that the fragment's metadata does not name"
                yield Damage("fragment-file-extra", entry.path, message)

    def _lists(self, stored: StoredFooter) -> tuple[FragmentSize, TileLists]:
        """The size of a fragment, and where its tiles start, compared with each other."""
        where, footer, schema = stored.where, stored.footer, stored.schema
        if stored.metadata_size > _LEN_METADATA:
            raise TooLargeError(where, f"metadata of {stored.metadata_size} bytes")
        data = self.store.read(where)
        if stored.schema_file not in self._measures:
            self._measures[stored.schema_file] = FragmentMeasure(schema)
        size = self._measures[stored.schema_file].measure(footer, where)
        lists = decode_tile_lists(data, footer, schema, where, key=self.key)
        if lists.leaves is not None and lists.leaves != size.tiles:
            problem = f"expected an R-tree of {size.tiles} tiles, found one of {lists.leaves}"
            raise BadFileError(where, problem, footer.ofs_r_tree)
        return size, lists

    def _cell_file(
        self, stored: StoredFooter, size: FragmentSize, lists: TileLists, tiles: FileTiles
    ) -> Iterator[Damage]:
        path = f"{stored.path}/{tiles.file.name}"
        layout = _layout(stored.footer, stored.schema, size, lists, tiles)
        self.looked_at.files += 1
        self.looked_at.bytes += tiles.file.size
        try:
            opened = check_file(self.store, path, layout, self.key, self.on_bytes)
        except MissingObjectError:
            yield Damage("fragment-file-missing", path, "it is named, and no file is there")
        except KeyNeededError as error:
            self._leave(error.problem, path)
        except BadFileError as error:
            yield _damaged(path, error)
        else:
            if opened.stopped_at is None:
                self.looked_at.opened += 1
            else:
                self._leave(opened.stopped_at, path)

    def _leave(self, reason: str, path: str) -> None:
        self.unopened.setdefault(reason, []).append(path)


def _damaged(path: str, error: BadFileError | WrongKeyError) -> Damage:
    offset = error.offset if isinstance(error, BadFileError) else None
    message = error.problem if offset is None else f"at byte {offset}: {error.problem}"
    return Damage("fragment-damaged", path, message)


def _layout(
    footer: Footer, schema: Schema, size: FragmentSize, lists: TileLists, tiles: FileTiles
) -> Layout:
    """What one cell file must hold."""
    whole = size.cells // size.tiles if footer.dense and size.tiles else schema.capacity
    last = whole if footer.dense else footer.last_cells
    values = _values(schema, tiles.file.field)
    pipeline, width, is_empty = values, values.cell_size, False
    if tiles.file.part == "validity":
        pipeline, width = _other(schema, schema.validity_filters, Datatype.UINT8), 1
    elif tiles.file.part == "offsets":
        pipeline, width = _other(schema, schema.offsets_filters, Datatype.UINT64), 8
        is_empty = values.holds_lengths
    if lists.encrypted:
        pipeline = _encrypted(pipeline)
    is_var = tiles.file.name.endswith("_var.tdb")
    return Layout(
        tiles=_counted(tiles, values, footer, schema),
        pipeline=pipeline,
        num_tiles=size.tiles,
        cells=lambda number: last if number == size.tiles - 1 else whole,
        width=None if is_var else width,
        is_empty=is_empty,
    )


def _counted(tiles: FileTiles, values: Pipeline, footer: Footer, schema: Schema) -> FileTiles:
    """What the engine counted, less what it leaves out or counts otherwise.

    It counts only the cells of a dense tile that were written, and no NULLs of cells that vary in
    length. Sums leave out NULLs, and those of floats depend on the order of the cells.
    """
    field = schema.field(tiles.file.field)
    if footer.dense or values.is_var:
        return tiles._replace(null_counts=None, sums=None)
    is_whole = values.datatype.code is not None and not values.datatype.is_float
    if not is_whole or field is None or field.nullable or field.cell_val_num != 1:
        return tiles._replace(sums=None)
    return tiles


def _values(schema: Schema, name: str) -> Pipeline:
    """The filters of a field's values."""
    field = schema.field(name)
    if field is not None:
        return Pipeline(
            filters=field.filters,
            datatype=field.datatype,
            cell_size=field.datatype.size if field.is_var else field.cell_size or 1,
            version=schema.version,
            is_var=field.is_var,
        )
    if name == COORDS:
        sizes = [dimension.cell_size or 0 for dimension in schema.dimensions]
        return Pipeline(
            filters=schema.coords_filters,
            datatype=schema.dimensions[0].datatype,
            cell_size=sum(sizes),
            version=schema.version,
        )
    return _other(schema, schema.coords_filters, Datatype.UINT64)


def _other(schema: Schema, filters: tuple[Filter, ...], datatype: Datatype) -> Pipeline:
    size = datatype.size
    return Pipeline(filters=filters, datatype=datatype, cell_size=size, version=schema.version)


def _encrypted(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, filters=(*pipeline.filters, AES_256_GCM))
