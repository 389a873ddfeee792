"""Merges: one file for many, of metadata and of a group's lists of members.

In: an array's history, or a group. Out: `MergeFolder`, the files of one folder; `Merge`, the plan
of a merged file and of its `.vac`. Removes nothing, and touches no member.
An array and a group keep metadata in the same way; only the lines of their `.vac` files differ.

Metadata. The merged file holds each key that is set, with the bytes of the last file that sets it;
a removed key is not in it. Its name has the true range of all files that it replaces. A window that
covers this range sees the merged file, and the `.vac` hides the others; any other window sees
neither. The merged file goes first. Until its `.vac` is there every window reads the same: the
engine applies the files in the order of their first moment, so whatever the merged file says, each
other file says again after it, or says nothing about that key.

Lists of members. The engine cannot merge them: each holds all members that its writer knew, and an
open reads all lists one after the other. The merged list holds the last entry of every key,
deletions too. Its name has the moment of the last list that it replaces, and not their range: the
engine sorts lists by their first moment, and the merged one must come last of all that it holds. A
list that is written meanwhile comes after it, and wins. One that is dated back comes before it, and
can neither bring a removed member back nor lose a new one. No answer depends on the `.vac`: with or
without it, the last entries are the same; in a copied group, whose `.vac` hides nothing, too.

Every maintainer writes a file of its own, even if another one says the same: its writer might take
it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chronotile.change.plan import Plan, Stage, put
from chronotile.change.sound_array import array_version
from chronotile.check.findings import RefusedError, count_text
from chronotile.errors import BadFileError, ChangedError, ChronotileError
from chronotile.format import tiles
from chronotile.format.array_metadata import MetadataItem, decode_items, encode_items
from chronotile.format.commit_files import decode_vac, encode_lines
from chronotile.format.groups import decode_details, encode_details
from chronotile.format.kinds import GROUP, META
from chronotile.format.names import (
    MAX_TIMESTAMP,
    NEWEST_VERSION,
    Name,
    new_name,
    time_order,
    try_parse,
)
from chronotile.history.group_reading import GroupHistory, read_group
from chronotile.history.read_history import MetadataFile, VacuumFile, read_metadata
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.group_members import (
    files_at,
    is_first_version,
    last_entries,
    members_at,
)
from chronotile.visibility.rules import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chronotile.change.plan import Step
    from chronotile.format.groups import GroupEntry
    from chronotile.history.group_reading import DetailsFile
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store

FIRST_WITH_RELATIVE_LINES = 19
"""The first format version in which the engine writes the lines of a `.vac` without the array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFolder:
    """The files of a folder, and the `.vac` files in it."""

    folder: str
    names: tuple[str, ...]
    """All files, `.vac` files too."""
    vacuums: tuple[VacuumFile, ...]
    """The `.vac` files, with the lines that hide something here."""
    version: int
    """The format version of new files."""
    has_relative_lines: bool
    key: bytes | None = field(repr=False)

    def lines(self, store: Store, names: Iterable[str]) -> list[str]:
        """Give the lines of a `.vac` that hides some files, as the engine writes them."""
        if self.has_relative_lines:
            return [f"/{self.folder}/{name}" for name in names]
        return [store.place.uri_in_files(f"{self.folder}/{name}") for name in names]

    def is_readable(self, data: bytes, path: str) -> bool:
        """Tell whether a file can be read as one of this folder."""
        decode = decode_details if self.folder == GROUP else decode_items
        try:
            decode(tiles.decode(data, path, key=self.key).payload, path)
        except ChronotileError:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One file that replaces many of a folder, and the `.vac` that hides those."""

    known: MergeFolder
    merged: Step
    vacuum: Step
    last: int
    """A file that others write from this moment on comes after the merged one."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The merged file, and then the `.vac`."""
        return self.merged, self.vacuum

    def stages(self) -> tuple[Stage, ...]:
        """Put the merged file, look whether anybody else wrote, hide what it replaces.

        In between every window reads the same. The other order would hide files that nothing
        replaces. Of two maintainers at once at least one sees the other's file.
        """
        return (
            Stage(name="merge", steps=(self.merged,)),
            Stage(
                name="hide what was merged",
                looks=(self._refuse_disturbed,),
                steps=(self.vacuum,),
            ),
            Stage(name="confirm", looks=(self._refuse_gone,)),
        )

    def _refuse_disturbed(self, store: Store) -> None:
        """Look whether the folder is as it was read, less what is written later.

        Raises:
            ChangedError: Somebody else changed it; the merged file is taken back, so that nothing
                has happened.
        """
        before = {*self.known.names, self.merged.path.rpartition("/")[2]}
        now = set(store.list_names(self.known.folder).files)
        fresh = [try_parse(text.removesuffix(".vac")) for text in now - before]
        if before - now or any(name is None or name.t1 <= self.last for name in fresh):
            store.remove([self.merged.path])
            problem = "expected the files as they were read, found them changed; try again"
            raise ChangedError(store.uri_of(self.known.folder), problem)

    def _refuse_gone(self, store: Store) -> None:
        """Look whether the merged file is there: else the `.vac` hides what nothing replaces.

        Raises:
            ChangedError: Another maintainer has merged it in turn; the `.vac` is removed.
        """
        try:
            store.head(self.merged.path)
        except MissingObjectError as cause:
            store.remove([self.vacuum.path])
            problem = "expected the merged file that it belongs to, found it gone; try again"
            raise ChangedError(store.uri_of(self.vacuum.path), problem) from cause


