meta:
  id: tiledb_consolidated_commits
  title: TileDB consolidated commits file
  application: TileDB
  file-extension: con
  tags:
    - database
    - log
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_delete_commit
    - tiledb_update_commit
  encoding: UTF-8
  endian: le
doc: |
  A `.con` file: commits one after the other, with no header, count or checksum.
  A file that was cut short between two records cannot be told from a whole one.

  Only the extension tells what follows a URI. What a URI must look like beyond
  that, and which time range the file's own name gives, is no matter of bytes.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md
seq:
  - id: records
    type: commit_record
    repeat: eos
types:
  commit_record:
    doc: |
      One commit: the URI of its file, relative to the array, and for a delete
      or an update the whole of that file.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md
    -webide-representation: '{uri}{body}'
    seq:
      - id: uri
        type: strz
        terminator: 0x0a
        valid:
          expr: >-
            extension == ".del" or extension == ".upd" or extension == ".wrt"
            or extension.substring(1, 4) == ".ok"
      - id: body
        type:
          switch-on: extension
          cases:
            '".del"': delete_record
            '".upd"': update_record
            _: write_record
    instances:
      extension:
        value: >-
          uri.length > 4 ? uri.substring(uri.length - 4, uri.length) : "none"
        doc: The last four characters.
  write_record:
    doc: A fragment that was committed; nothing follows its URI.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md#fragment-commit
  delete_record:
    doc: A delete, with the whole of its file.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md
    -webide-representation: ': keep {tile}'
    seq:
      - id: len_tile
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: tile
        size: len_tile
        type: delete_tile
  delete_tile:
    doc: |
      The bytes of a `.del` file. They are parsed apart from the record, so
      that a damaged tile hides no other record.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{commit}'
    seq:
      - id: raw
        size-eos: true
    instances:
      commit:
        pos: 0
        type: tiledb_delete_commit
        -webide-parse-mode: eager
  update_record:
    doc: An update, with the whole of its file.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md
    -webide-representation: ': {tile}'
    seq:
      - id: len_tile
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: tile
        size: len_tile
        type: update_tile
  update_tile:
    doc: The bytes of a `.upd` file, parsed apart from the record.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
    -webide-representation: '{commit}'
    seq:
      - id: raw
        size-eos: true
    instances:
      commit:
        pos: 0
        type: tiledb_update_commit
        -webide-parse-mode: eager
