meta:
  id: tiledb_enumeration
  title: TileDB enumeration
  application: TileDB
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_datatype
  encoding: UTF-8
  endian: le
doc: |
  The payload of an enumeration file: labels, which attributes store by index.
  The name and the path stand before the datatype; the format's own page leaves
  them out.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/enumeration.md
-webide-representation: '{name}'
seq:
  - id: version
    -orig-id: disk_version
    type: u4
    valid: 0
  - id: len_name
    -orig-id: name_size
    type: u4
    valid:
      max: _io.size - _io.pos
  - id: name
    -orig-id: name
    size: len_name
    type: str
  - id: len_path_name
    -orig-id: path_name_size
    type: u4
    valid:
      max: _io.size - _io.pos
  - id: path_name
    -orig-id: path_name
    size: len_path_name
    type: str
  - id: datatype
    -orig-id: type
    type: tiledb_datatype
  - id: cell_val_num
    -orig-id: cell_val_num
    type: u4
    doc: Values in a label; 0xffffffff where labels vary in length.
  - id: ordered
    -orig-id: ordered
    type: u1
    valid:
      max: 1
  - id: len_data
    -orig-id: data_size
    type: u8
    valid:
      max: _io.size - _io.pos
  - id: data
    -orig-id: data
    size: len_data
  - id: len_offsets
    -orig-id: offsets_size
    type: u8
    if: is_var
    valid:
      expr: _ % 8 == 0 and _ <= _io.size - _io.pos
  - id: offsets
    -orig-id: offsets
    type: u8
    repeat: expr
    repeat-expr: len_offsets / 8
    if: is_var
  - id: trailing
    size-eos: true
    valid:
      expr: _.length == 0
    doc: Must be empty.
instances:
  is_var:
    value: cell_val_num == 0xffffffff
