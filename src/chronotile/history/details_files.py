"""The lists of members of a group, opened one after the other.

In: the bytes of details files, with their names. Out: `OpenedLists`: the files in time order, which
of them a later one repeats, and the damage found. Knows nothing of windows and of storage.

Every session leaves a list of all members that it knew, so a later list repeats most of them. Such
a list is read only if somebody asks for its members.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError, KeyNeededError, WrongKeyError
from chronotile.format import tiles
from chronotile.format.groups import GroupDetails, decode_details, stored_members
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
    read: GroupDetails | None = field(default=None, repr=False)
    """Its members, if they were read."""

    @cached_property
    def details(self) -> GroupDetails | None:
        """Its members; None where it could not be read: `GroupHistory.problems` says why."""
        if self.read is not None or self.data is None:
            return self.read
        payload = tiles.decode(self.data, self.path, key=self.key).payload
        return decode_details(payload, self.path)


class OpenedLists(NamedTuple):
    """The details files of one group."""

    files: tuple[DetailsFile, ...]
    """By first moment, then by name."""
    repeated: Mapping[str, str]
    """Path of a file -> that of a later one which has every member of it."""
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
    later, known = "", frozenset[bytes]()  # the last list that was read, and its members
    for path, name, data in reversed(ordered):
        file = DetailsFile(path=path, name=name, size=len(data or b""))
        files.append(file)
        if data is None:
            continue
        try:
            tile = tiles.decode(data, path, key=key)
            members = stored_members(tile.payload) if len(ordered) > 1 else None
            details = None
            if later and members is not None and known.issuperset(members):
                repeated[path] = later
            else:
                details = decode_details(tile.payload, path)
                later, known = path, frozenset(members or ())
        except ChronotileError as error:
            kind = "encrypted" if isinstance(error, KeyNeededError | WrongKeyError) else "tile"
            problems.append(Problem(path, error.problem, kind))
            continue
        files[-1] = replace(
            file,
            format_version=tile.version,
            encrypted=tile.encrypted,
            data=data,
            key=key,
            read=details,
        )
    return OpenedLists(tuple(files[::-1]), repeated, tuple(problems[::-1]))
