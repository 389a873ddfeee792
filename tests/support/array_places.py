"""Places of an array that a test puts, sees and reads again and again: a folder, a bucket.

In: files, by their paths. Out: the files that are there now, a digest of them, and the engine's
array. Knows nothing of what is done to the array in between.
"""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING, Protocol

from support.engine_arrays import EngineArray, s3_settings

from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib

    from support.servers import S3Server

Files = dict[str, bytes]


class Place(Protocol):
    """Where an array can be put, seen and read again and again."""

    uri: str
    options: dict[str, str]

    @property
    def array(self) -> EngineArray: ...
    def reset(self, files: Files) -> None: ...
    def files(self) -> Files: ...


class OnDisk:
    """A local folder."""

    options: dict[str, str]

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.uri, self.options = folder, str(folder), {}

    @property
    def array(self) -> EngineArray:
        return EngineArray(self.folder)

    def reset(self, files: Files) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, data in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def files(self) -> Files:
        return read_all(self.folder)


class InBucket:
    """A prefix of a bucket."""

    def __init__(self, server: S3Server, bucket: str, name: str = "array") -> None:
        self.server, self.bucket = server, bucket
        self.uri, self.options = f"{bucket}/{name}", server.options
        self._known: Files = {}

    @property
    def array(self) -> EngineArray:
        return EngineArray(self.uri, settings=s3_settings(self.server))

    def reset(self, files: Files) -> None:
        store = open_store(self.uri, self.options)
        here = {entry.path for entry in store.list_prefix()}
        store.remove(sorted(here - files.keys()))
        for name in files.keys() - here:
            store.put_if_absent(name, files[name])

    def files(self) -> Files:
        store = open_store(self.uri, self.options)
        names = [entry.path for entry in store.list_prefix()]
        # Nothing is ever overwritten: what has been read once need not be read again.
        fresh = [name for name in names if name not in self._known]
        for name, data in store.read_many(fresh):
            assert isinstance(data, bytes)
            self._known[name] = data
        return {name: self._known[name] for name in names}


def read_all(folder: pathlib.Path) -> Files:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def array_files(folder: pathlib.Path) -> Files:
    """Read all files but the records of operations and what they keep in the quarantine."""
    return {path: data for path, data in read_all(folder).items() if not is_record(path)}


def is_record(path: str) -> bool:
    return "__chronotile" in path.split("/")


def digest(files: Files) -> str:
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return whole.hexdigest()
