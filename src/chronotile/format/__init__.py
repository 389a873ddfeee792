"""The format: the bytes of one file, and the values in them.

In: the bytes of a file, a name, a value. Out: frozen values, and bytes again; `BadFileError` of
bytes that are damaged. Reads no file, and knows nothing of other files, of windows, or of storage.

In reading order:

    names                 timestamped names: when an object was made, in which version; short ids
    kinds                 every kind of file, folder and commit, once
    timestamps            moments as people and programs write them
    parsers               the only door to the generated parsers
    datatypes             TileDB's datatypes
    decompress            compressors: GZIP, ZSTD, LZ4, BZIP2, RLE, deltas, dictionaries
    filters               a pipeline of filters, undone; encryption
    tiles                 generic tiles, the envelope of most files
    schema                array schemas and enumerations
    datetime_values       dates and times of any unit
    cell_values           a cell's bytes as a value, as JSON, and back
    commit_files          `.con`, `.ign` and `.vac` files
    array_metadata        keys and values of `__meta`
    tag_entries           tags among them: names for moments
    groups                the members of a group
    fragment_footer       the footer of a fragment's metadata
    fragment_size         tiles, cells and domain, by a footer
    fragment_metadata     the whole metadata, tile by tile
    arrow_compute         Arrow's functions on columns, loaded at the first call
    footer_columns        many footers at once
    consolidated_footers  `.meta` files: the footers of many fragments
    documents             JSON and TOML of ours
"""
