meta:
  id: tiledb_operand
  title: TileDB value of a field in a condition or an update
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_datatype
  endian: le
doc: |
  Raw bytes of the field's type, which only the array's schema tells: an
  attribute or a dimension; for an enumeration the index of the label; for a
  date or time an i64 in the field's unit.

  All but `raw` is a guess, for people who look at a tree. Printable bytes are
  text first: four or eight of them are text, one or two may also be a number.
  Eight bytes are a float64 if that is neither tiny nor huge. Other values of 1,
  2, 4 or 8 bytes are integers, all others are text.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
-webide-representation: '{guess}'
seq:
  - id: raw
    size-eos: true
# Presentation: no reader needs what follows.
instances:
  is_printable:
    value: raw.length == 0 or (raw.min >= 0x20 and raw.max <= 0x7e)
  top:
    value: 'raw.length == 8 ? raw[7] * 256 + raw[6] : 0'
    doc: Of eight bytes the two highest, which have the exponent of a float64.
  is_float:
    value: (top % 0x8000) / 16 >= 983 and (top % 0x8000) / 16 <= 1073
    doc: Whether a float64 is from 2^-40 to 2^50, or minus that.
  shape:
    value: >-
      is_printable and raw.length > 0 and raw.length <= 2 ? shapes::short_text
      : is_printable ? shapes::text
      : raw.length == 1 ? shapes::s1
      : raw.length == 2 ? shapes::s2
      : raw.length == 4 ? shapes::s4
      : raw.length != 8 ? shapes::text
      : is_float ? shapes::f8
      : top >= 0x8000 and top < 0xfff0 ? shapes::u8
      : shapes::s8
    doc: A negative integer of eight bytes is small, or it is none.
  guess:
    pos: 0
    type:
      switch-on: shape
      cases:
        shapes::short_text: guess_short_text
        shapes::s1: tiledb_datatype::value_number(tiledb_datatype::codes::int8)
        shapes::s2: tiledb_datatype::value_number(tiledb_datatype::codes::int16)
        shapes::s4: tiledb_datatype::value_number(tiledb_datatype::codes::int32)
        shapes::s8: tiledb_datatype::value_s8
        shapes::u8: guess_u8
        shapes::f8: >-
          tiledb_datatype::value_number(tiledb_datatype::codes::float64)
        _: tiledb_datatype::value_text
    -webide-parse-mode: eager
types:
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
  guess_u8:
    doc: |
      Eight bytes that are a large unsigned integer, or a negative one far from
      0, such as a date long ago in nanoseconds.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{value:dec} or {negative:dec}'
    seq:
      - id: low
        type: u4
      - id: high
        type: u4
    instances:
      value:
        value: high * 4294967296 + low
      negative:
        value: (high - 4294967296) * 4294967296 + low
enums:
  shapes:
    0: text
    1: s1
    2: s2
    3: short_text
    4: s4
    5: u8
    6: f8
    8: s8
