"""The schema and the metadata of a past moment, put back.

In: a store, what was read of the array, a moment. Out: the files that bring the schema and the
metadata of that moment back, each one put; the moment from which on they count is given to them
later. Knows nothing of fragments.

The old schema's file is put once more, under a later name: fragments name their schema by its file,
so that all of them stay. Metadata gets one file with the keys that differ. Tags stay as they are:
they name moments of the whole history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.plan import Step, put
from chronotile.change.sound_array import array_version
from chronotile.check.findings import RefusedError, count_text, shown
from chronotile.conditions.tree import fields
from chronotile.errors import ChronotileError, shell_word
from chronotile.format import tiles
from chronotile.format.array_metadata import MetadataItem, encode_items, removal_item
from chronotile.format.kinds import META, SCHEMA
from chronotile.format.names import MAX_TIMESTAMP, new_name, try_parse
from chronotile.format.tag_entries import is_tag
from chronotile.history.read_history import merged_items, read_metadata
from chronotile.visibility.gaps import metadata_merged_over
from chronotile.visibility.rules import schema_at, visible_metadata
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


class Back(NamedTuple):
    """A file that brings something of a past moment back, without a name yet."""

    folder: str
    data: bytes
    reason: str

    def step(self, history: History, at: int) -> Step:
        """The file, named by the moment from which on it counts.

        Raises:
            RefusedError: There is a later file, or one of the same moment.
        """
        text = new_name(at, at, None)
        if self.folder == SCHEMA:
            is_later = all(item.text < text for item in history.schemas)
        else:
            is_later = all(n.t1 < at for n in visible_metadata(history, 0, MAX_TIMESTAMP))
        if not is_later:
            problem = f"expected a moment after every file of {self.folder}, found {at}"
            raise RefusedError(history.array, f"{problem}: what was there then cannot come back")
        return put(f"{self.folder}/{text}", self.data, self.reason)


def schema_back(store: Store, rules: Rules, to: int) -> Iterator[Back]:
    """The file that makes the schema of a moment the last one, if it is not.

    Raises:
        RefusedError: A delete names a field that this schema lacks: every read would fail (F8).
    """
    history = rules.history
    then, now = schema_at(history, to), schema_at(history, MAX_TIMESTAMP)
    assert then is not None  # a listing without a schema is no array
    assert now is not None
    if then is now:
        return
    data, last = store.read(then.path), store.read(now.path)
    if _payload(data, then.path, history) == _payload(last, now.path, history):
        return
    if then.name is None:
        problem = f"expected a schema of version 10 or later, found {then.text}"
        raise RefusedError(history.array, f"{problem}: it cannot come back")
    known = {field.name for field in then.schema.fields} if then.schema else set()
    for commit, _ in tile_commits(rules, MAX_TIMESTAMP):
        lacking = set(fields(commit.stored)) - known
        if lacking:
            problem = f"expected deletes on fields of {then.text}, found {commit.name}"
            hint = (
                f"chronotile undelete {shell_word(history.array)} {commit.name} --ever takes it out"
            )
            names = shown(sorted(lacking))
            raise RefusedError(history.array, f"{problem}, which names {names}; {hint}")
    yield Back(SCHEMA, data, f"the schema of then again: {then.text}")


def _payload(data: bytes, path: str, history: History) -> bytes:
    return tiles.decode(data, path, key=history.key).payload


def metadata_back(store: Store, history: History, to: int, key: bytes | None) -> Iterator[Back]:
    """The file that brings the metadata of a moment back, if it differs.

    Raises:
        RefusedError: Metadata was merged over that moment, and what it was merged from is gone.
    """
    _refuse_merged(history, to)
    then = _items(store, history, to)
    now = _items(store, history, MAX_TIMESTAMP)
    changed: list[MetadataItem] = [
        item for name, item in then.items() if name not in now or now[name].raw != item.raw
    ]
    changed += [removal_item(name) for name in now if name not in then]
    if not changed:
        return
    data = tiles.encode(encode_items(changed), version=array_version(history), key=key)
    reason = f"{count_text(len(changed), 'key')} of metadata as then"
    yield Back(META, data, reason)


def _items(store: Store, history: History, end: int) -> dict[bytes, MetadataItem]:
    files = read_metadata(store, visible_metadata(history, 0, end), history.key)
    return {key: item for key, item in merged_items(files).items() if not is_tag(key)}


def _refuse_merged(history: History, moment: int) -> None:
    if (text := metadata_merged_over(history, moment)) is not None:
        problem = f"expected the metadata of {moment}, found it merged into {META}/{text}"
        raise RefusedError(history.array, f"{problem}; keep_metadata leaves metadata as it is")


def latest_moment(rules: Rules) -> int:
    """The last moment that any commit, `.vac`, schema or metadata file of an array has.

    Raises:
        ChronotileError: It is the last one that there is.
    """
    history = rules.history
    table = history.table
    moments = [int(table.uris.t2.max())] if len(table) else [0]
    moments += [vacuum.name.t2 for vacuum in (*history.vacuums, *history.meta_vacuums)]
    moments += [item.name.t2 for item in history.schemas if item.name is not None]
    moments += [name.t2 for text in history.listing.meta if (name := try_parse(text)) is not None]
    if max(moments) >= MAX_TIMESTAMP - 1:
        raise ChronotileError(history.array, "expected a moment after all commits, found none")
    return max(moments)
