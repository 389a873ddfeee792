"""The options of the data source.

In: the text that Spark hands over. Out: `Options`, checked: an unknown option, or a value that
makes no sense, is an error before anything is read. Touches no storage but for a table of URIs
and a key that are given as files.
"""

from __future__ import annotations

import difflib
import io
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow.csv
import pyarrow.parquet

from chronotile.errors import ChronotileError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import parse_time
from chronotile.spark.tables import LAST, SCHEMAS, STREAMED, WINDOWED
from chronotile.storage.place import find_place
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

STORAGE = "storage."
"""What options for the storage start with."""
HIDDEN = "storage.secret."
"""Likewise, of those whose own name does not tell Spark to hide them in its plans."""

KNOWN = {
    "path": "the root that `load` was given",
    "paths": "several of them, as Spark hands them over",
    "table": "which table: " + ", ".join(SCHEMAS),
    "arrays": "a Parquet, CSV or text file of array URIs, in place of roots",
    "column": "the column of that file; `array`, if it is left out",
    "start": "the start of the window: ms, ISO-8601 or `now`",
    "end": "its end",
    "secret_key": "the 32 characters, or 64 hex digits, of the key of encrypted arrays",
    "key": "the same; Spark hides an option by its name, and shows this one in its plans",
    "key_file": "a file with the key, on every executor",
    "partition_bytes": "how much of commit files one task reads",
    "push_filters": "`true` takes filters from Spark; its own switch must be on, too",
    "state": "streams only: a folder for what has been read, where an offset would be too long",
}
"""Option -> what it means."""

