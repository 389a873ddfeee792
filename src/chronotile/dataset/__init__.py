"""Many arrays at once: groups with all that is in them, and the arrays below folders.

In: folders, buckets or groups. Out: the arrays below them or in them, and answers for all of them:
members, findings, events, moments; plans for every member, carried out. Does not know how one array
is planned, nor how anything is printed; knows nothing of Spark.

The modules of groups, in reading order:

    member_tree      the members at a moment, at any depth, and what is at the place of each
    open_dataset     a dataset: its tree, its logs, a row for each member
    moments          the times at which all members can be read whole
    check_group      findings on lists of members, on places, on tags
    dataset_events   events of all members in one order, and new ones as they come
    over_members     every change of a group: plan all members, then all or none, or one by one
    publish_members  plans that make staged fragments visible in all members at one moment
    tag_members      plans of a group's tags
    undo_members     plans that take back a change of a group
    clone_members    a copy of a whole dataset
    replicate_tree   copies of all arrays and groups of a folder, each kept equal to its source
"""
