"""The only door to the generated parsers.

In: a spec class and bytes. Out: the parsed tree, or one `BadFileError` that says where, at
which byte, what was expected and what was found. Knows the bytes of each file, not its meaning.

The generated code and its runtime are untyped and fail in many ways: their own errors, bad
UTF-8, recursion, bytes left over. This module turns each failure into one error. It never
touches a lazy instance that inflates a tile: `tiles` inflates, and checks every size first.
"""

from __future__ import annotations

import importlib
import itertools
import operator
import re
from io import BytesIO
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile_ksy.tiledb_array_metadata import TiledbArrayMetadata as ArrayMetadataSpec
from chronotile_ksy.tiledb_array_schema import TiledbArraySchema as ArraySchemaSpec
from chronotile_ksy.tiledb_condition import TiledbCondition as ConditionSpec
from chronotile_ksy.tiledb_consolidated_commits import (
    TiledbConsolidatedCommits as ConsolidatedCommitsSpec,
)
from chronotile_ksy.tiledb_delete_commit import TiledbDeleteCommit as DeleteCommitSpec
from chronotile_ksy.tiledb_enumeration import TiledbEnumeration as EnumerationSpec
from chronotile_ksy.tiledb_fragment_metadata import TiledbFragmentMetadata as FragmentMetadataSpec
from chronotile_ksy.tiledb_generic_tile import TiledbGenericTile as GenericTileSpec
from chronotile_ksy.tiledb_group_details import TiledbGroupDetails as GroupDetailsSpec
from chronotile_ksy.tiledb_ignore_file import TiledbIgnoreFile as IgnoreFileSpec
from chronotile_ksy.tiledb_update import TiledbUpdate as UpdateSpec
from chronotile_ksy.tiledb_update_commit import TiledbUpdateCommit as UpdateCommitSpec
from chronotile_ksy.tiledb_vacuum_file import TiledbVacuumFile as VacuumFileSpec
from kaitaistruct import (
    EndOfStreamError,
    KaitaiStream,
    KaitaiStruct,
    KaitaiStructError,
    NoTerminatorFoundError,
    ValidationFailedError,
    ValidationGreaterThanError,
    ValidationLessThanError,
    ValidationNotEqualError,
    ValidationNotInEnumError,
)

from chronotile.errors import BadFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = [
    "ArrayMetadataSpec",
    "ArraySchemaSpec",
    "ConditionSpec",
    "ConsolidatedCommitsSpec",
    "DeleteCommitSpec",
    "EnumerationSpec",
    "FieldSpan",
    "FragmentMetadataSpec",
    "GenericTileSpec",
    "GroupDetailsSpec",
    "IgnoreFileSpec",
    "UpdateCommitSpec",
    "UpdateSpec",
    "VacuumFileSpec",
    "parse",
    "trace",
]


_FAILURES = (KaitaiStructError, UnicodeDecodeError, RecursionError)


class FieldSpan(NamedTuple):
    """The bytes of one field."""

    path: str
    """The names of the fields around it and its own: `records[0].uri`."""
    start: int
    end: int
    value: Any


def parse(spec: Any, where: str, data: bytes, *params: object, whole: bool = True) -> Any:
    r"""Parse bytes as one spec.

    Args:
        spec: A generated class of this module, such as `IgnoreFileSpec`.
        where: The file's name, for the error.
        data: The whole file or payload.
        params: The parameters of the spec, if it has any.
        whole: True if bytes left over are an error.

    >>> parse(IgnoreFileSpec, "a.ign", b"__commits/__1_1_ab_22.wrt\n").entries[0].uri
    '__commits/__1_1_ab_22.wrt'
    >>> parse(IgnoreFileSpec, "a.ign", b"__comm")
    Traceback (most recent call last):
    chronotile.errors.BadFileError: a.ign: at byte 6: expected an end of line, found the file's end
    """
    try:
        tree = spec(*params, KaitaiStream(BytesIO(data)))
    except _FAILURES as cause:
        raise _bad_file(where, cause) from cause
    left = len(data) - tree._io.pos()
    if left and whole:
        problem = f"expected the end of the file, found {left} more bytes"
        raise BadFileError(where, problem, len(data) - left)
    return tree


