meta:
  id: tiledb_group_details
  title: TileDB group details
  application: TileDB
  tags:
    - database
  license: MIT
  ks-version: '0.11'
  encoding: UTF-8
  endian: le
doc: |
  The payload of a details file: the members that one session added to a group,
  removed from it, or found in it.

  Where the newest file has version 1, it alone tells the members. Where it has
  version 2, all files count in the order of their first timestamps, and of one
  key the last entry. The key of a member is its name, or else its URI.
doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/group.md
-webide-representation: '{members}'
seq:
  - id: version
    -orig-id: version_
    type: u4
    valid:
      min: 1
      max: 2
  - id: num_members
    -orig-id: member_count
    type: u8
    valid:
      max: (_io.size - _io.pos) / 15
    doc: The page says `u4`; the engine writes `u8`.
  - id: members
    -orig-id: members_
    type: group_member
    repeat: expr
    repeat-expr: num_members
types:
  group_member:
    doc: An array or a group that was added or removed.
    doc-ref: https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/group.md#group-member
    -webide-representation: '{name} {uri}'
    seq:
      - id: version
        -orig-id: version_
        type: u4
        valid:
          min: 1
          max: 2
      - id: object_type
        -orig-id: type_
        type: u1
        enum: object_types
        valid:
          in-enum: true
      - id: relative
        -orig-id: relative_
        type: u1
        doc: The engine takes any number but 0 for true.
      - id: len_uri
        -orig-id: uri_size
        type: u8
        valid:
          max: _io.size - _io.pos
      - id: uri
        -orig-id: uri_
        size: len_uri
        type: str
        doc: Where the member is; below the group's folder if it is relative.
      - id: named
        -orig-id: name_set
        type: u1
        doc: The engine takes any number but 0 for true.
      - id: len_name
        -orig-id: name_size
        type: u8
        valid:
          max: _io.size - _io.pos
        if: is_named
      - id: name
        -orig-id: name_
        size: len_name
        type: str
        if: is_named
      - id: deletion
        -orig-id: deleted_
        type: u1
        if: version >= 2
        doc: The engine takes any number but 0 for true.
    instances:
      is_relative:
        value: relative != 0
      is_named:
        value: named != 0
      is_deletion:
        value: 'version >= 2 ? deletion != 0 : false'
    enums:
      object_types:
        0:
          id: invalid
          -orig-id: TILEDB_INVALID
          doc: What was there when the member was added was neither of the two.
        1:
          id: group
          -orig-id: TILEDB_GROUP
        2:
          id: array
          -orig-id: TILEDB_ARRAY
