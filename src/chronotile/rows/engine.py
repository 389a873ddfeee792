"""The door to the engine: its C interface, and the settings that open an array in it.

In: a store and a key, or a URI and settings; a window, buffers. Out: buffers filled or written, or
the engine's error in one of ours. Knows no Arrow and no schema. Nothing is loaded before `Engine`
is made: the engine is the extra `chronotile[engine]`. No other module loads it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from chronotile.errors import ChronotileError, ReadError
from chronotile.safe_text import without_secrets
from chronotile.storage.engine_access import engine_access, engine_uri

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from chronotile.storage.store import Store

READ, WRITE = 0, 1
ROW_MAJOR, GLOBAL_ORDER, UNORDERED = 0, 2, 3
COMPLETED, INCOMPLETE = 1, 3
TIMES = "__timestamps"
"""The name under which the engine gives the time that each cell was written."""

MEMORY = 1 << 30
"""Bytes that one read of the engine may take for tiles."""

_BASE = {
    # The engine's newer merge of fragments can crash the process (F17).
    "sm.query.sparse_global_order.preprocess_tile_merge": "0",
    "sm.mem.total_budget": str(MEMORY),
    # Variable lengths as Arrow has them.
    "sm.var_offsets.bitsize": "64",
    "sm.var_offsets.extra_element": "true",
    "sm.var_offsets.mode": "bytes",
}
_TEXT = ("utf-8", "surrogateescape")
"""How a key becomes text, and bytes again: all 256 of them may be in it."""


class NoEngineError(ChronotileError, ImportError):
    """The engine is not installed."""

    hint = "pip install 'chronotile[engine]'"


class EngineError(ReadError):
    """The engine refused; the words are its own."""


class Buffers(NamedTuple):
    """The room for the cells of one field."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.uint64] | None = None
    """Where cells vary in length: the start of each, and the end of the last."""
    validity: npt.NDArray[np.uint8] | None = None


class Range(NamedTuple):
    """Coordinates of one dimension, both ends included, as raw bytes."""

    dimension: int
    low: bytes
    high: bytes
    is_var: bool = False


def engine_settings(store: Store | None, key: bytes | None) -> dict[str, str]:
    """Return the engine's settings for an array; without a store, for one on a disk.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("s3://lake/a", {"aws_region": "eu-west-1"})
    >>> engine_settings(store, None)["vfs.s3.region"]
    'eu-west-1'
    """
    settings = dict(_BASE)
    if key is not None:
        settings |= {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key.decode(*_TEXT)}
    return settings if store is None else settings | engine_access(store)


@cache
def _library() -> ctypes.CDLL:
    shown = np.get_printoptions()
    try:
        tiledb = importlib.import_module("tiledb.libtiledb")
        np.set_printoptions(**shown)  # the engine's package changes how numbers are printed
    except ImportError as cause:
        problem = "TileDB is not installed; to install it: pip install 'chronotile[engine]'"
        raise NoEngineError("tiledb", problem) from cause
    # The extension brings the library along: its handle finds the library's functions too.
    return ctypes.CDLL(str(tiledb.__file__))


def require_engine() -> None:
    """Raise `NoEngineError` unless the engine is installed."""
    _library()


class _Context:
    """A context of the engine: its threads and its settings."""

    def __init__(self, settings: tuple[tuple[str, str], ...]) -> None:
        self._library = _library()
        self.handle = ctypes.c_void_p()
        config, error = ctypes.c_void_p(), ctypes.c_void_p()
        self._library.tiledb_config_alloc(ctypes.byref(config), ctypes.byref(error))
        try:
            for name, value in settings:
                done = self._library.tiledb_config_set(
                    config, name.encode(), value.encode(*_TEXT), ctypes.byref(error)
                )
                if done != 0:
                    raise EngineError("engine", f"TileDB does not take its setting {name}")
            if self._library.tiledb_ctx_alloc(config, ctypes.byref(self.handle)) != 0:
                raise EngineError("engine", "TileDB does not start with its settings")
        finally:
            self._library.tiledb_config_free(ctypes.byref(config))

    def __del__(self) -> None:
        if self.handle:
            self._library.tiledb_ctx_free(ctypes.byref(self.handle))


@lru_cache(maxsize=2)
def _context(settings: tuple[tuple[str, str], ...], _process: int) -> _Context:
    return _Context(settings)


