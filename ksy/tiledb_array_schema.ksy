meta:
  id: tiledb_array_schema
  title: TileDB array schema
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_datatype
    - tiledb_filter_pipeline
  encoding: UTF-8
  endian: le
doc: |
  The payload of an array schema file, for format versions 1 to 23.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
-webide-representation: >-
  {array_type}, version {version:dec}: {domain}; {attributes}
seq:
  - id: version
    type: u4
    valid:
      min: 1
      max: 23
  - id: dups_allowed
    -orig-id: allows_dups
    type: u1
    valid:
      max: 1
    if: version >= 5
    doc: Whether several cells may have the same coordinates.
  - id: array_type
    type: u1
    enum: array_types
    valid:
      in-enum: true
  - id: tile_order
    type: u1
    enum: layouts
    valid:
      in-enum: true
  - id: cell_order
    type: u1
    enum: layouts
    valid:
      in-enum: true
  - id: capacity
    type: u8
    doc: Cells in a tile of a sparse fragment, but for the last.
  - id: coords_filters
    type: tiledb_filter_pipeline
    doc: Of coordinates, and of dimensions that have no filters of their own.
  - id: offsets_filters
    -orig-id: cell_var_filters
    type: tiledb_filter_pipeline
    doc: Of the offsets of cells that vary in length.
  - id: validity_filters
    -orig-id: cell_validity_filters
    type: tiledb_filter_pipeline
    if: version >= 7
  - id: domain
    type: array_domain(version)
  - id: num_attributes
    -orig-id: attribute_num
    type: u4
    valid:
      max: (_io.size - _io.pos) / 17
  - id: attributes
    type: attribute(version)
    repeat: expr
    repeat-expr: num_attributes
  - id: num_labels
    -orig-id: label_num
    type: u4
    valid:
      max: (_io.size - _io.pos) / 28
    if: version >= 18
  - id: labels
    -orig-id: dimension_labels
    type: dimension_label
    repeat: expr
    repeat-expr: num_labels
    if: version >= 18
  - id: num_enumerations
    -orig-id: enmr_num
    type: u4
    valid:
      max: (_io.size - _io.pos) / 8
    if: version >= 20
  - id: enumerations
    -orig-id: enumeration_path_map
    type: enumeration_path
    repeat: expr
    repeat-expr: num_enumerations
    if: version >= 20
  - id: current_domain
    type: current_domain
    if: version >= 22
  - id: trailing
    size-eos: true
    valid: '[].as<bytes>'
    doc: Must be empty.
instances:
  is_dups_allowed:
    value: 'version >= 5 ? dups_allowed != 0 : false'
