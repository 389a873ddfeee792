"""Many arrays at once.

In: folders or buckets. Out: the arrays below them, and the findings of `check` on each. Knows
nothing of Spark.
"""
