meta:
  id: tiledb_consolidated_footers_file
  title: TileDB consolidated fragment metadata file
  application: TileDB
  file-extension: meta
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_generic_tile
    - tiledb_fragment_metadata
  endian: le
doc: |
  A `.meta` file: one tile that holds the footers of many fragments, so that an
  array opens without a look into each of them.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_fragment_metadata_file.md
-webide-representation: '{footers}{tile.why_closed}'
seq:
  - id: tile
    type: tiledb_generic_tile
  - id: opened
    size: 0
    if: tile.is_one_zlib_stream and footers.num_fragments < 0
    doc: |
      Never there, but to ask for it reads the payload: a damaged one is then an
      error of the file, and not only of the instance below.
instances:
  footers:
    io: tile.tile.chunks[0].filtered._io
    pos: 0
    size-eos: true
    type: tiledb_fragment_metadata::consolidated_footers
    process: zlib
    if: tile.is_one_zlib_stream
    -webide-parse-mode: eager
    doc: |
      The inflated payload, where the tile is one zlib stream. Inflating is not
      bounded here: a program checks the sizes first.
