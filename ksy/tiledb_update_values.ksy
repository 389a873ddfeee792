meta:
  id: tiledb_update_values
  title: TileDB update values
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_operand
  encoding: UTF-8
  endian: le
doc: |
  What an update sets: a list of fields and their new values. It follows the
  condition in the same tile. Its sizes of names are 64 bits wide; those in the
  condition are 32.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
-webide-representation: '{values}'
seq:
  - id: num_values
    -orig-id: num
    type: u8
    valid:
      max: (_io.size - _io.pos) / 16
  - id: values
    type: update_value
    repeat: expr
    repeat-expr: num_values
types:
  update_value:
    doc: One field and its new value.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
    -webide-representation: '{field_name} = {value}'
    seq:
      - id: len_field_name
        -orig-id: field_name_size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: field_name
        size: len_field_name
        type: str
      - id: len_value
        -orig-id: value_size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: value
        size: len_value
        type: tiledb_operand
