"""Names of commits and of folders, compared in parts: the same answer as by sets."""

from __future__ import annotations

import pickle
from itertools import count
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus_cases import CASES

from chronotile.history import missing_fragments
from chronotile.history.missing_fragments import lost_writes, match_names
from chronotile.history.read_history import read_history
from chronotile.storage.place import is_path, plain_names
from chronotile.storage.store import open_store

uuids = st.one_of(st.integers(0, 9), st.integers(0, 2**128 - 1))
names = st.builds(
    lambda t, more, uuid, version: f"__{t}_{t + more}_{uuid:032x}_{version}",
    st.one_of(st.just(1_700_000_000_000), st.integers(0, 10**13)),
    st.integers(0, 1),
    uuids,
    st.sampled_from([22, 22, 9]),
)
odd = st.sampled_from(["", "ab", "a_b", "____________", "x" * 70, "\udc80", "a\nb"])
numbers = count()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(names, max_size=12, unique=True),
    st.lists(odd, max_size=2, unique=True),
    st.sampled_from([1, 3, 1000]),
    st.data(),
)
def test_any_names(written: list[str], others: list[str], step: int, data: st.DataObject) -> None:
    store = open_store(f"memory:missing-fragments-{next(numbers)}")
    (schema,) = (next(iter(CASES.values())).array / "__schema").glob("__*_*_*")
    store.put_if_absent(f"__schema/{schema.name}", schema.read_bytes())
    for name in written:
        store.put_if_absent(f"__commits/{name}.wrt", b"")
    table = read_history(store, fragments=False).table
    folders = data.draw(st.permutations(written))[data.draw(st.integers(0, 2)) :]
    near = [name[:at] + "0" + name[at + 1 :] for at, name in enumerate(folders[:1], 20)]
    folders = [*dict.fromkeys((*folders, *near, *others))]
    rows = np.arange(len(table))
    with mock.patch.object(missing_fragments, "_STEP", step):
        for listed in (folders, plain_names(folders) or ()):
            of_row, of_folder = match_names(table, rows, listed)
            assert of_row.tolist() == [table.name(row) in {*listed} for row in rows.tolist()]
            assert of_folder.tolist() == [name in {*written} for name in listed]
            assert lost_writes(table, listed).tolist() == (~of_row).tolist()


@given(st.lists(st.text("ab_.-\n\\ é\ud800", max_size=4), max_size=4))
def test_plain_names_are_paths_of_one_part(found: list[str]) -> None:
    plain = plain_names(found)
    if plain is not None:
        assert plain == tuple(found)
        assert all(is_path(name) and "/" not in name for name in plain)
        assert plain.lines == "".join(f"{name}\n" for name in plain).encode()
        again = pickle.loads(pickle.dumps(plain))
        assert (again, again.lines) == (plain, plain.lines)