types:
  array_domain:
    doc: The dimensions. Before version 5 they share one datatype.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#domain
    -webide-representation: '{dimensions}'
    params:
      - id: version
        type: u4
    seq:
      - id: datatype
        -orig-id: type
        type: tiledb_datatype
        if: version < 5
      - id: num_dimensions
        -orig-id: dim_num
        type: u4
        valid:
          min: 1
          max: (_io.size - _io.pos) / 5
      - id: dimensions
        type: 'dimension(version, version < 5 ? datatype.len_value : 0)'
        repeat: expr
        repeat-expr: num_dimensions
  dimension:
    doc: One dimension, its domain and its tile extent.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#dimension
    -webide-representation: '{name} {datatype}'
    params:
      - id: version
        type: u4
      - id: len_shared_value
        type: u4
        doc: Bytes of a value of the domain's datatype, before version 5.
    seq:
      - id: len_name
        -orig-id: dimension_name_size
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: name
        size: len_name
        type: str
      - id: datatype
        -orig-id: type
        type: tiledb_datatype
        if: version >= 5
      - id: num_cell_values
        -orig-id: cell_val_num
        type: u4
        if: version >= 5
        doc: Values in a coordinate; 0xffffffff where they vary in length.
      - id: filters
        -orig-id: filter_pipeline
        type: tiledb_filter_pipeline
        if: version >= 5
      - id: len_domain_field
        -orig-id: domain_size
        type: u8
        valid:
          max: _io.size - _io.pos
        if: version >= 5
      - id: domain
        size: len_domain
        doc: Two coordinates, the least first; empty where they vary in length.
      - id: null_tile_extent
        type: u1
        valid:
          max: 1
      - id: tile_extent
        size: len_value
        if: not is_null_tile_extent
        doc: How far a tile reaches along the dimension, as a coordinate.
    instances:
      is_null_tile_extent:
        value: null_tile_extent != 0
      len_value:
        value: 'version >= 5 ? datatype.len_value : len_shared_value'
      len_domain:
        value: 'version >= 5 ? len_domain_field : 2 * len_shared_value'
      len_coordinate:
        value: >-
          version < 5 ? len_value
          : num_cell_values == 0xffffffff ? 0 : num_cell_values * len_value
        doc: Bytes of a coordinate; 0 where they vary in length.
  attribute:
    doc: One attribute.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#attribute
    -webide-representation: '{name} {datatype}'
    params:
      - id: version
        type: u4
    seq:
      - id: len_name
        -orig-id: attribute_name_size
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: name
        size: len_name
        type: str
      - id: datatype
        -orig-id: type
        type: tiledb_datatype
      - id: num_cell_values
        -orig-id: cell_val_num
        type: u4
        doc: Values in a cell; 0xffffffff where cells vary in length.
      - id: filters
        -orig-id: filterpipeline
        type: tiledb_filter_pipeline
      - id: len_fill_value
        -orig-id: fill_value_size
        type: u8
        valid:
          max: _io.size - _io.pos
        if: version >= 6
      - id: fill_value
        size: len_fill_value
        if: version >= 6
        doc: What a cell has that nobody wrote.
      - id: nullable
        type: u1
        valid:
          max: 1
        if: version >= 7
      - id: fill_value_validity
        type: u1
        if: version >= 7
        doc: 0 where such a cell is NULL.
      - id: order
        type: u1
        enum: data_orders
        valid:
          in-enum: true
        if: version >= 17
      - id: len_enumeration_name
        -orig-id: enmr_name_length
        type: u4
        valid:
          max: _io.size - _io.pos
        if: version >= 20
      - id: enumeration_name
        -orig-id: enmr_name
        size: len_enumeration_name
        type: str
        if: version >= 20
        doc: Empty where there is none; the format's page leaves it out.
    instances:
      is_nullable:
        value: 'version >= 7 ? nullable != 0 : false'
  dimension_label:
    doc: |
      A label on a dimension. The order of the fields is the engine's, which is
      not that of the format's page.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/sm/array_schema/dimension_label.cc
    -webide-representation: '{name}'
    seq:
      - id: dimension_index
        -orig-id: dim_id
        type: u4
      - id: len_name
        -orig-id: dim_label_name_size
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: name
        -orig-id: dim_label_name
        size: len_name
        type: str
      - id: relative_uri
        type: u1
        valid:
          max: 1
      - id: len_uri
        -orig-id: uri_size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: uri
        size: len_uri
        type: str
      - id: len_attribute_name
        -orig-id: label_attr_name_size
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: attribute_name
        -orig-id: label_attr_name
        size: len_attribute_name
        type: str
      - id: order
        -orig-id: label_order
        type: u1
        enum: data_orders
        valid:
          in-enum: true
      - id: datatype
        -orig-id: label_type
        type: tiledb_datatype
      - id: num_cell_values
        -orig-id: label_cell_val_num
        type: u4
        doc: Values in a label; 0xffffffff where labels vary in length.
      - id: external
        -orig-id: is_external
        type: u1
        valid:
          max: 1
    instances:
      is_relative_uri:
        value: relative_uri != 0
      is_external:
        value: external != 0
  enumeration_path:
    doc: An enumeration, and the file that holds its labels.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
    -webide-representation: '{name}'
    seq:
      - id: len_name
        -orig-id: enmr_name_size
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: name
        -orig-id: enmr_name
        size: len_name
        type: str
      - id: len_file_name
        -orig-id: enmr_filename_size
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: file_name
        -orig-id: enmr_filename
        size: len_file_name
        type: str
  current_domain:
    doc: The part of the domain that is in use, with a version of its own.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#current-domain
    seq:
      - id: version
        -orig-id: disk_version
        type: u4
        valid:
          max: 1
      - id: empty
        type: u1
        valid:
          max: 1
      - id: domain_type
        -orig-id: type
        type: u1
        enum: current_domain_types
        valid:
          in-enum: true
        if: not is_empty
      - id: ranges
        -orig-id: nd
        type: dimension_range(_root.domain.dimensions[_index].len_coordinate)
        repeat: expr
        repeat-expr: _root.domain.num_dimensions
        if: not is_empty
    instances:
      is_empty:
        value: empty != 0
  dimension_range:
    doc: The least and the largest coordinate on one dimension.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#mbr
    params:
      - id: len_coordinate
        type: u4
        doc: 0 where coordinates vary in length.
    seq:
      - id: len_both
        -orig-id: r_size
        type: u8
        valid:
          max: _io.size - _io.pos
        if: len_coordinate == 0
      - id: len_least
        -orig-id: start_size
        type: u8
        valid:
          max: len_both
        if: len_coordinate == 0
      - id: least
        size: 'len_coordinate == 0 ? len_least : len_coordinate'
      - id: largest
        size: 'len_coordinate == 0 ? len_both - len_least : len_coordinate'
enums:
  array_types:
    0:
      id: dense
      -orig-id: TILEDB_DENSE
    1:
      id: sparse
      -orig-id: TILEDB_SPARSE
  current_domain_types:
    0:
      id: nd_rectangle
      -orig-id: TILEDB_NDRECTANGLE
  layouts:
    0:
      id: row_major
      -orig-id: TILEDB_ROW_MAJOR
    1:
      id: col_major
      -orig-id: TILEDB_COL_MAJOR
    2:
      id: global_order
      -orig-id: TILEDB_GLOBAL_ORDER
    3:
      id: unordered
      -orig-id: TILEDB_UNORDERED
    4:
      id: hilbert
      -orig-id: TILEDB_HILBERT
  data_orders:
    0:
      id: unordered_data
      -orig-id: TILEDB_UNORDERED_DATA
    1:
      id: increasing_data
      -orig-id: TILEDB_INCREASING_DATA
    2:
      id: decreasing_data
      -orig-id: TILEDB_DECREASING_DATA
