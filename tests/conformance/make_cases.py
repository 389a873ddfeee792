"""Make `cases.json`: what a right reader says of the corpus.

In: the corpus, and what the engine said of it. Out: cases, as `cases.schema.json` describes them.
Imports nothing of chronotile: a reader cannot be the judge of itself.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ROOT = HERE.parent
CORPUS = ROOT / "corpus"
NEWEST = HERE / "version-23"
"""Arrays in a version that no engine writes yet, made from those of version 22 in the corpus."""
HEADER = struct.Struct("<IQQBQBI")
OPS = {0: "lt", 1: "le", 2: "gt", 3: "ge", 4: "eq", 5: "ne", 6: "in", 7: "not_in"}
OPS |= {253: "always_true", 254: "always_false"}
JOINS = {0: "and", 1: "or", 2: "not"}
TILES = (".del", ".upd")
WRITES = (".wrt", ".ok")
LOG_FILES = (*WRITES, *TILES, ".con", ".ign", ".vac")
METADATA = "__fragment_metadata.tdb"
OLD_VERSION = re.compile(r"old-.*-v(\d+)")
NEW_NAME = re.compile(r"__(\d+)_(\d+)_[0-9a-f]{32}(?:_(\d+))?")
OLD_NAME = re.compile(r"__[0-9a-f]{32}(?:_\d+)?_(\d+)")

NAMES = "ENGINE 1: names"
TEXT = "ENGINE 3: files of text"
TILE = "ENGINE 4: the generic tile"
CONDITION = "ENGINE 5: conditions"
DAMAGE = "damaged files"
CON = "consolidated_commits_file: {} commit"
VALUES = "update_commit_file: update values"
EXPRESSION = "update_commit_file: expression node"
LEAF = "update_commit_file: value node"
MEMBERS = "groups: members"
PLACES = "ENGINE 2, array_file_hierarchy: where things are"
FOOTER = "fragment metadata"
ORDER = "ENGINE 6.6: order"
FIELDS = "ENGINE 6.8: the schema in force"
KEYS = "ENGINE 6.8: metadata in the window"
RULES = {
    "1": "ENGINE 6.1: an .ign takes commits out of every .con",
    "3": "ENGINE 6.3: a .con counts whatever its name says",
    "2": "ENGINE 6.2: fragments that only a .con commits",
    "4": "ENGINE 6.4: the window",
    "4 overlap": "ENGINE 6.4: an overlap is enough in a sparse array",
    "5": "ENGINE 6.5: a .vac hides what it lists",
    "7": "ENGINE 6.7: deletes and updates in force",
}


class DamagedError(Exception):
    """A file that a reader must refuse."""


def times(name: str) -> dict[str, int] | None:
    """Read the times and the version in a name; None if it is no name."""
    if found := NEW_NAME.fullmatch(name):
        t1, t2, version = found.groups()
        parts = {"t1": int(t1), "t2": int(t2)}
        if parts["t1"] > parts["t2"]:
            return None
        return parts | ({"version": int(version)} if version else {})
    if found := OLD_NAME.fullmatch(name):
        return {"t1": int(found[1]), "t2": int(found[1])}
    return None


def stem(uri: str) -> str:
    return uri.rpartition("/")[2].partition(".")[0]


def read_tile(data: bytes) -> tuple[dict[str, Any], bytes | None]:
    """Read a generic tile: its head, and its payload unless it is encrypted."""
    try:
        return _read_tile(data)
    except (struct.error, zlib.error, IndexError) as cause:
        raise DamagedError from cause


def _read_tile(data: bytes) -> tuple[dict[str, Any], bytes | None]:
    version, stored, size, _, _, encryption, pipeline = HEADER.unpack_from(data)
    head = {"format_version": version, "encrypted": encryption == 1, "payload_size": size}
    at = HEADER.size + pipeline
    if len(data) != at + stored:
        raise DamagedError
    if encryption:
        return head, None
    (chunks,) = struct.unpack_from("<Q", data, at)
    at += 8
    payload = b""
    for _ in range(chunks):
        original, filtered, described = struct.unpack_from("<3I", data, at)
        at += 12
        _, parts = struct.unpack_from("<2I", data, at)
        lengths = [struct.unpack_from("<2I", data, at + 8 + 8 * part) for part in range(parts)]
        at += described
        before, end = len(payload), at + filtered
        for _, compressed in lengths:
            payload += zlib.decompress(data[at : at + compressed])
            at += compressed
        if at != end or len(payload) - before != original:
            raise DamagedError
    if len(payload) != size:
        raise DamagedError
    return head, payload


class Cursor:
    """A place in a payload."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return int(value)

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def node(self) -> dict[str, Any]:
        """Read one node of a stored condition."""
        if self.number("B") == 0:
            join = JOINS[self.number("B")]
            return {"op": join, "children": [self.node() for _ in range(self.number("Q"))]}
        op = OPS[self.number("B")]
        field = self.take(self.number("I")).decode()
        raw = self.take(self.number("Q")).hex()
        if op in ("in", "not_in"):
            self.take(self.number("Q"))
        return {"op": op, "field": field, "raw": raw}

    def values(self) -> list[dict[str, str]]:
        """Read the values of an update."""
        return [
            {
                "field": self.take(self.number("Q")).decode(),
                "raw": self.take(self.number("Q")).hex(),
            }
            for _ in range(self.number("Q"))
        ]


