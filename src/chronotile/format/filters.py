"""Filters: undo the steps that a chunk of cells, or of a generic tile, took on its way to disk.

In: a pipeline, and one chunk: its metadata and its filtered bytes. Out: the bytes as they were
written; or the name of the first filter that is not known here; or `BadFileError`. Knows nothing of
files and tiles.

Filters are undone from the last to the first. Each finds what it needs at the start of the chunk's
metadata, and leaves the rest to the filter before it. A compressor takes the metadata of the
filters before it into its own bytes, as encryption does. Every size is compared with every other,
and with a ceiling, before memory is taken.

Some filters change values and not how many there are: shuffles, windows of narrower numbers. Damage
shows only in sizes there: each of these maps any bytes to some values.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.errors import BadFileError, KeyNeededError, WrongKeyError
from chronotile.format.datatypes import Datatype
from chronotile.format.decompress import COMPRESSORS, DELTAS, decompress, split_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


CEILING = 128 << 20
"""Most bytes of one chunk that are taken into memory; more of it stays closed."""
_CODES = {"gzip": 1, "zstd": 2, "lz4": 3, "rle": 4, "bzip2": 5}
"""The compressor that the options of each filter must name: the engine obeys the options."""
_DIGESTS = {"checksum_md5": ("md5", 16), "checksum_sha256": ("sha256", 32)}
_ROOM = 1 << 20
_TEXTS = (Datatype.STRING_ASCII, Datatype.STRING_UTF8)
_U32, _U64, _TWO = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<II")
_SEALED = struct.Struct("<II12s16s")
_KEY_SIZE = 32
_INTEGERS = {1: Datatype.INT8, 2: Datatype.INT16, 4: Datatype.INT32, 8: Datatype.INT64}
VALUE_FILTERS = frozenset(
    (
        "bitshuffle",
        "byteshuffle",
        "xor",
        "positive_delta",
        "bit_width_reduction",
    )
)
_BYTES = (Datatype.BLOB, Datatype.GEOM_WKB, Datatype.GEOM_WKT, Datatype.BOOL, Datatype.UINT8)
_BIT_BLOCK = 8192
"""Bytes that a bitshuffle takes at once."""
_FIRST_WITH_TIMES = 20
"""The first version in which windows of dates and times are filtered."""


class Filter(NamedTuple):
    """One filter of a pipeline."""

    kind: str
    """As the spec calls it."""
    reinterpret: Datatype | None = None
    """The datatype as which a delta takes the values, if it says so."""
    byte_width: int = 0
    """Bytes of the integers that a scaled float becomes."""

    def output(self, datatype: Datatype) -> Datatype:
        """Return the datatype of the filtered values."""
        if self.kind == "xor":
            return _INTEGERS.get(datatype.size, datatype)
        if self.kind == "scale_float":
            return _INTEGERS.get(self.byte_width, datatype)
        return self.reinterpret or datatype


AES_256_GCM = Filter("aes_256_gcm")
"""The filter that the engine adds behind those of an encrypted array."""


def read_filters(pipeline: Any) -> tuple[Filter, ...]:
    """Convert the filters of a pipeline that the generated parser has read."""
    filters = []
    for item in pipeline.filters:
        kind, options = item.filter_type.name, item.options
        if kind in _CODES and options.compressor != _CODES[kind]:
            kind = f"{kind} with compressor {options.compressor}"
        code = getattr(getattr(options, "reinterpret_datatype", None), "code", None)
        reinterpret = None if code is None else Datatype(code.value)
        raw = getattr(options, "raw", b"") if kind == "scale_float" else b""
        width = _U64.unpack_from(raw, 16)[0] if len(raw) >= 24 else 0
        filters.append(Filter(kind, None if reinterpret is Datatype.ANY else reinterpret, width))
    return tuple(filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The filters of one file, and the facts that they need of its values."""

    filters: tuple[Filter, ...]
    datatype: Datatype
    cell_size: int
    """Bytes of a cell; of one value where cells vary in length."""
    version: int
    """The format version of the schema."""
    is_var: bool = False
    """True if it filters the values of cells that vary in length."""

    @property
    def holds_lengths(self) -> bool:
        """True if the filtered texts hold their own lengths, and the file of offsets is empty."""
        kinds = {one.kind for one in self.filters}
        if not self.is_var or self.datatype not in _TEXTS or not kinds & {"rle", "dictionary"}:
            return False
        if self.datatype is Datatype.STRING_UTF8:
            return self.version >= 17
        return self.version >= (12 if "rle" in kinds else 13)


