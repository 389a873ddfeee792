"""The metadata of every fragment in the corpus, with the schema that it names.

In: the corpus. Out: `FRAGMENTS`, of all versions from 3 on, and `META_FILES`. Knows nothing of
what the engine says of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from support.corpus_cases import CASES

from chronotile.errors import UnknownVersionError
from chronotile.format import tiles
from chronotile.format.fragment_footer import METADATA
from chronotile.format.fragment_metadata import Frame, frame_metadata
from chronotile.format.kinds import OLD_SCHEMA
from chronotile.format.schema import Schema, decode_schema

if TYPE_CHECKING:
    from pathlib import Path

    from support.corpus_cases import Case


class Fragment(NamedTuple):
    """One fragment."""

    case: Case
    path: Path
    """Of its metadata."""
    data: bytes
    schema: Schema
    frame: Frame

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.path.parent.name

    @property
    def footer(self) -> bytes:
        """With the length behind it, where there is one."""
        return self.data[self.frame.footer_start :]


def schemas_of(case: Case) -> dict[str, Schema]:
    """The schemas of a case, by the names of their files."""
    found = {}
    for file in case.files("schema"):
        payload = tiles.decode(file.path.read_bytes(), file.path.name, key=case.key).payload
        found[file.path.name] = decode_schema(payload, file.path.name)
    return found


@cache
def fragments() -> tuple[Fragment, ...]:
    """Every fragment that has a footer; those of labels belong to other arrays."""
    found = []
    for case in CASES.values():
        schemas = schemas_of(case)
        for path in sorted(case.array.rglob(METADATA)):
            data = path.read_bytes()
            try:
                frame = frame_metadata(data, str(path))
            except UnknownVersionError:
                assert case.name == "era-one"
                continue
            schema = schemas.get(frame.head.schema_name or OLD_SCHEMA)
            if schema is None:
                assert case.name == "labels"
                continue
            found.append(Fragment(case, path, data, schema, frame))
    return tuple(found)


@cache
def meta_files() -> tuple[tuple[Case, Path], ...]:
    """Every `.meta` file."""
    return tuple(
        (case, file.path) for case in CASES.values() for file in case.files("fragment-meta")
    )
