"""Checks: the things that are wrong with an array, and what to do about each.

In: a history and its rules, and a store for checks that look beyond the log. Out: findings; the
health of fragments, the use of bytes, the cost of an open. Does not know how a change mends
anything, nor how a finding is printed. Changes nothing.

The modules, in reading order:

    findings               a finding, its severity and hint; many of them; how much was looked at
    commit_files           names and lines of commit files
    conditions             what deletes and updates do unknown to their authors; failing reads
    fragment_health        whether a fragment is whole
    undone_restores        restores that no longer hold, writes that came too late
    fragments_and_commits  fragments against the commits that name them
    tags                   the tags of an array, and those that can no longer be read
    vacuumable_fragments   the fragments that a vacuum may remove
    debt                   bytes and files that a vacuum or a consolidation would save
    engine_open_cost       the requests of an open
    file_uses              why each file is there
    deep                   the content of cell files
    check_array            all checks together
    fix_findings           which changes that can be undone the hints name
"""
