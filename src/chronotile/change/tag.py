"""Tags, added and removed: a name for a moment, in the metadata of an array or a group.

In: an array or a group, a name, a moment. Out: the plan of one file of metadata; the tags of a
group. Every TileDB program can read the tag. The engine's own vacuum does not know of it, and
`check` finds out when a vacuum has destroyed what a tag needs. Reads no member of a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.merged_files import group_metadata
from chronotile.change.past_state import Past
from chronotile.change.plan import Plan, Stage, put
from chronotile.change.sound_array import array_version, sealing_key
from chronotile.check.findings import RefusedError
from chronotile.check.tags import moment_in, tags_in, tags_of
from chronotile.errors import shell_word
from chronotile.format import tiles
from chronotile.format.array_metadata import encode_items
from chronotile.format.kinds import META
from chronotile.format.names import MAX_TIMESTAMP, Name, new_name, time_order, try_parse
from chronotile.format.tag_entries import check_name, group_tag_item, tag_item
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.read_history import read_history
from chronotile.visibility.rules import Rules, visible_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.change.plan import Step
    from chronotile.format.array_metadata import MetadataItem
    from chronotile.format.tag_entries import Tags
    from chronotile.format.timestamps import Moment
    from chronotile.history.group_reading import GroupHistory
    from chronotile.history.read_history import History
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
        return Plan(command="tag", array=store.uri, notes=("it is there",))
    refuse_taken(store.uri, name, known, move=move)
    Past(store, Rules(history)).refuse_lost(moment)
    step = array_step(store, history, tag_item(name, moment), tag_words(name, moment))
    return plan_of(store, step)


def plan_untag(store: Store, key: bytes | None, *, name: str) -> Plan:
    """Plan to take a tag of an array away; see `Handle.untag`."""
    history = read_history(store, key=key)
    tags = tags_of(store, history)
    if name not in tags.own and name not in tags.odd:
        tags.checked(store.uri)
        of_group = any(other == name for other, _ in tags.of_groups)
        hint = f"; chronotile tag list {shell_word(store.uri)} lists all"
        hint = "; it is one of a group: name the group" if of_group else hint
        raise RefusedError(store.uri, f"expected the name of a tag, found {name!r:.120}{hint}")
    step = array_step(store, history, tag_item(name, None), tag_words(name, None))
    return plan_of(store, step, "untag")


def plan_mark(
    store: Store, key: bytes | None, *, name: str, moment: int, there: bool = True
) -> Plan:
    """Plan to mark an array with the tag of a group that it is a member of, or to unmark it.

    Raises:
        RefusedError: The moment cannot be read whole any more.
    """
    history = read_history(store, key=key)
    if there == ((name, moment) in tags_of(store, history).of_groups):
        return Plan(command="tag", array=store.uri)
    if there:
        Past(store, Rules(history)).refuse_lost(moment)
    item = group_tag_item(name, moment, there=there)
    return plan_of(store, array_step(store, history, item, mark_words(name, moment, there=there)))


def plan_of(store: Store, step: Step, command: str = "tag") -> Plan:
    """Plan the put of one file of metadata."""
    stage = Stage(name="metadata", seen="the tag is changed", steps=(step,))
    return Plan(command=command, array=store.uri, stages=(stage,))


def refuse_taken(where: str, name: str, known: int | None, *, move: bool) -> None:
    """Refuse a name that stands for another moment already, unless it may move."""
    if known is not None and not move:
        problem = f"expected a new name, found that {name!r} is {known} ({time_text(known)})"
        raise RefusedError(where, f"{problem}; to let it name another moment, add --move")


def tag_words(name: str, moment: int | None) -> str:
    """Say how a tag changes."""
    told = "taken away" if moment is None else f"{moment} ({time_text(moment)})"
    return f"the tag {name}: {told}"


def mark_words(name: str, moment: int, *, there: bool) -> str:
    """Say how the mark of a group's tag changes."""
    told = f"{moment} ({time_text(moment)})"
    return f"the group's tag {name}: {told}{'' if there else ', taken away'}"


def array_step(store: Store, history: History, item: MetadataItem, words: str) -> Step:
    """Make the file of metadata that sets a key of an array, or removes it."""
    others = visible_metadata(history, 0, MAX_TIMESTAMP)
    return metadata_step(item, others, array_version(history), sealing_key(store, history), words)


def metadata_step(
    item: MetadataItem, others: Iterable[Name], version: int, key: bytes | None, words: str
) -> Step:
    """Make the file of metadata that sets a key, or removes it, later than all others."""
    data = tiles.encode(encode_items([item]), version=version, key=key)
    now = max(now_ms(), max((one.t1 for one in others), default=0) + 1)
    return put(f"{META}/{new_name(now, now, None)}", data, words)


def metadata_of_group(store: Store, history: GroupHistory) -> list[Name]:
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
    names = metadata_of_group(store, history) if history.meta else []
    return tags_in(store, names, history.key, is_sealed=history.is_sealed)