def trace(spec: Any, where: str, data: bytes, *params: object) -> tuple[FieldSpan, ...]:
    r"""Parse all of the bytes as one spec, and give the bytes of each field.

    The parsers that record positions are a second set, loaded only here. Lazy instances of a spec
    are left out.

    >>> trace(IgnoreFileSpec, "a.ign", b"a.wrt\nb.wrt\n")[1]
    FieldSpan(path='entries[1].uri', start=6, end=12, value='b.wrt')
    """
    home = importlib.import_module(
        spec.__module__.replace("chronotile_ksy.", "chronotile_ksy.traced.")
    )
    traced = operator.attrgetter(spec.__qualname__)(home)
    tree = traced(*params, KaitaiStream(BytesIO(data)))
    try:
        tree._read()
    except _FAILURES as cause:
        raise _bad_file(where, cause) from cause
    return tuple(_spans(tree, "", 0))


def _spans(struct: Any, path: str, base: int) -> Iterator[FieldSpan]:
    for field in struct.SEQ_FIELDS:
        if field not in struct._debug:
            continue
        position, value = struct._debug[field], getattr(struct, field)
        name = f"{path}{_shown(struct, field)}"
        many = "arr" in position
        positions = position["arr"] if many else [position]
        items = value if many else [value]
        for index, (item, span) in enumerate(zip(items, positions, strict=True)):
            item_path = f"{name}[{index}]" if many else name
            start, end = base + span["start"], base + span["end"]
            if isinstance(item, KaitaiStruct):
                # A struct of a given size has a stream of its own, which starts at 0.
                yield from _spans(item, f"{item_path}.", base if item._io is struct._io else start)
            elif field != "trailing":
                yield FieldSpan(item_path, start, end, item)


def _bad_file(where: str, cause: Exception) -> BadFileError:
    structs = _unfinished_structs(cause.__traceback__)
    return BadFileError(where, _problem(cause, structs), _offset(structs))


def _problem(cause: Exception, structs: list[Any]) -> str:
    match cause:
        case NoTerminatorFoundError():
            return "expected an end of line, found the file's end"
        case EndOfStreamError():
            ends = "" if cause.bytes_available else ": it ends there"
            return f"expected {cause.bytes_needed} bytes, found {cause.bytes_available}{ends}"
        case ValidationFailedError():
            field = _last_field(structs[-1])
            if field.startswith("len_") and isinstance(cause, ValidationGreaterThanError):
                return f"expected {cause.actual} bytes ({field}), found {cause.max}"
            expected = f"expected {field} {_expected(cause)}"
            return f"{expected}, found {_short(cause.actual)}"
        case UnicodeDecodeError():
            return f"expected UTF-8 text, found {_short(cause.object)}"
        case RecursionError():
            return "expected fewer nested nodes, found more than can be parsed"
    return str(cause)


def _last_field(struct: Any) -> str:
    """Name the field that the parser read last: it validates each right after reading it."""
    field = next(name for name in reversed(vars(struct)) if name[0] != "_")
    kind = re.sub("(?<!^)(?=[A-Z])", "_", type(struct).__name__).lower().removeprefix("tiledb_")
    return f"{_shown(struct, field)} of {kind}"


def _shown(struct: Any, field: str) -> str:
    """Name a field in paths and errors; a flag takes the name of its boolean instance."""
    flags = (f"is_{field}", f"has_{field}")
    return next((flag for flag in flags if hasattr(type(struct), flag)), field)


def _expected(cause: Any) -> str:
    match cause:
        case ValidationNotEqualError():
            return f"to be {_short(cause.expected)}"
        case ValidationLessThanError():
            return f"to be at least {cause.min}"
        case ValidationGreaterThanError():
            return f"to be at most {cause.max}"
        case ValidationNotInEnumError():
            return "to be a known number"
    return "to be as the spec demands"


def _short(value: object) -> str:
    if isinstance(value, bytes | str):
        head = repr(value[:60])
        return head if len(value) <= 60 else f"{head} and {len(value) - 60} more"
    return repr(value)


def _unfinished_structs(traceback: TracebackType | None) -> list[Any]:
    """Find the structs that the parser was reading, outermost first."""
    frames = (frame.f_locals.get("self") for frame, _ in walk_tb(traceback))
    structs = [struct for struct in frames if isinstance(struct, KaitaiStruct)]
    return [next(same) for _, same in itertools.groupby(structs, key=id)]


def _offset(structs: list[Any]) -> int | None:
    """Find the byte where reading stopped, counted from the start of the file.

    A struct of a given size has a stream of its own, cut from the outer stream, whose position is
    then just behind the struct.
    """
    streams: list[Any] = []
    for struct in structs:
        if not streams or streams[-1] is not struct._io:
            streams.append(struct._io)
    if not streams:
        return None
    bases = (outer.pos() - inner.size() for outer, inner in itertools.pairwise(streams))
    return int(sum(bases) + streams[-1].pos())
