"""The format: the bytes of one file, and the values in them.

In: the bytes of a file, a name, a value. Out: frozen values, and bytes again. Reads no file, and
knows nothing of other files, of windows, or of storage.
"""
