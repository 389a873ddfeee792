"""Tags, added and removed: a name for a moment, in the metadata of an array or a group.

In: an array or a group, a name, a moment. Out: the plan of one file of metadata; the tags of a
group. Every TileDB program can read the tag. The engine's own vacuum does not know of it, and
`check` finds out when a vacuum has destroyed what a tag needs. Reads no member of a group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.change.merge_metadata import group_metadata
from chronotile.change.past_state import Past
from chronotile.change.plan import Plan, Stage, put
from chronotile.change.sound_array import array_version, sealing_key
from chronotile.check.findings import RefusedError, UnknownNameError
from chronotile.check.tags import moment_in, odd_moment, tags_in, tags_of
from chronotile.errors import option
from chronotile.format import tiles
from chronotile.format.array_metadata import encode_items
from chronotile.format.kinds import META
from chronotile.format.names import MAX_TIMESTAMP, Name, new_name, time_order, try_parse
from chronotile.format.tag_entries import check_name, group_tag_item, tag_item
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.group_reading import GroupHistory, read_group
from chronotile.history.read_history import History, read_history
from chronotile.safe_text import did_you_mean, shell_word
from chronotile.visibility.rules import Rules, visible_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.format.array_metadata import MetadataItem
    from chronotile.format.tag_entries import Tags
    from chronotile.format.timestamps import Moment
    from chronotile.storage.store import Store


def plan_tag(
    store: Store, key: bytes | None, *, name: str, at: Moment | None = None, move: bool = False
) -> Plan:
    """Plan to give a moment of an array a name; see `Handle.tag`."""
    history = read_history(store, key=key)
    check_name(name, store.uri)
    moment = now_ms() if at is None else moment_in(store, history, at)
    tags = tags_of(store, history)
    known = (tags if move else tags.checked(store.uri)).own.get(name)
    if known == moment:
        return Plan(command="tag", array=store.uri, notes=(f"{name} is its tag already",))
    refuse_taken(store.uri, name, known, move=move)
    Past(store, Rules(history)).refuse_lost(moment)
    plan = plan_tag_file(store, history, name, moment)
    return replace(plan, notes=(*odd_moment(history, moment),))


def plan_untag(store: Store, key: bytes | None, *, name: str) -> Plan:
    """Plan to take a tag of an array away; see `Handle.untag`."""
    history = read_history(store, key=key)
    tags = tags_of(store, history)
    if name not in tags.own and name not in tags.odd:
        tags.checked(store.uri)
        of_group = any(other == name for other, _ in tags.of_groups)
        problem = f"there is no tag {name!r:.120}"
        if of_group:
            raise UnknownNameError(store.uri, f"{problem}; it is one of a group: name the group")
        raise UnknownNameError(store.uri, f"{problem}{similar_tag(store.uri, name, tags)}")
    return replace(plan_tag_file(store, history, name, None), command="untag")


def similar_tag(uri: str, name: str, tags: Tags) -> str:
    """Suggest a tag, as the end of a message: one that is like a name, or a list of all."""
    listed = f"; to list all: chronotile tag list {shell_word(uri)}"
    return did_you_mean(name, tags.own) or listed


def plan_mark(
    store: Store, key: bytes | None, *, name: str, moment: int, there: bool, is_group: bool
) -> Plan:
    """Plan to mark a member of a group with the group's tag, or to unmark it.

    Raises:
        RefusedError: An array cannot be read whole at the moment any more.
    """
    history: History | GroupHistory
    if is_group:
        history = read_group(store, key=key)
        tags = tags_of_group(store, history)
    else:
        history = read_history(store, key=key)
        tags = tags_of(store, history)
    if there == ((name, moment) in tags.of_groups):
        return Plan(command="tag", array=store.uri)
    if there and isinstance(history, History):
        Past(store, Rules(history)).refuse_lost(moment)
    told = f"{moment} ({time_text(moment)}){'' if there else ', removed'}"
    item = group_tag_item(name, moment, there=there)
    return _plan_file(store, history, item, f"the group's tag {name}: {told}")


def plan_tag_file(
    store: Store, history: History | GroupHistory, name: str, moment: int | None
) -> Plan:
    """Plan the file of metadata that gives a moment a name; None takes the tag away."""
    told = "removed" if moment is None else f"{moment} ({time_text(moment)})"
    return _plan_file(store, history, tag_item(name, moment), f"the tag {name}: {told}")


def _plan_file(
    store: Store, history: History | GroupHistory, item: MetadataItem, words: str
) -> Plan:
    """Plan the file of metadata that sets a key, or removes it, later than all others."""
    if isinstance(history, History):
        others: Iterable[Name] = visible_metadata(history, 0, MAX_TIMESTAMP)
        version, key = array_version(history), sealing_key(store, history)
    else:
        others = _metadata_of_group(store, history)
        version = group_metadata(store, history).version
        key = history.key if any(file.encrypted for file in history.files) else None
    data = tiles.encode(encode_items([item]), version=version, key=key)
    now = max(now_ms(), max((one.t1 for one in others), default=0) + 1)
    step = put(f"{META}/{new_name(now, now, None)}", data, words)
    stage = Stage(name="metadata", seen="the tag is changed", steps=(step,))
    return Plan(command="tag", array=store.uri, stages=(stage,))


def refuse_taken(where: str, name: str, known: int | None, *, move: bool) -> None:
    """Refuse a name that stands for another moment already, unless it may move."""
    if known is not None and not move:
        problem = f"the tag {name!r} names {known} ({time_text(known)}) already"
        raise RefusedError(where, f"{problem}; to let it name another moment, add {option('move')}")


def _metadata_of_group(store: Store, history: GroupHistory) -> list[Name]:
    """List the files of metadata that an open of a group reads, in the order that counts."""
    hidden = {one for vacuum in group_metadata(store, history).vacuums for one in vacuum.targets}
    named = (name for text in history.meta if (name := try_parse(text)) is not None)
    return sorted((name for name in named if name.text not in hidden), key=time_order)


def tags_of_group(store: Store, history: GroupHistory) -> Tags:
    """Read the tags of a group; metadata that cannot be opened gives doubts, as in `tags_of`.

    Raises:
        ChangedError: Metadata is gone since the group was listed.
        StorageError: The storage failed.
    """
    names = _metadata_of_group(store, history) if history.meta else []
    return tags_in(store, names, history.key, is_sealed=history.is_sealed)
