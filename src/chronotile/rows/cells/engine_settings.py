"""What the engine needs to know to open an array.

In: a store, a key. Out: the engine's settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.storage.engine_access import engine_access

if TYPE_CHECKING:
    from chronotile.storage.store import Store

MEMORY = 1 << 30
"""Bytes that one read of the engine may take for tiles."""

_BASE = {
    # The engine's newer merge of fragments can crash the process (F17).
    "sm.query.sparse_global_order.preprocess_tile_merge": "0",
    "sm.mem.total_budget": str(MEMORY),
    # Variable lengths as Arrow has them.
    "sm.var_offsets.bitsize": "64",
    "sm.var_offsets.extra_element": "true",
    "sm.var_offsets.mode": "bytes",
}


def engine_settings(store: Store | None, key: bytes | None) -> dict[str, str]:
    """The engine's settings for an array; without a store, for one on a disk.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("s3://lake/a", {"aws_region": "eu-west-1"})
    >>> engine_settings(store, None)["vfs.s3.region"]
    'eu-west-1'
    """
    settings = dict(_BASE)
    if key is not None:
        settings |= {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key.decode("latin1")}
    return settings if store is None else settings | engine_access(store)
