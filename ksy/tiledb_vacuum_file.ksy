meta:
  id: tiledb_vacuum_file
  title: TileDB vacuum file
  application: TileDB
  file-extension: vac
  tags:
    - database
    - log
  license: MIT
  ks-version: '0.9'
  encoding: UTF-8
doc: |
  A `.vac` file: fragments (in `__meta`, metadata files) that were consolidated
  into another and may be removed. From version 19 on a line is relative to the
  array and starts with a slash; before, it is an absolute URI, of which only
  the end still holds once the array has moved.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/vacuum_file.md
seq:
  - id: entries
    type: vacuumed_item
    repeat: eos
types:
  vacuumed_item:
    doc: One fragment or metadata file.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/vacuum_file.md
    -webide-representation: '{uri}'
    seq:
      - id: uri
        type: strz
        terminator: 0x0a
        valid:
          expr: _.length > 0
