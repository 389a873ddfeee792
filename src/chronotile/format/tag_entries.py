"""Tags: names for moments, kept in the own metadata of an array or a group.

In: the entries of metadata. Out: the tags among them, each with its moment; doubts, which are
entries that may be tags but cannot be read; entries that add or remove a tag. Decides nothing about
windows.

A tag is the key `chronotile.tag.NAME`, and its value is the moment in ms, an int64: every TileDB
program can read it, and a copy of the array keeps it. A group's tag is in the metadata of the group
itself. An array does not know of the groups that it is a member of, and a vacuum of it must keep
all that their tags need: so each member has a group tag, `chronotile.group-tag.NAME@MOMENT`. The
moment is a part of the key, for two groups may have tags of one name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ReadError, WrongCallError
from chronotile.format.array_metadata import MetadataItem, number_item, number_of, removal_item
from chronotile.format.kinds import META
from chronotile.format.timestamps import DAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TAG = b"chronotile.tag."
_GROUP_TAG = b"chronotile.group-tag."
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@+-]{0,119}")
_TAKEN = {"now", "yesterday", "today", "tomorrow"}
"""Words that mean a time already, or might one day."""


class Doubt(NamedTuple):
    """Something that may be a tag, or hold one, and cannot be read."""

    path: str
    """Relative to the array, or the group."""
    problem: str
    hint: str
    is_sealed: bool = False
    """True if only the key is missing."""
    tag: str | None = None
    """The name of the tag, where only its value is none."""

    def __str__(self) -> str:
        return f"{self.path} may hold a tag and cannot be read: {self.problem}"


class Tags(NamedTuple):
    """The tags that metadata holds."""

    own: dict[str, int]
    """Name -> moment, the earliest first."""
    of_groups: tuple[tuple[str, int], ...] = ()
    """Names and moments of the tags of groups that this is a member of."""
    doubts: tuple[Doubt, ...] = ()
    """Further entries that may be tags: a vacuum must not go by the known ones alone."""

    @property
    def odd(self) -> frozenset[str | None]:
        """The names of tags whose value is no moment."""
        return frozenset(doubt.tag for doubt in self.doubts)

    def checked(self, where: str) -> Tags:
        """Give the tags back, if they are all of them.

        Raises:
            ReadError: There may be others, or one of them may name another moment by now.

        >>> Tags({}, (), (Doubt("__meta/x", "it is empty", "chronotile repair a"),)).checked("a")
        Traceback (most recent call last):
        chronotile.errors.ReadError: a: __meta/x may hold a tag and cannot be read: it is empty; ...
        """
        for doubt in self.doubts:
            raise ReadError(where, f"{doubt}; {doubt.hint}")
        return self

    def by_name(self) -> dict[str, int]:
        """Give the moment of each tag, and of each group's tag on which all groups agree.

        >>> Tags({"v1": 5}, (("v1", 6), ("v2", 7), ("v3", 8), ("v3", 9))).by_name()
        {'v2': 7, 'v1': 5}
        """
        moments: dict[str, set[int]] = {}
        for name, moment in self.of_groups:
            moments.setdefault(name, set()).add(moment)
        agreed = {name: min(some) for name, some in moments.items() if len(some) == 1}
        return {name: at for name, at in agreed.items() if name not in self.own} | self.own

    def with_group(self, tags: Mapping[str, int]) -> Tags:
        """Add the tags of a group, which its members may lack."""
        more = [pair for pair in tags.items() if pair not in self.of_groups]
        return self._replace(of_groups=(*self.of_groups, *more))

    def labelled(self) -> list[tuple[str, int]]:
        """Name each tag in words, with its moment.

        >>> Tags({"v1": 5}, (("v1", 6),)).labelled()
        [('the tag v1', 5), ("the group's tag v1", 6)]
        """
        own = [(f"the tag {name}", moment) for name, moment in self.own.items()]
        return own + [(f"the group's tag {name}", moment) for name, moment in self.of_groups]


def is_name(text: str) -> bool:
    """Return True if a text can be the name of a tag.

    >>> is_name("release/1.2"), is_name("2024"), is_name("now")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None and text not in _TAKEN


def check_name(name: str, where: str) -> str:
    """Give a tag's name back; refuse one that looks like a time.

    Raises:
        WrongCallError: It is empty, too long, a word for a time, or has other characters.

    >>> check_name("release-1.2", "a")
    'release-1.2'
    """
    if name in _TAKEN or name.lower() in DAYS:  # older arrays may have such a tag
        raise WrongCallError(where, f"{name!r} already means a time; choose another name")
    if not is_name(name):
        wanted = "one that starts with a letter and holds letters, digits and _.:/@+- only"
        raise WrongCallError(where, f"{name!r:.80} is no name for a tag; give {wanted}")
    return name


def tags_among(items: Iterable[MetadataItem], where: str) -> Tags:
    """Find the tags among some entries of the metadata of an array or a group.

    >>> tags_among([number_item(b"chronotile.tag.v1", 7), number_item(b"other", 8)], "a").own
    {'v1': 7}
    """
    own, of_groups = list[tuple[int, str]](), list[tuple[int, str]]()
    doubts = []
    for item in items:
        if item.is_removal or not is_tag(item.key):
            continue
        moment = number_of(item)
        suffix = b"" if moment is None else b"@%d" % moment
        if moment is None or moment < 0:
            doubts.append(_without_moment(item.key, where))
        elif item.key.startswith(_TAG):
            own.append((moment, _text(item.key.removeprefix(_TAG))))
        elif item.key.endswith(suffix):
            of_groups.append((moment, _text(item.key[len(_GROUP_TAG) : -len(suffix)])))
        else:
            doubts.append(_without_moment(item.key, where))
    return Tags(
        {name: moment for moment, name in sorted(own)},
        tuple((name, moment) for moment, name in sorted(of_groups)),
        tuple(doubts),
    )


def _without_moment(key: bytes, where: str) -> Doubt:
    """Doubt a tag whose value is no moment: another program set it."""
    problem = f"expected a moment in ms, a whole number of 64 bits, for {_text(key)!r:.160}"
    name = _text(key.removeprefix(_TAG))
    if key.startswith(_TAG) and is_name(name):
        hint = f"to set it: chronotile tag add {where} {name} --at TIME --move"
        hint += f"; to take it away: chronotile tag remove {where} {name}"
        return Doubt(META, problem, hint, tag=name)
    return Doubt(META, problem, "remove the key with TileDB")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "replace")


def is_tag(key: bytes) -> bool:
    """Return True if a key of metadata is a tag, or a group tag.

    >>> is_tag(b"chronotile.tag.v1"), is_tag(b"units")
    (True, False)
    """
    return key.startswith((_TAG, _GROUP_TAG))


def tag_item(name: str, moment: int | None) -> MetadataItem:
    """Make the entry that sets a tag, or removes it if there is no moment.

    >>> tag_item("v1", None).is_removal
    True
    """
    key = _TAG + name.encode()
    return removal_item(key) if moment is None else number_item(key, moment)


def group_tag_item(name: str, moment: int, *, there: bool) -> MetadataItem:
    """Make the entry that gives a member a group tag, or takes it away.

    >>> group_tag_item("v1", 7, there=True).key
    b'chronotile.group-tag.v1@7'
    """
    key = _GROUP_TAG + f"{name}@{moment}".encode()
    return number_item(key, moment) if there else removal_item(key)
