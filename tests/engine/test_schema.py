"""Schemas: what we read of them is what the engine says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiledb
from corpus.recipes.capi import READ, Session
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus_cases import CASES, expected, log_of
from support.engines import engine

from chronotile.errors import BadFileError
from chronotile.format import tiles
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.format.schema import Schema, decode_enumeration, decode_schema

TYPES = {
    "ascii": Datatype.STRING_ASCII,
    "utf8": Datatype.STRING_UTF8,
    "utf16": Datatype.STRING_UTF16,
    "utf32": Datatype.STRING_UTF32,
    "ucs2": Datatype.STRING_UCS2,
    "ucs4": Datatype.STRING_UCS4,
}
"""Names of types in the engine's C interface that are not ours in small letters."""


def of_engine(uri: str, config: dict[str, str], at: int) -> tuple[bool, list[tuple[object, ...]]]:
    session = Session(uri, config)
    try:
        session.open(READ, 0, at)
        sparse, fields = session.fields()
    finally:
        session.close()
    return not sparse, [
        (
            field.name,
            field.role == "dimension",
            TYPES.get(field.type) or Datatype[field.type.upper()],
            field.cell_val_num,
            field.nullable,
            field.enumeration,
        )
        for field in fields
    ]


def ours(schema: Schema) -> tuple[bool, list[tuple[object, ...]]]:
    return schema.dense, [
        (
            field.name,
            field.is_dimension,
            field.datatype,
            field.cell_val_num,
            field.nullable,
            field.enumeration_name,
        )
        for field in schema.fields
    ]


@pytest.mark.parametrize("case", CASES)
def test_schemas_of_the_corpus(case: str, tmp_path: Path) -> None:
    """Each schema alone, as a damaged log keeps the engine from opening the array."""
    key = expected(case)["key"]
    config = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key} if key else {}
    array = Path(log_of(case).array)
    for number, item in enumerate(log_of(case).history.schemas):
        copy = tmp_path / str(number)
        (copy / "__schema").mkdir(parents=True)
        (copy / item.path).write_bytes((array / item.path).read_bytes())
        for labels in (array / "__schema").glob("__enumerations/*"):
            (copy / "__schema/__enumerations").mkdir(exist_ok=True)
            (copy / "__schema/__enumerations" / labels.name).write_bytes(labels.read_bytes())
        assert item.schema is not None
        assert ours(item.schema) == of_engine(str(copy), config, (1 << 64) - 2)
        loaded = tiledb.ArraySchema.load(str(copy), ctx=engine(config))
        assert item.schema.allows_duplicates == (loaded.sparse and loaded.allows_duplicates)
        with tiledb.open(str(copy), ctx=engine(config)) as opened:
            for field in item.schema.attributes:
                if field.enumeration is not None:
                    found = opened.enum(field.enumeration_name)
                    assert list(field.enumeration.labels) == [plain(v) for v in found.values()]
                    assert field.enumeration.ordered == found.ordered


def plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


NUMBERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
DATES = tuple(
    f"datetime64[{unit}]" for unit in ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"]
)


@st.composite
def attributes(draw: st.DrawFn, number: int) -> Any:
    name = draw(st.sampled_from((f"a{number}", f"ä {number}", "" if number == 0 else f"z{number}")))
    nullable = draw(st.booleans())
    kind = draw(st.sampled_from((*NUMBERS, *FLOATS, *DATES, "ascii", "U0", "S0", "blob", "bool")))
    var = kind in ("ascii", "U0", "S0") or (kind in NUMBERS and draw(st.booleans()))
    return tiledb.Attr(name, dtype=kind, nullable=nullable, var=var)


@st.composite
def dimensions(draw: st.DrawFn, kind: str, number: int) -> Any:
    name = f"d{number}"
    if kind == "ascii":
        return tiledb.Dim(name, domain=(None, None), tile=None, dtype="ascii")
    if kind in FLOATS:
        return tiledb.Dim(name, domain=(0.0, 100.0), tile=10.0, dtype=kind)
    low, tile = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    if kind.startswith("datetime"):
        bounds = np.array([low, low + 20]).astype(kind)
        step = np.array(tile).astype(kind.replace("datetime", "timedelta"))[()]
        return tiledb.Dim(name, domain=tuple(bounds), tile=step, dtype=kind)
    return tiledb.Dim(name, domain=(low, low + 20), tile=tile, dtype=kind)


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    dense = draw(st.booleans())
    if dense:
        kind = draw(st.sampled_from((*NUMBERS, *DATES)))
        kinds = [kind] * draw(st.integers(1, 3))
    else:
        choice = st.sampled_from((*NUMBERS, *FLOATS, *DATES, "ascii"))
        kinds = draw(st.lists(choice, min_size=1, max_size=3))
    dims = [draw(dimensions(kind, at)) for at, kind in enumerate(kinds)]
    attrs = [draw(attributes(at)) for at in range(draw(st.integers(1, 4)))]
    labels = draw(st.sampled_from((None, ["ant", "bee", ""], [1, 5, 9], [0.5, 2.5])))
    enums = []
    if labels is not None:
        ordered = draw(st.booleans())
        values = labels if isinstance(labels[0], str) else np.array(labels)
        enums.append(tiledb.Enumeration("labels", ordered, values=values))
        nullable = draw(st.booleans())
        attrs.append(tiledb.Attr("e", dtype="int8", nullable=nullable, enum_label="labels"))
    return tiledb.ArraySchema(
        domain=tiledb.Domain(*dims),
        attrs=attrs,
        sparse=not dense,
        allows_duplicates=not dense and draw(st.booleans()),
        enums=enums,
    )


@given(schemas())
@settings(max_examples=80)
def test_any_schema(tmp_path_factory: pytest.TempPathFactory, schema: Any) -> None:
    array = tmp_path_factory.mktemp("schema") / "array"
    tiledb.Array.create(str(array), schema)
    (path,) = (array / "__schema").glob("__*_*_*")
    found = decode_schema(tiles.decode(path.read_bytes(), path.name).payload, path.name)
    assert ours(found) == of_engine(str(array), {}, (1 << 64) - 2)
    assert found.allows_duplicates == (schema.sparse and schema.allows_duplicates)
    for name, file in found.enumeration_files:
        labels = array / "__schema" / "__enumerations" / file
        payload = tiles.decode(labels.read_bytes(), file).payload
        enumeration = decode_enumeration(payload, file)
        with tiledb.open(str(array)) as opened:
            engine = opened.enum(name)
        assert enumeration.name == name == "labels"
        assert list(enumeration.labels) == [plain(value) for value in engine.values()]
        assert enumeration.ordered == engine.ordered
        assert (enumeration.cell_val_num == VAR_NUM) == isinstance(enumeration.labels[0], str)


def test_damaged_schemas() -> None:
    (item,) = log_of("sparse-loose").history.schemas
    path = Path(log_of("sparse-loose").array) / item.path
    payload = tiles.decode(path.read_bytes(), path.name).payload
    for end in range(len(payload)):
        try:
            found = decode_schema(payload[:end], path.name)
        except BadFileError:
            continue
        # What lies behind the fields stays raw, so that it may be missing.
        assert ours(found) == ours(item.schema) if item.schema else False
    with pytest.raises(BadFileError):
        decode_schema(b"", "schema")
    with pytest.raises(BadFileError):
        decode_enumeration(payload, "enumeration")
