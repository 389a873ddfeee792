"""What publish takes, refuses and shows, judged by the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.check.findings import RefusedError

if TYPE_CHECKING:
    import pathlib

NOW = (0, 1 << 60)


@pytest.mark.parametrize("digit", ["0", "f"])
def test_equal_schemas_are_equal(tmp_path: pathlib.Path, digit: str) -> None:
    """A schema that is created again keeps its time: which of two files is the last says nothing.

    The target's own file is the first of that time, or the last.
    """
    labels = [tiledb.Enumeration(name, False, ["x", "y"]) for name in ("e", "f")]
    target = EngineArray(tmp_path / "target").create()
    evolution = tiledb.ArraySchemaEvolution(target.ctx)
    for enumeration in labels:
        evolution.add_enumeration(enumeration)
        attr = tiledb.Attr(f"of_{enumeration.name}", dtype=np.int8, enum_label=enumeration.name)
        evolution.add_attribute(attr)
    evolution.array_evolve(target.uri)
    first, last = sorted(target.folder.glob("__schema/__*_*"))
    time = last.name.split("_")[2]
    last.rename(last.with_name(f"__{time}_{time}_{digit * 32}"))

    with tiledb.open(target.uri, ctx=target.ctx) as opened:
        tiledb.Array.create(str(tmp_path / "stage"), opened.schema, ctx=target.ctx)
    stage = EngineArray(tmp_path / "stage")
    (made,) = stage.folder.glob("__schema/__*_*")
    assert made.name.split("_")[2] == time
    columns = {"a": np.array([2], np.int32), "of_e": np.int8([1]), "of_f": np.int8([0])}
    stage.write_columns(int(time) + 5, [2], columns)
    then = ct.open_log(target.uri).view(end=int(time) - 1)
    ct.publish(stage.uri, target.uri)
    assert target.answer(*NOW) == ((2, "y", "x", 2),)
    assert ct.open_log(target.uri).view(end=int(time) - 1).schema == then.schema == first.name
    assert [one for one in ct.open_log(target.uri).check() if one.severity == "error"] == []


def with_current_domain(uri: str, last: int) -> EngineArray:
    array = EngineArray(uri)
    domain = tiledb.Domain(tiledb.Dim("x", domain=(0, 99), tile=10, dtype=np.int64), ctx=array.ctx)
    attr = tiledb.Attr("a", dtype=np.int32, ctx=array.ctx)
    schema = tiledb.ArraySchema(domain, [attr], sparse=True, ctx=array.ctx)
    used = tiledb.NDRectangle(array.ctx, domain)
    used.set_range("x", 0, last)
    current = tiledb.CurrentDomain(array.ctx)
    current.set_ndrectangle(used)
    schema.set_current_domain(current)
    tiledb.Array.create(array.uri, schema, ctx=array.ctx)
    return array


def test_a_schema_with_a_smaller_domain_is_another(tmp_path: pathlib.Path) -> None:
    """As the last schema of the target, it would hide rows that are there."""
    target = with_current_domain(str(tmp_path / "target"), 50)
    target.write(10, {1: 1, 40: 40})
    stage = with_current_domain(str(tmp_path / "stage"), 9)
    stage.write(20, {2: 2})
    with pytest.raises(RefusedError, match="expected the schema of"):
        ct.publish(stage.uri, target.uri)
    assert target.answer(*NOW) == ((1, 1), (40, 40))


def filled(value: int) -> Any:
    return tiledb.Attr("a", dtype=np.int32, fill=value)


def test_a_schema_with_another_fill_value_is_another(tmp_path: pathlib.Path) -> None:
    target, stage = (
        EngineArray(tmp_path / name).create(attrs=[filled(value)])
        for name, value in (("target", 1), ("stage", 2))
    )
    stage.write(20, {2: 2})
    with pytest.raises(RefusedError, match="expected the schema of"):
        ct.publish(stage.uri, target.uri)
