"""The rules, one by one, on logs made of nothing but names."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.corpus_cases import log_of

from chronotile.format import tiles
from chronotile.format.names import MAX_TIMESTAMP, parse_name
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.storage.store import open_store
from chronotile.visibility.rules import Rule, first_end, is_inside, is_seen

if TYPE_CHECKING:
    from chronotile.visibility.view import View

numbers = itertools.count()


def name(t1: int, t2: int, number: int = 0, version: int = 22) -> str:
    return f"__{t1}_{t2}_{number:032x}_{version}"


def log(*fragments: str, dense: bool = False, **files: str) -> Log:
    """A log in memory: fragments with folder and commit, and further files of `__commits`.

    A file is given as its extension and a number (`con1`), with its name and its lines.
    """
    store = open_store(f"memory:test-visibility-{next(numbers)}")
    case = log_of("dense-square" if dense else "sparse-loose")
    (schema,) = case.history.schemas
    store.put_if_absent(schema.path, open_store(case.array).read(schema.path))
    for fragment in fragments:
        store.put_if_absent(f"__fragments/{fragment}/__fragment_metadata.tdb", b"")
        store.put_if_absent(f"__commits/{fragment}.wrt", b"")
    for kind, text in files.items():
        own, *lines = text.split()
        extension = kind.rstrip("0123456789")
        content = "".join(f"{line}\n" for line in lines).encode()
        store.put_if_absent(f"__commits/{own}.{extension}", content)
    return Log(read_history(store), store)


def seen(view: View) -> list[tuple[int, int, bool]]:
    return [(one.t1, one.t2, one.partial) for one in view.fragments]


def rule_of(view: View, fragment: str) -> str:
    told = {(one.kind, one.name): one.reason for one in view.explain()}
    return told["fragment", fragment]


def test_sparse_overlap_and_dense_containment() -> None:
    sparse, dense = log(name(10, 20)), log(name(10, 20), dense=True)
    for start, end, inside, overlaps in (
        (0, 9, False, False),
        (0, 10, False, True),
        (0, 19, False, True),
        (0, 20, True, True),
        (10, 20, True, True),
        (11, 20, False, True),
        (20, 30, False, True),
        (21, 30, False, False),
        (12, 15, False, True),
    ):
        assert seen(dense.view(start, end)) == ([(10, 20, False)] if inside else [])
        assert seen(sparse.view(start, end)) == ([(10, 20, not inside)] if overlaps else [])


@pytest.mark.parametrize(("version", "found"), [(14, []), (15, [(10, 20, True)])])
def test_the_version_that_brought_timestamps(
    version: int, found: list[tuple[int, int, bool]]
) -> None:
    assert seen(log(name(10, 20, version=version)).view(0, 15)) == found


def test_an_ign_hides_what_stands_in_a_con_only() -> None:
    loose, held = name(1, 1, 1), name(2, 2, 2)
    lines = f"__commits/{loose}.wrt __commits/{held}.wrt"
    said = log(loose, con=f"{name(1, 2, 8)} {lines}", ign=f"{name(900, 900, 9)} {lines}")
    assert seen(said.view(0, 10)) == [(1, 1, False)]
    assert rule_of(said.view(0, 10), held) == Rule.IGNORED.value


def test_a_con_is_read_whatever_its_name_says() -> None:
    held = name(5, 5, 1)
    said = log(held, con=f"{name(900, 900, 8)} __commits/{held}.wrt")
    assert seen(said.view(0, 10)) == [(5, 5, False)]


def test_a_vac_hides_where_it_is_in_the_window() -> None:
    old, new = name(10, 10, 1), name(10, 20, 2)
    vac = f"{name(10, 20, 2)} /__fragments/{old}"
    sparse, dense = log(old, new, vac=vac), log(old, new, vac=vac, dense=True)
    assert seen(sparse.view(0, 15)) == [(10, 20, True)]
    assert seen(dense.view(0, 15)) == [(10, 10, False)]
    assert seen(dense.view(0, 20)) == [(10, 20, False)]
    assert rule_of(dense.view(0, 20), old) == Rule.SUPERSEDED.value


def test_superseded_comes_before_missing() -> None:
    gone, new = name(10, 10, 1), name(10, 20, 2)
    said = log(new, vac=f"{new} {gone}", con=f"{name(1, 1, 8)} __commits/{gone}.wrt", dense=True)
    assert rule_of(said.view(0, 20), gone) == Rule.SUPERSEDED.value
    assert rule_of(said.view(0, 15), gone) == Rule.MISSING.value
    assert rule_of(said.view(0, 5), gone) == Rule.OUTSIDE.value


def test_order_is_that_of_numbers() -> None:
    said = log(*(name(t, t) for t in (100, 9, 10, 1000)))
    assert [one.t1 for one in said.view(0, 9999).fragments] == [9, 10, 100, 1000]


def test_the_last_moment() -> None:
    said = log(name(MAX_TIMESTAMP, MAX_TIMESTAMP), name(0, 0))
    assert len(said.view(0, MAX_TIMESTAMP).fragments) == 2
    assert seen(said.view(0, MAX_TIMESTAMP - 1)) == [(0, 0, False)]
    assert seen(said.view(0, 0)) == [(0, 0, False)]


def test_deletes_want_containment() -> None:
    tile = tiles.encode(b"", version=22)
    store = open_store(f"memory:test-visibility-{next(numbers)}")
    case = log_of("sparse-loose")
    (schema,) = case.history.schemas
    store.put_if_absent(schema.path, open_store(case.array).read(schema.path))
    store.put_if_absent(f"__commits/{name(10, 20)}.del", tile)
    said = Log(read_history(store), store)
    for start, end, count in ((0, 19, 0), (0, 20, 1), (10, 20, 1), (11, 20, 0)):
        assert len(said.view(start, end).deletes) == count


TIMES = st.integers(0, 40)


@given(TIMES, TIMES, TIMES, TIMES, st.booleans(), st.sampled_from((8, 14, 15, 22)))
def test_seen_inside_and_first_end(
    one: int, two: int, start: int, end: int, dense: bool, version: int
) -> None:
    t1, t2 = sorted((one, two))
    start, end = sorted((start, end))
    parsed = parse_name(name(t1, t2, version=version))
    assert is_inside(t1, t2, start, end) == (start <= t1 and t2 <= end)
    if is_inside(t1, t2, start, end):
        assert is_seen(parsed, start, end, dense=dense)
    assert is_seen(parsed, 0, end, dense=dense) == (end >= first_end(parsed, dense=dense))


def test_every_rule_has_a_status() -> None:
    assert {rule: rule.status for rule in Rule if rule.status != "hidden"} == {
        Rule.INSIDE: "visible",
        Rule.OVERLAPS: "partial",
    }


few = st.sets(st.integers(0, 5), max_size=6)
prefixes = st.sampled_from(["__commits/", "elsewhere/"])


@given(folders=few, loose=few, listed=st.lists(st.tuples(prefixes, st.integers(0, 5)), max_size=6))
@example(folders={0, 1}, loose={0}, listed=[("elsewhere/", 0)])
def test_folders_without_a_commit(
    folders: set[int], loose: set[int], listed: list[tuple[str, int]]
) -> None:
    """However many folders and commits there are, and wherever a commit is named again."""
    names = [name(10 + number // 2, 20, number) for number in range(6)]
    store = open_store(f"memory:test-uncommitted-{next(numbers)}")
    case = log_of("sparse-loose")
    (schema,) = case.history.schemas
    store.put_if_absent(schema.path, open_store(case.array).read(schema.path))
    for number in folders:
        store.put_if_absent(f"__fragments/{names[number]}/__fragment_metadata.tdb", b"")
    for number in loose:
        store.put_if_absent(f"__commits/{names[number]}.wrt", b"")
    lines = "".join(f"{prefix}{names[number]}.wrt\n" for prefix, number in listed)
    store.put_if_absent(f"__commits/{name(10, 20, 99)}.con", lines.encode())
    committed = loose | {number for _, number in listed}
    expected = {names[number]: f"__fragments/{names[number]}" for number in folders - committed}
    assert Log(read_history(store), store).rules.uncommitted == expected
