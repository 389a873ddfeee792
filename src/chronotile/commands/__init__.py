"""The commands, one a module; `cli` loads the one that is called.

In: what the user typed. Out: a report on standard output, or a file. No command knows another.
"""
