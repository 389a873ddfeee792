"""Deletes, judged by the engine: it writes them, reads ours, and its rows are the truth."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.condition_truth import removed
from support.strategies import ORDER_OPS, PLAIN_OPS, SET_OPS
from tiledb.sparse_array import _setitem_impl_sparse as write_cells

from chronotile.conditions.codec import decode, encode
from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.side_effects import also_keeps, also_removes, engine_refuses
from chronotile.conditions.text import to_text
from chronotile.conditions.tree import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Not,
    Op,
    leaves,
    member_of,
    negate,
)
from chronotile.format import cell_values, tiles
from chronotile.format.datatypes import Datatype
from chronotile.format.schema import Schema, decode_enumeration, decode_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.schema import Field

WRITTEN, DELETED, LATER = 10, 20, 30
ROWS = 40
SEEDS = range(10)
CASES_PER_SEED = 40
COLOURS = ["red", "green", "blüe", "it's"]
SIZES = ["small", "medium", "large"]
NAN = float("nan")

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
UNLISTED = ("bool", "uint8", "int16")
"""Types of which the engine's Python package takes no lists."""
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")


def pool(dtype: str) -> list[Any]:
    """Few values of each type, so that comparisons meet them."""
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return [n for n in (0, 1, 2, 3, -1, int(info.min), int(info.max)) if n >= info.min]
    if dtype.startswith("float"):
        return [NAN, -0.0, 0.0, 0.1, 1.5, -2.5, float("inf"), float("-inf")]
    if dtype == "bool":
        return [False, True]
    if dtype.startswith(("datetime64", "timedelta64")):
        return [-100, -1, 0, 1, 2, 20_000]
    texts: dict[str, list[Any]] = {
        "U": ["", "a", "ab", "b", "é", "z\n'\"\\"],
        "ascii": ["", "a", "ab", "b", "~"],
        "S": ["", "a", "ab", "b", "~"],
        "S1": [b"a", b"b", b"\xff"],
        "colours": COLOURS,
        "sizes": SIZES,
    }
    return texts[dtype]


