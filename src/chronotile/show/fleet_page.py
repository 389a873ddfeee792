"""One page on a whole fleet, that works offline.

In: the tables of a fleet, and a link for some arrays. Out: HTML: what needs attention first,
findings by kind, commits over time, size by reason, the slowest opens. Reads nothing, and asks no
rule: it only shows what the tables say. Works without a script; one filters the list of arrays.
"""

from __future__ import annotations

import html
from collections import Counter
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from chronotile.check.file_uses import BYTES_OF
from chronotile.check.findings import CODES, SEVERITIES, count_text, is_unread, number_of
from chronotile.errors import printable
from chronotile.format.timestamps import LAST_CALENDAR_MS, time_text
from chronotile.show.output import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa


ROWS = 40
"""Arrays of the heat map, and of the list of slow opens."""
BINS = 48
"""Columns of the heat map."""
MOST_ARRAYS = 2000
"""Arrays that the list shows."""
_WIDTH, _HEIGHT, _ROW = 960, 28, 16
_CALENDAR_FROM = 100_000_000_000


class FleetPage(NamedTuple):
    """The facts that a page shows."""

    title: str
    tables: Mapping[str, pa.Table]
    """By name: `arrays`, `commits`, `findings`."""
    made_ms: int
    links: Mapping[str, str] = {}
    """Array -> the page of its timeline."""


def to_html(fleet: FleetPage) -> str:
    """Draw the page."""
    template = (resources.files("chronotile.show") / "fleet_page.html").read_text("utf-8")
    arrays = fleet.tables["arrays"].to_pylist()
    findings = fleet.tables["findings"].to_pylist()
    return Template(template).substitute(
        title=_text(f"Fleet report on {fleet.title}"),
        made=_text(time_text(fleet.made_ms)),
        summary=_summary(arrays, findings),
        attention=_attention(arrays, findings, fleet.links),
        findings=_by_kind(findings),
        heat=_heat(fleet.tables["commits"], fleet.links),
        sizes=_sizes(arrays),
        opens=_opens(arrays, fleet.links),
        arrays=_arrays(arrays, fleet.links),
    )


def _text(text: object) -> str:
    return html.escape(printable(str(text)), quote=True)


def _link(array: str, links: Mapping[str, str]) -> str:
    shown = _text(array)
    return f'<a href="{_text(links[array])}">{shown}</a>' if array in links else shown


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> str:
    """Draw a table of HTML cells. Roles say what it is where a phone shows cards."""
    names = [_text(name) for name in heads]
    body = "".join(f"<tr role=row>{_cells(names, row)}</tr>" for row in rows)
    if not body:
        return f"<p>{_text(empty)}</p>"
    head = "".join(f"<th scope=col role=columnheader>{name}</th>" for name in names)
    top = (
        f"<caption>{_text(caption)}</caption><thead role=rowgroup><tr role=row>{head}</tr></thead>"
    )
    label = _text(caption)
    table = (
        f'<table role=table aria-label="{label}">{top}<tbody role=rowgroup>{body}</tbody></table>'
    )
    return _wide(caption, table)


def _cells(names: Sequence[str], row: Sequence[str]) -> str:
    pairs = zip(names, row, strict=True)
    return "".join(f'<td role=cell data-head="{name}">{cell}</td>' for name, cell in pairs)


def _wide(label: str, body: str) -> str:
    """Frame what may be wider than the page: a keyboard can scroll it."""
    return f'<div class=wide tabindex=0 role=group aria-label="{_text(label)}">{body}</div>'


def _summary(arrays: list[dict[str, Any]], findings: list[dict[str, Any]]) -> str:
    counts = _counted(findings, "severity")
    unread = (item for item in findings if is_unread(item["code"], item["severity"]))
    closed = len({item["array"] for item in unread})
    words = [count_text(len(arrays), "array")]
    words += [count_text(counts[severity], severity) for severity in SEVERITIES]
    words += [f"{count_text(closed, 'place')} that could not be read"] if closed else []
    return "".join(f"<li>{_text(word)}</li>" for word in words)


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
    arrays: list[dict[str, Any]], findings: list[dict[str, Any]], links: Mapping[str, str]
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
        more = f" and {others:,} more" if others else ""
        mark = f'<span class="{first["severity"]}">{_text(first["severity"])}</span>'
        what = f"{_text(first['code'])}: {_text(first['message'])}{_text(more)}"
        rows.append((mark, _link(array, links), what, f"<code>{_text(first['hint'])}</code>"))
    heads = ("severity", "array", "what", "what to do")
    return _table(
        "Arrays that need attention", heads, rows, f"Nothing in {count_text(len(arrays), 'array')}."
    )


def _by_kind(findings: list[dict[str, Any]]) -> str:
    counts = _counted(findings, "severity", "code")
    most = max(counts.values(), default=1)
    rows = []
    for (severity, code), count in sorted(
        counts.items(), key=lambda pair: (SEVERITIES.index(pair[0][0]), -pair[1])
    ):
        bar = f'<span class="bar {severity}" style="width:{100 * count / most:.0f}%"></span>'
        advice = CODES.get(code, ("", ""))[1].replace("{array}", "ARRAY")
        rows.append((_text(severity), _text(code), f"{count:,}{bar}", _text(advice)))
    heads = ("severity", "kind", "how many", "what to do")
    return _table("Findings by severity and kind", heads, rows, "No findings.")


