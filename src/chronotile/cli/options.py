"""Arguments and options that several commands share.

In: what the user typed. Out: checked values: a place, a time, a window, and `Access` to an array.
Light to load: a heavy module is imported only when a command runs.
"""

from __future__ import annotations

import functools
import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chronotile.errors import BadTimeError, ChronotileError, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from chronotile.dataset.open_dataset import Dataset
    from chronotile.log import Log, View
    from chronotile.storage.store import Store

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


class Parsed(click.ParamType):  # type: ignore[type-arg]  # likewise
    """A text that a function parses; its `ChronotileError` becomes a usage error."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parses the text; a default that is a value already stays as it is."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ChronotileError as error:
            self.fail(error.problem, param, ctx)


def _parse_time(text: str) -> int | str:
    """The text of a time, or the number; a word that is none may be a tag of the array.

    What is no number stays a text: `Log.moment` takes numbers for seconds that look like them.
    """
    from chronotile.format.tag_entries import is_name
    from chronotile.format.timestamps import to_ms

    words = text.strip()
    try:
        number = to_ms(words)
    except BadTimeError:
        if is_name(words):
            return words
        raise
    return number if words.isdigit() else words


MOMENT = Parsed("time", _parse_time)
"""A time: ms, ISO-8601, a time ago, `now`; or a word that `Log.moment` must look up."""

array_argument = click.argument("array", metavar="ARRAY", type=Place("dir"))


def _set_clock(ctx: click.Context, param: click.Parameter, is_local: bool) -> None:  # noqa: ARG001
    from chronotile.format.timestamps import local_clock

    if is_local:
        ctx.with_resource(local_clock())


def json_option(function: F) -> F:
    """Adds `--json`, and `--local`, which sets the clock for all that the command prints."""
    as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document.")
    local = click.option(
        "--local",
        is_flag=True,
        expose_value=False,
        callback=_set_clock,
        help="Print local time, not UTC.",
    )
    return local(as_json(function))


@dataclass(frozen=True, slots=True)
class Access:
    """What opens an array: its key, and what its storage needs to know."""

    key: bytes | None = field(repr=False)
    storage: dict[str, str] = field(repr=False)

    def open_store(self, array: str) -> Store:
        """Opens the storage of an array."""
        from chronotile.storage.store import open_store

        return open_store(array, self.storage)

    def open_log(self, array: str) -> Log:
        """Opens a log; a terminal shows how many files have been read."""
        return self.read_log(self.open_store(array))

    def read_log(self, store: Store) -> Log:
        """Reads the log of an array; likewise."""
        from chronotile.history.read_history import read_history
        from chronotile.log import Log
        from chronotile.report.output import progress

        with progress("reading the commit log") as step:
            watched = store.watched(lambda what, _: step() if what == "read.done" else None)
            return Log(read_history(watched, key=self.key), store)

    def open_dataset(self, group: str) -> Dataset:
        """Opens a group."""
        from chronotile.dataset.open_dataset import open_dataset

        return open_dataset(group, self.key, self.storage)


def or_group(handler: str) -> Callable[[F], F]:
    """Lets a command take a group too, and adds `--member`.

    Where ARRAY is a group, the call goes to a handler, `module:function` below `chronotile.cli`:
    `handler(command, dataset, pattern, **options)`. The handler gets the command itself, which it
    may call for one array.
    """

    def wrap(function: F) -> F:
        @click.option(
            "--member",
            "pattern",
            metavar="PATTERN",
            help="Of a group: only members whose path fits, as ms/*.",
        )
        @functools.wraps(function)
        def call(*args: Any, pattern: str | None, **given: Any) -> Any:
            from chronotile.history.folder_kinds import GroupFoundError

            try:
                report = function(*args, **given)
            except GroupFoundError:
                module, _, name = handler.partition(":")
                home = importlib.import_module(f"chronotile.cli.{module}")
                dataset = given["access"].open_dataset(given["array"])
                return getattr(home, name)(function, dataset, pattern, **given)
            if pattern is not None:
                raise wrong_call("--member: expected a group, found an array")
            return report

        return call  # type: ignore[return-value]  # the same to click, which passes names

    return wrap


def access_options(function: F) -> F:
    """Adds `--key-file` and `--storage`, which the command gets as `access`."""

    @click.option(
        "--key-file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        envvar="CHRONOTILE_KEY_FILE",
        help="File with the 32-byte key of an encrypted array.",
    )
    @click.option(
        "--storage", metavar="NAME=VALUE", multiple=True, help="What the storage needs to know."
    )
    @functools.wraps(function)
    def call(*args: Any, key_file: str | None, storage: tuple[str, ...], **rest: Any) -> Any:
        access = Access(_read_key(key_file), read_pairs("--storage", storage))
        return function(*args, access=access, **rest)

    return call  # type: ignore[return-value]  # the same to click, which passes names


def window_options(function: F) -> F:
    """Adds `--start` and `--end`, which the command gets as `window`."""

    @click.option("--start", metavar="TIME", type=MOMENT, default=0, help="Start of the window: 0.")
    @click.option("--end", metavar="TIME", type=MOMENT, help="End of the window: now.")
    @functools.wraps(function)
    def call(*args: Any, start: int | str, end: int | str | None, **rest: Any) -> Any:
        return function(*args, window=(start, end), **rest)

    return call  # type: ignore[return-value]  # likewise


def reporting(function: F) -> F:
    """Adds `--json`, emits the report that the command returns, and exits with its `status`."""

    @json_option
    @functools.wraps(function)
    def call(*args: Any, as_json: bool, **rest: Any) -> int:
        from chronotile.report.output import emit

        report = function(*args, **rest)
        emit(report, as_json=as_json)
        return getattr(report, "status", 0)

    return call  # type: ignore[return-value]  # likewise


def say(words: str) -> None:
    """Writes a message to standard error, beside the report."""
    from chronotile.report.error_messages import unless_closed

    with unless_closed(sys.stderr):
        click.echo(printable(words), err=True)


def say_gap(view: View, command: str) -> None:
    """Say of a window that it can no longer be read whole, if so, and which ones can."""
    from chronotile.visibility.gaps import nearest_windows, window_command

    gap, array = view.gap, view.history.array
    if gap is not None:
        windows = nearest_windows(view.rules, view.start, view.end)
        ways = ", or ".join(window_command(command, array, *window) for window in windows)
        say(f"note: {array} can no longer be read whole here: {gap.words()}; nearest: {ways}")


def wrong_call(message: str) -> click.UsageError:
    """The error of a call that makes no sense; its exit status is 2."""
    return click.UsageError(message, click.get_current_context(silent=True))


def form_of(output: str, forms: tuple[str, ...], otherwise: str = "") -> str:
    """The form of a file to write, by how its name ends; `otherwise` names another way to say it.

    Raises:
        click.UsageError: It ends otherwise.

    >>> form_of("page.HTML", (".html", ".svg"))
    '.html'
    """
    form = Path(output).suffix.lower()
    if form not in forms:
        known = ", ".join(forms[:-1]) + f" or {forms[-1]}" if forms[1:] else forms[0]
        raise wrong_call(f"-o: expected a file that ends in {known}{otherwise}, found {output!r}")
    return form


def read_pairs(option: str, pairs: tuple[str, ...]) -> dict[str, str]:
    """The values of an option that takes NAME=VALUE.

    >>> read_pairs("--storage", ("region=eu-west-1",))
    {'region': 'eu-west-1'}
    """
    for pair in pairs:
        name, equals, _ = pair.partition("=")
        if not equals or not name:
            # The message does not repeat the text: it may be a secret.
            missing = "NAME" if equals else "="
            raise wrong_call(f"{option}: expected NAME=VALUE, found no {missing} in it")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _read_key(path: str | None) -> bytes | None:
    """The key in a file, without the line break at its end."""
    if path is None:
        return None
    data = Path(path).read_bytes()
    return data.removesuffix(b"\n").removesuffix(b"\r") if len(data) > 32 else data
