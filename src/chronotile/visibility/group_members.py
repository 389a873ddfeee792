"""The rules of groups: which members an open at a window sees.

In: the history of one group, and a window. Out: the members, by key. No file, no clock.

1. A details file counts if it lies wholly inside the window: `start <= t1` and `t2 <= end`.
2. A `.vac` of `__group` that lies wholly inside the window hides the files that it lists. Its lines
   are whole URIs, so those of a copied group hide nothing.
3. The files are in the order of t1 alone. For two of one moment there is no order; here it is that
   of their names, as in a listing.
4. If the last file has version 1 (its name ends in `_1`, or carries no version), it alone counts.
   Else all count, one after the other, and each must have version 2.
5. Of one key the last entry counts; a deletion removes the key. The key is the name, else the URI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import BadFileError, KeyNeededError, WrongKeyError
from chronotile.format.groups import FIRST_WITH_DELETIONS, GroupEntry
from chronotile.format.kinds import GROUP
from chronotile.visibility.rules import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chronotile.format.groups import GroupDetails
    from chronotile.format.names import Name
    from chronotile.history.group_reading import DetailsFile, GroupHistory


_FILE = "file://"


def is_first_version(name: Name) -> bool:
    """Return True if a details file is of version 1, by its name.

    >>> from chronotile.format.names import parse_name
    >>> is_first_version(parse_name("__1_1_00112233445566778899aabbccddeeff_2"))
    False
    """
    return name.era == 2 or (name.era == 3 and name.version == 1)


def uri_in_lines(group: str, name: str) -> str:
    """Give the URI of a details file as the engine writes it into a `.vac`.

    >>> uri_in_lines("/data/g", "x"), uri_in_lines("s3://lake/g", "x")
    ('file:///data/g/__group/x', 's3://lake/g/__group/x')
    """
    scheme = "" if "://" in group else _FILE
    return f"{scheme}{group.rstrip('/')}/{GROUP}/{name}"


def files_at(history: GroupHistory, start: int, end: int) -> tuple[DetailsFile, ...]:
    """List the details files that an open at a window reads, in the order in which they count."""
    hidden = {
        line
        for vacuum in history.vacuums
        if is_inside(vacuum.name.t1, vacuum.name.t2, start, end)
        for line in vacuum.lines
    }
    seen = [
        file
        for file in history.files
        if is_inside(file.name.t1, file.name.t2, start, end)
        and (not hidden or uri_in_lines(history.group, file.name.text) not in hidden)
    ]
    return tuple(seen[-1:] if seen and is_first_version(seen[-1].name) else seen)


def members_at(history: GroupHistory, start: int, end: int) -> dict[str, GroupEntry]:
    """Map the key of each member that an open at a window sees to the member, sorted by key.

    Raises:
        BadFileError: A file that counts cannot be read: the engine cannot open the group then.
        KeyNeededError: The group is encrypted, and there is no key.
    """
    files = files_at(history, start, end)
    # A list that a later one repeats adds nothing to it.
    seen = {file.path for file in files}
    kept = [file for file in files if history.repeated.get(file.path) not in seen]
    left = fold(_details(history, file, alone=len(files) == 1) for file in kept)
    return {key: left[key] for key in sorted(left)}


def fold(details: Iterable[GroupDetails]) -> dict[str, GroupEntry]:
    """Find the members that are left after several files, one after the other."""
    members: dict[str, GroupEntry] = {}
    for one in details:
        for entry in one.entries:
            if entry.is_deletion:
                members.pop(entry.key, None)
            else:
                members[entry.key] = entry
    return members


def last_entries(files: Sequence[GroupDetails]) -> dict[str, GroupEntry]:
    """Map each key to the entry that counts, deletions among them."""
    return {entry.key: entry for one in files for entry in one.entries}


def _details(history: GroupHistory, file: DetailsFile, *, alone: bool) -> GroupDetails:
    if file.details is None:
        problem = next(one for one in history.problems if one.path == file.path)
        sealed = KeyNeededError if history.key is None else WrongKeyError
        kind = sealed if problem.kind == "encrypted" else BadFileError
        raise kind(f"{history.group.rstrip('/')}/{file.path}", problem.message)
    if file.details.version < FIRST_WITH_DELETIONS and not (alone and is_first_version(file.name)):
        where = f"{history.group.rstrip('/')}/{file.path}"
        words = "expected version 2, as the newest file has; found version 1"
        raise BadFileError(where, f"{words}: TileDB cannot open the group")
    return file.details
