"""Changes: deletes, updates, consolidation, vacuum, repair, and the ways back.

In: the store of an array or of a group, and a change. Out: a `Plan`; from `executor`, the changed
array and a `Report`. A dry run is a plan that is not carried out. Removes a file only after its
replacement was shown to be whole.

Does not know the command line, the cells of fragments, the engine, or the members of a group: a
group's own files are changed here, and `dataset` goes through its members.

The modules, in the order to read them:

    plan               a change as values: steps, stages, looks; the report
    operations         the records of changes, in the array itself
    executor           the one place where a plan becomes a change
    sound_array        a reading of an array that may be changed

    delete_update      new deletes and updates
    merge_metadata     one file for many: metadata, a group's lists of members
    consolidate        one file for many: commits, footers
    kept_windows       the windows that a vacuum keeps
    orphan_fragments   fragments that no commit names
    vacuum_metadata    removal of footers, metadata and lists that another file holds
    unneeded_deletes   deletes that no fragment needs
    vacuum             removal of files that no window needs
    usage              the size of each file, with the command that frees it
    compact_batches    fragments that may be merged into one
    repair             an array that the engine opens again
    repair_group       a group that the engine opens again

    past_state         the content of an array that a window sees
    transition         commits that bring a state about, shown at once
    restore            an array as it was at an earlier moment
    undelete           the rows of one delete come back
    publish            fragments of staging arrays become visible in one step
    clone              a new array that shows a window of another one
    replica_reading    the log of a place by one listing, for a copy of it
    replica_record     where a replica comes from, and what the last round left
    replicate          a round that makes a copy equal to its source
    tag                a name for a moment
    erased_names       the values that an erased predicate names, in deletes and records
    undo               a change taken back by its record
    settle             what a change that was broken off left, finished or taken back: each change
                       begins with it
    older_records      records that earlier versions left

A planner (`plan_...`) has no side effects. `clone` calls the executor itself, as it writes to an
empty place; both places get a record of the copy, where they can be written.
"""
