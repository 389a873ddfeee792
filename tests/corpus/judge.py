"""What the newest engine says of each case: the content of `expected.json`.

In: `<case>/array` and `<case>/scene.json`. Out: fragments, cells, metadata, errors per window.
Knows nothing of chronotile. Linux only: it watches which files the engine reads.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import struct
import sys
from typing import Any

import tiledb
from corpus.recipes.capi import READ, EngineError, FieldType, Session
from corpus.recipes.codec import decode

# Reads, not opens: to list a folder the engine opens every file in it.
_IN_ACCESS = 0x01
_HEAD = struct.Struct("iIII")
FOOTER = "__fragment_metadata.tdb"


class Watch:
    """The files below a folder that anyone reads while the watch lasts."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(os.O_NONBLOCK)
        self._folders: dict[int, pathlib.Path] = {}
        for place in [folder, *(entry for entry in folder.rglob("*") if entry.is_dir())]:
            mark = self._libc.inotify_add_watch(self._handle, os.fsencode(place), _IN_ACCESS)
            self._folders[mark] = place.relative_to(folder)

    def files_read(self) -> set[pathlib.PurePath]:
        """The files read since the last call."""
        found: set[pathlib.PurePath] = set()
        while True:
            try:
                data = os.read(self._handle, 1 << 16)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                mark, _, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size
                name = data[at : at + length].rstrip(b"\0").decode()
                at += length
                if name:
                    found.add(self._folders[mark] / name)

    def close(self) -> None:
        os.close(self._handle)


def window_of(array: pathlib.Path, config: dict[str, str], start: int, end: int) -> dict[str, Any]:
    """What an open at one window sees."""
    watch = Watch(array)
    said: dict[str, Any] = {"start": start, "end": end}
    session = Session(str(array), config)
    try:
        session.open(READ, start, end)
        said["fragments"] = _fragments(watch.files_read(), said)
        sparse, fields = session.fields()
        said["fields"] = [field.name for field in fields]
        said["cells"] = _cells(session, sparse, fields, array, config)
    except EngineError as error:
        said["error"] = _neutral(str(error), array)
    finally:
        _fragments(watch.files_read(), said)
        session.close()
        watch.close()
    said["metadata"] = _metadata(array, config, start, end)
    return said


def _fragments(files: set[pathlib.PurePath], said: dict[str, Any]) -> list[str]:
    loose = {path.name for path in files if path.suffix in (".del", ".upd")}
    said["conditions_read"] = sorted(loose | set(said.get("conditions_read", ())), key=_by_time)
    names = {path.parent.name for path in files if path.name == FOOTER}
    return sorted(names, key=_by_time)


def _by_time(name: str) -> tuple[list[int], str]:
    return [int(part) for part in name.split("_") if part.isdigit() and len(part) < 32], name


def _cells(
    session: Session,
    sparse: bool,
    fields: list[FieldType],
    array: pathlib.Path,
    config: dict[str, str],
) -> list[list[Any]]:
    columns = session.read_columns(fields, None if sparse else _domain(array, config))
    labels = _labels(array, config, fields)
    shown = []
    for column in columns:
        texts = labels.get(column.field.name)
        values = [
            None if cell is None else decode(column.field.type, cell) for cell in column.cells
        ]
        if texts is not None:
            values = [None if value is None else texts[value] for value in values]
        shown.append(values)
    rows = [list(row) for row in zip(*shown, strict=True)]
    return sorted(rows, key=lambda row: [(value is None, str(type(value)), value) for value in row])


def _domain(array: pathlib.Path, config: dict[str, str]) -> list[tuple[bytes, bytes]]:
    schema = tiledb.ArraySchema.load(str(array), ctx=tiledb.Ctx(config))
    ranges = []
    for at in range(schema.domain.ndim):
        low, high = schema.domain.dim(at).domain
        ranges.append((low.tobytes(), high.tobytes()))
    return ranges


def _labels(
    array: pathlib.Path, config: dict[str, str], fields: list[FieldType]
) -> dict[str, list[Any]]:
    named = {field.name: field.enumeration for field in fields if field.enumeration}
    if not named:
        return {}
    with tiledb.open(str(array), ctx=tiledb.Ctx(config)) as opened:
        return {
            name: [_json(one) for one in opened.enum(label).values()]
            for name, label in named.items()
        }


def _metadata(array: pathlib.Path, config: dict[str, str], start: int, end: int) -> Any:
    try:
        with tiledb.open(str(array), timestamp=(start, end), ctx=tiledb.Ctx(config)) as opened:
            return {name: _json(value) for name, value in opened.meta.items()}
    except tiledb.TileDBError as error:
        return {"error": _neutral(str(error), array)}


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, tuple):
        return [_json(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _neutral(text: str, array: pathlib.Path) -> str:
    return text.replace(f"file://{array}", "ARRAY").replace(str(array), "ARRAY")


def judge(case: pathlib.Path, scratch: pathlib.Path) -> dict[str, Any]:
    """The content of a case's `expected.json`."""
    story = json.loads((case / "scene.json").read_text())
    copy = scratch / "array"
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(case / "array", copy)
    # With consolidated footers the engine need not read a fragment to see it.
    bare = scratch / "bare"
    shutil.copytree(case / "array", bare, ignore=_without_footers)
    config: dict[str, str] = {}
    if story["key"]:
        config = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": story["key"]}
    windows = []
    for start, end in story["windows"]:
        said = window_of(copy, config, start, end)
        seen = window_of(bare, config, start, end)
        said["fragments"] = seen.get("fragments", [])
        if "fields" not in said:
            del said["fragments"]  # it did not even open
        windows.append(said)
    story["judge"] = {
        "tiledb": ".".join(map(str, tiledb.version())),
        "libtiledb": ".".join(map(str, tiledb.libtiledb.version())),
    }
    # The schema alone, so that a broken commit does not hide it.
    for entry in copy.iterdir():
        if entry.is_dir() and entry.name not in ("__schema", "__labels"):
            shutil.rmtree(entry)
    session = Session(str(copy), config)
    session.open(READ, 0, max(end for _, end in story["windows"]))
    sparse, fields = session.fields()
    session.close()
    story["array_type"] = "sparse" if sparse else "dense"
    story["fields"] = [field._asdict() for field in fields]
    story["windows"] = windows
    return dict(story)


def _without_footers(_: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "__fragment_meta" or re.search(r"\.meta$", name)}


def main() -> None:
    """Judge every case below a root folder, or those that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    for story in sorted(asked.root.glob("*/scene.json")):
        case = story.parent
        if not asked.names or case.name in asked.names:
            said = judge(case, asked.root / "at-work")
            (case / "expected.json").write_text(dump(said))
    sys.stdout.flush()


def dump(said: dict[str, Any]) -> str:
    """The JSON of a case, one line for each window and each commit."""
    lines = []
    for name, value in said.items():
        if isinstance(value, list) and value:
            rows = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in value)
            lines.append(f' "{name}": [\n  {rows}\n ]')
        else:
            lines.append(f' "{name}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
