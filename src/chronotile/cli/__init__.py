"""The command line: one file for each command or family; `program` loads what is called.

In: what the user typed. Out: a report on standard output, or a file. No command knows another.
"""

from chronotile.cli.program import main, run

__all__ = ["main", "run"]
