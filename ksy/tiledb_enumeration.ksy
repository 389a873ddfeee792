meta:
  id: tiledb_enumeration
  title: TileDB enumeration
  application: TileDB
  tags:
    - database
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
-webide-representation: '{name}: {labels}'
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
    size: len_name
    type: str
  - id: len_path_name
    -orig-id: path_name_size
    type: u4
    valid:
      max: _io.size - _io.pos
  - id: path_name
    size: len_path_name
    type: str
  - id: datatype
    -orig-id: type
    type: tiledb_datatype
  - id: num_cell_values
    -orig-id: cell_val_num
    type: u4
    doc: Values in a label; 0xffffffff where labels vary in length.
  - id: ordered
    type: u1
    valid:
      max: 1
  - id: len_data
    -orig-id: data_size
    type: u8
    valid:
      max: _io.size - _io.pos
  - id: data
    size: len_data
    type: label_data
  - id: len_ofs_labels
    -orig-id: offsets_size
    type: u8
    valid:
      expr: _ % 8 == 0 and _ <= _io.size - _io.pos
    if: is_var
  - id: ofs_labels
    -orig-id: offsets
    type: u8
    repeat: expr
    repeat-expr: len_ofs_labels / 8
    if: is_var
    doc: Where each label starts in the data.
  - id: trailing
    size-eos: true
    valid: '[].as<bytes>'
    doc: Must be empty.
instances:
  is_ordered:
    value: ordered != 0
  is_var:
    value: num_cell_values == 0xffffffff
  len_label:
    value: 'is_var ? 0 : num_cell_values * datatype.len_value'
    doc: Bytes of a label, where labels do not vary in length.
  num_labels:
    value: >-
      is_var ? len_ofs_labels / 8 : len_label == 0 ? 0 : len_data / len_label
  labels:
    pos: 0
    type: enumeration_label(_index)
    repeat: expr
    repeat-expr: num_labels
    -webide-parse-mode: eager
types:
  label_data:
    doc: The labels one after the other.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/enumeration.md
    seq:
      - id: raw
        size-eos: true
  enumeration_label:
    doc: One label, for people who look at a tree.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/enumeration.md
    -webide-representation: '{value}'
    params:
      - id: index
        type: u4
    instances:
      start:
        value: >-
          _parent.is_var ? _parent.ofs_labels[index] : index * _parent.len_label
      end:
        value: >-
          not _parent.is_var ? start + _parent.len_label
          : index + 1 == _parent.num_labels ? _parent.len_data
          : _parent.ofs_labels[index + 1]
      value:
        io: _parent.data._io
        pos: start
        size: 'end > start ? end - start : 0'
        type: tiledb_datatype::typed_values(_parent.datatype.code)
        -webide-parse-mode: eager
