"""`show` and `parse` of what tells of fragments, in the array and away from it."""

from __future__ import annotations

import json
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest
from support.corpus_cases import CASES

import chronotile as ct
from chronotile.cli.program import main
from chronotile.errors import BadFileError, UnknownVersionError
from chronotile.format import tiles
from chronotile.format.consolidated_footers import (
    encode_consolidated_footers,
    read_index,
)
from chronotile.single_file.decode import (
    ConsolidatedFootersFile,
    FragmentMetadataFile,
    read_schemas,
)
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPARSE = CASES["inside-sparse-v22"].array
METADATA = "__fragment_metadata.tdb"


def fragment(array: Path, start: str) -> Path:
    return next(
        path for path in sorted(array.rglob(METADATA)) if path.parent.name.startswith(start)
    )


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*args: object) -> tuple[int, str, str]:
        status = main(["show", *map(str, args)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def test_metadata_in_its_array(show: Callable[..., tuple[int, str, str]]) -> None:
    path = fragment(SPARSE, "__30_36_")
    status, out, _ = show(path, "--json")
    said: dict[str, Any] = json.loads(out)
    assert status == 0
    assert said["kind"] == "fragment-metadata"
    assert (said["cells"], said["tiles"], said["format_version"]) == (9, 3, 22)
    assert said["domain"] == [[-2, 18], ["20", "kkk7"]]
    assert said["has_timestamps"]
    assert said["has_delete_metadata"]
    assert said["applied_deletes"][0].startswith("__commits/__35_35_")
    files = {p.name: p.stat().st_size for p in path.parent.iterdir() if p.name != METADATA}
    assert said["files"] == files
    fields = {field["field"]: field for field in said["fields"]}
    assert fields["u"]["sum"] == 111000
    assert fields["x"]["sums"] == [-3, 18, 51]
    assert fields["f"]["sum"] == 20.25
    assert fields["f"]["nulls"] == 3
    assert fields["b"]["maxima"] == ["xxxx", "xx", "xxx"]
    assert [len(level) for level in said["r_tree"]["levels"]] == [1, 3]
    assert said["r_tree"]["levels"][0] == [said["domain"]]


def test_as_a_tree_and_byte_by_byte(show: Callable[..., tuple[int, str, str]]) -> None:
    path = fragment(SPARSE, "__30_36_")
    status, out, _ = show(path)
    assert status == 0
    assert "the metadata of a fragment" in out
    assert "cells  9" in out
    _, out, _ = show(path, "--hex", "--json")
    layout = json.loads(out)["layout"]
    assert [field["field"] for field in layout[0]["fields"]][-1] == "len_footer"
    titles = {region["region"].partition(", ")[2] for region in layout}
    assert {"R-tree", "sums of u", "statistics", "applied deletes"} <= titles


def test_away_from_its_array(tmp_path: Path, show: Callable[..., tuple[int, str, str]]) -> None:
    """What can be told without a schema is told; a schema that is given is taken."""
    alone = tmp_path / "alone"
    shutil.copy(fragment(SPARSE, "__30_36_"), alone)
    _, out, _ = show(alone, "--json")
    said = json.loads(out)
    assert said["kind"] == "fragment-metadata"
    assert "cells" not in said
    assert sum(tile["size"] for tile in said["stored_tiles"]) == said["footer_offset"]
    for schema in (SPARSE, next((SPARSE / "__schema").glob("__1*"))):
        _, out, _ = show(alone, "--json", "--schema", schema)
        assert json.loads(out)["cells"] == 9
    status, _, err = show(alone, "--schema", CASES["inside-dense-v22"].array, "--json")
    assert status == 0, "a schema of another name is not taken for its own"
    status, _, err = show(
        alone, "--schema", next((CASES["sparse-loose"].array / "__schema").glob("__1*"))
    )
    assert status == 3
    assert (
        "alone, footer: at byte 110: expected the numbers of 3 fields in 288 bytes, found 918"
        in err
    )


def test_a_schema_that_is_not_there(
    tmp_path: Path, show: Callable[..., tuple[int, str, str]]
) -> None:
    array = tmp_path / "array"
    shutil.copytree(SPARSE, array)
    shutil.copytree(
        CASES["sparse-loose"].array / "__schema", array / "__schema", dirs_exist_ok=True
    )
    named = json.loads(show(fragment(array, "__50_50_"), "--json")[1])["schema"]
    (array / "__schema" / named).unlink()
    _, out, _ = show(fragment(array, "__50_50_"), "--json")
    assert "cells" not in json.loads(out)
    (meta,) = (array / "__fragment_meta").iterdir()
    _, out, _ = show(meta, "--json")
    assert all("cells" not in one for one in json.loads(out)["fragments"])


@pytest.mark.parametrize("name", sorted(n for n in CASES if "inside-" in n and n < "old"))
def test_every_footer_of_a_meta(
    name: str, show: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    case = CASES[name]
    (meta,) = (case.array / "__fragment_meta").iterdir()
    secret = tmp_path / "key"
    secret.write_bytes(case.key or b"")
    options = ["--key-file", secret] if case.key else []
    status, out, _ = show(meta, "--json", *options)
    assert status == 0
    for one in json.loads(out)["fragments"]:
        path = case.array / "__fragments" / one["fragment"] / METADATA
        own = json.loads(show(path, "--json", *options)[1])
        assert own["footer_size"] == one["size"] + 8
        for key in ("schema", "type", "domain", "tiles", "cells", "cell_bytes", "files"):
            assert own[key] == one[key]
    if case.key:
        status, _, err = show(meta)
        assert status == 3
        assert "expected the array's key" in err
        _, out, _ = show(fragment(case.array, "__50_50_"), "--json")
        said = json.loads(out)
        assert said["encrypted"]
        assert "cells" not in said, "the footer is open, but no schema is"


def test_one_bad_footer_does_not_hide_the_others(
    tmp_path: Path, show: Callable[..., tuple[int, str, str]]
) -> None:
    (meta,) = (SPARSE / "__fragment_meta").iterdir()
    listed = read_index(tiles.decode(meta.read_bytes(), "x").payload, "x").listed()
    pairs = [(item.name, item.footer) for item in listed]
    name, footer = pairs[1]
    pairs[1] = ("../../" + name, footer[:-3])
    spoiled = tmp_path / "__1_2_00112233445566778899aabbccddeeff_22.meta"
    spoiled.write_bytes(encode_consolidated_footers(pairs, version=22))
    status, out, _ = show(spoiled, "--schema", SPARSE, "--json")
    assert status == 0
    found = json.loads(out)["fragments"]
    assert ["error" in one for one in found] == [False, True, False]
    assert "expected the numbers of 10 fields in 904 bytes, found 901" in found[1]["error"]


def test_parse() -> None:
    path = fragment(SPARSE, "__30_36_")
    found = ct.parse(path)
    assert isinstance(found, FragmentMetadataFile)
    assert found == ct.parse(path.read_bytes())
    schema = read_schemas(open_store(str(SPARSE)))[0]
    assert found.decode(schema).footer.domain is not None
    (meta,) = (SPARSE / "__fragment_meta").iterdir()
    held = ct.parse(meta)
    assert isinstance(held, ConsolidatedFootersFile)
    assert held == ct.parse(meta.read_bytes())
    assert len(held.footers) == 3


def test_versions_that_are_not_known() -> None:
    (old, *_) = CASES["era-one"].array.rglob(METADATA)
    with pytest.raises(UnknownVersionError, match=r"expected a version from 3 to 23, found 2$"):
        ct.parse(old)
    found = ct.parse(fragment(SPARSE, "__50_50_"))
    assert isinstance(found, FragmentMetadataFile)
    start, data = found.frame.footer_start, found.data
    newer = data[:start] + struct.pack("<I", 24) + data[start + 4 :]
    with pytest.raises(UnknownVersionError, match=r"found 24$"):
        ct.parse(newer, "fragment-metadata")
    with pytest.raises(BadFileError, match="it is no commit file, schema or metadata"):
        ct.parse(newer)


def test_a_fragment_of_an_unknown_version_is_not_called_damaged(tmp_path: Path) -> None:
    array = tmp_path / "array"
    shutil.copytree(CASES["sparse-loose"].array, array)
    path = fragment(array, "__10_10_")
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:], "little")
    path.write_bytes(data[:start] + struct.pack("<I", 24) + data[start + 4 :])
    codes = {finding.code for finding in ct.open_log(str(array)).check()}
    assert "fragment-damaged" not in codes


def test_files_that_other_commands_show(
    show: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    cells = next(SPARSE.glob("__fragments/*/a*.tdb"))
    status, _, err = show(cells)
    assert status == 2
    assert f"it holds cells; to see what it holds: chronotile rows {SPARSE}" in err
    record = tmp_path / "a" / "__chronotile" / "operations"
    record.mkdir(parents=True)
    record /= "20240501T080000.120Z-1f3a9c02-vacuum-done.json"
    record.write_text("{}")
    status, _, err = show(record)
    assert status == 2
    assert f"to see what it holds: chronotile operations {tmp_path / 'a'} 1f3a9c02" in err
