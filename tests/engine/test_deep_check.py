"""The deep check against the engine: what it wrote is whole, and damage is found where it is."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.corpus_cases import CASES, log_of
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.check.check_array import check
from chronotile.check.findings import LookedAt

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import S3Server

    from chronotile.check.findings import Finding

KEY = "0123456789abcdeF0123456789abcdeF"
CODES = ("fragment-damaged", "fragment-file-missing", "fragment-file-extra")
COMPRESSORS = (
    tiledb.GzipFilter,
    tiledb.ZstdFilter,
    tiledb.LZ4Filter,
    tiledb.Bzip2Filter,
    tiledb.RleFilter,
)
CHECKSUMS = (tiledb.ChecksumMD5Filter, tiledb.ChecksumSHA256Filter)
SHUFFLES = (tiledb.ByteShuffleFilter, tiledb.BitShuffleFilter)
NUMBERS = (
    tiledb.BitWidthReductionFilter,
    tiledb.DoubleDeltaFilter,
    tiledb.DeltaFilter,
    tiledb.XORFilter,
    *SHUFFLES,
)
TEXTS = (tiledb.RleFilter, tiledb.DictionaryFilter)
TYPES = {
    "int8": NUMBERS,
    "uint16": NUMBERS,
    "int32": NUMBERS,
    "int64": NUMBERS,
    "uint64": NUMBERS,
    "datetime64[D]": NUMBERS,
    "float32": SHUFFLES,
    "float64": SHUFFLES,
    "bool": SHUFFLES,
    "U": TEXTS,
    "ascii": TEXTS,
    "bytes": (),
}


def deep(array: str, key: str | None = None) -> list[Finding]:
    return [item for item in ct.open_log(array, key=key).check(deep=True) if item.code in CODES]


def pipeline(dice: random.Random, first: tuple[Any, ...]) -> Any:
    """Filters in an order that the engine can undo: one of values, a compressor, a checksum."""
    found = [
        dice.choice(kinds)() for kinds in (first, COMPRESSORS) if kinds and dice.random() < 0.6
    ]
    if len(found) == 2 and isinstance(found[1], tiledb.RleFilter):
        found.pop()
    if dice.random() < 0.5:
        found.insert(dice.randrange(len(found) + 1) if not first else len(found), CHECKSUMS[0]())
    return tiledb.FilterList([*found, *([CHECKSUMS[1]()] if dice.random() < 0.2 else [])])


def attribute(dice: random.Random, number: int) -> Any:
    kind = dice.choice(list(TYPES))
    is_var = kind in ("U", "ascii", "bytes")
    filters = pipeline(dice, TYPES[kind])
    if is_var and any(isinstance(one, tiledb.RleFilter) for one in list(filters)[1:]):
        filters = tiledb.FilterList([tiledb.ZstdFilter()])
    return tiledb.Attr(
        f"f{number}",
        dtype=kind,
        var=True if is_var else None,
        nullable=dice.random() < 0.4,
        filters=filters,
    )


def values(dice: random.Random, attr: Any, count: int, *, sparse: bool) -> Any:
    kind = attr.dtype.kind
    if attr.isvar:
        texts = ["x" * dice.randrange(4) + str(dice.randrange(5)) for _ in range(count)]
        return np.array([t.encode() if kind == "S" else t for t in texts], dtype=object)
    if kind == "M":
        made = np.arange(count).astype(attr.dtype)
    elif kind == "f":
        made = np.array([dice.random() for _ in range(count)], attr.dtype)
    else:
        made = np.array(
            [dice.randrange(100 if kind != "b" else 2) for _ in range(count)], attr.dtype
        )
    if attr.isnullable and sparse:
        return np.ma.array(made, mask=[dice.random() < 0.3 for _ in range(count)])
    return made


def random_array(folder: Path, seed: int) -> tuple[str, str | None]:
    dice = random.Random(seed)
    key = KEY if dice.random() < 0.2 else None
    array, sparse = EngineArray(folder / str(seed), key=key), dice.random() < 0.7
    by_text = sparse and dice.random() < 0.3
    attrs = [attribute(dice, number) for number in range(3)]
    filters = pipeline(dice, NUMBERS) if sparse else None
    dim = tiledb.Dim("x", domain=(0, 999), tile=dice.choice([7, 100]), filters=filters)
    if by_text:
        texts = dice.choice([None, tiledb.FilterList([dice.choice(TEXTS)(), tiledb.ZstdFilter()])])
        dim = tiledb.Dim("x", domain=(None, None), tile=None, dtype="ascii", filters=texts)
    more: dict[str, Any] = {"capacity": dice.choice([5, 100, 10000])} if sparse else {}
    positive = (tiledb.PositiveDeltaFilter, *NUMBERS)
    more |= {"offsets_filters": pipeline(dice, positive)}
    array.create(sparse=sparse, dims=[dim], attrs=attrs, **more)
    count = dice.choice([1, 20, 300])
    for moment in (10, 20):
        columns = {attr.name: values(dice, attr, count, sparse=sparse) for attr in attrs}
        with tiledb.open(array.uri, "w", timestamp=moment, ctx=array.ctx) as opened:
            if by_text:
                opened[np.array([f"k{n:04}".encode() for n in range(count)])] = columns
            elif sparse:
                opened[np.arange(count)] = columns
            else:
                opened[5 : 5 + count] = columns
    if dice.random() < 0.4:
        array.consolidate("fragments")
    return array.uri, key


def test_no_false_alarm_on_the_corpus() -> None:
    looked_at = LookedAt()
    for name in CASES:
        log = log_of(name)
        found = check(log.history, log.rules, log.store, deep=True, looked_at=looked_at)
        plain = {(f.code, f.path) for f in log.check()}
        fresh = [f for f in found if (f.code, f.path) not in plain and f.severity != "info"]
        assert fresh == [], name
    assert looked_at.opened == looked_at.files > 1000


@pytest.mark.parametrize("seeds", [range(start, start + 15) for start in (0, 15)], ids=str)
def test_no_false_alarm_on_random_filters(tmp_path: Path, seeds: range) -> None:
    """Many filters, types, dense and sparse, variable, nullable, encrypted."""
    opened = 0
    for seed in seeds:
        array, key = random_array(tmp_path, seed)
        log, looked_at = ct.open_log(array, key=key), LookedAt()
        found = check(log.history, log.rules, log.store, deep=True, looked_at=looked_at)
        assert [item for item in found if item.code in CODES] == [], seed
        assert looked_at.files == looked_at.opened, seed
        opened += looked_at.opened
    assert opened > 50


SEALS = {
    "none": (),
    "gzip": (tiledb.GzipFilter,),
    "zstd": (tiledb.ZstdFilter,),
    "lz4": (tiledb.LZ4Filter,),
    "bzip2": (tiledb.Bzip2Filter,),
    "rle": (tiledb.RleFilter,),
    "md5": (tiledb.ChecksumMD5Filter,),
    "sha256": (tiledb.ZstdFilter, tiledb.ChecksumSHA256Filter),
    "shuffled": (tiledb.ByteShuffleFilter, tiledb.ZstdFilter),
    "narrow": (tiledb.BitWidthReductionFilter, tiledb.LZ4Filter),
    "delta": (tiledb.DeltaFilter, tiledb.GzipFilter),
    "deltas": (tiledb.DoubleDeltaFilter,),
    "planes": (tiledb.BitShuffleFilter,),
    "encrypted": (),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_floats_tell_of_a_flipped_bit_and_of_nothing_else(
    tmp_path: Path, dtype: str
) -> None:
    dice = np.random.default_rng(7)
    odd = {"plain": (), "odd": (np.nan, np.inf, -np.inf), "huge": (np.finfo(dtype).max,)}
    for name, values in odd.items():
        array = EngineArray(tmp_path / name)
        array.create(attrs=[tiledb.Attr("a", dtype=dtype, filters=[])], capacity=33, upper=999)
        for moment in (1, 2):
            cells = dice.normal(size=400) * 10.0 ** dice.integers(-20, 20, size=400)
            if values:
                cells[dice.choice(400, 90, replace=False)] = dice.choice(np.array(values), 90)
            array.write_columns(moment, list(range(400)), {"a": cells.astype(dtype)})
        array.consolidate("fragments")
        assert deep(array.uri) == []
    file = min((tmp_path / "plain").glob("__fragments/*/a0.tdb"))
    data = file.read_bytes()
    width = np.dtype(dtype).itemsize
    first = np.frombuffer(data[20 : 20 + 16 * width], dtype)
    at = 20 + width * int(np.abs(first).argmax()) + width - 2  # the last bits of its exponent
    file.write_bytes(data[:at] + bytes([data[at] ^ 0xF0]) + data[at + 1 :])
    found, *_ = deep(str(tmp_path / "plain"))
    assert "expected values that add up to about" in found.message


@pytest.mark.parametrize("name", SEALS)
def test_a_flipped_bit_is_found_or_does_no_harm(tmp_path: Path, name: str) -> None:
    """Whole numbers: what no checksum and no compressor notices, the sum of the tile does."""
    key = KEY if name == "encrypted" else None
    array = EngineArray(tmp_path / "array", key=key)
    filters = tiledb.FilterList([kind() for kind in SEALS[name]])
    attr = tiledb.Attr("a", dtype=np.int32, filters=filters)
    array.create(attrs=[attr], capacity=20, offsets_filters=filters)
    array.write(1, {n: n // 3 for n in range(50)})
    before = array.answer()
    (file,) = array.folder.glob("__fragments/*/a0.tdb")
    data, dice, unnoticed = file.read_bytes(), random.Random(name), 0
    for at in range(0, len(data), max(1, len(data) // 80)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :])
        found = deep(array.uri, key)
        if found:
            assert {(f.code, f.severity) for f in found} == {("fragment-damaged", "error")}, at
            assert found[0].path.endswith("a0.tdb")
            assert "at byte" in found[0].message
        else:
            unnoticed += 1
            assert array.answer() == before, at
    # The streams of compressors have bits that mean nothing.
    assert unnoticed <= (0 if name in ("none", "rle", "md5", "sha256", "encrypted") else 10)


@pytest.mark.parametrize(
    "case", ["inside-sparse-v22", "inside-dense-v22", "inside-secret-v22", "old-inside-sparse-v5"]
)
def test_every_kind_of_cell_file_cut_longer_lost_or_strange(tmp_path: Path, case: str) -> None:
    array, key = CASES[case].copy_to(tmp_path), CASES[case].expected["key"]
    folder = tmp_path / "array"
    seen = set()
    for file in sorted(folder.rglob("*.tdb")):
        kind = file.name.rstrip("0123456789")
        if (file.name.startswith("__") and "coords" not in file.name) or (kind in seen):
            continue
        seen.add(kind)
        path, data = str(file.relative_to(folder)), file.read_bytes()
        for changed in (data[:-1], data + b"\0", b"\xff" * len(data)):
            file.write_bytes(changed)
            assert [(f.code, f.path) for f in deep(array, key)] == [("fragment-damaged", path)]
        file.unlink()
        assert [(f.code, f.path) for f in deep(array, key)] == [("fragment-file-missing", path)]
        file.write_bytes(data)
        stray = file.with_name("a99.tdb")
        stray.write_bytes(b"?")
        (found,) = deep(array, key)
        assert (found.code, found.severity) == ("fragment-file-extra", "warning")
        stray.unlink()
        assert deep(array, key) == []
    assert len(seen) >= 3


def test_texts_and_their_offsets(tmp_path: Path) -> None:
    """RLE and dictionaries hold lengths; elsewhere offsets must rise and stay inside."""
    array = EngineArray(tmp_path / "array")
    attrs = [
        tiledb.Attr("s", dtype="ascii", var=True, filters=[tiledb.RleFilter()]),
        tiledb.Attr("t", dtype="ascii", var=True, filters=[tiledb.DictionaryFilter()]),
        tiledb.Attr("u", dtype="U", var=True, filters=[]),
    ]
    array.create(attrs=attrs, offsets_filters=tiledb.FilterList([]))
    texts = np.array(["a", "a", "bcd", "", "bcd", "e" * 9] * 3, dtype=object)
    array.write_columns(1, list(range(18)), dict.fromkeys("stu", texts))
    assert deep(array.uri) == []
    (offsets,) = array.folder.glob("__fragments/*/a2.tdb")
    data = offsets.read_bytes()
    offsets.write_bytes(data[:-1] + b"\1")
    assert "expected offsets of cells that rise" in deep(array.uri)[0].message
    offsets.write_bytes(data)
    for name in ("a0_var.tdb", "a1_var.tdb"):
        (file,) = array.folder.glob(f"__fragments/*/{name}")
        data = file.read_bytes()
        file.write_bytes(data[:-10] + b"\x7f" + data[-9:])
        file.write_bytes(data[:20] + b"\xff" * 8 + data[28:])
        assert len(deep(array.uri)) == 1
        file.write_bytes(data)


@pytest.mark.parametrize("width", ["int8", "uint16", "int32", "int64", "datetime64[s]"])
def test_what_is_undone_is_what_was_written(tmp_path: Path, width: str) -> None:
    """Compared by the sums of tiles: any number of values, of any sign."""
    dice = random.Random(width)
    for number, kind in enumerate((*NUMBERS, tiledb.PositiveDeltaFilter)):
        array = EngineArray(tmp_path / f"{number}")
        attr = tiledb.Attr("a", dtype=width, filters=[kind()])
        array.create(attrs=[attr], capacity=dice.choice([8, 33, 4000]), upper=19_999)
        for moment, count in enumerate((1, 2, 3, 8, 41, 1000, 10_000)):
            values = np.array([dice.randrange(-100, 100) for _ in range(count)])
            if kind is tiledb.PositiveDeltaFilter or width == "uint16":
                values = np.sort(np.abs(values))
            with tiledb.open(array.uri, "w", timestamp=moment + 1, ctx=array.ctx) as opened:
                opened[np.arange(count)] = values.astype(width)
        log, looked_at = ct.open_log(array.uri), LookedAt()
        found = check(log.history, log.rules, log.store, deep=True, looked_at=looked_at)
        assert [f.message for f in found if f.code in CODES] == [], kind
        assert looked_at.files == looked_at.opened == 14


def test_pipelines_of_several_filters_of_values(tmp_path: Path) -> None:
    """As single-cell data is stored: deltas of deltas, narrower, then compressed."""
    stacked = [tiledb.DoubleDeltaFilter(), tiledb.BitWidthReductionFilter(), tiledb.ZstdFilter()]
    shuffled = [tiledb.ByteShuffleFilter(), tiledb.ZstdFilter()]
    dim = tiledb.Dim("x", domain=(0, 9999), tile=100, dtype=np.int64, filters=stacked)
    attrs = [
        tiledb.Attr("a", dtype=np.int32, filters=shuffled),
        tiledb.Attr("s", dtype="ascii", var=True, filters=[tiledb.ZstdFilter()]),
    ]
    array = EngineArray(tmp_path / "array")
    array.create(dims=[dim], attrs=attrs, capacity=500, offsets_filters=tiledb.FilterList(stacked))
    texts = np.array([b"x" * (n % 7) for n in range(3000)], dtype=object)
    array.write_columns(1, list(range(3000)), {"a": np.arange(3000) % 91, "s": texts})
    log, looked_at = ct.open_log(array.uri), LookedAt()
    assert not check(log.history, log.rules, log.store, deep=True, looked_at=looked_at)
    assert looked_at.opened == looked_at.files == 4


def test_a_fragment_in_a_bucket(s3: S3Server, bucket: str) -> None:
    """With ranged reads, and little memory for a file of many chunks."""
    from support.engine_arrays import s3_settings

    from chronotile.storage.store import open_store

    array = EngineArray(f"{bucket}/array", settings=s3_settings(s3))
    attr = tiledb.Attr("a", dtype=np.int64, filters=tiledb.FilterList([tiledb.NoOpFilter()]))
    array.create(attrs=[attr], upper=2_999_999, capacity=3_000_000)
    with tiledb.open(array.uri, "w", timestamp=1, ctx=array.ctx) as opened:
        opened[np.arange(1_500_000)] = np.arange(1_500_000)
    log, looked_at = ct.open_log(array.uri, storage_options=s3.options), LookedAt()
    reads: list[str] = []
    store = open_store(array.uri, s3.options).watched(
        lambda what, path: reads.append(path) if what == "read" else None
    )
    tracemalloc.start()
    assert not check(log.history, log.rules, store, deep=True, looked_at=looked_at)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert looked_at.bytes > 12_000_000
    assert sum(path.endswith("a0.tdb") for path in reads) == 3
    assert peak < 12 << 20


def test_a_filter_that_is_not_known_is_said(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array")
    scaled = tiledb.FloatScaleFilter(factor=1, offset=0, bytewidth=4)
    attr = tiledb.Attr("a", dtype=np.float64, filters=[scaled])
    array.create(attrs=[attr])
    with tiledb.open(array.uri, "w", timestamp=1, ctx=array.ctx) as opened:
        opened[[1, 2]] = np.array([1.0, 2.0])
    (found,) = ct.open_log(array.uri).check(deep=True)
    assert (found.code, found.severity) == ("cells-unopened", "info")
    assert found.message.startswith("1 file opened no further than the framing")
    assert "scale_float" in found.message
    (file,) = array.folder.glob("__fragments/*/a0.tdb")
    data = file.read_bytes()
    file.write_bytes(data[:8] + b"\xff" + data[9:])
    assert [f.code for f in deep(array.uri)] == ["fragment-damaged"]


def test_a_fragment_that_cannot_be_opened_is_said() -> None:
    """Of a version without a footer; and of an array whose key is not given."""
    (old,) = (f for f in log_of("era-one").check(deep=True) if f.code == "cells-unopened")
    assert old.message.startswith("2 fragments not opened: expected a footer")
    sealed = ct.open_log(str(CASES["inside-secret-v22"].array)).check(deep=True)
    (found,) = (f for f in sealed if f.code == "cells-unopened")
    assert found.message.startswith("4 fragments not opened")


def test_a_metadata_list_that_lies(tmp_path: Path) -> None:
    """Lists of the metadata are compared with the footer, and with the files."""
    from array import array

    from chronotile.check.deep import CellFileLayout, check_file
    from chronotile.errors import BadFileError
    from chronotile.format.datatypes import Datatype
    from chronotile.format.filters import Pipeline
    from chronotile.format.fragment_footer import CellFile
    from chronotile.storage.store import open_store

    store = open_store(str(tmp_path))
    tile = np.array([1], "<u8").tobytes() + np.array([4, 4, 0], "<u4").tobytes() + b"abcd"
    store.put_if_absent("a0.tdb", tile * 2)
    plain = Pipeline(filters=(), datatype=Datatype.INT8, cell_size=1, version=22)

    def problem(offsets: list[int], tiles: int = 2, cells: int = 4, size: int = 48) -> str | None:
        numbers = array("Q", offsets)
        layout = CellFileLayout(
            file=CellFile("a", "data", "a0.tdb", size, 0),
            offsets=numbers,
            pipeline=plain,
            num_tiles=tiles,
            cells=lambda _: cells,
            width=1,
        )
        try:
            check_file(store, "a0.tdb", layout, None)
        except BadFileError as error:
            return str(error)
        return None

    assert problem([0, 24]) is None
    for offsets in ([0], [0, 24, 24], [1, 24], [24, 0], [0, 25], [0, 1 << 63], [0, 48], [0, 16]):
        assert problem(offsets) is not None, offsets
    assert "3 tiles" in str(problem([0, 24], tiles=3))
    assert "expected a tile of 5 bytes" in str(problem([0, 24], cells=5))
    assert "expected a tile of 3 bytes" in str(problem([0, 24], cells=3))
