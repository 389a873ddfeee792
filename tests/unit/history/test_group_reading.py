"""Lists of members, opened and let go again: the same members at every moment."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from chronotile.dataset.member_tree import direct_members, member_at
from chronotile.format.groups import GroupEntry, encode_details
from chronotile.format.kinds import MEMBER_KINDS
from chronotile.history.group_reading import read_group
from chronotile.storage.store import open_store
from chronotile.visibility.group_members import files_at, fold, members_at

if TYPE_CHECKING:
    from chronotile.history.group_reading import GroupHistory
    from chronotile.storage.store import Store

NAMES = st.sampled_from(["a", "b", "seven-7", "a-name-of-some-length", "x" * 50, "y" * 50])
ENTRIES = st.builds(
    GroupEntry,
    st.sampled_from(["a", "b.c", "../up", "deep/er", "file:///else/where"]),
    st.none() | NAMES,
    st.sampled_from(MEMBER_KINDS),
    st.booleans(),
    st.booleans(),
)
STEPS = st.lists(st.lists(ENTRIES, max_size=3), min_size=1, max_size=5)


def made(lists: list[list[GroupEntry]], name: str) -> Store:
    """A group with these lists, a moment apart."""
    store = open_store(f"memory:{name}")
    store.remove([entry.path for entry in store.list_prefix()])
    store.put_if_absent("__tiledb_group.tdb", b"")
    for number, entries in enumerate(lists, start=1):
        data = encode_details(entries, format_version=22)
        store.put_if_absent(f"__group/__{number}_{number}_{number:032x}_2", data)
    return store


def growing(steps: list[list[GroupEntry]]) -> list[list[GroupEntry]]:
    """Lists as sessions leave them: each with all that is known by then, the newest first."""
    lists: list[list[GroupEntry]] = []
    for step in steps:
        known = {entry.key: entry for entry in (*reversed(lists[-1] if lists else []), *step)}
        lists.append([*known.values()][::-1])
    return lists


def same_at_every_moment(store: Store, history: GroupHistory) -> None:
    for end in range(len(history.files) + 1):
        every = [file.details for file in files_at(history, 0, end)]
        wanted = fold(details for details in every if details is not None)
        assert members_at(history, 0, end) == wanted
        assert [entry.key for entry in members_at(history, 0, end).values()] == sorted(wanted)
        members = direct_members(store, history, end)
        one_by_one = {member_at(store, entry)[0] for entry in wanted.values()}
        assert set(members) == one_by_one
        rows = zip(*(column.to_pylist() for column in members.table.columns), strict=True)
        assert [(*row, store.uri) for row in rows] == [*members]


@settings(max_examples=60)
@given(steps=STEPS, chance=st.booleans())
def test_members_are_the_same_whatever_is_kept(steps: list[list[GroupEntry]], chance: bool) -> None:
    store = made(growing(steps) if chance else steps, "details-files")
    history = read_group(store)
    same_at_every_moment(store, history)
    same_at_every_moment(store, pickle.loads(pickle.dumps(read_group(store))))


def test_a_list_that_a_later_one_repeats_is_not_read() -> None:
    entries = [GroupEntry(f"a-{n}", f"n-{n}", "array", is_relative=True) for n in range(9)]
    store = made([entries[: 3 * n] for n in range(1, 4)], "details-let-go")
    history = read_group(store)
    first, second, last = history.files
    assert history.repeated == {first.path: last.path, second.path: last.path}
    assert [file.read is None for file in history.files] == [True, True, False]
    assert len(members_at(history, 0, 1)) == 3
    assert first.details is not None
    assert first.details.entries == tuple(entries[:3])
