meta:
  id: tiledb_update
  title: TileDB update
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_condition
    - tiledb_update_values
  endian: le
doc: |
  The payload of an update commit's tile: which rows stay as they are (the
  negation of what was asked), and what the others are set to.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
-webide-representation: 'set {values} unless {condition}'
seq:
  - id: condition
    type: tiledb_condition::condition_node(1)
  - id: values
    type: tiledb_update_values
  - id: trailing
    size-eos: true
    valid: '[].as<bytes>'
    doc: Must be empty.
