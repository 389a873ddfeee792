"""For people who are new: `demo` walks through the commands, `guide` shows the guides.

In: a folder, or a topic. Out: a sample array and dataset in the folder, and each answer as a file
beside them; or a guide, in a pager on a terminal and as it is written in a pipe. Each file in
`chronotile/guides` is a topic.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chronotile.cli import sample
from chronotile.cli.options import PlaceType, command, json_option, reporting, wrong_call
from chronotile.errors import ChronotileError
from chronotile.safe_text import did_you_mean, printable, shell_word
from chronotile.show.output import Answer, Text, emit, plain_table

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


def _steps(folder: Path, made: sample.Sample, *, spark: bool) -> Iterator[DemoStep]:
    """Tell a story: look at an array, find what went wrong, try the way back, take it back."""
    array, readings, trial = str(made.array), str(made.dataset / "readings"), str(folder / "trial")
    yield DemoStep("What is here?", ("ls", str(folder)), "ls.txt")
    yield DemoStep("What happened to this array of sales?", ("log", array), "log.txt")
    drawn = ("timeline", array, "-o", str(folder / "timeline.html"))
    yield DemoStep("Show it as a picture", drawn, "timeline.html", writes_it=True)
    yield DemoStep("Why do I not see all of my data?", ("explain", array), "explain.txt")
    past = ("visible", array, "--end", sample.BEFORE_DELETE)
    yield DemoStep("What did a reader see before the first delete?", past, "visible.txt")
    delete = str(min((made.array / "__commits").glob("*.del")))
    yield DemoStep("What is in the file of that delete?", ("show", delete, "--hex"), "show.txt")
    yield DemoStep("Is anything wrong with the weather?", ("check", str(made.dataset)), "check.txt")
    last = ("log", readings, "--kind", "delete")
    yield DemoStep("That delete took rows with NULL too. When?", last, "delete.txt")
    clone = ("clone", readings, trial)
    yield DemoStep("Try the way back on a clone: it costs no space", clone, "trial", writes_it=True)
    why = ("-m", "the delete took rows with NULL")
    restore = ("restore", trial, "--to", sample.BEFORE_LOSS, *why)
    yield DemoStep("Go back to an hour before it", restore, "trial", writes_it=True)
    yield DemoStep("What does its history say now?", ("log", trial, "-n", "2"), "restored.txt")
    since = ("diff", trial, sample.AFTER_LOSS, "now")
    yield DemoStep("What has changed since the delete?", since, "diff.txt")
    yield DemoStep("Take the restore back", ("undo", trial), "trial", writes_it=True)
    yield DemoStep("What was done here?", ("operations", trial), "operations.txt")
    if spark:
        tables = ("pipeline", array, "--out", str(folder / "tables"), "--master", "local[2]")
        yield DemoStep("All of it as tables, with Spark", tables, "tables", writes_it=True)


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

    command = " ".join(("chronotile", *map(shell_word, step.arguments)))
    if not quiet:
        click.secho(f"\n{step.words}", bold=True)
        click.secho(printable(f"$ {command}"), fg="cyan")
        if step.arguments[0] == "pipeline":  # Spark's own processes write to standard error
            call = [sys.executable, "-m", "chronotile", *step.arguments]
            status = subprocess.run(call, stderr=subprocess.DEVNULL, check=False).returncode
        else:
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
@click.option(
    "--spark/--no-spark", default=False, help="Also write tables with Spark (default: no)."
)
@json_option
def demo(folder: str, spark: bool, as_json: bool) -> None:
    """Put a sample array and dataset into FOLDER (demo), and walk through the commands.

    TileDB wrote both. The history of the array has writes, deletes, an update, a new attribute,
    merged fragments, consolidated commits, a vacuum and a write that broke off. The walk finds a
    delete that took too much, restores a clone, and undoes that. It needs no TileDB. FOLDER keeps
    each answer.
    """
    place = Path(folder)
    made = _make(place)
    outcomes = tuple(_walk(step, place, quiet=as_json) for step in _steps(place, made, spark=spark))
    array, steps = str(place / "array"), [outcome._asdict() for outcome in outcomes]
    document = {"folder": folder, "array": array, "steps": steps}
    emit(Answer(document, _ending(folder, array, outcomes)), as_json=as_json)


def _ending(folder: str, array: str, outcomes: tuple[Outcome, ...]) -> Iterator[RenderableType]:
    """List each file, and the command behind it."""
    yield ""
    yield Text(f"Open {folder}/timeline.html first: move the slider through time.", "bold")
    yield f"Then try a command on {array}, or read on: chronotile guide time-machine"
    yield ""
    yield f"Each answer is in {folder}:"
    for outcome in outcomes:
        found = "  (exit status 1: it found something)" if outcome.status == 1 else ""
        failed = f"  (exit status {outcome.status})" if outcome.status > 1 else found
        yield f"  {outcome.file:<16} {outcome.command}{failed}"


_MOST = 100
"""Columns of a line on a wide terminal: longer ones are hard to read."""


def read_guides() -> dict[str, str]:
    """Read every guide: its topic and its text.

    >>> "speed" in read_guides()
    True
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


def _topics(guides: dict[str, str]) -> Answer:
    """List the guides: a topic and a title each."""
    titles = {topic: title_of(text) for topic, text in guides.items()}
    table = plain_table("topic", "what it is about")
    for pair in titles.items():
        table.add_row(*pair)
    document = [{"topic": topic, "title": title} for topic, title in titles.items()]
    return Answer(document, [table, "", "To read one: chronotile guide time-machine"])


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
def guide(topic: str | None) -> Answer | Guide:
    """Show the guide on TOPIC, or list all topics.

    On a terminal it opens in a pager; in a pipe it is Markdown.
    """
    guides = read_guides()
    if topic is None:
        return _topics(guides)
    if topic not in guides:
        hint = did_you_mean(topic, guides) or f"; there are {', '.join(guides)}"
        raise wrong_call(f"there is no guide {topic!r}{hint}")
    return Guide(topic=topic, text=guides[topic])
