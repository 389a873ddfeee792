"""Files of one folder that a merged file replaces: metadata, or a group's lists of members.

In: what was listed of a folder. Out: `MergeFolder`, which tells how the engine names these files in
a `.vac`, and which of them can be read. An array and a group keep metadata in the same way; only
the lines of their `.vac` files differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chronotile.change.plan import Stage
from chronotile.change.sound_array import array_version
from chronotile.errors import ChangedError, ChronotileError
from chronotile.format import tiles
from chronotile.format.array_metadata import decode_items
from chronotile.format.commit_files import decode_vac
from chronotile.format.groups import decode_details
from chronotile.format.kinds import GROUP, META
from chronotile.format.names import NEWEST_VERSION, try_parse
from chronotile.history.read_history import VacuumFile
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.change.plan import Step
    from chronotile.history.group_reading import GroupHistory
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
        """The lines of a `.vac` that hides some files, as the engine writes them."""
        if self.has_relative_lines:
            return [f"/{self.folder}/{name}" for name in names]
        return [store.place.uri_in_files(f"{self.folder}/{name}") for name in names]

    def is_readable(self, data: bytes, path: str) -> bool:
        """Whether a file is what the folder holds."""
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
    """Whatever others write from this moment on comes after the merged file."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The merged file, and then the `.vac`."""
        return self.merged, self.vacuum

    def stages(self) -> tuple[Stage, ...]:
        """Put the merged file, look whether anybody else wrote, hide what it replaces.

        In between every window reads the same. The other order would hide files that nothing
        replaces. Of two maintainers at once at least one sees the other's file.
        """
        same = "every window sees what it saw before"
        return (
            Stage(name="merge", seen=same, steps=(self.merged,)),
            Stage(
                name="hide what was merged",
                seen=same,
                looks=(Undisturbed(self.known.folder, self.known.names, self.last, self.merged),),
                steps=(self.vacuum,),
            ),
            Stage(name="confirm", seen=same, looks=(MergedStays(self.vacuum.path),)),
        )


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """Look whether a folder is as it was read, less what is written later.

    If somebody else changed it, the merged file is taken back, and nothing has happened.
    """

    folder: str
    names: tuple[str, ...]
    last: int
    merged: Step

    def __call__(self, store: Store) -> None:
        """Look.

        Raises:
            ChangedError: Somebody else changed the folder; it is as it was.
        """
        before = {*self.names, self.merged.path.rpartition("/")[2]}
        now = set(store.list_names(self.folder).files)
        fresh = [try_parse(text.removesuffix(".vac")) for text in now - before]
        if before - now or any(name is None or name.t1 <= self.last for name in fresh):
            store.remove([self.merged.path])
            problem = "expected the files as they were read, found them changed; try again"
            raise ChangedError(store.uri_of(self.folder), problem)


@dataclass(frozen=True, slots=True)
class MergedStays:
    """Look whether the merged file of a `.vac` is there.

    A `.vac` whose merged file is gone would hide files that nothing replaces.
    """

    vacuum: str

    def __call__(self, store: Store) -> None:
        """Look.

        Raises:
            ChangedError: Another maintainer has merged it in turn; the `.vac` is removed.
        """
        try:
            store.head(self.vacuum.removesuffix(".vac"))
        except MissingObjectError as cause:
            store.remove([self.vacuum])
            problem = "expected the merged file that it belongs to, found it gone; try again"
            raise ChangedError(store.uri_of(self.vacuum), problem) from cause


def array_metadata(history: History) -> MergeFolder:
    """The metadata of an array."""
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
    """The metadata of a group; reads its `.vac` files.

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
    """The lists of members of a group."""
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
    """Whole URIs: the lines of a copied group hide nothing, for the engine and for us."""
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
