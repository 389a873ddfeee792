"""The specs keep the house rules, and what the Kaitai Web IDE asks for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.spec_files import KSY, spec, spec_names, types

from chronotile.errors import BadFileError
from chronotile.format.parsers import ArrayMetadataSpec, parse, trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIELDS = [
    pytest.param(kind, field, id=f"{kind}.{field['id']}")
    for kind, (_, definition) in types().items()
    for field in definition.get("seq", [])
]
SIZES = [
    param
    for param in FIELDS
    if str(param.values[1]["id"]).startswith(("len_", "num_"))  # type: ignore[index]
]
ENUMS = [param for param in FIELDS if "enum" in param.values[1]]  # type: ignore[operator]


def values_of(node: Any, key: str) -> Iterator[Any]:
    """What stands under a key, wherever it is in a spec."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and key in node:
        yield node[key]
    for part in inner:
        yield from values_of(part, key)


def with_imports(name: str) -> set[str]:
    imports = spec(name)["meta"].get("imports", [])
    return {name}.union(*(with_imports(imported) for imported in imports))


def expressions(node: Any, key: str = "") -> Iterator[str]:
    """Every expression in a spec: of `if`, `size`, `repeat-expr`, `value`, `valid` and so on."""
    if isinstance(node, dict):
        for inner_key, inner in node.items():
            if inner_key not in ("doc", "doc-ref", "-orig-id", "-webide-representation"):
                yield from expressions(inner, inner_key)
    elif isinstance(node, list):
        for inner in node:
            yield from expressions(inner, key)
    elif isinstance(node, str):
        yield node


def test_every_thing_that_a_person_opens_has_a_spec() -> None:
    assert set(spec_names()) == {
        "tiledb_array_metadata",
        "tiledb_array_metadata_file",
        "tiledb_array_schema",
        "tiledb_array_schema_file",
        "tiledb_condition",
        "tiledb_consolidated_commits",
        "tiledb_consolidated_footers_file",
        "tiledb_datatype",
        "tiledb_delete_commit",
        "tiledb_enumeration",
        "tiledb_enumeration_file",
        "tiledb_filter_pipeline",
        "tiledb_fragment_metadata",
        "tiledb_generic_tile",
        "tiledb_group_details",
        "tiledb_group_details_file",
        "tiledb_ignore_file",
        "tiledb_operand",
        "tiledb_update",
        "tiledb_update_commit",
        "tiledb_update_values",
        "tiledb_vacuum_file",
    }


@pytest.mark.parametrize("name", spec_names())
def test_head_of_a_spec(name: str) -> None:
    meta = spec(name)["meta"]
    assert meta["id"] == name
    assert name.startswith("tiledb_"), "the specs lie beside others in a gallery of formats"
    assert meta["application"] == "TileDB"
    assert meta["license"] == "MIT"
    assert meta["title"]
    for imported in meta.get("imports", []):
        assert imported in spec_names(), "imports are by bare name, in one flat folder"
    assert "params" not in spec(name), "the Web IDE cannot give a main spec its parameters"


@pytest.mark.parametrize("kind", types())
def test_every_type_says_what_it_is_and_where_that_is_written(kind: str) -> None:
    file, definition = types()[kind]
    assert definition.get("doc"), f"{kind} in {file}.ksy has no doc"
    link = r"https://github\.com/TileDB-Inc/TileDB/blob/[0-9a-f]{40}/\S+"
    assert re.fullmatch(link, definition.get("doc-ref", "")), f"{kind} has no pinned doc-ref"
    assert kind not in ("object", "math", "number")


def measures(definition: dict[str, Any]) -> set[str]:
    """The names that sizes, counts and positions of a type are made from, also by way of others."""
    instances = definition.get("instances", {})
    items = [*definition.get("seq", []), *instances.values()]
    keys = ("size", "repeat-expr", "pos")
    left = [str(item[key]) for item in items for key in keys if key in item]
    found: set[str] = set()
    while left:
        for name in set(re.findall(r"[a-z_0-9]+", left.pop())) - found:
            found.add(name)
            left.append(str(instances.get(name, {}).get("value", "")))
    return found


