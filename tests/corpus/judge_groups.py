"""What the newest engine says of each group: the content of `members.json`.

In: a case's folder, and what it is. Out: at every moment that a name in it tells, the members at
any depth, and the fragments that an open of each array reads. Knows nothing of chronotile.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any

import tiledb
from corpus.judge import Watch, _fragments

KINDS = {tiledb.Array: "array", tiledb.Group: "group"}
TIMES = re.compile(r"__(\d+)_(\d+)_[0-9a-f]{32}")


def members_of(root: pathlib.Path, uri: str, path: str, at: int) -> list[dict[str, Any]]:
    """The members of a group and of those in it, sorted by path."""
    found = []
    group = tiledb.Group(uri, "r", tiledb.Config({"sm.group.timestamp_end": str(at)}))
    entries = [(one.name, one.uri, KINDS[one.type]) for one in group]
    group.close()
    for name, place, kind in sorted(entries, key=str):
        here = f"{path}/{name or place}".lstrip("/")
        local = pathlib.Path(place.removeprefix("file://"))
        inside = local.is_relative_to(root)
        said: dict[str, Any] = {"path": here, "kind": kind, "there": local.is_dir()}
        said["place"] = str(local.relative_to(root)) if inside else None
        if kind == "array" and local.is_dir():
            said["fragments"] = fragments_of(local, at)
        found.append(said)
        if kind == "group" and local.is_dir():
            found += members_of(root, place, here, at)
    return found


def fragments_of(array: pathlib.Path, at: int) -> list[str]:
    """The fragments that an open reads; with consolidated footers set aside it reads each."""
    footers, aside = array / "__fragment_meta", array / "aside"
    if footers.exists():
        footers.rename(aside)
    watch = Watch(array)
    try:
        with tiledb.open(str(array), timestamp=at):
            return _fragments(watch.files_read(), {})
    finally:
        watch.close()
        if aside.exists():
            aside.rename(footers)


def moments(root: pathlib.Path) -> list[int]:
    """Every moment that a name tells, and the one before it."""
    found = {0}
    for path in root.rglob("*"):
        if match := TIMES.match(path.name):
            found |= {moment - less for moment in map(int, match.groups()) for less in (0, 1)}
    return sorted(found)


def judge(case: pathlib.Path, about: str, made_by: str) -> None:
    """Write what the engine says of a case."""
    root = case / "group"
    said = {
        "case": case.name,
        "about": about,
        "made_by": made_by,
        "judge": ".".join(map(str, tiledb.libtiledb.version())),
        "moments": [
            {"at": at, "members": members_of(root, str(root), "", at)} for at in moments(root)
        ],
    }
    (case / "members.json").write_text(json.dumps(said) + "\n")


if __name__ == "__main__":
    judge(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3])
