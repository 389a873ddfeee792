"""`chronotile guide`: the guides that come with the package.

In: a topic. Out: its guide, laid out in a pager on a terminal and as it is written in a pipe.
Knows no topic: each file in `chronotile/guides` is one.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import command, reporting, wrong_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

_MOST = 100
"""Columns of a line on a wide terminal: longer ones are hard to read."""


def read_guides() -> dict[str, str]:
    """Read every guide: its topic and its text.

    >>> sorted(read_guides())[:3]
    ['changes', 'datasets', 'faults']
    """
    folder = files("chronotile") / "guides"
    pages = sorted(folder.iterdir(), key=lambda page: page.name)
    return {page.name.removesuffix(".md"): page.read_text("utf-8") for page in pages}


def title_of(text: str) -> str:
    r"""Give the title of a guide.

    >>> title_of("# Speed\n\nAs fast as …")
    'Speed'
    """
    return text.partition("\n")[0].removeprefix("# ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """The list of guides."""

    guides: dict[str, str]

    def to_json(self) -> list[dict[str, Any]]:
        """Give a topic and a title each."""
        return [{"topic": topic, "title": title_of(text)} for topic, text in self.guides.items()]

    def to_text(self) -> Iterator[RenderableType]:
        """Give a line for each topic."""
        from chronotile.show.output import plain_table

        table = plain_table("topic", "what it is about")
        for topic, text in self.guides.items():
            table.add_row(topic, title_of(text))
        yield table
        yield ""
        yield "chronotile guide TOPIC shows one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """One guide."""

    topic: str
    text: str
    is_live: bool = False
    """A guide is all there at once."""

    def to_json(self) -> dict[str, Any]:
        """Give its topic, its title and its text in Markdown."""
        return {"topic": self.topic, "title": title_of(self.text), "text": self.text}

    def json_lines(self) -> Iterator[Any]:
        """Give the same."""
        yield self.to_json()

    def to_text(self) -> Iterator[str]:
        """Give the lines for a pipe."""
        return self.lines(width=None, colour=False)

    def lines(self, *, width: int | None, colour: bool) -> Iterator[str]:
        """Lay the guide out for a terminal; for a pipe, give it as it is written."""
        if width is None:
            return iter(self.text.splitlines())
        from rich.console import Console
        from rich.markdown import Markdown

        page = io.StringIO()
        Console(
            file=page,
            width=min(width, _MOST),
            force_terminal=colour,
            color_system="standard" if colour else None,
        ).print(Markdown(self.text, hyperlinks=False, code_theme="bw"))
        return iter([line.rstrip() for line in page.getvalue().splitlines()])


@command(epilog="\b\nExample:\n  chronotile guide\n  chronotile guide time-machine")
@click.argument("topic", metavar="[TOPIC]", required=False)
@reporting
def guide(topic: str | None) -> Topics | Guide:
    """Show the guide on TOPIC, or list all topics.

    On a terminal it opens in a pager; in a pipe it is Markdown.
    """
    guides = read_guides()
    if topic is None:
        return Topics(guides=guides)
    if topic not in guides:
        raise wrong_call(f"expected one of {', '.join(guides)}, found {topic!r}")
    return Guide(topic=topic, text=guides[topic])
