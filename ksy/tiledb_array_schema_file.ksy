meta:
  id: tiledb_array_schema_file
  title: TileDB array schema file
  application: TileDB
  file-extension: tdb
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_generic_tile
    - tiledb_array_schema
  endian: le
doc: |
  A file in `__schema` (before version 10: `__array_schema.tdb`): one tile that
  holds the schema of the array.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
-webide-representation: '{schema}{tile.why_closed}'
seq:
  - id: tile
    type: tiledb_generic_tile
  - id: opened
    size: 0
    if: tile.is_one_zlib_stream and schema.version < 0
    doc: |
      Never there, but to ask for it reads the payload: a damaged one is then an
      error of the file, and not only of the instance below.
instances:
  schema:
    io: tile.tile.chunks[0].filtered._io
    pos: 0
    size-eos: true
    type: tiledb_array_schema
    process: zlib
    if: tile.is_one_zlib_stream
    -webide-parse-mode: eager
    doc: |
      The inflated payload, where the tile is one zlib stream. Inflating is not
      bounded here: a program checks the sizes first.
