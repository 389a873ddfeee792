"""Storage: the only room that touches a disk or a bucket.

In: the place of an array, and relative paths. Out: listings as entries, objects as bytes; puts,
copies, removals. Knows nothing of what the objects mean.
"""
