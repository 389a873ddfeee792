"""The size of an array, in the tables of a fleet: as `usage` and the storage tell it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.array_places import read_all
from support.corpus_cases import CASES
from support.stored_tables import stored

import chronotile as ct
from chronotile.check.file_uses import BYTES_OF
from chronotile.cli import main, sample
from chronotile.fleet import array_tables
from chronotile.fleet.fleet_without_spark import make_tables
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from support.servers import FaultProxy, S3Server


def row_of(array: Path | str, **options: Any) -> dict[str, Any]:
    (row,) = make_tables(str(array), names=("arrays",), **options).tables["arrays"].to_pylist()
    return dict(row)


def used(array: Path | str, **options: Any) -> dict[str, int]:
    """Reason -> bytes, as `usage` has them, file by file."""
    sizes: dict[str, int] = dict.fromkeys(BYTES_OF, 0)
    for file in ct.open_log(array, **options).usage().to_pylist():
        sizes[file["reason"]] += file["bytes"]
    return sizes


def test_bytes_are_the_size_of_the_array_on_the_whole_corpus() -> None:
    for case in CASES.values():
        row = row_of(case.array, key=case.key)
        on_disk = sum(path.stat().st_size for path in case.array.rglob("*") if path.is_file())
        assert row["bytes"] == on_disk, case.name
        assert {why: row[name] for why, name in BYTES_OF.items()} == used(
            case.array, key=case.key
        ), case.name
        assert 0 < row["log_bytes"] <= row["bytes"], case.name


def test_one_flat_list_in_a_bucket_gives_names_and_sizes(
    s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    array = f"{bucket}/fleet/loose"
    store = open_store(array, s3.options)
    for path, data in read_all(CASES["sparse-loose"].array).items():
        store.put_if_absent(path, data)
    measured = {}
    for sizes in (True, False):
        proxy.seen.clear()
        row = row_of(array, sizes=sizes, storage_options=proxy.options)
        lists = [path for _, path, _ in proxy.seen if "list-type" in path]
        measured[sizes] = (row, len(lists))
    (row, few), (plain, many) = measured[True], measured[False]
    assert row["bytes"] == sum(used(array, storage_options=s3.options).values())
    assert plain["bytes"] is None
    assert few < many
    assert {name: row[name] for name, value in plain.items() if value is not None} == {
        name: value for name, value in plain.items() if value is not None
    }


def test_a_folder_that_cannot_be_listed_leaves_the_size_unknown(tmp_path: Path) -> None:
    made = sample.unpack(tmp_path / "lake")
    hidden = next((made.array / "__fragments").iterdir())
    hidden.chmod(0)
    try:
        command = [sys.executable, "-m", "support.unprivileged", "tables", str(made.array)]
        done = subprocess.run(
            [*command, "--out", str(tmp_path / "out"), "--json"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        hidden.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert stored(tmp_path / "out" / "commits").num_rows == 13
    (row,) = stored(tmp_path / "out" / "arrays").to_pylist()
    assert row["bytes"] is None
    assert row["commits"] == 9, "three are ignored, and one stands in two files"


def test_a_size_is_the_same_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = sample.unpack(tmp_path / "lake")
    lake = str(made.array.parent)
    assert main(["usage", str(made.array), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["bytes"]
    assert main(["tables", lake, "--out", str(tmp_path / "by-command")]) == 0
    ct.check_fleet(lake, out=tmp_path / "by-check")
    for folder in ("by-command", "by-check"):
        rows = stored(tmp_path / folder / "arrays").to_pylist()
        assert {row["array"]: row["bytes"] for row in rows}[str(made.array)] == said
    capsys.readouterr()
    assert main(["members", str(made.dataset), "--json"]) == 0
    members = json.loads(capsys.readouterr().out)["members"]
    told = {row["array"]: row["bytes"] for row in rows}
    arrays = [one for one in members if one["found"] == "array"]
    assert len(arrays) == 3
    for one in arrays:
        assert one["bytes"] == told[one["uri"]]
    assert main(["tables", lake, "--out", str(tmp_path / "quick"), "--no-sizes"]) == 0
    assert stored(tmp_path / "quick" / "arrays")["bytes"].null_count == 4


def test_a_check_leaves_the_tables_with_its_own_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sample.unpack(tmp_path / "lake")
    (made.dataset / "gone" / "__schema").mkdir(parents=True)

    def second(*_: object, **__: object) -> None:
        raise AssertionError("an array is checked once")

    monkeypatch.setattr(array_tables, "find_problems", second)
    checked = ct.check_fleet(made.array.parent, out=tmp_path / "out")
    rows = stored(tmp_path / "out" / "findings").to_pylist()
    assert sorted((row["code"], row["array"]) for row in rows) == sorted(
        (item.code, item.array) for item in checked.findings
    )
    for row in stored(tmp_path / "out" / "arrays").to_pylist():
        own = [item for item in checked.findings if item.array == row["array"]]
        for severity in ("error", "warning", "info"):
            assert row[f"{severity}s"] == sum(item.severity == severity for item in own)
    assert stored(tmp_path / "out" / "commits").num_rows > 13
