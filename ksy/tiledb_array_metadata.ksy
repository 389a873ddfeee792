meta:
  id: tiledb_array_metadata
  title: TileDB array metadata
  license: MIT
  ks-version: '0.11'
  endian: le
  imports:
    - tiledb_datatype
doc: The payload of a metadata file; of one key, the last entry counts.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md
seq:
  - id: entries
    type: metadata_entry
    repeat: eos
types:
  metadata_entry:
    doc: A key that was set or removed.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md#metadata-file
    -webide-representation: '{key}'
    seq:
      - id: len_key
        -orig-id: Key length
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: key
        -orig-id: Key
        size: len_key
        type: str
        encoding: UTF-8
      - id: is_deletion
        -orig-id: Deletion
        type: u1
        valid:
          max: 1
      - id: insertion
        type: metadata_value
        if: is_deletion == 0
  metadata_value:
    doc: What a key was set to.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/metadata.md#metadata-file
    seq:
      - id: datatype
        -orig-id: Value type
        type: tiledb_datatype
      - id: num_values
        -orig-id: Number of values
        type: u4
        valid:
          max: (_io.size - _io.pos) / datatype.width
      - id: value
        -orig-id: Value
        size: num_values * datatype.width
