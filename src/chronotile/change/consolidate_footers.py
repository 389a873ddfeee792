"""Consolidation of fragment metadata: one `.meta` with the footer of every visible fragment.

In: what was read of an array. Out: the `.meta` that an open at any later time is served best by.
Removes nothing, and reads no cell.

A footer is copied byte for byte from the fragment's own metadata, once it was shown to decode with
the schema that it names. A fragment without a readable footer is left out: the engine then asks the
fragment itself, as it does for one that is written later. So nothing that happens at the same time
can make a `.meta` wrong. Its name has the true range of its fragments, and a larger uuid than every
other `.meta`: see `commit_files`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.change.plan import Step, put
from chronotile.change.sound_array import array_version, sealing_key
from chronotile.check.engine_open_cost import FIRST_BY_NAME
from chronotile.check.findings import count_text
from chronotile.check.fragment_health import NEWER
from chronotile.format.commit_files import FIRST_WITH_COMMITS, later_name_at, rank
from chronotile.format.consolidated_footers import encode_consolidated_footers
from chronotile.format.fragment_footer import FIRST_WITH_FOOTER
from chronotile.format.kinds import FRAGMENT_META
from chronotile.format.names import MAX_TIMESTAMP, NEWEST_VERSION
from chronotile.history import text_columns
from chronotile.history.footer_files import FooterFile, read_consolidated
from chronotile.history.fragment_facts import NamedFragments
from chronotile.history.read_footers import FooterReader, own_footers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


class FootersPlan(NamedTuple):
    """The new `.meta`, if one is needed."""

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    fragments: frozenset[str] = frozenset()
    """The fragments whose footers it holds."""


def plan_footers(store: Store, history: History, rules: Rules) -> FootersPlan:
    """Plans one `.meta` for all visible fragments.

    Raises:
        KeyNeededError: The array is encrypted, and there is no key.
        StorageError: The storage failed.
    """
    visible = _visible_with_footer(rules)
    wanted = visible.only(pa.array(visible.version <= NEWEST_VERSION))
    newer = len(visible.name) - len(wanted.name)
    count = count_text(newer, "fragment")
    left_out = (f"{count} left out of the .meta: {NEWER}",) if newer else ()
    if not len(wanted.name):
        return FootersPlan(notes=left_out)
    key = sealing_key(store, history)
    latest = _latest(store, history)
    names = frozenset(wanted.name.to_pylist())
    if latest.keys() == names:
        return FootersPlan(notes=left_out, fragments=names)
    footers, errors = own_footers(FooterReader(store, history), wanted.name, wanted.version)
    notes = tuple(f"{n} is left out of the .meta: {one.problem}" for n, one in errors.items())
    notes += left_out
    if errors:
        names = frozenset(footers)
        wanted = wanted.only(pc.is_in(wanted.name, value_set=pa.array([*names], pa.string())))
    if not footers or footers == latest:
        return FootersPlan(notes=notes, fragments=names)
    times = int(wanted.t1.min()), int(wanted.t2.max())
    return FootersPlan((_step(store, history, footers, times, key=key),), notes, names)


def _visible_with_footer(rules: Rules) -> NamedFragments:
    """The visible fragments whose version has a footer, in order."""
    table = rules.history.table
    rows, _ = rules.visible(0, MAX_TIMESTAMP)
    versions = np.asarray(text_columns.versions(table, rows))
    rows, versions = rows[versions >= FIRST_WITH_FOOTER], versions[versions >= FIRST_WITH_FOOTER]
    times = table.uris.t1[rows], table.uris.t2[rows]
    return NamedFragments(text_columns.names(table, rows), *times, versions)


def _step(
    store: Store,
    history: History,
    footers: Mapping[str, bytes],
    times: tuple[int, int],
    *,
    key: bytes | None,
) -> Step:
    version = array_version(history)
    listed = [*footers.items()]
    if version < FIRST_BY_NAME:
        listed = [(store.place.uri_in_files(name), raw) for name, raw in listed]
    data = encode_consolidated_footers(listed, version=version, key=key)
    others = [path for path in history.listing.fragment_meta if path.endswith(".meta")]
    text = later_name_at(*times, others, version)
    folder = f"{FRAGMENT_META}/" if version >= FIRST_WITH_COMMITS else ""
    reason = count_text(len(listed), "footer")
    return put(f"{folder}{text}.meta", data, reason, may_vanish=True)


def _latest(store: Store, history: History) -> dict[str, bytes]:
    """What the latest `.meta` holds."""
    held = read_consolidated(store, history)
    latest = held[max(held, key=rank)] if held else None
    return latest.footers if isinstance(latest, FooterFile) else {}
