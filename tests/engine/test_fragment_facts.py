"""What `log.fragments()` says of each fragment, against the engine, field by field."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray
from support.engines import engine
from support.histories import History

import chronotile as ct
from chronotile.format import cell_values
from chronotile.format.footer_columns import joined, sparse_columns
from chronotile.format.fragment_footer import FIRST_WITH_FOOTER, FooterLayout
from chronotile.format.fragment_size import domain_text, measure
from chronotile.history.fragment_facts import SCHEMA as FACTS
from chronotile.history.fragment_facts import read_facts
from chronotile.history.read_footers import FooterReader, RawFooter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.corpus_cases import Case

    from chronotile.log import Log


def context(case: Case) -> tiledb.Ctx:
    if case.key is None:
        return engine()
    return engine({"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": case.key.decode()})


def engine_facts(uri: str, ctx: tiledb.Ctx) -> Iterator[dict[str, Any]]:
    """What the engine says of the fragments that an open sees."""
    for one in tiledb.array_fragments(uri, ctx=ctx):
        yield {
            "name": one.uri.rstrip("/").rpartition("/")[2],
            "t": one.timestamp_range,
            "version": one.version,
            "cells": one.cell_num,
            "domain": one.nonempty_domain,
            "schema": one.array_schema_name,
            "dense": not one.sparse,
            "metadata": "consolidated" if one.has_consolidated_metadata else "own",
        }


def assert_same(log: Log, ctx: tiledb.Ctx) -> int:
    """Compares every fragment that the engine sees; gives how many there were."""
    ours = {row["name"]: row for row in log.fragments().to_pylist()}
    schemas = {item.text: item.schema for item in log.history.schemas}
    count = 0
    for theirs in engine_facts(log.array, ctx):
        row = ours[theirs["name"]]
        assert (row["t1"], row["t2"]) == tuple(theirs["t"])
        if row["version"] < FIRST_WITH_FOOTER:
            assert row["metadata"] is None
            continue
        assert {name: row[name] for name in theirs if name in row and name != "domain"} == {
            name: theirs[name] for name in theirs if name in row and name != "domain"
        }
        schema = schemas[row["schema"]]
        assert schema is not None
        domain = [
            [cell_values.raw_to_json(field, cell_values.encode(field, one)) for one in pair]
            for field, pair in zip(schema.dimensions, theirs["domain"], strict=True)
        ]
        assert json.loads(row["domain"]) == domain
        count += 1
    return count


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("bad-")])
def test_the_engine_says_the_same_of_the_corpus(name: str) -> None:
    case = CASES[name]
    log = ct.open_log(str(case.array), case.key)
    try:
        assert_same(log, context(case))
    except OverflowError:
        assert name.startswith("op-dim-datetime"), "the package knows no such dates"
    table = log.fragments()
    for row in table.to_pylist():
        folders = (case.array / "__fragments" / row["name"], case.array / row["name"])
        files = [path.stat().st_size for folder in folders for path in folder.glob("*")]
        assert row["bytes"] == (
            sum(files) if row["version"] >= FIRST_WITH_FOOTER and files else None
        )
        assert (row["metadata"] is None) == (row["bytes"] is None)
    light = log.fragments(sizes=False)
    assert light["bytes"].null_count == len(light)
    assert light.drop_columns(["bytes"]).equals(table.drop_columns(["bytes"]))


@pytest.mark.parametrize("seed", range(6))
def test_the_engine_says_the_same_of_random_histories(seed: int, tmp_path: Path) -> None:
    history = History(seed, tmp_path / "history")
    for _ in range(14):
        history.step()
    log = ct.open_log(history.uri)
    seen = assert_same(log, history.array.ctx)
    assert seen == len(log.view().fragments)


def test_facts_name_the_deletes_that_a_fragment_applied(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    array.write(20, {3: 3})
    array.delete(30, "a == 1")
    array.consolidate("fragments")
    (delete,) = array.files("__commits", "*.del")
    rows = {row["name"]: row for row in ct.open_log(array.uri).fragments().to_pylist()}
    merged = next(row for row in rows.values() if row["t1"] != row["t2"])
    assert merged["applied_deletes"] == [delete.removesuffix(".del")]
    assert merged["has_delete_metadata"]
    others = [row for row in rows.values() if row is not merged]
    assert [row["applied_deletes"] for row in others] == [[], []]


def test_what_cannot_be_read_is_null(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    one, two, three = sorted((array.folder / "__fragments").iterdir())
    (one / "__fragment_metadata.tdb").unlink()
    data = (two / "__fragment_metadata.tdb").read_bytes()
    (two / "__fragment_metadata.tdb").write_bytes(data[:-8] + b"\xff" * 8)
    table = ct.open_log(array.uri).fragments()
    rows = table.to_pylist()
    assert [row["name"] for row in rows] == [one.name, two.name, three.name]
    assert [row["metadata"] for row in rows] == [None, None, "own"]
    facts = table.column_names[4 : table.column_names.index("metadata") + 1]
    assert all(rows[0][name] is None and rows[1][name] is None for name in facts)
    assert rows[2]["cells"] == 1


def raws(log: Log) -> list[RawFooter]:
    reader = FooterReader(log.store, log.history)
    names = [row["name"] for row in log.fragments().to_pylist()]
    return [raw for _, raw in reader.read_raw(names) if isinstance(raw, RawFooter)]


def test_columns_say_what_the_decoder_says(tmp_path: Path) -> None:
    """Many footers at once against one at a time, as they are and with bytes changed."""
    array = EngineArray(tmp_path / "array").create()
    for at in range(1, 41):
        array.write(at, {at: at, at + 40: at})
    log = ct.open_log(array.uri)
    schema = log.history.schemas[0].schema
    assert schema is not None
    layout = FooterLayout(schema)
    reader = FooterReader(log.store, log.history)
    footers = [raw.raw for raw in raws(log)]
    chance = random.Random(7)
    for _ in range(60):
        for part in sparse_columns(joined(footers), lambda file: reader.layout(file, file)):
            domain = part.domain.to_pylist()
            numbers = zip(part.rows, part.cells, part.cell_bytes, domain, part.tiles, strict=True)
            for row, *found in numbers:
                footer = layout.decode(footers[row], "x", bare=True)
                size = measure(footer, schema, "x")
                wanted = [size.cells, footer.cell_bytes, domain_text(footer, schema), size.tiles]
                assert found == wanted
                assert not footer.dense
                assert part.has_timestamps == footer.has_timestamps
                assert part.has_delete_metadata == footer.has_delete_metadata
                assert part.version == footer.version
                assert part.schema_name == footer.schema_name
        at = chance.randrange(len(footers))
        changed = bytearray(footers[at])
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        footers[at] = bytes(changed)
    parts = sparse_columns(joined(footers), lambda file: reader.layout(file, file))
    assert sum(len(part.rows) for part in parts) > 5


def test_a_meta_saves_all_but_the_sizes(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(1, 6):
        array.write(at, {at: at})
    before = ct.open_log(array.uri).fragments()
    array.consolidate("fragment_meta")
    log = ct.open_log(array.uri)
    after = log.fragments()
    assert set(before["metadata"].to_pylist()) == {"own"}
    assert set(after["metadata"].to_pylist()) == {"consolidated"}
    assert after.drop_columns(["metadata"]).equals(before.drop_columns(["metadata"]))
    steps: list[tuple[str, str]] = []
    store = log.store.watched(lambda what, path: steps.append((what, path)))
    assert read_facts(store, log.history).equals(after.select(FACTS.names))
    sizes = {row["name"]: 0 for row in after.to_pylist()}
    assert sum(path.endswith(".meta") for what, path in steps if what == "read") == 1
    assert len([path for what, path in steps if what == "read"]) == 1 + len(sizes)
    steps.clear()
    read_facts(store, log.history, sizes=False)
    assert [path.endswith(".meta") for what, path in steps if what == "read"] == [True]


def test_a_linked_fragment_is_not_followed_even_with_a_meta(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(1, 6):
        array.write(at, {at: at})
    array.consolidate("fragment_meta")
    linked = min((array.folder / "__fragments").iterdir())
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    log = ct.open_log(array.uri)
    words = log.fragments()["metadata"].to_pylist()
    assert words == [None, *["consolidated"] * 4]
    watched = log.store.watched(lambda *_: None)
    assert read_facts(watched, log.history).equals(read_facts(log.store, log.history))


def test_a_fragment_is_asked_for_alone(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})
    log = ct.open_log(array.uri)
    every = log.fragments().to_pylist()
    alone = log.fragments(names=[every[1]["name"]]).to_pylist()
    assert alone == every[1:]


def test_a_link_in_a_fragments_place_is_null(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    one, two, _ = sorted((array.folder / "__fragments").iterdir())
    one.rename(tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    (two / "__fragment_metadata.tdb").rename(tmp_path / "metadata")
    (two / "__fragment_metadata.tdb").symlink_to(tmp_path / "metadata")
    rows = ct.open_log(array.uri).fragments().to_pylist()
    assert [row["metadata"] for row in rows] == [None, None, "own"]
