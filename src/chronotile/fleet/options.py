"""The options of the data source.

In: the text that Spark hands over. Out: `Options`, checked: an unknown option, or a value that
makes no sense, is an error before anything is read. Reads no file but those of URIs and of a key.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, cast, get_args

import pyarrow.csv
import pyarrow.parquet

from chronotile.check.findings import MOST, Reach
from chronotile.errors import BadTimeError, ChronotileError
from chronotile.fleet.array_tables import LARGEST_BIGINT, READABLE, SCHEMAS, STREAMED, WINDOWED
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.tag_entries import is_name
from chronotile.format.timestamps import to_ms
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.safe_text import did_you_mean
from chronotile.storage.store import open_file, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from chronotile.storage.store import Store


STORAGE = "storage."
"""The prefix of options for the storage."""
HIDDEN = "storage.secret."
"""The prefix that makes Spark hide an option in its plans, whatever its own name."""

KNOWN = {
    "path": "the root that the user gave to `load`",
    "paths": "several roots, as Spark hands them over",
    "table": "which table: " + ", ".join(READABLE),
    "arrays": "a Parquet, CSV or text file of array URIs, in place of roots",
    "column": "the column of that file: `array`",
    "inventory": "the manifest of an inventory of the bucket: nothing is listed",
    "fresh": "`true` asks each array of an inventory, with one request, for newer commits",
    "start": "the start of the window: ms, ISO-8601, `now`, or a tag of each array or of the group",
    "end": "the end of the window",
    "rows": "of `changes`: `json`, or `columns` with the fields of the one array that is the root",
    "cells": "`true` fills the columns of `fragments` that each cost a read of a footer",
    "sizes": "`true` fills the sizes of `arrays`: every file of each array is listed",
    "secret_key": "the 32 characters, or 64 hex digits, of the key of encrypted arrays",
    "key_file": "a file with the key, on every executor",
    "check": "how far findings go: `log`, `fragments` (their metadata too) or `deep` (cells too)",
    "maxfindings": "findings of one code and severity that are listed of an array",
    "push_filters": "`true` takes filters from Spark; its own switch must be on, too",
    "state": "streams only, and needed there: a folder for what has been read",
    "maxarrayspertrigger": "streams only: the most arrays that one batch reads",
}
"""Option -> its meaning."""

OF_STREAMS = ("state", "maxarrayspertrigger")
"""Options that only a stream takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The checked options; `KNOWN` explains them."""

    roots: tuple[str, ...] = ()
    table: str = "commits"
    arrays: str | None = None
    column: str = "array"
    start: int | str = 0
    """In ms, or a tag's name: `tag_windows` looks it up."""
    end: int | str = MAX_TIMESTAMP
    rows: str = "json"
    row_columns: pa.Schema | None = None
    """Of changed rows in columns: those columns, as Spark was promised."""
    columns: tuple[str, ...] = ()
    """The columns that the user chose; none for all."""
    cells: bool = False
    sizes: bool = False
    key: bytes | None = field(default=None, repr=False)
    key_file: str | None = None
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    check: Reach = "log"
    inventory: str | None = None
    fresh: bool = False
    max_findings: int = MOST
    push_filters: bool = False
    state: str | None = None
    max_arrays: int | None = None

    @property
    def storage_options(self) -> dict[str, str]:
        """The options of the storage, as `open_log` takes them."""
        return dict(self.storage)

    def open_log(self, store: Store) -> Log:
        """Read the log of an array, with the labels of enumerations if rows are read too."""
        labels = self.table == "changes"
        return Log(read_history(store, key=self.read_key(), labels=labels), store)

    def open_array(self, uri: str) -> Log:
        """Read the log of an array at a place."""
        return self.open_log(open_store(uri, self.storage_options))

    def asked(self, version: str) -> str:
        """Tell, as JSON, what the rows of an array depend on."""
        has_key = self.key is not None or self.key_file is not None
        same = {"has_key": has_key, "max_findings": self.max_findings, "version": version}
        return json.dumps(
            {"check": self.check, "cells": self.cells, "sizes": self.sizes, "same": same}
        )

    def read_key(self) -> bytes | None:
        """Give the key; the calling process reads the key file."""
        return self.key if self.key_file is None else _key_in(self.key_file, self.storage)

    def key_at_driver(self) -> bytes | None:
        """Give the key if this process has it: the file may be on executors alone."""
        try:
            return self.read_key()
        except ChronotileError:
            return None

    def uris(self) -> tuple[str, ...]:
        """Give the arrays in the file that the option `arrays` names."""
        if self.arrays is None:
            return ()
        return read_uris(self.arrays, self.column, self.storage_options)


