"""Operations of this package, in words.

In: records of operations, the newest first, as `change.operations` reads them. Out:
`OperationWords`: one `Event` for each; the operation that put each commit; and a phrase for what
one of them hid. Records are files, so nothing in them is taken for granted. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chronotile.check.findings import count_text
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import is_name, uuid_of
from chronotile.format.timestamps import time_text, to_ms
from chronotile.show.events import Event

_MODES = {
    "commits": "put the commits into one file",
    "fragment-meta": "put the footers of fragments into one file",
    "array-meta": "merged the files of metadata",
    "all": "consolidated commits, footers and metadata",
}
"""Mode of a consolidation -> what it does."""
_FOR_GOOD = ("vacuum", "erase", "replicate")
"""Commands that remove files for good; the others move them to the quarantine."""


@dataclass(frozen=True)
class OperationWords:
    """The operations of an array or a group, and the words for them."""

    records: Sequence[Mapping[str, Any]] = ()
    """The newest first."""
    noun: str = field(default="array", kw_only=True)
    """Where they were carried out: an array, or a group."""
    problem: str | None = field(default=None, kw_only=True)
    """Why they cannot be read."""

    @cached_property
    def _by_id(self) -> dict[str, Mapping[str, Any]]:
        return {record["id"]: record for record in self.records}

    @cached_property
    def _undone_by(self) -> dict[str, str]:
        """The undo of each operation that is undone."""
        return undone_by(self.records)

    @cached_property
    def of_name(self) -> dict[str, str]:
        """The operation that put each commit, fragment or file, by its name.

        An undo puts back what others have put before. An apply writes the rows of an update under
        the name of the update: then they are its own.
        """
        known = {
            name: record["id"]
            for record in self.records  # an older one has put what a newer one replaced
            if record["command"] != "undo"
            for name in names_put(record)
        }
        applied = {
            name_in(path): record["id"]
            for record in self.records
            if record["command"] == "apply" and record["id"] not in self._undone_by
            for path in record["put"]
            if path.startswith(f"{FRAGMENTS}/")
        }
        return known | {name: id_ for name, id_ in applied.items() if name in known}

    @cached_property
    def single(self) -> dict[str, str]:
        """The operations that are one delete or update and nothing else, by its name."""
        return {
            name: record["id"]
            for record in self.records
            if record["command"] in ("delete", "update")
            for name in names_put(record)
        }

    @cached_property
    def undeleted(self) -> dict[str, str]:
        """Deletes and updates of which an undelete that stands brought the rows back, in words."""
        found = {}
        for record in self.records:
            options = _mapping(record["options"])
            stands = record["state"] == "done" and record["id"] not in self._undone_by
            if record["command"] == "undelete" and stands and not options.get("ever"):
                words = f"{_named(record)} (operation {record['id']}) brought the rows back"
                found[str(options.get("name"))] = f"{words}; it acts only in windows before that"
        return found

    def who(self, id_: str) -> str:
        """Tell who asked for an operation, and why."""
        return _who(self._by_id[id_])

    @cached_property
    def repaired(self) -> dict[str, str]:
        """The repair that took out the commit of each fragment, and stands, by its name."""
        standing = [one for one in self.records if one["command"] == "repair"]
        return {
            name_in(path): record["id"]
            for record in standing
            if record["state"] == "done" and record["id"] not in self._undone_by
            for path in record["removed"]
        }

    @cached_property
    def quarantined(self) -> dict[str, str]:
        """The operation that moved each fragment into its quarantine, by the fragment's name."""
        return {
            path.rpartition("/")[2]: record["id"]
            for record in reversed(self.records)
            if record["command"] not in _FOR_GOOD
            for path in record["removed"]
            if path.startswith(f"{FRAGMENTS}/")
        }

    @cached_property
    def group_of(self) -> dict[str, str]:
        """The operation of a group that each operation of a member is a part of."""
        return {one["id"]: str(one["group"]) for one in self.records if one["group"]}

    def events(self, *, undone: bool = True) -> list[Event]:
        """Give one event for each operation, the newest first.

        `undone`: also operations that were undone, and the undos of them.
        """
        gone = {record["id"] for record in self.records if record["state"] == "undone"}
        gone |= self._undone_by.keys()
        return [
            self._event(record)
            for record in self.records
            if undone or not gone & {record["id"], str(record["undoes"])}
        ]

    def _event(self, record: Mapping[str, Any]) -> Event:
        at, id_ = to_ms(record["time"]), record["id"]
        because = self._undone_by.get(id_)
        state = "undone" if because is not None else record["state"]
        stands = state != "undone" and record["command"] != "undo"
        put = {path for path in record["put"] if stands and not path.startswith(f"{FRAGMENTS}/")}
        files = f", {count_text(len(put), 'file')} put" if put else ""
        return Event(
            name=id_,
            kind=record["command"],
            t1=at,
            t2=at,
            text=self.words(record),
            source=f"operation {id_}{files}",
            status=state,
            reason=state,
            because=because,
            operation=id_,
        )

    def words(self, record: Mapping[str, Any], *, author: bool = True) -> str:
        """Tell what an operation did, how much of it, who asked for it, and why."""
        rows = _mapping(record["rows"])
        fragments = [path for path in record["put"] if path.startswith(f"{FRAGMENTS}/")]
        parts = [f"{count_text(n, 'row')} {what}" for what, n in rows.items() if _is_count(n)]
        parts += [f"{count_text(len(fragments), 'fragment')} put"] if fragments else []
        writes = sum(uri.endswith((".wrt", ".ok")) for uri in record["added"])
        if record["command"] == "repair" and writes:
            parts.append(f"committed {count_text(writes, 'fragment')} that no commit named")
        if record["hidden"]:
            parts.append(f"{count_text(len(record['hidden']), 'fragment')} hidden")
        if record["removed"] and record["command"] != "undo":
            parts.append(gone_words(record, count_text(len(record["removed"]), "file")))
        text = self._deed(record) + (f": {', '.join(parts)}" if parts else "")
        who = _who(record if author else {**record, "author": None})
        return f"{text}; {who}" if who else text

    def phrase(self, id_: str) -> str:
        """Name an operation inside of a sentence: what it was, when, whose, and why."""
        record = self._by_id[id_]
        details = "; ".join(filter(None, (f"operation {id_}", _who(record))))
        return f"{_named(record)} ({details})"

    def _deed(self, record: Mapping[str, Any]) -> str:
        options, command = _mapping(record["options"]), record["command"]
        match command:
            case "delete":
                return f"deleted rows where `{options.get('where')}`"
            case "update":
                values = _values(options.get("values"))
                return f"set {values} in rows where `{options.get('where')}`"
            case "apply":
                return "wrote the rows that updates have changed"
            case "consolidate":
                return _MODES.get(str(options.get("mode")), "consolidated")
            case "vacuum":
                return "vacuumed"
            case "repair":
                return f"repaired the {self.noun}"
            case "restore":
                to = options.get("to")
                moment = time_text(to) if isinstance(to, int) else str(to)
                moment = repr(to) if moment[:1].isalpha() else moment  # a tag
                return f"restored the {self.noun} to {moment}"
            case "undelete":
                name = str(options.get("name"))
                return f"brought back the rows of {(uuid_of(name) or name)[:8]}"
            case "publish":
                staging = options.get("staging")
                places = staging if isinstance(staging, list) else [staging]
                return f"published {', '.join(map(str, places))}"
            case "tag":
                return f"set the tag {options.get('name')!r}"
            case "untag":
                return f"removed the tag {options.get('name')!r}"
            case "clone":
                return _copied("cloned", options)
            case "replicate":
                return _copied("replicated", options)
            case "compact":
                return "merged small fragments"
            case "erase":
                return "erased rows"
            case "undo" if str(record["undoes"]) in self._by_id:
                undone = self._by_id[str(record["undoes"])]
                return f"undid {_named(undone)}, operation {undone['id']}"
        return f"ran {command}"


