"""Tags, added and removed: a name for a moment, in the array's own metadata.

In: an array, a name, a moment. Out: one file of metadata, and a report. Every TileDB program can
read the tag; the engine's own vacuum does not know of it, and `check` tells when it has destroyed
what a tag needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.change_report import Report, put
from chronotile.change.sound_array import array_version, sealing_key
from chronotile.check.findings import RefusedError
from chronotile.check.read_tags import moment_in, tags_of
from chronotile.format import tiles
from chronotile.format.array_metadata import encode_items
from chronotile.format.kinds import META
from chronotile.format.names import MAX_TIMESTAMP, new_name
from chronotile.format.tag_entries import check_name, mark_item, tag_item
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.read_history import read_history
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import Store, open_store
from chronotile.time_machine.past_state import Past
from chronotile.visibility.rules import Rules, visible_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.change.change_report import Step
    from chronotile.format.array_metadata import MetadataItem
    from chronotile.format.names import Name
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History


def add_tag(
    array: str,
    name: str,
    *,
    at: Moment | None = None,
    move: bool = False,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Report:
    """Gives a moment of an array a name.

    Args:
        array: A path or a URI.
        name: The name: a letter first, then letters, digits and _.:/@+-.
        at: The moment, in any spelling; now, if it is left out.
        move: Let a tag of that name name this moment from now on.
        dry_run: Change nothing.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.

    Raises:
        RefusedError: There is such a tag already, or the moment cannot be read whole any more.
        ReadError: There may be such a tag, in metadata that cannot be read.

    >>> add_tag("memory:doc-nowhere", "v1")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    history = read_history(opened, key=key)
    check_name(name, opened.uri)
    moment = now_ms() if at is None else moment_in(opened, history, at)
    tags = tags_of(opened, history)
    known = (tags if move else tags.checked(opened.uri)).own.get(name)
    if known == moment:
        return Report("tag", opened.uri, dry_run=dry_run, steps=(), notes=("it is there",))
    refuse_taken(opened.uri, name, known, move=move)
    Past(opened, Rules(history)).refuse_lost(moment)
    step = array_step(opened, history, tag_item(name, moment), tag_words(name, moment))
    return put_step(opened, step, dry_run=dry_run)


def remove_tag(
    array: str,
    name: str,
    *,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Report:
    """Takes a tag away: from then on a vacuum may remove what only it needs.

    Raises:
        RefusedError: There is no such tag.
        ReadError: There may be such a tag, in metadata that cannot be read.

    >>> remove_tag("memory:doc-nowhere", "v1")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    history = read_history(opened, key=key)
    tags = tags_of(opened, history)
    if name not in tags.own and name not in tags.odd:
        tags.checked(opened.uri)
        of_group = any(other == name for other, _ in tags.of_groups)
        hint = "; it is one of a group: name the group" if of_group else ""
        raise RefusedError(opened.uri, f"expected the name of a tag, found {name!r:.120}{hint}")
    step = array_step(opened, history, tag_item(name, None), tag_words(name, None))
    return put_step(opened, step, dry_run=dry_run)


def mark_tag(
    array: str,
    name: str,
    moment: int,
    *,
    there: bool = True,
    dry_run: bool = False,
    key: bytes | str | None = None,
    store: Store | None = None,
) -> Report:
    """Marks an array with the tag of a group that it is a member of, or takes the mark away.

    Raises:
        RefusedError: The moment cannot be read whole any more.
    """
    opened = store or open_store(array)
    history = read_history(opened, key=key)
    if there == ((name, moment) in tags_of(opened, history).of_groups):
        return Report("tag", opened.uri, dry_run=dry_run, steps=())
    if there:
        Past(opened, Rules(history)).refuse_lost(moment)
    item = mark_item(name, moment, there=there)
    step = array_step(opened, history, item, mark_words(name, moment, there=there))
    return put_step(opened, step, dry_run=dry_run)


def refuse_taken(where: str, name: str, known: int | None, *, move: bool) -> None:
    """Refuses a name that stands for another moment already, unless it may move."""
    if known is not None and not move:
        problem = f"expected a new name, found that {name!r} is {known} ({time_text(known)})"
        raise RefusedError(where, problem)


def tag_words(name: str, moment: int | None) -> str:
    """What is done to a tag, in words."""
    told = "taken away" if moment is None else f"{moment} ({time_text(moment)})"
    return f"the tag {name}: {told}"


def mark_words(name: str, moment: int, *, there: bool) -> str:
    """What is done to the mark of a group's tag, in words."""
    told = f"{moment} ({time_text(moment)})"
    return f"the group's tag {name}: {told}{'' if there else ', taken away'}"


def array_step(store: Store, history: History, item: MetadataItem, words: str) -> Step:
    """The file of metadata that sets a key of an array, or removes it."""
    others = visible_metadata(history, 0, MAX_TIMESTAMP)
    return metadata_step(item, others, array_version(history), sealing_key(store, history), words)


def metadata_step(
    item: MetadataItem, others: Iterable[Name], version: int, key: bytes | None, words: str
) -> Step:
    """The file of metadata that sets a key, or removes it, later than all others."""
    data = tiles.encode(encode_items([item]), version=version, key=key)
    now = max(now_ms(), max((one.t1 for one in others), default=0) + 1)
    return put(f"{META}/{new_name(now, now, None)}", data, words)


def put_step(store: Store, step: Step, *, dry_run: bool) -> Report:
    """Puts a file of metadata, unless it is a dry run, and reports it."""
    if not dry_run:
        put_compared(store, step.path, step.data)
    return Report("tag", store.uri, dry_run=dry_run, steps=(step,))
