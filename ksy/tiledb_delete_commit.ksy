meta:
  id: tiledb_delete_commit
  title: TileDB delete commit file
  application: TileDB
  file-extension: del
  tags:
    - database
    - log
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_generic_tile
    - tiledb_condition
  endian: le
doc: |
  A `.del` file: one tile that holds the condition of a delete, negated. The
  rows that satisfy it stay; all others written at or before it are gone.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
-webide-representation: '{condition}{tile.why_closed}'
seq:
  - id: tile
    type: tiledb_generic_tile
  - id: opened
    size: 0
    if: tile.is_one_zlib_stream and condition.root.level < 0
    doc: |
      Never there, but to ask for it reads the payload: a damaged one is then an
      error of the file, and not only of the instance below.
instances:
  condition:
    io: tile.tile.chunks[0].filtered._io
    pos: 0
    size-eos: true
    type: tiledb_condition
    process: zlib
    if: tile.is_one_zlib_stream
    -webide-parse-mode: eager
    doc: |
      The inflated payload, where the tile is one zlib stream. Inflating is not
      bounded here: a program checks the sizes first.
