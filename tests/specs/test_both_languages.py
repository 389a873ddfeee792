"""The same specs, compiled for Python and for JavaScript, read the corpus alike."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import pytest
from kaitaistruct import KaitaiStruct, KaitaiStructError
from support.fragments_of_corpus import fragments
from support.spec_files import PREFIX, ROOT, corpus_files, fragment_metadata
from support.version_23 import newer_metadata

import chronotile.format.parsers as door
from chronotile.errors import BadFileError
from chronotile.format.fragment_footer import FooterLayout

if TYPE_CHECKING:
    from pathlib import Path

BUILD = ROOT / "ksy" / "_build"
CONTENTS = {
    "delete_commit": "condition",
    "update_commit": "update",
    "array_schema_file": "schema",
    "enumeration_file": "enumeration",
    "array_metadata_file": "metadata",
    "group_details_file": "details",
    "consolidated_footers_file": "footers",
}
"""Spec of a file with one tile -> what it calls the payload."""
FLOATS = {3.0: "3", -2.5: "-2.5", 0.1: "0.1", 1e-9: "1e-9", 1e15: "1000000000000000"}
INTEGERS = (0, 1, -1, -2, -(2**51), 2**33, 2**53, 1_715_000_000_000_000_000 // 1024 * 1024)
"""That JavaScript can hold, and that are no float64 which anybody would write."""
NODE = os.environ.get("CHRONOTILE_NODE", "node")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The specs in JavaScript, compiled as the Web IDE does it."""
    out = tmp_path_factory.mktemp("js")
    compile_ = [NODE, str(BUILD / "compile.mjs"), "javascript", str(out), "--debug"]
    subprocess.run(compile_, check=True, timeout=120)
    return out


