"""What several commands take.

In: nothing. Out: arguments and options of click, and how a log is opened with them. Light to
load: whatever is heavy is loaded when a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chronotile.errors import ChronotileError, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from chronotile.log import Log

F = TypeVar("F", bound="Callable[..., Any]")


class Place(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A local path or a URI."""

    name = "place"

    def __init__(self, completes: str) -> None:
        self.completes = completes

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's)
        param: click.Parameter,  # noqa: ARG002  (click's)
        incomplete: str,
    ) -> list[CompletionItem]:
        """Lets the shell complete paths."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=self.completes)]


class Moment(click.ParamType):  # type: ignore[type-arg]  # likewise
    """A time: ms, ISO-8601 or `now`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads it."""
        from chronotile.format.timestamps import parse_time

        if isinstance(value, int):
            return value
        try:
            return parse_time(value)
        except ChronotileError as error:
            self.fail(error.problem, param, ctx)


array_argument = click.argument("array", metavar="ARRAY", type=Place("dir"))
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")
start_option = click.option(
    "--start", metavar="TIME", type=Moment(), default=0, help="Start of the window: 0."
)
end_option = click.option("--end", metavar="TIME", type=Moment(), help="End of the window: now.")
_key_option = click.option(
    "--key-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    envvar="CHRONOTILE_KEY_FILE",
    help="File with the 32-byte key of an encrypted array.",
)
_storage_option = click.option(
    "--storage", metavar="NAME=VALUE", multiple=True, help="What the storage needs to know."
)


def say(words: str) -> None:
    """Tells the user something beside the answer, on standard error."""
    click.echo(printable(words), err=True)


def storage_options(function: F) -> F:
    """Adds `--key-file` and `--storage`."""
    return _key_option(_storage_option(function))


def read_key(path: str | None) -> bytes | None:
    """The key in a file; one end of line behind it is not part of it.

    >>> read_key(None) is None
    True
    """
    if path is None:
        return None
    data = Path(path).read_bytes()
    return data.removesuffix(b"\n").removesuffix(b"\r") if len(data) > 32 else data


def read_storage(pairs: tuple[str, ...]) -> dict[str, str]:
    """The options of the storage.

    >>> read_storage(("region=eu-west-1",))
    {'region': 'eu-west-1'}
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            # The text is not repeated: it may be a secret.
            message = f"--storage: expected NAME=VALUE, found no {'NAME' if equals else '='} in it"
            raise click.UsageError(message, click.get_current_context(silent=True))
        found[name] = value
    return found


def check_window(start: int, end: int) -> None:
    """Refuses a window that ends before it starts.

    >>> check_window(0, 1)
    """
    if end < start:
        message = f"expected a window that ends after it starts, found {start} to {end}"
        raise click.UsageError(message, click.get_current_context(silent=True))


def open_log(array: str, key_file: str | None, storage: tuple[str, ...]) -> Log:
    """Opens a log, with a count of what has been read on a terminal."""
    from chronotile.history.reading import read_history
    from chronotile.log import Log
    from chronotile.report.output import progress
    from chronotile.storage.store import open_store

    store = open_store(array, read_storage(storage))
    with progress("reading the commit log") as step:
        watched = store.watched(lambda what, _: step() if what == "read.done" else None)
        history = read_history(array, key=read_key(key_file), store=watched)
    return Log(history)
