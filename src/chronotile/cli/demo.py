"""For people who are new: `demo` walks through the commands, `guide` shows the guides.

In: a folder, or a topic. Out: a sample array and dataset in the folder, and each answer as a file
beside them; or a guide, in a pager on a terminal and as it is written in a pipe. Each file in
`chronotile/guides` is a topic.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chronotile.cli import sample
from chronotile.cli.options import PlaceType, command, json_option, reporting, wrong_call
from chronotile.errors import ChronotileError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType


OWN = ".chronotile-demo"
"""The file that marks the folder of an earlier demo."""


class DemoStep(NamedTuple):
    """One command of the walk."""

    words: str
    """The question that the command answers."""
    arguments: tuple[str, ...]
    file: str
    """The file that keeps the answer."""
    writes_it: bool = False
    """True if the command writes that file itself."""


class Outcome(NamedTuple):
    """How a step ended."""

    command: str
    status: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The files that the demo has written."""

    folder: str
    array: str
    outcomes: tuple[Outcome, ...]

    def to_json(self) -> dict[str, Any]:
        """Give the folder, the array, and each step."""
        steps = [outcome._asdict() for outcome in self.outcomes]
        return {"folder": self.folder, "array": self.array, "steps": steps}

    def to_text(self) -> Iterator[RenderableType]:
        """Give each file, and the command behind it."""
        from chronotile.show.output import Text

        yield ""
        yield Text(f"All of this is in {self.folder}:", "bold")
        for outcome in self.outcomes:
            failed = f"  (exit status {outcome.status})" if outcome.status else ""
            yield f"  {outcome.file:<32} {outcome.command}{failed}"


def _steps(folder: Path, made: sample.Sample, *, spark: bool) -> Iterator[DemoStep]:
    array = str(made.array)
    yield DemoStep("What happened to this array?", ("log", array), "log.txt")
    moments = {
        "What did an open see before the first delete?": "2024-05-03T17:29",
        "And right after the update?": sample.UPDATE,
        "And after the last write?": sample.LAST_WRITE,
    }
    for number, (words, moment) in enumerate(moments.items(), start=1):
        yield DemoStep(words, ("visible", array, "--end", moment), f"visible-{number}.txt")
    yield DemoStep("Why don't I see my data?", ("explain", array), "explain.txt")
    delete = str(min((made.array / "__commits").glob("*.del")))
    yield DemoStep("What is in one file, byte by byte?", ("show", delete, "--hex"), "show.txt")
    yield DemoStep("Is anything wrong?", ("check", array), "check.txt")
    yield DemoStep("Is anything wrong in a dataset?", ("check", str(made.dataset)), "dataset.txt")
    for form in ("html", "svg"):
        target = str(folder / f"timeline.{form}")
        drawn = ("timeline", array, "-o", target)
        yield DemoStep(f"A picture of it all ({form})", drawn, f"timeline.{form}", writes_it=True)
    yield from _way_back(folder, made)
    if spark:
        tables = ("pipeline", array, "--out", str(folder / "tables"), "--master", "local[2]")
        yield DemoStep("The same as tables, with Spark", tables, "tables", writes_it=True)


def _way_back(folder: Path, made: sample.Sample) -> Iterator[DemoStep]:
    """Find a delete that took too much, try without it, take it out of a clone, put it back."""
    array, trial = str(made.array), str(folder / "trial")
    delete = max((made.array / "__commits").glob("*.del")).stem
    found = ("log", array, "--kind", "delete", "-n", "1")
    yield DemoStep("Which delete took rows with NULL too?", found, "delete.txt")
    what_if = ("clone", array, str(folder / "what-if"), "--without", delete)
    yield DemoStep("What if it had not happened?", what_if, "what-if", writes_it=True)
    yield DemoStep(
        "Try the way back on a clone first", ("clone", array, trial), "trial", writes_it=True
    )
    undelete = ("undelete", trial, delete, "--ever")
    yield DemoStep("Let its rows come back there", undelete, "trial", writes_it=True)
    yield DemoStep("And take that back", ("undo", trial), "trial", writes_it=True)


def _make(folder: Path) -> sample.Sample:
    if folder.exists():
        if not (folder / OWN).is_file() and (not folder.is_dir() or any(folder.iterdir())):
            problem = "expected an empty folder or an earlier demo, found something else"
            raise ChronotileError(str(folder), problem)
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / OWN).write_text("Made by `chronotile demo`, which may replace this folder.\n")
    return sample.unpack(folder)


def _walk(step: DemoStep, folder: Path, *, quiet: bool) -> Outcome:
    from chronotile.cli import main

    command = " ".join(("chronotile", *step.arguments))
    if not quiet:
        click.secho(f"\n{step.words}", bold=True)
        click.secho(printable(f"$ {command}"), fg="cyan")
        status = main(step.arguments)
    if quiet or not step.writes_it:
        kept = io.StringIO()
        with contextlib.redirect_stdout(kept), contextlib.redirect_stderr(io.StringIO()):
            status = main(step.arguments)
        if not step.writes_it:
            (folder / step.file).write_text(kept.getvalue(), "utf-8")
    return Outcome(command, status, step.file)


@command(epilog="\b\nExample:\n  chronotile demo")
@click.argument("folder", metavar="[FOLDER]", default="demo", type=PlaceType("dir"))
@click.option("--spark/--no-spark", default=True, help="With or without the tables of Spark.")
@json_option
def demo(folder: str, spark: bool, as_json: bool) -> None:
    """Put a sample array and dataset into FOLDER (demo), and walk through the commands.

    TileDB wrote both. The array has writes, overwrites, deletes, an update, a new attribute, merged
    fragments, consolidated commits, a vacuum and a write that broke off behind it. The walk needs
    no TileDB. Each answer is kept in the folder.
    """
    from chronotile.show.output import emit

    place = Path(folder)
    made = _make(place)
    outcomes = tuple(_walk(step, place, quiet=as_json) for step in _steps(place, made, spark=spark))
    emit(DemoReport(folder=folder, array=str(place / "array"), outcomes=outcomes), as_json=as_json)


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
        ).print(Markdown(self.text, hyperlinks=False, code_theme="ansi_dark"))
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