def read_con(data: bytes) -> list[dict[str, Any]]:
    """Read the records of a `.con`."""
    found, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at)
        if end < 0:
            raise DamagedError
        record: dict[str, Any] = {"uri": data[at:end].decode(), "offset": at}
        at = end + 1
        if record["uri"].endswith(TILES):
            if at + 8 > len(data):
                raise DamagedError
            size = int.from_bytes(data[at : at + 8], "little")
            record |= {"tile_offset": at + 8, "tile_size": size}
            at += 8 + size
            if at > len(data):
                raise DamagedError
        elif not record["uri"].endswith(WRITES):
            raise DamagedError
        found.append(record)
    return found


def file_cases(array: Path, key: str | None) -> Iterator[dict[str, Any]]:
    """Make the cases of each file of one array: where one of each kind lies, and what each says."""
    damaged_copies = True
    for path in sorted(one for one in array.rglob("*") if one.is_file()):
        place = path.relative_to(ROOT).as_posix()
        inside, ext = path.relative_to(array).parts, path.suffix
        case: dict[str, Any] = {"path": place} | ({"key": key} if key else {})
        in_log = inside[0] == "__commits" or len(inside) == 1
        parts = times(stem(path.name))
        data = path.read_bytes()
        if ext in (".ign", ".vac") and (in_log or inside[0] == "__meta"):
            yield case | {"chapter": TEXT, "expect": {"lines": data.decode().splitlines()}}
        try:
            if in_log and ext == ".con":
                yield from con_cases(case, read_con(data))
                yield from damaged_cases(case, data, read_con, {"truncate": len(data) - 1})
            elif in_log and ext in TILES:
                yield from tile_cases(case, data, ext)
                if damaged_copies and not key:
                    cuts = {"truncate": 10}, {"truncate": len(data) - 1}, {"flip": len(data) - 1}
                    yield from damaged_cases(case, data, read_tile, *cuts)
                    damaged_copies = False
            elif is_schema(inside) or (inside[0] == "__meta" and not ext):
                yield case | {"chapter": TILE, "expect": read_tile(data)[0]}
            elif path.name == METADATA and inside[0] != "__labels":
                expect = read_footer(path, data)
                if not expect:  # names of the first era say no version
                    continue
                yield case | {"chapter": FOOTER, "expect": expect}
        except DamagedError:
            yield case | {"chapter": DAMAGE, "expect": {"refused": True}, "why": "made damaged"}
            continue
        if in_log and ext in (*WRITES, *TILES, ".con", ".ign", ".vac") and parts:
            yield case | {"chapter": NAMES, "expect": parts}
        kind = kind_of(inside, ext)
        if kind is not None:
            yield case | {"chapter": PLACES, "expect": {"kind": kind}}