def in_javascript(compiled: Path, files: list[tuple[str, Path]]) -> list[Any]:
    requests = "".join(
        json.dumps({"spec": f"{PREFIX}{s}", "file": str(f)}) + "\n" for s, f in files
    )
    command = [NODE, str(BUILD / "tree.mjs"), str(compiled)]
    done = subprocess.run(
        command, input=requests, capture_output=True, text=True, check=True, timeout=300
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def python_spec(name: str) -> Any:
    class_name = "".join(part.capitalize() for part in f"{PREFIX}{name}".split("_"))
    module = __import__(f"chronotile_ksy.{PREFIX}{name}", fromlist=[class_name])
    return getattr(module, class_name)


def snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def tree(value: Any) -> Any:
    """A parsed file as plain data, every instance evaluated."""
    if isinstance(value, KaitaiStruct):
        own = [name for name in vars(value) if name[0] != "_"]
        lazy = [n for n, v in vars(type(value)).items() if isinstance(v, property)]
        found = {name: tree(getattr(value, name)) for name in (*own, *lazy)}
        return {"$type": snake(type(value).__name__), **found}
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [tree(item) for item in value]
    return value


def same(ours: Any, theirs: Any, path: str = "") -> None:
    """Compares value by value; JavaScript keeps integers as 64-bit floats."""
    if isinstance(ours, dict):
        ours = {k: v for k, v in ours.items() if v is not None}
        theirs = {k: v for k, v in theirs.items() if v is not None}
        assert ours.keys() == theirs.keys(), path
        for key in ours:
            if key.startswith("is_"):
                assert type(ours[key]) is type(theirs[key]) is bool, f"{path}/{key}"
            same(ours[key], theirs[key], f"{path}/{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), path
        for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same(a, b, f"{path}/{index}")
    elif isinstance(ours, int) and not isinstance(ours, bool):
        assert float(ours) == float(theirs), path
    else:
        assert ours == theirs, path


def test_the_corpus_reads_alike_in_both(compiled: Path) -> None:
    files = [*corpus_files(), *(("fragment_metadata", path) for path in fragment_metadata())]
    answers = in_javascript(compiled, files)
    assert len(answers) == len(files) > 300
    for (spec, path), answer in zip(files, answers, strict=True):
        assert "error" not in answer, f"{path}: {answer}"
        assert answer["left"] == 0, path
        parsed = door.parse(python_spec(spec), path.name, path.read_bytes())
        same(tree(parsed), answer["tree"], path.name)


def test_the_damaged_cases_read_alike_in_both(compiled: Path) -> None:
    files = list(corpus_files(damaged=True))
    refused = 0
    for (spec, path), answer in zip(files, in_javascript(compiled, files), strict=True):
        try:
            ours = tree(door.parse(python_spec(spec), path.name, path.read_bytes()))
        except (BadFileError, KaitaiStructError, zlib.error):
            assert "error" in answer or answer["left"], path
            refused += 1
        else:
            same(ours, answer["tree"], path.name)
    assert 0 < refused < len(files)


def test_both_refuse_the_same_damage(compiled: Path, tmp_path: Path) -> None:
    """Every file, cut short at several places, is refused by both."""
    cut: list[tuple[str, Path]] = []
    for number, (spec, path) in enumerate(corpus_files()):
        data = path.read_bytes()
        if spec in ("ignore_file", "vacuum_file", "consolidated_commits") or number % 7:
            continue
        for size in (0, 3, len(data) // 2, len(data) - 1):
            target = tmp_path / f"{number}-{size}"
            target.write_bytes(data[:size])
            cut.append((spec, target))
    assert len(cut) > 50
    for (spec, path), answer in zip(cut, in_javascript(compiled, cut), strict=True):
        assert "error" in answer, path
        with pytest.raises(BadFileError):
            door.parse(python_spec(spec), path.name, path.read_bytes())


def test_every_kind_and_version_is_shown(compiled: Path) -> None:
    """No error panel; each payload reads as a line, or the line says why it is not shown."""
    kinds = [(spec, path) for spec, path in corpus_files() if spec in CONTENTS]
    closed = {"encrypted": 0, "chunks": 0}
    versions: dict[str, set[int]] = {}
    for (spec, path), answer in zip(kinds, in_javascript(compiled, kinds), strict=True):
        assert "error" not in answer, path
        line, nodes = answer["representation"], answer["nodes"]
        versions.setdefault(spec, set()).add(int.from_bytes(path.read_bytes()[:4], "little"))
        if nodes[CONTENTS[spec]] == "<no value>":
            why = line.removeprefix("<no value>")
            assert nodes["tile"].endswith(why)
            closed["encrypted" if "encrypted" in why else "chunks"] += 1
            assert re.fullmatch(
                r" \(closed: (it is encrypted|no spec can join several chunks).*", why
            )
        else:
            assert line == nodes[CONTENTS[spec]] != ""
            assert "<no value>" not in line
            assert "closed" not in nodes["tile"]
    assert closed == {"encrypted": 27, "chunks": 1}
    assert versions.keys() == CONTENTS.keys()
    assert versions["array_schema_file"] == {3, 4, 5, 8, 10, 15, 16, 17, 18, 20, 21, 22}


def test_the_head_of_every_fragment_is_shown(compiled: Path, tmp_path: Path) -> None:
    """Also where the footer has no length, or where there is none at all."""
    found = {fragment.path: fragment for fragment in fragments()}
    paths = list(fragment_metadata())
    newer = tmp_path / "version-23"
    old = next(fragment for fragment in fragments() if fragment.frame.head.version == 22)
    newer.write_bytes(newer_metadata(old.data, old.schema, key=old.case.key))
    answers = in_javascript(compiled, [("fragment_metadata", path) for path in (*paths, newer)])
    shown = set()
    for path, answer in zip((*paths, newer), answers, strict=True):
        assert "error" not in answer, path
        line, footer = answer["nodes"]["footer"], answer["tree"]["footer"]
        shown.add(line.split()[1] if line.startswith("version") else line)
        if path in found:
            head, schema = found[path].frame.head, found[path].schema
            assert line == f"version {head.version} {head.schema_name or ''}"
            assert len(answer["tree"]["tiles"]) == len(found[path].frame.tiles)
            has_length = FooterLayout(schema).has_length(head.version)
            assert ("len_footer" in footer) == has_length
            size = head.size + len(footer["rest"]) // 2
            assert size == len(found[path].footer) - 8 * has_length
    none = "none: versions 1 and 2 have all in their one tile"
    assert shown == {*map(str, (3, 4, 5, 8, 10, 16, 17, 18, 20, 21, 22, 23)), none}


def test_a_damaged_stream_is_an_error_of_the_file(compiled: Path, tmp_path: Path) -> None:
    """Whichever byte is flipped: the Web IDE shows its error panel."""
    plain = [(spec, path) for spec, path in corpus_files() if "secret" not in str(path)]
    sound = [next((s, p) for s, p in plain if s == spec) for spec in CONTENTS]
    cases = []
    for spec, path in sound:
        data = path.read_bytes()
        for at in (-1, -5, -9):
            spoiled = bytearray(data)
            spoiled[at] ^= 1
            cases.append((spec, tmp_path / f"{spec}{at}"))
            cases[-1][1].write_bytes(spoiled)
    for (_, path), answer in zip(cases, in_javascript(compiled, cases), strict=True):
        assert "error" in answer, path
        assert "<no value>" in answer["representation"]


def test_metadata_and_labels_are_text_and_numbers(compiled: Path) -> None:
    wanted = [file for file in corpus_files() if file[0].startswith(("array_meta", "enumeration"))]
    shown = {a["representation"] for a in in_javascript(compiled, wanted)}
    assert "sizes: 10, 20, 30, 40" in shown
    assert any(line.startswith('animals: "ant", "bee", "cat"') for line in shown)
    entries = {entry for line in shown for entry in re.split(r", (?=\w+ (?:=|is removed))", line)}
    assert {'word = "old"', "number = 7", "__np_flat_number is removed"} <= entries


def test_a_collapsed_tree_reads_like_a_sentence(compiled: Path, tmp_path: Path) -> None:
    from chronotile.format import tiles

    def node(field: bytes, op: int, value: bytes) -> bytes:
        sizes = len(field).to_bytes(4, "little"), len(value).to_bytes(8, "little")
        return bytes([1, op]) + sizes[0] + field + sizes[1] + value

    a = node(b"a", 3, (3).to_bytes(4, "little"))
    s = node(b"s", 5, b"red")
    both = bytes([0, 1]) + (2).to_bytes(8, "little") + a + s
    new = (1).to_bytes(8, "little") + (1).to_bytes(8, "little") + b"a" + (8).to_bytes(8, "little")
    cases = {
        "a.del": ("delete_commit", a, "a >= 3"),
        "b.del": ("delete_commit", both, 'or of 2: a >= 3, s != "red"'),
        "c.upd": (
            "update_commit",
            a + new + (777).to_bytes(8, "little"),
            "set a = 777 unless a >= 3",
        ),
    }
    operands = {
        b"test": '"test"',
        b"sixteen.": '"sixteen."',
        b"red": '"red"',
        b"": '""',
        b"A": '"A" or 65',
        b"de": '"de" or 25956',
        b"\x07": "7",
        b"\xff": "-1",
        b"\x39\x05": "1337",
        b"tes\x7f": str(int.from_bytes(b"tes\x7f", "little")),
        b"\x1fest": str(int.from_bytes(b"\x1fest", "little")),
        b"five.\x00\x00\x00": str(int.from_bytes(b"five.", "little")),
        **{struct.pack("<d", number): text for number, text in FLOATS.items()},
        **{struct.pack("<q", number): str(number) for number in INTEGERS},
        struct.pack("<Q", 2**63 + 2**40): "9223373136366404000 or -9223370937343148000",
    }
    for number, (value, text) in enumerate(operands.items()):
        cases[f"{number}.del"] = ("delete_commit", node(b"s", 5, value), f"s != {text}")
    files = []
    for name, (spec, payload, _) in cases.items():
        (tmp_path / name).write_bytes(tiles.encode(payload, version=22))
        files.append((spec, tmp_path / name))
    shown = [answer["representation"] for answer in in_javascript(compiled, files)]
    assert shown == [text for _, _, text in cases.values()]
