"""The command line.

In: arguments. Out: an exit status: 0 fine, 1 something found or refused, 2 a wrong call, 3
something could not be read. Knows the names of the commands and where each lives; it loads the
module of the command that is called. `show/error_messages` finds the words for an error.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from chronotile.safe_text import did_you_mean
from chronotile.show.error_messages import TRACEBACK, complain, is_unexpected, unless_closed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem


class Lazy(NamedTuple):
    """Where a command lives, and what it does in a few words."""

    target: str
    """`module:function`, below `chronotile.cli`."""
    words: str


COMMANDS = {
    "Look": {
        "log": Lazy("log:log", "The history: every commit, in words."),
        "show": Lazy("files:show", "One file of any kind, decoded."),
        "visible": Lazy("look:visible", "What an open at a window sees."),
        "fragments": Lazy("look:fragments", "What each fragment holds: cells, bytes."),
        "rows": Lazy("rows:rows", "The rows of a window, updates applied."),
        "diff": Lazy("rows:diff", "What changed between two moments."),
        "blame": Lazy("rows:blame", "Every commit that touched a row."),
        "operations": Lazy("change:operations", "What chronotile did, with a way back."),
        "explain": Lazy("look:explain", "Why something is, or is not, visible."),
        "usage": Lazy("check:usage", "Why it is so large, and what frees it."),
        "timeline": Lazy("pages:timeline", "A picture of the history: HTML, SVG or PNG."),
        "members": Lazy("look:members", "The members of a group, as a tree."),
        "moments": Lazy("look:moments", "When all members of a group can be read whole."),
        "check": Lazy("check:check", "What is wrong, surprising or overdue."),
    },
    "Change": {
        "delete": Lazy("change:delete", "Delete rows: write a delete commit."),
        "update": Lazy("change:update", "Write an update: TileDB hides its rows until apply."),
        "apply": Lazy("change:apply", "Apply updates: write their rows."),
        "consolidate": Lazy("change:consolidate", "Put commits into one file."),
        "compact": Lazy("change:compact", "Merge small fragments into few."),
        "vacuum": Lazy("change:vacuum", "Remove replaced files, for good."),
        "repair": Lazy("change:repair", "Mend what check found."),
        "erase": Lazy("change:erase", "Erase rows from every file, with a certificate."),
    },
    "Time machine": {
        "replicate": Lazy("change:replicate", "A copy elsewhere that is always whole."),
        "clone": Lazy("change:clone", "A new array as of a moment, by links."),
        "restore": Lazy("change:restore", "Make an array what it was at a moment."),
        "undelete": Lazy("change:undelete", "Bring the rows of a delete back."),
        "undo": Lazy("change:undo", "Take the last change back."),
        "publish": Lazy("change:publish", "Make staged fragments visible, all at once."),
        "tag": Lazy("change:tag", "Names for moments: add, list, remove."),
    },
    "More": {
        "ls": Lazy("fleet:list_", "The arrays and groups below a place."),
        "sql": Lazy("fleet:sql", "SQL over the tables of all arrays below a place."),
        "tables": Lazy("pipeline:tables", "Tables of a fleet of arrays, without Spark."),
        "report": Lazy("pages:report", "A page on a fleet of arrays, to read offline."),
        "pipeline": Lazy("pipeline:pipeline", "Tables of a fleet of arrays, with Spark."),
        "conformance": Lazy("files:conformance", "Check any reader of the format."),
        "config": Lazy("profile:config", "Your profile: storage options and keys by prefix."),
        "guide": Lazy("demo:guide", "Guides by topic."),
        "demo": Lazy("demo:demo", "Make a sample array and dataset, and try the commands."),
    },
}
"""Section -> command -> where it lives."""

_ALL = {name: entry for section in COMMANDS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """A group that knows its commands by name, and loads the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's)
        """List every command, in the order of the help."""
        return list(_ALL)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's)
        cmd_name: str,
    ) -> click.Command | None:
        """Load a command."""
        entry = _ALL.get(cmd_name)
        if entry is None:
            return None
        module, _, function = entry.target.partition(":")
        home = importlib.import_module(f"chronotile.cli.{module}")
        command: click.Command = getattr(home, function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest one with a similar name."""
        name = args[0]
        if name in _ALL or name.startswith("-"):
            return super().resolve_command(ctx, args)
        hint = did_you_mean(name, _ALL) or "; to list all: chronotile --help"
        raise click.UsageError(f"expected a command, found {name!r}{hint}", ctx)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's)
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without loading them."""
        width = max(map(len, _ALL))
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(n.ljust(width), entry.words) for n, entry in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name without loading it."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        names = [name for name in _ALL if name.startswith(incomplete)]
        return [CompletionItem(name, help=_ALL[name].words) for name in names]


COMPLETES = "_CHRONOTILE_COMPLETE"
"""Set in the environment if a shell asks for completions."""

EPILOG = """\
\b
Example:
  chronotile demo
  chronotile log demo/array

\b
Completion of commands and options in the shell (elsewhere: zsh_source, fish_source):
  eval "$(_CHRONOTILE_COMPLETE=bash_source chronotile)"
"""


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(None, "-V", "--version", package_name="chronotile", prog_name="chronotile")
@click.pass_context
def chronotile(ctx: click.Context) -> None:
    """Read, explain and look after the commit log of TileDB arrays, without TileDB itself.

    ARRAY is a local path, or a file://, s3://, gs:// or az:// URI. TIME is 2024-05-01T12:00 (UTC if
    it names no zone), ms since 1970, monday, a time ago (30m, 2h, 3d), yesterday, now, or a tag.
    Times are printed in UTC; --local prints local time. NAME is the name of a commit, or the
    start of its uuid; ID is that of an operation. The quarantine is a folder inside the array: it
    keeps files that a change took out, until undo puts them back. Commands that read or write cells
    need TileDB, and say so. Each command takes --json and --help.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments, without the program's name; those of the process if left out.

    Returns:
        0 if all is fine, 1 if something was found or refused, 2 for a wrong call, 3 if something
        could not be read.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    chronotile, version ...
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    status: Any = 0
    try:
        with unless_closed(sys.stdout):
            status = _call(arguments)
    except (Exception, KeyboardInterrupt) as error:
        if is_unexpected(error) and os.environ.get(TRACEBACK):
            raise
        return complain(error, arguments)
    return status if isinstance(status, int) else 0


def _call(arguments: list[str]) -> Any:
    """Run one command, as click's `main` does, which takes every broken pipe for a reader's."""
    if COMPLETES in os.environ:
        return chronotile.main(arguments, "chronotile")
    try:
        with chronotile.make_context("chronotile", arguments) as context:
            return chronotile.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except EOFError as cause:
        raise click.Abort from cause


def _leave() -> None:
    # DuckDB complains of objects that nobody collected.
    if "duckdb" not in sys.modules:
        gc.freeze()


def run() -> NoReturn:
    """Run the command of this process."""
    # NumPy's library for matrices, which nothing here needs, starts a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Looking for cycles, above all at the end, takes a fifth of a short command's time.
    gc.set_threshold(100_000)
    atexit.register(_leave)
    # Without a standard output, as after `>&-`, the next file that is opened would take its place.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115  (until the end)
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  (as above)
    for stream in (sys.stdout, sys.stderr):
        # For a letter that a terminal cannot show, write its escape: do not fail.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())
