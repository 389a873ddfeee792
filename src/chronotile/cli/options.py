"""Arguments and options that several commands share.

In: what the user typed. Out: checked values: a place, a time, a window, and `Access` to an array.
Light to load: a heavy module is imported only when a command runs.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from chronotile.errors import ArrayNotFoundError, BadTimeError, ChronotileError
from chronotile.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from click.shell_completion import CompletionItem

    from chronotile.array import Array
    from chronotile.cli.completion import Kind
    from chronotile.cli.profile import Profile
    from chronotile.format.timestamps import Ends
    from chronotile.group import Group
    from chronotile.log import Log
    from chronotile.visibility.view import View

F = TypeVar("F", bound="Callable[..., Any]")


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A text that a function parses, and that a shell can complete.

    Args:
        name: What it is.
        parse: Reads it; its `ChronotileError` becomes a usage error.
        completes: What a shell completes it with: `file`, `dir`, or what the array has.
    """

    def __init__(
        self,
        name: str,
        parse: Callable[[str], Any] = str,
        completes: Kind | Literal["file", "dir"] | None = None,
    ) -> None:
        self.name = name
        self._parse, self._completes = parse, completes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the text; a default that is a value already stays as it is."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ChronotileError as error:
            self.fail(error.problem, param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  (click's)
        incomplete: str,
    ) -> list[CompletionItem]:
        """Let the shell complete paths, or give what the array on the line has."""
        from click.shell_completion import CompletionItem

        from chronotile.cli.completion import words_for

        match self._completes:
            case None:
                return []
            case "file" | "dir":
                return [CompletionItem(incomplete, type=self._completes)]
        words = words_for(self._completes, ctx, incomplete)
        return [CompletionItem(word, help=about) for word, about in words]


class PlaceType(Parsed):
    """A local path or a URI."""

    def __init__(self, completes: Literal["file", "dir"]) -> None:
        super().__init__("place", completes=completes)


def completed_as(kind: Kind) -> Parsed:
    """Make the type of any text, which a shell completes by what the array on the line has."""
    return Parsed("text", completes=kind)


def _parse_time(text: str) -> int | str:
    """Check the text of a time; a word that is none may be a tag of the array.

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


MOMENT = Parsed("time", _parse_time, "moment")
"""A time: ms, ISO-8601, a time ago, `now`; or a word that `Log.moment` must look up."""

array_argument = click.argument("array", metavar="ARRAY", type=PlaceType("dir"))


def flag(*names: str, **settings: Any) -> Callable[[F], F]:
    """Add an option without a value."""
    return click.option(*names, is_flag=True, **settings)


def time_option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Add an option whose value is a moment."""
    return click.option(*names, metavar="TIME", type=MOMENT, **settings)


def _set_clock(ctx: click.Context, param: click.Parameter, is_local: bool) -> None:  # noqa: ARG001
    from chronotile.format.timestamps import local_clock

    if is_local:
        ctx.with_resource(local_clock())


def json_option(function: F) -> F:
    """Add `--json`, and `--local`, which sets the clock for all that the command prints."""
    as_json = shared_option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    local = shared_option(
        "--local",
        is_flag=True,
        expose_value=False,
        callback=_set_clock,
        help="Print local time, not UTC.",
    )
    return local(as_json(function))


@dataclass(frozen=True, slots=True)
class Access:
    """The key of an array, and the options of its storage."""

    key: bytes | None = field(repr=False)
    storage: dict[str, str] = field(repr=False)
    key_file: str | None = None
    """Where the key was read from."""
    profile: Profile | None = field(default=None, repr=False)
    """Set if the profile has a key for each place; the one above is that of the first place."""

    def key_at(self, uri: str) -> bytes | None:
        """Give the key of a place."""
        return self.key if self.profile is None else _read_key(_key_of(self.profile, uri))

    def open(self, uri: str, member: Mapping[str, str] | None = None) -> Array | Group:
        """Open an array or a group; a group, if members are named."""
        from chronotile.handle import open_at
        from chronotile.storage.store import open_store

        place = open_at(open_store(uri, self.storage), self.key_at(uri))
        if member:
            from chronotile.array import Array

            if isinstance(place, Array):
                raise wrong_call("--member: expected a group, found an array")
        return place

    def open_group(self, uri: str) -> Group:
        """Open a group.

        Raises:
            ArrayNotFoundError: There is none.
        """
        from chronotile.group import Group

        place = self.open(uri)
        if not isinstance(place, Group):
            raise ArrayNotFoundError(place.uri, "expected a group, found an array")
        return place


def read_log(array: Array) -> Log:
    """Read the log of an array, which keeps it; a terminal shows how many files have been read."""
    from chronotile.show.output import progress

    with progress("reading the commit log") as step:
        return array.read(step)


def moments_of_group(place: Array | Group, window: Ends) -> Ends:
    """Give the ends of a window; of a group in ms, as its tags count, whatever its members have."""
    from chronotile.group import Group

    if not isinstance(place, Group):
        return window
    start, end = (None if moment is None else place.moment(moment) for moment in window)
    return start or 0, end


OLDER = {
    "--output": "--out",
    "--since": "--start",
    "--until": "--end",
    "--now": "--as-of",
    "--from": "--at",
}
"""Older spelling of an option -> the one of now."""
OTHER = {"--as-of": "--end", "--end": "--as-of"}
"""Option for one moment -> the end of the window that a command takes instead, and back."""


class FailOn(click.Choice):  # type: ignore[type-arg]  # generic in the newest click only
    """The least severity that the exit status tells of."""

    def __init__(self) -> None:
        super().__init__(["error", "warning", "info", "never"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take `none`, the older spelling of `never`, too."""
        return super().convert("never" if value == "none" else value, param, ctx)


class Command(click.Command):
    """A command whose help lists its own options first, and those of many commands last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take older spellings of options, and a moment for the end of a window."""
        known = {text for option in self.params for text in option.opts}

        def spelled(word: str) -> str:
            name, equals, value = word.partition("=")
            newer = OLDER.get(name, OTHER.get(name))
            return f"{newer}{equals}{value}" if newer in known and name not in known else word

        return super().parse_args(ctx, [spelled(word) for word in args])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under two headings."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                is_shared = isinstance(option, SharedOption) or "--help" in option.opts
                (shared if is_shared else own).append(record)
        for heading, records in (("Options", own), ("Options of many commands", shared)):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def command(**settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a command of a function."""
    return click.command(cls=Command, **settings)


class SharedOption(click.Option):
    """An option that many commands take: their help lists it last, under a heading."""


def shared_option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Add an option that many commands take."""
    return click.option(*names, cls=SharedOption, **settings)


def member_option(function: F) -> F:
    """Add `--member`, which the command gets as keyword arguments in `member`."""

    @shared_option(
        "--member",
        metavar="PATTERN",
        type=completed_as("member"),
        help="Only members of a group whose path fits, such as ms/*.",
    )
    @functools.wraps(function)
    def call(*args: Any, member: str | None, **given: Any) -> Any:
        return function(*args, member={} if member is None else {"member": member}, **given)

    return call  # type: ignore[return-value]  # the same to click, which passes names


def access_options(function: F) -> F:
    """Add `--key-file` and `--storage`, which the command gets as `access`."""

    @shared_option(
        "--key-file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        envvar="CHRONOTILE_KEY_FILE",
        help="File with the 32-byte key of an encrypted array.",
    )
    @shared_option(
        "--storage",
        metavar="NAME=VALUE",
        multiple=True,
        help="An option of the storage: region, endpoint, access_key_id, secret_access_key, "
        "session_token, skip_signature, allow_http; again for more. env:NAME reads the value from "
        "the environment variable NAME.",
    )
    @functools.wraps(function)
    def call(*args: Any, key_file: str | None, storage: tuple[str, ...], **rest: Any) -> Any:
        access = _access(click.get_current_context(), key_file, storage)
        return function(*args, access=access, **rest)

    return call  # type: ignore[return-value]  # the same to click, which passes names


def access_of(context: click.Context) -> Access:
    """Give the access that the options of a call ask for, as far as they are typed."""
    params = context.params
    return _access(context, params.get("key_file"), params.get("storage") or ())


def _access(context: click.Context, key_file: str | None, storage: tuple[str, ...]) -> Access:
    from chronotile.cli.profile import read_profile

    given, profile = read_pairs("--storage", storage), read_profile()
    keys = profile if profile.keys and key_file is None else None
    place = key_file if keys is None else _first_key(keys, context)
    file = place and str(Path(place).resolve())
    return Access(_read_key(place), profile.options() | given, file, keys)


def _key_of(profile: Profile, uri: str) -> str | None:
    key = profile.key(uri)
    return None if key is None else key.value


def _first_key(profile: Profile, context: click.Context) -> str | None:
    """Find the key file of the first place of a call that has one."""
    for param in context.command.params:
        value = context.params.get(param.name or "")
        if isinstance(param, click.Argument) and isinstance(param.type, PlaceType) and value:
            for uri in (value,) if isinstance(value, str) else value:
                if key := _key_of(profile, uri):
                    return key
    return None


def window_options(function: F) -> F:
    """Add `--start` and `--end`, which the command gets as `window`."""

    @time_option("--start", default=0, help="Start of the window (default: 0).")
    @time_option("--end", help="End of the window (default: now).")
    @functools.wraps(function)
    def call(*args: Any, start: int | str, end: int | str | None, **rest: Any) -> Any:
        return function(*args, window=(start, end), **rest)

    return call  # type: ignore[return-value]  # as above


def out_option(help_: str, *, required: bool = False) -> Callable[[F], F]:
    """Add `-o FILE`; the command gets `output`."""
    kind = click.Path(dir_okay=False)
    return click.option(
        "-o", "--out", "output", metavar="FILE", type=kind, required=required, help=help_
    )


def reporting(function: F) -> F:
    """Add `--json`, emit the report that the command returns, and exit with its `status`."""

    @json_option
    @functools.wraps(function)
    def call(*args: Any, as_json: bool, **rest: Any) -> int:
        from chronotile.show.output import emit

        report = function(*args, **rest)
        emit(report, as_json=as_json)
        return getattr(report, "status", 0)

    return call  # type: ignore[return-value]  # as above


def say(words: str) -> None:
    """Write a message to standard error, beside the report."""
    from chronotile.show.error_messages import unless_closed

    with unless_closed(sys.stderr):
        click.echo(printable(words), err=True)


def may_ask(*, as_json: bool = False) -> bool:
    """Return True if somebody sits at a terminal, and can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not as_json


def go_on(question: str) -> None:
    """Ask a question, and end the command unless the answer is yes."""
    if not click.confirm(question, err=True):
        say("chronotile: nothing was changed")
        raise click.exceptions.Exit(1)


def say_gap(view: View, command: str) -> None:
    """Say of a window that it can no longer be read whole, if so, and which ones can."""
    from chronotile.visibility.gaps import nearest_windows, window_command

    gap, array = view.gap, view.history.array
    if gap is not None:
        windows = nearest_windows(view.rules, view.start, view.end)
        ways = ", or ".join(window_command(command, array, *window) for window in windows)
        say(f"note: {array} can no longer be read whole here: {gap.words()}; nearest: {ways}")


def wrong_call(message: str) -> click.UsageError:
    """Make the error of a call that makes no sense; its exit status is 2."""
    return click.UsageError(message, click.get_current_context(silent=True))


def form_of(output: str, forms: tuple[str, ...], otherwise: str = "") -> str:
    """Tell the form of a file to write by the end of its name; `otherwise` names another way.

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
    """Read the values of an option that takes NAME=VALUE.

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
    """Read the key in a file, without the line break at its end."""
    if path is None:
        return None
    data = Path(path).read_bytes()
    return data.removesuffix(b"\n").removesuffix(b"\r") if len(data) > 32 else data
