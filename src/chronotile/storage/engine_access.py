"""How the engine reaches a place: its own spelling of the URI, and its own settings.

In: a store. Out: text for TileDB. Options that the engine has no setting for are left out: it then
looks where it always does, such as the environment. Does not load the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import StorageError
from chronotile.storage.place import bare_option, options_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.storage.store import Store

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
    "file": {},
}
"""Scheme -> our option, without its prefix -> the engine's setting."""
_URI_SCHEMES = {"gs": "gcs", "az": "azure"}


def engine_uri(store: Store) -> str:
    """Give the URI with which the engine opens a place.

    >>> from chronotile.storage.store import open_store
    >>> engine_uri(open_store("gs://lake/a")), engine_uri(open_store("/data/a"))
    ('gcs://lake/a', '/data/a')
    """
    place = store.place
    spelled = _URI_SCHEMES.get(place.scheme)
    return place.uri if spelled is None else f"{spelled}://{place.bucket}/{place.root}"


def engine_access(store: Store) -> dict[str, str]:
    """Give the settings with which the engine reaches a place.

    Raises:
        StorageError: The engine cannot reach it.

    >>> from chronotile.storage.store import open_store
    >>> engine_access(open_store("s3://lake/a", {"aws_region": "eu-west-1"}))
    {'vfs.s3.region': 'eu-west-1'}
    """
    known = _SETTINGS.get(store.place.scheme)
    if known is None:
        problem = "expected a disk or a bucket, found the memory of a process"
        raise StorageError(store.uri, f"{problem}: TileDB cannot read it")
    given = options_at(store.place, store.options)
    options = {bare_option(name): value for name, value in given}
    settings = {known[name]: value for name, value in options.items() if name in known}
    return settings | _s3_endpoint(options) if store.place.scheme == "s3" else settings


def _s3_endpoint(options: Mapping[str, str]) -> dict[str, str]:
    """Give the settings of an endpoint: the engine wants scheme and host apart."""
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
