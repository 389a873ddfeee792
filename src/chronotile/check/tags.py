"""The tags of an array, moments that name one, and tags that can no longer be read whole.

In: a store, a history and its rules. Out: the tags that an open now sees; a moment in any spelling,
a tag's name included; findings. Reads metadata only if it is asked for a name, and no fragment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.findings import Finding, finding
from chronotile.errors import GIVE_KEY, KeyNeededError, ReadError
from chronotile.format.kinds import META
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.tag_entries import Doubt, Tags, tags_among
from chronotile.format.timestamps import now_ms, time_text, to_ms
from chronotile.history.read_history import MetadataFile, merged_items, open_metadata
from chronotile.safe_text import shell_word
from chronotile.visibility.gaps import gaps_of, metadata_merged_over
from chronotile.visibility.rules import visible_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chronotile.format.names import Name
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


def tags_of(store: Store, history: History) -> Tags:
    """Read the tags of an array, and those of its groups that it is marked with.

    Metadata that cannot be opened may hold some: the tags have a doubt for each such file.

    Raises:
        ChangedError: Metadata is gone since the array was listed.
    """
    names = visible_metadata(history, 0, MAX_TIMESTAMP)
    return tags_in(store, names, history.key, is_sealed=history.is_sealed)


def tags_in(store: Store, names: Sequence[Name], key: bytes | None, *, is_sealed: bool) -> Tags:
    """Read the tags in some files of metadata of an array or a group, as `tags_of` does.

    The files come in the order in which they count.
    """
    files: list[MetadataFile] = []
    doubts: list[Doubt] = []
    for file in open_metadata(store, names, key):
        if isinstance(file, ReadError):
            lacks_key = is_sealed and isinstance(file, KeyNeededError)
            repair = f"to move it to the quarantine: chronotile repair {shell_word(store.uri)}"
            hint = f"give {GIVE_KEY}" if lacks_key else repair
            doubts.append(Doubt(file.where, file.problem, hint, lacks_key))
        else:
            files.append(file)
    tags = tags_among(merged_items(files).values(), store.uri)
    return tags._replace(doubts=(*doubts, *tags.doubts))


def moment_in(store: Store, history: History, moment: Moment) -> int:
    """Return a time in any spelling, or the moment of a tag, in ms.

    Raises:
        BadTimeError: It is neither.
        ReadError: It may be a tag, and metadata cannot be read.
    """

    def tags() -> dict[str, int]:
        return tags_of(store, history).checked(store.uri).by_name()

    return to_ms(moment, history.array, tags=tags, earliest=history.table.first_time)


def odd_moment(history: History, moment: int) -> Iterator[str]:
    """Note that a moment is still to come, or that an array had nothing then."""
    times = (one.name.t1 for one in history.schemas if one.name is not None)
    first = min((history.table.first_time or MAX_TIMESTAMP, *times))
    when = f"{moment} ({time_text(moment)})"
    if moment > now_ms():
        yield f"{when} is in the future: what is written until then counts too"
    elif moment < first:
        yield f"{when} is before anything was written: the array shows no row then"


def unreadable_tags(
    store: Store,
    rules: Rules,
    of_group: Mapping[str, int] | None = None,
    group: str | None = None,
) -> Iterator[Finding]:
    """Find tags whose moments a vacuum has made unreadable, in full or in part.

    With `of_group`, only these tags of a group, and of them only those that the array does not
    know: its own check finds the others.
    """
    history = rules.history
    tags = tags_of(store, history)
    if of_group is None:
        yield from doubtful_tags(history.array, tags)
    else:
        unknown = {pair for pair in of_group.items() if pair not in tags.of_groups}
        tags = Tags({}, tuple(sorted(unknown)))
    labelled = tags.labelled()
    gaps = list(gaps_of(rules)) if labelled else []
    names = [*tags.own, *(name for name, _ in tags.of_groups)]
    places = [None] * len(tags.own) + [group or "GROUP"] * len(tags.of_groups)
    for (label, moment), name, place in zip(labelled, names, places, strict=True):
        what = [gap.fragment for gap in gaps if gap.t1 <= moment <= gap.t2]
        merged = metadata_merged_over(history, moment)
        what += [f"{META}/{merged}"] if merged is not None else []
        if what:
            message = (
                f"{label} names {moment} ({time_text(moment)}), which can no longer be read "
                f"whole: {what[0]} was merged over it, and what it was merged from is gone"
            )
            yield finding(history.array, "tag-unreadable", META, message, name=name, place=place)


def doubtful_tags(array: str, tags: Tags) -> Iterator[Finding]:
    """Find damaged metadata that may hold a tag of an array or a group."""
    for doubt in tags.doubts:
        if not doubt.is_sealed:
            message = (
                f"it may hold a tag and cannot be read: {doubt.problem}; until it can, "
                "a vacuum keeps all that a tag could need"
            )
            yield finding(array, "tag-unreadable", doubt.path, message, hint=doubt.hint)
