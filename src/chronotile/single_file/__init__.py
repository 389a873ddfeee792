"""One file by itself, decoded.

In: a file of any kind, in its array or away from it. Out: its content as a frozen value. Of the
array around it, knows only the schemas; knows nothing of words and output.

In reading order:

    decode  one file of any kind, as a frozen value; the schemas of an array, without its log
"""