class Engine:
    """The engine, with one array open in it.

    Args:
        where: The array, as users know it: for messages.
        uri: The place to open.
        settings: Of the engine; they may hold secrets, which no message repeats.
    """

    def __init__(self, where: str, uri: str, settings: Mapping[str, str]) -> None:
        self._where, self._uri = where, uri
        self._secrets = [
            value for name, value in settings.items() if "key" in name or "token" in name
        ]
        self._library = _library()
        # Threads do not survive a fork: each process has contexts of its own.
        self._shared = _context(tuple(sorted(settings.items())), os.getpid())
        self._context, self._array = self._shared.handle, ctypes.c_void_p()
        self._is_open = False
        self._call("tiledb_array_alloc", uri.encode(), ctypes.byref(self._array))

    @classmethod
    def at(cls, store: Store, key: bytes | None) -> Self:
        """Make the engine for an array where our storage finds it."""
        return cls(store.uri, engine_uri(store), engine_settings(store, key))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._library.tiledb_array_free(ctypes.byref(self._array))

    def _call(self, function: str, *arguments: Any) -> None:
        if getattr(self._library, function)(self._context, *arguments) == 0:
            return
        error, text = ctypes.c_void_p(), ctypes.c_char_p()
        self._library.tiledb_ctx_get_last_error(self._context, ctypes.byref(error))
        self._library.tiledb_error_message(error, ctypes.byref(text))
        words = (text.value or b"nothing").decode("utf-8", "replace").split("\n", 1)[0]
        self._library.tiledb_error_free(ctypes.byref(error))
        words = without_secrets(words, self._secrets).replace(f"{self._uri}/", "")
        raise EngineError(self._where, f"TileDB answered: {words[:500]}")

    def open(self, start: int, end: int, mode: int = READ) -> None:
        """Open the array at a window; again for another window."""
        self.close()
        self._call("tiledb_array_set_open_timestamp_start", self._array, ctypes.c_uint64(start))
        self._call("tiledb_array_set_open_timestamp_end", self._array, ctypes.c_uint64(end))
        self._call("tiledb_array_open", self._array, ctypes.c_int(mode))
        self._is_open = True

    def close(self) -> None:
        """Close the array, if it is open."""
        if self._is_open:
            self._is_open = False
            self._call("tiledb_array_close", self._array)

    def consolidate(self, fragments: Sequence[str]) -> None:
        """Merge fragments of the array, which must not be open, into one more; by their names."""
        names = (ctypes.c_char_p * len(fragments))(*(name.encode() for name in fragments))
        count = ctypes.c_uint64(len(fragments))
        # Without settings of its own it takes those of the context.
        self._call("tiledb_array_consolidate_fragments", self._uri.encode(), names, count, None)

    @contextlib.contextmanager
    def query(self, mode: int, layout: int, ranges: Sequence[Range] = ()) -> Iterator[Query]:
        """Make a query on the open array, limited to ranges of some dimensions."""
        query, subarray = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("tiledb_query_alloc", self._array, ctypes.c_int(mode), ctypes.byref(query))
        try:
            self._call("tiledb_query_set_layout", query, ctypes.c_int(layout))
            if ranges:
                self._call("tiledb_subarray_alloc", self._array, ctypes.byref(subarray))
                for one in ranges:
                    self._add_range(subarray, one)
                self._call("tiledb_query_set_subarray_t", query, subarray)
            yield Query(self._call, query)
        finally:
            if ranges:
                self._library.tiledb_subarray_free(ctypes.byref(subarray))
            self._library.tiledb_query_free(ctypes.byref(query))

    def _add_range(self, subarray: ctypes.c_void_p, one: Range) -> None:
        at, low, high = ctypes.c_uint32(one.dimension), one.low, one.high
        if one.is_var:
            sizes = ctypes.c_uint64(len(low)), ctypes.c_uint64(len(high))
            self._call("tiledb_subarray_add_range_var", subarray, at, low, sizes[0], high, sizes[1])
        else:
            self._call("tiledb_subarray_add_range", subarray, at, low, high, None)


class Query:
    """One query; made by `Engine.query`."""

    def __init__(self, call: Any, handle: ctypes.c_void_p) -> None:
        self._call = call
        self._handle = handle
        self._sizes: dict[str, list[ctypes.c_uint64]] = {}
        self._held: list[Buffers] = []

    def set(self, name: str, buffers: Buffers) -> None:
        """Give the query the room, or the cells, of one field."""
        self._sizes[name], parts = [], ("data", "offsets", "validity")
        self._held.append(buffers)  # the engine keeps only addresses
        for part, buffer in zip(parts, buffers, strict=True):
            size = ctypes.c_uint64(0 if buffer is None else buffer.nbytes)
            self._sizes[name].append(size)
            if buffer is not None:
                place = ctypes.c_void_p(buffer.ctypes.data)
                function = f"tiledb_query_set_{part}_buffer"
                self._call(function, self._handle, name.encode(), place, ctypes.byref(size))

    def submit(self) -> int:
        """Run the query; return its status."""
        self._call("tiledb_query_submit", self._handle)
        status = ctypes.c_int(-1)
        self._call("tiledb_query_get_status", self._handle, ctypes.byref(status))
        self._held.clear()
        return status.value

    def sizes(self, name: str) -> tuple[int, int, int]:
        """Return the bytes of data, offsets and validity that the last run gave of one field."""
        data, offsets, validity = (size.value for size in self._sizes[name])
        return data, offsets, validity

    def finalize(self) -> None:
        """End a write: its fragment is there then."""
        self._call("tiledb_query_finalize", self._handle)
