"""What differs between two moments: files, rows of a sparse array, cells of a dense one.

In: a log, or the rows at two moments. Out: tables of changes. `rows/diff` puts them together.
"""