@lru_cache(maxsize=16)
def holds_all(had: str | None, wanted: str) -> bool:
    """Tell whether rows hold all that is asked for now, by what `asked` gave then and gives now.

    >>> holds_all(Options(sizes=True).asked("1"), Options().asked("1"))
    True
    >>> holds_all(Options().asked("1"), Options(sizes=True).asked("1"))
    False
    """
    reach = [*get_args(Reach)]
    then, now = json.loads(had or "{}"), json.loads(wanted)
    return (
        then.get("same") == now["same"]
        and reach.index(then["check"]) >= reach.index(now["check"])
        and all(then[name] or not now[name] for name in ("cells", "sizes"))
    )


def read_options(given: Mapping[str, str], *, streaming: bool = False) -> Options:
    """Check the options that a user gave, as text; case does not matter in their names.

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
            hint = did_you_mean(repr(name), map(repr, [*KNOWN, STORAGE]))
            words = hint or f": {', '.join(KNOWN)}, {STORAGE}*"
            raise _wrong(name, f"expected a known option{words}")
    given_key = options.get("secret_key")
    reach = _one_of("check", options.get("check", "log"), get_args(Reach))
    checked = Options(
        roots=_roots(options),
        table=_one_of("table", options.get("table", "commits"), tuple(READABLE)),
        arrays=options.get("arrays"),
        column=options.get("column", "array"),
        start=_time("start", options.get("start"), 0),
        end=_time("end", options.get("end"), MAX_TIMESTAMP),
        rows=_one_of("rows", options.get("rows", "json"), ("json", "columns")),
        cells=_flag("cells", options),
        sizes=_flag("sizes", options),
        key=_key(given_key.encode(), "secret_key") if given_key is not None else None,
        key_file=options.get("key_file"),
        storage=tuple(sorted(storage.items())),
        check=cast("Reach", reach),
        inventory=options.get("inventory"),
        fresh=_flag("fresh", options),
        max_findings=_count("maxfindings", options.get("maxfindings"), "findings") or MOST,
        push_filters=_flag("push_filters", options),
        state=options.get("state"),
        max_arrays=_count("maxarrayspertrigger", options.get("maxarrayspertrigger")),
    )
    _check(checked, streaming=streaming)
    return checked


def _check(options: Options, *, streaming: bool) -> None:
    if not options.roots and options.arrays is None and options.inventory is None:
        raise _wrong("path", "expected a root in load(…), or the option 'arrays', found neither")
    _check_inventory(options, streaming=streaming)
    if options.roots and options.arrays is not None:
        raise _wrong("arrays", "expected a root or a table of arrays, found both")
    start, end = options.start, options.end
    if isinstance(start, int) and isinstance(end, int) and start > end:
        raise _wrong("start", f"the window ends before it starts: {start} to {end}")
    if (start, end) != (0, MAX_TIMESTAMP) and options.table not in WINDOWED:
        tables = ", ".join(WINDOWED)
        raise _wrong("start", f"expected a window only with {tables}, found {options.table}")
    if options.rows != "json" and options.table != "changes":
        raise _wrong("rows", f"expected it only with changes, found {options.table}")
    if options.key is not None and options.key_file is not None:
        raise _wrong("key_file", "expected one key, found the key itself as well")
    if streaming and options.table not in STREAMED:
        tables = ", ".join(STREAMED)
        raise _wrong("table", f"expected one of {tables}, found {options.table}")
    if streaming and options.state is None:
        raise _wrong("state", "expected a folder for what the stream has read, found none")
    for name, value in (("state", options.state), ("maxArraysPerTrigger", options.max_arrays)):
        if not streaming and value is not None:
            raise _wrong(name, "expected it only with readStream")


def _check_inventory(options: Options, *, streaming: bool) -> None:
    if options.inventory is None:
        if options.fresh:
            raise _wrong("fresh", "expected it only with the option 'inventory'")
        return
    if streaming or options.arrays is not None:
        found = "a stream" if streaming else "the option 'arrays' as well"
        raise _wrong("inventory", f"expected it with a batch over a bucket, found {found}")
    if options.table not in SCHEMAS:
        tables = ", ".join(SCHEMAS)
        raise _wrong("inventory", f"expected a table among {tables}, found {options.table}")


def _roots(options: Mapping[str, str]) -> tuple[str, ...]:
    roots = [options["path"]] if options.get("path") else []
    try:
        return (*roots, *json.loads(options.get("paths", "[]")))
    except ValueError:
        raise _wrong("paths", "expected a JSON list of roots") from None


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise _wrong(name, f"expected one of {', '.join(allowed)}, found {value!r}")
    return value


def _flag(name: str, options: Mapping[str, str]) -> bool:
    return _one_of(name, options.get(name, "false").lower(), ("true", "false")) == "true"


def _time(name: str, value: str | None, default: int) -> int | str:
    """Give a time in ms; a word that is none stays as it is, as it may be a tag."""
    if value is None:
        return default
    try:
        time = to_ms(value, f"option {name!r}")
    except BadTimeError:
        if is_name(value.strip()):
            return value.strip()
        raise
    return time if time <= LARGEST_BIGINT else MAX_TIMESTAMP


def _count(name: str, value: str | None, what: str = "arrays") -> int | None:
    if value is not None and (not value.isdigit() or not 0 < int(value) < 1 << 31):
        raise _wrong(name, f"expected a number of {what}, found {value!r}")
    return None if value is None else int(value)


def _key(value: bytes, name: str) -> bytes:
    if len(value) == 64:
        try:
            return bytes.fromhex(value.decode("ascii"))
        except ValueError:
            pass
    if len(value) != 32:
        # The message never shows the value itself.
        raise _wrong(name, f"expected 32 bytes or 64 hex digits, found {len(value)} bytes")
    return value


@lru_cache(maxsize=4)
def _key_in(place: str, storage: tuple[tuple[str, str], ...]) -> bytes:
    """Give the key in a file, which each process reads once, and not once for each array."""
    store, name = open_file(place, dict(storage))
    data = store.read(name, limit=1 << 10)
    return _key(data.rstrip(b"\r\n") if len(data) > 32 else data, "key_file")


def _wrong(name: str, problem: str) -> ChronotileError:
    return ChronotileError(f"option {name!r}", problem)


def read_uris(
    place: str, column: str, storage_options: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    r"""Give the array URIs in a Parquet file, a folder of them, a CSV file or a text file.

    Raises:
        ChronotileError: The file, or the column, does not exist.

    >>> from chronotile.storage.store import open_store
    >>> open_store("memory:doc-uris").put_if_absent("list.txt", b"s3://lake/a\ns3://lake/b\n")
    >>> read_uris("memory://doc-uris/list.txt", "array")
    ('s3://lake/a', 's3://lake/b')
    """
    if place.endswith((".parquet", ".csv", ".txt")):
        store, *paths = open_file(place, storage_options)
    else:
        store = open_store(place, storage_options)
        paths = [file.path for file in store.list_dir().files if file.path.endswith(".parquet")]
    if not paths:
        raise ChronotileError(place, "expected .parquet, .csv or .txt, found none")
    uris: list[str] = []
    for path in paths:
        data = store.read(path)
        if path.endswith(".txt"):
            uris += map(str.strip, data.decode().splitlines())
            continue
        reader = pyarrow.csv.read_csv if path.endswith(".csv") else pyarrow.parquet.read_table
        table = reader(io.BytesIO(data))
        if column not in table.column_names:
            names = ", ".join(table.column_names)
            raise ChronotileError(place, f"expected a column {column!r}, found {names}")
        uris += table[column].to_pylist()
    return tuple(dict.fromkeys(uri for uri in uris if uri))


def choose(options: Options, rows: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """Give the chosen columns of some rows."""
    return rows.select([*options.columns]) if options.columns else rows
