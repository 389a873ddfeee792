"""Schemas: what is compared of two, and one of a later day."""

from __future__ import annotations

import struct

import pytest
from support.corpus_cases import CASES

from chronotile.errors import UnknownVersionError
from chronotile.format import tiles
from chronotile.format.parsers import ArraySchemaSpec, trace
from chronotile.format.schema import decode_schema, more_content

PAYLOAD = tiles.decode(
    next(CASES["inside-dense-v22"].files("schema")).path.read_bytes(), "schema"
).payload


def test_schemas_differ_in_what_a_cell_holds_that_nobody_wrote() -> None:
    spans = [s for s in trace(ArraySchemaSpec, "x", PAYLOAD) if s.path.endswith("_validity")]
    assert len(spans) > 1
    for span in spans:
        other = PAYLOAD[: span.start] + bytes([1 - span.value]) + PAYLOAD[span.end :]
        assert more_content(other, "x") != more_content(PAYLOAD, "x"), span.path


def test_a_schema_of_a_later_version_is_unknown_and_not_damaged() -> None:
    later = struct.pack("<I", 24) + PAYLOAD[4:]
    with pytest.raises(UnknownVersionError, match="expected a version from 1 to 23, found 24"):
        decode_schema(later, "x")
    assert decode_schema(struct.pack("<I", 23) + PAYLOAD[4:], "x").version == 23
