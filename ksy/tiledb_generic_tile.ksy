meta:
  id: tiledb_generic_tile
  title: TileDB generic tile
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_datatype
    - tiledb_filter_pipeline
  endian: le
doc: |
  The envelope of every delete, update, schema, enumeration and metadata file:
  a header that makes the tile readable without a schema, the filters, and the
  filtered bytes in chunks.

  Where it is one chunk with one GZIP part and no encryption, the specs that
  import this one inflate it themselves. Several chunks, or an encrypted tile,
  show their framing: no Kaitai process can join chunks, and none has the key.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/generic_tile.md
-webide-representation: >-
  version {version:dec}, {len_tile:dec} bytes, {filter_pipeline}{why_closed}
seq:
  - id: version
    -orig-id: version_number
    type: u4
    doc: |
      Format version of the library that wrote the tile. The engine reads a
      tile whatever stands here, so no number is refused.
  - id: len_persisted
    -orig-id: persisted_size
    type: u8
    valid:
      min: 8
      max: _io.size - _io.pos
    doc: Bytes that follow the pipeline.
  - id: len_tile
    -orig-id: tile_size
    type: u8
    doc: |
      Unfiltered bytes, the sum of what the chunks hold. A reader must bound it
      before it takes that memory.
  - id: datatype
    type: u1
    enum: tiledb_datatype::codes
    doc: The engine reads a tile whatever stands here, as for the version.
  - id: len_cell
    -orig-id: cell_size
    type: u8
    doc: Bytes of a cell, which the engine has no use for here.
  - id: encryption_type
    type: u1
    enum: encryption_types
    valid:
      in-enum: true
  - id: len_filter_pipeline
    -orig-id: filter_pipeline_size
    type: u4
    valid:
      min: 8
      max: _io.size - _io.pos
  - id: filter_pipeline
    -orig-id: filters
    size: len_filter_pipeline
    type: tiledb_filter_pipeline
  - id: tile
    size: len_persisted
    type: tile_chunks(outer_filter)
instances:
  num_filters:
    value: filter_pipeline.num_filters
  outer_filter:
    value: >-
      num_filters == 0 ? tiledb_filter_pipeline::filter_types::none
      : filter_pipeline.filters[num_filters - 1].filter_type
    doc: The filter that ran last, whose framing is the outermost.
  is_one_zlib_stream:
    value: >-
      num_filters == 1
      and outer_filter == tiledb_filter_pipeline::filter_types::gzip
      and tile.num_chunks == 1 and tile.chunks[0].is_one_part
    doc: Whether a Kaitai process can inflate it.
  why_closed:
    value: >-
      is_one_zlib_stream ? ""
      : encryption_type != encryption_types::no_encryption
      ? " (closed: it is encrypted, and a spec has no key)"
      : tile.num_chunks == 0 ? " (closed: it has no chunk)"
      : tile.num_chunks > 1 ? " (closed: no spec can join several chunks)"
      : " (closed: it is no single zlib stream)"
    doc: Why the payload is not shown; empty where it is.
enums:
  encryption_types:
    0:
      id: no_encryption
      -orig-id: TILEDB_NO_ENCRYPTION
    1:
      id: aes_256_gcm
      -orig-id: TILEDB_AES_256_GCM
