"""`chronotile usage`: tables for people, JSON for programs, and pictures."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import CASES
from support.handmade_array import make_sample

import chronotile as ct
from chronotile.cli import main
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import S3Server


def size_of(array: str) -> int:
    return sum(
        os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
        for folder, _, names in os.walk(array)
        for name in names
    )


@pytest.mark.parametrize("name", ["inside-dense-v22", "bad-name", "labels", "upgraded", "bare"])
def test_the_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    array = str(CASES[name].array)
    assert main(["usage", array, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["array"] == array
    assert document["files"] == ct.open_log(array).usage().to_pylist()
    total = size_of(array)
    assert document["bytes"] == total
    for part in ("reasons", "files"):
        assert sum(row["bytes"] for row in document[part]) == total
    inside = sum(row["bytes"] for row in document["files"] if row["part"] is not None)
    assert sum(row["bytes"] for row in document["fields"]) == inside
    freed = sum(row["bytes"] for row in document["files"] if row["freed_by"] is not None)
    assert sum(way["bytes"] for way in document["ways"]) == freed
    assert all((row["lost"] is None) == (row["freed_by"] is None) for row in document["reasons"])


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    array = str(CASES["inside-dense-v22"].array)
    assert main(["usage", array]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{array}: ") or "inside-dense-v22/array: " in text
    for words in ("superseded", "time travel: see the note", "validity", "note: time travel is"):
        assert words in text


def test_a_damaged_array_says_why_nothing_can_be_freed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", str(CASES["bad-name"].array)]) == 0
    assert "note: nothing can be freed now: the array is damaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE")]
)
def test_pictures(
    form: str, start: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "odd\x1b<b>&\udcff"
    folder.mkdir()
    make_sample(str(folder))
    output = tmp_path / f"usage.{form}"
    assert main(["usage", str(folder), "-o", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output"] == str(output)
    assert output.read_bytes().startswith(start)


def test_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", str(CASES["bare"].array), "-o", "x.pdf"]) == 2
    assert "found 'x.pdf'" in capsys.readouterr().err
    assert main(["usage", "/no/such/array"]) == 3
    assert "/no/such/array" in capsys.readouterr().err


def test_a_bucket(s3: S3Server, bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    array, root = f"{bucket}/array", CASES["inside-dense-v22"].array
    store = open_store(array, s3.options)
    for path in root.rglob("*"):
        if path.is_file():
            store.put_if_absent(str(path.relative_to(root)), path.read_bytes())
    options = [f"--storage={name}={value}" for name, value in s3.options.items()]
    assert main(["usage", array, "--json", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["bytes"] == size_of(str(root))
    assert {way["command"] for way in document["ways"]} >= {f"chronotile vacuum {array}"}
