"""Every kind of file of an array or a group, once: its word, its extension, its folder, its number.

In: nothing. Out: constants. Knows neither names nor bytes, and is light enough for the help of a
command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMITS = "__commits"
FRAGMENTS = "__fragments"
FRAGMENT_META = "__fragment_meta"
SCHEMA = "__schema"
ENUMERATIONS = "__schema/__enumerations"
META = "__meta"
LABELS = "__labels"
OWN = "__chronotile"
"""Where this package keeps the records of its operations; the engine passes over it."""
GROUP = "__group"
"""Where a group keeps the lists of its members."""
GROUP_MARKER = "__tiledb_group.tdb"
"""An empty file that makes a folder a group."""
OLD_SCHEMA = "__array_schema.tdb"
"""The schema of an array before version 10: a file in the root."""
LOCK = "__lock.tdb"
"""An empty file in the root that engines before version 12 lock while they consolidate."""
FRAGMENT_METADATA = "__fragment_metadata.tdb"
"""The file in each fragment's folder that tells of all others."""

WRT, OK, DEL, UPD = 1, 2, 3, 4
"""The numbers of commits in a column."""
EXTENSIONS = ("", ".wrt", ".ok", ".del", ".upd")
"""Their extensions, by number; 0 is none of them."""
COMMIT_WORDS = ("", "write", "write", "delete", "update")
"""The words for them, by number."""
WRITES = EXTENSIONS[WRT:DEL]
"""Extensions of commits that have no content."""
CONDITIONS = EXTENSIONS[DEL:]
"""Extensions of commits whose content is a condition, in a tile."""

FILE_WORDS = {".con": "consolidated", ".ign": "ignore", ".vac": "vacuum"}
"""Files that list commits or fragments: extension -> word."""
LINES = tuple(FILE_WORDS)
"""Their extensions."""
COMMIT_FILES = (*WRITES, *CONDITIONS, *LINES)
"""Extensions of all files of the commit log."""
ROOT_FILES = (".ok", ".vac", ".meta")
"""Extensions of files in the root of an array before version 12; the last is no commit file."""

EVENTS = (*dict.fromkeys(COMMIT_WORDS[1:]), *FILE_WORDS.values(), "schema", "meta", "fragment-meta")
"""The events of an array, as `log` names them."""
GROUP_EVENT = "members"
"""The event of a group: its list of members changed."""
DATASET_EVENTS = (*EVENTS, GROUP_EVENT)
"""The events of a dataset."""

Kind: TypeAlias = Literal[
    "wrt",
    "ok",
    "del",
    "upd",
    "con",
    "ign",
    "vac",
    "schema",
    "enumeration",
    "meta",
    "group",
    "fragment-meta",
    "fragment-metadata",
]
"""The kinds of files: the extensions of commit files, and words for all others."""
LOG_KINDS: tuple[Kind, ...] = ("wrt", "ok", "del", "upd", "con", "ign", "vac")
FOLDER_KINDS: Mapping[str, Kind] = {
    SCHEMA: "schema",
    ENUMERATIONS.rpartition("/")[2]: "enumeration",
    META: "meta",
    GROUP: "group",
}
"""Folder -> the kind of the files in it."""
KINDS: tuple[Kind, ...] = (
    *LOG_KINDS,
    *FOLDER_KINDS.values(),
    "fragment-meta",
    "fragment-metadata",
)
"""All of them; of the last two, the first is a `.meta`, and the second is in each fragment."""
TILE_KINDS: tuple[Kind, ...] = ("del", "upd", *FOLDER_KINDS.values(), "fragment-meta")
"""Those that are one generic tile."""

MEMBER_KINDS = ("invalid", "group", "array")
"""The kinds of members of a group, by number; `invalid` if nothing was there."""
