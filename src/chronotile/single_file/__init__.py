"""One file by itself, decoded.

In: a file of any kind, in its array or away from it. Out: its content as values and JSON, and the
byte range of each field. Of the array around it, knows only the schemas.

In reading order:

    decode                one file of any kind, as a frozen value
    nearby_schemas        the schemas of an array, without its log
    as_json               the value as JSON
    fragment_json         the same for files that describe fragments
    region                a stretch of bytes, and its fields
    byte_ranges           which bytes of a file are which field
    fragment_byte_ranges  the same for the metadata of a fragment
"""
