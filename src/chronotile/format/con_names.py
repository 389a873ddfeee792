"""The names of `.con`, `.ign` and `.meta` files, and which of two was made later.

In: times, and the names of other files. Out: names, and an order of them. Knows nothing of what
the files hold.

A new file gets a larger uuid than every file that it was made from, so the names alone tell which
of two of ours was made later. The engine's uuids are random. Which `.con` goes and which one stays
is another matter: `history.con_files` has it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from chronotile.errors import BadNameError
from chronotile.format.commit_files import commit_name
from chronotile.format.names import format_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_HIGHEST = (1 << 128) - 1
_STRIDE = 1 << 64


def rank(path: str) -> tuple[int, str]:
    """The place of a file in the order in which ours are made; one without a name is before all.

    >>> low, high = f"__9_9_{'0' * 31}1_22.con", f"__1_1_{'0' * 31}2_22.con"
    >>> rank(low) < rank(high)
    True
    """
    try:
        name = commit_name(path)
    except BadNameError:
        return -1, path
    return int(name.uuid, 16), name.text


def later_name(uris: Iterable[str], others: Iterable[str], version: int) -> str:
    """A name for a new `.con` or `.ign`: true to its times, later than others.

    Args:
        uris: The commits that it holds.
        others: Paths of the `.con` files that it must be later than.
        version: The format version.

    >>> u = "00112233445566778899aabbccddeeff"
    >>> name = later_name([f"__commits/__5_6_{u}_22.wrt"], [f"__commits/__1_1_{u}_22.con"], 22)
    >>> rank(f"{name}.con") > rank(f"__1_1_{u}_22.con"), name[:6]
    (True, '__5_6_')
    """
    names = [commit_name(uri) for uri in uris]
    return later_name_at(min(n.t1 for n in names), max(n.t2 for n in names), others, version)


def later_name_at(t1: int, t2: int, others: Iterable[str], version: int) -> str:
    """A name for a new `.con` or `.ign` of a known range of time, later than others."""
    low = max((rank(path)[0] for path in others), default=secrets.randbits(127))
    value = low + 1 + secrets.randbelow(max(min(_STRIDE, _HIGHEST - low), 1))
    return format_name(t1, t2, f"{min(value, _HIGHEST):032x}", version)
