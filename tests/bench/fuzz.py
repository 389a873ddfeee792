"""A coverage-guided run over every decoder: `make fuzz`.

Whatever bytes come in, the answer is a value or one of our errors; and where there are two ways
to read them, the generated parser's and the fast one, both give the same. Anything else stops
the run with the input that did it. The corpus is the seed.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["chronotile", "chronotile_ksy"]):
    from support import condition_spec, footer_spec
    from support.footers import decode_footer
    from support.handmade_array import encode_fragment_metadata, sample_schema
    from support.spec_files import BY_EXTENSION, corpus_files, fragment_metadata

    from chronotile.conditions import codec
    from chronotile.errors import ChronotileError
    from chronotile.format import commit_files, names, schema, tiles
    from chronotile.format.commit_files import salvage_con
    from chronotile.format.consolidated_footers import read_index
    from chronotile.format.fragment_footer import (
        decode_applied,
        footer_size,
        read_head,
    )
    from chronotile.format.fragment_metadata import (
        decode_bounds,
        decode_metadata,
        decode_numbers,
        decode_r_tree,
        frame_metadata,
    )
    from chronotile.format.fragment_size import measure
    from chronotile.format.groups import decode_details, stored_members
    from chronotile.history.lines_to_columns import scan_con
    from chronotile.show.byte_ranges import metadata_regions

if TYPE_CHECKING:
    from collections.abc import Callable

CEILING = 1 << 20


def _conditions(data: bytes) -> None:
    _agree(data, codec.decode, condition_spec.decode)


def _updates(data: bytes) -> None:
    _agree(data, codec.decode_update, condition_spec.decode_update)


def _agree(data: bytes, *ways: Callable[[bytes], object]) -> None:
    answers: list[object] = []
    for way in ways:
        try:
            answers.append(way(data))
        except ChronotileError:
            answers.append(None)
    if any(answer != answers[0] for answer in answers):
        message = f"two ways, two answers: {answers}"
        raise AssertionError(message)


def _consolidated(data: bytes) -> None:
    def fast(data: bytes) -> object:
        uris, held = scan_con(data, "fuzz")
        spans = zip(uris.start.tolist(), uris.length.tolist(), strict=True)
        texts = [data[start : start + length].decode() for start, length in spans]
        return texts, [list(map(int, row)) for row in zip(*held, strict=True)]

    def slow(data: bytes) -> object:
        found = commit_files.decode_con(data, "fuzz")
        held = [
            [row, record.tile_offset, len(record.tile)]
            for row, record in enumerate(found)
            if record.tile is not None
        ]
        return [record.uri for record in found], held

    _agree(data, fast, slow)
    salvage_con(data)


def _name(data: bytes) -> None:
    names.parse_name(data.decode("utf-8", "surrogateescape"))


def _footer(data: bytes) -> None:
    length = footer_size(data, len(data), 22, None, "fuzz")
    read_head(data[-length:], "fuzz")
    footer = decode_footer(data[-length:], sample_schema(), "fuzz")
    measure(footer, sample_schema(), "fuzz")


def _bare_footer(data: bytes) -> None:
    def fast(data: bytes) -> object:
        return decode_footer(data, sample_schema(), "fuzz", bare=True)

    def slow(data: bytes) -> object:
        fields = None
        with suppress(ChronotileError):
            fields = decode_footer(data, sample_schema(), "fuzz", bare=True).fields
        return footer_spec.footer(data, sample_schema(), fields, bare=True)

    _agree(data, fast, slow)


def _metadata(data: bytes) -> None:
    frame = frame_metadata(data, "fuzz")
    metadata_regions(data, "fuzz", None, ())
    schema_of_file = sample_schema()
    found = decode_metadata(data, schema_of_file, "fuzz", ceiling=CEILING)
    metadata_regions(data, "fuzz", None, (schema_of_file,))
    if found.footer.version != frame.head.version:
        raise AssertionError(data)


def _tiles_of_metadata(data: bytes) -> None:
    sizes = b"\4\0"
    _agree(data, lambda d: list(decode_numbers(d, "fuzz")), footer_spec.numbers)
    _agree(data, lambda d: decode_applied(d, "fuzz"), footer_spec.applied)

    def tree(data: bytes) -> object:
        found = decode_r_tree(data, 22, sizes, "fuzz")
        return found.fanout, [list(level.boxes()) for level in found.levels]

    _agree(data, tree, lambda d: footer_spec.r_tree(d, 22, sizes))
    with suppress(ChronotileError):
        list(decode_bounds(data, None, "fuzz").values(None))
    decode_bounds(data, 4, "fuzz")


def _listed(data: bytes) -> None:
    def fast(data: bytes) -> object:
        return [(item.name, item.offset) for item in read_index(data, "fuzz").listed()]

    _agree(data, fast, footer_spec.listed)


def _members(data: bytes) -> None:
    members = stored_members(data)
    read = decode_details(data, "fuzz").entries
    if members is not None and len(members) != len(read):
        message = f"{len(members)} members by their starts, {len(read)} by reading"
        raise AssertionError(message)


DECODERS: tuple[Callable[[bytes], object], ...] = (
    _conditions,
    _updates,
    _consolidated,
    _name,
    lambda data: tiles.decode(data, "fuzz", ceiling=CEILING),
    lambda data: tiles.decode(data, "fuzz", key=bytes(32), ceiling=CEILING),
    lambda data: commit_files.decode_ign(data, "fuzz"),
    lambda data: commit_files.decode_vac(data, "fuzz"),
    lambda data: schema.decode_schema(data, "fuzz"),
    lambda data: schema.decode_enumeration(data, "fuzz"),
    _footer,
    lambda data: decode_applied(data, "fuzz"),
    _listed,
    _bare_footer,
    _metadata,
    _tiles_of_metadata,
    _members,
)


def one(data: bytes) -> None:
    """The first byte chooses the decoder."""
    if not data:
        return
    try:
        DECODERS[data[0] % len(DECODERS)](data[1:])
    except ChronotileError as error:
        if not str(error):
            raise


def seeds(folder: Path) -> None:
    """Writes the corpus as seeds, each file for the decoders that it is meant for."""
    chosen = {".con": (2,), ".ign": (6,), ".vac": (7,)}
    for number, (_, path) in enumerate(corpus_files()):
        data = path.read_bytes()
        for decoder in chosen.get(path.suffix, (4, 5)):
            (folder / f"{number}-{decoder}").write_bytes(bytes([decoder]) + data)
        if path.suffix not in chosen and not data[29]:
            payload = tiles.decode(data, path.name).payload
            inner = {".del": 0, ".upd": 1, ".meta": 12}.get(path.suffix, 8)
            (folder / f"{number}-payload").write_bytes(bytes([inner]) + payload)
    for number, path in enumerate(fragment_metadata()):
        (folder / f"footer-{number}").write_bytes(bytes([10]) + path.read_bytes()[-1000:])
    sample = encode_fragment_metadata(sample_schema(), "__1_1_" + "0" * 32)
    frame = frame_metadata(sample, "seed")
    (folder / "bare").write_bytes(bytes([13]) + sample[frame.footer_start : -8])
    (folder / "metadata").write_bytes(bytes([14]) + sample)
    for number, tile in enumerate(frame.tiles):
        payload = tiles.decode(sample[tile.offset : tile.offset + tile.size], "seed").payload
        (folder / f"tile-{number}").write_bytes(bytes([15]) + payload)
    assert len(list(folder.iterdir())) > len(BY_EXTENSION)


def main() -> None:
    """Runs; other arguments go to libFuzzer, such as -max_total_time=300."""
    with tempfile.TemporaryDirectory() as folder:
        seeds(Path(folder))
        atheris.Setup([*sys.argv, folder, "-max_len=8192", "-rss_limit_mb=2048"], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
