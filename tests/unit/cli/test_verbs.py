"""Every command on a place is a method of arrays and groups, with the same options."""

from __future__ import annotations

import inspect

import click
import pytest

import chronotile as ct
from chronotile.cli.options import OLDER, SharedOption
from chronotile.cli.program import _ALL, chronotile
from chronotile.handle import How

ELSEWHERE = {
    "show",
    "ls",
    "sql",
    "tables",
    "report",
    "pipeline",
    "conformance",
    "config",
    "guide",
    "demo",
}
"""Commands on a file, on a fleet, or on nothing."""
OF_GROUPS = {"members", "moments"}
METHODS = {
    "log": "events",
    "visible": "view",
    "tag add": "tag",
    "tag remove": "untag",
    "tag list": "tags",
}
"""Command -> its method, where the names differ."""
PRINTED = {
    "log": {"limit", "oneline", "reverse", "follow", "every", "cells", "commits", "undone"},
    "visible": {"cells"},
    "fragments": {"whole_names"},
    "rows": {"form", "limit", "output", "removed_by", "values", "count"},
    "diff": {"form", "limit", "output"},
    "blame": {"form", "limit", "output"},
    "usage": {"output"},
    "check": {"severity", "fail_on", "fix", "yes"},
    "members": {"no_size"},
    "moments": {"limit"},
    "operations": {"id_"},
    "erase": {"yes", "output"},
    "replicate": {"follow", "every"},
}
"""Options that decide how an answer is printed, or that lead to another method."""
NAMED = {"output": "out", "id_": "operation"}


def leaves() -> dict[str, click.Command]:
    """Every command, those of `tag` by two words."""
    found: dict[str, click.Command] = {}
    for name in _ALL:
        command = chronotile.get_command(click.Context(chronotile), name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": one for below, one in command.commands.items()}
        else:
            found[name] = command
    return found


LEAVES = leaves()
PLACES = [name for name in LEAVES if name not in ELSEWHERE]


def own_options(name: str) -> set[str]:
    return {
        str(option.name)
        for option in LEAVES[name].params
        if option.name not in ("array", "group", "places")
        and not isinstance(option, SharedOption)
        and not getattr(option, "hidden", False)
    }


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("kind", [ct.Array, ct.Group], ids=["array", "group"])
def test_a_command_is_a_method_with_its_options(name: str, kind: type) -> None:
    if kind is ct.Array and name in OF_GROUPS:
        return
    method = getattr(kind, METHODS.get(name, name))
    if isinstance(method, property):
        assert not own_options(name)
        return
    taken = set(inspect.signature(method).parameters)
    asked = {NAMED.get(one, one) for one in own_options(name) - PRINTED.get(name, set())}
    if kind is ct.Array:
        asked -= {"as_of"} if name == "check" else set()
    assert asked <= taken


@pytest.mark.parametrize("name", PLACES)
def test_the_options_of_all_changes_are_those_of_the_methods(name: str) -> None:
    shared = {
        str(option.name) for option in LEAVES[name].params if isinstance(option, SharedOption)
    }
    if "message" in shared:
        of_methods = set(How.__annotations__) - {"before", "record"} | {"no_record"}
        assert shared - {"verbose", "key_file", "storage", "as_json", "local"} == of_methods


def test_an_option_has_one_name() -> None:
    spelled = {
        spelling
        for command in LEAVES.values()
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
        for spelling in option.opts
    }
    assert not spelled & set(OLDER)
    assert {"--start", "--end", "--as-of", "--at", "--out", "--limit", "--fail-on"} <= spelled
    for command in LEAVES.values():
        for option in command.params:
            if "--limit" in option.opts:
                assert "-n" in option.opts, command.name


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("log ARRAY --since 2024-05-09 --until 2024-05-10", "--start 2024-05-09 --end 2024-05-10"),
        ("timeline ARRAY --output FILE.svg --now 2024-05-09", "-o FILE.svg --as-of 2024-05-09"),
        ("undelete ARRAY NAME --from 2024-05-09", "--at 2024-05-09"),
        ("check ARRAY --fail-on none", "--fail-on never"),
        ("members GROUP --end 2024-05-09", "--as-of 2024-05-09"),
        ("vacuum ARRAY --keep-deletes", ""),
    ],
)
def test_an_older_spelling_means_the_same(older: str, newer: str) -> None:
    name, *words = older.split()
    places = [word for word in words if word.isupper()]
    first, second = (
        LEAVES[name].make_context(name, arguments).params
        for arguments in ([*words], [*places, *newer.split()])
    )
    assert first == second
