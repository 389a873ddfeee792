"""Fixes of findings without a loss: the changes that their hints name and that can be undone.

In: findings. Out: `Fix`, one a change of an array, in the order in which they work: what keeps the
engine from reading first, then updates, then debt. A vacuum is none: it removes files for good.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.safe_text import shell_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.check.findings import Finding

_ORDER = ("repair", "apply", "consolidate")
_HINT = re.compile(r"(?:^|: )chronotile (repair|apply|consolidate) (.*)", re.DOTALL)
_MODE = re.compile(r"--mode (commits|fragment-meta|array-meta)\b")


class Fix(NamedTuple):
    """One change that a hint names."""

    array: str
    command: str
    mode: str | None
    codes: tuple[str, ...]
    """The findings that it is for."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the method."""
        return {} if self.mode is None else {"mode": self.mode}

    @property
    def words(self) -> str:
        """The command, to be pasted."""
        more = "" if self.mode is None else f" --mode {self.mode}"
        return f"chronotile {self.command} {shell_word(self.array)}{more}"


def fixes_of(findings: Iterable[Finding]) -> list[Fix]:
    """Choose the changes that mend findings and lose nothing, in the right order.

    >>> from chronotile.check.findings import finding
    >>> found = [finding("a", code, "x", "…") for code in ("many-loose-commits", "tile-corrupt")]
    >>> [fix.words for fix in fixes_of(found)]
    ['chronotile repair a', 'chronotile consolidate a --mode commits']
    """
    codes: dict[tuple[str, str, str | None], dict[str, None]] = {}
    for one in findings:
        hint = _HINT.search(one.hint)
        if hint is None or not hint[2].startswith(shell_word(one.array)):
            continue  # it names another place, which has a finding of its own
        rest = hint[2].removeprefix(shell_word(one.array)).lstrip()
        mode = _MODE.match(rest)
        if rest.startswith("/") or (rest.startswith("--") and mode is None):
            continue
        kind = (mode[1] if mode else "commits") if hint[1] == "consolidate" else None
        codes.setdefault((one.array, hint[1], kind), {})[one.code] = None
    ordered = sorted(codes, key=lambda key: (key[0], _ORDER.index(key[1]), key[2] or ""))
    return [Fix(*key, tuple(codes[key])) for key in ordered]
