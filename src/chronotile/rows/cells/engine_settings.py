"""What the engine needs to know to open an array where our storage finds it.

In: a store, a key. Out: the engine's URI and settings. Options that the engine has no setting for
are left out: it then looks where it always does, such as the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
_SETTINGS = {
    "s3": {
        "region": "vfs.s3.region",
        "access_key_id": "vfs.s3.aws_access_key_id",
        "secret_access_key": "vfs.s3.aws_secret_access_key",
        "session_token": "vfs.s3.aws_session_token",
        "skip_signature": "vfs.s3.no_sign_request",
        "request_payer": "vfs.s3.requester_pays",
    },
    "gs": {"service_account_key": "vfs.gcs.service_account_key"},
    "az": {
        "account_name": "vfs.azure.storage_account_name",
        "account_key": "vfs.azure.storage_account_key",
        "access_key": "vfs.azure.storage_account_key",
        "sas_key": "vfs.azure.storage_account_sas_token",
        "sas_token": "vfs.azure.storage_account_sas_token",
        "endpoint": "vfs.azure.blob_endpoint",
    },
}
"""Scheme -> our option, without its prefix -> the engine's setting."""
_PREFIXES = ("aws_", "google_", "azure_storage_", "azure_")
_URI_SCHEMES = {"gs": "gcs", "az": "azure"}


def engine_uri(store: Store) -> str:
    """The place of an array, as the engine spells it.

    Raises:
        ChronotileError: The engine cannot reach such a place.

    >>> from chronotile.storage.store import open_store
    >>> engine_uri(open_store("gs://lake/a"))
    'gcs://lake/a'
    """
    place = store.place
    if place.scheme == "memory":
        problem = "expected a disk or a bucket, found the memory of a process"
        raise ChronotileError(store.uri, f"{problem}: the engine cannot read it")
    if place.scheme == "file":
        return place.uri
    return f"{_URI_SCHEMES.get(place.scheme, place.scheme)}://{place.bucket}/{place.root}"


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
    if store is None or store.place.scheme not in _SETTINGS:
        return settings
    options = {_bare(name): value for name, value in store.options}
    known = _SETTINGS[store.place.scheme]
    settings |= {known[name]: value for name, value in options.items() if name in known}
    if store.place.scheme == "s3":
        settings |= _s3_endpoint(options)
    return settings


def _bare(name: str) -> str:
    lower = name.lower()
    for prefix in _PREFIXES:
        lower = lower.removeprefix(prefix)
    return {"endpoint_url": "endpoint", "token": "session_token"}.get(lower, lower)


def _s3_endpoint(options: Mapping[str, str]) -> dict[str, str]:
    """An endpoint of one's own: the engine wants scheme and host apart."""
    endpoint = options.get("endpoint")
    if not endpoint:
        return {}
    scheme, _, host = endpoint.rpartition("://")
    virtual = options.get("virtual_hosted_style_request", "false").lower()
    return {
        "vfs.s3.endpoint_override": host.rstrip("/"),
        "vfs.s3.scheme": scheme or "https",
        "vfs.s3.use_virtual_addressing": virtual,
    }
