"""History: one reading of an array or a group, as columns.

In: a store. Out: commit records in time order, vacuum files, schemas, footers, lists of members,
and the damage found. Knows nothing of windows: `visibility` does. Changes nothing.

    listing              folders: what each is, and the files of an array by their purpose
    log_watch            changes of a log since it was listed
    uri_columns          URIs of commits as columns, and the operations on columns
    lines_to_columns     the lines of a `.con`, or names of files, into such columns
    commit_table         the records of all files in one table, in time order
    text_columns         rows of the table as Arrow columns
    redundant_con_files  which `.con` files can go, and the bytes of a new one
    missing_fragments    commits without a folder, folders without a commit
    read_history         the reading of an array: listing, table, schemas, metadata
    group_reading        the reading of a group: its lists of members
    read_footers         footers, decoded with their schemas
    fragment_facts       the facts of each fragment, as a table
"""
