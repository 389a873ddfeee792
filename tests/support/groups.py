"""Groups made without an engine: lists of members at chosen times, and arrays out of the corpus."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from support.corpus_cases import CASES

import chronotile as ct
from chronotile.format.groups import GroupEntry, encode_details
from chronotile.format.names import new_name

if TYPE_CHECKING:
    from pathlib import Path


def member(
    uri: str, name: str | None = None, kind: str = "array", *, gone: bool = False
) -> GroupEntry:
    """A member; relative unless its URI is absolute."""
    absolute = "://" in uri or uri.startswith("/")
    return GroupEntry(uri, name, kind, is_relative=not absolute, is_deletion=gone)


def put_list(group: Path, at: int, *entries: GroupEntry, version: int = 2) -> Path:
    """A list of members, written at a time; makes the folder a group."""
    (group / "__group").mkdir(parents=True, exist_ok=True)
    (group / "__tiledb_group.tdb").touch()
    place = group / "__group" / new_name(at, at, version)
    place.write_bytes(encode_details(entries, format_version=22, version=version))
    return place


def put_array(place: Path, case: str = "bare") -> None:
    """An array out of the corpus."""
    shutil.copytree(CASES[case].array, place)


def found_in(group: Path) -> dict[str, str]:
    """Give the kind of what is at the place of each member, by its path."""
    return {node.path: node.found for node in ct.open_dataset(str(group)).tree()}


def codes_of(group: Path, as_of: int | None = None) -> list[tuple[str, str, str]]:
    """Give the code, severity and path of each finding."""
    found = ct.open_dataset(str(group)).check(as_of=as_of)
    return sorted((item.code, item.severity, item.path) for item in found)
