"""Timestamped names, and short ids: the shortest start of a uuid that no other name shares.

In: one path component, or what a user typed. Out: `Name`, or `BadNameError`; and back; the one name
that a text means. Knows nothing of folders, stores or time windows.

A name says when its object was made, and in which version of the format:

    era 3, versions 5 and later   __t1_t2_uuid_v
    era 2, versions 3 and 4       __t1_t2_uuid
    era 1, versions 1 and 2       __uuid_t1 or __uuid_t1_t2

t1 and t2 are milliseconds since the epoch, in decimal, with any number of digits: compare them
as numbers, never as text. The names of schema and array-metadata files never carry a version:
they look like era 2.

The engine tells the eras apart by five underscores (era 3), else by a last part of 32
characters (era 2), and takes anything else for era 1; in era 1 it takes the number after the
last underscore for both ends. It reads numbers with `sscanf`, which takes signs, blanks and a
number followed by anything. We read all names that it writes, and refuse the rest: a name that
says nothing reliable about time must not decide what is visible.
"""

from __future__ import annotations

import re
import uuid as uuids
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import BadNameError, WrongCallError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TIMESTAMP = (1 << 64) - 1
"""The last moment that a name can hold: a window that ends there sees every commit."""
MAX_VERSION = (1 << 32) - 1
NEWEST_VERSION = 23
"""The newest known format version: files of later ones are left as they are."""

_ERASING = "0" * 12
"""How the uuid of a delete of an erasure begins; no uuid of an engine does."""
_ERA_3 = re.compile(r"__(\d{1,20})_(\d{1,20})_([0-9a-f]{32})_(\d{1,10})", re.ASCII)
_ERA_2 = re.compile(r"__(\d{1,20})_(\d{1,20})_([0-9a-f]{32})", re.ASCII)
_ERA_1 = re.compile(r"__([0-9a-f]{32})_(\d{1,20})(?:_(\d{1,20}))?", re.ASCII)


class Name(NamedTuple):
    """A timestamped name, taken apart."""

    t1: int
    t2: int
    uuid: str
    version: int | None
    """The format version, where the name carries one."""
    era: int
    text: str
    """The name as it is written."""


def parse_name(text: str) -> Name:
    """Take a timestamped name, one path component without its extension, apart.

    Raises:
        BadNameError: It is no timestamped name, or its times run backwards.

    >>> parse_name("__10_20_00112233445566778899aabbccddeeff_22")[:4]
    (10, 20, '00112233445566778899aabbccddeeff', 22)
    >>> parse_name("__00112233445566778899aabbccddeeff_7").t2
    7
    >>> parse_name("__2_1_00112233445566778899aabbccddeeff")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.errors.BadNameError: ...expected t1 <= t2, found 2 > 1
    """
    if match := _ERA_3.fullmatch(text):
        t1, t2, uuid, version = match.groups()
        return _checked(Name(int(t1), int(t2), uuid, int(version), 3, text))
    if match := _ERA_2.fullmatch(text):
        t1, t2, uuid = match.groups()
        return _checked(Name(int(t1), int(t2), uuid, None, 2, text))
    if match := _ERA_1.fullmatch(text):
        uuid, first, last = match.groups()
        # The engine takes the last number for both ends.
        end = int(last or first)
        return _checked(Name(end, end, uuid, None, 1, text))
    expected = "a timestamped name (__t1_t2_uuid_v, __t1_t2_uuid or __uuid_t1)"
    raise BadNameError(_shown(text), f"expected {expected}, found another")


def try_parse(text: str) -> Name | None:
    """Take a name apart; None if it is no timestamped name."""
    try:
        return parse_name(text)
    except BadNameError:
        return None


def is_name(text: str) -> bool:
    """Return True if a text is a timestamped name.

    >>> is_name("__1_1_00112233445566778899aabbccddeeff_22"), is_name("../x")
    (True, False)
    """
    return try_parse(text) is not None


def format_name(t1: int, t2: int, uuid: str, version: int | None) -> str:
    """Write a name of era 3; without a version, a name of a schema or metadata file.

    Raises:
        BadNameError: The parts make no name that the engine reads back.

    >>> format_name(9, 10, "00112233445566778899aabbccddeeff", 22)
    '__9_10_00112233445566778899aabbccddeeff_22'
    """
    text = f"__{t1}_{t2}_{uuid}" + ("" if version is None else f"_{version}")
    name = parse_name(text)
    if name[:4] != (t1, t2, uuid, version) or name.era == 1:
        raise BadNameError(_shown(text), "expected parts that make a timestamped name")
    return text


def new_name(t1: int, t2: int, version: int | None) -> str:
    """Write a name with a fresh uuid.

    >>> parse_name(new_name(1, 2, 22))[:2]
    (1, 2)
    """
    return format_name(t1, t2, uuids.uuid4().hex, version)


def erasing_name(t: int, version: int | None) -> str:
    """Write the name of a delete of an erasure: a merge records it, and the array never has it.

    >>> is_erasing(parse_name(erasing_name(1, 22))), is_erasing(parse_name(new_name(1, 1, 22)))
    (True, False)
    """
    return format_name(t, t, _ERASING + uuids.uuid4().hex[len(_ERASING) :], version)


def is_erasing(name: Name) -> bool:
    """Return True if a delete was one of an erasure; see `erasing_name`."""
    return name.uuid.startswith(_ERASING)


def version_of(name: Name) -> int:
    """Return the format version that the engine takes a name to have.

    >>> version_of(parse_name("__1_2_00112233445566778899aabbccddeeff"))
    4
    """
    return {2: 4, 1: 2}[name.era] if name.version is None else name.version


def is_newer(path: str) -> bool:
    """Return True if the name of a file or folder has a format version that is not known yet.

    >>> is_newer("__commits/__1_1_00112233445566778899aabbccddeeff_99.wrt")
    True
    """
    name = try_parse(path.rpartition("/")[2].partition(".")[0])
    return name is not None and (name.version or 0) > NEWEST_VERSION


def time_order(name: Name) -> tuple[int, int, str]:
    """Return the key that sorts names by time, then by text."""
    return (name.t1, name.t2, name.text)


def _checked(name: Name) -> Name:
    if name.t1 > name.t2:
        raise BadNameError(_shown(name.text), f"expected t1 <= t2, found {name.t1} > {name.t2}")
    if name.t2 > MAX_TIMESTAMP or (name.version or 0) > MAX_VERSION:
        raise BadNameError(_shown(name.text), "expected numbers of 64 and 32 bits, found larger")
    return name


def _shown(text: str) -> str:
    clean = text.encode("unicode_escape").decode("ascii")
    return clean if len(clean) <= 120 else f"{clean[:120]}…"


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
        WrongCallError: No name fits, or several do.

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
    few = f"{len(fitting)} commits, such as {fitting[0]} and {fitting[1]}" if fitting else ""
    problem = f"{text!r} fits {few or 'no commit'}; give a name, or the start of its uuid"
    raise WrongCallError(where, problem)
