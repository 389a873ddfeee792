"""Changes: deletes, updates, consolidation, vacuum, repair.

In: an array, and a change. Out: the changed array and a report; after a dry run, only the report.
Removes a file only after its replacement was shown to be whole. Knows nothing of the command line.
"""
