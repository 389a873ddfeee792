"""Answer the cases of the kit with TileDB: the fragments that an open reads.

It watches which files the engine reads, as the judge of the corpus does. Linux only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from corpus.judge import window_of


def answer(path: str, window: tuple[int, int] | None, key: str | None) -> dict[str, Any]:
    if window is None or (Path(path) / "__group").is_dir():
        return {"cannot_say": True}
    config = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key} if key else {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "array"
        # Footers in a `.meta` would hide which fragments the engine reads.
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("__fragment_meta", "*.meta"))
        said = window_of(copy, config, *window)
    if "fragments" not in said:
        return {"refused": said["error"]}
    metadata = said["metadata"]
    return {
        "fragments": sorted(said["fragments"]),
        "deletes": None,
        "updates": None,
        "starts": None,
        "fields": said["fields"],
        "keys": None if "error" in metadata else sorted(metadata),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--window", type=int, nargs=2)
    parser.add_argument("--key")
    given = parser.parse_args()
    window = None if given.window is None else (given.window[0], given.window[1])
    print(json.dumps(answer(given.path, window, given.key)))
