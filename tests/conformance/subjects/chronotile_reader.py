"""Answer the cases of the kit with chronotile."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import chronotile as ct
from chronotile.history.read_history import merged_items, read_metadata
from chronotile.show.file_json import name_json, to_json
from chronotile.visibility.rules import schema_at, visible_metadata

RECORD = ("uri", "offset", "tile_offset", "tile_size")


def answer(path: str, window: tuple[int, int] | None, key: str | None) -> dict[str, Any]:
    try:
        if window is None:
            return of_file(path, key)
        is_group = (Path(path) / "__group").is_dir()
        return of_group(path, window[1]) if is_group else of_array(path, window, key)
    except ct.ChronotileError as error:
        return {"refused": str(error)}


def of_file(path: str, key: str | None) -> dict[str, Any]:
    file = ct.parse(path, key=key)
    said = name_json(path, file.kind) | to_json(file, (), key.encode() if key else None)
    said["kind"] = file.kind
    if "records" in said:
        said["records"] = [{k: one[k] for k in RECORD if k in one} for one in said["records"]]
    return said


def of_array(path: str, window: tuple[int, int], key: str | None) -> dict[str, Any]:
    log = ct.open_log(path, key=key)
    view = log.view(*window)
    found = schema_at(view.history, view.end)
    schema = found.schema if found is not None else None
    fields = () if schema is None else (*schema.dimensions, *schema.attributes)
    names = visible_metadata(view.history, *window)
    items = merged_items(read_metadata(log.store, names, key.encode() if key else None))
    return {
        "starts": [fragment.t1 for fragment in view.fragments],
        "fields": [field.name for field in fields],
        "keys": sorted(item.decode() for item in items),
        "fragments": sorted(fragment.name for fragment in view.fragments),
        "deletes": sorted(delete.name for delete in view.deletes),
        "updates": sorted(update.name for update in view.updates),
    }


def of_group(path: str, end: int) -> dict[str, Any]:
    nodes = ct.open_dataset(path).tree(end)
    kinds = ("array", "group")
    return {"members": sorted([node.path, node.found] for node in nodes if node.found in kinds)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--window", type=int, nargs=2)
    parser.add_argument("--key")
    given = parser.parse_args()
    window = None if given.window is None else (given.window[0], given.window[1])
    print(json.dumps(answer(given.path, window, given.key)))