def array_metadata(history: History) -> MergeFolder:
    """Describe the metadata of an array."""
    version = array_version(history)
    return MergeFolder(
        folder=META,
        names=history.listing.meta,
        vacuums=history.meta_vacuums,
        version=version,
        has_relative_lines=version >= FIRST_WITH_RELATIVE_LINES,
        key=history.key,
    )


def group_metadata(store: Store, history: GroupHistory) -> MergeFolder:
    """Describe the metadata of a group; read its `.vac` files.

    Raises:
        ChangedError: A `.vac` is gone since the group was listed.
        ReadError: One cannot be read: nobody knows what it hides.
    """
    found = []
    for path, data in store.read_many(f"{META}/{n}" for n in history.meta if n.endswith(".vac")):
        name = try_parse(path.rpartition("/")[2].removesuffix(".vac"))
        if isinstance(data, MissingObjectError):
            problem = "expected the metadata as it was listed, found it changed; try again"
            raise ChangedError(store.uri_of(path), problem)
        if isinstance(data, ChronotileError):
            raise data
        if name is not None:
            found.append(VacuumFile(path=path, name=name, lines=tuple(decode_vac(data, path))))
    return _of_group(store, history, META, history.meta, found)


def group_lists(store: Store, history: GroupHistory) -> MergeFolder:
    """Describe the lists of members of a group."""
    names = [file.name.text for file in history.files]
    names += [vacuum.path.rpartition("/")[2] for vacuum in history.vacuums]
    return _of_group(store, history, GROUP, tuple(names), history.vacuums)


def _of_group(
    store: Store,
    history: GroupHistory,
    folder: str,
    names: tuple[str, ...],
    vacuums: Iterable[VacuumFile],
) -> MergeFolder:
    """Compare whole URIs: the lines of a copied group hide nothing, for the engine and for us."""
    versions = [file.format_version for file in history.files]
    whole = MergeFolder(
        folder=folder,
        names=names,
        vacuums=(),
        # A group that has no list of members yet has no version.
        version=max(versions, default=0) or NEWEST_VERSION,
        has_relative_lines=False,
        key=history.key,
    )
    plain = [name for name in names if not name.endswith(".vac")]
    here = set(whole.lines(store, plain))
    kept = (replace(one, lines=tuple(x for x in one.lines if x in here)) for one in vacuums)
    return replace(whole, vacuums=tuple(kept))


def plan_metadata(store: Store, known: MergeFolder) -> Merge | str | None:
    """Plan one file for the metadata that an open at any later time sees.

    Returns:
        The merge; or, in words, why there can be none; None if there is nothing to merge.

    Raises:
        ChangedError: A file is gone since the array was listed.
        KeyNeededError: The array is encrypted, and there is no key.
        RefusedError: A file cannot be read.
    """
    names = [name for name in map(try_parse, known.names) if name is not None]
    listed = {target for vacuum in known.vacuums for target in vacuum.targets}
    live = sorted((name for name in names if name.text not in listed), key=time_order)
    if len(live) < 2:
        return None
    first, last = min(name.t1 for name in live), max(name.t2 for name in live)
    seen = _seen_again(known, [n for n in names if n.text in listed], first, last)
    if seen is not None:
        return f"metadata stays as it is: {META}/{seen} is hidden from some windows only"
    files = list(_read(store, known, live))
    items, undecided = _merged(files)
    if undecided is not None:
        note = f"metadata stays as it is: several files of one time set {undecided!r:.80}, and "
        return f"{note}which of them counts is not defined"
    text, number = new_name(first, last, None), count_text(len(files), "file")
    key = known.key if any(file.is_encrypted for file in files) else None
    data = tiles.encode(encode_items(items), version=known.version, key=key)
    lines = encode_lines(known.lines(store, [name.text for name in live]))
    return Merge(
        known=known,
        merged=put(f"{META}/{text}", data, f"{count_text(len(items), 'key')} of {number}"),
        vacuum=put(f"{META}/{text}.vac", lines, f"hides {number}"),
        last=last,
    )


