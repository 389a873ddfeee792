"""The time machine: clones, and changes that bring a past state back.

In: an array, and a moment, a delete, a staging array or a report. Out: a new array, or commits that
change what is visible from a moment on, and a report that says how to undo them. Never rewrites a
cell, and never removes a fragment. Knows nothing of groups and of the command line.
"""
