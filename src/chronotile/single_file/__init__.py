"""One file by itself, decoded.

In: a file of any kind, in its array or away from it. Out: its content as values and JSON, and the
byte range of each field. Knows nothing of the array around it but its schemas.
"""
