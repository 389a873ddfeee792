"""Many arrays at once.

In: folders, buckets or groups. Out: the arrays below them or in them, and answers for all of them:
members, findings, events, moments. Knows nothing of Spark.
"""
