"""Error messages: the one place that prints errors.

In: an exception that ended a command, and the arguments of the call. Out: one line on standard
error, or one JSON document there, and the exit status. Prints only printable characters, and no
secret from the arguments. Knows nothing of the commands.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from chronotile.errors import ChronotileError, PredicateError, StorageError, split_problem
from chronotile.safe_text import (
    SECRET_NAME,
    did_you_mean,
    printable,
    printable_json,
    shell_word,
    without_queries,
    without_secrets,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TRACEBACK = "CHRONOTILE_TRACEBACK"
"""If this is set in the environment, an unexpected error ends in a traceback."""

EXTRAS = {
    "pyspark": "spark",
    "vl_convert": "plot",
    "cryptography": "crypto",
    "tiledb": "engine",
    "duckdb": "sql",
    "deltalake": "delta",
    "prometheus_client": "spark",
}
"""Package -> the extra that installs it."""

_STOPPED = 130
_LONGEST = 500
"""The most characters of a foreign error's message."""
_SECRET = re.compile(
    rf"(?:--\w+=)?[\w.-]*(?:{SECRET_NAME})[\w.-]*=(?P<value>.+)",
    re.IGNORECASE | re.DOTALL,
)
_EXAMPLE = re.compile(r"chronotile .*")
_VALUES = ("--set", "--where")
"""Options whose values are never secrets, whatever the field's name is."""


class Complaint(NamedTuple):
    """An error, in parts."""

    where: str
    """Empty if the error concerns the call as a whole."""
    problem: str
    hint: str | None
    status: int


@contextmanager
def unless_closed(stream: TextIO) -> Iterator[None]:
    """Write to a stream, and go on as if it was read if its reader has closed the pipe.

    The exit status is the same as if all was read.

    Raises:
        BrokenPipeError: Of another pipe, or of a connection.
    """
    try:
        yield
        stream.flush()
    except BrokenPipeError:
        if not _has_lost_reader(stream):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _has_lost_reader(stream: TextIO) -> bool:
    with suppress(OSError, ValueError):  # a stream without a file, as in a test
        waiting = select.poll()
        waiting.register(stream.fileno(), 0)  # then it tells only what is wrong
        return bool(waiting.poll(0))
    return False


def complain(error: BaseException, arguments: Sequence[str]) -> int:
    """Print an error, and give the exit status.

    The arguments of the call say whether the user wants JSON, and which words are secret.
    """
    made = _complaint(error)
    if "--json" in itertools.takewhile(lambda argument: argument != "--", arguments):
        parts: dict[str, str | None] = {"where": made.where or "chronotile"}
        parts |= split_problem(made.problem, made.hint)
        hushed = {name: text and _hushed(text, arguments) for name, text in parts.items()}
        document = printable_json(json.dumps({"error": hushed}, ensure_ascii=False))
        with unless_closed(sys.stderr):
            click.echo(document, err=True)
    else:
        where = f"{printable(_option(made.where, arguments))}: " if made.where else ""
        hint = f" ({made.hint})" if made.hint and _shows_hint(error) else ""
        with unless_closed(sys.stderr):
            for line in _lines(error, made.problem, f"chronotile: {where}", hint):
                click.echo(printable(_hushed(line, arguments)), err=True)
    return made.status


def _lines(error: BaseException, problem: str, head: str, tail: str) -> list[str]:
    """Put a problem into one line; below one on a predicate come the predicate and a caret."""
    if isinstance(error, PredicateError) and problem.count("\n") == 2:
        words, shown, caret = problem.split("\n")
        return [f"{head}{words}{tail}", shown, caret]
    # A problem may have several lines; any other control character comes from a name.
    return [head + " ".join(re.split(r"[ \n]+", problem.strip(" \n"))) + tail]


def _option(where: str, arguments: Sequence[str]) -> str:
    """Give the option of the call that a keyword stands for, or the text as it is.

    >>> _option("max_memory", ["compact", "a", "--max-memory", "1MB"]), _option("a", ["log", "a"])
    ('--max-memory', 'a')
    """
    given = {argument.partition("=")[0] for argument in arguments}
    names = {f"--{where.replace('_', '-')}", *(["--as-of"] if where == "end" else [])}
    return next(iter(names & given), where)


def _shows_hint(error: BaseException) -> bool:
    return not isinstance(error, ChronotileError) or isinstance(error, StorageError)


def status_of(error: BaseException) -> int:
    """Give the exit status of a command that an error ends.

    >>> status_of(KeyboardInterrupt()), status_of(ChronotileError("a", "expected b, found c"))
    (130, 1)
    """
    return _complaint(error).status


