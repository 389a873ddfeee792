"""The corpus: what the engine said of every window, and what the log says of it.

The cells of a fragment come from the engine too, which reads a copy of the array that holds
that fragment alone, without its deletes; what a view makes of them is `reference_cells`.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from corpus.recipes.capi import READ, FieldType, Session
from corpus.recipes.codec import decode, encode
from support.corpus_cases import CASES, expected, log_of
from support.engines import engine
from support.reference_cells import Cell, Raw, Reference

import chronotile as ct
from chronotile.conditions.side_effects import engine_refuses
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from pathlib import Path

    from chronotile.visibility.view import Delete, View

FAR = (1 << 64) - 2


class Fragments:
    """The cells of single fragments of one case."""

    def __init__(self, case: str, scratch: Path) -> None:
        self.array = CASES[case].array
        self.scratch = scratch
        self.log = log_of(case)
        key = expected(case)["key"]
        self.config = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key} if key else {}
        self._known: dict[tuple[str, str | None], list[Cell]] = {}
        self._bare: dict[str | None, tuple[list[FieldType], list[Raw]]] = {}

    def cells(self, name: str, view: View) -> list[Cell]:
        """The cells of one fragment, as the schema of a view shows them."""
        if (name, view.schema) not in self._known:
            self._known[name, view.schema] = self._read(name, view)
        return self._known[name, view.schema]

    def bare(self, view: View) -> tuple[list[FieldType], list[Raw]]:
        """The fields at a view, and what a dense array holds where nobody wrote."""
        if view.schema not in self._bare:
            self._bare[view.schema] = self._rows(self._copy(None), (0, view.end), whole=True)
        return self._bare[view.schema]

    def _copy(self, name: str | None, renamed: str | None = None) -> Path:
        copy = self.scratch / "narrow"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        if (self.array / "__schema").is_dir():
            shutil.copytree(self.array / "__schema", copy / "__schema")
        if (self.array / "__array_schema.tdb").exists():
            shutil.copy(self.array / "__array_schema.tdb", copy)
        if name is None:
            return copy
        to = renamed or name
        if (self.array / "__fragments" / name).is_dir():
            shutil.copytree(self.array / "__fragments" / name, copy / "__fragments" / to)
            (copy / "__commits").mkdir()
            (copy / "__commits" / f"{to}.wrt").touch()
        else:
            shutil.copytree(self.array / name, copy / to)
            (copy / f"{to}.ok").touch()
        return copy

    def _read(self, name: str, view: View) -> list[Cell]:
        begun = next(fragment.t1 for fragment in view.fragments if fragment.name == name)
        if not list((self.array).glob(f"**/{name}/t.tdb")):
            copy = self._copy(name)
            lacks = self._lacking(copy, view)
            rows = self._rows(copy, (0, view.end), whole=False)[1]
            return [Cell(begun, raw, lacks) for raw in rows]
        # The widest name: the window then chooses by the times of the cells alone.
        _, _, _, _, uuid, version = name.split("_")
        copy = self._copy(name, f"__1_{FAR}_{uuid}_{version}")
        return [
            Cell(at, raw)
            for at in self._times()
            for raw in self._rows(copy, (at, at), whole=False)[1]
        ]

    def _lacking(self, copy: Path, view: View) -> frozenset[str]:
        schemas = self.log.history.schemas
        if len(schemas) == 1:
            return frozenset()
        (footer,) = copy.rglob("__fragment_metadata.tdb")
        # From version 10 on the footer names the schema; before, there was only one.
        named = [s.schema for s in schemas if s.text.encode() in footer.read_bytes()]
        (own,) = named or [schemas[0].schema]
        (now,) = (s.schema for s in schemas if s.text == view.schema)
        assert own is not None
        assert now is not None
        # One that came back with another type is another field.
        types = {(field.name, field.datatype) for field in own.fields}
        return frozenset(f.name for f in now.fields if (f.name, f.datatype) not in types)

    @cache  # noqa: B019 - as short-lived as the test
    def _times(self) -> list[int]:
        """Every time that the case tells of."""
        texts = [str(path) for path in self.array.rglob("*")]
        texts += [
            path.read_bytes().decode("latin-1")
            for path in self.array.glob("__commits/*")
            if path.suffix in (".vac", ".con", ".ign")
        ]
        found = {
            int(time)
            for text in texts
            for pair in re.findall(r"__(\d{1,16})_(\d{1,16})_", text)
            for time in pair
        }
        windows = expected(self.array.parent.name)["windows"]
        return sorted(found | {w["start"] for w in windows} | {w["end"] for w in windows})

    def _rows(
        self, copy: Path, window: tuple[int, int], *, whole: bool
    ) -> tuple[list[FieldType], list[Raw]]:
        session = Session(str(copy), self.config)
        try:
            session.open(READ, *window)
            sparse, fields = session.fields()
            ranges = None if sparse else self._box(copy, fields, whole=whole)
            if ranges == []:
                return fields, []
            columns = session.read_columns(fields, ranges)
        finally:
            session.close()
        return fields, list(zip(*(column.cells for column in columns), strict=True))

    def _box(
        self, copy: Path, fields: list[FieldType], *, whole: bool
    ) -> list[tuple[bytes, bytes]]:
        ctx = engine(self.config)
        dims = [field for field in fields if field.role == "dimension"]
        if whole:
            domain = tiledb.ArraySchema.load(str(copy), ctx=ctx).domain
            bounds = [domain.dim(at).domain for at in range(len(dims))]
        else:
            found = list(tiledb.FragmentInfoList(str(copy), ctx=ctx))
            bounds = [bound for info in found for bound in info.nonempty_domain]
        return [
            (encode(dim.type, int(low)), encode(dim.type, int(high)))
            for dim, (low, high) in zip(dims, bounds, strict=False)
        ]


def shown(raw: Raw, fields: list[FieldType], view: View) -> list[Any]:
    """A row as `expected.json` has it."""
    out = []
    schema = schema_at(view.history, view.end)
    assert schema is not None
    assert schema.schema is not None
    for field, cell in zip(fields, raw, strict=True):
        value = None if cell is None else decode(field.type, cell)
        known = schema.schema.field(field.name)
        assert known is not None
        if value is not None and known.enumeration is not None:
            value = known.enumeration.labels[value]
        out.append(value)
    return out


def order(row: list[Any]) -> list[tuple[bool, str, Any]]:
    return [(value is None, str(type(value)), value) for value in row]


def rows_of(view: View, fragments: Fragments, fields: list[FieldType]) -> list[Raw]:
    """The cells that the engine must give."""
    cells = {one.name: fragments.cells(one.name, view) for one in view.fragments}
    rank = sum(field.role == "dimension" for field in fields)
    if view.history.dense:
        rows = {raw[:rank]: raw for raw in fragments.bare(view)[1]}
        for one in view.fragments:
            rows |= {cell.raw[:rank]: cell.raw for cell in cells[one.name]}
        return list(rows.values())
    reference = Reference([field.name for field in fields], rank)
    schema = schema_at(view.history, view.end)
    assert schema is not None
    assert schema.schema is not None
    if schema.schema.allows_duplicates:
        return list(reference.rows(view, cells).elements())
    found = []
    for choices in reference.choices(view, cells).values():
        (only,) = choices  # in the corpus no two cells are as new as each other
        found += [only] if only is not None else []
    return found


@pytest.mark.parametrize("case", CASES)
def test_fragments_and_cells_are_the_engines(case: str, tmp_path: Path) -> None:
    log, fragments = log_of(case), Fragments(case, tmp_path)
    for window in expected(case)["windows"]:
        view = log.view(window["start"], window["end"])
        if "fragments" in window:
            assert [one.name for one in view.fragments] == window["fragments"], window
        if "cells" in window:
            fields, _ = fragments.bare(view)
            assert [field.name for field in fields] == window["fields"]
            rows = [shown(raw, fields, view) for raw in rows_of(view, fragments, fields)]
            assert sorted(rows, key=order) == window["cells"], (window["start"], window["end"])


REFUSED = [case for case in CASES if any("error" in w for w in expected(case)["windows"])]


@pytest.mark.parametrize("case", REFUSED)
def test_what_stops_the_engine_is_told(case: str) -> None:
    log = log_of(case)
    for window in expected(case)["windows"]:
        view = log.view(window["start"], window["end"])
        lost = [one for one in view.explain() if one.reason == "missing"]
        misnamed = [one for one in log.history.problems if one.kind == "name"]
        stops_opening = bool(lost or misnamed)
        assert stops_opening == ("fields" not in window), window
        if not stops_opening:
            # The engine looks at conditions only where there are cells to judge.
            refused = bool(view.fragments) and any(map(is_refused, view.deletes))
            assert refused == ("error" in window), window


def is_refused(delete: Delete) -> bool:
    try:
        stored = delete.stored
    except ct.ChronotileError:
        return True
    return bool(engine_refuses(stored, delete.schemas[0]))
