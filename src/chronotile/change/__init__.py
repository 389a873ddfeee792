"""Changes: deletes, updates, consolidation, vacuum, repair.

In: an array and what to do. Out: the changed array and a report; with a dry run only the report.
Nothing is removed because of what was not shown to be whole. Knows nothing of the command line.
"""
