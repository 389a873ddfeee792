"""Hints, followed: the commands in a text that chronotile prints, run as they stand there.

In: a text. Out: the words of each command in it, and the exit status of running them. A command
ends where its own options and arguments end: the words behind it tell what it does.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click

from chronotile.cli.program import chronotile, main

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WORD = re.compile(r"'[^']*'\S*|\S+")


def commands_in(text: str) -> Iterator[list[str]]:
    """Take the commands out of a text, without the word `chronotile`.

    >>> list(commands_in("if so, chronotile vacuum a --mode commits, then chronotile undo a: back"))
    [['vacuum', 'a', '--mode', 'commits'], ['undo', 'a']]
    """
    words = _WORD.findall(text)
    for at, word in enumerate(words[:-1]):
        command: click.Command | None = chronotile
        found, rest = list[str](), words[at + 1 :]
        while word == "chronotile" and isinstance(command, click.Group):
            command = command.get_command(click.Context(command), rest[0])
            found.append(rest.pop(0))
        if word == "chronotile" and command is not None:
            yield [*found, *_arguments(command, rest)]


def _arguments(command: click.Command, words: list[str]) -> Iterator[str]:
    options = {
        name: option
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }
    free = sum(isinstance(p, click.Argument) and p.required for p in command.params)
    is_value = False
    for word in words:
        bare = word.rstrip(",;:)`")
        if bare in options:
            is_value = not options[bare].is_flag
        elif is_value:
            is_value = False
        elif free:
            free -= 1
        else:
            return
        yield shlex.split(bare)[0]
        if word != bare:
            return


def follow(text: str, more: Mapping[str, list[str]] | None = None) -> list[list[str]]:
    """Run every command of a hint, in order; return them.

    Args:
        text: The hint.
        more: Command -> options that only a test needs.
    """
    commands = list(commands_in(text))
    for words in commands:
        status = main([*words, *(more or {}).get(words[0], [])])
        assert status in (0, 1), (words, status)
    return commands
