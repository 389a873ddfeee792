"""`python -m chronotile`.

In: the arguments of the process. Out: its exit status. Knows only `cli`.
"""

from __future__ import annotations

from chronotile.cli import run

if __name__ == "__main__":
    run()
