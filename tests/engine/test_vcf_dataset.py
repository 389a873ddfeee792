"""A dataset as TileDB-VCF lays it out: groups, arrays, filters, samples that come and go.

TileDB-VCF itself is on no package index, so the engine makes the groups and arrays here, by the
names, schemas and filters that it gives them, and writes and deletes samples in the same steps.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from support.group_histories import by_engine, by_us, opened

import chronotile as ct
from chronotile.cli import main
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    from pathlib import Path

CHECKSUM = tiledb.ChecksumSHA256Filter()
ZSTD = tiledb.ZstdFilter(level=4)
BYTES = tiledb.FilterList([ZSTD, CHECKSUM])
NUMBERS = tiledb.FilterList([tiledb.ByteShuffleFilter(), ZSTD, CHECKSUM])
PLACES = tiledb.FilterList([tiledb.DoubleDeltaFilter(), ZSTD, CHECKSUM])
OFFSETS = tiledb.FilterList([tiledb.DoubleDeltaFilter(), ZSTD])
LAST = 2**32 - 2
ARRAYS = ("allele_count", "data", "metadata/vcf_headers", "variant_stats")
SAMPLES = {100: "HG00280", 200: "HG01762", 300: "v2-Qhhv"}


def text_dim(name: str, filters: tiledb.FilterList) -> tiledb.Dim:
    return tiledb.Dim(name, domain=(None, None), tile=None, dtype="ascii", filters=filters)


def place_dim(name: str) -> tiledb.Dim:
    return tiledb.Dim(name, domain=(0, LAST), tile=LAST, dtype=np.uint32, filters=PLACES)


def create(uri: str, dims: list[tiledb.Dim], attrs: list[tiledb.Attr]) -> None:
    schema = tiledb.ArraySchema(
        tiledb.Domain(*dims),
        attrs=attrs,
        sparse=True,
        allows_duplicates=True,
        capacity=10_000,
        offsets_filters=OFFSETS,
    )
    tiledb.Array.create(uri, schema)


def create_dataset(root: Path) -> None:
    """Groups and arrays, each added in a session of its own, as `tiledbvcf create` does."""
    contigs = tiledb.FilterList([tiledb.RleFilter()])
    samples = tiledb.FilterList([tiledb.DictionaryFilter(), ZSTD])
    text = {"dtype": "ascii", "var": True, "filters": BYTES}
    number = {"dtype": np.int32, "filters": NUMBERS}
    tiledb.Group.create(str(root))
    with opened(str(root), "w", 1) as group:
        group.meta["dataset_type"] = "vcf"
    tiledb.Group.create(f"{root}/metadata")
    header = [text_dim("sample", BYTES)], [tiledb.Attr("header", **text)]
    create(f"{root}/metadata/vcf_headers", *header)
    with opened(f"{root}/metadata", "w", 2) as group:
        group.add("vcf_headers", "vcf_headers", relative=True)
    with opened(str(root), "w", 3) as group:
        group.add("metadata", "metadata", relative=True)
    key = [text_dim("contig", contigs), place_dim("start_pos"), text_dim("sample", samples)]
    starts = ("real_start_pos", "end_pos")
    data = [tiledb.Attr(name, dtype=np.uint32, filters=NUMBERS) for name in starts]
    data.append(tiledb.Attr("qual", dtype=np.float32, filters=BYTES))
    data += [tiledb.Attr(name, **text) for name in ("alleles", "id", "info", "fmt", "fmt_GT")]
    create(f"{root}/data", key, data)
    counts = [tiledb.Attr(name, **text) for name in ("ref", "alt", "filter", "gt")]
    counts.append(tiledb.Attr("count", **number))
    create(f"{root}/allele_count", [key[0], place_dim("pos")], counts)
    stats = [
        tiledb.Attr("allele", **text),
        *(tiledb.Attr(n, **number) for n in ("ac", "an", "n_hom")),
    ]
    create(f"{root}/variant_stats", [key[0], place_dim("pos"), key[2]], stats)
    for at, name in ((4, "data"), (5, "allele_count"), (6, "variant_stats")):
        with opened(str(root), "w", at) as group:
            group.add(name, name, relative=True)


def store(root: Path, at: int, sample: str, count: int = 40) -> None:
    """Ingests a sample: header, variants, and what is counted of them."""
    contig = np.array(["chr1"] * (count // 2) + ["chr2"] * (count // 2), dtype="S")
    place = np.arange(count, dtype=np.uint32) * 1000
    name = np.array([sample] * count, dtype="S")

    def texts(text: str) -> np.ndarray:
        return np.array([f"{text}{number}" for number in range(count)], dtype="S")

    with tiledb.open(f"{root}/metadata/vcf_headers", "w", timestamp=at) as array:
        array[np.array([sample], dtype="S")] = {"header": np.array(["##fileformat=VCFv4.2"], "S")}
    with tiledb.open(f"{root}/data", "w", timestamp=at) as array:
        array[contig, place, name] = {
            "real_start_pos": place,
            "end_pos": place + 1,
            "qual": place.astype(np.float32),
            **{field: texts(field) for field in ("alleles", "id", "info", "fmt", "fmt_GT")},
        }
    ones = np.ones(count, np.int32)
    with tiledb.open(f"{root}/allele_count", "w", timestamp=at) as array:
        words = {field: texts(field) for field in ("ref", "alt", "filter", "gt")}
        array[contig, place] = {**words, "count": ones}
    with tiledb.open(f"{root}/variant_stats", "w", timestamp=at) as array:
        numbers = dict.fromkeys(("ac", "an", "n_hom"), ones)
        array[contig, place, name] = {"allele": texts("alt"), **numbers}


def delete(root: Path, at: int, sample: str) -> None:
    """Takes a sample out, as `tiledbvcf delete` does."""
    for name in ("data", "metadata/vcf_headers"):
        with tiledb.open(f"{root}/{name}", "d", timestamp=at) as array:
            array.query(cond=f"sample == '{sample}'").submit()


@pytest.fixture(scope="module")
def vcf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("vcf") / "cohort"
    create_dataset(root)
    for at, sample in SAMPLES.items():
        store(root, at, sample)
    delete(root, 250, SAMPLES[200])
    return root


def test_members_and_what_each_shows_are_as_the_engine_says_at_every_time(vcf: Path) -> None:
    dataset = ct.open_dataset(str(vcf))
    for moment in (0, 1, 2, 3, 4, 5, 6, 100, 150, 250, 300, None):
        assert by_us(str(vcf), moment) == by_engine(str(vcf), moment), moment
    assert {node.path for node in dataset.arrays()} == set(ARRAYS)
    for moment in (99, 100, 200, 249, 250, 300):
        for path, view in dataset.view(moment).views.items():
            with tiledb.open(f"{vcf}/{path}", timestamp=moment) as array:
                rows = len(array[:][array.schema.attr(0).name])
            facts = dataset.logs()[path].fragments(names=[f.name for f in view.fragments])
            removed = 40 if path == "data" else 1
            hidden = removed if view.deletes else 0
            assert sum(facts["cells"].to_pylist()) - hidden == rows, (path, moment)


def test_the_commands_answer_for_the_cohort(vcf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(vcf), "--kind", "delete", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {event["member"] for event in told} == {"data", "metadata/vcf_headers"}
    assert all("sample == 'HG01762'" in event["text"] for event in told)
    assert main(["members", str(vcf), "--json"]) == 0
    found = {one["path"]: one["found"] for one in json.loads(capsys.readouterr().out)["members"]}
    assert found == dict.fromkeys(ARRAYS, "array") | {"metadata": "group"}
    # Every filter that TileDB-VCF uses is undone, checksums among them.
    assert main(["check", str(vcf), "--deep", "--json"]) == 0
    codes = {item["code"] for item in json.loads(capsys.readouterr().out)}
    assert not codes & {"cells-unopened", "tile-corrupt", "fragment-damaged", "member-missing"}
    assert main(["usage", str(vcf), "--json"]) == 0
    capsys.readouterr()


def rows(root: Path) -> dict[str, int]:
    found = {}
    for path in ARRAYS:
        with tiledb.open(f"{root}/{path}") as array:
            found[path] = len(array[:][array.schema.attr(0).name])
    return found


def test_a_load_that_breaks_off_is_taken_back_and_repeated(vcf: Path, tmp_path: Path) -> None:
    """As the guide on failed loads has it; the load stops before `allele_count`."""
    copy = tmp_path / "cohort"
    ct.clone(vcf, str(copy), link="copy")
    cohort, before = ct.open(copy), rows(copy)
    cohort.tag("before-load")
    broken, lost = copy / "allele_count", tmp_path / "lost"
    broken.rename(lost)
    with pytest.raises(tiledb.TileDBError):
        store(copy, now_ms(), "HG00999")
    lost.rename(broken)
    assert [rows(copy)[path] - before[path] for path in ARRAYS] == [0, 40, 1, 0]
    ct.open(copy).restore("before-load")
    assert rows(copy) == before
    store(copy, now_ms() + 1, "HG00999")
    assert [rows(copy)[path] - before[path] for path in ARRAYS] == [40, 40, 1, 40]


def test_the_cohort_is_maintained_as_one(
    vcf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commits, footers and lists of members merged: the engine reads the same rows."""
    copy = tmp_path / "cohort"
    assert main(["clone", str(vcf), str(copy), "--link", "copy"]) == 0
    before = rows(copy)
    assert list(before.values()) == [120, 80, 2, 120]
    assert main(["consolidate", str(copy), "--mode", "all"]) == 0
    assert main(["vacuum", str(copy)]) == 0
    capsys.readouterr()
    assert rows(copy) == before
    with opened(str(copy), "r") as group:
        assert group.meta["dataset_type"] == "vcf"
        assert {one.name for one in group} == {"metadata", "data", "allele_count", "variant_stats"}