def _seen_again(known: MergeFolder, hidden: Iterable[Name], first: int, last: int) -> str | None:
    """Find a hidden file that some window sees together with a merged file of that range.

    A `.vac` outside of the range can hide a file that lies inside of it. A window that covers the
    range, and not the `.vac`, sees that file, which would then count after the merged one.
    """
    for name in hidden:
        start, end = min(first, name.t1), max(last, name.t2)
        if not any(
            is_inside(vacuum.name.t1, vacuum.name.t2, start, end)
            for vacuum in known.vacuums
            if name.text in vacuum.targets
        ):
            return name.text
    return None


def _read(store: Store, known: MergeFolder, names: Sequence[Name]) -> Iterator[MetadataFile]:
    try:
        yield from read_metadata(store, names, known.key)
    except BadFileError as error:
        problem = f"expected metadata that can be read, found {error.where}: {error.problem}"
        raise RefusedError(store.uri, problem) from error


def _merged(files: Sequence[MetadataFile]) -> tuple[list[MetadataItem], bytes | None]:
    """Give the entries that count, and a key for which that is not defined.

    The engine applies files by their first moment. It has no order for two of one moment.
    """
    latest: dict[bytes, tuple[int, set[bytes], MetadataItem]] = {}
    for file in files:
        for key, item in file.items.items():
            known = latest.get(key)
            said = {item.raw}
            if known is not None and known[0] == file.name.t1:
                said |= known[1]
            latest[key] = (file.name.t1, said, item)
    undecided = next((key for key, (_, said, _) in latest.items() if len(said) > 1), None)
    return [item for _, _, item in latest.values() if not item.is_removal], undecided


def plan_consolidate_group(store: Store, key: bytes | None) -> Plan:
    """Plan one list of members for many, and one file of metadata for many.

    An open at any time sees the same members before and after. Nothing is removed.

    Raises:
        RefusedError: A list of members is damaged.
    """
    history = sound_group(store, key)
    found = (plan_lists(store, history), plan_metadata(store, group_metadata(store, history)))
    merges = [one for one in found if isinstance(one, Merge)]
    return Plan(
        command="consolidate",
        array=store.uri,
        stages=tuple(stage for merge in merges for stage in merge.stages()),
        notes=tuple(one for one in found if isinstance(one, str)),
    )


def sound_group(store: Store, key: bytes | str | None) -> GroupHistory:
    """Read a group that is about to be changed.

    Raises:
        RefusedError: A list of members cannot be read, or the engine could not open the group.
    """
    history = read_group(store, key=key)
    for problem in history.problems:
        words = f"expected lists of members that can be read, found {problem.path}"
        raise RefusedError(store.uri, f"{words}: {problem.message}")
    members_at(history, 0, MAX_TIMESTAMP)
    return history


def plan_lists(store: Store, history: GroupHistory) -> Merge | str | None:
    """Plan one list for all that an open at any later time reads; or say why there is none."""
    files = files_at(history, 0, MAX_TIMESTAMP)
    if files and is_first_version(files[-1].name):
        return "lists of version 1 stay: the newest alone names the members"
    if len(files) < 2:
        return None
    if (undecided := _undecided(files)) is not None:
        return f"lists of members stay: several of one time say different things of {undecided!r}"
    entries = last_entries([file.details for file in files if file.details is not None])
    t1, t2 = max(file.name.t1 for file in files), max(file.name.t2 for file in files)
    folder = group_lists(store, history)
    text = new_name(t1, t2, 2)
    ordered = [entries[key] for key in sorted(entries)]
    is_sealed = any(file.encrypted for file in files)
    data = encode_details(
        ordered, format_version=folder.version, key=history.key if is_sealed else None
    )
    entry_words = count_text(len(entries), "entry", "entries")
    reason = f"{entry_words} of {count_text(len(files), 'list')} of members"
    lines = encode_lines(folder.lines(store, [file.name.text for file in files]))
    return Merge(
        known=folder,
        merged=put(f"{GROUP}/{text}", data, reason),
        vacuum=put(f"{GROUP}/{text}.vac", lines, f"hides {count_text(len(files), 'list')}"),
        last=t1,
    )


def _undecided(files: Sequence[DetailsFile]) -> str | None:
    """Find a key whose last two lists are of one moment and disagree on it."""
    latest: dict[str, tuple[int, set[GroupEntry]]] = {}
    for file in files:
        for entry in () if file.details is None else file.details.entries:
            key = entry.key
            moment, said = latest.get(key, (-1, set()))
            same = moment == file.name.t1
            latest[key] = (file.name.t1, {*said, entry} if same else {entry})
    return next((key for key, (_, said) in latest.items() if len(said) > 1), None)
