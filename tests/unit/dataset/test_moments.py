"""Moments at which a dataset can be read whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.groups import codes_of, member, put_array, put_list

import chronotile as ct

if TYPE_CHECKING:
    from pathlib import Path


def test_a_merge_that_was_vacuumed_leaves_a_gap(tmp_path: Path) -> None:
    """A dense array merged over 10 to 20 and vacuumed cannot be read whole in between."""
    put_array(tmp_path / "dense", "dense-vacuumed-v22")
    put_array(tmp_path / "kept", "dense-consolidated-v22")
    put_array(tmp_path / "sparse", "sparse-vacuumed")
    names = ("dense", "kept", "sparse")
    put_list(tmp_path, 1, *(member(name, name) for name in names))
    dataset = ct.open_dataset(str(tmp_path))
    (gap,) = {item for item in codes_of(tmp_path, as_of=15) if item[0] == "as-of-partial"}
    assert gap[1:] == ("error", gap[2])
    first, last = map(int, gap[2].split("/__")[1].split("_")[:2])
    assert first <= 15 < last
    assert not [item for item in codes_of(tmp_path, as_of=last) if item[1] == "error"]
    moments = dataset.moments()
    assert moments
    assert not any(moment.t < last and moment.t >= first for moment in moments)
    assert moments[-1].until is None
    for moment in moments:
        found = dataset.check(as_of=moment.t)
        assert not [item for item in found if item.severity != "info"], moment
    assert [item[0] for item in codes_of(tmp_path, as_of=0) if item[1] != "info"] == [
        "as-of-absent"
    ]
