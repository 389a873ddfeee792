"""The deep check: cell files hold what the metadata of their fragment says.

In: a store, a history, and folders of fragments. Out: the damage of each fragment, and how far its
files were opened. Opens cells, and never shows one; changes nothing. A name from inside a file is
only compared with listed names. A cell file is read in blocks and opened chunk by chunk, so memory
does not grow with the file.

The checks, in this order: missing and additional files; the number of tiles by the domain, by the
R-tree and by each list of the metadata; where tiles start and end; chunks; checksums and
decompression; how many bytes, offsets and NULLs each tile has.

A tile is a number of chunks, and the chunks; a chunk is its original, filtered and metadata length,
its metadata, and the filtered bytes. Each tile ends where the next one begins, or with the file.
"""

from __future__ import annotations

import struct
from array import array
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.errors import (
    BadFileError,
    ChronotileError,
    KeyNeededError,
    TooLargeError,
    WrongKeyError,
)
from chronotile.format import tiles
from chronotile.format.datatypes import Datatype
from chronotile.format.filters import AES_256_GCM, CEILING, Chunk, Filter, Pipeline, undo
from chronotile.format.fragment_footer import COORDS, METADATA
from chronotile.format.fragment_metadata import MetadataTiles
from chronotile.history.read_footers import FooterReader, StoredFooter
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.check.findings import LookedAt
    from chronotile.format.fragment_footer import CellFile
    from chronotile.format.fragment_metadata import Numbers
    from chronotile.format.fragment_size import FragmentSize
    from chronotile.format.schema import Schema
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store


_LEN_METADATA = 1 << 28
"""The largest metadata that is read whole."""
_BLOCK = 4 << 20
"""Bytes that one ranged read takes."""
_NUMBER, _DOUBLE = struct.Struct("<Q"), struct.Struct("<d")
_LAST_DIGIT = 2**-51
"""How far each step of a sum of floats may be off, as a share of the sum of their magnitudes."""
_OVERFLOWS = 1e300
_COUNT, _CHUNK = struct.Struct("<Q"), struct.Struct("<III")


class Damage(NamedTuple):
    """The damage of one file of a fragment."""

    code: str
    file: str
    """Relative to the array."""
    message: str


class DeepCheck:
    """A check of the fragments of one array, one by one."""

    def __init__(self, store: Store, history: History, looked_at: LookedAt) -> None:
        self.store, self.key, self.looked_at = store, history.key, looked_at
        self.unopened: dict[str, list[str]] = {}
        """Filter that is not known, or other reason -> cell files of which it kept the content."""
        self.closed: dict[str, list[str]] = {}
        """Reason -> metadata of fragments of which no cell file was looked at."""
        self._reader = FooterReader(store, history)

    def check(self, path: str) -> Iterator[Damage]:
        """Find what is wrong with one fragment that plain checks found whole."""
        ((_, stored),) = self._reader.read([path.rpartition("/")[2]], own=True)
        if isinstance(stored, ChronotileError):
            self.closed.setdefault(stored.problem, []).append(f"{path}/{METADATA}")
            return
        yield from self._extra_files(stored)
        try:
            layouts = self._layouts(stored)
        except (KeyNeededError, TooLargeError) as error:
            self.closed.setdefault(error.problem, []).append(stored.where)
            return
        except (BadFileError, WrongKeyError) as error:
            yield _damaged(stored.where, error)
            return
        for layout in layouts:
            yield from self._cell_file(f"{stored.path}/{layout.file.name}", layout)

    def _extra_files(self, stored: StoredFooter) -> Iterator[Damage]:
        """Find files that the metadata does not name."""
        footer = stored.footer
        named = {METADATA, *(file.name for file in footer.cell_files)}
        empty = {f"{f.stem}{end}.tdb" for f in footer.fields for end in ("", "_var", "_validity")}
        folder = self.store.list_dir(stored.path, sizes=True)
        for entry in folder.files:
            name = entry.path.rpartition("/")[2]
            if name not in named and not (name in empty and not entry.size):
                message = f"a file of {entry.size} bytes that the fragment's metadata does not name"
                yield Damage("fragment-file-extra", entry.path, message)

    def _layouts(self, stored: StoredFooter) -> list[CellFileLayout]:
        """Find out what each cell file must hold; the lists of the metadata must agree."""
        where, footer = stored.where, stored.footer
        if stored.metadata_size > _LEN_METADATA:
            raise TooLargeError(where, f"metadata of {stored.metadata_size} bytes")
        data = self.store.read(where)
        size, metadata = stored.measure(), MetadataTiles(data, where, self.key)
        if not footer.dense:
            levels = metadata.r_tree(footer, stored.schema).levels
            leaves = levels[-1].count if levels else 0
            if leaves != size.tiles:
                problem = f"expected an R-tree of {size.tiles} tiles, found one of {leaves}"
                raise BadFileError(where, problem, footer.ofs_r_tree)
        layouts = [_layout(stored, size, metadata, file) for file in footer.cell_files]
        header = tiles.read_header(data, footer.ofs_r_tree)
        if header is None or not header.encryption:
            return layouts
        return [replace(one, pipeline=_encrypted(one.pipeline)) for one in layouts]

    def _cell_file(self, path: str, layout: CellFileLayout) -> Iterator[Damage]:
        self.looked_at.files += 1
        self.looked_at.bytes += layout.file.size
        try:
            reason = check_file(self.store, path, layout, self.key)
        except MissingObjectError:
            yield Damage("fragment-file-missing", path, "the file is missing")
        except KeyNeededError as error:
            self.unopened.setdefault(error.problem, []).append(path)
        except BadFileError as error:
            yield _damaged(path, error)
        else:
            if reason is None:
                self.looked_at.opened += 1
            else:
                self.unopened.setdefault(reason, []).append(path)


