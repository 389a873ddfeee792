meta:
  id: tiledb_filter_pipeline
  title: TileDB filter pipeline
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_datatype
  endian: le
doc: |
  The filters that a tile went through on its way to disk, in that order.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md
-webide-representation: '{filters}'
seq:
  - id: len_chunk_max
    -orig-id: max_chunk_size
    type: u4
    doc: Most original bytes that a chunk holds.
  - id: num_filters
    type: u4
    valid:
      max: (_io.size - _io.pos) / 5
  - id: filters
    type: tile_filter
    repeat: expr
    repeat-expr: num_filters
types:
  tile_filter:
    doc: One filter and its options.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md#filter
    -webide-representation: '{filter_type}'
    seq:
      - id: filter_type
        -orig-id: type
        type: u1
        enum: filter_types
        valid:
          in-enum: true
      - id: len_options
        -orig-id: filter_metadata_len
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: options
        size: len_options
        type:
          switch-on: filter_type
          cases:
            filter_types::gzip: compression_options
            filter_types::zstd: compression_options
            filter_types::lz4: compression_options
            filter_types::rle: compression_options
            filter_types::bzip2: compression_options
            filter_types::double_delta: compression_options
            filter_types::dictionary: compression_options
            filter_types::delta: compression_options
            filter_types::bit_width_reduction: window_options
            filter_types::positive_delta: window_options
            _: other_options
  compression_options:
    doc: |
      Which compressor, and how hard it tries. A delta filter of version 19 or
      later (a double delta of version 20 or later) adds the datatype as which
      it reads the bytes.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md#filter-options
    -webide-representation: '{compressor}, level {level:dec}'
    seq:
      - id: compressor
        -orig-id: compressor_char
        type: u1
        enum: compressors
        doc: The filter again; the engine reads on whatever stands here.
      - id: level
        -orig-id: compression_level
        type: s4
        doc: What it means is up to the compressor; -1 is its own choice.
      - id: reinterpret_datatype
        -orig-id: reinterpret
        type: tiledb_datatype
        if: not _io.eof
      - id: trailing
        size-eos: true
        valid: '[].as<bytes>'
        doc: Must be empty.
  window_options:
    doc: The longest run of bytes that the filter takes at once.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md#filter-options
    -webide-representation: 'window {len_window_max:dec}'
    seq:
      - id: len_window_max
        -orig-id: max_window_size
        type: u4
      - id: trailing
        size-eos: true
        valid: '[].as<bytes>'
        doc: Must be empty.
  other_options:
    doc: Options that no commit file carries, left as they are.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/filter_pipeline.md#filter-options
    seq:
      - id: raw
        size-eos: true
enums:
  compressors:
    0:
      id: no_compression
      -orig-id: NO_COMPRESSION
    1:
      id: gzip
      -orig-id: GZIP
    2:
      id: zstd
      -orig-id: ZSTD
    3:
      id: lz4
      -orig-id: LZ4
    4:
      id: rle
      -orig-id: RLE
    5:
      id: bzip2
      -orig-id: BZIP2
    6:
      id: double_delta
      -orig-id: DOUBLE_DELTA
    7:
      id: dictionary
      -orig-id: DICTIONARY_ENCODING
    8:
      id: delta
      -orig-id: DELTA
  filter_types:
    0:
      id: none
      -orig-id: TILEDB_FILTER_NONE
    1:
      id: gzip
      -orig-id: TILEDB_FILTER_GZIP
      doc: A zlib stream, whatever the name says.
    2:
      id: zstd
      -orig-id: TILEDB_FILTER_ZSTD
    3:
      id: lz4
      -orig-id: TILEDB_FILTER_LZ4
    4:
      id: rle
      -orig-id: TILEDB_FILTER_RLE
    5:
      id: bzip2
      -orig-id: TILEDB_FILTER_BZIP2
    6:
      id: double_delta
      -orig-id: TILEDB_FILTER_DOUBLE_DELTA
    7:
      id: bit_width_reduction
      -orig-id: TILEDB_FILTER_BIT_WIDTH_REDUCTION
    8:
      id: bitshuffle
      -orig-id: TILEDB_FILTER_BITSHUFFLE
    9:
      id: byteshuffle
      -orig-id: TILEDB_FILTER_BYTESHUFFLE
    10:
      id: positive_delta
      -orig-id: TILEDB_FILTER_POSITIVE_DELTA
    11:
      id: aes_256_gcm
      -orig-id: INTERNAL_FILTER_AES_256_GCM
      doc: Written by the engine itself for an encrypted array.
    12:
      id: checksum_md5
      -orig-id: TILEDB_FILTER_CHECKSUM_MD5
    13:
      id: checksum_sha256
      -orig-id: TILEDB_FILTER_CHECKSUM_SHA256
    14:
      id: dictionary
      -orig-id: TILEDB_FILTER_DICTIONARY
    15:
      id: scale_float
      -orig-id: TILEDB_FILTER_SCALE_FLOAT
    16:
      id: xor
      -orig-id: TILEDB_FILTER_XOR
    17:
      id: deprecated
      -orig-id: TILEDB_FILTER_DEPRECATED
    18:
      id: webp
      -orig-id: TILEDB_FILTER_WEBP
    19:
      id: delta
      -orig-id: TILEDB_FILTER_DELTA