@pytest.mark.parametrize(("kind", "field"), SIZES)
def test_every_count_and_length_is_bounded(kind: str, field: dict[str, Any]) -> None:
    """Those that no size is made from are compared by the reader, and a divisor is no size."""
    bound, is_divisor = field.get("valid", {}), kind == "enumeration" and "cell" in field["id"]
    if field["id"] in measures(types()[kind][1]) and not is_divisor:
        assert "max" in bound or "_io.size - _io.pos" in bound.get("expr", ""), f"{kind} {field}"


@pytest.mark.parametrize(("kind", "field"), ENUMS)
def test_every_enum_is_checked(kind: str, field: dict[str, Any]) -> None:
    # The engine reads on whatever stands there, and so do we.
    if re.search("whatever stands here|no error", field.get("doc", "")):
        return
    assert field["valid"] == {"in-enum": True}, f"{kind}.{field['id']}"


@pytest.mark.parametrize("name", spec_names())
def test_a_spec_asks_for_the_oldest_compiler_that_knows_its_keys(name: str) -> None:
    """`valid` came with 0.9, and `in-enum` with 0.11; a spec needs what its imports need."""
    new = any(True for part in with_imports(name) for _ in values_of(spec(part), "in-enum"))
    assert spec(name)["meta"]["ks-version"] == ("0.11" if new else "0.9")


@pytest.mark.parametrize("name", spec_names())
def test_the_encoding_is_told_once(name: str) -> None:
    has_text = any(kind in ("str", "strz") for kind in values_of(spec(name), "type"))
    assert list(values_of(spec(name), "encoding")) == ["UTF-8"] * has_text
    assert ("encoding" in spec(name)["meta"]) == has_text


@pytest.mark.parametrize("kind", types())
def test_only_what_is_true_or_false_is_called_so(kind: str) -> None:
    """A byte on disk is a number; `test_both_languages` looks at the type of each instance."""
    definition = types()[kind][1]
    for field in definition.get("seq", []):
        assert not field["id"].startswith("is_"), field["id"]
    for param in definition.get("params", []):
        assert not param["id"].startswith("is_") or param["type"] == "bool", param["id"]


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_every_flag_has_a_boolean(kind: str, field: dict[str, Any]) -> None:
    if field.get("type") == "u1" and field.get("valid") == {"max": 1}:
        instances = types()[kind][1]["instances"]
        assert {f"is_{field['id']}", f"has_{field['id']}"} & set(instances), field["id"]


def test_a_flag_is_shown_by_the_name_of_its_boolean() -> None:
    removed = b"\1\0\0\0k\1"
    paths = [span.path for span in trace(ArrayMetadataSpec, "a", removed)]
    assert paths == ["entries[0].len_key", "entries[0].key", "entries[0].is_deletion"]
    with pytest.raises(BadFileError, match="expected is_deletion of metadata_entry to be at most"):
        parse(ArrayMetadataSpec, "a", b"\1\0\0\0k\2")


@pytest.mark.parametrize("name", spec_names())
def test_an_original_name_is_an_identifier(name: str) -> None:
    for original in values_of(spec(name), "-orig-id"):
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", original), original


@pytest.mark.parametrize("name", spec_names())
def test_no_case_is_a_bare_number(name: str) -> None:
    for cases in values_of(spec(name), "cases"):
        assert not [case for case in cases if isinstance(case, int)], cases


@pytest.mark.parametrize("name", spec_names())
def test_enums_carry_the_names_of_tiledb(name: str) -> None:
    for kind, enum in spec(name).get("enums", {}).items():
        if kind == "shapes":
            continue  # Guesses of our own, which TileDB has no name for.
        for number, value in enum.items():
            assert re.fullmatch(r"[A-Z0-9_]+|[a-z_]+", value["-orig-id"]), f"{name}: {number}"


