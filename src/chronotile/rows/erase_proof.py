"""A survey of an array for one predicate: every place that holds a match, or names its values.

In: an array and a predicate. Out: `Survey`: the matches of each fragment folder, the deletes and
updates that name a value, every other file that does, the tags that see matches, and what nobody
could look at; and the certificate that says all this without the predicate. Changes nothing. The
predicate is in no document: only a hash of it, keyed by a random salt.

Every file below the array is accounted for: it is read by the engine as a part of a fragment, or
searched as what it is, or named as a file that nobody knows.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.change.erased_names import (
    is_file_naming,
    is_naming,
    named_values,
    naming_records,
    quoted_values,
)
from chronotile.change.operations import (
    COPIES,
    OPERATIONS,
    QUARANTINE,
    list_operations,
    read_operation,
)
from chronotile.check.tags import tags_of
from chronotile.conditions.text import to_text
from chronotile.errors import ChronotileError
from chronotile.format.kinds import (
    COMMITS,
    ENUMERATIONS,
    FRAGMENT_META,
    GROUP,
    GROUP_MARKER,
    LABELS,
    LOCK,
    META,
    OLD_SCHEMA,
    OWN,
    ROOT_FILES,
    SCHEMA,
)
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import iso_time, now_ms
from chronotile.rows.every_fragment import (
    Matcher,
    fragment_folders,
    open_fragment,
    read_fragment,
)
from chronotile.rows.snapshot import open_with_enumerations
from chronotile.safe_text import shell_word
from chronotile.storage.store import open_store
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.change.erased_names import NamedValues
    from chronotile.log import Log
    from chronotile.rows.every_fragment import FragmentMatches
    from chronotile.storage.store import Entry, Store
    from chronotile.visibility.view import Delete


LINKED = "hard links elsewhere, such as those of a clone, keep the files of "
"""How a note begins on a folder whose files have names outside of the array."""
_LINKED = (LINKED, "a clone, or other names elsewhere, keep the files of ")
"""The same, with what earlier records say."""
_KINDS = {
    ENUMERATIONS: ("enumeration", "it has the value as a label"),
    SCHEMA: ("schema", "it names a value"),
    META: ("metadata", "it names a value; write the key again without"),
    GROUP: ("list of members", "it names a value; add the member under another name"),
    COMMITS: ("delete or update", "it names a value"),
    FRAGMENT_META: ("footers", "they name a value"),
    QUARANTINE: ("kept file", "it names a value"),
    OWN: ("file", "it names a value"),
}
"""Folder -> what its files are, and what is wrong if one names a value."""
_UNKNOWN = ("file", "it names a value")
_ROOT = (*ROOT_FILES, OLD_SCHEMA, LOCK, GROUP_MARKER)
"""Ends of files that TileDB puts into the root of an array or a group."""
_CHANGED = ("delete or update", "footers", "kept file", "record")
"""What an erasure changes; all else that names a value stays, and is named."""


class Trace(NamedTuple):
    """A place that holds a value, or that nobody could look at."""

    what: str
    where: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """All that was found."""

    log: Log
    matcher: Matcher
    values: NamedValues
    fragments: tuple[FragmentMatches, ...]
    torn: frozenset[str]
    """Fragment folders that cannot be read, and whose bytes hold a value."""
    naming: tuple[tuple[Delete, int], ...]
    """Deletes and updates that name a value, with their rows in the table of the log."""
    named: tuple[Trace, ...]
    """Files without cells that name a value, and dimension labels."""
    not_looked_at: tuple[Trace, ...]
    files: tuple[str, ...]
    """The files that were read."""
    at_ms: int

    @property
    def matching(self) -> tuple[FragmentMatches, ...]:
        """The fragments that hold matches."""
        return tuple(one for one in self.fragments if one.matches)

    @property
    def holding(self) -> tuple[FragmentMatches, ...]:
        """The fragments that hold matches, and damaged ones whose bytes hold a value."""
        return tuple(one for one in self.fragments if one.matches or one.path in self.torn)

    @property
    def matches(self) -> int:
        """The cells that match, every copy counted."""
        return sum(one.matches for one in self.fragments)

    @property
    def lasting(self) -> tuple[Trace, ...]:
        """The files that name a value, and that no erasure changes."""
        return tuple(one for one in self.named if one.what not in _CHANGED)

    def tags(self) -> Iterator[str]:
        """Name the tags whose window sees a fragment with matches."""
        log, table = self.log, self.log.history.table
        names = {one.folder.name.text for one in self.matching}
        for label, moment in tags_of(log.store, log.history).labelled():
            rows = log.rules.visible(0, moment)[0].tolist()
            if any(table.name(row) in names for row in rows):
                yield label

    def certificate(self, found: int, salt: str | None = None) -> dict[str, Any]:
        """Make the certificate.

        Args:
            found: The matches that were there before.
            salt: The key of the hash, as hex digits; a new one, if it is left out.
        """
        salt = salt or secrets.token_hex(16)
        held = [Trace("fragment", one.path, one.words) for one in self.matching]
        torn = [
            Trace("fragment", path, "it is damaged; its bytes hold a value") for path in self.torn
        ]
        return {
            "array": self.log.array,
            "time": iso_time(self.at_ms),
            "predicate_hash": predicate_hash(self.matcher, salt),
            "salt": salt,
            "files_read": sorted(self.files),
            "cells_read": sum(one.cells for one in self.fragments),
            "matches_found": found,
            "matches_left": self.matches,
            "still_named": [place._asdict() for place in (*held, *sorted(torn), *self.named)],
            "not_looked_at": [place._asdict() for place in self.not_looked_at],
        }


def predicate_hash(matcher: Matcher, salt: str) -> str:
    """Hash the canonical text of a predicate (HMAC-SHA256), with the salt as the key."""
    text = to_text(matcher.predicate, matcher.schema)
    return hmac.new(bytes.fromhex(salt), text.encode(), hashlib.sha256).hexdigest()


def survey(store: Store, key: bytes | None, where: str, *, with_groups: bool = False) -> Survey:
    """Look at every fragment folder, and at every file that may name a value.

    `with_groups`: the caller searches the groups above it too.

    Raises:
        NoEngineError: The engine is not installed.
        PredicateError: The predicate fits no schema of the array.
    """
    log = open_with_enumerations(store, key)
    matcher = Matcher(log, where)
    values = named_values(matcher.predicate, matcher.schema)
    fragments = tuple(matcher.matches(folder) for folder in fragment_folders(log))
    naming = tuple(
        (commit, row)
        for commit, row in tile_commits(log.rules, MAX_TIMESTAMP)
        if _names(commit, log, row, values)
    )
    search = _FileSearch(store, key, values)
    torn = frozenset(
        one.path
        for one in fragments
        if one.problem is not None and search.holds(entry.path for entry in one.folder.files)
    )
    of_fragments = {entry.path for one in fragments for entry in one.folder.files}
    others = (one for one in store.list_files() if one.path not in of_fragments)
    search.files(one for one in others if not one.path.startswith(f"{LABELS}/"))
    search.labels()
    unread = [
        Trace("fragment", one.path, one.problem) for one in fragments if one.problem is not None
    ]
    why = "Metadata and labels were not searched: numbers and short texts would match by chance."
    short = () if values.are_long else (Trace("numbers and short texts", "metadata, labels", why),)
    whole = (one for one in fragments if one.problem is None)
    return Survey(
        log=log,
        matcher=matcher,
        values=values,
        fragments=fragments,
        torn=torn,
        naming=naming,
        named=tuple(search.named),
        not_looked_at=(
            *unread,
            *search.unread,
            *short,
            *_elsewhere(log, fragments, with_groups=with_groups),
        ),
        files=(*search.read, *(entry.path for one in whole for entry in one.folder.files)),
        at_ms=now_ms(),
    )


def survey_group(store: Store, key: bytes | None, where: str) -> list[Trace]:
    """List the files of a group itself that name a value: metadata, lists of members, records."""
    search = _FileSearch(store, key, quoted_values(where))
    below = (store.list_prefix(folder) for folder in (META, GROUP, OWN))
    own = store.list_dir("", sizes=True).files
    search.files((*own, *(entry for entries in below for entry in entries)))
    return search.named


def _names(commit: Delete, log: Log, row: int, values: NamedValues) -> bool:
    with suppress(ChronotileError):
        return is_naming(commit.tile, log.history.table.uri(row), log.history.key, values)
    return True  # nobody can tell


class _FileSearch:
    """Searches files without cells for values."""

    def __init__(self, store: Store, key: bytes | None, values: NamedValues) -> None:
        self.store, self.key, self.values = store, key, values
        self.named: list[Trace] = []
        self.unread: list[Trace] = []
        self.read: list[str] = []

    def files(self, entries: Iterable[Entry]) -> None:
        """Search files, each as what it is; and all records."""
        sizes = {one.path: one.size for one in entries}
        strange: dict[str, None] = {}
        for path in sorted(sizes):
            if _kind(path) is None and not ("/" not in path and path.endswith(_ROOT)):
                strange[path.rpartition("/")[0] or path] = None
            if self.values.are_in_text(path):
                self._name(path)
        # An empty file says nothing but its name; records are read below, one by one.
        records = [path for path in sizes if path.startswith(f"{OPERATIONS}/")]
        wanted = {path for path, size in sizes.items() if size != 0}.difference(records)
        for path, data in self.store.read_many(sorted(wanted)):
            try:
                if isinstance(data, ChronotileError):
                    raise data
                is_named = is_file_naming(data, path, self.key, self.values)
            except ChronotileError as error:
                what, _ = _kind(path) or _UNKNOWN
                self.unread.append(Trace(what, path, error.problem))
                continue
            self.read.append(path)
            if is_named:
                self._name(path)
        why = "TileDB does not know it: its bytes were searched as they are"
        self.unread += [Trace("file", path, why) for path in strange]
        self.read += records
        for path in naming_records(self.store, self.values):
            self.named.append(Trace("record", path, "it names a value"))

    def _name(self, path: str) -> None:
        what, why = _kind(path) or _UNKNOWN
        self.named.append(Trace(what, path, why))

    def holds(self, paths: Iterable[str]) -> bool:
        """Tell whether one of some files has a value in its bytes."""
        with suppress(ChronotileError):
            return any(self.values.are_in_bytes(self.store.read(path)) for path in paths)
        return False

    def labels(self) -> None:
        """Search the arrays of dimension labels, cell by cell, for the texts."""
        texts = pa.array([text.encode() for text in self.values.texts], pa.large_binary())
        for folder in self.store.list_dir(LABELS).folders:
            try:
                log = open_with_enumerations(
                    self.store.at(self.store.place.child(folder)), self.key
                )
                count = _count(log, texts)
            except ChronotileError as error:
                self.unread.append(Trace("dimension label", folder, error.problem))
                continue
            if count:
                why = f"it has a value, {count:,} times; write the labels again without"
                self.named.append(Trace("dimension label", folder, why))


def _count(log: Log, texts: pa.Array) -> int:
    """Count the cells of an array that are one of some texts, in every fragment."""
    count = 0
    for folder in fragment_folders(log):
        opened = open_fragment(log, folder.path)
        schema = opened.schema_file.schema
        assert schema is not None  # see `open_fragment`
        for batch in read_fragment(log, folder, opened, schema.fields):
            for field, column in zip(schema.fields, batch.columns, strict=True):
                if not field.is_number:
                    found = pc.is_in(column.cast(pa.large_binary()), texts)
                    count += int(pc.sum(found).as_py() or 0)
    return count


def _kind(path: str) -> tuple[str, str] | None:
    """Say what a file is, and what is wrong if it names a value; None in no folder of TileDB."""
    return next((_KINDS[one] for one in _KINDS if path.startswith(f"{one}/")), None)


def _elsewhere(
    log: Log, fragments: tuple[FragmentMatches, ...], *, with_groups: bool
) -> Iterator[Trace]:
    """List what nobody can look at from here."""
    store, listing = log.store, log.history.listing
    for path in listing.linked_fragments:
        yield Trace("fragment", path, "it is a link: erase in the array that it leads to")
    paths = {entry.path for one in fragments if one.matches for entry in one.folder.files}
    linked = [path.rpartition("/")[0] for path in store.linked_elsewhere() if path in paths]
    for folder in dict.fromkeys(linked):
        yield Trace("hard links", folder, "its files have names elsewhere, as a clone gives them")
    for folder in dict.fromkeys(_erased_links(store)):
        why = "an erasure removed it here; other names of its files may keep its rows"
        yield Trace("hard links", folder, why)
    yield from copies(store)
    keeps = store.keeps_versions()
    if keeps is not False:
        known = "the bucket keeps them: remove those of removed objects"
        why = known if keeps else "the storage does not say whether it keeps them"
        yield Trace("object versions", store.uri, why)
    above, name = store.place.parent()
    beside = open_store(above.uri, dict(store.options))
    for other in (f"{name}.quarantine", f"{name}.reports"):
        with suppress(ChronotileError):
            if beside.list_names(other).files or beside.list_names(other).folders:
                yield Trace("records of an earlier version", beside.uri_of(other), "not searched")
    yield Trace(
        "other copies",
        "elsewhere",
        "Copies that others made have no record here, and were not searched.",
    )
    why = "Tables of a pipeline were not searched: old versions of its table `conditions` may hold"
    why += " the value."
    yield Trace("tables of a fleet", "elsewhere", why)
    why = "Operation records of groups were not searched: to blank them, erase in all of a group."
    if with_groups:
        why = "Operation records of other groups that hold this array were not searched."
    yield Trace("records of groups", "elsewhere", why)
    why = "Temporary folders of runs killed on other machines were not searched."
    yield Trace("temporary folders", "elsewhere", why)
    yield Trace("backups", "elsewhere", "Backups were not searched.")


_COPY = {"clone": "clone", "replicate": "replica"}
"""Command -> what it makes."""


def copies(store: Store) -> list[Trace]:
    """List the clones and replicas of an array, and what it is a copy of, by their records."""
    found: dict[Trace, None] = {}
    for operation in list_operations(store):
        if operation.command in COPIES:
            with suppress(ChronotileError):
                options = read_operation(store, operation).get("options", {})
                for end in ("source", "target"):
                    if (uri := str(options.get(end, store.uri))) != store.uri:
                        what = _COPY[operation.command] if end == "target" else "original"
                        command = f"chronotile erase {shell_word(uri)} --where PREDICATE"
                        found[Trace(what, uri, f"to erase them there too: {command}")] = None
    return [*found]


def _erased_links(store: Store) -> Iterator[str]:
    """List the folders that erasures removed, and whose files had names elsewhere."""
    for operation in list_operations(store):
        if operation.command == "erase":
            with suppress(ChronotileError):
                notes = map(str, read_operation(store, operation).get("notes", ()))
                for one in notes:
                    for start in _LINKED:
                        if one.startswith(start):
                            yield one.removeprefix(start)
