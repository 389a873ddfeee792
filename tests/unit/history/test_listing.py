"""Listings: every file in its place, old layouts and new, strangers kept; nothing opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.corpus_cases import CASES, log_of

from chronotile.errors import ArrayNotFoundError
from chronotile.history.listing import list_array
from chronotile.storage.store import Store, open_store

UUID = "00112233445566778899aabbccddeeff"


def made(where: str, *files: str) -> Store:
    """A store in memory with empty files."""
    store = open_store(f"memory:test-listing-{where}")
    for path in files:
        store.put_if_absent(path, b"")
    return store


@pytest.mark.parametrize("case", CASES)
def test_no_file_is_lost(case: str) -> None:
    """All that lies on the first two levels is in one part of the listing, and in one only."""
    array = Path(log_of(case).array)
    listing = list_array(open_store(array))
    found = [
        *(f"__commits/{name}" for name in listing.commits),
        *listing.root_commits,
        *(f"__fragments/{name}" for name in listing.fragments),
        *listing.root_fragments,
        *listing.fragment_meta,
        *listing.schemas,
        *listing.enumerations,
        *(f"__meta/{name}" for name in listing.meta),
        *listing.others,
    ]
    assert len(found) == len(set(found))
    folders = {"__commits", "__fragments", "__fragment_meta", "__schema", "__meta", "__labels"}
    there = {
        path.relative_to(array).as_posix()
        for path in (*array.glob("*"), *array.glob("__[cfms]*/*"), *array.glob("__schema/*/*"))
    }
    deeper = {path for path in there if path.partition("/")[0] in listing.root_fragments}
    deeper -= set(listing.root_fragments)
    # The engine's lock file holds nothing, and is no part of the log.
    assert set(found) == there - folders - deeper - {"__schema/__enumerations", "__lock.tdb"}


def test_old_and_new_side_by_side() -> None:
    listing = list_array(
        made(
            "both",
            "__array_schema.tdb",
            f"__schema/__1_1_{UUID}",
            f"__1_2_{UUID}_8/__fragment_metadata.tdb",
            f"__1_2_{UUID}_8.ok",
            f"__1_2_{UUID}_8.vac",
            f"__1_2_{UUID}_8.meta",
            f"__3_3_{UUID}/__fragment_metadata.tdb",
            f"__4_4_{UUID}/data.tdb",
            f"__{UUID}_5/__fragment_metadata.tdb",
            f"__commits/__6_6_{UUID}_22.wrt",
            f"__fragments/__6_6_{UUID}_22/__fragment_metadata.tdb",
            f"__fragment_meta/__6_6_{UUID}_22.meta",
        )
    )
    assert listing.schemas == ("__array_schema.tdb", f"__schema/__1_1_{UUID}")
    assert listing.root_commits == (f"__1_2_{UUID}_8.ok", f"__1_2_{UUID}_8.vac")
    assert set(listing.implied) == {f"__3_3_{UUID}", f"__{UUID}_5"}
    assert f"__4_4_{UUID}" in listing.root_fragments
    assert listing.fragments == (f"__6_6_{UUID}_22",)
    assert listing.fragment_meta == (
        f"__1_2_{UUID}_8.meta",
        f"__fragment_meta/__6_6_{UUID}_22.meta",
    )
    assert listing.others == ()
    assert listing.requests == 7 + 3  # three fragments of before version 5 without their `.ok`


def test_no_schema_no_array() -> None:
    with pytest.raises(ArrayNotFoundError, match="no schema"):
        list_array(made("none", f"__commits/__6_6_{UUID}_22.wrt"))
    with pytest.raises(ArrayNotFoundError):
        list_array(made("empty"))


def test_strangers() -> None:
    listing = list_array(
        made("strange", f"__schema/__1_1_{UUID}", "notes", "attic/a", "__fragments/b", "__meta/c/d")
    )
    assert listing.others == ("__fragments/b", "__meta/c", "attic", "notes")
    assert listing.commits == ()