def _damaged(path: str, error: BadFileError | WrongKeyError) -> Damage:
    offset = error.offset if isinstance(error, BadFileError) else None
    message = error.problem if offset is None else f"at byte {offset}: {error.problem}"
    return Damage("fragment-damaged", path, message)


def _layout(
    stored: StoredFooter, size: FragmentSize, metadata: MetadataTiles, file: CellFile
) -> CellFileLayout:
    """Work out what one cell file must hold."""
    footer, schema, at = stored.footer, stored.schema, file.number
    whole = size.cells // size.tiles if footer.dense and size.tiles else schema.capacity
    last = whole if footer.dense else footer.last_cells
    values = _values(schema, file.field)
    pipeline, width, is_empty = values, values.cell_size, False
    is_var = file.name.endswith("_var.tdb")
    offsets = footer.ofs_var_tile_offsets if is_var else footer.ofs_tile_offsets
    null_counts = sums = None
    if file.part == "validity":
        pipeline, width = _other(schema, schema.validity_filters, Datatype.UINT8), 1
        offsets = footer.ofs_validity_tile_offsets
        # The engine counts only the cells of a dense tile that were written, and no NULLs of cells
        # that vary in length.
        if not (footer.dense or values.is_var):
            null_counts = _figures(metadata, footer.ofs_tile_null_counts, at)
    elif file.part == "offsets":
        pipeline, width = _other(schema, schema.offsets_filters, Datatype.UINT64), 8
        is_empty = values.holds_lengths
    elif file.part == "data" and not footer.dense and _adds_up(schema, file.field):
        sums = _figures(metadata, footer.ofs_tile_sums, at)
    has_sizes = is_var or (file.part == "offsets" and bool(footer.var_file_sizes[at]))
    return CellFileLayout(
        file=file,
        offsets=metadata.numbers(offsets, at) or array("Q"),
        var_sizes=metadata.numbers(footer.ofs_var_tile_sizes, at) if has_sizes else None,
        null_counts=null_counts,
        sums=sums,
        pipeline=pipeline,
        num_tiles=size.tiles,
        cells=lambda number: last if number == size.tiles - 1 else whole,
        width=None if is_var else width,
        is_empty=is_empty,
    )


def _figures(metadata: MetadataTiles, offsets: tuple[int, ...], at: int) -> Numbers | None:
    """Read figures without which the engine reads cells too; None if they cannot be read."""
    with suppress(BadFileError, WrongKeyError):
        return metadata.numbers(offsets, at)
    return None


def _adds_up(schema: Schema, name: str) -> bool:
    """Return True if the engine's sum of a tile can be compared.

    Its sums leave out NULLs.
    """
    field = schema.field(name)
    if field is None or field.nullable or field.cell_val_num != 1:
        return False
    return field.datatype.code is not None


