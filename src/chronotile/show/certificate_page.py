"""The certificate of an erasure: in a few lines, and as a page that prints well.

In: the certificate, which names no one. Out: lines of text; a page with what is left, and what
nobody could look at, a line to sign, and the files that were read as its last part. Looks at
nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.check.findings import count_text
from chronotile.show.page import escaped, page, table, with_breaks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_STYLE = """
.signed { display: flex; gap: 3rem; margin-top: 3rem; }
.signed span { border-top: 1px solid currentColor; flex: 1; padding-top: .3rem; }
section td:first-child { overflow-wrap: normal; }
section table, .files { margin-top: 1.5rem; }
@media print {
  h2, caption { break-after: avoid; }
  tr, .signed { break-inside: avoid; }
  code { font-size: 9pt; }
  .files { break-before: page; }
  .files td { padding-block: .1rem; border: 0; }
}
"""
_PLACE = ("what", "where", "why")
ASKED = "PREDICATE"
"""What stands for the predicate in the commands of a certificate, which names no value."""


def certificate_lines(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Say what a certificate says, in a few lines.

    >>> one = {"cells_read": 3, "files_read": ["a"], "matches_found": 1, "matches_left": 0}
    >>> list(certificate_lines(one))
    ['certificate: 3 cells in 1 file read: no match left (the erasure found 1)']
    """
    if "cells_read" in certificate:  # not of a group itself
        files, found = len(certificate["files_read"]), certificate["matches_found"]
        cells, left = certificate["cells_read"], certificate["matches_left"]
        what = f"{count_text(left, 'match', 'matches')} left" if left else "no match left"
        read = f"{count_text(cells, 'cell')} in {count_text(files, 'file')} read: {what}"
        yield f"certificate: {read}" + (f" (the erasure found {found:,})" if found else "")
    for place in certificate.get("still_named", ()):
        yield f"still there: {place['what']} {place['where']}: {place['why']}"
    for place in certificate.get("not_looked_at", ()):
        is_sentence = place["why"].endswith(".")
        words = f"not searched: {place['what']} {place['where']}; {place['why']}"
        yield place["why"] if is_sentence else words


def certificate_page(certificates: Sequence[Mapping[str, Any]], made_ms: int) -> str:
    """Write the certificates of one erasure as a page: one for each array."""
    body = "".join(f"<section>{_section(one)}</section>" for one in certificates)
    body += "<p class=signed><span>Place, date</span><span>Signature</span></p>"
    body += "".join(f"<div class=files>{_files(one)}</div>" for one in certificates)
    return page("Certificate of erasure", body, made_ms=made_ms, style=_STYLE)


def _section(one: Mapping[str, Any]) -> str:
    if "predicate_hash" not in one:  # of a group itself
        caption = f"Still there in {one['array']} itself"
        return _places(caption, one.get("still_named", ()), "Nothing.")
    left = one["matches_left"]
    is_clean = not left and not one.get("still_named")
    words = "Nothing that could be looked at matches." if is_clean else "Something is left."
    facts = (
        ("Time", one["time"]),
        ("Hash of the predicate (HMAC-SHA256, the salt is its key)", one["predicate_hash"]),
        ("Salt", one["salt"]),
        ("Cells looked at", f"{one['cells_read']:,}"),
        ("Matches that the erasure found", f"{one['matches_found']:,}"),
        ("Matches left", f"{left:,}"),
    )
    rows = [(escaped(name), f"<code>{escaped(value)}</code>") for name, value in facts]
    return "".join(
        (
            f"<h2>{escaped(one['array'])}</h2>",
            f"<p class={'moment' if is_clean else 'error'}><strong>{words}</strong></p>",
            table("The erasure", ("what", "value"), rows),
            _places("Still there", one.get("still_named", ()), "Nothing."),
            _places("Not looked at", one.get("not_looked_at", ()), "Nothing."),
        )
    )


def _files(one: Mapping[str, Any]) -> str:
    files = [(f"<code>{with_breaks(path)}</code>",) for path in one.get("files_read", ())]
    caption = f"Files that were read of {one['array']}: {len(files):,}"
    return table(caption, ("file",), files) if files else ""


def _places(caption: str, places: Sequence[Mapping[str, Any]], empty: str) -> str:
    rows = [
        (escaped(place["what"]), with_breaks(place["where"]), escaped(place["why"]))
        for place in places
    ]
    return table(caption, _PLACE, rows, empty=f"{caption}: {empty.lower()}")