def _heat(commits: pa.Table, links: Mapping[str, str]) -> str:
    """Draw when the busiest arrays were written to: a row each, darker where more happened."""
    rows = [(array, time) for array, time in _times(commits) if time >= _CALENDAR_FROM]
    if not rows:
        return "<p>No commits with a date.</p>"
    low, high = min(time for _, time in rows), max(time for _, time in rows)
    width = max((high - low + 1) / BINS, 1)
    counts = Counter((array, int((time - low) // width)) for array, time in rows)
    totals = Counter(array for array, _ in rows)
    chosen = [array for array, _ in totals.most_common(ROWS)]
    most, cell = max(counts.values()), _WIDTH * 0.72 / BINS
    left, parts = _WIDTH * 0.28, []
    for place, array in enumerate(chosen):
        y = place * _ROW
        name = f"…{array[-38:]}" if len(array) > 39 else array
        label = f'<text x="{left - 6:.0f}" y="{y + 12}" text-anchor="end">{_text(name)}</text>'
        parts.append(f'<a href="{_text(links[array])}">{label}</a>' if array in links else label)
        for slot in range(BINS):
            count = counts[array, slot]
            if count:
                strength = 0.2 + 0.8 * (count / most) ** 0.5
                when = time_text(int(low + slot * width))
                parts.append(
                    f'<rect x="{left + slot * cell:.1f}" y="{y}" width="{cell - 1:.1f}" '
                    f'height="{_ROW - 2}" fill-opacity="{strength:.2f}"><title>'
                    f"{_text(array)}: {count_text(count, 'commit')} from {_text(when)}"
                    "</title></rect>"
                )
    bottom = len(chosen) * _ROW + 14
    parts.append(f'<text x="{left:.0f}" y="{bottom}">{_text(time_text(low))}</text>')
    ends = f'<text x="{_WIDTH:.0f}" y="{bottom}" text-anchor="end">{_text(time_text(high))}</text>'
    label = f"Commits over time of {count_text(len(chosen), 'array')}"
    words = [
        (_link(array, links), f"{totals[array]:,}", _text(_busiest(array, counts, low, width)))
        for array in chosen
    ]
    listed = _table("Commits in words", ("array", "commits", "busiest time"), words, "")
    summary = "<summary>The same in words</summary>"
    words_below = f'<details aria-label="Commits in words">{summary}{listed}</details>'
    return _svg(label, bottom + 6, "".join((*parts, ends)), "heat") + words_below


def _busiest(array: str, counts: Counter[tuple[str, int]], low: int, width: float) -> str:
    slot = max(range(BINS), key=lambda place: counts[array, place])
    when = time_text(int(low + slot * width))
    return f"{count_text(counts[array, slot], 'commit')} from {when}"


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
    parts, x, total = [], 0.0, sum(size for size, _ in sizes)
    for number, (size, reason) in enumerate(sizes):
        width, words = _WIDTH * size / total, f"{reason}: {size_text(size)}"
        parts.append(
            f'<g><rect class="area{number % 6}" x="{x:.1f}" y="0" width="{width:.1f}" '
            f'height="{_HEIGHT}"><title>{_text(words)}</title></rect>'
        )
        if width > 7 * len(words):
            parts.append(f'<text x="{x + 6:.1f}" y="18">{_text(words)}</text>')
        parts.append("</g>")
        x += width
    rows = [(_text(reason), size_text(size)) for size, reason in sizes]
    of = "" if len(measured) == len(arrays) else f", of {len(measured):,} of {len(arrays):,} arrays"
    listed = _table(f"Bytes by reason{of}", ("why it is there", "bytes"), rows, "")
    return _svg("Size by reason", _HEIGHT, "".join(parts), "sizes") + listed


def _opens(arrays: list[dict[str, Any]], links: Mapping[str, str]) -> str:
    known = [row for row in arrays if row["engine_open_requests"] is not None]
    known.sort(key=lambda row: (-row["engine_open_requests"], row["array"]))
    rows = [
        (_link(row["array"], links), f"{row['engine_open_requests']:,}", f"{row['fragments']:,}")
        for row in known[:ROWS]
    ]
    heads = ("array", "requests of an engine's open", "fragments")
    return _table("Slowest opens in a bucket", heads, rows, "Nothing is known of opens.")


def _arrays(arrays: list[dict[str, Any]], links: Mapping[str, str]) -> str:
    rows = []
    for row in arrays[:MOST_ARRAYS]:
        last = row["last_timestamp"]
        counts = [f"{row[name] or 0:,}" for name in ("commits", "fragments", "errors", "warnings")]
        when = "" if last is None else _text(time_text(last))
        size = row.get("bytes")
        weight = "" if size is None else size_text(size)
        rows.append((_link(row["array"], links), weight, *counts, when))
    heads = ("array", "size", "commits", "fragments", "errors", "warnings", "last commit")
    return _table("All arrays", heads, rows, "There is no array.")


def _svg(label: str, height: float, body: str, name: str) -> str:
    box = f"0 0 {_WIDTH:.0f} {height:.0f}"
    role = f'role="img" aria-label="{_text(label)}"'
    return _wide(f"{label}, picture", f'<svg class="{name}" viewBox="{box}" {role}>{body}</svg>')
