"""Many arrays at once.

In: folders or buckets. Out: the arrays below them, and what `check` says of each. Knows nothing of
Spark.
"""
