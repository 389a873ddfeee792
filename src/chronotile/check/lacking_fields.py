"""Fragments whose schema lacks a field that a delete names.

In: the rules of a history, the fields, and what is known of the fragments. Out: the fragments, and
words about them. Reads nothing itself.

The engine takes every comparison with a field that a fragment lacks for false, and a delete stores
the negation of what it asks for: such a delete removes all rows of the fragment (F15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.findings import count_text
from chronotile.format.names import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.visibility.rules import Rules


def lacking_fragments(
    rules: Rules,
    named: Iterable[str],
    moment: int,
    look: Callable[[list[str]], Mapping[str, Health]],
) -> dict[str, tuple[str, ...]]:
    """The visible fragments whose schema lacks some fields, and the fields that each lacks.

    A delete that names such a field removes all of their rows: for the engine every comparison
    with it is false, and a delete stores the negation of what its author asks for (F15).

    Args:
        rules: The rules of the array's history.
        named: The fields.
        moment: The time of the delete; fragments that begin later do not matter.
        look: Gives the health of fragments; not called if every schema has all of the fields.
    """
    wanted, history, table = tuple(named), rules.history, rules.history.table
    schemas = {item.text: item.schema for item in history.schemas if item.schema is not None}
    if all(schema.field(name) is not None for schema in schemas.values() for name in wanted):
        return {}
    rows = rules.visible(0, MAX_TIMESTAMP)[0].tolist()
    paths = [table.fragment_path(row) for row in rows if table.uris.t1[row] <= moment]
    health = look(paths)
    lacking = {}
    for path in paths:
        schema = schemas.get(health[path].schema or "") if path in health else None
        names = tuple(n for n in wanted if schema is not None and schema.field(n) is None)
        if names:
            lacking[path] = names
    return lacking


def lacking_words(lacking: Mapping[str, tuple[str, ...]], cells: int | None = None) -> str:
    """What a delete does to fragments that lack its fields, and to their cells, in words.

    >>> lacking_words({"__fragments/a": ("b",)}, 7)
    'it removes every row that it compares with b in 1 fragment (7 cells) from before b was added'
    """
    fields = ", ".join(sorted({name for names in lacking.values() for name in names}))
    count, was = count_text(len(lacking), "fragment"), "were" if "," in fields else "was"
    rows = f"every row that it compares with {fields}"
    return f"it removes {rows} in {count}{_of_cells(cells)} from before {fields} {was} added"


def _of_cells(cells: int | None) -> str:
    return "" if cells is None else f" ({count_text(cells, 'cell')})"
