"""Details files: encoded, decoded, held to the generated parser; hostile ones are refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronotile as ct
from chronotile.errors import BadFileError
from chronotile.format import tiles
from chronotile.format.groups import (
    GroupDetails,
    GroupEntry,
    decode_details,
    encode_details,
    stored_members,
)
from chronotile.format.kinds import MEMBER_KINDS
from chronotile.format.parsers import GroupDetailsSpec, parse
from chronotile.show.byte_ranges import layout
from chronotile.show.file_json import to_json
from chronotile.single_file.decode import GroupFile

ENTRIES = st.lists(
    st.builds(
        GroupEntry,
        st.text(max_size=12),
        st.none() | st.text(max_size=12),
        st.sampled_from(MEMBER_KINDS),
        st.booleans(),
        st.booleans(),
    ),
    max_size=5,
)


def by_spec(payload: bytes) -> GroupDetails:
    """The same by the generated parser."""
    tree: Any = parse(GroupDetailsSpec, "x", payload)
    entries = [
        GroupEntry(
            one.uri,
            one.name if one.is_named else None,
            MEMBER_KINDS[one.object_type.value],
            one.is_relative,
            one.is_deletion,
        )
        for one in tree.members
    ]
    return GroupDetails(tree.version, tuple(entries))


def payload_of(entries: list[GroupEntry], version: int = 2) -> bytes:
    data = encode_details(entries, format_version=22, version=version)
    return tiles.decode(data, "x").payload


@given(ENTRIES, st.sampled_from([1, 2]))
def test_what_is_written_is_read_back_by_both_parsers(
    entries: list[GroupEntry], version: int
) -> None:
    payload = payload_of(entries, version)
    wanted = entries if version == 2 else [e._replace(is_deletion=False) for e in entries]
    assert decode_details(payload, "x") == by_spec(payload) == (version, tuple(wanted))


def answer(decode: Any, payload: bytes) -> GroupDetails | None:
    try:
        found: GroupDetails = decode(payload)
    except BadFileError:
        return None
    return found


@given(ENTRIES, st.data())
def test_damaged_bytes_get_one_error_and_the_same_answer_from_both(
    entries: list[GroupEntry], data: st.DataObject
) -> None:
    payload = bytearray(payload_of(entries))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(payload[: data.draw(st.integers(0, len(payload)))])
    for damaged in (bytes(payload), cut):
        assert answer(lambda one: decode_details(one, "x"), damaged) == answer(by_spec, damaged)


PLAIN = st.lists(
    st.builds(
        GroupEntry,
        st.text("ab\x02\x01\x00", max_size=6),
        st.none() | st.text("ab\x02", max_size=3),
        st.sampled_from(MEMBER_KINDS),
        st.booleans(),
        st.booleans(),
    ),
    max_size=6,
)


@given(PLAIN, PLAIN, st.data())
def test_members_that_are_among_those_of_a_sound_list_are_sound_themselves(
    few: list[GroupEntry], more: list[GroupEntry], data: st.DataObject
) -> None:
    """Whatever a text or a length looks like, and however the shorter list is damaged."""
    both = data.draw(st.permutations([*few, *more]))
    payload = bytearray(payload_of(few))
    if data.draw(st.booleans()):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 127))
    part, whole = stored_members(bytes(payload)), stored_members(payload_of(both))
    if part is not None and whole is not None and {*part} <= {*whole}:
        entries = decode_details(bytes(payload), "x").entries
        assert {*entries} <= {*both}
        assert len(entries) == len(part)


def test_members_are_told_apart_without_being_read_in_what_the_engine_writes() -> None:
    names = [GroupEntry(f"a{n}-x", f"n{n}-x", "array", is_relative=n % 2 == 0) for n in range(300)]
    members = stored_members(payload_of(names))
    assert members is not None
    assert len(members) == 300
    assert stored_members(payload_of(names[:200])) == members[:200]
    assert stored_members(payload_of(names, version=1)) is None
    # A length of 2 looks like the start of a member.
    assert stored_members(payload_of([GroupEntry("ab", None, "array", is_relative=True)])) is None


@pytest.mark.parametrize(
    "payload",
    [
        struct.pack("<IQ", 2, 1 << 63),
        struct.pack("<IQ", 2, (1 << 64) - 1) + bytes(64),
        struct.pack("<IQ", 3, 0),
        struct.pack("<IQIBBQ", 2, 1, 2, 2, 1, 1 << 63) + b"a\0\0",
        struct.pack("<IQIBBQ", 2, 1, 2, 2, 1, 1) + b"a\1" + struct.pack("<Q", 1 << 62) + b"\0",
        struct.pack("<IQIBBQ", 2, 1, 2, 9, 1, 1) + b"a\0\0",
        struct.pack("<IQIBBQ", 2, 1, 7, 2, 1, 1) + b"a\0\0",
        struct.pack("<IQIBBQ", 2, 1, 2, 2, 1, 1) + b"\xff\0\0",
        struct.pack("<IQIBBQ", 2, 1, 2, 2, 1, 1) + b"a\0\0more",
    ],
    ids=[
        "2^63 members",
        "2^64-1",
        "version 3",
        "2^63 bytes of URI",
        "2^62 bytes of name",
        "type 9",
        "member version 7",
        "no UTF-8",
        "bytes left over",
    ],
)
def test_hostile_counts_and_lengths_are_refused_at_once(payload: bytes) -> None:
    assert answer(by_spec, payload) is None
    with pytest.raises(BadFileError, match=r"^x: at byte .*expected"):
        decode_details(payload, "x")


def test_a_details_file_is_shown_like_any_other() -> None:
    entries = [
        GroupEntry("obs", "obs", "array", is_relative=True),
        GroupEntry("s3://a/b", None, "group", is_relative=False, is_deletion=True),
    ]
    data = encode_details(entries, format_version=22)
    file = ct.parse(data)
    assert isinstance(file, GroupFile)
    assert ct.parse(data, kind="group") == file
    assert file.details.entries == tuple(entries)
    document = to_json(file)
    assert document["details_version"] == 2
    assert [one["deleted"] for one in document["members"]] == [False, True]
    _, region = layout(data, "group", "x")
    assert "members[1].is_deletion" in [span.path for span in region.spans]
