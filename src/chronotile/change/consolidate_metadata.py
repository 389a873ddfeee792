"""Consolidation of the array's metadata: one file of `__meta` for all, and a `.vac` beside it.

In: what was read of an array, or of a group. Out: `Merge`: the merged file and its `.vac`. Knows
nothing of fragments.

The merged file holds each key that is set, with the bytes of the last file that sets it; a removed
key is not in it. Its name has the true range of all files that it replaces. A window that covers
this range sees the merged file, and the `.vac` hides the others; any other window sees neither.

The merged file goes first. Until its `.vac` is there every window reads the same: the engine
applies the files in the order of their first moment, so whatever the merged file says, each other
file says again after it, or says nothing about that key. Every maintainer writes a file of its own,
even if there is one that says the same: its maker might take it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.merged_files import Merge
from chronotile.change.plan import put
from chronotile.check.findings import RefusedError, count_text
from chronotile.errors import BadFileError
from chronotile.format import tiles
from chronotile.format.array_metadata import MetadataItem, encode_items
from chronotile.format.commit_files import encode_lines
from chronotile.format.kinds import META
from chronotile.format.names import Name, new_name, time_order, try_parse
from chronotile.history.read_history import MetadataFile, read_metadata
from chronotile.visibility.rules import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chronotile.change.merged_files import MergeFolder
    from chronotile.storage.store import Store


def plan_metadata(store: Store, known: MergeFolder) -> Merge | str | None:
    """Plan one file for the metadata that an open at any later time sees.

    Args:
        store: Where the array, or the group, is.
        known: Its metadata.

    Returns:
        The merge; or, in words, why there can be none; None if there is nothing to merge.

    Raises:
        ChangedError: A file is gone since the array was listed.
        KeyNeededError: The array is encrypted, and there is no key.
        RefusedError: A file cannot be read.
    """
    names = [name for name in map(try_parse, known.names) if name is not None]
    listed = {target for vacuum in known.vacuums for target in vacuum.targets}
    live = sorted((name for name in names if name.text not in listed), key=time_order)
    if len(live) < 2:
        return None
    first, last = min(name.t1 for name in live), max(name.t2 for name in live)
    seen = _seen_again(known, [n for n in names if n.text in listed], first, last)
    if seen is not None:
        return f"metadata stays as it is: {META}/{seen} is hidden from some windows only"
    files = list(_read(store, known, live))
    items, undecided = _merged(files)
    if undecided is not None:
        note = f"metadata stays as it is: several files of one time set {undecided!r:.80}, and "
        return f"{note}which of them counts is not defined"
    text, number = new_name(first, last, None), count_text(len(files), "file")
    key = known.key if any(file.is_encrypted for file in files) else None
    data = tiles.encode(encode_items(items), version=known.version, key=key)
    lines = encode_lines(known.lines(store, [name.text for name in live]))
    return Merge(
        known=known,
        merged=put(f"{META}/{text}", data, f"{count_text(len(items), 'key')} of {number}"),
        vacuum=put(f"{META}/{text}.vac", lines, f"hides {number}"),
        last=last,
    )


def _seen_again(known: MergeFolder, hidden: Iterable[Name], first: int, last: int) -> str | None:
    """A hidden file that some window sees together with a merged file of that range.

    A `.vac` outside of the range can hide a file that lies inside of it. A window that covers the
    range, and not the `.vac`, sees that file, which would then count after the merged one.
    """
    for name in hidden:
        start, end = min(first, name.t1), max(last, name.t2)
        if not any(
            is_inside(vacuum.name.t1, vacuum.name.t2, start, end)
            for vacuum in known.vacuums
            if name.text in vacuum.targets
        ):
            return name.text
    return None


def _read(store: Store, known: MergeFolder, names: Sequence[Name]) -> Iterator[MetadataFile]:
    try:
        yield from read_metadata(store, names, known.key)
    except BadFileError as error:
        problem = f"expected metadata that can be read, found {error.where}: {error.problem}"
        raise RefusedError(store.uri, problem) from error


def _merged(files: Sequence[MetadataFile]) -> tuple[list[MetadataItem], bytes | None]:
    """The entries that count, and a key for which that is not defined.

    The engine applies files by their first moment. It has no order for two of one moment.
    """
    latest: dict[bytes, tuple[int, set[bytes], MetadataItem]] = {}
    for file in files:
        for key, item in file.items.items():
            known = latest.get(key)
            said = {item.raw}
            if known is not None and known[0] == file.name.t1:
                said |= known[1]
            latest[key] = (file.name.t1, said, item)
    undecided = next((key for key, (_, said, _) in latest.items() if len(said) > 1), None)
    return [item for _, _, item in latest.values() if not item.is_removal], undecided
