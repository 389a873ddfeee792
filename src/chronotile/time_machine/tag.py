"""Tags, added and removed: a name for a moment, in the array's own metadata.

In: an array, a name, a moment. Out: one file of metadata, and a report. Every TileDB program can
read the tag; the engine's own vacuum does not know of it, and `check` tells when it has destroyed
what a tag needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.change_report import Report, put
from chronotile.change.sound_array import array_version, sealing_key
from chronotile.check.array_tags import moment_in, tags_of
from chronotile.check.findings import RefusedError
from chronotile.format import tiles
from chronotile.format.array_metadata import encode_items
from chronotile.format.kinds import META
from chronotile.format.names import MAX_TIMESTAMP, new_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.reading import read_history
from chronotile.history.tags import check_name, tag_item
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import Store, open_store
from chronotile.time_machine.past_state import Past
from chronotile.visibility.rules import Rules, visible_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.format.timestamps import Moment
    from chronotile.history.reading import History


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

    >>> add_tag("memory:doc-nowhere", "v1")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    history = read_history(opened, key=key)
    check_name(name, opened.uri)
    moment = now_ms() if at is None else moment_in(opened, history, at)
    known = tags_of(opened, history).get(name)
    if known == moment:
        return Report("tag", opened.uri, dry_run=dry_run, steps=(), notes=("it is there",))
    if known is not None and not move:
        problem = f"expected a new name, found that {name!r} is {known} ({time_text(known)})"
        raise RefusedError(opened.uri, problem)
    Past(opened, Rules(history)).refuse_lost(moment)
    return _put(opened, history, name, moment, dry_run=dry_run)


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

    >>> remove_tag("memory:doc-nowhere", "v1")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    history = read_history(opened, key=key)
    if name not in tags_of(opened, history):
        raise RefusedError(opened.uri, f"expected the name of a tag, found {name!r:.120}")
    return _put(opened, history, name, None, dry_run=dry_run)


def _put(store: Store, history: History, name: str, moment: int | None, *, dry_run: bool) -> Report:
    """Puts the file of metadata that sets a tag or removes it."""
    payload = encode_items([tag_item(name, moment)])
    key = sealing_key(store, history)
    data = tiles.encode(payload, version=array_version(history), key=key)
    others = [one.t1 for one in visible_metadata(history, 0, MAX_TIMESTAMP)]
    now = max(now_ms(), max(others, default=0) + 1)
    told = "taken away" if moment is None else f"{moment} ({time_text(moment)})"
    step = put(f"{META}/{new_name(now, now, None)}", data, f"the tag {name}: {told}")
    if not dry_run:
        put_compared(store, step.path, step.data)
    return Report("tag", store.uri, dry_run=dry_run, steps=(step,))
