"""One page on a whole fleet, that works offline.

In: the tables of a fleet, and a link for some arrays. Out: HTML: what needs attention first,
findings by kind, commits over time, size by reason, the slowest opens. Reads nothing, and asks no
rule: it only shows what the tables say. A script sorts tables and filters arrays; the page works
without it.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from chronotile.check.file_uses import BYTES_OF
from chronotile.check.findings import SEVERITIES, count_text, is_unread, number_of
from chronotile.format.timestamps import LAST_CALENDAR_MS
from chronotile.show.axes import CALENDAR_FROM
from chronotile.show.output import size_text
from chronotile.show.page import (
    TableCell,
    escaped,
    page,
    reason_colour,
    resource,
    swatch,
    table,
    when_text,
    with_breaks,
)
from chronotile.show.terminal_fit import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa


ROWS = 40
"""Arrays of the strips, and of the list of slow opens."""
BINS = 48
"""Places on a strip."""
MOST_ARRAYS = 2000
"""Arrays that the list shows."""


class FleetPage(NamedTuple):
    """The facts that a page shows."""

    title: str
    tables: Mapping[str, pa.Table]
    """By name: `arrays`, `commits`, `findings`."""
    made_ms: int
    links: Mapping[str, str] = {}
    """Array -> the page of its timeline."""
    reach: str = ""
    """What was checked, in words; empty if the tables do not say."""


def to_html(fleet: FleetPage) -> str:
    """Draw the page."""
    arrays = fleet.tables["arrays"].to_pylist()
    findings = fleet.tables["findings"].to_pylist()
    names = _ShortNames([row["array"] for row in arrays], fleet.links)
    sections = {
        "attention": ("What needs attention", _attention(arrays, findings, names)),
        "findings": ("Findings", _reach(fleet.reach) + _by_kind(findings)),
        "time": ("Commits over time", _heat(fleet.tables["commits"], names)),
        "sizes": ("Size by reason", _sizes(arrays)),
        "opens": ("Slowest opens", _opens(arrays, findings, names)),
        "arrays": ("Arrays", f"{_FILTER}{_arrays(arrays, names)}"),
    }
    links = "".join(f'<a href="#{id_}">{title}</a>' for id_, (title, _) in sections.items())
    intro = (
        '<a class="skip" href="#attention">To what needs attention</a>'
        f'<ul class="facts" aria-label="in short">{_summary(arrays, findings)}</ul>'
        f'<nav aria-label="sections">{links}</nav>'
    )
    main = "".join(
        f'<section id="{id_}" aria-labelledby="h-{id_}">'
        f'<h2 id="h-{id_}">{title}</h2>{body}</section>'
        for id_, (title, body) in sections.items()
    )
    return page(
        f"Fleet report on {fleet.title}",
        main,
        made_ms=fleet.made_ms,
        intro=intro,
        style=resource("fleet_page.css"),
        script=resource("fleet_page.js"),
    )


_FILTER = '<input id="filter" type="search" placeholder="filter arrays" aria-label="filter arrays">'


def _reach(words: str) -> str:
    return f"<p>{escaped(words)}</p>" if words else ""


class _ShortNames:
    """The names of arrays: below the folder that all share, with a link if there is one."""

    def __init__(self, arrays: Sequence[str], links: Mapping[str, str]) -> None:
        shared = commonprefix(arrays)  # noqa: RUF071  (cut at a slash)
        self._shared = f"{shared.rpartition('/')[0]}/"
        self._links = links

    def short(self, array: str) -> str:
        """Name an array."""
        return array.removeprefix(self._shared) or array

    def link(self, array: str) -> str:
        """Write the name, whole on hover."""
        words = f'title="{escaped(array)}">{with_breaks(self.short(array))}'
        if array not in self._links:
            return f"<span {words}</span>"
        return f'<a href="{escaped(self._links[array])}" {words}</a>'


def _summary(arrays: list[dict[str, Any]], findings: list[dict[str, Any]]) -> str:
    counts = _counted(findings, "severity")
    unread = (item for item in findings if is_unread(item["code"], item["severity"]))
    closed = len({item["array"] for item in unread})
    words = [count_text(len(arrays), "array")]
    words += [count_text(counts[severity], severity) for severity in SEVERITIES]
    words += [f"{count_text(closed, 'place')} that could not be read"] if closed else []
    return "".join(f"<li>{escaped(word)}</li>" for word in words)


def _number(item: Mapping[str, Any]) -> int:
    """Count the findings of a row: the last row of a code may stand for those not listed."""
    return number_of(item["path"], item["message"])


def _counted(findings: list[dict[str, Any]], *names: str) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for item in findings:
        values = tuple(item[name] for name in names)
        counts[values if len(values) > 1 else values[0]] += _number(item)
    return counts


def _attention(
    arrays: list[dict[str, Any]], findings: list[dict[str, Any]], names: _ShortNames
) -> str:
    """List the arrays with errors and warnings, the worst first, each with what to do."""
    rank = {severity: place for place, severity in enumerate(SEVERITIES)}
    worst: dict[str, list[dict[str, Any]]] = {}
    for item in sorted(findings, key=lambda one: (rank[one["severity"]], one["code"])):
        if item["severity"] != "info":
            worst.setdefault(item["array"], []).append(item)
    order = sorted(worst, key=lambda a: (rank[worst[a][0]["severity"]], -len(worst[a]), a))
    rows = []
    for array in order[:MOST_ARRAYS]:
        first = worst[array][0]
        others = sum(_number(item) for item in worst[array]) - 1
        more = f"; {others:,} more" if others else ""
        mark = f'<span class="{first["severity"]}">{escaped(first["severity"])}</span>'
        whole = f"{first['code']}: {first['message']}"
        what = f'<span title="{escaped(whole)}">{escaped(shortened(whole))}{escaped(more)}</span>'
        rank_cell = TableCell(mark, rank[first["severity"]])
        rows.append((rank_cell, names.link(array), what, _hint(first["hint"])))
    heads = ("severity", "array", "what", "what to do")
    empty = f"Nothing in {count_text(len(arrays), 'array')}."
    return table("Arrays that need attention", heads, rows, empty=empty)


_COMMAND = re.compile(
    r"chronotile [a-z]+(?: add| remove)?"
    r"(?: (?:--mode [\w-]+|--[\w-]+|__\w+|'[^']*'|[^\s,;]*/[^\s,;]*[^\s,;:]))+"
)


def _hint(text: str) -> str:
    """Write a hint, each command in it as code.

    >>> _hint("chronotile vacuum /lake/a --orphans removes it, if <old>")
    '<code>chronotile vacuum /lake/a --orphans</code> removes it, if &lt;old&gt;'
    """
    ends = [0, *(end for found in _COMMAND.finditer(text) for end in found.span()), len(text)]
    parts = [escaped(text[start:end]) for start, end in pairwise(ends)]
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _by_kind(findings: list[dict[str, Any]]) -> str:
    counts = _counted(findings, "severity", "code")
    hints = {(item["severity"], item["code"]): item["hint"] for item in reversed(findings)}
    most = max(counts.values(), default=1)
    rows = []
    for (severity, code), count in sorted(
        counts.items(), key=lambda pair: (SEVERITIES.index(pair[0][0]), -pair[1])
    ):
        bar = f'<span class="bar {severity}" style="width:{100 * count / most:.0f}%"></span>'
        rows.append(
            (
                TableCell(escaped(severity), SEVERITIES.index(severity)),
                escaped(code),
                TableCell(f"{count:,}{bar}", count),
                _hint(hints[severity, code]),
            )
        )
    heads = ("severity", "kind", "how many", "what to do, for the first of them")
    return table("Findings by severity and kind", heads, rows, empty="No findings.")


def _heat(commits: pa.Table, names: _ShortNames) -> str:
    """Draw when the busiest arrays were written to: a strip each, stronger where more happened."""
    rows = [(array, time) for array, time in _times(commits) if time >= CALENDAR_FROM]
    if not rows:
        return "<p>No commits with a date.</p>"
    low, high = _recent(rows), max(time for _, time in rows)
    width = max((high - low + 1) / BINS, 1)
    # Whatever is older than the strips shares one place before them.
    counts = Counter((array, max(int((time - low) // width), -1)) for array, time in rows)
    totals = Counter(array for array, _ in rows)
    chosen = sorted(array for array, _ in totals.most_common(ROWS))
    most, older = max(counts.values()), any(slot < 0 for _, slot in counts)

    def between(slot: int) -> str:
        first, last = (when_text(int(low + edge * width)) for edge in (slot, slot + 1))
        return f"between {first} and {last}"

    strips = []
    for array in chosen:
        slots = {slot: counts[array, slot] for slot in range(-1, BINS) if counts[array, slot]}
        cells = []
        for slot, count in slots.items():
            strength = 0.25 + 0.75 * (count / most) ** 0.5
            when = "before" if slot < 0 else between(slot)
            told = escaped(f"{names.short(array)}: {count_text(count, 'commit')} {when}")
            cells.append(
                f'<rect x="{slot + 2 if slot >= 0 else 0}" width="0.9" height="1" '
                f'fill-opacity="{strength:.2f}"><title>{told}</title></rect>'
            )
        busiest = max(slots, key=lambda slot: slots[slot])
        when = "earlier" if busiest < 0 else between(busiest)
        told = f"{count_text(totals[array], 'commit')}, most of them {when}"
        strips.append(
            f'<div class="strip">{names.link(array)}<svg viewBox="0 0 {BINS + 2} 1" role="img" '
            f'preserveAspectRatio="none" aria-label="{escaped(names.short(array))}: {told}">'
            f"{''.join(cells)}</svg></div>"
        )
    first = f"{'earlier | ' if older else ''}{when_text(low)}"
    ends = f"<span>{escaped(first)}</span><span>{escaped(when_text(high))}</span>"
    label = f"Commits over time of {count_text(len(chosen), 'array')}"
    left_out = len(totals) - len(chosen)
    more = f"<p>The busiest {len(chosen):,} of {len(totals):,} arrays.</p>" if left_out else ""
    strips.append(f'<div class="strip ends"><span></span><div>{ends}</div></div>')
    return f'<div role="group" aria-label="{label}">{"".join(strips)}</div>{more}'


def _recent(rows: Sequence[tuple[str, int]]) -> int:
    """Find where the strips begin: a few old arrays must not squeeze all others.

    >>> _recent([("old", 0), *((f"array {at}", 900 + at) for at in range(6))])
    900
    """
    first, last = min(time for _, time in rows), max(time for _, time in rows)
    ended: dict[str, int] = {}
    for array, time in rows:
        ended[array] = max(time, ended.get(array, 0))
    since = sorted(ended.values())[len(ended) // 6]
    low = min(time for array, time in rows if ended[array] >= since)
    return low if last - low < (last - first) / 4 else first


def _times(commits: pa.Table) -> Iterable[tuple[str, int]]:
    """Give the time of each effective commit, with its array; one in several files counts once."""
    is_ignored = pc.and_(commits["ignored"], pc.invert(commits["loose"]))
    effective = commits.filter(pc.invert(pc.and_(is_ignored, pc.equal(commits["kind"], "write"))))
    once = effective.group_by(["array", "name", "kind"]).aggregate([("t2", "max")])
    for array, time in zip(once["array"].to_pylist(), once["t2_max"].to_pylist(), strict=True):
        if time is not None and time <= LAST_CALENDAR_MS:
            yield array, time


def _sizes(arrays: list[dict[str, Any]]) -> str:
    """Draw bytes by reason, as parts of one bar."""
    measured = [row for row in arrays if row.get("bytes") is not None]
    if not measured:
        how = "pipeline measures arrays with --sizes, tables without --no-sizes"
        return f"<p>The tables say nothing of sizes: {how}.</p>"
    summed = ((sum(row[name] for row in measured), why) for why, name in BYTES_OF.items())
    sizes = sorted(((size, reason) for size, reason in summed if size), reverse=True)
    total = sum(size for size, _ in sizes)
    parts = "".join(
        f'<i style="flex-grow:{size};background:{reason_colour(reason)}" '
        f'title="{escaped(f"{reason}: {size_text(size)}")}"></i>'
        for size, reason in sizes
    )
    rows = [
        (
            swatch(reason) + escaped(reason),
            TableCell(size_text(size), size),
            TableCell(f"{100 * size / total:.1f} %", size),
        )
        for size, reason in sizes
    ]
    of = "" if len(measured) == len(arrays) else f", of {len(measured):,} of {len(arrays):,} arrays"
    heads = ("why it is there", "bytes", "share")
    listed = table(f"Bytes by reason{of}", heads, rows, numbers=(1, 2))
    return f'<div class="parts" role="img" aria-label="Size by reason">{parts}</div>{listed}'


_SLOW = ("many-loose-commits", "many-small-fragments", "metadata-unconsolidated")
"""The findings that make an open slow."""


def _opens(arrays: list[dict[str, Any]], findings: list[dict[str, Any]], names: _ShortNames) -> str:
    """List the arrays whose opens need attention, with what makes them faster."""
    hints = {item["array"]: item["hint"] for item in findings if item["code"] in _SLOW}
    known = [row for row in arrays if row["engine_open_requests"] is not None]
    if not known:
        return "<p>Nothing is known of opens.</p>"
    known.sort(key=lambda row: (-row["engine_open_requests"], row["array"]))
    rows = [
        (
            names.link(row["array"]),
            TableCell(f"{row['engine_open_requests']:,}", row["engine_open_requests"]),
            TableCell(f"{row['fragments']:,}", row["fragments"]),
            _hint(hints[row["array"]]),
        )
        for row in known
        if row["array"] in hints
    ]
    most = count_text(known[0]["engine_open_requests"], "request")
    empty = f"No open needs attention: none takes more than {most}."
    heads = ("array", "requests of an open by TileDB", "fragments", "what makes it faster")
    return table("Slowest opens in a bucket", heads, rows[:ROWS], empty=empty, numbers=(1, 2))


def _arrays(arrays: list[dict[str, Any]], names: _ShortNames) -> str:
    rows: list[tuple[str | TableCell, ...]] = []
    for row in arrays[:MOST_ARRAYS]:
        last, size = row["last_timestamp"], row.get("bytes")
        counts = [
            TableCell(f"{row[name] or 0:,}", row[name] or 0)
            for name in ("commits", "fragments", "errors", "warnings")
        ]
        when = TableCell("" if last is None else escaped(when_text(last)), last or 0)
        weight = TableCell("" if size is None else size_text(size), -1 if size is None else size)
        rows.append((names.link(row["array"]), weight, *counts, when))
    heads = ("array", "size", "commits", "fragments", "errors", "warnings", "last commit")
    return table("All arrays", heads, rows, empty="There is no array.", numbers=range(1, 6))
