"""Arrays below a root: found wherever they lie, and none inside another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import CASES, ROOT

from chronotile.errors import ArrayNotFoundError, StorageError
from chronotile.fleet.find_arrays import find_arrays

if TYPE_CHECKING:
    from pathlib import Path


def test_discovery_finds_arrays_and_nothing_inside_them(tmp_path: Path) -> None:
    for name in ("a", "group/b", "group/deeper/c", "group/__group/x", "old"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("a", "group/b", "group/deeper/c"):
        (tmp_path / name / "__schema").mkdir()
        (tmp_path / name / "__labels" / "l" / "__schema").mkdir(parents=True)
    (tmp_path / "old" / "__array_schema.tdb").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = find_arrays(str(tmp_path))
    names = ("a", "group/b", "group/deeper/c", "old")
    assert found.uris == tuple(str(tmp_path / name) for name in names)
    assert found.problems == ()
    assert find_arrays([str(tmp_path / "a"), str(tmp_path)]).uris == found.uris


def test_discovery_finds_every_array_of_the_corpus() -> None:
    found = find_arrays(str(ROOT)).uris
    assert {str(case.array) for case in CASES.values()} <= set(found)
    assert not [uri for uri in found if "__labels" in uri]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("g*/b", ("g1/b", "g2/b")),
        ("g?", ("g1/b", "g1/c", "g2/b", "g2/d/b")),
        ("**/b", ("g1/b", "g2/b", "g2/d/b")),
        ("g[1]/*", ("g1/b", "g1/c")),
    ],
)
def test_patterns_stand_for_folders(tmp_path: Path, pattern: str, names: tuple[str, ...]) -> None:
    for name in ("g1/b", "g1/c", "g2/b", "g2/d/b"):
        (tmp_path / name / "__schema").mkdir(parents=True)
    found = find_arrays(f"{tmp_path}/{pattern}")
    assert found.uris == tuple(str(tmp_path / name) for name in names)


def test_a_root_with_a_star_in_its_name_is_taken_as_written(tmp_path: Path) -> None:
    (tmp_path / "g*" / "a" / "__schema").mkdir(parents=True)
    (tmp_path / "gx" / "b" / "__schema").mkdir(parents=True)
    assert find_arrays(f"{tmp_path}/g*").uris == (str(tmp_path / "g*" / "a"),)


def test_a_path_into_an_array_or_group_leads_to_it(tmp_path: Path) -> None:
    for folder in ("a/__schema", "a/__commits", "a/__labels/l/__schema", "g/__group", "__meta/b"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "__meta" / "b" / "__schema").mkdir()
    for inside in ("a/__commits", "a/__commits/__1_1_ab_22.wrt", "a/__schema"):
        assert find_arrays(str(tmp_path / inside)).uris == (str(tmp_path / "a"),)
    assert find_arrays(str(tmp_path / "g" / "__group")).groups == (str(tmp_path / "g"),)
    for itself in ("a/__labels/l", "__meta/b"):
        assert find_arrays(str(tmp_path / itself)).uris == (str(tmp_path / itself),)


def test_a_root_that_is_not_there_names_one_like_it(tmp_path: Path) -> None:
    (tmp_path / "readings" / "__schema").mkdir(parents=True)
    words = f"did you mean {tmp_path / 'readings'}?"
    with pytest.raises(ArrayNotFoundError, match=re.escape(words)):
        find_arrays(str(tmp_path / "raedings"))
    (problem,) = find_arrays([str(tmp_path), str(tmp_path / "raedings")], lenient=True).problems
    assert problem.message.endswith(words)


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    for root in ("nowhere", "no*where"):
        with pytest.raises(ArrayNotFoundError, match=r"no\*?where"):
            find_arrays(f"{tmp_path}/{root}")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StorageError, match="loop"):
        find_arrays(str(tmp_path / "loop"))
    fleet = find_arrays(str(tmp_path / "nowhere"), lenient=True)
    assert [problem.missing for problem in fleet.problems] == [True]