class Undone(NamedTuple):
    """A chunk, as far as its filters could be undone."""

    data: bytes
    """The bytes as they were written; empty where a filter is not known here."""
    stopped_at: str | None = None
    """The filter that is not known here."""
    lengths: int | None = None
    """How many texts it holds, where it holds their lengths too."""


class Chunk(NamedTuple):
    """A chunk, as it is stored."""

    original: int
    """Bytes before the filters."""
    metadata: bytes
    data: bytes


def undo(pipeline: Pipeline, chunk: Chunk, where: str, key: bytes | None = None) -> Undone:
    r"""Undo the filters of one chunk.

    Raises:
        KeyNeededError: They are encrypted, and there is no key.

    >>> plain = Pipeline(filters=(), datatype=Datatype.INT8, cell_size=1, version=22)
    >>> undo(plain, Chunk(2, b"", b"\1\2"), "a0.tdb")
    Undone(data=b'\x01\x02', stopped_at=None, lengths=None)
    """
    types = [pipeline.datatype]
    for one in pipeline.filters:
        types.append(one.output(types[-1]))
    state, lengths = (chunk.metadata, chunk.data), None
    # No filter makes more than this of a chunk: RLE adds two bytes to each cell at worst.
    most = 4 * chunk.original + _ROOM
    for at in range(len(pipeline.filters) - 1, -1, -1):
        one, datatype = pipeline.filters[at], types[at]
        if one.kind == "none":
            continue
        if one.kind in _DIGESTS:
            state = _checked(one.kind, *state, where)
        elif one.kind == AES_256_GCM.kind:
            state = _decrypted(*state, where, key)
        elif pipeline.holds_lengths and one.kind in ("rle", "dictionary"):
            data, lengths = split_texts(one.kind, *state, most, where)
            state = b"", data
        elif one.kind in COMPRESSORS:
            width = pipeline.cell_size
            if one.kind in DELTAS:
                width = (one.reinterpret or datatype).size
            state = _decompressed(one.kind, *state, width, most, where)
        elif one.kind in VALUE_FILTERS:
            state = undo_values(
                one.kind, *state, one.reinterpret or datatype, pipeline.version, most, where
            )
        else:
            return Undone(b"", one.kind)
    metadata, data = state
    if metadata:
        raise BadFileError(
            where, f"expected no metadata behind its filters', found {metadata!r:.40}"
        )
    if len(data) != chunk.original:
        raise BadFileError(where, f"expected a chunk of {chunk.original} bytes, found {len(data)}")
    return Undone(data, None, lengths)


def _parts(metadata: bytes, each: struct.Struct, where: str) -> tuple[list[Any], int, bytes]:
    """Read the sizes of the parts of a chunk; count those of metadata; give the rest."""
    if len(metadata) < _TWO.size:
        raise BadFileError(
            where, f"expected the numbers of parts in 8 bytes, found {len(metadata)}"
        )
    num_metadata, num_data = _TWO.unpack_from(metadata)
    end = _TWO.size + (num_metadata + num_data) * each.size
    if end > len(metadata):
        problem = f"expected {num_metadata} and {num_data} parts in {end} bytes"
        raise BadFileError(where, f"{problem}, found {len(metadata)}")
    return list(each.iter_unpack(metadata[_TWO.size : end])), num_metadata, metadata[end:]


def _decompressed(
    kind: str, metadata: bytes, data: bytes, width: int, most: int, where: str
) -> tuple[bytes, bytes]:
    stated, num_metadata, rest = _parts(metadata, _TWO, where)
    total, stored = sum(p[0] for p in stated), sum(p[1] for p in stated)
    if stored != len(data) or rest:
        problem = f"expected compressed parts of {len(data)} bytes in all, found {stored}"
        raise BadFileError(where, f"{problem}, and {len(rest)} bytes behind their sizes")
    if total > most:
        raise BadFileError(where, f"expected parts of at most {most} bytes, found {total}")
    out, at = [], 0
    for original, compressed in stated:
        part = data[at : at + compressed]
        out.append(decompress(kind, part, original, width, where))
        at += compressed
    return b"".join(out[:num_metadata]), b"".join(out[num_metadata:])