def kind_of(inside: tuple[str, ...], ext: str) -> str | None:
    """Tell the kind of a file by its place; None for cells and for what is nothing of the log."""
    *folders, name = inside
    if name == METADATA and len(folders) <= 2 and times(folders[-1]):
        return "fragment-metadata"
    if is_schema(inside):
        return "schema"
    if folders == ["__schema", "__enumerations"]:
        return "enumeration"
    if folders == ["__meta"]:
        return "vac" if ext == ".vac" else "meta"
    if ext == ".meta" and folders in ([], ["__fragment_meta"]):
        return "fragment-meta"
    in_log = (
        ext in LOG_FILES if folders == ["__commits"] else not folders and ext in (".ok", ".vac")
    )
    return ext[1:] if in_log and times(name.partition(".")[0]) else None


def read_footer(path: Path, data: bytes) -> dict[str, Any]:
    """Read the head of fragment metadata; before version 10 its place is not told by the file."""
    named = (times(path.parent.name) or {}).get("version")
    array = OLD_VERSION.fullmatch(path.relative_to(ROOT).parts[1])
    if array and not named:
        named = int(array[1])
    if named is None or named < 10:
        return {"format_version": named} if named else {}
    size = int.from_bytes(data[-8:], "little")
    footer = data[len(data) - 8 - size : -8]
    version, length = struct.unpack_from("<IQ", footer)
    name = footer[12 : 12 + length].decode()
    start = len(data) - 8 - size
    return {"format_version": version, "schema": name, "footer_offset": start}


def is_schema(inside: tuple[str, ...]) -> bool:
    return inside == ("__array_schema.tdb",) or (inside[0] == "__schema" and len(inside) == 2)