def _values(schema: Schema, name: str) -> Pipeline:
    """Return the filters of a field's values."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFileLayout:
    """The tiles of one cell file, by the schema and the footer."""

    file: CellFile
    offsets: Numbers
    """Where each tile starts."""
    var_sizes: Numbers | None = None
    """Bytes of the values in each tile, of a field whose cells vary in length."""
    null_counts: Numbers | None = None
    """Cells without a value in each tile of a file of validity, as the engine counted them."""
    sums: Numbers | None = None
    """The bits of the sum of each tile's values, if it can be compared."""
    pipeline: Pipeline
    num_tiles: int
    cells: Callable[[int], int]
    """Cells in a tile, by its number."""
    width: int | None
    """Bytes of a cell before the filters; None where `var_sizes` has them by tile."""
    is_empty: bool = False
    """Whether its tiles hold nothing, as the values hold their own lengths."""

    def tile_size(self, number: int) -> int:
        """Return the bytes of a tile before the filters."""
        if self.is_empty:
            return 0
        if self.width is None:
            assert self.var_sizes is not None  # its field varies in length
            return self.var_sizes[number]
        return self.cells(number) * self.width


def check_file(store: Store, path: str, layout: CellFileLayout, key: bytes | None) -> str | None:
    """Check one cell file, to its content where that can be opened.

    Args:
        store: Where the array is.
        path: The file, relative to the array.
        layout: The tiles that it must hold.
        key: The array's key, if its cells are encrypted.

    Returns:
        Why its content stayed closed, or some of it; None if all was opened.

    Raises:
        BadFileError: It is damaged; the error has the byte.
    """
    ends = _tile_ends(layout, path)
    blocks = _Blocks(store, path, layout.file.size)
    stopped = None
    start = 0
    for number, end in enumerate(ends):
        content = _TileContent(layout, number)
        for at, chunk in _chunks(blocks, start, end, layout.tile_size(number), path):
            if isinstance(chunk, str):
                stopped = chunk
                continue
            try:
                undone = undo(layout.pipeline, chunk, path, key)
            except (BadFileError, WrongKeyError) as error:
                raise BadFileError(path, error.problem, at) from error
            if undone.stopped_at is not None:
                stopped = stopped or f"the filter {undone.stopped_at} is not known here"
            else:
                content.add(undone.data, undone.lengths, at, path)
        if stopped is None:
            content.end(start, path)
        start = end
    return stopped


def _tile_ends(layout: CellFileLayout, path: str) -> list[int]:
    """Find where each tile ends: offsets must rise from 0 on, and leave room for each tile."""
    offsets, size = layout.offsets, layout.file.size
    if len(offsets) != layout.num_tiles:
        problem = f"expected the starts of {layout.num_tiles} tiles in the metadata"
        raise BadFileError(path, f"{problem}, found {len(offsets)}")
    sizes = layout.var_sizes
    if sizes is not None and len(sizes) != layout.num_tiles:
        problem = f"expected the sizes of {layout.num_tiles} tiles in the metadata"
        raise BadFileError(path, f"{problem}, found {len(sizes)}")
    starts = offsets.tolist()
    if starts and starts[0]:
        raise BadFileError(path, f"expected its first tile at byte 0, found it at {starts[0]}")
    ends = [*starts[1:], size]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if end < start + _COUNT.size:
            problem = f"expected tile {number} to end before byte {size}"
            raise BadFileError(path, f"{problem}, found it from {start} to {end}", min(start, size))
        if end > size:
            raise BadFileError(path, f"expected tile {number + 1} inside of it, found {end}", size)
    return ends


def _chunks(
    blocks: _Blocks, start: int, end: int, size: int, path: str
) -> Iterator[tuple[int, Chunk | str]]:
    """Read the chunks of one tile, each with its byte; a text stands for one that is too large."""
    (count,) = _COUNT.unpack(blocks.read(start, _COUNT.size))
    at, left = start + _COUNT.size, size
    if count > (end - at) // _CHUNK.size:
        problem = f"expected at most {(end - at) // _CHUNK.size} chunks in a tile"
        raise BadFileError(path, f"{problem} of {end - start} bytes, found {count}", start)
    for _ in range(count):
        if at + _CHUNK.size > end:
            raise BadFileError(path, f"expected a chunk of {_CHUNK.size} bytes, found the end", at)
        original, filtered, metadata = _CHUNK.unpack(blocks.read(at, _CHUNK.size))
        body = at + _CHUNK.size
        if filtered + metadata > end - body:
            problem = f"expected a chunk that ends in its tile, at byte {end}"
            raise BadFileError(path, f"{problem}, found {body + filtered + metadata}", at)
        if original > left:
            problem = f"expected a tile of {size} bytes in its chunks"
            raise BadFileError(path, f"{problem}, found {size - left + original} or more", at)
        left -= original
        if max(original, filtered + metadata) > CEILING:
            yield at, f"a chunk of {max(original, filtered + metadata)} bytes"
        else:
            head = blocks.read(body, metadata)
            yield at, Chunk(original, head, blocks.read(body + metadata, filtered))
        at = body + metadata + filtered
    if at != end:
        raise BadFileError(path, f"expected a tile that ends at byte {end}, found its end", at)
    if left:
        problem = f"expected a tile of {size} bytes in its chunks, found {size - left}"
        raise BadFileError(path, problem, start)


