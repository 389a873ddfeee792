"""The lists of members of a group, opened one after the other.

In: the bytes of details files, with their names. Out: `OpenedLists`: the files in time order, which
of them the next one repeats, and the damage found. Knows nothing of windows and of storage.

Every session leaves a list of all members that it knew, so most of them are never looked at again.
Of a list that the next one repeats only the bytes of the file stay in memory. Threads would not
help: the lock of Python goes to and fro between them for every chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError, KeyNeededError, WrongKeyError
from chronotile.format import tiles
from chronotile.format.group_columns import DetailsColumns, scan_details
from chronotile.format.group_folding import is_repeated
from chronotile.format.groups import GroupDetails, decode_details
from chronotile.history.read_history import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.format.names import Name


@dataclass(frozen=True, kw_only=True)
class DetailsFile:
    """A file of `__group`."""

    path: str
    name: Name
    size: int
    format_version: int = 0
    encrypted: bool = False
    data: bytes | None = field(default=None, repr=False)
    """The file; None where it could not be read."""
    key: bytes | None = field(default=None, repr=False)
    held: DetailsColumns | GroupDetails | None = field(default=None, repr=False)
    """Its members, if they are in memory: as columns where it is of the usual kind."""

    @cached_property
    def _opened(self) -> DetailsColumns | GroupDetails | None:
        if self.held is not None or self.data is None:
            return self.held
        return _members(tiles.decode(self.data, self.path, key=self.key).payload, self.path)

    @property
    def columns(self) -> DetailsColumns | None:
        """Its members as columns, if it is of the usual kind."""
        return self._opened if isinstance(self._opened, DetailsColumns) else None

    @cached_property
    def details(self) -> GroupDetails | None:
        """Its members; None where it could not be read: `GroupHistory.problems` says why."""
        if isinstance(self._opened, DetailsColumns):
            return decode_details(self._opened.payload, self.path)
        return self._opened


class OpenedLists(NamedTuple):
    """The details files of one group."""

    files: tuple[DetailsFile, ...]
    """By first moment, then by name."""
    repeated: Mapping[str, str]
    """Path of a file -> that of the next one, if that has every key of it: the first adds nothing
    to it."""
    problems: tuple[Problem, ...]


def open_lists(lists: Iterable[tuple[str, Name, bytes | None]], key: bytes | None) -> OpenedLists:
    """Opens details files.

    Args:
        lists: (path, name, content) of each, in any order; None where it could not be read.
        key: The 32-byte AES-256 key, if the group is encrypted.

    >>> open_lists([], None).files
    ()
    """
    ordered = sorted(lists, key=lambda one: (one[1].t1, one[1].text))
    files: list[DetailsFile] = []
    repeated: dict[str, str] = {}
    problems: list[Problem] = []
    for one in ordered:
        file, problem = _opened(*one, key)
        problems += [problem] if problem is not None else []
        if files and _is_in(files[-1], file):
            repeated[files[-1].path] = file.path
            files[-1] = replace(files[-1], held=None)
        files.append(file)
    return OpenedLists(tuple(files), repeated, tuple(problems))


def _opened(
    path: str, name: Name, data: bytes | None, key: bytes | None
) -> tuple[DetailsFile, Problem | None]:
    """A details file, and what is wrong with it; what could not be read was told already."""
    if data is None:
        return DetailsFile(path=path, name=name, size=0), None
    try:
        tile = tiles.decode(data, path, key=key)
        members = _members(tile.payload, path)
    except ChronotileError as error:
        kind = "encrypted" if isinstance(error, KeyNeededError | WrongKeyError) else "tile"
        return DetailsFile(path=path, name=name, size=len(data)), Problem(path, error.problem, kind)
    file = DetailsFile(
        path=path,
        name=name,
        size=len(data),
        format_version=tile.version,
        encrypted=tile.encrypted,
        data=data,
        key=key,
        held=members,
    )
    return file, None


def _members(payload: bytes, path: str) -> DetailsColumns | GroupDetails:
    columns = scan_details(payload)
    return decode_details(payload, path) if columns is None else columns


def _is_in(file: DetailsFile, later: DetailsFile) -> bool:
    one, other = file.held, later.held
    if not isinstance(one, DetailsColumns) or not isinstance(other, DetailsColumns):
        return False
    return is_repeated(one, other)