types:
  tile_chunks:
    doc: The chunks, in the order of the bytes that they hold.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md
    -webide-representation: '{num_chunks:dec} chunks'
    params:
      - id: outer_filter
        type: u1
        enum: tiledb_filter_pipeline::filter_types
    seq:
      - id: num_chunks
        type: u8
        valid:
          max: (_io.size - _io.pos) / 12
      - id: chunks
        -orig-id: filtered_chunks_
        type: tile_chunk(outer_filter)
        repeat: expr
        repeat-expr: num_chunks
      - id: trailing
        size-eos: true
        valid: '[].as<bytes>'
        doc: Must be empty.
  tile_chunk:
    doc: At most max_chunk_size original bytes, filtered on their own.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md
    -webide-representation: '{len_original:dec} to {len_filtered:dec} bytes'
    params:
      - id: outer_filter
        type: u1
        enum: tiledb_filter_pipeline::filter_types
    seq:
      - id: len_original
        -orig-id: unfiltered_data_size_
        type: u4
      - id: len_filtered
        -orig-id: filtered_data_size_
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: len_metadata
        -orig-id: filtered_metadata_size_
        type: u4
        valid:
          max: _io.size - _io.pos - len_filtered
      - id: metadata
        -orig-id: filtered_metadata_
        size: len_metadata
        type:
          switch-on: outer_filter
          cases:
            tiledb_filter_pipeline::filter_types::gzip: compressed_parts
            tiledb_filter_pipeline::filter_types::zstd: compressed_parts
            tiledb_filter_pipeline::filter_types::lz4: compressed_parts
            tiledb_filter_pipeline::filter_types::rle: compressed_parts
            tiledb_filter_pipeline::filter_types::bzip2: compressed_parts
            tiledb_filter_pipeline::filter_types::double_delta: compressed_parts
            tiledb_filter_pipeline::filter_types::dictionary: compressed_parts
            tiledb_filter_pipeline::filter_types::delta: compressed_parts
            tiledb_filter_pipeline::filter_types::aes_256_gcm: encrypted_parts
            _: other_metadata
      - id: filtered
        -orig-id: filtered_data_
        size: len_filtered
        type: filtered_bytes
    instances:
      is_one_part:
        value: >-
          outer_filter == tiledb_filter_pipeline::filter_types::gzip
          and metadata.as<compressed_parts>.num_metadata_parts == 0
          and metadata.as<compressed_parts>.num_data_parts == 1
  compressed_parts:
    doc: How long each part is, before and after the compressor.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md#compression-filters
    -webide-representation: '{data_parts}'
    seq:
      - id: num_metadata_parts
        type: u4
        valid:
          max: (_io.size - _io.pos) / 8
      - id: num_data_parts
        type: u4
        valid:
          max: (_io.size - _io.pos) / 8 - num_metadata_parts
      - id: metadata_parts
        type: compressed_part
        repeat: expr
        repeat-expr: num_metadata_parts
      - id: data_parts
        type: compressed_part
        repeat: expr
        repeat-expr: num_data_parts
      - id: trailing
        size-eos: true
        valid: '[].as<bytes>'
        doc: Must be empty.
  compressed_part:
    doc: The two lengths of one part.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md#compression-filters
    -webide-representation: '{len_original:dec} to {len_compressed:dec} bytes'
    seq:
      - id: len_original
        -orig-id: uncompressed_size
        type: u4
      - id: len_compressed
        -orig-id: compressed_size
        type: u4
  encrypted_parts:
    doc: |
      What it takes to decrypt each part, but for the key. The metadata of the
      filter before is itself an encrypted part.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md#encryption-filters
    -webide-representation: '{data_parts}'
    seq:
      - id: num_metadata_parts
        type: u4
        valid:
          max: (_io.size - _io.pos) / 36
      - id: num_data_parts
        type: u4
        valid:
          max: (_io.size - _io.pos) / 36 - num_metadata_parts
      - id: metadata_parts
        type: encrypted_part
        repeat: expr
        repeat-expr: num_metadata_parts
      - id: data_parts
        type: encrypted_part
        repeat: expr
        repeat-expr: num_data_parts
      - id: trailing
        size-eos: true
        valid: '[].as<bytes>'
        doc: Must be empty.
  encrypted_part:
    doc: One part that AES-256-GCM encrypted.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md#encryption-filters
    -webide-representation: '{len_plain:dec} bytes, tag {tag:hex}'
    seq:
      - id: len_plain
        -orig-id: plaintext_size
        type: u4
      - id: len_encrypted
        -orig-id: encrypted_size
        type: u4
      - id: iv
        -orig-id: iv_bytes
        size: 12
      - id: tag
        -orig-id: tag_bytes
        size: 16
  other_metadata:
    doc: The metadata of a filter that no commit file carries, left as it is.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md
    seq:
      - id: raw
        size-eos: true
  filtered_bytes:
    doc: The parts one after the other, metadata parts first.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/tile.md
    seq:
      - id: raw
        size-eos: true
