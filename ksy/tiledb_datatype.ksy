meta:
  id: tiledb_datatype
  title: TileDB datatype
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  endian: le
doc: |
  One byte that names the type of a value, the length that follows from it, and
  types that show values as people read them.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
-webide-representation: '{code}'
seq:
  - id: code
    type: u1
    enum: codes
    valid:
      in-enum: true
instances:
  is_time:
    value: >-
      code.to_i >= codes::datetime_year.to_i
      and code.to_i <= codes::time_as.to_i
    doc: Dates and times count units in a signed 64-bit integer.
  len_value:
    value: >-
      is_time or code == codes::int64
        or code == codes::uint64 or code == codes::float64 ? 8
      : code == codes::int32 or code == codes::uint32 or code == codes::float32
        or code == codes::string_utf32 or code == codes::string_ucs4 ? 4
      : code == codes::int16 or code == codes::uint16
        or code == codes::string_utf16 or code == codes::string_ucs2 ? 2
      : 1
types:
  typed_values:
    doc: |
      Values of one datatype, one after the other. All but `raw` is for people
      who look at a tree; what is text, or has no form of its own, is one item.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
    -webide-representation: '{items}'
    params:
      - id: code
        type: u1
        enum: codes
    seq:
      - id: raw
        size-eos: true
    instances:
      items:
        pos: 0
        type:
          switch-on: code
          cases:
            codes::int8: value_number(code)
            codes::uint8: value_number(code)
            codes::int16: value_number(code)
            codes::uint16: value_number(code)
            codes::int32: value_number(code)
            codes::uint32: value_number(code)
            codes::uint64: value_number(code)
            codes::float32: value_number(code)
            codes::float64: value_number(code)
            codes::bool: value_number(code)
            codes::char: value_text
            codes::string_ascii: value_text
            codes::string_utf8: value_text
            codes::string_utf16: value_text
            codes::string_utf32: value_text
            codes::string_ucs2: value_text
            codes::string_ucs4: value_text
            codes::any: value_text
            codes::blob: value_text
            codes::geom_wkb: value_text
            codes::geom_wkt: value_text
            _: value_s8
        repeat: eos
        -webide-parse-mode: eager
  value_text:
    doc: Text, or bytes that have no other form.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
    -webide-representation: '{value:str}'
    seq:
      - id: value
        size-eos: true
  value_number:
    doc: A number of any datatype but a signed one of 8 bytes.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
    -webide-representation: '{value:dec}'
    params:
      - id: code
        type: u1
        enum: codes
    seq:
      - id: value
        type:
          switch-on: code
          cases:
            codes::int8: s1
            codes::int16: s2
            codes::uint16: u2
            codes::int32: s4
            codes::uint32: u4
            codes::uint64: u8
            codes::float32: f4
            codes::float64: f8
            _: u1
  value_s8:
    doc: |
      A signed number of 8 bytes. It is put together from two halves: the
      JavaScript runtime's own s8 is off by 2^32 for some negative values.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/api/c_api/datatype/datatype_api_enum.h
    -webide-representation: '{value:dec}'
    seq:
      - id: low
        type: u4
      - id: high
        type: s4
    instances:
      value:
        value: high * 4294967296 + low
enums:
  codes:
    0:
      id: int32
      -orig-id: TILEDB_INT32
    1:
      id: int64
      -orig-id: TILEDB_INT64
    2:
      id: float32
      -orig-id: TILEDB_FLOAT32
    3:
      id: float64
      -orig-id: TILEDB_FLOAT64
    4:
      id: char
      -orig-id: TILEDB_CHAR
    5:
      id: int8
      -orig-id: TILEDB_INT8
    6:
      id: uint8
      -orig-id: TILEDB_UINT8
    7:
      id: int16
      -orig-id: TILEDB_INT16
    8:
      id: uint16
      -orig-id: TILEDB_UINT16
    9:
      id: uint32
      -orig-id: TILEDB_UINT32
    10:
      id: uint64
      -orig-id: TILEDB_UINT64
    11:
      id: string_ascii
      -orig-id: TILEDB_STRING_ASCII
    12:
      id: string_utf8
      -orig-id: TILEDB_STRING_UTF8
    13:
      id: string_utf16
      -orig-id: TILEDB_STRING_UTF16
    14:
      id: string_utf32
      -orig-id: TILEDB_STRING_UTF32
    15:
      id: string_ucs2
      -orig-id: TILEDB_STRING_UCS2
    16:
      id: string_ucs4
      -orig-id: TILEDB_STRING_UCS4
    17:
      id: any
      -orig-id: TILEDB_ANY
    18:
      id: datetime_year
      -orig-id: TILEDB_DATETIME_YEAR
    19:
      id: datetime_month
      -orig-id: TILEDB_DATETIME_MONTH
    20:
      id: datetime_week
      -orig-id: TILEDB_DATETIME_WEEK
    21:
      id: datetime_day
      -orig-id: TILEDB_DATETIME_DAY
    22:
      id: datetime_hr
      -orig-id: TILEDB_DATETIME_HR
    23:
      id: datetime_min
      -orig-id: TILEDB_DATETIME_MIN
    24:
      id: datetime_sec
      -orig-id: TILEDB_DATETIME_SEC
    25:
      id: datetime_ms
      -orig-id: TILEDB_DATETIME_MS
    26:
      id: datetime_us
      -orig-id: TILEDB_DATETIME_US
    27:
      id: datetime_ns
      -orig-id: TILEDB_DATETIME_NS
    28:
      id: datetime_ps
      -orig-id: TILEDB_DATETIME_PS
    29:
      id: datetime_fs
      -orig-id: TILEDB_DATETIME_FS
    30:
      id: datetime_as
      -orig-id: TILEDB_DATETIME_AS
    31:
      id: time_hr
      -orig-id: TILEDB_TIME_HR
    32:
      id: time_min
      -orig-id: TILEDB_TIME_MIN
    33:
      id: time_sec
      -orig-id: TILEDB_TIME_SEC
    34:
      id: time_ms
      -orig-id: TILEDB_TIME_MS
    35:
      id: time_us
      -orig-id: TILEDB_TIME_US
    36:
      id: time_ns
      -orig-id: TILEDB_TIME_NS
    37:
      id: time_ps
      -orig-id: TILEDB_TIME_PS
    38:
      id: time_fs
      -orig-id: TILEDB_TIME_FS
    39:
      id: time_as
      -orig-id: TILEDB_TIME_AS
    40:
      id: blob
      -orig-id: TILEDB_BLOB
    41:
      id: bool
      -orig-id: TILEDB_BOOL
    42:
      id: geom_wkb
      -orig-id: TILEDB_GEOM_WKB
    43:
      id: geom_wkt
      -orig-id: TILEDB_GEOM_WKT
