meta:
  id: tiledb_fragment_metadata
  title: TileDB fragment metadata
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_array_schema
    - tiledb_datatype
    - tiledb_generic_tile
  encoding: UTF-8
  endian: le
doc: |
  A file `__fragment_metadata.tdb`: generic tiles one after the other, a footer
  that says where each of them starts, and the footer's length. Before version
  10 the length is there only if a dimension varies in length; versions 1 and 2
  have no footer, and one tile.

  The footer cannot be read alone: how many fields it has and how wide they are
  stands in the schema that it names. So this spec frames the file, and shows
  each tile and the footer's head. A program that has the schema reads the rest
  with the types that take parameters: `fragment_footer`, `r_tree` and
  `fragment_statistics`; and the other tiles with `tile_numbers`, `tile_bounds`
  and `processed_conditions`.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md
-webide-representation: '{footer}'
seq:
  - id: tiles
    type: metadata_tile
    repeat: until
    repeat-until: not _.is_followed_by_tile
    doc: Only the footer says what each of them is.
  - id: footer
    type:
      switch-on: _io.eof
      cases:
        'true': no_footer
        'false': framed_footer
types:
  metadata_tile:
    doc: One of the tiles before the footer.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md
    -webide-representation: '{tile}'
    seq:
      - id: tile
        type: tiledb_generic_tile
    instances:
      is_followed_by_tile:
        value: '_io.size - _io.pos >= 34 ? next_header.is_tile : false'
        doc: To be asked right behind the tile.
      next_header:
        pos: _io.pos
        type: tile_header
        if: _io.size - _io.pos >= 34
      payload:
        io: tile.tile.chunks[0].filtered._io
        pos: 0
        size-eos: true
        process: zlib
        if: tile.is_one_zlib_stream
        doc: |
          The inflated payload, where the tile is one zlib stream. Inflating is
          not bounded here: a program checks the sizes first.
  tile_header:
    doc: |
      What a tile starts with, or a footer: only one that goes on as a tile does
      is a tile.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/generic_tile.md
    seq:
      - id: version
        -orig-id: version_number
        type: u4
      - id: len_persisted
        -orig-id: persisted_size
        type: u8
      - id: len_tile
        -orig-id: tile_size
        type: u8
      - id: datatype
        type: u1
      - id: len_cell
        -orig-id: cell_size
        type: u8
      - id: encryption_type
        type: u1
      - id: len_filter_pipeline
        -orig-id: filter_pipeline_size
        type: u4
    instances:
      is_tile:
        value: >-
          encryption_type <= 1
          and len_filter_pipeline >= 8 and len_filter_pipeline <= 0x10000
          and len_persisted >= 8
          and len_persisted <= _io.size - _io.pos - 34 - len_filter_pipeline
        doc: To be asked while the stream is where the header starts.
  no_footer:
    doc: The end of a file of version 1 or 2.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#legacy-fragment-metadata-file
    -webide-representation: 'none: versions 1 and 2 have all in their one tile'
  framed_footer:
    doc: |
      A footer, of which all but the head takes a schema to read, and its length
      where there is one.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
    -webide-representation: '{head}'
    seq:
      - id: head
        type: footer_head
      - id: rest
        size: _io.size - _io.pos - len_len_footer
        doc: The type `fragment_footer` reads it, head and all.
      - id: len_footer
        type: u8
        valid: head.len_head + rest.length
        if: len_len_footer != 0
        doc: Bytes of the footer, itself not counted.
    instances:
      last_number:
        pos: '_io.size >= 8 ? _io.size - 8 : 0'
        type: u8
      len_len_footer:
        value: >-
          head.version >= 10
          or last_number == _io.size - _io.pos + head.len_head - 8 ? 8 : 0
        doc: |
          Bytes of the length behind the footer; to be asked right behind the
          head. Before version 10 only the length itself tells whether it is
          there.
  footer_head:
    doc: What can be told of a footer without its schema.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
    -webide-representation: 'version {version:dec} {schema_name}'
    seq:
      - id: version
        -orig-id: version_
        type: u4
        valid:
          min: 3
          max: 23
        doc: Versions 1 and 2 have no footer; what comes after 23 is not known.
      - id: len_schema_name
        type: u8
        valid:
          max: _io.size - _io.pos
        if: version >= 10
      - id: schema_name
        -orig-id: array_schema_name_
        size: len_schema_name
        type: str
        if: version >= 10
        doc: The name of the file in `__schema`.
      - id: dense
        -orig-id: dense_
        type: u1
        valid:
          max: 1
      - id: null_domain
        -orig-id: null_non_empty_domain
        type: u1
        valid:
          max: 1
    instances:
      is_dense:
        value: dense != 0
      is_null_domain:
        value: null_domain != 0
      len_head:
        value: 'version >= 10 ? 14 + len_schema_name : 6'
        doc: Bytes of all this.
  fragment_footer:
    doc: |
      The whole footer. `len_coordinates` has a byte for each dimension: the
      length of a coordinate, or 0 where coordinates vary in length.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
    -webide-representation: '{head}, {num_tiles:dec} tiles'
    params:
      - id: num_attributes
        type: u4
      - id: len_coordinates
        type: bytes
    seq:
      - id: head
        type: footer_head
      - id: ranges
        -orig-id: non_empty_domain_
        type: tiledb_array_schema::dimension_range(len_coordinates[_index])
        repeat: expr
        repeat-expr: len_coordinates.length
        if: not head.is_null_domain
      - id: num_tiles
        -orig-id: sparse_tile_num_
        type: u8
      - id: num_last_cells
        -orig-id: last_tile_cell_num_
        type: u8
      - id: timestamps
        -orig-id: has_timestamps_
        type: u1
        valid:
          max: 1
        if: head.version >= 14
      - id: delete_metadata
        -orig-id: has_delete_meta_
        type: u1
        valid:
          max: 1
        if: head.version >= 15
      - id: file_sizes
        -orig-id: file_sizes_
        type: u8
        repeat: expr
        repeat-expr: num_fields
      - id: var_file_sizes
        -orig-id: file_var_sizes_
        type: u8
        repeat: expr
        repeat-expr: num_var_fields
      - id: validity_file_sizes
        -orig-id: file_validity_sizes_
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 7
      - id: ofs_r_tree
        -orig-id: rtree_
        type: u8
      - id: ofs_tile_offsets
        -orig-id: tile_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_fields
      - id: ofs_var_tile_offsets
        -orig-id: tile_var_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_var_fields
      - id: ofs_var_tile_sizes
        -orig-id: tile_var_sizes_
        type: u8
        repeat: expr
        repeat-expr: num_var_fields
      - id: ofs_validity_tile_offsets
        -orig-id: tile_validity_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 7
      - id: ofs_tile_minima
        -orig-id: tile_min_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 11
      - id: ofs_tile_maxima
        -orig-id: tile_max_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 11
      - id: ofs_tile_sums
        -orig-id: tile_sum_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 11
      - id: ofs_tile_null_counts
        -orig-id: tile_null_count_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 11
      - id: ofs_fragment_statistics
        -orig-id: fragment_min_max_sum_null_count_offset_
        type: u8
        if: head.version >= 12
      - id: ofs_processed_conditions
        -orig-id: processed_conditions_offsets_
        type: u8
        if: head.version >= 16
      - id: num_sections
        -orig-id: count
        type: u4
        valid:
          max: (_io.size - _io.pos) / 12
        if: head.version >= 23
      - id: sections
        type: footer_section(len_coordinates.length)
        repeat: expr
        repeat-expr: num_sections
        if: head.version >= 23
        doc: What later versions may add; of one type, the last one counts.
    instances:
      has_timestamps:
        value: 'head.version >= 14 ? timestamps != 0 : false'
        doc: Whether each cell has the time at which it was written.
      has_delete_metadata:
        value: 'head.version >= 15 ? delete_metadata != 0 : false'
        doc: Whether each cell has the time of its deletion, and its deleter.
      num_fields:
        value: >-
          num_attributes + 1 + (head.version >= 5 ? len_coordinates.length : 0)
          + (has_timestamps ? 1 : 0) + (has_delete_metadata ? 2 : 0)
        doc: Attributes, the coordinates of old, dimensions, times.
      num_var_fields:
        value: 'head.version >= 5 ? num_fields : num_attributes'
  footer_section:
    doc: |
      An optional part of a footer. A reader passes over a type that it does not
      know.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#optional-section
    -webide-representation: '{section_type}'
    params:
      - id: num_dimensions
        type: u4
    seq:
      - id: section_type
        -orig-id: identifier
        type: u8
        enum: section_types
        doc: A number that is not listed here is no error.
      - id: len_data
        -orig-id: data_size
        type: u4
        valid:
          min: >-
            section_type == section_types::tile_global_order
            ? 16 * num_dimensions : 0
          max: >-
            section_type == section_types::tile_global_order
            ? 16 * num_dimensions : _io.size - _io.pos
      - id: data
        size: len_data
        type:
          switch-on: section_type
          cases:
            section_types::tile_global_order: tile_global_order(num_dimensions)
            _: unknown_section
  tile_global_order:
    doc: |
      Where the tiles start that hold, for each dimension, the coordinates of
      the first and of the last cell of each tile in the global order. Their
      payload is `tile_bounds`. A fragment that is not dense has these tiles
      even if the footer has no section that says where; the page's table of
      the file leaves them out.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-global-order
    params:
      - id: num_dimensions
        type: u4
    seq:
      - id: ofs_first_coordinates
        -orig-id: tile_global_order_min_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_dimensions
      - id: ofs_last_coordinates
        -orig-id: tile_global_order_max_offsets_
        type: u8
        repeat: expr
        repeat-expr: num_dimensions
  unknown_section:
    doc: A section of a type that is not known, left as it is.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#optional-section
    seq:
      - id: raw
        size-eos: true
  r_tree:
    doc: |
      The payload of the first tile: boxes around the coordinates of the tiles,
      and boxes around those. The last level has a box for each tile of a sparse
      fragment; a dense fragment has none.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#r-tree
    -webide-representation: '{num_levels:dec} levels'
    params:
      - id: version
        type: u4
        doc: The format version of the footer.
      - id: len_coordinates
        type: bytes
        doc: As in the footer.
    seq:
      - id: num_dimensions
        -orig-id: dim_num
        type: u4
        if: version < 5
        doc: The engine passes over it.
      - id: fanout
        -orig-id: fanout_
        type: u4
      - id: datatype
        -orig-id: type
        type: u1
        enum: tiledb_datatype::codes
        if: version < 5
        doc: The engine passes over it, whatever stands here.
      - id: num_levels
        -orig-id: level_num
        type: u4
        valid:
          max: 64
        doc: A tree of two branches has no more for 2^64 tiles.
      - id: levels
        -orig-id: levels_
        type: r_tree_level(len_coordinates)
        repeat: expr
        repeat-expr: num_levels
  r_tree_level:
    doc: The boxes of one level, from the root on.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#r-tree
    -webide-representation: '{num_boxes:dec} boxes'
    params:
      - id: len_coordinates
        type: bytes
    seq:
      - id: num_boxes
        -orig-id: mbr_num
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: boxes
        type: bounding_box(len_coordinates)
        repeat: expr
        repeat-expr: num_boxes
  bounding_box:
    doc: The least and the largest coordinates, dimension by dimension.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#mbr
    params:
      - id: len_coordinates
        type: bytes
    seq:
      - id: ranges
        type: tiledb_array_schema::dimension_range(len_coordinates[_index])
        repeat: expr
        repeat-expr: len_coordinates.length
  tile_numbers:
    doc: |
      The payload of a tile with a number for each tile of a field: where it
      starts in its file, how long its variable part is, the sum of its values
      or how many of them are NULL. A sum is of the kind of its values: signed,
      unsigned or a float of 64 bits.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-offsets
    -webide-representation: '{num_values:dec} numbers'
    seq:
      - id: num_values
        -orig-id: num_offsets
        type: u8
        valid:
          max: (_io.size - _io.pos) / 8
      - id: values
        type: u8
        repeat: expr
        repeat-expr: num_values
  tile_bounds:
    doc: |
      The payload of a tile with the least, or the largest, value of each tile
      of a field. Where values vary in length the fixed part has the start of
      each in the other part, as u8. The format's page leaves out the sizes.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-mins-maxes
    seq:
      - id: len_fixed
        -orig-id: tile_mins_buffer_size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: len_var
        -orig-id: tile_mins_var_buffer_size
        type: u8
        valid:
          max: _io.size - _io.pos - len_fixed
      - id: fixed
        -orig-id: tile_min_buffer
        size: len_fixed
      - id: var
        -orig-id: tile_min_var_buffer
        size: len_var
  fragment_statistics:
    doc: The payload of the tile that tells of each field, over all tiles.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-fragment-min-max-sum-null-count
    params:
      - id: num_fields
        type: u4
    seq:
      - id: fields
        type: field_statistics
        repeat: expr
        repeat-expr: num_fields
  field_statistics:
    doc: The least and the largest value of a field, their sum, and its NULLs.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-fragment-min-max-sum-null-count
    seq:
      - id: len_least
        -orig-id: min_size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: least
        -orig-id: fragment_mins_
        size: len_least
      - id: len_largest
        -orig-id: max_size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: largest
        -orig-id: fragment_maxs_
        size: len_largest
      - id: sum
        -orig-id: fragment_sums_
        type: u8
      - id: num_nulls
        -orig-id: fragment_null_counts_
        type: u8
  processed_conditions:
    doc: |
      The payload of the tile that tells which deletes were applied when the
      fragment was made.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-processed-conditions
    -webide-representation: '{conditions}'
    seq:
      - id: num_conditions
        -orig-id: num
        type: u8
        valid:
          max: (_io.size - _io.pos) / 8
      - id: conditions
        -orig-id: processed_conditions_
        type: processed_condition
        repeat: expr
        repeat-expr: num_conditions
  processed_condition:
    doc: A delete, by the path that its own file had in the array.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-processed-conditions
    -webide-representation: '{uri}'
    seq:
      - id: len_uri
        -orig-id: size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: uri
        -orig-id: processed_condition
        size: len_uri
        type: str
  consolidated_footers:
    doc: |
      The payload of a `.meta` file: the footers of many fragments, without the
      length behind each, and where each of them starts in this payload.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_fragment_metadata_file.md
    -webide-representation: '{num_fragments:dec} fragments'
    seq:
      - id: num_fragments
        -orig-id: fragment_num
        type: u4
        valid:
          max: (_io.size - _io.pos) / 16
      - id: fragments
        type: consolidated_fragment
        repeat: expr
        repeat-expr: num_fragments
      - id: footers
        size-eos: true
  consolidated_fragment:
    doc: A fragment, and where its footer starts.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_fragment_metadata_file.md
    -webide-representation: '{name}: {head}'
    seq:
      - id: len_name
        -orig-id: name_size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: name
        size: len_name
        type: str
        doc: Before version 9 a whole URI.
      - id: ofs_footer
        -orig-id: offset
        type: u8
        valid:
          max: _io.size
    instances:
      head:
        pos: ofs_footer
        type: footer_head
        -webide-parse-mode: eager
enums:
  section_types:
    0:
      id: tile_global_order
      -orig-id: tile_global_order_offsets
