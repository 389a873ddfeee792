meta:
  id: tiledb_fragment_metadata
  title: TileDB fragment metadata
  license: MIT
  ks-version: '0.11'
  endian: le
doc: |
  A file `__fragment_metadata.tdb` of format version 10 or later: generic tiles
  one after the other, a footer that says where each of them starts, and the
  footer's length.

  The footer cannot be read alone: how many fields it has and how wide they are
  stands in the schema that it names. So this spec frames the file and shows the
  footer's head; the type `fragment_footer` takes the rest, given what the
  schema says.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md
-webide-representation: '{head}'
seq:
  - id: tiles
    size: ofs_footer
    doc: Generic tiles; the footer says where each of them starts.
  - id: footer
    -orig-id: Footer
    size: len_footer
  - id: stored_len_footer
    -orig-id: Footer length
    type: u8
instances:
  len_footer:
    pos: '_io.size >= 8 ? _io.size - 8 : 0'
    type: u8
    valid:
      max: '_io.size >= 8 ? _io.size - 8 : 0'
    doc: Bytes of the footer, itself not counted.
  ofs_footer:
    value: _io.size - 8 - len_footer
  head:
    pos: ofs_footer
    type: footer_head
types:
  footer_head:
    doc: What can be told of a footer without its schema.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
    -webide-representation: 'version {version:dec}, schema {schema_name}'
    seq:
      - id: version
        -orig-id: Version number
        type: u4
        valid:
          min: 3
          max: 23
      - id: len_schema_name
        -orig-id: Array schema name size
        type: u8
        if: version >= 10
        valid:
          max: _io.size - _io.pos
      - id: schema_name
        -orig-id: Array schema name
        size: len_schema_name
        type: str
        encoding: UTF-8
        if: version >= 10
        doc: The name of the file in `__schema`.
      - id: is_dense
        -orig-id: Dense
        type: u1
        valid:
          max: 1
      - id: is_domain_empty
        -orig-id: Null non-empty domain
        type: u1
        valid:
          max: 1
  fragment_footer:
    doc: |
      The whole footer. `coordinate_sizes` has a byte for each dimension: the
      size of a coordinate, or 0 where coordinates vary in length.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
    -webide-representation: '{head}, {num_tiles:dec} tiles'
    params:
      - id: num_attributes
        type: u4
      - id: coordinate_sizes
        type: bytes
    seq:
      - id: head
        type: footer_head
      - id: domain
        -orig-id: Non-empty domain
        type: domain_range(coordinate_sizes[_index])
        repeat: expr
        repeat-expr: coordinate_sizes.length
        if: head.is_domain_empty == 0
      - id: num_tiles
        -orig-id: Number of sparse tiles
        type: u8
      - id: num_last_cells
        -orig-id: Last tile cell num
        type: u8
      - id: has_timestamps
        -orig-id: Includes timestamps
        type: u1
        if: head.version >= 14
        valid:
          max: 1
      - id: has_delete_metadata
        -orig-id: Includes delete metadata
        type: u1
        if: head.version >= 15
        valid:
          max: 1
      - id: file_sizes
        -orig-id: File sizes
        type: u8
        repeat: expr
        repeat-expr: num_fields
      - id: var_file_sizes
        -orig-id: File var sizes
        type: u8
        repeat: expr
        repeat-expr: num_var_fields
      - id: validity_file_sizes
        -orig-id: File validity sizes
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 7
      - id: ofs_r_tree
        -orig-id: R-Tree offset
        type: u8
      - id: ofs_tile_offsets
        -orig-id: Tile offset offsets
        type: u8
        repeat: expr
        repeat-expr: num_fields
      - id: ofs_var_tile_offsets
        -orig-id: Tile var offset offsets
        type: u8
        repeat: expr
        repeat-expr: num_var_fields
      - id: ofs_var_tile_sizes
        -orig-id: Tile var size offsets
        type: u8
        repeat: expr
        repeat-expr: num_var_fields
      - id: ofs_validity_tile_offsets
        -orig-id: Tile validity offset offsets
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 7
      - id: ofs_tile_minima
        -orig-id: Tile min offsets
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 11
      - id: ofs_tile_maxima
        -orig-id: Tile max offsets
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 11
      - id: ofs_tile_sums
        -orig-id: Tile sum offsets
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 11
      - id: ofs_tile_null_counts
        -orig-id: Tile null count offsets
        type: u8
        repeat: expr
        repeat-expr: num_fields
        if: head.version >= 11
      - id: ofs_fragment_statistics
        -orig-id: Fragment min, max, sum, null count offset
        type: u8
        if: head.version >= 12
      - id: ofs_processed_conditions
        -orig-id: Processed conditions offset
        type: u8
        if: head.version >= 16
      - id: num_sections
        -orig-id: Number of optional sections
        type: u4
        if: head.version >= 23
        valid:
          max: (_io.size - _io.pos) / 12
      - id: sections
        -orig-id: Optional section
        type: optional_section
        repeat: expr
        repeat-expr: num_sections
        if: head.version >= 23
    instances:
      num_special:
        value: >-
          (head.version >= 14 ? has_timestamps : 0)
          + (head.version >= 15 ? 2 * has_delete_metadata : 0)
        doc: Fields for the times of cells, and for what deleted them.
      num_fields:
        value: >-
          num_attributes + 1 + num_special
          + (head.version >= 5 ? coordinate_sizes.length : 0)
        doc: Attributes, the coordinates of old, dimensions, times.
      num_var_fields:
        value: 'head.version >= 5 ? num_fields : num_attributes'
  domain_range:
    doc: The least and the largest coordinate of one dimension.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#mbr
    params:
      - id: coordinate_size
        type: u1
    seq:
      - id: len_both
        -orig-id: Range length
        type: u8
        if: coordinate_size == 0
        valid:
          max: _io.size - _io.pos
      - id: len_least
        -orig-id: Minimum value length
        type: u8
        if: coordinate_size == 0
        valid:
          max: len_both
      - id: least
        -orig-id: Minimum value
        size: 'coordinate_size == 0 ? len_least : coordinate_size'
      - id: largest
        -orig-id: Maximum value
        size: 'coordinate_size == 0 ? len_both - len_least : coordinate_size'
  optional_section:
    doc: Something that a reader may pass over.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
    seq:
      - id: section_id
        -orig-id: Identifier
        type: u8
      - id: len_data
        -orig-id: Size
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: data
        size: len_data
  processed_conditions:
    doc: |
      The payload of the tile that tells which deletes were applied when the
      fragment was made.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#processed-conditions
    -webide-representation: '{conditions}'
    seq:
      - id: num_conditions
        -orig-id: Num
        type: u8
        valid:
          max: (_io.size - _io.pos) / 8
      - id: conditions
        -orig-id: Condition marker
        type: processed_condition
        repeat: expr
        repeat-expr: num_conditions
  processed_condition:
    doc: A delete, by the path that its own file had in the array.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#processed-conditions
    -webide-representation: '{uri}'
    seq:
      - id: len_uri
        -orig-id: Condition marker length
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: uri
        -orig-id: Condition marker
        size: len_uri
        type: str
        encoding: UTF-8
  consolidated_footers:
    doc: |
      The payload of a `.meta` file: the footers of many fragments, without the
      length behind each, and where each of them starts in this payload.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_fragment_metadata_file.md
    -webide-representation: '{num_fragments:dec} fragments'
    seq:
      - id: num_fragments
        -orig-id: Number of fragments
        type: u4
        valid:
          max: (_io.size - _io.pos) / 16
      - id: fragments
        -orig-id: Fragment
        type: consolidated_fragment
        repeat: expr
        repeat-expr: num_fragments
      - id: footers
        -orig-id: Footers
        size-eos: true
  consolidated_fragment:
    doc: A fragment, and where its footer starts.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_fragment_metadata_file.md
    -webide-representation: '{name}'
    seq:
      - id: len_name
        -orig-id: Fragment name length
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: name
        -orig-id: Fragment name
        size: len_name
        type: str
        encoding: UTF-8
        doc: Before version 9 a whole URI.
      - id: ofs_footer
        -orig-id: Fragment footer offset
        type: u8
        valid:
          max: _io.size
