meta:
  id: tiledb_operand
  title: TileDB value of a field in a condition or an update
  application: TileDB
  license: MIT
  ks-version: '0.9'
  endian: le
doc: |
  Raw bytes of the field's type, which only the array's schema tells: an
  attribute or a dimension; for an enumeration the index of the label; for a
  date or time an i64 in the field's unit.

  All but `raw` is a guess, for people who look at a tree. Printable bytes are
  text first: four or eight of them are text, one or two may also be a number.
  Other values of 1, 2, 4 or 8 bytes are integers, all others are text.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
-webide-representation: '{guess}'
seq:
  - id: raw
    size-eos: true
# Presentation: no reader needs what follows.
instances:
  is_printable:
    value: >-
      (raw.length < 1 or (raw[0] >= 0x20 and raw[0] <= 0x7e))
      and (raw.length < 2 or (raw[1] >= 0x20 and raw[1] <= 0x7e))
      and (raw.length < 3 or (raw[2] >= 0x20 and raw[2] <= 0x7e))
      and (raw.length < 4 or (raw[3] >= 0x20 and raw[3] <= 0x7e))
      and (raw.length < 5 or (raw[4] >= 0x20 and raw[4] <= 0x7e))
      and (raw.length < 6 or (raw[5] >= 0x20 and raw[5] <= 0x7e))
      and (raw.length < 7 or (raw[6] >= 0x20 and raw[6] <= 0x7e))
      and (raw.length < 8 or (raw[7] >= 0x20 and raw[7] <= 0x7e))
    doc: Whether the first eight bytes are printable ASCII.
  shape:
    value: >-
      raw.length == 1 ? (is_printable ? shapes::short_text : shapes::s1)
      : raw.length == 2 ? (is_printable ? shapes::short_text : shapes::s2)
      : raw.length == 4 ? (is_printable ? shapes::text : shapes::s4)
      : raw.length == 8 ? (is_printable ? shapes::text : shapes::s8)
      : shapes::text
  guess:
    pos: 0
    type:
      switch-on: shape
      cases:
        shapes::short_text: guess_short_text
        shapes::s1: guess_s1
        shapes::s2: guess_s2
        shapes::s4: guess_s4
        shapes::s8: guess_s8
        _: guess_text
    -webide-parse-mode: eager
types:
  guess_text:
    doc: A value that is text, or of a width that no integer has.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{value:str}'
    seq:
      - id: value
        size-eos: true
  guess_short_text:
    doc: One or two printable bytes, which are as often a small integer.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{value:str} or {number:dec}'
    seq:
      - id: value
        size-eos: true
    instances:
      number:
        value: 'value.length == 1 ? value[0] : value[0] + 256 * value[1]'
        -webide-parse-mode: eager
  guess_s1:
    doc: A value of one byte, if it is an integer.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{value:dec}'
    seq:
      - id: value
        type: s1
  guess_s2:
    doc: A value of two bytes, if it is an integer.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{value:dec}'
    seq:
      - id: value
        type: s2
  guess_s4:
    doc: A value of four bytes, if it is an integer.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{value:dec}'
    seq:
      - id: value
        type: s4
  guess_s8:
    doc: |
      A value of eight bytes, if it is an integer. It is put together from two
      halves: the JavaScript runtime's own s8 is off by 2^32 for some negative
      values.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{value:dec}'
    seq:
      - id: low
        type: u4
      - id: high
        type: s4
    instances:
      value:
        value: high * 4294967296 + low
        -webide-parse-mode: eager
enums:
  shapes:
    0: text
    1: s1
    2: s2
    3: short_text
    4: s4
    8: s8
