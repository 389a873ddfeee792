"""Words that a shell can complete: members, tags, short ids, operations and fields of an array.

In: the call so far, whose first place is the array or group. Out: the words that fit. What cannot
be read, or is not there, has none: nothing is printed while somebody types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from chronotile.errors import ChronotileError
from chronotile.format.names import uuid_of
from chronotile.format.timestamps import DAYS, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.array import Array
    from chronotile.group import Group

Kind = Literal["member", "tag", "moment", "commit", "operation", "field", "field="]
PLACES = ("array", "group", "places", "roots")
"""Arguments that name the array."""


def words_for(kind: Kind, ctx: click.Context, incomplete: str) -> list[tuple[str, str]]:
    """Give the words that complete a value, each with a few words on it."""
    # Behind an option that has no value yet, click leaves all words as they are.
    words = [word for word in ctx.args if not word.startswith("-")]
    given = next((ctx.params[name] for name in PLACES if ctx.params.get(name)), words[:1])
    if not given:
        return []
    from chronotile.cli.options import access_of

    try:
        access = access_of(ctx)
        place = access.open(given if isinstance(given, str) else given[0])
        # The last of several names, as in `--fields a,b`, is the one that is typed.
        before, comma, last = (
            incomplete.rpartition(",") if kind == "field" else ("", "", incomplete)
        )
        return [
            (f"{before}{comma}{word}", about)
            for word, about in _words(kind, place)
            if word.startswith(last)
        ]
    except (ChronotileError, OSError, click.UsageError):
        return []


def _words(kind: Kind, place: Array | Group) -> Iterator[tuple[str, str]]:
    from chronotile.group import Group

    if kind in ("tag", "moment"):
        yield from ((name, time_text(at)) for name, at in place.tags.items())
    if kind == "moment":
        yield from ((word, "") for word in ("now", "yesterday", *DAYS))
    if kind == "operation":
        for one in place.operations().to_pylist():
            yield one["id"], f"{one['command']}, {one['time']}"
    if kind == "member" and isinstance(place, Group):
        yield from ((node.path, node.found) for node in place.tree())
    if isinstance(place, Group):
        return
    if kind == "commit":
        log = place.log
        for name in log.names:
            yield (uuid_of(name) or name)[: log.id_length], name
    if kind in ("field", "field="):
        from chronotile.visibility.rules import schema_at

        file = schema_at(place.log.history, place.view().end)
        sign = "=" if kind == "field=" else ""
        for field in () if file is None or file.schema is None else file.schema.fields:
            yield f"{field.name}{sign}", field.datatype.name.lower()
