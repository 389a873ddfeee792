meta:
  id: tiledb_array_metadata
  title: TileDB array metadata
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_datatype
  encoding: UTF-8
  endian: le
doc: The payload of a metadata file; of one key, the last entry counts.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md
-webide-representation: '{entries}'
seq:
  - id: entries
    type: metadata_entry
    repeat: eos
types:
  metadata_entry:
    doc: A key that was set or removed.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md#metadata-file
    -webide-representation: '{key}{effect}{insertion}'
    seq:
      - id: len_key
        -orig-id: key_len
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: key
        size: len_key
        type: str
      - id: deletion
        -orig-id: del_
        type: u1
        valid:
          max: 1
      - id: insertion
        type: metadata_value
        if: not is_deletion
    instances:
      is_deletion:
        value: deletion != 0
      effect:
        value: 'is_deletion ? " is removed" : " = "'
  metadata_value:
    doc: What a key was set to.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md#metadata-file
    -webide-representation: '{value}'
    seq:
      - id: datatype
        -orig-id: type_
        type: tiledb_datatype
      - id: num_values
        -orig-id: num_
        type: u4
        valid:
          max: (_io.size - _io.pos) / datatype.len_value
      - id: value
        -orig-id: value_
        size: num_values * datatype.len_value
        type: tiledb_datatype::typed_values(datatype.code)
