"""Details files: encoded, decoded, held to the generated parser; hostile ones are refused."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronotile as ct
from chronotile.errors import BadFileError
from chronotile.format import tiles
from chronotile.format.group_columns import scan_details
from chronotile.format.group_folding import fold_columns
from chronotile.format.groups import GroupDetails, GroupEntry, decode_details, encode_details
from chronotile.format.kinds import MEMBER_KINDS
from chronotile.format.parsers import GroupDetailsSpec, parse
from chronotile.single_file.as_json import to_json
from chronotile.single_file.byte_ranges import layout
from chronotile.single_file.decode import GroupFile
from chronotile.visibility.group_members import fold

if TYPE_CHECKING:
    from random import Random

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


@given(st.lists(PLAIN, min_size=1, max_size=4))
def test_columns_give_what_entries_give(files: list[list[GroupEntry]]) -> None:
    payloads = [payload_of(entries) for entries in files]
    scanned = [scan_details(payload) for payload in payloads]
    columns = [one for one in scanned if one is not None]
    known = [decode_details(one.payload, "x") for one in columns]
    for one, whole in zip(columns, known, strict=True):
        assert one.keys() == [entry.key.encode() for entry in whole.entries]
    left = fold_columns(columns)
    assert left is not None
    assert sorted(left.entries(), key=str) == sorted(fold(known).values(), key=str)


@given(st.randoms(use_true_random=False), st.booleans(), st.integers(0, 2))
def test_lists_that_repeat_lists_before_them_fold_to_the_same(
    chance: Random, is_equal: bool, odd: int
) -> None:
    """Each list holds what the one before held, in another order, but for `odd` entries."""

    def entry(number: int) -> GroupEntry:
        name = f"member-{number:06}" if is_equal else f"m{number}" * chance.choice((1, 1, 4))
        kind = chance.choice(MEMBER_KINDS)
        return GroupEntry(name + "-uri", chance.choice((name, name, None)), kind, is_relative=True)

    def changed(one: GroupEntry) -> GroupEntry:
        return chance.choice((one._replace(is_deletion=True), one._replace(kind="invalid"), one))

    lists: list[list[GroupEntry]] = [[]]
    for session in range(4):
        last = [*lists[-1], *(entry(session * 40 + number) for number in range(40))]
        for _ in range(odd):
            last.append(changed(last.pop(chance.randrange(len(last)))))
            del last[chance.randrange(len(last))]
        cut = chance.randrange(len(last))
        last = last[cut:] + last[:cut]
        lists.append(chance.sample(last, len(last)) if session % 2 else last)
    columns = [scan_details(payload_of(entries)) for entries in lists]
    known = [one for one in columns if one is not None]
    assert len(known) == len(lists)
    left = fold_columns(known)
    assert left is not None
    wanted = fold(GroupDetails(2, tuple(entries)) for entries in lists)
    assert sorted(left.entries(), key=str) == sorted(wanted.values(), key=str)
    assert len(left) == len(left.members().name) == len(wanted)
    if not odd:
        assert len(left.parts) == 1, "the lists before the last are passed over"


@pytest.mark.parametrize("more", [[], [GroupEntry("b", "b", "array", is_relative=True)]])
def test_keys_that_differ_only_where_no_number_of_them_looks_are_two(
    more: list[GroupEntry],
) -> None:
    """The bytes decide whether a list repeats another, for entries of one length and of several."""
    one, two = (GroupEntry("a", x + "x" * 60, "array", is_relative=True) for x in "AB")
    lists = [scan_details(payload_of([entry, *more])) for entry in (one, two)]
    left = fold_columns([columns for columns in lists if columns is not None])
    assert left is not None
    assert sorted(left.entries()) == sorted([one, two, *more])


@pytest.mark.parametrize("key", ["", "ab", "seven-7", "a-name-of-some-length"])
def test_two_entries_of_one_key_in_a_list_count_once(key: str) -> None:
    for twice in (
        [GroupEntry(f"u{n}", key, "array", is_relative=True) for n in range(2)],
        [GroupEntry(key, name, "array", is_relative=True) for name in (None, key)],
    ):
        columns = scan_details(payload_of(twice))
        assert columns is not None
        left = fold_columns([columns])
        assert left is not None
        assert left.entries() == twice[1:]


def test_columns_are_for_what_the_engine_writes() -> None:
    names = [GroupEntry(f"a{n}", f"n{n}", "array", is_relative=n % 2 == 0) for n in range(300)]
    columns = scan_details(payload_of(names))
    assert columns is not None
    assert len(columns) == 300
    assert scan_details(payload_of(names, version=1)) is None
    assert scan_details(payload_of([GroupEntry("ü", None, "array", is_relative=True)])) is None
    assert scan_details(payload_of(names)[:-1]) is None
    local = scan_details(payload_of([GroupEntry("/a", None, "array", is_relative=False)]))
    assert local is not None
    assert fold_columns([local]) is None


@given(PLAIN, st.data())
def test_columns_refuse_damage_or_give_what_entries_give(
    entries: list[GroupEntry], data: st.DataObject
) -> None:
    payload = bytearray(payload_of(entries))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 127))
    columns = scan_details(bytes(payload))
    if columns is not None:
        whole = decode_details(bytes(payload), "x")
        assert columns.keys() == [entry.key.encode() for entry in whole.entries]


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
