"""Rows: those that an open should see, those that changed, and updates that are applied.

In: a log. Out: rows as Arrow batches, the commits that wrote, changed or removed them, and plans to
write rows again. Only this room asks the engine; `engine` alone loads it, and only when rows are
asked for. Does not know how rows are printed, nor how a plan is executed.

The modules, in reading order:

    engine               the door to TileDB: its C interface and its settings
    engine_cells         cells of the engine, read batch by batch, stored and shown
    snapshot             an array as of a moment: its schema, its deletes and updates
    scratch_arrays       fragments read without deletes, and a fragment written aside
    places               coordinates: the newest cell at each, boxes, ranges
    cell_source          the cells of a snapshot as they were written
    deletes_and_updates  deletes and updates, played on a batch of cells
    read_rows            the rows of a window
    written_by           the write that a cell comes from
    diff                 the difference between two moments, with the engine or without
    commit_changes       the rows that one commit changed
    blame                the commits that had to do with a row
    group_rows           the same questions for the members of a group
    apply                the plan to carry out updates
    row_digest           a digest of rows that does not depend on their order
    merge_process        the engine's merge, in a process of its own
    merge_aside          fragments merged away from their array, and proven
    every_fragment       all fragment folders, each read by itself without deletes
    erase_proof          every place that holds a match of a predicate, and the certificate
    erase                the plan to erase the rows that match a predicate
    counted              deletes and updates that say how many rows they touch
    ways_back            restore and undelete: by commits alone, or with rows written again
    compact              many small fragments become few
"""
