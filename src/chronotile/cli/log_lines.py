"""The lines of `chronotile log`.

In: events. Out: text, with colour and shortened names for a terminal, whole and plain for a pipe.
Makes its lines without a library, as there may be hundreds of thousands of them.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.check.findings import count_text
from chronotile.errors import printable
from chronotile.format.short_ids import uuid_of
from chronotile.format.timestamps import span_text, time_text
from chronotile.show.output import size_text
from chronotile.show.terminal_fit import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.show.events import Event

_COLOURS = {
    "when": "33",
    "kind": "1",
    "visible": "32",
    "partial": "33",
    "hidden": "2",
    "done": "32",
    "final": "32",
    "undone": "2",
    "begun": "33",
    "failed": "31",
    "note": "31",
}
"""Part of an event -> the code of its colour on a terminal."""
_HOW = {"missing": "its files, though committed by", "unreadable": "in"}
"""Reason -> the words between it and the file that decides."""
_STATES = {
    "begun": "not finished",
    "done": "done",
    "failed": "failed",
    "undone": "undone",
    "final": "done, cannot be undone",
}
"""State of an operation -> words for it."""
_PLAIN = re.compile(r"[ -~\n]*\Z")
_INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """How lines look: for a terminal of a width, or for a pipe."""

    width: int | None = None
    """Columns of the terminal; None for a pipe, whose lines are never cut."""
    colour: bool = False
    id_length: int = 8
    """Characters of a short id."""

    def event(self, event: Event) -> Iterator[str]:
        """An event in a few lines."""
        if self.width is None:
            yield self._block(event)
            return
        yield from self._head(span_text(event.t1, event.t2), event)
        yield from self._wrapped(event.text)
        for note in event.notes:
            yield from self._wrapped(f"note: {note}", "note")
        yield from self._wrapped(_where(event), "hidden")

    def under(self, events: Iterable[Event]) -> Iterator[str]:
        """Lay out the commits of an operation, further in."""
        for event in events:
            for block in self.event(event._replace(operation=None)):
                yield from (f"{_INDENT}{line}" for line in block.split("\n"))

    def _block(self, event: Event) -> str:
        """All lines of an event for a pipe, at once."""
        lines = [f"{span_text(event.t1, event.t2)}  {event.kind}  {_state(event)}"]
        lines += [f"{_INDENT}{event.text}", *(f"{_INDENT}note: {note}" for note in event.notes)]
        lines.append(f"{_INDENT}{_where(event)}")
        block = "\n".join(lines)
        if block.isascii() and block.count("\n") == len(lines) - 1 and _PLAIN.match(block):
            return block
        return "\n".join(map(printable, lines))

    def oneline(self, event: Event) -> str:
        """An event in one line: time, kind, short id, words."""
        when = "at an unknown time" if event.t2 is None else time_text(event.t2)
        short = (uuid_of(event.name) or event.name)[: self.id_length]
        line = printable(f"{when}  {event.kind:<12} {short}  {event.text}")
        if self.width is not None and len(line) > self.width:
            line = f"{line[: self.width - 1]}…"
        if not self.colour:
            return line
        return line.replace(when, self._styled(when, "when"), 1)

    def _head(self, when: str, event: Event) -> Iterator[str]:
        assert self.width is not None
        state = printable(_state(event))
        if len(when) + len(event.kind) + len(state) + 4 > self.width:
            state = shortened(state)
        parts = (self._styled(when, "when"), self._styled(event.kind, "kind"))
        status = self._styled(state, event.status)
        if len(when) + len(event.kind) + len(state) + 4 <= self.width:
            yield "  ".join((*parts, status))
            return
        if len(when) + len(event.kind) + 2 <= self.width:
            yield "  ".join(parts)
        else:
            first, last = span_text(event.t1, event.t1), span_text(event.t2, event.t2)
            yield f"{self._styled(first, 'when')} to"
            yield "  ".join((self._styled(last, "when"), parts[1]))
        yield from self._wrapped(state, event.status)

    def _wrapped(self, text: str, style: str = "") -> Iterator[str]:
        assert self.width is not None
        lines, room = [printable(text)], max(self.width - len(_INDENT), 40)
        if len(lines[0]) > room:
            # A name is shortened in the middle, so that no line breaks inside of it.
            short = shortened(lines[0])
            lines = textwrap.wrap(short, room, break_long_words=False, break_on_hyphens=False)
        for line in lines:
            yield f"{_INDENT}{self._styled(line, style)}"

    def _styled(self, text: str, style: str) -> str:
        code = _COLOURS.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text


def _where(event: Event) -> str:
    """Cells and bytes of an event, and the files that hold it."""
    if event.is_operation:
        return event.source
    size = f"{size_text(event.size)}, " if event.size is not None else ""
    if event.cells is not None:
        size = f"{count_text(event.cells, 'cell')}, {size}"
    name = "" if event.name in event.source else f"{event.name}, "
    offset = f" at byte {event.offset}" if event.offset else ""
    also = "".join(f", also in {other}" for other in event.also)
    written = "" if event.written is None else f", written {time_text(event.written)}"
    by = "" if event.operation is None else f", by operation {event.operation}"
    return f"{size}{name}in {event.source}{offset}{also}{written}{by}"


def _state(event: Event) -> str:
    if event.is_operation:
        return f"{_STATES[event.status]}{f' by {event.because}' if event.because else ''}"
    if event.status == "hidden":
        how = _HOW.get(event.reason, "by") if event.because else ""
        return f"hidden now: {event.reason}{how and f' {how} {event.because}'}"
    if event.kind in ("delete", "update", "schema"):
        return "in force now"
    if event.kind in ("consolidated", "ignore", "vacuum", "fragment-meta"):
        return "read by an open now"
    return "partly visible now" if event.status == "partial" else "visible now"
