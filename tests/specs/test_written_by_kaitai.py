"""Our writers, held to the code that Kaitai's compiler makes from the specs to write."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commit_strategies import TILES, names
from support.corpus_cases import CASES
from support.footers import decode_footer
from support.fragments_of_corpus import fragments
from support.kaitai_writer import KaitaiWriter, Part
from support.spec_files import corpus_files
from support.strategies import raw_conditions, update_lists
from support.version_23 import UNKNOWN, newer_metadata

from chronotile.conditions import codec
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, UpdateValue
from chronotile.format import tiles
from chronotile.format.array_metadata import encode_items, number_item, removal_item
from chronotile.format.commit_files import ConRecord, encode_lines, encode_record
from chronotile.format.consolidated_footers import encode_consolidated_footers
from chronotile.format.fragment_footer import (
    FooterLayout,
    coordinate_sizes,
    without_delete_metadata,
)
from chronotile.format.fragment_metadata import frame_metadata
from chronotile.format.groups import GroupEntry, encode_details
from chronotile.format.kinds import MEMBER_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=9)
KEYS = {case.array: case.key for case in CASES.values()}


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> KaitaiWriter:
    return KaitaiWriter(tmp_path_factory.mktemp("read-write"))


def key_of(path: Any) -> bytes | None:
    return next((key for array, key in KEYS.items() if array in path.parents), None)


PAYLOADS = {
    "delete_commit": "condition",
    "update_commit": "update",
    "array_schema_file": "array_schema",
    "enumeration_file": "enumeration",
    "array_metadata_file": "array_metadata",
    "group_details_file": "group_details",
    "consolidated_footers_file": "fragment_metadata",
}


def test_every_file_and_payload_of_the_corpus(writer: KaitaiWriter) -> None:
    """What the engines wrote is written byte for byte."""
    counts: dict[str, int] = {}
    for spec, path in corpus_files():
        data = path.read_bytes()
        if spec in PAYLOADS:
            assert writer.rewrite(writer.generic_tile, data) == data, path
            payload = tiles.decode(data, path.name, key=key_of(path)).payload
            kind = getattr(writer, PAYLOADS[spec])
            kind = kind.ConsolidatedFooters if PAYLOADS[spec] == "fragment_metadata" else kind
            assert writer.rewrite(kind, payload) == payload, path
        else:
            assert writer.rewrite(getattr(writer, spec), data) == data, path
        counts[spec] = counts.get(spec, 0) + 1
    assert counts == {
        "delete_commit": 160,
        "update_commit": 12,
        "consolidated_commits": 60,
        "array_schema_file": 179,
        "consolidated_footers_file": 28,
        "array_metadata_file": 36,
        "enumeration_file": 7,
        "group_details_file": 22,
        "ignore_file": 7,
        "vacuum_file": 35,
    }


def footers() -> Iterator[tuple[bytes, int, bytes]]:
    """Every footer of the corpus; those of version 22 also in version 23, and without deletes."""
    for fragment in fragments():
        schema, layout = fragment.schema, FooterLayout(fragment.schema)
        params = len(schema.attributes), coordinate_sizes(schema)
        has_length = layout.has_length(fragment.frame.head.version)
        raws = [fragment.footer[:-8] if has_length else fragment.footer]
        if fragment.frame.head.version == 22:
            data = newer_metadata(fragment.data, schema, key=fragment.case.key, others=[UNKNOWN])
            raws.append(data[frame_metadata(data, "x").footer_start : -8])
        for raw in raws:
            yield raw, *params
            footer = decode_footer(raw, schema, "x", bare=True)
            if footer.has_delete_metadata:
                yield without_delete_metadata(raw, footer, layout)[:-8], *params


def test_every_footer(writer: KaitaiWriter) -> None:
    count = 0
    for raw, *params in footers():
        assert writer.rewrite(writer.fragment_metadata.FragmentFooter, raw, *params) == raw
        count += 1
    assert count > 600


def condition_part(w: KaitaiWriter, node: Condition, level: int = 1) -> Part:
    spec = w.condition
    kinds = {Compare: 1, AllOf: 0, AnyOf: 0, Not: 0}
    children: tuple[Condition, ...] = ()
    match node:
        case Compare():
            body = value_part(w, node)
        case AllOf(parts=children) | AnyOf(parts=children):
            body = head_part(w, 0 if isinstance(node, AllOf) else 1, len(children), level)
        case Not(part=child):
            children = (child,)
            body = head_part(w, 2, 1, level)
    inner = [condition_part(w, child, level + 1) for child in children]
    fields = {"node_type": spec.NodeTypes(kinds[type(node)]), "body": body, "children": inner}
    return Part(spec.ConditionNode, fields, (level,))


def head_part(w: KaitaiWriter, op: int, count: int, level: int) -> Part:
    spec = w.condition
    fields = {"combination_op": spec.CombinationOps(op), "num_children": count}
    return Part(spec.ExpressionHead, fields, (level,))


def value_part(w: KaitaiWriter, leaf: Compare) -> Part:
    spec = w.condition
    fields = {
        "op": spec.Ops(leaf.op.value),
        "len_field_name": len(leaf.field.encode()),
        "field_name": leaf.field,
        "len_value": len(leaf.value),
        "value": Part(w.operand, {"raw": leaf.value}),
    }
    if leaf.op.is_set:
        members = {"len_ofs_members": 8 * len(leaf.offsets), "ofs_members": [*leaf.offsets]}
        fields["members"] = Part(spec.MemberOffsets, members, (len(leaf.value),))
    return Part(spec.ValueNode, fields)


@EXAMPLES
@given(node=raw_conditions())
def test_conditions(writer: KaitaiWriter, node: Condition) -> None:
    ours = codec.encode(node)
    part = Part(writer.condition, {"root": condition_part(writer, node), "trailing": b""})
    assert writer.write(part, len(ours)) == ours


@EXAMPLES
@given(node=raw_conditions(), values=update_lists())
def test_updates(writer: KaitaiWriter, node: Condition, values: tuple[UpdateValue, ...]) -> None:
    ours = codec.encode_update(node, values)
    parts = [
        Part(
            writer.update_values.UpdateValue,
            {
                "len_field_name": len(name.encode()),
                "field_name": name,
                "len_value": len(raw),
                "value": Part(writer.operand, {"raw": raw}),
            },
        )
        for name, raw in values
    ]
    fields = {
        "condition": condition_part(writer, node),
        "values": Part(writer.update_values, {"num_values": len(parts), "values": parts}),
        "trailing": b"",
    }
    assert writer.write(Part(writer.update, fields), len(ours)) == ours


@st.composite
def records(draw: st.DrawFn) -> ConRecord:
    extension = draw(st.sampled_from((".wrt", ".ok", ".del", ".upd")))
    tile = draw(TILES) if extension in (".del", ".upd") else None
    return ConRecord(f"__commits/{draw(names())}{extension}", tile)


def record_part(w: KaitaiWriter, record: ConRecord) -> Part:
    spec, tile = w.consolidated_commits, record.tile
    body = Part(spec.WriteRecord, {})
    if tile is not None:
        is_delete = record.uri.endswith(".del")
        kinds = (spec.DeleteRecord, spec.DeleteTile), (spec.UpdateRecord, spec.UpdateTile)
        outer, inner = kinds[0 if is_delete else 1]
        body = Part(outer, {"len_tile": len(tile), "tile": Part(inner, {"raw": tile})})
    return Part(spec.CommitRecord, {"uri": record.uri, "body": body})


@EXAMPLES
@given(found=st.lists(records(), max_size=6))
def test_consolidated_commits(writer: KaitaiWriter, found: list[ConRecord]) -> None:
    ours = b"".join(map(encode_record, found))
    parts = [record_part(writer, record) for record in found]
    part = Part(writer.consolidated_commits, {"records": parts})
    assert writer.write(part, len(ours)) == ours


@EXAMPLES
@given(lines=st.lists(TEXT.filter(bool), max_size=6))
def test_lines(writer: KaitaiWriter, lines: list[str]) -> None:
    ours = encode_lines(lines)
    for spec, kind in (
        (writer.ignore_file, writer.ignore_file.IgnoredCommit),
        (writer.vacuum_file, writer.vacuum_file.VacuumedItem),
    ):
        part = Part(spec, {"entries": [Part(kind, {"uri": line}) for line in lines]})
        assert writer.write(part, len(ours)) == ours


MEMBERS = st.builds(
    GroupEntry,
    uri=TEXT,
    name=st.none() | TEXT,
    kind=st.sampled_from(MEMBER_KINDS),
    is_relative=st.booleans(),
    is_deletion=st.booleans(),
)


@EXAMPLES
@given(entries=st.lists(MEMBERS, max_size=5), version=st.sampled_from((1, 2)))
def test_group_details(writer: KaitaiWriter, entries: list[GroupEntry], version: int) -> None:
    written = encode_details(entries, format_version=22, version=version)
    ours = tiles.decode(written, "x").payload
    spec = writer.group_details
    parts = []
    for entry in entries:
        fields: dict[str, Any] = {
            "version": version,
            "object_type": spec.GroupMember.ObjectTypes(MEMBER_KINDS.index(entry.kind)),
            "relative": int(entry.is_relative),
            "len_uri": len(entry.uri.encode()),
            "uri": entry.uri,
            "named": int(entry.name is not None),
        }
        if entry.name is not None:
            fields |= {"len_name": len(entry.name.encode()), "name": entry.name}
        if version > 1:
            fields["deletion"] = int(entry.is_deletion)
        parts.append(Part(spec.GroupMember, fields))
    part = Part(spec, {"version": version, "num_members": len(parts), "members": parts})
    assert writer.write(part, len(ours)) == ours


@EXAMPLES
@given(values=st.dictionaries(TEXT, st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5))
def test_array_metadata(writer: KaitaiWriter, values: dict[str, int | None]) -> None:
    ordered = sorted(values.items(), key=lambda item: item[0].encode())
    ours = encode_items(
        removal_item(key.encode()) if number is None else number_item(key.encode(), number)
        for key, number in values.items()
    )
    spec, datatype = writer.array_metadata, writer.datatype
    parts = []
    for key, number in ordered:
        fields: dict[str, Any] = {
            "len_key": len(key.encode()),
            "key": key,
            "deletion": int(number is None),
        }
        if number is not None:
            code, raw = datatype.Codes.int64, struct.pack("<q", number)
            value = {
                "datatype": Part(datatype, {"code": code}),
                "num_values": 1,
                "value": Part(datatype.TypedValues, {"raw": raw}, (code,)),
            }
            fields["insertion"] = Part(spec.MetadataValue, value)
        parts.append(Part(spec.MetadataEntry, fields))
    assert writer.write(Part(spec, {"entries": parts}), len(ours)) == ours


FOOTERS = st.builds(lambda rest: struct.pack("<I", 22) + rest, st.binary(max_size=9))


@EXAMPLES
@given(found=st.lists(st.tuples(TEXT, FOOTERS), max_size=5))
def test_consolidated_footers(writer: KaitaiWriter, found: list[tuple[str, bytes]]) -> None:
    ours = tiles.decode(encode_consolidated_footers(found, version=22), "x").payload
    spec = writer.fragment_metadata
    at = 4 + sum(16 + len(name.encode()) for name, _ in found)
    parts = []
    for name, footer in found:
        fields = {"len_name": len(name.encode()), "name": name, "ofs_footer": at}
        parts.append(Part(spec.ConsolidatedFragment, fields))
        at += len(footer)
    body = b"".join(footer for _, footer in found)
    fields = {"num_fragments": len(parts), "fragments": parts, "footers": body}
    assert writer.write(Part(spec.ConsolidatedFooters, fields), len(ours)) == ours


@EXAMPLES
@given(
    payload=st.one_of(st.binary(max_size=99), st.integers(0, 3 << 16).map(bytes)),
    is_encrypted=st.booleans(),
    version=st.integers(1, 23),
)
def test_tiles(writer: KaitaiWriter, payload: bytes, is_encrypted: bool, version: int) -> None:
    """What is in the chunks is taken as it is; all that frames it is written anew."""
    ours = tiles.encode(payload, version=version, key=bytes(32) if is_encrypted else None)
    spec, pipeline = writer.generic_tile, writer.filter_pipeline
    options = {
        "compressor": pipeline.Compressors.gzip,
        "level": 1,
        "trailing": b"",
    }
    filters = [
        Part(
            pipeline.TileFilter,
            {
                "filter_type": pipeline.FilterTypes.gzip,
                "len_options": 5,
                "options": Part(pipeline.CompressionOptions, options),
            },
        )
    ]
    if is_encrypted:
        fields = {
            "filter_type": pipeline.FilterTypes.aes_256_gcm,
            "len_options": 0,
            "options": Part(pipeline.OtherOptions, {"raw": b""}),
        }
        filters.append(Part(pipeline.TileFilter, fields))
    outer = pipeline.FilterTypes.aes_256_gcm if is_encrypted else pipeline.FilterTypes.gzip
    start = 34 + 8 + 10 + (5 if is_encrypted else 0)
    chunks, at = [], start + 8
    for first in range(0, len(payload), 1 << 16):
        length = len(payload[first : first + (1 << 16)])
        part, at = chunk_part(writer, ours, at, length, outer)
        chunks.append(part)
    body = {"num_chunks": len(chunks), "chunks": chunks, "trailing": b""}
    fields = {
        "version": version,
        "len_persisted": len(ours) - start,
        "len_tile": len(payload),
        "datatype": writer.datatype.Codes.char,
        "len_cell": 1,
        "encryption_type": spec.EncryptionTypes(int(is_encrypted)),
        "len_filter_pipeline": start - 34,
        "filter_pipeline": Part(
            pipeline, {"len_chunk_max": 1 << 16, "num_filters": len(filters), "filters": filters}
        ),
        "tile": Part(spec.TileChunks, body, (outer,)),
    }
    assert writer.write(Part(spec, fields), len(ours)) == ours


def chunk_part(w: KaitaiWriter, ours: bytes, at: int, length: int, outer: Any) -> tuple[Part, int]:
    """A chunk, from the bytes in it and what must hold of their sizes; and where it ends."""
    spec = w.generic_tile
    original, filtered, metadata = struct.unpack_from("<III", ours, at)
    assert original == length
    inner, data = ours[at + 12 : at + 12 + metadata], ours[at + 12 + metadata :][:filtered]
    if outer == w.filter_pipeline.FilterTypes.gzip:
        sizes = {"len_original": length, "len_compressed": filtered}
        parts = {"data_parts": [Part(spec.CompressedPart, sizes)], "metadata_parts": []}
        kind, counts = spec.CompressedParts, {"num_metadata_parts": 0, "num_data_parts": 1}
    else:
        entries = []
        for n in range(2):
            plain, encrypted = struct.unpack_from("<II", inner, 8 + 36 * n)
            iv, tag = inner[16 + 36 * n :][:12], inner[28 + 36 * n :][:16]
            entry = {"len_plain": plain, "len_encrypted": encrypted, "iv": iv, "tag": tag}
            entries.append(Part(spec.EncryptedPart, entry))
        parts = {"metadata_parts": entries[:1], "data_parts": entries[1:]}
        kind, counts = spec.EncryptedParts, {"num_metadata_parts": 1, "num_data_parts": 1}
    fields = {
        "len_original": length,
        "len_filtered": len(data),
        "len_metadata": len(inner),
        "metadata": Part(kind, counts | parts | {"trailing": b""}),
        "filtered": Part(spec.FilteredBytes, {"raw": data}),
    }
    return Part(spec.TileChunk, fields, (outer,)), at + 12 + metadata + filtered