def con_cases(case: dict[str, Any], records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Make a case for each table of the page that a `.con` has records of."""
    for word, endings in (("fragment", WRITES), ("delete", (".del",)), ("update", (".upd",))):
        if any(record["uri"].endswith(endings) for record in records):
            made = case | {"chapter": CON.format(word), "expect": {"records": records}}
            if word == "update":
                made["differs"] = "the page allows a .upd in a .con; the engine does not read it"
            yield made


def tile_cases(case: dict[str, Any], data: bytes, ext: str) -> Iterator[dict[str, Any]]:
    """Make the cases of one delete or update."""
    head, payload = read_tile(data)
    yield case | {"chapter": TILE, "expect": head}
    if payload is None:
        return
    cursor = Cursor(payload)
    stored = cursor.node()
    differs = "the page shows the condition; the engine stores its negation"
    for chapter in (CONDITION, LEAF if "field" in stored else EXPRESSION):
        yield case | {"chapter": chapter, "expect": {"stored": stored}, "differs": differs}
    if ext == ".upd":
        yield case | {"chapter": VALUES, "expect": {"set": cursor.values()}}


def damaged_cases(
    case: dict[str, Any], data: bytes, read: Callable[[bytes], object], *edits: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """Make a case of each edit that leaves no whole file."""
    for edit in edits:
        try:
            read(damaged(data, edit))
        except DamagedError:
            yield case | {"chapter": DAMAGE, "edit": edit, "expect": {"refused": True}}


def damaged(data: bytes, edit: dict[str, int]) -> bytes:
    """Apply a named edit: keep the first bytes, or invert one."""
    if "truncate" in edit:
        return data[: edit["truncate"]]
    at = edit["flip"]
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def conditions_on_disk(array: Path) -> dict[str, list[str]]:
    """Find the deletes and updates of an array, loose or in a `.con`, each once."""
    uris = [path.name for path in (array / "__commits").glob("*") if path.suffix in TILES]
    for path in (array / "__commits").glob("*.con"):
        uris += [record["uri"] for record in read_con(path.read_bytes())]
    return {ext: sorted({stem(uri) for uri in uris if uri.endswith(ext)}) for ext in TILES}


def inside(name: str, window: dict[str, Any]) -> bool:
    parts = times(name)
    return parts is not None and window["start"] <= parts["t1"] and parts["t2"] <= window["end"]


def window_cases(array: Path, said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Make the cases of the windows of one array, one for each different answer."""
    try:
        conditions = conditions_on_disk(array)
    except DamagedError:
        return
    loose = {stem(path.name) for path in array.rglob("*") if path.suffix in WRITES}
    seen = []
    for window in said["windows"]:
        if "fragments" not in window:
            continue
        in_force = {
            ext: [n for n in names if inside(n, window)] for ext, names in conditions.items()
        }
        expect = {
            "fragments": sorted(window["fragments"]),
            "deletes": in_force[".del"],
            "updates": in_force[".upd"],
        }
        made = {
            "path": array.relative_to(ROOT).as_posix(),
            "window": [window["start"], window["end"]],
        }
        made |= {"key": said["key"]} if said["key"] else {}
        rule = deciding_rule(array, window, loose, any(in_force.values()))
        starts = sorted(parts["t1"] for name in window["fragments"] if (parts := times(name)))
        asked = [(RULES[rule], expect), (FIELDS, {"fields": window["fields"]})]
        if len(starts) > 1:
            asked.append((ORDER, {"starts": starts}))
        if "error" not in window["metadata"]:
            asked.append((KEYS, {"keys": sorted(window["metadata"])}))
        for chapter, wanted in asked:
            if wanted not in seen:
                seen.append(wanted)
                yield made | {"chapter": chapter, "expect": wanted}


def deciding_rule(array: Path, window: dict[str, Any], loose: set[str], conditions: bool) -> str:
    """Name the rule that a reader must know for this window, the rarest first."""
    shown = set(window["fragments"])
    if any(not inside(name, window) for name in shown):
        return "4 overlap"
    for path in array.rglob("*.vac"):
        if path.parent.name != "__meta" and inside(stem(path.name), window):
            listed = {line.rpartition("/")[2] for line in path.read_text().splitlines()}
            if any(inside(name, window) for name in (listed & loose) - shown):
                return "5"
    if any(array.rglob("*.ign")):
        return "1"
    if shown - loose and (array / "__commits").is_dir():
        named = [times(stem(path.name)) for path in array.rglob("*.con")]
        ends = [parts["t2"] for parts in named if parts]
        return "3" if min(ends) > window["end"] else "2"
    return "7" if conditions else "4"


def group_cases(case: str, said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Make the cases of the members of one group, one for each different answer."""
    seen = []
    for moment in said["moments"]:
        members = sorted([one["path"], one["kind"]] for one in moment["members"] if one["there"])
        if members not in seen:
            seen.append(members)
            made = {"path": f"corpus/{case}/group", "window": [0, moment["at"]]}
            yield made | {"chapter": MEMBERS, "expect": {"members": members}}


def cases() -> list[dict[str, Any]]:
    """Make all cases, chapter by chapter."""
    made: list[dict[str, Any]] = []
    places: set[str] = set()
    for path in sorted(CORPUS.glob("*/expected.json")):
        said = json.loads(path.read_text("utf-8"))
        made += window_cases(path.parent / "array", said)
        made += file_cases(path.parent / "array", said["key"])
        newest = NEWEST / path.parent.name / "array"
        if newest.is_dir():
            why = {"why": "version 23 is made from version 22, which the engine judged"}
            made += [case | why for case in window_cases(newest, in_version_23(said))]
            made += [case | why for case in file_cases(newest, said["key"])]
    for path in sorted(CORPUS.glob("*/members.json")):
        made += group_cases(path.parent.name, json.loads(path.read_text("utf-8")))
    kept = (case for case in made if case["chapter"] != PLACES or _is_first(case, places))
    return sorted(kept, key=lambda case: (case["chapter"], case["path"]))


def _is_first(case: dict[str, Any], known: set[str]) -> bool:
    """Tell whether no file of this kind, depth and version was asked for its place before."""
    *folders, name = Path(case["path"]).parts
    named = times(stem(name)) or times(folders[-1]) or {}
    place = (case["expect"]["kind"], len(folders), folders[3:4], named.get("version"))
    is_first = str(place) not in known
    known.add(str(place))
    return is_first


def in_version_23(said: dict[str, Any]) -> dict[str, Any]:
    """Give what the engine said of an array, with the names that its fragments have now."""
    windows = [
        window | {"fragments": [re.sub("_22$", "_23", name) for name in window["fragments"]]}
        for window in said["windows"]
        if "fragments" in window
    ]
    return said | {"windows": windows}


def text() -> str:
    """Write the content of `cases.json`, a case a line."""
    lines = ",\n".join(json.dumps(case, sort_keys=True) for case in cases())
    return f'{{"root": "..", "cases": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    (HERE / "cases.json").write_text(text(), "utf-8")
