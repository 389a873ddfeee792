"""The files of `__commits`: their records and lines, and the names of new ones.

In: the bytes of a `.con`, `.ign` or `.vac` file. Out: its records, each with the byte where it
starts, or its lines; and back. Opens no tile in a `.con`, and takes no name for a path.

A `.con` is records one after the other: a URI relative to the array and a newline; behind a
`.del` or `.upd`, a size (u64) and the whole of that file. An `.ign` and a `.vac` are lines. A
line of a `.vac` names a fragment; before version 19 it was an absolute URI, of which only the
end still holds once the array has moved.

The engine reads a `.con` line by line and reports no error. It counts a last line without a
newline, and passes over a line with an extension that it does not know. After a delete it skips
as many bytes as the size says, and stops if that is past the end. It does not know that an
update carries a tile too, and reads the tile's bytes as lines; we skip it as the format says.

A new file of ours gets a larger uuid than every file that it was made from, so the names alone tell
which of two of ours was made later. The engine's uuids are random.
`history.redundant_con_files` decides which `.con` goes and which one stays.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from chronotile.errors import BadFileError, BadNameError
from chronotile.format.kinds import COMMITS, CONDITIONS, WRITES
from chronotile.format.names import Name, format_name, is_name, parse_name, version_of
from chronotile.format.parsers import ConsolidatedCommitsSpec, IgnoreFileSpec, VacuumFileSpec, parse

if TYPE_CHECKING:
    from collections.abc import Iterable


FIRST_WITH_COMMITS = 12
"""The first format version that has `__commits`, and `.con` and `.ign` files in it."""

_U64 = struct.Struct("<Q")
_NAME = r"__[0-9a-f_]{34,}"
_COMMIT_LINE = re.compile(rf"{COMMITS}/{_NAME}\.(?:wrt|del|upd)|{_NAME}\.ok", re.ASCII)
_VAC_RELATIVE = re.compile(rf"/(?:__fragments/|__meta/)?({_NAME})", re.ASCII)
_VAC_ABSOLUTE = re.compile(rf"(?:[A-Za-z][A-Za-z0-9+.-]*://|/)[^\x00-\x1f\\]*/({_NAME})", re.ASCII)
_KNOWN = tuple(text.encode() for text in (*WRITES, *CONDITIONS))
_WITH_TILE = tuple(text.encode() for text in CONDITIONS)
_HIGHEST = (1 << 128) - 1
_STRIDE = 1 << 104


UriSpan: TypeAlias = tuple[int, int]
"""Start and length of a URI."""
TileSpan: TypeAlias = tuple[int, int, int]
"""Number of a record, start and length of its tile."""


class ConRecord(NamedTuple):
    """One commit in a `.con`."""

    uri: str
    """Relative to the array, such as `__commits/__1_1_…_22.del`."""
    tile: bytes | None
    """The whole file that the record replaces; None for a write."""
    offset: int = 0
    """Where the record starts in its file."""
    tile_offset: int | None = None
    """Where the tile starts in its file."""


def decode_con(data: bytes, where: str) -> tuple[ConRecord, ...]:
    r"""Read a consolidated commits file.

    >>> decode_con(b"__commits/__1_1_ab_22.wrt\n", "a.con")[0].uri
    '__commits/__1_1_ab_22.wrt'
    """
    records, offset = [], 0
    for item in parse(ConsolidatedCommitsSpec, where, data).records:
        end = offset + len(item.uri.encode()) + 1
        if item.extension in CONDITIONS:
            tile_offset = end + _U64.size
            records.append(ConRecord(item.uri, item.body.tile.raw, offset, tile_offset))
            offset = tile_offset + item.body.len_tile
        else:
            records.append(ConRecord(item.uri, None, offset))
            offset = end
    return tuple(records)


def encode_record(record: ConRecord) -> bytes:
    """Write one record of a consolidated commits file."""
    line = record.uri.encode() + b"\n"
    if b"\n" in line[:-1]:
        raise BadNameError(repr(record.uri), "expected no newline in a URI, found one")
    if record.uri.endswith(CONDITIONS):
        if record.tile is None:
            raise BadFileError(record.uri, "expected the tile of a delete or update, found none")
        return line + _U64.pack(len(record.tile)) + record.tile
    if record.tile is not None or not record.uri.endswith(WRITES):
        raise BadFileError(record.uri, "expected a write or a tile's commit, found neither")
    return line


def salvage_con(data: bytes) -> tuple[tuple[UriSpan, ...], tuple[TileSpan, ...]]:
    r"""Find the records that the engine still reads in a damaged `.con`.

    The span of a tile that is cut short ends with the data.

    >>> salvage_con(b"__commits/a.wrt\nnonsense\n__commits/b.wrt")
    (((0, 15), (25, 15)), ())
    """
    uris: list[UriSpan] = []
    tiles: list[TileSpan] = []
    start = 0
    while start < len(data):
        newline = data.find(b"\n", start)
        end = len(data) if newline < 0 else newline
        line = data[start:end]
        if line.endswith(_KNOWN):
            uris.append((start, end - start))
        start = end + 1
        if line.endswith(_WITH_TILE):
            offset = start + _U64.size
            size = _U64.unpack_from(data, start)[0] if offset <= len(data) else 0
            left = max(len(data) - offset, 0)
            tiles.append((len(uris) - 1, min(offset, len(data)), min(size, left)))
            start = offset + size
    return tuple(uris), tuple(tiles)


def cut_line(data: bytes) -> str | None:
    r"""Return the last line of a `.con` if it was cut before its end; None if cut elsewhere.

    >>> cut_line(b"__commits/a.wrt\n__commits/b")
    '__commits/b'
    """
    _, tiles = salvage_con(data)
    end = sum(tiles[-1][1:]) if tiles else 0
    text = data[end:].rpartition(b"\n")[2].decode("utf-8", "replace")
    return text if text and not text.endswith((*WRITES, *CONDITIONS)) else None


def is_cut_con(data: bytes) -> bool:
    r"""Tell whether a `.con` ends inside of a record.

    >>> is_cut_con(b"__commits/a.wrt\n"), is_cut_con(b"__commits/a.del\n\x02\0\0\0\0\0\0\0?")
    (False, True)
    """
    uris, _ = salvage_con(data)
    at, size = uris[-1] if uris else (0, 0)
    end = at + size + 1
    if not data[at : at + size].endswith(_WITH_TILE):
        return data[-1:] != b"\n"
    head = data[end : end + _U64.size]
    return len(head) < _U64.size or end + _U64.size + _U64.unpack(head)[0] != len(data)


def decode_ign(data: bytes, where: str) -> tuple[str, ...]:
    r"""Read an ignore file: the URIs of commits, relative to the array.

    >>> decode_ign(b"__commits/a.wrt\n", "a.ign")
    ('__commits/a.wrt',)
    """
    return tuple(entry.uri for entry in parse(IgnoreFileSpec, where, data).entries)


def decode_vac(data: bytes, where: str) -> tuple[str, ...]:
    r"""Read the lines of a vacuum file.

    >>> decode_vac(b"/__fragments/a\n", "a.vac")
    ('/__fragments/a',)
    """
    return tuple(entry.uri for entry in parse(VacuumFileSpec, where, data).entries)


def encode_lines(lines: Iterable[str]) -> bytes:
    r"""Write an `.ign` or a `.vac` file.

    Raises:
        BadNameError: A line is empty, or holds a newline.

    >>> encode_lines(["/__fragments/a"])
    b'/__fragments/a\n'
    """
    out = []
    for line in lines:
        if not line or "\n" in line:
            raise BadNameError(repr(line), "expected a line of text, found none or several")
        out.append(f"{line}\n")
    return "".join(out).encode()


def encode_exchanged(lines: Iterable[str], old: bytes) -> bytes:
    r"""Write a `.vac` file that takes the place of another one, under the same name.

    An engine caches the bytes of a file in a bucket, and reads no further if the file is not longer
    now. So the new one is longer: lines may stand in it several times.

    >>> encode_exchanged(["/__fragments/a"], b"/__fragments/b\n")
    b'/__fragments/a\n/__fragments/a\n'
    """
    data = encode_lines(lines)
    return data * (len(old) // len(data) + 1)


def vacuumed_name(line: str) -> str:
    """Return the file or fragment that a line of a `.vac` names, even if the array has moved.

    >>> vacuumed_name("file:///old/place/__fragments/__1_1_ab_22")
    '__1_1_ab_22'
    """
    return line.rstrip("/").rpartition("/")[2]


def is_commit_line(line: str) -> bool:
    """Return True if a line is a commit's URI relative to the array, as the engine writes it.

    >>> u = "00112233445566778899aabbccddeeff"
    >>> is_commit_line(f"__commits/__1_1_{u}_22.wrt"), is_commit_line(f"../__1_1_{u}_22.wrt")
    (True, False)
    """
    return _COMMIT_LINE.fullmatch(line) is not None and is_name(
        line.rpartition("/")[2].rpartition(".")[0]
    )


class VacLine(NamedTuple):
    """A line of a `.vac`, taken apart."""

    name: str | None
    """The fragment; None if the line names none."""
    absolute: bool


def read_vac_line(line: str) -> VacLine:
    """Take a line of a `.vac` apart.

    >>> u = "00112233445566778899aabbccddeeff"
    >>> read_vac_line(f"s3://old/a/__fragments/__1_1_{u}_18").absolute
    True
    >>> read_vac_line("/__fragments/../../x").name is None
    True
    """
    if (match := _VAC_RELATIVE.fullmatch(line)) and is_name(match[1]):
        return VacLine(match[1], absolute=False)
    if (match := _VAC_ABSOLUTE.fullmatch(line)) and is_name(match[1]):
        parts = line.rpartition("://")[2].split("/")[1:]
        if not {"", ".", ".."} & set(parts):
            return VacLine(match[1], absolute=True)
    return VacLine(None, absolute=False)


def commit_name(uri: str) -> Name:
    """Parse the timestamped name in a commit's URI: the last part, without its extension.

    Raises:
        BadNameError: There is none.

    >>> commit_name("__commits/__1_2_00112233445566778899aabbccddeeff_22.wrt").t2
    2
    """
    return parse_name(uri.rpartition("/")[2].rpartition(".")[0])


def write_uri(name: str) -> str:
    """Return the URI of the commit of a fragment.

    >>> write_uri("__1_1_00112233445566778899aabbccddeeff_22")
    '__commits/__1_1_00112233445566778899aabbccddeeff_22.wrt'
    """
    in_root = version_of(parse_name(name)) < FIRST_WITH_COMMITS
    return f"{name}.ok" if in_root else f"{COMMITS}/{name}.wrt"


def rank(path: str) -> tuple[int, str]:
    """Return the key that sorts our files in the order in which they were made.

    A file without a timestamped name comes first.

    >>> low, high = f"__9_9_{'0' * 31}1_22.con", f"__1_1_{'0' * 31}2_22.con"
    >>> rank(low) < rank(high)
    True
    """
    try:
        name = commit_name(path)
    except BadNameError:
        return -1, path
    return int(name.uuid, 16), name.text


def later_name(uris: Iterable[str], others: Iterable[str], version: int) -> str:
    """Make the name of a new `.con` or `.ign`: true to its times, later than others.

    It holds the commits `uris`, and must be later than the `.con` files `others`.

    >>> u = "00112233445566778899aabbccddeeff"
    >>> name = later_name([f"__commits/__5_6_{u}_22.wrt"], [f"__commits/__1_1_{u}_22.con"], 22)
    >>> rank(f"{name}.con") > rank(f"__1_1_{u}_22.con"), name[:6]
    (True, '__5_6_')
    """
    names = [commit_name(uri) for uri in uris]
    return later_name_at(min(n.t1 for n in names), max(n.t2 for n in names), others, version)


def later_name_at(t1: int, t2: int, others: Iterable[str], version: int) -> str:
    """Make the name of a new file of a known range of time, later than others."""
    import secrets  # reading needs none

    low = max((rank(path)[0] for path in others), default=secrets.randbits(127))
    # The first digits differ, while there is room: short ids stay short.
    stride = max(min(_STRIDE, (_HIGHEST - low) // 1024), 1)
    value = low + stride + secrets.randbelow(stride)
    return format_name(t1, t2, f"{min(value, _HIGHEST):032x}", version)
