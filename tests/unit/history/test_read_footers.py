"""The fast way to the footers of many fragments gives what the slow one gives."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
from support.engine_arrays import EngineArray

from chronotile.errors import ChronotileError
from chronotile.format.consolidated_footers import NamedFooters
from chronotile.format.footer_columns import joined
from chronotile.history.listing import list_array
from chronotile.history.read_footers import FooterReader, OwnMetadata
from chronotile.history.read_history import read_history
from chronotile.storage.side_by_side import sizes, tails
from chronotile.storage.store import StrangerError, open_store

if TYPE_CHECKING:
    import pathlib


def test_damaged_linked_and_lost_ones(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(1, 13):
        array.write(at, {at: at})
    folder = array.folder / "__fragments"
    cut, longer, odd, lost, linked, other = sorted(folder.iterdir())[1:7]
    files = [path / "__fragment_metadata.tdb" for path in (cut, longer, odd, lost, other)]
    files[0].write_bytes(files[0].read_bytes()[:-5])
    whole = files[1].read_bytes()
    files[1].write_bytes(whole[:-8] + bytes(8) + (len(whole) + 8).to_bytes(8, "little"))
    # The flag that says whether there are timestamps is behind two ranges' numbers.
    length = int.from_bytes(files[2].read_bytes()[-8:], "little")
    data = bytearray(files[2].read_bytes())
    at = len(data) - 8 - length
    data[at : at + 4] = (99).to_bytes(4, "little")
    files[2].write_bytes(data)
    files[3].unlink()
    shutil.move(linked, tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    swapped = whole.replace(b"__schema", b"__schemx")
    files[4].write_bytes(swapped[:-16])
    store = open_store(array.uri)
    history = read_history(store)
    found = dict(FooterReader(store, history).read(history.listing.fragment_paths(), own=True))
    bad = {path.name for path in (cut, longer, odd, lost, linked, other)}
    assert {name for name, one in found.items() if isinstance(one, ChronotileError)} == bad
    assert len(found) == 12


def test_a_folder_that_became_a_link_since_the_listing(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(1, 4):
        array.write(at, {at: at})
    store = open_store(array.uri)
    listing = list_array(store)
    before = OwnMetadata(store, listing).tails(listing.fragments)
    assert not any(isinstance(tail, ChronotileError) for tail in before)
    folder = array.folder / "__fragments" / listing.fragments[1]
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    after = OwnMetadata(store, listing).tails(listing.fragments)
    assert isinstance(after[1], StrangerError)
    assert [after[0], after[2]] == [before[0], before[2]]


def test_places_are_those_of_a_dictionary() -> None:
    """In the order of the names, in another, of names that are there twice or not at all."""
    spans = joined(bytes([at]) for at in range(5))
    for texts in (["a", "b", "c", "d", "e"], ["e", "b", "b", "a", "e"]):
        held = NamedFooters(pa.array(texts), spans)
        last = {text: at for at, text in enumerate(texts)}
        asked = ["a", "b", "c", "d", "e"]
        for names in (asked, asked[::-1], ["b", "z"], []):
            found = held.places(pa.array(names, pa.string())).tolist()
            assert found == [last.get(name, -1) for name in names]


def test_a_link_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a" / "f" / "real").mkdir(parents=True)
    (tmp_path / "a" / "f" / "real" / "x").write_bytes(b"0123456789")
    (tmp_path / "a" / "f" / "linked").symlink_to(tmp_path / "a" / "f" / "real")
    (tmp_path / "a" / "f" / "inside").mkdir()
    (tmp_path / "a" / "f" / "inside" / "x").symlink_to(tmp_path / "a" / "f" / "real" / "x")
    store = open_store(str(tmp_path / "a"))
    folders = ["f/real", "f/linked", "f/inside", "f/gone"]
    hooked = store.watched(lambda *_: None)
    for one in (store, hooked):
        first, *others = tails(one, folders, "x", 4, {})
        assert first == (b"6789", 10)
        assert all(isinstance(error, ChronotileError) for error in others)
        (refused,) = tails(one, ["f/../f/real"], "x", 4, {})
        assert isinstance(refused, ChronotileError)
        size, *errors = sizes(one, ["f/real", "f/inside", "f/gone"], "x", {})
        assert size == 10
        assert all(isinstance(error, ChronotileError) for error in errors)
        nowhere = [folder.replace("f", "g", 1) for folder in folders]
        answers = [*tails(one, nowhere, "x", 4, {}), *sizes(one, nowhere, "x", {})]
        assert len(answers) == 2 * len(folders)
        assert all(isinstance(answer, ChronotileError) for answer in answers)
