"""Code that Kaitai's compiler makes from the specs, and that writes files as well as it reads them.

In: a folder for the code. Out: `KaitaiWriter`, which writes what the fields of a type say, or what
it has read. Knows nothing of our writers: it is their judge.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from kaitaistruct import KaitaiStream, ReadWriteKaitaiStruct
from support.spec_files import PREFIX, ROOT, spec_names

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "kaitai_read_write"


class Part(NamedTuple):
    """A struct to write."""

    type: Any
    fields: dict[str, Any]
    """Name -> a value, another part, or a list of them; an enum's by its number."""
    params: tuple[object, ...] = ()


class KaitaiWriter:
    """The classes of all specs, by the name of the spec less its prefix."""

    def __init__(self, folder: Path) -> None:
        node = os.environ.get("CHRONOTILE_NODE", "node")
        script = str(ROOT / "ksy" / "_build" / "compile.mjs")
        command = [node, script, "python", str(folder / PACKAGE), "--read-write"]
        subprocess.run(command, check=True, timeout=300)
        sys.path.insert(0, str(folder))
        for name in spec_names():
            module = importlib.import_module(f"{PACKAGE}.{name}")
            class_name = "".join(part.capitalize() for part in name.split("_"))
            setattr(self, name.removeprefix(PREFIX), getattr(module, class_name))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def write(self, part: Part, size: int) -> bytes:
        """The bytes of a part, which must be of that size."""
        return _written(_built(part, None), size)

    def rewrite(self, spec: Any, data: bytes, *params: object) -> bytes:
        """What comes of bytes that are read, and written again."""
        struct = spec(*params, KaitaiStream(BytesIO(data)))
        struct._read()
        _check_all(struct)
        return _written(struct, len(data))


def _built(part: Part, parent: Any) -> Any:
    # A type of another file is no part of the tree of this one.
    is_inner = parent is not None and part.type.__module__ == type(parent).__module__
    family = (parent, parent._root) if is_inner else (None, None)
    struct = part.type(*part.params, None, *family)
    for name, value in part.fields.items():
        setattr(struct, name, _value(value, struct))
    _check(struct)
    return struct


def _value(value: Any, parent: Any) -> Any:
    if isinstance(value, list):
        return [_value(item, parent) for item in value]
    return _built(value, parent) if isinstance(value, Part) else value


def _check(struct: Any) -> None:
    """Checks a struct; what lies at a place of its own is written with the field around it."""
    for name in [name for name in vars(struct) if name.endswith("__enabled")]:
        setattr(struct, name, False)
    struct._check()


def _check_all(struct: Any) -> None:
    for name, value in [*vars(struct).items()]:
        if name not in ("_parent", "_root"):
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ReadWriteKaitaiStruct):
                    _check_all(item)
    _check(struct)


def _written(struct: Any, size: int) -> bytes:
    stream = KaitaiStream(BytesIO(bytearray(size)))
    struct._write(stream)
    data = bytes(stream.to_byte_array())
    assert stream.pos() == size == len(data)
    return data
