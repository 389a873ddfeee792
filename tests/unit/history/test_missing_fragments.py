"""Names that are compared as blocks: the same answer as by sets, or none."""

from __future__ import annotations

import pickle

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from chronotile.history.missing_fragments import are_same
from chronotile.storage.place import is_path, plain_names

uuids = st.one_of(st.integers(0, 9), st.integers(0, 2**128 - 1))
names = st.builds(
    lambda t, more, uuid, version: f"__{t}_{t + more}_{uuid:032x}_{version}",
    st.one_of(st.just(1_700_000_000_000), st.integers(0, 10**13)),
    st.integers(0, 1),
    uuids,
    st.sampled_from([22, 22, 9]),
)
odd = st.one_of(names, st.sampled_from(["ab", "abc", "a_b", "____________", "x" * 70]))


@settings(max_examples=600, deadline=None)
@given(st.lists(st.one_of(names, odd), min_size=1, max_size=12, unique=True), st.data())
def test_the_same_names_in_any_order(found: list[str], data: st.DataObject) -> None:
    written = data.draw(st.permutations(found))
    kind = data.draw(st.sampled_from(["same", "other", "twice", "letter"]))
    if kind == "other":
        written[0] = data.draw(odd)
    elif kind == "twice":
        written[0] = written[-1]
    elif kind == "letter":
        at = data.draw(st.integers(0, len(written[0]) - 1))
        written[0] = written[0][:at] + "0" + written[0][at + 1 :]
    folders = plain_names(found)
    assert folders is not None
    same = are_same(pa.array(written, pa.string()), folders)
    assert not same or sorted(written) == sorted(found)
    one_length = {len(name) for name in (*written, *found)}
    uuid_ends = {name[-11:-3] for name in found}
    if kind == "same" and len(one_length) == 1 and all(n.endswith("_22") for n in found):
        assert same or len(uuid_ends) < len(found)


@given(st.lists(st.text("ab_.-\n\\ é\ud800", max_size=4), max_size=4))
def test_plain_names_are_paths_of_one_part(found: list[str]) -> None:
    plain = plain_names(found)
    if plain is not None:
        assert plain == tuple(found)
        assert all(is_path(name) and "/" not in name for name in plain)
        assert plain.lines == "".join(f"{name}\n" for name in plain).encode()
        again = pickle.loads(pickle.dumps(plain))
        assert (again, again.lines) == (plain, plain.lines)