KINDS: dict[str, str] = {
    **{name: name for name in (*INTEGERS, "float32", "float64", "bool")},
    **{f"date_{unit}": f"datetime64[{unit}]" for unit in UNITS},
    "time_s": "timedelta64[s]",
    "time_ns": "timedelta64[ns]",
    "text": "U",
    "ascii": "ascii",
    "char": "S",
    "one char": "S1",
    "colour": "colours",
    "size": "sizes",
}
ATTRIBUTES: dict[str, tuple[str, bool]] = {
    **{name: (kind, False) for name, kind in KINDS.items()},
    **{f"n_{name}": (kind, True) for name, kind in KINDS.items() if kind != "S1"},
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An array of the engine with a field of every type, and its rows as we understand them."""

    uri: str
    schema: Schema
    rows: tuple[dict[str, object], ...]

    def field(self, name: str) -> Field:
        field = self.schema.field(name)
        assert field is not None
        return field

    def kept(self) -> set[int]:
        with tiledb.open(self.uri, timestamp=LATER) as array:
            return {int(d) for d in array.query(attrs=["int8"])[:]["d"]}

    @contextlib.contextmanager
    def with_delete(self, stored: Condition) -> Iterator[None]:
        """Puts a delete of ours beside the engine's commits, for a while."""
        path = Path(self.uri, "__commits", f"__{DELETED}_{DELETED}_{'0' * 31}1_22.del")
        path.write_bytes(tiles.encode(encode(stored), version=22))
        try:
            yield
        finally:
            path.unlink()

    def kept_after(self, stored: Condition) -> set[int]:
        with self.with_delete(stored):
            return self.kept()

    def kept_after_engine(self, text: str) -> tuple[set[int], Condition, bytes]:
        """Lets the engine delete; gives the rows that stay, and what it stored."""
        with tiledb.open(self.uri, "d", timestamp=DELETED) as array:
            array.query(cond=text).submit()
        (path,) = Path(self.uri, "__commits").glob("*.del")
        try:
            payload = tiles.decode(path.read_bytes(), path.name).payload
            return self.kept(), decode(payload, path.name), payload
        finally:
            path.unlink()

    def kept_by_us(self, stored: Condition) -> set[int]:
        return {int(str(row["d"])) for row in self.rows if not removed(stored, row, self.schema)}


def read_schema(uri: str) -> Schema:
    """The schema in force, read by this package alone."""
    folder = Path(uri, "__schema")
    path = max(p for p in folder.iterdir() if p.is_file())
    schema = decode_schema(tiles.decode(path.read_bytes(), path.name).payload, path.name)
    found = [
        decode_enumeration(tiles.decode(p.read_bytes(), p.name).payload, p.name)
        for p in (folder / "__enumerations").iterdir()
    ]
    return schema.with_enumerations(found)


def make_attribute(name: str, kind: str, nullable: bool) -> tiledb.Attr:
    if kind in ("colours", "sizes"):
        dtype = "int8" if kind == "colours" else "uint16"
        return tiledb.Attr(name, dtype=dtype, nullable=nullable, enum_label=kind)
    return tiledb.Attr(name, dtype=kind, nullable=nullable, var=kind in ("U", "ascii", "S"))


def column(kind: str, cells: list[Any]) -> np.ndarray[Any, Any]:
    """The cells as the engine's Python package takes them; NULL is any value here."""
    filled = [pool(kind)[0] if cell is None else cell for cell in cells]
    if kind in ("colours", "sizes"):
        return np.array([pool(kind).index(c) for c in filled], "i1" if kind == "colours" else "u2")
    if kind in ("U", "ascii"):
        return np.array(filled, dtype="O")
    if kind == "S":
        return np.array([c.encode() for c in filled], dtype="O")
    if kind.startswith(("datetime64", "timedelta64")):
        return np.array(filled, dtype="i8").astype(kind)
    return np.array(filled, dtype=kind)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    uri = str(tmp_path_factory.mktemp("deletes") / "array")
    schema = tiledb.ArraySchema(
        tiledb.Domain(
            tiledb.Dim("d", domain=(0, 1000), tile=10, dtype=np.int64),
            tiledb.Dim("key", dtype="ascii"),
        ),
        attrs=[make_attribute(name, *how) for name, how in ATTRIBUTES.items()],
        enums=[
            tiledb.Enumeration("colours", False, COLOURS),
            tiledb.Enumeration("sizes", True, SIZES),
        ],
        sparse=True,
    )
    tiledb.Array.create(uri, schema)
    rng = random.Random(1)
    rows: list[dict[str, object]] = []
    for d in range(ROWS):
        row: dict[str, object] = {"d": d, "key": rng.choice(["", "a", "b", "cc"])}
        for name, (kind, nullable) in ATTRIBUTES.items():
            row[name] = None if nullable and rng.random() < 0.25 else rng.choice(pool(kind))
        rows.append(row)
    with tiledb.open(uri, "w", timestamp=WRITTEN) as array:
        cells = {name: [row[name] for row in rows] for name in ATTRIBUTES}
        write_cells(
            array,
            (np.arange(ROWS), np.array([str(row["key"]).encode() for row in rows], dtype="O")),
            {name: column(ATTRIBUTES[name][0], cells[name]) for name in ATTRIBUTES},
            {
                name: np.array([cell is not None for cell in cells[name]], dtype=np.uint8)
                for name, (_, nullable) in ATTRIBUTES.items()
                if nullable
            },
        )
    made = Sample(uri=uri, schema=read_schema(uri), rows=tuple(rows))
    assert made.kept() == set(range(ROWS))
    return made


def choices(name: str) -> list[Any]:
    if name == "d":
        return [0, 5, ROWS // 2, ROWS]
    return ["", "a", "b", "cc", "zz"] if name == "key" else pool(ATTRIBUTES[name][0])


# Predicates that both this package and the engine's Python package can read.


def shared_text(rng: random.Random, depth: int = 0) -> str:
    if depth < 3 and rng.random() < 0.45:
        word = rng.choice([" and ", " or "])
        parts = [shared_text(rng, depth + 1) for _ in range(rng.randint(2, 3))]
        return word.join(f"({part})" for part in parts)
    name = rng.choice([name for name in ("d", "key", *ATTRIBUTES) if "time_" not in name])
    kind, nullable = ATTRIBUTES.get(name, ("", False))
    shown = f'attr("{name}")' if " " in name else name
    known = ["a", "b"] if kind == "S1" else choices(name)
    known = [c for c in known if not (isinstance(c, float) and c != c)]
    known = [c for c in known if not isinstance(c, float) or abs(c) != float("inf")]
    if kind in ("U", "ascii", "S") and nullable and rng.random() < 0.1:
        return f"{shown} {rng.choice(['==', '!='])} None"
    listed = [c for c in known if not isinstance(c, int | float) or str(c)[0] != "-"]
    if kind not in UNLISTED and rng.random() < 0.25:
        chosen = [rng.choice(listed) for _ in range(rng.randint(1, 3))]
        # A list of empty text alone makes the engine write what it cannot read.
        chosen = chosen if any(c != "" for c in chosen) else [*chosen, "a"]
        return f"{shown} {rng.choice(['in', 'not in'])} {chosen!r}"
    ops = ["==", "!="] if kind == "colours" else ["<", "<=", ">", ">=", "==", "!="]
    text = f"{shown} {rng.choice(ops)} {rng.choice(known)!r}"
    return f"not {text}" if rng.random() < 0.1 else text


def same_bytes(ours: Condition, theirs: Condition, schema: Schema) -> bool:
    """Equal, but for the order of labels in a list, which the engine does not keep."""

    def settled(node: Compare) -> Compare:
        field = schema.field(node.field)
        if node.op.is_set and field is not None and field.enumeration is not None:
            return member_of(node.field, node.op, tuple(sorted(set(node.members))))
        return dataclasses.replace(node, is_empty_text=False)

    one, other = (tuple(map(settled, leaves(node))) for node in (ours, theirs))
    return one == other and len(encode(ours)) >= len(encode(theirs))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_engine_and_we_delete_the_same_cells(sample: Sample, seed: int) -> None:
    rng = random.Random(seed)
    outcomes = set()
    for _ in range(CASES_PER_SEED):
        text = shared_text(rng)
        stored = negate(parse_predicate(text, sample.schema))
        theirs, their_tree, payload = sample.kept_after_engine(text)
        if any(
            leaf.op.is_set and sample.field(leaf.field).enumeration is not None
            for leaf in leaves(stored)
        ):
            assert same_bytes(stored, their_tree, sample.schema), text
        else:
            assert encode(stored) == payload, text
        assert sample.kept_after(stored) == theirs, text
        assert sample.kept_by_us(stored) == theirs, text
        outcomes.add(len(theirs))
    assert len(outcomes) > 5


# Trees of any shape, as another program could have stored them.


def any_leaf(rng: random.Random, sample: Sample) -> Compare:
    name = rng.choice(["d", "key", *ATTRIBUTES])
    field = sample.field(name)
    raw = [cell_values.encode(field, value) for value in choices(name)]
    if field.enumeration_name is not None:
        raw += [(field.datatype.code == "b" and b"\xff") or b"\xff\xff"]
    chance = rng.random()
    if chance < 0.08:
        return Compare(field=name, op=rng.choice([Op.ALWAYS_TRUE, Op.ALWAYS_FALSE]))
    if chance < 0.3:
        members = tuple(rng.choice(raw) for _ in range(rng.randint(1, 4)))
        if any(members):
            return member_of(name, rng.choice(SET_OPS), members)
    if field.is_var and chance < 0.4:
        return Compare(field=name, op=rng.choice(PLAIN_OPS))
    return Compare(field=name, op=rng.choice(PLAIN_OPS), value=rng.choice(raw))


def any_tree(rng: random.Random, sample: Sample, depth: int = 0) -> Condition:
    if depth >= 3 or rng.random() < 0.4:
        return any_leaf(rng, sample)
    parts = tuple(any_tree(rng, sample, depth + 1) for _ in range(rng.randint(2, 3)))
    return AllOf(parts=parts) if rng.random() < 0.5 else AnyOf(parts=parts)


@pytest.mark.parametrize("seed", SEEDS)
def test_we_know_what_the_engine_makes_of_any_stored_condition(sample: Sample, seed: int) -> None:
    rng = random.Random(1000 + seed)
    outcomes = set()
    for _ in range(CASES_PER_SEED):
        stored = any_tree(rng, sample)
        assert engine_refuses(stored, sample.schema) == ()
        kept = sample.kept_after(stored)
        assert sample.kept_by_us(stored) == kept, to_text(stored, sample.schema)
        outcomes.add(len(kept))
    assert len(outcomes) > 5


# The table: what a delete does to NULL, NaN and the empty string.

WHOLE = frozenset(range(6))


@functools.cache
def small_rows() -> tuple[dict[str, object], ...]:
    columns: dict[str, tuple[object, ...]] = {
        "d": (0, 1, 2, 3, 4, 5),
        "ni": (None, 1, 2, 3, 4, 5),
        "f": (NAN, -0.0, 0.0, 1.5, float("inf"), 2.5),
        "nf": (NAN, None, 1.0, 1.5, float("inf"), 2.5),
        "s": ("", "a", "b", "ab", "é", "z"),
        "ns": (None, "", "b", "ab", "é", "z"),
        "c3": ("abc", "abd", "a", "zzz", "b", "c"),
        "e": ("lo", "mid", "hi", "lo", "mid", "hi"),
    }
    return tuple({name: cells[d] for name, cells in columns.items()} for d in range(6))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    uri = str(tmp_path_factory.mktemp("table") / "array")
    attributes = [
        tiledb.Attr("int8", dtype="int8"),
        tiledb.Attr("ni", dtype="int32", nullable=True),
        tiledb.Attr("f", dtype="float64"),
        tiledb.Attr("nf", dtype="float32", nullable=True),
        tiledb.Attr("s", dtype="U", var=True),
        tiledb.Attr("ns", dtype="U", var=True, nullable=True),
        tiledb.Attr("c3", dtype="S3"),
        tiledb.Attr("e", dtype="int8", enum_label="sizes"),
        tiledb.Attr("blob", dtype="uint8", var=True, nullable=True),
    ]
    dimension = tiledb.Dim("d", domain=(0, 1000), tile=10, dtype=np.int64)
    schema = tiledb.ArraySchema(
        tiledb.Domain(dimension),
        attrs=attributes,
        enums=[tiledb.Enumeration("sizes", False, ["lo", "mid", "hi"])],
        sparse=True,
    )
    tiledb.Array.create(uri, schema)
    rows = small_rows()

    def cells(name: str, kind: str, instead: object) -> np.ndarray[Any, Any]:
        return np.array([instead if r[name] is None else r[name] for r in rows], dtype=kind)

    def valid(name: str) -> np.ndarray[Any, Any]:
        return np.array([row[name] is not None for row in rows], dtype=np.uint8)

    with tiledb.open(uri, "w", timestamp=WRITTEN) as array:
        write_cells(
            array,
            np.arange(6),
            {
                "int8": np.zeros(6, "i1"),
                "ni": cells("ni", "i4", 0),
                "f": cells("f", "f8", 0),
                "nf": cells("nf", "f4", 0),
                "s": cells("s", "O", ""),
                "ns": cells("ns", "O", ""),
                "c3": cells("c3", "S3", ""),
                "e": np.array([0, 1, 2, 0, 1, 2], "i1"),
                "blob": np.array([np.zeros(1, "u1")] * 6 + [None], dtype="O")[:6],
            },
            {name: valid(name) for name in ("ni", "nf", "ns")} | {"blob": np.ones(6, np.uint8)},
        )
    return Sample(uri=uri, schema=read_schema(uri), rows=rows)


@pytest.mark.parametrize(
    ("text", "kept", "also"),
    [
        ("ni > 2", {1, 2}, "rows where ni is NULL"),
        ("ni == 2", {1, 3, 4, 5}, "rows where ni is NULL"),
        ("ni != 2", {2}, "rows where ni is NULL"),
        ("ni in [2]", {1, 3, 4, 5}, "rows where ni is NULL"),
        ("ni not in [2]", {2}, "rows where ni is NULL"),
        ("f < 1", {3, 4, 5}, "rows where f is NaN"),
        ("f >= 0", set(), "rows where f is NaN"),
        ("f == 0", {0, 3, 4, 5}, None),
        ("f != 0", {1, 2}, None),
        ("f in [0.0]", {0, 1, 3, 4, 5}, None),
        ("f not in [0.0]", {2}, None),
        ("nf > 1", {2}, "rows where nf is NULL or NaN"),
        ("nf == 1", {0, 3, 4, 5}, "rows where nf is NULL"),
        ("s == ''", {1, 2, 3, 4, 5}, None),
        ("s != ''", {0}, None),
        ("ns == ''", {2, 3, 4, 5}, "rows where ns is NULL"),
        ("ns == None", {2, 3, 4, 5}, "rows where ns is ''"),
        ("ns != None", {1}, "rows where ns is NULL"),
        ("ns < 'b'", {2, 4, 5}, "rows where ns is NULL"),
        ("ns >= ''", set(), "rows where ns is NULL"),
        ("ns in ['', 'b']", {3, 4, 5}, "rows where ns is NULL"),
        ("ns not in ['', 'b']", {1, 2}, "rows where ns is NULL"),
        ("ni > 2 and d < 5", {1, 2, 5}, "rows where ni is NULL and d < 5"),
        ("ni > 2 or d < 2", {2}, "rows where ni is NULL"),
        ("e == 'lo'", {1, 2, 4, 5}, None),
        ("e in ['lo', 'hi']", {1, 4}, None),
        ("c3 in ['abc']", {1, 2, 3, 4, 5}, None),
    ],
)
def test_the_table(small: Sample, text: str, kept: set[int], also: str | None) -> None:
    stored = negate(parse_predicate(text, small.schema))
    theirs, their_tree, _ = small.kept_after_engine(text)
    assert theirs == kept == small.kept_after(stored) == small.kept_by_us(stored)
    assert same_bytes(stored, their_tree, small.schema)
    assert also_removes(stored, small.schema) == ((also,) if also else ())


def test_not_none_leaves_the_empty_text(small: Sample) -> None:
    stored = negate(parse_predicate("ns != None", small.schema))
    assert also_keeps(stored, small.schema) == ("rows where ns is ''",)
    assert small.kept_after(stored) == {1}


@pytest.mark.parametrize(
    ("op", "kept"),
    [(op, set()) for op in (*ORDER_OPS, Op.EQ)] + [(Op.NE, set(WHOLE))],
)
def test_nan_in_a_stored_comparison(small: Sample, op: Op, kept: set[int]) -> None:
    stored = Compare(field="f", op=op, value=struct.pack("<d", NAN))
    assert small.kept_after(stored) == small.kept_by_us(stored) == kept


def test_nan_in_a_stored_list(small: Sample) -> None:
    stored = member_of("f", Op.IN, (struct.pack("<d", NAN),))
    assert small.kept_after(stored) == small.kept_by_us(stored) == {0}
    assert small.kept_after(negate(stored)) == small.kept_by_us(negate(stored)) == WHOLE - {0}


def test_always_true_still_drops_null(small: Sample) -> None:
    for name, null_row in (("ni", 0), ("nf", 1), ("ns", 0)):
        stored = Compare(field=name, op=Op.ALWAYS_TRUE)
        assert small.kept_after(stored) == small.kept_by_us(stored) == WHOLE - {null_row}


def number(n: int) -> bytes:
    return struct.pack("<q", n)


def test_or_directly_in_or(small: Sample) -> None:
    low = Compare(field="d", op=Op.LT, value=number(1))
    rest = AnyOf(
        parts=(
            Compare(field="d", op=Op.GT, value=number(4)),
            Compare(field="d", op=Op.EQ, value=number(2)),
        )
    )
    for parts, kept in (((low, rest), set()), ((rest, low), {0})):
        stored = AnyOf(parts=parts)
        assert small.kept_after(stored) == small.kept_by_us(stored) == kept


def test_text_of_fixed_size_is_compared_by_its_first_byte(small: Sample) -> None:
    theirs, stored, _ = small.kept_after_engine("c3 == 'abc'")
    assert theirs == {3, 4, 5} == small.kept_by_us(stored)


BROKEN: dict[str, Condition] = {
    "null, fixed size": Compare(field="ni", op=Op.NE),
    "null, label": Compare(field="e", op=Op.NE),
    "null, bytes": Compare(field="blob", op=Op.NE),
    "bytes": Compare(field="blob", op=Op.EQ, value=b"\0"),
    "wrong size": Compare(field="ni", op=Op.LT, value=b"\0"),
    "unknown field": Compare(field="gone", op=Op.LT, value=b"\0"),
    "no members": member_of("ni", Op.IN, ()),
    "members without bytes": member_of("s", Op.NOT_IN, (b"",)),
    "member of a wrong size": member_of("ni", Op.IN, (b"\0\0",)),
    "not": Not(part=Compare(field="d", op=Op.LT, value=number(3))),
    "and of one": AllOf(parts=(Compare(field="d", op=Op.LT, value=number(3)),)),
    "or of none": AnyOf(parts=()),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_the_engine_cannot_read(small: Sample, name: str) -> None:
    stored = BROKEN[name]
    assert engine_refuses(stored, small.schema)
    with small.with_delete(stored), pytest.raises(tiledb.TileDBError):
        small.kept()
    assert small.kept() == WHOLE


@pytest.mark.parametrize("text", ["ni == None", "s in ['']", "e in ['none']", "blob == None"])
def test_what_the_engine_writes_but_cannot_read(small: Sample, text: str) -> None:
    commits = Path(small.uri, "__commits")
    with tiledb.open(small.uri, "d", timestamp=DELETED) as array:
        array.query(cond=text).submit()
    (path,) = commits.glob("*.del")
    try:
        with pytest.raises(tiledb.TileDBError):
            small.kept()
        stored = decode(tiles.decode(path.read_bytes(), path.name).payload)
        assert engine_refuses(stored, small.schema)
    finally:
        path.unlink()


@pytest.mark.parametrize("text", ["e == 'none'", "e != 'none'", "d == None", "s == None"])
def test_what_the_engine_refuses_to_write(small: Sample, text: str) -> None:
    with tiledb.open(small.uri, "d", timestamp=DELETED) as array:
        query = array.query(cond=text)
        with pytest.raises(tiledb.TileDBError, match="Invalid negation of rewritten query"):
            query.submit()
    assert not list(Path(small.uri, "__commits").glob("*.del"))


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("x > 100", set(), {10, 11}),
        ("x > 100 and d == 0", {1, 2}, {10, 11}),
        ("d == 0 and x > 100", set(), {10, 11}),
        ("x > 100 or d == 0", set(), {10, 11}),
    ],
)
def test_a_field_that_was_added_later(
    tmp_path: Path, text: str, old: set[int], new: set[int]
) -> None:
    uri = str(tmp_path / "array")
    dimension = tiledb.Dim("d", domain=(0, 100), tile=10, dtype=np.int64)
    attributes = [tiledb.Attr("int8", dtype="int8")]
    tiledb.Array.create(
        uri, tiledb.ArraySchema(tiledb.Domain(dimension), attrs=attributes, sparse=True)
    )
    with tiledb.open(uri, "w") as array:
        array[np.arange(3)] = {"int8": np.zeros(3, "i1")}
    evolution = tiledb.ArraySchemaEvolution(tiledb.default_ctx())
    evolution.add_attribute(tiledb.Attr("x", dtype="int8"))
    evolution.array_evolve(uri)
    with tiledb.open(uri, "w") as array:
        array[np.arange(10, 12)] = {"int8": np.zeros(2, "i1"), "x": np.zeros(2, "i1")}
    schema = read_schema(uri)
    stored = negate(parse_predicate(text, schema))
    path = Path(uri, "__commits", f"__{2**50}_{2**50}_{'0' * 32}_22.del")
    path.write_bytes(tiles.encode(encode(stored), version=22))
    with tiledb.open(uri, timestamp=2**51) as array:
        kept = {int(d) for d in array.query(attrs=["int8"])[:]["d"]}
    assert kept == old | new
    ours: list[dict[str, object]] = [{"d": d} for d in range(3)]
    ours += [{"d": d, "x": 0} for d in (10, 11)]
    assert {row["d"] for row in ours if not removed(stored, row, schema)} == kept


def test_the_sample_has_every_type_that_can_be_compared(sample: Sample) -> None:
    types = {field.datatype for field in sample.schema.fields}
    text = {Datatype.CHAR, Datatype.STRING_ASCII, Datatype.STRING_UTF8}
    comparable = {datatype for datatype in Datatype if datatype.code} | text
    # The other times of day are the same to the engine: 64-bit integers.
    assert all(datatype.is_time for datatype in comparable - types)
    assert {Datatype.TIME_SEC, Datatype.TIME_NS} < types
