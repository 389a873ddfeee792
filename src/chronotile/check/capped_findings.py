"""Findings of an array that may have very many: some of each code, and how many more there are.

In: findings. Out: as many of each code and severity as the limit allows, one finding that counts
the others, and true numbers. Finds nothing itself.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from chronotile.check.findings import SEVERITIES, finding, worst_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.check.findings import Finding, Severity

MOST = 1_000
"""Findings of one code and severity that are listed, unless the user asks for more or fewer."""

_MORE = re.compile(r"([\d,]+) more of this code are not listed")


class CappedFindings:
    """Takes findings one by one, and keeps the first of each code and severity.

    >>> capped = CappedFindings("a", most=1)
    >>> capped.add(finding("a", "vac-absolute", f"{n}.vac", "…") for n in range(3))
    >>> [(item.path, item.message) for item in capped.findings()]
    [('0.vac', '…'), ('', '2 more of this code are not listed')]
    >>> capped.by_severity()
    {'error': 0, 'warning': 0, 'info': 3}
    """

    def __init__(self, array: str, most: int = MOST) -> None:
        self._array, self._most = array, most
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, Severity]] = Counter()

    def add(self, findings: Iterable[Finding]) -> None:
        """Takes findings."""
        for item in findings:
            pair = item.code, item.severity
            if self._counts[pair] < self._most:
                self._kept.append(item)
            self._counts[pair] += 1

    def findings(self) -> tuple[Finding, ...]:
        """Those that are listed, the worst first, and after each kind how many more there are."""
        more = [
            finding(
                self._array,
                code,
                "",
                f"{number - self._most:,} more of this code are not listed",
                severity=severity,
            )
            for (code, severity), number in self._counts.items()
            if number > self._most
        ]
        ordered = [(*worst_first(item)[:2], 0, item.path, item) for item in self._kept]
        ordered += [(*worst_first(item)[:2], 1, "", item) for item in more]
        return tuple(item for *_, item in sorted(ordered, key=lambda one: one[:4]))

    def by_severity(self) -> dict[Severity, int]:
        """How many there are of each severity, listed or not."""
        counts = dict.fromkeys(SEVERITIES, 0)
        for (_, severity), number in self._counts.items():
            counts[severity] += number
        return counts


def capped(array: str, findings: Iterable[Finding], most: int = MOST) -> CappedFindings:
    """Count findings, and keep the first of each code and severity."""
    made = CappedFindings(array, most)
    made.add(findings)
    return made


def number_told(path: str, message: str) -> int:
    """How many findings a listed one stands for.

    >>> number_told("", "1,200 more of this code are not listed"), number_told("a.con", "…")
    (1200, 1)
    """
    more = None if path else _MORE.fullmatch(message)
    return int(more[1].replace(",", "")) if more else 1