def is_unexpected(error: BaseException) -> bool:
    """Return True if an error is a fault of this program.

    >>> is_unexpected(TypeError()), is_unexpected(ChronotileError("a", "expected b, found c"))
    (True, False)
    """
    known = ChronotileError | click.ClickException | OSError | click.Abort | KeyboardInterrupt
    if isinstance(error, ModuleNotFoundError):
        return (error.name or "").partition(".")[0] not in EXTRAS
    return not isinstance(error, known)


def _complaint(error: BaseException) -> Complaint:
    match error:
        case ChronotileError():
            return Complaint(error.place, error.problem, error.hint, error.exit_code)
        case click.ClickException():
            return _usage_complaint(error)
        case ModuleNotFoundError() if (package := (error.name or "").partition(".")[0]) in EXTRAS:
            problem = f"expected the package {package}, found none"
            return Complaint("", problem, f"pip install 'chronotile[{EXTRAS[package]}]'", 1)
        case OSError():
            problem = f"expected to read or write it, found: {error.strerror or error}"
            return Complaint(_text(error.filename) or "storage", problem, None, 1)
        case click.Abort() | KeyboardInterrupt():
            return Complaint("", "stopped", None, _STOPPED)
    words = str(error).strip().partition("\n")[0][:_LONGEST]
    problem = f"expected to finish, found {type(error).__name__}{words and f': {words}'}"
    hint = f"a fault of chronotile, most likely: please report it with what {TRACEBACK}=1 shows"
    return Complaint("", problem, hint, 1)


def _usage_complaint(error: click.ClickException) -> Complaint:
    """Say what a wrong call should have, and what it has."""
    status = error.exit_code
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return Complaint("", error.format_message(), None, status)
    where = error.ctx.command_path.removeprefix("chronotile").strip()
    hint = f"see {error.ctx.command_path} --help"
    found = _EXAMPLE.search(error.ctx.command.epilog or "")
    example = f"; for example: {_of_call(found[0], error.ctx)}" if found else ""
    match error:
        case click.MissingParameter():
            name = error.param.make_metavar(error.ctx) if error.param else "a parameter"
            if isinstance(error.param, click.Option):
                name = error.param.opts[-1]
            return Complaint(where, f"{name} is missing{example}", hint, status)
        case click.NoSuchOption():
            # By the letters alone: with the dashes in front, any two options look alike.
            options = [text for one in error.ctx.command.params for text in one.opts]
            known = {text.lstrip("-"): text for text in options if text.startswith("--")}
            near = did_you_mean(error.option_name.lstrip("-"), known, "--")
            problem = f"there is no option {error.option_name}{near}"
            return Complaint(where, problem, hint, status)
        case click.BadParameter():
            name = error.param.opts[-1] if error.param else "a parameter"
            name = name if name.startswith("-") else name.upper()
            words = re.sub(r"is not a valid integer( range)?\.$", "is no number", error.message)
            if isinstance(kind := getattr(error.param, "type", None), click.Choice):
                given = re.match(r"'(.*?)' is not one of ", words)
                words = words.rstrip(".") + (did_you_mean(given[1], kind.choices) if given else "")
            return Complaint(f"{where}: {name}", words, hint, status)
    if isinstance(error.ctx.command, click.Group) and error.message.startswith(
        ("No such", "Usage")
    ):
        word = re.match(r"No such command (.*)\.", error.message)
        words = ", ".join(error.ctx.command.list_commands(error.ctx))
        problem = f"{word[1]} is not one of {words}" if word else f"one of {words} is missing"
        near = did_you_mean(word[1].strip("'"), words.split(", ")) if word else ""
        problem += near or (", which come first" if word and where else "")
        return Complaint(where, f"{problem}{example}", hint, status)
    words = re.sub(
        r"Got unexpected extra arguments? \((.*)\)", r"one value too many: \1", error.message
    )
    return Complaint(where, words if words == error.message else words + example, hint, status)


def _of_call(example: str, context: click.Context) -> str:
    """Put the array of a call into the example of its command."""
    arguments = (one for one in context.command.params if isinstance(one, click.Argument))
    given = context.params.get(getattr(next(arguments, None), "name", None) or "")
    if not isinstance(given, str):
        return example
    head, demo, rest = example.partition(" demo/array ")
    return f"{head} {shell_word(given)} {rest}" if demo else example


def _text(name: object) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "surrogateescape")
    return "" if name is None else str(name)


def _hushed(text: str, arguments: Sequence[str]) -> str:
    """Cut the secrets of the call out of a text, and the query and the user of a URI.

    >>> _hushed("no 'hush-hush' at https://u:p@h/x?sig=1", ["--storage", "token=hush-hush"])
    "no '…' at https://…@h/x?…"
    """
    return without_queries(without_secrets(text, _secrets(arguments)))


def _secrets(arguments: Sequence[str]) -> Iterator[str]:
    for before, argument in zip(("", *arguments), arguments, strict=False):
        found = _SECRET.fullmatch(argument)
        if found and before not in _VALUES and not argument.startswith("--key-file="):
            yield found["value"]
