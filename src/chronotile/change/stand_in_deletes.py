"""Deletes that cannot leave an array: what stands in their place.

In: the rules of a history, the health of its fragments. Out: the tile of a delete that matches no
row, and words on what becomes of the rows. Touches nothing.

A fragment that has applied a delete notes, cell by cell, which delete removed it, by the path of
the delete's file. Without that file the engine crashes when it next consolidates the fragment
(F14). A delete that matches no row, under the very same name, keeps everything working. Rows that
a fragment has removed stay away; in other fragments they come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.findings import count_text
from chronotile.conditions import codec
from chronotile.conditions.delete import matches_no_row
from chronotile.format import tiles
from chronotile.format.names import MAX_TIMESTAMP, parse_name
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from collections.abc import Collection

    from chronotile.history.read_history import History
    from chronotile.visibility.rules import Rules


def harmless_tiles(history: History, key: bytes | None) -> dict[str, bytes]:
    """Tiles that match no row, by extension: a delete, and an update, which sets nothing.

    Args:
        history: What was read of the array; without a readable schema there are none.
        key: The key to encrypt them with, if the array is encrypted.
    """
    latest = schema_at(history, MAX_TIMESTAMP)
    if latest is None or latest.schema is None:
        return {}
    condition, version = matches_no_row(latest.schema), latest.schema.version
    payloads = {".del": codec.encode(condition), ".upd": codec.encode_update(condition, ())}
    return {
        extension: tiles.encode(payload, version=version, key=key)
        for extension, payload in payloads.items()
    }


def row_words(rules: Rules, name: str, applied: Collection[str]) -> str:
    """What becomes of the rows that a delete removed, once it matches no row.

    Args:
        rules: The rules of the array's history.
        name: The delete.
        applied: Folders of the fragments that have applied it.
    """
    table, moment = rules.history.table, parse_name(name).t2
    rows = rules.visible(0, MAX_TIMESTAMP)[0].tolist()
    older = [table.fragment_path(row) for row in rows if table.uris.t1[row] <= moment]
    others = sum(path not in applied for path in older)
    stay = f"{count_text(len(applied), 'fragment')} that {_has(len(applied))} applied it"
    if not others:
        return f"what it removed from {stay} stays away, and nothing else comes back"
    return f"what it removed from {stay} stays away; in {count_text(others, 'other')} it comes back"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"
