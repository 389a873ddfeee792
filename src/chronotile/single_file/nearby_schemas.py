"""The schemas of an array, without its log.

In: an array, or the file of one schema. Out: `Schema`s with their labels, the newest first. Reads
the files of schemas and enumerations, and nothing else.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.format import tiles
from chronotile.format.kinds import ENUMERATIONS, OLD_SCHEMA, SCHEMA
from chronotile.format.schema import Enumeration, Schema, decode_enumeration, decode_schema
from chronotile.single_file.decode import kind_of_name, read_file, split_place
from chronotile.storage.store import MissingObjectError, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.storage.store import Store


def read_schemas(
    place: str, storage_options: Mapping[str, str] | None = None, key: bytes | None = None
) -> tuple[Schema, ...]:
    """Read the schemas of an array, or the one in a file of its `__schema`.

    Raises:
        ChronotileError: There is no schema, or it cannot be read.
    """
    if kind_of_name(place) == "schema":
        folder, _ = split_place(place)
        store = open_store(folder.removesuffix(f"/{SCHEMA}"), storage_options)
        payload = tiles.decode(read_file(place, storage_options), place, key=key).payload
        return (_labelled(decode_schema(payload, place), store, key),)
    store = open_store(place, storage_options)
    paths = sorted((entry.path for entry in store.list_dir(SCHEMA).files), reverse=True)
    schemas = [_named(store, path, key) for path in paths]
    try:
        schemas.append(_named(store, OLD_SCHEMA, key))
    except MissingObjectError:
        if not schemas:
            raise ArrayNotFoundError(store.uri, "expected an array, found no schema") from None
    return tuple(_labelled(schema, store, key) for schema in schemas)


def _named(store: Store, path: str, key: bytes | None) -> Schema:
    schema = decode_schema(_payload(store, path, key), path)
    return replace(schema, file=path.rpartition("/")[2])


def _payload(store: Store, path: str, key: bytes | None) -> bytes:
    return tiles.decode(store.read(path), store.uri_of(path), key=key).payload


def _labelled(schema: Schema, store: Store, key: bytes | None) -> Schema:
    labels: list[Enumeration] = []
    for _, file in schema.enumeration_files:
        path = f"{ENUMERATIONS}/{file}"
        # A schema away from its array has no labels: its values then stay raw.
        with suppress(ChronotileError):
            labels.append(decode_enumeration(_payload(store, path, key), path))
    return schema.with_enumerations(labels)
