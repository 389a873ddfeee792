meta:
  id: tiledb_array_schema
  title: TileDB array schema
  license: MIT
  ks-version: '0.11'
  endian: le
  imports:
    - tiledb_datatype
    - tiledb_filter_pipeline
doc: |
  The payload of an array schema file, for format versions 1 to 23.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
-webide-representation: '{array_type}, version {version:dec}'
seq:
  - id: version
    -orig-id: Array version
    type: u4
    valid:
      min: 1
      max: 23
  - id: allows_dups
    -orig-id: Allows dups
    type: u1
    if: version >= 5
    valid:
      max: 1
  - id: array_type
    -orig-id: Array type
    type: u1
    enum: array_types
    valid:
      in-enum: true
  - id: tile_order
    -orig-id: Tile order
    type: u1
    enum: layouts
    valid:
      in-enum: true
  - id: cell_order
    -orig-id: Cell order
    type: u1
    enum: layouts
    valid:
      in-enum: true
  - id: capacity
    -orig-id: Capacity
    type: u8
  - id: coords_filters
    -orig-id: Coords filters
    type: tiledb_filter_pipeline
  - id: offsets_filters
    -orig-id: Offsets filters
    type: tiledb_filter_pipeline
  - id: validity_filters
    -orig-id: Validity filters
    type: tiledb_filter_pipeline
    if: version >= 7
  - id: domain
    -orig-id: Domain
    type: array_domain(version)
  - id: num_attributes
    -orig-id: Num attributes
    type: u4
    valid:
      max: (_io.size - _io.pos) / 17
  - id: attributes
    -orig-id: Attribute
    type: attribute(version)
    repeat: expr
    repeat-expr: num_attributes
  - id: num_labels
    -orig-id: Num labels
    type: u4
    if: version >= 18
    valid:
      max: (_io.size - _io.pos) / 28
  - id: labels
    -orig-id: Label
    type: dimension_label
    repeat: expr
    repeat-expr: num_labels
    if: version >= 18
  - id: num_enumerations
    -orig-id: Num enumerations
    type: u4
    if: version >= 20
    valid:
      max: (_io.size - _io.pos) / 8
  - id: enumerations
    -orig-id: Enumeration
    type: enumeration_path
    repeat: expr
    repeat-expr: num_enumerations
    if: version >= 20
  - id: current_domain
    -orig-id: Current domain
    type: current_domain
    if: version >= 22
  - id: trailing
    size-eos: true
    valid:
      expr: _.length == 0
    doc: Must be empty.
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
        -orig-id: Domain datatype
        type: tiledb_datatype
        if: version < 5
      - id: num_dimensions
        -orig-id: Num dimensions
        type: u4
        valid:
          min: 1
          max: (_io.size - _io.pos) / 5
      - id: dimensions
        -orig-id: Dimension
        type: 'dimension(version, version < 5 ? datatype.width : 0)'
        repeat: expr
        repeat-expr: num_dimensions
  dimension:
    doc: One dimension, its domain and its tile extent.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#dimension
    -webide-representation: '{name}'
    params:
      - id: version
        type: u4
      - id: domain_width
        type: u4
        doc: Bytes of a value of the domain's datatype, before version 5.
    seq:
      - id: len_name
        -orig-id: Dimension name length
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: name
        -orig-id: Dimension name
        size: len_name
        type: str
        encoding: UTF-8
      - id: datatype
        -orig-id: Dimension datatype
        type: tiledb_datatype
        if: version >= 5
      - id: cell_val_num
        -orig-id: Cell val num
        type: u4
        if: version >= 5
      - id: filters
        -orig-id: Filters
        type: tiledb_filter_pipeline
        if: version >= 5
      - id: len_domain_field
        -orig-id: Domain size
        type: u8
        if: version >= 5
        valid:
          max: _io.size - _io.pos
      - id: domain
        -orig-id: Domain
        size: len_domain
      - id: is_null_tile_extent
        -orig-id: Null tile extent
        type: u1
        valid:
          max: 1
      - id: tile_extent
        -orig-id: Tile extent
        size: width
        if: is_null_tile_extent == 0
    instances:
      width:
        value: 'version >= 5 ? datatype.width : domain_width'
      len_domain:
        value: 'version >= 5 ? len_domain_field : 2 * domain_width'
      is_var:
        value: 'version >= 5 ? cell_val_num == 0xffffffff : false'
      len_range:
        value: 'version >= 5 and cell_val_num < 0xffff ? 2 * width * cell_val_num : 0'
        doc: Bytes of a pair of coordinates, where they do not vary in length.
  attribute:
    doc: One attribute.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#attribute
    -webide-representation: '{name} {datatype}'
    params:
      - id: version
        type: u4
    seq:
      - id: len_name
        -orig-id: Attribute name length
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: name
        -orig-id: Attribute name
        size: len_name
        type: str
        encoding: UTF-8
      - id: datatype
        -orig-id: Attribute datatype
        type: tiledb_datatype
      - id: cell_val_num
        -orig-id: Cell val num
        type: u4
        doc: Values in a cell; 0xffffffff where cells vary in length.
      - id: filters
        -orig-id: Filters
        type: tiledb_filter_pipeline
      - id: len_fill_value
        -orig-id: Fill value size
        type: u8
        if: version >= 6
        valid:
          max: _io.size - _io.pos
      - id: fill_value
        -orig-id: Fill value
        size: len_fill_value
        if: version >= 6
      - id: is_nullable
        -orig-id: Nullable
        type: u1
        if: version >= 7
        valid:
          max: 1
      - id: fill_value_validity
        -orig-id: Fill value validity
        type: u1
        if: version >= 7
      - id: order
        -orig-id: Order
        type: u1
        enum: data_orders
        if: version >= 17
        valid:
          in-enum: true
      - id: len_enumeration_name
        type: u4
        if: version >= 20
        valid:
          max: _io.size - _io.pos
      - id: enumeration_name
        size: len_enumeration_name
        type: str
        encoding: UTF-8
        if: version >= 20
        doc: Empty where the attribute has none. The format's page leaves it out.
  dimension_label:
    doc: |
      A label on a dimension. The order of the fields is the engine's, which is
      not that of the format's page.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/sm/array_schema/dimension_label.cc
    -webide-representation: '{name}'
    seq:
      - id: dimension_index
        -orig-id: Dimension index
        type: u4
      - id: len_name
        -orig-id: Dimension label name length
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: name
        -orig-id: Dimension label name
        size: len_name
        type: str
        encoding: UTF-8
      - id: is_relative_uri
        -orig-id: Relative URI
        type: u1
        valid:
          max: 1
      - id: len_uri
        -orig-id: URI length
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: uri
        -orig-id: URI
        size: len_uri
        type: str
        encoding: UTF-8
      - id: len_attribute_name
        -orig-id: Label attribute name length
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: attribute_name
        -orig-id: Label attribute name
        size: len_attribute_name
        type: str
        encoding: UTF-8
      - id: order
        -orig-id: Label order
        type: u1
        enum: data_orders
        valid:
          in-enum: true
      - id: datatype
        -orig-id: Label datatype
        type: tiledb_datatype
      - id: cell_val_num
        -orig-id: Label cell_val_num
        type: u4
      - id: is_external
        -orig-id: Is external
        type: u1
        valid:
          max: 1
  enumeration_path:
    doc: An enumeration, and the file that holds its labels.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
    -webide-representation: '{name}'
    seq:
      - id: len_name
        -orig-id: Enumeration name length
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: name
        -orig-id: Enumeration name
        size: len_name
        type: str
        encoding: UTF-8
      - id: len_file_name
        -orig-id: Enumeration filename length
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: file_name
        -orig-id: Enumeration filename
        size: len_file_name
        type: str
        encoding: UTF-8
  current_domain:
    doc: The part of the domain that is in use, with a version of its own.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#current-domain
    seq:
      - id: version
        -orig-id: Version number
        type: u4
        valid:
          max: 1
      - id: is_empty
        -orig-id: Empty
        type: u1
        valid:
          max: 1
      - id: domain_type
        -orig-id: Type
        type: u1
        if: is_empty == 0
        valid: 0
        doc: 0 is an NDRectangle, the only one there is.
      - id: ranges
        -orig-id: NDRectangle
        type: >-
          dimension_range(_root.domain.dimensions[_index].is_var,
          _root.domain.dimensions[_index].len_range)
        repeat: expr
        repeat-expr: _root.domain.num_dimensions
        if: is_empty == 0
  dimension_range:
    doc: The smallest and the largest coordinate on one dimension.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#mbr
    params:
      - id: is_var
        type: bool
      - id: len_fixed
        type: u8
    seq:
      - id: len_range
        type: u8
        if: is_var
        valid:
          max: _io.size - _io.pos
      - id: len_start
        type: u8
        if: is_var
        valid:
          max: len_range
      - id: range
        size: 'is_var ? len_range : len_fixed'
enums:
  array_types:
    0:
      id: dense
      -orig-id: TILEDB_DENSE
    1:
      id: sparse
      -orig-id: TILEDB_SPARSE
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