def _checked(kind: str, metadata: bytes, data: bytes, where: str) -> tuple[bytes, bytes]:
    import hashlib  # it loads OpenSSL, which takes longer than reading a small log

    algorithm, size = _DIGESTS[kind]
    stated, num_metadata, rest = _parts(metadata, struct.Struct(f"<Q{size}s"), where)
    for parts, content in ((stated[:num_metadata], rest), (stated[num_metadata:], data)):
        at = 0
        for length, wanted in parts:
            if length > len(content) - at:
                problem = f"expected {length} bytes under a {kind}"
                raise BadFileError(where, f"{problem}, found {len(content) - at}")
            found = hashlib.new(algorithm, content[at : at + length]).digest()
            if found != wanted:
                problem = f"expected bytes with the {kind} {wanted.hex()}"
                raise BadFileError(where, f"{problem}, found {found.hex()}")
            at += length
        if at != len(content):
            problem = f"expected a {kind} of all {len(content)} bytes, found one of {at}"
            raise BadFileError(where, problem)
    return rest, data


def _decrypted(metadata: bytes, data: bytes, where: str, key: bytes | None) -> tuple[bytes, bytes]:
    opener = cipher(key, where)
    from cryptography.exceptions import InvalidTag

    stated, num_metadata, rest = _parts(metadata, _SEALED, where)
    sealed = sum(part[1] for part in stated)
    if sealed != len(data) or rest or any(part[0] != part[1] for part in stated):
        problem = f"expected encrypted parts of {len(data)} bytes in all, found {sealed}"
        raise BadFileError(where, problem)
    out, at = [], 0
    for _, size, iv, tag in stated:
        try:
            out.append(bytes(opener.decrypt(iv, data[at : at + size] + tag, None)))
        except InvalidTag as cause:
            problem = "expected the key that it was encrypted with"
            raise WrongKeyError(where, f"{problem}, found another, or damaged bytes") from cause
        at += size
    return b"".join(out[:num_metadata]), b"".join(out[num_metadata:])


def cipher(key: bytes | None, where: str) -> Any:
    """Make the cipher of the array's key.

    Raises:
        KeyNeededError: There is no key, or no package that can use it.
        WrongKeyError: It is of another length.
    """
    checked = check_key(key, where)
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(checked)


def check_key(key: bytes | None, where: str) -> bytes:
    """Give the key back; refuse one that is missing, of another length, or without its package."""
    if key is None:
        problem = "expected the array's key, as the tile is encrypted; found none"
        raise KeyNeededError(where, problem)
    if len(key) != _KEY_SIZE:
        raise WrongKeyError(where, f"expected a key of {_KEY_SIZE} bytes, found {len(key)}")
    try:
        import cryptography  # noqa: F401  (an extra: only encrypted arrays need it)
    except ImportError as cause:
        problem = "expected the package cryptography (pip install 'chronotile[crypto]'), found none"
        raise KeyNeededError(where, problem) from cause
    return key


def undo_values(
    kind: str,
    metadata: bytes,
    data: bytes,
    datatype: Datatype,
    version: int,
    most: int,
    where: str,
) -> tuple[bytes, bytes]:
    """Undo one filter; give the metadata of the filters before it, and the data that it was given.

    The metadata of the chunk begins with the part of this filter; `most` bounds the memory.
    """
    if kind == "byteshuffle":
        return _by_parts(metadata, data, lambda part: _unshuffled(part, datatype.size), where)
    if kind == "xor":
        return _by_parts(metadata, data, lambda part: _unxored(part, datatype.size), where)
    if kind == "bitshuffle":
        return _by_parts(metadata, data, lambda part: _unshuffled_bits(part, datatype.size), where)
    number = _windowed(kind, datatype, version)
    if number is None:
        return metadata, data
    if kind == "positive_delta":
        return _deltas(metadata, data, number, where)
    return _widened(metadata, data, number, most, where)


def _by_parts(
    metadata: bytes, data: bytes, undo: Callable[[bytes], bytes], where: str
) -> tuple[bytes, bytes]:
    """Undo a filter that notes the size of each part."""
    (count,) = _U32.unpack(_head(metadata, 0, 4, where))
    sizes = struct.unpack(f"<{count}I", _head(metadata, 4, 4 * count, where))
    _expect_all(sum(sizes), data, where)
    out, at = [], 0
    for size in sizes:
        out.append(undo(data[at : at + size]))
        at += size
    return metadata[4 + 4 * count :], b"".join(out)


def _unshuffled(part: bytes, width: int) -> bytes:
    whole = len(part) // width * width
    values = np.frombuffer(part, np.uint8, whole).reshape(width, -1)
    return values.T.tobytes() + part[whole:]


