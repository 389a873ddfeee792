"""One file by itself, decoded.

In: a file of any kind, in its array or away from it. Out: its content as values and JSON, and the
byte range of each field. Of the array around it, knows only the schemas.
"""