class _TileContent:
    """The content of a tile, as far as it can be wrong whatever its values are."""

    def __init__(self, layout: CellFileLayout, number: int) -> None:
        self.layout, self.number = layout, number
        self.part = layout.file.part
        self.is_offsets = self.part == "offsets" and not layout.is_empty
        self.last, self.nulls, self.magnitude = 0, 0, 0.0
        self.sum: float = 0
        """An int, but of floats."""
        self.is_first = True

    def add(self, data: bytes, lengths: int | None, at: int, path: str) -> None:
        """Look at the content of one chunk."""
        if lengths is not None and lengths != self.layout.cells(self.number):
            problem = f"expected {self.layout.cells(self.number)} texts in a tile"
            raise BadFileError(path, f"{problem}, found {lengths}", at)
        if self.is_offsets:
            self._add_offsets(data, at, path)
        elif self.part == "validity":
            self.nulls += data.count(0)
        elif self.layout.sums is not None:
            datatype = self.layout.pipeline.datatype
            values = np.frombuffer(data, f"<{datatype.code}", len(data) // datatype.size)
            with np.errstate(over="ignore", invalid="ignore"):
                self.magnitude += float(np.abs(values.astype(np.float64)).sum())
                if datatype.is_float:
                    self.sum += float(values.astype(np.float64).sum())
                else:
                    self.sum += int(values.astype(np.int64).sum())

    def _add_offsets(self, data: bytes, at: int, path: str) -> None:
        values = np.frombuffer(data, "<u8", len(data) // 8)
        if not len(values):
            return
        sizes = self.layout.var_sizes
        end = sizes[self.number] if sizes is not None else 0
        first, last = int(values[0]), int(values[-1])
        if (
            (self.is_first and first)
            or first < self.last
            or last > end
            or bool((values[1:] < values[:-1]).any())
        ):
            problem = f"expected offsets of cells that rise from {self.last} to {end} at most"
            raise BadFileError(path, f"{problem}, found others", at)
        self.is_first, self.last = False, last

    def end(self, at: int, path: str) -> None:
        """Look at a tile as a whole."""
        counts = self.layout.null_counts
        if counts is not None and len(counts) == self.layout.num_tiles:
            expected = counts[self.number]
            if expected != self.nulls:
                problem = f"expected {expected} cells without a value in a tile"
                raise BadFileError(path, f"{problem}, found {self.nulls}", at)
        sums = self.layout.sums
        # The engine keeps no sum that leaves 64 bits on its way.
        is_kept = sums is not None and len(sums) == self.layout.num_tiles
        if sums is not None and is_kept and self.layout.pipeline.datatype.is_float:
            (total,) = _DOUBLE.unpack(_NUMBER.pack(sums[self.number]))
            # The order of the steps decides about the last digits, and sums stop at the largest.
            doubt = _LAST_DIGIT * self.layout.cells(self.number) * self.magnitude
            is_near = abs(self.sum - total) <= doubt
            if abs(total) < _OVERFLOWS and self.magnitude < _OVERFLOWS and not is_near:
                problem = f"expected values that add up to about {total:g} in a tile"
                raise BadFileError(path, f"{problem}, found {self.sum:g}", at)
        elif sums is not None and is_kept and self.magnitude < 1 << 62:
            expected = sums[self.number]
            if (self.sum - expected) % (1 << 64):
                problem = f"expected values that add up to {expected}, modulo 2^64, in a tile"
                raise BadFileError(path, f"{problem}, found {self.sum}", at)


class _Blocks:
    """A file of which one block is in memory."""

    def __init__(self, store: Store, path: str, size: int) -> None:
        self._store, self._path, self._size = store, path, size
        self._start, self._data = 0, b""

    def read(self, start: int, length: int) -> bytes:
        """Read bytes of the file; the caller stays inside of it."""
        if not length:
            return b""
        if not self._start <= start or start + length > self._start + len(self._data):
            end = min(max(start + length, start + _BLOCK), self._size)
            data = self._store.read_range(self._path, start, end, size=self._size)
            if len(data) != end - start:
                problem = f"expected {end - start} bytes, found {len(data)}"
                raise BadFileError(self._path, problem, start)
            self._start, self._data = start, data
        offset = start - self._start
        return self._data[offset : offset + length]