def _unshuffled_bits(part: bytes, width: int) -> bytes:
    """Undo blocks of bit planes; bytes that do not fill eight values are as they were."""
    if len(part) % width or len(part) % 8:
        return part
    return b"".join(
        _unplaned(part[at : at + _BIT_BLOCK], width) for at in range(0, len(part), _BIT_BLOCK)
    )


def _unplaned(block: bytes, width: int) -> bytes:
    eights = len(block) // width // 8
    whole = 8 * eights * width
    planes = np.frombuffer(block, np.uint8, whole).reshape(8 * width, eights)
    bits = np.unpackbits(planes, axis=1, bitorder="little").T
    return np.packbits(bits, axis=1, bitorder="little").tobytes() + block[whole:]


def _unxored(part: bytes, width: int) -> bytes:
    whole = len(part) // width * width
    values = np.frombuffer(part, f"<u{width}", whole // width)
    return np.bitwise_xor.accumulate(values).tobytes() + part[whole:] if whole else part


def _windowed(kind: str, datatype: Datatype, version: int) -> npt.DTypeLike | None:
    """Return the type of numbers that a filter of windows changes; None if it changes nothing."""
    if datatype.is_temporal:
        return "<i8" if version >= _FIRST_WITH_TIMES else None
    if datatype in _BYTES:
        return "<u1" if kind == "positive_delta" else None
    if datatype is Datatype.INT8:
        return "<i1" if kind == "positive_delta" else None
    if datatype.is_float or datatype.code is None:
        return None
    return f"<{'u' if datatype.code.isupper() else 'i'}{datatype.size}"


def _deltas(metadata: bytes, data: bytes, number: npt.DTypeLike, where: str) -> tuple[bytes, bytes]:
    width, (count,) = np.dtype(number).itemsize, _U32.unpack(_head(metadata, 0, 4, where))
    at, start, out = 4, 0, []
    for _ in range(count):
        entry = _head(metadata, at, width + 4, where)
        (size,) = _U32.unpack_from(entry, width)
        at += width + 4
        part = _slice(data, start, size, where)
        if size % width == 0 and size:
            first = np.frombuffer(entry, number, 1)
            values = np.frombuffer(part, number)
            part = (first + np.cumsum(values, dtype=number)).astype(number).tobytes()
        out.append(part)
        start += size
    _expect_all(start, data, where)
    return metadata[at:], b"".join(out)


def _widened(
    metadata: bytes, data: bytes, number: npt.DTypeLike, most: int, where: str
) -> tuple[bytes, bytes]:
    width, sign = np.dtype(number).itemsize, np.dtype(number).kind
    total, count = _TWO.unpack(_head(metadata, 0, 8, where))
    if total > most:
        raise BadFileError(where, f"expected a chunk of at most {most} bytes, found {total}")
    at, start, left = 8, 0, total
    out = []
    for _ in range(count):
        entry = _head(metadata, at, width + 5, where)
        bits, size = struct.unpack_from("<BI", entry, width)
        at += width + 5
        if size > left:
            raise BadFileError(where, f"expected a window of at most {left} bytes, found {size}")
        left -= size
        if bits >= 8 * width or size % width:
            stored, part = size, _slice(data, start, size, where)
        elif bits not in (8, 16, 32):
            raise BadFileError(where, f"expected numbers of 8, 16 or 32 bits, found {bits}")
        else:
            stored = size // width * (bits // 8)
            narrow = np.frombuffer(_slice(data, start, stored, where), f"<{sign}{bits // 8}")
            part = (narrow.astype(number) + np.frombuffer(entry, number, 1)).tobytes()
        out.append(part)
        start += stored
    _expect_all(start, data, where)
    if left:
        raise BadFileError(where, f"expected windows of {total} bytes in all, found {total - left}")
    return metadata[at:], b"".join(out)


def _head(metadata: bytes, at: int, size: int, where: str) -> bytes:
    if size > len(metadata) - at:
        problem = f"expected {size} bytes of a filter's metadata, found {len(metadata) - at}"
        raise BadFileError(where, problem)
    return metadata[at : at + size]


def _slice(data: bytes, at: int, size: int, where: str) -> bytes:
    if size > len(data) - at:
        raise BadFileError(where, f"expected a window of {size} bytes, found {len(data) - at}")
    return data[at : at + size]


def _expect_all(found: int, data: bytes, where: str) -> None:
    if found != len(data):
        raise BadFileError(where, f"expected parts of {len(data)} bytes in all, found {found}")
