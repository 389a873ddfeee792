meta:
  id: tiledb_ignore_file
  title: TileDB ignore file
  application: TileDB
  file-extension: ign
  tags:
    - database
    - log
  license: MIT
  ks-version: '0.9'
  encoding: UTF-8
doc: |
  An `.ign` file: commits that stand in a consolidated commits file and no
  longer count.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/ignore_file.md
seq:
  - id: entries
    type: ignored_commit
    repeat: eos
types:
  ignored_commit:
    doc: One commit, by its URI relative to the array.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/ignore_file.md
    -webide-representation: '{uri}'
    seq:
      - id: uri
        type: strz
        terminator: 0x0a
        valid:
          expr: _.length > 0