@pytest.mark.parametrize("name", spec_names())
def test_nothing_that_javascript_cannot_do(name: str) -> None:
    text = "\n".join(expressions(spec(name)))
    assert not re.search(r"(?<![&|])[&|](?![&|])|<<", text), "32-bit operators in JavaScript"
    assert "ks-opaque-types" not in spec(name)["meta"]
    for definition in (spec(name), *spec(name).get("types", {}).values()):
        for item in (*definition.get("seq", []), *definition.get("instances", {}).values()):
            assert item.get("process", "zlib") == "zlib"
            assert item.get("value") not in ("_parent", "_root")


def test_what_a_collapsed_tree_shows() -> None:
    shown = {kind for kind, (_, d) in types().items() if "-webide-representation" in d}
    assert shown >= {
        "condition_node",
        "value_node",
        "operand",
        "update_value",
        "commit_record",
    }
    assert shown >= {"ignored_commit", "vacuumed_item", "metadata_entry", "delete_commit"}


def test_guesses_are_in_one_marked_place() -> None:
    guesses = {kind: file for kind, (file, _) in types().items() if kind.startswith("guess_")}
    assert len(guesses) == 2
    assert set(guesses.values()) == {"tiledb_operand"}
    text = (KSY / "tiledb_operand.ksy").read_text()
    fields, _, guessed = text.partition("# Presentation: no reader needs what follows.\n")
    assert "guess_" not in fields
    assert guessed.startswith("instances:")


def test_the_limit_of_the_web_ide_is_told() -> None:
    assert "near 300" in spec("tiledb_condition")["doc"]


class Gallery:
    """A folder of small specs, with a copy of the scripts that compile it to every language."""

    def __init__(self, folder: Path) -> None:
        self.ksy = folder / "ksy"
        self.build = self.ksy / "_build"
        self.build.mkdir(parents=True)
        for script in ("specs.mjs", "style.mjs", "targets.mjs"):
            shutil.copy(KSY / "_build" / script, self.build)
        (self.build / "package.json").write_text('{"type": "module"}')
        (self.build / "node_modules").symlink_to(KSY / "_build" / "node_modules")
        self.refuse()

    def add(self, name: str, seq: str, **meta: list[str]) -> None:
        head = {"id": name, "endian": "le", **meta}
        (self.ksy / f"{name}.ksy").write_text(f"meta: {json.dumps(head)}\nseq: [{seq}]\n")

    def refuse(self, *entries: dict[str, Any]) -> None:
        (self.build / "refused.json").write_text(json.dumps(entries))

    def compile(self) -> tuple[int, str]:
        return self.run("targets.mjs", str(self.ksy.parent / "out"))

    def run(self, script: str, *args: str) -> tuple[int, str]:
        node = os.environ.get("CHRONOTILE_NODE", "node")
        command = [node, str(self.build / script), *args]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr


CHECKED = "{id: a, type: u1, valid: {expr: _ < 9}}"
MISSING = "scala.NotImplementedError: an implementation is missing"


