meta:
  id: tiledb_update_commit
  title: TileDB update commit file
  application: TileDB
  file-extension: upd
  tags:
    - database
    - log
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_generic_tile
    - tiledb_update
  endian: le
doc: |
  A `.upd` file: one tile that holds the condition of an update, negated, and
  the values that it sets.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
-webide-representation: '{update}{tile.why_closed}'
seq:
  - id: tile
    type: tiledb_generic_tile
  - id: opened
    size: 0
    if: tile.is_one_zlib_stream and update.condition.level < 0
    doc: |
      Never there, but to ask for it reads the payload: a damaged one is then an
      error of the file, and not only of the instance below.
instances:
  update:
    io: tile.tile.chunks[0].filtered._io
    pos: 0
    size-eos: true
    type: tiledb_update
    process: zlib
    if: tile.is_one_zlib_stream
    -webide-parse-mode: eager
    doc: |
      The inflated payload, where the tile is one zlib stream. Inflating is not
      bounded here: a program checks the sizes first.