def names_put(record: Mapping[str, Any]) -> set[str]:
    """Give the names of all commits, fragments and files that an operation put; see `name_in`."""
    names = map(name_in, (*record["put"], *record["added"]))
    return {name for name in names if is_name(name.removesuffix(".vac"))}


def name_in(path: str) -> str:
    """Give the name in the path of a file or a fragment.

    A `.vac` keeps its extension: it may have the name of a fragment that another program wrote.

    >>> name_in("__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt")
    '__1_1_00112233445566778899aabbccddeeff_22'
    """
    stem, _, extension = path.rpartition("/")[2].partition(".")
    return f"{stem}.vac" if extension == "vac" else stem


def undone_by(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Give the undo of each operation that is undone, by its id; `records` are the newest first.

    An operation that was undone, and that an erasure has made final since, is still undone.

    >>> undo = {"id": "b", "command": "undo", "undoes": "a", "state": "final"}
    >>> undone_by([undo, {"id": "a", "command": "compact", "undoes": None, "state": "final"}])
    {'a': 'b'}
    """
    found: dict[str, str] = {}
    known = {record["id"] for record in records}
    for record in records:  # whether an undo stands, the later ones say
        stands = record["state"] in ("done", "final") and record["id"] not in found
        undone = str(record["undoes"])
        if record["command"] == "undo" and stands and undone in known:
            found.setdefault(undone, record["id"])
    return found


def gone_words(record: Mapping[str, Any], counted: str) -> str:
    """Say where the files went that an operation took away.

    >>> gone_words({"command": "vacuum"}, "2 files"), gone_words({"command": "undo"}, "1 file")
    ('2 files removed', '1 file moved to the quarantine')
    """
    is_removed = record["command"] in _FOR_GOOD
    return f"{counted} removed" if is_removed else f"{counted} moved to the quarantine"


def _copied(deed: str, options: Mapping[str, Any]) -> str:
    source, target, end = options.get("source"), options.get("target"), options.get("end")
    left_out = options.get("without")
    words = f"{deed} {f'{source} ' if source else ''}to {target}"
    if isinstance(end, int):
        words += f", as of {time_text(end)}"
    if isinstance(left_out, list) and left_out:
        words += f", without {', '.join((uuid_of(str(one)) or str(one))[:8] for one in left_out)}"
    return words


def _named(record: Mapping[str, Any]) -> str:
    noun = {"consolidate": "consolidation"}.get(record["command"], record["command"])
    return f"the {noun} of {time_text(to_ms(record['time']))}"


def _who(record: Mapping[str, Any]) -> str:
    author, message = record["author"], record["message"]
    reason = f'"{message}"' if message else ""
    return ": ".join(filter(None, (f"by {author}" if author else "", reason)))


def _values(values: object) -> str:
    if isinstance(values, Mapping):
        return ", ".join(f"{name} = {value!r}" for name, value in values.items())
    return ", ".join(map(str, values)) if isinstance(values, list) else str(values)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0
