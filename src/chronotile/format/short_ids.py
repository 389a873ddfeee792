"""Short ids: the shortest start of a uuid that no other name of the array shares.

In: names, and what a user typed. Out: how many characters are enough; and the one name that a text
means. Reads nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST = 6
"""Characters of the shortest short id, which people can tell apart at a glance."""
UUID = re.compile(r"_([0-9a-f]{32})(?=_|$)")


def uuid_of(name: str) -> str | None:
    """Find the uuid in a name; None if there is none.

    >>> uuid_of("__1_2_00112233445566778899aabbccddeeff_22")
    '00112233445566778899aabbccddeeff'
    """
    found = UUID.search(name)
    return found[1] if found else None


def enough(names: Iterable[str]) -> int:
    """Count the characters of the uuid that tell all names apart.

    >>> enough(["__1_1_00112233445566778899aabbccddeeff_22"])
    6
    """
    uuids = {uuid for name in names if (uuid := uuid_of(name)) is not None}
    length = LEAST
    while length < 32 and len({uuid[:length] for uuid in uuids}) < len(uuids):
        length += 1
    return length


def find_name(names: Iterable[str], text: str, where: str) -> str:
    """Find the one name that a text means: a name, a file of that name, or the start of its uuid.

    Raises:
        ChronotileError: No name fits, or several do.

    >>> find_name(["__1_1_00112233445566778899aabbccddeeff_22"], "0011", "array")
    '__1_1_00112233445566778899aabbccddeeff_22'
    """
    known = dict.fromkeys(names)
    stem = text.rpartition("/")[2]
    for whole in (stem, stem.rpartition(".")[0]):
        if whole in known:
            return whole
    fitting = [name for name in known if text and (uuid_of(name) or "").startswith(text)]
    if len(fitting) == 1:
        return fitting[0]
    found = "none" if not fitting else f"{len(fitting)}, such as {fitting[0]} and {fitting[1]}"
    problem = f"expected one name, or the start of its uuid, found {text!r}: it fits {found}"
    raise ChronotileError(where, problem)