PARTITION_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user asked the data source for."""

    roots: tuple[str, ...] = ()
    table: str = "commits"
    arrays: str | None = None
    column: str = "array"
    start: int = 0
    end: int = MAX_TIMESTAMP
    key: bytes | None = field(default=None, repr=False)
    key_file: str | None = None
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    partition_bytes: int = PARTITION_BYTES
    push_filters: bool = False
    state: str | None = None

    @property
    def storage_options(self) -> dict[str, str]:
        """As `open_log` takes them."""
        return dict(self.storage)

    def read_key(self) -> bytes | None:
        """The key; a key file is read where this is called."""
        return self.key if self.key_file is None else _key_in(self.key_file, self.storage)

    def uris(self) -> tuple[str, ...]:
        """The arrays that a table of URIs names."""
        if self.arrays is None:
            return ()
        return read_uris(self.arrays, self.column, self.storage_options)


def read_options(given: Mapping[str, str], *, streaming: bool = False) -> Options:
    """Checks what a user gave.

    Args:
        given: Options as text; case does not matter in their names.
        streaming: Whether they are for a stream.

    Raises:
        ChronotileError: An option is unknown, missing, or has a value that makes no sense.

    >>> read_options({"path": "s3://lake", "table": "arrays"}).roots
    ('s3://lake',)
    >>> read_options({"path": "s3://lake", "tabel": "arrays"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.errors.ChronotileError: option 'tabel': ... did you mean 'table'?
    """
    options = {name.lower(): value for name, value in given.items()}
    storage = {
        name.removeprefix(HIDDEN).removeprefix(STORAGE): value
        for name, value in options.items()
        if name.startswith(STORAGE)
    }
    for name in options:
        if name not in KNOWN and not name.startswith(STORAGE):
            raise _unknown(name)
    found = Options(
        roots=_roots(options),
        table=_one_of("table", options.get("table", "commits"), tuple(SCHEMAS)),
        arrays=options.get("arrays"),
        column=options.get("column", "array"),
        start=_time("start", options.get("start"), 0),
        end=_time("end", options.get("end"), MAX_TIMESTAMP),
        key=_given_key(options),
        key_file=options.get("key_file"),
        storage=tuple(sorted(storage.items())),
        partition_bytes=_size("partition_bytes", options.get("partition_bytes")),
        push_filters=_one_of(
            "push_filters", options.get("push_filters", "false").lower(), ("true", "false")
        )
        == "true",
        state=options.get("state"),
    )
    _check(found, streaming=streaming)
    return found


def _check(options: Options, *, streaming: bool) -> None:
    if not options.roots and options.arrays is None:
        raise _wrong("path", "expected a root in load(…), or the option 'arrays', found neither")
    if options.roots and options.arrays is not None:
        raise _wrong("arrays", "expected a root or a table of arrays, found both")
    if options.start > options.end:
        problem = f"expected a window that ends after it starts, found {options.start}"
        raise _wrong("start", f"{problem} to {options.end}")
    windowed = options.start > 0 or options.end < MAX_TIMESTAMP
    if windowed and options.table not in WINDOWED:
        problem = f"expected a window only with {', '.join(WINDOWED)}, found {options.table}"
        raise _wrong("start", problem)
    if options.key is not None and options.key_file is not None:
        raise _wrong("key_file", "expected one key, found the key itself as well")
    if streaming and options.table not in STREAMED:
        problem = f"expected {' or '.join(STREAMED)}, which only grow, found {options.table}"
        raise _wrong("table", problem)
    if not streaming and options.state is not None:
        raise _wrong("state", "expected it only with readStream")


def _roots(options: Mapping[str, str]) -> tuple[str, ...]:
    roots = [options["path"]] if options.get("path") else []
    if "paths" in options:
        try:
            several = json.loads(options["paths"])
        except ValueError:
            several = None
        if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
            raise _wrong("paths", "expected a JSON list of roots")
        roots += several
    return tuple(roots)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise _wrong(name, f"expected one of {', '.join(allowed)}, found {value!r}")
    return value


def _time(name: str, value: str | None, default: int) -> int:
    if value is None:
        return default
    time = parse_time(value, f"option {name!r}")
    return time if time <= LAST else MAX_TIMESTAMP


def _size(name: str, value: str | None) -> int:
    if value is None:
        return PARTITION_BYTES
    if not value.isdigit() or not 0 < int(value) <= LAST:
        raise _wrong(name, f"expected a number of bytes, found {value!r}")
    return int(value)


def _given_key(options: Mapping[str, str]) -> bytes | None:
    names = [name for name in ("secret_key", "key") if name in options]
    if len(names) > 1:
        raise _wrong("key", "expected one key, found the option 'secret_key' as well")
    return _key(options[names[0]].encode(), names[0]) if names else None


def _key(value: bytes, name: str) -> bytes:
    if len(value) == 64:
        try:
            return bytes.fromhex(value.decode("ascii"))
        except ValueError:
            pass
    if len(value) != 32:
        # The value itself is never shown.
        raise _wrong(name, f"expected 32 bytes or 64 hex digits, found {len(value)} bytes")
    return value


@lru_cache(maxsize=4)
def _key_in(place: str, storage: tuple[tuple[str, str], ...]) -> bytes:
    """The key in a file, which is read once in a process, and not once an array."""
    folder, _, name = find_place(place).uri.rpartition("/")
    data = open_store(folder or "/", dict(storage)).read(name, limit=1 << 10)
    return _key(data.rstrip(b"\r\n") if len(data) > 32 else data, "key_file")


def _unknown(name: str) -> ChronotileError:
    near = difflib.get_close_matches(name, [*KNOWN, STORAGE], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f": {', '.join(KNOWN)}, {STORAGE}*"
    return _wrong(name, f"expected a known option{hint}")


def _wrong(name: str, problem: str) -> ChronotileError:
    return ChronotileError(f"option {name!r}", problem)


def read_uris(
    place: str, column: str, storage_options: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    r"""The array URIs in a Parquet file, a folder of them, a CSV file or a text file.

    Raises:
        ChronotileError: There is no such file, or no such column in it.

    >>> from chronotile.storage.store import open_store
    >>> open_store("memory:doc-uris").put_if_absent("list.txt", b"s3://lake/a\ns3://lake/b\n")
    >>> read_uris("memory://doc-uris/list.txt", "array")
    ('s3://lake/a', 's3://lake/b')
    """
    folder, _, name = find_place(place).uri.rpartition("/")
    if name.endswith((".parquet", ".csv", ".txt")):
        files = {name: open_store(folder or "/", storage_options).read(name)}
    else:
        store = open_store(place, storage_options)
        listed = [e.path for e in store.list_dir().files if e.path.endswith(".parquet")]
        files = {path: store.read(path) for path in listed}
    if not files:
        raise ChronotileError(place, "expected .parquet, .csv or .txt, found none")
    found: list[str] = []
    for path, data in files.items():
        if path.endswith(".txt"):
            found += [line.strip() for line in data.decode().splitlines() if line.strip()]
            continue
        reader = pyarrow.csv.read_csv if path.endswith(".csv") else pyarrow.parquet.read_table
        table = reader(io.BytesIO(data))
        if column not in table.column_names:
            held = ", ".join(table.column_names)
            raise ChronotileError(place, f"expected a column {column!r}, found {held}")
        found += [uri for uri in table[column].to_pylist() if uri]
    return tuple(dict.fromkeys(found))