def test_every_language_gets_every_spec_in_one_flat_folder(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path)
    gallery.add("tiledb_inner", "{id: a, type: u1}")
    gallery.add("tiledb_outer", "{id: a, type: tiledb_inner}", imports=["tiledb_inner"])
    assert gallery.compile() == (0, "2 specs compile to 15 languages\n")
    written = {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.*")}
    assert len(written) == 2 * 15 + 2, "C++ has two files for each"
    assert {len(path.parts) for path in written} == {2}


def test_a_language_that_refuses_a_spec_must_be_listed(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path)
    gallery.add("tiledb_plain", "{id: a, type: u1}")
    gallery.add("tiledb_checked", CHECKED)
    assert gallery.compile() == (1, f"nim: tiledb_checked.ksy: {MISSING}\n")
    gallery.refuse({"target": "nim", "words": MISSING, "specs": ["tiledb_checked"]})
    assert gallery.compile()[0] == 0
    gallery.refuse({"target": "nim", "words": "other words", "specs": ["tiledb_checked"]})
    assert gallery.compile() == (1, f"nim: tiledb_checked.ksy: {MISSING}\n")


def test_what_is_listed_as_refused_must_be_refused(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path)
    gallery.add("tiledb_plain", "{id: a, type: u1}")
    gallery.refuse({"target": "nim", "words": MISSING, "specs": ["tiledb_plain", "tiledb_gone"]})
    status, said = gallery.compile()
    assert status == 1
    assert "nim: tiledb_plain compiles, but refused.json lists it" in said
    assert "refused.json lists nim tiledb_gone, which is not there" in said


def test_two_specs_must_not_write_one_file(tmp_path: Path) -> None:
    gallery = Gallery(tmp_path)
    gallery.add("tiledb_ab", "{id: a, type: u1}")
    gallery.add("tiledb_a_b", "{id: a, type: u2}")
    status, said = gallery.compile()
    assert status == 1
    assert "java: tiledb_ab writes TiledbAb.java, and tiledb_a_b writes TiledbAB.java" in said


def test_the_specs_keep_to_the_style_guide() -> None:
    node = os.environ.get("CHRONOTILE_NODE", "node")
    command = [node, str(KSY / "_build" / "style.mjs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


STYLISH = """\
meta:
  id: tiledb_a
  tags:
    - database
    - log
  license: MIT
doc: A spec.
seq:
  - id: num_items
    -orig-id: item_count
    type: u1
    valid:
      max: 9
  - id: items
    type: item
    repeat: expr
    repeat-expr: num_items
    if: num_items > 1
instances:
  is_empty:
    value: num_items == 0
types:
  item:
    doc: An item.
    seq:
      - id: trailing
        size-eos: true
        valid: '[].as<bytes>'
"""
FAULTS = {
    ("  id: tiledb_a\n", "  id: tiledb_b\n"): "tiledb_a: its id is tiledb_b",
    (
        "    - database\n    - log\n",
        "    - log\n    - database\n",
    ): "meta.tags are not in alphabetic",
    ("  license: MIT\n", "  license: MIT\n  title: A\n"): "meta: title stands behind license",
    ("  license: MIT\n", "  licence: MIT\n"): "meta: licence has no place",
    ("doc: A spec.\n", ""): None,
    ("num_items\n    -orig-id: item_count", "num_items\n    -orig-id: num_items"): "repeats the id",
    ("    type: u1\n    valid:\n      max: 9\n", "    valid:\n      max: 9\n    type: u1\n"): (
        "tiledb_a.num_items: type stands behind valid"
    ),
    ("    repeat-expr: num_items\n    if: num_items > 1\n", "    if: true\n    repeat-expr: 1\n"): (
        "tiledb_a.items: repeat-expr stands behind if"
    ),
    ("  - id: items\n", "  - id: content\n"): "tiledb_a.content: what is repeated",
    ("  is_empty:\n", "  item_size:\n"): "tiledb_a.item_size: a name like this starts with len_",
    ("    doc: An item.\n", "    doc: " + "An item. " * 9 + "End.\n"): "a line of 94 columns",
    ("    doc: An item.\n", "    doc: An item. \n"): "a space at the end",
    ("        valid: '[].as<bytes>'\n", "        valid:\n          expr: _.length == 0\n"): (
        "item.trailing: to be empty is valid"
    ),
    (
        "    seq:\n      - id: trailing",
        "    seq: []\n    x:\n      - id: trailing",
    ): "item: an empty seq",
    ("types:\n", "enums: {}\ntypes:\n"): None,
    ("instances:\n  is_empty:\n    value: num_items == 0\ntypes:\n", "types:\n"): None,
    ("doc: A spec.\nseq:", "seq:"): None,
    ("'[].as<bytes>'\n", "'[].as<bytes>'\n\n"): "does not end in one newline",
}


@pytest.mark.parametrize(("change", "words"), FAULTS.items(), ids=map(str, range(len(FAULTS))))
def test_what_is_off_the_style_guide_is_found(
    change: tuple[str, str], words: str | None, tmp_path: Path
) -> None:
    gallery, (old, new) = Gallery(tmp_path), change
    assert STYLISH.count(old) == 1
    (gallery.ksy / "tiledb_a.ksy").write_text(STYLISH.replace(old, new))
    status, said = gallery.run("style.mjs")
    assert (status == 0) == (words is None), said
    assert words is None or words in said
