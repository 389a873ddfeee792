meta:
  id: tiledb_condition
  title: TileDB query condition
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  imports:
    - tiledb_operand
  encoding: UTF-8
  endian: le
doc: |
  The payload of a delete commit's tile: a tree of comparisons, joined by AND,
  OR and NOT.

  What is stored is the NEGATION of what was asked: the rows that satisfy it
  stay as they are. "delete where a < 3" is on disk as "a >= 3".

  Trees of more than 250 levels are refused. The Web IDE's own recursion gives
  out near 300.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
-webide-representation: '{root}'
seq:
  - id: root
    type: condition_node(1)
  - id: trailing
    size-eos: true
    valid: '[].as<bytes>'
    doc: Must be empty.
types:
  condition_node:
    doc: |
      A comparison, or an expression over the nodes that follow it. The children
      lie here and not in the expression, so that a level of the tree costs a
      parser half the calls.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{body}{children}'
    params:
      - id: level
        type: u4
        doc: 1 at the root.
    seq:
      - id: node_type
        type: u1
        enum: node_types
        valid:
          in-enum: true
      - id: body
        type:
          switch-on: node_type
          cases:
            node_types::expression: expression_head(level)
            node_types::value: value_node
      - id: children
        -orig-id: ast_nodes
        type: condition_node(level + 1)
        repeat: expr
        repeat-expr: num_children
    instances:
      num_children:
        value: >-
          node_type == node_types::expression
          ? body.as<expression_head>.num_children : 0
  expression_head:
    doc: |
      How the children are combined. The engine writes AND and OR; NOT, which
      the format allows, has one child.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{symbol} of {num_children:dec}: '
    params:
      - id: level
        type: u4
    seq:
      - id: combination_op
        type: u1
        enum: combination_ops
        valid:
          in-enum: true
      - id: num_children
        -orig-id: nodes_size
        type: u8
        valid:
          min: 'combination_op == combination_ops::not_op ? 1 : 0'
          max: >-
            level >= 250 ? 0 : combination_op == combination_ops::not_op ? 1
            : (_io.size - _io.pos) / 10
        doc: |
          The smallest node has 10 bytes; level 250 has no children; NOT has
          one.
    instances:
      symbol:
        value: >-
          combination_op == combination_ops::and_op ? "and"
          : combination_op == combination_ops::or_op ? "or" : "not"
        -webide-parse-mode: eager
  value_node:
    doc: One comparison of a field with a value.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    -webide-representation: '{field_name} {symbol} {value}'
    seq:
      - id: op
        type: u1
        enum: ops
        valid:
          in-enum: true
      - id: len_field_name
        -orig-id: field_name_size
        type: u4
        valid:
          max: _io.size - _io.pos
      - id: field_name
        size: len_field_name
        type: str
      - id: len_value
        -orig-id: data_size
        type: u8
        valid:
          max: _io.size - _io.pos
        doc: 0 stands for NULL, and for the empty string.
      - id: value
        -orig-id: data
        size: len_value
        type: tiledb_operand
      - id: members
        type: member_offsets(len_value)
        if: op == ops::in_set or op == ops::not_in_set
    instances:
      symbol:
        value: >-
          op == ops::lt ? "<" : op == ops::le ? "<="
          : op == ops::gt ? ">" : op == ops::ge ? ">="
          : op == ops::eq ? "==" : op == ops::ne ? "!="
          : op == ops::in_set ? "in" : op == ops::not_in_set ? "not in"
          : op == ops::always_true ? "always true" : "always false"
        -webide-parse-mode: eager
  member_offsets:
    doc: Where each member of IN or NOT_IN starts in the value.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/sm/query/deletes_and_updates/serialization.cc
    params:
      - id: len_value
        type: u8
    seq:
      - id: len_ofs_members
        -orig-id: offsets_size
        type: u8
        valid:
          expr: _ % 8 == 0 and _ <= _io.size - _io.pos
      - id: ofs_members
        -orig-id: offsets
        type: u8
        valid:
          expr: _ <= len_value and (_index == 0 or _ >= ofs_members[_index - 1])
        repeat: expr
        repeat-expr: len_ofs_members / 8
enums:
  node_types:
    0:
      id: expression
      -orig-id: EXPRESSION
    1:
      id: value
      -orig-id: VALUE
  combination_ops:
    0:
      id: and_op
      -orig-id: TILEDB_AND
    1:
      id: or_op
      -orig-id: TILEDB_OR
    2:
      id: not_op
      -orig-id: TILEDB_NOT
      doc: Legal on disk; the engine itself never writes it.
  ops:
    0:
      id: lt
      -orig-id: TILEDB_LT
    1:
      id: le
      -orig-id: TILEDB_LE
    2:
      id: gt
      -orig-id: TILEDB_GT
    3:
      id: ge
      -orig-id: TILEDB_GE
    4:
      id: eq
      -orig-id: TILEDB_EQ
    5:
      id: ne
      -orig-id: TILEDB_NE
    6:
      id: in_set
      -orig-id: TILEDB_IN
    7:
      id: not_in_set
      -orig-id: TILEDB_NOT_IN
    253:
      id: always_true
      -orig-id: TILEDB_ALWAYS_TRUE
    254:
      id: always_false
      -orig-id: TILEDB_ALWAYS_FALSE
