"""Members of groups at any moment, held to `tiledb.Group` on random histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import GROUPS, GroupCase
from support.group_histories import GroupWriter, by_engine, by_us, make_places

import chronotile as ct

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_places(tmp_path_factory.mktemp("places"))


@pytest.mark.parametrize("seed", range(12))
def test_members_at_random_moments(seed: int, tmp_path: Path, places: Path) -> None:
    uri = str(tmp_path / "group")
    history = GroupWriter(seed, uri, places)
    for _ in range(12):
        history.session()
    tried = {0, 1, *history.moments, *(m - 1 for m in history.moments), 5000, None}
    for moment in tried:
        assert by_us(uri, moment) == by_engine(uri, moment), moment
    assert any(by_us(uri, moment) for moment in tried)


@pytest.mark.parametrize("case", GROUPS.values(), ids=list(GROUPS))
def test_members_and_visible_fragments_of_the_corpus_at_every_moment(case: GroupCase) -> None:
    dataset = ct.open_dataset(str(case.group))
    tried = 0
    for moment in case.said["moments"]:
        view = dataset.view(moment["at"])
        kinds = {one["path"]: one["kind"] for one in moment["members"]}
        assert {node.path: node.member.kind for node in view.nodes} == kinds, moment["at"]
        gone = {one["path"] for one in moment["members"] if not one["there"]}
        assert {node.path for node in view.nodes if node.found == "missing"} == gone
        for one in moment["members"]:
            if one["path"] in view.views:
                seen = [item.name for item in view.views[one["path"]].fragments]
                assert seen == one["fragments"], (moment["at"], one["path"])
                tried += 1
    assert tried >= (0 if case.name == "group-copied" else 5)
